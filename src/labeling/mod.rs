//! Labelling: positions to label, and the sources of labels.
//!
//! `scorn dataset sample` makes positions that games lack ([`sample`]), `visit` takes those that our own search visits
//! ([`visit`]). Labels come from a UCI engine ([`label`]), endgame tablebases ([`tables`]), another network
//! ([`policy`]) or our own searches ([`search`], made by a [`searcher`]). [`planes`] turns games into what networks
//! see. [`search_stats`] compares recorded searches with what a network says without one, and [`misjudged`] that with
//! long searches of a sample.
//!
//! Everything but an engine's label is decided by the seed and the inputs, and a run continues only with the same ones.
//! The record formats are in [`dataset`](crate::dataset).

pub mod label;
pub mod misjudged;
pub mod planes;
pub mod policy;
pub mod sample;
pub mod search;
pub mod search_stats;
pub mod searcher;
pub mod tables;
pub mod visit;
