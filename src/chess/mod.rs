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

pub use history::{History, Place, Ply};
pub use moves::PackedMove;
