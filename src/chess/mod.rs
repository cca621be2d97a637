//! The game itself, as far as `shakmaty` does not already know it: packed moves, a game's history with repetitions
//! and keys, and the arithmetic of scores.

pub mod history;
pub mod moves;

pub use history::{History, Ply};
pub use moves::PackedMove;
