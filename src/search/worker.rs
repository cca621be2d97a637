//! The workers: each gathers a batch, has it evaluated and backs it up, until the search is over.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

use super::{
    Clock, Job, StopSignal,
    backup::{backup, cancel_all},
    batch::{Minibatch, State},
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

    /// Works until the search is over.
    pub fn work(&self, thread: u64) {
        let mut rng = self.rng(thread);
        let mut line = Line::new(&self.job.history);
        let mut batch = Minibatch::default();
        while !self.is_finished() {
            batch.clear();
            let gathered = self.gather(&mut batch, &mut line, &mut rng);
            if let Err(error) = self.evaluate(&mut batch) {
                self.fail(&mut batch, error);
                return;
            }
            let mut tree = self.tree.lock();
            let backed_up = backup(&mut tree, &self.params, &mut batch, true);
            if gathered.and(backed_up).is_err() {
                self.is_full.store(true, Ordering::Relaxed);
                self.finish();
            }
            self.check_limits(&mut tree);
            let is_solved = tree.node(tree.root).is_proven();
            drop(tree);
            self.hold_back(is_solved || batch.visits.is_empty());
        }
    }

    /// Fills the batch: selects under the lock, expands without it. What turns out to be terminal or cached is backed up
    /// on the way and replaced.
    pub fn gather(
        &self,
        batch: &mut Minibatch,
        line: &mut Line,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), Full> {
        loop {
            let visits_before = batch.visits.len();
            let waiting = {
                let mut tree = self.tree.lock();
                if self.params.out_of_order {
                    backup(&mut tree, &self.params, batch, false)?;
                }
                let waiting = batch
                    .visits
                    .iter()
                    .filter(|visit| visit.is_waiting())
                    .count();
                self.select_scaled(&mut tree, batch, rng, self.params.minibatch - waiting)?;
                waiting
            };
            expand(
                batch,
                line,
                &self.params,
                self.evaluator,
                self.job.tables.as_deref(),
            );
            let claimed = batch.visits.len() - visits_before;
            let ready = batch.visits[visits_before..]
                .iter()
                .filter(|visit| visit.is_ready())
                .count();
            batch.out_of_order += if self.params.out_of_order { ready } else { 0 };
            let is_short = ready > 0 && waiting + claimed - ready < self.params.minibatch;
            if !is_short || !self.params.out_of_order || self.is_finished() {
                return Ok(());
            }
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
    pub fn evaluate(&self, batch: &mut Minibatch) -> Result<(), EvaluateError> {
        if !batch.eval.is_empty() {
            self.evaluator.evaluate(&mut batch.eval)?;
        }
        batch.finish();
        Ok(())
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

    fn fail(&self, batch: &mut Minibatch, error: EvaluateError) {
        cancel_all(&mut self.tree.lock(), batch);
        self.error.lock().get_or_insert(error);
        self.finish();
    }

    /// Sleeps where going on at full speed serves nobody: a solved position that is searched until stopped, an empty
    /// batch because other threads hold all leaves, or a limit on the nodes per second.
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
            let playouts = self.tree.lock().progress.playouts;
            let due = Duration::from_secs_f64(playouts as f64 / f64::from(options.nps_limit));
            while !self.is_finished() && self.elapsed() < due {
                std::thread::sleep(Duration::from_millis(1));
                self.check_limits(&mut self.tree.lock());
            }
        }
    }
}

impl super::batch::Visit {
    fn is_waiting(&self) -> bool {
        !matches!(self.state, State::Done | State::Collision)
    }

    fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }
}
