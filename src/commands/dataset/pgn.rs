//! `scorn dataset pgn`: games to records, corrupt games skipped, counted and named.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{
    commands::{
        numbers::{count, percent},
        progress,
    },
    dataset::{
        pgn::{Evals, GameRecords, read_games},
        record_file::{Layout, RecordWriter},
    },
    files::{self, output::NewFile},
    pgn::text::Texts,
    terminal::{counted, eprint_line, printable},
};

/// Options of `dataset pgn`.
#[derive(Args, Debug)]
pub struct PgnArgs {
    /// PGN files (plain, .gz or .zst); "-" is standard input.
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// Record file to write.
    #[arg(short, long)]
    pub out: PathBuf,
    /// Overwrite the output if it exists.
    #[arg(long)]
    pub force: bool,
    /// Minimum length of a game, in plies.
    #[arg(long, default_value_t = 20)]
    pub min_plies: usize,
    /// Percentage of the games held out of training, chosen by a hash of their moves.
    #[arg(long, default_value_t = 2.0, value_parser = percent)]
    pub held_out: f64,
    /// Position that a comment like [%eval 0.31] after a move describes: matches of engines write the mover's
    /// evaluation before the move, lichess and `scorn analyze --annotate` that of the position after it.
    #[arg(long, value_enum, default_value_t, value_name = "WHERE")]
    pub evals: Evals,
    /// Maximum number of games.
    #[arg(long, value_parser = count::<u64>())]
    pub limit: Option<u64>,
    /// Maximum number of corrupt games to report individually.
    #[arg(long, default_value_t = 20)]
    pub report: u64,
}

impl PgnArgs {
    fn is_enough(&self, counts: &ConversionCounts) -> bool {
        self.limit.is_some_and(|limit| counts.games >= limit)
    }
}

/// Counts of converted and skipped games.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ConversionCounts {
    /// Games written.
    pub games: u64,
    /// Records written.
    pub records: u64,
    /// Games with an error, by file and offset in the report.
    pub corrupt: u64,
    /// Games with too few plies.
    pub short: u64,
}

/// Converts the files.
///
/// # Errors
/// When a file cannot be read or written, or there is no game in any.
pub fn run(args: &PgnArgs) -> Result<ConversionCounts> {
    let file = NewFile::create(&args.out, args.force, &args.inputs)?;
    let mut writer = RecordWriter::new(file, &args.out, Layout::Plain)?;
    let mut counts = ConversionCounts::default();
    for path in &args.inputs {
        if args.is_enough(&counts) {
            break;
        }
        let done = convert(path, args, &mut writer, &mut counts);
        done.with_context(|| format!("stopped after {}", counted(counts.games, "game")))?;
    }
    ensure!(
        counts.games > 0 || args.limit == Some(0),
        "there is no game of at least --min-plies {} here; left out: {}, {}",
        args.min_plies,
        counted(counts.corrupt, "corrupt game"),
        counted(counts.short, "short game")
    );
    writer.finish()?;
    Ok(counts)
}

fn convert(
    path: &Path,
    args: &PgnArgs,
    writer: &mut RecordWriter,
    counts: &mut ConversionCounts,
) -> Result<()> {
    let name = || format!("cannot read {}", path.display());
    // The length of a pipe is unknown.
    let length = fs::metadata(path).map_or(0, |file| file.len());
    let bar = progress::bytes(length, &printable(&path.display().to_string()));
    let input = files::open_with(path, |raw| bar.wrap_read(raw))?;
    let mut games = Texts::new(input);
    while let Some(text) = games.next_text().with_context(name)? {
        let offset = text.offset;
        let error = text.error.map(Err);
        let read = error.is_none().then(|| read_games(text.bytes, args.evals));
        for game in error.into_iter().chain(read.into_iter().flatten()) {
            if args.is_enough(counts) {
                break;
            }
            match game {
                Err(error) => {
                    counts.corrupt += 1;
                    if counts.corrupt <= args.report {
                        let path = path.display();
                        bar.suspend(|| {
                            eprint_line(format_args!(
                                "{path}: skipped the game at byte {offset}: {error}"
                            ));
                        });
                    }
                }
                Ok(game) if game.records.len() < args.min_plies => counts.short += 1,
                Ok(game) => write(game, args.held_out, writer, counts)?,
            }
        }
        if args.is_enough(counts) {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn write(
    mut game: GameRecords,
    held_out: f64,
    writer: &mut RecordWriter,
    counts: &mut ConversionCounts,
) -> Result<()> {
    let held_out = (game.hash.value() % 100_000) as f64 / 1000.0 < held_out;
    game.finish(counts.games as u32, held_out);
    for record in &game.records {
        writer.write(record)?;
    }
    counts.games += 1;
    counts.records += game.records.len() as u64;
    Ok(())
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;
    use crate::dataset::record::Source;
    use crate::dataset::record_file::read_all;

    fn args(input: &Path, out: &Path) -> PgnArgs {
        PgnArgs {
            inputs: vec![input.into()],
            out: out.into(),
            force: true,
            min_plies: 2,
            held_out: 2.0,
            evals: Evals::Auto,
            limit: None,
            report: 0,
        }
    }

    #[test]
    fn corrupt_games_are_skipped_and_counted_without_affecting_others() {
        let text = "[Result \"1-0\"]\n\n1. e4 { open\n\n[White \"x\"]\n[Result \"0-1\"]\n\n1. e4 Ke5 0-1\n\n\
                    [Result \"0-1\"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n\n[White \"y\"]\n\n1. d4 *\n\n\
                    [Variant \"Atomic\"]\n\n1. e4 e5 *\n\n[White \"z\"]\n\n1. e4 e5 2. Nf3 N\n";
        let mut games = Texts::new(text.as_bytes());
        let mut offsets = Vec::new();
        while let Some(game) = games.next_text().unwrap() {
            assert!(text.as_bytes()[game.offset as usize..].starts_with(game.bytes));
            offsets.push(game.offset);
        }
        assert_eq!(offsets.len(), 6);
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("x.pgn"), dir.path().join("x.rec"));
        std::fs::write(&input, text).unwrap();
        let counts = run(&args(&input, &out)).unwrap();
        assert_eq!(
            counts,
            ConversionCounts {
                games: 1,
                records: 4,
                corrupt: 4,
                short: 1
            }
        );
        let records = read_all(&out).unwrap();
        assert_eq!(
            records.iter().map(|r| r.result).collect::<Vec<_>>(),
            [0, 2, 0, 2]
        );
        assert_eq!(
            records.iter().map(|r| r.plies_left).collect::<Vec<_>>(),
            [4, 3, 2, 1]
        );
    }

    #[test]
    fn games_without_tags_are_separate_games_and_the_limit_covers_all_files() {
        let text = "1. e4 e5 1-0\n\n1. e4 Ke5 0-1\n\n1. d4 d5 0-1\n\n1. c4 c5 *\n";
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("x.pgn"), dir.path().join("x.rec"));
        std::fs::write(&input, text).unwrap();
        let mut args = args(&input, &out);
        args.inputs.push(input.clone());
        let counts = run(&args).unwrap();
        assert_eq!((counts.games, counts.corrupt), (6, 2));
        for limit in 0..=6 {
            args.limit = Some(limit);
            assert_eq!(run(&args).unwrap().games, limit);
        }
    }

    #[test]
    fn chess960_castling_and_zst() {
        let fen = "nrkbbqrn/pppppppp/8/8/8/8/PPPPPPPP/NRKBBQRN w KQkq - 0 1";
        let text = format!(
            "[Variant \"Chess960\"]\n[SetUp \"1\"]\n[FEN \"{fen}\"]\n\n1. c3 c6 2. Bc2 Bc7 3. O-O-O *\n"
        );
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("x.pgn.zst"), dir.path().join("x.rec"));
        let packed = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        std::fs::write(&input, packed).unwrap();
        assert_eq!(run(&args(&input, &out)).unwrap().records, 5);
        let castle = read_all(&out).unwrap()[4];
        assert_eq!(
            (castle.best, castle.source()),
            (2 | 1 << 6, Some(Source::Chess960Game))
        );
    }

    #[test]
    fn a_truncated_archive_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("x.pgn.zst"), dir.path().join("x.rec"));
        let text = "[White \"a\"]\n\n1. e4 e5 *\n";
        let packed = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        std::fs::write(&input, &packed[..packed.len() - 5]).unwrap();
        assert!(run(&args(&input, &out)).is_err());
        assert!(!out.exists());
    }
}
