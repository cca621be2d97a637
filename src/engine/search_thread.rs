//! The thread that searches. It starts with the engine and stays, so that a system without room for further threads
//! cannot stop the next search from beginning.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{self, SendError, Sender},
};

use crate::threads;

/// What the thread does.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// A thread that does one piece of work after the other, and ends when this is dropped.
pub(super) struct SearchThread {
    /// `None` if it could not be started.
    work: Option<Sender<Work>>,
}

impl SearchThread {
    /// Starts the thread. If that fails, [`SearchThread::run`] tries again.
    pub fn new() -> SearchThread {
        SearchThread { work: start().ok() }
    }

    /// Has the thread do this, after what it was given before. A panic in it ends nothing else.
    ///
    /// # Errors
    /// When there is no thread and none can be started; the work is returned.
    pub fn run(&mut self, work: Work) -> Result<(), (Work, io::Error)> {
        let sender = match self.work.take().map_or_else(start, Ok) {
            Ok(sender) => self.work.insert(sender),
            Err(error) => return Err((work, error)),
        };
        sender
            .send(work)
            .map_err(|SendError(work)| (work, io::ErrorKind::BrokenPipe.into()))
    }
}

fn start() -> io::Result<Sender<Work>> {
    let (sender, receiver) = mpsc::channel::<Work>();
    threads::spawn("engine", move || {
        for work in receiver {
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    })?;
    Ok(sender)
}
