//! `scorn analyze`: evaluates positions or whole games, with output as text, as JSON lines, as a page or as annotated
//! games. Every position is searched with a tree of its own, so an interrupted job can be resumed with the same
//! results.

mod output;

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use shakmaty::Color;

use self::output::ResultOutput;
use crate::{
    analysis::{
        annotate,
        input::{self, Item, Items},
        opponents::{self, Opponents},
        position::{Analyzer, has_practical_search},
        report,
        review::{GameReview, Reviewer},
        suite::SuiteScore,
    },
    files::output::{NewFile, UnfinishedFiles, check_different},
    hashing::sha256,
    interrupt,
    network::{
        load::identity::{files_of, identities},
        opponent,
    },
    options::{
        Effect, Options,
        layers::{OptionSource, Resolved},
    },
    player::{Load, Player},
    search::{Limits, StopSignal},
    terminal::{self, eprint_line},
};

/// Nodes per position if no limit is given.
const DEFAULT_NODES: u64 = 10_000;

/// Defaults for whole games: the number of lines, and ScLimit, after which mistakes have about as many visits as people
/// make them (docs/analysis.md).
const REVIEW_LINES: usize = 4;
const REVIEW_LIMIT: i32 = 1000;

/// Printed below the options.
const EXAMPLES: &str = "\
Examples:
  scorn analyze game.pgn
  scorn analyze --fen startpos --nodes 5000
  scorn analyze --epd tests.epd --movetime 1000
  scorn analyze --pgn games.pgn.zst --nodes 800 --json --output games.jsonl
  scorn analyze --pgn games.pgn --html report.html --annotate annotated.pgn";

/// Analyse positions or games.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("positions").required(true).multiple(true).args(["file", "fen", "epd", "pgn"])))]
#[command(group(clap::ArgGroup::new("games").multiple(true).args(["file", "pgn"])))]
#[command(group(clap::ArgGroup::new("objects").multiple(true).args(["json", "output"])))]
pub struct AnalyzeArgs {
    /// Files of games (.pgn) or positions (.epd, .fen); the extension selects --pgn or --epd. Several files are
    /// analysed as if they were one.
    #[arg(value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Position to analyse: a FEN or "startpos", with "moves e2e4 e7e5" after it for the moves of a game; may be
    /// given several times.
    #[arg(long, value_name = "FEN", conflicts_with_all = ["file", "epd", "pgn"])]
    pub fen: Vec<String>,
    /// File of positions, one per line; the engine's move is compared with the operations bm (best moves) and am (moves
    /// to avoid). May be .gz or .zst; "-" is standard input. May be given several times.
    #[arg(long, value_name = "FILE", conflicts_with = "pgn")]
    pub epd: Vec<PathBuf>,
    /// File of games: every position of the main line is analysed. May be .gz or .zst; "-" is standard input. May be
    /// given several times.
    #[arg(long, value_name = "FILE")]
    pub pgn: Vec<PathBuf>,
    /// Nodes per position [default: 10000, unless --movetime is given].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub nodes: Option<u64>,
    /// Milliseconds per position.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub movetime: Option<u64>,
    /// Print one JSON object per position.
    #[arg(long)]
    pub json: bool,
    /// Include visits, prior and value of every move in the objects of --json or --output.
    #[arg(long, requires = "objects")]
    pub moves: bool,
    /// Write JSON lines to this file and nothing to standard output; if it exists, the analysis is resumed after its
    /// last position. "-" is standard output.
    #[arg(long, short, alias = "out", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write an HTML page about the games to this file: board, moves, graphs, lines, traps. The page needs no other
    /// files. ScLimit becomes 1000, unless it is set, and MultiPV at least 4. Each position is searched at least twice,
    /// and likely traps with ten times the nodes.
    #[arg(long, value_name = "FILE", requires = "games", conflicts_with_all = ["fen", "epd"])]
    pub html: Option<PathBuf>,
    /// Write the games to this file with evaluations, glyphs for mistakes and comments about traps, which replace
    /// their comments and variations; clock times are kept. ScLimit becomes 1000, unless it is set, and MultiPV at
    /// least 4. Each position is searched at least twice, and likely traps with ten times the nodes.
    #[arg(long, value_name = "FILE", requires = "games", conflicts_with_all = ["fen", "epd"])]
    pub annotate: Option<PathBuf>,
    /// Overwrite the files of --html and --annotate if they exist.
    #[arg(long)]
    pub force: bool,
}

/// The version of how records are made, which is raised when the same search gives others: earlier records are not
/// mixed with them.
const RECORDS_VERSION: u32 = 5;

impl AnalyzeArgs {
    /// With the files without a flag among those with one: games or positions, by their names.
    fn with_named_files(&self) -> Result<AnalyzeArgs> {
        let mut args = self.clone();
        for path in args.file.drain(..) {
            let name = path.to_string_lossy().to_lowercase();
            let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
            let (is_games, is_positions) = (
                name.ends_with(".pgn"),
                name.ends_with(".epd") || name.ends_with(".fen"),
            );
            ensure!(
                is_games || is_positions,
                "{}: neither .pgn nor .epd nor .fen: use --pgn FILE for games, --epd FILE for positions (--pgn - and \
                 --epd - read standard input)",
                path.display()
            );
            ensure!(
                is_games || !self.is_reviewed(),
                "{}: --html and --annotate need games, not positions",
                path.display()
            );
            if is_games {
                args.pgn.push(path);
            } else {
                args.epd.push(path);
            }
        }
        if let (Some(games), Some(positions)) = (args.pgn.first(), args.epd.first()) {
            bail!(
                "{} has games and {} has positions: they are analysed one after the other, with a command each",
                games.display(),
                positions.display()
            );
        }
        let files = args.pgn.iter().chain(&args.epd);
        let standard_input = files.filter(|path| path.as_os_str() == "-").count();
        ensure!(standard_input <= 1, "standard input can be read only once");
        Ok(args)
    }

    /// Whether whole games are reviewed.
    fn is_reviewed(&self) -> bool {
        self.html.is_some() || self.annotate.is_some()
    }

    /// The options, with those that a review of whole games needs.
    fn options(&self, mut resolved: Resolved) -> Options {
        if resolved.options().analyse_mode {
            resolved.override_by(OptionSource::Analysis, Options::disable_randomness);
        }
        if self.is_reviewed() {
            let is_limit_set = resolved.source_of("ScLimit") != OptionSource::Default;
            resolved.override_by(OptionSource::Command, |options| {
                options.multi_pv = options.multi_pv.max(REVIEW_LINES);
                if !is_limit_set {
                    options.sc_limit = REVIEW_LIMIT;
                }
            });
        }
        resolved.into_options()
    }

    fn items(&self) -> Result<Items> {
        if !self.epd.is_empty() {
            return input::from_epd(&self.epd);
        }
        if !self.pgn.is_empty() {
            return input::from_pgn(&self.pgn);
        }
        let items: Result<Vec<Item>> = self.fen.iter().map(|fen| input::from_fen(fen)).collect();
        Ok(Box::new(items?.into_iter().map(Ok)))
    }

    /// The number of positions for a progress bar that is seen, if they can be counted without being consumed: a pipe
    /// can be read only once.
    fn count(&self) -> Result<Option<u64>> {
        let is_read_once =
            |path: &PathBuf| path.as_os_str() == "-" || (path.exists() && !path.is_file());
        if self.epd.iter().chain(&self.pgn).any(is_read_once) {
            return Ok(None);
        }
        let items = self.items()?;
        Ok(io::stderr().is_terminal().then(|| items.count() as u64))
    }

    /// The input files, which must not be overwritten: positions and networks.
    fn inputs(&self, options: &Options) -> Vec<PathBuf> {
        let positions = self.epd.iter().chain(&self.pgn).cloned();
        positions.chain(files_of(options)).collect()
    }

    fn limits(&self, options: &Options) -> Limits {
        let nodes = options.limited(self.nodes);
        let default = self.movetime.is_none().then_some(DEFAULT_NODES);
        Limits {
            nodes: nodes.or(default),
            movetime: self.movetime.map(Duration::from_millis),
            ..Limits::default()
        }
    }

    /// The fingerprint with the models of the players, who in a review depend on the game.
    fn settings_of(&self, settings: &str, options: &Options, item: &Item) -> String {
        if !self.is_reviewed() {
            return settings.to_owned();
        }
        let model = |side| {
            let weights = opponents::weights(options, item, side);
            (weights, opponents::rating(options, item, side))
        };
        let models = Color::ALL.map(model);
        sha256(format!("{settings} {models:?}").as_bytes())[..16].to_owned()
    }

    /// A fingerprint of everything that determines the results: limits, networks and options.
    fn settings(&self, options: &Options) -> Result<String> {
        let deciding = options.with_defaults_where(|row| match row.effect {
            // Networks are identified by their contents.
            Effect::Speed | Effect::Weights => true,
            Effect::Output => row.is_only_uci,
            Effect::Play | Effect::Tables | Effect::Clock => false,
        });
        let (limits, networks) = (self.limits(options), identities(options)?);
        let settings = format!(
            "{RECORDS_VERSION} {limits:?} {} {} {networks:?} {deciding:?}",
            self.moves,
            self.is_reviewed()
        );
        Ok(sha256(settings.as_bytes())[..16].to_owned())
    }
}

/// Runs `scorn analyze`.
///
/// # Errors
/// When the network cannot be loaded, a file cannot be read or written, or some positions are invalid (the others are
/// analysed nevertheless).
pub fn run(args: &AnalyzeArgs, resolved: Resolved, load: &Load) -> Result<()> {
    analyze(&args.with_named_files()?, resolved, load)
}

fn analyze(args: &AnalyzeArgs, resolved: Resolved, load: &Load) -> Result<()> {
    let options = args.options(resolved);
    let count = args.count()?;
    let limits = args.limits(&options);
    // Files are created only when the input could be opened and the network loaded.
    let player = Player::load(options.clone(), load)?;
    let settings = args.settings(&options)?;
    let inputs = args.inputs(&options);
    let stop = StopSignal::default();
    let signal = stop.clone();
    let unfinished = UnfinishedFiles::default();
    let left = unfinished.clone();
    // Before there are unfinished files. Without handlers, signals end the program as usual.
    let _ = interrupt::catch(move || signal.stop(), move || left.remove());
    let pages = Pages::create(args, &inputs, &unfinished)?;
    let writer = ResultOutput::new(args, &inputs)?;
    let opponents = if args.is_reviewed() {
        Opponents::new(player.clone(), Arc::clone(load))
    } else {
        None
    };
    // Reviews need the model for likely mistakes, too, whatever the searches use.
    let idle = match &opponents {
        Some(_) => None,
        None => opponent::why_idle(&player.options),
    };
    let reads_mover = player.networks.main.info().reads_mover;
    let missing_side = opponent::why_side_is_missing(&player.options, reads_mover);
    for reason in idle.into_iter().chain(missing_side) {
        eprint_line(format_args!("scorn: {reason}"));
    }
    let about = search_settings(&limits, &player.options, opponents.is_some());
    let mut batch = BatchAnalysis {
        args,
        settings,
        analyzer: Analyzer::new(player, limits, args.moves, opponents, stop.clone()),
        writer,
        bar: progress_bar(count),
        reviewer: Reviewer::default(),
        score: SuiteScore::default(),
        good: 0,
        bad: 0,
    };
    batch.analyze(&stop)?;
    batch.bar.finish_and_clear();
    if let Some(text) = batch.score.text() {
        eprint_line(format_args!("{text}"));
    }
    if stop.is_stopped() {
        return batch.end_early(pages, &about);
    }
    batch.writer.check_complete()?;
    ensure!(
        batch.good + batch.bad > 0,
        "there are no positions in this input"
    );
    if batch.good == 0 {
        // Nothing replaces an earlier page.
        return check_all_valid(batch.bad);
    }
    pages.write(args, &batch.reviewer.finish(), &about)?;
    check_all_valid(batch.bad)
}

/// The analysis of one position after the other.
struct BatchAnalysis<'a> {
    args: &'a AnalyzeArgs,
    /// The fingerprint of all that determines the results, except the models of the players.
    settings: String,
    analyzer: Analyzer,
    writer: ResultOutput,
    bar: ProgressBar,
    reviewer: Reviewer,
    score: SuiteScore,
    /// Number of positions with a result.
    good: u64,
    /// Number of positions or games that are invalid.
    bad: u64,
}

impl BatchAnalysis<'_> {
    /// Analyses all positions, or those before `stop` was set.
    fn analyze(&mut self, stop: &StopSignal) -> Result<()> {
        for item in self.args.items()? {
            self.bar.inc(1);
            let item = match item {
                Ok(item) => item,
                Err(error) => {
                    self.bad += 1;
                    let print = || eprint_line(format_args!("scorn: {error:#}"));
                    self.bar.suspend(print);
                    continue;
                }
            };
            let options = self.analyzer.options();
            let settings = self.args.settings_of(&self.settings, options, &item);
            if let Some(earlier) = self.writer.already_done(&item, &settings)? {
                self.good += 1;
                self.score.add(earlier.solved, earlier.solution);
                if let Some(record) = earlier.record {
                    self.reviewer.add(&item, record);
                }
                continue;
            }
            let mut record = self.analyzer.analyze(&item)?;
            if stop.is_stopped() {
                self.reviewer.remove_game_of(&item);
                return Ok(());
            }
            record.settings = settings;
            self.bar.suspend(|| self.writer.write(&record, &item))?;
            self.good += 1;
            self.score.add(record.solved, record.solution);
            if self.args.is_reviewed() {
                self.reviewer.add(&item, record);
            } else if !self.writer.is_read() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Ends an analysis that was stopped. If it cannot be continued, the pages are written with the games that are
    /// complete.
    fn end_early(self, pages: Pages, search_settings: &str) -> Result<()> {
        let count = terminal::counted(self.good, "position");
        let stopped = format!("the analysis was stopped after {count}");
        ensure!(
            !self.writer.can_be_continued(),
            "{stopped}: the same command continues it"
        );
        let games = self.reviewer.finish();
        ensure!(
            !games.is_empty(),
            "{stopped}: an analysis with --output FILE can be continued"
        );
        pages.write(self.args, &games, search_settings)?;
        let games = terminal::counted(games.len() as u64, "complete game");
        bail!("{stopped}, {games}: an analysis with --output FILE can be continued")
    }
}

/// An error if some of the input was invalid.
fn check_all_valid(bad: u64) -> Result<()> {
    match bad {
        0 => Ok(()),
        1 => bail!("one position or game is invalid"),
        _ => bail!("{bad} positions or games are invalid"),
    }
}

/// The search settings as text.
fn search_settings(limits: &Limits, options: &Options, has_models: bool) -> String {
    let nodes = limits.nodes.map(|nodes| format!("{nodes} nodes"));
    let time = limits
        .movetime
        .map(|time| format!("{} ms", time.as_millis()));
    let limits: Vec<String> = nodes.into_iter().chain(time).collect();
    let is_practical = has_practical_search(options);
    let contempt = if is_practical {
        format!("ScLimit {}", options.sc_limit)
    } else {
        "plain PUCT".to_owned()
    };
    let named = opponent::Role::Opponent.weights(options);
    let players = named.map_or_else(
        || "players with the ratings of the file, or 1900 without one".to_owned(),
        |weights| opponents::described(&weights),
    );
    // Without a share in the priors, the model has no part in the practical search.
    let models = match (
        has_models,
        is_practical && options.opponent_policy_mix > 0.0,
    ) {
        (true, true) => format!("practical values against {players}"),
        (true, false) => format!("likely mistakes of {players}"),
        (false, _) => "no traps: there is no model of the players".to_owned(),
    };
    format!("{} a position, {contempt}, {models}", limits.join(" or "))
}

/// The files with reviews of whole games.
struct Pages {
    html: Option<NewFile>,
    annotated_pgn: Option<NewFile>,
}

impl Pages {
    /// Creates the files before anything is computed, and adds them to `unfinished`.
    fn create(
        args: &AnalyzeArgs,
        inputs: &[PathBuf],
        unfinished: &UnfinishedFiles,
    ) -> Result<Pages> {
        let outputs = [&args.html, &args.annotate, &args.output];
        check_different(outputs.into_iter().flatten())?;
        let create = |path: &Option<PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            let file = NewFile::create(path, args.force, inputs)?;
            unfinished.add(&file);
            anyhow::Ok(Some(file))
        };
        Ok(Pages {
            html: create(&args.html)?,
            annotated_pgn: create(&args.annotate)?,
        })
    }

    fn write(self, args: &AnalyzeArgs, games: &[GameReview], search_settings: &str) -> Result<()> {
        type Text<'a> = &'a dyn Fn() -> Result<String>;
        let put = |file: Option<NewFile>, path: &Option<PathBuf>, text: Text<'_>| {
            if let (Some(file), Some(path)) = (file, path) {
                file.finish_with(text()?.as_bytes())?;
                eprint_line(format_args!("scorn: written to {}", path.display()));
            }
            Ok(())
        };
        let source = source(&args.pgn);
        let page = || report::page(games, &source, search_settings);
        let html = put(self.html, &args.html, &page);
        // Hours of work are not lost with the page: the other file may be on another disk.
        let annotated = || Ok(games.iter().map(annotate::annotated_pgn).collect());
        html.and(put(self.annotated_pgn, &args.annotate, &annotated))
    }
}

/// The files of games as the title of a page.
fn source(files: &[PathBuf]) -> String {
    let name = |path: &PathBuf| match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.file_name().unwrap_or_default().display().to_string(),
    };
    let first = files.first().map(name).unwrap_or_default();
    match files.len() {
        0 | 1 => first,
        count => {
            let others = terminal::counted(count as u64 - 1, "other file");
            format!("{first} and {others}")
        }
    }
}

/// A progress bar, shown on a terminal if there is more than one position.
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
