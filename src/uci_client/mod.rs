//! The client side of UCI: runs another engine as a process and requests moves from it.
//!
//! Engines crash, hang, answer late, print invalid lines and do not read their input. A thread reads the output and
//! notes the time of each line, so that an engine's clock does not run while this program is busy; another one writes
//! the input. Every wait has a timeout, and a process is never left behind.

mod argument;
mod info;
mod lines;
mod option;
mod process;
mod writer;

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crossbeam::channel::RecvTimeoutError;
use parking_lot::Mutex;
use thiserror::Error;

pub use self::{
    argument::{name_and_value, program_path},
    info::{EngineScore, InfoLine, LastInfo},
    process::kill_all,
};
use self::{
    info::value_after,
    lines::LineReceiver,
    option::{AnnouncedOption, parse_option},
    process::Process,
    writer::{CommandWriter, SendError},
};
use crate::{
    files::{LineEnd, read_line},
    threads,
};

/// Timeout for the answer to `uci`.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// The option with which Scorn announces the options that it hides from GUIs.
const SHOW_HIDDEN: &str = "ShowHidden";

/// Timeout for loading the network at the start.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Timeout for the answer to `stop`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for the exit after `quit`.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum length of a line in bytes; longer lines are cut.
const MAX_LINE_BYTES: usize = 1 << 16;

/// Number of lines that are kept of the end of the error output.
const MAX_LAST_ERROR_LINES: usize = 3;

/// Errors of an engine process.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClientError {
    /// The program cannot be started.
    #[error("cannot start {program}: {reason}")]
    Start {
        /// The program as configured.
        program: String,
        /// The system's error.
        reason: String,
    },
    /// The process has ended.
    #[error("{program} has ended{error_output}")]
    Gone {
        /// The program.
        program: String,
        /// Beginning and end of its error output, if there is any.
        error_output: String,
    },
    /// The engine does not answer.
    #[error("{program} did not answer {command} within {seconds} s")]
    Silent {
        /// The program.
        program: String,
        /// The command that it did not answer.
        command: &'static str,
        /// How long the client waited.
        seconds: u64,
    },
    /// The engine does not read its input.
    #[error("{program} has not read its input for {seconds} s")]
    NotReading {
        /// The program.
        program: String,
        /// How long the client waited.
        seconds: u64,
    },
    /// The engine does not have this option, or not with this value.
    #[error("{program}: {reason}")]
    Option {
        /// The program.
        program: String,
        /// What is wrong.
        reason: String,
    },
}

/// The limits of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoLimits {
    /// Nodes.
    Nodes(u64),
    /// Iterations of an engine with iterative deepening.
    Depth(u32),
    /// Time for this move.
    MoveTime(Duration),
    /// Clocks: White's and Black's time and increments, and the moves to the next time control.
    Clock {
        /// White's and Black's remaining time.
        left: [Duration; 2],
        /// White's and Black's increments.
        increment: [Duration; 2],
        /// Moves to the next time control; `None` for the rest of the game.
        moves: Option<u32>,
    },
}

impl GoLimits {
    /// The command line, which begins with `go` or `go ponder`.
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

/// A `bestmove` line, unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestMove {
    /// When it arrived.
    pub at: Instant,
    /// The move as printed; empty if there is none.
    pub best: String,
    /// The expected reply, if there is one.
    pub expected: Option<String>,
}

/// An engine's move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineAnswer {
    /// The move as printed, unchecked.
    pub best: String,
    /// The expected reply, if there is one, unchecked.
    pub expected: Option<String>,
    /// Time from the request to the answer.
    pub time: Duration,
    /// The last report before the answer.
    pub last_info: LastInfo,
}

/// A running engine.
#[derive(Debug)]
pub struct Client {
    /// The program, for error messages.
    program: String,
    /// The name from `id name`.
    pub name: String,
    process: Process,
    input: CommandWriter,
    lines: LineReceiver,
    error_output: ErrorOutput,
    options: Vec<AnnouncedOption>,
    /// The first error report since the start that no one has seen yet.
    error_report: Option<String>,
    /// Whether its option `Ponder` was set to false.
    must_not_ponder: bool,
    /// The position of the current ponder search, as sent.
    pondering: Option<String>,
}

impl Client {
    /// Starts a program and reads its name and options.
    ///
    /// # Errors
    /// When it cannot be started or is no UCI engine.
    pub fn start(program: &Path, arguments: &[String]) -> Result<Client, ClientError> {
        let name = program.display().to_string();
        let error = |reason: std::io::Error| ClientError::Start {
            program: name.clone(),
            reason: reason.to_string(),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        let mut process = Process::start(command).map_err(error)?;
        let threads = start_threads(&mut process);
        let (input, lines, error_output) = threads.map_err(|reason| {
            process.kill();
            error(reason)
        })?;
        let mut client = Client {
            lines,
            error_output,
            name: name.clone(),
            program: name,
            process,
            input,
            options: Vec::new(),
            error_report: None,
            must_not_ponder: false,
            pondering: None,
        };
        client.identify()?;
        Ok(client)
    }

    /// Has the engine print its name and its options.
    fn identify(&mut self) -> Result<(), ClientError> {
        let (mut called, mut options, mut report) = (None, Vec::new(), None);
        self.send("uci")?;
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        self.until("uciok", "uci", deadline, &mut |line| {
            let name = line.strip_prefix("id name ");
            called = name.map(|name| name.trim().to_owned()).or(called.take());
            options.extend(parse_option(line));
            report = report.take().or_else(|| error_report(line));
        })?;
        if let Some(name) = called {
            self.name = name;
        }
        self.options = options;
        if self.reports_errors() {
            self.error_report = self.error_report.take().or(report);
        }
        Ok(())
    }

    /// Sets an option; a button has no value. An engine with an option `ShowHidden`, such as Scorn, is made to announce
    /// its hidden options if there is none of this name before.
    ///
    /// # Errors
    /// When the engine has no such option, or did not announce this value.
    pub fn set_option(&mut self, name: &str, value: Option<&str>) -> Result<(), ClientError> {
        if !self.has_option(name) && self.has_option(SHOW_HIDDEN) {
            self.send(&format!("setoption name {SHOW_HIDDEN} value true"))?;
            self.identify()?;
        }
        let error = |reason: String| ClientError::Option {
            program: self.program.clone(),
            reason,
        };
        let mut options = self.options.iter();
        let option = options
            .find(|option| option.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| error(format!("there is no option '{name}'")))?;
        // Scorn announces suggestions as a list and accepts other values (a file of profiles); it reports wrong ones.
        if !(option.is_list() && value.is_some() && self.has_option(SHOW_HIDDEN)) {
            option.check(value).map_err(error)?;
        }
        let value = value.map_or(String::new(), |value| format!(" value {value}"));
        let line = format!("setoption name {}{value}", option.name);
        if option.name.eq_ignore_ascii_case("Ponder") {
            self.must_not_ponder = line.ends_with(" false");
        }
        self.send(&line)
    }

    /// Whether the engine can ponder, which it shows by its `Ponder` option, and has not been told not to.
    pub fn can_ponder(&self) -> bool {
        self.has_option("Ponder") && !self.must_not_ponder
    }

    /// Whether it reports errors as Scorn does. In other engines the same words may tell that an option was set.
    fn reports_errors(&self) -> bool {
        self.has_option(SHOW_HIDDEN)
    }

    /// Whether the engine has an option.
    pub fn has_option(&self, name: &str) -> bool {
        let mut options = self.options.iter();
        options.any(|option| option.name.eq_ignore_ascii_case(name))
    }

    /// Waits until the engine is ready after its start, which includes loading a network.
    ///
    /// # Errors
    /// When the engine ends, does not answer, or reports an error about options or networks as Scorn does.
    pub fn wait_for_start(&mut self) -> Result<(), ClientError> {
        let mut report = self.error_report.take();
        self.ready(&mut |line| report = report.take().or_else(|| error_report(line)))?;
        match report.filter(|_| self.reports_errors()) {
            None => Ok(()),
            Some(reason) => Err(ClientError::Option {
                program: self.program.clone(),
                reason,
            }),
        }
    }

    /// Starts a new game, and waits until the engine is ready.
    ///
    /// # Errors
    /// When it ends or does not answer.
    pub fn new_game(&mut self) -> Result<(), ClientError> {
        self.stop_pondering()?;
        self.send("ucinewgame")?;
        self.ready(&mut |_| {})
    }

    fn ready(&mut self, on_line: &mut dyn FnMut(&str)) -> Result<(), ClientError> {
        self.send("isready")?;
        let deadline = Instant::now() + START_TIMEOUT;
        self.until("readyok", "isready", deadline, on_line)?;
        Ok(())
    }

    /// Lets the engine ponder on the position after the expected reply. The next search, or the next game, ends that.
    ///
    /// # Errors
    /// When the engine has ended.
    pub fn ponder(&mut self, position: &str, go: &GoLimits) -> Result<(), ClientError> {
        self.lines.set_unread(true);
        self.send(&format!("position {position}"))?;
        self.send(&go.text("go ponder"))?;
        self.pondering = Some(position.to_owned());
        Ok(())
    }

    /// The result of the ponder search is discarded.
    fn stop_pondering(&mut self) -> Result<(), ClientError> {
        self.lines.set_unread(false);
        if self.pondering.take().is_some() {
            self.send("stop")?;
            let deadline = Instant::now() + ANSWER_TIMEOUT;
            self.until("bestmove", "stop", deadline, &mut |_| {})?;
        }
        Ok(())
    }

    /// Searches a position, `startpos` or `fen ...`, optionally with `moves ...`; if the engine ponders on it,
    /// `ponderhit` is sent. After `timeout` the search is stopped; the answer contains the real time.
    ///
    /// # Errors
    /// When the engine ends, or does not answer even to `stop`.
    pub fn go(
        &mut self,
        position: &str,
        go: &GoLimits,
        timeout: Duration,
    ) -> Result<EngineAnswer, ClientError> {
        let started = Instant::now();
        if self.pondering.as_deref() == Some(position) {
            self.pondering = None;
            self.lines.set_unread(false);
            self.send("ponderhit")?;
        } else {
            self.stop_pondering()?;
            // Lines of an earlier search do not apply to this one.
            self.lines.clear();
            self.request_move(position, go)?;
        }
        let mut last_info = LastInfo::default();
        let mut on_line = |line: &str| last_info.on_line(line);
        let mut answer = self.wait_for_move(started + timeout, &mut on_line);
        if let Err(ClientError::Silent { .. }) = answer {
            self.send("stop")?;
            answer = self.wait_for_move(Instant::now() + ANSWER_TIMEOUT, &mut on_line);
            if let Err(ClientError::Silent { seconds, .. }) = &mut answer {
                *seconds = started.elapsed().as_secs();
            }
        }
        let BestMove { at, best, expected } = answer?;
        Ok(EngineAnswer {
            best,
            expected,
            time: at.saturating_duration_since(started),
            last_info,
        })
    }

    /// Requests a move without waiting for the answer. Engines that accept several requests answer them in order.
    ///
    /// # Errors
    /// When the engine has ended.
    pub fn request_move(&mut self, position: &str, go: &GoLimits) -> Result<(), ClientError> {
        self.send(&format!("position {position}\n{}", go.text("go")))
    }

    /// Waits for the answer to the oldest open request. Lines before it are passed to `on_line`.
    ///
    /// # Errors
    /// When the engine ends, or does not answer before the deadline.
    pub fn wait_for_move(
        &mut self,
        deadline: Instant,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<BestMove, ClientError> {
        let (at, line) = self.until("bestmove", "go", deadline, on_line)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(BestMove {
            at,
            best: words.get(1).copied().unwrap_or_default().to_owned(),
            expected: value_after(&words, "ponder"),
        })
    }

    fn send(&mut self, line: &str) -> Result<(), ClientError> {
        match self.input.send(line, ANSWER_TIMEOUT) {
            Ok(()) => Ok(()),
            Err(SendError::Gone) => Err(self.gone()),
            Err(SendError::Full) => Err(ClientError::NotReading {
                program: self.program.clone(),
                seconds: ANSWER_TIMEOUT.as_secs(),
            }),
        }
    }

    /// The next line whose first word is `expected`, and its time; other lines are passed to `on_line`.
    fn until(
        &mut self,
        expected_word: &str,
        command: &'static str,
        deadline: Instant,
        on_line: &mut dyn FnMut(&str),
    ) -> Result<(Instant, String), ClientError> {
        let started = Instant::now();
        loop {
            match self.lines.recv_deadline(deadline) {
                Ok((at, line)) if line.split_whitespace().next() == Some(expected_word) => {
                    return Ok((at, line));
                }
                // Constant output does not extend the deadline.
                Ok((_, line)) if Instant::now() < deadline => on_line(&line),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {
                    return Err(ClientError::Silent {
                        program: self.program.clone(),
                        command,
                        seconds: started.elapsed().as_secs(),
                    });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            }
        }
    }

    fn gone(&mut self) -> ClientError {
        // The thread that reads the error output may need a moment for the last lines.
        thread::sleep(Duration::from_millis(50));
        let status = self.process.status();
        let status = status.map_or(String::new(), |status| format!(" ({status})"));
        ClientError::Gone {
            program: self.program.clone(),
            error_output: status + &self.error_output.lock().text(),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended already; if it does not react, it is killed.
        let _ = self.input.send("quit", Duration::ZERO);
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        while self.process.status().is_none() {
            if Instant::now() >= deadline {
                self.process.kill();
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The text of a line `info string error...` or `info string option...`; `None` for other lines.
fn error_report(line: &str) -> Option<String> {
    let text = line.strip_prefix("info string ")?;
    let lower = text.to_ascii_lowercase();
    let is_error = lower.starts_with("error") || lower.starts_with("option ");
    is_error.then(|| text.to_owned())
}

/// What is kept of an engine's error output.
type ErrorOutput = Arc<Mutex<ErrorLines>>;

/// The first line of an error output, which usually has the reason, and its last ones. Blank lines do not count.
#[derive(Debug, Default)]
struct ErrorLines {
    first: Option<String>,
    last: VecDeque<String>,
    /// Whether there were lines between these.
    has_gap: bool,
}

impl ErrorLines {
    fn push(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        if self.first.is_none() {
            self.first = Some(line);
            return;
        }
        if self.last.len() == MAX_LAST_ERROR_LINES {
            self.last.pop_front();
            self.has_gap = true;
        }
        self.last.push_back(line);
    }

    /// The lines for a message, after a colon; empty if there are none.
    fn text(&self) -> String {
        let gap = self.has_gap.then_some("...");
        let first = self.first.iter().map(String::as_str).chain(gap);
        let lines: Vec<&str> = first.chain(self.last.iter().map(String::as_str)).collect();
        match &lines[..] {
            [] => String::new(),
            lines => format!(": {}", lines.join(" / ")),
        }
    }
}

/// Starts the threads that write the input of a process and read its outputs.
fn start_threads(process: &mut Process) -> io::Result<(CommandWriter, LineReceiver, ErrorOutput)> {
    let (Some(input), Some(output), Some(errors)) = process.take_pipes() else {
        // All three were configured as pipes.
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    Ok((
        CommandWriter::start(input)?,
        read_lines(output)?,
        keep_error_output(errors)?,
    ))
}

/// Reads lines in a thread until the engine ends or the receiver is dropped.
fn read_lines(output: impl Read + Send + 'static) -> io::Result<LineReceiver> {
    let (sender, lines) = lines::queue();
    threads::spawn("engine output", move || {
        let mut output = BufReader::new(output);
        while let Some(line) = next_line(&mut output) {
            if !sender.send((Instant::now(), line)) {
                break;
            }
        }
    })?;
    Ok(lines)
}

/// Keeps lines of the error output for error messages.
fn keep_error_output(errors: impl Read + Send + 'static) -> io::Result<ErrorOutput> {
    let lines = ErrorOutput::default();
    let kept = Arc::clone(&lines);
    threads::spawn("engine errors", move || {
        let mut errors = BufReader::new(errors);
        while let Some(line) = next_line(&mut errors) {
            kept.lock().push(line);
        }
    })?;
    Ok(lines)
}

/// The next line, or a piece of a very long one; `None` at the end or when the pipe cannot be read.
fn next_line(from: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    match read_line(from, &mut line, MAX_LINE_BYTES) {
        Ok(LineEnd::Whole | LineEnd::Cut) => Some(String::from_utf8_lossy(&line).trim().to_owned()),
        Ok(LineEnd::Nothing) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel;

    use super::{lines::MAX_QUEUED_LINES, *};
    use crate::threads::faults;

    #[test]
    fn go_commands_follow_the_protocol() {
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
    fn beginning_and_end_of_the_error_output_are_kept() {
        let text = |output: &str| {
            let mut lines = ErrorLines::default();
            output.lines().for_each(|line| lines.push(line.to_owned()));
            lines.text()
        };
        assert_eq!(text("\n \n"), "");
        assert_eq!(text("\nerror: x\n\nhint\n\n"), ": error: x / hint");
        assert_eq!(text("1\n2\n3\n4\n"), ": 1 / 2 / 3 / 4");
        assert_eq!(text("1\n\n2\n3\n4\n5\n6"), ": 1 / ... / 4 / 5 / 6");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Client::start(Path::new("/no/such/engine"), &[]).unwrap_err();
        assert!(error.to_string().contains("/no/such/engine"));
    }

    #[test]
    fn the_last_report_of_a_pondering_engine_counts() {
        // More reports than are kept, and nobody reads them.
        let most = 3 * MAX_QUEUED_LINES;
        let reports = (1..=most).map(|depth| format!("info depth {depth} score cp {depth}\n"));
        let output = reports.collect::<String>() + "bestmove e2e4\n";
        let (sender, is_over) = channel::bounded::<()>(0);
        let lines = read_lines(EndingOutput(io::Cursor::new(output), sender)).unwrap();
        lines.set_unread(true);
        let over = is_over.recv_timeout(Duration::from_secs(60));
        assert_eq!(over, Err(RecvTimeoutError::Disconnected));
        lines.set_unread(false);
        let (mut count, mut last_info) = (0, LastInfo::default());
        while let Ok((_, line)) = lines.recv_deadline(Instant::now()) {
            last_info.on_line(&line);
            count += 1;
        }
        assert_eq!(count, MAX_QUEUED_LINES);
        assert_eq!(last_info.depth, Some(most as u32));
    }

    /// An output whose sender is dropped once everything was read.
    struct EndingOutput(io::Cursor<String>, #[expect(dead_code)] channel::Sender<()>);

    impl Read for EndingOutput {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    #[test]
    fn reports_that_somebody_waits_for_are_all_kept() {
        let reports = "info depth 1 score cp 7\n".repeat(3 * MAX_QUEUED_LINES);
        let lines = read_lines(io::Cursor::new(reports)).unwrap();
        thread::sleep(Duration::from_millis(50));
        let next = || lines.recv_deadline(Instant::now() + Duration::from_secs(60));
        let count = std::iter::from_fn(|| next().ok()).count();
        assert_eq!(count, 3 * MAX_QUEUED_LINES);
    }

    #[test]
    fn refused_threads_are_an_error_of_the_start() {
        for nth in 0..3 {
            let start = || Client::start(Path::new("cat"), &[]);
            let (started, _) = faults::during(move |number| number == nth, start);
            let error = started.unwrap_err().to_string();
            assert!(error.contains("cannot start cat"), "{error}");
        }
    }
}
