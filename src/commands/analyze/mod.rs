//! `scorn analyze`: positions in, best moves and evaluations out, for people or as JSON lines for programs. Every
//! position is searched with a tree of its own, so a long job that was interrupted continues where it stopped and ends
//! with the same results.

mod input;
mod output;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use shakmaty::Color;

pub use self::input::{Item, Items, from_epd, from_pgn};
use self::output::{PositionRecord, ResultWriter};
use crate::{
    lc0,
    network::opponent,
    options::Options,
    player::{Load, Player},
    search::{Limits, MoveStat, Report, Reporter, StopSignal, SystemClock, Tree},
    terminal::tell,
};

/// Nodes per position if no limit is given.
const DEFAULT_NODES: u64 = 10_000;

/// Analyse positions or games.
///
/// Examples:
///   scorn analyze --fen startpos --nodes 5000
///   scorn analyze --epd tests.epd --movetime 1000
///   scorn analyze --pgn games.pgn.zst --nodes 800 --json --output games.jsonl
#[derive(Clone, Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct AnalyzeArgs {
    /// A position, or "startpos"; may be given several times.
    #[arg(long, value_name = "FEN", required_unless_present_any = ["epd", "pgn"])]
    pub fen: Vec<String>,
    /// A file of positions, one a line; best moves (bm) in it are compared. May be .gz or .zst; "-" is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "fen")]
    pub epd: Option<PathBuf>,
    /// A file of games: every position in which a move was played. May be .gz or .zst; "-" is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fen", "epd"])]
    pub pgn: Option<PathBuf>,
    /// Nodes per position [default: 10000, unless --movetime is given].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub nodes: Option<u64>,
    /// Milliseconds per position.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub movetime: Option<u64>,
    /// Print one JSON object per position.
    #[arg(long)]
    pub json: bool,
    /// With --json: include visits, prior and value of every move.
    #[arg(long, requires = "json")]
    pub moves: bool,
    /// Write JSON lines to this file; if it exists, go on after the positions that are already in it. "-" is standard output.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl AnalyzeArgs {
    fn items(&self) -> Result<Items> {
        if let Some(path) = &self.epd {
            return input::from_epd(path);
        }
        if let Some(path) = &self.pgn {
            return input::from_pgn(path);
        }
        let items: Result<Vec<Item>> = self.fen.iter().map(|fen| input::from_fen(fen)).collect();
        Ok(Box::new(items?.into_iter().map(Ok)))
    }

    /// The number of positions, if it can be known without consuming them: a pipe can be read only once.
    fn count(&self) -> Result<Option<u64>> {
        let is_read_once =
            |path: &PathBuf| path.as_os_str() == "-" || (path.exists() && !path.is_file());
        if self.epd.iter().chain(&self.pgn).any(is_read_once) {
            return Ok(None);
        }
        Ok(Some(self.items()?.count() as u64))
    }

    fn limits(&self, options: &Options) -> Limits {
        let node_limit = Some(options.node_limit).filter(|&limit| limit > 0);
        let nodes = self.nodes.into_iter().chain(node_limit).min();
        let default = self.movetime.is_none().then_some(DEFAULT_NODES);
        Limits {
            nodes: nodes.or(default),
            movetime: self.movetime.map(Duration::from_millis),
            ..Limits::default()
        }
    }

    /// A fingerprint of what decides the results: limits and options, but for those that only say how fast.
    fn settings(&self, options: &Options) -> String {
        let usual = Options::default();
        let options = Options {
            threads: usual.threads,
            minibatch_size: usual.minibatch_size,
            onnx_runtime_path: usual.onnx_runtime_path,
            nn_cache_size: usual.nn_cache_size,
            ram_limit_mb: usual.ram_limit_mb,
            nps_limit: usual.nps_limit,
            log_file: usual.log_file,
            preload: usual.preload,
            ..options.clone()
        };
        let settings = format!("{:?} {} {options:?}", self.limits(&options), self.moves);
        lc0::sha256(settings.as_bytes())[..16].to_owned()
    }
}

/// Runs `scorn analyze`.
///
/// # Errors
/// When the network cannot be loaded, a file cannot be read or written, or some positions were not understood (the
/// others are analysed nevertheless).
pub fn command(args: &AnalyzeArgs, options: Options, load: &Load) -> Result<()> {
    let count = args.count()?;
    let settings = args.settings(&options);
    let mut writer = ResultWriter::new(args, &settings)?;
    let options = Options {
        show_objective: true,
        ..options
    };
    let limits = args.limits(&options);
    let player = Player::load(options, load)?;
    let options = &player.options;
    if let Some(reason) = opponent::why_idle(options) {
        tell(format_args!("scorn: {reason}"));
    }
    let bar = progress_bar(count);
    let (mut all, mut bad, mut tested, mut solved) = (0, 0, 0, 0);
    for item in args.items()? {
        bar.inc(1);
        all += 1;
        let item = match item {
            Ok(item) => item,
            Err(error) => {
                bad += 1;
                bar.suspend(|| tell(format_args!("scorn: {error:#}")));
                continue;
            }
        };
        let Some(solution) = (match writer.already_done(&item)? {
            Some(record) => Some(record.solved),
            None => {
                let mut record = analyze(&item, &player, &limits, args.moves)?;
                record.settings.clone_from(&settings);
                bar.suspend(|| writer.write(&record, &item))?;
                Some(record.solved)
            }
        }) else {
            continue;
        };
        tested += u64::from(solution.is_some());
        solved += u64::from(solution == Some(true));
    }
    bar.finish_and_clear();
    writer.check_complete()?;
    if tested > 0 {
        tell(format_args!("solved {solved} of {tested}"));
    }
    ensure!(all > 0, "there are no positions in this input");
    if bad > 0 {
        bail!("{bad} positions or games were not understood");
    }
    Ok(())
}

/// Searches one position.
///
/// # Errors
/// When the evaluator fails.
fn analyze(item: &Item, player: &Player, limits: &Limits, moves: bool) -> Result<PositionRecord> {
    let job = player.job(item.history.clone(), limits.clone());
    let mut tree = Tree::default();
    let clock = SystemClock::default();
    let mut collector = Collector::default();
    let stop = StopSignal::default();
    let outcome = player
        .search(&mut tree, &job, &stop, &clock, &mut collector)
        .with_context(|| format!("analysing {}", item.name))?;
    let stats = moves.then_some(&collector.stats[..]);
    Ok(PositionRecord::new(item, &outcome, &player.options, stats))
}

/// Keeps the statistics of the moves.
#[derive(Default)]
struct Collector {
    stats: Vec<MoveStat>,
}

impl Reporter for Collector {
    fn report(&mut self, _: &Report) {}

    fn move_stats(&mut self, stats: &[MoveStat]) {
        self.stats = stats.to_vec();
    }
}

/// Shown on a terminal, when there is more than one position.
fn progress_bar(count: Option<u64>) -> ProgressBar {
    match count {
        Some(0 | 1) => ProgressBar::hidden(),
        Some(count) => {
            let style = ProgressStyle::with_template(
                "{bar:30} {pos}/{len} positions, {elapsed} elapsed, {eta} to go",
            );
            let bar = ProgressBar::new(count);
            match style {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        }
        None => ProgressBar::new_spinner(),
    }
}

/// White's point of view is what game analysis is usually read in.
fn sign(turn: Color) -> f32 {
    turn.fold_wb(1.0, -1.0)
}
