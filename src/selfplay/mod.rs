//! Self-play. A [`run`] plays games. A [`game`] is a sequence of searches, each on the tree of the side to move; the
//! [`driver`] plays many games at once, so that their leaves fill the network's batches. A [`store`] writes the games
//! to disk so that a killed run can be resumed with the same bytes as result, and the [`manifest`] records the
//! settings of the run. Searches become training positions ([`records`], and lc0's [`chunk`]s), and a [`controller`]
//! can regulate the share of draws.
//!
//! A game depends only on the run's seed and its own number, never on other games: its trees, its random numbers and
//! its minibatch size are its own, and there is no cache that other games could fill.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod chunk;
pub mod controller;
pub mod driver;
pub mod game;
pub mod manifest;
pub mod plan;
pub mod played;
pub mod records;
pub mod run;
pub mod store;
