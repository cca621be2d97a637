//! The flags of `scorn selfplay`, and what they may be.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    commands::numbers::{number_from, percent, share},
    game::adjudicate::{DrawRule, RuleError, WinRule},
    selfplay::{
        records::{MoveTarget, Sides},
        run::TrainingOutput,
    },
};

/// Shown below the options.
const EXAMPLES: &str = "\
Examples:
  scorn selfplay --games 100 --nodes 1000 --sc-limit 5 --tau tau1 --out sc5
  scorn selfplay --games 500 --nodes 800 --odds queen --a ScLimit=28 --b NodeLimit=100 --out odds
  scorn selfplay --games 10000 --book openings.epd --a-plays both --noise-epsilon 0.25 \\
      --records --chunks --out data
  scorn selfplay --games 10000 --nodes 1000 --balance 1 --double-nodes 4000 --tau tau1 \\
      --records --out figure5";

/// Play games against itself.
///
/// Both sides search with the engine's options; --a and --b change them for one side. Each side has a tree of its own. The
/// same seed (0 is one like any other here), networks and options give the same files, whatever --parallel, --batch and
/// --threads are. There is no cache: NNCacheSize means nothing here. In the folder, files appear when they are whole; a run
/// that was interrupted goes on with --resume.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("kept").multiple(true)))]
pub struct SelfplayArgs {
    /// Games.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub games: u64,
    /// Nodes a move; a side's NodeLimit counts more.
    #[arg(long, value_name = "N", default_value_t = 800, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub nodes: u64,
    /// The folder to write.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Go on with the run that is in the folder.
    #[arg(long)]
    pub resume: bool,
    /// Games at a time; 0 takes what fills two batches, or one a thread with networks that need no batches.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub parallel: u32,
    /// Positions in a network batch, of all games together; 0 takes what the backend advises. (MinibatchSize is what one
    /// game's tree adds at a time; if it is not given, one position.)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub batch: u32,
    /// Options of the first side, as in "ScLimit=5;Temperature=1".
    #[arg(long, value_name = "OPTION=VALUE;...", default_value = "")]
    pub a: String,
    /// Options of the second side.
    #[arg(long, value_name = "OPTION=VALUE;...", default_value = "")]
    pub b: String,
    /// The first side's colour; both: in turn, so that every opening is played twice.
    #[arg(long, value_enum, default_value = "white")]
    pub a_plays: ColorChoice,
    /// A temperature schedule. tau1: 1 in the first moves, falling to 0 over 10; tau2: 1 for the whole game. (The paper on
    /// search-contempt compares a low and a high one without giving numbers: these are ours.)
    #[arg(long, value_enum)]
    pub tau: Option<Tau>,
    /// Openings: positions (EPD) or games (PGN); may be .gz or .zst.
    #[arg(long, value_name = "FILE", conflicts_with = "odds")]
    pub book: Option<PathBuf>,
    /// Take the openings as they stand in the file, not in an order that the seed decides.
    #[arg(long, requires = "book")]
    pub in_order: bool,
    /// The first side gives odds: queen, rook, knight, bishop, pawn, several as in rook+knight, or a FEN in which White
    /// gives them.
    #[arg(long, value_name = "PIECES|FEN")]
    pub odds: Option<String>,
    /// Random moves in the first plies after the opening. They are no training samples.
    #[arg(long, value_name = "PLIES", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub random_plies: u16,
    /// With which probability each of them is random.
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = share, requires = "random_plies")]
    pub random_share: f64,
    /// Nodes of fast searches (playout-cap randomisation): they have no noise and are no training samples.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub fast_nodes: Option<u64>,
    /// The share of searches with all nodes, beside fast ones.
    #[arg(long, value_name = "P", default_value_t = 0.25, value_parser = share, requires = "fast_nodes")]
    pub full_share: f64,
    /// A side keeps its tree from move to move; its nodes then count as far as they are there.
    #[arg(long)]
    pub reuse_tree: bool,
    /// A side resigns when its expected score is below so many per cent.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub resign: Option<f64>,
    /// The share of games that are played on nevertheless, in per cent: they tell how often resigning is wrong.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent, requires = "resign")]
    pub resign_playthrough: f64,
    /// A game is won when all evaluations (W-L, -1..1) of so many plies say so: PLIES,VALUE.
    #[arg(long, value_name = "PLIES,VALUE", value_parser = win_rule)]
    pub win_rule: Option<WinRule>,
    /// A game is drawn when all evaluations of so many plies are this small, from a move number on: MOVE,PLIES,VALUE.
    #[arg(long, value_name = "MOVE,PLIES,VALUE", value_parser = draw_rule)]
    pub draw_rule: Option<DrawRule>,
    /// Games that get longer are drawn.
    #[arg(long, value_name = "PLIES", default_value_t = 450, value_parser = clap::value_parser!(u32).range(1..))]
    pub longest: u32,
    /// End games whose result the tables of SyzygyPath know.
    #[arg(long)]
    pub tables_decide: bool,
    /// Games of a file.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub games_per_file: u32,
    /// Play only part I of N of the games; I counts from 1. All parts together are the whole run.
    #[arg(long, value_name = "I/N", value_parser = shard, default_value = "1/1")]
    pub shard: Shard,
    /// Write training positions with all visits (positions-*.vis; the layout stands in the library's documentation,
    /// dataset::searched; `scorn train` learns from them).
    #[arg(long, group = "kept")]
    pub records: bool,
    /// Write training chunks in lc0's format V6, one a game (lc0/*.gz).
    #[arg(long, group = "kept")]
    pub chunks: bool,
    /// Whose positions --records and --chunks write.
    #[arg(long, value_enum, default_value = "both", requires = "kept")]
    pub record_side: RecordSide,
    /// Write the network's policy of each position with --records in place of visits, with the player's PolicyTemperature;
    /// so games of one node a move hold what their network predicts.
    #[arg(long, requires = "records")]
    pub record_policy: bool,
    /// Hold (w+l)/d at this: between batches of games ScLimit moves (from 5, or what --sc-limit says). With --odds the
    /// first side gives them with this limit, and the second searches as many nodes without search-contempt.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub balance: Option<f64>,
    /// Games of a batch for --balance.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..), requires = "balance")]
    pub balance_games: u64,
    /// Double the nodes, up to so many, whenever --balance has settled.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000), requires = "balance")]
    pub double_nodes: Option<u64>,
    /// Print what came of it as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// The first side's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// Always White.
    White,
    /// Always Black.
    Black,
    /// In turn.
    Both,
}

impl SelfplayArgs {
    /// The training data that is written besides games.
    pub(super) fn training_output(&self) -> TrainingOutput {
        TrainingOutput {
            records: self.records.then_some(match self.record_policy {
                true => MoveTarget::Policy,
                false => MoveTarget::Visits,
            }),
            chunks: self.chunks,
            sides: self.record_side.sides(),
        }
    }
}

/// Whose positions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RecordSide {
    /// The first side's.
    A,
    /// The second side's.
    B,
    /// All.
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
    /// Low.
    Tau1,
    /// High.
    Tau2,
}

impl Tau {
    pub(super) fn settings(self) -> [(&'static str, &'static str); 3] {
        let decay = match self {
            Tau::Tau1 => "10",
            Tau::Tau2 => "0",
        };
        [
            ("Temperature", "1"),
            ("TempDecayMoves", decay),
            ("TempCutoffMove", "0"),
        ]
    }
}

/// Part `index` (from 0) of `count` of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0 on.
    pub(super) index: u64,
    pub(super) count: u64,
}

fn shard(text: &str) -> Result<Shard, String> {
    let error = || format!("'{text}' is not as in 2/8");
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

/// Values are W-L here, so none is above 1.
fn win_rule(text: &str) -> Result<WinRule, String> {
    let rule: WinRule = text.parse().map_err(told)?;
    up_to_1(rule, rule.value)
}

fn draw_rule(text: &str) -> Result<DrawRule, String> {
    let rule: DrawRule = text.parse().map_err(told)?;
    up_to_1(rule, rule.value)
}

fn told(error: RuleError) -> String {
    error.to_string()
}

fn up_to_1<R>(rule: R, value: f64) -> Result<R, String> {
    match value <= 1.0 {
        true => Ok(rule),
        false => Err(format!("{value} is above 1, the value of a sure win")),
    }
}
