//! The search of one position: a plain one, whose values are against best replies, and with search-contempt a practical
//! one beside it; for reviews of games also likely mistakes and traps.
//!
//! The two searches have trees of their own, because a tree whose opponent nodes are frozen says little about best
//! replies. They share the evaluations of the network through its cache.

use std::time::Duration;

use anyhow::{Context, Result};
use shakmaty::{Color, Position};

use super::{
    input::Item,
    opponents::Opponents,
    record::{MIN_VISIT_SHARE, PositionRecord, SolutionRecord, first_san},
    review::{self, ScoredValue},
    traps::{self, MistakeRecord, TrapRecord},
};
use crate::{
    chess::{
        History, PackedMove,
        moves::{MAX_MOVES, legal_moves},
        setup,
    },
    hashing::mix,
    odds::Signature,
    options::{ContemptMode, Options},
    player::{Player, contempt_side},
    search::{
        Job, Limits, MoveStat, Outcome, PvLine, REPORT_INTERVAL, Report, Reporter, Score, Silent,
        StopSignal, SystemClock, Tree,
    },
    terminal::eprint_line,
};

/// The likely replies that are searched alone.
const MAX_VERIFIED: usize = 3;
/// A likely reply is searched alone, unless the search of the position has given it a tenth of its visits and sees less
/// than this part of the minimum loss in it. A few visits have hardly more than the network's guess, and what the
/// network overlooks is what players overlook.
const ROUGH_PART: f32 = 0.5;
/// The alternatives to which a trap is compared.
const ALTERNATIVES: usize = 2;
/// By how much more than the move that gains least a missed trap must gain in practice, in W-L, to be looked
/// at: likely mistakes are not searched for after every move.
const MIN_PRACTICAL_EXCESS: f32 = 0.05;
/// The effort of a search of one reply alone, as a multiple of the limits for a position.
const ALONE: f64 = 0.5;
/// The part of a search's visits from which on its value of a move is taken.
const MIN_KNOWN_SHARE: f64 = 0.1;
/// If the played move is the best one by the search before it, and its value falls by this much W-L in the searches
/// after it, the other moves are searched with [`CONFIRMING`] times the effort: perhaps one of them was better.
const MAX_DROP: f32 = 0.2;
/// The number of positions after a move whose searches may lower its value: what it overlooked is often seen only when
/// the refutation is on the board.
const LOOKED_AT: usize = 3;
/// The effort of the searches that confirm a trap. With that of a position, a move can seem to cost nothing because the
/// refutation, or a much better move, lies a little deeper.
const CONFIRMING: f64 = 10.0;

/// Whether these options have a practical search beside the plain one.
pub fn has_practical_search(options: &Options) -> bool {
    !options.is_plain_puct() && options.contempt_mode != ContemptMode::Disable
}

/// The plain search of a position and what follows from it.
#[derive(Clone)]
struct Study {
    /// All moves, best first.
    outcome: Outcome,
    mistake: Option<MistakeRecord>,
}

impl Study {
    /// W-L of the position for the side to move against best play; `None` if the game is over.
    fn value(&self) -> Option<f32> {
        best_value(&self.outcome)
    }

    /// The best line; `None` if the game is over.
    fn best_line(&self) -> Option<&PvLine> {
        self.outcome.best?;
        self.outcome.report.lines.first()
    }

    fn worth(&self) -> f32 {
        self.mistake.as_ref().map_or(0.0, MistakeRecord::worth)
    }
}

/// Analyses positions, one after the other.
pub struct Analyzer {
    player: Player,
    /// The same without search-contempt and with all moves in its reports.
    plain: Player,
    /// Whether the values of the network depend on which side is the engine's.
    reads_mover: bool,
    limits: Limits,
    keeps_moves: bool,
    opponents: Option<Opponents>,
    /// Ends all searches.
    stop: StopSignal,
    /// Studies of the positions that follow in the game.
    following: Vec<(u64, Study)>,
}

impl Analyzer {
    /// An analysis with this player and these limits for each search. `keeps_moves` keeps the statistics of every
    /// move; with `opponents` likely mistakes and traps are searched for. A position during whose analysis `stop` is
    /// set has no valid result.
    pub fn new(
        player: Player,
        limits: Limits,
        keeps_moves: bool,
        opponents: Option<Opponents>,
        stop: StopSignal,
    ) -> Analyzer {
        let options = Options {
            // Moves that give away the result of the tablebases are searched, too.
            analyse_mode: true,
            ..(*player.options).clone()
        };
        let mut plain = Options {
            multi_pv: MAX_MOVES,
            show_objective: false,
            ..options.clone()
        };
        let reads_mover = player.networks.main.info().reads_mover;
        if reads_mover {
            // The plain search has a side then (see `engine_side`), and a side alone makes it no plain one.
            let default = Options::default();
            plain.sc_limit = default.sc_limit;
            plain.contempt = default.contempt;
            plain.rating_advantage = default.rating_advantage;
            plain.contempt_mode_tb = default.contempt_mode_tb;
            plain.opponent_policy_mix = 0.0;
        }
        let with = |options: Options| Player {
            options: options.into(),
            ..player.clone()
        };
        Analyzer {
            plain: with(plain),
            player: with(options),
            reads_mover,
            limits,
            keeps_moves,
            opponents,
            stop,
            following: Vec::new(),
        }
    }

    /// The options of the searches.
    pub fn options(&self) -> &Options {
        &self.player.options
    }

    /// Analyses one position with new trees.
    ///
    /// # Errors
    /// When an evaluator fails or a model cannot be loaded.
    pub fn analyze(&mut self, item: &Item) -> Result<PositionRecord> {
        let mut collector = Collector {
            item,
            stats: Vec::new(),
            solution: None,
        };
        let mut outcome = self
            .practical(item, &[], 1.0, &mut collector)
            .with_context(|| format!("analysing {}", item.name))?;
        let is_plain = !has_practical_search(&self.player.options);
        if self.opponents.is_some()
            && !is_plain
            && let Some(line) = self.played_alone(item, &outcome.report, &collector.stats)?
        {
            let lines = &mut outcome.report.lines;
            lines.retain(|other| other.pv.first() != line.pv.first());
            lines.push(line);
        }
        let study = match (is_plain, self.opponents.is_some()) {
            (true, false) => None,
            (false, false) => Some(self.study(item, &item.history)?),
            (false, true) => Some(self.reviewed_study(item)?),
            (true, true) => {
                let study = self.study(item, &item.history)?;
                self.study_following(item, 1)?;
                Some(study)
            }
        };
        let objective = study.as_ref().filter(|_| !is_plain);
        let mut record = PositionRecord::new(
            item,
            &outcome,
            objective.map(|study| &study.outcome.report),
            &self.player.options,
            &collector.stats,
            self.keeps_moves,
        );
        if record.solved == Some(true) {
            record.solution = collector.solution;
        }
        if let Some(study) = study {
            record.mistake.clone_from(&study.mistake);
            if self.opponents.is_some() {
                record.traps = self.traps(item, &study, &record)?;
            }
        }
        Ok(record)
    }

    fn job(&self, history: &History, effort: f64) -> Job {
        let job = self.player.job(history.clone(), self.limits(effort));
        Job {
            contempt_side: self.engine_side(history).or(job.contempt_side),
            ..job
        }
    }

    /// The engine's side in a game, where the values of the network depend on it. `ContemptMode play` would change it
    /// from move to move, and with it the values: it is the side that gives odds, or else White.
    fn engine_side(&self, history: &History) -> Option<Color> {
        let start = &history.plies()[0].position;
        let black = Signature::of(start, Color::Black);
        let giver = if black.is_some_and(|odds| odds.deficit() > 0) {
            Color::Black
        } else {
            Color::White
        };
        contempt_side(&self.player.options, giver).filter(|_| self.reads_mover)
    }

    /// `effort` times the limits for a position.
    fn limits(&self, effort: f64) -> Limits {
        let scaled = |nodes: u64| ((nodes as f64 * effort) as u64).max(1);
        Limits {
            nodes: self.limits.nodes.map(scaled),
            movetime: self.limits.movetime.map(|time| time.mul_f64(effort)),
            ..self.limits.clone()
        }
    }

    /// The line of the played move by a practical search of it alone, unless the search of the position has visited it
    /// often: a few visits say nothing about what an opponent replies.
    fn played_alone(
        &mut self,
        item: &Item,
        report: &Report,
        stats: &[MoveStat],
    ) -> Result<Option<PvLine>> {
        let least = MIN_KNOWN_SHARE * report.nodes as f64;
        let is_known = |m: PackedMove| {
            let best = report.lines.first().and_then(|line| line.pv.first());
            let mut stats = stats.iter().filter(|stat| stat.m == Some(m));
            best == Some(&m) || stats.any(|stat| f64::from(stat.n) >= least)
        };
        let Some(m) = item.played.filter(|&m| !is_known(m)) else {
            return Ok(None);
        };
        let alone = self.practical(item, &[m], ALONE, &mut Silent)?;
        let line = alone.report.lines.into_iter().next();
        Ok(line.filter(|line| line.pv.first() == Some(&m)))
    }

    /// The search that expects the replies of the modelled opponent, restricted to `moves` unless that is empty, with
    /// `effort` times the limits for a position.
    fn practical(
        &mut self,
        item: &Item,
        moves: &[PackedMove],
        effort: f64,
        reporter: &mut dyn Reporter,
    ) -> Result<Outcome> {
        let job = Job {
            root_moves: moves.to_vec(),
            ..self.job(&item.history, effort)
        };
        let player = match (&mut self.opponents, job.contempt_side) {
            (Some(opponents), Some(side)) => opponents.against(item, side.other())?,
            _ => &self.player,
        };
        let clock = SystemClock::default();
        Ok(player.search(&mut Tree::default(), &job, &self.stop, &clock, reporter)?)
    }

    /// A search without search-contempt, restricted to `moves` unless that is empty, with `effort` times the limits for
    /// a position.
    fn plain_search(
        &self,
        history: &History,
        moves: &[PackedMove],
        effort: f64,
    ) -> Result<Outcome> {
        let job = Job {
            contempt_side: self.engine_side(history),
            root_moves: moves.to_vec(),
            ..self.plain.job(history.clone(), self.limits(effort))
        };
        let clock = SystemClock::default();
        let mut tree = Tree::default();
        Ok(self
            .plain
            .search(&mut tree, &job, &self.stop, &clock, &mut Silent)?)
    }

    /// The study of a position of a game; the one that was kept if there is one of this position.
    fn study(&mut self, item: &Item, history: &History) -> Result<Study> {
        let key = path_key(history);
        if let Some((_, study)) = self.following.iter().find(|(known, _)| *known == key) {
            return Ok(study.clone());
        }
        let outcome = self.plain_search(history, &[], 1.0)?;
        self.study_of(item, history, outcome, None)
    }

    /// The study of a position by this plain search. `corrected` is a move whose value in it (W-L) comes from the
    /// positions after it.
    fn study_of(
        &mut self,
        item: &Item,
        history: &History,
        outcome: Outcome,
        corrected: Option<(PackedMove, f32)>,
    ) -> Result<Study> {
        let mistake = if self.opponents.is_some() && outcome.best.is_some() {
            self.likely_mistake(item, history, &outcome, corrected)?
        } else {
            None
        };
        Ok(Study { outcome, mistake })
    }

    /// Studies the next positions of the game, at most `count`, and keeps them. Returns the evaluation of the first one
    /// for its side to move, as far as they show it.
    fn study_following(&mut self, item: &Item, count: usize) -> Result<Option<ScoredValue>> {
        let mut following = Vec::new();
        for history in item.following(count) {
            following.push((path_key(&history), self.study(item, &history)?));
        }
        let lines = following.iter().map(|(_, study)| study.best_line());
        let found = lines.map(|line| line.map(ScoredValue::of)).collect();
        let found = review::value_of_line(found);
        self.following = following;
        Ok(found)
    }

    /// The study of a position in a game that is reviewed, by a longer search of other moves if the played move is its
    /// best one and the searches after it found that this move loses. A played move that the search hardly visited has
    /// the value of the next position. Keeps the studies of the positions after the played move.
    fn reviewed_study(&mut self, item: &Item) -> Result<Study> {
        let mut study = self.study(item, &item.history)?;
        let reply = self.study_following(item, LOOKED_AT)?;
        let lines = &study.outcome.report.lines;
        let best = lines.first().and_then(|line| line.pv.first());
        let is_best = item.played.is_some() && best == item.played.as_ref();
        let drop = study
            .value()
            .zip(reply)
            .map(|(before, reply)| before + reply.value.wl);
        let (Some(reply), true) = (reply, is_best && drop.is_some_and(|drop| drop >= MAX_DROP))
        else {
            self.take_value_of_next(item, &mut study.outcome.report);
            return Ok(study);
        };
        let found = reply.before_move();
        match self.with_other_moves(item, &study, found)? {
            Some(outcome) => {
                let corrected = item.played.map(|m| (m, found.value.wl));
                self.study_of(item, &item.history, outcome, corrected)
            }
            None => Ok(study),
        }
    }

    /// Gives the line of the played move, if the search of the position hardly visited it, the value that the search of
    /// the next position found.
    fn take_value_of_next(&self, item: &Item, report: &mut Report) {
        let least = MIN_KNOWN_SHARE * report.nodes as f64;
        let is_known = |line: &PvLine| match line.nodes {
            0 => !line.is_guess(),
            nodes => line.score != Score::Open || nodes as f64 >= least,
        };
        // The first line is the best one.
        let mut lines = report.lines.iter_mut().skip(1);
        let line = lines.find(|line| line.pv.first() == item.played.as_ref());
        let next = self.following.first().map(|(_, study)| study);
        let (Some(line), Some(next)) = (line.filter(|line| !is_known(line)), next) else {
            return;
        };
        if let Some(reply) = next.best_line() {
            let ScoredValue { value, score } = ScoredValue::of(reply).before_move();
            line.pv.truncate(1);
            line.pv.extend(&reply.pv);
            (line.value, line.score) = (value, score);
            line.nodes = next.outcome.report.nodes;
        }
    }

    /// The outcome of a longer search of all moves but the best one, which is worth this only: what the search has
    /// overlooked once, it would overlook again. `None` if there are no others.
    fn with_other_moves(
        &self,
        item: &Item,
        study: &Study,
        found: ScoredValue,
    ) -> Result<Option<Outcome>> {
        let Some(overrated) = study.outcome.report.lines.first() else {
            return Ok(None);
        };
        let legal = legal_moves(item.history.position());
        let others: Vec<PackedMove> = legal.filter(|m| overrated.pv.first() != Some(m)).collect();
        if others.is_empty() {
            return Ok(None);
        }
        let mut outcome = self.plain_search(&item.history, &others, CONFIRMING)?;
        let lines = &mut outcome.report.lines;
        // The others are in the order of their visits. The first one stays the best, unless this one is better.
        let place = lines.iter().position(|line| line.value.wl < found.value.wl);
        let place = place.unwrap_or(lines.len());
        lines.insert(
            place,
            PvLine {
                value: found.value,
                score: found.score,
                ..overrated.clone()
            },
        );
        Ok(Some(outcome))
    }

    /// The reply to a position with the largest expected loss by the model of the side to move.
    fn likely_mistake(
        &mut self,
        item: &Item,
        history: &History,
        outcome: &Outcome,
        corrected: Option<(PackedMove, f32)>,
    ) -> Result<Option<MistakeRecord>> {
        let Some(opponents) = &mut self.opponents else {
            return Ok(None);
        };
        let lines = &outcome.report.lines;
        let (Some(best), side) = (lines.first(), history.position().turn()) else {
            return Ok(None);
        };
        let mut likely = opponents.policy(item, history)?;
        let (model, rating) = opponents.describe(item, side);
        likely.retain(|(m, p)| *p >= traps::MIN_POLICY && best.pv.first() != Some(m));
        likely.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (position, chess960) = (history.position(), self.is_chess960(item));
        let mut worst: Option<MistakeRecord> = None;
        for &(m, policy) in likely.iter().take(MAX_VERIFIED) {
            let value = match corrected.filter(|(corrected, _)| *corrected == m) {
                // A search of it alone would overlook again what the positions after it show.
                Some((_, wl)) => Some(wl),
                None => self.value_alone(history, m, outcome)?,
            };
            let Some(value) = value else { continue };
            let loss = best.value.wl - value;
            if loss < traps::MIN_LOSS {
                continue;
            }
            let found = MistakeRecord {
                m: setup::move_text(position, m, chess960),
                san: first_san(position, &[m]),
                policy,
                p: traps::share_of_players(policy, loss, rating),
                loss,
                better: first_san(position, &best.pv),
                model: model.clone(),
                rating,
            };
            if worst
                .as_ref()
                .is_none_or(|worst| found.worth() > worst.worth())
            {
                worst = Some(found);
            }
        }
        Ok(worst)
    }

    /// W-L of a move by a search of it alone; `None` if the search of the position is enough to know that it loses
    /// little.
    fn value_alone(
        &self,
        history: &History,
        m: PackedMove,
        outcome: &Outcome,
    ) -> Result<Option<f32>> {
        let lines = &outcome.report.lines;
        let best = lines.first().map_or(0.0, |line| line.value.wl);
        let least = (MIN_KNOWN_SHARE * outcome.report.nodes as f64).max(1.0);
        let known = lines.iter().find(|line| line.pv.first() == Some(&m));
        let known = known.filter(|line| line.nodes as f64 >= least);
        if known.is_some_and(|line| best - line.value.wl < ROUGH_PART * traps::MIN_LOSS) {
            return Ok(None);
        }
        let alone = self.plain_search(history, &[m], ALONE)?;
        Ok(alone.report.lines.first().map(|line| line.value.wl))
    }

    fn is_chess960(&self, item: &Item) -> bool {
        self.player.options.chess960 || !setup::has_standard_castling(&item.history)
    }

    /// The trap that the played move sets, and one that another move would have set.
    fn traps(
        &mut self,
        item: &Item,
        study: &Study,
        record: &PositionRecord,
    ) -> Result<Vec<TrapRecord>> {
        let mut found = Vec::new();
        let Some(opponents) = &mut self.opponents else {
            return Ok(found);
        };
        let policy = opponents.policy(item, &item.history)?;
        let missed = missed_candidate(item, study, record);
        for m in missed.into_iter().chain(item.played) {
            let p = policy.iter().find(|(other, _)| *other == m);
            let is_obvious = p.is_some_and(|&(_, p)| p > traps::MAX_OBVIOUS);
            found.extend(self.trap(item, study, m, is_obvious)?);
        }
        Ok(found)
    }

    /// The trap that the move sets.
    fn trap(
        &mut self,
        item: &Item,
        study: &Study,
        m: PackedMove,
        is_obvious: bool,
    ) -> Result<Option<TrapRecord>> {
        let mut history = item.history.clone();
        history.push(m);
        let after = self.study(item, &history)?;
        let (Some(best), Some(reply)) = (study.value(), after.value()) else {
            return Ok(None);
        };
        let position = item.history.position();
        let trap = after.mistake.map(|mistake| TrapRecord {
            m: setup::move_text(position, m, self.is_chess960(item)),
            san: first_san(position, &[m]),
            cost: (best + reply).max(0.0),
            mistake,
        });
        let Some(trap) = trap.filter(|trap| !is_obvious && trap.is_one()) else {
            return Ok(None);
        };
        let usual = self.worth_of_alternatives(item, study, m)?;
        let most = traps::MAX_USUAL * trap.mistake.worth();
        if usual.is_none_or(|usual| usual > most) {
            return Ok(None);
        }
        self.confirmed(&item.history, &history, trap)
    }

    /// The trap with the values of longer searches of the positions before and after the move that sets it, and of the
    /// reply alone, if it is still one by these.
    fn confirmed(
        &self,
        before: &History,
        after: &History,
        trap: TrapRecord,
    ) -> Result<Option<TrapRecord>> {
        let position = after.position();
        let reply = setup::parse_move(position, &trap.mistake.m)?;
        let best = best_value(&self.plain_search(before, &[], CONFIRMING)?);
        let replies = self.plain_search(after, &[], CONFIRMING)?;
        let alone = self.plain_search(after, &[reply], CONFIRMING * ALONE)?;
        let (Some(best), Some(value), Some(fallen)) =
            (best, best_value(&replies), best_value(&alone))
        else {
            return Ok(None);
        };
        let better = replies.report.lines.first().map(|line| &*line.pv);
        let confirmed = TrapRecord {
            cost: (best + value).max(0.0),
            mistake: MistakeRecord {
                better: first_san(position, better.unwrap_or_default()),
                ..trap.mistake.with_loss(value - fallen)
            },
            ..trap
        };
        Ok(Some(confirmed).filter(TrapRecord::is_one))
    }

    /// The most that another good move offers; `None` if there is none.
    fn worth_of_alternatives(
        &mut self,
        item: &Item,
        study: &Study,
        m: PackedMove,
    ) -> Result<Option<f32>> {
        let alternatives = good_moves(study).into_iter().filter(|&other| other != m);
        let mut most = None;
        for other in alternatives.take(ALTERNATIVES) {
            let mut history = item.history.clone();
            history.push(other);
            let worth = self.study(item, &history)?.worth();
            most = Some(worth.max(most.unwrap_or(0.0)));
        }
        Ok(most)
    }
}

/// W-L of a searched position for the side to move; `None` if the game is over.
fn best_value(outcome: &Outcome) -> Option<f32> {
    outcome.best?;
    outcome.report.lines.first().map(|line| line.value.wl)
}

/// The moves that cost no more than a trap may, in the order of the search.
fn good_moves(study: &Study) -> Vec<PackedMove> {
    let report = &study.outcome.report;
    let Some(best) = study.value() else {
        return Vec::new();
    };
    let is_good = |line: &&crate::search::PvLine| {
        line.nodes as f64 >= MIN_VISIT_SHARE * report.nodes as f64
            && best - line.value.wl <= traps::MAX_COST
    };
    let lines = report.lines.iter().filter(is_good);
    lines.filter_map(|line| line.pv.first().copied()).collect()
}

/// The good move, not the played one, that gains the most in practice over best play, if that is clearly more than
/// another line gains.
fn missed_candidate(item: &Item, study: &Study, record: &PositionRecord) -> Option<PackedMove> {
    item.played?;
    let gains = record.lines.iter().filter_map(|line| {
        let objective = line.objective.as_ref()?;
        let m = setup::parse_move(item.history.position(), line.pv.first()?).ok()?;
        (line.nodes > 0).then_some((m, objective.gain))
    });
    let gains: Vec<(PackedMove, f32)> = gains.collect();
    let usual = gains.iter().map(|&(_, gain)| gain).reduce(f32::min)?;
    let good = good_moves(study);
    let candidates = gains
        .into_iter()
        .filter(|(m, gain)| Some(*m) != item.played && gain - usual >= MIN_PRACTICAL_EXCESS)
        .filter(|(m, _)| good.contains(m));
    let best = candidates.max_by(|a, b| a.1.total_cmp(&b.1));
    best.map(|(m, _)| m)
}

/// A number for the whole path of a game: searches depend on repetitions.
fn path_key(history: &History) -> u64 {
    let keys = history.plies().iter().map(|ply| ply.key);
    keys.fold(0, |path, key| mix(path ^ key))
}

/// Collects the statistics of the moves, and the time of the solution.
struct Collector<'a> {
    item: &'a Item,
    stats: Vec<MoveStat>,
    /// The time from which on the first line was a solution.
    solution: Option<SolutionRecord>,
}

impl Reporter for Collector<'_> {
    fn report(&mut self, report: &Report) {
        let first = report.lines.first().and_then(|line| line.pv.first());
        let is_solved = first.and_then(|&m| self.item.is_solved_by(m)) == Some(true);
        if !is_solved {
            self.solution = None;
        } else if self.solution.is_none() {
            self.solution = Some(SolutionRecord {
                nodes: report.nodes,
                time_ms: report.elapsed.as_millis() as u64,
            });
        }
    }

    fn move_stats(&mut self, stats: &[MoveStat]) {
        self.stats = stats.to_vec();
    }

    fn note(&mut self, text: &str) {
        eprint_line(format_args!("scorn: {text}"));
    }

    fn interval(&self) -> Duration {
        // Every batch is reported, so that the nodes to the solution are exact to a batch.
        if self.item.has_solution() {
            Duration::ZERO
        } else {
            REPORT_INTERVAL
        }
    }
}
