//! How many positions a batch has, by the size of the tree.
//!
//! The visits of a batch are selected without each other's results, and without those of the batches that are on their
//! way: in a small tree many of them go to moves that the first results rule out. With k batches of b positions in
//! flight in a tree of n visits, a visit is taken to be worth 1 - L * k * b / n of one that is made alone, and b
//! positions take t(b). So the size that brings most for the time is the b with the largest
//!
//! ```text
//! b / t(b) * (1 - L * k * b / n)
//! ```
//!
//! On a device for which all sizes take the same time that is k * b = n / (2 L), and on a processor, where t(b) grows
//! as b does, the smallest size. On a device that has some sizes alone, b is one of them. Where no times are known, one
//! position is in flight for every 32 visits.

use std::ops::RangeInclusive;

use crate::network::BatchTimes;

/// L above: with this, at most one visit in four is in flight. Measured in `docs/lab/driver.md`.
const LOSS: f64 = 2.0;

/// Batches are never smaller than the largest one that takes so much more time than one position.
const FREE_SHARE: f64 = 0.4;

/// Without known times, one position is in flight per this many visits of the root. Measured in `docs/lab/batches.md`.
const VISITS_PER_POSITION: usize = 32;

/// Batch sizes by the visits of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BatchPlan {
    /// One position in flight per 32 visits, all batches together, within these limits of each batch.
    Even {
        sizes: RangeInclusive<usize>,
        in_flight: usize,
    },
    /// From so many visits on, batches of this size; the first step begins at 0.
    Steps(Vec<(u32, usize)>),
}

impl BatchPlan {
    /// Batches of one size.
    pub fn fixed(size: usize) -> BatchPlan {
        BatchPlan::even(size..=size, 1)
    }

    /// Batches that grow with the tree, of which so many are in flight.
    pub fn even(sizes: RangeInclusive<usize>, in_flight: usize) -> BatchPlan {
        BatchPlan::Even { sizes, in_flight }
    }

    /// For a device with these times, with `in_flight` batches on their way at once.
    pub fn for_times(times: &BatchTimes, in_flight: usize) -> BatchPlan {
        let first = times.nearly_free(FREE_SHARE);
        let mut steps: Vec<(u32, usize)> = vec![(0, first)];
        for size in sizes(times).filter(|&size| size > first) {
            // A step that this size overtakes before it begins is none.
            while let [.., _, (begin, before)] = steps[..]
                && better_from(times, in_flight, before, size).is_some_and(|from| from <= begin)
            {
                steps.pop();
            }
            let before = steps[steps.len() - 1].1;
            let from = better_from(times, in_flight, before, size);
            steps.extend(from.map(|from| (from, size)));
        }
        BatchPlan::Steps(steps)
    }

    /// Positions per batch in a tree of `n` visits.
    #[inline]
    pub fn size(&self, n: u32) -> usize {
        match self {
            BatchPlan::Even { sizes, in_flight } => {
                let grown = n as usize / (VISITS_PER_POSITION * in_flight);
                grown.clamp(*sizes.start(), *sizes.end())
            }
            BatchPlan::Steps(steps) => {
                let after = steps.partition_point(|&(from, _)| from <= n);
                steps[after.max(1) - 1].1
            }
        }
    }

    /// Whether it follows from known times.
    pub fn is_timed(&self) -> bool {
        matches!(self, BatchPlan::Steps(_))
    }

    /// The size in the smallest tree.
    #[inline]
    pub fn smallest(&self) -> usize {
        match self {
            BatchPlan::Even { sizes, .. } => *sizes.start(),
            BatchPlan::Steps(steps) => steps[0].1,
        }
    }

    /// Whether the size depends on the tree.
    #[inline]
    pub fn grows(&self) -> bool {
        match self {
            BatchPlan::Even { sizes, .. } => sizes.start() < sizes.end(),
            BatchPlan::Steps(steps) => steps.len() > 1,
        }
    }
}

/// The sizes of batches that are worth a step, ascending: those that the device has or, if it takes any, enough of
/// them; none is larger than what was measured.
fn sizes(times: &BatchTimes) -> impl Iterator<Item = usize> {
    let own = times.sizes().iter().copied();
    let any = (0..).flat_map(|bits| [2 << bits, 3 << bits]);
    let any = any.take_while(|_| times.sizes().is_empty());
    let largest = times.largest();
    own.chain(any).take_while(move |&size| size <= largest)
}

/// The visits of a tree in which batches of `larger` positions begin to bring more than batches of `smaller`; `None` if
/// they are no faster.
fn better_from(times: &BatchTimes, in_flight: usize, smaller: usize, larger: usize) -> Option<u32> {
    let [slow, fast] = [smaller, larger].map(|size| times.speed(size));
    let crossing = (fast * larger as f64 - slow * smaller as f64) / (fast - slow);
    (fast > slow).then_some((LOSS * in_flight as f64 * crossing) as u32)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn times(points: &[(usize, f64)]) -> BatchTimes {
        let points = points
            .iter()
            .map(|&(size, ms)| (size, Duration::from_secs_f64(ms / 1000.0)));
        BatchTimes::new(points.collect()).unwrap()
    }

    /// The best size by the formula, of all sizes.
    fn best(times: &BatchTimes, in_flight: usize, n: u32) -> f64 {
        let worth = |size: usize| {
            let loss = LOSS * (in_flight * size) as f64 / f64::from(n);
            times.speed(size) * (1.0 - loss)
        };
        (1..=times.largest()).map(worth).fold(f64::MIN, f64::max)
    }

    #[test]
    fn steps_are_as_good_as_the_best_size() {
        let maia = times(&[(1, 0.19), (16, 0.21), (64, 0.26), (256, 0.44), (1024, 1.39)]);
        let large = times(&[(1, 1.5), (16, 1.9), (64, 3.5), (256, 9.9), (1024, 34.0)]);
        for (times, in_flight) in [(&maia, 1), (&maia, 3), (&large, 2)] {
            let plan = BatchPlan::for_times(times, in_flight);
            let mut before = 0;
            for n in [2000, 5000, 20_000, 70_000, 300_000, 3_000_000] {
                let size = plan.size(n);
                let loss = LOSS * (in_flight * size) as f64 / f64::from(n);
                let worth = times.speed(size) * (1.0 - loss);
                let best = best(times, in_flight, n);
                assert!(
                    worth > 0.9 * best || size == plan.smallest(),
                    "{n}: {size}, {worth} of {best}"
                );
                assert!(size >= before);
                before = size;
            }
        }
    }

    #[test]
    fn where_all_sizes_take_the_same_time_one_visit_in_four_is_in_flight() {
        let flat = times(&[(1, 1.0), (4096, 1.01)]);
        for in_flight in [1, 2, 4] {
            let plan = BatchPlan::for_times(&flat, in_flight);
            // Not below what is as good as free: here that is everything.
            assert_eq!(plan.size(1), 4096);
            let rising = times(&[(1, 1.0), (2, 1.5), (4096, 1.6)]);
            let plan = BatchPlan::for_times(&rising, in_flight);
            let size = plan.size(8000) * in_flight;
            assert!((1300..=2600).contains(&size), "{size}");
        }
    }

    #[test]
    fn on_a_device_that_is_late_batches_begin_as_small_and_grow_sooner() {
        let alone = times(&[(1, 0.2), (16, 0.25), (64, 0.35), (256, 0.45), (1024, 1.0)]);
        let shared = alone.with_delay(Duration::from_micros(1500));
        let [alone, shared] = [alone, shared].map(|times| BatchPlan::for_times(&times, 3));
        assert_eq!(alone.smallest(), shared.smallest());
        let sizes = |plan: &BatchPlan| [2000, 5000, 10_000].map(|n| plan.size(n));
        assert_eq!(sizes(&alone), [128, 256, 512]);
        assert_eq!(sizes(&shared), [192, 384, 768]);
    }

    /// Batches of other sizes are padded or split, so that they gain nothing.
    #[test]
    fn on_a_device_with_some_sizes_batches_have_those() {
        let any = times(&[
            (1, 0.19),
            (8, 0.2),
            (32, 0.23),
            (64, 0.26),
            (128, 0.32),
            (256, 0.44),
            (512, 0.78),
            (1024, 1.39),
        ]);
        let steps = |times: &BatchTimes| -> Vec<usize> {
            let plan = BatchPlan::for_times(times, 3);
            let BatchPlan::Steps(steps) = plan else {
                panic!("{plan:?} has no steps");
            };
            steps.into_iter().map(|(_, size)| size).collect()
        };
        assert!(steps(&any).contains(&384));
        let all = [1, 8, 32, 64, 128, 256, 512, 1024];
        assert_eq!(
            steps(&any.clone().with_sizes(&all)),
            [64, 128, 256, 512, 1024]
        );
        let few = steps(&any.clone().with_sizes(&[8, 64, 256, 1024]));
        assert_eq!(few, [64, 256, 1024]);
        // The sizes that a user gives need not be powers of two; larger ones than were measured do not count.
        let odd = steps(&any.with_sizes(&[40, 100, 1000, 2000]));
        assert_eq!(odd, [100, 1000]);
    }

    #[test]
    fn where_time_grows_with_the_batch_batches_stay_small() {
        let even = times(&[(1, 1.0), (256, 256.0)]);
        let plan = BatchPlan::for_times(&even, 2);
        assert_eq!(
            (plan.size(0), plan.size(10_000_000), plan.grows()),
            (1, 1, false)
        );
        let fixed = BatchPlan::fixed(8);
        assert_eq!(
            (fixed.size(0), fixed.size(u32::MAX), fixed.grows()),
            (8, 8, false)
        );
        let even = BatchPlan::even(2..=16, 1);
        assert_eq!([0, 100, 320, 9999].map(|n| even.size(n)), [2, 3, 10, 16]);
        assert!(even.grows());
    }
}
