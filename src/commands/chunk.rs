//! `scorn chunk`: checks and prints lc0's training chunks.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::{
    files,
    network::input::policy_map,
    selfplay::chunk::{self, ChunkPosition, NO_MOVE, V7Fields, VALUES},
    terminal::{self, counted, eprint_line},
};

/// Maximum size of a chunk in bytes.
const MAX_CHUNK_BYTES: u64 = 1 << 28;

/// Printed below the options.
const EXAMPLES: &str = "\
Examples:
  scorn chunk data
  scorn chunk game_000000000.gz --print";

/// Check and print training chunks of lc0's formats V6 and V7 (.gz or uncompressed).
///
/// Checks every position: its policy against the legal moves, and shares, indices and values against their ranges.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct ChunkArgs {
    /// Files, or folders of them (*.gz); a folder of scorn selfplay has them in its folder lc0.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print every position as a JSON object.
    #[arg(long)]
    pub print: bool,
    /// Print the summary as one JSON object.
    #[arg(long, conflicts_with = "print")]
    pub json: bool,
}

#[derive(Default)]
struct ChunkSummary {
    chunks: u64,
    positions: u64,
    /// Losses, draws and wins for the side to move.
    results: [u64; 3],
    visits: u64,
    kld: f64,
    entropy: f64,
}

impl ChunkSummary {
    fn add(&mut self, position: &ChunkPosition) {
        self.positions += 1;
        self.results[(position.value("result_q") + 1.0) as usize % 3] += 1;
        self.visits += u64::from(position.visits);
        self.kld += f64::from(position.policy_kld);
        let terms = position.probabilities.iter().filter(|&&p| p > 0.0);
        self.entropy -= terms
            .map(|&p| f64::from(p) * f64::from(p).ln())
            .sum::<f64>();
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.positions.max(1) as f64
    }
}

/// Runs `scorn chunk`.
///
/// # Errors
/// When some arguments are not chunks, hold none or hold invalid positions; the others are still counted and printed.
pub fn run(args: &ChunkArgs) -> Result<()> {
    let (mut summary, mut bad) = (ChunkSummary::default(), 0_u64);
    let files: Vec<Result<PathBuf>> = args.files.iter().flat_map(|path| chunks_of(path)).collect();
    let count = files.len();
    for file in files {
        if args.print && terminal::is_unread() {
            return Ok(());
        }
        match file.and_then(|path| read(&path)) {
            Ok(positions) => {
                summary.chunks += 1;
                for position in &positions {
                    summary.add(position);
                    if args.print {
                        print_line!("{}", shown(position));
                    }
                }
            }
            Err(error) => {
                bad += 1;
                eprint_line(format_args!("scorn: {error:#}"));
            }
        }
    }
    if args.json {
        print_line!("{}", to_json(&summary, bad));
    } else if !args.print && summary.chunks > 0 {
        print_line!("{}", text(&summary));
    }
    if bad > 0 {
        bail!("{bad} of {count} files are invalid");
    }
    Ok(())
}

/// The files of an argument, or the error of a folder without any.
fn chunks_of(path: &Path) -> Vec<Result<PathBuf>> {
    if !path.is_dir() {
        return vec![Ok(path.to_owned())];
    }
    let chunks_in = |folder: &Path| {
        let mut found = files::of_folder(folder, &[".gz"])?;
        found.retain(|file| !file.to_string_lossy().ends_with(".pgn.gz"));
        ensure!(
            !found.is_empty(),
            "{}: this folder has no chunk (*.gz)",
            folder.display()
        );
        Ok(found)
    };
    let of_selfplay = path.join("lc0");
    let found = chunks_in(path).or_else(|error| {
        if of_selfplay.is_dir() {
            chunks_in(&of_selfplay)
        } else {
            Err(error)
        }
    });
    match found {
        Ok(found) => found.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }
}

fn read(path: &Path) -> Result<Vec<ChunkPosition>> {
    let name = || path.display().to_string();
    let positions = files::read(path, MAX_CHUNK_BYTES)
        .map_err(anyhow::Error::from)
        .and_then(|bytes| chunk::read(&bytes))
        .with_context(name)?;
    for (index, position) in positions.iter().enumerate() {
        let checked = position.verify();
        checked.with_context(|| format!("{}: position {}", name(), index + 1))?;
    }
    Ok(positions)
}

fn text(summary: &ChunkSummary) -> String {
    let [lost, drawn, won] = summary.results;
    format!(
        "{}, {}, valid\n\
         results of the side to move: won {won}, drawn {drawn}, lost {lost}\n\
         visits {:.1}, entropy of the visits {:.3}, divergence from the priors {:.3} (means)",
        counted(summary.chunks, "chunk"),
        counted(summary.positions, "position"),
        summary.mean(summary.visits as f64),
        summary.mean(summary.entropy),
        summary.mean(summary.kld),
    )
}

fn to_json(summary: &ChunkSummary, bad: u64) -> serde_json::Value {
    let [lost, drawn, won] = summary.results;
    json!({
        "chunks": summary.chunks,
        "bad": bad,
        "positions": summary.positions,
        "won": won,
        "drawn": drawn,
        "lost": lost,
        "mean_visits": summary.mean(summary.visits as f64),
        "mean_entropy": summary.mean(summary.entropy),
        "mean_kld": summary.mean(summary.kld),
    })
}

/// The move of an index of the policy vector, from the point of view of its side.
fn name(index: usize) -> String {
    let m = policy_map::move_at(index, false, 0);
    m.map_or("?".to_owned(), |m| {
        let promotion = m
            .promotion()
            .map_or(String::new(), |role| role.char().to_string());
        format!("{}{}{promotion}", m.from(), m.to())
    })
}

/// The opponent's reply and the own move after it, as far as they were played, each from the point of view of its side.
fn next_moves(v7: &V7Fields) -> Vec<String> {
    let indices = [v7.opp_played_idx, v7.next_played_idx];
    let played = indices.iter().take_while(|&&index| index != NO_MOVE);
    played.map(|&index| name(usize::from(index))).collect()
}

/// A position as JSON: moves are from the side to move's point of view, as everything in a chunk.
fn shown(position: &ChunkPosition) -> serde_json::Value {
    let visited = position.probabilities.iter().enumerate();
    let policy: serde_json::Map<_, _> = visited
        .filter(|&(_, &p)| p >= 0.0)
        .map(|(index, &p)| (name(index), json!(p)))
        .collect();
    let values: serde_json::Map<_, _> = VALUES
        .iter()
        .zip(position.values)
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    json!({
        "input_format": position.input_format,
        "black": position.black == 1,
        "castling": position.castling,
        "rule50": position.rule50,
        "invariance_info": position.invariance_info,
        "visits": position.visits,
        "played": name(usize::from(position.played_idx)),
        "best": name(usize::from(position.best_idx)),
        "policy_kld": position.policy_kld,
        "next_moves": position.v7.as_ref().map(next_moves),
        "values": values,
        "policy": policy,
    })
}
