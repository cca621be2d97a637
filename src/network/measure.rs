//! The positions per second that an evaluator evaluates: the raw speed without a search.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crossbeam::sync::WaitGroup;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{Batch, EvaluateError, Evaluator};
use crate::{
    chess::{History, moves::legal_moves},
    threads::spawn_scoped,
};

/// Speed at one batch size and number of threads.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Speed {
    /// Threads that evaluated at the same time, each its own batches; fewer than wanted where the system refuses more.
    pub threads: usize,
    /// Positions per batch.
    pub batch: usize,
    /// Positions per second, all threads together.
    pub evals_per_second: f64,
    /// Mean time of one batch, in milliseconds.
    pub ms_per_batch: f64,
}

/// Measures batches of one size for about `time`, after a warm-up of one batch per thread.
///
/// # Errors
/// When the evaluator fails or panics.
pub fn speed(
    evaluator: &dyn Evaluator,
    batch: usize,
    threads: usize,
    time: Duration,
) -> Result<Speed, EvaluateError> {
    speed_of_sizes(evaluator, &[batch], threads, time)
}

/// Measures batches whose sizes vary as those of a search do, where collisions, terminal positions and cache hits
/// take some of the places; `batch` is the largest. Some devices prepare kernels anew for each size.
///
/// # Errors
/// When the evaluator fails or panics.
pub fn mixed_speed(
    evaluator: &dyn Evaluator,
    batch: usize,
    threads: usize,
    time: Duration,
) -> Result<Speed, EvaluateError> {
    let sizes = [100, 93, 100, 61, 97, 100, 22, 88].map(|percent| (batch * percent / 100).max(1));
    speed_of_sizes(evaluator, &sizes, threads, time)
}

fn speed_of_sizes(
    evaluator: &dyn Evaluator,
    sizes: &[usize],
    threads: usize,
    time: Duration,
) -> Result<Speed, EvaluateError> {
    let (evaluated, batches) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = |seed: usize, ready: Option<WaitGroup>| -> Result<Duration, EvaluateError> {
        let of_size = |&size: &usize| random_positions(evaluator, size, seed as u64);
        let mut positions: Vec<Batch> = sizes.iter().map(of_size).collect();
        let mut each = positions.iter_mut();
        let warm_up = each.try_for_each(|batch| evaluator.evaluate(batch));
        warm_up?;
        if let Some(ready) = ready {
            ready.wait();
        }
        let started = Instant::now();
        let mut next = 0;
        while started.elapsed() < time {
            let batch = &mut positions[next % sizes.len()];
            evaluator.evaluate(batch)?;
            evaluated.fetch_add(batch.len() as u64, Ordering::Relaxed);
            batches.fetch_add(1, Ordering::Relaxed);
            next += 1;
        }
        Ok(started.elapsed())
    };
    // All begin when each is warm or has failed.
    let (work, ready) = (&work, WaitGroup::new());
    let elapsed = thread::scope(|scope| {
        let start = |seed| {
            let ready = Mutex::new(Some(ready.clone()));
            let run = move || {
                run_on_worker_thread(evaluator, || {
                    let ready = ready.lock().take();
                    work(seed, ready)
                })
            };
            // Where the system refuses a thread, there are fewer.
            spawn_scoped(scope, "speed", run).ok()
        };
        let running: Vec<_> = (0..threads).map_while(start).collect();
        drop(ready);
        let finished = running.into_iter().map(|thread| match thread.join() {
            Ok(Some(result)) => result,
            Ok(None) => Err(EvaluateError::Panicked {
                message: "on a thread of the backend".to_owned(),
            }),
            Err(panic) => Err(EvaluateError::of_panic(&*panic)),
        });
        // All are waited for, also after one that failed.
        finished.collect::<Vec<_>>()
    });
    let elapsed = elapsed.into_iter().collect::<Result<Vec<Duration>, _>>()?;
    let threads = elapsed.len();
    let seconds = elapsed
        .iter()
        .max()
        .map_or(1.0, Duration::as_secs_f64)
        .max(1e-9);
    let batches = batches.into_inner().max(1) as f64;
    Ok(Speed {
        threads,
        batch: sizes.iter().copied().max().unwrap_or(0),
        evals_per_second: evaluated.into_inner() as f64 / seconds,
        ms_per_batch: 1000.0 * seconds * threads as f64 / batches,
    })
}

/// Runs `work` on a thread that suits the evaluator; `None` if it panicked there.
fn run_on_worker_thread<R: Send>(
    evaluator: &dyn Evaluator,
    work: impl Fn() -> R + Sync,
) -> Option<R> {
    let mut result = None;
    evaluator.run_on_worker_thread(&mut || result = Some(work()));
    result
}

/// A batch of different positions from random games.
fn random_positions(evaluator: &dyn Evaluator, size: usize, seed: u64) -> Batch {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut batch, mut game) = (Batch::default(), History::default());
    while batch.len() < size {
        let moves: Vec<_> = legal_moves(game.position()).collect();
        if moves.is_empty() || game.len() > 120 {
            game = History::default();
            continue;
        }
        evaluator.view().queue(game.plies(), &moves, &mut batch);
        game.push(moves[random.random_range(0..moves.len())]);
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{network::hash::HashEvaluator, threads::faults};

    #[test]
    fn speeds_are_counted_over_all_threads() {
        let speed = speed(&HashEvaluator, 8, 2, Duration::from_millis(20)).unwrap();
        assert_eq!((speed.threads, speed.batch), (2, 8));
        assert!(speed.evals_per_second > 0.0 && speed.ms_per_batch > 0.0);
        let mixed = mixed_speed(&HashEvaluator, 8, 1, Duration::from_millis(20)).unwrap();
        assert_eq!((mixed.threads, mixed.batch), (1, 8));
        assert!(mixed.evals_per_second > 0.0);
    }

    /// Those that run do not wait for it.
    #[test]
    fn a_thread_that_the_system_refuses_is_left_out() {
        let measure = || speed(&HashEvaluator, 8, 3, Duration::from_millis(5));
        let (speed, _) = faults::during(|started| started == 1, measure);
        assert_eq!(speed.unwrap().threads, 1);
    }

    /// Panics in an evaluation, here or on a thread of its own, which then does not finish the work.
    struct Panicking {
        has_own_thread: bool,
    }

    impl Evaluator for Panicking {
        fn evaluate(&self, _: &mut Batch) -> Result<(), EvaluateError> {
            panic!("a panic on purpose")
        }

        fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
            if self.has_own_thread {
                drop(thread::scope(|scope| scope.spawn(work).join()));
            } else {
                work();
            }
        }
    }

    #[test]
    fn a_thread_that_panics_is_an_error() {
        for (has_own_thread, message) in [
            (false, "a panic on purpose"),
            (true, "on a thread of the backend"),
        ] {
            let evaluator = Panicking { has_own_thread };
            let error = speed(&evaluator, 8, 2, Duration::from_millis(5)).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
