//! The odds given in a starting position, by its material.

use std::{fmt, str::FromStr};

use shakmaty::{Bitboard, Board, Chess, Color, Position, Role};
use thiserror::Error;

/// The pieces that can be given as odds, and their values in pawns.
const PIECES: [(Role, char, i32); 5] = [
    (Role::Queen, 'Q', 9),
    (Role::Rook, 'R', 5),
    (Role::Bishop, 'B', 3),
    (Role::Knight, 'N', 3),
    (Role::Pawn, 'P', 1),
];

/// Minimum number of pieces of a starting position; one with fewer is from the middle of a game.
const MIN_PIECES: usize = 24;

/// Whether a position can be the start of a game: all pieces but pawns are on their first ranks. GUIs that send the
/// current position instead of the moves to it send other ones.
fn is_start(position: &Chess) -> bool {
    let board = position.board();
    let stays = |color: Color| {
        let pieces = board.by_color(color) & !board.pawns();
        pieces.is_subset(Bitboard::from_rank(color.backrank()))
    };
    board.occupied().count() >= MIN_PIECES && Color::ALL.into_iter().all(stays)
}

/// The difference in material between the sides: for each kind of piece (queens, rooks, bishops, knights, pawns) the
/// number that the opponent has more than the engine. As text, `Qn` is the engine without its queen against an opponent
/// without a knight; equal material is the empty text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature([i32; PIECES.len()]);

/// A text is not a signature.
#[derive(Debug, Error, PartialEq)]
#[error(
    "'{0}' is not a material difference: QRBNP for pieces that the engine lacks, qrbnp for pieces of the opponent"
)]
pub struct SignatureError(String);

impl Signature {
    /// The signature of a starting position for the engine's side; `None` for a position from the middle of a game.
    pub fn of(start: &Chess, engine: Color) -> Option<Signature> {
        is_start(start).then(|| Signature::of_board(start.board(), engine))
    }

    /// The difference in material on a board, of whatever part of a game.
    pub fn of_board(board: &Board, engine: Color) -> Signature {
        let count = |role: Role, color| board.by_piece(role.of(color)).count() as i32;
        Signature(PIECES.map(|(role, _, _)| count(role, !engine) - count(role, engine)))
    }

    /// The engine's deficit in pawns (queen 9, rook 5, bishop and knight 3); negative if it has more material.
    pub fn deficit(self) -> i32 {
        let worth = self
            .0
            .iter()
            .zip(PIECES)
            .map(|(n, (_, _, pawns))| n * pawns);
        worth.sum()
    }
}

impl FromStr for Signature {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Signature, SignatureError> {
        let mut signature = Signature::default();
        for letter in text.chars() {
            let place = PIECES
                .iter()
                .position(|(_, piece, _)| letter.eq_ignore_ascii_case(piece))
                .ok_or_else(|| SignatureError(text.to_owned()))?;
            signature.0[place] += if letter.is_ascii_uppercase() { 1 } else { -1 };
        }
        Ok(signature)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for is_engine in [true, false] {
            for (count, (_, letter, _)) in self.0.iter().zip(PIECES) {
                let (count, letter) = if is_engine {
                    (*count, letter)
                } else {
                    (-count, letter.to_ascii_lowercase())
                };
                for _ in 0..count {
                    write!(f, "{letter}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::setup::position_from_fen;

    fn signature(fen: &str, engine: Color) -> String {
        let start = position_from_fen(fen).unwrap();
        Signature::of(&start, engine).map_or("-".into(), |signature| signature.to_string())
    }

    #[test]
    fn material_tells_the_odds_for_either_side() {
        for (fen, white, black) in [
            (
                "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
                "",
                "",
            ),
            (
                "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
                "Q",
                "q",
            ),
            (
                "r1bqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
                "Qn",
                "Nq",
            ),
            (
                "r2qk2r/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
                "bbnn",
                "BBNN",
            ),
            // A pawn for a pawn is still queen odds.
            (
                "rnbqkbnr/ppp1pppp/8/8/8/8/PPPP1PPP/RNB1KBNR w KQkq - 0 3",
                "Q",
                "q",
            ),
            ("4k3/pppp4/8/8/8/8/PPPPP3/4K3 w - - 0 1", "-", "-"),
            // A middlegame that a program sends as it stands, whatever its counters say.
            (
                "r1bq1b1r/pppp2pp/2n1kn2/4p3/4P3/5N2/PPPP1PPP/RNBQK2R w KQ - 0 1",
                "-",
                "-",
            ),
        ] {
            assert_eq!(signature(fen, Color::White), white, "{fen}");
            assert_eq!(signature(fen, Color::Black), black, "{fen}");
        }
    }

    #[test]
    fn text_is_read_in_any_order() {
        let read = |text: &str| text.parse::<Signature>();
        assert_eq!(read("NQ").unwrap(), read("QN").unwrap());
        assert_eq!(read("nNQ").unwrap(), read("Q").unwrap());
        assert_eq!(read("QRRn").unwrap().deficit(), 9 + 10 - 3);
        assert!(read("").unwrap() == Signature::default());
        assert!(read("QK").unwrap_err().to_string().contains("'QK'"));
    }
}
