//! Statistics of games: results and repetitions ([`games`]), strength ([`elo`], [`sprt`]), what searches find that the
//! network does not know ([`policy`]), sacrifices and uneven material ([`tactics`]), the error of means over positions
//! ([`clusters`]), and the error of few samples (`student`); what the [`paper`] reports, to compare with.
//!
//! Nothing here plays or reads games.

pub mod clusters;
pub mod elo;
pub mod games;
pub mod paper;
pub mod policy;
pub mod sprt;
mod student;
pub mod tactics;

/// The 97.5 % quantile of the normal distribution, for 95 % intervals.
const Z95: f64 = 1.959_963_984_540_054;

/// The median; the mean of the middle two if the number is even, 0 if there are no values.
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
