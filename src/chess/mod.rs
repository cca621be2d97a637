//! Chess beyond `shakmaty`: packed moves, a game's history with repetitions and keys, positions from text, and the
//! arithmetic of scores.

pub mod checks;
pub mod epd;
pub mod history;
pub mod moves;
pub mod opponent;
pub mod perft;
pub mod see;
pub mod setup;
pub mod wdl;

use shakmaty::Color;

pub use history::{History, Place, Ply};
pub use moves::PackedMove;

/// The side to move after this many plies, when `turn` is to move now.
#[inline]
pub fn turn_after(turn: Color, plies: usize) -> Color {
    if plies.is_multiple_of(2) {
        turn
    } else {
        turn.other()
    }
}
