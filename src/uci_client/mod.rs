//! The other end of the protocol: another engine as a process of its own, which is asked for moves.
//!
//! Engines crash, hang, answer late and say nonsense. A thread reads what one says and notes when, so that its clock does
//! not run for what happens elsewhere; no wait is without an end; and a process is never left behind.

mod info;
mod option;

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crossbeam::channel::{self, Receiver, RecvTimeoutError};
use parking_lot::Mutex;
use thiserror::Error;

pub use self::info::{EngineScore, InfoLine, Thoughts};
use self::{
    info::value_after,
    option::{Announced, announced},
};
use crate::files::{LineEnd, read_line};

/// How long an engine has to answer `uci`: what is no engine is known by then.
const GREETING: Duration = Duration::from_secs(30);

/// How long it has to get ready with its network.
const START: Duration = Duration::from_secs(120);

/// How long it has to answer `stop`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long it has to end after `quit`.
const FAREWELL: Duration = Duration::from_secs(2);

/// Longer lines are cut: nobody sends them for a reason.
const LONGEST_LINE: usize = 1 << 16;

/// How many lines of an engine may wait to be read.
const LINES: usize = 1 << 10;

/// How many lines of its error output are kept.
const LAST_WORDS: usize = 3;

/// What goes wrong with an engine.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClientError {
    /// The program cannot be started.
    #[error("cannot start {program}: {reason}")]
    Start {
        /// As it was given.
        program: String,
        /// What the system says.
        reason: String,
    },
    /// It has ended.
    #[error("{program} has ended{last_words}")]
    Gone {
        /// The program.
        program: String,
        /// The end of its error output, if there is any.
        last_words: String,
    },
    /// It does not answer.
    #[error("{program} did not answer {question} within {seconds} s")]
    Silent {
        /// The program.
        program: String,
        /// What it was asked.
        question: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
    /// An option that it does not have, or not with this value.
    #[error("{program}: {reason}")]
    Option {
        /// The program.
        program: String,
        /// What is wrong.
        reason: String,
    },
}

/// What an engine may spend on a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoLimits {
    /// Nodes.
    Nodes(u64),
    /// Whole iterations of an engine that deepens.
    Depth(u32),
    /// Time for this move.
    MoveTime(Duration),
    /// Clocks: White's and Black's time and increments, and the moves to the next time control.
    Clock {
        /// White's and Black's time left.
        left: [Duration; 2],
        /// White's and Black's time added after a move.
        increment: [Duration; 2],
        /// Moves for which the time must last; the rest of the game if `None`.
        moves: Option<u32>,
    },
}

impl GoLimits {
    /// The command, which begins with `go` or `go ponder`.
    fn text(&self, go: &str) -> String {
        let ms = |time: &Duration| time.as_millis();
        match self {
            GoLimits::Nodes(nodes) => format!("{go} nodes {nodes}"),
            GoLimits::Depth(depth) => format!("{go} depth {depth}"),
            GoLimits::MoveTime(time) => format!("{go} movetime {}", ms(time)),
            GoLimits::Clock {
                left: [white, black],
                increment: [winc, binc],
                moves,
            } => {
                let moves = moves.map_or(String::new(), |moves| format!(" movestogo {moves}"));
                let (white, black) = (ms(white).max(1), ms(black).max(1));
                let (winc, binc) = (ms(winc), ms(binc));
                format!("{go} wtime {white} btime {black} winc {winc} binc {binc}{moves}")
            }
        }
    }
}

/// A `bestmove`: nobody has checked it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestMove {
    /// When it came.
    pub at: Instant,
    /// The move as it was said; empty if there is none.
    pub best: String,
    /// The reply that the engine expects, if it said one.
    pub expected: Option<String>,
}

/// An engine's move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineAnswer {
    /// As it was said: nobody has checked it.
    pub best: String,
    /// The reply that the engine expects, if it said one; not checked either.
    pub expected: Option<String>,
    /// From the question to the answer.
    pub time: Duration,
    /// What was said before.
    pub thoughts: Thoughts,
}

/// A running engine.
#[derive(Debug)]
pub struct Client {
    /// The program, for messages.
    program: String,
    /// The name that it gives itself.
    pub name: String,
    child: Child,
    input: ChildStdin,
    lines: Receiver<(Instant, String)>,
    last_words: Arc<Mutex<VecDeque<String>>>,
    options: Vec<Announced>,
    /// The position that it ponders on, as it was told.
    pondering: Option<String>,
}

impl Client {
    /// Starts a program and waits until it has told its name and options.
    ///
    /// # Errors
    /// When it cannot be started or is no UCI engine.
    pub fn start(program: &Path, arguments: &[String]) -> Result<Client, ClientError> {
        let name = program.display().to_string();
        let error = |reason: std::io::Error| ClientError::Start {
            program: name.clone(),
            reason: reason.to_string(),
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(error)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            // They were asked for two lines above.
            return Err(error(std::io::ErrorKind::BrokenPipe.into()));
        };
        let mut client = Client {
            lines: read_lines(output),
            last_words: keep_last_words(errors),
            name: name.clone(),
            program: name,
            child,
            input,
            options: Vec::new(),
            pondering: None,
        };
        let (mut called, mut options) = (None, Vec::new());
        client.send("uci")?;
        client.until("uciok", "uci", Instant::now() + GREETING, &mut |line| {
            let name = line.strip_prefix("id name ");
            called = name.map(|name| name.trim().to_owned()).or(called.take());
            options.extend(announced(line));
        })?;
        if let Some(name) = called {
            client.name = name;
        }
        client.options = options;
        Ok(client)
    }

    /// Sets an option; a button has no value.
    ///
    /// # Errors
    /// When the engine has no such option, or announced that it takes other values.
    pub fn set_option(&mut self, name: &str, value: Option<&str>) -> Result<(), ClientError> {
        let error = |reason: String| ClientError::Option {
            program: self.program.clone(),
            reason,
        };
        let mut options = self.options.iter();
        let option = options
            .find(|option| option.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| error(format!("there is no option '{name}'")))?;
        option.check(value).map_err(error)?;
        let value = value.map_or(String::new(), |value| format!(" value {value}"));
        let line = format!("setoption name {}{value}", option.name);
        self.send(&line)
    }

    /// Whether the engine can think in its opponent's time: then it has an option for that.
    pub fn can_ponder(&self) -> bool {
        self.has_option("Ponder")
    }

    /// Whether the engine has an option.
    pub fn has_option(&self, name: &str) -> bool {
        let mut options = self.options.iter();
        options.any(|option| option.name.eq_ignore_ascii_case(name))
    }

    /// Waits until the engine has done what it was told, after its start: loading a network takes time.
    ///
    /// # Errors
    /// When it ends, does not answer, or complains as this program does of options and networks that are none.
    pub fn wait_for_start(&mut self) -> Result<(), ClientError> {
        let mut complaint = None;
        self.ready(&mut |line| {
            if complaint.is_none() && is_complaint(line) {
                complaint = Some(line.trim_start_matches("info string ").to_owned());
            }
        })?;
        match complaint {
            None => Ok(()),
            Some(reason) => Err(ClientError::Option {
                program: self.program.clone(),
                reason,
            }),
        }
    }

    /// Tells the engine that the next position is of another game, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends or does not answer.
    pub fn new_game(&mut self) -> Result<(), ClientError> {
        self.stop_pondering()?;
        self.send("ucinewgame")?;
        self.ready(&mut |_| {})
    }

    fn ready(&mut self, hear: &mut dyn FnMut(&str)) -> Result<(), ClientError> {
        self.send("isready")?;
        let deadline = Instant::now() + START;
        self.until("readyok", "isready", deadline, hear)?;
        Ok(())
    }

    /// Lets the engine think in its opponent's time, on the position that comes about if the opponent plays what it expects.
    /// The next question, or the next game, ends that.
    ///
    /// # Errors
    /// When the engine has ended.
    pub fn ponder(&mut self, position: &str, go: &GoLimits) -> Result<(), ClientError> {
        self.send(&format!("position {position}"))?;
        self.send(&go.text("go ponder"))?;
        self.pondering = Some(position.to_owned());
        Ok(())
    }

    /// Whatever the engine has found is thrown away.
    fn stop_pondering(&mut self) -> Result<(), ClientError> {
        if self.pondering.take().is_some() {
            self.send("stop")?;
            let deadline = Instant::now() + ANSWER_TIMEOUT;
            self.until("bestmove", "stop", deadline, &mut |_| {})?;
        }
        Ok(())
    }

    /// Asks for a move in a position, `startpos` or `fen ...`, with `moves ...` perhaps; if that is what the engine ponders
    /// on, it is told so. After `longest` the search is stopped; the answer that then comes tells the time it took.
    ///
    /// # Errors
    /// When the engine ends, or says nothing even after `stop`.
    pub fn go(
        &mut self,
        position: &str,
        go: &GoLimits,
        longest: Duration,
    ) -> Result<EngineAnswer, ClientError> {
        let started = Instant::now();
        if self.pondering.as_deref() == Some(position) {
            self.pondering = None;
            self.send("ponderhit")?;
        } else {
            self.stop_pondering()?;
            // What is left of an earlier search says nothing about this one.
            while self.lines.try_recv().is_ok() {}
            self.ask(position, go)?;
        }
        let mut thoughts = Thoughts::default();
        let mut hear = |line: &str| thoughts.hear(line);
        let mut answer = self.answer(started + longest, &mut hear);
        if let Err(ClientError::Silent { .. }) = answer {
            self.send("stop")?;
            answer = self.answer(Instant::now() + ANSWER_TIMEOUT, &mut hear);
            if let Err(ClientError::Silent { seconds, .. }) = &mut answer {
                *seconds = started.elapsed().as_secs();
            }
        }
        let BestMove { at, best, expected } = answer?;
        Ok(EngineAnswer {
            best,
            expected,
            time: at.saturating_duration_since(started),
            thoughts,
        })
    }

    /// Asks for a move without waiting for it. Engines that take questions in advance answer them in order.
    ///
    /// # Errors
    /// When the engine has ended.
    pub fn ask(&mut self, position: &str, go: &GoLimits) -> Result<(), ClientError> {
        self.send(&format!("position {position}\n{}", go.text("go")))
    }

    /// Waits for the answer to the first question that has none. What the engine says before is heard.
    ///
    /// # Errors
    /// When it ends, or says nothing before the deadline.
    pub fn answer(
        &mut self,
        deadline: Instant,
        hear: &mut dyn FnMut(&str),
    ) -> Result<BestMove, ClientError> {
        let (at, line) = self.until("bestmove", "go", deadline, hear)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(BestMove {
            at,
            best: words.get(1).copied().unwrap_or_default().to_owned(),
            expected: value_after(&words, "ponder"),
        })
    }

    fn send(&mut self, line: &str) -> Result<(), ClientError> {
        let sent = self.input.write_all(format!("{line}\n").as_bytes());
        sent.map_err(|_| self.gone())
    }

    /// The next line whose first word is `wanted`, and when it came; others are heard.
    fn until(
        &mut self,
        wanted: &str,
        question: &'static str,
        deadline: Instant,
        hear: &mut dyn FnMut(&str),
    ) -> Result<(Instant, String), ClientError> {
        let asked = Instant::now();
        loop {
            match self.lines.recv_deadline(deadline) {
                Ok((at, line)) if line.split_whitespace().next() == Some(wanted) => {
                    return Ok((at, line));
                }
                // An engine that talks without end wins no time by that.
                Ok((_, line)) if Instant::now() < deadline => hear(&line),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {
                    return Err(ClientError::Silent {
                        program: self.program.clone(),
                        question,
                        seconds: asked.elapsed().as_secs(),
                    });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            }
        }
    }

    fn gone(&mut self) -> ClientError {
        // The thread that reads the error output may need a moment for the last of it.
        thread::sleep(Duration::from_millis(50));
        let status = self.child.try_wait().ok().flatten();
        let status = status.map_or(String::new(), |status| format!(" ({status})"));
        let words: Vec<String> = self.last_words.lock().iter().cloned().collect();
        let words = match &words[..] {
            [] => String::new(),
            words => format!(": {}", words.join(" / ")),
        };
        ClientError::Gone {
            program: self.program.clone(),
            last_words: status + &words,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended already, or not listen: then it is killed.
        let _ = self.input.write_all(b"quit\n");
        let deadline = Instant::now() + FAREWELL;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// `info string error...` and `info string option...`.
fn is_complaint(line: &str) -> bool {
    let text = line.strip_prefix("info string ").unwrap_or_default();
    let text = text.to_ascii_lowercase();
    text.starts_with("error") || text.starts_with("option ")
}

/// Reads lines in a thread until the engine ends or nobody listens.
fn read_lines(output: impl Read + Send + 'static) -> Receiver<(Instant, String)> {
    let (sender, lines) = channel::bounded(LINES);
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        while let Some(line) = next_line(&mut output) {
            if sender.send((Instant::now(), line)).is_err() {
                break;
            }
        }
    });
    lines
}

/// Keeps the last lines of the error output, which nobody shows.
fn keep_last_words(errors: impl Read + Send + 'static) -> Arc<Mutex<VecDeque<String>>> {
    let words = Arc::new(Mutex::new(VecDeque::new()));
    let kept = Arc::clone(&words);
    thread::spawn(move || {
        let mut errors = BufReader::new(errors);
        while let Some(line) = next_line(&mut errors) {
            let mut kept = kept.lock();
            if kept.len() == LAST_WORDS {
                kept.pop_front();
            }
            kept.push_back(line);
        }
    });
    words
}

/// The next line, or a piece of one that is very long; `None` at the end, which is also where a pipe cannot be read any more.
fn next_line(from: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    match read_line(from, &mut line, LONGEST_LINE) {
        Ok(LineEnd::Whole | LineEnd::Cut) => Some(String::from_utf8_lossy(&line).trim().to_owned()),
        Ok(LineEnd::Nothing) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_those_of_the_protocol() {
        let second = Duration::from_secs(1);
        assert_eq!(GoLimits::Nodes(5).text("go"), "go nodes 5");
        assert_eq!(GoLimits::Depth(4).text("go"), "go depth 4");
        let ponder = GoLimits::MoveTime(second / 2).text("go ponder");
        assert_eq!(ponder, "go ponder movetime 500");
        let clock = GoLimits::Clock {
            left: [second, Duration::ZERO],
            increment: [Duration::ZERO, second],
            moves: Some(7),
        };
        let expected = "go wtime 1000 btime 1 winc 0 binc 1000 movestogo 7";
        assert_eq!(clock.text("go"), expected);
    }

    #[test]
    fn a_program_that_is_none_is_named() {
        let error = Client::start(Path::new("/no/such/engine"), &[]).unwrap_err();
        assert!(error.to_string().contains("/no/such/engine"));
    }
}
