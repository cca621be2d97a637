//! `parking_lot`'s interface of `shuttle`'s locks, as far as the program uses it.

use std::{
    ops::{Deref, DerefMut},
    time::{Duration, Instant},
};

use shuttle::sync;

#[derive(Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// Holds a lock; `None` while a condition is waited for, or while the lock is given up for a while.
pub struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>, &'a Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap()), self)
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap()
    }
}

impl<T> MutexGuard<'_, T> {
    pub fn unlocked<R>(guard: &mut Self, work: impl FnOnce() -> R) -> R {
        guard.0 = None;
        let result = work();
        guard.0 = Some(guard.1.0.lock().unwrap());
        result
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().unwrap()
    }
}

#[derive(Default)]
pub struct Condvar(sync::Condvar);

/// Whether a wait has ended because of its time limit: never.
pub struct WaitTimeoutResult;

impl WaitTimeoutResult {
    pub fn timed_out(&self) -> bool {
        false
    }
}

impl Condvar {
    pub fn new() -> Condvar {
        Condvar::default()
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let waiting = guard.0.take().unwrap();
        guard.0 = Some(self.0.wait(waiting).unwrap());
    }

    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult
    }

    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
