//! Record formats: positions with labels ([`record`], [`record_file`]) and positions with all visits of their searches
//! ([`searched`]); records from games ([`pgn`]) and statistics of files ([`stats`]).
//!
//! Nothing here searches or evaluates: [`labeling`](crate::labeling) does. `networks/training` reads the same formats.

pub mod pgn;
pub mod record;
pub mod record_file;
pub mod searched;
pub mod stats;
