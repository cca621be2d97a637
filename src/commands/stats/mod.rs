//! `scorn stats`: statistics of games as text, as JSON, and as a page with the figures of the paper on
//! search-contempt drawn from these games.

mod folder;
mod page;
mod text;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use self::{folder::FolderFiles, page::page, text::text};
use crate::{
    commands::progress,
    dataset::searched::is_searched,
    files::{self, output::NewFile},
    labeling::{
        misjudged::{Misjudged, MisjudgedSummary, PositionSample},
        search_stats,
        searcher::Searcher,
    },
    network::{Evaluator, compose::cached::NetworkSettings, opponent::Role, source::recommended},
    options::{ContemptMode, Options, layers::Layers},
    pgn::{LIMIT_TAG, ReadError, Reader},
    player::Load,
    selfplay::{
        controller::{self, Step},
        store::BALANCE,
    },
    stats::games::{GameStats, Summary},
    terminal,
};

/// Maximum number of broken games of a file that are listed.
const MAX_LISTED_ERRORS: u64 = 20;

/// Printed below the options.
const EXAMPLES: &str = "\
Examples:
  scorn stats games.pgn.zst
  scorn stats data
  scorn stats sc5.pgn sc20.pgn puct.pgn --sc-limits 5,20,1000000 --html figures.html
  scorn stats data/positions-*.vis --network other.onnx
  scorn stats sc5 puct --network '<built in>' --deep-sample 500 --html misjudged.html";

/// Decides which positions of a file are searched.
const SAMPLE_SEED: u64 = 1;

/// Print statistics of games (results, lengths, repeated games, diversity, tactics), of self-play's records (policy
/// entropy) and of the positions that a network misjudges.
///
/// Several files are counted separately and together, as if they were one file.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct StatsArgs {
    /// PGN files; may be .gz or .zst; "-" is standard input. Also record files of self-play (positions-*.vis), or a
    /// folder, whose games and records count as one file (in the folder of a self-play run, those of its parts).
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page with plots to this file: figures 2, 3 and 4 of the paper on search-contempt, from these
    /// games, and figure 5 for folders of runs with a controlled ScLimit (selfplay --balance).
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Overwrite the page if it exists.
    #[arg(long, requires = "html")]
    pub force: bool,
    /// ScLimit of each file's games, for figure 2 of --html and for --json. Default: the tag "ScLimit" of the games.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    pub sc_limits: Vec<u64>,
    /// Compare the search results in the records with this network's raw outputs (a file, or as WeightsFile): visits
    /// with its policy at PolicyTemperature, and the value of the search with its value. Records have no history: a
    /// network with inputs of earlier positions is given each position alone (HistoryFill).
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<String>,
    /// Number of random positions of each file's games that are searched with --deep-nodes nodes and without
    /// search-contempt, to compare the value and the policy of --network with the result. The same games give the same
    /// positions. 0 searches none.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "network")]
    pub deep_sample: usize,
    /// Nodes of a search of --deep-sample.
    #[arg(long, value_name = "N", default_value_t = 100_000, requires = "deep_sample",
          value_parser = clap::value_parser!(u64).range(2..))]
    pub deep_nodes: u64,
}

impl StatsArgs {
    fn check_limits(&self) -> Result<()> {
        let limits = &self.sc_limits;
        ensure!(
            limits.is_empty() || limits.len() == self.files.len(),
            "--sc-limits has {} numbers for {} files",
            limits.len(),
            self.files.len()
        );
        ensure!(
            limits.is_empty() || self.html.is_some() || self.json,
            "--sc-limits needs --html or --json: it has no other effect"
        );
        Ok(())
    }
}

/// The games of one file.
struct Counted {
    name: String,
    stats: GameStats,
    sc_limit: Option<u64>,
    /// Number of games that could not be read.
    broken: u64,
    /// The controller's path, if the run adjusted ScLimit between batches of games.
    path: Vec<Step>,
    /// Positions of the games that are searched.
    sample: PositionSample,
    misjudged: Misjudged,
}

/// A network whose policy and value are judged.
struct Judge {
    network: Arc<dyn Evaluator>,
    /// The searches of samples, if there are any.
    searcher: Option<Searcher>,
}

impl Judge {
    fn load(weights: &str, args: &StatsArgs, layers: &Layers, load: &Load) -> Result<Judge> {
        let mut layers = layers.clone();
        layers.user.set("WeightsFile", weights)?;
        let options = recommended::resolve(&layers).into_options();
        let backend = load(&options, Role::Main)?;
        let plain = Options {
            sc_limit: Options::default().sc_limit,
            contempt_mode: ContemptMode::Disable,
            ..options.clone()
        };
        let searcher = (args.deep_sample > 0).then(|| Searcher::new(args.deep_nodes, &plain, load));
        Ok(Judge {
            network: NetworkSettings::of(&options, Role::Main).over(backend),
            searcher: searcher.transpose()?,
        })
    }

    /// Searches the sample of a file.
    fn search(&self, counted: &mut Counted) -> Result<()> {
        let Some(searcher) = &self.searcher else {
            return Ok(());
        };
        let name = terminal::printable(&counted.name);
        let bar = progress::records(counted.sample.len() as u64, &name);
        let sample = counted.sample.take();
        let judged = Misjudged::of(sample, &*self.network, searcher, |done| {
            bar.set_position(done);
        });
        bar.finish_and_clear();
        counted.misjudged = judged.with_context(|| counted.name.clone())?;
        Ok(())
    }
}

/// Statistics of one file, or of all files.
#[derive(Serialize)]
struct FileStats {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sc_limit: Option<u64>,
    #[serde(flatten)]
    summary: Summary,
    /// How the network misjudges a sample of the positions.
    #[serde(skip_serializing_if = "Option::is_none")]
    misjudged: Option<MisjudgedSummary>,
    /// Games that could not be read and are not counted.
    broken: u64,
    /// The controller's path, if the run adjusted its ScLimit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    path: Vec<Step>,
    /// Each file, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileStats>,
}

impl FileStats {
    /// What it is called, for people.
    fn name(&self) -> &str {
        self.file.as_deref().unwrap_or("all files")
    }

    /// Each file, if there are several, and all together.
    fn with_totals(&self) -> impl Iterator<Item = &FileStats> {
        self.files.iter().chain([self])
    }
}

/// Runs `scorn stats`.
///
/// # Errors
/// When a file cannot be read or written, or some games are broken (the others are still counted and printed).
pub fn run(args: &StatsArgs, layers: &Layers, load: &Load) -> Result<()> {
    args.check_limits()?;
    // Created before the work, so that a file that cannot be written is reported at once.
    let html = args.html.as_ref();
    let inputs = inputs(&args.files)?;
    let html = html.map(|path| NewFile::create(path, args.force, &inputs));
    let html = html.transpose()?;
    let judge = args.network.as_ref();
    let judge = judge.map(|weights| Judge::load(weights, args, layers, load));
    let judge = judge.transpose()?;
    let mut counted = Vec::new();
    for (index, path) in args.files.iter().enumerate() {
        let mut one = count(path, judge.as_ref(), args.deep_sample)?;
        one.sc_limit = args.sc_limits.get(index).copied().or(one.sc_limit);
        if let Some(judge) = &judge {
            judge.search(&mut one)?;
        }
        counted.push(one);
    }
    let totals = combine(&counted);
    let is_judged = totals.summary.policy.is_some() || totals.misjudged.is_some();
    if judge.is_some() && !is_judged {
        terminal::eprint_line(
            "scorn: --network is for self-play's records, and none of these files holds any (for games: --deep-sample)",
        );
    }
    if args.json {
        print_line!("{}", serde_json::to_string(&totals)?);
    } else {
        for one in totals.with_totals() {
            if let Some(text) = text(one) {
                print_line!("{text}");
            }
        }
    }
    if let Some(file) = html {
        file.finish_with(page(&totals)?.as_bytes())?;
    }
    if totals.broken > 0 {
        bail!(
            "{} could not be read",
            terminal::counted(totals.broken, "game")
        );
    }
    Ok(())
}

/// The files that are read, those of folders included: none of them may be the page.
fn inputs(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut inputs = Vec::new();
    for path in paths {
        if path.is_dir() {
            inputs.extend(FolderFiles::of(path)?.inputs(path));
        } else {
            inputs.push(path.clone());
        }
    }
    Ok(inputs)
}

/// Counts a file, or those of a folder as one.
fn count(path: &Path, judge: Option<&Judge>, deep_sample: usize) -> Result<Counted> {
    let mut counted = Counted {
        name: path.display().to_string(),
        stats: GameStats::default(),
        sc_limit: None,
        broken: 0,
        path: Vec::new(),
        sample: PositionSample::new(deep_sample, SAMPLE_SEED),
        misjudged: Misjudged::default(),
    };
    let files = if path.is_dir() {
        counted.path = controllers_path(path)?;
        let found = FolderFiles::of(path)?;
        for file in found.foreign {
            terminal::eprint_line(format_args!(
                "scorn: {} belongs to no part of this self-play run: left out",
                file.display()
            ));
        }
        found.files
    } else {
        vec![path.to_owned()]
    };
    let mut limits: BTreeSet<u64> = BTreeSet::new();
    for file in &files {
        if file.is_file() && is_searched(file)? {
            let policies = search_stats::count(file, judge.map(|judge| &*judge.network))?;
            counted.stats.policies.append(&policies);
        } else {
            count_games(file, &mut counted, &mut limits)?;
        }
    }
    // Games with several limits do not belong to one point of the figure.
    let mut limits = limits.into_iter();
    counted.sc_limit = limits.next().filter(|_| limits.next().is_none());
    Ok(counted)
}

/// The path of the controller of a self-play run; empty if there was none.
fn controllers_path(folder: &Path) -> Result<Vec<Step>> {
    let file = folder.join(BALANCE);
    if !file.exists() {
        return Ok(Vec::new());
    }
    let path = controller::read_path(&files::read_text(&file)?);
    path.with_context(|| format!("{} is damaged", file.display()))
}

/// Adds the games of a file, and the search-contempt limits in their tags.
fn count_games(path: &Path, counted: &mut Counted, limits: &mut BTreeSet<u64>) -> Result<()> {
    let name = path.display();
    let before = counted.stats.games() + counted.broken;
    for game in Reader::new(files::open(path)?) {
        match game {
            Ok(game) => {
                limits.extend(
                    game.tag(LIMIT_TAG)
                        .and_then(|text| text.parse::<u64>().ok()),
                );
                let stats = &mut counted.stats;
                stats.add(&game.start, &game.moves, &game.end, game.outcome);
                counted.sample.offer(&game.start, &game.moves);
            }
            Err(error @ ReadError::Game { .. }) => {
                counted.broken += 1;
                if counted.broken <= MAX_LISTED_ERRORS {
                    terminal::eprint_line(format_args!("scorn: {name}: {error}"));
                }
            }
            Err(error) => return Err(error).with_context(|| name.to_string()),
        }
    }
    let found = counted.stats.games() + counted.broken;
    ensure!(found > before, "{name}: it contains no game");
    Ok(())
}

/// The statistics of all files together, and of each file if there are several.
fn combine(counted: &[Counted]) -> FileStats {
    let mut all = GameStats::default();
    let mut misjudged = Misjudged::default();
    let mut files = Vec::new();
    for one in counted {
        all.append(&one.stats);
        misjudged.append(&one.misjudged);
        files.push(FileStats {
            file: Some(one.name.clone()),
            sc_limit: one.sc_limit,
            summary: one.stats.summary(),
            misjudged: one.misjudged.summary(),
            broken: one.broken,
            path: one.path.clone(),
            files: Vec::new(),
        });
    }
    if files.len() == 1 {
        return files.remove(0);
    }
    FileStats {
        file: None,
        sc_limit: None,
        summary: all.summary(),
        misjudged: misjudged.summary(),
        broken: files.iter().map(|file| file.broken).sum(),
        path: Vec::new(),
        files,
    }
}
