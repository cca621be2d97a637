//! One batch from those of several threads: a GPU computes one large batch sooner than several small ones.
//!
//! Threads bring their batches. While fewer batches are being evaluated than the device can use at once, a thread takes
//! all batches that wait, its own or not, and has them evaluated as one; otherwise it waits, and its batch with
//! others'. So nothing waits for a batch to fill: batches become as large as the device is busy. Values and priors are
//! those of the separate batches.

use std::{
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::{Condvar, Mutex};

use crate::network::{Added, Batch, EvalPosition, EvaluateError, Evaluator, Info, input::View};

/// On a device whose times of batches are known, batches that wait for each other are evaluated as one.
pub fn merged_on_device(evaluator: Arc<dyn Evaluator>) -> Arc<dyn Evaluator> {
    match evaluator.info().batch_times {
        Some(times) => Arc::new(Merged::new(evaluator, times.largest())),
        None => evaluator,
    }
}

/// An evaluator, by reference or shared, and the batches that wait for it. It is an evaluator itself.
pub struct Merged<E> {
    evaluator: E,
    /// Maximum number of positions in a merged batch.
    largest: usize,
    /// Batches that are evaluated at the same time.
    max_concurrent: usize,
    state: Mutex<Merging>,
    changed: Condvar,
}

#[derive(Default)]
struct Merging {
    /// The number of the next batch that comes.
    next: u64,
    waiting: Vec<(u64, Batch)>,
    evaluated: Vec<(u64, Batch, Result<(), EvaluateError>)>,
    busy: usize,
    /// Merged batches of earlier evaluations, whose memory is used again.
    spare: Vec<Batch>,
}

impl<E> Merged<E>
where
    E: Deref,
    E::Target: Evaluator,
{
    /// Batches of at most `largest` positions, unless a single one is larger. As many are evaluated at once as the
    /// device computes at the same time or, if that is not known, as the evaluator recommends threads.
    pub fn new(evaluator: E, largest: usize) -> Merged<E> {
        let info = evaluator.info();
        Merged {
            max_concurrent: info
                .max_concurrent_batches
                .unwrap_or(info.advice.threads)
                .max(1),
            evaluator,
            largest,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Evaluates a batch, together with those of other threads. Returns the number of merged batches that this thread
    /// had evaluated meanwhile.
    ///
    /// # Errors
    /// When the evaluator fails or panics; all batches that were merged fail then.
    pub fn evaluate_counted(&self, batch: &mut Batch) -> Result<u64, EvaluateError> {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.push((number, std::mem::take(batch)));
        let mut evaluated = 0;
        loop {
            if let Some(place) = state.evaluated.iter().position(|own| own.0 == number) {
                let (_, own, result) = state.evaluated.swap_remove(place);
                *batch = own;
                return result.map(|()| evaluated);
            }
            if state.busy == self.max_concurrent || state.waiting.is_empty() {
                self.changed.wait(&mut state);
                continue;
            }
            let group = take_group(&mut state.waiting, self.largest);
            let merged = state.spare.pop().unwrap_or_default();
            state.busy += 1;
            drop(state);
            let (results, merged) = self.evaluate_group(group, merged);
            evaluated += 1;
            state = self.state.lock();
            state.busy -= 1;
            state.spare.push(merged);
            state.evaluated.extend(results);
            self.changed.notify_all();
        }
    }

    /// Evaluates batches as one.
    fn evaluate_group(
        &self,
        mut group: Vec<(u64, Batch)>,
        mut merged: Batch,
    ) -> (Vec<Done>, Batch) {
        let evaluate = |batch: &mut Batch| {
            catch_unwind(AssertUnwindSafe(|| self.evaluator.evaluate(batch)))
                .unwrap_or_else(|panic| Err(EvaluateError::of_panic(&*panic)))
        };
        if let [(_, only)] = &mut group[..] {
            let result = evaluate(only);
            return (done(group, result), merged);
        }
        merged.clear();
        // A group has one temperature.
        merged.set_policy_temperature(group[0].1.policy_temperature());
        for (_, batch) in &group {
            merged.append(batch);
        }
        let result = evaluate(&mut merged);
        let mut start = 0;
        for (_, batch) in group.iter_mut().filter(|_| result.is_ok()) {
            batch.take_evaluations(&merged, start);
            start += batch.len();
        }
        (done(group, result), merged)
    }
}

impl<E> Evaluator for Merged<E>
where
    E: Deref + Send + Sync,
    E::Target: Evaluator,
{
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        self.evaluate_counted(batch).map(|_| ())
    }

    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        self.evaluator.add(position, batch)
    }

    fn priors(&self, position: &mut EvalPosition<'_>, temperature: f32) {
        self.evaluator.priors(position, temperature);
    }

    fn view(&self) -> &View {
        self.evaluator.view()
    }

    fn info(&self) -> Info {
        self.evaluator.info()
    }

    fn refiner(&self) -> Option<&dyn Evaluator> {
        self.evaluator.refiner()
    }

    fn modelled_side(&self) -> Option<shakmaty::Color> {
        self.evaluator.modelled_side()
    }

    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        self.evaluator.run_on_worker_thread(work);
    }

    fn warm_up(&self, may_continue: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        self.evaluator.warm_up(may_continue)
    }
}

type Done = (u64, Batch, Result<(), EvaluateError>);

fn done(group: Vec<(u64, Batch)>, result: Result<(), EvaluateError>) -> Vec<Done> {
    let with_result = |(number, batch)| (number, batch, result.clone());
    group.into_iter().map(with_result).collect()
}

/// Takes batches in the order in which they came, at least one, with at most `largest` positions together and one
/// temperature.
fn take_group(waiting: &mut Vec<(u64, Batch)>, largest: usize) -> Vec<(u64, Batch)> {
    let mut positions = 0;
    let temperature = waiting.first().map(|(_, batch)| batch.policy_temperature());
    let fits = |(_, batch): &&(u64, Batch)| {
        positions += batch.len();
        positions <= largest && Some(batch.policy_temperature()) == temperature
    };
    let count = waiting.iter().take_while(fits).count().max(1);
    waiting.drain(..count).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        network::{
            Advice, Info,
            backend::faulty::{Fault, Faulty},
            hash::HashEvaluator,
        },
    };

    /// Counts batches and their largest size. The first batch lasts until it may end. Priors depend on the temperature.
    struct Counting {
        batches: AtomicUsize,
        largest: AtomicUsize,
        begun: Barrier,
        may_end: Barrier,
    }

    impl Evaluator for Counting {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            if self.batches.fetch_add(1, Ordering::Relaxed) == 0 {
                self.begun.wait();
                self.may_end.wait();
            }
            self.largest.fetch_max(batch.len(), Ordering::Relaxed);
            evaluate_by_temperature(batch)
        }

        fn info(&self) -> Info {
            Info {
                advice: Advice {
                    threads: 1,
                    ..Advice::default()
                },
                ..Info::default()
            }
        }
    }

    fn evaluate_by_temperature(batch: &mut Batch) -> Result<(), EvaluateError> {
        HashEvaluator.evaluate(batch)?;
        let temperature = batch.policy_temperature();
        for index in 0..batch.len() {
            let (_, priors) = batch.policy_mut(index);
            priors.iter_mut().for_each(|prior| *prior /= temperature);
        }
        Ok(())
    }

    fn batch(keys: std::ops::Range<u64>) -> Batch {
        let moves: Vec<_> = legal_moves(History::default().position()).collect();
        let mut batch = Batch::default();
        for key in keys {
            batch.push(key, &moves[..5 + key as usize % 9]);
        }
        batch
    }

    fn evaluations(batch: &Batch) -> Vec<(f32, Vec<f32>)> {
        let of = |index| (batch.value(index).wl, batch.policy(index).to_vec());
        (0..batch.len()).map(of).collect()
    }

    #[test]
    fn batches_that_wait_are_evaluated_as_one_with_the_same_results() {
        let counting = Counting {
            batches: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
            begun: Barrier::new(2),
            may_end: Barrier::new(2),
        };
        let merged = Merged::new(&counting, 100);
        let check = |keys: std::ops::Range<u64>| {
            let (mut together, mut alone) = (batch(keys.clone()), batch(keys));
            for batch in [&mut together, &mut alone] {
                batch.set_policy_temperature(1.5);
            }
            merged.evaluate(&mut together).unwrap();
            evaluate_by_temperature(&mut alone).unwrap();
            assert_eq!(evaluations(&together), evaluations(&alone));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| check(0..10));
            counting.begun.wait();
            for thread in 1..7 {
                scope.spawn(move || check(100 * thread..100 * thread + 10));
            }
            // Six batches of ten come while the first one is evaluated.
            while merged.state.lock().waiting.len() < 6 {
                std::thread::yield_now();
            }
            counting.may_end.wait();
        });
        assert_eq!(counting.batches.load(Ordering::Relaxed), 2);
        assert_eq!(counting.largest.load(Ordering::Relaxed), 60);
    }

    #[test]
    fn what_a_part_of_a_batch_knows_already_is_kept() {
        let [mut first, mut second] = [0..3, 3..9].map(|keys| {
            let mut whole = batch(keys.clone());
            let part = whole.part(0);
            part.batch = batch(keys.clone());
            part.indices.extend(0..part.batch.len());
            HashEvaluator.evaluate(&mut part.batch).unwrap();
            whole
        });
        let mut merged = Batch::default();
        merged.append(&first);
        merged.append(&second);
        let known = [&mut first, &mut second].map(|batch| evaluations(&batch.part(0).batch));
        let part = merged.part(0);
        assert_eq!(part.indices, (0..9).collect::<Vec<_>>());
        assert_eq!(evaluations(&part.batch), known.concat());
        assert!(part.batch.policy(8).iter().sum::<f32>() > 0.9);
    }

    #[test]
    fn groups_are_no_larger_than_allowed_and_never_empty() {
        let mut waiting = vec![(0, batch(0..10)), (1, batch(0..20)), (2, batch(0..1))];
        let sizes =
            |group: Vec<(u64, Batch)>| group.iter().map(|one| one.1.len()).collect::<Vec<_>>();
        assert_eq!(sizes(take_group(&mut waiting, 5)), [10]);
        assert_eq!(sizes(take_group(&mut waiting, 21)), [20, 1]);
        let mut soft = batch(0..2);
        soft.set_policy_temperature(1.5);
        let mut waiting = vec![(0, batch(0..3)), (1, soft), (2, batch(0..1))];
        assert_eq!(sizes(take_group(&mut waiting, 100)), [3]);
        assert_eq!(sizes(take_group(&mut waiting, 100)), [2]);
    }

    #[test]
    fn a_failure_or_a_panic_reaches_all_threads_and_later_batches_are_evaluated() {
        for fault in [Fault::Error, Fault::Panic] {
            let faulty = Faulty::new(fault, 0);
            let merged = Merged::new(&faulty, 100);
            assert!(merged.evaluate(&mut batch(0..3)).is_err());
            assert!(merged.evaluate(&mut batch(0..3)).is_ok());
        }
    }
}
