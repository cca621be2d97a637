//! How the threads of a search hand each other work, by flat combining: one thread at a time does for all of them what
//! needs the tree (Hendler, Incze, Shavit and Tzafrir, "Flat combining and the synchronization-parallelism tradeoff",
//! 2010). What a packet is and what the owner of the tree does with it are parameters, so that many orders of the
//! threads can be tested without a tree (`docs/lab/driver.md`).
//!
//! A thread that has finished a packet leaves it among the finished ones. If nobody owns the tree it becomes the owner
//! and takes *turns*: each settles all finished packets and prepares some new ones, until all are prepared and no more
//! have come meanwhile. Otherwise it takes the next prepared packet, and if there is none it waits. So no thread waits
//! for the tree, only for work.

use std::{
    collections::VecDeque,
    hint,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// How long a thread waits before it takes another turn if nothing could be prepared and nothing is under way: then
/// only a limit of time can end the search.
const RETRY: Duration = Duration::from_micros(50);

/// How often a thread without work checks whether there is some before it sleeps: for some 20 µs, as long as a turn may
/// take. Waking a sleeping thread takes longer.
const SPINS: u32 = 1000;

/// What the owner of the tree does with packets.
pub(super) trait Owner<P> {
    /// Settles `turn.finished` and prepares packets.
    fn take_turn(&self, turn: &mut Turn<P>);
}

/// The packets of one turn.
#[derive(Debug)]
pub(super) struct Turn<P> {
    /// They come back from threads. All of them have to go to one of the other lists.
    pub finished: Vec<P>,
    /// They have nothing to do for now.
    pub resting: Vec<P>,
    /// They are for the threads.
    pub prepared: Vec<P>,
    /// Whether another turn could prepare more of those that rest: the threads need not wait for all of them.
    pub has_more: bool,
    /// Whether the work is over.
    pub is_over: bool,
}

impl<P> Default for Turn<P> {
    fn default() -> Turn<P> {
        Turn {
            finished: Vec::new(),
            resting: Vec::new(),
            prepared: Vec::new(),
            has_more: false,
            is_over: false,
        }
    }
}

/// What a thread does next.
#[derive(Debug)]
pub(super) enum Next<P> {
    /// Work on this packet.
    Work(P),
    /// Nothing for now: come again.
    Wait,
    /// The work is over.
    End,
}

/// The packets that no thread holds.
#[derive(Debug)]
struct Queue<P> {
    prepared: VecDeque<P>,
    finished: Vec<P>,
    resting: Vec<P>,
    /// Packets that threads hold.
    under_way: usize,
    /// Whether a thread takes turns.
    has_owner: bool,
    /// Threads that sleep.
    sleeping: usize,
    is_over: bool,
}

/// The place where threads exchange packets.
pub(super) struct HandOver<P> {
    queue: Mutex<Queue<P>>,
    /// Packets were prepared, or the work is over.
    changed: Condvar,
    /// Whether something is prepared, or the work is over: threads that spin need no lock to see it.
    has_work: AtomicBool,
    /// Whether each thread has a processor, so that one that spins takes no time from those that work.
    may_spin: bool,
}

impl<P> HandOver<P> {
    /// All packets rest. `may_spin` says whether threads without work may check for some repeatedly before they sleep.
    pub fn new(packets: Vec<P>, may_spin: bool) -> HandOver<P> {
        HandOver {
            queue: Mutex::new(Queue {
                prepared: VecDeque::new(),
                finished: Vec::new(),
                resting: packets,
                under_way: 0,
                has_owner: false,
                sleeping: 0,
                is_over: false,
            }),
            changed: Condvar::new(),
            has_work: AtomicBool::new(false),
            may_spin,
        }
    }

    /// Ends the work for all threads, whatever they are doing.
    pub fn end(&self) {
        let mut queue = self.queue.lock();
        queue.is_over = true;
        self.has_work.store(true, Ordering::Relaxed);
        drop(queue);
        self.changed.notify_all();
    }

    /// Leaves a finished packet and takes a prepared one; in between takes turns if nobody else does. With a `patience`
    /// it comes back without a packet after this time.
    pub fn exchange(
        &self,
        finished: Option<P>,
        owner: &impl Owner<P>,
        patience: Option<Duration>,
    ) -> Next<P> {
        let mut queue = self.queue.lock();
        if let Some(packet) = finished {
            queue.under_way -= 1;
            queue.finished.push(packet);
        }
        let mut has_spun = !self.may_spin;
        loop {
            if queue.is_over {
                return Next::End;
            }
            let is_exhausted = queue.under_way == 0 && queue.prepared.is_empty();
            if !queue.has_owner && (!queue.finished.is_empty() || is_exhausted) {
                queue = self.take_turns(queue, owner);
                continue;
            }
            if let Some(packet) = queue.prepared.pop_front() {
                queue.under_way += 1;
                if queue.prepared.is_empty() {
                    self.has_work.store(false, Ordering::Relaxed);
                }
                return Next::Work(packet);
            }
            if !std::mem::replace(&mut has_spun, true) {
                MutexGuard::unlocked(&mut queue, || self.spin());
                continue;
            }
            if self.sleep(&mut queue, patience) {
                return Next::Wait;
            }
        }
    }

    /// Checks for work repeatedly, for a while.
    fn spin(&self) {
        for _ in 0..SPINS {
            if self.has_work.load(Ordering::Relaxed) {
                return;
            }
            hint::spin_loop();
        }
    }

    /// Sleeps until there is work or all is over; returns whether the patience ended first.
    fn sleep(&self, queue: &mut MutexGuard<'_, Queue<P>>, patience: Option<Duration>) -> bool {
        queue.sleeping += 1;
        let is_late = match patience {
            Some(patience) => self.changed.wait_for(queue, patience).timed_out(),
            None => {
                self.changed.wait(queue);
                false
            }
        };
        queue.sleeping -= 1;
        is_late
    }

    /// Takes turns until nothing is left to prepare and no packet has been finished meanwhile.
    fn take_turns<'q>(
        &'q self,
        mut queue: MutexGuard<'q, Queue<P>>,
        owner: &impl Owner<P>,
    ) -> MutexGuard<'q, Queue<P>> {
        let mut turn = Turn::default();
        queue.has_owner = true;
        loop {
            std::mem::swap(&mut turn.finished, &mut queue.finished);
            std::mem::swap(&mut turn.resting, &mut queue.resting);
            MutexGuard::unlocked(&mut queue, || owner.take_turn(&mut turn));
            let is_last = turn.is_over || queue.finished.is_empty() && !turn.has_more;
            self.publish(&mut queue, &mut turn, is_last);
            if is_last {
                break;
            }
        }
        queue.has_owner = false;
        if queue.prepared.is_empty() && queue.under_way == 0 && !queue.is_over {
            MutexGuard::unlocked(&mut queue, || thread::sleep(RETRY));
        }
        queue
    }

    /// Puts the packets of a turn into the lists and wakes threads for them, one fewer if the owner takes one itself.
    fn publish(&self, queue: &mut Queue<P>, turn: &mut Turn<P>, owner_takes_one: bool) {
        let for_others = turn
            .prepared
            .len()
            .saturating_sub(usize::from(owner_takes_one));
        queue.prepared.extend(turn.prepared.drain(..));
        queue.resting.append(&mut turn.resting);
        queue.is_over |= turn.is_over;
        let has_work = queue.is_over || !queue.prepared.is_empty();
        self.has_work.store(has_work, Ordering::Relaxed);
        if queue.is_over {
            self.changed.notify_all();
            return;
        }
        for _ in 0..for_others.min(queue.sleeping) {
            self.changed.notify_one();
        }
    }

    /// The packets, once no thread holds one: those that are finished, and the others.
    pub fn into_packets(self) -> (Vec<P>, Vec<P>) {
        let queue = self.queue.into_inner();
        let others = queue.prepared.into_iter().chain(queue.resting);
        (queue.finished, others.collect())
    }
}
