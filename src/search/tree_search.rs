//! The interface between a search and its driver: one tree that fills batches for the network and takes the
//! evaluations.
//!
//! ```text
//! search.apply(&batch);                    // backs up the evaluations
//! if search.is_over() { break }
//! search.gather(evaluator, &mut batch)?;   // selects and expands leaves, queues those not evaluated at once
//! evaluator.evaluate(&mut batch)?;
//! ```
//!
//! The batch belongs to the driver, so many trees can fill one together: call `gather` of each, evaluate once, call
//! `apply` of each. The parts without an owner ([`Shared`] behind a lock, a worker for each thread) make the driver
//! that has several threads walk one tree.

use std::{sync::Arc, time::Duration};

use super::{
    error::Failure,
    expand::ExpandContext,
    job::{Clock, Job, StopSignal, SystemClock, stream},
    params::SearchParams,
    report::{MoveStat, Outcome, Report},
    state::SearchState,
    stopper::Stopper,
    tree::{Tree, TreeFull},
    view::SearchView,
    worker::Worker,
};
use crate::{
    chess::PackedMove,
    network::{Batch, EvaluateError, Evaluator},
};

/// What the workers of one search share: the tree with the search's state, and what decides when it ends.
pub(super) struct Shared {
    pub state: SearchState,
    stopper: Stopper,
    /// Whether a limit is reached, or the tree is full.
    pub is_over: bool,
    pub is_full: bool,
}

impl Shared {
    /// Takes a tree to search `job` on until `stop`.
    pub fn new(tree: Tree, job: &Job, stop: &StopSignal) -> Shared {
        Shared {
            state: SearchState::new(tree, job, stop),
            stopper: Stopper::new(job),
            is_over: job.is_game_over(),
            is_full: false,
        }
    }

    /// Checks whether the search is over, `elapsed` after its start. It never is before the root has its moves.
    pub fn check_limits(&mut self, elapsed: Duration) {
        if self.state.is_root_expanded() && self.stopper.update(&mut self.state, elapsed) {
            self.is_over = true;
        }
    }

    /// Backs up a worker's batch.
    pub fn back_up(&mut self, worker: &mut Worker, params: &SearchParams, job: &Job) {
        worker.back_up(&mut self.state, params);
        self.state.choose_root_moves(job);
    }

    /// Undoes the batch of a worker for whose leaves there is no room, and ends the search.
    pub fn end_full(&mut self, worker: &mut Worker) {
        worker.cancel(&mut self.state);
        (self.is_full, self.is_over) = (true, true);
    }
}

/// A search on a tree of its own, driven by the caller.
pub struct TreeSearch {
    shared: Shared,
    worker: Worker,
    job: Job,
    params: Arc<SearchParams>,
    clock: Arc<dyn Clock>,
    started: Duration,
}

impl TreeSearch {
    /// Searches `job` on `tree`, which is re-rooted when the job's game continues the one it was built for, and dropped
    /// otherwise. Time counts from now.
    pub fn new(tree: Tree, job: Job, params: Arc<SearchParams>) -> TreeSearch {
        TreeSearch::with_clock(tree, job, params, Arc::new(SystemClock::default()))
    }

    /// The same with another clock.
    pub fn with_clock(
        tree: Tree,
        job: Job,
        params: Arc<SearchParams>,
        clock: Arc<dyn Clock>,
    ) -> TreeSearch {
        let started = clock.now();
        let mut shared = Shared::new(tree, &job, &StopSignal::default());
        let worker = Worker::new(&job, 0, &mut shared.state.tree);
        shared.check_limits(Duration::ZERO);
        TreeSearch {
            shared,
            worker,
            job,
            params,
            started,
            clock,
        }
    }

    /// Whether the search has ended.
    pub fn is_over(&self) -> bool {
        self.shared.is_over
    }

    /// Selects leaves and queues those that are not evaluated at once in `batch`, which may hold positions of other
    /// trees already and must come back with [`TreeSearch::apply`] (or [`TreeSearch::cancel`]) before the next call.
    ///
    /// # Errors
    /// When a network that refines priors fails; nothing is gathered then.
    pub fn gather(
        &mut self,
        evaluator: &dyn Evaluator,
        batch: &mut Batch,
    ) -> Result<(), EvaluateError> {
        self.worker.begin();
        if self.is_over() {
            return Ok(());
        }
        match self.try_to_gather(evaluator, batch) {
            Ok(()) => Ok(()),
            Err(Failure::Evaluate(error)) => {
                self.cancel();
                Err(error)
            }
            Err(Failure::Full(TreeFull)) => {
                self.shared.end_full(&mut self.worker);
                Ok(())
            }
        }
    }

    fn try_to_gather(
        &mut self,
        evaluator: &dyn Evaluator,
        batch: &mut Batch,
    ) -> Result<(), Failure> {
        let context = ExpandContext {
            params: &self.params,
            tables: self.job.tables.as_deref(),
            contempt_side: self.job.contempt_side,
            evaluator,
        };
        loop {
            self.worker.select(&mut self.shared.state, &self.params)?;
            if !self.worker.expand(&context, batch)? {
                return Ok(());
            }
        }
    }

    /// Backs up the gathered visits, with their evaluations in `batch`.
    pub fn apply(&mut self, batch: &Batch) {
        if self.worker.receive(batch).is_err() {
            self.shared.end_full(&mut self.worker);
            return;
        }
        self.shared
            .back_up(&mut self.worker, &self.params, &self.job);
        self.shared.check_limits(self.elapsed());
    }

    /// Undoes the gathered visits, because the network could not evaluate the batch.
    pub fn cancel(&mut self) {
        self.worker.cancel(&mut self.shared.state);
    }

    /// Ends the search.
    pub fn stop(&mut self) {
        self.shared.is_over = true;
    }

    /// The state of the search.
    pub fn report(&self) -> Report {
        self.view().report(None)
    }

    /// The move to play with its report, and the statistics of all root moves.
    pub fn outcome(&self) -> (Outcome, Vec<MoveStat>) {
        let mut rng = self.job.rng(stream::CHOICE);
        let view = self.view();
        view.outcome(view.choice(&mut rng))
    }

    /// The move that the search prefers: the one that it would play without temperature and `OpeningVariety`; `None`
    /// if the game is over.
    pub fn preferred(&self) -> Option<PackedMove> {
        let mut rng = self.job.rng(stream::CHOICE);
        self.view().preferred(&mut rng)
    }

    fn view(&self) -> SearchView<'_> {
        SearchView {
            state: &self.shared.state,
            params: &self.params,
            job: &self.job,
            elapsed: self.elapsed(),
            cache_permille: 0,
        }
    }

    fn elapsed(&self) -> Duration {
        self.clock.now().saturating_sub(self.started)
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.shared.state.tree
    }

    /// The tree, for the next search.
    pub fn into_tree(self) -> Tree {
        self.into_state().into_tree()
    }

    /// The tree with the search's state.
    pub(super) fn into_state(mut self) -> SearchState {
        let writer = self.worker.into_writer();
        self.shared.state.tree.edges.put_back(writer);
        self.shared.state
    }
}
