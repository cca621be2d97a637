//! The networks that the options name, and when a second one is used.

use shakmaty::Color;

use crate::{
    network::{backend::needs_network, source::built_in::human_name},
    options::{ContemptMode, Options},
};

/// The role of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The engine's own network (`WeightsFile`).
    Main,
    /// The network of the opponent (`OpponentWeights`, `OpponentRating`).
    Opponent,
    /// The network that refines priors (`RefineWeights`).
    Refiner,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Main, Role::Opponent, Role::Refiner];

    /// Whether the options name such a network, and it can be loaded.
    pub fn is_wanted(self, options: &Options) -> bool {
        match self {
            Role::Main => true,
            Role::Opponent | Role::Refiner => {
                self.weights(options).is_some() && needs_network(&options.backend)
            }
        }
    }

    /// The network that the options name for this role. There is always a main one.
    pub fn weights(self, options: &Options) -> Option<String> {
        let named = options.refine_weights.trim();
        match self {
            Role::Main => Some(options.weights_file.clone()),
            Role::Opponent => opponent_weights(options),
            Role::Refiner => Some(named.to_owned()).filter(|named| !named.is_empty()),
        }
    }

    /// The softmax temperature of its policy.
    pub fn policy_temperature(self, options: &Options) -> f32 {
        match self {
            Role::Main => options.policy_temperature,
            Role::Opponent => options.opponent_policy_temperature,
            Role::Refiner => options.refine_policy_temperature,
        }
    }

    /// The bonus for moves that give check; a model of the opponent gets none.
    pub fn check_bonus(self, options: &Options) -> f32 {
        match self {
            Role::Main | Role::Refiner => options.check_bonus,
            Role::Opponent => 0.0,
        }
    }

    /// The option that names it.
    pub fn option(self) -> &'static str {
        match self {
            Role::Main => "WeightsFile",
            Role::Opponent => "OpponentWeights",
            Role::Refiner => "RefineWeights",
        }
    }
}

/// The second network: what `OpponentWeights` names, or the built-in human player of `OpponentRating`.
fn opponent_weights(options: &Options) -> Option<String> {
    let named = options.opponent_weights.trim();
    match (named, options.opponent_rating) {
        ("", 0) => None,
        ("", rating) => Some(human_name(rating)),
        (named, _) => Some(named.to_owned()),
    }
}

/// The reason why an opponent's network that the options name has no effect, to be shown to the user; `None` if it
/// has one.
pub fn why_idle(options: &Options) -> Option<String> {
    let names = match (options.opponent_weights.trim(), options.opponent_rating) {
        ("", 0) => return None,
        ("", _) => "OpponentRating has",
        (_, 0) => "OpponentWeights has",
        (_, _) => "OpponentRating and OpponentWeights have",
    };
    let reason = if !needs_network(&options.backend) {
        ": Backend hash evaluates no networks"
    } else if options.contempt_mode == ContemptMode::Disable {
        " while ContemptMode is disable"
    } else if options.opponent_policy_mix <= 0.0 {
        ": OpponentPolicyMix is 0"
    } else {
        return None;
    };
    Some(format!("{names} no effect{reason}"))
}

/// The reason why the values of a network mean little, to be shown to the user, if it reads which side is the engine's
/// (`reads_mover`) and the options name no side; `None` otherwise.
pub fn why_side_is_missing(options: &Options, reads_mover: bool) -> Option<String> {
    (reads_mover && options.contempt_mode == ContemptMode::Disable).then(|| {
        "the values of this network depend on which side is the engine's, and with ContemptMode disable no side is: it \
         was not trained for that"
            .to_owned()
    })
}

/// The side whose priors come from the second network, in a search for `contempt_side`; `None` if that network is not
/// used.
pub fn side(options: &Options, contempt_side: Option<Color>) -> Option<Color> {
    let is_used = Role::Opponent.is_wanted(options) && why_idle(options).is_none();
    contempt_side.filter(|_| is_used).map(Color::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rating_stands_for_a_network_unless_one_is_named() {
        let mut options = Options::default();
        assert!(!Role::Opponent.is_wanted(&options) && why_idle(&options).is_none());
        options.set("OpponentRating", "1400").unwrap();
        assert_eq!(opponent_weights(&options), Some(human_name(1400)));
        assert!(Role::Opponent.is_wanted(&options));
        options.set("OpponentWeights", "maia.pb.gz").unwrap();
        assert_eq!(opponent_weights(&options).as_deref(), Some("maia.pb.gz"));
        options.set("ContemptMode", "disable").unwrap();
        assert!(why_idle(&options).is_some());
    }

    #[test]
    fn only_options_that_are_set_are_said_to_have_no_effect() {
        let mut options = Options::default();
        options.set("ContemptMode", "disable").unwrap();
        assert_eq!(why_idle(&options), None);
        let reason = "no effect while ContemptMode is disable";
        let mut said = |name: &str, value: &str| {
            options.set(name, value).unwrap();
            why_idle(&options).unwrap()
        };
        let rating = said("OpponentRating", "1400");
        assert_eq!(rating, format!("OpponentRating has {reason}"));
        let both = said("OpponentWeights", "maia.pb.gz");
        assert_eq!(
            both,
            format!("OpponentRating and OpponentWeights have {reason}")
        );
        let weights = said("OpponentRating", "0");
        assert_eq!(weights, format!("OpponentWeights has {reason}"));
    }

    #[test]
    fn a_network_that_reads_the_engine_s_side_needs_one() {
        let mut options = Options::default();
        assert_eq!(why_side_is_missing(&options, true), None);
        options.set("ContemptMode", "disable").unwrap();
        assert!(why_side_is_missing(&options, true).is_some());
        assert_eq!(why_side_is_missing(&options, false), None);
    }
}
