//! A UCI engine as teacher: best move and score for every record, and with `--multipv` the next best moves with theirs,
//! from which training makes a soft policy.
//!
//! Stockfish answers queued `position`/`go` pairs in order, which saves a process switch per position.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use shakmaty::fen::Fen;
use shakmaty::uci::UciMove;
use shakmaty::{Chess, Color, EnPassantMode};

use super::record::{ALTERNATIVES, Alternative, MATE, NO_SCORE, Record};

/// Puts a label on a record, in place of one that it may have; a mated or otherwise unanswerable position keeps what it
/// has.
pub fn apply(record: &mut Record, pos: &Chess, answer: &TeacherReply) {
    let Some(best) = pack(&answer.best, pos) else {
        return;
    };
    // A line without moves is about the position, so about the best move.
    let of = |line: &ScoredLine| (pack(&line.m, pos).unwrap_or(best), line.score);
    let lines: Vec<(u16, i16)> = answer.lines.iter().map(of).collect();
    let of_best = lines.iter().find(|(m, _)| *m == best).or(lines.first());
    record.best = best;
    record.score = of_best.map_or(NO_SCORE, |&(_, score)| score);
    record.alternatives = Default::default();
    // Of a single line the last move may be another than the one played: that is no second opinion.
    if lines.len() > 1 {
        let mut known = vec![best];
        for &(m, score) in &lines {
            let index = known.len() - 1;
            if known.contains(&m) || index >= ALTERNATIVES {
                continue;
            }
            record.alternatives[index] = Alternative { m, score };
            known.push(m);
        }
    }
    if record.score != NO_SCORE && record.score.abs() > MATE - 1000 {
        record.plies_left = (MATE - record.score.abs()) as u16;
    }
}

/// A move in UCI as records hold it, if it can be played.
fn pack(text: &str, pos: &Chess) -> Option<u16> {
    let m = text.parse::<UciMove>().ok()?.to_move(pos).ok()?;
    Some(Record::pack_move(m, Color::White))
}

/// What the engine said last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TeacherReply {
    best: String,
    /// By rank.
    lines: Vec<ScoredLine>,
}

impl TeacherReply {
    /// Takes a line into account. A search that ends while it widens its window tells a bound: then the move has its rank,
    /// but the score that was exact before is nearer to the truth, if there was one.
    fn hear(&mut self, mut line: ScoredLine) {
        if line.is_bound
            && let Some(exact) = self.lines.iter().find(|known| known.m == line.m)
        {
            line.score = exact.score;
        }
        // Ranks are told in order, so a new one is the next.
        match self.lines.get_mut(line.rank - 1) {
            Some(known) => *known = line,
            None => self.lines.push(line),
        }
    }
}

/// What an `info` line with a score says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ScoredLine {
    /// Counted from 1.
    rank: usize,
    score: i16,
    /// Whether the score is only a bound of the true one.
    is_bound: bool,
    /// The first move of `pv`; empty if there is none.
    m: String,
}

/// How long a program may take to say that it is a UCI engine and ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// A UCI engine in a process of its own.
pub struct Teacher {
    /// The program, for errors.
    name: String,
    /// What it calls itself; empty if it does not say.
    id: String,
    process: Arc<Mutex<Child>>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
}

impl Teacher {
    /// Starts the program and sets its options, each `NAME=VALUE`.
    ///
    /// # Errors
    /// When it cannot be started, is no UCI engine or an option is not of that form.
    pub fn start(engine: &Path, options: &[String]) -> Result<Teacher> {
        let mut process = Command::new(engine)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the engine {}", engine.display()))?;
        let input = process.stdin.take().context("no stdin")?;
        let output = BufReader::new(process.stdout.take().context("no stdout")?);
        let mut teacher = Teacher {
            name: engine.display().to_string(),
            id: String::new(),
            process: Arc::new(Mutex::new(process)),
            input,
            output,
            line: String::new(),
        };
        let (started, waits) = mpsc::channel::<()>();
        let process = Arc::clone(&teacher.process);
        thread::spawn(move || {
            if waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                // Who reads from it is told that it ended.
                let _ = process.lock().kill();
            }
        });
        let introduced = teacher.introduce(options);
        drop(started);
        introduced.with_context(|| format!("is {} a UCI engine?", engine.display()))?;
        Ok(teacher)
    }

    /// Gets to know the program and sets its options.
    fn introduce(&mut self, options: &[String]) -> Result<()> {
        writeln!(self.input, "uci")?;
        loop {
            match self.read_line()? {
                "uciok" => break,
                line => {
                    if let Some(id) = line.strip_prefix("id name ") {
                        self.id = id.to_owned();
                    }
                }
            }
        }
        for option in options {
            let (name, value) = option
                .split_once('=')
                .with_context(|| format!("{option} is not NAME=VALUE"))?;
            writeln!(self.input, "setoption name {name} value {value}")?;
        }
        writeln!(self.input, "ucinewgame\nisready")?;
        while self.read_line()? != "readyok" {}
        Ok(())
    }

    /// What it calls itself; empty if it did not say.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sends a position to search. Answers come in the same order.
    ///
    /// # Errors
    /// When the program does not listen any more.
    pub fn ask(&mut self, pos: &Chess, nodes: u64) -> Result<()> {
        let fen = Fen::from_position(pos, EnPassantMode::Legal);
        let written = self
            .input
            .write_all(format!("position fen {fen}\ngo nodes {nodes}\n").as_bytes());
        written.with_context(|| format!("{} does not listen any more", self.name))
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// When the program ended.
    pub fn answer(&mut self) -> Result<TeacherReply> {
        let mut answer = TeacherReply::default();
        loop {
            let line = self.read_line()?;
            if let Some(rest) = line.strip_prefix("bestmove ") {
                answer.best = rest.split(' ').next().unwrap_or_default().to_owned();
                return Ok(answer);
            }
            if let Some(line) = scored_line(line) {
                answer.hear(line);
            }
        }
    }

    fn read_line(&mut self) -> Result<&str> {
        self.line.clear();
        if self
            .output
            .read_line(&mut self.line)
            .with_context(|| format!("cannot read from {}", self.name))?
            == 0
        {
            bail!("{} ended without an answer", self.name);
        }
        Ok(self.line.trim_end())
    }
}

impl Drop for Teacher {
    fn drop(&mut self) {
        // A teacher that already died needs no farewell.
        let _ = writeln!(self.input, "quit");
        let _ = self.process.lock().wait();
    }
}

/// An `info` line with a score.
fn scored_line(line: &str) -> Option<ScoredLine> {
    let words: Vec<&str> = line.strip_prefix("info ")?.split(' ').collect();
    let after = |name: &str| {
        let at = words.iter().position(|&word| word == name)?;
        Some(&words[at + 1..])
    };
    let (&kind, rest) = after("score")?.split_first()?;
    let value = rest.first()?.parse::<i32>().ok()?;
    let is_bound = rest
        .iter()
        .take_while(|&&word| word != "pv")
        .any(|&word| word == "lowerbound" || word == "upperbound");
    let score = match kind {
        "cp" => value.clamp(-20000, 20000) as i16,
        "mate" if value > 0 => MATE - (2 * value - 1).min(1000) as i16,
        "mate" => -MATE + (-2 * value).min(1000) as i16,
        _ => return None,
    };
    let rank = after("multipv").and_then(|rest| rest.first()?.parse().ok());
    let pv = after("pv").and_then(|rest| rest.first());
    Some(ScoredLine {
        rank: rank.unwrap_or(1).max(1),
        score,
        is_bound,
        m: pv.map_or_else(String::new, |m| (*m).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::record::Source;

    #[test]
    fn scores_of_info_lines() {
        let score = |line: &str| scored_line(line).map(|line| line.score);
        assert_eq!(
            scored_line("info depth 3 multipv 2 score cp -51 wdl 1 2 3 nodes 100 pv e2e4 e7e5"),
            Some(ScoredLine {
                rank: 2,
                score: -51,
                is_bound: false,
                m: "e2e4".into()
            })
        );
        let bound = scored_line("info depth 3 score cp 51 lowerbound nodes 100").unwrap();
        assert!(bound.is_bound && bound.score == 51);
        assert_eq!(score("info depth 3 score mate 2 nodes 100"), Some(MATE - 3));
        assert_eq!(
            score("info depth 3 score mate -1 nodes 100"),
            Some(2 - MATE)
        );
        assert_eq!(score("info string score cp x"), None);
    }

    fn answer(lines: &[&str], best: &str) -> Record {
        let mut answer = TeacherReply {
            best: best.into(),
            lines: Vec::new(),
        };
        for line in lines {
            answer.hear(scored_line(line).unwrap());
        }
        let pos = Chess::new();
        let mut record = Record::new(&pos, false, Source::Real);
        record.alternatives = [Alternative { m: 1, score: 1 }; ALTERNATIVES];
        apply(&mut record, &pos, &answer);
        record
    }

    const E4: u16 = 12 | 28 << 6;
    const D4: u16 = 11 | 27 << 6;

    #[test]
    fn a_move_that_overtakes_while_the_search_ends_does_not_leave_its_rival_twice() {
        let known = [
            "info depth 1 multipv 1 score cp 50 pv d2d4",
            "info depth 1 multipv 2 score cp 20 pv e2e4",
            "info depth 1 multipv 3 score cp 10 pv g1f3",
            "info depth 2 multipv 1 score cp 70 lowerbound pv e2e4",
        ];
        let rest = [
            "info depth 1 multipv 2 score cp 50 pv d2d4",
            "info depth 1 multipv 3 score cp 10 pv g1f3",
        ];
        let record = answer(&[&known[..], &rest[..]].concat(), "e2e4");
        let alternatives = record.alternatives.map(|other| (other.m, other.score));
        let nf3 = 6 | 21 << 6;
        assert_eq!((record.best, record.score), (E4, 20));
        assert_eq!(alternatives, [(D4, 50), (nf3, 10), (0, 0), (0, 0)]);
        // An engine that tells no other ranks then.
        let record = answer(&known, "e2e4");
        let alternatives = record.alternatives.map(|other| (other.m, other.score));
        assert_eq!((record.best, record.score), (E4, 20));
        assert_eq!(alternatives, [(nf3, 10), (0, 0), (0, 0), (0, 0)]);
    }

    #[test]
    fn a_bound_is_better_than_nothing() {
        let record = answer(
            &[
                "info depth 1 score cp 50 pv d2d4",
                "info depth 2 score cp 70 lowerbound pv e2e4",
            ],
            "e2e4",
        );
        assert_eq!((record.best, record.score), (E4, 70));
        assert_eq!(record.alternatives[0].m, 0);
    }
}
