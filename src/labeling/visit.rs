//! Self-search positions: positions from Scorn's own search trees, which the network has to evaluate in play, including
//! blunders to refute and its own misjudgements. Labelled by an engine or by a deeper search, they are training data.

use anyhow::{Context, Result};
use rand::{SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use shakmaty::Position;

use super::searcher::Searcher;
use crate::{
    chess::{History, PackedMove},
    dataset::record::{Record, Source},
    hashing::Fnv1a,
    terminal::counted,
};

/// Maximum number of searches in a row with too few positions.
pub const MAX_POOR_SEARCHES: u32 = 1000;

impl Searcher {
    /// Takes this many positions from the tree of one search, which starts at a random position of the games.
    ///
    /// # Errors
    /// When a search fails, or too many in a row have too few positions.
    pub fn draw(&self, games: &[Record], count: usize, seed: u64) -> Result<Vec<Record>> {
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..MAX_POOR_SEARCHES {
            let root = Root::draw(games, &mut rng)?;
            let lines = self.search(&root.start)?.1.open_lines();
            if lines.len() >= count {
                let drawn = lines.sample(&mut rng, count);
                return Ok(drawn.map(|line| root.record(&root.after(line))).collect());
            }
        }
        anyhow::bail!(
            "{MAX_POOR_SEARCHES} searches, one after the other, visited fewer than {}: lower --per-search or \
             raise --nodes",
            counted(count as u64, "undecided position")
        )
    }
}

/// A position of the games from which a search starts.
pub(super) struct Root<'a> {
    base: &'a Record,
    pub(super) start: History,
}

impl Root<'_> {
    /// A random position of the games.
    ///
    /// # Errors
    /// When there are no games, or the record holds an impossible position.
    pub fn draw<'a>(games: &'a [Record], rng: &mut SmallRng) -> Result<Root<'a>> {
        let base = games.choose(rng).context("no positions")?;
        let start = History::new(base.game_position().context("a position to search")?);
        Ok(Root { base, start })
    }

    /// The game after this line of moves.
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
        let mut record = Record::new(position, position.turn().is_black(), Source::Visited);
        record.flags |= self.base.flags & Record::HELD_OUT;
        record.game = self.base.game;
        record
    }
}

/// The seed of a search. Every search has its own seed, so that an interrupted run gives the same result.
pub fn seed_of_search(sample_seed: u64, number: u64) -> u64 {
    let hash = Fnv1a::new().and(&sample_seed.to_le_bytes());
    hash.and(&number.to_le_bytes()).value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::setup::position_from_fen;

    #[test]
    fn a_search_starts_with_the_colors_of_the_game() {
        let game = position_from_fen("4k2r/pp6/8/8/8/8/1Q6/4K3 b k - 3 1").unwrap();
        let record = Record::new(&game, true, Source::Visited);
        let games = [record];
        let root = Root::draw(&games, &mut SmallRng::seed_from_u64(1)).unwrap();
        assert_eq!(root.start.position(), &game);
        assert_eq!(root.record(&root.start), record);
    }
}
