//! Self-play: a [`run`] plays games. A [`game`] is a search after another, each on its side's own tree; the [`driver`] plays many games at
//! once, so that their leaves fill the network's batches; a [`store`] keeps what was played on disk in such a way that a run
//! that was killed goes on to the same bytes, and the [`manifest`] says what it was played with. Searches become training
//! positions ([`records`], and lc0's [`chunk`]s), and a [`controller`] can hold the share of draws.
//!
//! A game depends on the run's seed and its own number only, never on its neighbours: its trees, random numbers and the size
//! of its minibatches are its own, and there is no cache that other games could fill.

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
