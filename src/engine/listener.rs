//! Who hears what the engine has to say: it tells, and the listener finds the words.

use std::sync::Arc;

use shakmaty::Chess;

use crate::{
    chess::PackedMove,
    options::Options,
    search::{MoveStat, Report},
};

/// What reports and answers are about: the position that was asked about, and the options when it was.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The position.
    pub position: Chess,
    /// The options.
    pub options: Arc<Options>,
}

/// The answer to a search: the move to play, `None` if there is none, and the expected reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The move to play.
    pub best: Option<PackedMove>,
    /// The expected reply.
    pub ponder: Option<PackedMove>,
}

/// Hears what the engine has to say; called from several threads.
pub trait Listener: Send + Sync {
    /// Something for people to read.
    fn note(&self, text: &str);
    /// Everything that was asked for before is done.
    fn ready(&self);
    /// The state of a search.
    fn report(&self, subject: &Subject, report: &Report);
    /// Statistics of all moves of the position.
    fn move_stats(&self, subject: &Subject, stats: &[MoveStat]);
    /// The result of a search. Each search that was not silenced has exactly one.
    fn answer(&self, subject: &Subject, answer: Answer);
    /// How many positions follow a move (`go perft`).
    fn perft_move(&self, subject: &Subject, m: PackedMove, count: u64);
    /// How many positions there are together.
    fn perft_total(&self, count: u64);
    /// Whether nobody listens any more.
    fn is_gone(&self) -> bool;
}
