//! Statistics of searches from the visits of the root's moves: the entropy of the visits, and their divergence from
//! the network's policy.

use serde::Serialize;

/// Means over positions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Policies {
    positions: u64,
    entropy: f64,
    compared: u64,
    divergence: f64,
}

/// The results of [`Policies`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PolicySummary {
    /// Positions with visits.
    pub positions: u64,
    /// Mean entropy of the visits' shares, in nats; 0 if every search visited only one move.
    pub entropy: f64,
    /// Mean Kullback-Leibler divergence of the visits' shares from the priors, in nats; `None` without priors.
    pub divergence: Option<f64>,
}

impl Policies {
    /// Adds a position: the visits of its moves and, if known, their priors in the same order. Positions without
    /// visits are ignored. A move with visits has a prior above 0.
    pub fn add(&mut self, visits: &[u32], priors: Option<&[f32]>) {
        let total: f64 = visits.iter().map(|&n| f64::from(n)).sum();
        if total == 0.0 {
            return;
        }
        let shares = || visits.iter().map(|&n| f64::from(n) / total);
        let visited = |share: &f64| *share > 0.0;
        self.positions += 1;
        self.entropy -= shares().filter(visited).map(|p| p * p.ln()).sum::<f64>();
        if let Some(priors) = priors {
            let sum: f64 = priors.iter().map(|&p| f64::from(p)).sum();
            let pairs = shares().zip(priors).filter(|(p, _)| *p > 0.0);
            self.compared += 1;
            self.divergence += pairs
                .map(|(p, &prior)| p * (p * sum / f64::from(prior).max(f64::MIN_POSITIVE)).ln())
                .sum::<f64>();
        }
    }

    /// Adds the positions of another file.
    pub fn append(&mut self, other: &Policies) {
        self.positions += other.positions;
        self.entropy += other.entropy;
        self.compared += other.compared;
        self.divergence += other.divergence;
    }

    /// The means; `None` without positions.
    pub fn summary(&self) -> Option<PolicySummary> {
        let mean = |sum: f64, count: u64| (count > 0).then(|| sum / count as f64);
        Some(PolicySummary {
            positions: self.positions,
            entropy: mean(self.entropy, self.positions)?,
            divergence: mean(self.divergence, self.compared),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_and_divergence() {
        let mut policies = Policies::default();
        assert_eq!(policies.summary(), None);
        policies.add(&[0, 0], None);
        assert_eq!(policies.summary(), None);
        policies.add(&[4, 4, 0], Some(&[0.5, 0.25, 0.25]));
        let one = policies.summary().unwrap();
        let ln2 = std::f64::consts::LN_2;
        assert!((one.entropy - ln2).abs() < 1e-12);
        // 1/2 ln(1) + 1/2 ln(2).
        assert!((one.divergence.unwrap() - ln2 / 2.0).abs() < 1e-12);
        policies.add(&[9], None);
        let two = policies.summary().unwrap();
        assert!((two.entropy - ln2 / 2.0).abs() < 1e-12 && two.positions == 2);
        assert_eq!(two.divergence, one.divergence);
    }
}
