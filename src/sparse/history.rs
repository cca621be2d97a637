//! Inputs besides the position: the last two moves and the players' rating, in networks that predict human moves; who
//! is to move, in networks whose value is that of games against a fallible opponent.
//!
//! A person reacts to the last move: recaptures, answers the threat, goes on with a plan. What such a network sees of
//! the past is the opponent's last move and the own one before it: the piece and the square where it went, the square
//! it came from and the kind of piece it captured. They are found by comparing boards, so that records of games and
//! the line of a search give the same inputs; a castling move is that of the king. (In Chess960, where the king or the
//! rook may stay when they castle, what is found is the other's move; where they change places, none is.)
//!
//! The rating is one of [`RATINGS`] in training. In play it is constant, so
//! [`IntegerNetwork::for_rating`](super::infer::IntegerNetwork::for_rating) adds its weights to the biases, those of
//! the neighbours in proportion where the rating lies between two of them.

use std::ops::Range;

use shakmaty::{Board, Chess, Color, Position, Role, Square};

use super::features::{
    ActiveFeatures, INPUTS, InputSet, MOVE_INPUTS, PAST_MOVES, RATINGS, SideRole, SquareView,
};

/// The opponent's last move, then the own move before it.
const MOVES: usize = INPUTS;
/// One for each of [`RATINGS`].
const RATING: usize = MOVES + PAST_MOVES * MOVE_INPUTS;
/// The engine is to move, then its opponent; in place of the moves.
const MOVER: usize = INPUTS;

/// A move of the past, as far as a network sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastMove {
    piece: Role,
    from: Square,
    to: Square,
    captured: Option<Role>,
}

impl PastMove {
    /// The move that leads from one board to the next; `None` if no single move of `mover` does.
    pub fn between(before: &Board, after: &Board, mover: Color) -> Option<PastMove> {
        let (had, has) = (before.by_color(mover), after.by_color(mover));
        let (left, reached) = (had & !has, has & !had);
        let (from, to) = match (left.count(), reached.count()) {
            (1, 1) => (left.first()?, reached.first()?),
            // Castling.
            (2, 2) => (before.king_of(mover)?, after.king_of(mover)?),
            _ => return None,
        };
        let captured = before.by_color(!mover) & !after.by_color(!mover);
        let is_plausible =
            captured.count() <= 1 && (after.by_color(!mover) & !before.by_color(!mover)).is_empty();
        is_plausible.then_some(PastMove {
            piece: after.role_at(to)?,
            from,
            to,
            captured: captured.first().and_then(|square| before.role_at(square)),
        })
    }
}

/// What a network sees besides the position. The default is nothing, as at the start of a game.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Past {
    /// The opponent's last move, and the own move before it.
    pub moves: [Option<PastMove>; PAST_MOVES],
    /// The players' rating, one of [`RATINGS`]; only in training.
    pub rating: Option<u32>,
    /// Who is to move, if that is known.
    pub mover: Option<SideRole>,
}

impl Past {
    /// Where the opponent's last move went.
    pub fn last_target(&self) -> Option<Square> {
        self.moves[0].map(|m| m.to)
    }

    /// The last moves before the position `now`, given the boards before it, the latest first.
    pub fn of_boards<'a>(now: &Chess, before: impl IntoIterator<Item = &'a Board>) -> Past {
        let (mut after, mut mover) = (now.board(), now.turn());
        let mut past = Past::default();
        for (m, before) in past.moves.iter_mut().zip(before) {
            mover = !mover;
            *m = PastMove::between(before, after, mover);
            after = before;
        }
        past
    }
}

impl ActiveFeatures {
    /// Adds those inputs of `set` that are not the position's.
    pub fn push_past(&mut self, set: InputSet, view: SquareView, past: &Past) {
        match set {
            InputSet::Position | InputSet::Classes => {}
            InputSet::History => self.push_history(view, past),
            InputSet::Opponent | InputSet::OpponentClasses => match past.mover {
                Some(SideRole::Engine) => self.push(MOVER),
                Some(SideRole::Opponent) => self.push(MOVER + 1),
                None => {}
            },
        }
    }

    fn push_history(&mut self, view: SquareView, past: &Past) {
        for (number, m) in past.moves.iter().enumerate() {
            let Some(m) = m else { continue };
            let base = MOVES + MOVE_INPUTS * number;
            let piece = m.piece as usize - 1;
            self.push(base + 64 * piece + view.square(m.to));
            self.push(base + 6 * 64 + view.square(m.from));
            if let Some(captured) = m.captured {
                self.push(base + 7 * 64 + (captured as usize - 1).min(4));
            }
        }
        let rating = past.rating.and_then(rating_input);
        rating.into_iter().for_each(|input| self.push(input));
    }
}

/// The input of a rating that has one.
pub fn rating_input(rating: u32) -> Option<usize> {
    let number = RATINGS.iter().position(|&known| known == rating)?;
    Some(RATING + number)
}

/// The inputs of all ratings.
pub fn rating_inputs() -> Range<usize> {
    RATING..RATING + RATINGS.len()
}

/// The inputs of ratings and their shares for a rating; they sum to 1. Below the first rating the shares are
/// extrapolated, by as much as lies between it and the second at most; above the last one its own is taken.
pub fn rating_shares(rating: u32) -> [(usize, f32); 2] {
    let step = RATINGS[1] - RATINGS[0];
    let rating = rating.clamp(RATINGS[0] - step, RATINGS[RATINGS.len() - 1]);
    let above = RATINGS.partition_point(|&known| known <= rating);
    let low = above.saturating_sub(1).min(RATINGS.len() - 2);
    let span = (RATINGS[low + 1] - RATINGS[low]) as f32;
    let share = (rating as f32 - RATINGS[low] as f32) / span;
    [(RATING + low, 1.0 - share), (RATING + low + 1, share)]
}

#[cfg(test)]
mod tests {
    use shakmaty::{CastlingMode, fen::Fen, uci::UciMove};

    use super::*;
    use crate::sparse::features::InputSet;

    /// The positions of a line, the last one last.
    fn line(fen: &str, moves: &str) -> Vec<Chess> {
        let fen: Fen = fen.parse().unwrap();
        let mut line: Vec<Chess> = vec![fen.into_position(CastlingMode::Chess960).unwrap()];
        for text in moves.split_whitespace() {
            let position = line.last().unwrap();
            let m: UciMove = text.parse().unwrap();
            let m = m.to_move(position).unwrap();
            line.push(position.clone().play(m).unwrap());
        }
        line
    }

    /// The past of the last position of a line.
    fn past(line: &[Chess]) -> Past {
        let (last, before) = line.split_last().unwrap();
        Past::of_boards(last, before.iter().rev().map(Position::board))
    }

    /// The inputs of the past, by number from the first of them on.
    fn inputs(fen: &str, moves: &str) -> Vec<usize> {
        let line = line(fen, moves);
        let last = line.last().unwrap();
        let mut features = ActiveFeatures::of(last);
        let count = features.as_slice().len();
        features.push_past(InputSet::History, SquareView::of(last), &past(&line));
        let inputs = features.as_slice()[count..].iter();
        inputs.map(|&input| usize::from(input) - MOVES).collect()
    }

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    #[test]
    fn the_last_two_moves_have_inputs() {
        let at = |number: usize, piece: usize, to: Square, from: Square| {
            let base = MOVE_INPUTS * number;
            [
                base + 64 * piece + usize::from(to),
                base + 384 + usize::from(from),
            ]
        };
        assert!(inputs(START, "").is_empty());
        // Seen by Black: the ranks are flipped.
        assert_eq!(inputs(START, "e2e4"), at(0, 0, Square::E5, Square::E7));
        let own = at(1, 0, Square::E4, Square::E2);
        let expected = [at(0, 0, Square::D5, Square::D7), own].concat();
        assert_eq!(inputs(START, "e2e4 d7d5"), expected);
        // A capture by the opponent, and one by the side to move before it.
        let captures = inputs(START, "e2e4 d7d5 e4d5 d8d5");
        let queen = at(0, 4, Square::D5, Square::D8);
        let pawn = at(1, 0, Square::D5, Square::E4);
        let expected = [queen[0], queen[1], 448, pawn[0], pawn[1], MOVE_INPUTS + 448];
        assert_eq!(captures, expected);
        assert!(inputs(START, "e2e4 d7d5 e4d5 d8d5 b1c3").len() == 5);
    }

    #[test]
    fn castling_promotion_and_en_passant_are_moves() {
        let last = |fen: &str, moves: &str| past(&line(fen, moves)).moves[0].unwrap();
        let castled = last("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1h1");
        assert_eq!(
            (castled.piece, castled.from, castled.to),
            (Role::King, Square::E1, Square::G1)
        );
        let promoted = last("1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7b8q");
        assert_eq!((promoted.piece, promoted.from), (Role::Queen, Square::A7));
        assert_eq!(promoted.captured, Some(Role::Knight));
        let passed = last("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", "e5d6");
        assert_eq!((passed.to, passed.captured), (Square::D6, Some(Role::Pawn)));
        // Boards that no move connects.
        let [start, end] =
            ["4k3/8/8/8/8/8/8/4K3 w - - 0 1", START].map(|fen| line(fen, "").remove(0));
        assert_eq!(
            PastMove::between(start.board(), end.board(), Color::White),
            None
        );
    }

    #[test]
    fn mirrored_lines_have_the_same_inputs() {
        let first = inputs("4k3/8/8/3r4/8/5N2/8/4K3 w - - 0 1", "f3g5 d5d2");
        // Colours exchanged; then left and right, with the king on the other wing.
        let other = inputs("4k3/8/5n2/8/3R4/8/8/4K3 b - - 0 1", "f6g4 d4d7");
        assert_eq!(first, other);
        let right = inputs("6k1/8/8/3r4/8/5N2/8/6K1 w - - 0 1", "f3g5 d5d2");
        let left = inputs("1k6/8/8/4r3/8/2N5/8/1K6 w - - 0 1", "c3b5 e5e2");
        assert_eq!(right, left);
    }

    #[test]
    fn ratings_between_inputs_share_them() {
        let [low, middle, high, master] = RATINGS.map(|rating| rating_input(rating).unwrap());
        assert_eq!((low, master), (RATING, InputSet::History.len() - 1));
        assert_eq!(rating_input(1300), None);
        for (rating, expected) in [
            (1100, [(low, 1.0), (middle, 0.0)]),
            (1200, [(low, 0.75), (middle, 0.25)]),
            (1500, [(middle, 1.0), (high, 0.0)]),
            (1800, [(middle, 0.25), (high, 0.75)]),
            (1900, [(high, 1.0), (master, 0.0)]),
            (2250, [(high, 0.5), (master, 0.5)]),
            (4000, [(high, 0.0), (master, 1.0)]),
            (900, [(low, 1.5), (middle, -0.5)]),
        ] {
            assert_eq!(rating_shares(rating), expected, "{rating}");
        }
        let mut features = ActiveFeatures::of(&Chess::default());
        let count = features.as_slice().len();
        let past = Past {
            rating: Some(1500),
            ..Past::default()
        };
        features.push_past(InputSet::History, SquareView::of(&Chess::default()), &past);
        assert_eq!(features.as_slice()[count..], [middle as u16]);
    }
}
