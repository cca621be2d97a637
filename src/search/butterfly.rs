//! Butterfly history: by how much moves between two squares turned out better than expected, anywhere in the tree.
//!
//! A policy judges each position for itself, but threats, plans and refutations recur: a move that was better than the
//! value of its position in a hundred others is likely to be so in the next. Alpha-beta searches order moves by such
//! tables ("butterfly boards", Hartmann 1988), and Monty adds one of values to the logits of its policy. This one is
//! of differences from the value of the position before the move, which do not depend on who stands better.

use std::sync::atomic::{AtomicU32, Ordering};

use shakmaty::Color;

use crate::chess::PackedMove;

/// The weight of the latest move in a mean.
const RATE: f32 = 0.02;

/// What is left of a mean at the beginning of the next search.
const KEPT: f32 = 0.5;

/// Moves from one square to another, castling and promotions included.
const SQUARE_PAIRS: usize = 64 * 64;

/// For each side and each pair of squares the mean, over the latest moves, of the value after a move less that before
/// it (W-L, for the side that moves); 0 without any. Written by whoever owns the tree, and read by its workers.
#[derive(Debug)]
pub(super) struct Butterfly {
    /// The bits of an `f32` each.
    means: Box<[AtomicU32]>,
}

impl Default for Butterfly {
    fn default() -> Butterfly {
        Butterfly {
            means: (0..2 * SQUARE_PAIRS).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl Butterfly {
    #[inline]
    fn cell(&self, turn: Color, m: PackedMove) -> &AtomicU32 {
        let squares = usize::from(m.from()) * 64 + usize::from(m.to());
        &self.means[usize::from(turn.is_black()) * SQUARE_PAIRS + squares]
    }

    /// The mean of a move of this side, -2..=2.
    #[inline]
    pub fn of(&self, turn: Color, m: PackedMove) -> f32 {
        f32::from_bits(self.cell(turn, m).load(Ordering::Relaxed))
    }

    /// Adds a move of this side that changed the value by so much.
    #[inline]
    pub fn record(&self, turn: Color, m: PackedMove, change: f32) {
        let cell = self.cell(turn, m);
        let mean = f32::from_bits(cell.load(Ordering::Relaxed));
        let mean = mean + RATE * (change - mean);
        cell.store(mean.to_bits(), Ordering::Relaxed);
    }

    /// Makes what earlier searches found count less.
    pub fn fade(&self) {
        for cell in &self.means {
            let mean = f32::from_bits(cell.load(Ordering::Relaxed));
            cell.store((KEPT * mean).to_bits(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::{History, moves::legal_moves};

    #[test]
    fn a_mean_belongs_to_one_side_and_one_pair_of_squares() {
        let butterfly = Butterfly::default();
        let game = History::default();
        let mut moves = legal_moves(game.position());
        let [first, second] = [(); 2].map(|()| moves.next().unwrap());
        for _ in 0..1000 {
            butterfly.record(Color::Black, first, -0.3);
        }
        butterfly.record(Color::White, second, 0.5);
        assert!((butterfly.of(Color::Black, first) + 0.3).abs() < 1e-4);
        assert_eq!(butterfly.of(Color::White, first), 0.0);
        assert_eq!(butterfly.of(Color::White, second), RATE * 0.5);
        butterfly.fade();
        assert!((butterfly.of(Color::Black, first) + 0.15).abs() < 1e-4);
    }
}
