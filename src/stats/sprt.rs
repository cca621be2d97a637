//! The sequential probability ratio test: only as many games as needed to decide between two hypotheses.
//!
//! The ratio is that of the generalised test: of each hypothesis, the distribution of results that explains the counts
//! best is taken (M. Van den Bergh, "Comparing the approximations for the generalized log likelihood ratio of a
//! multinomial distribution", <https://www.cantate.be/Fishtest/comparing_approximations.pdf>, proposition 1.1, and
//! "Comments on normalized Elo", section 4.1). The bounds are Wald's.

use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use super::elo::{self, Counts, NELO, mean_and_variance};

/// Count of a result that never occurred, so that its logarithm exists.
const UNSEEN_COUNT: f64 = 1e-3;

/// The unit of the hypotheses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Elo: the mean score.
    #[default]
    Logistic,
    /// Normalised Elo: the mean score in standard deviations of a game, which decides how many games it takes.
    Normalized,
}

/// A test of `elo1` against `elo0` for the first side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sprt {
    /// H0: the difference is at most this.
    pub elo0: f64,
    /// H1: it is at least this.
    pub elo1: f64,
    /// Probability of accepting H1 when H0 is true.
    pub alpha: f64,
    /// Probability of accepting H0 when H1 is true.
    pub beta: f64,
    /// The unit of both.
    pub model: Model,
}

/// The state of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SprtVerdict {
    /// The ratio has reached the lower bound.
    H0,
    /// It has reached the upper bound.
    H1,
    /// Neither: more games are needed.
    Continue,
}

/// Errors in the text of a test.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SprtError {
    /// Not four numbers.
    #[error("four numbers are expected: elo0,elo1,alpha,beta, such as 0,5,0.05,0.05")]
    Form,
    /// The hypotheses are in the wrong order.
    #[error("elo0 must be smaller than elo1, and both from -1000 to 1000")]
    Order,
    /// The error probabilities are invalid.
    #[error("alpha and beta must be above 0, and together below 1")]
    Chances,
    /// The hypotheses are too far from 0 for the model.
    #[error("elo0 and elo1 of the normalized model must be from -200 to 200")]
    Distance,
}

/// The largest difference that is tested: scores of far larger ones are 1 in floating point.
const MAX_ELO: f64 = 1000.0;
/// The largest of the normalised model: from some 240 on no results of pairs meet the condition that it is linearised
/// to.
const MAX_NORMALIZED_ELO: f64 = 200.0;

impl FromStr for Sprt {
    type Err = SprtError;

    fn from_str(text: &str) -> Result<Sprt, SprtError> {
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|n| n.trim().parse()).collect();
        let [elo0, elo1, alpha, beta] = numbers.map_err(|_| SprtError::Form)?[..] else {
            return Err(SprtError::Form);
        };
        if !(elo0 < elo1 && elo0.abs().max(elo1.abs()) <= MAX_ELO) {
            return Err(SprtError::Order);
        }
        if !(alpha > 0.0 && beta > 0.0 && alpha + beta < 1.0) {
            return Err(SprtError::Chances);
        }
        Ok(Sprt {
            elo0,
            elo1,
            alpha,
            beta,
            model: Model::Logistic,
        })
    }
}

impl Sprt {
    /// The test with its hypotheses in another unit.
    ///
    /// # Errors
    /// When they are too large for it.
    pub fn with_model(self, model: Model) -> Result<Sprt, SprtError> {
        let largest = self.elo0.abs().max(self.elo1.abs());
        if model == Model::Normalized && largest > MAX_NORMALIZED_ELO {
            return Err(SprtError::Distance);
        }
        Ok(Sprt { model, ..self })
    }

    /// The log likelihood ratios at which H0 and H1 are accepted.
    pub fn bounds(&self) -> (f64, f64) {
        let lower = (self.beta / (1.0 - self.alpha)).ln();
        (lower, ((1.0 - self.beta) / self.alpha).ln())
    }

    /// The verdict at a ratio.
    pub fn verdict(&self, ratio: f64) -> SprtVerdict {
        let (lower, upper) = self.bounds();
        if ratio >= upper {
            SprtVerdict::H1
        } else if ratio <= lower {
            SprtVerdict::H0
        } else {
            SprtVerdict::Continue
        }
    }

    /// The log likelihood ratio of H1 to H0 for these results; 0 without any.
    pub fn ratio<const N: usize>(&self, counts: &Counts<N>) -> f64 {
        if counts.total() == 0 {
            return 0.0;
        }
        let seen = counts
            .0
            .map(|n| if n == 0 { UNSEEN_COUNT } else { n as f64 });
        let total: f64 = seen.iter().sum();
        let share = seen.map(|n| n / total);
        let of = |difference: f64| match self.model {
            Model::Logistic => with_mean(&share, elo::score(difference)),
            Model::Normalized => {
                // The variance of the mean of a sample's games is smaller than that of one game.
                let distance = difference / NELO * Counts::<N>::games_each().sqrt();
                with_distance(&share, distance)
            }
        };
        let (h0, h1) = (of(self.elo0), of(self.elo1));
        let gain = |index: usize| share[index] * (h1[index] / h0[index]).ln();
        total * (0..N).map(gain).sum::<f64>()
    }
}

/// The most likely distribution for observed shares among those with this mean score (equations 1.2 and 1.3).
fn with_mean<const N: usize>(share: &[f64; N], mean: f64) -> [f64; N] {
    tilt(share, &Counts::<N>::scores().map(|score| score - mean))
}

/// The most likely distribution among those whose mean is `distance` standard deviations above a draw: the condition
/// is linearised at the last distribution and iterated until it converges (equation 4.9).
fn with_distance<const N: usize>(share: &[f64; N], distance: f64) -> [f64; N] {
    let scores = Counts::<N>::scores();
    let mut current = [1.0 / N as f64; N];
    for _ in 0..100 {
        let (mean, variance) = mean_and_variance(&scores, &current);
        let deviation = variance.sqrt();
        let condition = scores.map(|score| {
            let z = (score - mean) / deviation;
            score - 0.5 - 0.5 * distance * deviation * (1.0 + z * z)
        });
        let next = tilt(share, &condition);
        let change = next.iter().zip(&current).map(|(a, b)| (a - b).abs());
        let largest = change.fold(0.0, f64::max);
        current = next;
        if largest < 1e-10 {
            break;
        }
    }
    current
}

/// The most likely distribution under which `condition` has the mean 0: `share / (1 + theta condition)`, where theta
/// is found by bisection, because the mean decreases with it.
fn tilt<const N: usize>(share: &[f64; N], condition: &[f64; N]) -> [f64; N] {
    let least = condition.iter().copied().fold(f64::INFINITY, f64::min);
    let most = condition.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut low, mut high) = (-1.0 / most, -1.0 / least);
    let tilted = |theta: f64| -> [f64; N] {
        std::array::from_fn(|index| share[index] / (1.0 + theta * condition[index]))
    };
    for _ in 0..100 {
        let theta = f64::midpoint(low, high);
        let mean: f64 = tilted(theta)
            .iter()
            .zip(condition)
            .map(|(p, c)| p * c)
            .sum();
        if mean > 0.0 {
            low = theta;
        } else {
            high = theta;
        }
    }
    tilted(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests {
    use super::super::elo::{Games, Pairs, tests::FASTCHESS};
    use super::*;

    #[test]
    fn ratios_equal_those_of_fastchess() {
        for row in FASTCHESS {
            for (bounds, expected) in [(0.0, 5.0), (-3.0, 1.0), (0.0, 20.0)]
                .iter()
                .zip(row.ratios)
            {
                let mut test: Sprt = format!("{},{},0.05,0.05", bounds.0, bounds.1)
                    .parse()
                    .unwrap();
                let mut found = Vec::new();
                for model in [Model::Logistic, Model::Normalized] {
                    test.model = model;
                    found.push(test.ratio(&Counts(row.pairs)));
                    found.push(test.ratio(&Counts(row.games)));
                }
                for (found, expected) in found.iter().zip(expected) {
                    // It solves for theta to 1e-3, which moves a ratio by less than 1e-4, and prints two places.
                    let tolerance = 1e-4;
                    assert!((found - expected).abs() < tolerance, "{found} {expected}");
                }
            }
        }
    }

    /// At the largest hypotheses, too.
    #[test]
    fn ratios_are_finite_whatever_the_results() {
        let counts = [0, 1, 7, 300];
        for (model, bounds) in [(Model::Logistic, 1000), (Model::Normalized, 200)] {
            let test: Sprt = format!("-{bounds},{bounds},0.05,0.05").parse().unwrap();
            let test = test.with_model(model).unwrap();
            for index in 1..4usize.pow(5) {
                let count = |place: u32| counts[index / 4usize.pow(place) % 4];
                let pairs: Pairs = Counts(std::array::from_fn(|place| count(place as u32)));
                let games: Games = Counts(std::array::from_fn(|place| count(place as u32)));
                for ratio in [test.ratio(&pairs), test.ratio(&games)] {
                    assert!(ratio.is_finite(), "{model:?} {pairs:?} {ratio}");
                }
            }
        }
        let wide: Sprt = "0,201,0.05,0.05".parse().unwrap();
        let refused = wide.with_model(Model::Normalized);
        assert_eq!(refused, Err(SprtError::Distance));
    }

    #[test]
    fn bounds_and_verdicts() {
        let test: Sprt = "0,5,0.05,0.1".parse().unwrap();
        let (lower, upper) = test.bounds();
        assert!((lower + 2.251_292).abs() < 1e-6 && (upper - 2.890_372).abs() < 1e-6);
        assert_eq!(test.verdict(upper), SprtVerdict::H1);
        assert_eq!(test.verdict(lower), SprtVerdict::H0);
        assert_eq!(test.verdict(0.0), SprtVerdict::Continue);
        assert_eq!(test.ratio(&Pairs::default()), 0.0);
        assert!(test.ratio(&Counts([0, 0, 0, 0, 50])) > test.ratio(&Counts([0, 0, 0, 0, 5])));
        assert!(test.ratio(&Counts([50, 0, 0]) as &Games) < 0.0);
    }

    #[test]
    fn invalid_tests_are_refused() {
        for (text, error) in [
            ("0,5", SprtError::Form),
            ("0,5,x,0.05", SprtError::Form),
            ("5,0,0.05,0.05", SprtError::Order),
            ("0,nan,0.05,0.05", SprtError::Order),
            ("0,5,0,0.05", SprtError::Chances),
            ("0,5,0.5,0.5", SprtError::Chances),
        ] {
            assert_eq!(text.parse::<Sprt>(), Err(error), "{text}");
        }
    }
}
