//! Ctrl-C and SIGTERM ask for an orderly end, with what has been reached; a second one ends the process.

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
    // The number of the last signal; 0 if there was none.
    let arrived = Arc::new(AtomicUsize::new(0));
    let (to_set, to_read) = (Arc::clone(&flag), Arc::clone(&arrived));
    let next = move || {
        loop {
            match to_read.swap(0, Ordering::Relaxed) {
                0 => thread::sleep(POLL_INTERVAL),
                signal => return signal,
            }
        }
    };
    let wait = move || {
        next();
        to_set.store(true, Ordering::Relaxed);
        on_first();
        let signal = next();
        on_second();
        low_level::exit(128 + i32::try_from(signal).unwrap_or_default());
    };
    // Without this thread nobody would act on the signals that the handlers catch.
    thread::Builder::new().spawn(wait)?;
    for (signal, number) in [(SIGINT, SIGINT as usize), (SIGTERM, SIGTERM as usize)] {
        flag::register_usize(signal, Arc::clone(&arrived), number)?;
    }
    Ok(flag)
}
