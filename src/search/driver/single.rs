//! One thread: it gathers a batch, has it evaluated and backs it up, again and again. With the same seed, and from the
//! same tree and the same evaluation cache, every search is the same.

use std::time::Duration;

use parking_lot::MutexGuard;

use super::{Search, catch_panic};
use crate::{
    network::Batch,
    search::{error::Failure, tree_search::Shared, worker::Worker},
};

impl Search<'_> {
    /// Searches with this thread alone until the search is over. Calls `report_progress` with the elapsed time between
    /// batches.
    pub(super) fn search_alone(&self, report_progress: &mut dyn FnMut(Duration)) {
        let mut worker = Worker::new(self.job, 0, &mut self.shared.lock().state.tree);
        let mut batch = Batch::default();
        loop {
            let mut shared = self.shared.lock();
            shared.back_up(&mut worker, &self.params, self.job);
            let elapsed = self.elapsed();
            shared.check_limits(elapsed);
            if self.is_finished(&shared) {
                shared.state.tree.edges.put_back(worker.into_writer());
                return;
            }
            let is_solved = shared.state.is_solved();
            worker.begin();
            batch.clear();
            if let Err(failure) = self.make_batch(shared, &mut worker, &mut batch) {
                self.fail(&mut self.shared.lock(), &mut worker, failure);
            }
            self.throttle(is_solved, !worker.has_work());
            report_progress(self.elapsed());
        }
    }

    /// Fills the batch and has it evaluated. The lock is held for the selection only, so that a panic in everything
    /// else, networks and their libraries above all, leaves the tree whole.
    fn make_batch<'s>(
        &'s self,
        mut shared: MutexGuard<'s, Shared>,
        worker: &mut Worker,
        batch: &mut Batch,
    ) -> Result<(), Failure> {
        let context = self.expand_context();
        loop {
            let selected = worker.select(&mut shared.state, &self.params);
            drop(shared);
            selected?;
            if !catch_panic(|| worker.expand(&context, batch))? || self.should_stop() {
                break;
            }
            shared = self.shared.lock();
        }
        catch_panic(|| {
            if !batch.is_empty() {
                self.evaluator.evaluate(batch)?;
            }
            Ok(worker.receive(batch)?)
        })
    }
}
