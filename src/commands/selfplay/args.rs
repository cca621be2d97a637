//! The flags of `scorn selfplay`, and their types.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    commands::numbers::{number_from, percent, share},
    game::adjudicate::{DrawRule, RuleError, WinRule},
    selfplay::{
        chunk::ChunkVersion,
        records::{MoveTarget, Sides},
        run::TrainingOutput,
        store::MAX_GAMES_PER_PART,
    },
};

/// Printed below the options.
const EXAMPLES: &str = "\
Examples:
  scorn selfplay --games 100 --nodes 1000 --sc-limit 5 --tau tau1 --out sc5
  scorn selfplay --games 500 --nodes 800 --odds queen --a ScLimit=28 --b NodeLimit=100 --out odds
  scorn selfplay --games 10000 --book openings.epd --a-plays both --noise-epsilon 0.25 \\
      --records --chunks --out data
  scorn selfplay --games 10000 --nodes 1000 --balance 1 --double-nodes 4000 --tau tau1 \\
      --records --out figure5";

/// Play games of the engine against itself.
///
/// Both sides search with the engine's options; --a and --b change them for one side. Each side has a tree of its
/// own. The same seed (0 is a seed like any other here), networks and options give the same files, whatever
/// --parallel, --batch and --threads are. There is no cache, so NNCacheSize has no effect. Files appear in the folder
/// when they are complete; an interrupted run is resumed with --resume.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("kept").multiple(true)))]
pub struct SelfplayArgs {
    /// Number of games.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=20_000_000))]
    pub games: u64,
    /// Nodes per move. A side's NodeLimit takes precedence.
    #[arg(long, value_name = "N", default_value_t = 800, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub nodes: u64,
    /// Folder for the output.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Resume the run that is in the folder.
    #[arg(long)]
    pub resume: bool,
    /// Number of concurrent games. 0 selects enough for two batches, or one per thread with networks that need no
    /// batches.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub parallel: u32,
    /// Positions in a network batch, of all games together. 0 selects the size that the backend recommends.
    /// (MinibatchSize is the number of positions that one game's tree adds at a time; the default is one.)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub batch: u32,
    /// Options of the first side, as in "ScLimit=5;Temperature=1".
    #[arg(long, value_name = "OPTION=VALUE;...", default_value = "")]
    pub a: String,
    /// Options of the second side.
    #[arg(long, value_name = "OPTION=VALUE;...", default_value = "")]
    pub b: String,
    /// Colour of the first side. With "both" it alternates, so that every opening is played twice.
    #[arg(long, value_enum, default_value = "white")]
    pub a_plays: ColorChoice,
    /// Temperature schedule of the paper on search-contempt, as in its author's configurations.
    #[arg(long, value_enum)]
    pub tau: Option<Tau>,
    /// File of openings: positions (EPD) or games (PGN); may be .gz or .zst.
    #[arg(long, value_name = "FILE", conflicts_with = "odds")]
    pub book: Option<PathBuf>,
    /// Use the openings in the order of the file rather than in a random order that depends on --seed.
    #[arg(long, requires = "book")]
    pub in_order: bool,
    /// Odds that the first side gives: queen, rook, knight, bishop, pawn, several as in rook+knight, or a FEN in
    /// which White gives them.
    #[arg(long, value_name = "PIECES|FEN")]
    pub odds: Option<String>,
    /// Number of plies after the opening in which moves may be random. Random moves are not training samples.
    #[arg(long, value_name = "PLIES", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub random_plies: u16,
    /// Probability of a random move in each of these plies.
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = share, requires = "random_plies")]
    pub random_share: f64,
    /// Nodes of fast searches (playout-cap randomisation). They have no noise and are not training samples.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub fast_nodes: Option<u64>,
    /// Fraction of searches with all nodes, if --fast-nodes is set.
    #[arg(long, value_name = "P", default_value_t = 0.25, value_parser = share, requires = "fast_nodes")]
    pub full_share: f64,
    /// Keep a side's tree for its next move. Visits in the kept tree count towards the nodes of that move.
    #[arg(long)]
    pub reuse_tree: bool,
    /// Let a side resign when the expected score of the move that its search prefers, whatever the temperature, is
    /// below this percentage.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub resign: Option<f64>,
    /// Percentage of games that are played to the end in spite of a resignation, to measure how often resigning is
    /// wrong.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent, requires = "resign")]
    pub resign_playthrough: f64,
    /// Adjudicate a win when all evaluations (W-L, -1 to 1) of this many plies are at least this large: PLIES,VALUE.
    #[arg(long, value_name = "PLIES,VALUE", value_parser = win_rule)]
    pub win_rule: Option<WinRule>,
    /// Adjudicate a draw when all evaluations of this many plies are at most this large, from a move number on:
    /// MOVE,PLIES,VALUE.
    #[arg(long, value_name = "MOVE,PLIES,VALUE", value_parser = draw_rule)]
    pub draw_rule: Option<DrawRule>,
    /// Adjudicate a draw after this many plies.
    #[arg(
        long,
        alias = "longest",
        value_name = "PLIES",
        default_value_t = 450,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub max_plies: u32,
    /// Adjudicate games by the endgame tablebases of SyzygyPath.
    #[arg(long, alias = "tables-decide")]
    pub adjudicate_syzygy: bool,
    /// Number of games per file.
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_GAMES_PER_PART)))]
    pub games_per_file: u32,
    /// Play only part I of N of the games; I counts from 1. All parts together are the whole run.
    #[arg(long, value_name = "I/N", value_parser = shard, default_value = "1/1")]
    pub shard: Shard,
    /// Write training positions with all visits (positions-*.vis, for `scorn train`).
    #[arg(long, group = "kept")]
    pub records: bool,
    /// Write training chunks in lc0's format, one per game (lc0/*.gz).
    #[arg(long, group = "kept")]
    pub chunks: bool,
    /// Version of lc0's training format.
    #[arg(long, value_enum, default_value_t, requires = "chunks")]
    pub chunk_version: ChunkVersion,
    /// Side whose positions --records and --chunks write.
    #[arg(long, value_enum, default_value = "both", requires = "kept")]
    pub record_side: RecordSide,
    /// Write the network's policy of each position with --records in place of visits, with the player's
    /// PolicyTemperature and without noise. With --nodes 1 this records a network's predictions, for another one to
    /// learn from.
    #[arg(long, requires = "records")]
    pub record_policy: bool,
    /// Target ratio of decisive games to draws: ScLimit is adjusted after each batch of games, from 5 or --sc-limit up
    /// to --nodes, which is plain PUCT. With --odds only the side that gives odds searches with ScLimit; both sides
    /// search the same number of nodes.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub balance: Option<f64>,
    /// Number of games per batch for --balance.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..), requires = "balance")]
    pub balance_games: u64,
    /// Double the nodes, up to this maximum, whenever --balance has settled, or when plain PUCT is more decisive than
    /// --balance for several batches.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), requires = "balance")]
    pub double_nodes: Option<u64>,
    /// Print the results as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Colour of the first side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// Always White.
    White,
    /// Always Black.
    Black,
    /// White and Black alternately.
    Both,
}

impl SelfplayArgs {
    /// The training data to write besides games.
    pub(super) fn training_output(&self) -> TrainingOutput {
        TrainingOutput {
            records: self.records.then_some(if self.record_policy {
                MoveTarget::Policy
            } else {
                MoveTarget::Visits
            }),
            chunks: self.chunks.then_some(self.chunk_version),
            sides: self.record_side.sides(),
        }
    }
}

/// The side whose positions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RecordSide {
    /// The first side.
    A,
    /// The second side.
    B,
    /// Both sides.
    Both,
}

impl RecordSide {
    fn sides(self) -> Sides {
        Sides([self != RecordSide::B, self != RecordSide::A])
    }
}

/// Temperature schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Tau {
    /// Temperature 0.7, falling to 0.1 over 5 moves.
    Tau1,
    /// Temperature 0.9, falling from move 20 on to 0.6 from move 40 on; moves are drawn by their visits less 0.8.
    Tau2,
}

impl Tau {
    /// The options that a schedule sets (github.com/amjshl/lc0_v31_sc, selfplay_experiments/configs).
    pub(super) fn settings(self) -> [(&'static str, &'static str); 6] {
        let values = match self {
            Tau::Tau1 => ["0.7", "5", "0", "0", "0.1", "0"],
            Tau::Tau2 => ["0.9", "60", "20", "40", "0.6", "-0.8"],
        };
        let names = [
            "Temperature",
            "TempDecayMoves",
            "TempDecayDelayMoves",
            "TempCutoffMove",
            "TempEndgame",
            "TempVisitOffset",
        ];
        std::array::from_fn(|index| (names[index], values[index]))
    }
}

/// Part `index` (from 0) of `count` of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub(super) index: u64,
    pub(super) count: u64,
}

fn shard(text: &str) -> Result<Shard, String> {
    let error = || format!("'{text}' is not of the form I/N, as in 2/8");
    let (index, count) = text.split_once('/').ok_or_else(error)?;
    let index: u64 = index.parse().map_err(|_| error())?;
    let count: u64 = count.parse().map_err(|_| error())?;
    if index == 0 || index > count {
        return Err(format!("there is no part {index} of {count}"));
    }
    Ok(Shard {
        index: index - 1,
        count,
    })
}

fn ratio(text: &str) -> Result<f64, String> {
    number_from(0.01..=100.0, text)
}

/// Values are W-L, so none is above 1.
fn win_rule(text: &str) -> Result<WinRule, String> {
    let rule: WinRule = text.parse().map_err(rule_error)?;
    up_to_1(rule, rule.value)
}

fn draw_rule(text: &str) -> Result<DrawRule, String> {
    let rule: DrawRule = text.parse().map_err(rule_error)?;
    up_to_1(rule, rule.value)
}

fn rule_error(error: RuleError) -> String {
    error.to_string()
}

fn up_to_1<R>(rule: R, value: f64) -> Result<R, String> {
    if value <= 1.0 {
        Ok(rule)
    } else {
        Err(format!("{value} is above 1, the value of a sure win"))
    }
}
