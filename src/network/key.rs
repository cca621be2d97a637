//! The key of everything a network sees of a position.
//!
//! A cache that knew only the current board would hand out values that belong to another history or another rule-50
//! counter. This key covers the positions of all eight history steps with their repetitions, castling rights, the
//! rule-50 counter and how much of the history is invented, in a few nanoseconds.

use shakmaty::Position;

use crate::{chess::Ply, options::HistoryFill};

/// Positions of the past, with the current one, that a network sees.
pub const HISTORY: usize = 8;

/// Odd factors, one for each history step, that make a sum of products a good hash (the golden ratio's multiples).
const FACTORS: [u64; HISTORY] = {
    let mut factors = [0; HISTORY];
    let mut i = 0;
    while i < HISTORY {
        factors[i] = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(2 * i as u64 + 1);
        i += 1;
    }
    factors
};

/// The key of the last position of `line` as a network sees it, where `fill` says what is invented before the first one.
///
/// Equal keys mean equal input planes (up to the chance of a 64-bit collision); different keys may still have equal
/// planes. `line` should reach back at least eight positions or to the start of the game.
pub fn position_key(line: &[Ply], fill: HistoryFill) -> u64 {
    let Some(last) = line.last() else { return 0 };
    let seen = &line[line.len().saturating_sub(HISTORY)..];
    let mut key = 0u64;
    for (ply, factor) in seen.iter().rev().zip(FACTORS) {
        let repeated = u64::from(ply.repetitions > 0) << 63;
        // Rotated, because the top bit alone would survive a product only in the top bit.
        key = key.wrapping_add((ply.key ^ repeated).rotate_left(32).wrapping_mul(factor));
    }
    let mut context = u64::from(last.rule50()) | (seen.len() as u64) << 32 | (fill as u64) << 40;
    // The en passant square of a position set up by hand undoes a pawn's move in the invented history, whether or not a
    // capture is legal; and repetition keys do not know which rook may castle.
    if seen.len() < HISTORY
        && let Some(square) = line[0].position.maybe_ep_square()
    {
        context |= u64::from(square.to_u32() + 1) << 48;
    }
    let rooks = last.position.castles().castling_rights().0;
    mix(key ^ mix(context ^ rooks.wrapping_mul(FACTORS[1])))
}

/// A finalizer with good avalanche (the 64-bit mix of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::game;

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    fn key(fen: &str, moves: &str) -> u64 {
        position_key(game(fen, moves).plies(), HistoryFill::FenOnly)
    }

    #[test]
    fn history_counters_and_rights_all_count() {
        let keys = [
            // The same board by two ways.
            key(START, "g1f3 g8f6 b1c3"),
            key(START, "b1c3 g8f6 g1f3"),
            // Another rule-50 counter.
            key("8/8/1k6/8/8/1K6/4p3/8 w - - 10 70", ""),
            key("8/8/1k6/8/8/1K6/4p3/8 w - - 11 70", ""),
            // Castling rights.
            key("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", ""),
            key("r3k2r/8/8/8/8/8/8/R3K2R w Kkq - 0 1", ""),
            // Which rook may castle.
            key("1k6/8/8/8/8/8/8/K4RR1 w F - 0 1", ""),
            key("1k6/8/8/8/8/8/8/K4RR1 w G - 0 1", ""),
            // A repetition.
            key(START, "g1f3 g8f6 f3g1 f6g8"),
            key(START, ""),
            // A double step that nobody can capture, undone in the invented history.
            key(
                "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1",
                "",
            ),
            key(
                "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1",
                "",
            ),
        ];
        for (i, a) in keys.iter().enumerate() {
            for b in &keys[i + 1..] {
                assert_ne!(a, b);
            }
        }
        // What is nine positions ago does not count, except through repetitions.
        let shuffle = "a7a6 a2a3 b7b6 b2b3 c7c6 c2c3 d7d6 d2d3";
        let one = key(START, &format!("e2e4 e7e5 g1f3 {shuffle}"));
        let other = key(START, &format!("g1f3 e7e5 e2e4 {shuffle}"));
        assert_eq!(one, other);
    }
}
