//! The UCI protocol: a thread reads lines and a loop executes them. The program ends with `quit`, with the input, or
//! when nobody reads its output any more.
//!
//! The loop never waits for a search: `isready`, `stop` and `ponderhit` are executed at once. Another `go`, and all
//! commands after it, wait until the running search has ended; so a file of commands (`scorn < file`) is executed one
//! search after the other. What waits is bounded: then no more lines are read until there is room.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod command;
pub mod info;
mod listener;
pub mod output;
mod write_queue;

use std::{
    collections::VecDeque,
    io::BufRead,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use anyhow::Context;
use parking_lot::{Condvar, Mutex};

use self::{command::Command, output::Output};
use crate::{
    chess::setup,
    config_file,
    engine::{Engine, IgnoredWord, SearchEnd, SearchRequest, SetBy, loader::Retry},
    files::{LineEnd, read_line, skip_line},
    options::{BUTTONS, Button, CONFIG_FILE, OptionError, Options, layers::Layers},
    player::Load,
    threads,
    version::VERSION,
};

/// Maximum time that `quit` waits for the last answer, and for a network that is being loaded.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the output waits for its reader to take a line at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum length of a line in bytes; no game has as many moves.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Maximum number of lines that were read and not looked at: beyond that, the input waits.
const MAX_READ_LINES: usize = 1000;

/// Maximum number of commands that wait for the end of a search: beyond that, the input waits.
const MAX_DEFERRED: usize = 100_000;

/// Maximum number of wrong lines of a configuration file that are reported: it may be another kind of file.
const MAX_REPORTED_LINES: usize = 10;

enum Event {
    Line(String),
    /// The beginning of a line that is too long.
    LongLine(String),
    EndOfInput,
    SearchEnded(SearchEnd),
}

/// How much was read and not executed. The input waits while it is too much, and with it whoever writes it.
#[derive(Default)]
struct Backlog {
    counts: Mutex<Unexecuted>,
    changed: Condvar,
}

#[derive(Default)]
struct Unexecuted {
    /// Lines that nobody has looked at.
    lines: usize,
    /// Commands that wait for the end of a search.
    deferred: usize,
}

impl Backlog {
    /// Adds a line, as soon as there is place for it.
    fn add(&self) {
        let mut counts = self.counts.lock();
        while counts.lines >= MAX_READ_LINES || counts.deferred >= MAX_DEFERRED {
            self.changed.wait(&mut counts);
        }
        counts.lines += 1;
    }

    fn remove(&self) {
        self.counts.lock().lines -= 1;
        self.changed.notify_all();
    }

    /// Sets the number of commands that wait for the end of a search.
    fn set_deferred(&self, deferred: usize) {
        let mut counts = self.counts.lock();
        if std::mem::replace(&mut counts.deferred, deferred) > deferred {
            drop(counts);
            self.changed.notify_all();
        }
    }
}

/// A command that waits for the end of the search.
#[derive(Debug)]
enum Deferred {
    Command(Command),
    /// The search that a `ponderhit` has made of a ponder search.
    Search(SearchRequest),
    /// An invalid `position`, and the reason: searches before it are not affected.
    InvalidPosition(String),
}

impl Deferred {
    fn is_search(&self) -> bool {
        matches!(
            self,
            Deferred::Search(_) | Deferred::Command(Command::Go(_))
        )
    }

    fn is_stop(&self) -> bool {
        matches!(self, Deferred::Command(Command::Stop))
    }

    fn is_wait(&self) -> bool {
        matches!(self, Deferred::Command(Command::Wait))
    }

    fn is_quit(&self) -> bool {
        matches!(self, Deferred::Command(Command::Quit))
    }
}

/// The next action of the loop.
#[derive(Debug, PartialEq, Eq)]
enum AfterCommand {
    Continue,
    Quit,
}

/// Speaks UCI until `quit` or the end of `input`. At the end of the input the running search is finished first, if it
/// has an end. `layers` are the options of configuration file and command line.
///
/// # Errors
/// When no thread can be started to read the input.
pub fn run(
    input: impl BufRead + Send + 'static,
    output: &Output,
    layers: Layers,
    load: Load,
) -> anyhow::Result<()> {
    let (sender, events) = mpsc::channel();
    let reader = sender.clone();
    let backlog = Arc::new(Backlog::default());
    let added = Arc::clone(&backlog);
    threads::spawn("input", move || read_lines(input, &reader, &added))
        .context("no thread can be started to read the input")?;
    Session::new(sender, output.clone(), layers, load).run(&events, &backlog);
    Ok(())
}

/// Sends all lines; invalid UTF-8 is replaced and later refused as an unknown word.
fn read_lines(mut input: impl BufRead, to: &Sender<Event>, backlog: &Backlog) {
    let mut bytes = Vec::new();
    let mut is_first = true;
    loop {
        bytes.clear();
        let event = match read_line(&mut input, &mut bytes, MAX_LINE_BYTES) {
            Ok(LineEnd::Nothing) | Err(_) => break,
            Ok(LineEnd::Whole) => Event::Line,
            Ok(LineEnd::Cut) => match skip_line(&mut input) {
                Ok(()) => Event::LongLine,
                Err(_) => break,
            },
        };
        let line = String::from_utf8_lossy(&bytes);
        // Some programs begin their output with the mark of UTF-8.
        let line = if std::mem::take(&mut is_first) {
            line.trim_start_matches('\u{feff}')
        } else {
            &line
        };
        let line = line.trim().to_owned();
        backlog.add();
        if to.send(event(line)).is_err() {
            return;
        }
    }
    // The loop may have ended.
    let _ = to.send(Event::EndOfInput);
}

/// The output of `help`.
const HELP: [&str; 4] = [
    "Scorn is a UCI chess engine: it is meant to be run by a chess GUI, but you can also type commands.",
    "For a reply to 1. e4: position startpos moves e2e4, then go movetime 1000",
    "uci lists the options, setoption name X value Y sets one, d prints the position, stop ends a search, quit exits",
    "In a shell, scorn --help lists the other subcommands: analysis, matches, self-play, networks",
];

struct Session {
    engine: Engine,
    output: Output,
    deferred: VecDeque<Deferred>,
    input_ended: bool,
}

impl Session {
    fn new(sender: Sender<Event>, output: Output, layers: Layers, load: Load) -> Session {
        let on_finished = move |end| {
            // The loop may have ended.
            let _ = sender.send(Event::SearchEnded(end));
        };
        let engine = Engine::new(layers, load, Arc::new(output.clone()), on_finished);
        let mut session = Session {
            engine,
            output,
            deferred: VecDeque::new(),
            input_ended: false,
        };
        let log_file = session.engine.options().log_file.clone();
        session.open_log(&log_file);
        if session.engine.options().preload {
            session.engine.preload();
        }
        session
    }

    fn run(&mut self, events: &Receiver<Event>, backlog: &Backlog) {
        while let Ok(event) = events.recv() {
            if matches!(event, Event::Line(_) | Event::LongLine(_)) {
                backlog.remove();
            }
            let next = match event {
                Event::Line(line) => self.line(&line),
                Event::LongLine(start) => self.long_line(&start),
                Event::EndOfInput => self.end_of_input(),
                Event::SearchEnded(end) => self.handle_search_end(end),
            };
            if next == AfterCommand::Quit || self.output.is_closed() {
                break;
            }
            // The line that would end the search may not be read any more.
            if self.deferred.len() >= MAX_DEFERRED {
                self.engine.ensure_end();
            }
            backlog.set_deferred(self.deferred.len());
        }
        self.shut_down(events);
    }

    fn line(&mut self, line: &str) -> AfterCommand {
        self.output.received(line);
        match command::parse(line) {
            Ok(command) => {
                self.report_ignored_words(&command);
                self.receive(command)
            }
            Err(error) => {
                self.refuse(line, error.to_string());
                AfterCommand::Continue
            }
        }
    }

    fn long_line(&mut self, start: &str) -> AfterCommand {
        let shown = setup::shorten_to(start, 60);
        self.output.received(&shown);
        let reason = format!("'{shown}' is longer than {MAX_LINE_BYTES} bytes");
        self.refuse(start, reason);
        AfterCommand::Continue
    }

    /// Refuses an invalid line. Usually it has no effect, but an invalid `position` leaves no position to search.
    fn refuse(&mut self, line: &str, reason: String) {
        self.output.note(&reason);
        if line.split_whitespace().next() == Some("position") {
            if self.deferred.is_empty() {
                self.engine.refuse_position(reason);
            } else {
                self.deferred.push_back(Deferred::InvalidPosition(reason));
            }
        }
    }

    fn report_ignored_words(&self, command: &Command) {
        let Command::Go(go) = command else { return };
        for word in &go.ignored_words {
            self.output.note(&why_ignored(word));
        }
        if go.lacks_limit {
            self.output
                .note("go: there is no valid limit: one node is searched");
        }
    }

    /// Executes the command, or defers it if it has to wait for the search.
    fn receive(&mut self, command: Command) -> AfterCommand {
        match command {
            Command::Nothing => {}
            Command::Quit => {
                self.deferred.push_back(Deferred::Command(Command::Quit));
                if self.should_quit() {
                    return AfterCommand::Quit;
                }
            }
            Command::IsReady => self.answer_isready(),
            Command::Stop => {
                // It applies to the last requested search, which may not have started.
                let is_about_later = self.deferred.iter().any(Deferred::is_search);
                if !(is_about_later && self.waits_for_wait(self.deferred.len())) {
                    self.engine.stop();
                }
                if is_about_later && !self.deferred.back().is_some_and(Deferred::is_stop) {
                    self.deferred.push_back(Deferred::Command(Command::Stop));
                }
            }
            Command::PonderHit => self.ponder_hit(),
            other if self.must_wait(&other) => {
                if matches!(other, Command::Go(_)) {
                    self.engine.ensure_end();
                }
                self.deferred.push_back(Deferred::Command(other));
            }
            other => self.execute(other),
        }
        AfterCommand::Continue
    }

    /// The expected reply was played. This applies to the last `go ponder`, which may still be deferred.
    fn ponder_hit(&mut self) {
        let last = self.deferred.iter_mut().rev().find(|w| w.is_search());
        if let Some(deferred) = last {
            if let Deferred::Command(Command::Go(go)) = deferred
                && go.ponder
            {
                self.engine.begin_clock(go);
            }
        } else if let Some(search) = self.engine.ponder_hit() {
            self.deferred.push_front(Deferred::Search(search));
        }
    }

    /// Whether a `quit` takes effect now.
    fn should_quit(&self) -> bool {
        let quit = self.deferred.iter().position(Deferred::is_quit);
        quit.is_some_and(|place| !self.waits_for_wait(place))
    }

    /// Whether the command at this place of the queue (or the next one to be queued) waits for a `wait` before it;
    /// false if the running search may never end.
    fn waits_for_wait(&self, place: usize) -> bool {
        !self.engine.may_never_end() && self.deferred.iter().take(place).any(Deferred::is_wait)
    }

    fn must_wait(&self, command: &Command) -> bool {
        let first = matches!(command, Command::Go(_) | Command::Wait);
        !self.deferred.is_empty() || (first && self.engine.is_searching())
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Uci => self.identify(),
            Command::NewGame => self.engine.new_game(),
            Command::SetOption { name, value } => self.set_option(&name, value.as_deref()),
            Command::Position { fen, moves } => {
                if let Err(error) = self.engine.set_position(fen.as_deref(), &moves) {
                    self.output.note(&format!(
                        "{error}; set a valid position before the next search"
                    ));
                }
                self.engine.prepare(Retry::No);
            }
            Command::Go(go) => self.engine.go(go),
            Command::Help => HELP.iter().for_each(|line| self.output.note(line)),
            Command::Display => self.output.note(&format!("fen {}", self.engine.fen())),
            Command::Wait
            | Command::Nothing
            | Command::IsReady
            | Command::Stop
            | Command::PonderHit
            | Command::Quit => {}
        }
    }

    fn identify(&self) {
        self.output.line(&format!("id name Scorn {VERSION}"));
        self.output.line("id author the Scorn developers");
        for row in self.engine.options().announced_rows() {
            for line in row.uci_lines() {
                self.output.line(&line);
            }
        }
        self.output.line(&format!(
            "option name {CONFIG_FILE} type string default <empty>"
        ));
        for (_, name, _) in BUTTONS {
            self.output.line(&format!("option name {name} type button"));
        }
        self.output.line("uciok");
    }

    fn answer_isready(&mut self) {
        self.engine.prepare(Retry::No);
        self.engine.answer_when_ready();
    }

    fn set_option(&mut self, name: &str, value: Option<&str>) {
        let button = BUTTONS
            .iter()
            .find(|(_, known, _)| name.eq_ignore_ascii_case(known));
        match button {
            Some((Button::ClearTree, ..)) => return self.engine.clear_tree(),
            Some((Button::ClearHash, ..)) => return self.engine.clear_hash(),
            None => {}
        }
        if name.eq_ignore_ascii_case(CONFIG_FILE) {
            return self.read_config(value.unwrap_or_default());
        }
        if let Err(error) = self.set(name, value.unwrap_or_default(), SetBy::Gui) {
            self.output.note(&error.with_name_as_sent(name));
        }
    }

    /// Sets an option of the engine.
    fn set(&mut self, name: &str, value: &str, by: SetBy) -> Result<(), OptionError> {
        let log_file = self.engine.options().log_file.clone();
        self.engine.set_option(name, value, by)?;
        // A file that could not be opened is tried again when it is named again.
        let is_retry = Options::name_of(name) == Some("LogFile") && !self.output.has_log();
        if is_retry || self.engine.options().log_file != log_file {
            self.open_log(&self.engine.options().log_file);
        }
        if name.eq_ignore_ascii_case("Preload") && self.engine.options().preload {
            self.engine.preload();
        }
        Ok(())
    }

    /// Sets the options of a configuration file; lines that are wrong are reported and have no effect. An empty name
    /// means no file.
    fn read_config(&mut self, path: &str) {
        if path.is_empty() || path == "<empty>" {
            return;
        }
        let entries = match config_file::read_for_session(Path::new(path)) {
            Ok(entries) => entries,
            Err(error) => return self.output.note(&format!("{CONFIG_FILE}: {error:#}")),
        };
        let mut wrong = 0;
        for entry in entries {
            let set = entry.and_then(|entry| {
                self.set(&entry.name, &entry.value, SetBy::File)
                    .with_context(|| format!("{path}, line {}", entry.line))
            });
            if let Err(error) = set {
                wrong += 1;
                if wrong <= MAX_REPORTED_LINES {
                    self.output.note(&format!("{CONFIG_FILE}: {error:#}"));
                }
            }
        }
        if wrong > MAX_REPORTED_LINES {
            let more = wrong - MAX_REPORTED_LINES;
            self.output.note(&format!(
                "{CONFIG_FILE}: {path}: {more} more lines are wrong"
            ));
        }
    }

    fn open_log(&self, path: &str) {
        if let Err(error) = self.output.log_to(path) {
            self.output
                .note(&format!("LogFile: cannot write to {path}: {error}"));
        }
    }

    fn handle_search_end(&mut self, end: SearchEnd) -> AfterCommand {
        self.engine.handle_search_end(end);
        while !self.engine.is_searching() {
            match self.deferred.pop_front() {
                Some(Deferred::Command(Command::Quit)) => return AfterCommand::Quit,
                Some(Deferred::Command(command)) => self.execute(command),
                Some(Deferred::Search(search)) => self.engine.search(search),
                Some(Deferred::InvalidPosition(reason)) => self.engine.refuse_position(reason),
                None => break,
            }
        }
        if self.should_quit() {
            return AfterCommand::Quit;
        }
        // An infinite search must not block: the end of the input, another `go`, or an early `stop` end it.
        let another = self.deferred.iter().any(Deferred::is_search);
        if self.take_stop() {
            self.engine.stop();
        } else if self.input_ended || another {
            self.engine.ensure_end();
        }
        self.next_after_input()
    }

    /// Whether a deferred `stop` applies to the search that has just begun, rather than to a later one.
    fn take_stop(&mut self) -> bool {
        let is_about_searches = |w: &Deferred| w.is_search() || w.is_stop();
        let next = self.deferred.iter().position(is_about_searches);
        let stop = next.filter(|&index| self.deferred[index].is_stop());
        stop.and_then(|index| self.deferred.remove(index)).is_some()
    }

    fn end_of_input(&mut self) -> AfterCommand {
        self.input_ended = true;
        self.engine.ensure_end();
        self.next_after_input()
    }

    fn next_after_input(&mut self) -> AfterCommand {
        if self.input_ended && !self.engine.is_searching() && self.deferred.is_empty() {
            self.engine.wait_until_ready();
            AfterCommand::Quit
        } else {
            AfterCommand::Continue
        }
    }

    /// Stops the search and prints its result, if it ends soon.
    fn shut_down(&mut self, events: &Receiver<Event>) {
        self.engine.stop();
        while self.engine.is_searching() {
            match events.recv_timeout(SHUTDOWN_TIMEOUT) {
                Ok(Event::SearchEnded(end)) => self.engine.handle_search_end(end),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.engine.close(SHUTDOWN_TIMEOUT);
        self.output.flush(FLUSH_TIMEOUT);
    }
}

/// Why a word of `go` has no effect.
fn why_ignored(word: &IgnoredWord) -> String {
    let (word, reason) = match word {
        IgnoredWord::Unknown(word) => (word.clone(), "go has no such word".to_owned()),
        IgnoredWord::NoNumber(word) => (word.clone(), "a number must follow".to_owned()),
        IgnoredWord::BadNumber(word) => (word.clone(), "this is not a valid number".to_owned()),
        IgnoredWord::TooDeep { plies, most } => (
            format!("perft {plies}"),
            format!("more than {most} plies cannot be counted"),
        ),
    };
    format!("go: '{word}' is ignored: {reason}")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::threads::faults;

    #[test]
    fn a_session_that_cannot_read_its_input_is_an_error() {
        let load: Load = Arc::new(|_: &Options, _| anyhow::bail!("no network is needed"));
        let output = Output::new(Box::new(io::sink()));
        let session = || run(io::empty(), &output, Layers::default(), load);
        let (result, _) = faults::during(|_| true, session);
        let error = format!("{:#}", result.unwrap_err());
        assert!(error.contains("to read the input: "), "{error}");
    }
}
