//! Games in PGN (plain, `.gz` or `.zst`): reads any file game by game and reports broken games by their location;
//! writes games that other programs can read.

mod lines;
mod movetext;
pub mod read;
pub mod text;
pub mod write;

pub use read::{Game, ReadError, Reader};

/// The tag in which self-play writes the search-contempt limit of its games.
pub const LIMIT_TAG: &str = "ScLimit";
