//! Runs all games of a match: several at a time, each thread with its own two engines.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::SystemTime,
};

use anyhow::{Context, Result};
use parking_lot::Mutex;

use super::{
    game::{self, MatchGame, MatchTerms, SIGNAL_DELAY, Termination},
    player::Competitor,
    record::{GameRecord, Labels, date_of, distinct_names, game_text},
    tally::{Round, Tally},
};
use crate::{
    game::openings::Opening,
    threads::spawn_scoped,
    uci_client::{Client, ClientError},
};

/// A match.
#[derive(Clone, Debug)]
pub struct Match {
    /// The first and the second player.
    pub players: [Competitor; 2],
    /// The openings in order.
    pub openings: Vec<Opening>,
    /// Whether each opening is played with both colours.
    pub is_paired: bool,
    /// The conditions of the games.
    pub terms: MatchTerms,
    /// Number of concurrent games.
    pub concurrency: usize,
    /// Ends the match when it is set; games in progress are then not counted.
    pub stop: Arc<AtomicBool>,
}

/// State shared by the threads.
struct SharedMatch<'a> {
    games: VecDeque<Round>,
    tally: &'a mut Tally,
    record: Option<&'a mut GameRecord>,
    report: &'a mut (dyn FnMut(&Tally, Round, &MatchGame) + Send),
    failure: Option<anyhow::Error>,
    /// The engines' names from `id name`.
    names: [String; 2],
    /// The day on which the match was started or resumed.
    date: String,
}

/// The engines of a thread: the first player's and the second's.
type Engines = [Option<Client>; 2];

impl Match {
    /// Starts both engines once, to check that they work.
    ///
    /// # Errors
    /// When one of them fails.
    pub fn start_engines(&self) -> Result<Engines> {
        let [first, second] = &self.players;
        Ok([Some(self.start(first)?), Some(self.start(second)?)])
    }

    fn start(&self, player: &Competitor) -> Result<Client, ClientError> {
        player.start(self.terms.chess960, self.terms.ponder)
    }

    /// All games of the match.
    pub fn rounds(&self) -> impl Iterator<Item = Round> + use<> {
        let halves = if self.is_paired { 2 } else { 1 };
        let pairs = 0..self.openings.len();
        pairs.flat_map(move |pair| (0..halves).map(move |half| Round { pair, half }))
    }

    /// Plays the games that are not in the tally, the first of them with the engines that have been started. Games
    /// are written to the record and passed to `report`.
    ///
    /// # Errors
    /// When an engine cannot be restarted, or a game cannot be written.
    pub fn run(
        &self,
        engines: Engines,
        tally: &mut Tally,
        record: Option<&mut GameRecord>,
        report: &mut (dyn FnMut(&Tally, Round, &MatchGame) + Send),
    ) -> Result<()> {
        let games: VecDeque<Round> = self.rounds().filter(|&round| !tally.has(round)).collect();
        let threads = self.concurrency.clamp(1, games.len().max(1));
        let names = engines.each_ref().map(|engine| {
            let name = engine.as_ref().map(|client| client.name.clone());
            name.unwrap_or_default()
        });
        let shared = Mutex::new(SharedMatch {
            names,
            date: date_of(SystemTime::now()),
            games,
            tally,
            record,
            report,
            failure: None,
        });
        thread::scope(|scope| {
            for _ in 1..threads {
                let work = || self.work(Engines::default(), &shared);
                // Where the system refuses threads, there are fewer games at a time.
                if spawn_scoped(scope, "games", work).is_err() {
                    break;
                }
            }
            self.work(engines, &shared);
        });
        shared.into_inner().failure.map_or(Ok(()), Err)
    }

    fn work(&self, mut engines: Engines, shared: &Mutex<SharedMatch<'_>>) {
        while let Some(round) = self.next(shared) {
            let played = self.play(round, &mut engines);
            let mut shared = shared.lock();
            let done = played.and_then(|played| {
                if let Some(played) = &played {
                    self.write(round, played, &mut shared)?;
                }
                Ok(played)
            });
            match done {
                Ok(Some(played)) => {
                    let SharedMatch { tally, report, .. } = &mut *shared;
                    report(tally, round, &played);
                }
                // The match was stopped.
                Ok(None) => {}
                Err(error) => {
                    shared.failure.get_or_insert(error);
                }
            }
        }
    }

    /// The next game, unless the match is over.
    fn next(&self, shared: &Mutex<SharedMatch<'_>>) -> Option<Round> {
        let mut shared = shared.lock();
        let is_stopped = self.stop.load(Ordering::Relaxed);
        if is_stopped || shared.failure.is_some() || shared.tally.is_decided() {
            return None;
        }
        shared.games.pop_front()
    }

    fn write(&self, round: Round, played: &MatchGame, shared: &mut SharedMatch<'_>) -> Result<()> {
        let seats = self.seats(round);
        let engines = shared.names.each_ref().map(|name| &**name);
        let commands = self.players.each_ref().map(|player| &*player.text);
        let limits = self
            .players
            .each_ref()
            .map(|player| player.limit.to_string());
        let limits = limits.each_ref().map(|limit| &**limit);
        let names = distinct_names(engines, commands, limits);
        let labels = Labels {
            date: &shared.date,
            names: seats.map(|player| &*names[player]),
            players: seats.map(|player| commands[player]),
            engines: seats.map(|player| engines[player]),
            limits: seats.map(|player| limits[player]),
            chess960: self.terms.chess960,
        };
        let start = &self.openings[round.pair].start;
        if shared.record.is_some() {
            let text = game_text(round, start, played, &labels);
            if let Some(record) = &mut shared.record {
                record.write(&text)?;
            }
        }
        let is_forfeit = matches!(played.termination, Termination::Forfeit { .. });
        let ending = played.termination.details();
        shared.tally.add(round, played.outcome, &ending, is_forfeit);
        Ok(())
    }

    /// The players with White and Black.
    fn seats(&self, round: Round) -> [usize; 2] {
        round.first_side().fold_wb([0, 1], [1, 0])
    }

    /// `None` if the match was stopped.
    fn play(&self, round: Round, engines: &mut Engines) -> Result<Option<MatchGame>> {
        for (engine, player) in engines.iter_mut().zip(&self.players) {
            if engine.is_none() {
                let started = self.start(player);
                if started.is_err() && game::is_set_within(SIGNAL_DELAY, &self.stop) {
                    return Ok(None);
                }
                *engine = Some(started.with_context(|| format!("game {}", round.text()))?);
            }
        }
        let [Some(first), Some(second)] = engines else {
            anyhow::bail!("the engines have not been started");
        };
        let seats = self.seats(round);
        let limits = seats.map(|player| self.players[player].limit);
        let clients = match round.half {
            0 => [first, second],
            _ => [second, first],
        };
        let opening = &self.openings[round.pair];
        let played = game::play(clients, limits, opening, &self.terms, &self.stop);
        if let Some(played) = &played
            && let Termination::Forfeit { side, reason, .. } = &played.termination
            && reason.is_fatal()
        {
            engines[seats[side.fold_wb(0, 1)]] = None;
        }
        Ok(played)
    }
}
