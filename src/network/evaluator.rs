//! The [`Evaluator`] trait: what a search knows of a network, of its cache and of the machine below.

use std::thread;

use shakmaty::Color;
use thiserror::Error;

use super::{Batch, Value, input::View};
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
    /// Positions that cost hardly more than one: so many a batch may have in the smallest tree, where batches cost strength.
    pub min_batch: usize,
}

/// Something that evaluates positions: a network on a device, or a decorator in front of another evaluator.
///
/// A decorator names the one behind it ([`Evaluator::inner`]), and whatever it does not say or do itself is then said and
/// done by that one. Most change only [`evaluate`](Evaluator::evaluate) and, if their answers differ from those behind
/// them, [`probe`](Evaluator::probe).
pub trait Evaluator: Send + Sync {
    /// Evaluates all positions of the batch, in place. Called from several threads at once.
    ///
    /// # Errors
    /// When the backend fails or the network's output is not finite; the batch then holds nothing useful.
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError>;

    /// The evaluator that this one stands in front of, if it does.
    fn inner(&self) -> Option<&dyn Evaluator> {
        None
    }

    /// Looks the current (last) position of a line of play up without evaluating: on a hit, its value, and its moves'
    /// probabilities are written to `policy` (in the order in which `moves` were given when it was evaluated, which is
    /// move generation order). Without one, what `policy` holds means nothing.
    fn probe(&self, line: &[Ply], policy: &mut [f32]) -> Option<Value> {
        self.inner()?.probe(line, policy)
    }

    /// What is seen of a position.
    fn view(&self) -> &View {
        self.inner().map_or(&View::KEY_ONLY, Evaluator::view)
    }

    /// Adds the current position of a line to a batch that this evaluator will be given; returns its index there.
    fn queue(&self, line: &[Ply], moves: &[PackedMove], batch: &mut Batch) -> usize {
        match self.inner() {
            Some(inner) => inner.queue(line, moves, batch),
            None => self.view().queue(line, moves, batch),
        }
    }

    /// For evaluators that are as fast alone as in batches: the same answers at once, each when it is asked for. A decorator
    /// that wants to pass this on must say so, because it would have to change the answers as it changes those of batches.
    fn immediate(&self) -> Option<&dyn Immediate> {
        None
    }

    /// What refines the priors of positions that a search comes to often.
    fn refiner(&self) -> Option<Refiner<'_>> {
        self.inner()?.refiner()
    }

    /// Does `work`, which is going to evaluate, on a thread that suits: a backend that computes on threads of its own would be handed
    /// one batch after the other, and to wake a thread and be woken by it can take longer than a small batch. Comes back when it is done.
    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        match self.inner() {
            Some(inner) => inner.run_on_worker_thread(work),
            None => work(),
        }
    }

    /// Runs once whatever is slow the first time (a GPU's kernels for each batch size), so that a search need not wait
    /// for it later. Evaluating goes on meanwhile. `go_on` is asked before each run: it may wait, or end it.
    ///
    /// # Errors
    /// When the backend fails, as it would in a search.
    fn warm_up(&self, go_on: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        self.inner().map_or(Ok(()), |inner| inner.warm_up(go_on))
    }

    /// Whether [`Value::m`] means anything.
    fn predicts_moves_left(&self) -> bool {
        self.view().moves_left
    }

    /// The threads and batch size this backend works best with.
    fn advice(&self) -> Advice {
        self.inner().map_or(Advice::default(), Evaluator::advice)
    }

    /// One line for people: backend, network, device.
    fn describe(&self) -> String {
        let own = || std::any::type_name::<Self>().to_owned();
        self.inner().map_or_else(own, Evaluator::describe)
    }

    /// Share of the cache in use, in per mille; 0 without a cache.
    fn cache_permille(&self) -> u32 {
        self.inner().map_or(0, Evaluator::cache_permille)
    }

    /// The memory of a full cache, in bytes; 0 without a cache.
    fn cache_bytes(&self) -> u64 {
        self.inner().map_or(0, Evaluator::cache_bytes)
    }
}

/// An evaluator that judges one position at a time, and its value without its policy: a search asks for the policy only when
/// it comes to the position a second time, which it does not to most of them.
pub trait Immediate: Send + Sync {
    /// The value of the current position of a line, from the point of view of its side to move.
    fn value(&self, line: &[Ply]) -> Value;

    /// The probabilities of its legal moves (in generation order), with the policy's softmax at `temperature`.
    fn policy(&self, line: &[Ply], moves: &[PackedMove], temperature: f32, policy: &mut [f32]);
}

/// What knows more than an [`Evaluator`], and takes longer: its policy is asked for in few positions.
#[derive(Clone, Copy)]
pub struct Refiner<'a> {
    /// The network.
    pub network: &'a dyn Evaluator,
    /// Where this side moves it has nothing to say: the priors are those of a model of the opponent.
    pub modelled: Option<Color>,
}

impl Default for Advice {
    fn default() -> Advice {
        Advice {
            threads: 1,
            minibatch: 256,
            min_batch: 256,
        }
    }
}

/// Processors that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        network::{cache::Cached, hash::HashEvaluator},
    };

    /// A decorator that says as little as possible.
    struct Front(Arc<dyn Evaluator>);

    impl Evaluator for Front {
        fn inner(&self) -> Option<&dyn Evaluator> {
            Some(&*self.0)
        }
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            self.0.evaluate(batch)
        }
    }

    #[test]
    fn a_decorator_loses_nothing_of_what_stands_behind_it() {
        let cached: Arc<dyn Evaluator> = Arc::new(Cached::new(Arc::new(HashEvaluator), 100));
        let front = Front(Arc::new(Front(Arc::clone(&cached))));
        let game = History::default();
        let moves: Vec<_> = legal_moves(game.position()).collect();
        let (mut batch, mut policy) = (Batch::default(), vec![0.0; moves.len()]);
        assert_eq!(front.probe(game.plies(), &mut policy), None);
        front.queue(game.plies(), &moves, &mut batch);
        front.evaluate(&mut batch).unwrap();
        assert_eq!(front.probe(game.plies(), &mut policy), Some(batch.value(0)));
        assert_eq!(front.cache_permille(), 10);
        assert_eq!(front.describe(), HashEvaluator.describe());
        assert_eq!(front.advice(), HashEvaluator.advice());
    }
}
