//! `scorn dataset label`: best moves and scores from a UCI engine.
//!
//! The output file grows record by record in the order of the input, so an interrupted run continues at its length.
//! Records without a legal answer are written when an answer after them is good, or at the end of the run. Sixteen in a
//! row are an error that leaves none of them behind, and the run is continued where it failed.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use shakmaty::Chess;

use crate::{
    commands::{numbers::count, progress},
    dataset::{
        record::{ALTERNATIVES, Record},
        record_file::{Layout, RecordJob, RecordReader, RecordWriter},
    },
    labeling::label::{AnswerKind, CHESS960, Teacher, apply},
    terminal::counted,
    uci_client::{GoLimits, name_and_value},
};

/// This many answers in a row without a legal move are an error. If they are moves, answers and positions are out of
/// step: one was lost or sent twice.
const MAX_UNLABELLED: usize = 16;

/// Options of `dataset label`.
#[derive(Args, Debug)]
pub struct LabelArgs {
    /// Record file to label. If it contains positions of Chess960, the engine must have the option UCI_Chess960.
    pub input: PathBuf,
    /// Record file to write; an incomplete one is continued.
    #[arg(short, long)]
    pub out: PathBuf,
    /// Program of the UCI engine; a file in the current folder goes before a program of its name in PATH.
    #[arg(long, default_value = "stockfish")]
    pub engine: PathBuf,
    /// Nodes per position; the search may end within an iteration.
    #[arg(long, default_value_t = 100, value_parser = count::<u64>())]
    pub nodes: u64,
    /// Search depth per position, instead of nodes; every iteration is completed.
    #[arg(long, conflicts_with = "nodes", value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Moves to score per position, including the best one; they share the nodes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=1 + ALTERNATIVES as i64))]
    pub multipv: u8,
    /// Option of the engine, NAME=VALUE; repeatable. MultiPV is set by --multipv.
    #[arg(long = "option")]
    pub options: Vec<String>,
    /// Positions sent before their answers are read; use 1 for engines that do not answer queued positions in order.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub queue: u16,
    /// Maximum number of new labels.
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

/// Counts of the records in an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelCounts {
    /// Records with a label.
    pub labelled: u64,
    /// Records to which the engine answered no legal move.
    pub unlabelled: u64,
}

impl LabelCounts {
    fn add(&mut self, record: &Record) {
        match record.best {
            0 => self.unlabelled += 1,
            _ => self.labelled += 1,
        }
    }

    /// Those of the file of an earlier run, if there is one that can be read.
    fn of_file(path: &Path) -> LabelCounts {
        let mut counts = LabelCounts::default();
        let records = RecordReader::open(path).into_iter().flatten();
        for record in records.map_while(Result::ok) {
            counts.add(&record);
        }
        counts
    }

    /// For the user.
    pub fn text(&self) -> String {
        let LabelCounts {
            labelled,
            unlabelled,
        } = self;
        let labelled = counted(*labelled, "position");
        match unlabelled {
            0 => format!("{labelled} labelled"),
            _ => format!(
                "{labelled} labelled, {unlabelled} left without a label: the engine gave no legal move"
            ),
        }
    }
}

/// The output, with the records that wait for a good answer after them.
struct LabelOutput {
    writer: RecordWriter,
    counts: LabelCounts,
    /// Records without a legal answer since the last one that has one.
    unlabelled: Vec<Record>,
    /// Whether the engine has answered moves to them.
    has_moves: bool,
}

impl LabelOutput {
    /// Continues the file of an earlier run, or starts it.
    fn open(path: &Path, job: &RecordJob) -> Result<LabelOutput> {
        let counts = LabelCounts::of_file(path);
        Ok(LabelOutput {
            writer: RecordWriter::append(path, job)?,
            counts,
            unlabelled: Vec::new(),
            has_moves: false,
        })
    }

    /// The number of the next record.
    fn number(&self) -> u64 {
        self.writer.count + self.unlabelled.len() as u64
    }

    fn add(&mut self, record: &Record, kind: AnswerKind) -> Result<()> {
        self.unlabelled.push(*record);
        if let AnswerKind::NoMove | AnswerKind::Illegal = kind {
            self.has_moves |= kind == AnswerKind::Illegal;
            return Ok(());
        }
        self.write_all()
    }

    fn write_all(&mut self) -> Result<()> {
        for record in self.unlabelled.drain(..) {
            self.counts.add(&record);
            self.writer.write(&record)?;
            if self.writer.count.is_multiple_of(4096) {
                self.writer.flush()?;
            }
        }
        self.has_moves = false;
        Ok(())
    }

    /// Checks after this many answers without a legal move that the engine still answers, and in step.
    fn check(&mut self, path: &Path, engine: &str) -> Result<()> {
        if self.unlabelled.len() < MAX_UNLABELLED {
            return Ok(());
        }
        let (path, number) = (path.display(), self.number());
        self.writer.flush()?;
        if self.has_moves {
            bail!(
                "{path}: the last {MAX_UNLABELLED} answers of {engine} are no legal moves in their positions: \
                 answers and positions are out of step, and the labels of some hundred records before number \
                 {number} may be wrong, too. Delete {path} and label again with --queue 1"
            );
        }
        bail!(
            "{path}: {engine} has answered no move (bestmove (none)) to the last {MAX_UNLABELLED} positions, up to \
             number {number}, although there are legal ones: it does not accept them. The labels before them are \
             kept, and the same command goes on from there"
        );
    }
}

/// The options to set, and whether one for Chess960 is needed besides: the input has such positions.
fn engine_options(args: &LabelArgs) -> Result<(Vec<String>, bool)> {
    let is = |option: &str, name: &str| name_and_value(option).0.eq_ignore_ascii_case(name);
    ensure!(
        !args.options.iter().any(|option| is(option, "MultiPV")),
        "--option MultiPV would drop all lines but the first: use --multipv"
    );
    let mut chess960 = false;
    for record in RecordReader::open(&args.input)? {
        if record?.state & Record::CHESS960 != 0 {
            chess960 = true;
            break;
        }
    }
    let mut options = args.options.clone();
    if args.multipv > 1 {
        options.push(format!("MultiPV={}", args.multipv));
    }
    // Given by the user, it would be set twice.
    options.retain(|option| !(chess960 && is(option, CHESS960)));
    Ok((options, chess960))
}

/// Labels the remaining records and returns the counts of the output.
pub fn run(args: &LabelArgs) -> Result<LabelCounts> {
    let mut reader = RecordReader::open(&args.input)?;
    let layout = match args.multipv {
        1 => Layout::Plain,
        _ => Layout::Ranked,
    };
    let (mut options, chess960) = engine_options(args)?;
    // The engine is started before anything is written, because it may fail.
    let mut teacher = Teacher::start(&args.engine, &options, chess960)?;
    if chess960 {
        options.push(format!("{CHESS960}=true"));
    }
    let settings = args.settings(&options, teacher.name());
    let job = RecordJob::new(&settings, std::slice::from_ref(&args.input), layout, 1)?;
    let mut out = LabelOutput::open(&args.out, &job)?;
    let total = reader.count;
    ensure!(
        out.number() <= total,
        "{} has more records than {}",
        args.out.display(),
        args.input.display()
    );
    reader.skip_records(out.number())?;
    let bar = progress::records(total, "labelling");
    bar.set_position(out.number());
    bar.reset_eta();
    let mut waiting: VecDeque<(Record, Chess)> = VecDeque::new();
    let limit = args.limit.map_or(usize::MAX, |limit| limit as usize);
    let mut records = reader.positions().take(limit);
    loop {
        while waiting.len() < args.queue.into() {
            let Some(next) = records.next() else {
                break;
            };
            let (record, pos) = next?;
            teacher.request(&pos, &args.limits())?;
            waiting.push_back((record, pos));
        }
        let Some((mut record, pos)) = waiting.pop_front() else {
            break;
        };
        let answer = teacher.answer();
        let answer = answer.with_context(|| format!("record {}", out.number()))?;
        let kind = apply(&mut record, &pos, &answer);
        out.add(&record, kind)?;
        out.check(&args.out, teacher.name())?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    out.write_all()?;
    out.writer.finish()?;
    Ok(out.counts)
}

/// Their engines are shell scripts.
#[cfg(all(test, unix))]
mod tests {
    use shakmaty::{CastlingMode, fen::Fen};

    use super::*;
    use crate::dataset::record::{Alternative, MATE, NO_SCORE, Source};
    use crate::dataset::record_file::read_all;

    /// A shell script as engine that answers every `go` with the same lines.
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
            options: vec!["Hash = 1".into()],
            queue: 2,
            limit: Some(1),
        };
        assert_eq!(run(&args).unwrap().text(), "1 position labelled");
        args.limit = None;
        let two_of_three = LabelCounts {
            labelled: 2,
            unlabelled: 1,
        };
        assert_eq!(run(&args).unwrap(), two_of_three);
        // Those of an earlier run are counted again.
        assert_eq!(run(&args).unwrap(), two_of_three);
        assert!(two_of_three.text().contains("1 left without a label"));
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

    #[test]
    fn the_engine_is_given_the_color_to_move() {
        let dir = tempfile::tempdir().unwrap();
        let fen: Fen = "4k3/4p3/8/8/8/8/4P3/4K3 b - - 0 1".parse().unwrap();
        let pos: Chess = fen.into_position(CastlingMode::Standard).unwrap();
        let input = dir.path().join("in.rec");
        let mut writer = RecordWriter::create(&input, Layout::Plain).unwrap();
        for black in [true, false] {
            let record = Record::new(&pos, black, Source::Game);
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        let engine = dir.path().join("engine.sh");
        let script = "#!/bin/sh\nwhile read -r word rest; do case $word in\n\
                      uci) echo uciok;; isready) echo readyok;; position) case $rest in\n\
                      *' w '*) answer=e2e4;; *) answer=e7e5;; esac;;\n\
                      go) echo info depth 1 score cp 33 pv $answer; echo bestmove $answer;;\n\
                      quit) exit;; esac; done\n";
        crate::script::write_script(&engine, script);
        let args = simple(dir.path(), input, engine);
        assert_eq!(run(&args).unwrap().labelled, 2);
        for (record, black) in read_all(&args.out).unwrap().into_iter().zip([true, false]) {
            assert_eq!((record.best, record.score), (12 | 28 << 6, 33));
            assert_eq!(record.turn().is_black(), black);
        }
    }

    #[test]
    fn answers_out_of_step_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let input = positions(dir.path(), &[Chess::new()], 48);
        let args = simple(dir.path(), input, teacher(dir.path(), &["bestmove e7e5"]));
        let error = run(&args).unwrap_err().to_string();
        for part in ["--queue 1", "number 16", "Delete", "out.rec"] {
            assert!(error.contains(part), "{error}");
        }
    }

    /// A file with these positions, each `times` times.
    fn positions(dir: &Path, positions: &[Chess], times: usize) -> PathBuf {
        let path = dir.join("in.rec");
        let mut writer = RecordWriter::create(&path, Layout::Plain).unwrap();
        for _ in 0..times {
            for position in positions {
                let mut record = Record::new(position, false, Source::Game);
                (record.best, record.score) = (12 | 20 << 6, 7);
                writer.write(&record).unwrap();
            }
        }
        writer.finish().unwrap();
        path
    }

    fn simple(dir: &Path, input: PathBuf, engine: PathBuf) -> LabelArgs {
        LabelArgs {
            input,
            out: dir.join("out.rec"),
            engine,
            nodes: 1,
            depth: None,
            multipv: 1,
            options: vec![],
            queue: 4,
            limit: None,
        }
    }

    #[test]
    fn chess960_is_set_where_the_input_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let fen: Fen = "bbrqnkrn/pppppppp/8/8/8/8/PPPPPPPP/BBRQNKRN w GCgc - 0 1"
            .parse()
            .unwrap();
        let other: Chess = fen.into_position(CastlingMode::Chess960).unwrap();
        let input = positions(dir.path(), &[Chess::new(), other], 10);
        let engine = dir.path().join("engine.sh");
        let with = |option: &str| {
            let script = format!(
                "#!/bin/sh\nanswer='(none)'\nwhile read -r word rest; do case $word in\n\
                 uci) echo id name x; echo '{option}'; echo uciok;; isready) echo readyok;;\n\
                 setoption) [ \"$rest\" = 'name UCI_Chess960 value true' ] && answer=e2e4;;\n\
                 go) echo info depth 1 score cp 33 pv e2e4; echo bestmove $answer;; quit) exit;; esac; done\n"
            );
            crate::script::write_script(&engine, &script);
        };
        with("id author y");
        let mut args = simple(dir.path(), input, engine.clone());
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("has no option UCI_Chess960"), "{error}");
        assert!(!args.out.exists());
        with("option name UCI_Chess960 type check default false");
        assert_eq!(run(&args).unwrap().text(), "20 positions labelled");
        assert_eq!(run(&args).unwrap().labelled, 20);
        args.options = vec!["UCI_Chess960=true".into()];
        assert_eq!(run(&args).unwrap().labelled, 20, "the same job");
        let record = read_all(&args.out).unwrap()[1];
        assert_eq!((record.best, record.score), (12 | 28 << 6, 33));
    }

    #[test]
    fn an_engine_that_answers_no_move_is_told_and_leaves_no_records() {
        let dir = tempfile::tempdir().unwrap();
        let input = positions(dir.path(), &[Chess::new()], 20);
        let none = ["info depth 0 score cp 0", "bestmove (none)"];
        let mut args = simple(dir.path(), input, teacher(dir.path(), &none));
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("bestmove (none)"), "{error}");
        assert!(read_all(&args.out).unwrap().is_empty());
        // Less than that in a row is no error, but no label either, and the old one is not kept.
        args.limit = Some(3);
        let counts = run(&args).unwrap();
        assert_eq!((counts.labelled, counts.unlabelled), (0, 3));
        let records = read_all(&args.out).unwrap();
        assert!(records.iter().all(|r| (r.best, r.score) == (0, NO_SCORE)));
    }

    #[test]
    fn several_lines_are_not_paid_for_and_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let input = positions(dir.path(), &[Chess::new()], 1);
        let mut args = simple(dir.path(), input, teacher(dir.path(), &["bestmove e2e4"]));
        for option in ["MultiPV=4", "multipv = 2"] {
            args.options = vec![option.into()];
            let error = run(&args).unwrap_err().to_string();
            assert!(error.contains("use --multipv"), "{error}");
        }
        assert!(!args.out.exists());
    }

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
        assert_eq!(run(&args).unwrap().labelled, 2);
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
