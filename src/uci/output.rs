//! Output to the GUI: standard output, and the log file if there is one. Shared by the command loop, the search
//! thread and the loader; each line is written whole.
//!
//! Two threads write, one to standard output and one to the log, so that no other thread waits for a reader that has
//! stopped reading: `quit` still works then. What waits to be written is bounded.

use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::write_queue::WriteQueue;
use crate::{files::output::open_log, terminal::printable, threads};

/// Maximum number of queued lines; beyond that, `info` lines and lines of the log are dropped.
const MAX_QUEUED_LINES: usize = 10_000;

/// Maximum number of queued lines of any kind: a reader that leaves this many unread is considered gone.
const MAX_UNREAD_LINES: usize = 100_000;

type Writer = Box<dyn Write + Send>;

/// Cheap to clone; all clones write to the same place.
#[derive(Clone)]
pub struct Output(Arc<SharedOutput>);

struct SharedOutput {
    lines: Arc<WriteQueue<String>>,
    /// Where lines are written at once, if no thread could be started for it.
    unthreaded: Mutex<Option<Writer>>,
    log: Mutex<Log>,
    started: Instant,
}

/// The writing threads end when the last clone is dropped.
impl Drop for SharedOutput {
    fn drop(&mut self) {
        self.lines.end();
        self.log.lock().queue.end();
    }
}

impl Output {
    /// An output that writes to `to`.
    pub fn new(to: Writer) -> Output {
        let lines = Arc::new(WriteQueue::<String>::new());
        let queue = Arc::clone(&lines);
        let to = Arc::new(Mutex::new(Some(to)));
        let place = Arc::clone(&to);
        let started = threads::spawn("output", move || {
            if let Some(mut to) = place.lock().take() {
                queue.write(|line| write_line(&mut to, &line));
            }
        });
        Output(Arc::new(SharedOutput {
            lines,
            unthreaded: Mutex::new(started.err().and_then(|_| to.lock().take())),
            log: Mutex::default(),
            started: Instant::now(),
        }))
    }

    /// Queues a line. After the reader is gone this does nothing.
    pub fn line(&self, text: &str) {
        // Locked meanwhile, so that the log keeps the order.
        let mut log = self.0.log.lock();
        self.write(text);
        log.add(self.0.started, '<', text);
    }

    fn write(&self, text: &str) {
        let lines = &self.0.lines;
        if let Some(to) = self.0.unthreaded.lock().as_mut() {
            if !lines.is_closed() && !write_line(to, text) {
                lines.close();
            }
            return;
        }
        let is_spare = text.starts_with("info ");
        let limit = if is_spare {
            MAX_QUEUED_LINES
        } else {
            MAX_UNREAD_LINES
        };
        if lines.push(text.to_owned(), limit).is_err() && !is_spare {
            lines.close();
        }
    }

    /// Waits until everything is written, as long as the readers take a line every `patience`.
    pub fn flush(&self, patience: Duration) {
        self.0.lines.flush(patience);
        let log = Arc::clone(&self.0.log.lock().queue);
        log.flush(patience);
    }

    /// Prints a message for the user, always on one line.
    pub fn note(&self, text: &str) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.line(&format!("info string {}", printable(&text)));
    }

    /// Logs a received line.
    pub fn received(&self, text: &str) {
        self.0.log.lock().add(self.0.started, '>', text);
    }

    /// Whether the reader is gone.
    pub fn is_closed(&self) -> bool {
        self.0.lines.is_closed()
    }

    /// Whether the session is copied to a file.
    pub fn has_log(&self) -> bool {
        self.0.log.lock().is_on
    }

    /// Copies the session to a file (appending); `<stderr>` is standard error, and an empty path ends the log.
    ///
    /// # Errors
    /// When the file cannot be opened or no thread can be started; there is no log then.
    pub fn log_to(&self, path: &str) -> io::Result<()> {
        let mut log = self.0.log.lock();
        log.switch(None);
        let to: Writer = match path {
            "" => return Ok(()),
            "<stderr>" => Box::new(io::stderr()),
            path => Box::new(open_log(Path::new(path))?),
        };
        log.start()?;
        log.switch(Some(to));
        Ok(())
    }
}

fn write_line(to: &mut Writer, line: &str) -> bool {
    writeln!(to, "{line}").and_then(|()| to.flush()).is_ok()
}

/// The log, which a thread of its own writes.
struct Log {
    queue: Arc<WriteQueue<LogEntry>>,
    is_on: bool,
    has_thread: bool,
    /// Number of lines that were dropped because the file takes no more.
    dropped: usize,
}

enum LogEntry {
    Line(String),
    /// Where the next lines are written.
    To(Option<Writer>),
}

impl Default for Log {
    fn default() -> Log {
        Log {
            queue: Arc::new(WriteQueue::new()),
            is_on: false,
            has_thread: false,
            dropped: 0,
        }
    }
}

impl Log {
    /// Starts the thread, unless it runs.
    fn start(&mut self) -> io::Result<()> {
        if !self.has_thread {
            let queue = Arc::clone(&self.queue);
            threads::spawn("log", move || {
                let mut to: Option<Writer> = None;
                queue.write(|entry| {
                    match (entry, &mut to) {
                        (LogEntry::To(next), _) => to = next,
                        // An error of the log must not disturb the game.
                        (LogEntry::Line(line), Some(to)) => drop(writeln!(to, "{line}")),
                        (LogEntry::Line(_), None) => {}
                    }
                    true
                });
            })?;
            self.has_thread = true;
        }
        Ok(())
    }

    /// Writes the next lines to another place, or nowhere.
    fn switch(&mut self, to: Option<Writer>) {
        self.is_on = to.is_some();
        if !self.has_thread {
            return;
        }
        // One more than lines may wait, so that there is place after the last one.
        let pushed = self.queue.push(LogEntry::To(to), MAX_QUEUED_LINES + 1);
        if let Err(entry) = pushed {
            self.dropped += self.queue.replace(entry);
        }
    }

    fn add(&mut self, started: Instant, direction: char, text: &str) {
        if !self.is_on {
            return;
        }
        let at = started.elapsed().as_secs_f64();
        let line = match self.dropped {
            0 => format!("{at:10.3} {direction} {text}"),
            dropped => {
                format!("{at:10.3} {dropped} lines are missing\n{at:10.3} {direction} {text}")
            }
        };
        let pushed = self.queue.push(LogEntry::Line(line), MAX_QUEUED_LINES);
        self.dropped = match pushed {
            Ok(()) => 0,
            Err(_) => self.dropped + 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{Receiver, Sender, channel},
        thread,
    };

    use super::*;
    use crate::threads::faults;

    /// A place to write to that takes a line for each message, and none after the last one.
    struct Slow(Receiver<()>, Arc<Mutex<String>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.lock().push_str(&String::from_utf8_lossy(bytes));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Sender<()>, Writer, Arc<Mutex<String>>) {
        let (sender, receiver) = channel();
        let text = Arc::<Mutex<String>>::default();
        (sender, Box::new(Slow(receiver, Arc::clone(&text))), text)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_nobody_reads_is_bounded() {
        let (_full, to, _) = slow();
        let output = Output::new(to);
        for number in 0..2 * MAX_QUEUED_LINES {
            output.line(&format!("info nodes {number}"));
        }
        assert!(!output.is_closed());
        // Answers still find place.
        for _ in 0..MAX_UNREAD_LINES - MAX_QUEUED_LINES {
            output.line("readyok");
        }
        assert!(!output.is_closed());
        for _ in 0..2 {
            output.line("readyok");
        }
        assert!(output.is_closed());
        output.flush(SECOND);
    }

    #[test]
    fn a_log_that_is_full_stops_nobody_and_counts_what_it_misses() {
        let (sender, to, text) = slow();
        let output = Output::new(Box::new(io::sink()));
        {
            let mut log = output.0.log.lock();
            log.start().unwrap();
            log.switch(Some(to));
        }
        for number in 0..MAX_QUEUED_LINES + 100 {
            output.line(&format!("info nodes {number}"));
        }
        // Lines reach the reader while the log waits.
        assert!(output.0.lines.flush(60 * SECOND));
        // `write_fmt` writes a line in several parts.
        for _ in 0..2 * MAX_QUEUED_LINES + 2000 {
            sender.send(()).unwrap();
        }
        output.flush(60 * SECOND);
        output.line("readyok");
        output.flush(60 * SECOND);
        let text = text.lock();
        assert!(text.contains("< info nodes 0\n"), "{}", &text[..200]);
        let end = &text[text.len() - 100..];
        assert!(
            end.contains(" lines are missing\n") && end.ends_with("< readyok\n"),
            "{end}"
        );
    }

    #[test]
    fn a_slow_reader_gets_every_line_before_the_end() {
        let (sender, to, text) = slow();
        let output = Output::new(to);
        for number in 0..10 {
            output.line(&format!("info nodes {number}"));
        }
        let reader = thread::spawn(move || {
            // Each line is written in two parts.
            for _ in 0..2 * 10 {
                thread::sleep(SECOND / 4);
                sender.send(()).unwrap();
            }
            sender
        });
        // All of them take longer than one may.
        output.flush(4 * SECOND);
        assert!(text.lock().ends_with("info nodes 9\n"), "{}", text.lock());
        reader.join().unwrap();
    }

    #[test]
    fn without_a_thread_lines_are_written_at_once() {
        let (sender, to, text) = slow();
        (0..10).for_each(|_| sender.send(()).unwrap());
        let (output, _) = faults::during(|_| true, || Output::new(to));
        output.line("uciok");
        assert_eq!(*text.lock(), "uciok\n");
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let (log, _) = faults::during(|_| true, || output.log_to(path));
        assert!(log.is_err());
        // The reader is gone.
        drop(sender);
        (0..20).for_each(|_| output.line("readyok"));
        assert!(output.is_closed());
    }
}
