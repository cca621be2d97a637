//! Runs one search on one tree: with one thread ([`single`]) or several ([`pipeline`]). The calling thread is one of
//! the workers and reports progress between its batches: waking a separate reporting thread would cost milliseconds on
//! a busy machine.

mod hand_over;
mod pipeline;
mod reports;
mod single;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use self::{pipeline::Pipeline, reports::ProgressReporter};
use super::{
    error::{Failure, SearchError},
    expand::ExpandContext,
    job::{Clock, Job, StopSignal},
    params::SearchParams,
    report::{Outcome, Report, Reporter},
    tree::{Tree, TreeFull},
    tree_search::Shared,
    view::SearchView,
    worker::Worker,
};
use crate::{
    network::{EvaluateError, Evaluator},
    threads,
};

/// Searches that may take at most this long, with a network that needs no batches, use a single thread: on a busy
/// machine helper threads would wake up after the search has ended, and the answer would have to wait for them.
const MIN_TIME_FOR_HELPERS: Duration = Duration::from_millis(10);

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
    let mut progress_reporter = ProgressReporter::new(&search, reporter);
    let interval = progress_reporter.interval();
    let mut due = interval;
    let mut report_progress = |elapsed| {
        if elapsed >= due {
            progress_reporter.report_progress();
            due = search.elapsed() + interval;
        }
    };
    match search.threads {
        1 => search.run_alone(&mut report_progress),
        _ => search.run_in_threads(interval, &mut report_progress),
    }
    let error = search.error.lock().take();
    let is_damaged = search.is_damaged.load(Ordering::Relaxed);
    let outcome = if is_damaged {
        catch_unwind(AssertUnwindSafe(|| progress_reporter.conclude())).unwrap_or_default()
    } else {
        progress_reporter.conclude()
    };
    let result = match (error, outcome) {
        (None, Some(outcome)) => Ok(outcome),
        (None, None) => Ok(Outcome::without_move(Report::default())),
        (Some(error), found) => Err(SearchError {
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
    /// Set by the threads that find that the search is over.
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
        let shared = Shared::new(tree, job, stop);
        let params = SearchParams::for_evaluator(&job.options, evaluator);
        let max_time = job.limits.max_time();
        let is_short = max_time.is_some_and(|time| time <= MIN_TIME_FOR_HELPERS);
        let is_quick = params.computes_at_once() && is_short;
        let threads = if is_quick { 1 } else { params.threads() };
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

    /// Searches with the calling thread alone, which calls `report_progress` with the elapsed time between batches.
    fn run_alone(&self, report_progress: &mut (dyn FnMut(Duration) + Send)) {
        self.run_worker(&mut || self.work(&mut || self.search_alone(report_progress), &|| {}));
    }

    /// Searches with several threads; the calling thread is the first of them and calls `report_progress` with the
    /// elapsed time between packets, and every `interval` while it waits. If the system refuses threads, the search
    /// runs with those that could be started.
    fn run_in_threads(
        &self,
        interval: Duration,
        report_progress: &mut (dyn FnMut(Duration) + Send),
    ) {
        let pipeline = Pipeline::new(self);
        let end = || pipeline.end();
        thread::scope(|scope| {
            for number in 1..self.threads {
                let pipeline = &pipeline;
                let work = move || {
                    self.run_worker(&mut || {
                        self.work(&mut || pipeline.work(None, &mut |_| {}), &|| pipeline.end());
                    });
                };
                if let Err(error) = threads::spawn_scoped(scope, "search", work) {
                    *self.missing_threads.lock() = Some(format!(
                        "only {number} of {} search threads could be started: {error}",
                        self.threads
                    ));
                    break;
                }
            }
            self.run_worker(&mut || {
                self.work(&mut || pipeline.work(Some(interval), report_progress), &end);
            });
        });
        if !self.is_damaged.load(Ordering::Relaxed) {
            pipeline.finish();
        }
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

    /// Runs one thread until the search is over. A panic ends the search like a failed evaluation.
    fn work(&self, work: &mut dyn FnMut(), end: &dyn Fn()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.is_damaged.store(true, Ordering::Relaxed);
            self.shared.lock().is_over = true;
            self.error
                .lock()
                .get_or_insert(EvaluateError::of_panic(&*panic));
            self.is_over.store(true, Ordering::Relaxed);
            end();
        }
    }

    /// What leaves are evaluated by.
    fn expand_context(&self) -> ExpandContext<'_> {
        ExpandContext {
            params: &self.params,
            tables: self.job.tables.as_deref(),
            contempt_side: self.job.contempt_side,
            evaluator: self.evaluator,
        }
    }

    /// Whether the search has ended, or should end; never before there is a move to return.
    fn is_finished(&self, shared: &Shared) -> bool {
        self.publish_end(shared);
        self.should_stop()
            && (shared.is_over || shared.state.is_root_expanded() || self.has_failed())
    }

    /// Tells the threads that do not hold the lock when the search has ended.
    fn publish_end(&self, shared: &Shared) {
        if shared.is_over {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    fn has_failed(&self) -> bool {
        self.error.lock().is_some()
    }

    /// Whether a thread should stop, as far as that is known without locking the tree.
    fn should_stop(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.stop.is_stopped()
    }

    /// Undoes the batch and ends the search.
    fn fail(&self, shared: &mut Shared, worker: &mut Worker, failure: Failure) {
        match failure {
            Failure::Evaluate(error) => {
                worker.cancel(&mut shared.state);
                shared.is_over = true;
                self.error.lock().get_or_insert(error);
            }
            Failure::Full(TreeFull) => shared.end_full(worker),
        }
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits where full speed is of no use: in an infinite search of a solved position, after a batch that was empty,
    /// and under a limit of nodes per second.
    fn throttle(&self, is_solved: bool, is_idle: bool) {
        if self.should_stop() {
            return;
        }
        if is_solved && self.job.limits.infinite {
            thread::sleep(Duration::from_millis(5));
        } else if is_idle || is_solved {
            thread::sleep(Duration::from_micros(50));
        }
        let limit = f64::from(self.job.options.nps_limit());
        if limit <= 0.0 {
            return;
        }
        let due = self.shared.lock().state.progress.playouts as f64 / limit;
        let due = Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX);
        while !self.should_stop() && self.elapsed() < due {
            thread::sleep(Duration::from_millis(1));
            let mut shared = self.shared.lock();
            shared.check_limits(self.elapsed());
            self.publish_end(&shared);
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
        .unwrap_or_else(|panic| Err(Failure::Evaluate(EvaluateError::of_panic(&*panic))))
}
