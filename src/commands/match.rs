//! `scorn match`: a match between two engines, with openings played with both colours, error bars, a sequential test,
//! and adjudication by fixed rules.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use serde_json::json;

use super::{open_tables, print_faults};
use crate::{
    arena::{
        game::{MatchGame, MatchTerms, Termination},
        player::{Competitor, Limit, PlayerError},
        record::{GameRecord, MatchSettings},
        report::{self, MatchReport},
        run::Match,
        tally::{Round, Tally},
    },
    config_file,
    files::output::{NewFile, UnfinishedFiles, check_different},
    game::{
        adjudicate::{DrawRule, Rules, WinRule},
        openings::{Book, Opening},
    },
    hashing::{sha256, sha256_of_file},
    interrupt,
    stats::sprt::{Model, Sprt},
    terminal::{self, counted},
    uci_client,
    version::VERSION,
};

/// Printed after the first Ctrl-C.
const STOPPING: &str =
    "scorn: the match stops after the current moves; Ctrl-C again ends it at once";

/// Printed below the options.
const EXAMPLES: &str = "\
Examples:
  scorn match self \"self;WeightsFile=other.pb.gz\" --book openings.epd --nodes 800 \\
      --pgn match.pgn
  scorn match \"self;Threads=1\" \"stockfish;Threads=1\" --tc 10+0.1 --concurrency 4 \\
      --book openings.epd --pairs 5000 --sprt 0,10,0.05,0.05";

/// Play two engines against each other: every opening with both colours, Elo with error bars, SPRT.
///
/// An engine is a command line with options after it, as in "stockfish;Threads=1;Skill Level=3"; "self" is this
/// program. An engine that crashes, does not answer, plays an illegal move or exceeds its time forfeits the game,
/// which is reported. With --pgn the games are written to a file, and an interrupted match is resumed by repeating
/// the command. Ctrl-C ends the match after the current moves, with its result; a second one ends it at once.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct MatchArgs {
    /// The first engine, whose score is reported: "command;Option=value;...".
    pub first: String,
    /// The second engine.
    pub second: String,
    /// Clock of a game: seconds for the game and for each move, as in 60+0.6 or 1:00+0.6, or for a number of
    /// moves, as in 40/60+0.6.
    #[arg(long, value_name = "[MOVES/]SECONDS[+SECONDS]", value_parser = clock, group = "limits")]
    pub tc: Option<Limit>,
    /// Seconds per move [default: 1, without --tc and --nodes].
    #[arg(long, value_name = "SECONDS", value_parser = move_time, group = "limits")]
    pub st: Option<Limit>,
    /// Nodes per move.
    #[arg(long, value_name = "N", value_parser = nodes, group = "limits")]
    pub nodes: Option<Limit>,
    /// Deprecated: use --nodes, --st or --tc in place of nodes=800, time=0.5 or clock=60+0.6.
    #[arg(long, hide = true, group = "limits")]
    pub limit: Option<Limit>,
    /// Limit of the second engine's moves, if it differs: nodes=800, time=0.5 (seconds per move) or clock=60+0.6 (as
    /// for --tc).
    #[arg(long, value_name = "LIMIT")]
    pub second_limit: Option<Limit>,
    /// File of openings: positions (EPD) or games (PGN); may be .gz or .zst. Without a book every game begins at the
    /// start position.
    #[arg(long, value_name = "FILE")]
    pub book: Option<PathBuf>,
    /// Order of the openings of the book.
    #[arg(long, value_enum, default_value = "random")]
    pub order: Order,
    /// Seed of the random order.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of openings; each is played with both colours.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub pairs: u32,
    /// Play each opening once, with the first engine as White, as for odds positions.
    #[arg(long)]
    pub first_is_white: bool,
    /// Number of concurrent games.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: u16,
    /// Sequential probability ratio test of Elo = ELO1 against Elo = ELO0, with error probabilities ALPHA (false
    /// acceptance of ELO1) and BETA (false rejection); the match stops when it is decided.
    #[arg(long, value_name = "ELO0,ELO1,ALPHA,BETA", allow_hyphen_values = true)]
    pub sprt: Option<Sprt>,
    /// Scale of Elo in --sprt: logistic Elo, or normalized Elo (nElo).
    #[arg(long, value_enum, default_value = "logistic", requires = "sprt")]
    pub sprt_model: Model,
    /// File of games. A match in it is resumed; its settings are written beside it (FILE.json).
    #[arg(long, value_name = "FILE")]
    pub pgn: Option<PathBuf>,
    /// Use castling rules and notation of Chess960.
    #[arg(long)]
    pub chess960: bool,
    /// Adjudicate games when both engines agree: --resign movecount=3,score=600 --draw
    /// movenumber=35,movecount=8,score=20. Both must report scores on a centipawn scale (for this program:
    /// ScoreType=centipawn).
    #[arg(long)]
    pub adjudicate: bool,
    /// Adjudicate a win when the scores of both engines agree for this many moves: movecount=MOVES,score=CENTIPAWNS.
    #[arg(long, value_name = "movecount=N,score=CP", value_parser = resign_rule)]
    pub resign: Option<WinRule>,
    /// Adjudicate a draw when all scores are at most this large for this many moves, from a move number on:
    /// movenumber=MOVE,movecount=MOVES,score=CENTIPAWNS. Earlier moves do not count (in fastchess they do, until a
    /// capture or a move of a pawn).
    #[arg(long, value_name = "movenumber=N,movecount=N,score=CP", value_parser = draw_rule)]
    pub draw: Option<DrawRule>,
    /// Adjudicate a draw after this many plies beyond the opening.
    #[arg(long, alias = "longest", value_name = "PLIES", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_plies: Option<u32>,
    /// Folders of endgame tablebases by which games are adjudicated.
    #[arg(long, value_name = "FOLDERS")]
    pub syzygy: Option<String>,
    /// Total time in milliseconds by which an engine may overstep its clock in a game before it forfeits. Each later
    /// increment first pays back what was overstepped; only the rest is added to the clock. With --st, the time by
    /// which each move may exceed its limit.
    #[arg(
        long = "time-margin",
        alias = "margin",
        value_name = "MS",
        default_value_t = 100
    )]
    pub margin: u64,
    /// Seconds after which an engine with a node limit counts as stalled.
    #[arg(
        long = "stall-timeout",
        alias = "stall",
        value_name = "SECONDS",
        default_value_t = 300,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000)
    )]
    pub stall: u64,
    /// Let engines with an option Ponder think on their opponents' time; one with ";Ponder=false" does not.
    #[arg(long)]
    pub ponder: bool,
    /// Exit with an error if a game was forfeited by a crash, an illegal move or time.
    #[arg(long)]
    pub strict: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page with plots to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Overwrite the page if it exists.
    #[arg(long, requires = "html")]
    pub force: bool,
}

/// The order of the openings of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// A random order that depends on --seed.
    Random,
    /// The order of the file.
    Sequential,
}

/// The value of --tc.
fn clock(text: &str) -> Result<Limit> {
    limit(
        "clock",
        text,
        "seconds, as in 60+0.6 or, for 40 moves, 40/60+0.6 (an increment is added after a move, so the time before + \
         is above 0)",
    )
}

/// The value of --st.
fn move_time(text: &str) -> Result<Limit> {
    limit("time", text, "seconds per move, as in 0.5")
}

/// The value of --nodes.
fn nodes(text: &str) -> Result<Limit> {
    limit("nodes", text, "a number of nodes above 0")
}

/// A limit of this kind; the error says what is `expected`.
fn limit(kind: &str, text: &str, expected: &str) -> Result<Limit> {
    let limit = format!("{kind}={text}").parse();
    limit.map_err(|_: PlayerError| anyhow!("expected {expected}"))
}

/// The values in `name=N,name=N` by the order of `names`; `None` if one is absent, or not a number of its type.
fn named_numbers<const N: usize>(text: &str, names: [&str; N]) -> Option<[u32; N]> {
    let parts: Vec<(&str, &str)> = text
        .split([',', ' '])
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('='))
        .collect::<Option<_>>()?;
    let mut numbers = [0; N];
    for (number, name) in numbers.iter_mut().zip(names) {
        let (_, value) = parts.iter().find(|(found, _)| *found == name)?;
        *number = value.parse().ok()?;
    }
    (parts.len() == N).then_some(numbers)
}

/// Maximum number of pawns in the earlier form of --resign; more are centipawns by mistake.
const MAX_PAWNS_TO_WIN: f64 = 50.0;
/// The same for --draw.
const MAX_PAWNS_TO_DRAW: f64 = 5.0;

/// The value of --resign, in fastchess's form or as plies and pawns. There both engines must agree, which fastchess
/// calls twosided.
fn resign_rule(text: &str) -> Result<WinRule> {
    if let Ok(rule) = text.parse::<WinRule>() {
        let expected = "this would be PLIES,PAWNS: for centipawns write movecount=3,score=600";
        ensure!(rule.value <= MAX_PAWNS_TO_WIN, expected);
        return Ok(rule);
    }
    let rule = named_numbers(text, ["movecount", "score"]);
    let rule = rule.filter(|[moves, score]| *moves > 0 && *moves < 10_000 && *score > 0);
    let expected = "expected moves and centipawns above 0, as in movecount=3,score=600";
    let [moves, score] = rule.context(expected)?;
    Ok(WinRule {
        plies: 2 * moves,
        value: f64::from(score) / 100.0,
    })
}

/// The value of --draw, in fastchess's form or as move, plies and pawns.
fn draw_rule(text: &str) -> Result<DrawRule> {
    if let Ok(rule) = text.parse::<DrawRule>() {
        let expected = "this would be MOVE,PLIES,PAWNS: for centipawns write movenumber=35,movecount=8,score=20";
        ensure!(rule.value <= MAX_PAWNS_TO_DRAW, expected);
        return Ok(rule);
    }
    let rule = named_numbers(text, ["movenumber", "movecount", "score"]);
    let rule = rule.filter(|[_, moves, _]| *moves > 0 && *moves < 10_000);
    let expected = "expected moves, moves and centipawns, as in movenumber=35,movecount=8,score=20";
    let [from_move, moves, score] = rule.context(expected)?;
    Ok(DrawRule {
        from_move,
        plies: 2 * moves,
        value: f64::from(score) / 100.0,
    })
}

impl MatchArgs {
    /// The limit of the first engine's moves.
    fn first_limit(&self) -> Limit {
        let given = [self.tc, self.st, self.nodes, self.limit];
        let default = Limit::Time(Duration::from_secs(1));
        given.into_iter().flatten().next().unwrap_or(default)
    }

    /// Whether games are adjudicated by scores in pawns, and this program plays and reports another unit.
    fn compares_other_units(&self, players: &[Competitor; 2]) -> bool {
        let by_score = self.adjudicate || self.resign.is_some() || self.draw.is_some();
        let reports_pawns = |player: &Competitor| {
            let mut options = player.options.iter();
            options.any(|(name, value)| {
                let value = value.as_deref().unwrap_or_default();
                name.eq_ignore_ascii_case("ScoreType") && value.starts_with("centipawn")
            })
        };
        let mut own = players.iter().filter(|player| player.program.is_none());
        by_score && own.any(|player| !reports_pawns(player))
    }

    /// The page's file, made before the match, so that one that cannot be written is reported at once. A page with this
    /// mark (empty: none) is of the match that is resumed, and may be replaced.
    fn page(&self, inputs: &[PathBuf], mark: &str) -> Result<Option<NewFile>> {
        let create = |path: &PathBuf| {
            let is_marked = |page: String| page.ends_with(mark);
            let is_own = !mark.is_empty() && fs::read_to_string(path).is_ok_and(is_marked);
            NewFile::create(path, self.force || is_own, inputs)
        };
        self.html.as_ref().map(create).transpose()
    }

    /// The players; `self` gets the configuration file that is `named` on the command line, unless it has one.
    fn players(&self, named: Option<&Path>) -> Result<[Competitor; 2]> {
        let first_limit = self.first_limit();
        let second_limit = self.second_limit.unwrap_or(first_limit);
        let first = Competitor::new(&self.first, first_limit)?;
        let mut players = [first, Competitor::new(&self.second, second_limit)?];
        for player in players.iter_mut().filter(|player| uses_usual_file(player)) {
            let Some(path) = named else { break };
            let file = path.to_str().with_context(|| {
                let name = path.display();
                format!("--config {name}: the name is not UTF-8, so \"self\" cannot be given it")
            })?;
            let arguments = ["--config", file].map(str::to_owned);
            player.arguments.extend(arguments);
        }
        if self.compares_other_units(&players) {
            terminal::eprint_line(
                "scorn: games are adjudicated by scores in centipawns, and \"self\" reports another unit: give it \
                 ScoreType=centipawn",
            );
        }
        Ok(players)
    }

    fn openings(&self) -> Result<Vec<Opening>> {
        let book = match &self.book {
            Some(path) => Book::open(path)?,
            None => Book::standard(),
        };
        if self.pairs as usize > book.len() {
            let openings = match &self.book {
                Some(_) => format!("the book has {}", counted(book.len() as u64, "opening")),
                None => "without --book there is one opening".to_owned(),
            };
            terminal::eprint_line(format_args!(
                "scorn: {openings} for {}: repeated games make the error bars too small",
                counted(self.pairs.into(), "pair")
            ));
        }
        let seed = (self.order == Order::Random).then_some(self.seed);
        let openings = book.ordered(seed, self.pairs as usize).cloned();
        let openings: Vec<Opening> = openings.collect();
        if !self.chess960 && openings.iter().any(Opening::needs_chess960) {
            bail!("the book has positions of Chess960: --chess960 is needed");
        }
        Ok(openings)
    }

    fn rules(&self) -> Result<Rules> {
        let usual_win = WinRule {
            plies: 6,
            value: 6.0,
        };
        let usual_draw = DrawRule {
            from_move: 35,
            plies: 16,
            value: 0.2,
        };
        let tables = match &self.syzygy {
            Some(folders) => Some(Arc::new(open_tables(folders)?)),
            None => None,
        };
        Ok(Rules {
            win: self.resign.or(self.adjudicate.then_some(usual_win)),
            draw: self.draw.or(self.adjudicate.then_some(usual_draw)),
            max_plies: self.max_plies.map(|plies| plies as usize),
            tables,
        })
    }

    /// The match; from now on Ctrl-C stops it in an orderly way, and a second one leaves neither engines nor unfinished
    /// files.
    fn prepare(&self, config: Option<&Path>, unfinished: UnfinishedFiles) -> Result<Match> {
        let end_at_once = move || {
            uci_client::kill_all();
            unfinished.remove();
        };
        Ok(Match {
            players: self.players(config)?,
            openings: self.openings()?,
            is_paired: !self.first_is_white,
            terms: MatchTerms {
                rules: self.rules()?,
                chess960: self.chess960,
                margin: Duration::from_millis(self.margin),
                stall: Duration::from_secs(self.stall),
                ponder: self.ponder,
            },
            concurrency: usize::from(self.concurrency),
            // Without handlers, signals end the program as usual.
            stop: interrupt::catch(|| terminal::eprint_line(STOPPING), end_at_once)
                .unwrap_or_default(),
        })
    }

    /// The settings that determine the games, by name; the number of games is not included.
    fn settings(&self, game: &Match) -> Result<MatchSettings> {
        let [first, second] = &game.players;
        let book = match &self.book {
            Some(path) => Some(digest(path)?),
            None => None,
        };
        let rules = &game.terms.rules;
        let seed = (self.order == Order::Random && book.is_some()).then_some(self.seed);
        let settings = json!({
            "program": VERSION,
            "first": identity(first)?,
            "second": identity(second)?,
            "limit": first.limit.to_string(),
            "second limit": second.limit.to_string(),
            "book (SHA-256)": book,
            "seed": seed,
            "first is white": self.first_is_white,
            "chess960": self.chess960,
            "resign": rules.win.map(|rule| format!("{rule:?}")),
            "draw": rules.draw.map(|rule| format!("{rule:?}")),
            "max-plies": self.max_plies,
            "syzygy": self.syzygy.is_some(),
            "ponder": self.ponder,
            "time-margin": self.margin,
            "stall-timeout": self.stall,
        });
        match settings {
            serde_json::Value::Object(settings) => Ok(settings),
            _ => Err(anyhow!("settings have no names")),
        }
    }
}

/// Whether an engine is this program, and its arguments name no configuration file.
fn uses_usual_file(player: &Competitor) -> bool {
    let mut arguments = player.arguments.iter();
    player.program.is_none()
        && !arguments.any(|text| text.starts_with("-c") || text.starts_with("--config"))
}

/// The mark of a match's page, its last line.
fn page_mark(settings: &MatchSettings) -> Result<String> {
    let settings = serde_json::to_vec(settings)?;
    Ok(format!("<!-- match {} -->\n", sha256(&settings)))
}

/// Identifies an engine by its command line and the contents of the files that it names, including the program. So
/// moving a file does not change the identity, and changing its contents does. A program that is found through `PATH`
/// is identified by its name.
fn identity(player: &Competitor) -> Result<String> {
    let contents = |text: &str| {
        if Path::new(text).is_file() {
            digest(Path::new(text))
        } else {
            Ok(text.to_owned())
        }
    };
    let program = match &player.program {
        Some(program) => program.clone(),
        None => env::current_exe().context("cannot find this program's file")?,
    };
    let mut text = contents(&program.to_string_lossy())?;
    if uses_usual_file(player)
        && let Some(file) = config_file::default_file()
    {
        text += &format!(" {}", digest(&file)?);
    }
    for argument in &player.arguments {
        text += &format!(" {}", contents(argument)?);
    }
    for (name, value) in &player.options {
        text += &match value {
            None => format!(";{name}"),
            Some(value) => format!(";{name}={}", contents(value)?),
        };
    }
    Ok(text)
}

fn digest(path: &Path) -> Result<String> {
    sha256_of_file(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Runs `scorn match`.
///
/// # Errors
/// When an engine cannot be started, when the book, the file of games or the report cannot be used, or, with
/// `--strict`, when an engine forfeited a game.
pub fn run(args: &MatchArgs, config: Option<&Path>) -> Result<()> {
    let sprt = args.sprt.map(|sprt| sprt.with_model(args.sprt_model));
    let sprt = sprt.transpose().context("--sprt")?;
    let unfinished = UnfinishedFiles::default();
    let game = args.prepare(config, unfinished.clone())?;
    check_different(args.pgn.iter().chain(&args.html))?;
    let inputs: Vec<PathBuf> = args.book.iter().cloned().collect();
    let resumable = match &args.pgn {
        Some(path) => Some((path, args.settings(&game)?)),
        None => None,
    };
    let mark = match &resumable {
        Some((_, settings)) => page_mark(settings)?,
        None => String::new(),
    };
    let html = args.page(&inputs, &mark)?;
    html.iter().for_each(|file| unfinished.add(file));
    let mut tally = Tally::new(game.is_paired, sprt);
    // Engines are started first: a match that cannot be played leaves no file.
    let engines = game.start_engines()?;
    let mut record = match &resumable {
        Some((path, settings)) => Some(GameRecord::open(
            path,
            settings,
            &game.openings,
            &inputs,
            &mut tally,
        )?),
        None => None,
    };
    let bar = progress_bar(game.rounds(), &tally);
    let mut show = |tally: &Tally, round: Round, played: &MatchGame| {
        let line = line(tally);
        if let Termination::Forfeit { .. } = played.termination {
            let details = played.termination.details();
            let text = format!("scorn: game {}: {details}", round.text());
            bar.suspend(|| terminal::eprint_line(text));
        }
        if let Some(tables) = &game.terms.rules.tables {
            bar.suspend(|| print_faults(tables));
        }
        if bar.is_hidden() {
            terminal::eprint_line(&line);
        }
        bar.set_message(line);
        bar.inc(1);
    };
    let done = game.run(engines, &mut tally, record.as_mut(), &mut show);
    bar.finish_and_clear();
    let reported = report_result(args, &game, &tally, html.map(|file| (file, mark)));
    done.and(reported)?;
    let next = match args.pgn {
        Some(_) => "the same command continues it",
        None => "it cannot be continued without --pgn",
    };
    let is_stopped = game.stop.load(Ordering::Relaxed) && games_left(&game, &tally) > 0;
    ensure!(!is_stopped, "the match was stopped: {next}");
    if args.strict && !tally.forfeits.is_empty() {
        let lost = counted(tally.forfeits.len() as u64, "game");
        bail!("{lost} forfeited");
    }
    Ok(())
}

/// Games that are still to be played.
fn games_left(game: &Match, tally: &Tally) -> usize {
    let left = game.rounds().filter(|&round| !tally.has(round));
    if tally.is_decided() { 0 } else { left.count() }
}

/// Prints the result and writes the page with its mark.
fn report_result(
    args: &MatchArgs,
    game: &Match,
    tally: &Tally,
    html: Option<(NewFile, String)>,
) -> Result<()> {
    let left = games_left(game, tally);
    let names = game.players.each_ref().map(|player| player.text.clone());
    let limits = game
        .players
        .each_ref()
        .map(|player| player.limit.to_string());
    let report = MatchReport::new(names, limits, tally, left as u64);
    if args.json {
        print_line!("{}", serde_json::to_string(&report)?);
    } else {
        print_line!("{}", report.text());
    }
    if let Some((file, mark)) = html {
        let page = report.page(&report::course(tally))?;
        file.finish_with(format!("{page}\n{mark}").as_bytes())?;
    }
    Ok(())
}

/// The score of the match in one line.
fn line(tally: &Tally) -> String {
    let [losses, draws, wins] = tally.games().0;
    let standing = tally.standing();
    let games = counted(standing.games, "game");
    let mut line = format!("{games}: +{wins} ={draws} -{losses}");
    if let Some(estimate) = &standing.estimate {
        line += &format!(", {}", report::elo_text(estimate, tally.is_paired()));
        if estimate.los.is_finite() {
            line += &format!(", LOS {:.1} %", 100.0 * estimate.los);
        }
    }
    if let (Some(ratio), Some(sprt)) = (standing.ratio, tally.sprt()) {
        let (lower, upper) = sprt.bounds();
        let ratio = report::ratio_text(ratio);
        line += &format!(", LLR {ratio} ({lower:.2} to {upper:.2})");
    }
    line
}

/// The bar of a match with these rounds, some of which are in the tally.
fn progress_bar(rounds: impl Iterator<Item = Round>, tally: &Tally) -> ProgressBar {
    let rounds: Vec<Round> = rounds.collect();
    let played = rounds.iter().filter(|&&round| tally.has(round)).count();
    let bar = ProgressBar::new(rounds.len() as u64);
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len}{time_left}; {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.with_key("time_left", write_time_left));
    bar.set_position(played as u64);
    // Games of an earlier run took none of this one's time.
    bar.reset_eta();
    bar.set_message(line(tally));
    bar
}

/// Writes the estimated time to the end, once a game has ended on which it is based.
fn write_time_left(state: &ProgressState, text: &mut dyn fmt::Write) {
    if state.per_sec() > 0.0 {
        // A bar has nowhere to report an error.
        let _ = write!(text, ", {:#} to go", HumanDuration(state.eta()));
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use shakmaty::KnownOutcome;

    use super::*;

    #[test]
    fn a_clock_of_increments_only_is_refused_with_the_reason() {
        assert!(clock("0.1+1").is_ok());
        let error = clock("0+1").unwrap_err().to_string();
        assert!(error.contains("the time before + is above 0"), "{error}");
    }

    #[test]
    fn the_time_left_is_estimated_from_the_games_of_this_run() {
        let rounds = || (0..50).flat_map(|pair| [0, 1].map(|half| Round { pair, half }));
        let mut tally = Tally::new(true, None);
        for round in rounds().take(50) {
            tally.add(round, KnownOutcome::Draw, "stalemate", false);
        }
        let bar = progress_bar(rounds(), &tally);
        assert_eq!((bar.position(), bar.length()), (50, Some(100)));
        assert!(bar.message().starts_with("50 games: +0 =50 -0"));
        thread::sleep(Duration::from_millis(20));
        // There is no estimate yet.
        assert_eq!(bar.eta(), Duration::ZERO);
        bar.inc(1);
        // 49 games are left, and one took 20 ms at least.
        let left = bar.eta();
        assert!(left > Duration::from_millis(500), "{left:?}");
    }
}
