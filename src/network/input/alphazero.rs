//! AlphaZero's encoding of positions and moves (Silver et al., "A general reinforcement learning algorithm that masters
//! chess, shogi, and Go through self-play", 2018, supplementary materials, tables S1 and S2).
//!
//! 119 planes, seen from the side to move (Black's boards have their ranks flipped), a1 first. Planes 14*i .. 14*i+13
//! are history step i: own P N B R Q K, the opponent's, then ones if the position occurred before, and ones if it did
//! so at least twice. 112 holds ones if Black is to move, 113 the plies played since the start of the game on all
//! squares, 114-115 the right to castle on the queen's and the king's side, 116-117 the same of the opponent, 118 the
//! plies since the last capture or pawn move on all squares.
//!
//! A move is the square that the piece leaves and one of 73 kinds: a direction (N NE E SE S SW W NW) times a distance
//! (1..=7), then the knight's eight clockwise from NNE, then promotions to knight, bishop and rook, each by a capture
//! to the left, straight on and by a capture to the right. Promotion to a queen is the plain move; castling is the
//! king's two squares, or, from other squares than the usual ones (Chess960), the king's move to its rook.
//!
//! Where the paper leaves the order open, it is that of lc0's planes or of the paper's text.

use shakmaty::{Chess, Color, File, Move, Position, Role, Square};

use super::{
    encoder::{all_if, may_invent, undo_double_step, write_board},
    planes::HISTORY,
};
use crate::{
    chess::Ply,
    lc0::{
        AlphaZeroMoves,
        policy_list::{KNIGHT_MOVES, QUEEN_DIRECTIONS},
    },
    options::HistoryFill,
};

pub use crate::lc0::{ALPHAZERO_PLANES as PLANES, ALPHAZERO_POLICY as POLICY_SIZE};

/// Planes of one history step.
const PLANES_PER_STEP: usize = 14;
const COLOR: usize = HISTORY * PLANES_PER_STEP;
const CASTLING: usize = COLOR + 2;

/// The planes that hold a number: plies played, and plies without progress.
pub const SCALAR_PLANES: &[usize] = &[COLOR + 1, CASTLING + 4];

/// Moves of a piece by direction and distance.
const MOVE_KINDS: usize = 73;
const FIRST_KNIGHT_MOVE: usize = 56;
const UNDERPROMOTIONS: usize = 64;

/// The input of one position: a mask for each plane, and the numbers of the scalar planes.
#[derive(Clone, Debug, PartialEq)]
pub struct AlphaZeroPlanes {
    /// Squares on which each plane is set.
    pub masks: [u64; PLANES],
    /// The values on the set squares of [`SCALAR_PLANES`].
    pub scalars: [f32; 2],
}

/// The planes of the last position of `line`, which must reach back eight positions or to the start of the game;
/// `fill` says how the history before the first is filled (AlphaZero itself: not at all). Without any position the
/// planes are empty.
pub fn encode(line: &[Ply], fill: HistoryFill) -> AlphaZeroPlanes {
    let mut planes = AlphaZeroPlanes {
        masks: [0; PLANES],
        scalars: [0.0; 2],
    };
    let Some(last) = line.last() else {
        return planes;
    };
    let us = last.position.turn();
    for step in 0..HISTORY {
        let is_invented = step >= line.len();
        let ply = &line[line.len().saturating_sub(step + 1)];
        if is_invented && !may_invent(&ply.position, fill) {
            break;
        }
        let masks = &mut planes.masks[step * PLANES_PER_STEP..][..PLANES_PER_STEP];
        write_board(masks, &ply.position, us);
        masks[12] = all_if(ply.repetitions > 0);
        masks[13] = all_if(ply.repetitions > 1);
        if is_invented {
            undo_double_step(masks, &ply.position, us);
        }
    }
    let castles = last.position.castles();
    planes.masks[COLOR] = all_if(us == Color::Black);
    planes.masks[COLOR + 1] = u64::MAX;
    let colors = [us, us.other()].into_iter().flat_map(|color| [color; 2]);
    let sides = shakmaty::CastlingSide::ALL.into_iter().rev().cycle();
    for (index, (color, side)) in colors.zip(sides).enumerate() {
        planes.masks[CASTLING + index] = all_if(castles.has(color, side));
    }
    planes.masks[CASTLING + 4] = u64::MAX;
    planes.scalars = [plies_played(&last.position) as f32, last.rule50() as f32];
    planes
}

/// Exchanges the colours and turns the board: the planes then differ in the side to move, and so in the plies played.
pub fn swap(planes: &mut AlphaZeroPlanes) {
    let plies = if planes.masks[COLOR] == 0 { 1.0 } else { -1.0 };
    planes.scalars[0] += plies;
    planes.masks[COLOR] = !planes.masks[COLOR];
}

/// The plies played before a position, by its move number.
pub fn plies_played(position: &Chess) -> u32 {
    let moves = u32::from(position.fullmoves()) - 1;
    moves
        .saturating_mul(2)
        .saturating_add(u32::from(position.turn() == Color::Black))
}

/// The index in the policy vector of a legal move of a position.
pub fn row(position: &Chess, m: Move, order: AlphaZeroMoves) -> u16 {
    let us = position.turn();
    let seen = |square: Square| match us {
        Color::White => square,
        Color::Black => square.flip_vertical(),
    };
    let from = seen(m.from().unwrap_or(m.to()));
    let to = seen(target(m));
    let files = i32::from(to.file()) - i32::from(from.file());
    let ranks = i32::from(to.rank()) - i32::from(from.rank());
    let kind = match m.promotion() {
        Some(Role::Queen) | None => move_kind(files, ranks),
        Some(role) => {
            let kind = match role {
                Role::Knight => 0,
                Role::Bishop => 1,
                _ => 2,
            };
            UNDERPROMOTIONS + 3 * kind + (files + 1).clamp(0, 2) as usize
        }
    };
    let square = usize::from(from);
    let row = match order {
        AlphaZeroMoves::SquareMajor => square * MOVE_KINDS + kind,
        AlphaZeroMoves::PlaneMajor => kind * 64 + square,
    };
    row as u16
}

/// The target square of a move: when castling, two squares from the king's in standard chess, the rook's in Chess960.
fn target(m: Move) -> Square {
    match m {
        Move::Castle { king, rook } if is_usual(king, rook) => {
            let file = match rook.file() {
                File::A => File::C,
                _ => File::G,
            };
            Square::from_coords(file, king.rank())
        }
        _ => m.to(),
    }
}

fn is_usual(king: Square, rook: Square) -> bool {
    king.file() == File::E && [File::A, File::H].contains(&rook.file())
}

/// The index of a move, 0..64, by its files to the right and ranks up.
fn move_kind(files: i32, ranks: i32) -> usize {
    if let Some(jump) = KNIGHT_MOVES.iter().position(|&jump| jump == (files, ranks)) {
        return FIRST_KNIGHT_MOVE + jump;
    }
    let step = (files.signum(), ranks.signum());
    let direction = QUEEN_DIRECTIONS
        .iter()
        .position(|&direction| direction == step);
    let distance = files.abs().max(ranks.abs()).clamp(1, 7) as usize;
    direction.unwrap_or_default() * 7 + distance - 1
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{chess::moves::legal_moves, network::tests::game};

    /// The planes of the same games by an independent program (tests/python/alphazero_planes.py, with python-chess).
    #[test]
    fn planes_and_moves_equal_those_of_an_independent_encoder() {
        let text = include_str!("../../../tests/data/alphazero/planes.jsonl");
        assert_eq!(text.lines().count(), 9);
        for line in text.lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let id = &case["id"];
            let game = game(
                case["fen"].as_str().unwrap(),
                case["moves"].as_str().unwrap(),
            );
            let planes = encode(game.plies(), HistoryFill::No);
            let expected = case["planes"].as_object().unwrap();
            for (index, &mask) in planes.masks.iter().enumerate() {
                let (squares, value) = match expected.get(&index.to_string()) {
                    None => (0, 0.0),
                    Some(plane) => (
                        u64::from_str_radix(plane[0].as_str().unwrap(), 16).unwrap(),
                        plane[1].as_f64().unwrap(),
                    ),
                };
                match SCALAR_PLANES.iter().position(|&plane| plane == index) {
                    // Which squares of a plane are set does not matter where the plane holds 0.
                    Some(place) => {
                        assert_eq!(f64::from(planes.scalars[place]), value, "{id} {index}");
                    }
                    None => assert_eq!(mask, squares, "{id} plane {index}"),
                }
            }
            let moves = case["policy"].as_object().unwrap();
            let position = game.position();
            assert_eq!(position.legal_moves().len(), moves.len(), "{id}");
            let mut rows = HashSet::new();
            for packed in legal_moves(position) {
                let m = packed.unpack(position);
                let promotion = packed.promotion().map(|role| role.char().to_string());
                let squares = [packed.from(), packed.to()].map(|square| square.to_string());
                let name = squares.concat() + &promotion.unwrap_or_default();
                let index = moves[&name].as_u64().unwrap();
                let row_of = |order| u64::from(row(position, m, order));
                assert_eq!(row_of(AlphaZeroMoves::SquareMajor), index, "{id} {name}");
                let by_plane = index % 73 * 64 + index / 73;
                assert_eq!(row_of(AlphaZeroMoves::PlaneMajor), by_plane, "{id} {name}");
                assert!(rows.insert(index), "{id} {name}");
            }
        }
    }

    #[test]
    fn swapped_planes_are_those_of_the_mirrored_game() {
        let one = game("r3k2r/8/8/3pP3/8/8/8/R3K3 w Qk d6 0 9", "e5d6 e8g8");
        let other = game("r3k3/8/8/8/3Pp3/8/8/R3K2R b Kq d3 0 9", "e4d3 e1g1");
        for (length, _) in one.plies().iter().enumerate() {
            let planes = |game: &crate::chess::History| {
                encode(&game.plies()[..=length], HistoryFill::FenOnly)
            };
            let (mut seen, mut mirrored) = (planes(&one), planes(&other));
            swap(&mut seen);
            // The number of the move rises after Black's, not after the first.
            let step = if length % 2 == 1 { 2.0 } else { 0.0 };
            mirrored.scalars[0] -= step;
            assert_eq!(seen.masks, mirrored.masks);
            assert_eq!(seen.scalars, mirrored.scalars, "{length}");
        }
    }

    #[test]
    fn history_is_filled_as_asked() {
        let game = game("8/8/1k6/8/8/1K6/4p3/8 w - - 10 70", "");
        let set = |fill| {
            let planes = encode(game.plies(), fill);
            planes.masks[14..112].iter().any(|&mask| mask != 0)
        };
        assert!(!set(HistoryFill::No) && set(HistoryFill::FenOnly));
        assert_eq!(encode(&[], HistoryFill::No).masks, [0; PLANES]);
    }
}
