//! Options with a fixed list of values.

use super::kinds::{OptionKind, OptionValue};

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
        impl OptionValue for $name {
            fn parse(text: &str, _: OptionKind) -> Option<$name> {
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
    /// The side whose opponent search-contempt models.
    ContemptMode {
        /// The side to move at the root (the engine's own side while pondering).
        Play = "play",
        /// White.
        WhiteSideAnalysis = "white_side_analysis",
        /// Black.
        BlackSideAnalysis = "black_side_analysis",
        /// No side.
        Disable = "disable",
    }
}

combo! {
    /// How replies are drawn at frozen nodes.
    ScSampling {
        /// Independent draws, as in the paper.
        Thompson = "thompson",
        /// The child that lags its frozen share most: the same distribution with less variance.
        Stratified = "stratified",
    }
}

combo! {
    /// First-play urgency: the assumed Q of an unvisited move.
    FpuStrategy {
        /// The parent's Q minus FpuValue times the square root of the visited moves' total prior.
        Reduction = "reduction",
        /// FpuValue itself.
        Absolute = "absolute",
    }
}

combo! {
    /// First-play urgency at the root.
    FpuStrategyAtRoot {
        /// As at other nodes.
        Same = "same",
        /// As [`FpuStrategy::Reduction`].
        Reduction = "reduction",
        /// As [`FpuStrategy::Absolute`].
        Absolute = "absolute",
    }
}

combo! {
    /// Filling of the history planes before the first known position.
    HistoryFill {
        /// Empty planes.
        No = "no",
        /// The oldest position, unless it is the starting position.
        FenOnly = "fen_only",
        /// The oldest position in any case.
        Always = "always",
    }
}

combo! {
    /// The planes and the policy of an ONNX network.
    NetworkEncoding {
        /// As the metadata say, lc0's without such an entry.
        Auto = "auto",
        /// lc0's 112 planes and 1858 moves.
        Lc0 = "lc0",
        /// AlphaZero's 119 planes and 8 x 8 x 73 moves.
        AlphaZero = "alphazero",
    }
}

combo! {
    /// The unit of reported scores.
    ScoreType {
        /// lc0's 90*tan(1.5637541897*Q).
        Centipawn = "centipawn",
        /// The same with the draw score counted in.
        CentipawnWithDrawscore = "centipawn_with_drawscore",
        /// The formula of lc0's wiki, which lc0 used in 2020: 111.714640912*tan(1.5620688421*Q).
        Centipawn2020 = "centipawn_2020",
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
        /// The advantage in the logistic W/D/L model: 100 is a win probability of 50 %.
        WdlMu = "WDL_mu",
    }
}

combo! {
    /// The criterion for the played move if nothing is proven.
    RootChoice {
        /// The most visits.
        Visits = "visits",
        /// The largest lower confidence bound of Q.
        Lcb = "lcb",
        /// The largest sum of Q and the logarithm of the visits.
        ValueLogVisits = "value_log_visits",
    }
}
