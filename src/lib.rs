//! **Scorn** is a UCI chess engine: a multithreaded PUCT tree over a policy/value network, with
//! *search-contempt*, an opponent model for the tree itself. It loads the networks of Leela Chess Zero (lc0).
//!
//! # Reading order
//! Follow one `go` command: [`uci`] parses it, [`engine`] owns position, tree and network, [`player`] makes a job of
//! it, [`search`] gathers leaves into a batch (select, expand), has a [`network`] evaluate it and backs the values up;
//! the reports come back to [`uci`] as text.
//!
//! # Layers
//! From top to bottom; nothing imports upwards, and no files or top-level modules import each other in a circle
//! (`tests/library/architecture.rs` checks it):
//!
//! | layer | modules |
//! |---|---|
//! | command line | [`cli`], [`commands`]: arguments and display, one file per subcommand |
//! | programs | [`arena`]: matches; [`selfplay`]; [`labeling`]: labels; [`train`]; [`analysis`]: game reviews |
//! | protocol | [`uci`]: the protocol that Scorn speaks; [`uci_client`]: the other end of it |
//! | engine | [`engine`]: the game behind the protocol; [`player`]: the one way to start a search; [`search`] |
//! | networks | [`network`]: evaluators, backends, inputs |
//! | games | [`game`]: openings and adjudication; [`odds`]: profiles |
//! | formats | [`dataset`]: training records; [`sparse`]: sparse networks; [`lc0`]: lc0's weight files to ONNX |
//! | chess | [`chess`]: rules around `shakmaty`; [`pgn`]; [`syzygy`]; [`stats`]: Elo, SPRT; [`html`]: pages and plots |
//! | options | [`options`]: the one table of everything that can be set; [`config_file`]; [`memory`] |
//! | base | [`files`], [`hashing`], [`interrupt`], [`random`], [`terminal`], [`threads`], [`version`] |
//!
//! # Boundaries
//! * `network` never imports `search`; `lc0` depends on neither; `search` never prints.
//! * No global decides what is played: clock, random numbers and evaluator are passed in, and one thread with a fixed
//!   seed is reproducible bit for bit. The only globals are the ONNX Runtime library and its plug-ins, which can be
//!   loaded once per process, the built-in networks, unpacked once, the machine's memory, measured once, the running
//!   engines of a match, which an interrupt stops, and what belongs to one thread (scratch memory, its pool).
//!
//! # Use as a library
//! A [`Player`](player::Player) searches positions. This one has a hash function in place of a network, and finds a
//! mate; `examples/search.rs` loads the network inside the program.
//!
//! ```
//! use std::sync::Arc;
//!
//! use scorn::{
//!     chess::setup::{history_from_text, move_text},
//!     network::hash::HashEvaluator,
//!     options::Options,
//!     player::Player,
//!     search::{Limits, Score},
//! };
//!
//! let player = Player::with_evaluator(Options::default(), Arc::new(HashEvaluator));
//! let game = history_from_text("6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1")?;
//! let limits = Limits {
//!     nodes: Some(10_000),
//!     ..Limits::default()
//! };
//! let (outcome, _) = player.search_once(&player.job(game.clone(), limits))?;
//! let best = outcome.best.ok_or("the game is over")?;
//! assert_eq!(move_text(game.position(), best, false), "a1a8");
//! assert_eq!(outcome.report.lines[0].score, Score::Mate(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

/// Writes a line to standard output in a function that returns [`anyhow::Result`]. Unlike `println!`, which panics,
/// it returns an error when the line cannot be written; none when the reader is gone, as `head` is after some lines.
macro_rules! print_line {
    () => {
        print_line!("")
    };
    ($($argument:tt)*) => {
        anyhow::Context::context(
            $crate::terminal::print_text(format_args!("{}\n", format_args!($($argument)*))),
            "cannot write to standard output",
        )?
    };
}

pub mod analysis;
pub mod arena;
pub mod chess;
pub mod cli;
pub mod commands;
pub mod config_file;
pub mod dataset;
pub mod engine;
pub mod files;
pub mod game;
pub mod hashing;
pub mod html;
pub mod interrupt;
pub mod labeling;
pub mod lc0;
pub mod memory;
pub mod network;
pub mod odds;
pub mod options;
pub mod pgn;
pub mod player;
pub mod random;
pub mod search;
pub mod selfplay;
pub mod sparse;
pub mod stats;
pub mod syzygy;
pub mod terminal;
pub mod threads;
pub mod train;
pub mod uci;
pub mod uci_client;
pub mod version;

#[cfg(all(test, unix))]
#[path = "../tests/common/script.rs"]
mod script;
#[cfg(test)]
#[path = "../tests/common/shared.rs"]
mod shared;
