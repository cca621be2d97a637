//! `scorn dataset planes`: games to input planes and policy entries.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::{
    files::output::NewFile,
    labeling::planes::{PlanesEncoding, write_game},
    network::input::Encoding,
    options::Options,
    pgn::{ReadError, Reader},
    terminal::{eprint_line, printable},
};

/// Options of `dataset planes`.
#[derive(Args, Debug)]
pub struct PlanesArgs {
    /// PGN files (plain, .gz or .zst)
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// File to write
    #[arg(short, long)]
    pub out: PathBuf,
    /// Overwrite the output if it exists
    #[arg(long)]
    pub force: bool,
    /// Encoding of the planes and moves
    #[arg(long, value_enum, default_value = "alphazero")]
    pub encoding: PlanesEncoding,
}

/// Writes the positions of all games and returns a summary. `HistoryFill` fills missing history.
///
/// # Errors
/// When a file cannot be read or written. Illegal games are reported and skipped.
pub fn run(args: &PlanesArgs, options: &Options) -> Result<String> {
    let mut out = NewFile::create(&args.out, args.force, &args.inputs)?;
    let encoding = Encoding::from(args.encoding);
    let (mut games, mut positions, mut wrong) = (0_u64, 0_u64, 0_u64);
    for path in &args.inputs {
        for game in Reader::open(path)? {
            match game {
                Ok(game) => {
                    let written = write_game(&game, encoding, options.history_fill, &mut out);
                    positions +=
                        written.with_context(|| format!("cannot write {}", args.out.display()))?;
                    games += 1;
                }
                Err(error @ ReadError::Game { .. }) => {
                    wrong += 1;
                    let path = path.display().to_string();
                    eprint_line(format_args!("{}: skipped {error}", printable(&path)));
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot read {}", path.display()));
                }
            }
        }
    }
    out.finish()?;
    Ok(format!(
        "{games} games, {positions} positions; skipped {wrong} games"
    ))
}
