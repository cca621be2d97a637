//! Drives one search with several threads on one tree: each thread gathers, has its batch evaluated and backs it up, all
//! under one lock. The calling thread is one of them, and between its batches it tells what is new: each thread that has to
//! be woken costs time, which on a busy machine is milliseconds.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use super::{
    error::{Failure, SearchError},
    expand::Oracles,
    job::{Clock, Job, StopSignal, stream},
    outcome::Telling,
    params::SearchParams,
    report::{Outcome, Report, Reporter},
    tree::{Full, Tree},
    tree_search::Shared,
    worker::Worker,
};
use crate::{
    chess::PackedMove,
    network::{Batch, EvaluateError, Evaluator},
};

/// The longest time without a report.
const LONGEST_SILENCE: Duration = Duration::from_secs(2);

/// A search that is over so soon, with a network that needs no batches, is done by one thread: on a busy machine others
/// would wake when it has ended, and its answer would have to wait for them.
const WORTH_WAKING: Duration = Duration::from_millis(10);

/// How often a worker looks whether the tree is free before it offers its processor to others between looks; some 10 µs, which is
/// longer than a thread holds the tree unless it was put to sleep meanwhile.
const SPINS_BEFORE_YIELD: u32 = 200;

/// And before it goes to sleep; some 0.3 ms where no other program wants the processor.
const LOOKS_BEFORE_SLEEP: u32 = 1000;

/// Searches `job` on `tree` until a limit or `stop` ends it. The tree is re-rooted when the job's game continues the
/// one it was built for, and dropped otherwise.
///
/// # Errors
/// When the evaluator fails; the tree stays usable.
pub fn run(
    tree: &mut Tree,
    evaluator: &dyn Evaluator,
    job: &Job,
    stop: &StopSignal,
    clock: &dyn Clock,
    reporter: &mut dyn Reporter,
) -> Result<Outcome, SearchError> {
    let search = Search::new(std::mem::take(tree), evaluator, job, stop, clock);
    let mut announcer = Announcer {
        search: &search,
        reporter,
        last: None,
        has_told_of_memory: false,
    };
    let interval = announcer.reporter.interval();
    search.work_in_threads(interval, &mut || announcer.tell_news());
    let error = search.error.lock().take();
    let has_moves = job.is_game_over() || search.shared.lock().state.is_root_expanded();
    let outcome = has_moves.then(|| announcer.conclude());
    let result = match (error, outcome) {
        (None, Some(outcome)) => Ok(outcome),
        (None, None) => Ok(Outcome::without_move(Report::default())),
        (Some(error), found) => Err(SearchError::Evaluate {
            error,
            found: found.map(Box::new),
        }),
    };
    *tree = search.shared.into_inner().state.into_tree();
    result
}

/// What the threads of one search share.
struct Search<'a> {
    shared: Mutex<Shared>,
    job: &'a Job,
    evaluator: &'a dyn Evaluator,
    params: SearchParams,
    threads: usize,
    /// Whether nothing but positions that are judged at once is to be expected, and few of them.
    is_light: bool,
    clock: &'a dyn Clock,
    started: Duration,
    stop: &'a StopSignal,
    /// Set once, by whoever finds that the search is over.
    is_over: AtomicBool,
    error: Mutex<Option<EvaluateError>>,
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
        let longest = job.limits.longest();
        let is_short = longest.is_some_and(|time| time <= WORTH_WAKING);
        let is_quick = params.is_immediate() && is_short;
        let threads = match is_quick {
            true => 1,
            false => params.threads(),
        };
        let nodes = job.limits.nodes;
        let refines_none = nodes.is_some_and(|nodes| !params.may_refine(nodes));
        let is_light = is_quick || params.is_immediate() && refines_none;
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
            error: Mutex::new(None),
        }
    }

    /// Time since the search began.
    fn elapsed(&self) -> Duration {
        self.clock.now().saturating_sub(self.started)
    }

    /// Runs the workers, of which this thread is the first; it calls `tell_news` after each `interval`.
    fn work_in_threads(&self, interval: Duration, tell_news: &mut (dyn FnMut() + Send)) {
        thread::scope(|scope| {
            for number in 1..self.threads as u64 {
                scope.spawn(move || self.host(&mut || self.work(number, &mut |_| {})));
            }
            self.host(&mut || {
                let mut due = interval;
                self.work(0, &mut |elapsed| {
                    if elapsed >= due {
                        tell_news();
                        due = self.elapsed() + interval;
                    }
                });
            });
        });
    }

    /// Has the evaluator choose the thread for a worker, unless it will hardly be asked for what takes long.
    fn host(&self, work: &mut (dyn FnMut() + Send)) {
        match self.is_light {
            true => work(),
            false => self.evaluator.host(work),
        }
    }

    /// Locks the tree. Others hold it for fractions of a millisecond, so it pays to stay awake that long: being put to
    /// sleep and woken costs as much again.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        for look in 0..LOOKS_BEFORE_SLEEP {
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

    /// One thread: works until the search is over, and between batches calls `pause` with the time.
    fn work(&self, number: u64, pause: &mut dyn FnMut(Duration)) {
        let writer = self.lock().state.tree.edges.take_writer();
        let mut worker = Worker::new(self.job, number, writer);
        let mut batch = Batch::default();
        loop {
            // The last batch goes in and the next one comes out under the same lock.
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
            self.hold_back(is_solved, worker.is_idle());
            pause(elapsed);
        }
    }

    /// Fills the batch and has it evaluated: selects under the lock, does everything else without it.
    fn make_batch<'s>(
        &'s self,
        mut shared: MutexGuard<'s, Shared>,
        worker: &mut Worker,
        batch: &mut Batch,
    ) -> Result<(), Failure> {
        let oracles = Oracles {
            params: &self.params,
            tables: self.job.tables.as_deref(),
            contempt_side: self.job.contempt_side,
            evaluator: self.evaluator,
        };
        loop {
            let selected = worker.select(&mut shared.state, &self.params);
            drop(shared);
            selected?;
            if !worker.expand(&oracles, batch)? || self.is_told_to_end() {
                break;
            }
            shared = self.lock();
        }
        if !batch.is_empty() {
            self.evaluator.evaluate(batch)?;
        }
        Ok(worker.receive(batch)?)
    }

    /// Whether the search has ended, or should: not before there is a move to answer with.
    fn is_finished(&self, shared: &Shared) -> bool {
        if shared.is_over {
            self.is_over.store(true, Ordering::Relaxed);
        }
        self.is_told_to_end()
            && (shared.is_over || shared.state.is_root_expanded() || self.has_failed())
    }

    fn has_failed(&self) -> bool {
        self.error.lock().is_some()
    }

    /// The same as far as it can be told without the tree.
    fn is_told_to_end(&self) -> bool {
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

    /// Waits where going on at full speed serves nobody: a solved position that is searched until stopped, a batch that came to
    /// nothing because other threads hold all leaves, or a limit on the nodes per second.
    fn hold_back(&self, is_solved: bool, is_idle: bool) {
        if self.is_told_to_end() {
            return;
        }
        if is_solved && self.job.limits.infinite {
            thread::sleep(Duration::from_millis(5));
        } else if is_idle && !is_solved && self.params.is_immediate() {
            // The others come back sooner than this thread would wake.
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
        while !self.is_told_to_end() && self.elapsed() < due {
            thread::sleep(Duration::from_millis(1));
            let mut shared = self.lock();
            shared.check_limits(self.elapsed());
            let _ = self.is_finished(&shared);
        }
    }

    fn telling<'s>(&'s self, shared: &'s Shared) -> Telling<'s> {
        Telling {
            state: &shared.state,
            params: &self.params,
            job: self.job,
            elapsed: self.elapsed(),
            cache_permille: self.evaluator.cache_permille(),
        }
    }
}

/// Tells the reporter what is new.
struct Announcer<'a, 'b> {
    search: &'a Search<'b>,
    reporter: &'a mut dyn Reporter,
    /// Depth, seldepth, first move and time of the last report.
    last: Option<(u32, u32, Option<PackedMove>, Duration)>,
    /// Whether it was said that there is no more memory.
    has_told_of_memory: bool,
}

impl Announcer<'_, '_> {
    fn tell_news(&mut self) {
        let (report, stats) = {
            let shared = self.search.shared.lock();
            // Nothing but the root's own evaluation: no line to show yet.
            if shared.state.progress.playouts < 2 {
                return;
            }
            self.tell_of_memory(&shared);
            let telling = self.search.telling(&shared);
            let are_stats_wanted = self.search.job.options.log_live_stats();
            let stats = are_stats_wanted.then(|| telling.told(telling.move_stats()));
            (telling.report(None), stats)
        };
        let first = report
            .lines
            .first()
            .and_then(|line| line.pv.first().copied());
        let is_news = self.last.is_none_or(|(depth, seldepth, best, at)| {
            report.depth > depth
                || report.seldepth > seldepth
                || best != first
                || report.elapsed.saturating_sub(at) >= LONGEST_SILENCE
        });
        if is_news {
            self.last = Some((report.depth, report.seldepth, first, report.elapsed));
            if let Some(stats) = stats {
                self.reporter.move_stats(&stats);
            }
            self.reporter.report(&report);
        }
    }

    /// Says once that the tree does not grow any more.
    fn tell_of_memory(&mut self, shared: &Shared) {
        let limit = self.search.job.limits.tree_bytes;
        if let Some(bytes) = limit.filter(|_| shared.state.is_at_memory_limit)
            && !std::mem::replace(&mut self.has_told_of_memory, true)
        {
            self.reporter.note(&format!(
                "the tree has reached its limit of {:.1} MB (what RamLimitMb leaves it): the search goes on without new positions",
                bytes as f64 / f64::from(1 << 20)
            ));
        }
    }

    /// The move to play. A mate in one is played even if no visit has come to it, and none is allowed if another move is left.
    fn choose(&self, shared: &mut Shared) -> Option<u8> {
        let (job, looks_ahead) = (self.search.job, self.search.params.propagates_proofs());
        if looks_ahead {
            shared.state.prove_mates_at_root(job);
        }
        loop {
            let mut rng = job.rng(stream::CHOICE);
            let chosen = self.search.telling(shared).choice(&mut rng);
            // Each time another move is proven, so this ends.
            match chosen {
                Some(edge) if looks_ahead && shared.state.prove_mate_after(edge, job) => {}
                _ => return chosen,
            }
        }
    }

    /// The final report and the choice of the move.
    fn conclude(mut self) -> Outcome {
        let (is_full, (outcome, stats)) = {
            let mut shared = self.search.shared.lock();
            self.tell_of_memory(&shared);
            shared.state.progress.claimed = 0;
            let best = self.choose(&mut shared);
            let telling = self.search.telling(&shared);
            let (outcome, stats) = telling.outcome(best);
            (shared.is_full, (outcome, telling.told(stats)))
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
        outcome
    }
}
