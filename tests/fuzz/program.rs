//! The real program with random lines, compared with a model of its obligations: one legal `bestmove` for every `go`,
//! one `readyok` for every `isready`, in order, and an exit when its input ends.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use rand::{RngExt, SeedableRng};
use scorn::{
    chess::{History, setup},
    options::Options,
    uci::command::{self, Command as Line},
};
use shakmaty::Position;

use crate::hostile::{Rng, amount, damage, pick, program, random_line, seed, tame};

/// Lines between two synchronisations.
const BATCH: usize = 500;
/// Nothing takes this long, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Options that would start other backends, read files or use all processors.
const EXCLUDED_OPTIONS: &[&str] = &[
    "Weights",
    "Backend",
    "Head",
    "Path",
    "LogFile",
    "Threads",
    "HistoryFill",
];

/// The valid answers to a `go`.
struct ExpectedAnswer {
    line: String,
    /// The position.
    position: History,
    /// Whether the last position was refused, so that there is nothing to play.
    is_refused: bool,
    /// Whether `(none)` is valid too.
    may_be_none: bool,
}

impl ExpectedAnswer {
    fn check(&self, answer: &str) {
        let m = answer.split_whitespace().nth(1).unwrap_or_default();
        let is_legal = |history: &History| setup::parse_move(history.position(), m).is_ok();
        let is_right = match m {
            "(none)" => self.may_be_none || self.is_refused,
            _ => is_legal(&self.position) && !self.is_refused,
        };
        let position = self.position.position();
        assert!(is_right, "'{}' in {position:?} got '{answer}'", self.line);
    }
}

/// The state of the program, as far as the commands determine it.
struct Model {
    /// The last valid position.
    position: History,
    /// Whether a later position was invalid.
    is_refused: bool,
}

impl Model {
    fn apply(&mut self, line: &str) -> Effect {
        match command::parse(line) {
            Ok(Line::Position { fen, moves }) => {
                let position = setup::history_from(fen.as_deref(), &moves);
                self.is_refused = position.is_err();
                self.position = position.unwrap_or_else(|_| self.position.clone());
                Effect::Else
            }
            Ok(Line::Go(go)) if go.perft.is_none() => {
                let (position, last) = (self.position.position(), self.position.last());
                let over = position.legal_moves().is_empty()
                    || position.is_insufficient_material()
                    || last.rule50() >= 100
                    || last.repetitions >= 2
                    // In standard mode it is refused, and the model does not have the mode.
                    || setup::check_castling(self.position.clone(), false).is_err();
                Effect::Go(ExpectedAnswer {
                    line: line.to_owned(),
                    position: self.position.clone(),
                    is_refused: self.is_refused,
                    may_be_none: over || !go.search_moves.is_empty(),
                })
            }
            Ok(Line::IsReady) => Effect::IsReady,
            // An invalid `position` line leaves no position either.
            Err(_) if line.split_whitespace().next() == Some("position") => {
                self.is_refused = true;
                Effect::Else
            }
            _ => Effect::Else,
        }
    }
}

enum Effect {
    Go(ExpectedAnswer),
    IsReady,
    Else,
}

fn setoption(rng: &mut Rng, names: &[String]) -> String {
    let name = &names[rng.random_range(0..names.len())];
    let values = [
        "",
        "0",
        "1",
        "-1",
        "2.5",
        "1e9",
        "nan",
        "true",
        "false",
        "100",
        "99999999999",
        "play",
        "x",
    ];
    format!("setoption name {name} value {}", pick(rng, &values))
}

/// The next lines; searches without an end get a `stop`.
fn lines(rng: &mut Rng, names: &[String]) -> Vec<String> {
    let mut line = match rng.random_range(0..8) {
        0 => setoption(rng, names),
        _ => random_line(rng),
    };
    if rng.random_range(0..3) == 0 {
        line = damage(rng, &line).replace('\n', " ");
    }
    // Searches take longer than everything else; a part of them is enough.
    if line.starts_with("go") && rng.random_range(0..4) != 0 {
        line = "isready".into();
    }
    let line = tame(&line);
    if EXCLUDED_OPTIONS.iter().any(|name| line.contains(name)) {
        return Vec::new();
    }
    let endless = line.starts_with("go ") && (line.contains("ponder") || line.contains("infinite"));
    if endless {
        vec![line, "stop".into()]
    } else {
        vec![line]
    }
}

/// Checks every line of the program's output, and signals each `readyok`.
fn listen(output: ChildStdout, expected: &Receiver<ExpectedAnswer>, ready: &Sender<()>) -> usize {
    let mut answers = 0;
    for line in BufReader::new(output).lines() {
        let line = line.unwrap();
        assert!(
            !line.contains("panicked") && !line.contains("crashed"),
            "{line}"
        );
        if line.starts_with("bestmove") {
            expected
                .try_recv()
                .expect("an answer that nobody asked for")
                .check(&line);
            answers += 1;
        }
        if line == "readyok" {
            let _ = ready.send(());
        }
    }
    assert!(expected.try_recv().is_err(), "a search was not answered");
    answers
}

/// Peak memory of a process, in KiB.
fn peak(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn options_to_set() -> Vec<String> {
    let rows = Options::default().rows();
    let names = rows.iter().map(|row| row.name.to_owned());
    names
        .filter(|name| !EXCLUDED_OPTIONS.iter().any(|other| name.contains(other)))
        .collect()
}

#[test]
fn the_program_answers_every_go_and_every_isready() {
    let total = amount("SCORN_FUZZ_LINES", 3000);
    let mut rng = Rng::seed_from_u64(seed());
    let names = options_to_set();
    let mut child = Command::new(program())
        .args(["-b", "hash", "-t", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = child.stdout.take().unwrap();
    let (owe, expected) = mpsc::channel();
    let (tell, ready) = mpsc::channel();
    let listener = thread::spawn(move || listen(output, &expected, &tell));
    let mut model = Model {
        position: History::default(),
        is_refused: false,
    };
    let (mut sent, mut searches, mut readies) = (0, 0, 0);
    while sent < total {
        let mut text = String::new();
        let mut waiting = 1;
        for _ in 0..BATCH.min(total - sent) {
            for line in lines(&mut rng, &names) {
                match model.apply(&line) {
                    Effect::Go(expected) => {
                        owe.send(expected).unwrap();
                        searches += 1;
                    }
                    Effect::IsReady => waiting += 1,
                    Effect::Else => {}
                }
                text += &line;
                text.push('\n');
                sent += 1;
            }
        }
        text += "isready\n";
        // The listener reports wrong answers.
        if input.write_all(text.as_bytes()).is_err() {
            break;
        }
        for _ in 0..waiting {
            if ready.recv_timeout(TIMEOUT).is_err() {
                let _ = child.kill();
                let answers = listener.join().expect("a wrong answer, see above");
                panic!("no readyok after {sent} lines and {answers} answers");
            }
            readies += 1;
        }
    }
    let peak = peak(&child);
    drop(input);
    let answers = listener.join().expect("a wrong answer, see above");
    assert!(child.wait().unwrap().success());
    assert_eq!(answers, searches);
    println!("{sent} lines, {searches} searches, {readies} readyok, peak {peak:?} KiB");
}
