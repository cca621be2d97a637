//! Thread starts that may fail. A system at its limit of processes or memory refuses new threads, and
//! [`std::thread::spawn`] panics then. Here the caller gets an error and goes on with the threads that it has.
//!
//! Tests inject such failures with `faults::during`; other builds have no trace of it.

use std::{
    io,
    thread::{Builder, JoinHandle, Scope, ScopedJoinHandle},
};

/// Starts a thread. `name` is what debuggers show (Linux: its first 15 bytes).
///
/// # Errors
/// When the system refuses it; `work` is dropped then.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    #[cfg(test)]
    let work = faults::start(work)?;
    Builder::new().name(name.to_owned()).spawn(work)
}

/// Frees a large value on a thread of its own, because the system needs tenths of a second to take back gigabytes. If
/// it refuses the thread, the value is freed here.
pub fn drop_aside<T: Send + 'static>(value: T) {
    let _ = spawn("free", move || drop(value));
}

/// Starts a thread that ends before `scope` does.
///
/// # Errors
/// When the system refuses it; `work` is dropped then.
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    #[cfg(test)]
    let work = faults::start(work)?;
    Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, work)
}

/// Fault injection: thread starts that fail as a test wants them to.
#[cfg(test)]
pub(crate) mod faults {
    use std::{
        cell::RefCell,
        io,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    /// Which starts fail, and how many were tried.
    struct Plan {
        tried: AtomicUsize,
        fails: Box<dyn Fn(usize) -> bool + Send + Sync>,
    }

    thread_local! {
        /// The plan of this thread, which those that it starts inherit: tests beside it are not concerned.
        static PLAN: RefCell<Option<Arc<Plan>>> = const { RefCell::new(None) };
    }

    /// Does `work`. Meanwhile the starts of threads from here, and from those threads, fail if `fails` says so of their
    /// number (from 0). Returns how many starts were tried besides.
    pub fn during<R>(
        fails: impl Fn(usize) -> bool + Send + Sync + 'static,
        work: impl FnOnce() -> R,
    ) -> (R, usize) {
        let plan = Arc::new(Plan {
            tried: AtomicUsize::new(0),
            fails: Box::new(fails),
        });
        let before = PLAN.replace(Some(Arc::clone(&plan)));
        let result = work();
        PLAN.set(before);
        (result, plan.tried.load(Ordering::Relaxed))
    }

    /// What the new thread is to do, unless its start is to fail.
    pub(super) fn start<T>(work: impl FnOnce() -> T) -> io::Result<impl FnOnce() -> T> {
        let plan = PLAN.with_borrow(Clone::clone);
        if let Some(plan) = &plan {
            let number = plan.tried.fetch_add(1, Ordering::Relaxed);
            if (plan.fails)(number) {
                return Err(io::Error::other("this thread start fails in a test"));
            }
        }
        Ok(move || {
            PLAN.set(plan);
            work()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_fail_as_planned_in_threads_of_threads_too() {
        let (started, tried) = faults::during(
            |number| number == 1,
            || {
                let outer = spawn("outer", || {
                    let inner = |text| spawn("inner", move || text);
                    let second = inner("second");
                    let third = inner("third").map(|thread| thread.join().unwrap());
                    (second.is_err(), third.ok())
                });
                outer.unwrap().join().unwrap()
            },
        );
        assert_eq!((started, tried), ((true, Some("third")), 3));
        assert!(spawn("later", || ()).is_ok(), "the plan is over");
    }
}
