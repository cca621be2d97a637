//! The players inside the program: how people of a rating choose their moves. `OpponentRating` names one, or `OpponentWeights`
//! does with `<built in human 1400>`.
//!
//! There are sparse networks for a few ratings; what lies between is mixed of the two next to it. They were taught by the
//! networks of the Maia project (McIlroy-Young et al., KDD 2020), see `networks/README.md`.

use std::sync::Arc;

use crate::network::{
    Evaluator,
    compose::{
        between::Between,
        role::{human_name, human_rating},
    },
};

/// A network for one rating.
struct Rated {
    rating: u32,
    bytes: &'static [u8],
}

/// By rating.
#[cfg(scorn_embedded_human)]
static RATED: &[Rated] = &[
    Rated {
        rating: 1100,
        bytes: include_bytes!("../../../networks/scorn-human-1100.onnx"),
    },
    Rated {
        rating: 1500,
        bytes: include_bytes!("../../../networks/scorn-human-1500.onnx"),
    },
    Rated {
        rating: 1900,
        bytes: include_bytes!("../../../networks/scorn-human-1900.onnx"),
    },
];
#[cfg(not(scorn_embedded_human))]
static RATED: &[Rated] = &[];

/// The bytes of a network inside the program, an ONNX model, if `weights` names one of these; none within if the program was
/// built without it.
pub(super) fn embedded(weights: &str) -> Option<Option<&'static [u8]>> {
    let rating = human_rating(weights)?;
    let rated = RATED.iter().find(|rated| rated.rating == rating);
    Some(rated.map(|rated| rated.bytes))
}

/// The two networks that a rating lies between, and the share of the second. Ratings beyond the first and the last are taken
/// as those.
fn neighbours(ratings: &[u32], rating: u32) -> Option<(usize, usize, f32)> {
    let last = ratings.len().checked_sub(1)?;
    let above = ratings.partition_point(|&known| known <= rating).min(last);
    let below = above.saturating_sub(1);
    let (low, high) = (ratings[below], ratings[above]);
    if low == high {
        return Some((below, above, 0.0));
    }
    let share = (rating.clamp(low, high) - low) as f32 / (high - low) as f32;
    Some((below, above, share))
}

/// The names of those two networks, and the share of the second; none if the program was built without them.
pub fn mixture(rating: u32) -> Option<([String; 2], f32)> {
    let ratings: Vec<u32> = RATED.iter().map(|rated| rated.rating).collect();
    let (low, high, share) = neighbours(&ratings, rating)?;
    Some(([low, high].map(|at| human_name(ratings[at])), share))
}

/// The networks that the one with this name is mixed of; `None` if it is no such name, or there are none.
pub fn parts(weights: &str) -> Option<[String; 2]> {
    let (names, _) = mixture(human_rating(weights)?)?;
    Some(names)
}

/// The player of a rating, without temperature, between two networks with these names, which `load` loads.
///
/// # Errors
/// What `load` returns.
pub(super) fn player<E>(
    rating: u32,
    (names, share): ([String; 2], f32),
    load: impl Fn(String) -> Result<Arc<dyn Evaluator>, E>,
) -> Result<Arc<dyn Evaluator>, E> {
    let [low, high] = names.map(load);
    let known = RATED.iter().map(|rated| rated.rating);
    let (least, most) = (known.clone().min(), known.max());
    let rating = rating.clamp(least.unwrap_or(rating), most.unwrap_or(rating));
    let low = low?;
    let name = format!("{}: a player rated {rating}", low.info().description);
    Ok(Arc::new(Between::new(low, high?, share, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_lie_between_their_neighbours() {
        let ratings = [1100, 1500, 1900];
        let all = [(900, 0, 0, 0.0), (1100, 0, 1, 0.0), (1200, 0, 1, 0.25)];
        let rest = [
            (1500, 1, 2, 0.0),
            (1800, 1, 2, 0.75),
            (1900, 1, 2, 1.0),
            (2500, 1, 2, 1.0),
        ];
        for (rating, low, high, share) in all.into_iter().chain(rest) {
            assert_eq!(
                neighbours(&ratings, rating),
                Some((low, high, share)),
                "{rating}"
            );
        }
        assert_eq!(neighbours(&[1500], 1200), Some((0, 0, 0.0)));
        assert_eq!(neighbours(&[], 1200), None);
    }
}
