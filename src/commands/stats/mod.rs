//! `scorn stats`: statistics of games as text, as JSON, and as a page with the figures of the paper on
//! search-contempt drawn from these games.

mod page;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use self::page::page;
use crate::{
    dataset::searched::is_searched,
    files::{self, output::NewFile},
    labeling::policy_stats,
    network::{Evaluator, compose::cached::NetworkSettings, opponent::Role, source::recommended},
    options::layers::Layers,
    pgn::{LIMIT_TAG, ReadError, Reader},
    player::Load,
    selfplay::{
        controller::{self, Step},
        store::BALANCE,
    },
    stats::{
        games::{GameStats, Summary},
        paper,
        policy::PolicySummary,
    },
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
  scorn stats data/positions-*.vis --network other.onnx";

/// Print statistics of games (results, lengths, repeated games, diversity) and of self-play's records (policy
/// entropy).
///
/// Several files are counted separately and together, as if they were one file.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct StatsArgs {
    /// PGN files; may be .gz or .zst; "-" is standard input. Also record files of self-play (positions-*.vis), or a
    /// folder, whose games and records count as one file.
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
    /// Compare the visits of records with this network's policy (a file, or as WeightsFile), with PolicyTemperature
    /// as in a search.
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<String>,
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
    /// Games that could not be read and are not counted.
    broken: u64,
    /// The controller's path, if the run adjusted its ScLimit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    path: Vec<Step>,
    /// Each file, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileStats>,
}

/// Runs `scorn stats`.
///
/// # Errors
/// When a file cannot be read or written, or some games are broken (the others are still counted and printed).
pub fn command(args: &StatsArgs, layers: &Layers, load: &Load) -> Result<()> {
    args.check_limits()?;
    // Created before the work, so that a file that cannot be written is reported at once.
    let html = args.html.as_ref();
    let html = html.map(|path| NewFile::create(path, args.force, &args.files));
    let html = html.transpose()?;
    let network = args.network.as_ref().map(|weights| {
        let mut layers = layers.clone();
        layers.user.set("WeightsFile", weights)?;
        let options = recommended::resolve(&layers).into_options();
        let backend = load(&options, Role::Main)?;
        anyhow::Ok(NetworkSettings::of(&options, Role::Main).over(backend))
    });
    let network = network.transpose()?;
    let mut counted = Vec::new();
    for (index, path) in args.files.iter().enumerate() {
        let mut one = count(path, network.as_deref())?;
        one.sc_limit = args.sc_limits.get(index).copied().or(one.sc_limit);
        counted.push(one);
    }
    let totals = combine(&counted);
    if args.network.is_some() && totals.summary.policy.is_none() {
        terminal::eprint_line(
            "scorn: --network is for self-play's records, and none of these files holds any",
        );
    }
    if args.json {
        print_line!("{}", serde_json::to_string(&totals)?);
    } else {
        for one in totals.files.iter().chain([&totals]) {
            if let Some(text) = text(one) {
                print_line!("{text}");
            }
        }
    }
    if let Some(file) = html {
        let files = if totals.files.is_empty() {
            std::slice::from_ref(&totals)
        } else {
            &totals.files
        };
        file.finish_with(page(files)?.as_bytes())?;
    }
    if totals.broken > 0 {
        bail!(
            "{} could not be read",
            terminal::counted(totals.broken, "game")
        );
    }
    Ok(())
}

/// File name endings of games and records in a folder.
const IN_FOLDER: [&str; 4] = [".pgn", ".pgn.gz", ".pgn.zst", ".vis"];

/// Counts a file, or those of a folder as one.
fn count(path: &Path, network: Option<&dyn Evaluator>) -> Result<Counted> {
    let mut counted = Counted {
        name: path.display().to_string(),
        stats: GameStats::default(),
        sc_limit: None,
        broken: 0,
        path: Vec::new(),
    };
    let files = match path.is_dir() {
        true => {
            counted.path = controllers_path(path)?;
            files::of_folder(path, &IN_FOLDER)?
        }
        false => vec![path.to_owned()],
    };
    let mut limits: BTreeSet<u64> = BTreeSet::new();
    for file in &files {
        if file.is_file() && is_searched(file)? {
            let policies = policy_stats::count(file, network)?;
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
    let mut files = Vec::new();
    for one in counted {
        all.append(&one.stats);
        files.push(FileStats {
            file: Some(one.name.clone()),
            sc_limit: one.sc_limit,
            summary: one.stats.summary(),
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
        broken: files.iter().map(|file| file.broken).sum(),
        path: Vec::new(),
        files,
    }
}

/// The statistics as text; `None` if nothing was counted.
fn text(totals: &FileStats) -> Option<String> {
    let summary = &totals.summary;
    let name = totals.file.as_deref().unwrap_or("all files");
    let searches = summary.policy.as_ref().map(searches_text);
    if summary.games == 0 {
        // Only records.
        return searches.map(|searches| format!("{name}:\n{searches}"));
    }
    let share = |count: u64| 100.0 * count as f64 / summary.games as f64;
    let repeated = paper::REPEATED_AT.map(|k| format!("{k}: {:.2}", summary.repeated[&k]));
    let openings = summary.openings.iter().map(|(moves, diversity)| {
        format!(
            "{moves}: {} ({:.1})",
            diversity.distinct, diversity.effective
        )
    });
    let phases = summary.phases.iter().map(|(phase, count)| {
        let (name, decisive, draws) = (phase.name(), count.decisive, count.draws);
        format!("{name} {decisive} decisive, {draws} drawn")
    });
    let mut lines = vec![
        format!("{name}: {}", terminal::counted(summary.games, "game")),
        format!(
            "  1-0 {} ({:.1} %), drawn {} ({:.1} %), 0-1 {} ({:.1} %), unfinished {}",
            summary.white,
            share(summary.white),
            summary.draws,
            share(summary.draws),
            summary.black,
            share(summary.black),
            summary.unfinished
        ),
        format!("  (w+l)/d {}", ratio_text(summary)),
        format!(
            "  plies: mean {:.1}, median {}, {} to {}",
            summary.mean_plies, summary.median_plies, summary.shortest_plies, summary.longest_plies
        ),
        format!("  repeated at move {}", repeated.join(", ")),
        format!(
            "  openings by moves, different (effective): {}",
            openings.collect::<Vec<_>>().join(", ")
        ),
        format!("  ended in the {}", phases.collect::<Vec<_>>().join("; ")),
    ];
    lines.extend(searches);
    lines.extend(path_text(&totals.path));
    Some(lines.join("\n"))
}

fn path_text(path: &[Step]) -> Option<String> {
    let limits: Vec<String> = path.iter().map(|step| step.sc_limit.to_string()).collect();
    let last = path.last()?;
    Some(format!(
        "  ScLimit by batches: {}, next {} with {} nodes",
        limits.join(", "),
        last.next_sc_limit,
        last.next_nodes
    ))
}

fn searches_text(policy: &PolicySummary) -> String {
    let divergence = policy.divergence;
    let divergence = divergence.map_or(String::new(), |d| format!(", divergence {d:.3}"));
    format!(
        "  searches: {} positions, policy entropy {:.3}{divergence}",
        policy.positions, policy.entropy
    )
}

fn ratio_text(summary: &Summary) -> String {
    let number = |x: Option<f64>| x.map_or("unbounded".to_owned(), |x| format!("{x:.2}"));
    let (low, high) = summary.decisive_per_draw_interval;
    match summary.decisive_per_draw {
        Some(ratio) => format!("{ratio:.2} ({} to {})", number(low), number(high)),
        None if summary.white + summary.black == 0 => "unknown: no game is finished".to_owned(),
        None => format!("without draws (at least {})", number(low)),
    }
}
