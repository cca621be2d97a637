//! The review of a whole game: the quality of each move, and traps that were set, met or missed.
//!
//! One search gives two values: the practical one assumes the mistakes that the opponent is likely to make, the
//! objective one assumes best replies. Moves are judged by their objective loss; the trap of a line is the difference
//! between practical and objective value.

use std::sync::Arc;

use shakmaty::{Color, EnPassantMode, KnownOutcome, Position, fen::Fen, san::SanPlus};

use super::{
    input::{Item, PgnGame},
    record::{LineRecord, PositionRecord},
};
use crate::{
    chess::{History, PackedMove},
    game::adjudicate,
};

/// Minimum objective loss in W-L (-1 to 1) of an inaccuracy, a mistake and a blunder: lichess's thresholds.
const MIN_LOSSES: [f32; 3] = [0.1, 0.2, 0.3];

/// Minimum difference in W-L between practical and objective value of a trap. It must also exceed the smallest
/// difference in the position by [`MIN_EXCESS`], because opponents always err and every line has some.
const MIN_TRAP: f32 = 0.2;

/// By this much a trap must exceed the smallest difference of the lines in its position.
const MIN_EXCESS: f32 = 0.1;

/// A trap was missed if its practical W-L is better than the played move's by at least this much.
const MIN_MISSED: f32 = 0.05;

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
    fn of(loss: f32) -> Option<Judgement> {
        match MIN_LOSSES.iter().filter(|&&least| loss >= least).count() {
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
}

impl GameReview {
    /// The analysis of the position after a move.
    pub fn after(&self, index: usize) -> Option<&PositionRecord> {
        let next = self.moves.get(index + 1).map(|next| &next.record);
        next.or(self.end.as_ref())
    }
}

/// W-L of probabilities in per mille.
fn wl(wdl: [u32; 3]) -> f32 {
    (wdl[0] as f32 - wdl[2] as f32) / 1000.0
}

/// The practical and the objective W-L of a line, for the side to move.
pub fn values(line: &LineRecord) -> (f32, f32) {
    let practical = wl(line.wdl);
    let objective = line.objective.as_ref();
    (
        practical,
        objective.map_or(practical, |found| wl(found.wdl)),
    )
}

/// The trap value of a line.
fn trap(line: &LineRecord) -> f32 {
    let (practical, objective) = values(line);
    practical - objective
}

/// The best objective value of a position among its lines.
fn objective(record: &PositionRecord) -> Option<f32> {
    let lines = record.lines.iter();
    lines.map(|line| values(line).1).reduce(f32::max)
}

/// The objectively best line, the first of several.
pub(super) fn best_objectively<'a>(
    lines: impl IntoIterator<Item = &'a LineRecord>,
) -> Option<&'a LineRecord> {
    let lines = lines.into_iter();
    lines.reduce(|best, line| match values(line).1 > values(best).1 {
        true => line,
        false => best,
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
        }
    }

    /// The best objective value among the lines.
    pub fn objective(&self) -> Option<f32> {
        objective(&self.record)
    }

    /// The line that begins with the played move.
    pub fn played_line(&self) -> Option<&LineRecord> {
        let mut lines = self.record.lines.iter();
        lines.find(|line| line.pv.first() == Some(&self.uci))
    }

    /// Whether no line is objectively better than the played move.
    fn is_best(&self) -> bool {
        let played = self.played_line().map(|line| values(line).1);
        played.is_some() && played >= self.objective()
    }

    /// The objectively best line that begins with another move than the played one.
    pub fn best_other_line(&self) -> Option<&LineRecord> {
        let lines = self.record.lines.iter();
        best_objectively(lines.filter(|line| line.pv.first() != Some(&self.uci)))
    }

    /// The move's loss of W-L, if the next position has this value for the other side. A proof of mate in that
    /// position overrules the search before the move.
    fn loss(&self, after: Option<f32>, is_mated: bool) -> Option<f32> {
        let after = after.or(self.end_value)?;
        self.objective()?;
        let other = self.best_other_line().map(|line| values(line).1);
        Some(match other {
            Some(other) if is_mated || !self.is_best() => (other + after).max(0.0),
            // There was nothing better.
            _ => 0.0,
        })
    }

    /// Whether a line of this position is a trap.
    fn is_trap(&self, line: &LineRecord) -> bool {
        let others = self.record.lines.iter().filter(|other| other.pv != line.pv);
        let usual = others.map(trap).reduce(f32::min);
        trap(line) >= MIN_TRAP && usual.is_none_or(|usual| trap(line) >= usual + MIN_EXCESS)
    }

    /// A line with a trap that is better in practice than the played move.
    pub fn missed_line(&self) -> Option<&LineRecord> {
        let played = self.played_line().map_or(f32::MIN, |line| values(line).0);
        let is_better = |line: &LineRecord| {
            self.is_trap(line) && values(line).0 >= played + MIN_MISSED && values(line).0 > -0.9
        };
        self.record.lines.iter().find(|line| is_better(line))
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

    /// All games, with judgements.
    pub fn finish(mut self) -> Vec<GameReview> {
        self.games.iter_mut().for_each(judge);
        self.games
    }
}

/// Judges every move of a game.
fn judge(review: &mut GameReview) {
    let found = (0..review.moves.len()).map(|index| {
        let after = review.after(index);
        // A proof that the search before the move did not have.
        let mate = after.and_then(|after| after.lines.first()?.mate);
        (after.and_then(objective), mate.is_some_and(|mate| mate > 0))
    });
    let found: Vec<(Option<f32>, bool)> = found.collect();
    let mut is_trap_open = false;
    for (reviewed, (found, is_mated)) in review.moves.iter_mut().zip(found) {
        reviewed.loss = reviewed.loss(found, is_mated);
        reviewed.judgement = reviewed.loss.and_then(Judgement::of);
        let played = reviewed.played_line();
        let is_set = !is_mated && played.is_some_and(|line| reviewed.is_trap(line));
        reviewed.trap = match (is_trap_open, reviewed.loss) {
            (true, Some(loss)) if loss >= MIN_LOSSES[0] => Some(TrapMoment::Fallen),
            // A reply that sets a trap itself is reported as that.
            _ if is_set => Some(TrapMoment::Set),
            (true, Some(_)) => Some(TrapMoment::Met),
            _ if reviewed.missed_line().is_some() => Some(TrapMoment::Missed),
            _ => None,
        };
        is_trap_open = is_set;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{input::from_pgn, record::ObjectiveRecord};

    fn line(pv: &str, practical: [u32; 3], objective: [u32; 3]) -> LineRecord {
        LineRecord {
            score: Some(0),
            mate: None,
            wdl: practical,
            objective: Some(ObjectiveRecord {
                score: Some(0),
                wdl: objective,
                trap: 0.0,
                next: 0.0,
            }),
            nodes: 100,
            pv: vec![pv.into()],
            san: vec![pv.into()],
        }
    }

    #[test]
    fn a_proof_after_the_move_overrules_the_search_before_it() {
        let hoped = line("e2e4", [600, 300, 100], [150, 600, 250]);
        let quiet = line("d2d4", [150, 600, 250], [100, 600, 300]);
        let review_with = |mate: Option<i32>| {
            let mut reply = line("e7e5", [900, 50, 50], [900, 50, 50]);
            reply.mate = mate;
            let open = line("g1f3", [200, 600, 200], [200, 600, 200]);
            let mut review = review(vec![
                vec![hoped.clone(), quiet.clone()],
                vec![reply],
                vec![open.clone()],
                vec![open.clone()],
            ]);
            review.moves.remove(0)
        };
        let set = review_with(None);
        assert_eq!((set.trap, set.judgement), (Some(TrapMoment::Set), None));
        let mated = review_with(Some(1));
        assert_eq!(
            (mated.trap, mated.judgement),
            (None, Some(Judgement::Blunder))
        );
    }

    #[test]
    fn a_move_is_compared_only_with_other_moves() {
        let judge_first = |before: Vec<LineRecord>| {
            let mut reply = line("e7e5", [1000, 0, 0], [1000, 0, 0]);
            reply.mate = Some(2);
            let mut review = review(vec![before, vec![reply]]);
            let reviewed = review.moves.remove(0);
            let other = reviewed.best_other_line().map(|line| line.pv[0].clone());
            (reviewed.judgement, other)
        };
        let hoped = || line("e2e4", [400, 300, 300], [400, 300, 300]);
        // The only legal move, and one of two that both lose.
        assert_eq!(judge_first(vec![hoped()]), (None, None));
        let lost = line("d2d4", [0, 20, 980], [0, 20, 980]);
        assert_eq!(judge_first(vec![hoped(), lost]).0, None);
        let worse = line("d2d4", [300, 300, 400], [300, 300, 400]);
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

    /// A game of four moves with these lines before each.
    fn review(lines: Vec<Vec<LineRecord>>) -> GameReview {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"[White \"x\"]\n\n1. e4 e5 2. Nf3 Nc6 *\n").unwrap();
        let mut reviewer = Reviewer::default();
        for (item, lines) in from_pgn(file.path()).unwrap().zip(lines) {
            let item = item.unwrap();
            let position = item.history.position();
            let text = |m| crate::chess::setup::move_text(position, m, false);
            let record = PositionRecord {
                played: item.played.map(text),
                lines,
                ..PositionRecord::empty(&item)
            };
            reviewer.add(&item, record);
        }
        reviewer.finish().remove(0)
    }

    #[test]
    fn losses_are_objective_and_traps_are_tracked() {
        let even = [300, 400, 300];
        let review = review(vec![
            // White sets a trap without an objective loss.
            vec![
                line("e2e4", [500, 300, 200], even),
                line("d2d4", even, even),
            ],
            // Black falls into it: c7c5 would be equal, the played move loses.
            vec![
                line("c7c5", even, even),
                line("e7e5", [100, 200, 700], [100, 200, 700]),
            ],
            // White misses another trap: f1c4 has a better practical value.
            vec![
                line("f1c4", [900, 100, 0], [700, 200, 100]),
                line("g1f3", [700, 200, 100], [700, 200, 100]),
            ],
            vec![
                line("g8f6", even, even),
                line("b8c6", [100, 200, 700], [100, 200, 700]),
            ],
            // After the last move.
            vec![line("f1b5", [700, 200, 100], [800, 200, 0])],
        ]);
        let moves = &review.moves;
        let traps: Vec<_> = moves.iter().map(|reviewed| reviewed.trap).collect();
        assert_eq!(
            traps,
            [
                Some(TrapMoment::Set),
                Some(TrapMoment::Fallen),
                Some(TrapMoment::Missed),
                None
            ]
        );
        let judge_first: Vec<_> = moves.iter().map(|reviewed| reviewed.judgement).collect();
        let blunder = Some(Judgement::Blunder);
        assert_eq!(judge_first, [None, blunder, None, blunder]);
        assert!((moves[1].loss.unwrap() - 0.6).abs() < 1e-5);
        assert!((moves[3].loss.unwrap() - 0.8).abs() < 1e-5);
        assert_eq!(moves[0].san, "e4");
        assert!(moves[3].fen_after.starts_with("r1bqkbnr/pppp1ppp/2n5/"));
    }

    #[test]
    fn the_right_reply_meets_a_trap() {
        let even = [300, 400, 300];
        let review = review(vec![
            vec![line("e2e4", [500, 300, 200], even)],
            vec![line("e7e5", even, even)],
            vec![line("g1f3", even, even)],
        ]);
        let traps: Vec<_> = review.moves.iter().map(|reviewed| reviewed.trap).collect();
        assert_eq!(traps, [Some(TrapMoment::Set), Some(TrapMoment::Met), None]);
        assert!(
            review
                .moves
                .iter()
                .all(|reviewed| reviewed.judgement.is_none())
        );
    }
}
