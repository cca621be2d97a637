//! `scorn selfplay`: games of the program against itself, for statistics and for training.

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use shakmaty::Color;

use super::open_tables;
use crate::{
    dataset::searched::Samples,
    network::{
        Evaluator,
        load::wishes::adapted,
        opponent::{self, Networks},
    },
    options::{ONLY_UCI, Options, ScSampling, settings},
    player::Load,
    selfplay::{
        adjudicate::{DrawRule, RuleError, Rules, WinRule},
        chunk,
        controller::{Aim, Controller},
        driver::{self, GamesProgress},
        manifest,
        openings::Book,
        plan::{Colors, Contestant, Plan, PlayoutCap, RandomPlies, Resign, Starts, Terms},
        played::{By, Played, PlayedMove, Seat},
        records::{Sides, for_each_sample, samples_of},
        store::{GameFacts, GameTally, Store, StoredGame},
    },
    syzygy::Tables,
    terminal::tell,
};

/// Where `--balance` begins: the paper's first limit.
const FIRST_LIMIT: u32 = 5;
/// From here on there is no search-contempt (the default of `ScLimit`).
const PLAIN_PUCT: u32 = 1_000_000_000;

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
    fn settings(self) -> [(&'static str, &'static str); 3] {
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
    index: u64,
    count: u64,
}

fn shard(text: &str) -> Result<Shard, String> {
    let error = || format!("'{text}' is not as in 2/8");
    let (index, count) = text.split_once('/').ok_or_else(error)?;
    let index: u64 = index.parse().map_err(|_| error())?;
    let count: u64 = count.parse().map_err(|_| error())?;
    if index == 0 || index > count {
        return Err(error());
    }
    Ok(Shard {
        index: index - 1,
        count,
    })
}

fn share(text: &str) -> Result<f64, String> {
    number_from(0.0..=1.0, text)
}

fn percent(text: &str) -> Result<f64, String> {
    number_from(0.0..=100.0, text)
}

fn ratio(text: &str) -> Result<f64, String> {
    number_from(0.01..=100.0, text)
}

fn number_from(range: RangeInclusive<f64>, text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| range.contains(value));
    value.ok_or_else(|| {
        let (start, end) = (range.start(), range.end());
        format!("'{text}' is not a number from {start} to {end}")
    })
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

/// Runs `scorn selfplay`.
///
/// # Errors
/// When the options, the book, a network or the folder cannot be used; the folder stays as it is then.
pub fn command(
    args: &SelfplayArgs,
    options: &Options,
    by_hand: &BTreeSet<&'static str>,
    load: &Load,
) -> Result<()> {
    ensure!(
        options.ram_limit_mb == 0 && options.nps_limit == 0.0,
        "RamLimitMb and NodesPerSecondLimit mean nothing to self-play: memory grows with --parallel and --nodes"
    );
    check_analyse_mode(options)?;
    let set_by_tau = Tau::Tau1.settings().map(|(name, _)| name);
    if let Some(name) = set_by_tau.iter().find(|name| by_hand.contains(*name))
        && args.tau.is_some()
    {
        bail!("--tau sets {name}, too: give one or the other");
    }
    let mut plan = plan(args, options, by_hand, load)?;
    let different = different_games(&plan);
    if different.is_some_and(|different| different < args.games) {
        tell(format_args!(
            "scorn: there is no temperature, no noise and no random ply: there are only {} different games",
            different.unwrap_or_default()
        ));
    }
    let mut balance = balance(args, &mut plan)?;
    let work = work(args, options, &plan);
    let numbers: Vec<u64> = (0..args.games)
        .filter(|number| number % args.shard.count == args.shard.index)
        .collect();
    ensure!(!numbers.is_empty(), "this part has no games");
    let manifest = manifest(args, &plan)?;
    let part_size = args.games_per_file as usize;
    let store = Store::open(
        &args.out,
        &manifest,
        numbers.clone(),
        part_size,
        args.resume,
    )?;
    let mut run = SelfplayRun {
        args,
        display: Display::new(numbers.len() as u64),
        store,
    };
    run.display.begin(&run.store);
    let batch = balance
        .as_ref()
        .map_or(numbers.len(), |_| args.balance_games as usize);
    for numbers in numbers.chunks(batch) {
        if let Some(controller) = &balance {
            set_limits(&mut plan, controller, args.odds.is_some());
        }
        run.play(&plan, numbers, work)?;
        if let Some(controller) = &mut balance {
            run.update(controller, numbers)?;
        }
    }
    run.display.bar.finish_and_clear();
    let sum = run.store.finish()?;
    report(args, &run, balance.as_ref(), &sum)
}

/// An analysis has neither temperature nor noise.
fn check_analyse_mode(options: &Options) -> Result<()> {
    ensure!(
        !options.analyse_mode,
        "UCI_AnalyseMode means nothing to self-play: leave out the temperature and the noise"
    );
    Ok(())
}

/// How many games differ by where they begin and who is who, if nothing is left to chance.
fn different_games(plan: &Plan) -> Option<u64> {
    let is_left_to_chance = |player: &Contestant| {
        let options = &player.options;
        let is_drawn = options.sc_limit.unsigned_abs() < PLAIN_PUCT
            && options.sc_sampling == ScSampling::Thompson;
        let is_mixed = plan.terms.cap.is_some_and(|cap| cap.nodes < player.nodes);
        let temperatures = [options.temperature, options.temp_endgame];
        is_drawn || is_mixed || temperatures.iter().any(|&t| t > 0.0) || options.noise_epsilon > 0.0
    };
    if plan.terms.random.is_some() || plan.players.iter().any(is_left_to_chance) {
        return None;
    }
    let starts = match (&plan.starts, plan.colors) {
        (Starts::Odds(_), Colors::Fixed(_)) => 1,
        (Starts::Odds(_), Colors::Both) => 2,
        (Starts::Book(openings), Colors::Fixed(_)) => openings.len(),
        (Starts::Book(openings), Colors::Both) => 2 * openings.len(),
    };
    Some(starts as u64)
}

/// The controller that was asked for.
fn balance(args: &SelfplayArgs, plan: &mut Plan) -> Result<Option<Controller>> {
    let Some(target) = args.balance else {
        return Ok(None);
    };
    let [first, second] = &mut plan.players;
    let limit = first.options.sc_limit;
    if args.odds.is_some() && second.options.sc_limit == limit {
        // What was said for both is where the giver begins.
        second.set_limits(PLAIN_PUCT as i32, second.nodes);
    }
    ensure!(
        args.shard.count == 1,
        "--balance needs all games to find its limits: a shard of them would find others"
    );
    ensure!(
        args.odds.is_none()
            || (second.options.sc_limit as u32 >= PLAIN_PUCT && second.nodes == first.nodes),
        "--balance at odds sets the second side's nodes, and it searches without ScLimit"
    );
    ensure!(
        args.odds.is_some() || (limit == second.options.sc_limit && first.nodes == second.nodes),
        "--balance moves the limit and the nodes of both sides together: they must begin alike"
    );
    ensure!(limit >= 0, "--balance needs a positive ScLimit");
    let start = match limit as u32 {
        PLAIN_PUCT.. => FIRST_LIMIT,
        limit => limit,
    };
    let aim = Aim {
        target,
        games: args.balance_games,
        most_nodes: args.double_nodes,
    };
    let controller = Controller::new(aim, start, first.nodes);
    set_limits(plan, &controller, args.odds.is_some());
    Ok(Some(controller))
}

/// Both sides with the same limit and nodes; or the giver of odds with the limit, and the receiver with so many nodes.
fn set_limits(plan: &mut Plan, controller: &Controller, is_odds: bool) {
    let (limit, nodes) = (controller.sc_limit(), controller.nodes());
    let [first, second] = &mut plan.players;
    first.set_limits(limit as i32, nodes);
    if is_odds {
        second.set_limits(PLAIN_PUCT as i32, u64::from(limit));
    } else {
        second.set_limits(limit as i32, nodes);
    }
}

fn manifest(args: &SelfplayArgs, plan: &Plan) -> Result<Map<String, Value>> {
    let mut manifest = manifest::of(plan)?;
    let shard = format!("{}/{}", args.shard.index + 1, args.shard.count);
    let sides = args.record_side.sides().0;
    let balance = args.balance.map(|target| {
        json!({
            "target": target,
            "games": args.balance_games,
            "most_nodes": args.double_nodes,
            "odds": args.odds.is_some(),
        })
    });
    let training = json!({
        "records": args.records,
        "chunks": args.chunks,
        "a": sides[0],
        "b": sides[1],
        "frozen": "bit 15 of a visit entry's move; frozen_samples in summary.json",
    });
    for (name, value) in [
        ("games", json!(args.games)),
        ("games_per_file", json!(args.games_per_file)),
        ("shard", json!(shard)),
        ("balance", json!(balance)),
        ("training", training),
    ] {
        manifest.insert(name.to_owned(), value);
    }
    Ok(manifest)
}

/// A run under way.
struct SelfplayRun<'a> {
    args: &'a SelfplayArgs,
    store: Store,
    display: Display,
}

impl SelfplayRun<'_> {
    /// Plays those of the games that are not there yet.
    fn play(&mut self, plan: &Plan, numbers: &[u64], work: driver::Workload) -> Result<()> {
        let is_missing = |number: &u64| !self.store.facts().contains_key(number);
        let missing: Vec<u64> = numbers.iter().copied().filter(is_missing).collect();
        let progress = Arc::clone(&self.display.progress);
        driver::play(plan, &missing, work, &progress, |played| {
            let (game, chunk) = self.stored(plan, &played)?;
            self.display.add(&game.facts);
            self.store.add(game, chunk.as_deref())
        })
    }

    /// What is kept of a game, and its chunk.
    fn stored(&self, plan: &Plan, played: &Played) -> Result<(StoredGame, Option<Vec<u8>>)> {
        let (args, sides) = (self.args, self.args.record_side.sides());
        let fill = [0, 1].map(|player: usize| plan.players[player].options.history_fill);
        let chunk = match args.chunks {
            true => chunk::of_game(played, sides, fill)?,
            false => None,
        };
        let samples = match args.records {
            true => samples_of(played, sides),
            false => Samples::default(),
        };
        let (mut count, mut frozen) = (0, 0);
        if args.records || args.chunks {
            for_each_sample(played, sides, |sample| {
                count += 1;
                frozen += u64::from(sample.is_frozen());
            });
        }
        let is_search = |played: &&PlayedMove| matches!(played.by, By::Search(_));
        let facts = GameFacts {
            number: played.number,
            result: played.outcome.as_str().to_owned(),
            white: played.white,
            plies: played.moves.len(),
            searches: played.moves.iter().filter(is_search).count(),
            nodes: played.nodes,
            would_resign: played.would_resign.is_some(),
            false_resignation: played.is_false_resignation(),
            samples: count,
            frozen_samples: frozen,
            chunk: None,
        };
        let pgn = played.pgn([seat(plan, played.white), seat(plan, 1 - played.white)]);
        Ok((
            StoredGame {
                facts,
                pgn,
                samples,
            },
            chunk,
        ))
    }

    /// Tells the controller how a batch ended, and keeps its path.
    fn update(&mut self, controller: &mut Controller, numbers: &[u64]) -> Result<()> {
        let mut tally = GameTally::default();
        let games = numbers
            .iter()
            .filter_map(|number| self.store.facts().get(number));
        games.for_each(|game| tally.add(game));
        controller.update(tally.white + tally.black, tally.draws);
        if let Some(step) = controller.path().last() {
            let (batch, limit, nodes) = (step.batch, step.next_sc_limit, step.next_nodes);
            let text = format!(
                "batch {batch}: (w+l)/d {:.2}, next ScLimit {limit}, nodes {nodes}",
                step.ratio
            );
            self.display.say(&text);
        }
        let lines = controller.lines()?;
        self.store.write_file("balance.jsonl", lines.as_bytes())
    }
}

fn seat(plan: &Plan, player: usize) -> Seat<'_> {
    let player = &plan.players[player];
    Seat {
        name: &player.name,
        nodes: player.nodes,
        sc_limit: player.options.sc_limit,
    }
}

fn plan(
    args: &SelfplayArgs,
    options: &Options,
    by_hand: &BTreeSet<&'static str>,
    load: &Load,
) -> Result<Plan> {
    let mut both = options.clone();
    for (name, value) in args.tau.iter().flat_map(|tau| tau.settings()) {
        both.set(name, value)?;
    }
    let side = |text: &str, name| {
        let options = side_options(&both, by_hand, text);
        options.with_context(|| format!("--{name} {text}"))
    };
    let sides = [side(&args.a, "a")?, side(&args.b, "b")?];
    let starts = match (&args.book, &args.odds) {
        (Some(path), _) => {
            let seed = (!args.in_order).then_some(options.seed);
            Starts::book(&Book::open(path)?, seed)
        }
        (None, Some(odds)) => Starts::odds(odds)?,
        (None, None) => Starts::book(&Book::standard(), None),
    };
    let terms = terms(args, options)?;
    let networks = networks(&sides, load)?;
    let [first, second] = &sides;
    let names = if first == second {
        ["Scorn", "Scorn"]
    } else {
        ["Scorn A", "Scorn B"]
    };
    let mut players = [
        Contestant::new(
            names[0],
            first.clone(),
            nodes(args, first),
            networks[0].clone(),
        ),
        Contestant::new(
            names[1],
            second.clone(),
            nodes(args, second),
            networks[1].clone(),
        ),
    ];
    for player in &mut players {
        player.tables = tables(&player.options.syzygy_path)?;
    }
    let colors = match args.a_plays {
        ColorChoice::White => Colors::Fixed(Color::White),
        ColorChoice::Black => Colors::Fixed(Color::Black),
        ColorChoice::Both => Colors::Both,
    };
    Ok(Plan::new(players, colors, starts, terms, options.seed))
}

/// The options of one side. What concerns the whole run cannot be a side's.
fn side_options(both: &Options, by_hand: &BTreeSet<&'static str>, text: &str) -> Result<Options> {
    let (mut options, mut by_hand) = (both.clone(), by_hand.clone());
    for setting in settings(text) {
        let (name, value) = setting?;
        options.set(name, value)?;
        let known = Options::name_of(name);
        let is_meant = known.is_none_or(|name| !ONLY_UCI.contains(&name));
        ensure!(is_meant, "{name} means nothing to self-play");
        by_hand.extend(known);
    }
    let options = adapted(options, &by_hand);
    check_analyse_mode(&options)?;
    ensure!(
        (options.seed, options.threads) == (both.seed, both.threads),
        "Seed and Threads are the run's"
    );
    ensure!(
        options.ram_limit_mb == 0 && options.nps_limit == 0.0,
        "RamLimitMb and NodesPerSecondLimit mean nothing to self-play"
    );
    if let Some(reason) = opponent::why_idle(&options) {
        tell(format_args!("scorn: {reason}"));
    }
    Ok(options)
}

fn nodes(args: &SelfplayArgs, options: &Options) -> u64 {
    match options.node_limit {
        0 => args.nodes,
        limit => limit,
    }
}

/// The networks of both sides; if both ask for the same they share them, so that their positions fill one batch.
fn networks(sides: &[Options; 2], load: &Load) -> Result<[Networks; 2]> {
    // A cache would let games depend on their neighbours.
    let sides = sides.clone().map(|options| Options {
        nn_cache_size: 0,
        ..options
    });
    let networks_of = |options: &Options| Networks::load(options, |role| load(options, role));
    let first = networks_of(&sides[0])?;
    let [a, b] = &sides;
    let is_same = a.invalidated_since(b) < crate::options::Invalidates::OpponentNetwork
        && a.policy_temperature == b.policy_temperature
        && a.opponent_policy_temperature == b.opponent_policy_temperature;
    let second = if is_same {
        first.clone()
    } else {
        networks_of(&sides[1])?
    };
    Ok([first, second])
}

fn tables(path: &str) -> Result<Option<Arc<Tables>>> {
    if path.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(open_tables(path)?)))
}

fn terms(args: &SelfplayArgs, options: &Options) -> Result<Terms> {
    let tables = match args.tables_decide {
        true => Some(tables(&options.syzygy_path)?.context("--tables-decide needs SyzygyPath")?),
        false => None,
    };
    Ok(Terms {
        rules: Rules {
            draw: args.draw_rule,
            win: args.win_rule,
            longest: Some(args.longest as usize),
            tables,
        },
        resign: args.resign.map(|percent| Resign {
            below: (percent / 100.0) as f32,
            playthrough: args.resign_playthrough / 100.0,
        }),
        random: (args.random_plies > 0).then_some(RandomPlies {
            plies: usize::from(args.random_plies),
            share: args.random_share,
        }),
        cap: args.fast_nodes.map(|nodes| PlayoutCap {
            nodes,
            full: args.full_share,
        }),
        reuse_tree: args.reuse_tree,
    })
}

/// How much to do at a time.
fn work(args: &SelfplayArgs, options: &Options, plan: &Plan) -> driver::Workload {
    let needs_batches = |evaluator: &&Arc<dyn Evaluator>| evaluator.immediate().is_none();
    let batched = plan.evaluators.iter().find(needs_batches);
    let advice = batched.unwrap_or(&plan.evaluators[0]).advice();
    let threads = match options.threads {
        0 => advice.threads.max(1),
        threads => threads,
    };
    let batch = match args.batch {
        0 => advice.minibatch.max(1),
        batch => batch as usize,
    };
    let parallel = match args.parallel {
        0 if batched.is_none() => threads,
        0 => 2 * threads * batch,
        parallel => parallel as usize,
    };
    driver::Workload {
        parallel,
        threads,
        batch,
    }
}

/// Time between two lines about the progress where there is no terminal: logs should not grow by every game.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

/// What is shown while games are played.
struct Display {
    bar: ProgressBar,
    /// When it was last told how things stand, where no bar is seen.
    told: Duration,
    progress: Arc<GamesProgress>,
    tally: GameTally,
    searches: u64,
    nodes: u64,
}

impl Display {
    fn new(games: u64) -> Display {
        let template = "{bar:20} {pos}/{len} games, {msg}, {elapsed} elapsed, {eta} to go";
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::new(games);
        let bar = match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        bar.enable_steady_tick(Duration::from_secs(1));
        Display {
            bar,
            told: Duration::ZERO,
            progress: Arc::default(),
            tally: GameTally::default(),
            searches: 0,
            nodes: 0,
        }
    }

    /// Counts the games that are there already.
    fn begin(&mut self, store: &Store) {
        store.facts().values().for_each(|game| self.tally.add(game));
        self.bar.set_position(store.facts().len() as u64);
        self.bar.reset_eta();
    }

    fn add(&mut self, game: &GameFacts) {
        self.tally.add(game);
        self.searches += game.searches as u64;
        self.nodes += game.nodes;
        let tally = &self.tally;
        let ratio = ratio_text(tally);
        let (evaluations, moves) = (
            self.evaluations_per_second(),
            self.per_second(self.searches),
        );
        let text = format!(
            "+{} ={} -{}, (w+l)/d {ratio}, {moves:.1} moves/s, {evaluations:.0} evaluations/s",
            tally.white, tally.draws, tally.black
        );
        self.bar.inc(1);
        let (games, elapsed) = (self.bar.position(), self.bar.elapsed());
        if self.bar.is_hidden() && elapsed - self.told >= BETWEEN_LINES {
            self.told = elapsed;
            tell(format_args!("{games} games, {text}"));
        }
        self.bar.set_message(text);
    }

    /// A line that stays.
    fn say(&self, text: &str) {
        match self.bar.is_hidden() {
            true => tell(text),
            false => self.bar.println(text),
        }
    }

    fn evaluations(&self) -> u64 {
        self.progress.positions.load(Ordering::Relaxed)
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.bar.elapsed().as_secs_f64().max(1e-3)
    }

    fn evaluations_per_second(&self) -> f64 {
        self.per_second(self.evaluations())
    }
}

fn ratio_text(tally: &GameTally) -> String {
    tally
        .decisive_per_draw()
        .map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// The end, for people or programs.
fn report(
    args: &SelfplayArgs,
    run: &SelfplayRun<'_>,
    balance: Option<&Controller>,
    sum: &str,
) -> Result<()> {
    let display = &run.display;
    let tally = &display.tally;
    let (evaluations, nodes) = (
        display.evaluations_per_second(),
        display.per_second(display.nodes),
    );
    let batches = display.progress.batches.load(Ordering::Relaxed);
    let mean_batch = (batches > 0).then(|| display.evaluations() as f64 / batches as f64);
    if args.json {
        let report = json!({
            "games": tally.games,
            "white": tally.white,
            "draws": tally.draws,
            "black": tally.black,
            "a": tally.first,
            "b": tally.second,
            "decisive_per_draw": tally.decisive_per_draw(),
            "sc_limit": balance.map(Controller::sc_limit),
            "sha256": sum,
            "evaluations_per_second": evaluations,
            "nodes_per_second": nodes,
            "mean_batch": mean_batch,
        });
        say!("{report}");
        return Ok(());
    }
    say!(
        "{} games: White won {}, drawn {}, Black won {}; (w+l)/d {}",
        tally.games,
        tally.white,
        tally.draws,
        tally.black,
        ratio_text(tally)
    );
    say!("A won {}, B won {}", tally.first, tally.second);
    let batches = mean_batch.map_or(String::new(), |mean| format!(" in batches of {mean:.1}"));
    say!("{evaluations:.0} evaluations/s{batches}, {nodes:.0} nodes/s");
    if let Some(controller) = balance {
        let (limit, nodes) = (controller.sc_limit(), controller.nodes());
        say!("the next ScLimit would be {limit}, with {nodes} nodes (balance.jsonl has the path)");
    }
    say!("sha256 {sum}");
    Ok(())
}
