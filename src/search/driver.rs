//! Runs one search with several threads on one tree. Each thread gathers a batch, has it evaluated and backs it up,
//! under one lock. The calling thread is one of the workers and reports progress between its batches: waking a
//! separate reporting thread would cost milliseconds on a busy machine.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use super::{
    error::{Failure, SearchError},
    expand::ExpandContext,
    job::{Clock, Job, StopSignal, stream},
    outcome::SearchView,
    params::SearchParams,
    report::{Outcome, Report, Reporter},
    root,
    tree::{Full, Tree},
    tree_search::Shared,
    worker::Worker,
};
use crate::{
    chess::PackedMove,
    network::{Batch, EvaluateError, Evaluator},
    threads,
};

/// Maximum time between two reports.
const MAX_REPORT_GAP: Duration = Duration::from_secs(2);

/// Searches shorter than this, with a network that needs no batches, use a single thread: on a busy machine helper
/// threads would wake up after the search has ended, and the answer would have to wait for them.
const MIN_TIME_FOR_HELPERS: Duration = Duration::from_millis(10);

/// Attempts to lock the tree before a worker starts to yield its processor between attempts. They take about 10 µs,
/// longer than any thread holds the lock unless it is preempted.
const SPINS_BEFORE_YIELD: u32 = 200;

/// Attempts to lock the tree before a worker sleeps: about 0.3 ms if no other program needs the processor.
const TRIES_BEFORE_SLEEP: u32 = 1000;

/// Searches `job` on `tree` until a limit or `stop` ends it. The tree is re-rooted if the job's game continues the
/// one it was built for, and dropped otherwise.
///
/// # Errors
/// When the evaluator fails or panics; the error carries the best move found by then, and the tree stays usable.
pub fn run(
    tree: &mut Tree,
    evaluator: &dyn Evaluator,
    job: &Job,
    stop: &StopSignal,
    clock: &dyn Clock,
    reporter: &mut dyn Reporter,
) -> Result<Outcome, SearchError> {
    let search = Search::new(std::mem::take(tree), evaluator, job, stop, clock);
    let mut progress_reporter = ProgressReporter {
        search: &search,
        reporter,
        last: None,
        has_noted_memory_limit: false,
        has_noted_missing_threads: false,
    };
    let interval = progress_reporter.reporter.interval();
    search.work_in_threads(interval, &mut || progress_reporter.report_progress());
    let error = search.error.lock().take();
    let is_damaged = search.is_damaged.load(Ordering::Relaxed);
    let outcome = match is_damaged {
        true => catch_unwind(AssertUnwindSafe(|| progress_reporter.conclude())).unwrap_or_default(),
        false => progress_reporter.conclude(),
    };
    let result = match (error, outcome) {
        (None, Some(outcome)) => Ok(outcome),
        (None, None) => Ok(Outcome::without_move(Report::default())),
        (Some(error), found) => Err(SearchError::Evaluate {
            error,
            found: found.map(Box::new),
        }),
    };
    if !is_damaged {
        *tree = search.shared.into_inner().state.into_tree();
    }
    result
}

/// State shared by the threads of one search.
struct Search<'a> {
    shared: Mutex<Shared>,
    job: &'a Job,
    evaluator: &'a dyn Evaluator,
    params: SearchParams,
    threads: usize,
    /// Whether evaluations return at once and only few of them are expected.
    is_light: bool,
    clock: &'a dyn Clock,
    started: Duration,
    stop: &'a StopSignal,
    /// Set once, by the first thread that finds that the search is over.
    is_over: AtomicBool,
    /// Whether a thread panicked while it may have been changing the tree: a move is chosen from the tree, but it is
    /// not kept for the next search.
    is_damaged: AtomicBool,
    error: Mutex<Option<EvaluateError>>,
    /// Why there are fewer threads than wanted.
    missing_threads: Mutex<Option<String>>,
}

impl<'a> Search<'a> {
    fn new(
        tree: Tree,
        evaluator: &'a dyn Evaluator,
        job: &'a Job,
        stop: &'a StopSignal,
        clock: &'a dyn Clock,
    ) -> Search<'a> {
        let started = clock.now();
        let shared = Shared::new(tree, job);
        let params = SearchParams::for_evaluator(&job.options, evaluator);
        let max_time = job.limits.max_time();
        let is_short = max_time.is_some_and(|time| time <= MIN_TIME_FOR_HELPERS);
        let is_quick = params.computes_at_once() && is_short;
        let threads = match is_quick {
            true => 1,
            false => params.threads(),
        };
        let nodes = job.limits.nodes;
        let refines_none = nodes.is_some_and(|nodes| !params.may_refine(nodes));
        let is_light = is_quick || params.computes_at_once() && refines_none;
        Search {
            is_over: AtomicBool::new(shared.is_over),
            shared: Mutex::new(shared),
            job,
            evaluator,
            params,
            threads,
            is_light,
            clock,
            started,
            stop,
            is_damaged: AtomicBool::new(false),
            error: Mutex::new(None),
            missing_threads: Mutex::new(None),
        }
    }

    /// Time since the search began.
    fn elapsed(&self) -> Duration {
        self.clock.now().saturating_sub(self.started)
    }

    /// Runs the workers; the calling thread is the first of them and calls `report_progress` every `interval`. If the
    /// system refuses threads, the search runs with those that could be started.
    fn work_in_threads(&self, interval: Duration, report_progress: &mut (dyn FnMut() + Send)) {
        thread::scope(|scope| {
            for number in 1..self.threads {
                let work = move || self.run_worker(&mut || self.work(number as u64, &mut |_| {}));
                if let Err(error) = threads::spawn_scoped(scope, "search", work) {
                    *self.missing_threads.lock() = Some(format!(
                        "only {number} of {} search threads could be started: {error}",
                        self.threads
                    ));
                    break;
                }
            }
            self.run_worker(&mut || {
                let mut due = interval;
                self.work(0, &mut |elapsed| {
                    if elapsed >= due {
                        report_progress();
                        due = self.elapsed() + interval;
                    }
                });
            });
        });
    }

    /// Runs a worker on the thread that the evaluator prefers, unless the search is too light to benefit from it. If
    /// the evaluator panics before it has such a thread, the worker runs on the current one.
    fn run_worker(&self, work: &mut (dyn FnMut() + Send)) {
        if self.is_light {
            return work();
        }
        let mut has_begun = false;
        let result = catch_unwind(AssertUnwindSafe(|| {
            self.evaluator.run_on_worker_thread(&mut || {
                has_begun = true;
                work();
            });
        }));
        if result.is_err() && !has_begun {
            work();
        }
    }

    /// Locks the tree. Other threads hold the lock for fractions of a millisecond, so spinning is cheaper than
    /// sleeping.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        for look in 0..TRIES_BEFORE_SLEEP {
            if let Some(shared) = self.shared.try_lock() {
                return shared;
            }
            if look < SPINS_BEFORE_YIELD {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        self.shared.lock()
    }

    /// Runs one thread until the search is over. A panic ends the search like a failed evaluation.
    fn work(&self, number: u64, pause: &mut dyn FnMut(Duration)) {
        let work = AssertUnwindSafe(|| self.work_until_over(number, pause));
        if let Err(panic) = catch_unwind(work) {
            self.is_damaged.store(true, Ordering::Relaxed);
            self.lock().is_over = true;
            self.error.lock().get_or_insert(panic_error(&*panic));
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// The loop of one thread, until the search is over. Calls `pause` with the elapsed time between batches.
    fn work_until_over(&self, number: u64, pause: &mut dyn FnMut(Duration)) {
        let writer = self.lock().state.tree.edges.take_writer();
        let mut worker = Worker::new(self.job, number, writer);
        let mut batch = Batch::default();
        loop {
            // Backing up the last batch and selecting the next one share one lock.
            let mut shared = self.lock();
            shared.back_up(&mut worker, &self.params, self.job);
            let elapsed = self.elapsed();
            shared.check_limits(elapsed);
            if self.is_finished(&shared) {
                shared.state.tree.edges.put_back(worker.into_writer());
                return;
            }
            let is_solved = shared.state.root().is_proven();
            worker.begin();
            batch.clear();
            if let Err(failure) = self.make_batch(shared, &mut worker, &mut batch) {
                self.fail(&mut worker, failure);
            }
            self.throttle(is_solved, worker.is_idle());
            pause(elapsed);
        }
    }

    /// Fills the batch and has it evaluated: selects under the lock, does everything else without it. So a panic in
    /// everything else, networks and their libraries above all, leaves the tree whole.
    fn make_batch<'s>(
        &'s self,
        mut shared: MutexGuard<'s, Shared>,
        worker: &mut Worker,
        batch: &mut Batch,
    ) -> Result<(), Failure> {
        let context = ExpandContext {
            params: &self.params,
            tables: self.job.tables.as_deref(),
            contempt_side: self.job.contempt_side,
            evaluator: self.evaluator,
        };
        loop {
            let selected = worker.select(&mut shared.state, &self.params);
            drop(shared);
            selected?;
            if !catch_panic(|| worker.expand(&context, batch))? || self.should_stop() {
                break;
            }
            shared = self.lock();
        }
        catch_panic(|| {
            if !batch.is_empty() {
                self.evaluator.evaluate(batch)?;
            }
            Ok(worker.receive(batch)?)
        })
    }

    /// Whether the search has ended, or should end; never before there is a move to return.
    fn is_finished(&self, shared: &Shared) -> bool {
        if shared.is_over {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.should_stop()
            && (shared.is_over || shared.state.is_root_expanded() || self.has_failed())
    }

    fn has_failed(&self) -> bool {
        self.error.lock().is_some()
    }

    /// Whether a thread should stop, as far as that is known without locking the tree.
    fn should_stop(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.stop.is_stopped()
    }

    /// Undoes the batch and ends the search.
    fn fail(&self, worker: &mut Worker, failure: Failure) {
        let mut shared = self.lock();
        match failure {
            Failure::Evaluate(error) => {
                worker.cancel(&mut shared.state);
                shared.is_over = true;
                self.error.lock().get_or_insert(error);
            }
            Failure::Full(Full) => shared.end_full(worker),
        }
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits where full speed is of no use: in an infinite search of a solved position, after a batch that was empty
    /// because other threads hold all leaves, and under a limit of nodes per second.
    fn throttle(&self, is_solved: bool, is_idle: bool) {
        if self.should_stop() {
            return;
        }
        if is_solved && self.job.limits.infinite {
            thread::sleep(Duration::from_millis(5));
        } else if is_idle && !is_solved && self.params.computes_at_once() {
            // The other threads return sooner than this thread would wake up.
            (0..100).for_each(|_| std::hint::spin_loop());
        } else if is_idle || is_solved {
            thread::sleep(Duration::from_micros(50));
        }
        let limit = f64::from(self.job.options.nps_limit());
        if limit <= 0.0 {
            return;
        }
        let due = self.lock().state.progress.playouts as f64 / limit;
        let due = Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX);
        while !self.should_stop() && self.elapsed() < due {
            thread::sleep(Duration::from_millis(1));
            let mut shared = self.lock();
            shared.check_limits(self.elapsed());
            let _ = self.is_finished(&shared);
        }
    }

    fn view<'s>(&'s self, shared: &'s Shared) -> SearchView<'s> {
        SearchView {
            state: &shared.state,
            params: &self.params,
            job: self.job,
            elapsed: self.elapsed(),
            cache_permille: self.evaluator.info().cache.permille,
        }
    }
}

/// Runs `work`, which holds no lock; a panic becomes an evaluation error.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Failure::Evaluate(panic_error(&*panic))))
}

/// The error for a panic with this payload.
fn panic_error(panic: &(dyn Any + Send)) -> EvaluateError {
    let text = panic.downcast_ref::<&str>().copied();
    let message = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    EvaluateError::Panicked {
        message: message.unwrap_or("no message").to_owned(),
    }
}

/// Sends reports to the reporter when something has changed.
struct ProgressReporter<'a, 'b> {
    search: &'a Search<'b>,
    reporter: &'a mut dyn Reporter,
    /// Depth, seldepth, first move and time of the last report.
    last: Option<(u32, u32, Option<PackedMove>, Duration)>,
    /// Whether the reporter was notified that the memory limit is reached.
    has_noted_memory_limit: bool,
    /// Whether the reporter was notified that threads could not be started.
    has_noted_missing_threads: bool,
}

impl ProgressReporter<'_, '_> {
    fn report_progress(&mut self) {
        self.note_missing_threads();
        let (report, stats) = {
            let shared = self.search.shared.lock();
            // Only the root has been evaluated: there is no line to report yet.
            if shared.state.progress.playouts < 2 {
                return;
            }
            self.note_memory_limit(&shared);
            let view = self.search.view(&shared);
            let shows_live_stats = self.search.job.options.log_live_stats();
            let stats = shows_live_stats.then(|| view.remove_contempt(view.move_stats()));
            (view.report(None), stats)
        };
        let first = report
            .lines
            .first()
            .and_then(|line| line.pv.first().copied());
        let has_changed = self.last.is_none_or(|(depth, seldepth, best, at)| {
            report.depth > depth
                || report.seldepth > seldepth
                || best != first
                || report.elapsed.saturating_sub(at) >= MAX_REPORT_GAP
        });
        if has_changed {
            self.last = Some((report.depth, report.seldepth, first, report.elapsed));
            if let Some(stats) = stats {
                self.reporter.move_stats(&stats);
            }
            self.reporter.report(&report);
        }
    }

    /// Notes once that threads could not be started.
    fn note_missing_threads(&mut self) {
        if !self.has_noted_missing_threads
            && let Some(text) = &*self.search.missing_threads.lock()
        {
            self.reporter.note_missing_threads(text);
            self.has_noted_missing_threads = true;
        }
    }

    /// Notes once that the tree has stopped growing.
    fn note_memory_limit(&mut self, shared: &Shared) {
        let limit = self.search.job.limits.tree_bytes;
        if let Some(bytes) = limit.filter(|_| shared.state.is_at_memory_limit)
            && !std::mem::replace(&mut self.has_noted_memory_limit, true)
        {
            self.reporter.note(&format!(
                "the tree has reached its limit of {:.1} MB (set by RamLimitMb): the search continues without new positions",
                bytes as f64 / f64::from(1 << 20)
            ));
        }
    }

    /// Chooses the move to play. A mate in one is played even if no visit has reached it, and a move that allows a
    /// mate in one is avoided if there is another. If no visit has reached any move and the root's value is lower than
    /// that of a draw, a move that draws by rule is played.
    fn choose(&self, shared: &mut Shared) -> Option<u8> {
        let (job, params) = (self.search.job, &self.search.params);
        let choice = |shared: &Shared| {
            let mut rng = job.rng(stream::CHOICE);
            self.search.view(shared).choice(&mut rng)
        };
        if !params.propagates_proofs() {
            return choice(shared);
        }
        shared.state.prove_mates_at_root(job);
        let chosen = loop {
            let chosen = choice(shared)?;
            // Each iteration proves another move, so the loop ends.
            if !shared.state.prove_end_after(chosen, job) {
                break chosen;
            }
        };
        let is_worse = root::is_unvisited_and_below_draw(&shared.state, params, chosen);
        let draw = is_worse.then(|| shared.state.prove_unvisited_draw(job));
        Some(draw.flatten().unwrap_or(chosen))
    }

    /// Sends the final report and chooses the move. `None` if the root was not expanded although the game is not over.
    fn conclude(mut self) -> Option<Outcome> {
        self.note_missing_threads();
        let (is_full, (outcome, stats)) = {
            let mut shared = self.search.shared.lock();
            // The worker that expanded the root may have panicked before its moves were chosen.
            shared.state.choose_root_moves(self.search.job);
            if !(self.search.job.is_game_over() || shared.state.is_root_expanded()) {
                return None;
            }
            self.note_memory_limit(&shared);
            shared.state.progress.claimed = 0;
            let best = self.choose(&mut shared);
            let view = self.search.view(&shared);
            let (outcome, stats) = view.outcome(best);
            (shared.is_full, (outcome, view.remove_contempt(stats)))
        };
        let tables = self.search.job.tables.iter();
        for fault in tables.flat_map(|tables| tables.new_faults()) {
            self.reporter.note(&fault);
        }
        if is_full {
            let text = format!("{Full}: the search ends here");
            self.reporter.note(&text);
        }
        if !stats.is_empty() {
            self.reporter.move_stats(&stats);
        }
        self.reporter.report(&outcome.report);
        Some(outcome)
    }
}
