//! The receiver of the engine's output, which writes it in the words of a protocol.

use std::sync::Arc;

use shakmaty::Chess;

use super::lost_games::Assessment;
use crate::{
    chess::PackedMove,
    options::Options,
    search::{MoveStat, Report},
};

/// What reports and answers refer to: the position and the options of the search.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The position.
    pub position: Chess,
    /// The options.
    pub options: Arc<Options>,
}

/// The answer to a search: the move to play, `None` if there is none, and the expected reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Answer {
    /// The move to play.
    pub best: Option<PackedMove>,
    /// The expected reply.
    pub ponder: Option<PackedMove>,
    /// What the search found out about the move; `None` without a search.
    pub assessment: Option<Assessment>,
}

/// Receives the engine's output, from several threads.
pub trait Listener: Send + Sync {
    /// A message for the user.
    fn note(&self, text: &str);
    /// All previous commands are done.
    fn ready(&self);
    /// The progress of a search.
    fn report(&self, subject: &Subject, report: &Report);
    /// Statistics of all moves at the root.
    fn move_stats(&self, subject: &Subject, stats: &[MoveStat]);
    /// The result of a search. Every search that was not silenced has exactly one.
    fn answer(&self, subject: &Subject, answer: Answer);
    /// The number of positions after a move (`go perft`).
    fn perft_move(&self, subject: &Subject, m: PackedMove, count: u64);
    /// The total number of positions.
    fn perft_total(&self, count: u64);
    /// Whether the output is closed.
    fn is_gone(&self) -> bool;
}
