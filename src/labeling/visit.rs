//! Positions that our own search visits: what the network is asked about in play, the blunders that it has to refute
//! and its own misjudgements among them. Labelled by a teacher, or by a deeper search of our own, they make the next
//! round of training.

use anyhow::{Context, Result, ensure};
use rand::{SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use shakmaty::{Color, Position};

use crate::dataset::record::{Record, Source};
use crate::{
    chess::{History, PackedMove},
    hashing::fnv1a,
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
            let root = Root::draw(games, &mut rng)?;
            let lines = self.search(&root)?.open_lines();
            if lines.len() >= count {
                let drawn = lines.sample(&mut rng, count);
                return Ok(drawn.map(|line| root.record(&root.after(line))).collect());
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
    pub(super) fn search(&self, root: &Root<'_>) -> Result<Tree> {
        let limits = Limits {
            nodes: Some(self.nodes),
            ..Limits::default()
        };
        let job = self.player.job(root.start.clone(), limits);
        let mut tree = Tree::default();
        let (stop, clock) = (StopSignal::default(), SystemClock::default());
        self.player
            .search(&mut tree, &job, &stop, &clock, &mut Silent)?;
        Ok(tree)
    }
}

/// A position of the games, where a search begins.
pub(super) struct Root<'a> {
    base: &'a Record,
    start: History,
}

impl Root<'_> {
    /// One of the games' positions, at random.
    ///
    /// # Errors
    /// When there is none, or it is none of chess.
    pub fn draw<'a>(games: &'a [Record], rng: &mut SmallRng) -> Result<Root<'a>> {
        let base = games.choose(rng).context("no positions")?;
        let start = History::new(base.position().context("a position to search")?);
        Ok(Root { base, start })
    }

    /// The game to the end of a line from here.
    pub fn after(&self, line: &[PackedMove]) -> History {
        let mut game = self.start.clone();
        for &m in line {
            game.push(m);
        }
        game
    }

    /// The record of the last position of such a game.
    pub fn record(&self, game: &History) -> Record {
        let position = game.position();
        // Positions of records are White's to move; the real colour follows from the number of plies played since.
        let black = (self.base.state & Record::BLACK != 0) != (position.turn() == Color::Black);
        let mut record = Record::new(position, black, Source::Visited);
        record.flags |= self.base.flags & Record::HELD_OUT;
        record.game = self.base.game;
        record
    }
}

/// The seed of one of a run's searches. Each has random numbers of its own, so that a run which was stopped goes on as
/// if it had not been.
pub fn seed_of_search(sample_seed: u64, number: u64) -> u64 {
    fnv1a(fnv1a(0, &sample_seed.to_le_bytes()), &number.to_le_bytes())
}
