//! Positions that our own search visits: what the network is asked about in play, the blunders that it has to refute and
//! its own misjudgements among them. Labelled by a teacher, or by a deeper search of our own, they make the next round
//! of training.

use anyhow::{Context, Result, ensure};
use rand::{SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use shakmaty::{Color, Position};

use super::record::{Record, Source};
use crate::{
    chess::{History, PackedMove},
    options::Options,
    player::{Load, Player},
    search::{Limits, Silent, StopSignal, SystemClock, Tree},
};

/// Searches that may yield too little, one after the other, before that is an error.
const MOST_POOR_SEARCHES: u32 = 1000;

/// What every search uses.
pub struct Searcher {
    player: Player,
    nodes: u64,
}

impl Searcher {
    /// Loads the networks. Searches use one thread each, so that they repeat.
    ///
    /// # Errors
    /// When a network cannot be loaded, or the options ask for more threads.
    pub fn new(nodes: u64, options: &Options, load: &Load) -> Result<Searcher> {
        ensure!(
            options.threads <= 1,
            "--threads {}: searches use one thread here, so that they repeat; start one process a core, each with another \
             --sample-seed",
            options.threads
        );
        let options = Options {
            threads: 1,
            ..options.clone()
        };
        let player = Player::load(options, load)?;
        Ok(Searcher { player, nodes })
    }

    /// This many visited positions of one search, from one of the games' positions.
    ///
    /// # Errors
    /// When a search fails, or too many of them find fewer positions than are to be taken.
    pub fn draw(&self, games: &[Record], count: usize, seed: u64) -> Result<Vec<Record>> {
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..MOST_POOR_SEARCHES {
            let base = games.choose(&mut rng).context("no positions")?;
            let root = History::new(base.position().context("a position to search")?);
            let lines = self.search(&root)?.open_lines();
            if lines.len() >= count {
                let drawn = lines.sample(&mut rng, count);
                return Ok(drawn.map(|line| record(base, &root, line)).collect());
            }
        }
        anyhow::bail!(
            "{MOST_POOR_SEARCHES} searches, one after the other, visited fewer than {count} undecided positions: \
             lower --per-search or raise --nodes"
        )
    }

    /// The tree of a search from here.
    ///
    /// # Errors
    /// When the search fails.
    pub(super) fn search(&self, root: &History) -> Result<Tree> {
        let limits = Limits {
            nodes: Some(self.nodes),
            ..Limits::default()
        };
        let job = self.player.job(root.clone(), limits);
        let mut tree = Tree::default();
        let (stop, clock) = (StopSignal::default(), SystemClock::default());
        self.player
            .search(&mut tree, &job, &stop, &clock, &mut Silent)?;
        Ok(tree)
    }
}

/// The record of the position at the end of a line.
pub(super) fn record(base: &Record, root: &History, line: &[PackedMove]) -> Record {
    let mut game = root.clone();
    for &m in line {
        game.push(m);
    }
    let position = game.position();
    // Positions of records are White's to move; the real colour follows from the number of plies played since.
    let black = (base.state & Record::BLACK != 0) != (position.turn() == Color::Black);
    let mut record = Record::new(position, black, Source::Visited);
    record.flags |= base.flags & Record::HELD_OUT;
    record.game = base.game;
    record
}
