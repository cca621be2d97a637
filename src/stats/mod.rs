//! Statistics of games: what was won and how alike games are ([`games`]), how strong that makes one side ([`elo`],
//! [`sprt`]), how sure searches were of their moves ([`policy`]), and pages that show it ([`page`], [`plot`]), beside
//! what the [`paper`] says.
//!
//! Nothing here plays or reads games: it counts what it is given.

pub mod elo;
pub mod games;
pub mod page;
pub mod paper;
pub mod plot;
pub mod policy;
pub mod sprt;

/// The 97.5 % quantile of the normal distribution: intervals are of 95 %.
const Z95: f64 = 1.959_963_984_540_054;

/// The value in the middle, or between the two that are; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
    f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        for (values, expected) in [
            (&[][..], 0.0),
            (&[5.0], 5.0),
            (&[100.0, 1.0], 50.5),
            (&[9.0, 1.0, 2.0], 2.0),
            (&[4.0, 1.0, 2.0, 9.0], 3.0),
        ] {
            assert_eq!(median(values.to_vec()), expected, "{values:?}");
        }
    }
}
