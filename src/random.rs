//! Random choices that several modules need.

use rand::{Rng, RngExt};

/// Draws an index with probability proportional to its weight; weights of 0 or less are never drawn. `None` if there is
/// no positive weight.
pub fn weighted_index(
    weights: impl Iterator<Item = f64> + Clone,
    rng: &mut impl Rng,
) -> Option<usize> {
    let mut rest = rng.random::<f64>() * weights.clone().sum::<f64>();
    let mut chosen = None;
    for (index, weight) in weights.enumerate().filter(|(_, weight)| *weight > 0.0) {
        chosen = Some(index);
        rest -= weight;
        if rest < 0.0 {
            break;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

    use super::*;

    #[test]
    fn indices_come_in_proportion_to_their_weights() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let weights = [1.0, 0.0, 3.0, -2.0_f64];
        let weights = weights.map(|weight| weight.max(0.0));
        let mut counts = [0; 4];
        for _ in 0..4000 {
            counts[weighted_index(weights.iter().copied(), &mut rng).unwrap()] += 1;
        }
        assert_eq!((counts[1], counts[3]), (0, 0));
        // 1000 expected, with a standard deviation of 27.
        assert!((890..=1110).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn no_index_is_drawn_without_weights() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        assert_eq!(weighted_index([0.0, 0.0].into_iter(), &mut rng), None);
        assert_eq!(weighted_index(std::iter::empty(), &mut rng), None);
    }
}
