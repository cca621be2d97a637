//! Where lines for the GUI go: standard output, and the log file if there is one. Shared by the command loop, the search
//! thread and the loader; each line is written whole.
//!
//! A thread of its own writes, so that nobody waits for a reader that has stopped reading: `quit` is obeyed then, too.

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

/// Lines that may wait for the reader; beyond that, mere information is left out.
const MOST_WAITING: usize = 10_000;

/// Cheap to clone; all clones write to the same place.
#[derive(Clone)]
pub struct Output(Arc<Owner>);

/// Ends the writing thread with the last clone.
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
    /// Whether nobody will add anything any more.
    is_over: bool,
}

impl SharedOutput {
    /// Writes line after line until there will be no more.
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
    /// Writes to `to`.
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

    /// Sends a line. When nobody reads any more, that is remembered and nothing else happens.
    pub fn line(&self, text: &str) {
        let shared = self.shared();
        let mut queue = shared.queue.lock();
        let is_spare = queue.lines.len() >= MOST_WAITING && text.starts_with("info ");
        if !self.is_closed() && !is_spare {
            queue.lines.push_back(text.to_owned());
            shared.changed.notify_all();
        }
        // Under the same lock, so that the log keeps the order.
        self.log('<', text);
    }

    /// Waits until everything is written, but not for longer than `patience`.
    pub fn flush(&self, patience: Duration) {
        let shared = self.shared();
        let deadline = Instant::now() + patience;
        let mut queue = shared.queue.lock();
        while (queue.is_writing || !queue.lines.is_empty()) && !self.is_closed() {
            if shared.changed.wait_until(&mut queue, deadline).timed_out() {
                return;
            }
        }
    }

    /// Sends something for people to read, on one line whatever it contains.
    pub fn note(&self, text: &str) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.line(&format!("info string {}", printable(&text)));
    }

    /// Notes a line that came in.
    pub fn received(&self, text: &str) {
        self.log('>', text);
    }

    /// Whether the reader has gone away.
    pub fn is_closed(&self) -> bool {
        self.shared().closed.load(Ordering::Relaxed)
    }

    /// Writes the conversation to a file as well (appending); `<stderr>` is standard error, an empty path ends that.
    ///
    /// # Errors
    /// When the file cannot be opened; then there is no log.
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
            // A log that cannot be written must not disturb the game.
            let _ = writeln!(to, "{at:10.3} {direction} {text}");
        }
    }
}
