//! When a search ends: limits given by the user, and reasons to end early.

use std::time::Duration;

use super::{Job, Score, node::Node, root::score, tree::Tree};
use crate::options::Options;

/// The limits of one search; all that are given count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Visits of the root, those of a reused tree included (`go nodes`).
    pub nodes: Option<u64>,
    /// New visits.
    pub playouts: Option<u64>,
    /// Time from the start of the search, never exceeded (`go movetime`).
    pub movetime: Option<Duration>,
    /// Time that the search should take if nothing is gained by going on; smart pruning may end it earlier.
    pub budget: Option<Duration>,
    /// Mean depth of the visited leaves (`go depth`).
    pub depth: Option<u32>,
    /// A proven mate in at most this many moves (`go mate`).
    pub mate: Option<u32>,
    /// Memory of the tree, in bytes.
    pub tree_bytes: Option<usize>,
    /// Search until stopped, even when the result is certain (`go infinite`, `go ponder`).
    pub infinite: bool,
}

/// Time after the first evaluation from which on the speed is trusted to predict what is still possible.
const SETTLING_TIME: Duration = Duration::from_millis(200);

/// Children of a root with fewer visits than this tell too little about information gain.
const KLD_MINIMUM_VISITS: u32 = 10;

/// What a search has done so far.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// Leaves claimed and not backed up yet, by all threads.
    pub claimed: u64,
    /// Visits completed.
    pub playouts: u64,
    depth_sum: u64,
    /// The deepest line, in plies.
    pub seldepth: u32,
    /// Tablebase probes that hit.
    pub tb_hits: u64,
    /// Limits in visits of the root and new visits.
    nodes: u64,
    playout_limit: u64,
    /// Visits by which a root move may be behind the first and still be searched.
    pub catch_up: u64,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new(&Limits::default())
    }
}

impl Progress {
    /// Nothing done yet.
    pub fn new(limits: &Limits) -> Progress {
        Progress {
            claimed: 0,
            playouts: 0,
            depth_sum: 0,
            seldepth: 0,
            tb_hits: 0,
            // Counters in the tree have 32 bits.
            nodes: limits
                .nodes
                .unwrap_or(u64::MAX)
                .clamp(1, u64::from(u32::MAX) - (1 << 20)),
            playout_limit: limits.playouts.unwrap_or(u64::MAX).max(1),
            catch_up: u64::MAX,
        }
    }

    /// Counts a completed visit that ended `depth` plies below the root.
    pub fn add_visit(&mut self, depth: u32) {
        self.playouts += 1;
        self.depth_sum += u64::from(depth);
        self.seldepth = self.seldepth.max(depth);
    }

    /// Visits that may still be started, when the root has `root_visits`.
    pub fn visits_left(&self, root_visits: u32) -> u64 {
        let nodes = self
            .nodes
            .saturating_sub(u64::from(root_visits) + self.claimed);
        let playouts = self
            .playout_limit
            .saturating_sub(self.playouts + self.claimed);
        nodes.min(playouts)
    }

    /// Mean depth of the leaves, in plies, at least 1.
    pub fn mean_depth(&self) -> u32 {
        (self.depth_sum / self.playouts.max(1)).max(1) as u32
    }
}

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
    pub fn is_over(&mut self, tree: &mut Tree, elapsed: Duration) -> bool {
        let first = *self.first.get_or_insert((elapsed, tree.progress.playouts));
        if self.is_limit_reached(tree, elapsed) {
            return true;
        }
        if self.limits.infinite {
            return false;
        }
        self.is_decided(tree)
            || self.is_hopeless_to_change(tree, elapsed, first)
            || self.gains_nothing(tree)
    }

    fn is_limit_reached(&self, tree: &Tree, elapsed: Duration) -> bool {
        let limits = &self.limits;
        let is_past = |limit: Option<Duration>| limit.is_some_and(|limit| elapsed >= limit);
        let progress = &tree.progress;
        let has_visits_left =
            progress.visits_left(tree.node(tree.root).n) > 0 || progress.claimed > 0;
        !has_visits_left
            || is_past(limits.movetime)
            || is_past(limits.budget)
            || limits
                .depth
                .is_some_and(|depth| progress.playouts > 1 && progress.mean_depth() >= depth)
            || limits
                .tree_bytes
                .is_some_and(|bytes| tree.memory() >= bytes)
            || limits.mate.is_some_and(|moves| has_mate(tree, moves))
    }

    /// A certain result, of the moves that are allowed, or (in a game) only one move that can be played.
    fn is_decided(&self, tree: &Tree) -> bool {
        let root = tree.node(tree.root);
        if self.limits.mate.is_some() || self.pruning_factor == 0.0 {
            return false;
        }
        let moves = tree.root_moves.len();
        let are_all_allowed = moves == usize::from(root.n_edges);
        let count = |is_wanted: fn(&Node) -> bool| {
            tree.allowed_children()
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
        tree: &mut Tree,
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
            tree.progress.playouts.saturating_sub(first.1) as f64 / since_first.as_secs_f64();
        let remaining = speed * budget.saturating_sub(elapsed).as_secs_f64();
        let remaining = (remaining as u64).min(tree.progress.visits_left(tree.node(tree.root).n));
        let catch_up = (remaining as f64 / self.pruning_factor) as u64;
        tree.progress.catch_up = catch_up;
        let mut visits: Vec<u32> = tree.contenders().map(|child| child.n).collect();
        visits.sort_unstable_by(|a, b| b.cmp(a));
        let lead = visits.first().copied().unwrap_or(0) - visits.get(1).copied().unwrap_or(0);
        u64::from(lead) > catch_up
    }

    /// The distribution of root visits has (nearly) stopped changing.
    fn gains_nothing(&mut self, tree: &Tree) -> bool {
        let root = tree.node(tree.root);
        let due = u64::from(root.n) >= u64::from(self.kld_visits) + self.kld_interval;
        if self.minimum_kld_gain <= 0.0 || !due || root.n < KLD_MINIMUM_VISITS {
            return false;
        }
        let now: Vec<(u8, u32)> = tree
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

fn has_mate(tree: &Tree, moves: u32) -> bool {
    tree.allowed_children()
        .any(|child| matches!(score(child), Score::Mate(n @ 1..) if n.unsigned_abs() <= moves))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        chess::History,
        search::node::{Bounds, Origin},
    };

    const ROOT: Bounds = Bounds::OPEN;

    fn child(n: u32, bounds: Bounds) -> Node {
        let mut node = Node { n, ..Node::EMPTY };
        node.set_bounds(bounds, Origin::Children);
        node
    }

    /// Half of ten seconds is over, and 1000 visits are done: 1000 more can be.
    fn is_over(tree: &mut Tree) -> bool {
        let limits = Limits {
            budget: Some(Duration::from_secs(10)),
            ..Limits::default()
        };
        let job = Job::new(History::default(), limits.clone(), Arc::default());
        tree.progress = Progress::new(&limits);
        let mut stopper = Stopper::new(&job);
        assert!(!stopper.is_over(tree, Duration::ZERO));
        tree.progress.playouts = 1000;
        stopper.is_over(tree, Duration::from_secs(5))
    }

    #[test]
    fn a_lead_counts_only_if_its_move_can_be_played() {
        let lost = Bounds::exact(-1);
        let far_ahead = [child(6000, ROOT), child(500, ROOT), child(480, ROOT)];
        assert!(is_over(&mut Tree::with_children(&far_ahead)));
        let refuted = [child(6000, lost), child(500, ROOT), child(480, ROOT)];
        assert!(!is_over(&mut Tree::with_children(&refuted)));
        let mut excluded = Tree::with_children(&far_ahead);
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
        assert!(is_decided(&Tree::with_children(&won)));
        let mut tree = Tree::with_children(&won);
        let root = tree.root();
        tree.node_mut(root)
            .set_bounds(Bounds::exact(-1), Origin::Children);
        tree.allow(&[1, 3]);
        assert!(!is_decided(&tree));
        tree.allow(&[1, 2]);
        assert!(is_decided(&tree), "only one move is left");
        tree.allow(&[0, 1]);
        assert!(is_decided(&tree));
    }

    fn is_decided(tree: &Tree) -> bool {
        let limits = Limits {
            budget: Some(Duration::from_secs(10)),
            ..Limits::default()
        };
        let job = Job::new(History::default(), limits, Arc::default());
        Stopper::new(&job).is_decided(tree)
    }

    #[test]
    fn an_unchanged_distribution_gains_nothing() {
        assert_eq!(kld_per_node(&[], &[(0, 10)]), None);
        let still = kld_per_node(&[(0, 10), (1, 30)], &[(0, 20), (1, 60)]).unwrap();
        assert!(still.abs() < 1e-12);
        let moving = kld_per_node(&[(0, 10), (1, 30)], &[(0, 50), (1, 30)]).unwrap();
        assert!(moving > 1e-3);
    }

    #[test]
    fn visits_left_count_what_is_claimed() {
        let mut progress = Progress::new(&Limits {
            nodes: Some(10),
            playouts: Some(5),
            ..Limits::default()
        });
        assert_eq!(progress.visits_left(2), 5);
        progress.claimed = 3;
        assert_eq!(progress.visits_left(2), 2);
        assert_eq!(progress.visits_left(9), 0);
    }
}
