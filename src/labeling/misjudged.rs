//! Positions of games that the network misjudges: its value and its policy without a search, compared with a long
//! search without search-contempt, on a random sample of the positions.
//!
//! The search of the game itself is no measure of that, because with search-contempt its value is the practical one,
//! against an opponent that errs (figure 6 of the paper on search-contempt has a position that it takes for balanced
//! and that is lost).

use anyhow::{Context, Result};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde::Serialize;
use shakmaty::Position;

use super::{policy, searcher::Searcher};
use crate::{
    chess::{History, PackedMove},
    dataset::record::Record,
    network::Evaluator,
    stats::{
        clusters::{ClusterMean, MeanEstimate, Spread, SpreadSummary},
        policy::VALUE_ERRORS,
    },
};

/// A move with a smaller prior is overlooked by the policy.
pub const OVERLOOKED: f32 = 0.05;
/// Positions per batch of the network.
const BATCH: usize = 256;

/// A random sample of the positions of games, of a fixed size (reservoir sampling).
#[derive(Clone, Debug)]
pub struct PositionSample {
    size: usize,
    /// Number of positions that were offered.
    offered: u64,
    /// The game's number, and the game up to the position.
    positions: Vec<(u64, History)>,
    games: u64,
    rng: SmallRng,
}

impl PositionSample {
    /// An empty sample of this size, which depends on the games and the seed only.
    pub fn new(size: usize, seed: u64) -> PositionSample {
        PositionSample {
            size,
            offered: 0,
            positions: Vec::new(),
            games: 0,
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    /// Offers the positions of a game in which there is a legal move.
    pub fn offer(&mut self, start: &shakmaty::Chess, moves: &[PackedMove]) {
        let mut history = History::new(start.clone());
        for &m in moves {
            self.offered += 1;
            if self.positions.len() < self.size {
                self.positions.push((self.games, history.clone()));
            } else {
                let place = self.rng.random_range(0..self.offered);
                let place = usize::try_from(place).unwrap_or(usize::MAX);
                if let Some(kept) = self.positions.get_mut(place) {
                    *kept = (self.games, history.clone());
                }
            }
            history.push(m);
        }
        self.games += 1;
    }

    /// The number of positions.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Takes the positions, which leaves an empty sample of size 0.
    pub fn take(&mut self) -> PositionSample {
        std::mem::replace(self, PositionSample::new(0, 0))
    }
}

/// How a network misjudges a sample of positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Misjudged {
    value_error: Spread,
    overlooked: ClusterMean,
}

/// The results of [`Misjudged`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MisjudgedSummary {
    /// Difference of W-L between the network alone and the search's best line.
    pub value_error: SpreadSummary,
    /// The share of positions in which the search prefers a move whose prior is below [`OVERLOOKED`].
    pub overlooked: MeanEstimate,
}

impl Default for Misjudged {
    fn default() -> Misjudged {
        Misjudged {
            value_error: Spread::new(&VALUE_ERRORS),
            overlooked: ClusterMean::default(),
        }
    }
}

impl Misjudged {
    /// Evaluates and searches the positions of a sample. `progress` is called with the number of positions searched.
    ///
    /// # Errors
    /// When the network or a search fails.
    pub fn of(
        mut sample: PositionSample,
        network: &dyn Evaluator,
        searcher: &Searcher,
        mut progress: impl FnMut(u64),
    ) -> Result<Misjudged> {
        sample.positions.sort_by_key(|&(game, _)| game);
        let mut misjudged = Misjudged::default();
        let mut searched = 0;
        let mut compared = Vec::with_capacity(sample.positions.len());
        for part in sample.positions.chunks(BATCH) {
            let histories: Vec<History> = part.iter().map(|(_, game)| game.clone()).collect();
            let answers = policy::evaluate(&histories, network)?;
            for ((game, history), answer) in part.iter().zip(answers) {
                let (outcome, _) = searcher.search(history)?;
                let line = outcome.report.lines.first();
                let line = line.context("a search found no move in a position that has one")?;
                let best = line.pv.first().context("a line of a search has no move")?;
                let position = history.position();
                let best = Record::pack_move(best.unpack(position), position.turn());
                let prior = answer.policy.iter().find(|&&(m, _)| m == best);
                let is_overlooked = prior.is_none_or(|&(_, prior)| prior < OVERLOOKED);
                let error = f64::from((line.value.wl - answer.value.wl).abs());
                compared.push((*game, error, is_overlooked));
                searched += 1;
                progress(searched);
            }
        }
        for game in compared.chunk_by(|a, b| a.0 == b.0) {
            let errors: Vec<f64> = game.iter().map(|&(_, error, _)| error).collect();
            misjudged.value_error.add_game(&errors);
            let overlooked = game
                .iter()
                .filter(|&&(_, _, overlooked)| overlooked)
                .count();
            misjudged.overlooked.add(game.len(), overlooked as f64);
        }
        Ok(misjudged)
    }

    /// Adds another file's positions.
    pub fn append(&mut self, other: &Misjudged) {
        self.value_error.append(&other.value_error);
        self.overlooked.append(&other.overlooked);
    }

    /// The results; `None` without positions.
    pub fn summary(&self) -> Option<MisjudgedSummary> {
        Some(MisjudgedSummary {
            value_error: self.value_error.summary()?,
            overlooked: self.overlooked.estimate()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::pgn::Reader;

    #[test]
    fn every_position_is_equally_likely_in_a_sample() {
        let pgn = "1. e4 e5 2. Nf3 Nc6 1-0\n\n1. d4 d5 2. c4 e6 3. Nc3 Nf6 1/2-1/2\n";
        let games: Vec<_> = Reader::new(pgn.as_bytes()).map(Result::unwrap).collect();
        let mut drawn: BTreeMap<(u64, usize), u32> = BTreeMap::new();
        for seed in 0..2000 {
            let mut sample = PositionSample::new(3, seed);
            assert!(sample.is_empty());
            for game in &games {
                sample.offer(&game.start, &game.moves);
            }
            assert_eq!(sample.positions.len(), 3);
            for (game, history) in &sample.positions {
                *drawn.entry((*game, history.plies().len())).or_default() += 1;
            }
        }
        // Ten positions, of which three are drawn: 600 times each expected, with a standard deviation of 20.
        assert_eq!(drawn.len(), 10);
        assert!(
            drawn.values().all(|times| (500..=700).contains(times)),
            "{drawn:?}"
        );
        let mut all = PositionSample::new(20, 1);
        all.offer(&games[0].start, &games[0].moves);
        assert_eq!(all.positions.len(), 4);
    }
}
