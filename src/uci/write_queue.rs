//! A queue for one writing thread, so that those who add to it never wait for a slow reader.
//!
//! `models/` checks this file under every order of its threads: it uses nothing but `parking_lot`.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

/// A queue between the threads that add items and the one that writes them.
pub(super) struct WriteQueue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

struct QueueState<T> {
    items: VecDeque<T>,
    /// Whether an item is being written.
    is_writing: bool,
    /// How many items were written.
    written: u64,
    /// Whether no more items will be added.
    is_over: bool,
    /// Whether nobody reads what is written.
    is_closed: bool,
}

impl<T> WriteQueue<T> {
    pub(super) fn new() -> WriteQueue<T> {
        WriteQueue {
            state: Mutex::new(QueueState {
                items: VecDeque::new(),
                is_writing: false,
                written: 0,
                is_over: false,
                is_closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Adds an item.
    ///
    /// # Errors
    /// The item, if `limit` items wait or nobody reads.
    pub(super) fn push(&self, item: T, limit: usize) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.is_closed || state.items.len() >= limit {
            return Err(item);
        }
        state.items.push_back(item);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Drops the items that wait and adds this one. Returns how many were dropped.
    pub(super) fn replace(&self, item: T) -> usize {
        let mut state = self.state.lock();
        let waiting = std::mem::take(&mut state.items);
        state.items.push_back(item);
        drop(state);
        self.changed.notify_all();
        waiting.len()
    }

    /// The writing thread: passes items to `write` until the end, or until that returns false because nobody reads.
    pub(super) fn write(&self, mut write: impl FnMut(T) -> bool) {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return;
            }
            let Some(item) = state.items.pop_front() else {
                if state.is_over {
                    return;
                }
                self.changed.wait(&mut state);
                continue;
            };
            state.is_writing = true;
            drop(state);
            let is_read = write(item);
            state = self.state.lock();
            state.is_writing = false;
            state.written += 1;
            if !is_read {
                state.is_closed = true;
                state.items.clear();
            }
            self.changed.notify_all();
        }
    }

    /// Waits until everything is written, as long as the reader takes an item every `patience`. Returns whether nothing
    /// waits any more.
    pub(super) fn flush(&self, patience: Duration) -> bool {
        let mut state = self.state.lock();
        let (mut written, mut deadline) = (state.written, Instant::now() + patience);
        while (state.is_writing || !state.items.is_empty()) && !state.is_closed {
            if state.written != written {
                (written, deadline) = (state.written, Instant::now() + patience);
            }
            let is_late = self.changed.wait_until(&mut state, deadline).timed_out();
            if is_late && state.written == written {
                return false;
            }
        }
        true
    }

    /// No more items will be added: the writing thread ends when it has written those that wait.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Nobody reads: items that wait are dropped, and no more are taken.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.items.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Whether nobody reads.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }
}
