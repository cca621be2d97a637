//! One run: plays games and stores their results in the [`Store`].

use std::sync::Arc;

use anyhow::Result;

use super::{
    chunk::{self, ChunkVersion},
    controller::Controller,
    driver::{self, GamesProgress, Workload},
    plan::Plan,
    played::{MoveSource, PlayedGame, PlayedMove, Seat},
    records::{MoveTarget, Sides, for_each_sample, samples_of},
    store::{BALANCE, GameFacts, GameTally, Store, StoredGame},
};
use crate::{dataset::searched::Samples, syzygy::Tables};

/// Output of a run besides games and results.
#[derive(Clone, Copy, Debug)]
pub struct TrainingOutput {
    /// The move targets in record files; `None` writes no records.
    pub records: Option<MoveTarget>,
    /// lc0's training chunks.
    pub chunks: Option<ChunkVersion>,
    /// The sides whose positions are written.
    pub sides: Sides,
}

/// Observes the progress of a run.
pub trait RunObserver {
    /// Called when a game is over.
    fn finished(&mut self, game: &GameFacts);
    /// A message for the user.
    fn note(&mut self, text: &str);
}

/// A self-play run.
pub struct SelfplayRun<O> {
    /// The games and files of the run.
    pub store: Store,
    /// Output besides games and results.
    pub output: TrainingOutput,
    /// Called for each finished game.
    pub observer: O,
    /// Counters of all threads.
    pub progress: Arc<GamesProgress>,
}

impl<O: RunObserver> SelfplayRun<O> {
    /// Plays those of the games with these numbers that are not in the store.
    ///
    /// # Errors
    /// When a network cannot evaluate or a file cannot be written; unfinished games are dropped then.
    pub fn play(&mut self, plan: &Plan, numbers: &[u64], work: Workload) -> Result<()> {
        let is_missing = |number: &u64| !self.store.facts().contains_key(number);
        let missing: Vec<u64> = numbers.iter().copied().filter(is_missing).collect();
        let progress = Arc::clone(&self.progress);
        driver::play(plan, &missing, work, &progress, |played| {
            let (game, chunk) = stored(self.output, plan, &played)?;
            self.observer.finished(&game.facts);
            for fault in plan.tables().flat_map(Tables::new_faults) {
                self.observer.note(&format!("scorn: {fault}"));
            }
            self.store.add(game, chunk.as_deref())
        })
    }

    /// Whether training positions were requested and none of the games has any.
    pub fn lacks_samples(&self) -> bool {
        let is_requested = self.output.records.is_some() || self.output.chunks.is_some();
        is_requested && self.store.facts().values().all(|game| game.samples == 0)
    }

    /// Passes the results of a batch of games to the controller, and writes its path to the store.
    ///
    /// # Errors
    /// When the path cannot be written.
    pub fn update(&mut self, controller: &mut Controller, numbers: &[u64]) -> Result<()> {
        let mut tally = GameTally::default();
        let games = numbers
            .iter()
            .filter_map(|number| self.store.facts().get(number));
        games.for_each(|game| tally.add(game));
        controller.update(tally.white + tally.black, tally.draws);
        if let Some(step) = controller.path().last() {
            let (batch, limit, nodes) = (step.batch, step.next_sc_limit, step.next_nodes);
            let text = format!(
                "batch {batch}: (w+l)/d {:.2}, next ScLimit {limit}, nodes {nodes}",
                step.ratio
            );
            self.observer.note(&text);
        }
        let lines = controller.lines()?;
        self.store.write_file(BALANCE, lines.as_bytes())
    }
}

/// The stored form of a game, and its chunk.
fn stored(
    output: TrainingOutput,
    plan: &Plan,
    played: &PlayedGame,
) -> Result<(StoredGame, Option<Vec<u8>>)> {
    let sides = output.sides;
    let fill = [0, 1].map(|player: usize| plan.players[player].options.history_fill);
    let chunk = match output.chunks {
        Some(version) => chunk::of_game(played, sides, fill, version)?,
        None => None,
    };
    let samples = match output.records {
        Some(target) => samples_of(played, sides, target),
        None => Samples::default(),
    };
    let (mut count, mut frozen) = (0, 0);
    if output.records.is_some() || output.chunks.is_some() {
        for_each_sample(played, sides, |sample| {
            count += 1;
            frozen += u64::from(sample.is_frozen());
        });
    }
    let is_search = |played: &&PlayedMove| matches!(played.source, MoveSource::Search(_));
    let facts = GameFacts {
        number: played.number,
        result: played.outcome.as_str().to_owned(),
        white: played.white,
        plies: played.moves.len(),
        searches: played.moves.iter().filter(is_search).count(),
        nodes: played.nodes,
        would_resign: played.would_resign.is_some(),
        false_resignation: played.is_false_resignation(),
        samples: count,
        frozen_samples: frozen,
        chunk: None,
    };
    let pgn = played.pgn([seat(plan, played.white), seat(plan, 1 - played.white)]);
    Ok((
        StoredGame {
            facts,
            pgn,
            samples,
        },
        chunk,
    ))
}

fn seat(plan: &Plan, player: usize) -> Seat<'_> {
    let player = &plan.players[player];
    Seat {
        name: &player.name,
        nodes: player.nodes,
        sc_limit: player.options.sc_limit,
    }
}
