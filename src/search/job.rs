//! What defines one search, and what it needs from outside: a way to be stopped and a clock.

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
    chess::{History, PackedMove, moves::legal_moves},
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
    /// Whose opponent search-contempt models; `None` is plain PUCT.
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
    /// All root moves, plain PUCT, no tablebases, the seed of the options.
    pub fn new(history: History, limits: Limits, options: impl Into<Arc<SearchOptions>>) -> Job {
        let options = options.into();
        Job {
            seed: options.seed(),
            history,
            root_moves: Vec::new(),
            contempt_side: None,
            limits,
            options,
            tables: None,
        }
    }

    /// One of the search's sources of randomness: the same for the same seed, position and stream.
    pub(super) fn rng(&self, stream: u64) -> Xoshiro256PlusPlus {
        let position = self.history.last().key;
        Xoshiro256PlusPlus::seed_from_u64(
            self.seed ^ position.rotate_left(17) ^ stream.rotate_right(8),
        )
    }

    /// Whether the game is over in the position to search.
    pub(super) fn is_game_over(&self) -> bool {
        legal_moves(self.history.position()).next().is_none()
    }

    /// What tablebases say about the root's moves; nothing if they do not know.
    pub(super) fn table_moves(&self) -> Vec<TableMove> {
        let tables = self.tables.as_ref();
        let moves = tables.and_then(|tables| tables.moves(&self.history));
        moves.unwrap_or_default()
    }

    /// The root moves to consider (empty means all): those asked for, of which tablebases leave those that keep the
    /// result. In analysis (`infinite`) nothing is left out.
    pub(super) fn wanted_root_moves(&self, tables: &[TableMove]) -> Vec<PackedMove> {
        let asked = &self.root_moves;
        if self.limits.infinite {
            return asked.clone();
        }
        let is_repeated = self.history.last().repetitions > 0;
        let fastest = self.options.syzygy_fast_play() || is_repeated;
        let Some(mut best) = syzygy::best_moves(tables.to_vec(), fastest) else {
            return asked.clone();
        };
        best.retain(|m| asked.is_empty() || asked.contains(m));
        if best.is_empty() { asked.clone() } else { best }
    }
}

/// Streams of random numbers: each worker has one of its own number, noise and the choice of the move have these.
pub(super) mod stream {
    /// The noise has a generator of its own, so that it does not shift the workers' draws.
    pub const NOISE: u64 = u64::MAX;
    /// The draw of the move to play.
    pub const CHOICE: u64 = u64::MAX - 1;
}

/// Tells a running search, from another thread, to finish.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<Stop>);

#[derive(Debug, Default)]
struct Stop {
    is_set: AtomicBool,
    /// For those who wait for it.
    lock: Mutex<()>,
    changed: Condvar,
}

impl StopSignal {
    /// Asks the search to stop; it answers within a batch's time.
    pub fn stop(&self) {
        self.0.is_set.store(true, Ordering::Relaxed);
        // Whoever is about to wait holds the lock, and must not miss it.
        drop(self.0.lock.lock());
        self.0.changed.notify_all();
    }

    /// Whether a stop was asked for.
    pub fn is_stopped(&self) -> bool {
        self.0.is_set.load(Ordering::Relaxed)
    }

    /// Waits until a stop is asked for, but not for longer than this; whether it was.
    pub fn wait(&self, longest: Duration) -> bool {
        let mut lock = self.0.lock.lock();
        if !self.is_stopped() {
            self.0.changed.wait_for(&mut lock, longest);
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
