//! Games as text (PGN, `.gz` and `.zst` too): reading any file game by game with the broken ones named by their place,
//! and writing games that other programs read.

pub mod read;
pub mod text;
pub mod write;

pub use read::{Game, ReadError, Reader};

/// The tag in which self-play tells the search-contempt limit of its games.
pub const LIMIT_TAG: &str = "ScLimit";
