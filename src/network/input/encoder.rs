//! From a line of play to the 112 input planes of an lc0 network, in all of lc0's input formats.
//!
//! Planes 13*i .. 13*i+12 are history step i (own P N B R Q K, the opponent's, repetition), seen from the side to move;
//! 104-111 hold castling rights, side to move or en passant, the rule-50 counter and constants, depending on the
//! [`InputFormat`]. The canonical formats also turn the board so that the own king stands in one eighth of it; the
//! transform is kept in [`Planes`] and must be applied to the moves as well (see [`policy_map`](super::policy_map)).
//!
//! Planes stay bit masks until [`expand`] writes them as floats into a backend's input buffer.

use shakmaty::{Bitboard, CastlingSide, Chess, Color, Position, Role, Square};

use super::planes::{HISTORY, PLANES, PLANES_PER_STEP, Planes, write_planes};
use crate::{chess::Ply, lc0::InputFormat, options::HistoryFill};

/// Floats that one position takes in the input tensor: 112 planes of 8 by 8.
pub const INPUT_SIZE: usize = PLANES * 64;

const CASTLING: usize = HISTORY * PLANES_PER_STEP;
const COLOR_OR_EN_PASSANT: usize = CASTLING + 4;
/// The plane that holds the rule-50 counter instead of ones.
pub const RULE50_PLANE: usize = CASTLING + 5;
const ARMAGEDDON: usize = CASTLING + 6;
const ONES: usize = CASTLING + 7;

/// Board transform: files reversed (a <-> h).
pub const FLIP: u8 = 1;
/// Board transform: ranks reversed (1 <-> 8).
pub const MIRROR: u8 = 2;
/// Board transform: reflected at the diagonal a8-h1, after the other two.
pub const TRANSPOSE: u8 = 4;

/// What distinguishes the input formats.
#[derive(Clone, Copy)]
struct Traits {
    /// Castling planes mark the rooks' squares.
    rook_squares: bool,
    /// Board transforms, an en passant plane, history only as far as it can matter.
    canonical: bool,
    /// Rule 50 divided by 100.
    hectoplies: bool,
    /// History holds repeated positions only.
    repeats_only: bool,
    /// A plane marks that Black is to move.
    armageddon: bool,
}

impl Traits {
    fn of(format: InputFormat) -> Traits {
        use InputFormat::{
            CanonicalHectoplies, CanonicalV2, CanonicalV2Armageddon, Classical112,
            HectopliesArmageddon, WithCastlingPlane,
        };
        let repeats_only = matches!(format, CanonicalV2 | CanonicalV2Armageddon);
        Traits {
            rook_squares: format != Classical112,
            canonical: !matches!(format, Classical112 | WithCastlingPlane),
            hectoplies: repeats_only
                || matches!(format, CanonicalHectoplies | HectopliesArmageddon),
            repeats_only,
            armageddon: matches!(format, HectopliesArmageddon | CanonicalV2Armageddon),
        }
    }
}

/// The input planes of the last position of `line`, which must reach back to the start of the game or as far as the
/// network sees (eight positions; more for formats that keep only repeated ones). `fill` says how the history before
/// the first position is filled. Without any position the planes are empty.
pub fn encode(line: &[Ply], format: InputFormat, fill: HistoryFill) -> Planes {
    let mut planes = Planes::empty();
    let Some(last) = line.last() else {
        return planes;
    };
    let traits = Traits::of(format);
    let us = last.position.turn();
    planes.black_to_move = us == Color::Black;
    write_rights(&mut planes, last, line.len() == 1, traits);
    write_history(&mut planes, line, fill, traits);
    if traits.canonical {
        planes.transform = choose_transform(&planes.masks);
        for mask in &mut planes.masks[..=COLOR_OR_EN_PASSANT] {
            *mask = transform_mask(*mask, planes.transform);
        }
    }
    planes
}

/// Exchanges the colours and turns the board. Everything is seen by the side to move, so only the planes for its colour
/// differ.
pub fn swap(planes: &mut Planes, format: InputFormat) {
    let traits = Traits::of(format);
    if !traits.canonical {
        planes.masks[COLOR_OR_EN_PASSANT] = !planes.masks[COLOR_OR_EN_PASSANT];
    }
    if traits.armageddon {
        planes.masks[ARMAGEDDON] = !planes.masks[ARMAGEDDON];
    }
}

/// The planes after the history: castling, side to move or en passant, rule 50, constants.
fn write_rights(planes: &mut Planes, last: &Ply, set_up: bool, traits: Traits) {
    let us = last.position.turn();
    let castles = last.position.castles();
    let sides = [CastlingSide::QueenSide, CastlingSide::KingSide];
    let (own, other) = planes.masks[CASTLING..].split_at_mut(2);
    for (index, side) in sides.into_iter().enumerate() {
        if traits.rook_squares {
            for color in Color::ALL {
                let rook = castles
                    .rook(color, side)
                    .map_or(0, |rook| 1 << rook.to_u32());
                own[index] |= seen_by(us, rook);
            }
        } else {
            own[index] = all_if(castles.has(us, side));
            other[index] = all_if(castles.has(us.other(), side));
        }
    }
    let black = all_if(us == Color::Black);
    planes.masks[COLOR_OR_EN_PASSANT] = if traits.canonical {
        // Marked on the eighth rank, at the pawn's file.
        en_passant_file(last, set_up).map_or(0, |file| 1 << (56 + file))
    } else {
        black
    };
    planes.masks[RULE50_PLANE] = u64::MAX;
    planes.rule50 = if traits.hectoplies {
        last.rule50() as f32 / 100.0
    } else {
        last.rule50() as f32
    };
    if traits.armageddon {
        planes.masks[ARMAGEDDON] = black;
    }
    planes.masks[ONES] = u64::MAX;
}

/// The history steps. Canonical formats stop where earlier positions can no longer be repeated: at other castling
/// rights, before en passant, after a pawn move or a capture.
fn write_history(planes: &mut Planes, line: &[Ply], fill: HistoryFill, traits: Traits) {
    let last = &line[line.len() - 1];
    let us = last.position.turn();
    let rights = last.position.castles().castling_rights();
    let mut step = 0;
    for back in 0.. {
        let invented = back >= line.len();
        let ply = &line[line.len().saturating_sub(back + 1)];
        if step == HISTORY || invented && !may_invent(&ply.position, fill) {
            break;
        }
        if traits.canonical && back > 0 {
            let set_up = back + 1 >= line.len();
            if ply.position.castles().castling_rights() != rights
                || en_passant_file(ply, set_up).is_some()
            {
                break;
            }
        }
        if traits.repeats_only && step > 0 && ply.repetitions == 0 {
            // Filled history repeats nothing either. (lc0 0.32.1 never stops here if the first position has a
            // rule-50 counter.)
            if invented || ply.rule50() == 0 {
                break;
            }
            continue;
        }
        let base = step * PLANES_PER_STEP;
        let masks = &mut planes.masks[base..base + PLANES_PER_STEP];
        write_board(masks, &ply.position, us);
        masks[12] = all_if(ply.repetitions > 0);
        if invented {
            undo_double_step(masks, &ply.position, us);
        }
        step += 1;
        if traits.canonical && ply.rule50() == 0 {
            break;
        }
    }
}

pub(super) fn may_invent(first: &Chess, fill: HistoryFill) -> bool {
    match fill {
        HistoryFill::No => false,
        HistoryFill::Always => true,
        HistoryFill::FenOnly => !is_start(first),
    }
}

/// Whether this is the normal starting position (in either castling mode).
fn is_start(position: &Chess) -> bool {
    let start = Chess::default();
    position.turn() == Color::White
        && position.board() == start.board()
        && position.castles().castling_rights() == start.castles().castling_rights()
}

pub(super) fn write_board(masks: &mut [u64], position: &Chess, us: Color) {
    let board = position.board();
    for (index, role) in Role::ALL.into_iter().enumerate() {
        let pieces = board.by_role(role);
        masks[index] = seen_by(us, (pieces & board.by_color(us)).0);
        masks[index + 6] = seen_by(us, (pieces & board.by_color(us.other())).0);
    }
}

/// Takes back the pawn's double step that the en passant square implies: that much of the history is known.
pub(super) fn undo_double_step(masks: &mut [u64], first: &Chess, us: Color) {
    let Some(square) = first.maybe_ep_square() else {
        return;
    };
    let (file, mover) = (u32::from(square.file()), first.turn().other());
    let (pawns, from_rank, to_rank) = if mover == us { (0, 1, 3) } else { (6, 6, 4) };
    masks[pawns] &= !(1 << (8 * to_rank + file));
    masks[pawns] |= 1 << (8 * from_rank + file);
}

/// The file of the pawn that has just made a double step, 0..=7, where lc0 records it.
fn en_passant_file(ply: &Ply, set_up: bool) -> Option<u32> {
    recorded_en_passant(ply, set_up).map(|square| u32::from(square.file()))
}

/// The square behind a pawn that has just made a double step, where lc0 records it: if a pawn can capture it
/// pseudo-legally, or if a FEN says so.
pub(super) fn recorded_en_passant(ply: &Ply, set_up: bool) -> Option<Square> {
    if set_up {
        ply.position.maybe_ep_square()
    } else {
        ply.position.pseudo_legal_ep_square()
    }
}

pub(super) fn all_if(condition: bool) -> u64 {
    u64::from(condition).wrapping_neg()
}

fn seen_by(us: Color, mask: u64) -> u64 {
    match us {
        Color::White => mask,
        Color::Black => mask.swap_bytes(),
    }
}

/// Turns a mask: files, then ranks, then the diagonal.
pub fn transform_mask(mask: u64, transform: u8) -> u64 {
    let mut mask = Bitboard(mask);
    if transform & FLIP != 0 {
        mask = mask.flip_horizontal();
    }
    if transform & MIRROR != 0 {
        mask = mask.flip_vertical();
    }
    if transform & TRANSPOSE != 0 {
        mask = mask.flip_anti_diagonal();
    }
    mask.0
}

/// The transform that brings the own king to the triangle d1-d4-a1 mirrored to the king's side (e1-h1-e4), or as far as
/// castling rights and pawns allow.
fn choose_transform(masks: &[u64; PLANES]) -> u8 {
    const QUEEN_SIDE: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const UPPER_HALF: u64 = 0xffff_ffff_0000_0000;
    const DIAGONAL: u64 = 0x1020_4080;
    const ABOVE_DIAGONAL: u64 = 0xe0c0_8000;
    if masks[CASTLING] | masks[CASTLING + 1] != 0 {
        return 0;
    }
    let king = masks[5];
    let mut transform = if king & QUEEN_SIDE != 0 { FLIP } else { 0 };
    if masks[0] | masks[6] != 0 {
        return transform;
    }
    if king & UPPER_HALF != 0 {
        transform |= MIRROR;
    }
    let king = transform_mask(king, transform);
    if king & ABOVE_DIAGONAL != 0 || king & DIAGONAL != 0 && transposed_is_smaller(masks, transform)
    {
        transform |= TRANSPOSE;
    }
    transform
}

/// With the king on the diagonal: whether transposing gives the smaller number in the first of these that differs:
/// all pieces, own pieces, kings, queens, rooks, knights, bishops.
fn transposed_is_smaller(masks: &[u64; PLANES], transform: u8) -> bool {
    let own: u64 = masks[..6].iter().fold(0, |all, mask| all | mask);
    let all = masks[6..12].iter().fold(own, |all, mask| all | mask);
    let kind = |role: usize| masks[role] | masks[role + 6];
    [all, own, kind(5), kind(4), kind(3), kind(1), kind(2)]
        .into_iter()
        .map(|mask| {
            let plain = transform_mask(mask, transform);
            transform_mask(plain, TRANSPOSE).cmp(&plain)
        })
        .find(|order| order.is_ne())
        .is_some_and(|order| order.is_lt())
}

/// Writes planes as floats: `out` is one position of the input tensor, \[112, 8, 8\], a1 first, h8 last.
///
/// Only the first [`INPUT_SIZE`] floats of `out` are touched.
pub fn expand(planes: &Planes, out: &mut [f32]) {
    write_planes(&planes.masks, &[RULE50_PLANE], &[planes.rule50], out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::game;

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    fn planes(fen: &str, moves: &str, format: InputFormat) -> Planes {
        encode(game(fen, moves).plies(), format, HistoryFill::FenOnly)
    }

    #[test]
    fn classical_planes_equal_lc0s() {
        let text = include_str!("../../../tests/data/lc0/planes.jsonl");
        assert_eq!(text.lines().count(), 11);
        for line in text.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let moves = row["moves"].as_array().unwrap();
            let moves: Vec<_> = moves.iter().map(|m| m.as_str().unwrap()).collect();
            let fen = row["fen"].as_str().unwrap();
            let planes = planes(fen, &moves.join(" "), InputFormat::Classical112);
            assert_eq!(row["planes"].as_array().unwrap().len(), PLANES);
            for (index, expected) in row["planes"].as_array().unwrap().iter().enumerate() {
                let mask = u64::from_str_radix(expected[0].as_str().unwrap(), 16).unwrap();
                assert_eq!(planes.masks[index], mask, "{} plane {index}", row["id"]);
                if index == RULE50_PLANE {
                    assert_eq!(f64::from(planes.rule50), expected[1].as_f64().unwrap());
                }
            }
        }
    }

    #[test]
    fn history_is_filled_as_asked() {
        let filled = |fen, fill| {
            let planes = encode(game(fen, "").plies(), InputFormat::Classical112, fill);
            planes.masks[13..104].iter().any(|&mask| mask != 0)
        };
        let other = "8/8/1k6/8/8/1K6/4p3/8 w - - 10 70";
        assert!(!filled(START, HistoryFill::No) && !filled(other, HistoryFill::No));
        assert!(!filled(START, HistoryFill::FenOnly) && filled(other, HistoryFill::FenOnly));
        assert!(filled(START, HistoryFill::Always) && filled(other, HistoryFill::Always));
        // e2e4 is taken back on the board before.
        let fen = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1";
        let planes = planes(fen, "", InputFormat::Classical112);
        assert_eq!(planes.masks[6], 0x00ef_0010_0000_0000);
        assert_eq!(planes.masks[13 + 6], 0x00ff_0000_0000_0000);
    }

    #[test]
    fn swapped_planes_are_those_of_the_mirrored_game() {
        for (fen, moves, mirrored, mirrored_moves) in [
            (
                "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
                "e2e4 e7e5 g1f3",
                "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 0 1",
                "e7e5 e2e4 g8f6",
            ),
            (
                "r3k2r/8/8/3pP3/8/8/8/R3K3 w Qk d6 0 9",
                "",
                "r3k3/8/8/8/3Pp3/8/8/R3K2R b Kq d3 0 9",
                "",
            ),
        ] {
            for format in [
                InputFormat::Classical112,
                InputFormat::WithCastlingPlane,
                InputFormat::Canonical,
                InputFormat::HectopliesArmageddon,
            ] {
                let mut swapped = planes(fen, moves, format);
                swap(&mut swapped, format);
                let mirror = planes(mirrored, mirrored_moves, format);
                assert_eq!(swapped.masks, mirror.masks, "{format} {fen}");
                assert_eq!(swapped.rule50, mirror.rule50);
            }
        }
    }

    #[test]
    fn expansion_is_the_masks_and_the_counter() {
        let planes = planes(
            "8/8/1k6/8/8/1K6/4p3/8 w - - 10 70",
            "b3c3",
            InputFormat::Classical112,
        );
        let mut floats = vec![7.0; INPUT_SIZE + 1];
        expand(&planes, &mut floats);
        for (index, mask) in planes.masks.iter().enumerate() {
            let value = if index == RULE50_PLANE { 11.0 } else { 1.0 };
            for square in 0..64 {
                let set = mask >> square & 1 == 1;
                assert_eq!(floats[index * 64 + square], if set { value } else { 0.0 });
            }
        }
        assert_eq!(floats[INPUT_SIZE], 7.0);
    }

    #[test]
    fn rooks_that_may_castle_are_marked() {
        let fen = "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN b FBfb - 0 9";
        let planes = planes(fen, "", InputFormat::WithCastlingPlane);
        assert_eq!(planes.masks[CASTLING], 1 << 1 | 1 << 57);
        assert_eq!(planes.masks[CASTLING + 1], 1 << 5 | 1 << 61);
        assert_eq!(planes.masks[CASTLING + 2..CASTLING + 4], [0, 0]);
        assert_eq!(planes.masks[COLOR_OR_EN_PASSANT], u64::MAX);
    }

    #[test]
    fn canonical_formats_differ_where_they_should() {
        let fen = "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3";
        let canonical = planes(fen, "", InputFormat::Canonical);
        assert_eq!(canonical.transform, 0);
        assert_eq!(canonical.masks[COLOR_OR_EN_PASSANT], 1 << 61);
        assert!(canonical.masks[13..104].iter().all(|&mask| mask == 0));
        let fen = "8/8/1k6/8/8/1K6/8/7r b - - 10 70";
        for (format, rule50, armageddon) in [
            (InputFormat::Canonical, 10.0, 0),
            (InputFormat::CanonicalHectoplies, 0.1, 0),
            (InputFormat::HectopliesArmageddon, 0.1, u64::MAX),
            (InputFormat::CanonicalV2, 0.1, 0),
            (InputFormat::CanonicalV2Armageddon, 0.1, u64::MAX),
        ] {
            let planes = planes(fen, "", format);
            assert_eq!(planes.rule50, rule50, "{format}");
            assert_eq!(planes.masks[ARMAGEDDON], armageddon, "{format}");
            assert_eq!(planes.masks[COLOR_OR_EN_PASSANT], 0, "{format}");
        }
    }

    #[test]
    fn history_ends_where_nothing_can_be_repeated() {
        let steps = |moves, format| {
            let planes = planes(START, moves, format);
            (0..HISTORY)
                .filter(|step| planes.masks[step * 13 + 5] != 0)
                .count()
        };
        let knights = "e2e4 e7e5 g1f3 b8c6 f3g1 c6b8";
        assert_eq!(steps(knights, InputFormat::WithCastlingPlane), 7);
        // Back to e7e5 and no further.
        assert_eq!(steps(knights, InputFormat::Canonical), 5);
        // The current position repeats; of the others none does.
        assert_eq!(steps(knights, InputFormat::CanonicalV2), 1);
        let again = format!("{knights} g1f3 b8c6");
        assert_eq!(steps(&again, InputFormat::CanonicalV2), 3);
        // Castling rights change.
        assert_eq!(
            steps("e2e4 e7e5 g1f3 b8c6 e1e2 c6b8 f3g1", InputFormat::Canonical),
            3
        );
    }

    #[test]
    fn all_symmetries_of_a_pawnless_position_are_one_input() {
        let fens = [
            "8/8/1k6/8/4Q3/1K6/8/7r w - - 10 70",
            "7k/8/8/3n4/8/3B4/1K6/8 w - - 0 1",
            "8/8/8/2k5/8/4N3/3K1N2/8 b - - 3 1",
            // On the diagonal, and symmetric but for one piece.
            "k7/8/8/8/3K4/8/8/q5Q1 w - - 0 1",
            "8/8/1R6/8/3K4/8/5N2/k7 w - - 0 1",
        ];
        for fen in fens {
            let (board, rest) = fen.split_once(' ').unwrap();
            let mut inputs = Vec::new();
            for symmetry in 0..8 {
                let fen = format!("{} {rest}", turned(board, symmetry));
                inputs.push(planes(&fen, "", InputFormat::Canonical));
            }
            for input in &inputs {
                assert_eq!(input.masks, inputs[0].masks, "{fen}");
            }
        }
    }

    #[test]
    fn all_symmetries_of_a_move_are_one_policy_entry() {
        use crate::{
            chess::{PackedMove, moves::legal_moves},
            network::{input::policy_map::index, tests::position},
        };
        use shakmaty::Square;
        let square = |square: Square, symmetry| {
            let mask = transform_mask(1 << square.to_u32(), symmetry);
            Square::new(mask.trailing_zeros())
        };
        for (board, side) in [
            ("8/8/1k6/8/4Q3/1K6/8/7r", 'w'),
            ("7k/8/8/3n4/8/3B4/1K6/8", 'b'),
            ("k7/8/8/8/3K4/8/1N6/5q2", 'w'),
        ] {
            let entries = |symmetry: u8, m: PackedMove| {
                let fen = format!("{} {side} - - 0 1", turned(board, symmetry));
                let planes = planes(&fen, "", InputFormat::CanonicalV2);
                let (from, to) = (square(m.from(), symmetry), square(m.to(), symmetry));
                index(
                    PackedMove::new(from, to, None),
                    side == 'b',
                    planes.transform,
                )
            };
            for m in legal_moves(&position(&format!("{board} {side} - - 0 1"))) {
                for symmetry in 1..8 {
                    assert_eq!(
                        entries(symmetry, m),
                        entries(0, m),
                        "{board} {m:?} {symmetry}"
                    );
                }
            }
        }
    }

    /// The board part of a FEN, turned.
    pub(crate) fn turned(board: &str, symmetry: u8) -> String {
        use shakmaty::{Board, Square};
        let from: Board = board.parse().unwrap();
        let mut to = Board::empty();
        for (square, piece) in from {
            let mask = transform_mask(1 << square.to_u32(), symmetry);
            to.set_piece_at(Square::new(mask.trailing_zeros()), piece);
        }
        to.to_string()
    }
}
