//! The networks inside the program, and the values of `WeightsFile` and `OpponentWeights` that name them.
//!
//! Models of human players are named by a rating. One sparse network predicts the moves of all ratings: the rating is
//! an input. It was distilled from the networks of the Maia project (McIlroy-Young et al., KDD
//! 2020), see `networks/README.md`.

use std::ops::RangeInclusive;

/// The value of `WeightsFile` that means the default network inside the program.
pub const BUILT_IN: &str = "<built in>";
/// The value of `WeightsFile` that means the dense network inside the program, which is stronger per node and slower.
pub const BUILT_IN_DENSE: &str = "<built in dense>";
/// The value of `WeightsFile` that means the sparse network inside the program, made for processors and the default.
pub const BUILT_IN_SPARSE: &str = "<built in sparse>";

/// The value of `WeightsFile` that means the network inside the program that was trained on games in which it gives
/// odds.
pub const BUILT_IN_ODDS: &str = "<built in odds>";

/// The dense network inside the program.
#[cfg(feature = "networks")]
static DENSE: Option<&[u8]> = Some(include_bytes!("../../../networks/scorn-default.onnx"));
#[cfg(not(feature = "networks"))]
static DENSE: Option<&[u8]> = None;

/// The sparse network inside the program.
#[cfg(feature = "networks")]
static SPARSE: Option<&[u8]> = Some(scorn_network_sparse::SPARSE);
#[cfg(not(feature = "networks"))]
static SPARSE: Option<&[u8]> = None;

/// The network inside the program that predicts the moves of human players, for all ratings.
#[cfg(feature = "networks")]
static HUMAN: Option<&[u8]> = Some(scorn_networks_human::HUMAN);
#[cfg(not(feature = "networks"))]
static HUMAN: Option<&[u8]> = None;

/// The value of the network for games at odds; its policy is that of [`SPARSE`].
#[cfg(feature = "networks")]
static ODDS: Option<&[u8]> = Some(scorn_network_odds::ODDS);
#[cfg(not(feature = "networks"))]
static ODDS: Option<&[u8]> = None;

/// A network inside the program.
pub(super) struct BuiltIn {
    /// Its name in messages.
    pub name: String,
    /// An ONNX model; `None` if the program was built without it.
    pub bytes: Option<&'static [u8]>,
    /// The rating of the human players, if it predicts their moves.
    pub rating: Option<u32>,
    /// The network whose policy it has, if it holds a value only.
    pub policy: Option<&'static [u8]>,
}

/// The network inside the program that `weights` names; `None` if `weights` names something else.
pub(super) fn find(weights: &str) -> Option<BuiltIn> {
    let (name, bytes) = match weights.trim() {
        "" | BUILT_IN => ("built in", SPARSE.or(DENSE)),
        BUILT_IN_DENSE => ("built in, dense", DENSE),
        BUILT_IN_SPARSE => ("built in, sparse", SPARSE),
        BUILT_IN_ODDS => ("built in, for games at odds", ODDS),
        weights => {
            let rating = human_rating(weights)?;
            return Some(BuiltIn {
                name: format!("built in, human: a player rated {rating}"),
                bytes: HUMAN,
                rating: Some(rating),
                policy: None,
            });
        }
    };
    Some(BuiltIn {
        name: name.to_owned(),
        bytes,
        rating: None,
        policy: SPARSE.filter(|_| weights.trim() == BUILT_IN_ODDS),
    })
}

/// The bytes of the network inside the program that `weights` names: an ONNX model, or `None` within if the program was
/// built without it. `None` if `weights` names something else.
pub fn bytes(weights: &str) -> Option<Option<&'static [u8]>> {
    find(weights).map(|network| network.bytes)
}

/// Names of human models begin with this, have a rating and end with `>`.
const HUMAN_PREFIX: &str = "<built in human ";
/// The ratings that the model was trained on; others count as the nearest of these.
pub const HUMAN_RATINGS: RangeInclusive<u32> = 1100..=2600;

/// The value of `OpponentWeights` that means the model of human players of this rating.
pub fn human_name(rating: u32) -> String {
    format!("{HUMAN_PREFIX}{rating}>")
}

/// The rating in such a value, clamped to the range of the model; `None` if it is something else.
pub fn human_rating(weights: &str) -> Option<u32> {
    let rest = weights.trim().strip_prefix(HUMAN_PREFIX)?;
    let rating: u32 = rest.strip_suffix('>')?.trim().parse().ok()?;
    Some(rating.clamp(*HUMAN_RATINGS.start(), *HUMAN_RATINGS.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_human_models_hold_their_rating() {
        assert_eq!(human_rating(&human_name(1400)), Some(1400));
        assert_eq!(human_rating(&human_name(700)), Some(1100));
        assert_eq!(human_rating(&human_name(2900)), Some(2600));
        for other in [
            "",
            "<built in>",
            "<built in human>",
            "<built in human x>",
            "1400",
        ] {
            assert_eq!(human_rating(other), None, "{other}");
        }
    }
}
