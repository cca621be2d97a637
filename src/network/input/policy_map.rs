//! Between moves and the 1858 entries of lc0's policy vector.
//!
//! The vector is seen from the side to move: Black's moves have their ranks flipped, and the board transform of the
//! canonical input formats is applied to the moves as to the planes. It lists 1792 pairs of squares that a queen or a
//! knight connects on an empty board, by origin and target, then 66 promotions to queen, rook and bishop. Castling is
//! the king taking its rook, promotion to a knight is the plain move.

use shakmaty::{Role, Square};

use super::encoder::{FLIP, MIRROR, TRANSPOSE};
use crate::{chess::PackedMove, lc0::policy_list::is_reachable};

pub use crate::lc0::policy_list::POLICY_SIZE;

const PLAIN: usize = 1792;
/// For pairs of squares that no move connects: the index of a1b1, harmless because no legal move uses it.
static INDEX: [u16; 4096] = index_table();
static MOVES: [u16; POLICY_SIZE] = move_table();

/// Index of the plain move between each pair of squares (origin times 64 plus target).
const fn index_table() -> [u16; 4096] {
    let mut table = [0; 4096];
    let (mut pair, mut next) = (0, 0);
    while pair < 4096 {
        if is_reachable((pair / 64) as u8, (pair % 64) as u8) {
            table[pair] = next;
            next += 1;
        }
        pair += 1;
    }
    assert!(next as usize == PLAIN);
    table
}

/// The packed move of each index, from the mover's side.
const fn move_table() -> [u16; POLICY_SIZE] {
    let mut table = [0; POLICY_SIZE];
    let (mut pair, mut next) = (0, 0);
    while pair < 4096 {
        let (from, to) = (pair / 64, pair % 64);
        if is_reachable(from as u8, to as u8) {
            table[next] = (from | (to << 6)) as u16;
            next += 1;
        }
        pair += 1;
    }
    let (mut from, mut to) = (0, 0);
    while from < 8 {
        let mut promotion = 5; // queen, rook, bishop: 5, 4, 3 in a packed move
        while promotion >= 3 {
            table[next] = ((48 + from) | ((56 + to) << 6) | (promotion << 12)) as u16;
            next += 1;
            promotion -= 1;
        }
        if to < 7 && to <= from {
            to += 1;
        } else {
            from += 1;
            to = from - 1;
        }
    }
    table
}

/// The index of a legal move, 0..1858, for the given side to move and board transform (0 except in canonical formats).
pub fn index(m: PackedMove, black_to_move: bool, transform: u8) -> usize {
    let from = turn_square(m.from(), black_to_move, transform);
    let to = turn_square(m.to(), black_to_move, transform);
    let kind = match m.promotion() {
        Some(Role::Queen) => 0,
        Some(Role::Rook) => 1,
        Some(Role::Bishop) => 2,
        _ => return usize::from(INDEX[from * 64 + to]),
    };
    // The a-pawn has two targets, all others three (the h-pawn's third is off the board).
    let (from, to) = (from % 8, to % 8);
    let before = (3 * from).saturating_sub(1);
    let target = to - from.saturating_sub(1).min(to);
    (PLAIN + 3 * (before + target) + kind).min(POLICY_SIZE - 1)
}

/// The move at an index of the policy vector, for the given side to move and board transform; `None` beyond the end.
///
/// A plain pawn move to the last rank comes without promotion, though it means a knight.
pub fn move_at(index: usize, black_to_move: bool, transform: u8) -> Option<PackedMove> {
    let m = PackedMove::from_bits(*MOVES.get(index)?);
    let back = |square| Square::new(turn_back(square, black_to_move, transform) as u32);
    Some(PackedMove::new(back(m.from()), back(m.to()), m.promotion()))
}

fn turn_square(square: Square, black_to_move: bool, transform: u8) -> usize {
    let mut square = usize::from(square) ^ flip_ranks(black_to_move);
    square ^= flip_files(transform & FLIP != 0) ^ flip_ranks(transform & MIRROR != 0);
    if transform & TRANSPOSE != 0 {
        square = transpose(square);
    }
    square
}

fn turn_back(square: Square, black_to_move: bool, transform: u8) -> usize {
    let mut square = usize::from(square);
    if transform & TRANSPOSE != 0 {
        square = transpose(square);
    }
    square ^= flip_files(transform & FLIP != 0) ^ flip_ranks(transform & MIRROR != 0);
    square ^ flip_ranks(black_to_move)
}

fn flip_ranks(condition: bool) -> usize {
    if condition { 56 } else { 0 }
}

fn flip_files(condition: bool) -> usize {
    if condition { 7 } else { 0 }
}

/// Reflected at the diagonal a8-h1.
fn transpose(square: usize) -> usize {
    63 - (8 * (square % 8) + square / 8)
}

/// Probabilities from logits over the whole vector: softmax over the moves with these [indices](index) at `temperature`
/// (> 0), written to `out` in their order. Returns whether all numbers were finite; if not, `out` holds nothing useful.
pub fn softmax(logits: &[f32], indices: &[u16], temperature: f32, out: &mut [f32]) -> bool {
    let mut max = f32::NEG_INFINITY;
    let mut finite = true;
    for (&index, p) in indices.iter().zip(out.iter_mut()) {
        *p = logits[usize::from(index)];
        finite &= p.is_finite();
        max = max.max(*p);
    }
    let scale = temperature.recip();
    let mut sum = 0.0;
    for p in out.iter_mut() {
        *p = ((*p - max) * scale).exp();
        sum += *p;
    }
    let scale = sum.recip();
    for p in out {
        *p *= scale;
    }
    finite
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lc0::policy_list::{Promotion, policy_list},
        network::input::encoder::transform_mask,
    };

    #[test]
    fn the_table_equals_lc0s_in_both_directions() {
        let text = include_str!("../../../tests/data/lc0/policy-index-1858.txt");
        assert_eq!(text.lines().count(), POLICY_SIZE);
        for line in text.lines() {
            let (number, uci) = line.split_once(' ').unwrap();
            let number: usize = number.parse().unwrap();
            let promotion = uci[4..].chars().next().and_then(Role::from_char);
            let white = PackedMove::new(
                uci[..2].parse().unwrap(),
                uci[2..4].parse().unwrap(),
                promotion,
            );
            let black = PackedMove::new(
                white.from().flip_vertical(),
                white.to().flip_vertical(),
                promotion,
            );
            assert_eq!(index(white, false, 0), number, "{uci}");
            assert_eq!(index(black, true, 0), number, "{uci}");
            assert_eq!(move_at(number, false, 0), Some(white));
            assert_eq!(move_at(number, true, 0), Some(black));
        }
        assert_eq!(move_at(POLICY_SIZE, false, 0), None);
    }

    #[test]
    fn the_table_equals_the_converters() {
        for (number, entry) in policy_list().iter().enumerate() {
            let role = entry.promotion.map(|promotion| match promotion {
                Promotion::Queen => Role::Queen,
                Promotion::Rook => Role::Rook,
                Promotion::Bishop => Role::Bishop,
            });
            let m = PackedMove::new(
                Square::new(entry.from.into()),
                Square::new(entry.to.into()),
                role,
            );
            assert_eq!(index(m, false, 0), number);
        }
    }

    #[test]
    fn transforms_go_with_the_planes_and_back() {
        for number in 0..PLAIN {
            for black in [false, true] {
                for transform in 0..8 {
                    let m = move_at(number, black, transform).unwrap();
                    assert_eq!(index(m, black, transform), number);
                    let mask = 1u64 << m.from().to_u32();
                    let seen = if black { mask.swap_bytes() } else { mask };
                    let turned = transform_mask(seen, transform).trailing_zeros() as usize;
                    assert_eq!(turn_square(m.from(), black, transform), turned);
                }
            }
        }
    }

    #[test]
    fn knight_promotion_is_the_plain_move() {
        let to_knight = PackedMove::new(Square::A7, Square::A8, Some(Role::Knight));
        let plain = PackedMove::new(Square::A7, Square::A8, None);
        assert_eq!(index(to_knight, false, 0), index(plain, false, 0));
    }

    #[test]
    fn softmax_is_over_the_given_moves_and_sees_nan() {
        let moves = [(Square::E2, Square::E4), (Square::D2, Square::D4)]
            .map(|(from, to)| PackedMove::new(from, to, None));
        let indices = moves.map(|m| index(m, false, 0) as u16);
        let mut logits = vec![50.0; POLICY_SIZE];
        logits[usize::from(indices[0])] = 1.0;
        logits[usize::from(indices[1])] = 3.0;
        let mut out = [0.0; 2];
        assert!(softmax(&logits, &indices, 2.0, &mut out));
        assert!((out[0] - 1.0 / (1.0 + 1f32.exp())).abs() < 1e-6);
        assert!((out[0] + out[1] - 1.0).abs() < 1e-6);
        logits[usize::from(indices[1])] = f32::NAN;
        assert!(!softmax(&logits, &indices, 2.0, &mut out));
    }
}
