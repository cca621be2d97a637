//! `scorn dataset label`: best moves and scores from a UCI engine.
//!
//! The output file grows record by record in the order of the input, so an interrupted run continues at its length.

use std::{collections::VecDeque, path::PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use shakmaty::Chess;

use crate::{
    commands::{numbers::count, progress},
    dataset::{
        record::{ALTERNATIVES, Record},
        record_file::{Layout, RecordJob, RecordReader, RecordWriter},
    },
    labeling::label::{Teacher, apply},
    uci_client::GoLimits,
};

/// This many illegal answers in a row mean that answers and positions are out of step: one was lost or sent twice.
const OUT_OF_STEP: u64 = 16;

/// Options of `dataset label`.
#[derive(Args, Debug)]
pub struct LabelArgs {
    /// Record file to label
    pub input: PathBuf,
    /// Record file to write; an incomplete one is continued
    #[arg(short, long)]
    pub out: PathBuf,
    /// Program of the UCI engine
    #[arg(long, default_value = "stockfish")]
    pub engine: PathBuf,
    /// Nodes per position; the search may end within an iteration
    #[arg(long, default_value_t = 100, value_parser = count::<u64>())]
    pub nodes: u64,
    /// Search depth per position, instead of nodes; every iteration is completed
    #[arg(long, conflicts_with = "nodes", value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Moves to score per position, including the best one; they share the nodes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=1 + ALTERNATIVES as i64))]
    pub multipv: u8,
    /// Option of the engine, NAME=VALUE; repeatable
    #[arg(long = "option")]
    pub options: Vec<String>,
    /// Positions sent before their answers are read; use 1 for engines that do not answer queued positions in order
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub queue: u16,
    /// Maximum number of new labels
    #[arg(long, value_parser = count::<u64>())]
    pub limit: Option<u64>,
}

impl LabelArgs {
    /// The engine's limit per position.
    fn limits(&self) -> GoLimits {
        self.depth
            .map_or(GoLimits::Nodes(self.nodes), GoLimits::Depth)
    }

    /// Description of the inputs and settings; a file is only continued with the same ones.
    fn settings(&self, options: &[String], teacher: &str) -> String {
        let limit = match self.limits() {
            GoLimits::Nodes(nodes) => nodes.to_string(),
            other => format!("{other:?}"),
        };
        format!("label {limit} {options:?} {teacher}")
    }
}

/// Labels the remaining records and returns the number of records in the output.
pub fn run(args: &LabelArgs) -> Result<u64> {
    let mut reader = RecordReader::open(&args.input)?;
    let layout = match args.multipv {
        1 => Layout::Plain,
        _ => Layout::Ranked,
    };
    let mut options = args.options.clone();
    if args.multipv > 1 {
        options.push(format!("MultiPV={}", args.multipv));
    }
    // The engine is started before anything is written, because it may fail.
    let mut teacher = Teacher::start(&args.engine, &options)?;
    let settings = args.settings(&options, teacher.name());
    let job = RecordJob::new(&settings, std::slice::from_ref(&args.input), layout, 1)?;
    let mut writer = RecordWriter::append(&args.out, &job)?;
    let total = reader.count;
    ensure!(
        writer.count <= total,
        "{} has more records than {}",
        args.out.display(),
        args.input.display()
    );
    reader.skip_records(writer.count)?;
    let bar = progress::records(total, "labelling");
    bar.set_position(writer.count);
    bar.reset_eta();
    let mut waiting: VecDeque<(Record, Chess)> = VecDeque::new();
    let mut impossible = 0;
    let limit = args.limit.map_or(usize::MAX, |limit| limit as usize);
    let mut records = reader.positions().take(limit);
    loop {
        while waiting.len() < args.queue.into() {
            let Some(next) = records.next() else {
                break;
            };
            let (record, pos) = next?;
            teacher.ask(&pos, &args.limits())?;
            waiting.push_back((record, pos));
        }
        let Some((mut record, pos)) = waiting.pop_front() else {
            break;
        };
        let answer = teacher
            .answer()
            .with_context(|| format!("record {}", writer.count))?;
        impossible = match apply(&mut record, &pos, &answer) {
            true => 0,
            false => impossible + 1,
        };
        writer.write(&record)?;
        check_step(impossible, args, &teacher, writer.count)?;
        bar.inc(1);
        if writer.count % 4096 == 0 {
            writer.flush()?;
        }
    }
    bar.finish_and_clear();
    writer.finish()
}

/// Checks after this many illegal answers in a row that answers and positions are still in step.
fn check_step(impossible: u64, args: &LabelArgs, teacher: &Teacher, labels: u64) -> Result<()> {
    ensure!(
        impossible < OUT_OF_STEP,
        "{}: the last {OUT_OF_STEP} moves of {} are illegal in their positions: answers and positions are out of step, and \
         the labels of some hundred records before number {labels} may be wrong, too. Label again with --queue 1",
        args.out.display(),
        teacher.name()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::dataset::record::{Alternative, MATE, NO_SCORE, Source};
    use crate::dataset::record_file::read_all;

    /// A shell script as engine that answers every `go` with the same lines.
    #[cfg(unix)]
    fn teacher(dir: &Path, answer: &[&str]) -> PathBuf {
        let path = dir.join("engine.sh");
        let lines: String = answer
            .iter()
            .map(|line| format!("echo '{line}'; "))
            .collect();
        let script = format!(
            "#!/bin/sh\nwhile read -r word rest; do case $word in\n\
             uci) echo id name $(basename $(dirname $0)); echo option name Hash type spin default 16 min 1 max 1024; \
             echo option name MultiPV type spin default 1 min 1 max 256; echo uciok;; \
             isready) echo readyok;; go) {lines};; quit) exit;; esac; done\n"
        );
        crate::script::write_script(&path, &script);
        path
    }

    /// Three positions; in the second, no move of the start position is legal.
    #[cfg(unix)]
    fn three_positions(dir: &Path) -> PathBuf {
        let path = dir.join("in.rec");
        let mut writer = RecordWriter::create(&path, Layout::Plain).unwrap();
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
        path
    }

    #[cfg(unix)]
    #[test]
    fn labelling_is_continued_and_illegal_answers_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out.rec");
        let mut args = LabelArgs {
            input: three_positions(dir.path()),
            out: out.clone(),
            engine: teacher(
                dir.path(),
                &["info depth 1 score cp 33 pv e2e4", "bestmove e2e4"],
            ),
            nodes: 1,
            depth: None,
            multipv: 1,
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
        let labels = std::fs::read(&out).unwrap();
        args.multipv = 2;
        assert!(run(&args).is_err());
        args.multipv = 1;
        args.nodes = 2;
        assert!(run(&args).is_err());
        args.nodes = 1;
        args.depth = Some(1);
        assert!(run(&args).is_err(), "another limit");
        args.depth = None;
        let other = tempfile::tempdir().unwrap();
        let own = std::mem::replace(&mut args.engine, teacher(other.path(), &["bestmove e2e4"]));
        assert!(run(&args).is_err(), "another teacher");
        args.engine = own;
        args.out = args.input.clone();
        assert!(run(&args).is_err());
        assert_eq!(std::fs::read(&out).unwrap(), labels);
    }

    #[cfg(unix)]
    #[test]
    fn answers_out_of_step_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("in.rec");
        let mut writer = RecordWriter::create(&input, Layout::Plain).unwrap();
        for _ in 0..3 * OUT_OF_STEP {
            let record = Record::new(&Chess::new(), false, Source::Real);
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        let args = LabelArgs {
            input,
            out: dir.path().join("out.rec"),
            engine: teacher(dir.path(), &["bestmove e7e5"]),
            nodes: 1,
            depth: None,
            multipv: 1,
            options: vec![],
            queue: 4,
            limit: None,
        };
        let error = run(&args).unwrap_err().to_string();
        assert!(
            error.contains("--queue 1") && error.contains("number 16"),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn several_lines_become_alternatives() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out.rec");
        let lines = [
            "info depth 1 multipv 1 score cp 50 pv d2d4",
            "info depth 1 multipv 2 score cp 20 pv e2e4",
            "info depth 2 multipv 1 score cp 33 pv e2e4",
            "info depth 2 multipv 2 score cp 31 pv d2d4",
            "info depth 2 multipv 3 score mate -1 pv g2g4",
            "bestmove e2e4",
        ];
        let args = LabelArgs {
            input: three_positions(dir.path()),
            out: out.clone(),
            engine: teacher(dir.path(), &lines),
            nodes: 1,
            depth: None,
            multipv: 3,
            options: Vec::new(),
            queue: 1,
            limit: None,
        };
        assert_eq!(run(&args).unwrap(), 3);
        let records = read_all(&out).unwrap();
        assert_eq!((records[0].best, records[0].score), (12 | 28 << 6, 33));
        let none = Alternative::default();
        let alternatives = [
            Alternative {
                m: 11 | 27 << 6,
                score: 31,
            },
            Alternative {
                m: 14 | 30 << 6,
                score: 2 - MATE,
            },
            none,
            none,
        ];
        assert_eq!(records[0].alternatives, alternatives);
        assert_eq!((records[1].best, records[1].alternatives), (0, [none; 4]));
    }

    #[cfg(unix)]
    #[test]
    fn an_unknown_option_of_the_engine_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (three_positions(dir.path()), dir.path().join("out.rec"));
        for (option, expected) in [
            ("Hahs=1", "Hahs"),
            ("Hash=0", "1 to 1024"),
            ("Hash", "NAME=VALUE"),
        ] {
            let args = LabelArgs {
                input: input.clone(),
                out: out.clone(),
                engine: teacher(dir.path(), &["bestmove e2e4"]),
                nodes: 1,
                depth: None,
                multipv: 1,
                options: vec![option.into()],
                queue: 1,
                limit: None,
            };
            let error = format!("{:#}", run(&args).unwrap_err());
            assert!(error.contains(expected), "{error}");
            assert!(!out.exists());
        }
    }
}
