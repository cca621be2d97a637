//! The limits of a search, as the user or the clock sets them.

use std::time::Duration;

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
    /// Time beyond the budget, for a search whose choice is still open then.
    pub bank: Option<Bank>,
    /// Mean depth of the visited leaves (`go depth`).
    pub depth: Option<u32>,
    /// A proven mate in at most this many moves (`go mate`).
    pub mate: Option<u32>,
    /// Memory of the tree, in bytes. A search that reaches it goes on with the positions that it knows.
    pub tree_bytes: Option<usize>,
    /// Search until stopped, even when the result is certain (`go infinite`, `go ponder`).
    pub infinite: bool,
}

impl Limits {
    /// The budget and all that is in the bank, if there is a budget.
    pub fn budget_and_bank(&self) -> Option<Duration> {
        let bank = self.bank.as_ref().map_or(Duration::ZERO, |bank| bank.time);
        self.budget.map(|budget| budget.saturating_add(bank))
    }

    /// Whether nothing but a mate ends the search, so that it may never end.
    pub fn are_only_a_mate(&self) -> bool {
        let mate = Limits {
            mate: self.mate,
            ..Limits::default()
        };
        self.mate.is_some() && *self == mate
    }

    /// The time after which the search ends, whatever it finds, if there is one.
    pub fn longest(&self) -> Option<Duration> {
        self.movetime
            .into_iter()
            .chain(self.budget_and_bank())
            .min()
    }
}

/// Time beyond the budget. The choice is open if the most visited move is not the one with the best value, or if another one is
/// about to overtake it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bank {
    /// How much there is.
    pub time: Duration,
    /// Time from the start of the search until which it is used whatever was found.
    pub forced: Duration,
    /// Time over which the pace of the root's moves is measured.
    pub period: Duration,
    /// What is expected of the best move's pace, as a multiple of what was measured.
    pub best_pace: f64,
    /// The same for the other moves.
    pub other_pace: f64,
}
