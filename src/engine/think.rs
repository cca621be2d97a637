//! One `go`: wait for the network, search, answer. Progress is reported meanwhile; the result is exactly one answer per
//! search (none for a ponder search that `ponderhit` ends).

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use shakmaty::{Color, Position};

use super::{
    Go, SearchEnd,
    kept_tree::SearchedTree,
    listener::{Answer, Listener, Subject},
    loader::{Loader, NotLoaded},
    lost_games::Assessment,
    settings::StandInOptions,
};
use crate::{
    chess::{
        History, PackedMove,
        moves::{has_legal_move, legal_moves},
    },
    network::opponent::{self, Networks},
    player::Player,
    search::{
        self, Clock, Job, Limits, MoveStat, Outcome, Report, Reporter, SearchError, StopSignal,
        Tree,
    },
    syzygy::Tables,
};

/// Interval at which a search that waits for `stop` checks whether the output is closed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Everything that one search needs.
pub(super) struct Task {
    /// The position and options of the answer.
    pub subject: Subject,
    /// The game up to the position that the answer is for.
    pub history: History,
    /// When pondering: the last move of the game is only expected. The position before it is searched.
    pub pondering: bool,
    /// The command.
    pub go: Go,
    /// The root moves to consider; empty means all.
    pub root_moves: Vec<PackedMove>,
    /// Root moves that led into lost games.
    pub avoided: Vec<PackedMove>,
    /// The side whose opponent search-contempt models.
    pub contempt_side: Option<Color>,
    /// The limits; times count from `received`. The answer to a search without any waits until the GUI stops it.
    pub limits: Limits,
    /// When the search was requested.
    pub received: Duration,
    /// Maximum wait for a network that is being loaded, from `received`; `None` is no limit.
    pub patience: Option<Duration>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Endgame tablebases, if there are any.
    pub tables: Option<Arc<Tables>>,
    /// The tree, kept from search to search.
    pub tree: Arc<Mutex<SearchedTree>>,
    /// Provides the networks.
    pub loader: Loader,
    /// The options for the built-in network, if it has to stand in for another one.
    pub stand_in_options: StandInOptions,
    /// Their description, if it is still to be sent.
    pub announcement: Arc<Mutex<Option<String>>>,
    /// What the network recommends, to append to it.
    pub recommendations: String,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Receives the reports.
    pub listener: Arc<dyn Listener>,
    /// Stops the search.
    pub stop: StopSignal,
    /// Set before the search is stopped if no answer is wanted.
    pub silent: Arc<AtomicBool>,
    /// What was reported about the machine's limits.
    pub noted: Arc<Noted>,
}

/// What was reported and may last for many searches.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// Whether missing search threads were.
    threads: AtomicBool,
    /// The last message about the tree's memory.
    memory: Mutex<String>,
    /// Whether a network that reads which side is the engine's was without one.
    missing_side: AtomicBool,
}

/// UCI forbids an answer to `go infinite` and `go ponder` before `stop` or `ponderhit`.
pub(super) fn wait_for_stop(stop: &StopSignal, listener: &dyn Listener) {
    while !stop.wait(POLL_INTERVAL) && !listener.is_gone() {}
}

impl Task {
    /// Searches, and returns the answer if one is wanted.
    pub fn run(&self) -> SearchEnd {
        let answer = self.or_any_move(|| self.think());
        if self.limits.infinite {
            wait_for_stop(&self.stop, &*self.listener);
        }
        if self.silent.load(Ordering::Relaxed) {
            return SearchEnd::Silent;
        }
        let answer = match self.guessed_reply() {
            Some(_) => self.or_any_move(|| self.answer_after_pondering()),
            None => answer,
        };
        SearchEnd::Answered(self.subject.clone(), answer)
    }

    /// A crash is a bug, but no reason to forfeit a game. The tree may be damaged and is replaced.
    fn or_any_move(&self, think: impl FnOnce() -> Answer) -> Answer {
        catch_unwind(AssertUnwindSafe(think)).unwrap_or_else(|_| {
            self.listener
                .note("error: the search crashed; please report this");
            *self.tree.lock() = SearchedTree::default();
            self.any_legal_move()
        })
    }

    /// Reports once that the network's values mean little because no side is the engine's.
    fn note_missing_side(&self, player: &Player) {
        let reads_mover = player.networks.main.info().reads_mover;
        let reason = opponent::why_side_is_missing(&player.options, reads_mover);
        let was_missing = &self.noted.missing_side;
        let is_new = !was_missing.swap(reason.is_some(), Ordering::Relaxed);
        if let Some(reason) = reason.filter(|_| is_new) {
            self.listener.note(&reason);
        }
    }

    /// The answer, before the wait for `stop`.
    fn think(&self) -> Answer {
        if !has_legal_move(self.history.position()) {
            self.report_end_of_game();
            return Answer::default();
        }
        match self.loader.wait_for_numbers(&self.stop, self.deadline()) {
            Ok((networks, numbers)) => {
                if let Some(description) = self.announcement.lock().take() {
                    self.listener.note(&(description + &self.recommendations));
                }
                let player = self.player(networks);
                self.note_missing_side(&player);
                let outcome = self.search_root(
                    &player,
                    self.tree.lock().for_networks(numbers),
                    self.limits.clone(),
                );
                self.answer_from(outcome).unwrap_or_else(|| {
                    self.think_with_stand_in("the network failed before it had a move")
                })
            }
            // `ponderhit` came before the ponder search could start: the search that follows answers.
            Err(NotLoaded::NotYet) if self.silent.load(Ordering::Relaxed) => Answer::default(),
            Err(NotLoaded::NotYet) => self.think_with_stand_in(if self.stop.is_stopped() {
                "stopped before the network was loaded"
            } else {
                "the network is still being loaded and time runs out"
            }),
            // The loader has reported the error.
            Err(NotLoaded::Failed(_)) => {
                self.think_with_stand_in("there is no usable network (see above)")
            }
        }
    }

    /// Until when a network that is being loaded is waited for.
    fn deadline(&self) -> Option<Instant> {
        let passed = self.clock.now().saturating_sub(self.received);
        let left = self.patience?.saturating_sub(passed);
        Some(Instant::now() + left)
    }

    /// A missing network is no reason to forfeit a game: the built-in one, which needs no library, finds the move, in a
    /// tree of its own.
    fn think_with_stand_in(&self, reason: &str) -> Answer {
        let Some(player) = self.stand_in() else {
            self.listener
                .note(&format!("{reason}: playing an arbitrary legal move"));
            return self.any_legal_move();
        };
        self.listener
            .note(&format!("{reason}: the built-in network plays this move"));
        // A strength limit has a level of its own for the built-in network.
        let mut limits = self.limits.clone();
        self.go.limit_nodes(&mut limits, &player.options);
        let outcome = self.search_root(&player, &mut Tree::default(), limits);
        self.answer_from(outcome)
            .unwrap_or_else(|| self.any_legal_move())
    }

    /// These networks with the options in force.
    fn player(&self, networks: Networks) -> Player {
        Player {
            options: Arc::clone(&self.subject.options),
            networks,
            tables: self.tables.clone(),
        }
    }

    /// The built-in network with the options that it recommends, where the user has not set others.
    fn stand_in(&self) -> Option<Player> {
        let options = self.stand_in_options.resolve();
        Some(Player {
            networks: self.loader.stand_in(&options)?,
            options: Arc::new(options),
            tables: self.tables.clone(),
        })
    }

    /// Searches the position, or while pondering the one before.
    fn search_root(
        &self,
        player: &Player,
        tree: &mut Tree,
        mut limits: Limits,
    ) -> Result<Outcome, SearchError> {
        let mut root = self.history.clone();
        let reply = self.guessed_reply();
        if reply.is_some() {
            root.truncate(root.len() - 1);
        }
        start_later(&mut limits, self.clock.now().saturating_sub(self.received));
        self.search(player, tree, root, limits, reply, &self.stop)
    }

    /// When pondering: the move that the opponent is expected to play.
    fn guessed_reply(&self) -> Option<PackedMove> {
        let before = self.history.len().checked_sub(2)?;
        self.history.move_after(before).filter(|_| self.pondering)
    }

    fn search(
        &self,
        player: &Player,
        tree: &mut Tree,
        history: History,
        limits: Limits,
        reply: Option<PackedMove>,
        stop: &StopSignal,
    ) -> Result<Outcome, SearchError> {
        let (root_moves, avoided) = match reply {
            // Both refer to the position after the reply.
            Some(_) => (Vec::new(), Vec::new()),
            None => (self.root_moves.clone(), self.avoided.clone()),
        };
        let job = Job {
            root_moves,
            avoided,
            contempt_side: self.contempt_side,
            seed: self.seed,
            ..player.job(history, limits)
        };
        let mut reporter = PonderFilter { task: self, reply };
        player.search(tree, &job, stop, &*self.clock, &mut reporter)
    }

    /// After an error the answer is the best move found so far, if there is one.
    fn answer_from(&self, outcome: Result<Outcome, SearchError>) -> Option<Answer> {
        let outcome = outcome.or_else(|error| {
            self.listener.note(&format!("error: {error}"));
            error.found().ok_or(())
        });
        let outcome = outcome.ok()?;
        outcome.best.map(|best| Answer {
            best: Some(best),
            ponder: outcome.ponder,
            assessment: Assessment::of(&outcome),
        })
    }

    /// Pondering searches the position before the expected reply, but a GUI that stops it expects a move in the
    /// position after it. The tree usually has one; otherwise one node of another tree decides. The tree itself is
    /// kept, because another reply was played.
    fn answer_after_pondering(&self) -> Answer {
        let known = search::line_after(
            self.tree.lock().tree(),
            &self.subject.options.search(),
            &self.history,
        );
        if let Some(&best) = known.first()
            && (self.root_moves.is_empty() || self.root_moves.contains(&best))
        {
            let ponder = known.get(1).copied();
            return Answer {
                best: Some(best),
                ponder,
                assessment: None,
            };
        }
        // That the built-in network replaces a missing one was reported before.
        let loaded = self.loader.wait(&self.stop, None).ok();
        let loaded = loaded.map(|networks| self.player(networks));
        let usable = || loaded.or_else(|| self.stand_in());
        let Some(player) = has_legal_move(self.history.position())
            .then(usable)
            .flatten()
        else {
            return self.any_legal_move();
        };
        let limits = Limits {
            nodes: Some(1),
            ..Limits::default()
        };
        let (mut tree, stop) = (Tree::default(), StopSignal::default());
        let history = self.history.clone();
        let outcome = self.search(&player, &mut tree, history, limits, None, &stop);
        self.answer_from(outcome)
            .unwrap_or_else(|| self.any_legal_move())
    }

    fn any_legal_move(&self) -> Answer {
        let best = legal_moves(self.history.position())
            .find(|m| self.root_moves.is_empty() || self.root_moves.contains(m));
        Answer {
            best,
            ..Answer::default()
        }
    }

    fn report_end_of_game(&self) {
        let mated = self.history.position().is_check();
        self.listener.note(if mated {
            "the game is over: checkmate"
        } else {
            "the game is over: stalemate"
        });
        let report = Report::of_finished_game(self.history.position());
        self.listener.report(&self.subject, &report);
    }
}

/// Forwards reports. While pondering, only lines through the expected reply are forwarded, from there on.
struct PonderFilter<'a> {
    task: &'a Task,
    reply: Option<PackedMove>,
}

impl Reporter for PonderFilter<'_> {
    fn report(&mut self, report: &Report) {
        let (task, subject) = (self.task, &self.task.subject);
        if !task.silent.load(Ordering::Relaxed) {
            match self.reply {
                None => task.listener.report(subject, report),
                Some(reply) => {
                    if let Some(report) = report.after_reply(reply) {
                        task.listener.report(subject, &report);
                    }
                }
            }
        }
        if task.listener.is_gone() {
            task.stop.stop();
        }
    }

    fn move_stats(&mut self, stats: &[MoveStat]) {
        // While pondering these are the opponent's moves, which no GUI expects.
        if self.reply.is_none() {
            self.task.listener.move_stats(&self.task.subject, stats);
        }
    }

    fn note(&mut self, text: &str) {
        self.task.listener.note(text);
    }

    fn note_missing_threads(&mut self, text: &str) {
        if !self.task.noted.threads.swap(true, Ordering::Relaxed) {
            self.note(text);
        }
    }

    fn note_memory_limit(&mut self, text: &str) {
        let noted = Arc::clone(&self.task.noted);
        let mut last = noted.memory.lock();
        if *last != text {
            text.clone_into(&mut last);
            self.note(text);
        }
    }
}

/// Subtracts time that has already passed from the time limits.
fn start_later(limits: &mut Limits, passed: Duration) {
    const MIN: Duration = Duration::from_millis(1);
    for limit in [&mut limits.movetime, &mut limits.budget] {
        *limit = limit.map(|time| time.saturating_sub(passed).max(MIN));
    }
}
