//! The search: a PUCT tree over a network, with search-contempt.
//!
//! [`run`] searches one position until a limit or a stop signal ends it. It never prints: what there is to say goes to
//! a [`Reporter`]. Time comes from a [`Clock`], randomness from the options' seed, values from an
//! [`Evaluator`](crate::network::Evaluator).

pub mod limits;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use shakmaty::Color;
use thiserror::Error;

use crate::{
    chess::{History, PackedMove},
    network::{EvaluateError, Evaluator, Value},
    options::Options,
};
pub use limits::Limits;

/// Everything that defines one search.
#[derive(Clone, Debug)]
pub struct Job {
    /// The game up to the position to search.
    pub history: History,
    /// The root moves to consider (`searchmoves`); empty means all.
    pub root_moves: Vec<PackedMove>,
    /// Whose opponent search-contempt models; `None` is plain PUCT.
    pub contempt_side: Option<Color>,
    /// When to stop.
    pub limits: Limits,
    /// Search parameters.
    pub options: Arc<Options>,
}

/// The tree, kept between searches. Opaque to callers; a search re-roots it when the new position continues the old.
#[derive(Default)]
pub struct Tree {}

/// Tells a running search, from another thread, to finish.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Asks the search to stop; it answers within a batch's time.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// Time since an arbitrary fixed moment; never goes back.
    fn now(&self) -> Duration;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// What a line is worth, from the point of view of the side to move at the root.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// Not decided: see the line's value.
    Open,
    /// Mate in this many of the winner's moves; negative when being mated; 0 when mated already.
    Mate(i32),
    /// A tablebase win (positive) or loss, with the plies to get there as far as they are known.
    Tablebase(i32),
}

/// One principal variation.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Proven result or not.
    pub score: Score,
    /// Mean value, from the point of view of the side to move at the root.
    pub value: Value,
    /// The moves, from the root.
    pub pv: Vec<PackedMove>,
    /// Visits of the first move.
    pub nodes: u64,
}

/// The state of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Mean depth of the visited leaves, in plies.
    pub depth: u32,
    /// Depth of the deepest line.
    pub seldepth: u32,
    /// Since the search began.
    pub elapsed: Duration,
    /// Visits of the root, those of a reused tree included.
    pub nodes: u64,
    /// Visits made by this search.
    pub playouts: u64,
    /// Memory in use, in per mille of the limit (of the cache, without a limit).
    pub hashfull: u32,
    /// Tablebase probes that hit.
    pub tb_hits: u64,
    /// The best lines, best first; as many as `MultiPV` asks for.
    pub lines: Vec<Line>,
}

/// Statistics of one root move, for `VerboseMoveStats`. Values are from the point of view of the side to move at the
/// root; what an unvisited move does not have is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveStat {
    /// The move; `None` for the root itself (the row that lc0 calls `node`).
    pub m: Option<PackedMove>,
    /// Visits.
    pub n: u32,
    /// Visits in flight.
    pub in_flight: u32,
    /// Prior, 0..=1.
    pub p: f32,
    /// Mean value of the visits.
    pub value: Option<Value>,
    /// Q as selection sees it (draw score included; first-play urgency if unvisited).
    pub q: f32,
    /// The exploration term.
    pub u: f32,
    /// The network's own W-L for the position after the move.
    pub v: Option<f32>,
    /// Proven result for the side to move at the root: win, draw or loss.
    pub proven: Option<Proven>,
    /// Whether the position after the move is frozen by search-contempt.
    pub frozen: bool,
}

/// A certain result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proven {
    /// Won.
    Win,
    /// Drawn.
    Draw,
    /// Lost.
    Loss,
}

/// Receives what a search has to say.
pub trait Reporter: Send {
    /// The state of the search, now and then and at the end.
    fn report(&mut self, report: &Report);
    /// Statistics of all root moves, least interesting first, the root itself last.
    fn move_stats(&mut self, _stats: &[MoveStat]) {}
    /// Something for people to read.
    fn note(&mut self, _text: &str) {}
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The move to play; `None` if the game is over.
    pub best: Option<PackedMove>,
    /// The expected reply.
    pub ponder: Option<PackedMove>,
    /// The final state (also reported).
    pub report: Report,
}

/// Why a search failed.
#[derive(Debug, Error)]
pub enum SearchError {
    /// The network could not evaluate a batch.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
}

/// Searches `job` on `tree` until a limit or `stop` ends it.
///
/// # Errors
/// When the evaluator fails; the tree stays usable.
pub fn run(
    _tree: &Mutex<Tree>,
    evaluator: &dyn Evaluator,
    job: &Job,
    _stop: &StopSignal,
    clock: &dyn Clock,
    reporter: &mut dyn Reporter,
) -> Result<Outcome, SearchError> {
    let started = clock.now();
    let position = job.history.position();
    let moves: Vec<_> = crate::chess::moves::legal_moves(position)
        .filter(|m| job.root_moves.is_empty() || job.root_moves.contains(m))
        .collect();
    let mut batch = crate::network::Batch::default();
    let planes = evaluator.encode(job.history.plies());
    batch.push(job.history.last().key, planes, &moves);
    evaluator.evaluate(&mut batch)?;
    let best = (0..moves.len())
        .max_by(|&a, &b| batch.policy(0)[a].total_cmp(&batch.policy(0)[b]))
        .map(|index| moves[index]);
    let line = Line {
        score: Score::Open,
        value: batch.value(0),
        pv: best.into_iter().collect(),
        nodes: 1,
    };
    let report = Report {
        depth: 1,
        seldepth: 1,
        elapsed: clock.now() - started,
        nodes: 1,
        playouts: 1,
        lines: vec![line],
        ..Report::default()
    };
    reporter.report(&report);
    Ok(Outcome {
        best,
        ponder: None,
        report,
    })
}
