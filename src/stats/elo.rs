//! Elo estimates from results, with error bars.
//!
//! Games are counted alone ([`Games`]) or, when each opening is played with both colours, in pairs ([`Pairs`]): the two
//! games of a pair are not independent of each other, so a pair is the unit whose spread is measured (the "pentanomial"
//! of M. Van den Bergh, <https://www.cantate.be/Fishtest/normalized_elo_practical.pdf>).

use serde::Serialize;

use super::{Z95, student};

/// Normalised Elo of a game whose expected score is one standard deviation above a draw: 800 / ln 10, so that both
/// scales agree for small differences when no game is drawn.
pub(super) const NELO: f64 = 800.0 / std::f64::consts::LN_10;

/// Frequencies of results, from worst to best for the first side; the results' scores are evenly spaced from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Counts<const N: usize>(#[serde(with = "array")] pub [u64; N]);

impl<const N: usize> Default for Counts<N> {
    fn default() -> Self {
        Counts([0; N])
    }
}

/// Single games: lost, drawn, won.
pub type Games = Counts<3>;

/// Pairs of games: 0, 1/2, 1, 3/2, 2 points.
pub type Pairs = Counts<5>;

impl<const N: usize> Counts<N> {
    /// Number of samples (games or pairs).
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Games in a sample: 1 or 2.
    pub(super) fn games_each() -> f64 {
        (N - 1) as f64 / 2.0
    }

    /// The score of each result, from 0 to 1.
    pub(super) fn scores() -> [f64; N] {
        std::array::from_fn(|index| index as f64 / (N - 1) as f64)
    }

    /// Mean score and variance of a sample; `None` without samples.
    pub fn mean_and_variance(&self) -> Option<(f64, f64)> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let share = self.0.map(|count| count as f64 / total as f64);
        Some(mean_and_variance(&Self::scores(), &share))
    }

    /// The estimate of the first side's strength; `None` without samples. The spread is known from the samples only, so
    /// errors and likelihoods are those of Student's distribution.
    pub fn estimate(&self) -> Option<Estimate> {
        let freedom = self.total().checked_sub(1)?;
        let cumulative = |t: f64| student::cumulative(t, freedom);
        self.estimate_by(freedom, student::quantile(freedom), cumulative)
    }

    /// The same as fastchess computes it, from the normal distribution: with few samples the errors are too small.
    pub fn fastchess_estimate(&self) -> Option<Estimate> {
        let cumulative = |z: f64| f64::midpoint(1.0, libm::erf(z / std::f64::consts::SQRT_2));
        self.estimate_by(self.total(), Z95, cumulative)
    }

    /// The estimate with errors from a distribution: the number by which the variance of samples is divided to give
    /// that of their mean, the 97.5 % quantile, and the probability of smaller values.
    fn estimate_by(
        &self,
        divisor: u64,
        quantile: f64,
        cumulative: impl Fn(f64) -> f64,
    ) -> Option<Estimate> {
        let (score, variance) = self.mean_and_variance()?;
        // Equal samples give no estimate of the error.
        let variance = if variance > 0.0 { variance } else { f64::NAN };
        let deviation = (variance / divisor as f64).sqrt();
        let margin = quantile * deviation;
        // Per game, as if the games of a sample were independent.
        let scale = NELO / (Self::games_each() * variance).sqrt();
        let nelo = |score: f64| score * scale;
        Some(Estimate {
            score,
            score_error: margin,
            elo: elo(score),
            elo_error: (elo(score + margin) - elo(score - margin)) / 2.0,
            elo_low: elo(score - margin),
            elo_high: elo(score + margin),
            nelo: nelo(score - 0.5),
            nelo_error: nelo(margin),
            los: cumulative((score - 0.5) / deviation),
        })
    }
}

/// A difference in strength, from the first side's point of view. Values are infinite or NaN where results do not
/// bound them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean score of a game, 0 to 1.
    pub score: f64,
    /// Half of the 95 % interval.
    pub score_error: f64,
    /// The score as a difference in Elo (logistic).
    pub elo: f64,
    /// Half of the 95 % interval.
    pub elo_error: f64,
    /// Lower end of the interval.
    pub elo_low: f64,
    /// Upper end of the interval.
    pub elo_high: f64,
    /// Normalised Elo: the score's distance from a draw in standard deviations of a game, scaled like Elo.
    pub nelo: f64,
    /// Half of the 95 % interval.
    pub nelo_error: f64,
    /// Likelihood of superiority: that the first side is the stronger one, 0 to 1.
    pub los: f64,
}

/// The difference in Elo of a score (0 to 1), the inverse of the logistic curve. Infinite at 0 and 1 and beyond.
pub fn elo(score: f64) -> f64 {
    // Adding 0 turns -0 into 0.
    0.0 - 400.0 * (1.0 / score.clamp(0.0, 1.0) - 1.0).log10()
}

/// The score of a difference in Elo.
pub fn score(elo: f64) -> f64 {
    1.0 / (1.0 + 10_f64.powf(-elo / 400.0))
}

/// Mean and variance of a distribution over scores.
pub(super) fn mean_and_variance<const N: usize>(scores: &[f64; N], share: &[f64; N]) -> (f64, f64) {
    let sum =
        |f: &dyn Fn(f64) -> f64| -> f64 { scores.iter().zip(share).map(|(s, p)| p * f(*s)).sum() };
    let mean = sum(&|s| s);
    (mean, sum(&|s| (s - mean).powi(2)))
}

/// serde supports arrays only up to fixed lengths.
mod array {
    use serde::{Serialize, Serializer};

    pub(super) fn serialize<S: Serializer, const N: usize>(
        counts: &[u64; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        counts.as_slice().serialize(serializer)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Counts with the output of fastchess (commit 74deac2): its classes `EloPentanomial`, `EloWDL` and `SPRT` were
    /// compiled unchanged and called with these counts (pairs LL, LD, WL + DD, WD, WW), alpha = beta = 0.05.
    pub struct Row {
        pub pairs: [u64; 5],
        pub games: [u64; 3],
        /// Elo, its error, normalised Elo, its error, likelihood of superiority in per cent.
        pub of_pairs: [f64; 5],
        pub of_games: [f64; 5],
        /// Log likelihood ratios for [0, 5], [-3, 1] and [0, 20]: logistic of pairs and games, normalised of pairs and
        /// games.
        pub ratios: [[f64; 4]; 3],
    }

    pub const FASTCHESS: [Row; 7] = [
        Row {
            pairs: [4, 22, 50, 30, 6],
            games: [40, 132, 52],
            of_pairs: [18.6305, 29.1061, 29.2478, 45.4986, 89.62],
            of_games: [18.6305, 29.2095, 29.1447, 45.4986, 89.53],
            ratios: [
                [0.36337, 0.36442, 0.24570, 0.24633],
                [0.35188, 0.35423, 0.22237, 0.22298],
                [0.78074, 0.78060, 0.70669, 0.70768],
            ],
        },
        Row {
            pairs: [0, 3, 12, 8, 1],
            games: [5, 31, 12],
            of_pairs: [51.0315, 52.6024, 97.5163, 98.2883, 97.41],
            of_games: [51.0315, 58.5247, 87.8162, 98.2883, 96.00],
            ratios: [
                [0.33610, 0.27180, 0.18207, 0.16444],
                [0.27591, 0.23152, 0.15007, 0.13697],
                [1.15927, 0.92936, 0.67741, 0.59976],
            ],
        },
        Row {
            pairs: [120, 1480, 4000, 1610, 131],
            games: [2020, 10490, 2172],
            of_pairs: [3.5971, 2.9669, 6.8143, 5.6199, 99.13],
            of_games: [3.5971, 3.0028, 6.7328, 5.6199, 99.06],
            ratios: [
                [2.39261, 2.33711, 2.62200, 2.57374],
                [8.00953, 7.82915, 3.79963, 3.76141],
                [-55.28637, -54.06541, -7.74308, -7.95293],
            ],
        },
        Row {
            pairs: [30, 10, 20, 12, 60],
            games: [85, 32, 147],
            of_pairs: [83.1465, 51.7245, 70.5751, 41.9103, 99.95],
            of_games: [83.1465, 40.4679, 89.9073, 41.9103, 100.00],
            ratios: [
                [0.59940, 0.98447, 0.71531, 0.92449],
                [0.50024, 0.82212, 0.60270, 0.77016],
                [2.17472, 3.56740, 2.53384, 3.36946],
            ],
        },
        Row {
            pairs: [0, 0, 12, 4, 0],
            games: [0, 28, 4],
            of_pairs: [43.6578, 37.5961, 141.8400, 120.3781, 98.95],
            of_games: [43.6578, 40.6362, 131.3183, 120.3781, 98.37],
            ratios: [
                [0.22852, 0.45699, 0.11211, 0.16020],
                [0.18467, 0.36931, 0.09304, 0.13104],
                [0.89360, 1.78710, 0.41460, 0.61125],
            ],
        },
        Row {
            pairs: [2, 5, 10, 5, 2],
            games: [14, 20, 14],
            of_pairs: [0.0, 73.4116, 0.0, 98.2883, 50.0],
            of_games: [0.0, 76.2710, 0.0, 98.2883, 50.0],
            ratios: [
                [-0.00917, -0.00852, -0.00497, -0.00497],
                [0.00294, 0.00273, 0.00159, 0.00159],
                [-0.14595, -0.13614, -0.07948, -0.07944],
            ],
        },
        Row {
            pairs: [17, 250, 540, 180, 9],
            games: [324, 1430, 238],
            of_pairs: [-15.0091, 7.8605, -29.1742, 15.2573, 0.01],
            of_games: [-15.0091, 8.0938, -28.3334, 15.2573, 0.01],
            ratios: [
                [-5.35145, -5.10064, -2.59432, -2.53552],
                [-3.45015, -3.27843, -1.84606, -1.79834],
                [-29.69983, -28.65911, -12.83547, -12.60972],
            ],
        },
    ];

    fn check<const N: usize>(counts: [u64; N], expected: [f64; 5]) {
        let found = Counts(counts).fastchess_estimate().unwrap();
        let found = [
            found.elo,
            found.elo_error,
            found.nelo,
            found.nelo_error,
            100.0 * found.los,
        ];
        for (index, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            let tolerance = if index == 4 { 0.005 } else { 0.0001 };
            assert!(
                (found - expected).abs() <= tolerance,
                "{counts:?}: {found} {expected}"
            );
        }
    }

    /// All results that this number of pairs of equal players may have, where this share of games is drawn, with their
    /// probabilities.
    fn results_of_equals(pairs: u64, drawn: f64) -> Vec<(Pairs, f64)> {
        let decided = (1.0 - drawn) / 2.0;
        let [ll, ld] = [decided * decided, 2.0 * decided * drawn];
        let chances = [ll, ld, 1.0 - 2.0 * (ll + ld), ld, ll];
        let mut results = vec![(Pairs::default(), 1.0)];
        for _ in 0..pairs {
            let mut more: Vec<(Pairs, f64)> = Vec::new();
            for (before, chance) in results {
                for (index, share) in chances.into_iter().enumerate() {
                    let mut counts = before;
                    counts.0[index] += 1;
                    match more.iter_mut().find(|(known, _)| *known == counts) {
                        Some((_, sum)) => *sum += chance * share,
                        None => more.push((counts, chance * share)),
                    }
                }
            }
            results = more;
        }
        results
    }

    /// Where results give an interval, it holds the truth in 95 of 100 matches, and a likelihood of superiority is
    /// beyond 1 or 99 % in two of 100; from the normal distribution it would be 86 and 13 with five pairs.
    #[test]
    fn few_pairs_are_as_certain_as_they_say() {
        for pairs in [5, 10] {
            for drawn in [0.2, 0.4, 0.5] {
                let [mut known, mut held, mut certain] = [0.0; 3];
                for (counts, chance) in results_of_equals(pairs, drawn) {
                    let estimate = counts.estimate().unwrap();
                    if estimate.los.is_nan() {
                        continue;
                    }
                    known += chance;
                    if (estimate.score - 0.5).abs() <= estimate.score_error + 1e-9 {
                        held += chance;
                    }
                    if (estimate.los - 0.5).abs() > 0.49 {
                        certain += chance;
                    }
                }
                let [held, certain] = [held / known, certain / known];
                assert!(known > 0.99, "{pairs} {drawn}: {known}");
                assert!((0.93..0.97).contains(&held), "{pairs} {drawn}: {held}");
                assert!(
                    (0.01..0.025).contains(&certain),
                    "{pairs} {drawn}: {certain}"
                );
            }
        }
    }

    #[test]
    fn elo_and_errors_equal_those_of_fastchess() {
        for row in FASTCHESS {
            check(row.pairs, row.of_pairs);
            check(row.games, row.of_games);
        }
    }

    #[test]
    fn scores_and_elo_are_each_others_inverse() {
        for difference in [-700.0, -35.0, 0.0, 1.0, 191.0] {
            assert!((elo(score(difference)) - difference).abs() < 1e-9);
        }
        assert_eq!(elo(1.0), f64::INFINITY);
        assert_eq!(elo(-0.5), f64::NEG_INFINITY);
    }

    #[test]
    fn few_games_give_finite_estimates() {
        assert_eq!(Pairs::default().estimate(), None);
        for (counts, elo) in [
            ([0, 0, 0, 0, 4], f64::INFINITY),
            ([3, 0, 0, 0, 0], f64::NEG_INFINITY),
            ([0, 0, 9, 0, 0], 0.0),
        ] {
            let all_same = Counts(counts).estimate().unwrap();
            assert_eq!(all_same.elo, elo);
            let bounds = [all_same.elo_error, all_same.elo_low, all_same.elo_high];
            assert!(bounds.iter().all(|bound| bound.is_nan()), "{all_same:?}");
            assert!(
                all_same.los.is_nan() && all_same.nelo.is_nan(),
                "{all_same:?}"
            );
        }
        let drawn = Counts([0, 9, 0]).estimate().unwrap();
        assert!(drawn.elo.is_sign_positive());
    }
}
