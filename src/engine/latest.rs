//! Requests to a thread that works on one at a time, and of which only the latest counts: while the thread works, a new
//! request takes the place of the one that waits. There is no thread while there is nothing to do.
//!
//! `models/` checks this file under every order of its threads: it uses nothing but `parking_lot`.

use std::{
    ops::{Deref, DerefMut},
    time::Instant,
};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The requests, and what their owner keeps under the same lock.
pub(super) struct Latest<R, S> {
    state: Mutex<LatestState<R, S>>,
    changed: Condvar,
}

/// The state under the lock; it dereferences to the owner's.
pub(super) struct LatestState<R, S> {
    owned: S,
    /// The number of the latest request: earlier ones are superseded.
    latest: u64,
    /// What is done next. A newer request takes its place.
    next: Option<R>,
    /// Whether the thread runs.
    is_busy: bool,
    /// Whether the program is ending.
    is_closed: bool,
}

impl<R, S> Deref for LatestState<R, S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.owned
    }
}

impl<R, S> DerefMut for LatestState<R, S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.owned
    }
}

impl<R, S> LatestState<R, S> {
    /// Adds a request, made from its number, in place of the one that waits. Returns whether the caller has to start a
    /// thread that calls [`Latest::work`], or to call [`Latest::cancel`].
    pub(super) fn submit(&mut self, request: impl FnOnce(u64) -> R) -> bool {
        self.latest += 1;
        self.next = Some(request(self.latest));
        !std::mem::replace(&mut self.is_busy, true)
    }

    /// Whether the thread runs.
    #[cfg(test)]
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Whether this is the number of the latest request.
    pub(super) fn is_latest(&self, number: u64) -> bool {
        self.latest == number
    }
}

impl<R, S> Latest<R, S> {
    pub(super) fn new(owned: S) -> Latest<R, S> {
        Latest {
            state: Mutex::new(LatestState {
                owned,
                latest: 0,
                next: None,
                is_busy: false,
                is_closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LatestState<R, S>> {
        self.state.lock()
    }

    /// Wakes all threads that wait for a change of the state.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// The thread: passes requests to `work` until none waits. `take` is called under the lock before each.
    pub(super) fn work<T>(&self, take: impl Fn(&mut S) -> T, mut work: impl FnMut(Option<R>, T)) {
        loop {
            let mut state = self.state.lock();
            let taken = take(&mut state.owned);
            let next = state.next.take();
            drop(state);
            work(next, taken);
            let mut state = self.state.lock();
            if state.next.is_none() {
                state.is_busy = false;
                drop(state);
                self.notify();
                return;
            }
        }
    }

    /// No thread could be started: returns the request that waits.
    pub(super) fn cancel(&self) -> Option<R> {
        let mut state = self.state.lock();
        state.is_busy = false;
        let next = state.next.take();
        drop(state);
        self.notify();
        next
    }

    /// Whether work for the request of this number may go on: it is the latest, and the program is not ending. Waits
    /// while `is_paused` says so.
    pub(super) fn may_continue(&self, number: u64, is_paused: impl Fn(&S) -> bool) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.is_closed || state.latest != number {
                return false;
            }
            if !is_paused(&state.owned) {
                return true;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Waits for a change of the state, at most until the deadline.
    pub(super) fn wait_until(
        &self,
        state: &mut MutexGuard<'_, LatestState<R, S>>,
        deadline: Instant,
    ) {
        self.changed.wait_until(state, deadline);
    }

    /// The program is ending: work does not go on. Waits until the thread has ended, at most until the deadline.
    /// Returns whether it has.
    pub(super) fn close(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.notify();
        while state.is_busy {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return false;
            }
        }
        true
    }
}
