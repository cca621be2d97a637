//! Regulates the number of decisive games per draw, (w+l)/d, by adjusting `ScLimit` between batches of games: figure
//! 5 of the paper on search-contempt, and the author's rule that d/2 < w+l < 2d. When the limit has settled, the
//! nodes per move can be doubled, and the limit rises further.
//!
//! Larger limits make fewer decisive games. In figure 2 the logarithm of the ratio falls by about 0.7 when that of
//! the limit grows by 1, and a step assumes that slope. A step is damped while the ratio is within the author's
//! bounds, where most of the difference is noise, and never exceeds a factor of 2, or of 4 where the ratio is outside
//! twice these bounds.
//!
//! A limit that no node reaches is plain PUCT, so the limit stays at or below the nodes per move: beyond them it would
//! grow without any effect, and a network that has become stronger would have to wait until it is back. Where plain
//! PUCT itself is more decisive than the target, no limit reaches it: this is reported ([`Step::is_out_of_reach`]), and
//! the nodes are doubled if they may be, which makes games less decisive.

use serde::{Deserialize, Serialize};

/// Decrease of the logarithm of the ratio per increase of the logarithm of the limit.
const SLOPE: f64 = 0.7;
/// Fraction of the step that is taken within the bounds.
const DAMPING: f64 = 0.4;
/// The limit has settled after this many batches in a row within the bounds...
const SETTLED_BATCHES: usize = 4;
/// ...in which it never differed from its present value by more than this factor, ...
const MAX_DRIFT: f64 = 1.6;
/// ...and the ratio over all their games differs from the target by at most this factor.
const MAX_RATIO_ERROR: f64 = 1.25;
/// Maximum limit where it is not the nodes: at odds.
const MAX_SC_LIMIT: f64 = 1_000_000.0;

/// The goal of the controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Decisive games per draw.
    pub target: f64,
    /// Games per batch.
    pub games: u64,
    /// Maximum nodes per move, if they are to be doubled.
    pub max_nodes: Option<u64>,
    /// Whether the limit may exceed the nodes: at odds it is also the number of nodes of the side that receives them.
    pub is_at_odds: bool,
}

/// A batch of games on the controller's path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Number of the batch, from 1.
    pub batch: usize,
    /// Nodes per move.
    pub nodes: u64,
    /// `ScLimit` of the batch.
    pub sc_limit: u32,
    /// Decisive games.
    pub decisive: u64,
    /// Drawn games.
    pub draws: u64,
    /// Decisive games per draw, with half a game added to both.
    pub ratio: f64,
    /// Whether the ratio is within half and twice the target.
    pub is_balanced: bool,
    /// Whether the limit has settled.
    pub is_settled: bool,
    /// Whether the last batches were plain PUCT, and still more decisive than the target.
    #[serde(default)]
    pub is_out_of_reach: bool,
    /// `ScLimit` of the next batch.
    pub next_sc_limit: u32,
    /// Nodes per move of the next batch.
    pub next_nodes: u64,
}

/// Adjusts `ScLimit` between batches.
#[derive(Clone, Debug)]
pub struct Controller {
    goal: Goal,
    /// Logarithm of the limit.
    log_limit: f64,
    nodes: u64,
    /// Number of batches with these nodes.
    since_doubling: usize,
    path: Vec<Step>,
}

impl Controller {
    /// A controller that starts with this limit and these nodes.
    pub fn new(goal: Goal, sc_limit: u32, nodes: u64) -> Controller {
        let mut controller = Controller {
            goal,
            log_limit: libm::log(f64::from(sc_limit.max(1))),
            nodes,
            since_doubling: 0,
            path: Vec::new(),
        };
        controller.log_limit = controller.log_limit.min(libm::log(controller.max_limit()));
        controller
    }

    /// The largest limit that has an effect.
    fn max_limit(&self) -> f64 {
        if self.goal.is_at_odds {
            MAX_SC_LIMIT
        } else {
            (self.nodes as f64).clamp(1.0, MAX_SC_LIMIT)
        }
    }

    /// The limit for the next batch.
    pub fn sc_limit(&self) -> u32 {
        libm::exp(self.log_limit)
            .round()
            .clamp(1.0, self.max_limit()) as u32
    }

    /// The nodes for the next batch.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// All batches so far.
    pub fn path(&self) -> &[Step] {
        &self.path
    }

    /// Updates the limit with the results of a batch.
    pub fn update(&mut self, decisive: u64, draws: u64) {
        let (sc_limit, nodes) = (self.sc_limit(), self.nodes);
        let ratio = (decisive as f64 + 0.5) / (draws as f64 + 0.5);
        let error = libm::log(ratio / self.goal.target);
        let bound = std::f64::consts::LN_2;
        let is_balanced = error.abs() < bound;
        let gain = if is_balanced { DAMPING } else { 1.0 };
        let most = if error.abs() < 2.0 * bound {
            bound
        } else {
            2.0 * bound
        };
        let step = (gain * error / SLOPE).clamp(-most, most);
        self.log_limit = (self.log_limit + step).clamp(0.0, libm::log(self.max_limit()));
        self.since_doubling += 1;
        self.path.push(Step {
            batch: self.path.len() + 1,
            nodes,
            sc_limit,
            decisive,
            draws,
            ratio,
            is_balanced,
            is_settled: false,
            is_out_of_reach: false,
            next_sc_limit: self.sc_limit(),
            next_nodes: nodes,
        });
        let (is_settled, is_out_of_reach) = (self.is_settled(), self.is_out_of_reach());
        let most = self.goal.max_nodes.unwrap_or(0);
        if (is_settled || is_out_of_reach) && self.nodes.saturating_mul(2) <= most {
            self.nodes *= 2;
            self.since_doubling = 0;
        }
        if let Some(last) = self.path.last_mut() {
            (last.is_settled, last.is_out_of_reach) = (is_settled, is_out_of_reach);
            last.next_nodes = self.nodes;
        }
    }

    /// The batches that decide whether the limit has settled, and their ratio divided by the target.
    fn recent(&self) -> Option<(&[Step], f64)> {
        if self.since_doubling < SETTLED_BATCHES {
            return None;
        }
        let recent = &self.path[self.path.len().saturating_sub(SETTLED_BATCHES)..];
        let sum = |of: fn(&Step) -> u64| recent.iter().map(of).sum::<u64>() as f64 + 0.5;
        let ratio = sum(|step| step.decisive) / sum(|step| step.draws) / self.goal.target;
        Some((recent, ratio))
    }

    fn is_settled(&self) -> bool {
        let now = f64::from(self.sc_limit());
        let is_near = |limit: u32| (now / MAX_DRIFT..=now * MAX_DRIFT).contains(&f64::from(limit));
        self.recent().is_some_and(|(recent, ratio)| {
            (1.0 / MAX_RATIO_ERROR..=MAX_RATIO_ERROR).contains(&ratio)
                && recent
                    .iter()
                    .all(|step| step.is_balanced && is_near(step.sc_limit))
        })
    }

    fn is_out_of_reach(&self) -> bool {
        let is_too_decisive = |step: &Step| {
            f64::from(step.sc_limit) >= self.max_limit() && step.ratio > self.goal.target
        };
        self.recent().is_some_and(|(recent, ratio)| {
            ratio > MAX_RATIO_ERROR && recent.iter().all(is_too_decisive)
        })
    }

    /// The path as JSON, one line per batch.
    ///
    /// # Errors
    /// When serialisation fails.
    pub fn lines(&self) -> serde_json::Result<String> {
        let mut text = String::new();
        for step in &self.path {
            text += &serde_json::to_string(step)?;
            text.push('\n');
        }
        Ok(text)
    }
}

/// Reads the output of [`Controller::lines`].
///
/// # Errors
/// When a line is not valid.
pub fn read_path(text: &str) -> serde_json::Result<Vec<Step>> {
    text.lines().map(serde_json::from_str).collect()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

    use super::*;
    use crate::stats::paper::DECISIVE_BY_LIMIT;

    /// The curve of figure 2, linear in the logarithms between its points; harder to balance with more nodes.
    fn response(sc_limit: u32, nodes: u64) -> f64 {
        let points = DECISIVE_BY_LIMIT;
        let x = (f64::from(sc_limit) / (nodes as f64 / 1000.0))
            .max(0.1)
            .ln();
        let index = points[1..5]
            .iter()
            .take_while(|(n, _): &&(f64, f64)| n.ln() < x)
            .count();
        let ((n0, r0), (n1, r1)): ((f64, f64), (f64, f64)) = (points[index], points[index + 1]);
        let along = (x - n0.ln()) / (n1.ln() - n0.ln());
        (r0.ln() + along * (r1.ln() - r0.ln())).exp()
    }

    fn simulate(controller: &mut Controller, batches: usize, seed: u64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..batches {
            let ratio = response(controller.sc_limit(), controller.nodes());
            let games = controller.goal.games;
            let is_decisive = |_: &u64| rng.random::<f64>() < ratio / (1.0 + ratio);
            let decisive = (0..games).filter(is_decisive).count() as u64;
            controller.update(decisive, games - decisive);
        }
    }

    fn goal(target: f64, max_nodes: Option<u64>) -> Goal {
        Goal {
            target,
            games: 100,
            max_nodes,
            is_at_odds: false,
        }
    }

    #[test]
    fn the_ratio_converges_from_any_start() {
        // The curve crosses 1 near 8, 0.5 near 21.
        for (target, start, low, high) in [
            (1.0, 1, 5.5, 10.5),
            (1.0, 5, 5.5, 10.5),
            (1.0, 1000, 5.5, 10.5),
            (0.5, 5, 15.0, 27.0),
        ] {
            for seed in 0..10 {
                let mut controller = Controller::new(goal(target, None), start, 1000);
                simulate(&mut controller, 60, seed);
                let late = &controller.path()[20..];
                let mean: f64 =
                    late.iter().map(|s| f64::from(s.sc_limit)).sum::<f64>() / late.len() as f64;
                assert!(
                    (low..=high).contains(&mean),
                    "{target} {start} {seed}: {mean}"
                );
                let decisive: u64 = late.iter().map(|step| step.decisive).sum();
                let draws: u64 = late.iter().map(|step| step.draws).sum();
                let ratio = decisive as f64 / draws as f64 / target;
                assert!(
                    (0.8..=1.25).contains(&ratio),
                    "{target} {start} {seed}: {ratio}"
                );
                assert!(late.iter().filter(|step| step.is_balanced).count() >= 36);
                assert!(late.iter().any(|step| step.is_settled));
            }
        }
    }

    #[test]
    fn nodes_double_when_the_limit_has_settled() {
        let mut controller = Controller::new(goal(1.0, Some(4000)), 5, 1000);
        simulate(&mut controller, 80, 3);
        let nodes: Vec<u64> = controller.path().iter().map(|step| step.nodes).collect();
        assert!(nodes.is_sorted());
        for (nodes, least) in [(1000, 4.0), (2000, 9.0), (4000, 18.0)] {
            let at: Vec<&Step> = controller
                .path()
                .iter()
                .filter(|s| s.nodes == nodes)
                .collect();
            assert!(at.len() >= SETTLED_BATCHES, "{nodes}");
            let last = at[at.len() - 1];
            assert!(f64::from(last.sc_limit) > least, "{nodes}: {last:?}");
            assert!(last.is_settled || nodes == 4000);
        }
        assert_eq!(controller.nodes(), 4000);
    }

    /// A network whose plain games are decisive, as weak networks' are, and which then learns: the ratio has to come
    /// back to the author's bounds within a few batches, and to stay there. A limit that had grown without effect in
    /// the meantime would need twice as many.
    #[test]
    fn a_network_that_learns_is_followed_from_out_of_reach_to_the_target() {
        for seed in 0..10 {
            let mut controller = Controller::new(goal(1.0, None), 5, 1000);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut play = |controller: &mut Controller, strength: f64, batches: usize| {
                for _ in 0..batches {
                    // Plain PUCT has the ratio 1 / strength; 0.6 is the slope below it.
                    let limit = f64::from(controller.sc_limit()) / 1000.0;
                    let ratio = limit.min(1.0).powf(-0.6) / strength;
                    let decisive = (0..100)
                        .filter(|_| rng.random::<f64>() < ratio / (1.0 + ratio))
                        .count() as u64;
                    controller.update(decisive, 100 - decisive);
                }
            };
            play(&mut controller, 0.2, 30);
            let weak = controller.path().last().unwrap();
            assert!(weak.is_out_of_reach && !weak.is_settled, "{seed}: {weak:?}");
            assert_eq!(weak.sc_limit, 1000);
            play(&mut controller, 12.0, 30);
            let (arriving, there) = controller.path()[30..].split_at(6);
            assert!(!arriving.iter().any(|step| step.is_out_of_reach));
            let balanced = there.iter().filter(|step| step.is_balanced).count();
            assert!(balanced >= 21, "{seed}: {balanced} of 24");
        }
    }

    #[test]
    fn nodes_double_where_plain_puct_is_too_decisive() {
        let mut controller = Controller::new(goal(1.0, Some(4000)), 5, 1000);
        for _ in 0..20 {
            controller.update(80, 20);
        }
        let nodes: Vec<u64> = controller.path().iter().map(|step| step.nodes).collect();
        assert!(nodes.is_sorted() && nodes.contains(&2000), "{nodes:?}");
        assert_eq!((controller.nodes(), controller.sc_limit()), (4000, 4000));
        // Without permission they stay.
        let mut fixed = Controller::new(goal(1.0, None), 5, 1000);
        for _ in 0..20 {
            fixed.update(80, 20);
        }
        assert_eq!((fixed.nodes(), fixed.sc_limit()), (1000, 1000));
    }

    #[test]
    fn extreme_results_stay_in_range_and_a_path_can_be_read() {
        let mut controller = Controller::new(goal(1.0, None), 0, 10);
        for _ in 0..5 {
            controller.update(0, 100);
        }
        assert_eq!(controller.sc_limit(), 1);
        for _ in 0..50 {
            controller.update(100, 0);
        }
        // Ten nodes: a limit of ten is plain PUCT.
        assert_eq!(controller.sc_limit(), 10);
        assert!(controller.path().last().unwrap().is_out_of_reach);
        let at_odds = Goal {
            is_at_odds: true,
            ..goal(1.0, None)
        };
        let mut at_odds = Controller::new(at_odds, 5, 10);
        for _ in 0..50 {
            at_odds.update(100, 0);
        }
        assert_eq!(at_odds.sc_limit(), 1_000_000);
        assert!(!at_odds.path().last().unwrap().is_settled);
        let lines = controller.lines().unwrap();
        assert_eq!(lines.lines().count(), 55);
        let path = read_path(&lines).unwrap();
        let counts = |step: &Step| (step.batch, step.draws, step.next_sc_limit);
        assert!(
            path.iter()
                .map(counts)
                .eq(controller.path().iter().map(counts))
        );
        assert_eq!((path[0].batch, path[0].draws), (1, 100));
        assert!(read_path(&lines[..lines.len() - 9]).is_err());
    }
}
