//! Means over the positions of games.
//!
//! Positions of one game resemble each other, so the error of such a mean follows from the differences between games,
//! not from the number of positions: each game is a cluster, and the mean is the ratio of two sums over clusters (W. G.
//! Cochran, *Sampling Techniques*, section 6.4). Where all games agree nothing is known of their differences, and so no
//! error: a share that is 0 in all of a few games may well be larger.

use serde::Serialize;

use super::student;

/// A mean with its error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanEstimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % interval; `None` where games do not differ, as with only one.
    pub error: Option<f64>,
    /// The number of games.
    pub games: u64,
}

impl MeanEstimate {
    /// The ends of the 95 % interval; `None` if the error is unknown.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.error
            .map(|error| (self.mean - error, self.mean + error))
    }

    /// The most, with 95 % confidence, that a share may be which no game has any part of, as if each game had all or
    /// nothing: a larger one would have been seen (C. J. Clopper and E. S. Pearson, 1934; about 3 / games).
    pub fn unseen_share(&self) -> f64 {
        1.0 - libm::pow(0.05, 1.0 / self.games as f64)
    }
}

/// The mean of a quantity over the positions of games. Sums only, so that files can be counted apart and added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClusterMean {
    games: u64,
    /// Sums over games of the number of positions n and of the quantity's sum x: n, x, n², n x and x².
    n: f64,
    x: f64,
    nn: f64,
    nx: f64,
    xx: f64,
}

impl ClusterMean {
    /// Adds a game: the number of its positions, and the quantity's sum over them. Games without positions are ignored.
    pub fn add(&mut self, positions: usize, sum: f64) {
        if positions == 0 {
            return;
        }
        let n = positions as f64;
        self.games += 1;
        self.n += n;
        self.x += sum;
        self.nn += n * n;
        self.nx += n * sum;
        self.xx += sum * sum;
    }

    /// Adds the games of another file.
    pub fn append(&mut self, other: &ClusterMean) {
        self.games += other.games;
        self.n += other.n;
        self.x += other.x;
        self.nn += other.nn;
        self.nx += other.nx;
        self.xx += other.xx;
    }

    /// The number of positions.
    pub fn positions(&self) -> u64 {
        self.n as u64
    }

    /// The mean; `None` without positions.
    pub fn estimate(&self) -> Option<MeanEstimate> {
        if self.n == 0.0 {
            return None;
        }
        let mean = self.x / self.n;
        let squares = self.xx - 2.0 * mean * self.nx + mean * mean * self.nn;
        // What rounding leaves of nothing is no difference.
        let error = (self.games > 1 && squares > 1e-12 * self.xx).then(|| {
            let freedom = self.games - 1;
            let variance = squares * self.games as f64 / freedom as f64;
            student::quantile(freedom) * variance.sqrt() / self.n
        });
        Some(MeanEstimate {
            mean,
            error,
            games: self.games,
        })
    }
}

/// The distribution of a quantity over the positions of games: its mean, and the share of positions where it reaches
/// each of some thresholds.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    mean: ClusterMean,
    at_least: Vec<(f64, ClusterMean)>,
}

/// What a [`Spread`] says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpreadSummary {
    /// The number of positions.
    pub positions: u64,
    /// The mean.
    #[serde(flatten)]
    pub mean: MeanEstimate,
    /// The shares of positions at or above thresholds, which ascend.
    pub at_least: Vec<ShareAtLeast>,
}

/// The share of positions where a quantity reaches a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShareAtLeast {
    /// The threshold.
    pub threshold: f64,
    /// The share.
    #[serde(flatten)]
    pub share: MeanEstimate,
}

impl Spread {
    /// An empty distribution with these thresholds.
    pub fn new(thresholds: &[f64]) -> Spread {
        let empty = |&threshold: &f64| (threshold, ClusterMean::default());
        Spread {
            mean: ClusterMean::default(),
            at_least: thresholds.iter().map(empty).collect(),
        }
    }

    /// Adds a game: the quantity at each of its positions.
    pub fn add_game(&mut self, values: &[f64]) {
        self.mean.add(values.len(), values.iter().sum());
        for (threshold, share) in &mut self.at_least {
            let reached = values.iter().filter(|&value| value >= threshold).count();
            share.add(values.len(), reached as f64);
        }
    }

    /// Adds the games of another file, which has the same thresholds.
    pub fn append(&mut self, other: &Spread) {
        self.mean.append(&other.mean);
        for ((_, share), (_, more)) in self.at_least.iter_mut().zip(&other.at_least) {
            share.append(more);
        }
    }

    /// The mean and the shares; `None` without positions.
    pub fn summary(&self) -> Option<SpreadSummary> {
        let shares = self.at_least.iter().filter_map(|&(threshold, share)| {
            share
                .estimate()
                .map(|share| ShareAtLeast { threshold, share })
        });
        Some(SpreadSummary {
            positions: self.mean.positions(),
            mean: self.mean.estimate()?,
            at_least: shares.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

    use super::*;

    #[test]
    fn a_mean_is_one_over_positions_and_its_error_one_over_games() {
        let mut mean = ClusterMean::default();
        assert_eq!(mean.estimate(), None);
        mean.add(0, 0.0);
        assert_eq!(mean.estimate(), None);
        mean.add(4, 4.0);
        let alone = mean.estimate().unwrap();
        assert_eq!((alone.mean, alone.error), (1.0, None));
        assert_eq!((alone.interval(), alone.games), (None, 1));
        mean.add(4, 0.0);
        // Residuals 2 and -2 of eight positions: the variance is 2 (4 + 4) / 64, of one degree of freedom.
        let both = mean.estimate().unwrap();
        assert!((both.mean - 0.5).abs() < 1e-12);
        assert!((both.error.unwrap() - 12.706_204_736 * 0.5).abs() < 1e-6);
        let mut parts = [ClusterMean::default(); 2];
        parts[0].add(4, 4.0);
        parts[1].add(4, 0.0);
        let [mut first, second] = parts;
        first.append(&second);
        assert_eq!((first, first.positions()), (mean, 8));
    }

    /// Games of which a third consists of one kind of position only: the interval contains the true share in about 95
    /// of 100 samples, where one that took positions for independent would be several times too narrow.
    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut held = 0;
        for _ in 0..1000 {
            let mut mean = ClusterMean::default();
            for _ in 0..100 {
                let plies = rng.random_range(20..180);
                let is_of_that_kind = rng.random_range(0..3) == 0;
                mean.add(plies, if is_of_that_kind { plies as f64 } else { 0.0 });
            }
            let (low, high) = mean.estimate().unwrap().interval().unwrap();
            held += u32::from((low..=high).contains(&(1.0 / 3.0)));
        }
        assert!((920..=975).contains(&held), "{held}");
    }

    #[test]
    fn games_that_agree_have_no_error() {
        for each in [0.0, 0.1, 1.0] {
            let mut mean = ClusterMean::default();
            for plies in 20..79 {
                mean.add(plies, each * plies as f64);
            }
            let estimate = mean.estimate().unwrap();
            assert_eq!((estimate.error, estimate.games), (None, 59), "{each}");
            let json = serde_json::to_value(estimate).unwrap();
            assert!(json["error"].is_null());
            // 0.95 to the power of 59 is 0.0485.
            assert!((0.049..0.05).contains(&estimate.unseen_share()));
        }
    }

    #[test]
    fn shares_count_what_reaches_a_threshold() {
        let mut spread = Spread::new(&[0.5, 1.0]);
        assert_eq!(spread.summary(), None);
        spread.add_game(&[0.0, 0.5, 1.0, 2.5]);
        let mut more = Spread::new(&[0.5, 1.0]);
        more.add_game(&[0.1]);
        spread.append(&more);
        let summary = spread.summary().unwrap();
        assert_eq!(summary.positions, 5);
        assert!((summary.mean.mean - 4.1 / 5.0).abs() < 1e-12);
        let shares = summary
            .at_least
            .iter()
            .map(|at| (at.threshold, at.share.mean));
        assert_eq!(shares.collect::<Vec<_>>(), [(0.5, 0.6), (1.0, 0.4)]);
    }
}
