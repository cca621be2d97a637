//! The definition of one search, and its interfaces to the outside: a stop signal and a clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use shakmaty::Color;

use super::limits::Limits;
use crate::{
    chess::{History, PackedMove, moves::has_legal_move},
    options::SearchOptions,
    syzygy::{self, TableMove, Tables},
};

/// Everything that defines one search.
#[derive(Clone, Debug)]
pub struct Job {
    /// The game up to the position to search.
    pub history: History,
    /// The root moves to consider (`searchmoves`); empty means all.
    pub root_moves: Vec<PackedMove>,
    /// Root moves that are played only if no other one is nearly as good.
    pub avoided: Vec<PackedMove>,
    /// The side whose opponent search-contempt models; `None` is plain PUCT.
    pub contempt_side: Option<Color>,
    /// When to stop.
    pub limits: Limits,
    /// The options.
    pub options: Arc<SearchOptions>,
    /// Endgame tablebases, if there are any.
    pub tables: Option<Arc<Tables>>,
    /// Seed of all random choices of this search.
    pub seed: u64,
}

impl Job {
    /// A job with all root moves, plain PUCT, no tablebases and the seed of the options.
    pub fn new(history: History, limits: Limits, options: impl Into<Arc<SearchOptions>>) -> Job {
        let options = options.into();
        Job {
            seed: options.seed(),
            history,
            root_moves: Vec::new(),
            avoided: Vec::new(),
            contempt_side: None,
            limits,
            options,
            tables: None,
        }
    }

    /// A random number generator: the same for the same seed, position and stream.
    pub(super) fn rng(&self, stream: u64) -> Xoshiro256PlusPlus {
        let position = self.history.last().key;
        Xoshiro256PlusPlus::seed_from_u64(
            self.seed ^ position.rotate_left(17) ^ stream.rotate_right(8),
        )
    }

    /// Whether the game is over in the position to search.
    pub(super) fn is_game_over(&self) -> bool {
        !has_legal_move(self.history.position())
    }

    /// How many winning moves the search looks for: one for each line that it reports, only one with a clock, and all
    /// in a search for a mate, because there may be a shorter one.
    pub(super) fn wanted_wins(&self) -> usize {
        match &self.limits {
            limits if limits.mate.is_some() => usize::MAX,
            limits if limits.budget.is_some() => 1,
            _ => self.options.multi_pv(),
        }
    }

    /// The tablebase results of the root's moves; empty if the tablebases do not cover them.
    pub(super) fn table_moves(&self) -> Vec<TableMove> {
        let tables = self.tables.as_ref();
        let moves = tables.and_then(|tables| tables.moves(&self.history));
        moves.unwrap_or_default()
    }

    /// Whether root moves that give away the tablebase result are searched, too. They are not played.
    pub(super) fn is_analysis(&self) -> bool {
        self.limits.infinite || self.options.analyse_mode()
    }

    /// Those of the requested root moves (of all, if that is empty) that keep the tablebase result; all requested ones
    /// if the tablebases do not cover the position.
    pub(super) fn best_root_moves(
        &self,
        requested: &[PackedMove],
        tables: &[TableMove],
    ) -> Vec<PackedMove> {
        let is_repeated = self.history.last().repetitions > 0;
        // A game has to make progress; an analysis shows every move that keeps the result.
        let fastest = !self.is_analysis() && (self.options.syzygy_fast_play() || is_repeated);
        let is_requested =
            |known: &&TableMove| requested.is_empty() || requested.contains(&known.m);
        let known = tables.iter().filter(is_requested).copied().collect();
        syzygy::best_moves(known, fastest).unwrap_or_else(|| requested.to_vec())
    }
}

/// Streams of random numbers. Each worker uses its own number; these two are for root noise and for the choice of the
/// move.
pub(super) mod stream {
    /// Root noise has a generator of its own, so that it does not shift the workers' draws.
    pub const NOISE: u64 = u64::MAX;
    /// The draw of the move to play.
    pub const CHOICE: u64 = u64::MAX - 1;
}

/// Stops a running search from another thread.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<Stop>);

#[derive(Debug, Default)]
struct Stop {
    is_set: AtomicBool,
    /// For threads that wait for the signal.
    lock: Mutex<()>,
    changed: Condvar,
}

impl StopSignal {
    /// Requests the search to stop, which takes effect within the time of one batch. Who sees the request also sees
    /// what this thread has written before.
    pub fn stop(&self) {
        self.0.is_set.store(true, Ordering::Release);
        // A thread that is about to wait holds the lock and must not miss the notification.
        drop(self.0.lock.lock());
        self.0.changed.notify_all();
    }

    /// Whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// Waits for a stop request, at most for `timeout`; returns whether there was one.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut lock = self.0.lock.lock();
        if !self.is_stopped() {
            self.0.changed.wait_for(&mut lock, timeout);
        }
        self.is_stopped()
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
