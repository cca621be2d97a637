//! The one table of everything that can be set: UCI options, command-line flags and search parameters.
//!
//! A row gives an option's UCI name (and other names that GUIs know it by), its command-line flag and what a change
//! invalidates on one line, its field in [`Options`], type, range and default on the next, below the help. The table
//! generates the struct, its defaults, the checked assignment from text, the `option` lines of the UCI handshake, the
//! command-line flags and the table in the README, so that they cannot differ. rustfmt does not touch it: columns are
//! aligned by hand.

mod choices;
pub mod contempt;
mod kinds;
pub mod lc0;
pub mod time_manager;

use shakmaty::Color;
use thiserror::Error;

pub use self::{
    choices::{
        ContemptMode, FpuStrategy, FpuStrategyAtRoot, HistoryFill, NetworkEncoding, RootChoice,
        ScSampling, ScoreType,
    },
    kinds::OptionKind,
};
use self::{
    contempt::ContemptList,
    kinds::{Setting, expected},
    time_manager::{Legacy, TimeManagerChoice},
};

/// What a changed option makes useless. Applied at the next search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invalidates {
    /// Nothing: the next search simply uses the new value.
    Nothing,
    /// The search tree.
    Tree,
    /// The networks beside the main one, with their caches, and the tree.
    OtherNetworks,
    /// All networks with their caches, and the tree.
    Network,
}

/// One row of the table, for listings.
#[derive(Clone, Debug)]
pub struct OptionRow {
    /// The UCI name.
    pub name: &'static str,
    /// Other UCI names for the same setting.
    pub aliases: &'static [&'static str],
    /// The command-line flag, without the dashes.
    pub flag: &'static str,
    /// The flag that says no, for [`OptionKind::Check`].
    pub negative_flag: &'static str,
    /// Type and range.
    pub kind: OptionKind,
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
    /// A part of a list of settings is none.
    #[error("'{0}' is not as in Option=value")]
    NoValue(String),
    /// The value has a form of its own, and this is wrong with it.
    #[error("option {name}: {reason}")]
    Malformed {
        /// The option's UCI name.
        name: &'static str,
        /// What is wrong, and where.
        reason: String,
    },
}

macro_rules! kind {
    (bool) => {
        OptionKind::Check
    };
    (String) => {
        OptionKind::Text
    };
    (TimeManagerChoice) => {
        OptionKind::Text
    };
    (ContemptList) => {
        OptionKind::Text
    };
    (f32, $min:literal, $max:literal) => {
        OptionKind::Float {
            min: $min as f64,
            max: $max as f64,
        }
    };
    ($t:ident, $min:literal, $max:literal) => {
        OptionKind::Spin {
            min: $min as i64,
            max: $max as i64,
        }
    };
    ($t:ident) => {
        OptionKind::Combo($t::WORDS)
    };
}

macro_rules! default {
    (String, $default:expr) => {
        $default.to_owned()
    };
    ($t:ident, $default:expr) => {
        $default
    };
}

macro_rules! invalidates {
    () => {
        Invalidates::Nothing
    };
    ($what:ident) => {
        Invalidates::$what
    };
}

macro_rules! options {
    ($(
        $(#[doc = $help:literal])+
        $name:literal $(also $alias:literal)* $flag:literal $(, drops $what:ident)?
            $field:ident: $t:ident $([$min:literal, $max:literal])? = $default:expr;
    )*) => {
        /// The value of every option.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Options {
            $($(#[doc = $help])+ pub $field: $t,)*
        }

        impl Default for Options {
            fn default() -> Options {
                Options { $($field: default!($t, $default),)* }
            }
        }

        impl Options {
            /// Sets the option called `name` (in any case) from text.
            ///
            /// # Errors
            /// When there is no such option or the value does not fit; nothing changes then.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
                $(if name.eq_ignore_ascii_case($name) $(|| name.eq_ignore_ascii_case($alias))* {
                    let kind = kind!($t $(, $min, $max)?);
                    self.$field = Setting::parse(value, kind).ok_or_else(|| {
                        match <$t as Setting>::fault(value) {
                            Some(reason) => OptionError::Malformed { name: $name, reason },
                            None => OptionError::BadValue {
                                name: $name,
                                value: value.to_owned(),
                                expected: expected(kind),
                            },
                        }
                    })?;
                    return Ok(());
                })*
                Err(OptionError::Unknown(name.to_owned()))
            }

            /// The name in the table of the option called `name`, in any case, or by another of its names.
            pub fn name_of(name: &str) -> Option<&'static str> {
                $(if name.eq_ignore_ascii_case($name) $(|| name.eq_ignore_ascii_case($alias))* {
                    return Some($name);
                })*
                None
            }

            /// What can no longer be used when these options replace `old`.
            pub fn invalidated_since(&self, old: &Options) -> Invalidates {
                let mut worst = Invalidates::Nothing;
                $(if self.$field != old.$field {
                    worst = worst.max(invalidates!($($what)?));
                })*
                worst
            }

            /// The table, with the current values as defaults.
            pub fn rows(&self) -> Vec<OptionRow> {
                vec![$(OptionRow {
                    name: $name,
                    aliases: &[$($alias),*],
                    flag: $flag,
                    negative_flag: concat!("no-", $flag),
                    kind: kind!($t $(, $min, $max)?),
                    default: self.$field.show(),
                    help: concat!($($help),+).trim_ascii(),
                },)*]
            }
        }
    };
}

impl OptionRow {
    /// The lines that announce this option, and its aliases, to a GUI.
    pub fn uci_lines(&self) -> Vec<String> {
        let default = if self.default.is_empty() {
            "<empty>"
        } else {
            &self.default
        };
        let rest = match self.kind {
            OptionKind::Check => format!("check default {default}"),
            OptionKind::Spin { min, max } => format!("spin default {default} min {min} max {max}"),
            OptionKind::Combo(words) => {
                format!("combo default {default} var {}", words.join(" var "))
            }
            OptionKind::Float { .. } | OptionKind::Text => format!("string default {default}"),
        };
        std::iter::once(&self.name)
            .chain(self.aliases)
            .map(|name| format!("option name {name} type {rest}"))
            .collect()
    }

    /// The range or the choices, for listings; empty for text.
    pub fn range(&self) -> String {
        match self.kind {
            OptionKind::Check => "true, false".into(),
            OptionKind::Spin { min, max } => format!("{min} to {max}"),
            OptionKind::Float { min, max } => format!("{min} to {max}"),
            OptionKind::Combo(words) => words.join(", "),
            OptionKind::Text => String::new(),
        }
    }
}

/// The option that names a file of options. It is no row of the table: what it means is what the file says.
pub const CONFIG_FILE: &str = "ConfigFile";

/// Options that mean something only in a conversation with a chess program: to all but `uci` they are mistakes.
pub const ONLY_UCI: &[&str] = &[
    "HumanWeights",
    "LogFile",
    "LogLiveStats",
    "MoveOverheadMs",
    "PerPVCounters",
    "Ponder",
    "Preload",
    "Profiles",
    "Slowmover",
    "StrictTiming",
    "TimeManager",
    "UCI_Elo",
    "UCI_LimitStrength",
    "UCI_Opponent",
    "UCI_RatingAdv",
    "UCI_ShowEPS",
    "UCI_ShowMovesLeft",
    "UCI_ShowWDL",
    "VerboseMoveStats",
];

/// Actions that a GUI shows as a button: `setoption name ClearTree`.
pub const BUTTONS: &[(&str, &str)] = &[
    (
        "ClearTree",
        "Forget the search tree and start the next search from nothing.",
    ),
    ("Clear Hash", "Forget the search tree and all evaluations."),
];

/// `ScLimit` at this value (its default) or above means plain PUCT, and so does 0.
pub const PLAIN_PUCT: u32 = 1_000_000_000;

impl Options {
    /// Whether there is no search-contempt: no node's replies freeze.
    pub fn is_plain_puct(&self) -> bool {
        let limit = self.sc_limit.unsigned_abs();
        limit == 0 || limit >= PLAIN_PUCT
    }

    /// What a draw is worth to a side.
    pub fn draw_score_for(&self, side: Color) -> f32 {
        side.fold_wb(self.draw_score, -self.draw_score)
    }

    /// The same, with nothing left to chance: no temperature, no noise.
    #[must_use]
    pub fn without_chance(self) -> Options {
        Options {
            temperature: 0.0,
            temp_endgame: 0.0,
            noise_epsilon: 0.0,
            ..self
        }
    }
}

/// The names and values in `Option=value;...`.
pub fn settings(text: &str) -> impl Iterator<Item = Result<(&str, &str), OptionError>> {
    let parts = text
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts.map(|part| match part.split_once('=') {
        Some((name, value)) => Ok((name.trim(), value.trim())),
        None => Err(OptionError::NoValue(part.to_owned())),
    })
}

options! {
    // Speed and memory.
    /// Search threads; 0 takes what the backend advises.
    "Threads"                             "threads"
        threads:                            usize [0, 128]                = 0;
    /// Positions per network batch; 0 takes what the backend advises, and fewer while the tree is small.
    "MinibatchSize"                       "minibatch-size"
        minibatch_size:                     usize [0, 1024]               = 0;
    /// Memory for the tree and the caches together, in MB; a search that reaches it goes on without new positions.
    /// 0: half of the machine's.
    "RamLimitMb" also "Hash"              "ramlimit-mb",                  drops Tree
        ram_limit_mb:                       u64 [0, 100000000]            = 0;
    /// Evaluations of each network kept for positions that come up again.
    "NNCacheSize"                         "nncache"
        nn_cache_size:                      usize [0, 999999999]          = 2000000;
    /// At most about this many nodes per second; 0: as fast as possible.
    "NodesPerSecondLimit"                 "nps-limit"
        nps_limit:                          f32 [0.0, 1000000.0]          = 0.0;

    // Network.
    /// Network file: lc0 .pb or .pb.gz, or ONNX; or one of those inside: `<built in>`, `<built in dense>`.
    "WeightsFile"                         "weights",                      drops Network
        weights_file:                       String                        = "<built in>";
    /// What evaluates the network: auto (the first that works of these), sparse (for sparse networks, and what
    /// they are made for), tensorrt, cuda, openvino, onnx-cpu, rten (needs no library); directml (Windows), coreml (macOS),
    /// hash (for tests).
    "Backend"                             "backend",                      drops Network
        backend:                            String                        = "auto";
    /// Settings of the backend: key=value,name(key=value); see the README.
    "BackendOptions"                      "backend-opts",                 drops Network
        backend_options:                    String                        = "";
    /// Policy head of networks that have several: vanilla, optimistic, soft or opponent; empty for the usual one.
    "PolicyHead"                          "policy-head",                  drops Network
        policy_head:                        String                        = "";
    /// Value head of networks that have several: winner, q or st; empty for the usual one.
    "ValueHead"                           "value-head",                   drops Network
        value_head:                         String                        = "";
    /// The planes and policy of an ONNX network: lc0, alphazero (119 planes, 8x8x73 moves), or auto: what its metadata say.
    "NetworkEncoding"                     "network-encoding",             drops Network
        network_encoding:                   NetworkEncoding               = NetworkEncoding::Auto;
    /// The ONNX Runtime library, or a folder that holds it; empty looks in the usual places.
    "OnnxRuntimePath"                     "onnxruntime-path",             drops Network
        onnx_runtime_path:                  String                        = "";
    /// Softmax temperature of the network's policy.
    "PolicyTemperature"                   "policy-softmax-temp",          drops Tree
        policy_temperature:                 f32 [0.1, 10.0]               = 1.359;
    /// Added to the prior of each move that gives check and whose prior is smaller than this (they sum to 1 afterwards): forced
    /// lines often begin with moves that look bad. 0: off.
    "CheckBonus"                          "check-bonus",                  drops Tree
        check_bonus:                        f32 [0.0, 1.0]                = 0.0;
    /// What the network sees of the time before the first known position.
    "HistoryFill"                         "history-fill",                 drops Network
        history_fill:                       HistoryFill                   = HistoryFill::FenOnly;

    /// The network sees every position with the colours exchanged: for networks that were trained as White only, while the
    /// engine is Black. Those that see no colours see no difference.
    "SwapColors"                          "swap-colors",                  drops Tree
        swap_colors:                        bool                          = false;

    // Time and other limits.
    /// Pondering: the GUI will let the engine think on the opponent's time, so it may use more of its own.
    "Ponder"                              "ponder"
        ponder:                             bool                          = false;
    /// Time kept in reserve for the way between engine and GUI, in milliseconds.
    "MoveOverheadMs" also "Move Overhead" "move-overhead"
        move_overhead_ms:                   u64 [0, 100000000]            = 200;
    /// Multiplies the time spent on a move.
    "Slowmover"                           "slowmover"
        slowmover:                          f32 [0.0, 100.0]              = 1.0;
    /// How the clock is divided among the moves: legacy, smooth, simple or alphazero, with parameters as in
    /// legacy(steepness=7,first-move-bonus=0); see docs/time.md.
    "TimeManager"                         "time-manager"
        time_manager:                       TimeManagerChoice             = TimeManagerChoice::Legacy(Legacy::default());
    /// The GUI starts the clock with "go", after it has got its "readyok"; without this the clock is taken to run since
    /// "position".
    "StrictTiming"                        "strict-uci-timing"
        strict_timing:                      bool                          = false;
    /// A search ends at this many nodes, as if the GUI had sent "go nodes"; for GUIs that cannot. 0: no limit.
    "NodeLimit"                           "node-limit"
        node_limit:                         u64 [0, 2147483647]           = 0;
    /// Count only new nodes, not those of a reused tree, for "go nodes" and NodeLimit.
    "NodesAsPlayouts"                     "nodes-as-playouts"
        nodes_as_playouts:                  bool                          = false;
    /// A search that is neither infinite nor for a mate ends when its result is certain; one with a clock also when the
    /// best move cannot be overtaken in the time that is left, divided by this. 0: never.
    "SmartPruningFactor"                  "smart-pruning-factor"
        smart_pruning_factor:               f32 [0.0, 10.0]               = 1.33;
    /// Batches before which no search ends because its best move cannot be overtaken.
    "SmartPruningMinimumBatches"          "smart-pruning-minimum-batches"
        smart_pruning_minimum_batches:      u32 [0, 10000]                = 0;
    /// End searches with a limit of nodes, too, when the best move cannot be overtaken in those that are left.
    "SmartPruningNodes"                   "smart-pruning-nodes"
        smart_pruning_nodes:                bool                          = false;
    /// A search that is not infinite ends when its nodes gain less information than this each. 0: never.
    "MinimumKLDGainPerNode"               "minimum-kldgain-per-node"
        minimum_kldgain_per_node:           f32 [0.0, 1.0]                = 0.0;
    /// Nodes between two looks at that gain.
    "KLDGainAverageInterval"              "kldgain-average-interval"
        kldgain_average_interval:           u64 [1, 10000000]             = 100;

    // Search-contempt.
    /// Search-contempt: an opponent node that has searched this many replies freezes their shares and keeps replying by
    /// them. The default is plain PUCT, and so is 0. Negative: the own nodes freeze instead.
    "ScLimit"                             "sc-limit",                     drops Tree
        sc_limit:                           i32 [-1000000000, 1000000000] = 1000000000;
    /// Search-contempt: replies are drawn in proportion to visits^(1/ScTemperature); 0 always takes the most visited.
    "ScTemperature"                       "sc-temperature",               drops Tree
        sc_temperature:                     f32 [0.0, 10.0]               = 1.0;
    /// Search-contempt: how replies are drawn.
    "ScSampling"                          "sc-sampling",                  drops Tree
        sc_sampling:                        ScSampling                    = ScSampling::Thompson;
    /// Whose opponent search-contempt models, and whose advantage Contempt is: that of the side to move, of White, of
    /// Black, or nobody's.
    "ContemptMode"                        "contempt-mode"
        contempt_mode:                      ContemptMode                  = ContemptMode::Play;
    /// A second network (as WeightsFile) for the opponent of ContemptMode: where that side moves the priors come from
    /// it, for example from a Maia network of its rating. Empty: no second network.
    "OpponentWeights"                     "opponent-weights",             drops OtherNetworks
        opponent_weights:                   String                        = "";
    /// Without OpponentWeights: the opponent is expected to choose moves as people with this rating do (1100 to 1900; others as the
    /// nearest of these), by networks inside the program. 0: nobody in particular.
    "OpponentRating"                      "opponent-rating",              drops OtherNetworks
        opponent_rating:                    u32 [0, 3500]                 = 0;
    /// The share of the second network in those priors; the rest is the main network's.
    "OpponentPolicyMix"                   "opponent-policy-mix",          drops Tree
        opponent_policy_mix:                f32 [0.0, 1.0]                = 1.0;
    /// Softmax temperature of the second network's policy; 1 is what it was trained to predict.
    "OpponentPolicyTemperature"           "opponent-policy-softmax-temp", drops Tree
        opponent_policy_temperature:        f32 [0.1, 10.0]               = 1.0;

    /// A network (as WeightsFile) that knows more and is slower: positions with many visits have their priors asked again of it. Empty:
    /// none.
    "RefineWeights"                       "refine-weights",               drops OtherNetworks
        refine_weights:                     String                        = "";
    /// From so many visits on.
    "RefineVisits"                        "refine-visits"
        refine_visits:                      u32 [2, 1000000000]           = 128;
    /// Softmax temperature of its policy.
    "RefinePolicyTemperature"             "refine-policy-softmax-temp",   drops Tree
        refine_policy_temperature:          f32 [0.1, 10.0]               = 1.5;

    // WDL contempt.
    /// WDL contempt: by how many Elo the engine is taken to be stronger than its opponent, as `[name=]elo,...`, where a name
    /// is a part of UCI_Opponent. Empty: by UCI_RatingAdv.
    "Contempt"                            "contempt"
        contempt:                           ContemptList                  = ContemptList::default();
    /// WDL contempt: the largest advantage that counts.
    "ContemptMaxValue"                    "contempt-max-value"
        contempt_max_value:                 f32 [0.0, 10000.0]            = 420.0;
    /// The engine's own rating, from which chances to draw follow; 0: values are the network's own.
    "WDLCalibrationElo"                   "wdl-calibration-elo"
        wdl_calibration_elo:                f32 [0.0, 10000.0]            = 0.0;
    /// WDL contempt: multiplies its effect.
    "WDLContemptAttenuation"              "wdl-contempt-attenuation"
        wdl_contempt_attenuation:           f32 [-10.0, 10.0]             = 1.0;
    /// WDL contempt: positions count as no sharper than this.
    "WDLMaxS"                             "wdl-max-s"
        wdl_max_s:                          f32 [0.0, 10.0]               = 1.4;
    /// How much of the contempt is taken back in reported values: 1 all of it, 0 nothing.
    "WDLEvalObjectivity"                  "wdl-eval-objectivity"
        wdl_eval_objectivity:               f32 [0.0, 1.0]                = 1.0;
    /// The chance of a draw between equal players that values are changed to; 0: as the network has it.
    "WDLDrawRateTarget"                   "wdl-draw-rate-target"
        wdl_draw_rate_target:               f32 [0.0, 0.999]              = 0.0;
    /// The chance of a draw that the network expects between equal players.
    "WDLDrawRateReference"                "wdl-draw-rate-reference"
        wdl_draw_rate_reference:            f32 [0.001, 0.999]            = 0.5;
    /// The bias of the openings for which an Elo of contempt is an Elo.
    "WDLBookExitBias"                     "wdl-book-exit-bias"
        wdl_book_exit_bias:                 f32 [-2.0, 2.0]               = 0.65;

    // The tree.
    /// Exploration constant c in c(N) = CPuct + CPuctFactor * ln((N + CPuctBase) / CPuctBase).
    "CPuct"                               "cpuct"
        cpuct:                              f32 [0.0, 100.0]              = 1.745;
    /// Visits at which c(N) has grown noticeably.
    "CPuctBase"                           "cpuct-base"
        cpuct_base:                         f32 [1.0, 1000000000.0]       = 38739.0;
    /// Growth of c(N); 0 keeps it constant.
    "CPuctFactor"                         "cpuct-factor"
        cpuct_factor:                       f32 [0.0, 1000.0]             = 3.894;
    /// Use the three AtRoot values at the root.
    "RootHasOwnCpuctParams"               "root-has-own-cpuct-params"
        root_has_own_cpuct_params:          bool                          = false;
    /// CPuct at the root.
    "CPuctAtRoot"                         "cpuct-at-root"
        cpuct_at_root:                      f32 [0.0, 100.0]              = 1.745;
    /// CPuctBase at the root.
    "CPuctBaseAtRoot"                     "cpuct-base-at-root"
        cpuct_base_at_root:                 f32 [1.0, 1000000000.0]       = 38739.0;
    /// CPuctFactor at the root.
    "CPuctFactorAtRoot"                   "cpuct-factor-at-root"
        cpuct_factor_at_root:               f32 [0.0, 1000.0]             = 3.894;
    /// What an unvisited move is worth before it is visited.
    "FpuStrategy"                         "fpu-strategy"
        fpu_strategy:                       FpuStrategy                   = FpuStrategy::Reduction;
    /// The reduction, or the absolute value, of FpuStrategy.
    "FpuValue"                            "fpu-value"
        fpu_value:                          f32 [-100.0, 100.0]           = 0.33;
    /// FpuStrategy at the root.
    "FpuStrategyAtRoot"                   "fpu-strategy-at-root"
        fpu_strategy_at_root:               FpuStrategyAtRoot             = FpuStrategyAtRoot::Same;
    /// FpuValue at the root, if its strategy is not "same".
    "FpuValueAtRoot"                      "fpu-value-at-root"
        fpu_value_at_root:                  f32 [-100.0, 100.0]           = 1.0;
    /// Folders with Syzygy endgame tablebases, separated by ':' (on Windows ';').
    "SyzygyPath"                          "syzygy-paths",                 drops Tree
        syzygy_path:                        String                        = "";
    /// With tablebases, play only the winning moves that get nearest to the next capture or pawn move.
    "SyzygyFastPlay"                      "syzygy-fast-play"
        syzygy_fast_play:                   bool                          = false;
    /// Tablebases against an opponent who errs, the one of ContemptMode: where its modelled side is to move they are not asked, and
    /// the other side counts on wins, and on draws of fewer pieces than this. 0: tablebases count as they are.
    "ContemptModeTB"                      "contempt-mode-tb",             drops Tree
        contempt_mode_tb:                   usize [0, 9]                  = 0;
    /// A position that occurs a second time within the tree counts as a draw.
    "TwoFoldDraws"                        "two-fold-draws",               drops Tree
        two_fold_draws:                     bool                          = true;
    /// Positions that several ways lead to share what was found out about them.
    "Transpositions"                      "transpositions",               drops Tree
        transpositions:                     bool                          = false;
    /// Propagate proven wins, draws and losses through the tree.
    "StickyEndgames"                      "sticky-endgames",              drops Tree
        sticky_endgames:                    bool                          = true;
    /// Certainty propagation. 1: a new position is proven at once if one of its moves mates or all of them draw, and
    /// proofs propagate even without StickyEndgames. 2: moves that are proven lost are not visited any more, either.
    "CertaintyProp"                       "certainty-prop",               drops Tree
        certainty_prop:                     u32 [0, 2]                    = 0;
    /// A position with one legal move takes the value of the position after it, in the same visit.
    "AutoExtend"                          "auto-extend",                  drops Tree
        auto_extend:                        bool                          = false;
    /// Moving-average Q: a visit's value V changes Q by (V - Q) / (BackpropagateBeta * N^BackpropagateGamma + 1). With
    /// 1 and 1 Q is the mean of all visits; less than 1 makes the latest count more.
    "BackpropagateGamma"                  "backpropagate-gamma",          drops Tree
        backpropagate_gamma:                f32 [0.0, 10.0]               = 1.0;
    /// See BackpropagateGamma.
    "BackpropagateBeta"                   "backpropagate-beta",           drops Tree
        backpropagate_beta:                 f32 [0.0, 10.0]               = 1.0;
    /// Optimal selection. 1: selection adds 8^-depth to every prior, so that near the root every move is tried.
    "OptimalSelect"                       "optimal-select"
        optimal_select:                     u32 [0, 1]                    = 0;
    /// What a draw is worth to White, in -1..1.
    "DrawScore"                           "draw-score"
        draw_score:                         f32 [-1.0, 1.0]               = 0.0;
    /// The most that the expected length of the game may add to a move's value; 0 switches this off.
    "MovesLeftMaxEffect"                  "moves-left-max-effect"
        moves_left_max_effect:              f32 [0.0, 1.0]                = 0.0345;
    /// It counts only when a side's advantage |Q| is larger than this.
    "MovesLeftThreshold"                  "moves-left-threshold"
        moves_left_threshold:               f32 [0.0, 1.0]                = 0.8;
    /// Its effect per ply of difference.
    "MovesLeftSlope"                      "moves-left-slope"
        moves_left_slope:                   f32 [0.0, 1.0]                = 0.0027;
    /// The part of its effect that does not depend on Q.
    "MovesLeftConstantFactor"             "moves-left-constant-factor"
        moves_left_constant_factor:         f32 [-1.0, 1.0]               = 0.0;
    /// The part that grows with |Q|.
    "MovesLeftScaledFactor"               "moves-left-scaled-factor"
        moves_left_scaled_factor:           f32 [-2.0, 2.0]               = 1.6521;
    /// The part that grows with Q squared.
    "MovesLeftQuadraticFactor"            "moves-left-quadratic-factor"
        moves_left_quadratic_factor:        f32 [-1.0, 1.0]               = -0.6521;

    // Batches.
    /// Visits to nodes that are already being evaluated that end the gathering of a batch.
    "MaxCollisionEvents"                  "max-collision-events"
        max_collision_events:               usize [1, 65536]              = 917;
    /// The same in a large tree; small trees tolerate fewer (see the three Scaling options).
    "MaxCollisionVisits"                  "max-collision-visits"
        max_collision_visits:               u32 [1, 100000000]            = 80000;
    /// Visits of the root up to which one collision ends the gathering.
    "MaxCollisionVisitsScalingStart"      "max-collision-visits-scaling-start"
        max_collision_visits_scaling_start: u32 [1, 100000]               = 28;
    /// Visits of the root from which on MaxCollisionVisits holds.
    "MaxCollisionVisitsScalingEnd"        "max-collision-visits-scaling-end"
        max_collision_visits_scaling_end:   u32 [0, 100000000]            = 145000;
    /// Power of the growth in between.
    "MaxCollisionVisitsScalingPower"      "max-collision-visits-scaling-power"
        max_collision_visits_scaling_power: f32 [0.01, 100.0]             = 1.25;
    /// Back up terminals and cache hits while a batch is being gathered.
    "OutOfOrderEval"                      "out-of-order-eval"
        out_of_order_eval:                  bool                          = true;
    /// Such visits per batch, as a multiple of the batch size.
    "MaxOutOfOrderEvalsFactor"            "max-out-of-order-evals-factor"
        max_out_of_order_evals_factor:      f32 [0.0, 100.0]              = 2.4;

    // Chance.
    /// Seed of all random choices: from "ucinewgame" on, one thread repeats a game exactly. 0: another one every time.
    "Seed"                                "seed"
        seed:                               u64 [0, 2147483647]           = 0;
    /// Share of Dirichlet noise in the root's priors.
    "DirichletNoiseEpsilon"               "noise-epsilon"
        noise_epsilon:                      f32 [0.0, 1.0]                = 0.0;
    /// Concentration of that noise.
    "DirichletNoiseAlpha"                 "noise-alpha"
        noise_alpha:                        f32 [0.0, 10000000.0]         = 0.3;
    /// The move played is drawn in proportion to visits^(1/Temperature); 0 always plays the best.
    "Temperature"                         "temperature"
        temperature:                        f32 [0.0, 100.0]              = 0.0;
    /// Moves over which the temperature falls to zero; 0 keeps it.
    "TempDecayMoves"                      "tempdecay-moves"
        temp_decay_moves:                   u32 [0, 640]                  = 0;
    /// Moves before it begins to fall.
    "TempDecayDelayMoves"                 "tempdecay-delay-moves"
        temp_decay_delay_moves:             u32 [0, 100]                  = 0;
    /// From this move of the game on the temperature is TempEndgame; 0: never.
    "TempCutoffMove"                      "temp-cutoff-move"
        temp_cutoff_move:                   u32 [0, 1000]                 = 0;
    /// The temperature late in the game, and the lowest that it falls to.
    "TempEndgame"                         "temp-endgame"
        temp_endgame:                       f32 [0.0, 100.0]              = 0.0;
    /// Moves worse than the best by more than this are not drawn, in percent of a win.
    "TempValueCutoff"                     "temp-value-cutoff"
        temp_value_cutoff:                  f32 [0.0, 100.0]              = 100.0;
    /// Added to each move's visits before drawing.
    "TempVisitOffset"                     "temp-visit-offset"
        temp_visit_offset:                  f32 [-1000.0, 1000.0]         = 0.0;

    // The game.
    /// Who sits on the other side: title or none, rating or none, computer or human, name.
    "UCI_Opponent"                        "opponent"
        opponent:                           String                        = "";
    /// By how much the engine is rated higher than its opponent.
    "UCI_RatingAdv"                       "rating-advantage"
        rating_advantage:                   f32 [-10000.0, 10000.0]       = 0.0;
    /// Play as strong as UCI_Elo says.
    "UCI_LimitStrength"                   "limit-strength"
        limit_strength:                     bool                          = false;
    /// The rating to play at with UCI_LimitStrength, about as Stockfish's; see docs/strength.md.
    "UCI_Elo"                             "elo"
        elo:                                u32 [1200, 2200]              = 1500;
    /// Networks of people's moves for UCI_LimitStrength: `<built in human {maia}>`, or a file whose name has `{maia}` in the
    /// place of the rating, 1100 to 1900. Empty: fewer nodes and chance.
    "HumanWeights"                        "human-weights"
        human_weights:                      String                        = "";
    /// What sets options by itself, as odds, opponent and clock ask for, if they are not set by hand: a file of profiles
    /// (see docs/profiles.md), `<built in>` or off.
    "Profiles"                            "profiles"
        profiles:                           String                        = "<built in>";

    // The move that is played.
    /// What decides, where nothing is proven and the temperature is 0: the most visits, the largest lower confidence
    /// bound of Q, or the largest Q + ln(visits).
    "RootChoice"                          "root-choice"
        root_choice:                        RootChoice                    = RootChoice::Visits;
    /// With RootChoice lcb: how many standard errors the bound lies below Q.
    "LcbStdevs"                           "lcb-stdevs"
        lcb_stdevs:                         f32 [0.0, 100.0]              = 5.0;
    /// With RootChoice lcb: moves with less than this share of the most visited move's visits are not taken.
    "LcbMinVisitShare"                    "lcb-min-visit-share"
        lcb_min_visit_share:                f32 [0.0, 1.0]                = 0.15;

    // What is reported.
    /// Moves to report a line for.
    "MultiPV"                             "multipv"
        multi_pv:                           usize [1, 500]                = 1;
    /// With MultiPV: report the nodes of each line instead of the whole search's.
    "PerPVCounters"                       "per-pv-counters"
        per_pv_counters:                    bool                          = false;
    /// The unit of reported scores.
    "ScoreType"                           "score-type"
        score_type:                         ScoreType                     = ScoreType::WdlMu;
    /// Report the chances to win, draw and lose, in per mille.
    "UCI_ShowWDL"                         "show-wdl"
        show_wdl:                           bool                          = false;
    /// Report the positions that the network judged per second.
    "UCI_ShowEPS"                         "show-eps"
        show_eps:                           bool                          = false;
    /// Report the expected number of moves until the game ends.
    "UCI_ShowMovesLeft"                   "show-movesleft"
        show_moves_left:                    bool                          = false;
    /// With search-contempt: tell at the end of a search what each line is worth against best replies, too, and so
    /// how much of its value is a trap; not where that would take more than a quarter of the time for the move.
    "ShowObjective"                       "show-objective"
        show_objective:                     bool                          = false;
    /// Report statistics of every move at the end of a search.
    "VerboseMoveStats"                    "verbose-move-stats"
        verbose_move_stats:                 bool                          = false;
    /// Report them during the search, too, so that a GUI can show them live.
    "LogLiveStats"                        "log-live-stats"
        log_live_stats:                     bool                          = false;
    /// Load the network and the tablebases at once, not when the GUI first asks whether the engine is ready.
    "Preload"                             "preload"
        preload:                            bool                          = false;
    /// A file to which the conversation with the GUI is written; `<stderr>` writes it there.
    "LogFile"                             "logfile"
        log_file:                           String                        = "";
    /// The GUI analyses: nothing is left to chance (Temperature and noise are off), no profile or strength limit counts, and trees of
    /// positions that were looked at stay for going back and forth, as far as half of the memory reaches.
    "UCI_AnalyseMode"                     "analyse-mode"
        analyse_mode:                       bool                          = false;
    /// King takes rook castling, for Chess960.
    "UCI_Chess960"                        "chess960"
        chess960:                           bool                          = false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_flags_are_unique_and_defaults_are_in_range() {
        let mut options = Options::default();
        let (mut names, mut flags) = (HashSet::new(), HashSet::new());
        for row in Options::default().rows() {
            for name in std::iter::once(&row.name).chain(row.aliases) {
                assert!(names.insert(name.to_ascii_lowercase()), "{name}");
                options.set(name, &row.default).unwrap();
            }
            assert!(flags.insert(row.flag), "{}", row.flag);
            assert!(!row.flag.starts_with("no-"), "{}", row.flag);
            assert!(!row.help.is_empty() && !row.help.contains("  "));
        }
        assert_eq!(options, Options::default());
    }

    #[test]
    fn names_are_case_insensitive_and_bad_values_change_nothing() {
        let mut options = Options::default();
        options.set("move overhead", "50").unwrap();
        options.set("hash", " 256 ").unwrap();
        options.set("sclimit", "-5").unwrap();
        assert_eq!((options.move_overhead_ms, options.ram_limit_mb), (50, 256));
        assert_eq!(options.sc_limit, -5);
        let before = options.clone();
        for (name, value) in [
            ("Hash", "-1"),
            ("Hash", "many"),
            ("Hash", "99999999999999999999"),
            ("CPuct", "nan"),
            ("CPuct", "101"),
            ("FpuStrategy", "same"),
            ("OutOfOrderEval", "perhaps"),
            ("NoSuchThing", "1"),
        ] {
            let error = options.set(name, value).unwrap_err().to_string();
            assert!(
                error.contains(name) || error.contains("RamLimitMb"),
                "{error}"
            );
        }
        assert_eq!(options, before);
    }

    #[test]
    fn a_change_tells_what_it_invalidates() {
        let old = Options::default();
        let mut new = old.clone();
        assert_eq!(new.invalidated_since(&old), Invalidates::Nothing);
        new.set("CPuct", "2").unwrap();
        assert_eq!(new.invalidated_since(&old), Invalidates::Nothing);
        new.set("ScLimit", "20").unwrap();
        assert_eq!(new.invalidated_since(&old), Invalidates::Tree);
        new.set("OpponentWeights", "maia-1100.pb.gz").unwrap();
        assert_eq!(new.invalidated_since(&old), Invalidates::OtherNetworks);
        new.set("Backend", "hash").unwrap();
        assert_eq!(new.invalidated_since(&old), Invalidates::Network);
    }

    #[test]
    fn announced_as_guis_expect() {
        let lines: Vec<_> = Options::default()
            .rows()
            .iter()
            .flat_map(OptionRow::uci_lines)
            .collect();
        for line in [
            "option name Hash type spin default 0 min 0 max 100000000",
            "option name Move Overhead type spin default 200 min 0 max 100000000",
            "option name CPuct type string default 1.745",
            "option name LogFile type string default <empty>",
            "option name ScSampling type combo default thompson var thompson var stratified",
        ] {
            assert!(lines.iter().any(|l| l == line), "{line}");
        }
    }
}
