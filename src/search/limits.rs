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
    /// Mean depth of the visited leaves (`go depth`).
    pub depth: Option<u32>,
    /// A proven mate in at most this many moves (`go mate`).
    pub mate: Option<u32>,
    /// Memory of the tree, in bytes. A search that reaches it goes on with the positions that it knows.
    pub tree_bytes: Option<usize>,
    /// Search until stopped, even when the result is certain (`go infinite`, `go ponder`).
    pub infinite: bool,
}
