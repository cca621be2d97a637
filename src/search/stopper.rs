//! When a search ends: a limit is reached, the result is certain, or going on would change nothing.

use std::time::Duration;

use super::{
    job::Job, limits::Limits, report::Score, root::score, state::SearchState, tree::node::Node,
};
use crate::options::Options;

/// Time after the first evaluation from which on the speed is trusted to predict what is still possible.
const SETTLING_TIME: Duration = Duration::from_millis(200);

/// Children of a root with fewer visits than this tell too little about information gain.
const KLD_MINIMUM_VISITS: u32 = 10;

/// Decides after each batch whether the search goes on.
#[derive(Debug)]
pub(super) struct Stopper {
    limits: Limits,
    /// Smart pruning's factor; 0 turns it off.
    pruning_factor: f64,
    minimum_kld_gain: f32,
    kld_interval: u64,
    kld_previous: Vec<(u8, u32)>,
    kld_visits: u32,
    /// Time and visits when the first batch was done.
    first: Option<(Duration, u64)>,
}

impl Stopper {
    /// For one search.
    pub fn new(job: &Job) -> Stopper {
        let options: &Options = &job.options;
        Stopper {
            limits: job.limits.clone(),
            pruning_factor: f64::from(options.smart_pruning_factor),
            minimum_kld_gain: options.minimum_kldgain_per_node,
            kld_interval: options.kldgain_average_interval,
            kld_previous: Vec::new(),
            kld_visits: 0,
            first: None,
        }
    }

    /// Whether the search is over, `elapsed` after its start. Also tells selection which root moves are past hope.
    pub fn is_over(&mut self, state: &mut SearchState, elapsed: Duration) -> bool {
        let bytes = self.limits.tree_bytes;
        state.is_at_memory_limit = bytes.is_some_and(|bytes| state.tree.memory() >= bytes);
        let first = *self.first.get_or_insert((elapsed, state.progress.playouts));
        if self.is_limit_reached(state, elapsed) {
            return true;
        }
        if self.limits.infinite {
            return false;
        }
        self.is_decided(state)
            || self.is_hopeless_to_change(state, elapsed, first)
            || self.gains_nothing(state)
    }

    fn is_limit_reached(&self, state: &SearchState, elapsed: Duration) -> bool {
        let limits = &self.limits;
        let is_past = |limit: Option<Duration>| limit.is_some_and(|limit| elapsed >= limit);
        let progress = &state.progress;
        let has_visits_left = progress.visits_left(state.root().n) > 0 || progress.claimed > 0;
        !has_visits_left
            || is_past(limits.movetime)
            || is_past(limits.budget)
            || limits
                .depth
                .is_some_and(|depth| progress.playouts > 1 && progress.mean_depth() >= depth)
            || limits.mate.is_some_and(|moves| has_mate(state, moves))
    }

    /// A certain result, of the moves that are allowed, or (in a game) only one move that can be played.
    fn is_decided(&self, state: &SearchState) -> bool {
        let root = state.root();
        if self.limits.mate.is_some() || self.pruning_factor == 0.0 {
            return false;
        }
        let moves = state.root_moves.len();
        let are_all_allowed = moves == usize::from(root.n_edges);
        let count = |is_wanted: fn(&Node) -> bool| {
            state
                .allowed_children()
                .filter(|child| is_wanted(child))
                .count()
        };
        if count(|child| child.bounds().result() == Some(1)) > 0
            || count(Node::is_proven) == moves
            || (are_all_allowed && root.is_proven())
        {
            return true;
        }
        let losing = count(|child| child.bounds().result() == Some(-1));
        self.limits.budget.is_some() && moves <= 1 + losing
    }

    /// Smart pruning, for searches that manage their time: the remaining visits cannot change the choice.
    fn is_hopeless_to_change(
        &self,
        state: &mut SearchState,
        elapsed: Duration,
        first: (Duration, u64),
    ) -> bool {
        let (Some(budget), true) = (self.limits.budget, self.pruning_factor > 0.0) else {
            return false;
        };
        let since_first = elapsed.saturating_sub(first.0);
        if since_first < SETTLING_TIME {
            return false;
        }
        let speed =
            state.progress.playouts.saturating_sub(first.1) as f64 / since_first.as_secs_f64();
        let remaining = speed * budget.saturating_sub(elapsed).as_secs_f64();
        let remaining = (remaining as u64).min(state.progress.visits_left(state.root().n));
        let catch_up = (remaining as f64 / self.pruning_factor) as u64;
        state.progress.catch_up = catch_up;
        let mut visits: Vec<u32> = state.contenders().map(|child| child.n).collect();
        visits.sort_unstable_by(|a, b| b.cmp(a));
        let lead = visits.first().copied().unwrap_or(0) - visits.get(1).copied().unwrap_or(0);
        u64::from(lead) > catch_up
    }

    /// The distribution of root visits has (nearly) stopped changing.
    fn gains_nothing(&mut self, state: &SearchState) -> bool {
        let root = state.root();
        let due = u64::from(root.n) >= u64::from(self.kld_visits) + self.kld_interval;
        if self.minimum_kld_gain <= 0.0 || !due || root.n < KLD_MINIMUM_VISITS {
            return false;
        }
        let now: Vec<(u8, u32)> = state
            .tree
            .children(root)
            .iter()
            .map(|child| (child.edge, child.n))
            .collect();
        let gain = kld_per_node(&self.kld_previous, &now);
        self.kld_previous = now;
        self.kld_visits = root.n;
        gain.is_some_and(|gain| gain < f64::from(self.minimum_kld_gain))
    }
}

/// Information gained per visit between two distributions of root visits (Kullback-Leibler divergence).
fn kld_per_node(before: &[(u8, u32)], now: &[(u8, u32)]) -> Option<f64> {
    let sum = |visits: &[(u8, u32)]| visits.iter().map(|&(_, n)| f64::from(n)).sum::<f64>();
    let (sum_before, sum_now) = (sum(before), sum(now));
    if sum_before == 0.0 || sum_now <= sum_before {
        return None;
    }
    let gain: f64 = before
        .iter()
        .filter(|&&(_, n)| n > 0)
        .filter_map(|&(edge, n)| {
            let now = now.iter().find(|&&(other, _)| other == edge)?.1;
            let p = f64::from(n) / sum_before;
            Some(p * (p / (f64::from(now) / sum_now)).ln())
        })
        .sum();
    Some(gain / (sum_now - sum_before))
}

fn has_mate(state: &SearchState, moves: u32) -> bool {
    state
        .allowed_children()
        .any(|child| matches!(score(child), Score::Mate(n @ 1..) if n.unsigned_abs() <= moves))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        chess::History,
        search::{
            progress::Progress,
            tree::node::{Bounds, Origin},
        },
    };

    const ROOT: Bounds = Bounds::OPEN;

    fn child(n: u32, bounds: Bounds) -> Node {
        let mut node = Node { n, ..Node::EMPTY };
        node.set_bounds(bounds, Origin::Children);
        node
    }

    /// Half of ten seconds is over, and 1000 visits are done: 1000 more can be.
    fn is_over(state: &mut SearchState) -> bool {
        let limits = Limits {
            budget: Some(Duration::from_secs(10)),
            ..Limits::default()
        };
        let job = Job::new(History::default(), limits.clone(), Arc::default());
        state.progress = Progress::new(&limits);
        let mut stopper = Stopper::new(&job);
        assert!(!stopper.is_over(state, Duration::ZERO));
        state.progress.playouts = 1000;
        stopper.is_over(state, Duration::from_secs(5))
    }

    #[test]
    fn a_lead_counts_only_if_its_move_can_be_played() {
        let lost = Bounds::exact(-1);
        let far_ahead = [child(6000, ROOT), child(500, ROOT), child(480, ROOT)];
        assert!(is_over(&mut SearchState::with_children(&far_ahead)));
        let refuted = [child(6000, lost), child(500, ROOT), child(480, ROOT)];
        assert!(!is_over(&mut SearchState::with_children(&refuted)));
        let mut excluded = SearchState::with_children(&far_ahead);
        excluded.allow(&[1, 2]);
        assert!(!is_over(&mut excluded));
    }

    #[test]
    fn results_of_moves_that_are_not_allowed_decide_nothing() {
        let won = [
            child(10, Bounds::exact(1)),
            child(10, ROOT),
            child(10, Bounds::exact(-1)),
            child(10, ROOT),
        ];
        assert!(is_decided(&SearchState::with_children(&won)));
        let mut tree = SearchState::with_children(&won);
        let root = tree.tree.root();
        tree.tree
            .node_mut(root)
            .set_bounds(Bounds::exact(-1), Origin::Children);
        tree.allow(&[1, 3]);
        assert!(!is_decided(&tree));
        tree.allow(&[1, 2]);
        assert!(is_decided(&tree), "only one move is left");
        tree.allow(&[0, 1]);
        assert!(is_decided(&tree));
    }

    fn is_decided(state: &SearchState) -> bool {
        let limits = Limits {
            budget: Some(Duration::from_secs(10)),
            ..Limits::default()
        };
        let job = Job::new(History::default(), limits, Arc::default());
        Stopper::new(&job).is_decided(state)
    }

    #[test]
    fn an_unchanged_distribution_gains_nothing() {
        assert_eq!(kld_per_node(&[], &[(0, 10)]), None);
        let still = kld_per_node(&[(0, 10), (1, 30)], &[(0, 20), (1, 60)]).unwrap();
        assert!(still.abs() < 1e-12);
        let moving = kld_per_node(&[(0, 10), (1, 30)], &[(0, 50), (1, 30)]).unwrap();
        assert!(moving > 1e-3);
    }
}
