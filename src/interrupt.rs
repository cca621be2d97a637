//! Ctrl-C and SIGTERM ask for an orderly end, with what has been reached; a second one ends the process. Where what has
//! been reached is on disk at any time, the first one does.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag, low_level,
};

/// Time between two looks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// From now on the first Ctrl-C or SIGTERM sets the returned flag and calls `on_first`. A second one calls `on_second`
/// and ends the process with the exit code that shells give to a program ended by such a signal. Both are called on a
/// thread of their own; signals that arrive together count as one.
///
/// # Errors
/// When the system refuses a handler or the thread.
pub fn catch(
    on_first: impl FnOnce() + Send + 'static,
    on_second: impl FnOnce() + Send + 'static,
) -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let to_set = Arc::clone(&flag);
    watch(move |arrived| {
        arrived.next();
        to_set.store(true, Ordering::Relaxed);
        on_first();
        let signal = arrived.next();
        on_second();
        end(signal);
    })?;
    Ok(flag)
}

/// From now on Ctrl-C or SIGTERM calls `before`, on a thread of its own, and ends the process with the exit code that
/// shells give to a program ended by such a signal.
///
/// # Errors
/// When the system refuses a handler or the thread.
pub fn call_before_end(before: impl FnOnce() + Send + 'static) -> io::Result<()> {
    watch(move |arrived| {
        let signal = arrived.next();
        before();
        end(signal);
    })
}

/// The number of the last signal; 0 if there was none.
#[derive(Clone, Default)]
struct Arrived(Arc<AtomicUsize>);

impl Arrived {
    /// Waits for a signal.
    fn next(&self) -> usize {
        loop {
            match self.0.swap(0, Ordering::Relaxed) {
                0 => thread::sleep(POLL_INTERVAL),
                signal => return signal,
            }
        }
    }
}

/// Ends the process with the exit code that shells give to a program ended by this signal.
fn end(signal: usize) -> ! {
    low_level::exit(128 + i32::try_from(signal).unwrap_or_default());
}

/// Starts a thread that acts on signals, and catches them for it.
fn watch(act: impl FnOnce(&Arrived) + Send + 'static) -> io::Result<()> {
    let arrived = Arrived::default();
    let to_read = arrived.clone();
    // Without this thread nobody would act on the signals that the handlers catch.
    thread::Builder::new().spawn(move || act(&to_read))?;
    for (signal, number) in [(SIGINT, SIGINT as usize), (SIGTERM, SIGTERM as usize)] {
        flag::register_usize(signal, Arc::clone(&arrived.0), number)?;
    }
    Ok(())
}
