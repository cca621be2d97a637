//! What our own searches think of the positions that they visit often: for a policy that is to know at once what a search
//! finds out. The root of a search has most visits, but each of its larger nodes was searched, too, and there are hundreds.

use anyhow::{Context, Result, ensure};
use rand::{SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use shakmaty::Position;

use super::{
    record::Record,
    searched::{ENTRY, Samples, SearchedRoot},
    visit::{Searcher, record},
};
use crate::{
    chess::{History, PackedMove},
    search::tree::lines::SearchedLine,
};

/// What stands for all visits of a position.
const WHOLE: f64 = 1_000_000.0;

/// What counts as searched, and how it is written down.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Visits that a position has had at least.
    pub least_visits: u32,
    /// A move counts as visits^(1 / this).
    pub temperature: f64,
}

impl Searcher {
    /// Searches from one of the games' positions; what was found there, and at the positions below it.
    ///
    /// # Errors
    /// When the search fails, or one file has no room for so much.
    pub fn find(&self, games: &[Record], seed: u64, found: Found) -> Result<Samples> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let base = games.choose(&mut rng).context("no positions")?;
        let root = History::new(base.position().context("a position to search")?);
        let mut samples = Samples::default();
        for line in self.search(&root)?.searched_lines(found.least_visits) {
            let position = record(base, &root, &line.line);
            let replies = found.replies(&root, &line);
            ensure!(
                samples.has_room_for(replies.len() * ENTRY),
                "one search finds more than a file holds: raise --least-visits"
            );
            // The first of those visited most.
            let best = replies.iter().rev().max_by_key(|(_, visits)| *visits);
            let best = best.map_or(0, |&(m, _)| m);
            let searched = SearchedRoot {
                best,
                visits: replies.iter().map(|(_, visits)| visits).sum(),
                value: line.value,
            };
            let position = Record { best, ..position };
            samples.push(&position, &searched, replies.into_iter());
        }
        Ok(samples)
    }
}

impl Found {
    /// The replies (as [`Record::best`]) with what stands for their visits.
    fn replies(self, root: &History, line: &SearchedLine) -> Vec<(u16, u32)> {
        let mut game = root.clone();
        for &m in &line.line {
            game.push(m);
        }
        let position = game.position();
        let code = |m: PackedMove| Record::pack_move(m.unpack(position), position.turn());
        let weight = |visits: u32| f64::from(visits).powf(1.0 / self.temperature);
        let sum: f64 = line.replies.iter().map(|&(_, visits)| weight(visits)).sum();
        let share = |visits| (weight(visits) / sum * WHOLE).round() as u32;
        let replies = line.replies.iter();
        replies
            .map(|&(m, visits)| (code(m), share(visits)))
            .collect()
    }
}
