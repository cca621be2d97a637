//! The networks inside the program, and the values of `WeightsFile` and `OpponentWeights` that name them.
//!
//! Models of human players are named by a rating. There are sparse networks for a few ratings; a rating in between
//! mixes the two next to it. They were distilled from the networks of the Maia project (McIlroy-Young et al., KDD
//! 2020), see `networks/README.md`.

/// The value of `WeightsFile` that means the default network inside the program.
pub const BUILT_IN: &str = "<built in>";
/// The value of `WeightsFile` that means the dense network inside the program, which is stronger per node and slower.
pub const BUILT_IN_DENSE: &str = "<built in dense>";
/// The value of `WeightsFile` that means the sparse network inside the program, made for processors and the default.
pub const BUILT_IN_SPARSE: &str = "<built in sparse>";

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

/// A network that predicts the moves of human players of one rating.
struct HumanNetwork {
    rating: u32,
    bytes: &'static [u8],
}

/// By ascending rating.
#[cfg(feature = "networks")]
static HUMAN_NETWORKS: &[HumanNetwork] = &[
    HumanNetwork {
        rating: 1100,
        bytes: scorn_networks_human::HUMAN_1100,
    },
    HumanNetwork {
        rating: 1500,
        bytes: scorn_networks_human::HUMAN_1500,
    },
    HumanNetwork {
        rating: 1900,
        bytes: scorn_networks_human::HUMAN_1900,
    },
];
#[cfg(not(feature = "networks"))]
static HUMAN_NETWORKS: &[HumanNetwork] = &[];

/// A network inside the program.
pub(super) struct BuiltIn {
    /// Its name in messages.
    pub name: &'static str,
    /// An ONNX model; `None` if the program was built without it.
    pub bytes: Option<&'static [u8]>,
}

/// The network inside the program that `weights` names; `None` if `weights` names something else.
pub(super) fn find(weights: &str) -> Option<BuiltIn> {
    let (name, bytes) = match weights.trim() {
        "" | BUILT_IN => ("built in", SPARSE.or(DENSE)),
        BUILT_IN_DENSE => ("built in, dense", DENSE),
        BUILT_IN_SPARSE => ("built in, sparse", SPARSE),
        weights => {
            let rating = human_rating(weights)?;
            let network = HUMAN_NETWORKS
                .iter()
                .find(|network| network.rating == rating);
            ("built in, human", network.map(|network| network.bytes))
        }
    };
    Some(BuiltIn { name, bytes })
}

/// The bytes of the network inside the program that `weights` names: an ONNX model, or `None` within if the program was
/// built without it. `None` if `weights` names something else.
pub fn bytes(weights: &str) -> Option<Option<&'static [u8]>> {
    find(weights).map(|network| network.bytes)
}

/// Names of human models begin with this, have a rating and end with `>`.
const HUMAN: &str = "<built in human ";

/// The value of `OpponentWeights` that means the model of human players of this rating.
pub fn human_name(rating: u32) -> String {
    format!("{HUMAN}{rating}>")
}

/// The rating in such a value; `None` if it is something else.
pub fn human_rating(weights: &str) -> Option<u32> {
    let rest = weights.trim().strip_prefix(HUMAN)?;
    rest.strip_suffix('>')?.trim().parse().ok()
}

/// Two networks whose policies are mixed.
#[derive(Clone, Debug, PartialEq)]
pub struct HumanMixture {
    /// The names of the networks, the one of the lower rating first.
    pub networks: [String; 2],
    /// The share of the second in the policy, 0 to 1.
    pub share: f32,
    /// The rating, clamped to the range of the networks.
    pub rating: u32,
}

/// The networks between which the human model of this name lies; `None` if it is no such name, or the program was built
/// without them.
pub fn human_mixture(weights: &str) -> Option<HumanMixture> {
    let ratings: Vec<u32> = HUMAN_NETWORKS
        .iter()
        .map(|network| network.rating)
        .collect();
    let rating = human_rating(weights)?;
    let (low, high, share) = neighbours(&ratings, rating)?;
    Some(HumanMixture {
        networks: [low, high].map(|at| human_name(ratings[at])),
        share,
        rating: rating.clamp(*ratings.first()?, *ratings.last()?),
    })
}

/// The indices of the two ratings between which `rating` lies, and the share of the second. A rating beyond the first
/// or the last counts as that one.
fn neighbours(ratings: &[u32], rating: u32) -> Option<(usize, usize, f32)> {
    let last = ratings.len().checked_sub(1)?;
    let above = ratings
        .partition_point(|&network| network <= rating)
        .min(last);
    let below = above.saturating_sub(1);
    let (low, high) = (ratings[below], ratings[above]);
    if low == high {
        return Some((below, above, 0.0));
    }
    let share = (rating.clamp(low, high) - low) as f32 / (high - low) as f32;
    Some((below, above, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_lie_between_their_neighbours() {
        let ratings = [1100, 1500, 1900];
        for (rating, low, high, share) in [
            (900, 0, 0, 0.0),
            (1100, 0, 1, 0.0),
            (1200, 0, 1, 0.25),
            (1500, 1, 2, 0.0),
            (1800, 1, 2, 0.75),
            (1900, 1, 2, 1.0),
            (2500, 1, 2, 1.0),
        ] {
            let expected = Some((low, high, share));
            assert_eq!(neighbours(&ratings, rating), expected, "{rating}");
        }
        assert_eq!(neighbours(&[1500], 1200), Some((0, 0, 0.0)));
        assert_eq!(neighbours(&[], 1200), None);
    }

    #[test]
    fn names_of_human_models_hold_their_rating() {
        assert_eq!(human_rating(&human_name(1400)), Some(1400));
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
