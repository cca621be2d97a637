//! Counters of one search, and what remains of its node limits. Kept beside the tree, under the same lock.

use super::limits::Limits;

/// A search with this many visits for each that ended at a new open position, and so many besides, does not become
/// deeper.
const MOST_VISITS_FOR_ONE_NEW: u64 = 5;
const MIN_VISITS_TO_JUDGE: u64 = 10_000;

/// The progress of a search.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// Leaves claimed and not backed up yet, by all threads.
    pub claimed: u64,
    /// Visits completed.
    pub playouts: u64,
    depth_sum: u64,
    /// Those of the completed visits that ended at a position that was new and open, and the sum of their depths.
    open_visits: u64,
    open_depth_sum: u64,
    /// The deepest line, in plies.
    pub seldepth: u32,
    /// Tablebase probes that hit.
    pub tb_hits: u64,
    /// Positions that the network evaluated.
    pub evaluations: u64,
    /// Limits in visits of the root and new visits.
    nodes: u64,
    playout_limit: u64,
    /// Visits by which a root move may be behind the most visited one and still be searched.
    pub catch_up: u64,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new(&Limits::default())
    }
}

impl Progress {
    /// The state before the first visit.
    pub fn new(limits: &Limits) -> Progress {
        Progress {
            claimed: 0,
            playouts: 0,
            depth_sum: 0,
            open_visits: 0,
            open_depth_sum: 0,
            seldepth: 0,
            tb_hits: 0,
            evaluations: 0,
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

    /// Notes that the visit just counted ended at a new position whose result is open.
    pub fn note_open_visit(&mut self, depth: u32) {
        self.open_visits += 1;
        self.open_depth_sum += u64::from(depth);
    }

    /// Whether the search is as deep as `go depth` asks for: its visits are on average, or those that find something
    /// new are. Where nearly all visits end at a certain result near the root (the best move is a draw, say), neither
    /// may ever be so, and the search is as deep as it will be.
    pub fn has_depth(&self, depth: u32) -> bool {
        let open_depth = self.open_depth_sum / self.open_visits.max(1);
        self.mean_depth() >= depth
            || open_depth >= u64::from(depth)
            || self.playouts > MIN_VISITS_TO_JUDGE + MOST_VISITS_FOR_ONE_NEW * self.open_visits
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_that_of_all_visits_or_of_new_ones() {
        let after = |open: &[u32], others: u64, other_depth: u32| {
            let mut progress = Progress::default();
            for &depth in open {
                progress.add_visit(depth);
                progress.note_open_visit(depth);
            }
            for _ in 0..others {
                progress.add_visit(other_depth);
            }
            progress
        };
        let all = after(&[2, 2], 10, 6);
        assert!(all.has_depth(5) && !all.has_depth(6));
        // Many that end near the root say nothing about those that go on.
        let new = after(&[5; 100], 900, 1);
        assert!(new.mean_depth() == 1 && new.has_depth(5) && !new.has_depth(6));
        // With five visits for each new position, and ten thousand, it goes on.
        let most = MIN_VISITS_TO_JUDGE + MOST_VISITS_FOR_ONE_NEW * 1000;
        assert!(!after(&[5; 1000], most - 1000, 1).has_depth(6));
        assert!(after(&[5; 1000], most - 999, 1).has_depth(6));
    }

    #[test]
    fn claimed_leaves_reduce_the_visits_left() {
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
