//! The queue of an engine's output lines, from the thread that reads them to whoever waits for an answer.
//!
//! It is bounded, so that an engine that prints without end waits. While an engine ponders nobody takes its lines, and
//! it must not wait, because an engine that cannot write may stop to think. Then the oldest `info` lines make room: the
//! last report is the one that counts.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use crossbeam::channel::RecvTimeoutError;
use parking_lot::{Condvar, Mutex};

/// Maximum number of queued lines.
pub(super) const MAX_QUEUED_LINES: usize = 1 << 10;

/// A line and the time when it arrived.
pub(super) type TimedLine = (Instant, String);

/// A new queue.
pub(super) fn queue() -> (LineSender, LineReceiver) {
    let shared = Arc::<LineQueue>::default();
    (LineSender(Arc::clone(&shared)), LineReceiver(shared))
}

#[derive(Debug, Default)]
struct LineQueue {
    queue: Mutex<QueuedLines>,
    /// Notified when one side may have to go on.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueuedLines {
    lines: VecDeque<TimedLine>,
    /// Whether nobody takes lines for now, so that `info` lines may be dropped.
    is_unread: bool,
    /// Whether one of the sides has been dropped.
    is_closed: bool,
}

impl LineQueue {
    fn close(&self) {
        self.queue.lock().is_closed = true;
        self.changed.notify_all();
    }
}

/// The end of the thread that reads the output.
#[derive(Debug)]
pub(super) struct LineSender(Arc<LineQueue>);

impl LineSender {
    /// Queues a line when there is room. Returns false if the receiver has been dropped.
    pub fn send(&self, line: TimedLine) -> bool {
        let mut queue = self.0.queue.lock();
        while queue.lines.len() >= MAX_QUEUED_LINES && !queue.is_closed {
            if queue.is_unread {
                let oldest = queue.lines.iter().position(is_info);
                if let Some(oldest) = oldest {
                    queue.lines.remove(oldest);
                    break;
                }
                if is_info(&line) {
                    return true;
                }
            }
            self.0.changed.wait(&mut queue);
        }
        if queue.is_closed {
            return false;
        }
        queue.lines.push_back(line);
        self.0.changed.notify_all();
        true
    }
}

impl Drop for LineSender {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn is_info((_, line): &TimedLine) -> bool {
    line.starts_with("info ")
}

/// The end of whoever waits for answers.
#[derive(Debug)]
pub(super) struct LineReceiver(Arc<LineQueue>);

impl LineReceiver {
    /// Sets whether nobody takes lines for now.
    pub fn set_unread(&self, is_unread: bool) {
        self.0.queue.lock().is_unread = is_unread;
        self.0.changed.notify_all();
    }

    /// Removes the lines that have arrived.
    pub fn clear(&self) {
        self.0.queue.lock().lines.clear();
        self.0.changed.notify_all();
    }

    /// The next line, for which it waits until the deadline.
    ///
    /// # Errors
    /// When none arrives in time, or all were taken and the sender has been dropped.
    pub fn recv_deadline(&self, deadline: Instant) -> Result<TimedLine, RecvTimeoutError> {
        let mut queue = self.0.queue.lock();
        let mut is_late = false;
        loop {
            if let Some(line) = queue.lines.pop_front() {
                self.0.changed.notify_all();
                return Ok(line);
            }
            if queue.is_closed {
                return Err(RecvTimeoutError::Disconnected);
            }
            if is_late {
                return Err(RecvTimeoutError::Timeout);
            }
            is_late = self.0.changed.wait_until(&mut queue, deadline).timed_out();
        }
    }
}

impl Drop for LineReceiver {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    fn report(depth: usize) -> String {
        format!("info depth {depth} score cp 7")
    }

    /// The lines that are still in the queue of a dropped sender.
    fn rest(lines: &LineReceiver) -> Vec<String> {
        let next = || lines.recv_deadline(Instant::now() + Duration::from_secs(60));
        std::iter::from_fn(|| next().ok().map(|(_, line)| line)).collect()
    }

    #[test]
    fn the_oldest_reports_make_room_while_nobody_reads() {
        let (sender, lines) = queue();
        lines.set_unread(true);
        let send = |line: String| assert!(sender.send((Instant::now(), line)));
        send("readyok".into());
        (1..=3 * MAX_QUEUED_LINES).for_each(|depth| send(report(depth)));
        send("bestmove e2e4".into());
        drop(sender);
        let kept = 3 * MAX_QUEUED_LINES - (MAX_QUEUED_LINES - 2);
        let mut expected = vec!["readyok".to_owned()];
        expected.extend((kept + 1..=3 * MAX_QUEUED_LINES).map(report));
        expected.push("bestmove e2e4".into());
        assert_eq!(rest(&lines), expected);
    }

    #[test]
    fn only_reports_are_dropped() {
        let (sender, lines) = queue();
        lines.set_unread(true);
        let send = |line: &str| sender.send((Instant::now(), line.to_owned()));
        (0..MAX_QUEUED_LINES).for_each(|_| assert!(send("readyok")));
        assert!(send("info depth 1"));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| send("bestmove e2e4"));
            let first = lines.recv_deadline(Instant::now() + Duration::from_secs(60));
            assert_eq!(first.unwrap().1, "readyok");
            assert!(waiting.join().unwrap());
        });
        drop(sender);
        let rest = rest(&lines);
        assert_eq!(rest.len(), MAX_QUEUED_LINES);
        assert_eq!(rest.last().map(String::as_str), Some("bestmove e2e4"));
        assert!(rest[..rest.len() - 1].iter().all(|line| line == "readyok"));
    }

    #[test]
    fn a_full_queue_ends_with_its_receiver() {
        let (sender, lines) = queue();
        let late = lines.recv_deadline(Instant::now());
        assert_eq!(late.unwrap_err(), RecvTimeoutError::Timeout);
        let send = || sender.send((Instant::now(), report(1)));
        (0..MAX_QUEUED_LINES).for_each(|_| assert!(send()));
        thread::scope(|scope| {
            let waiting = scope.spawn(send);
            drop(lines);
            assert!(!waiting.join().unwrap());
        });
    }
}
