//! The [`Evaluator`] trait: what a search knows of a network, of its cache and of the machine below.

use std::thread;

use thiserror::Error;

use super::{Batch, Value, input::Planes};
use crate::chess::{PackedMove, Ply};

/// Why a batch could not be evaluated. The message names the file, tensor or device and the next step.
#[derive(Debug, Error)]
pub enum EvaluateError {
    /// The backend's library reported an error.
    #[error("{backend}: evaluating a batch of {batch} failed: {message}")]
    Backend {
        /// The backend's name, as in the `Backend` option.
        backend: &'static str,
        /// Positions in the batch.
        batch: usize,
        /// What the library said.
        message: String,
    },
    /// The network produced NaN or infinity.
    #[error("{network} is not usable: its output {output} is not a finite number")]
    NotFinite {
        /// The network's file or name.
        network: String,
        /// The tensor's name.
        output: String,
    },
}

/// What a backend would like the search to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Search threads that keep the device busy.
    pub threads: usize,
    /// Positions per batch.
    pub minibatch: usize,
}

/// Something that evaluates positions.
pub trait Evaluator: Send + Sync {
    /// Evaluates all positions of the batch, in place. Called from several threads at once.
    ///
    /// # Errors
    /// When the backend fails or the network's output is not finite; the batch then holds nothing useful.
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError>;

    /// The evaluator whose view of positions this one shares, for those that stand in front of others (a cache, say):
    /// what they do not say themselves is then said by that one.
    fn inner(&self) -> Option<&dyn Evaluator> {
        None
    }

    /// Runs once whatever is slow the first time (a GPU's kernels for each batch size), so that a search need not wait
    /// for it later. Evaluating goes on meanwhile. `go_on` is asked before each run: it may wait, or end it.
    ///
    /// # Errors
    /// When the backend fails, as it would in a search.
    fn warm_up(&self, go_on: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        self.inner().map_or(Ok(()), |inner| inner.warm_up(go_on))
    }

    /// Looks the current (last) position of a line of play up without evaluating: on a hit, its value, and its moves'
    /// probabilities are written to `policy` (in the order in which `moves` were given when it was evaluated, which is
    /// move generation order). Without one, what `policy` holds means nothing.
    fn probe(&self, _line: &[Ply], _policy: &mut [f32]) -> Option<Value> {
        None
    }

    /// Adds the current position of a line to a batch that this evaluator will be given; returns its index there.
    fn queue(&self, line: &[Ply], moves: &[PackedMove], batch: &mut Batch) -> usize {
        batch.push(self.key(line), self.encode(line), moves)
    }

    /// Turns the current position of a line into input planes, or `None` if this evaluator needs none.
    fn encode(&self, line: &[Ply]) -> Option<Planes> {
        self.inner()?.encode(line)
    }

    /// The key under which the current position of a line is evaluated and cached: it must differ whenever what the
    /// network sees differs.
    fn key(&self, line: &[Ply]) -> u64 {
        match self.inner() {
            Some(inner) => inner.key(line),
            None => line.last().map_or(0, |ply| ply.key),
        }
    }

    /// Whether [`Value::m`] means anything.
    fn predicts_moves_left(&self) -> bool {
        self.inner().is_some_and(Evaluator::predicts_moves_left)
    }

    /// The threads and batch size this backend works best with.
    fn advice(&self) -> Advice;

    /// One line for people: backend, network, device.
    fn describe(&self) -> String;

    /// Share of the cache in use, in per mille; 0 without a cache.
    fn cache_permille(&self) -> u32 {
        0
    }
}

/// Processors that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}
