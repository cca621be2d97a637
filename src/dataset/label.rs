//! A UCI engine as teacher: best move and score for every record.
//!
//! The output file grows record by record in the order of the input, so its length says how far a killed run came.
//! Stockfish answers queued `position`/`go` pairs in order, which saves a process switch per position
//! (`--queue 1` for engines that do not).

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use shakmaty::fen::Fen;
use shakmaty::uci::UciMove;
use shakmaty::{Chess, Color, EnPassantMode};

use super::progress_records;
use super::record::{MATE, Record, RecordReader, RecordWriter};

/// Options of `dataset label`.
#[derive(Args, Debug)]
pub struct LabelArgs {
    /// Records without labels
    pub input: PathBuf,
    /// The record file to write, or to continue
    #[arg(short, long)]
    pub out: PathBuf,
    /// The engine's program
    #[arg(long, default_value = "stockfish")]
    pub engine: PathBuf,
    /// Nodes per position
    #[arg(long, default_value_t = 100)]
    pub nodes: u64,
    /// Engine options, NAME=VALUE
    #[arg(long = "option")]
    pub options: Vec<String>,
    /// Positions sent ahead of the answers
    #[arg(long, default_value_t = 16)]
    pub queue: usize,
    /// Stop after this many new labels
    #[arg(long)]
    pub limit: Option<u64>,
}

/// Labels what is not labelled yet and returns the number of records in the output.
pub fn run(args: &LabelArgs) -> Result<u64> {
    let mut reader = RecordReader::open(&args.input)?;
    let mut writer = RecordWriter::append(&args.out)?;
    let total = reader.count;
    ensure!(
        writer.count <= total,
        "{} has more records than {}",
        args.out.display(),
        args.input.display()
    );
    reader.skip_records(writer.count)?;
    let bar = progress_records(total, "labelling");
    bar.set_position(writer.count);
    bar.reset_eta();
    let mut teacher = Teacher::start(&args.engine, &args.options)?;
    let mut waiting: VecDeque<(Record, Chess)> = VecDeque::new();
    let mut records = reader.take(args.limit.map_or(usize::MAX, |limit| limit as usize));
    loop {
        while waiting.len() < args.queue.max(1) {
            let Some(record) = records.next() else { break };
            let pos = record.position()?;
            teacher.ask(&pos, args.nodes)?;
            waiting.push_back((record, pos));
        }
        let Some((mut record, pos)) = waiting.pop_front() else {
            break;
        };
        let answer = teacher
            .answer()
            .with_context(|| format!("record {}", writer.count))?;
        apply(&mut record, &pos, &answer);
        writer.write(&record)?;
        bar.inc(1);
        if writer.count % 4096 == 0 {
            writer.flush()?;
        }
    }
    bar.finish_and_clear();
    writer.finish()
}

/// Puts a label on a record; a mated or otherwise unanswerable position stays without.
fn apply(record: &mut Record, pos: &Chess, answer: &Answer) {
    let Some(m) = answer
        .best
        .parse::<UciMove>()
        .ok()
        .and_then(|uci| uci.to_move(pos).ok())
    else {
        return;
    };
    record.best = Record::pack_move(m, Color::White);
    record.score = answer.score;
    if answer.score.abs() > MATE - 1000 {
        record.plies_left = (MATE - answer.score.abs()) as u16;
    }
}

/// What the engine said last.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    best: String,
    score: i16,
}

struct Teacher {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
}

impl Teacher {
    fn start(engine: &Path, options: &[String]) -> Result<Teacher> {
        let mut process = Command::new(engine)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", engine.display()))?;
        let input = process.stdin.take().context("no stdin")?;
        let output = BufReader::new(process.stdout.take().context("no stdout")?);
        let mut teacher = Teacher {
            process,
            input,
            output,
            line: String::new(),
        };
        writeln!(teacher.input, "uci")?;
        while teacher.read_line()? != "uciok" {}
        for option in options {
            let (name, value) = option
                .split_once('=')
                .with_context(|| format!("{option} is not NAME=VALUE"))?;
            writeln!(teacher.input, "setoption name {name} value {value}")?;
        }
        writeln!(teacher.input, "ucinewgame\nisready")?;
        while teacher.read_line()? != "readyok" {}
        Ok(teacher)
    }

    fn ask(&mut self, pos: &Chess, nodes: u64) -> Result<()> {
        let fen = Fen::from_position(pos, EnPassantMode::Legal);
        let written = self
            .input
            .write_all(format!("position fen {fen}\ngo nodes {nodes}\n").as_bytes());
        written.context("the engine closed its input")
    }

    fn answer(&mut self) -> Result<Answer> {
        let mut answer = Answer::default();
        loop {
            let line = self.read_line()?;
            if let Some(rest) = line.strip_prefix("bestmove ") {
                answer.best = rest.split(' ').next().unwrap_or_default().to_owned();
                return Ok(answer);
            }
            if let Some(score) = score(line) {
                answer.score = score;
            }
        }
    }

    fn read_line(&mut self) -> Result<&str> {
        self.line.clear();
        if self
            .output
            .read_line(&mut self.line)
            .context("cannot read from the engine")?
            == 0
        {
            bail!("the engine ended");
        }
        Ok(self.line.trim_end())
    }
}

impl Drop for Teacher {
    fn drop(&mut self) {
        // A teacher that already died needs no farewell.
        let _ = writeln!(self.input, "quit");
        let _ = self.process.wait();
    }
}

/// The score of an `info` line, bounds excepted.
fn score(line: &str) -> Option<i16> {
    let (_, rest) = line.strip_prefix("info ")?.split_once(" score ")?;
    let mut words = rest.split(' ');
    let (kind, value) = (words.next()?, words.next()?.parse::<i32>().ok()?);
    if matches!(words.next(), Some("lowerbound" | "upperbound")) {
        return None;
    }
    match kind {
        "cp" => Some(value.clamp(-20000, 20000) as i16),
        "mate" if value > 0 => Some(MATE - (2 * value - 1).min(1000) as i16),
        "mate" => Some(-MATE + (-2 * value).min(1000) as i16),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::record::{NO_SCORE, Source, read_all};

    #[test]
    fn scores_of_info_lines() {
        assert_eq!(
            score("info depth 3 seldepth 2 multipv 1 score cp -51 wdl 1 2 3 nodes 100 pv e2e4"),
            Some(-51)
        );
        assert_eq!(score("info depth 3 score cp 51 lowerbound nodes 100"), None);
        assert_eq!(score("info depth 3 score mate 2 nodes 100"), Some(MATE - 3));
        assert_eq!(
            score("info depth 3 score mate -1 nodes 100"),
            Some(2 - MATE)
        );
        assert_eq!(score("info string score cp x"), None);
    }

    /// A teacher in shell that answers every `go` with the same move.
    #[cfg(unix)]
    #[test]
    fn labels_are_continued_and_impossible_answers_left_out() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let engine = dir.path().join("engine.sh");
        let script = "#!/bin/sh\nwhile read -r word rest; do case $word in uci) echo uciok;; isready) echo readyok;;\n\
                      go) echo 'info depth 1 score cp 33 pv e2e4'; echo 'bestmove e2e4';; quit) exit;; esac; done\n";
        std::fs::write(&engine, script).unwrap();
        std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o755)).unwrap();
        let (input, out) = (dir.path().join("in.rec"), dir.path().join("out.rec"));
        let mut writer = RecordWriter::create(&input).unwrap();
        let start = Record::new(&Chess::new(), false, Source::Real);
        let mut bare = start;
        bare.board = [0; 32];
        bare.board[2] = 6;
        bare.board[30] = 12;
        bare.state = 0;
        for record in [start, bare, start] {
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        let mut args = LabelArgs {
            input,
            out: out.clone(),
            engine,
            nodes: 1,
            options: vec!["Hash=1".into()],
            queue: 2,
            limit: Some(1),
        };
        assert_eq!(run(&args).unwrap(), 1);
        args.limit = None;
        assert_eq!(run(&args).unwrap(), 3);
        let records = read_all(&out).unwrap();
        assert_eq!((records[0].best, records[0].score), (12 | 28 << 6, 33));
        assert_eq!((records[1].best, records[1].score), (0, NO_SCORE));
        assert_eq!(records[2], records[0]);
    }
}
