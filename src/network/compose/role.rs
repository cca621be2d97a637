//! What the options say about a second network: whether there is one, and when it is asked.

use shakmaty::Color;

use crate::{
    network::backend::hash::is_hash,
    options::{ContemptMode, Options},
};

/// Which of the two networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// That of `WeightsFile`.
    Main,
    /// That of `OpponentWeights`.
    Opponent,
}

/// Whether the options name a second network that can be loaded.
pub fn is_wanted(options: &Options) -> bool {
    !options.opponent_weights.trim().is_empty() && !is_hash(&options.backend)
}

/// Why a second network is named but plays no part, if that is so: something that its user should be told.
pub fn why_idle(options: &Options) -> Option<&'static str> {
    if options.opponent_weights.trim().is_empty() {
        None
    } else if is_hash(&options.backend) {
        Some("OpponentWeights has no effect: Backend hash evaluates no networks")
    } else if options.contempt_mode == ContemptMode::Disable {
        Some("OpponentWeights has no effect: with ContemptMode disable nobody is the opponent")
    } else if options.opponent_policy_mix <= 0.0 {
        Some("OpponentWeights has no effect: OpponentPolicyMix is 0")
    } else {
        None
    }
}

/// The side at whose nodes the second network is asked, in a search for `contempt_side`; `None` if it is not asked at all.
pub fn side(options: &Options, contempt_side: Option<Color>) -> Option<Color> {
    let is_asked = is_wanted(options) && why_idle(options).is_none();
    contempt_side.filter(|_| is_asked).map(Color::other)
}
