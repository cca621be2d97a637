//! One `go`, on a thread of its own: wait for the network, search, answer. What the GUI must hear meanwhile is written
//! here; the result is exactly one `bestmove` per search (none for a ponder search that a hit ends).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use shakmaty::{Color, Position};

use super::loader::{Loader, NotLoaded};
use crate::{
    chess::{History, PackedMove, moves::legal_moves},
    network::opponent::Networks,
    options::Options,
    search::{
        self, Clock, Job, Limits, MoveStat, Outcome, Report, Reporter, SearchError, StopSignal,
        Tree,
    },
    syzygy::Tables,
    uci::{
        info::{Style, after_reply},
        output::Output,
    },
};

/// How often a search that has nothing left to do looks whether it may answer.
const IDLE: Duration = Duration::from_millis(5);

/// Everything that one search needs.
pub struct Task {
    /// The game up to the position that the answer is for.
    pub history: History,
    /// When pondering: the last move of the game is only expected. The position before it is searched.
    pub pondering: bool,
    /// The root moves to consider; empty means all.
    pub root_moves: Vec<PackedMove>,
    /// Whose opponent search-contempt models.
    pub contempt_side: Option<Color>,
    /// When to stop, counted from `received`.
    pub limits: Limits,
    /// Whether the answer must wait until the GUI asks for it.
    pub endless: bool,
    /// When the GUI asked.
    pub received: Duration,
    /// How long the answer may wait for a network that is still being loaded; `None` is as long as it takes.
    pub patience: Option<Duration>,
    /// The options when the GUI asked.
    pub options: Arc<Options>,
    /// Endgame tablebases, if there are any.
    pub tables: Option<Arc<Tables>>,
    /// The tree, kept from search to search.
    pub tree: Arc<Mutex<Tree>>,
    /// Where the network comes from.
    pub loader: Loader,
    /// What is to be said about it first.
    pub announcement: Arc<Mutex<Option<String>>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where the answer goes.
    pub output: Output,
    /// Ends the search.
    pub stop: StopSignal,
    /// Set before stopping when no answer is wanted.
    pub silent: Arc<AtomicBool>,
}

impl Task {
    /// Searches; returns the answer, if one is wanted.
    pub fn run(&self) -> Option<String> {
        let answer = self.think();
        self.wait_for_permission();
        if self.silent.load(Ordering::Relaxed) {
            return None;
        }
        let answer = match self.guessed_reply() {
            Some(_) => self.answer_after_pondering(),
            None => answer,
        };
        Some(self.style().best_move(answer.best, answer.ponder))
    }

    /// The move to answer with, without waiting for the permission to do so.
    fn think(&self) -> Answer {
        if legal_moves(self.history.position()).next().is_none() {
            self.report_end_of_game();
            return Answer::default();
        }
        let deadline = self.patience.map(|patience| Instant::now() + patience);
        let networks = match self.loader.wait(&self.stop, deadline) {
            Ok(networks) => networks,
            Err(NotLoaded::NotYet) => {
                self.output.note(if self.stop.is_stopped() {
                    "stopped before the network was loaded"
                } else {
                    "the network is still being loaded and time runs out: this is just some legal move"
                });
                return self.any_legal_move();
            }
            // The loader has said what is wrong.
            Err(NotLoaded::Failed(_)) => {
                self.output
                    .note("no search: there is no usable network (see above)");
                return Answer::default();
            }
        };
        if let Some(text) = self.announcement.lock().take() {
            self.output.note(&text);
        }
        let mut root = self.history.clone();
        let reply = self.guessed_reply();
        if reply.is_some() {
            root.truncate(root.len() - 1);
        }
        let mut limits = self.limits.clone();
        start_later(&mut limits, self.clock.now() - self.received);
        let outcome = self.search(&networks, &self.tree, root, limits, reply, &self.stop);
        self.answer_from(outcome)
    }

    /// When pondering: the move that the opponent is expected to play.
    fn guessed_reply(&self) -> Option<PackedMove> {
        let before = self.history.len().checked_sub(2)?;
        self.history.move_after(before).filter(|_| self.pondering)
    }

    fn search(
        &self,
        networks: &Networks,
        tree: &Mutex<Tree>,
        history: History,
        limits: Limits,
        reply: Option<PackedMove>,
        stop: &StopSignal,
    ) -> Result<Outcome, SearchError> {
        let root_moves = match reply {
            // `searchmoves` is about the position after the reply.
            Some(_) => Vec::new(),
            None => self.root_moves.clone(),
        };
        let job = Job {
            root_moves,
            contempt_side: self.contempt_side,
            tables: self.tables.clone(),
            ..Job::new(history, limits, Arc::clone(&self.options))
        };
        let mut reporter = Writer { task: self, reply };
        let clock = &*self.clock;
        let evaluator = networks.against(&self.options, self.contempt_side);
        search::run(
            &mut tree.lock(),
            &*evaluator,
            &job,
            stop,
            clock,
            &mut reporter,
        )
    }

    fn answer_from(&self, outcome: Result<Outcome, SearchError>) -> Answer {
        match outcome {
            Ok(outcome) => Answer {
                best: outcome.best,
                ponder: outcome.ponder,
            },
            Err(error) => {
                self.output.note(&format!("error: {error}"));
                Answer::default()
            }
        }
    }

    /// UCI forbids an answer to `go infinite` and `go ponder` before the GUI asks for it.
    fn wait_for_permission(&self) {
        while self.endless && !self.stop.is_stopped() && !self.output.is_closed() {
            std::thread::sleep(IDLE);
        }
    }

    /// Pondering was about the position before the expected reply, but a GUI that stops it expects a move in the position
    /// after it. The tree usually knows; one node of another tree decides if it does not. What was searched stays as it
    /// is, for it is worth most now that another reply was played.
    fn answer_after_pondering(&self) -> Answer {
        let known = search::line_after(&self.tree.lock(), &self.options, &self.history);
        if let Some(&best) = known.first()
            && (self.root_moves.is_empty() || self.root_moves.contains(&best))
        {
            let ponder = known.get(1).copied();
            return Answer {
                best: Some(best),
                ponder,
            };
        }
        let loaded = self.loader.wait(&self.stop, None);
        let over = legal_moves(self.history.position()).next().is_none();
        let (Ok(networks), false) = (loaded, over) else {
            return self.any_legal_move();
        };
        let limits = Limits {
            nodes: Some(1),
            ..Limits::default()
        };
        let (tree, stop) = (Mutex::default(), StopSignal::default());
        let outcome = self.search(&networks, &tree, self.history.clone(), limits, None, &stop);
        self.answer_from(outcome)
    }

    fn any_legal_move(&self) -> Answer {
        let best = legal_moves(self.history.position())
            .find(|m| self.root_moves.is_empty() || self.root_moves.contains(m));
        Answer { best, ponder: None }
    }

    fn report_end_of_game(&self) {
        let mated = self.history.position().is_check();
        self.output.note(if mated {
            "the game is over: checkmate"
        } else {
            "the game is over: stalemate"
        });
        let report = Report::of_finished_game(self.history.position());
        for line in self.style().report(&report) {
            self.output.line(&line);
        }
    }

    fn style(&self) -> Style<'_> {
        Style {
            position: self.history.position(),
            options: &self.options,
        }
    }
}

/// What `bestmove` says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Answer {
    best: Option<PackedMove>,
    ponder: Option<PackedMove>,
}

/// Turns reports into lines. While pondering, only lines through the expected reply, from there on.
struct Writer<'a> {
    task: &'a Task,
    reply: Option<PackedMove>,
}

impl Reporter for Writer<'_> {
    fn report(&mut self, report: &Report) {
        let task = self.task;
        let silent = task.silent.load(Ordering::Relaxed);
        let lines = match self.reply {
            _ if silent => Vec::new(),
            None => {
                let style = task.style();
                [style.objectives(report), style.report(report)].concat()
            }
            Some(reply) => match after_reply(report, reply) {
                Some(report) => task.style().report(&report),
                None => Vec::new(),
            },
        };
        for line in lines {
            task.output.line(&line);
        }
        if task.output.is_closed() {
            task.stop.stop();
        }
    }

    fn move_stats(&mut self, stats: &[MoveStat]) {
        // While pondering these are the opponent's moves, which no GUI expects.
        if self.reply.is_none() && self.task.options.verbose_move_stats {
            for line in self.task.style().move_stats(stats) {
                self.task.output.line(&line);
            }
        }
    }

    fn note(&mut self, text: &str) {
        self.task.output.note(text);
    }
}

/// Takes time that has already passed from the time limits.
fn start_later(limits: &mut Limits, passed: Duration) {
    const LEAST: Duration = Duration::from_millis(1);
    for limit in [&mut limits.movetime, &mut limits.budget] {
        *limit = limit.map(|time| time.saturating_sub(passed).max(LEAST));
    }
}
