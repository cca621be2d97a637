//! One worker of a search: it selects visits, expands their leaves and backs them up. The steps that need the tree
//! are apart from those that do not, so that several workers can share one tree behind a lock.

use rand::rngs::Xoshiro256PlusPlus;

use super::{
    backup::Paths,
    error::Failure,
    expand::{ExpandContext, Replay},
    job::Job,
    leaf_priors::LeafPriors,
    leaf_values::LeafValues,
    params::SearchParams,
    refine::Refinement,
    select::{BatchLimits, Descent, Selection},
    state::SearchState,
    tree::{Tree, TreeFull, edges::EdgeWriter},
    visits::Visits,
};
use crate::network::Batch;

/// The state of one worker besides the tree. Its memory is reused from batch to batch.
pub(super) struct Worker {
    rng: Xoshiro256PlusPlus,
    replay: Replay,
    visits: Visits,
    refinement: Refinement,
    descent: Descent,
    paths: Paths,
    /// The index of the first of the visits that were selected last.
    first: usize,
    /// How many visits waited for the network before them.
    waiting: usize,
    /// The intended size of the batch.
    size: usize,
}

impl Worker {
    /// The worker of this number, with an edge writer of this tree.
    pub fn new(job: &Job, number: u64, tree: &mut Tree) -> Worker {
        let priors = LeafPriors::new(job, tree.butterfly.as_ref());
        let writer = tree.edges.take_writer();
        Worker {
            rng: job.rng(number),
            replay: Replay::new(&job.history),
            visits: Visits::new(writer, LeafValues::new(job), priors),
            refinement: Refinement::default(),
            descent: Descent::default(),
            paths: Paths::default(),
            first: 0,
            waiting: 0,
            size: 0,
        }
    }

    /// Returns the edge writer at the end.
    pub fn into_writer(self) -> EdgeWriter {
        self.visits.writer
    }

    /// Removes the visits of the last batch, which was backed up.
    pub fn begin(&mut self) {
        self.visits.clear();
        self.first = 0;
    }

    /// Selects as many visits as are missing from the batch. Those selected before whose leaves are evaluated already
    /// are backed up first.
    ///
    /// # Errors
    /// When the tree has no room for more.
    pub fn select(
        &mut self,
        state: &mut SearchState,
        params: &SearchParams,
    ) -> Result<(), TreeFull> {
        self.paths.back_up(state, params, &mut self.visits, false);
        self.refinement.settle(state);
        self.first = self.visits.list.len();
        self.waiting = self.visits.waiting();
        if state.is_root_expanded() && !state.has_root_moves() {
            // The root came out of the cache a moment ago: its moves are chosen before the next batch.
            return Ok(());
        }
        let n = state.root().n;
        // The size stays that of the beginning of the batch, although the tree grows meanwhile.
        if self.first == 0 {
            self.size = params.minibatch(n);
        }
        let limits = BatchLimits {
            leaves: self.size.saturating_sub(self.waiting),
            collisions: params.collisions(n, self.size),
            out_of_order: params.max_out_of_order(self.size),
        };
        let selection = Selection {
            state,
            params,
            rng: &mut self.rng,
        };
        let mut selected = self.descent.select(selection, &mut self.visits, limits);
        if selected.is_ok() {
            let leaves = self.visits.waiting();
            let writer = &mut self.visits.writer;
            selected = self.refinement.take(state, params, writer, leaves);
        }
        if selected.is_err() {
            self.unwind();
        } else if self.visits.is_idle() {
            // This thread is going to wait. Meanwhile its visits in flight would only cause collisions for the others.
            self.unwind();
            self.paths.cancel_all(state, &mut self.visits);
            self.visits.clear();
        }
        selected
    }

    fn unwind(&mut self) {
        self.descent.unwind(&mut self.visits, self.first);
    }

    /// Expands the leaves that were selected last; those that wait for the network are queued in `batch`. Needs no
    /// lock. Returns whether more should be selected, because some leaves were evaluated at once.
    ///
    /// # Errors
    /// When the tree has no room for more, or a network that refines priors fails.
    pub fn expand(
        &mut self,
        context: &ExpandContext<'_>,
        batch: &mut Batch,
    ) -> Result<bool, Failure> {
        self.unwind();
        context.expand(&mut self.visits, &mut self.replay, batch)?;
        let writer = &mut self.visits.writer;
        self.refinement
            .evaluate(context, &mut self.replay, writer)?;
        let params = context.params;
        let new = self.visits.list.len() - self.first;
        let ready = self.visits.ready(self.first);
        if !params.options.out_of_order_eval() {
            return Ok(false);
        }
        self.visits.out_of_order += ready;
        Ok(ready > 0 && self.waiting + new - ready < self.size)
    }

    /// Takes the evaluations from `batch`. Needs no lock.
    ///
    /// # Errors
    /// When the tree has no room for more.
    pub fn receive(&mut self, batch: &Batch) -> Result<(), TreeFull> {
        self.visits.receive(batch)
    }

    /// Backs up the batch and undoes its collisions.
    pub fn back_up(&mut self, state: &mut SearchState, params: &SearchParams) {
        self.paths.back_up(state, params, &mut self.visits, true);
        self.refinement.settle(state);
    }

    /// Undoes the batch.
    pub fn cancel(&mut self, state: &mut SearchState) {
        self.paths.cancel_all(state, &mut self.visits);
        self.refinement.give_back(state);
    }

    /// Undoes all visits that are not backed up, whether or not they were expanded.
    pub fn discard(&mut self, state: &mut SearchState) {
        self.unwind();
        self.cancel(state);
        self.visits.clear();
    }

    /// Whether there is something to expand, or to refine.
    pub fn has_work(&self) -> bool {
        !self.visits.is_idle() || !self.refinement.is_empty()
    }
}
