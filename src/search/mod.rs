//! The search: a PUCT tree over a network, with search-contempt.
//!
//! One iteration of a worker is: `select` leaves (by `puct`) under the tree's lock, `expand` them without it,
//! evaluate them together, and `backup` their values. [`search_contempt`] is the opponent model, `bounds` the proofs,
//! [`tree`], [`node`] and `edges` the data, `root` the choice of the move, [`objective`] a second look at what was found,
//! [`limits`] the reasons to stop.
//!
//! [`run`] searches one position until a limit or a stop signal ends it. It never prints: what there is to say goes to
//! a [`Reporter`]. Time comes from a [`Clock`], randomness from the options' seed, values from an
//! [`Evaluator`].

mod backup;
mod batch;
mod bounds;
mod edges;
mod expand;
pub mod limits;
pub mod node;
pub mod objective;
mod params;
mod puct;
mod reroot;
mod root;
pub mod search_contempt;
mod select;
pub mod time;
pub mod tree;
mod worker;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use shakmaty::{Chess, Color, Position};
use thiserror::Error;

use crate::{
    chess::{self, History, PackedMove},
    network::{EvaluateError, Evaluator, Value},
    options::Options,
    syzygy::Tables,
};
use batch::Minibatch;
pub use limits::Limits;
use limits::{Progress, Stopper};
use objective::Objective;
use params::Params;
use root::RootMoves;
use search_contempt::Rule;
pub use tree::{Full, Tree};
use worker::Search;

/// Everything that defines one search.
#[derive(Clone, Debug)]
pub struct Job {
    /// The game up to the position to search.
    pub history: History,
    /// The root moves to consider (`searchmoves`); empty means all.
    pub root_moves: Vec<PackedMove>,
    /// Whose opponent search-contempt models; `None` is plain PUCT.
    pub contempt_side: Option<Color>,
    /// When to stop.
    pub limits: Limits,
    /// Search parameters.
    pub options: Arc<Options>,
    /// Endgame tablebases, if there are any.
    pub tables: Option<Arc<Tables>>,
}

impl Job {
    /// All root moves, plain PUCT, no tablebases.
    pub fn new(history: History, limits: Limits, options: Arc<Options>) -> Job {
        Job {
            history,
            root_moves: Vec::new(),
            contempt_side: None,
            limits,
            options,
            tables: None,
        }
    }
}

/// Tells a running search, from another thread, to finish.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Asks the search to stop; it answers within a batch's time.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A source of time.
pub trait Clock: Send + Sync {
    /// Time since an arbitrary fixed moment; never goes back.
    fn now(&self) -> Duration;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// What a line is worth, from the point of view of the side to move at the root.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// Not decided: see the line's value.
    Open,
    /// Mate in this many of the winner's moves; negative when being mated; 0 when mated already.
    Mate(i32),
    /// A tablebase win (positive) or loss, with the plies to get there as far as they are known.
    Tablebase(i32),
}

/// One principal variation.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Proven result or not.
    pub score: Score,
    /// Mean value, from the point of view of the side to move at the root.
    pub value: Value,
    /// The moves, from the root.
    pub pv: Vec<PackedMove>,
    /// Visits of the first move.
    pub nodes: u64,
    /// The same against best replies: in the last report of a search with search-contempt, if `ShowObjective` is set.
    pub objective: Option<Objective>,
}

/// The state of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Mean depth of the visited leaves, in plies.
    pub depth: u32,
    /// Depth of the deepest line.
    pub seldepth: u32,
    /// Since the search began.
    pub elapsed: Duration,
    /// Visits of the root, those of a reused tree included.
    pub nodes: u64,
    /// Visits made by this search.
    pub playouts: u64,
    /// Memory in use, in per mille of the limit (of the cache, without a limit).
    pub hashfull: u32,
    /// Tablebase probes that hit.
    pub tb_hits: u64,
    /// The best lines, best first; as many as `MultiPV` asks for.
    pub lines: Vec<Line>,
}

impl Report {
    /// What there is to say about a position without legal moves: mate or stalemate.
    pub fn of_finished_game(position: &Chess) -> Report {
        let (score, value) = if position.is_check() {
            (
                Score::Mate(0),
                Value {
                    wl: -1.0,
                    ..Value::default()
                },
            )
        } else {
            (
                Score::Open,
                Value {
                    d: 1.0,
                    ..Value::default()
                },
            )
        };
        let line = Line {
            score,
            value,
            pv: Vec::new(),
            nodes: 0,
            objective: None,
        };
        Report {
            lines: vec![line],
            ..Report::default()
        }
    }
}

/// Statistics of one root move, for `VerboseMoveStats`. Values are from the point of view of the side to move at the
/// root; what an unvisited move does not have is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveStat {
    /// The move; `None` for the root itself (the row that lc0 calls `node`).
    pub m: Option<PackedMove>,
    /// Visits.
    pub n: u32,
    /// Visits in flight.
    pub in_flight: u32,
    /// Prior, 0..=1.
    pub p: f32,
    /// Mean value of the visits.
    pub value: Option<Value>,
    /// Q as selection sees it (draw score included; first-play urgency if unvisited).
    pub q: f32,
    /// The exploration term.
    pub u: f32,
    /// The network's own W-L for the position after the move.
    pub v: Option<f32>,
    /// Proven result for the side to move at the root: win, draw or loss.
    pub proven: Option<Proven>,
    /// Whether the position after the move is frozen by search-contempt.
    pub frozen: bool,
}

/// A certain result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proven {
    /// Won.
    Win,
    /// Drawn.
    Draw,
    /// Lost.
    Loss,
}

/// Receives what a search has to say.
pub trait Reporter: Send {
    /// The state of the search, now and then and at the end.
    fn report(&mut self, report: &Report);
    /// Statistics of all root moves, least interesting first, the root itself last.
    fn move_stats(&mut self, _stats: &[MoveStat]) {}
    /// Something for people to read.
    fn note(&mut self, _text: &str) {}
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn report(&mut self, _: &Report) {}
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The move to play; `None` if the game is over.
    pub best: Option<PackedMove>,
    /// The expected reply.
    pub ponder: Option<PackedMove>,
    /// The final state (also reported).
    pub report: Report,
}

/// Why a search failed.
#[derive(Debug, Error)]
pub enum SearchError {
    /// The network could not evaluate a batch.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// The tree has no room for more.
    #[error(transparent)]
    Full(#[from] Full),
}

/// How often the calling thread looks whether there is something to report.
const REPORT_INTERVAL: Duration = Duration::from_millis(20);

/// Searches `job` on `tree` until a limit or `stop` ends it. The tree is re-rooted when the job's game continues the
/// one it was built for, and dropped otherwise.
///
/// # Errors
/// When the evaluator fails; the tree stays usable.
pub fn run(
    tree: &Mutex<Tree>,
    evaluator: &dyn Evaluator,
    job: &Job,
    stop: &StopSignal,
    clock: &dyn Clock,
    reporter: &mut dyn Reporter,
) -> Result<Outcome, SearchError> {
    let search = Search::new(tree, evaluator, job, stop, clock);
    if chess::moves::legal_moves(job.history.position())
        .next()
        .is_none()
    {
        return Ok(finished_game(&search, reporter));
    }
    search.prepare()?;
    let mut teller = Teller {
        search: &search,
        reporter,
        last: None,
    };
    search.work_in_threads(|| teller.tell_news());
    if let Some(error) = search.error.lock().take() {
        return Err(error.into());
    }
    if search.is_full.load(Ordering::Relaxed) {
        teller
            .reporter
            .note(&format!("{Full}: the search ends here"));
    }
    Ok(teller.conclude())
}

impl<'a> Search<'a> {
    fn new(
        tree: &'a Mutex<Tree>,
        evaluator: &'a dyn Evaluator,
        job: &'a Job,
        stop: &'a StopSignal,
        clock: &'a dyn Clock,
    ) -> Search<'a> {
        let advice = evaluator.advice();
        let or_advised =
            |value: usize, advised: usize| if value > 0 { value } else { advised.max(1) };
        let minibatch = or_advised(job.options.minibatch_size, advice.minibatch);
        Search {
            tree,
            evaluator,
            job,
            params: Params::new(&job.options, minibatch, evaluator.predicts_moves_left()),
            threads: or_advised(job.options.threads, advice.threads),
            clock,
            started: clock.now(),
            stop,
            stopper: Mutex::new(Stopper::new(job)),
            is_over: AtomicBool::new(false),
            error: Mutex::new(None),
            is_full: AtomicBool::new(false),
        }
    }

    /// Runs the workers; meanwhile this thread calls `watch` now and then.
    fn work_in_threads(&self, mut watch: impl FnMut()) {
        let running = AtomicUsize::new(self.threads);
        let watcher = thread::current();
        thread::scope(|scope| {
            for index in 0..self.threads as u64 {
                let sign_off = SignOff {
                    running: &running,
                    watcher: &watcher,
                };
                scope.spawn(move || {
                    let _sign_off = sign_off;
                    self.work(index);
                });
            }
            while running.load(Ordering::Acquire) > 0 {
                thread::park_timeout(REPORT_INTERVAL);
                watch();
            }
        });
    }

    /// Brings the tree to the job's position and makes sure that the root has its moves.
    fn prepare(&self) -> Result<(), SearchError> {
        let rule = Rule::new(&self.job.options, self.job.contempt_side);
        let is_evaluated = {
            let mut tree = self.tree.lock();
            reroot::reroot(&mut tree, &self.job.history, rule);
            tree.progress = Progress::new(&self.job.limits);
            tree.node(tree.root()).n > 0
        };
        // The noise has a generator of its own, so that it does not shift the workers' draws.
        let mut rng = self.rng(u64::MAX);
        if !is_evaluated {
            let mut batch = Minibatch::new(self.tree.lock().edges.take_writer());
            // The first selection claims the root itself; it cannot fail in an empty tree.
            let _ = select::select(
                &mut self.tree.lock(),
                &self.params,
                &mut batch,
                &mut rng,
                1,
                1,
            );
            batch.unwind(0);
            expand::expand_root(&mut batch, &self.job.history, self.evaluator);
            let evaluated = self.evaluate(&mut batch);
            let mut tree = self.tree.lock();
            if let Err(failure) = evaluated {
                backup::cancel_all(&mut tree, &mut batch);
                tree.edges.put_back(batch.writer);
                return Err(failure);
            }
            backup::backup(&mut tree, &self.params, &mut batch, true);
            tree.edges.put_back(batch.writer);
        }
        let mut tree = self.tree.lock();
        tree.root_moves = RootMoves::new(
            &tree,
            &self.wanted_root_moves(),
            &self.job.options,
            &mut rng,
        );
        self.check_limits(&mut tree);
        Ok(())
    }

    /// The root moves to consider (empty means all): those asked for, of which tablebases leave those that keep the
    /// result. In analysis (`infinite`) nothing is left out.
    fn wanted_root_moves(&self) -> Vec<PackedMove> {
        let asked = &self.job.root_moves;
        let tables = self
            .job
            .tables
            .as_ref()
            .filter(|_| !self.job.limits.infinite);
        let fastest = self.job.options.syzygy_fast_play;
        let Some(mut best) =
            tables.and_then(|tables| tables.root_moves(&self.job.history, fastest))
        else {
            return asked.clone();
        };
        best.retain(|m| asked.is_empty() || asked.contains(m));
        if best.is_empty() { asked.clone() } else { best }
    }

    /// The state of the search, with the lines that `MultiPV` asks for.
    fn report(&self, tree: &Tree, best: Option<u8>) -> Report {
        let progress = &tree.progress;
        let hashfull = match self.job.limits.tree_bytes {
            Some(limit) => (tree.memory() as u64 * 1000 / (limit as u64).max(1)).min(1000) as u32,
            None => self.evaluator.cache_permille(),
        };
        Report {
            depth: progress.mean_depth(),
            seldepth: progress.seldepth.max(1),
            elapsed: self.elapsed(),
            nodes: u64::from(tree.node(tree.root()).n),
            playouts: progress.playouts,
            hashfull,
            tb_hits: progress.tb_hits,
            lines: root::lines(tree, &self.params, self.job.options.multi_pv, best),
        }
    }
}

/// Tells the watching thread that a worker has ended, however it did.
struct SignOff<'a> {
    running: &'a AtomicUsize,
    watcher: &'a thread::Thread,
}

impl Drop for SignOff<'_> {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Release);
        self.watcher.unpark();
    }
}

/// Tells the reporter what is new.
struct Teller<'a, 'b> {
    search: &'a Search<'b>,
    reporter: &'a mut dyn Reporter,
    /// Depth, seldepth, first move and time of the last report.
    last: Option<(u32, u32, Option<PackedMove>, Duration)>,
}

impl Teller<'_, '_> {
    /// Longest silence.
    const PATIENCE: Duration = Duration::from_secs(2);

    fn tell_news(&mut self) {
        let report = {
            let tree = self.search.tree.lock();
            // Nothing but the root's own evaluation: no line to show yet.
            if tree.progress.playouts < 2 {
                return;
            }
            self.search.report(&tree, None)
        };
        let first = report
            .lines
            .first()
            .and_then(|line| line.pv.first().copied());
        let is_news = self.last.is_none_or(|(depth, seldepth, best, at)| {
            report.depth > depth
                || report.seldepth > seldepth
                || best != first
                || report.elapsed.saturating_sub(at) >= Self::PATIENCE
        });
        if is_news {
            self.last = Some((report.depth, report.seldepth, first, report.elapsed));
            self.reporter.report(&report);
        }
    }

    /// The final report and the choice of the move.
    fn conclude(self) -> Outcome {
        let search = self.search;
        let (stats, report) = {
            let mut tree = search.tree.lock();
            let best = root::choose(
                &tree,
                &search.params,
                search.job,
                &mut search.rng(u64::MAX - 1),
            );
            tree.progress.claimed = 0;
            let mut report = search.report(&tree, best.map(|best| best.edge));
            if search.job.options.show_objective && tree.rule.is_some() {
                tree.add_objectives(&search.params, &mut report.lines);
            }
            (root::move_stats(&tree, &search.params), report)
        };
        self.reporter.move_stats(&stats);
        self.reporter.report(&report);
        let pv = report.lines.first().map_or(&[][..], |line| &line.pv);
        Outcome {
            best: pv.first().copied(),
            ponder: pv.get(1).copied(),
            report,
        }
    }
}

/// What a tree says about `history`, the game after one more move than the one it was searched for, without changing it:
/// the line from there on, empty if that position was not searched.
pub fn line_after(tree: &Tree, options: &Options, history: &History) -> Vec<PackedMove> {
    let known = tree.history();
    if known.and_then(|known| history.plies_since(known)) != Some(1) {
        return Vec::new();
    }
    let m = history.move_after(history.len() - 2);
    let params = Params::new(options, 1, true);
    let moves = root::ranked(tree, &params);
    let Some(first) = moves.iter().find(|known| Some(known.m) == m) else {
        return Vec::new();
    };
    let line = tree.principal_variation(first, &params);
    line.into_iter().skip(1).collect()
}

/// The outcome of a search in a position without legal moves.
fn finished_game(search: &Search<'_>, reporter: &mut dyn Reporter) -> Outcome {
    let report = Report {
        elapsed: search.elapsed(),
        ..Report::of_finished_game(search.job.history.position())
    };
    reporter.report(&report);
    Outcome {
        best: None,
        ponder: None,
        report,
    }
}
