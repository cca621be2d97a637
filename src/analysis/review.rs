//! The review of a whole game: the quality of each move, the accuracy of each side, and traps that were set, met or
//! missed.
//!
//! Moves are judged by their loss against best replies, which a plain search of every position gives. A trap is a reply
//! that a share of players plays and that loses (see [`traps`]); the few with the largest product are reported.

use std::{iter, sync::Arc};

use shakmaty::{Color, EnPassantMode, KnownOutcome, Position, fen::Fen, san::SanPlus};

use super::{
    accuracy::{self, JudgedMove},
    input::{Item, PgnGame},
    record::{LineRecord, ObjectiveRecord, PositionRecord},
    traps::{self, TrapRecord},
};
use crate::{
    chess::{History, PackedMove},
    game::adjudicate,
    network::Value,
    search::{PvLine, Score},
};

/// Minimum loss of lichess's winning chances (0 to 2) of an inaccuracy, a mistake and a blunder, as on lichess.
const MIN_LOSSES: [f32; 3] = [0.1, 0.2, 0.3];

/// At most this many traps that were set are reported per game.
const MAX_SET: usize = 3;
/// At most this many traps that were missed are reported per game.
const MAX_MISSED: usize = 1;
/// A missed trap must be worth this many times as much as one that was set has to be.
const MISSED_FACTOR: f32 = 1.5;
/// If the search after a move finds it better by this much W-L than the best move by the search before it, the position
/// before it has that value, too. Smaller differences are within the error of both.
const MIN_OVERLOOKED: f32 = 0.1;

/// At most this many moves of a line that goes on with the next position's: where every move of a game is the best one,
/// that is the whole game.
const MAX_LINE: usize = 32;

/// The quality of a bad move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgement {
    /// `?!`
    Inaccuracy,
    /// `?`
    Mistake,
    /// `??`
    Blunder,
}

impl Judgement {
    /// The judgement of a move that loses this much of lichess's winning chances (0 to 2).
    fn of(lost: f32) -> Option<Judgement> {
        match MIN_LOSSES.iter().filter(|&&least| lost >= least).count() {
            0 => None,
            1 => Some(Judgement::Inaccuracy),
            2 => Some(Judgement::Mistake),
            _ => Some(Judgement::Blunder),
        }
    }

    /// The judgement as text.
    pub fn text(self) -> &'static str {
        match self {
            Judgement::Inaccuracy => "Inaccuracy",
            Judgement::Mistake => "Mistake",
            Judgement::Blunder => "Blunder",
        }
    }

    /// PGN's numeric annotation glyph.
    pub fn glyph(self) -> u8 {
        match self {
            Judgement::Inaccuracy => 6,
            Judgement::Mistake => 2,
            Judgement::Blunder => 4,
        }
    }
}

/// The relation of a move to a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapMoment {
    /// It sets a trap.
    Set,
    /// It is the right reply to a trap.
    Met,
    /// It falls into a trap.
    Fallen,
    /// It misses a better move that sets a trap.
    Missed,
}

impl TrapMoment {
    /// The relation as text.
    pub fn text(self) -> &'static str {
        match self {
            TrapMoment::Set => "sets a trap",
            TrapMoment::Met => "meets the trap",
            TrapMoment::Fallen => "falls into the trap",
            TrapMoment::Missed => "misses a trap",
        }
    }
}

/// A move of a game, with the analysis of the position before it.
#[derive(Clone, Debug)]
pub struct ReviewedMove {
    /// The move.
    pub played: PackedMove,
    /// In standard algebraic notation.
    pub san: String,
    /// In UCI's notation.
    pub uci: String,
    /// The position after it.
    pub fen_after: String,
    /// The side that played it.
    pub turn: Color,
    /// The analysis of the position before it.
    pub record: PositionRecord,
    /// W-L for the other side, if the move ends the game.
    end_value: Option<f32>,
    /// The loss of W-L against best play.
    pub loss: Option<f32>,
    /// The quality, if it is bad.
    pub judgement: Option<Judgement>,
    /// The relation to a trap, if there is one.
    pub trap: Option<TrapMoment>,
    /// If the move falls into a trap, the best move by the longer search that confirmed the trap, in standard algebraic
    /// notation.
    better_by_trap: Option<String>,
}

/// A reviewed game.
#[derive(Clone, Debug)]
pub struct GameReview {
    /// The game as it was read.
    pub game: Arc<PgnGame>,
    /// The analysed moves.
    pub moves: Vec<ReviewedMove>,
    /// The analysis of the position after the last move, if the game is not over there.
    pub end: Option<PositionRecord>,
    /// The accuracy of White and Black in per cent; `None` without a judged move.
    pub accuracy: [Option<f32>; 2],
}

impl GameReview {
    /// The analysis of the position after a move.
    pub fn after(&self, index: usize) -> Option<&PositionRecord> {
        let next = self.moves.get(index + 1).map(|next| &next.record);
        next.or(self.end.as_ref())
    }
}

/// W-L of probabilities in per mille.
pub(super) fn wl(wdl: [u32; 3]) -> f32 {
    (wdl[0] as f32 - wdl[2] as f32) / 1000.0
}

/// W-L of one of the lines of a position against best replies, for the side to move, if it is known.
pub(super) fn objective_wl(record: &PositionRecord, line: &LineRecord) -> Option<f32> {
    record.objective_wdl(line).map(wl)
}

/// The line that is best against best replies.
pub(super) fn best_objectively(record: &PositionRecord) -> Option<&LineRecord> {
    let Some(best) = &record.objective_best else {
        return record.lines.first();
    };
    let mut lines = record.lines.iter();
    lines.find(|line| line.pv.first() == Some(best))
}

/// The value of a position for its side to move.
fn objective(record: &PositionRecord) -> Option<f32> {
    best_objectively(record).and_then(|line| objective_wl(record, line))
}

/// The moves to mate of a line against best replies, if there is a mate.
pub(super) fn objective_mate(line: &LineRecord) -> Option<i32> {
    let objective = line.objective.as_ref();
    objective.map_or(line.mate, |found| found.mate)
}

/// Whether the side to move mates against every reply.
fn mates(record: &PositionRecord) -> bool {
    let mate = best_objectively(record).and_then(objective_mate);
    mate.is_some_and(|mate| mate > 0)
}

/// What a search found of a position, for its side to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScoredValue {
    pub value: Value,
    pub score: Score,
}

impl ScoredValue {
    /// That of a line.
    pub fn of(line: &PvLine) -> ScoredValue {
        ScoredValue {
            value: line.value,
            score: line.score,
        }
    }

    /// That of the move that led to the position, for the side that made it.
    pub fn before_move(self) -> ScoredValue {
        let Value { wl, d, m } = self.value;
        ScoredValue {
            value: Value {
                wl: -wl,
                d,
                m: m + 1.0,
            },
            score: self.score.before_move(),
        }
    }

    fn mates(self) -> bool {
        matches!(self.score, Score::Mate(moves) if moves > 0)
    }
}

/// Whether a search overlooked how good a position is: by W-L of `best`, where the next position shows `found`. A mate
/// that only the next position shows is always news: near a win W-L can hardly rise.
fn is_overlooked(best: f32, found: f32, shows_mate: bool) -> bool {
    shows_mate || found - best >= MIN_OVERLOOKED
}

/// The value of the first of successive positions of a game, given the values that a search found of each, for its side
/// to move: what the next one shows counts if it is clearly more. `None` stands for a position that is over.
pub(super) fn value_of_line(values: Vec<Option<ScoredValue>>) -> Option<ScoredValue> {
    let mut backwards = values.into_iter().rev();
    let last = backwards.next()?;
    backwards.fold(last, |next, own| {
        let (own, by_next) = (own?, next.map(ScoredValue::before_move));
        let is_news = |by_next: &ScoredValue| {
            let shows_mate = by_next.mates() && !own.mates();
            is_overlooked(own.value.wl, by_next.value.wl, shows_mate)
        };
        by_next.filter(is_news).or(Some(own))
    })
}

/// W-L for the side to move if the game is over by the rules.
fn end_value(history: &History) -> Option<f32> {
    // The side to move has not won.
    adjudicate::by_rules(history).map(|verdict| match verdict.outcome {
        KnownOutcome::Draw => 0.0,
        KnownOutcome::Decisive { .. } => -1.0,
    })
}

impl ReviewedMove {
    fn new(item: &Item, played: PackedMove, record: PositionRecord) -> ReviewedMove {
        let mut history = item.history.clone();
        let turn = history.position().turn();
        let m = played.unpack(history.position());
        let san = SanPlus::from_move_and_play_unchecked(&mut history.position().clone(), m);
        history.push(played);
        ReviewedMove {
            played,
            san: san.to_string(),
            uci: record.played.clone().unwrap_or_default(),
            fen_after: Fen::from_position(history.position(), EnPassantMode::Legal).to_string(),
            turn,
            record,
            end_value: end_value(&history),
            loss: None,
            judgement: None,
            trap: None,
            better_by_trap: None,
        }
    }

    /// A better move than the played one, in standard algebraic notation.
    pub fn better(&self) -> Option<&str> {
        let by_search = || self.best_other_line()?.san.first().map(String::as_str);
        self.better_by_trap.as_deref().or_else(by_search)
    }

    /// The value of the position before the move, for the side that made it.
    pub fn objective(&self) -> Option<f32> {
        objective(&self.record)
    }

    /// Whether the played move is the best one.
    fn is_best(&self) -> bool {
        let best = best_objectively(&self.record).and_then(|line| line.pv.first());
        best == Some(&self.uci)
    }

    /// The best line that begins with another move than the played one.
    pub fn best_other_line(&self) -> Option<&LineRecord> {
        if !self.is_best() {
            return best_objectively(&self.record);
        }
        let others = self.record.lines.iter();
        let others = others.filter(|line| line.pv.first() != Some(&self.uci));
        let known = others.filter_map(|line| Some((objective_wl(&self.record, line)?, line)));
        // The first one of equal ones.
        let best = known.reduce(|best, other| if other.0 > best.0 { other } else { best });
        best.map(|(_, line)| line)
    }

    /// The move's loss of W-L, if the next position has this value for the other side. A proof of mate in that
    /// position overrules the search before the move.
    fn loss(&self, after: Option<f32>, is_mated: bool) -> Option<f32> {
        let after = after.or(self.end_value)?;
        self.objective()?;
        let other = self.best_other_line();
        let other = other.and_then(|line| objective_wl(&self.record, line));
        Some(match other {
            Some(other) if is_mated || !self.is_best() => (other + after).max(0.0),
            // There was nothing better.
            _ => 0.0,
        })
    }

    /// What the move loses of lichess's winning chances (0 to 2); `None` if that is not known.
    pub fn lost_chances(&self) -> Option<f32> {
        let before = self.objective().unwrap_or(0.0);
        Some(accuracy::lost_chances(before, self.loss?))
    }

    /// If the move is bad, looks natural, and is not reported as the reply to a trap: `It looks natural (59 % by the
    /// model of a player rated 1400)`.
    pub fn natural(&self) -> Option<String> {
        let is_news = self.judgement.is_some() && self.trap != Some(TrapMoment::Fallen);
        let mistake = self.record.mistake.as_ref();
        let mistake = mistake.filter(|mistake| is_news && mistake.m == self.uci)?;
        Some(format!(
            "It looks natural ({:.0} % by the model of {})",
            100.0 * mistake.policy,
            mistake.model
        ))
    }

    /// The trap that the played move sets, as far as the search found one.
    fn candidate(&self) -> Option<&TrapRecord> {
        self.record.traps.iter().find(|trap| trap.m == self.uci)
    }

    /// A trap that another move would have set, as far as the search found one.
    fn missed_candidate(&self) -> Option<&TrapRecord> {
        let mut traps = self.record.traps.iter();
        let least = MISSED_FACTOR * traps::MIN_WORTH;
        traps.find(|trap| trap.m != self.uci && trap.mistake.worth() >= least)
    }

    /// The trap of this move, if it sets or misses one.
    pub fn trap_record(&self) -> Option<&TrapRecord> {
        match self.trap? {
            TrapMoment::Set => self.candidate(),
            TrapMoment::Missed => self.missed_candidate(),
            TrapMoment::Met | TrapMoment::Fallen => None,
        }
    }

    /// Gives the line of the played move what the search after it found, which had more visits: its best line, and its
    /// value against best replies. If that is clearly more than the value of the position, or a mate of which the
    /// search of the position did not know, the move is the best one.
    fn take_line_of_next(&mut self, next: &PositionRecord) {
        let Some(line) = best_objectively(next) else {
            return;
        };
        let Some([win, draw, loss]) = next.objective_wdl(line) else {
            return;
        };
        let mate = objective_mate(line);
        let found = wl([loss, draw, win]);
        let shows_mate = mate.is_some_and(|mate| mate < 0) && !mates(&self.record);
        let best = self.objective();
        let is_overlooked = best.is_some_and(|best| is_overlooked(best, found, shows_mate));
        let after = |own: &String, rest: &[String]| {
            let moves = iter::once(own).chain(rest).take(MAX_LINE);
            moves.cloned().collect()
        };
        let line = LineRecord {
            // Not known: not every unit of ScoreType is turned around by a sign, and reviews show W-L.
            score: None,
            // The winner's moves are counted; if the winner made the move, it is one more.
            mate: mate.map(|n| if n > 0 { -n } else { 1 - n }),
            wdl: Some([loss, draw, win]),
            objective: None,
            nodes: next.nodes,
            pv: after(&self.uci, &line.pv),
            san: after(&self.san, &line.san),
        };
        self.set_line(line, is_overlooked);
    }

    /// Gives the line of the played move the value of the end, if the move ends the game: a search may not have visited
    /// it.
    fn take_line_of_end(&mut self) {
        let Some(value) = self.end_value else { return };
        let is_mate = value < 0.0;
        let line = LineRecord {
            score: None,
            mate: is_mate.then_some(1),
            wdl: Some(if is_mate { [1000, 0, 0] } else { [0, 1000, 0] }),
            objective: None,
            nodes: 1,
            pv: vec![self.uci.clone()],
            san: vec![self.san.clone()],
        };
        self.set_line(line, false);
    }

    /// Sets the line of the played move, with this value against best replies. A move that is the best one already
    /// keeps its value, unless the search overlooked how good it is (`is_overlooked`): then it has this value, and is
    /// the best move. The practical value is at least that: the side that moves may also play for best replies, and the
    /// search of this position may have missed what the one after it found.
    fn set_line(&mut self, found: LineRecord, is_overlooked: bool) {
        if self.record.lines.is_empty() {
            return;
        }
        let is_kept = self.is_best() && !is_overlooked;
        let has_practical_values = self.record.has_practical_values();
        if is_overlooked {
            self.record.objective_best = Some(self.uci.clone());
        }
        let lines = &mut self.record.lines;
        let is_played = |line: &LineRecord| line.pv.first() == Some(&self.uci);
        let index = lines.iter().position(is_played).unwrap_or_else(|| {
            // Without search-contempt there are only the best lines.
            lines.push(LineRecord {
                nodes: 0,
                ..found.clone()
            });
            lines.len() - 1
        });
        let line = &mut lines[index];
        (line.pv, line.san) = (found.pv, found.san);
        if is_kept {
            return;
        }
        let (by_found, practical) = (found.wdl.map_or(0.0, wl), line.wdl.map(wl));
        if !has_practical_values || practical.is_none_or(|practical| practical < by_found) {
            (line.wdl, line.mate, line.score) = (found.wdl, found.mate, found.score);
        }
        if has_practical_values {
            line.objective = found.wdl.map(|wdl| ObjectiveRecord {
                score: found.score,
                mate: found.mate,
                wdl,
                gain: practical.map_or(0.0, |practical| (practical - by_found).max(0.0)),
                nodes: found.nodes,
            });
        } else {
            line.nodes = found.nodes;
        }
    }

    /// The trap in words, with the evidence if the move sets or misses one: `It sets a trap: the reply Nxe4 looks
    /// natural (...)`, `It misses a trap, Nd5: the reply Nxe4 looks natural (...)`, `It falls into the trap`.
    pub fn trap_text(&self) -> Option<String> {
        let moment = self.trap?;
        let mut text = format!("It {}", moment.text());
        if let Some(trap) = self.trap_record() {
            if moment == TrapMoment::Missed {
                text += &format!(", {}", trap.san);
            }
            text += &format!(": {}", trap.text());
        }
        Some(text)
    }
}

/// Collects the games of an analysis, position by position.
#[derive(Debug, Default)]
pub struct Reviewer {
    games: Vec<GameReview>,
}

impl Reviewer {
    /// Adds an analysed position; positions come in the order of the games.
    pub fn add(&mut self, item: &Item, record: PositionRecord) {
        let Some(game) = &item.game else { return };
        let is_next = |review: &GameReview| !Arc::ptr_eq(&review.game, game);
        if self.games.last().is_none_or(is_next) {
            self.games.push(GameReview {
                game: Arc::clone(game),
                moves: Vec::new(),
                end: None,
                accuracy: [None; 2],
            });
        }
        let Some(review) = self.games.last_mut() else {
            return;
        };
        match item.played {
            Some(played) => review.moves.push(ReviewedMove::new(item, played, record)),
            None => review.end = Some(record),
        }
    }

    /// Removes the game of a position that is not added: the game is not complete without it.
    pub fn remove_game_of(&mut self, item: &Item) {
        let game = item.game.as_ref();
        self.games
            .retain(|review| game.is_none_or(|game| !Arc::ptr_eq(&review.game, game)));
    }

    /// All games, with judgements.
    pub fn finish(mut self) -> Vec<GameReview> {
        self.games.iter_mut().for_each(judge);
        self.games
    }
}

/// Judges every move of a game.
fn judge(review: &mut GameReview) {
    // Backwards, so that what a reply shows also counts for the move before it.
    for index in (0..review.moves.len()).rev() {
        let Some(next) = review.after(index) else {
            continue;
        };
        let (next, value, is_mated) = (next.clone(), objective(next), mates(next));
        let reviewed = &mut review.moves[index];
        reviewed.loss = reviewed.loss(value, is_mated);
        reviewed.take_line_of_next(&next);
    }
    for reviewed in &mut review.moves {
        // A move that ends the game has no position after it.
        if reviewed.loss.is_none() {
            reviewed.loss = reviewed.loss(None, false);
            reviewed.take_line_of_end();
        }
        reviewed.judgement = reviewed.lost_chances().and_then(Judgement::of);
    }
    mark_traps(&mut review.moves);
    let judged = review.moves.iter().map(|reviewed| JudgedMove {
        turn: reviewed.turn,
        before: reviewed.objective().unwrap_or(0.0),
        loss: reviewed.loss,
    });
    review.accuracy = accuracy::of(&judged.collect::<Vec<_>>());
}

/// Marks the traps with the largest expected losses, and the replies to those that were set.
fn mark_traps(moves: &mut [ReviewedMove]) {
    let set = most_worth(moves, MAX_SET, ReviewedMove::candidate);
    let missed = most_worth(moves, MAX_MISSED, ReviewedMove::missed_candidate);
    for &index in &set {
        let Some(trap) = moves[index].candidate() else {
            continue;
        };
        let (fatal, better) = (trap.mistake.m.clone(), trap.mistake.better.clone());
        if let Some(reply) = moves.get_mut(index + 1) {
            let is_fallen = reply.uci == fatal;
            reply.better_by_trap = is_fallen.then_some(better);
            reply.trap = match reply.loss {
                _ if is_fallen => Some(TrapMoment::Fallen),
                // Another mistake is reported as that.
                Some(loss) if loss < traps::MAX_MET_LOSS => Some(TrapMoment::Met),
                _ => None,
            };
        }
    }
    for index in missed {
        moves[index].trap = moves[index].trap.or(Some(TrapMoment::Missed));
    }
    // A reply that sets a trap itself is reported as that, unless it falls into one.
    for index in set {
        if moves[index].trap != Some(TrapMoment::Fallen) {
            moves[index].trap = Some(TrapMoment::Set);
        }
    }
}

/// The moves with the `count` traps of the largest expected losses.
fn most_worth(
    moves: &[ReviewedMove],
    count: usize,
    trap: impl Fn(&ReviewedMove) -> Option<&TrapRecord>,
) -> Vec<usize> {
    let worth = |(index, reviewed)| Some((index, trap(reviewed)?.mistake.worth()));
    let mut found: Vec<(usize, f32)> = moves.iter().enumerate().filter_map(worth).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found.truncate(count);
    found.into_iter().map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{
        input::{from_pgn, tests::file},
        record::ObjectiveRecord,
        traps::MistakeRecord,
    };

    /// A line with these chances against best replies.
    fn line(pv: &str, objective: [u32; 3]) -> LineRecord {
        LineRecord {
            score: Some(0),
            mate: None,
            wdl: Some([500, 300, 200]),
            objective: Some(ObjectiveRecord {
                score: Some(0),
                mate: None,
                wdl: objective,
                gain: 0.3 - wl(objective),
                nodes: 100,
            }),
            nodes: 100,
            pv: vec![pv.into()],
            san: vec![pv.into()],
        }
    }

    fn with_mate(mut line: LineRecord, moves: i32) -> LineRecord {
        line.objective.as_mut().unwrap().mate = Some(moves);
        line
    }

    fn trap(m: &str, reply: &str, p: f32, loss: f32) -> TrapRecord {
        TrapRecord {
            m: m.into(),
            san: m.into(),
            cost: 0.02,
            mistake: MistakeRecord {
                m: reply.into(),
                san: reply.into(),
                policy: 0.5,
                p,
                loss,
                better: "Be7".into(),
                model: "a player rated 1500".into(),
                rating: 1500,
            },
        }
    }

    const EVEN: [u32; 3] = [300, 400, 300];
    const WORSE: [u32; 3] = [100, 200, 700];

    /// A game with these lines, the best one first, and traps before each move and after the last one. There are as
    /// many moves as records, less one, of 1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 and so on.
    fn review(records: Vec<(Vec<LineRecord>, Vec<TrapRecord>)>) -> GameReview {
        const MOVES: [&str; 8] = ["e4", "e5", "Nf3", "Nc6", "Bb5", "a6", "Ba4", "Nf6"];
        let moves = MOVES[..records.len() - 1].join(" ");
        let game = file(format!("[White \"x\"]\n\n{moves} *\n"));
        let mut reviewer = Reviewer::default();
        for (item, (lines, traps)) in from_pgn(&[game.path()]).unwrap().zip(records) {
            let item = item.unwrap();
            let position = item.history.position();
            let text = |m| crate::chess::setup::move_text(position, m, false);
            let record = PositionRecord {
                played: item.played.map(text),
                objective_best: lines.first().map(|line| line.pv[0].clone()),
                lines,
                traps,
                ..PositionRecord::empty(&item)
            };
            reviewer.add(&item, record);
        }
        reviewer.finish().remove(0)
    }

    fn without_traps(lines: Vec<Vec<LineRecord>>) -> GameReview {
        review(lines.into_iter().map(|lines| (lines, Vec::new())).collect())
    }

    fn moments(review: &GameReview) -> Vec<Option<TrapMoment>> {
        review.moves.iter().map(|reviewed| reviewed.trap).collect()
    }

    #[test]
    fn a_proof_after_the_move_overrules_the_search_before_it() {
        let judge_first = |reply: LineRecord| {
            let before = vec![line("e2e4", EVEN), line("d2d4", EVEN)];
            let review = without_traps(vec![before, vec![reply]]);
            review.moves[0].judgement
        };
        let won = || line("e7e5", [900, 50, 50]);
        assert_eq!(judge_first(won()), None, "the best move stays the best");
        assert_eq!(judge_first(with_mate(won(), 1)), Some(Judgement::Blunder));
    }

    #[test]
    fn a_move_is_compared_only_with_other_moves() {
        let judge_first = |before: Vec<LineRecord>| {
            let reply = with_mate(line("e7e5", [1000, 0, 0]), 2);
            let mut review = without_traps(vec![before, vec![reply]]);
            let reviewed = review.moves.remove(0);
            let other = reviewed.best_other_line().map(|line| line.pv[0].clone());
            (reviewed.judgement, other)
        };
        let hoped = || line("e2e4", [400, 300, 300]);
        // The only legal move, and one of two that both lose.
        assert_eq!(judge_first(vec![hoped()]), (None, None));
        let lost = line("d2d4", [0, 20, 980]);
        assert_eq!(judge_first(vec![hoped(), lost]).0, None);
        let worse = line("d2d4", [300, 300, 400]);
        let expected = (Some(Judgement::Blunder), Some("d2d4".to_owned()));
        assert_eq!(judge_first(vec![hoped(), worse]), expected);
    }

    #[test]
    fn a_draw_by_the_rules_has_value_zero() {
        let start = "6k1/5ppp/8/8/8/8/5PPP/Q5K1 w - - 0 1";
        let moves = "a1b1 g8f8 b1a1 f8g8 a1b1 g8f8 b1a1 f8g8";
        let moves: Vec<String> = moves.split(' ').map(str::to_owned).collect();
        let history =
            |count: usize| crate::chess::setup::history_from(Some(start), &moves[..count]).unwrap();
        assert_eq!(end_value(&history(7)), None);
        assert_eq!(end_value(&history(8)), Some(0.0));
    }

    /// The line that begins with the played move.
    fn played_line(reviewed: &ReviewedMove) -> &LineRecord {
        let mut lines = reviewed.record.lines.iter();
        let played = lines.find(|line| line.pv.first() == Some(&reviewed.uci));
        played.unwrap()
    }

    #[test]
    fn a_move_that_draws_has_the_value_of_a_draw() {
        let game = file("[FEN \"7k/5Q2/8/6K1/8/8/8/8 w - - 0 60\"]\n\n60. Kg6 1/2-1/2\n");
        let item = from_pgn(&[game.path()]).unwrap().next().unwrap().unwrap();
        let record = PositionRecord {
            played: Some("g5g6".into()),
            objective_best: Some("f7f1".into()),
            lines: vec![line("f7f1", [1000, 0, 0]), line("g5g6", [800, 200, 0])],
            ..PositionRecord::empty(&item)
        };
        let mut reviewer = Reviewer::default();
        reviewer.add(&item, record);
        let review = reviewer.finish().remove(0);
        let reviewed = &review.moves[0];
        assert_eq!(reviewed.loss, Some(1.0));
        let played = played_line(reviewed);
        assert_eq!(played.objective.as_ref().unwrap().wdl, [0, 1000, 0]);
    }

    #[test]
    fn losses_are_those_against_best_replies() {
        let review = without_traps(vec![
            vec![line("e2e4", EVEN)],
            // The move in the game is not the best; the search after it has its value.
            vec![line("c7c5", EVEN), line("e7e5", EVEN)],
            vec![line("g1f3", [700, 200, 100])],
        ]);
        let moves = &review.moves;
        assert_eq!((moves[0].judgement, moves[0].loss), (None, Some(0.0)));
        // 0.28 of the chances between people.
        assert_eq!(moves[1].judgement, Some(Judgement::Mistake));
        assert!((moves[1].loss.unwrap() - 0.6).abs() < 1e-5);
        let played = played_line(&moves[1]);
        assert_eq!(played.objective.as_ref().unwrap().wdl, [100, 200, 700]);
        assert_eq!(played.wdl, Some([500, 300, 200]));
        assert_eq!(moves[0].san, "e4");
        assert!(moves[1].fen_after.starts_with("rnbqkbnr/pppp1ppp/8/4p3/"));
        let [white, black] = review.accuracy.map(Option::unwrap);
        assert!(white > 99.0 && black < 60.0, "{white} {black}");
    }

    #[test]
    fn a_reply_that_both_searches_overlooked_counts_for_the_move_before_it() {
        // After 1... e5 White is lost, which neither the search before it nor the one before 1. e4 has seen.
        let review = |after: [u32; 3]| {
            without_traps(vec![
                vec![line("d2d4", EVEN), line("e2e4", EVEN)],
                vec![line("c7c5", EVEN), line("e7e5", EVEN)],
                vec![line("g1f3", after)],
            ])
        };
        let found = review(WORSE);
        let judgements = found.moves.iter().map(|reviewed| reviewed.judgement);
        let judgements: Vec<_> = judgements.collect();
        assert_eq!(judgements, [Some(Judgement::Mistake), None]);
        assert!((found.moves[0].loss.unwrap() - 0.6).abs() < 1e-5);
        assert!((found.moves[1].objective().unwrap() - 0.6).abs() < 1e-5);
        let best = best_objectively(&found.moves[1].record).unwrap();
        assert_eq!(best.pv, ["e7e5", "g1f3"]);
        // A small difference is within the error of the searches.
        let small = review([280, 360, 360]);
        let best = best_objectively(&small.moves[1].record).unwrap();
        assert_eq!(best.pv, ["c7c5"]);
        assert_eq!(small.moves[0].loss, Some(0.0));
    }

    #[test]
    fn the_played_move_is_followed_by_the_best_reply_of_the_next_position() {
        let with_reply = |mut line: LineRecord, reply: &str| {
            line.pv.push(reply.into());
            line.san.push(reply.into());
            line
        };
        // Its own search expected the first of two replies, also where the move keeps its value as the best one.
        let played = || with_reply(line("e2e4", EVEN), "a7a6");
        for before in [vec![played()], vec![line("d2d4", EVEN), played()]] {
            let after = vec![with_reply(line("e7e5", EVEN), "g1f3"), line("a7a6", WORSE)];
            let review = without_traps(vec![before, after]);
            let played = played_line(&review.moves[0]);
            assert_eq!(played.pv, ["e2e4", "e7e5", "g1f3"]);
            assert_eq!(played.san, ["e4", "e7e5", "g1f3"]);
        }
    }

    #[test]
    fn without_search_contempt_the_played_move_has_a_line_too() {
        let plain = |m: &str, wdl: [u32; 3]| LineRecord {
            wdl: Some(wdl),
            objective: None,
            ..line(m, wdl)
        };
        for before in [
            vec![plain("d2d4", EVEN)],
            vec![plain("d2d4", EVEN), plain("e2e4", EVEN)],
        ] {
            let review = without_traps(vec![before, vec![plain("e7e5", [700, 200, 100])]]);
            let reviewed = &review.moves[0];
            let played = played_line(reviewed);
            assert_eq!(
                (played.wdl, &*played.pv[1]),
                (Some([100, 200, 700]), "e7e5")
            );
            assert!(played.objective.is_none());
            assert_eq!(reviewed.judgement, Some(Judgement::Mistake));
        }
    }

    #[test]
    fn a_move_that_mates_has_a_line() {
        let game = file("[FEN \"7k/8/5KQ1/8/8/8/8/8 w - - 0 60\"]\n\n60. Qg7# 1-0\n");
        let item = from_pgn(&[game.path()]).unwrap().next().unwrap().unwrap();
        let record = PositionRecord {
            played: Some("g6g7".into()),
            lines: vec![with_mate(line("g6e8", [1000, 0, 0]), 1)],
            ..PositionRecord::empty(&item)
        };
        let mut reviewer = Reviewer::default();
        reviewer.add(&item, record);
        let review = reviewer.finish().remove(0);
        let played = played_line(&review.moves[0]);
        assert_eq!((played.mate, played.wdl), (Some(1), Some([1000, 0, 0])));
        assert_eq!(played.san, ["Qg7#"]);
        assert_eq!(review.moves[0].loss, Some(0.0));
    }

    #[test]
    fn what_the_next_positions_show_counts_where_it_is_clearly_more() {
        let of = |wl: f32| ScoredValue {
            value: Value {
                wl,
                d: 0.5 - wl.abs() / 2.0,
                m: 20.0,
            },
            score: Score::Open,
        };
        let found = |values: &[f32]| value_of_line(values.iter().map(|&wl| Some(of(wl))).collect());
        let value = |values: &[f32]| found(values).map(|found| found.value.wl);
        assert_eq!(value(&[]), None);
        assert_eq!(value(&[0.3]), Some(0.3));
        assert_eq!(value(&[0.3, -0.35]), Some(0.3), "within the error");
        assert_eq!(value(&[0.3, -0.5]), Some(0.5));
        assert_eq!(value(&[0.3, 0.5]), Some(0.3), "another move is better");
        assert_eq!(value(&[0.3, -0.3, 0.8]), Some(0.3));
        assert_eq!(value(&[0.3, -0.9, 0.95]), Some(0.9));
        assert_eq!(value(&[0.3, -0.9, 0.2]), Some(0.3));
        assert_eq!(value(&[0.3, 0.1, -0.9]), Some(0.3));
        // The game is over after the first move.
        assert_eq!(value_of_line(vec![Some(of(0.3)), None]), Some(of(0.3)));
        // Draws are as likely as the next position says.
        let by_next = found(&[0.3, -0.5]).unwrap();
        assert_eq!((by_next.value.d, by_next.value.m), (0.25, 21.0));
        // A mate is always news.
        let mate = |moves: i32| ScoredValue {
            score: Score::Mate(moves),
            ..of(moves.signum() as f32)
        };
        let mated = value_of_line(vec![Some(of(0.95)), Some(mate(-3))]).unwrap();
        assert_eq!((mated.value.wl, mated.score), (1.0, Score::Mate(4)));
        let shorter = value_of_line(vec![Some(mate(2)), Some(mate(-3))]);
        assert_eq!(shorter, Some(mate(2)));
    }

    #[test]
    fn a_mate_that_the_next_position_shows_counts_near_a_win() {
        const WON: [u32; 3] = [950, 40, 10];
        let review = |before: Vec<LineRecord>| {
            let reply = with_mate(line("e7e5", [0, 0, 1000]), -3);
            without_traps(vec![before, vec![reply]]).moves.remove(0)
        };
        for before in [
            vec![line("d2d4", WON), line("e2e4", [900, 90, 10])],
            vec![line("e2e4", WON), line("d2d4", EVEN)],
        ] {
            let reviewed = review(before);
            let best = best_objectively(&reviewed.record).unwrap();
            assert_eq!((&*best.pv[0], objective_mate(best)), ("e2e4", Some(4)));
            assert_eq!((reviewed.loss, reviewed.judgement), (Some(0.0), None));
        }
        // Another mate is as good.
        let known = with_mate(line("d2d4", [1000, 0, 0]), 2);
        let reviewed = review(vec![known, line("e2e4", WON)]);
        assert_eq!(best_objectively(&reviewed.record).unwrap().pv, ["d2d4"]);
        assert_eq!(objective_mate(played_line(&reviewed)), Some(4));
    }

    #[test]
    fn a_move_whose_value_is_not_known_is_no_alternative() {
        let unknown = |m: &str| LineRecord {
            objective: None,
            ..line(m, EVEN)
        };
        let before = vec![line("e2e4", EVEN), line("g1f3", WORSE), unknown("d2d4")];
        let review = without_traps(vec![before, vec![line("e7e5", EVEN)]]);
        let reviewed = &review.moves[0];
        assert_eq!(reviewed.best_other_line().unwrap().pv, ["g1f3"]);
        // The played move gets its value from the next position.
        let before = vec![line("d2d4", EVEN), unknown("e2e4")];
        let review = without_traps(vec![before, vec![line("e7e5", [700, 200, 100])]]);
        let played = played_line(&review.moves[0]);
        let objective = played.objective.as_ref().unwrap();
        assert_eq!(
            (objective.wdl, played.wdl),
            ([100, 200, 700], Some([500, 300, 200]))
        );
        assert!((objective.gain - 0.9).abs() < 1e-6);
    }

    #[test]
    fn a_bad_move_that_the_model_expects_is_called_natural() {
        let mut review = without_traps(vec![
            vec![line("d2d4", EVEN), line("e2e4", WORSE)],
            vec![line("e7e5", [700, 200, 100])],
        ]);
        let reviewed = &mut review.moves[0];
        assert!(reviewed.judgement.is_some());
        assert_eq!(reviewed.natural(), None);
        reviewed.record.mistake = Some(trap("x", "e2e4", 0.1, 0.6).mistake);
        let expected = "It looks natural (50 % by the model of a player rated 1500)";
        assert_eq!(reviewed.natural().as_deref(), Some(expected));
        reviewed.trap = Some(TrapMoment::Fallen);
        assert_eq!(reviewed.natural(), None);
        (reviewed.judgement, reviewed.trap) = (None, None);
        assert_eq!(reviewed.natural(), None);
    }

    #[test]
    fn a_practical_value_is_no_lower_than_that_against_best_replies() {
        let review = without_traps(vec![
            vec![line("d2d4", EVEN), line("e2e4", EVEN)],
            // What the search before the move had not seen.
            vec![line("e7e5", [50, 50, 900])],
        ]);
        let played = played_line(&review.moves[0]);
        let objective = played.objective.as_ref().unwrap();
        assert_eq!((played.wdl, objective.gain), (Some([900, 50, 50]), 0.0));
    }

    #[test]
    fn a_trap_is_set_and_its_reply_falls_into_it_or_meets_it() {
        let game = |fatal: &str, after_reply: [u32; 3]| {
            let set = trap("e2e4", fatal, 0.5, 0.6);
            let review = review(vec![
                (vec![line("e2e4", EVEN)], vec![set]),
                (vec![line("c7c5", EVEN), line("e7e5", WORSE)], vec![]),
                (vec![line("g1f3", after_reply)], vec![]),
            ]);
            moments(&review)
        };
        let set = Some(TrapMoment::Set);
        assert_eq!(
            game("e7e5", [700, 200, 100]),
            [set, Some(TrapMoment::Fallen)]
        );
        assert_eq!(game("b8c6", EVEN), [set, Some(TrapMoment::Met)]);
        // Another mistake is neither.
        assert_eq!(game("b8c6", [700, 200, 100]), [set, None]);
    }

    #[test]
    fn the_traps_with_the_largest_expected_loss_are_reported() {
        // Four of them; the least is worth 0.11.
        let moves = ["e2e4", "e7e5", "g1f3", "b8c6", "f1b5", "a7a6", "b5a4"];
        let record = |(index, m): (usize, &&str)| {
            let p = [0.5, 0.0, 0.9, 0.0, 0.22, 0.0, 0.6][index];
            let traps = if p > 0.0 {
                vec![trap(m, "h2h4", p, 0.5)]
            } else {
                vec![]
            };
            (vec![line(m, EVEN)], traps)
        };
        let mut records: Vec<_> = moves.iter().enumerate().map(record).collect();
        records.push((vec![line("g8f6", EVEN)], vec![]));
        let review = review(records);
        let set = |index: usize| review.moves[index].trap == Some(TrapMoment::Set);
        assert_eq!([0, 2, 4, 6].map(set), [true, true, false, true]);
        assert!(review.moves[0].trap_record().is_some());
    }

    #[test]
    fn a_trap_of_another_move_is_missed_if_it_is_worth_much() {
        let first = |p: f32| {
            let traps = vec![trap("d2d4", "g8f6", p, 0.5)];
            let lines = vec![line("e2e4", EVEN), line("d2d4", EVEN)];
            let review = review(vec![(lines, traps), (vec![line("e7e5", EVEN)], vec![])]);
            review.moves[0].trap
        };
        assert_eq!(first(0.9), Some(TrapMoment::Missed));
        assert_eq!(first(0.05), None);
    }

    #[test]
    fn the_text_about_a_trap_names_the_move_that_would_have_set_it() {
        let set = trap("e2e4", "e7e5", 0.5, 0.6);
        let fallen = review(vec![
            (vec![line("e2e4", EVEN)], vec![set]),
            (vec![line("c7c5", EVEN), line("e7e5", WORSE)], vec![]),
            (vec![line("d2d4", [700, 200, 100])], vec![]),
        ]);
        let text = |index: usize| fallen.moves[index].trap_text().unwrap();
        let expected = "It sets a trap: the reply e7e5 looks natural (50 % by";
        assert!(text(0).starts_with(expected), "{}", text(0));
        assert_eq!(text(1), "It falls into the trap");

        let missed = trap("d2d4", "g8f6", 0.9, 0.5);
        let lines = vec![line("e2e4", EVEN), line("d2d4", EVEN)];
        let records = vec![(lines, vec![missed]), (vec![line("e7e5", EVEN)], vec![])];
        let text = review(records).moves[0].trap_text().unwrap();
        let expected = "It misses a trap, d2d4: the reply g8f6 looks natural (50 % by";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("setting the trap costs 1 %"), "{text}");
    }
}
