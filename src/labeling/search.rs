//! What our own searches think of the positions that they visit often: for a policy that is to know at once what a
//! search finds out. The root of a search has most visits, but each of its larger nodes was searched, too, and there
//! are hundreds.

use anyhow::Result;
use rand::{SeedableRng, rngs::SmallRng};
use shakmaty::{Chess, Position};

use super::visit::{Root, Searcher};
use crate::{
    chess::PackedMove,
    dataset::{
        record::Record,
        searched::{ENTRY, Samples, SearchedRoot, WHOLE},
    },
};

/// What counts as searched, and how it is written down.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Visits that a position has had at least.
    pub min_visits: u32,
    /// A move counts as visits^(1 / this).
    pub temperature: f64,
}

impl Searcher {
    /// Searches from one of the games' positions, and adds what was found there and at the positions below it.
    ///
    /// # Errors
    /// When the search fails, or one file has no room for so much.
    pub fn find(
        &self,
        games: &[Record],
        seed: u64,
        found: Found,
        samples: &mut Samples,
    ) -> Result<()> {
        let root = Root::draw(games, &mut SmallRng::seed_from_u64(seed))?;
        for line in self.search(&root)?.searched_lines(found.min_visits) {
            let game = root.after(&line.line);
            let replies = found.replies(game.position(), &line.replies);
            samples.ensure_room_for(replies.len() * ENTRY, "--count")?;
            // The first of those visited most.
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
    /// The replies (as [`Record::best`]) with what stands for their visits.
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
