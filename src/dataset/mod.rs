//! Training data: games to packed records, positions to label, labels from a UCI engine, statistics.
//!
//! `scorn dataset pgn` turns games into records, `sample` makes positions that games lack, `visit` takes those that our
//! own search visits, `search` what it found at those that it visited often, `planes` turns games into what networks see,
//! `label` asks a teacher about positions, `tables` endgame tablebases, `policy` another network, `stats` counts.
//! `networks/training` reads the records.
//! Self-play leaves positions with all visits ([`searched`]).
//! Everything but a label is decided by seed and inputs. What was begun is only continued with the same ones, and bad games
//! and records are named.

pub mod label;
pub mod pgn;
pub mod planes;
pub mod policy;
pub mod record;
pub mod sample;
pub mod search;
pub mod searched;
pub mod stats;
pub mod tables;
pub mod visit;
