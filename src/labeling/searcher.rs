//! Searches of single positions with a fixed number of nodes, for training data and statistics.

use anyhow::{Result, ensure};

use crate::{
    chess::History,
    options::Options,
    player::{Load, Player},
    search::{Limits, Outcome, Tree},
};

/// The networks, tables and options of all searches.
pub struct Searcher {
    player: Player,
    nodes: u64,
}

impl Searcher {
    /// Loads the networks. Searches use one thread each, so that they are reproducible.
    ///
    /// # Errors
    /// When a network cannot be loaded, or the options set more than one thread.
    pub fn new(nodes: u64, options: &Options, load: &Load) -> Result<Searcher> {
        ensure!(
            options.threads <= 1,
            "--threads {} is not possible: searches use one thread, so that they are reproducible; start one process \
             per core",
            options.threads
        );
        let options = Options {
            threads: 1,
            ..options.clone()
        };
        let player = Player::load(options, load)?;
        Ok(Searcher { player, nodes })
    }

    /// Searches from a game's position in an empty tree; returns the outcome and that tree.
    ///
    /// # Errors
    /// When the search fails.
    pub fn search(&self, start: &History) -> Result<(Outcome, Tree)> {
        let limits = Limits {
            nodes: Some(self.nodes),
            ..Limits::default()
        };
        let job = self.player.job(start.clone(), limits);
        Ok(self.player.search_once(&job)?)
    }
}
