//! The real program with random lines, against a model of what it owes: one legal `bestmove` for every `go`, one `readyok`
//! for every `isready`, in order, and an end when its input ends.

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

/// Lines between two waits for the program.
const BATCH: usize = 500;
/// Nothing that is sent takes so long, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(300);
/// Options that would start other backends, read files or take all processors.
const LEFT_ALONE: &[&str] = &[
    "Weights",
    "Backend",
    "Head",
    "Path",
    "LogFile",
    "Threads",
    "HistoryFill",
];

/// What a `go` may be answered with.
struct Owed {
    line: String,
    /// The position.
    position: History,
    /// Whether the last position given was refused: then there is nothing to play.
    is_refused: bool,
    /// Whether `(none)` is an answer too.
    may_be_none: bool,
}

impl Owed {
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

/// What the program has been told.
struct Model {
    /// The last position that was understood.
    position: History,
    /// Whether another one was given since that was not.
    is_refused: bool,
}

impl Model {
    fn hear(&mut self, line: &str) -> Told {
        match command::parse(line) {
            Ok(Line::Position { fen, moves }) => {
                let position = setup::history_from(fen.as_deref(), &moves);
                self.is_refused = position.is_err();
                self.position = position.unwrap_or_else(|_| self.position.clone());
                Told::Else
            }
            Ok(Line::Go(go)) if go.perft.is_none() => {
                let (position, last) = (self.position.position(), self.position.last());
                let over = position.legal_moves().is_empty()
                    || position.is_insufficient_material()
                    || last.rule50() >= 100
                    || last.repetitions >= 2
                    // In standard mode it is refused, and only the program knows its mode.
                    || setup::check_castling(self.position.clone(), false).is_err();
                Told::Go(Owed {
                    line: line.to_owned(),
                    position: self.position.clone(),
                    is_refused: self.is_refused,
                    may_be_none: over || !go.search_moves.is_empty(),
                })
            }
            Ok(Line::IsReady) => Told::IsReady,
            // A position that is not even written as one is no position either.
            Err(_) if line.split_whitespace().next() == Some("position") => {
                self.is_refused = true;
                Told::Else
            }
            _ => Told::Else,
        }
    }
}

enum Told {
    Go(Owed),
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
    if LEFT_ALONE.iter().any(|name| line.contains(name)) {
        return Vec::new();
    }
    let endless = line.starts_with("go ") && (line.contains("ponder") || line.contains("infinite"));
    match endless {
        true => vec![line, "stop".into()],
        false => vec![line],
    }
}

/// Checks every line that the program says, and tells of each `readyok`.
fn listen(output: ChildStdout, owed: &Receiver<Owed>, ready: &Sender<()>) -> usize {
    let mut answers = 0;
    for line in BufReader::new(output).lines() {
        let line = line.unwrap();
        assert!(
            !line.contains("panicked") && !line.contains("crashed"),
            "{line}"
        );
        if line.starts_with("bestmove") {
            owed.try_recv()
                .expect("an answer that nobody asked for")
                .check(&line);
            answers += 1;
        }
        if line == "readyok" {
            let _ = ready.send(());
        }
    }
    assert!(owed.try_recv().is_err(), "a search was not answered");
    answers
}

/// The most memory that a process has had, in KiB.
fn peak(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn options_to_set() -> Vec<String> {
    let rows = Options::default().rows();
    let names = rows.iter().map(|row| row.name.to_owned());
    names
        .filter(|name| !LEFT_ALONE.iter().any(|other| name.contains(other)))
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
    let (owe, owed) = mpsc::channel();
    let (tell, ready) = mpsc::channel();
    let listener = thread::spawn(move || listen(output, &owed, &tell));
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
                match model.hear(&line) {
                    Told::Go(owed) => {
                        owe.send(owed).unwrap();
                        searches += 1;
                    }
                    Told::IsReady => waiting += 1,
                    Told::Else => {}
                }
                text += &line;
                text.push('\n');
                sent += 1;
            }
        }
        text += "isready\n";
        // What is wrong is told by the listener.
        if input.write_all(text.as_bytes()).is_err() {
            break;
        }
        for _ in 0..waiting {
            if ready.recv_timeout(PATIENCE).is_err() {
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
