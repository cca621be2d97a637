//! `scorn dataset planes`: games to input planes and policy entries.

use std::{
    io::{BufWriter, Write},
    path::PathBuf,
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{
    files::output::NewFile,
    labeling::planes::{PlanesEncoding, write_game},
    network::input::Encoding,
    options::{HistoryFill, Options},
    pgn::{ReadError, Reader},
    terminal::{counted, eprint_line, printable},
};

/// Options of `dataset planes`.
#[derive(Args, Debug)]
pub struct PlanesArgs {
    /// PGN files (plain, .gz or .zst).
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// File to write.
    #[arg(short, long)]
    pub out: PathBuf,
    /// Overwrite the output if it exists.
    #[arg(long)]
    pub force: bool,
    /// Encoding of the planes and moves.
    #[arg(long, value_enum, default_value = "alphazero")]
    pub encoding: PlanesEncoding,
}

/// Counts of converted games.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PlaneCounts {
    games: u64,
    positions: u64,
    /// Games that cannot be read.
    wrong: u64,
}

/// Writes the positions of all games and returns a summary. `HistoryFill` fills missing history.
///
/// # Errors
/// When a file cannot be read or written, or no game has a move. Illegal games are reported and skipped.
pub fn run(args: &PlanesArgs, options: &Options) -> Result<String> {
    let file = NewFile::create(&args.out, args.force, &args.inputs)?;
    let (file, counts) = write_games(args, options.history_fill, file)?;
    let PlaneCounts {
        games,
        positions,
        wrong,
    } = counts;
    ensure!(
        positions > 0,
        "there is no position to write: {} without a move, and {wrong} that cannot be read",
        counted(games, "game")
    );
    file.finish()?;
    Ok(format!(
        "{}, {}; skipped {}",
        counted(games, "game"),
        counted(positions, "position"),
        counted(wrong, "corrupt game")
    ))
}

/// Writes the positions of all games to `out`, which is returned, in large pieces.
fn write_games<W: Write>(args: &PlanesArgs, fill: HistoryFill, out: W) -> Result<(W, PlaneCounts)> {
    let cannot_write = || format!("cannot write {}", args.out.display());
    let mut out = BufWriter::new(out);
    let encoding = Encoding::from(args.encoding);
    let mut counts = PlaneCounts::default();
    for path in &args.inputs {
        for game in Reader::open(path)? {
            match game {
                Ok(game) => {
                    let written = write_game(&game, encoding, fill, &mut out);
                    counts.positions += written.with_context(cannot_write)?;
                    counts.games += 1;
                }
                Err(error @ ReadError::Game { .. }) => {
                    counts.wrong += 1;
                    let path = path.display().to_string();
                    eprint_line(format_args!("{}: skipped {error}", printable(&path)));
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot read {}", path.display()));
                }
            }
        }
    }
    let flushed = out.into_inner().map_err(|error| error.into_error());
    Ok((flushed.with_context(cannot_write)?, counts))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Counts writes, or fails in each.
    struct Counting {
        writes: usize,
        fails: bool,
    }

    impl Write for Counting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes += 1;
            if self.fails {
                Err(io::Error::other("the disk is full"))
            } else {
                Ok(bytes.len())
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn args(folder: &std::path::Path, games: &str) -> PlanesArgs {
        let input = folder.join("x.pgn");
        std::fs::write(&input, games).unwrap();
        PlanesArgs {
            inputs: vec![input],
            out: folder.join("out"),
            force: false,
            encoding: PlanesEncoding::Lc0,
        }
    }

    #[test]
    fn positions_are_written_in_large_pieces_and_the_last_one_may_fail() {
        let folder = tempfile::tempdir().unwrap();
        let args = args(folder.path(), "1. e4 e5 2. Nf3 Nc6 *\n");
        let counting = |fails| Counting { writes: 0, fails };
        let (out, counts) = write_games(&args, HistoryFill::No, counting(false)).unwrap();
        assert_eq!((out.writes, counts.positions), (1, 4));
        let error = write_games(&args, HistoryFill::No, counting(true)).err();
        let error = format!("{:#}", error.unwrap());
        assert!(error.contains("cannot write") && error.ends_with("the disk is full"));
    }

    #[test]
    fn no_position_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for (games, expected) in [
            ("", "0 games"),
            ("[White \"a\"]\n\n*\n", "1 game without"),
            ("1. e4 Ke5 *\n", "1 that cannot be read"),
        ] {
            let args = args(folder.path(), games);
            let error = run(&args, &Options::default()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!args.out.exists());
        }
    }
}
