//! Ctrl-C and SIGTERM as a wish to end soon, with what has been reached, in place of an end at once.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

/// From now on the first Ctrl-C or SIGTERM sets the returned flag, and a second one ends the process with the exit code
/// that shells give to a program ended by such a signal.
///
/// # Errors
/// When the system refuses a handler.
pub fn catch() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Of the handlers, the first registered acts first: it finds the flag of an earlier signal.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&flag))?;
        flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Time between two looks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// As [`catch`], with a function that the first signal calls, on a thread of its own.
///
/// # Errors
/// As [`catch`].
pub fn on_signal(act: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let flag = catch()?;
    let wait = move || {
        while !flag.load(Ordering::Relaxed) {
            thread::sleep(POLL_INTERVAL);
        }
        act();
    };
    thread::Builder::new().spawn(wait).map(|_| ())
}
