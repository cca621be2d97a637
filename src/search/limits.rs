//! The limits of a search, as the user or the clock sets them.

use std::time::Duration;

/// The limits of one search; the first one that is reached ends it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Visits of the root, those of a reused tree included (`go nodes`).
    pub nodes: Option<u64>,
    /// New visits.
    pub playouts: Option<u64>,
    /// Time from the start of the search, never exceeded (`go movetime`).
    pub movetime: Option<Duration>,
    /// Time that the search should take if it is not ended earlier by smart pruning.
    pub budget: Option<Duration>,
    /// Extra time beyond the budget, used while the choice of the move is still open.
    pub bank: Option<TimeBank>,
    /// Mean depth of the visits, or of those that found something new, in plies (`go depth`). A search that hardly
    /// finds anything new any more ends before.
    pub depth: Option<u32>,
    /// A proven mate in at most this many moves (`go mate`).
    pub mate: Option<u32>,
    /// Memory of the tree, in bytes. A search that reaches it continues without adding positions.
    pub tree_bytes: Option<usize>,
    /// Search until stopped, even when the result is certain (`go infinite`, `go ponder`).
    pub infinite: bool,
    /// Whether the opponent is to move and the search only prepares (`go ponder`): its own result is hardly used.
    pub pondering: bool,
}

impl Limits {
    /// Limits the visits of the root or, if `as_playouts`, new visits.
    pub fn set_nodes(&mut self, nodes: Option<u64>, as_playouts: bool) {
        if as_playouts {
            self.playouts = nodes;
        } else {
            self.nodes = nodes;
        }
    }

    /// The budget plus the bank, if there is a budget.
    pub fn budget_and_bank(&self) -> Option<Duration> {
        let bank = self.bank.as_ref().map_or(Duration::ZERO, |bank| bank.time);
        self.budget.map(|budget| budget.saturating_add(bank))
    }

    /// Whether only a mate ends the search, so that it may never end.
    pub fn is_mate_only(&self) -> bool {
        let mate = Limits {
            mate: self.mate,
            ..Limits::default()
        };
        self.mate.is_some() && *self == mate
    }

    /// The time after which the search ends in any case, if there is one.
    pub fn max_time(&self) -> Option<Duration> {
        self.movetime
            .into_iter()
            .chain(self.budget_and_bank())
            .min()
    }
}

/// Time beyond the budget. The choice is open if the most visited move is not the one with the best value, or if
/// another move is about to overtake it.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeBank {
    /// How much extra time there is.
    pub time: Duration,
    /// Time from the start of the search until which the bank is used whatever was found.
    pub forced: Duration,
    /// Time over which the growth of the root moves' visits is measured.
    pub period: Duration,
    /// Expected pace of the best move, as a multiple of the measured pace.
    pub best_pace: f64,
    /// Expected pace of the other moves, as a multiple of the measured pace.
    pub other_pace: f64,
}
