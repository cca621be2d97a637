//! Counts move sequences: the usual test of a move generator.

use shakmaty::{Chess, Position};

/// The number of move sequences of length `depth` from `position`. Returns early with an arbitrary number when
/// `stopped` returns true.
pub fn count(position: &Chess, depth: u32, stopped: &dyn Fn() -> bool) -> u64 {
    match depth {
        0 => 1,
        1 => position.legal_moves().len() as u64,
        _ if stopped() => 0,
        _ => position
            .legal_moves()
            .into_iter()
            .map(|m| {
                let mut after = position.clone();
                after.play_unchecked(m);
                count(&after, depth - 1, stopped)
            })
            .sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::setup::position_from_fen;

    #[test]
    fn known_counts() {
        for (fen, depth, nodes) in [
            (crate::chess::setup::START_FEN, 4, 197_281),
            (
                "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
                3,
                97_862,
            ),
            (
                "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
                3,
                14_569,
            ),
        ] {
            let position = position_from_fen(fen).unwrap();
            assert_eq!(count(&position, depth, &|| false), nodes, "{fen}");
        }
    }
}
