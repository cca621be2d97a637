//! Simulated accelerators and processors, for benchmarks and tests of searches on hardware that is not at hand: the
//! answers of another evaluator, after the time that the simulated hardware would need. Waiting takes no processor
//! time. There is no option that takes them.

use std::{
    cell::Cell,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::hash;

use crate::network::{
    Added, Advice, Batch, BatchTimes, Delay, EvalPosition, EvaluateError, Evaluator, Info,
    input::View,
};

/// Measured times of lc0's CUDA backend on an H100, milliseconds by batch size: a network of 6 blocks with 64 filters
/// (maia-1900), one of 20 with 256, a transformer of 15 layers with 768 values.
pub const H100_SMALL: [(usize, f64); 5] =
    [(1, 0.19), (16, 0.21), (64, 0.26), (256, 0.44), (1024, 1.39)];
/// See [`H100_SMALL`].
pub const H100_LARGE: [(usize, f64); 5] =
    [(1, 0.76), (16, 0.79), (64, 1.01), (256, 2.36), (1024, 8.66)];
/// See [`H100_SMALL`].
pub const H100_TRANSFORMER: [(usize, f64); 5] =
    [(1, 1.5), (16, 1.9), (64, 3.5), (256, 9.9), (1024, 34.0)];

/// Times from milliseconds by batch size, all multiplied by `factor` (4: a laptop's GPU in place of an H100).
pub fn times(milliseconds: &[(usize, f64)], factor: f64) -> Option<BatchTimes> {
    let point = |&(size, ms): &(usize, f64)| (size, Duration::from_secs_f64(ms * factor / 1000.0));
    BatchTimes::new(milliseconds.iter().map(point).collect())
}

/// Batches that may be on their way to a device at once, as with the backend `cuda`.
const SESSIONS: usize = 2;

/// One device that computes one batch after the other.
pub struct SimulatedDevice {
    answers: Arc<dyn Evaluator>,
    times: Arc<BatchTimes>,
    threads: usize,
    /// Batches that are on their way, and what waits for one to come back.
    busy: Mutex<usize>,
    returned: Condvar,
    /// What each batch takes longer, because others use the device, too.
    late: Duration,
    delay: Delay,
    /// When it has computed all batches that it was given.
    free_at: Mutex<Instant>,
}

impl SimulatedDevice {
    /// A device with these times and the answers of `answers`. A search uses `threads` threads if its options name
    /// none.
    pub fn new(answers: Arc<dyn Evaluator>, times: BatchTimes, threads: usize) -> SimulatedDevice {
        SimulatedDevice {
            answers,
            times: Arc::new(times),
            threads,
            busy: Mutex::new(0),
            returned: Condvar::new(),
            late: Duration::ZERO,
            delay: Delay::default(),
            free_at: Mutex::new(Instant::now()),
        }
    }

    /// The same device while each batch takes longer than its times say by `late`.
    pub fn shared_with_others(self, late: Duration) -> SimulatedDevice {
        SimulatedDevice { late, ..self }
    }
}

impl Evaluator for SimulatedDevice {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        let mut busy = self.busy.lock();
        self.returned
            .wait_while(&mut busy, |busy| *busy == SESSIONS);
        *busy += 1;
        drop(busy);
        let (begun, time) = (Instant::now(), self.times.of(batch.len()));
        let (end, busy) = {
            let mut free_at = self.free_at.lock();
            let is_busy = *free_at > begun;
            *free_at = (*free_at).max(begun) + time;
            (*free_at + self.late, 1 + usize::from(is_busy))
        };
        let answered = self.answers.evaluate(batch);
        thread::sleep(end.saturating_duration_since(Instant::now()));
        self.delay
            .observe(&self.times, batch.len(), busy, begun.elapsed());
        *self.busy.lock() -= 1;
        self.returned.notify_one();
        answered
    }

    fn view(&self) -> &View {
        self.answers.view()
    }

    fn info(&self) -> Info {
        let largest = self.times.largest();
        Info {
            advice: Advice {
                threads: self.threads,
                minibatch: largest,
                min_batch: largest.min(16),
            },
            max_concurrent_batches: Some(SESSIONS),
            batch_times: Some(self.delay.at_present(&self.times)),
            computes_at_once: false,
            ..self.answers.info()
        }
    }
}

/// A processor for each thread, which takes the same time for each position; values and priors are those of
/// [`HashEvaluator`](super::hash::HashEvaluator), known at once.
pub struct SimulatedProcessors(pub Duration);

thread_local! {
    /// The nanoseconds that the simulated processor of this thread has still to be busy; below zero if it was too long.
    static DEBT: Cell<i64> = const { Cell::new(0) };
}

/// Shorter times are not slept but added up: the system wakes a thread some 50 µs late.
const MIN_SLEEP: Duration = Duration::from_micros(300);

impl Evaluator for SimulatedProcessors {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        hash::HashEvaluator.evaluate(batch)
    }

    fn add(&self, position: &mut EvalPosition<'_>, _: &mut Batch) -> Added {
        let debt = DEBT.get() + self.0.as_nanos() as i64;
        DEBT.set(debt);
        if debt >= MIN_SLEEP.as_nanos() as i64 {
            let begun = Instant::now();
            thread::sleep(Duration::from_nanos(debt as u64));
            DEBT.set(debt - begun.elapsed().as_nanos() as i64);
        }
        Added::Computed(hash::value(self.view().key(position.line())))
    }

    fn priors(&self, position: &mut EvalPosition<'_>, _: f32) {
        let key = self.view().key(position.line());
        let (moves, priors) = position.policy();
        hash::fill_priors(key, moves, priors);
    }

    fn info(&self) -> Info {
        Info {
            description: "simulated processors".to_owned(),
            advice: Advice {
                threads: 1,
                minibatch: 16,
                min_batch: 1,
            },
            computes_at_once: true,
            ..Info::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::History,
        network::evaluator::evaluate_all,
        options::Options,
        search::{self, Job, Limits, Silent, StopSignal, SystemClock, Tree},
    };

    /// Visits of the root after a search.
    fn searched(evaluator: &dyn Evaluator, threads: usize) -> u64 {
        let options = Options {
            threads,
            ..Options::default()
        };
        let limits = Limits {
            nodes: Some(1500),
            ..Limits::default()
        };
        let job = Job::new(History::default(), limits, options.search());
        let (mut tree, stop, clock) = Default::default();
        let clock: SystemClock = clock;
        let outcome = search::run(&mut tree, evaluator, &job, &stop, &clock, &mut Silent);
        assert!(outcome.unwrap().best.is_some());
        let tree: Tree = tree;
        let _: StopSignal = stop;
        tree.root_visits()
    }

    #[test]
    fn answers_are_those_of_the_evaluator_after_the_devices_time() {
        let times = times(&[(1, 2.0), (8, 4.0)], 1.0).unwrap();
        let device = SimulatedDevice::new(Arc::new(hash::HashEvaluator), times, 2);
        let game = History::default();
        let begun = Instant::now();
        let both = [&device as &dyn Evaluator, &hash::HashEvaluator]
            .map(|evaluator| evaluate_all(evaluator, [game.plies()]).unwrap());
        assert_eq!(both[0], both[1]);
        assert!(begun.elapsed() >= Duration::from_millis(2));
    }

    #[test]
    fn searches_by_several_threads_reach_their_limit_exactly() {
        let times = times(&H100_SMALL, 0.1).unwrap();
        let device = SimulatedDevice::new(Arc::new(hash::HashEvaluator), times, 3);
        let processors = SimulatedProcessors(Duration::from_micros(5));
        for threads in [1, 3, 8] {
            assert_eq!(searched(&device, threads), 1500);
            assert_eq!(searched(&processors, threads), 1500);
        }
    }
}
