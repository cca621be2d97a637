//! Output to the GUI: standard output, and the log file if there is one. Shared by the command loop, the search
//! thread and the loader; each line is written whole.
//!
//! A separate thread writes, so that no other thread waits for a reader that has stopped reading: `quit` still works
//! then.

use std::{
    collections::VecDeque,
    io::{self, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::{files::output::open_log, terminal::printable};

/// Maximum number of queued lines; beyond that, `info` lines are dropped.
const MAX_QUEUED_LINES: usize = 10_000;

/// Cheap to clone; all clones write to the same place.
#[derive(Clone)]
pub struct Output(Arc<Owner>);

/// Stops the writing thread when the last clone is dropped.
struct Owner(Arc<SharedOutput>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.queue.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

struct SharedOutput {
    queue: Mutex<LineQueue>,
    changed: Condvar,
    log: Mutex<Option<Box<dyn Write + Send>>>,
    closed: AtomicBool,
    started: Instant,
}

#[derive(Default)]
struct LineQueue {
    lines: VecDeque<String>,
    /// Whether a line is being written.
    is_writing: bool,
    /// Whether no more lines will be added.
    is_over: bool,
}

impl SharedOutput {
    /// Writes queued lines until the queue is closed.
    fn write(&self, mut to: Box<dyn Write + Send>) {
        let mut queue = self.queue.lock();
        loop {
            let Some(line) = queue.lines.pop_front() else {
                if queue.is_over {
                    return;
                }
                self.changed.wait(&mut queue);
                continue;
            };
            queue.is_writing = true;
            drop(queue);
            let written = writeln!(to, "{line}").and_then(|()| to.flush());
            queue = self.queue.lock();
            queue.is_writing = false;
            if written.is_err() {
                self.closed.store(true, Ordering::Relaxed);
                queue.lines.clear();
            }
            self.changed.notify_all();
        }
    }
}

impl Output {
    /// An output that writes to `to`.
    pub fn new(to: Box<dyn Write + Send>) -> Output {
        let shared = Arc::new(SharedOutput {
            queue: Mutex::default(),
            changed: Condvar::new(),
            log: Mutex::new(None),
            closed: AtomicBool::new(false),
            started: Instant::now(),
        });
        let writer = Arc::clone(&shared);
        thread::spawn(move || writer.write(to));
        Output(Arc::new(Owner(shared)))
    }

    fn shared(&self) -> &SharedOutput {
        &self.0.0
    }

    /// Queues a line. After the reader is gone this does nothing.
    pub fn line(&self, text: &str) {
        let shared = self.shared();
        let mut queue = shared.queue.lock();
        let is_spare = queue.lines.len() >= MAX_QUEUED_LINES && text.starts_with("info ");
        if !self.is_closed() && !is_spare {
            queue.lines.push_back(text.to_owned());
            shared.changed.notify_all();
        }
        // Under the same lock, so that the log keeps the order.
        self.log('<', text);
    }

    /// Waits until everything is written, at most for `timeout`.
    pub fn flush(&self, timeout: Duration) {
        let shared = self.shared();
        let deadline = Instant::now() + timeout;
        let mut queue = shared.queue.lock();
        while (queue.is_writing || !queue.lines.is_empty()) && !self.is_closed() {
            if shared.changed.wait_until(&mut queue, deadline).timed_out() {
                return;
            }
        }
    }

    /// Prints a message for the user, always on one line.
    pub fn note(&self, text: &str) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.line(&format!("info string {}", printable(&text)));
    }

    /// Logs a received line.
    pub fn received(&self, text: &str) {
        self.log('>', text);
    }

    /// Whether the reader is gone.
    pub fn is_closed(&self) -> bool {
        self.shared().closed.load(Ordering::Relaxed)
    }

    /// Copies the session to a file (appending); `<stderr>` is standard error, and an empty path ends the log.
    ///
    /// # Errors
    /// When the file cannot be opened; there is no log then.
    pub fn log_to(&self, path: &str) -> io::Result<()> {
        let log: Option<Box<dyn Write + Send>> = match path {
            "" => None,
            "<stderr>" => Some(Box::new(io::stderr())),
            path => Some(Box::new(open_log(Path::new(path))?)),
        };
        *self.shared().log.lock() = log;
        Ok(())
    }

    fn log(&self, direction: char, text: &str) {
        let mut log = self.shared().log.lock();
        if let Some(to) = log.as_mut() {
            let at = self.shared().started.elapsed().as_secs_f64();
            // An error of the log must not disturb the game.
            let _ = writeln!(to, "{at:10.3} {direction} {text}");
        }
    }
}
