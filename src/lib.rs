//! **Scorn** is a UCI chess engine: a multithreaded PUCT tree over a policy/value network, with
//! *search-contempt*, an opponent model for the tree itself. It loads the networks of Leela Chess Zero (lc0).
//!
//! # Reading order
//! Follow one `go` command: [`uci`] parses it, [`engine`] owns position, tree and network and starts a search,
//! [`search`] gathers leaves into a batch (select, expand), has a [`network`] evaluate it and backs the values up;
//! the reports come back to [`uci`] as text. [`chess`] holds the rules around `shakmaty`, [`lc0`] turns lc0's
//! weight files into ONNX, [`options`] is the one table of everything that can be set, [`odds`] what is set
//! for a game at odds. [`dataset`] makes the
//! records that networks are trained on, [`sparse`] trains a kind of them and computes it, [`selfplay`] plays games,
//! many at once, [`stats`] counts games, which [`pgn`] reads and writes and an [`arena`] has engines play. [`commands`]
//! holds the subcommands, one file each.
//!
//! # Boundaries
//! * `network` never imports `search`; `lc0` knows neither; `search` never prints.
//! * No global decides what is played: clock, random numbers and evaluator are passed in, and one thread with a fixed seed is
//!   reproducible bit for bit. What there is of them is the ONNX Runtime library, which allows itself once a process, the
//!   machine's memory, measured once, and scratch memory of threads.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

/// Writes a line to standard output in a function that returns [`anyhow::Result`]. Unlike `println!`, which panics, it
/// returns an error when nobody reads any more.
macro_rules! say {
    () => {
        say!("")
    };
    ($($argument:tt)*) => {
        anyhow::Context::context(
            $crate::terminal::say(format_args!("{}\n", format_args!($($argument)*))),
            "cannot write to standard output",
        )?
    };
}

pub mod arena;
pub mod chess;
pub mod cli;
pub mod commands;
pub mod config_file;
pub mod dataset;
pub mod engine;
pub mod files;
pub mod hashing;
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
pub mod uci;

#[cfg(all(test, unix))]
#[path = "../tests/common/script.rs"]
mod script;
#[cfg(test)]
#[path = "../tests/common/shared.rs"]
mod shared;
