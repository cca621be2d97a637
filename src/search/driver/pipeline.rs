//! Several threads: one of them at a time owns the tree, the others expand and evaluate.
//!
//! ```text
//!            +-> prepared -> a thread expands and evaluates -> finished ---+
//!            |   (a queue)        (no lock, 6 to 9 µs a position)          |
//!            +---------------- the owner of the tree <---------------------+
//!                 backs up what is evaluated, selects anew (0.5 to 2 µs a visit)
//! ```
//!
//! The visits of a search travel in packets, a few more than there are threads; [`HandOver`] says who works on which.
//! When the tree is what limits the speed, its owner stays the same thread, and the tree in one processor's cache.
//!
//! A packet whose selection finds nothing but leaves that others hold rests until something was backed up: in a small
//! tree fewer threads work, and the others sleep.
//!
//! The simplest design (each thread locks the tree, backs up its batch and selects the next one) is as fast with two
//! threads, and slower with each further one: measured in `docs/lab/driver.md`.

use std::time::Duration;

use super::{
    Search, catch_panic,
    hand_over::{HandOver, Next, Owner, Turn},
};
use crate::{
    network::{Batch, cores},
    search::{
        error::Failure,
        job::Job,
        tree::{Tree, TreeFull},
        tree_search::Shared,
        worker::Worker,
    },
};

/// For so many threads one packet more is prepared than they work on, so that a thread that comes back while another
/// owns the tree finds one.
const THREADS_PER_SPARE_PACKET: usize = 2;

/// How many packets are prepared before threads may take them. With many threads one is usually waiting, so it gets
/// them soon; with few, each turn settles more of those that come back at once.
fn packets_per_turn(threads: usize) -> usize {
    (16 / threads).clamp(2, 4)
}

/// Visits on their way, with all that is needed to expand and evaluate them.
struct Packet {
    worker: Worker,
    batch: Batch,
    /// Whether the batch has room for visits in place of those that were evaluated at once.
    wants_more: bool,
    /// Whether the search's result was certain when the visits were selected.
    is_solved: bool,
    failure: Option<Failure>,
}

impl Packet {
    fn new(job: &Job, number: u64, tree: &mut Tree) -> Packet {
        Packet {
            worker: Worker::new(job, number, tree),
            batch: Batch::default(),
            wants_more: false,
            is_solved: false,
            failure: None,
        }
    }

    /// Selects visits for an empty packet, or more for one that has room. Returns whether there is something to do.
    fn select(&mut self, search: &Search<'_>, shared: &mut Shared) -> bool {
        self.is_solved = shared.state.is_solved();
        let selected = self.worker.select(&mut shared.state, &search.params);
        if selected.is_err() {
            search.fail(shared, &mut self.worker, Failure::Full(TreeFull));
            self.begin();
            return false;
        }
        self.wants_more || self.worker.has_work()
    }

    /// Expands the selected visits and has them evaluated, unless the batch is to be filled further before. Needs no
    /// lock.
    fn evaluate(&mut self, search: &Search<'_>) {
        let Packet { worker, batch, .. } = self;
        let result = catch_panic(|| {
            let has_room = worker.expand(&search.expand_context(), batch)?;
            // What was evaluated at once throughout is finished.
            if has_room && !batch.is_empty() && !search.should_stop() {
                return Ok(true);
            }
            if !batch.is_empty() {
                search.evaluator.evaluate(batch)?;
            }
            worker.receive(batch)?;
            Ok(false)
        });
        match result {
            Ok(wants_more) => self.wants_more = wants_more,
            Err(failure) => self.failure = Some(failure),
        }
    }

    /// Backs up an evaluated packet, unless it is to be filled further, or undoes one that failed.
    fn settle(&mut self, search: &Search<'_>, shared: &mut Shared) {
        if let Some(failure) = self.failure.take() {
            search.fail(shared, &mut self.worker, failure);
            self.begin();
        } else if !self.wants_more {
            shared.back_up(&mut self.worker, &search.params, search.job);
            self.begin();
        }
    }

    fn begin(&mut self) {
        self.wants_more = false;
        self.worker.begin();
        self.batch.clear();
    }

    /// Undoes all visits that are not backed up, and returns the writer.
    fn give_back(mut self, shared: &mut Shared) {
        self.worker.discard(&mut shared.state);
        let writer = self.worker.into_writer();
        shared.state.tree.edges.put_back(writer);
    }
}

/// A search by several threads.
pub(super) struct Pipeline<'a, 'b> {
    search: &'a Search<'b>,
    packets: HandOver<Box<Packet>>,
}

impl<'a, 'b> Pipeline<'a, 'b> {
    /// Nothing is selected yet.
    pub fn new(search: &'a Search<'b>) -> Pipeline<'a, 'b> {
        // A batch more on the way to a device would be selected without the results of one more.
        let spare = if search.params.computes_at_once() {
            search.threads.div_ceil(THREADS_PER_SPARE_PACKET)
        } else {
            0
        };
        let mut shared = search.shared.lock();
        let packet = |number| {
            Box::new(Packet::new(
                search.job,
                number as u64,
                &mut shared.state.tree,
            ))
        };
        let packets = (0..search.threads + spare).map(packet).collect();
        Pipeline {
            search,
            packets: HandOver::new(packets, search.threads <= cores()),
        }
    }

    /// The loop of one thread, until the search is over. With a `patience` it calls `report_progress` with the elapsed
    /// time between packets, and while it waits for one after this time.
    pub fn work(&self, patience: Option<Duration>, report_progress: &mut dyn FnMut(Duration)) {
        let mut held = None;
        loop {
            match self.packets.exchange(held.take(), self, patience) {
                Next::Work(mut packet) => {
                    self.search.throttle(packet.is_solved, false);
                    packet.evaluate(self.search);
                    held = Some(packet);
                }
                Next::Wait => {}
                Next::End => return,
            }
            if patience.is_some() {
                report_progress(self.search.elapsed());
            }
        }
    }

    /// Ends the search for all threads, whatever they are doing.
    pub fn end(&self) {
        self.packets.end();
    }

    /// Once no thread works any more: backs up what was evaluated, undoes all other visits and returns the writers.
    pub fn finish(self) {
        let (finished, others) = self.packets.into_packets();
        let shared = &mut *self.search.shared.lock();
        for mut packet in finished {
            packet.settle(self.search, shared);
            packet.give_back(shared);
        }
        for packet in others {
            packet.give_back(shared);
        }
    }
}

impl Owner<Box<Packet>> for Pipeline<'_, '_> {
    /// Backs up the finished packets and selects visits for them and for those that rest.
    fn take_turn(&self, turn: &mut Turn<Box<Packet>>) {
        let search = self.search;
        let shared = &mut *search.shared.lock();
        for packet in &mut turn.finished {
            packet.settle(search, shared);
        }
        shared.check_limits(search.elapsed());
        turn.is_over = search.is_finished(shared);
        if turn.is_over {
            turn.resting.append(&mut turn.finished);
            return;
        }
        for mut packet in turn.finished.drain(..) {
            // What it holds already is to be evaluated in any case.
            if packet.wants_more && packet.select(search, shared) {
                turn.prepared.push(packet);
            } else {
                turn.resting.push(packet);
            }
        }
        // Where one packet finds nothing, another would not either.
        turn.has_more = true;
        while turn.has_more
            && turn.prepared.len() < packets_per_turn(search.threads)
            && let Some(mut packet) = turn.resting.pop()
        {
            turn.has_more = packet.select(search, shared);
            if turn.has_more {
                turn.prepared.push(packet);
            } else {
                turn.resting.push(packet);
            }
        }
        turn.has_more &= !turn.resting.is_empty();
    }
}
