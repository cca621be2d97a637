//! The one table of everything that can be set: UCI options, command-line flags and search parameters.
//!
//! A row gives an option's UCI name, its field in [`Options`], type, default, range and help. The table generates the
//! struct, its defaults, the checked assignment from text, the `option` lines of the UCI handshake, the command-line
//! flags and the table in the README, so that they cannot differ.

use std::fmt::Write as _;

use thiserror::Error;

/// What kind of value an option takes, with its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Check,
    /// An integer.
    Spin {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A decimal number. Announced to GUIs as `type string`, as lc0 does: UCI has no such type.
    Float {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// One of a few words.
    Combo(&'static [&'static str]),
    /// Any text.
    Text,
}

/// One row of the table, for listings.
#[derive(Clone, Debug)]
pub struct Row {
    /// The UCI name.
    pub name: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// The default, as text.
    pub default: String,
    /// One or two sentences.
    pub help: &'static str,
}

/// Why an option was not set. The previous value is kept.
#[derive(Debug, Error, PartialEq)]
pub enum OptionError {
    /// No row has this name.
    #[error("unknown option '{0}'")]
    Unknown(String),
    /// The value is not of the option's type or range.
    #[error("option {name}: '{value}' is not {expected}")]
    BadValue {
        /// The option's UCI name.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would have been accepted.
        expected: String,
    },
}

/// Types that an option can have.
trait Setting: Sized {
    fn parse(text: &str, kind: Kind) -> Option<Self>;
    fn show(&self) -> String;
}

impl Setting for bool {
    fn parse(text: &str, _: Kind) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Some(true),
            "false" | "off" | "no" | "0" => Some(false),
            _ => None,
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

macro_rules! integer_setting {
    ($($t:ty),*) => {$(
        impl Setting for $t {
            fn parse(text: &str, kind: Kind) -> Option<$t> {
                let value: i64 = text.trim().parse().ok()?;
                match kind {
                    Kind::Spin { min, max } if !(min..=max).contains(&value) => None,
                    _ => value.try_into().ok(),
                }
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
integer_setting!(i32, u32, u64, usize);

impl Setting for f32 {
    fn parse(text: &str, kind: Kind) -> Option<f32> {
        let value: f64 = text.trim().parse().ok()?;
        match kind {
            Kind::Float { min, max } if !(min..=max).contains(&value) => None,
            _ => Some(value as f32),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn parse(text: &str, _: Kind) -> Option<String> {
        // UCI writes an empty string as "<empty>".
        Some(if text == "<empty>" {
            String::new()
        } else {
            text.to_owned()
        })
    }
    fn show(&self) -> String {
        self.clone()
    }
}

/// Declares an enum whose variants have names in UCI.
macro_rules! combo {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vmeta])* $variant,)* }
        impl $name {
            /// The words that UCI uses.
            pub const WORDS: &'static [&'static str] = &[$($text),*];
        }
        impl Setting for $name {
            fn parse(text: &str, _: Kind) -> Option<$name> {
                $(if text.eq_ignore_ascii_case($text) { return Some($name::$variant); })*
                None
            }
            fn show(&self) -> String {
                match self { $($name::$variant => $text.to_owned(),)* }
            }
        }
    };
}

combo! {
    /// Whose opponent is modelled by search-contempt.
    ContemptMode {
        /// The side to move at the root (the engine's own side while pondering).
        Play = "play",
        /// White's opponent.
        WhiteSideAnalysis = "white_side_analysis",
        /// Black's opponent.
        BlackSideAnalysis = "black_side_analysis",
        /// Nobody's.
        Disable = "disable",
    }
}

combo! {
    /// How replies are drawn at frozen nodes.
    ScSampling {
        /// Independent draws, as in the paper.
        Thompson = "thompson",
        /// The child furthest behind its frozen share: the same distribution with less noise.
        Stratified = "stratified",
    }
}

combo! {
    /// First-play urgency: what an unvisited move is worth.
    FpuStrategy {
        /// The parent's Q minus FpuValue times the root of the visited moves' prior mass.
        Reduction = "reduction",
        /// FpuValue itself.
        Absolute = "absolute",
    }
}

combo! {
    /// First-play urgency at the root.
    FpuStrategyAtRoot {
        /// As everywhere.
        Same = "same",
        /// As [`FpuStrategy::Reduction`].
        Reduction = "reduction",
        /// As [`FpuStrategy::Absolute`].
        Absolute = "absolute",
    }
}

combo! {
    /// What a network sees of the time before the first known position.
    HistoryFill {
        /// Nothing: empty planes.
        No = "no",
        /// The oldest position repeated, unless it is the normal starting position.
        FenOnly = "fen_only",
        /// The oldest position repeated, always.
        Always = "always",
    }
}

combo! {
    /// The unit of reported scores.
    ScoreType {
        /// lc0's 90*tan(1.5637541897*Q).
        Centipawn = "centipawn",
        /// The same with the draw score counted in.
        CentipawnWithDrawscore = "centipawn_with_drawscore",
        /// lc0's formula of 2019.
        Centipawn2019 = "centipawn_2019",
        /// lc0's formula of 2018.
        Centipawn2018 = "centipawn_2018",
        /// Expected score, 0 to 10000.
        WinPercentage = "win_percentage",
        /// Q times 10000.
        Q = "Q",
        /// Win minus loss probability times 10000.
        WMinusL = "W-L",
        /// 100 is an even chance to win: the advantage in the logistic W/D/L model.
        WdlMu = "WDL_mu",
    }
}

macro_rules! kind {
    (bool) => {
        Kind::Check
    };
    (String) => {
        Kind::Text
    };
    (f32, $min:literal, $max:literal) => {
        Kind::Float {
            min: $min as f64,
            max: $max as f64,
        }
    };
    ($t:ident, $min:literal, $max:literal) => {
        Kind::Spin {
            min: $min as i64,
            max: $max as i64,
        }
    };
    ($t:ident) => {
        Kind::Combo($t::WORDS)
    };
}

macro_rules! options {
    ($($(#[doc = $help:literal])+ $name:literal $field:ident: $t:ident $([$min:literal, $max:literal])? = $default:expr;)*) => {
        /// The value of every option.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Options {
            $($(#[doc = $help])+ pub $field: $t,)*
        }

        impl Default for Options {
            fn default() -> Options {
                Options { $($field: $default.into(),)* }
            }
        }

        impl Options {
            /// Sets the option called `name` (in any case) from text.
            ///
            /// # Errors
            /// When there is no such option or the value does not fit; nothing changes then.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
                $(if name.eq_ignore_ascii_case($name) {
                    let kind = kind!($t $(, $min, $max)?);
                    self.$field = Setting::parse(value, kind).ok_or_else(|| OptionError::BadValue {
                        name: $name,
                        value: value.to_owned(),
                        expected: expected(kind),
                    })?;
                    return Ok(());
                })*
                Err(OptionError::Unknown(name.to_owned()))
            }

            /// The table, with the current values as defaults.
            pub fn rows(&self) -> Vec<Row> {
                vec![$(Row {
                    name: $name,
                    kind: kind!($t $(, $min, $max)?),
                    default: self.$field.show(),
                    help: concat!($($help),+).trim_ascii(),
                },)*]
            }
        }
    };
}

fn expected(kind: Kind) -> String {
    match kind {
        Kind::Check => "true or false".into(),
        Kind::Spin { min, max } => format!("an integer from {min} to {max}"),
        Kind::Float { min, max } => format!("a number from {min} to {max}"),
        Kind::Combo(words) => format!("one of {}", words.join(", ")),
        Kind::Text => "text".into(),
    }
}

impl Row {
    /// The line that announces this option to a GUI.
    pub fn uci_line(&self) -> String {
        let mut line = format!("option name {} type ", self.name);
        let default = if self.default.is_empty() {
            "<empty>"
        } else {
            &self.default
        };
        match self.kind {
            Kind::Check => write!(line, "check default {default}"),
            Kind::Spin { min, max } => write!(line, "spin default {default} min {min} max {max}"),
            Kind::Combo(words) => {
                write!(line, "combo default {default} var {}", words.join(" var "))
            }
            Kind::Float { .. } | Kind::Text => write!(line, "string default {default}"),
        }
        .expect("writing to a String cannot fail");
        line
    }
}

options! {
    /// Search threads; 0 takes what the backend advises.
    "Threads" threads: usize [0, 128] = 0usize;
    /// Positions per network batch; 0 takes what the backend advises.
    "MinibatchSize" minibatch_size: usize [0, 1024] = 0usize;
    /// Seed of all random choices; one thread with a fixed seed repeats itself exactly.
    "Seed" seed: u64 [0, 9223372036854775807] = 0u64;
    /// Exploration constant c in c(N) = CPuct + CPuctFactor * ln((N + CPuctBase) / CPuctBase).
    "CPuct" cpuct: f32 [0.0, 100.0] = 1.745f32;
    /// Visits at which c(N) has grown noticeably.
    "CPuctBase" cpuct_base: f32 [1.0, 1000000000.0] = 38739f32;
    /// Growth of c(N); 0 keeps it constant.
    "CPuctFactor" cpuct_factor: f32 [0.0, 1000.0] = 3.894f32;
    /// Use the three AtRoot values at the root.
    "RootHasOwnCpuctParams" root_has_own_cpuct_params: bool = false;
    /// CPuct at the root.
    "CPuctAtRoot" cpuct_at_root: f32 [0.0, 100.0] = 1.745f32;
    /// CPuctBase at the root.
    "CPuctBaseAtRoot" cpuct_base_at_root: f32 [1.0, 1000000000.0] = 38739f32;
    /// CPuctFactor at the root.
    "CPuctFactorAtRoot" cpuct_factor_at_root: f32 [0.0, 1000.0] = 3.894f32;
    /// What an unvisited move is worth before it is visited.
    "FpuStrategy" fpu_strategy: FpuStrategy = FpuStrategy::Reduction;
    /// The reduction, or the absolute value, of FpuStrategy.
    "FpuValue" fpu_value: f32 [-100.0, 100.0] = 0.33f32;
    /// FpuStrategy at the root.
    "FpuStrategyAtRoot" fpu_strategy_at_root: FpuStrategyAtRoot = FpuStrategyAtRoot::Same;
    /// FpuValue at the root, if its strategy is not "same".
    "FpuValueAtRoot" fpu_value_at_root: f32 [-100.0, 100.0] = 1.0f32;
    /// Search-contempt: an opponent node that has searched this many replies freezes their shares and keeps replying by
    /// them. The default is plain PUCT. Negative: the own nodes freeze instead.
    "ScLimit" sc_limit: i32 [-1000000000, 1000000000] = 1000000000i32;
    /// Search-contempt: replies are drawn in proportion to visits^(1/ScTemperature); 0 always takes the most visited.
    "ScTemperature" sc_temperature: f32 [0.0, 10.0] = 1.0f32;
    /// Search-contempt: how replies are drawn.
    "ScSampling" sc_sampling: ScSampling = ScSampling::Thompson;
    /// Whose opponent search-contempt models (and whose contempt WDL rescaling shows).
    "ContemptMode" contempt_mode: ContemptMode = ContemptMode::Play;
    /// A position that occurs a second time within the tree counts as a draw.
    "TwoFoldDraws" two_fold_draws: bool = true;
    /// Propagate proven wins, draws and losses through the tree.
    "StickyEndgames" sticky_endgames: bool = true;
    /// What a draw is worth to White, in -1..1.
    "DrawScore" draw_score: f32 [-1.0, 1.0] = 0.0f32;
    /// Visits to nodes that are already being evaluated that end the gathering of a batch.
    "MaxCollisionEvents" max_collision_events: usize [1, 65536] = 917usize;
    /// Back up terminals and cache hits while a batch is being gathered.
    "OutOfOrderEval" out_of_order_eval: bool = true;
    /// Such visits per batch, as a multiple of the batch size.
    "MaxOutOfOrderEvalsFactor" max_out_of_order_evals_factor: f32 [0.0, 100.0] = 2.4f32;
    /// Share of Dirichlet noise in the root's priors.
    "DirichletNoiseEpsilon" noise_epsilon: f32 [0.0, 1.0] = 0.0f32;
    /// Concentration of that noise.
    "DirichletNoiseAlpha" noise_alpha: f32 [0.0, 10000000.0] = 0.3f32;
    /// Softmax temperature of the network's policy.
    "PolicyTemperature" policy_temperature: f32 [0.1, 10.0] = 1.359f32;
    /// What the network sees of the time before the first known position.
    "HistoryFill" history_fill: HistoryFill = HistoryFill::FenOnly;
    /// The unit of reported scores.
    "ScoreType" score_type: ScoreType = ScoreType::WdlMu;
    /// Moves to report a line for.
    "MultiPV" multi_pv: usize [1, 500] = 1usize;
    /// Evaluations kept for positions that come up again.
    "NNCacheSize" nn_cache_size: usize [0, 999999999] = 2000000usize;
    /// Network file: lc0 .pb or .pb.gz, or ONNX.
    "WeightsFile" weights_file: String = "<built in>";
    /// What evaluates the network.
    "Backend" backend: String = "auto";
    /// King takes rook castling, for Chess960.
    "UCI_Chess960" chess960: bool = false;
}
