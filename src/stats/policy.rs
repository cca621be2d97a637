//! Statistics of searches at the root: the entropy of the visits, and how far the search departs from what the network
//! says without one, in its policy (surprise) and in its value.

use serde::Serialize;

use super::clusters::{ClusterMean, Spread, SpreadSummary};

/// Differences of W-L from which on shares are counted. The paper on search-contempt shows an error of 0.82 as a severe
/// one (figure 6).
pub const VALUE_ERRORS: [f64; 3] = [0.25, 0.5, 0.8];
/// Divergences of the visits from the priors, in nats, from which on shares are counted.
pub const DIVERGENCES: [f64; 3] = [0.5, 1.0, 2.0];

/// What a network says about a position without a search.
#[derive(Clone, Copy, Debug)]
pub struct NetworkOutput<'a> {
    /// The priors of the moves, in the order of their visits. A move with visits has a prior above 0.
    pub priors: &'a [f32],
    /// W-L for the side to move.
    pub wl: f64,
}

/// The measures of one search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    entropy: f64,
    /// Divergence of the visits from the priors, and difference of the search's W-L from the network's.
    compared: Option<(f64, f64)>,
}

impl Measured {
    /// Measures a search: visits of the root's moves, W-L of the root and, if known, the network's output. `None`
    /// without visits.
    pub fn new(visits: &[u32], wl: f64, network: Option<NetworkOutput<'_>>) -> Option<Measured> {
        let total: f64 = visits.iter().map(|&n| f64::from(n)).sum();
        if total == 0.0 {
            return None;
        }
        let shares = || visits.iter().map(|&n| f64::from(n) / total);
        let visited = |share: &f64| *share > 0.0;
        let compared = network.map(|network| {
            let sum: f64 = network.priors.iter().map(|&p| f64::from(p)).sum();
            let pairs = shares().zip(network.priors).filter(|(p, _)| *p > 0.0);
            let divergence = pairs
                .map(|(p, &prior)| p * (p * sum / f64::from(prior).max(f64::MIN_POSITIVE)).ln())
                .sum();
            (divergence, (network.wl - wl).abs())
        });
        Some(Measured {
            entropy: -shares().filter(visited).map(|p| p * p.ln()).sum::<f64>(),
            compared,
        })
    }
}

/// Distributions over the searches of games.
#[derive(Clone, Debug, PartialEq)]
pub struct Policies {
    entropy: ClusterMean,
    divergence: Spread,
    value_error: Spread,
}

impl Default for Policies {
    fn default() -> Policies {
        Policies {
            entropy: ClusterMean::default(),
            divergence: Spread::new(&DIVERGENCES),
            value_error: Spread::new(&VALUE_ERRORS),
        }
    }
}

/// The results of [`Policies`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicySummary {
    /// Positions with visits.
    pub positions: u64,
    /// Mean entropy of the visits' shares, in nats; 0 if every search visited only one move.
    pub entropy: f64,
    /// Kullback-Leibler divergence of the visits' shares from the priors, in nats; `None` without a network.
    pub divergence: Option<SpreadSummary>,
    /// Difference of W-L between the search and the network alone; `None` without a network.
    pub value_error: Option<SpreadSummary>,
}

impl Policies {
    /// Adds the searches of a game.
    pub fn add_game(&mut self, searches: &[Measured]) {
        let entropy = searches.iter().map(|search| search.entropy);
        self.entropy.add(searches.len(), entropy.sum());
        let compared = searches.iter().filter_map(|search| search.compared);
        let (divergences, errors): (Vec<f64>, Vec<f64>) = compared.unzip();
        self.divergence.add_game(&divergences);
        self.value_error.add_game(&errors);
    }

    /// Adds the positions of another file.
    pub fn append(&mut self, other: &Policies) {
        self.entropy.append(&other.entropy);
        self.divergence.append(&other.divergence);
        self.value_error.append(&other.value_error);
    }

    /// The distributions; `None` without positions.
    pub fn summary(&self) -> Option<PolicySummary> {
        Some(PolicySummary {
            positions: self.entropy.positions(),
            entropy: self.entropy.estimate()?.mean,
            divergence: self.divergence.summary(),
            value_error: self.value_error.summary(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_divergence_and_value_error() {
        assert_eq!(Measured::new(&[0, 0], 0.0, None), None);
        let mut policies = Policies::default();
        assert_eq!(policies.summary(), None);
        let network = NetworkOutput {
            priors: &[0.5, 0.25, 0.25],
            wl: 0.004,
        };
        policies.add_game(&[Measured::new(&[4, 4, 0], -0.82, Some(network)).unwrap()]);
        let one = policies.summary().unwrap();
        let ln2 = std::f64::consts::LN_2;
        assert!((one.entropy - ln2).abs() < 1e-12);
        // 1/2 ln(1) + 1/2 ln(2).
        let divergence = one.divergence.clone().unwrap();
        assert!((divergence.mean.mean - ln2 / 2.0).abs() < 1e-12);
        let value = one.value_error.clone().unwrap();
        assert!((value.mean.mean - 0.824).abs() < 1e-12);
        assert!(value.at_least.iter().all(|share| share.share.mean == 1.0));
        let mut other = Policies::default();
        other.add_game(&[Measured::new(&[9], 0.0, None).unwrap()]);
        policies.append(&other);
        let two = policies.summary().unwrap();
        assert!((two.entropy - ln2 / 2.0).abs() < 1e-12 && two.positions == 2);
        assert_eq!(
            (two.divergence, two.value_error),
            (one.divergence, one.value_error)
        );
    }
}
