//! Where lines for the GUI go: standard output, and the log file if there is one. Shared by the command loop, the search
//! thread and the loader; each line is written whole.

use std::{
    io::{self, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;

use crate::files::output::open_log;

/// Cheap to clone; all clones write to the same place.
#[derive(Clone)]
pub struct Output(Arc<Shared>);

struct Shared {
    to: Mutex<Box<dyn Write + Send>>,
    log: Mutex<Option<Box<dyn Write + Send>>>,
    closed: AtomicBool,
    started: Instant,
}

impl Output {
    /// Writes to `to`.
    pub fn new(to: Box<dyn Write + Send>) -> Output {
        Output(Arc::new(Shared {
            to: Mutex::new(to),
            log: Mutex::new(None),
            closed: AtomicBool::new(false),
            started: Instant::now(),
        }))
    }

    /// Sends a line. When nobody reads any more, that is remembered and nothing else happens.
    pub fn line(&self, text: &str) {
        let mut to = self.0.to.lock();
        let written = writeln!(to, "{text}").and_then(|()| to.flush());
        if written.is_err() {
            self.0.closed.store(true, Ordering::Relaxed);
        }
        // Under the same lock, so that the log keeps the order.
        self.log('<', text);
    }

    /// Sends something for people to read, on one line whatever it contains.
    pub fn note(&self, text: &str) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.line(&format!("info string {text}"));
    }

    /// Notes a line that came in.
    pub fn received(&self, text: &str) {
        self.log('>', text);
    }

    /// Whether the reader has gone away.
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
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
        *self.0.log.lock() = log;
        Ok(())
    }

    fn log(&self, direction: char, text: &str) {
        let mut log = self.0.log.lock();
        if let Some(to) = log.as_mut() {
            let at = self.0.started.elapsed().as_secs_f64();
            // A log that cannot be written must not disturb the game.
            let _ = writeln!(to, "{at:10.3} {direction} {text}");
        }
    }
}
