//! The UCI protocol: a thread reads lines, a loop obeys them, and nothing that comes in can end the program except
//! `quit` and the end of the input.
//!
//! The loop never waits for a search: `isready`, `stop` and `ponderhit` are obeyed at once. Another `go` has to wait
//! until the running search has ended, and with it everything that comes after it; so a file of commands
//! (`scorn < file`) is worked off one search after the other.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod command;
pub mod info;
mod listener;
pub mod output;

use std::{
    collections::VecDeque,
    io::BufRead,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use self::{command::Command, output::Output};
use crate::{
    config_file,
    engine::{Asked, Ended, Engine, loader::Retry},
    files::{LineEnd, read_line, skip_line},
    options::{BUTTONS, CONFIG_FILE, layers::Layers},
    player::Load,
};

/// How long `quit` waits for the last answer, and for a network that is just being loaded.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long the end waits for a reader that does not read.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Longer lines are refused, in bytes: no game has as many moves.
const LONGEST_LINE: usize = 1 << 20;

enum Event {
    Line(String),
    /// A line that is too long; this is its beginning.
    LongLine(String),
    EndOfInput,
    SearchEnded(Ended),
}

/// What waits for the end of the search.
#[derive(Debug)]
enum Waiting {
    Command(Command),
    /// The search that a `ponderhit` has made of one that was pondering.
    Search(Asked),
    /// A `position` that is not written as one, and why: the searches before it have theirs.
    NoPosition(String),
}

impl Waiting {
    fn is_search(&self) -> bool {
        matches!(self, Waiting::Search(_) | Waiting::Command(Command::Go(_)))
    }

    fn is_stop(&self) -> bool {
        matches!(self, Waiting::Command(Command::Stop))
    }

    fn is_wait(&self) -> bool {
        matches!(self, Waiting::Command(Command::Wait))
    }

    fn is_quit(&self) -> bool {
        matches!(self, Waiting::Command(Command::Quit))
    }
}

/// What the loop does next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Continue,
    Quit,
}

/// Speaks UCI until `quit` or the end of `input`. At the end of the input the running search is finished first, if it
/// has an end. `layers` are the options of configuration file and command line.
pub fn run(input: impl BufRead + Send + 'static, output: &Output, layers: Layers, load: Load) {
    let (sender, events) = mpsc::channel();
    let reader = sender.clone();
    thread::spawn(move || read_lines(input, &reader));
    Session::new(sender, output.clone(), layers, load).run(&events);
}

/// Sends all lines; what is not UTF-8 is replaced, and refused later as an unknown word.
fn read_lines(mut input: impl BufRead, to: &Sender<Event>) {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let event = match read_line(&mut input, &mut bytes, LONGEST_LINE) {
            Ok(LineEnd::Nothing) | Err(_) => break,
            Ok(LineEnd::Whole) => Event::Line,
            Ok(LineEnd::Cut) => match skip_line(&mut input) {
                Ok(()) => Event::LongLine,
                Err(_) => break,
            },
        };
        let line = String::from_utf8_lossy(&bytes).trim().to_owned();
        if to.send(event(line)).is_err() {
            return;
        }
    }
    // The loop may be gone already.
    let _ = to.send(Event::EndOfInput);
}

/// What a person is told who types to the engine.
const HELP: [&str; 4] = [
    "this is a chess engine that speaks UCI: a chess program (a GUI) drives it, and you can",
    "for a move from the start position: position startpos moves e2e4, then go movetime 1000",
    "uci lists the options, setoption name X value Y sets one, d shows the position, stop ends a search, quit ends all",
    "scorn --help, in a shell, tells what else the program does: analysis, matches, self-play, networks",
];

struct Session {
    engine: Engine,
    output: Output,
    waiting: VecDeque<Waiting>,
    input_ended: bool,
}

impl Session {
    fn new(sender: Sender<Event>, output: Output, layers: Layers, load: Load) -> Session {
        let on_finished = move |ended| {
            // The loop may be gone already.
            let _ = sender.send(Event::SearchEnded(ended));
        };
        let engine = Engine::new(layers, load, Arc::new(output.clone()), on_finished);
        let mut session = Session {
            engine,
            output,
            waiting: VecDeque::new(),
            input_ended: false,
        };
        let log_file = session.engine.options().log_file.clone();
        session.open_log(&log_file);
        if session.engine.options().preload {
            session.engine.preload();
        }
        session
    }

    fn run(&mut self, events: &Receiver<Event>) {
        while let Ok(event) = events.recv() {
            let next = match event {
                Event::Line(line) => self.line(&line),
                Event::LongLine(start) => self.long_line(&start),
                Event::EndOfInput => self.end_of_input(),
                Event::SearchEnded(ended) => self.search_ended(ended),
            };
            if next == Next::Quit || self.output.is_closed() {
                break;
            }
        }
        self.say_goodbye(events);
    }

    fn line(&mut self, line: &str) -> Next {
        self.output.received(line);
        match command::parse(line) {
            Ok(command) => {
                self.tell_what_is_left_out(&command);
                self.receive(command)
            }
            Err(error) => {
                self.refuse(line, error.to_string());
                Next::Continue
            }
        }
    }

    fn long_line(&mut self, start: &str) -> Next {
        const SHOWN: usize = 60;
        let shown: String = start.chars().take(SHOWN).collect();
        self.output.received(&format!("{shown}..."));
        let reason = format!("'{shown}...' is longer than {LONGEST_LINE} bytes");
        self.refuse(start, reason);
        Next::Continue
    }

    /// A line that means nothing is forgotten, unless it was to be a position: then there is none, in its turn.
    fn refuse(&mut self, line: &str, reason: String) {
        self.output.note(&reason);
        if line.split_whitespace().next() == Some("position") {
            match self.waiting.is_empty() {
                true => self.engine.refuse_position(reason),
                false => self.waiting.push_back(Waiting::NoPosition(reason)),
            }
        }
    }

    fn tell_what_is_left_out(&self, command: &Command) {
        let Command::Go(go) = command else { return };
        for word in &go.left_out {
            self.output
                .note(&format!("go: '{word}' is not understood and left out"));
        }
    }

    /// Obeys at once, or later if the command has to wait for the search.
    fn receive(&mut self, command: Command) -> Next {
        match command {
            Command::Nothing => {}
            Command::Quit => {
                self.waiting.push_back(Waiting::Command(Command::Quit));
                if self.is_to_quit() {
                    return Next::Quit;
                }
            }
            Command::IsReady => self.is_ready(),
            Command::Stop => {
                // It is about the last search that was asked for, which may not have begun.
                let is_about_later = self.waiting.iter().any(Waiting::is_search);
                if !(is_about_later && self.is_held_back(self.waiting.len())) {
                    self.engine.stop();
                }
                if is_about_later {
                    self.waiting.push_back(Waiting::Command(Command::Stop));
                }
            }
            Command::PonderHit => self.ponder_hit(),
            other if self.must_wait(&other) => {
                if matches!(other, Command::Go(_)) && self.engine.is_endless() {
                    self.engine.stop();
                }
                self.waiting.push_back(Waiting::Command(other));
            }
            other => self.obey(other),
        }
        Next::Continue
    }

    /// The expected reply was played. That is about the last `go ponder`, which may be waiting for its turn.
    fn ponder_hit(&mut self) {
        let last = self.waiting.iter_mut().rev().find(|w| w.is_search());
        if let Some(waiting) = last {
            if let Waiting::Command(Command::Go(go)) = waiting
                && go.ponder
            {
                self.engine.begin_clock(go);
            }
        } else if let Some(asked) = self.engine.ponder_hit() {
            self.waiting.push_front(Waiting::Search(asked));
        }
    }

    /// Whether a `quit` counts now.
    fn is_to_quit(&self) -> bool {
        let quit = self.waiting.iter().position(Waiting::is_quit);
        quit.is_some_and(|place| !self.is_held_back(place))
    }

    /// Whether what waits at this place, or is about to, is held back by a `wait` before it: not if there is nothing to be
    /// waited for.
    fn is_held_back(&self, place: usize) -> bool {
        !self.engine.is_endless() && self.waiting.iter().take(place).any(Waiting::is_wait)
    }

    fn must_wait(&self, command: &Command) -> bool {
        let first = matches!(command, Command::Go(_) | Command::Wait);
        !self.waiting.is_empty() || (first && self.engine.is_searching())
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Uci => self.introduce(),
            Command::NewGame => self.engine.new_game(),
            Command::SetOption { name, value } => self.set_option(&name, value.as_deref()),
            Command::Position { fen, moves } => {
                if let Err(error) = self.engine.set_position(fen.as_deref(), &moves) {
                    self.output.note(&format!(
                        "{error}; there is no position to search until a valid one comes"
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

    fn introduce(&self) {
        let version = env!("CARGO_PKG_VERSION");
        self.output.line(&format!("id name Scorn {version}"));
        self.output.line("id author the Scorn developers");
        for row in self.engine.options().rows() {
            for line in row.uci_lines() {
                self.output.line(&line);
            }
        }
        self.output.line(&format!(
            "option name {CONFIG_FILE} type string default <empty>"
        ));
        for (name, _) in BUTTONS {
            self.output.line(&format!("option name {name} type button"));
        }
        self.output.line("uciok");
    }

    fn is_ready(&mut self) {
        self.engine.prepare(Retry::No);
        self.engine.answer_when_ready();
    }

    fn set_option(&mut self, name: &str, value: Option<&str>) {
        if name.eq_ignore_ascii_case("ClearTree") {
            return self.engine.clear_tree();
        }
        if name.eq_ignore_ascii_case("Clear Hash") {
            return self.engine.clear_hash();
        }
        if name.eq_ignore_ascii_case(CONFIG_FILE) {
            return self.read_config(value.unwrap_or_default());
        }
        let log_file = self.engine.options().log_file.clone();
        if let Err(error) = self.engine.set_option(name, value.unwrap_or_default()) {
            return self.output.note(&error.to_string());
        }
        if self.engine.options().log_file != log_file {
            self.open_log(&self.engine.options().log_file);
        }
        if name.eq_ignore_ascii_case("Preload") && self.engine.options().preload {
            self.engine.preload();
        }
    }

    /// Sets what a configuration file sets. An empty name is no file.
    fn read_config(&mut self, path: &str) {
        if path.is_empty() || path == "<empty>" {
            return;
        }
        match config_file::read(Path::new(path)) {
            Ok(entries) => {
                for entry in entries {
                    self.set_option(&entry.name, Some(&entry.value));
                }
            }
            Err(error) => self.output.note(&format!("{CONFIG_FILE}: {error:#}")),
        }
    }

    fn open_log(&self, path: &str) {
        if let Err(error) = self.output.log_to(path) {
            self.output
                .note(&format!("LogFile: cannot write to {path}: {error}"));
        }
    }

    fn search_ended(&mut self, ended: Ended) -> Next {
        self.engine.search_ended(ended);
        while !self.engine.is_searching() {
            match self.waiting.pop_front() {
                Some(Waiting::Command(Command::Quit)) => return Next::Quit,
                Some(Waiting::Command(command)) => self.obey(command),
                Some(Waiting::Search(asked)) => self.engine.search(asked),
                Some(Waiting::NoPosition(reason)) => self.engine.refuse_position(reason),
                None => break,
            }
        }
        if self.is_to_quit() {
            return Next::Quit;
        }
        // What is waited for must end: by the input's end, by another `go`, or by a `stop` that came too early.
        let another = self.waiting.iter().any(Waiting::is_search);
        let overtaken = self.engine.is_endless() && (self.input_ended || another);
        if self.take_stop() || overtaken {
            self.engine.stop();
        }
        self.next_after_input()
    }

    /// Whether a `stop` waits for the search that has just begun, rather than for a later one.
    fn take_stop(&mut self) -> bool {
        let is_about_searches = |w: &Waiting| w.is_search() || w.is_stop();
        let next = self.waiting.iter().position(is_about_searches);
        let stop = next.filter(|&index| self.waiting[index].is_stop());
        stop.and_then(|index| self.waiting.remove(index)).is_some()
    }

    fn end_of_input(&mut self) -> Next {
        self.input_ended = true;
        if self.engine.is_endless() {
            self.engine.stop();
        }
        self.next_after_input()
    }

    fn next_after_input(&mut self) -> Next {
        if self.input_ended && !self.engine.is_searching() && self.waiting.is_empty() {
            self.engine.wait_until_ready();
            Next::Quit
        } else {
            Next::Continue
        }
    }

    /// A running search still tells its result, if it can be had quickly.
    fn say_goodbye(&mut self, events: &Receiver<Event>) {
        self.engine.stop();
        while self.engine.is_searching() {
            match events.recv_timeout(FAREWELL) {
                Ok(Event::SearchEnded(ended)) => self.engine.search_ended(ended),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.engine.close(FAREWELL);
        self.output.flush(LAST_WORDS);
    }
}
