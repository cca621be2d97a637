//! The workers: each gathers a batch, has it evaluated and backs it up, until the search is over.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

use super::{
    Clock, Job, SearchError, StopSignal,
    backup::{backup, cancel_all},
    batch::Minibatch,
    expand::{Line, expand},
    limits::Stopper,
    params::Params,
    select::select,
    tree::{Full, Tree},
};
use crate::{
    network::{EvaluateError, Evaluator},
    options::Options,
};

/// How often a worker looks whether the tree is free before it goes to sleep; some 0.3 ms.
const PATIENCE: u32 = 5000;

/// What the threads of one search share.
pub(super) struct Search<'a> {
    pub tree: &'a Mutex<Tree>,
    pub evaluator: &'a dyn Evaluator,
    pub job: &'a Job,
    pub params: Params,
    pub threads: usize,
    pub clock: &'a dyn Clock,
    pub started: Duration,
    pub stop: &'a StopSignal,
    /// Locked only while the tree is.
    pub stopper: Mutex<Stopper>,
    /// Set once, by whoever finds that the search is over.
    pub is_over: AtomicBool,
    pub error: Mutex<Option<EvaluateError>>,
    pub is_full: AtomicBool,
}

impl Search<'_> {
    /// Time since the search began.
    pub fn elapsed(&self) -> Duration {
        self.clock.now().saturating_sub(self.started)
    }

    /// A worker's source of randomness: the same for the same seed, position and thread.
    pub fn rng(&self, thread: u64) -> Xoshiro256PlusPlus {
        let position = self.job.history.last().key;
        Xoshiro256PlusPlus::seed_from_u64(
            self.job.options.seed ^ position.rotate_left(17) ^ thread.rotate_right(8),
        )
    }

    /// Locks the tree. Others hold it for fractions of a millisecond, so it pays to stay awake that long: being put to
    /// sleep and woken costs as much again.
    fn lock_tree(&self) -> MutexGuard<'_, Tree> {
        for _ in 0..PATIENCE {
            if let Some(tree) = self.tree.try_lock() {
                return tree;
            }
            std::hint::spin_loop();
        }
        self.tree.lock()
    }

    /// Works until the search is over.
    pub fn work(&self, thread: u64) {
        let mut rng = self.rng(thread);
        let mut line = Line::new(&self.job.history);
        let mut batch = Minibatch::new(self.tree.lock().edges.take_writer());
        loop {
            // The last batch goes in and the next one comes out under the same lock.
            let mut tree = self.lock_tree();
            backup(&mut tree, &self.params, &mut batch, true);
            self.check_limits(&mut tree);
            if self.is_finished() {
                tree.edges.put_back(batch.writer);
                return;
            }
            let is_solved = tree.node(tree.root).is_proven();
            batch.clear();
            let result = self
                .gather(tree, &mut batch, &mut line, &mut rng)
                .and_then(|()| self.evaluate(&mut batch));
            if let Err(failure) = result {
                self.fail(&mut batch, failure);
            }
            self.hold_back(is_solved || batch.is_idle());
        }
    }

    /// Fills the batch: selects under the lock, expands without it. What turns out to be terminal or cached is backed up
    /// on the way and replaced.
    fn gather<'a>(
        &'a self,
        mut tree: MutexGuard<'a, Tree>,
        batch: &mut Minibatch,
        line: &mut Line,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), SearchError> {
        loop {
            let first = batch.visits.len();
            let waiting = batch.waiting();
            let want = self.params.minibatch - waiting;
            let selected = self.select_scaled(&mut tree, batch, rng, want);
            drop(tree);
            batch.unwind(first);
            selected?;
            let tables = self.job.tables.as_deref();
            expand(batch, line, &self.params, self.evaluator, tables)?;
            let (new, ready) = (batch.visits.len() - first, batch.ready(first));
            batch.out_of_order += if self.params.out_of_order { ready } else { 0 };
            let is_short = ready > 0 && waiting + new - ready < self.params.minibatch;
            if !is_short || !self.params.out_of_order || self.is_finished() {
                return Ok(());
            }
            tree = self.lock_tree();
            backup(&mut tree, &self.params, batch, false);
        }
    }

    fn select_scaled(
        &self,
        tree: &mut Tree,
        batch: &mut Minibatch,
        rng: &mut Xoshiro256PlusPlus,
        want: usize,
    ) -> Result<(), Full> {
        let allowed = self.params.collisions(tree.node(tree.root).n);
        select(tree, &self.params, batch, rng, want, allowed)
    }

    /// Evaluates what waits for the network and prepares it for backup.
    pub fn evaluate(&self, batch: &mut Minibatch) -> Result<(), SearchError> {
        if !batch.eval.is_empty() {
            self.evaluator.evaluate(&mut batch.eval)?;
        }
        Ok(batch.finish()?)
    }

    /// Ends the search if a limit is reached.
    pub fn check_limits(&self, tree: &mut Tree) {
        if self.stopper.lock().is_over(tree, self.elapsed()) {
            self.finish();
        }
    }

    /// Whether the search has ended or should.
    pub fn is_finished(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.stop.is_stopped()
    }

    fn finish(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Undoes the batch and ends the search.
    fn fail(&self, batch: &mut Minibatch, failure: SearchError) {
        cancel_all(&mut self.lock_tree(), batch);
        match failure {
            SearchError::Evaluate(error) => {
                self.error.lock().get_or_insert(error);
            }
            SearchError::Full(Full) => self.is_full.store(true, Ordering::Relaxed),
        }
        self.finish();
    }

    /// Sleeps where going on at full speed serves nobody: a solved position that is searched until stopped, a batch that
    /// came to nothing because other threads hold all leaves, or a limit on the nodes per second.
    fn hold_back(&self, is_idle: bool) {
        if is_idle && !self.is_finished() {
            std::thread::sleep(Duration::from_micros(if self.job.limits.infinite {
                5000
            } else {
                50
            }));
        }
        let options: &Options = &self.job.options;
        if options.nps_limit > 0.0 {
            let playouts = self.lock_tree().progress.playouts;
            let due = playouts as f64 / f64::from(options.nps_limit);
            let due = Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX);
            while !self.is_finished() && self.elapsed() < due {
                std::thread::sleep(Duration::from_millis(1));
                self.check_limits(&mut self.lock_tree());
            }
        }
    }
}
