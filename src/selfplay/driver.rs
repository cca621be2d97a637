//! Plays many games at once. Each thread plays its share of them in rounds; in a round all games that wait for the
//! same network fill its batches together, and the batches of all threads are evaluated together as far as the device
//! is busy. A game that need not wait for a batch makes many visits in a row. The result
//! of a game does not depend on the number of other games.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
};

use anyhow::{Context, Result, anyhow};

use super::{game::GameInPlay, plan::Plan, played::PlayedGame};
use crate::{
    network::{Batch, Evaluator, backend::merged::Merged},
    threads::spawn_scoped,
};

/// Consecutive visits of a game while all leaves are evaluated at once: enough to keep its tree in the processor's
/// caches, and few enough to stop quickly.
const CONSECUTIVE_VISITS: usize = 512;

/// The amount of parallel work. It affects only the speed, not the games.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Concurrent games, over all threads.
    pub parallel: usize,
    /// Threads.
    pub threads: usize,
    /// Maximum number of positions in a batch.
    pub batch: usize,
}

/// Counters that can be read by other threads.
#[derive(Debug, Default)]
pub struct GamesProgress {
    /// Positions evaluated for moves that were played.
    pub positions: AtomicU64,
    /// Evaluated batches; 0 if networks need none.
    pub batches: AtomicU64,
    /// Positions in these batches. Others are evaluated at once.
    pub batched_positions: AtomicU64,
}

/// The games that have not been started.
struct GameQueue<'q> {
    numbers: &'q [u64],
    next: AtomicUsize,
    is_stopped: AtomicBool,
}

impl GameQueue<'_> {
    fn take(&self) -> Option<u64> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        self.numbers.get(index).copied()
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// Plays the games with these numbers; `done` gets each finished game, in any order.
///
/// # Errors
/// When a network cannot evaluate, or `done` fails; unfinished games are dropped then.
pub fn play(
    plan: &Plan,
    numbers: &[u64],
    load: Workload,
    progress: &GamesProgress,
    mut done: impl FnMut(PlayedGame) -> Result<()>,
) -> Result<()> {
    let queue = GameQueue {
        numbers,
        next: AtomicUsize::new(0),
        is_stopped: AtomicBool::new(false),
    };
    let parallel = load.parallel.clamp(1, numbers.len().max(1));
    let threads = load.threads.clamp(1, parallel);
    let merged = |evaluator| Merged::new(evaluator, load.batch);
    let evaluators: Vec<Merged<&dyn Evaluator>> =
        plan.evaluators.iter().map(|it| merged(&**it)).collect();
    let (sender, games) = channel();
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for index in 0..threads {
            let share = parallel / threads + usize::from(index < parallel % threads);
            let worker = GamesWorker {
                plan,
                evaluators: &evaluators,
                queue: &queue,
                progress,
                share,
                batch: load.batch,
            };
            let sender = sender.clone();
            let started = spawn_scoped(scope, "games", move || {
                let run = AssertUnwindSafe(|| worker.run(&sender));
                let crash = |_| Err(anyhow!("a thread of self-play crashed; please report this"));
                let result = catch_unwind(run).unwrap_or_else(crash);
                if result.is_err() {
                    worker.queue.stop();
                }
                result
            });
            match started {
                Ok(worker) => workers.push(worker),
                Err(error) if workers.is_empty() => {
                    return Err(error).context("no thread can be started for self-play");
                }
                // The others play the games.
                Err(_) => break,
            }
        }
        drop(sender);
        let received = receive(&games, &queue, &mut done);
        let mut result = Ok(());
        for worker in workers {
            // The threads catch their panics.
            result = result.and(worker.join().unwrap_or(Ok(())));
        }
        result.and(received)
    })
}

/// Passes the games to `done` until the workers are finished. After an error the workers are stopped.
fn receive(
    games: &Receiver<PlayedGame>,
    queue: &GameQueue<'_>,
    done: &mut impl FnMut(PlayedGame) -> Result<()>,
) -> Result<()> {
    for game in games {
        if let Err(error) = done(game) {
            queue.stop();
            return Err(error);
        }
    }
    Ok(())
}

/// One worker thread.
struct GamesWorker<'a> {
    plan: &'a Plan,
    /// The plan's evaluators, with batches of all threads together.
    evaluators: &'a [Merged<&'a dyn Evaluator>],
    queue: &'a GameQueue<'a>,
    progress: &'a GamesProgress,
    /// Concurrent games of this thread.
    share: usize,
    batch: usize,
}

impl GamesWorker<'_> {
    fn run(&self, sender: &Sender<PlayedGame>) -> Result<()> {
        let mut games = Vec::with_capacity(self.share);
        let mut batch = Batch::default();
        while !self.queue.is_stopped.load(Ordering::Relaxed) {
            while games.len() < self.share
                && let Some(number) = self.queue.take()
            {
                let game = GameInPlay::new(self.plan, number);
                games.push(game.with_context(|| format!("game {number}"))?);
            }
            if games.is_empty() {
                break;
            }
            for (index, evaluator) in self.plan.evaluators.iter().enumerate() {
                self.round(&mut games, index, &**evaluator, &mut batch)?;
            }
            for game in games.extract_if(.., |game| game.is_over()) {
                if let Some(played) = game.finish() {
                    // The receiver is gone after an error, which is reported elsewhere.
                    let _ = sender.send(played);
                }
            }
        }
        Ok(())
    }

    /// Evaluates one or more batches for the games that wait for an evaluator; if it needs none, runs some visits of
    /// each game.
    fn round(
        &self,
        games: &mut [GameInPlay<'_>],
        index: usize,
        evaluator: &dyn Evaluator,
        batch: &mut Batch,
    ) -> Result<()> {
        let waits = |game: &&mut GameInPlay<'_>| game.evaluator_index() == Some(index);
        let mut waiting = games.iter_mut().filter(waits).peekable();
        while waiting.peek().is_some() {
            batch.clear();
            let mut queued = Vec::new();
            while batch.len() < self.batch
                && let Some(game) = waiting.next()
            {
                if self.gather(game, index, evaluator, batch)? {
                    queued.push(game);
                }
            }
            if !batch.is_empty() {
                let (progress, positions) = (self.progress, batch.len() as u64);
                let batches = self.evaluators[index].evaluate_counted(batch)?;
                progress.batches.fetch_add(batches, Ordering::Relaxed);
                let batched = &progress.batched_positions;
                batched.fetch_add(positions, Ordering::Relaxed);
            }
            for game in queued {
                self.apply(game, batch)?;
            }
        }
        Ok(())
    }

    /// Lets a game gather leaves; returns whether some of them wait in the batch. While all of them are evaluated at
    /// once, the game continues for some visits: if the games alternated after every visit, each visit would find its
    /// tree in slow memory.
    fn gather(
        &self,
        game: &mut GameInPlay<'_>,
        index: usize,
        evaluator: &dyn Evaluator,
        batch: &mut Batch,
    ) -> Result<bool> {
        let others = batch.len();
        for _ in 0..CONSECUTIVE_VISITS {
            game.gather(evaluator, batch)?;
            if batch.len() > others {
                return Ok(true);
            }
            self.apply(game, batch)?;
            if game.evaluator_index() != Some(index) {
                break;
            }
        }
        Ok(false)
    }

    fn apply(&self, game: &mut GameInPlay<'_>, batch: &Batch) -> Result<()> {
        game.apply(batch)?;
        let positions = game.take_evaluations();
        if positions > 0 {
            let counter = &self.progress.positions;
            counter.fetch_add(positions, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use shakmaty::Position;

    use super::*;
    use crate::{
        game::adjudicate::Rules,
        network::{
            hash::HashEvaluator,
            load::{NetworkConfig, load_backend},
            opponent::Networks,
        },
        options::Options,
        selfplay::{
            plan::{Colors, Contestant, PlayoutCap, RandomPlies, Resign, Starts, Terms},
            played::{MoveSource, Reason, Seat, player_of},
        },
        threads::faults,
    };

    fn plan(terms: Terms, settings: &[(&str, &str)]) -> Plan {
        let player = |name: &str, extra: &[(&str, &str)]| {
            let mut options = Options::default();
            let usual = [
                ("Backend", "hash"),
                ("MinibatchSize", "4"),
                ("Temperature", "1"),
            ];
            for (name, value) in usual.iter().chain(extra) {
                options.set(name, value).unwrap();
            }
            let networks = Networks::alone(Arc::new(HashEvaluator));
            Contestant::new(name, options, 20, networks)
        };
        let starts = Starts::odds("knight").unwrap();
        let players = [player("a", settings), player("b", &[])];
        Plan::new(players, Colors::Both, starts, terms, 7)
    }

    fn short() -> Terms {
        Terms {
            rules: Rules {
                max_plies: Some(40),
                ..Rules::default()
            },
            ..Terms::default()
        }
    }

    fn texts(
        plan: &Plan,
        games: u64,
        parallel: usize,
        threads: usize,
        batch: usize,
    ) -> Vec<String> {
        let numbers: Vec<u64> = (0..games).collect();
        let (load, progress) = (
            Workload {
                parallel,
                threads,
                batch,
            },
            GamesProgress::default(),
        );
        let mut texts = BTreeMap::new();
        let seat = Seat {
            name: "x",
            nodes: 20,
            sc_limit: 5,
        };
        play(plan, &numbers, load, &progress, |played| {
            assert!(texts.insert(played.number, played.pgn([seat; 2])).is_none());
            Ok(())
        })
        .unwrap();
        assert!(progress.positions.into_inner() > 100);
        texts.into_values().collect()
    }

    #[test]
    fn a_game_does_not_depend_on_its_neighbours() {
        let terms = Terms {
            reuse_tree: true,
            cap: Some(PlayoutCap {
                nodes: 6,
                full: 0.4,
            }),
            random: Some(RandomPlies {
                plies: 3,
                share: 0.5,
            }),
            ..short()
        };
        let plan = plan(
            terms,
            &[("ScLimit", "5"), ("DirichletNoiseEpsilon", "0.25")],
        );
        let alone = texts(&plan, 6, 1, 1, 1);
        assert_eq!(alone.len(), 6);
        assert_ne!(alone[0], alone[2]);
        assert!(alone.iter().any(|text| text.contains("{random}")));
        for (parallel, threads, batch) in [(6, 1, 256), (3, 2, 5), (100, 4, 9)] {
            assert_eq!(texts(&plan, 6, parallel, threads, batch), alone);
        }
    }

    #[test]
    fn networks_without_batches_play_the_same_games_and_are_counted() {
        let config = NetworkConfig::from(&Options::default());
        let evaluator = load_backend(&config, &|_| {}).unwrap();
        assert!(evaluator.info().computes_at_once);
        let networks = Networks::alone(evaluator);
        let player = Contestant::new("x", Options::default(), 30, networks);
        let rules = Rules {
            max_plies: Some(4),
            ..Rules::default()
        };
        let terms = Terms {
            rules,
            ..Terms::default()
        };
        let starts = Starts::odds("knight").unwrap();
        let plan = Plan::new([player.clone(), player], Colors::Both, starts, terms, 7);
        let games = |parallel, threads| {
            let load = Workload {
                parallel,
                threads,
                batch: 4,
            };
            let progress = GamesProgress::default();
            let mut games = BTreeMap::new();
            play(&plan, &[0, 1, 2], load, &progress, |played| {
                let moves = played.moves.iter().map(|played| played.m);
                games.insert(played.number, moves.collect::<Vec<_>>());
                Ok(())
            })
            .unwrap();
            assert_eq!(progress.batches.into_inner(), 0);
            assert_eq!(progress.batched_positions.into_inner(), 0);
            (games, progress.positions.into_inner())
        };
        let alone = games(1, 1);
        // Visits of some positions need no evaluation.
        assert!((200..=3 * 4 * 30).contains(&alone.1), "{}", alone.1);
        assert_eq!(games(3, 2), alone);
    }

    #[test]
    fn sides_have_their_own_nodes_and_resign_or_continue() {
        let resign = |playthrough| Terms {
            resign: Some(Resign {
                below: 0.49,
                playthrough,
            }),
            ..short()
        };
        let play_one = |terms| {
            let mut plan = plan(terms, &[]);
            plan.players[1].set_limits(1_000_000_000, 33);
            let mut games = Vec::new();
            let load = Workload {
                parallel: 4,
                threads: 1,
                batch: 16,
            };
            play(
                &plan,
                &[0, 1, 2, 3],
                load,
                &GamesProgress::default(),
                |played| {
                    games.push(played);
                    Ok(())
                },
            )
            .unwrap();
            games
        };
        let resigned = play_one(resign(0.0));
        assert!(
            resigned
                .iter()
                .any(|game| game.reason == Reason::Resignation)
        );
        let played_on = play_one(resign(1.0));
        assert!(
            played_on
                .iter()
                .all(|game| game.reason != Reason::Resignation)
        );
        assert!(played_on.iter().any(|game| game.would_resign.is_some()));
        for game in played_on {
            for (ply, played) in game.moves.iter().enumerate() {
                let MoveSource::Search(search_result) = &played.source else {
                    panic!("a move without a search");
                };
                let player = if ply % 2 == 0 {
                    game.white
                } else {
                    1 - game.white
                };
                let is_sure = search_result.moves.iter().any(|m| m.proven().is_some());
                assert!(is_sure || search_result.visits == [20, 33][player]);
            }
        }
    }

    #[test]
    fn the_move_that_a_search_prefers_is_recorded_and_decides_whether_a_side_resigns() {
        let below = 0.49;
        let terms = Terms {
            resign: Some(Resign {
                below,
                playthrough: 1.0,
            }),
            ..short()
        };
        // The first player plays what its searches prefer; the second one draws by visits.
        let plan = plan(terms, &[("RootChoice", "lcb"), ("Temperature", "0")]);
        let load = Workload {
            parallel: 4,
            threads: 1,
            batch: 16,
        };
        let numbers: Vec<u64> = (0..8).collect();
        let (mut others, mut drawn, mut resigned) = (0, 0, 0);
        play(&plan, &numbers, load, &GamesProgress::default(), |game| {
            let mut hopeless = None;
            let mut turn = game.start.turn();
            for played in &game.moves {
                let MoveSource::Search(result) = &played.source else {
                    panic!("a move without a search");
                };
                let most_visited = result.moves.last().and_then(|stat| stat.m);
                if player_of(game.white, turn) == 0 {
                    assert_eq!(result.best, played.m);
                    others += usize::from(most_visited != Some(result.best));
                } else {
                    assert_eq!(Some(result.best), most_visited);
                    drawn += usize::from(result.best != played.m);
                }
                if (result.value(result.best).wl + 1.0) / 2.0 < below {
                    hopeless = hopeless.or(Some(turn));
                }
                turn = !turn;
            }
            assert_eq!(game.would_resign, hopeless);
            resigned += usize::from(hopeless.is_some());
            Ok(())
        })
        .unwrap();
        assert!(others > 0 && drawn > 0 && resigned > 0);
    }

    #[test]
    fn the_threads_that_could_be_started_play_all_games() {
        let plan = plan(short(), &[]);
        let all = texts(&plan, 6, 4, 1, 16);
        for started in 1..3 {
            let play = || texts(&plan, 6, 4, 3, 16);
            assert_eq!(faults::during(move |n| n >= started, play).0, all);
        }
        let load = Workload {
            parallel: 2,
            threads: 2,
            batch: 16,
        };
        let progress = GamesProgress::default();
        let none = || play(&plan, &[0], load, &progress, |_| Ok(()));
        let error = faults::during(|_| true, none).0.unwrap_err();
        assert!(error.to_string().contains("no thread can be started"));
    }

    #[test]
    fn an_error_ends_the_run() {
        let plan = plan(short(), &[]);
        let load = Workload {
            parallel: 4,
            threads: 2,
            batch: 16,
        };
        let numbers: Vec<u64> = (0..100).collect();
        let mut count = 0;
        let played = play(&plan, &numbers, load, &GamesProgress::default(), |_| {
            count += 1;
            anyhow::bail!("the disk is full")
        });
        assert_eq!(played.unwrap_err().to_string(), "the disk is full");
        assert_eq!(count, 1);
    }
}
