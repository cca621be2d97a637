//! One protocol for everything that evaluates positions: networks, their caches, and what combines several of them.
//!
//! ```text
//! evaluator.add(position, batch)   -> Fetched(value)    from a cache: value and priors are there
//!                                     Computed(value)   computed at once: priors when somebody needs them
//!                                     Queued(index)     a place in the batch
//! evaluator.priors(position)          the priors of a position whose value was computed
//! evaluator.evaluate(batch)           the values and priors of all that is queued
//! ```
//!
//! This is lc0's `AddInput -> queued | fetched immediately` with one more case. A sparse network takes microseconds
//! for a position and gains nothing from batches, and its policy costs more than its value; but most nodes of a tree
//! are visited once, and only the second visit to a node needs its priors. So such an evaluator computes the value
//! while the position is added, and the policy when the search returns to the node.
//!
//! The layers of an evaluator, from the bottom to the top:
//!
//! * A *backend* computes: [`NetworkEvaluator`](super::backend::pool::NetworkEvaluator),
//!   [`SparseEvaluator`](super::backend::sparse::SparseEvaluator), [`HashEvaluator`](super::hash::HashEvaluator), or
//!   several of them as one ([`combine`](super::backend::combine)). It says
//!   what it sees of a position ([`Evaluator::view`]); the softmax of its policy is at the temperature that it is
//!   given.
//! * [`CachedEvaluator`](super::cached::CachedEvaluator) is a backend, the list of transforms of its priors
//!   ([`PriorTransform`](super::compose::prior_transforms::PriorTransform)) and the cache of what comes out.
//! * [`SearchEvaluator`](super::compose::search_evaluator::SearchEvaluator) is what one search uses: the main network,
//!   beside it the network of a modelled opponent and the network that refines priors. The opponent's priors are a
//!   transform, too, but above both caches: neither cache ever holds a mixture.
//!
//! Two things stay apart on purpose:
//!
//! * The hash evaluator could compute at once, but stands for a network in tests and in the bench signature, and so its
//!   positions wait in batches as a network's do.
//! * [`Info::computes_at_once`] is still read where threads and batches are planned (how many games in parallel, when
//!   to wake a second thread): that is a decision before the first position is added. What happens to a position
//!   depends on the answer to [`Evaluator::add`] alone.

use std::{any::Any, sync::Arc, thread};

use shakmaty::{Color, Position};
use thiserror::Error;

use super::{Batch, BatchTimes, Value, input::View};
use crate::{
    chess::{
        PackedMove, Ply,
        moves::{MAX_MOVES, add_legal_moves},
    },
    sparse::features::SideRole,
};

/// Why a batch could not be evaluated. The message names the file, tensor or device and the next step.
#[derive(Clone, Debug, Error)]
pub enum EvaluateError {
    /// The backend's library reported an error.
    #[error("{backend}: evaluating a batch of {batch} failed: {message}")]
    Backend {
        /// The backend's name, as in the `Backend` option.
        backend: &'static str,
        /// Positions in the batch.
        batch: usize,
        /// The library's message.
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
    /// The network's output is not a value: its probabilities do not add up to 1, or W - L is beyond -1 to 1.
    #[error("{network} is not usable: its output {output} has {found}; {missing}")]
    NotAValue {
        /// The network's file or name.
        network: String,
        /// The tensor's name.
        output: &'static str,
        /// What was found.
        found: String,
        /// What the network may lack.
        missing: &'static str,
    },
    /// The backend, or the code around it, panicked.
    #[error("evaluating positions failed with a panic: {message}; please report this")]
    Panicked {
        /// The panic's message.
        message: String,
    },
}

impl EvaluateError {
    /// The error for a panic with this payload.
    pub fn of_panic(panic: &(dyn Any + Send)) -> EvaluateError {
        let text = panic.downcast_ref::<&str>().copied();
        let message = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        EvaluateError::Panicked {
            message: message.unwrap_or("no message").to_owned(),
        }
    }
}

/// The threads and batch sizes that an evaluator works best with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Search threads that keep the device busy.
    pub threads: usize,
    /// Positions per batch.
    pub minibatch: usize,
    /// Positions that cost hardly more than one: batches have at least this number, even in the smallest tree, where
    /// larger batches cost strength.
    pub min_batch: usize,
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

/// What an evaluator is and how it is used best.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// Backend, network and device in one line, for people.
    pub description: String,
    /// The threads and batch sizes that it works best with.
    pub advice: Advice,
    /// Whether [`Evaluator::add`] answers [`Added::Computed`]: batches are not needed.
    pub computes_at_once: bool,
    /// Search threads beyond which a search gains nothing, where that is known: the processors, if they compute all.
    pub max_threads: Option<usize>,
    /// Batches that the device computes at the same time, if that is known; others wait.
    pub max_concurrent_batches: Option<usize>,
    /// How long its batches take, if that was measured: batches then have the size that brings most for the time.
    pub batch_times: Option<Arc<BatchTimes>>,
    /// Whether a value depends on which side's opponent is modelled ([`EvalPosition::mover`]).
    pub reads_mover: bool,
    /// Its cache, as far as it has one.
    pub cache: CacheUsage,
}

/// How full a cache is and may become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Share of the cache in use, in per mille; 0 without a cache.
    pub permille: u32,
    /// Memory of the full cache, in bytes; 0 without a cache.
    pub bytes: u64,
}

/// A position to be evaluated, and room for its policy. The memory belongs to the caller, who uses it again.
pub struct EvalPosition<'a> {
    /// The line of play that leads to it; its last ply is the position.
    line: &'a [Ply],
    /// Its legal moves; empty until somebody needs them.
    moves: &'a mut Vec<PackedMove>,
    /// The priors of those moves, where they are known.
    priors: &'a mut [f32; MAX_MOVES],
    /// The engine's side, if its opponent is modelled as fallible.
    contempt_side: Option<Color>,
}

impl<'a> EvalPosition<'a> {
    /// The last position of `line`, which must have a legal move. `moves` are its legal moves in generation order, or
    /// empty: then they are listed when they are first needed.
    pub fn new(
        line: &'a [Ply],
        moves: &'a mut Vec<PackedMove>,
        priors: &'a mut [f32; MAX_MOVES],
    ) -> EvalPosition<'a> {
        EvalPosition {
            line,
            moves,
            priors,
            contempt_side: None,
        }
    }

    /// The same position in a search for this side, whose opponent is fallible.
    #[must_use]
    pub fn searched_for(self, contempt_side: Option<Color>) -> EvalPosition<'a> {
        EvalPosition {
            contempt_side,
            ..self
        }
    }

    /// Who is to move, if one side is known to be the engine and the other a fallible opponent.
    pub fn mover(&self) -> Option<SideRole> {
        let turn = self.line.last()?.position.turn();
        self.contempt_side.map(|side| SideRole::of(side, turn))
    }

    /// The line of play that leads to the position.
    pub fn line(&self) -> &'a [Ply] {
        self.line
    }

    /// The legal moves.
    pub fn moves(&mut self) -> &[PackedMove] {
        self.policy().0
    }

    /// The legal moves and the room for their priors.
    pub fn policy(&mut self) -> (&[PackedMove], &mut [f32]) {
        if let (true, Some(last)) = (self.moves.is_empty(), self.line.last()) {
            add_legal_moves(&last.position, self.moves);
        }
        let count = self.moves.len().min(MAX_MOVES);
        (self.moves, &mut self.priors[..count])
    }

    /// The same position, with other room for the priors.
    pub fn with_priors<'b>(&'b mut self, priors: &'b mut [f32; MAX_MOVES]) -> EvalPosition<'b> {
        EvalPosition {
            line: self.line,
            moves: self.moves,
            priors,
            contempt_side: self.contempt_side,
        }
    }
}

/// The answer of [`Evaluator::add`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Added {
    /// The evaluation was in a cache: its value, from the point of view of the side to move. The priors are in the
    /// position.
    Fetched(Value),
    /// The value was computed at once. [`Evaluator::priors`] computes the priors.
    Computed(Value),
    /// The position waits at this index of the batch for [`Evaluator::evaluate`].
    Queued(usize),
}

/// Something that evaluates positions: a backend, or what combines several evaluators.
///
/// A backend that needs batches implements [`evaluate`](Evaluator::evaluate), [`view`](Evaluator::view) and
/// [`info`](Evaluator::info).
pub trait Evaluator: Send + Sync {
    /// Evaluates the queued positions of the batch, in place. Called from several threads at once.
    ///
    /// # Errors
    /// When the backend fails or the network's output is not finite; the batch then holds nothing useful.
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError>;

    /// Evaluates a position at once, or queues it in a batch that only this evaluator is given.
    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        let line = position.line();
        Added::Queued(self.view().queue(line, position.moves(), batch))
    }

    /// Computes the priors of a position whose value was [computed at once](Added::Computed), with the softmax at a
    /// temperature of `temperature` times the evaluator's own. All moves are equal to an evaluator that computes
    /// nothing at once.
    fn priors(&self, position: &mut EvalPosition<'_>, temperature: f32) {
        let _ = temperature;
        let priors = position.policy().1;
        priors.fill(1.0 / priors.len() as f32);
    }

    /// What is seen of a position.
    fn view(&self) -> &View {
        &View::KEY_ONLY
    }

    /// What this is and how it is used best.
    fn info(&self) -> Info {
        Info {
            description: std::any::type_name::<Self>().to_owned(),
            ..Info::default()
        }
    }

    /// The network that refines the priors of positions with many visits: it is better than the main one and slower, so
    /// that few positions are evaluated by it.
    fn refiner(&self) -> Option<&dyn Evaluator> {
        None
    }

    /// The side whose priors are those of a model of the opponent. They are neither refined nor changed.
    fn modelled_side(&self) -> Option<Color> {
        None
    }

    /// Runs `work`, which is going to evaluate, on a thread of the backend, and returns when it is done. A backend
    /// that computes on threads of its own would otherwise be woken for every batch, which can take longer than a
    /// small batch itself.
    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }

    /// Runs once whatever is slow the first time (a GPU's kernels for each batch size), so that a search need not
    /// wait for it later. Evaluating continues meanwhile. `may_continue` is called before each run: it may wait, or
    /// end the warm-up.
    ///
    /// # Errors
    /// When the backend fails, as it would in a search.
    fn warm_up(&self, may_continue: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        let _ = may_continue;
        Ok(())
    }
}

/// Adds a position whose priors are needed, too: a value that was computed at once comes with its priors.
pub fn add_with_priors(
    evaluator: &dyn Evaluator,
    position: &mut EvalPosition<'_>,
    batch: &mut Batch,
) -> Added {
    let added = evaluator.add(position, batch);
    if let Added::Computed(_) = added {
        evaluator.priors(position, 1.0);
    }
    added
}

/// A position's value and the priors of its legal moves, in generation order.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The value, from the point of view of the side to move.
    pub value: Value,
    /// The legal moves.
    pub moves: Vec<PackedMove>,
    /// Their probabilities, which sum to 1.
    pub priors: Vec<f32>,
}

/// Evaluates the last positions of some lines, each of which must have a legal move: as many as need it in one batch.
///
/// # Errors
/// When the evaluator fails.
pub fn evaluate_all<'a>(
    evaluator: &dyn Evaluator,
    lines: impl IntoIterator<Item = &'a [Ply]>,
) -> Result<Vec<Evaluation>, EvaluateError> {
    let (mut batch, mut priors) = (Batch::default(), [0.0; MAX_MOVES]);
    let mut added = Vec::new();
    for line in lines {
        let mut moves = Vec::new();
        let mut position = EvalPosition::new(line, &mut moves, &mut priors);
        let answer = add_with_priors(evaluator, &mut position, &mut batch);
        let priors = position.policy().1.to_vec();
        added.push((answer, moves, priors));
    }
    if !batch.is_empty() {
        evaluator.evaluate(&mut batch)?;
    }
    let evaluation = |(added, moves, priors)| match added {
        Added::Fetched(value) | Added::Computed(value) => Evaluation {
            value,
            moves,
            priors,
        },
        Added::Queued(index) => Evaluation {
            value: batch.value(index),
            priors: batch.policy(index).to_vec(),
            moves,
        },
    };
    Ok(added.into_iter().map(evaluation).collect())
}

/// Processors that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}
