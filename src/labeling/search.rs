//! Policy targets from Scorn's own searches. Besides the root, every node with many visits was searched, too, and a
//! tree has hundreds of them.

use anyhow::Result;
use rand::{SeedableRng, rngs::SmallRng};
use shakmaty::{Chess, Position};

use super::{searcher::Searcher, visit::Root};
use crate::{
    chess::PackedMove,
    dataset::{
        record::Record,
        searched::{ENTRY, Samples, SearchedRoot, WHOLE},
    },
};

/// Which nodes become records, and how their visits are weighted.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Minimum visits of a node.
    pub min_visits: u32,
    /// Temperature: a move's weight is visits^(1 / temperature).
    pub temperature: f64,
}

impl Searcher {
    /// Searches from a position of the games and adds the records of the root and of the nodes below it.
    ///
    /// # Errors
    /// When the search fails, or there are too many positions for one file.
    pub fn find(
        &self,
        games: &[Record],
        seed: u64,
        found: Found,
        samples: &mut Samples,
    ) -> Result<()> {
        let root = Root::draw(games, &mut SmallRng::seed_from_u64(seed))?;
        for line in self.search(&root.start)?.1.searched_lines(found.min_visits) {
            let game = root.after(&line.line);
            let replies = found.replies(game.position(), &line.replies);
            samples.ensure_room_for(replies.len() * ENTRY, "--count")?;
            // The first of the most visited moves.
            let best = replies.iter().rev().max_by_key(|(_, visits)| *visits);
            let best = best.map_or(0, |&(m, _)| m);
            let searched = SearchedRoot {
                best,
                visits: replies.iter().map(|(_, visits)| visits).sum(),
                value: line.value,
            };
            let record = Record {
                best,
                ..root.record(&game)
            };
            samples.push(&record, &searched, replies.into_iter());
        }
        Ok(())
    }
}

impl Found {
    /// The moves (as in [`Record::best`]) with their weights.
    fn replies(self, position: &Chess, visited: &[(PackedMove, u32)]) -> Vec<(u16, u32)> {
        let code = |m: PackedMove| Record::pack_move(m.unpack(position), position.turn());
        let weight = |visits: u32| f64::from(visits).powf(1.0 / self.temperature);
        let sum: f64 = visited.iter().map(|&(_, visits)| weight(visits)).sum();
        let share = |visits| (weight(visits) / sum * f64::from(WHOLE)).round() as u32;
        let replies = visited.iter();
        replies
            .map(|&(m, visits)| (code(m), share(visits)))
            .collect()
    }
}
