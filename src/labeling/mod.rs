//! Labelling: positions to label, and the sources of labels.
//!
//! `scorn dataset sample` makes positions that games lack ([`sample`]), `visit` takes those that our own search visits
//! ([`visit`]). Labels come from a UCI engine ([`label`]), endgame tablebases ([`tables`]), another network
//! ([`policy`]) or our own searches ([`search`]). [`planes`] turns games into what networks see, and [`policy_stats`]
//! compares recorded searches with a network's policy.
//!
//! Everything but an engine's label is decided by the seed and the inputs, and a run continues only with the same ones.
//! The record formats are in [`dataset`](crate::dataset).

pub mod label;
pub mod planes;
pub mod policy;
pub mod policy_stats;
pub mod sample;
pub mod search;
pub mod tables;
pub mod visit;
