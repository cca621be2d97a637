//! Commands to an engine. A thread writes them: an engine that does not read its input, or that waits until its output
//! is read, would otherwise stop this program.

use std::{io, io::Write, time::Duration};

use crossbeam::channel::{self, SendTimeoutError, Sender};

use crate::threads;

/// Maximum number of commands that wait to be written.
pub(super) const MAX_QUEUED_COMMANDS: usize = 1 << 14;

/// Why a command cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendError {
    /// The engine has closed its input.
    Gone,
    /// The engine has not read its input for too long.
    Full,
}

/// The commands of one engine.
#[derive(Debug)]
pub(super) struct CommandWriter(Sender<String>);

impl CommandWriter {
    /// Starts the thread that writes to `to`.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start(mut to: impl Write + Send + 'static) -> io::Result<CommandWriter> {
        let (sender, commands) = channel::bounded::<String>(MAX_QUEUED_COMMANDS);
        threads::spawn("engine input", move || {
            for command in commands {
                if to.write_all(command.as_bytes()).is_err() {
                    break;
                }
            }
        })?;
        Ok(CommandWriter(sender))
    }

    /// Queues a line. If there is no place for it, waits for some, at most for `timeout`.
    pub(super) fn send(&self, line: &str, timeout: Duration) -> Result<(), SendError> {
        let sent = self.0.send_timeout(format!("{line}\n"), timeout);
        sent.map_err(|error| match error {
            SendTimeoutError::Timeout(_) => SendError::Full,
            SendTimeoutError::Disconnected(_) => SendError::Gone,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        thread,
    };

    use super::*;

    #[test]
    fn an_engine_that_does_not_read_is_noticed() {
        let (_reader, writer) = io::pipe().unwrap();
        let writer = CommandWriter::start(writer).unwrap();
        // More than the pipe and the queue take.
        let line = "x".repeat(1 << 10);
        let sent = (0..MAX_QUEUED_COMMANDS + 1000).map(|_| writer.send(&line, Duration::ZERO));
        let sent: Vec<_> = sent.collect();
        assert_eq!(sent.last(), Some(&Err(SendError::Full)));
        assert!(sent.iter().filter(|sent| sent.is_ok()).count() <= MAX_QUEUED_COMMANDS + 100);
    }

    #[test]
    fn lines_arrive_in_order_however_late_they_are_read() {
        let (reader, writer) = io::pipe().unwrap();
        let writer = CommandWriter::start(writer).unwrap();
        let numbers = 0..MAX_QUEUED_COMMANDS;
        for number in numbers.clone() {
            writer.send(&number.to_string(), Duration::ZERO).unwrap();
        }
        drop(writer);
        let read = BufReader::new(reader).lines().map(|line| line.unwrap());
        assert!(read.eq(numbers.map(|number| number.to_string())));
    }

    #[test]
    fn a_closed_input_is_noticed() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let writer = CommandWriter::start(writer).unwrap();
        // The thread notices it at its first write.
        while writer.send("isready", Duration::ZERO).is_ok() {
            thread::yield_now();
        }
        assert_eq!(writer.send("quit", Duration::ZERO), Err(SendError::Gone));
    }
}
