//! How long batches take, by size: on a GPU a small batch costs as much as a larger one, on a processor each position
//! costs the same. On a device that others use, too, all of them take longer ([`Delay`]).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Measured times of batches, by size. On a device that takes batches of any size, the time grows evenly between the
/// measured sizes; beyond the largest, and below the smallest, it is in proportion. On a device with
/// [some sizes](BatchTimes::with_sizes), a batch takes the time of the runs that it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchTimes {
    /// On a device that nobody else uses.
    points: Vec<(usize, Duration)>,
    /// The sizes that the device has, ascending; empty if it takes any.
    sizes: Vec<usize>,
    /// What each batch takes longer at present.
    delay: Duration,
}

impl BatchTimes {
    /// From times of batches of these sizes (at least 1). A larger batch is never taken to need less time than a
    /// smaller one. `None` without any time.
    pub fn new(mut points: Vec<(usize, Duration)>) -> Option<BatchTimes> {
        points.retain(|&(size, time)| size > 0 && !time.is_zero());
        points.sort_unstable();
        points.dedup_by_key(|point| point.0);
        let mut longest = Duration::ZERO;
        for (_, time) in &mut points {
            longest = longest.max(*time);
            *time = longest;
        }
        (!points.is_empty()).then_some(BatchTimes {
            points,
            sizes: Vec::new(),
            delay: Duration::ZERO,
        })
    }

    /// The same times of a device that has these sizes alone (ascending): other batches are padded or split, as
    /// [`next_run`] says. Without any, it takes all sizes.
    pub fn with_sizes(self, sizes: &[usize]) -> BatchTimes {
        BatchTimes {
            sizes: sizes.to_vec(),
            ..self
        }
    }

    /// The same times while every batch takes longer by `delay`.
    pub fn with_delay(&self, delay: Duration) -> BatchTimes {
        BatchTimes {
            delay,
            ..self.clone()
        }
    }

    /// The time of a batch of `size` positions without delay.
    pub fn of(&self, size: usize) -> Duration {
        let (mut time, mut rest) = (Duration::ZERO, size);
        while rest > 0 {
            let run = next_run(&self.sizes, rest).clamp(1, rest);
            let padded = self.sizes.iter().find(|&&size| size >= run);
            time += self.of_run(padded.copied().unwrap_or(run));
            rest -= run;
        }
        time
    }

    /// The time of one run.
    fn of_run(&self, size: usize) -> Duration {
        let points = &self.points;
        let above = points.partition_point(|&(measured, _)| measured < size);
        match (
            above.checked_sub(1).map(|below| points[below]),
            points.get(above),
        ) {
            (Some((low, before)), Some(&(high, after))) => {
                let share = (size - low) as f64 / (high - low) as f64;
                before + (after - before).mul_f64(share)
            }
            (None, Some(&(only, time))) | (Some((only, time)), None) => {
                time.mul_f64(size as f64 / only as f64)
            }
            (None, None) => Duration::ZERO,
        }
    }

    /// The sizes that the device has, ascending; none if it takes any.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The largest batch that was measured.
    pub fn largest(&self) -> usize {
        self.points.last().map_or(1, |point| point.0)
    }

    /// Positions per second in batches of `size`, with the delay.
    pub fn speed(&self, size: usize) -> f64 {
        size as f64 / (self.of(size) + self.delay).as_secs_f64().max(1e-9)
    }

    /// The largest batch that takes at most `share` more time than a single position, without delay.
    pub fn nearly_free(&self, share: f64) -> usize {
        let limit = self.of(1).mul_f64(1.0 + share);
        let is_free = |&size: &usize| size <= self.largest() && self.of(size) <= limit;
        let free = match &self.sizes[..] {
            [] => (0..).map(|bits| 1 << bits).take_while(is_free).last(),
            sizes => sizes.iter().copied().take_while(is_free).last(),
        };
        free.unwrap_or(1)
    }
}

/// The fixed cost of a run, in positions that could be computed in the same time.
const COST_OF_A_RUN: usize = 64;

/// How many of `rows` positions to compute in the next run, on a device with these sizes (ascending): one run that is
/// padded, or several that are not, whichever costs less. All, if there are no sizes.
pub fn next_run(sizes: &[usize], rows: usize) -> usize {
    best_run(sizes, rows).0
}

/// The size of the next run, and the cost of all runs together.
fn best_run(sizes: &[usize], rows: usize) -> (usize, usize) {
    let padded = sizes.iter().find(|&&size| size >= rows);
    let padded = padded.map(|&size| (rows, size + COST_OF_A_RUN));
    let full = sizes.iter().rfind(|&&size| size < rows).map(|&size| {
        let (runs, rest) = (rows / size, rows % size);
        let rest = if rest == 0 {
            0
        } else {
            best_run(sizes, rest).1
        };
        (size, runs * (size + COST_OF_A_RUN) + rest)
    });
    let runs = [padded, full].into_iter().flatten();
    runs.min_by_key(|&(_, cost)| cost).unwrap_or((rows, 0))
}

/// What batches take longer than was measured on the device alone: other programs use it, too, or its clock is slower.
/// It is averaged over some of the latest batches.
#[derive(Debug, Default)]
pub struct Delay {
    nanoseconds: AtomicU64,
}

/// The share of the latest batch in the average.
const SHARE_OF_LATEST: f64 = 1.0 / 32.0;

/// Maximum delay of a batch that counts: a longer one was an accident, and counts as this.
const MAX_DELAY: Duration = Duration::from_millis(20);

/// A delay is taken into account from this share of the time of one position on.
const MIN_SHARE: f64 = 0.5;

impl Delay {
    /// Takes note that a batch of `size` positions took the time `taken` while `busy` batches were on the device.
    pub fn observe(&self, times: &BatchTimes, size: usize, busy: usize, taken: Duration) {
        let expected = times.of(size).mul_f64(busy.max(1) as f64);
        let late = taken.saturating_sub(expected).min(MAX_DELAY);
        // Lost updates do no harm.
        let before = self.nanoseconds.load(Ordering::Relaxed) as f64;
        let now = before + (late.as_nanos() as f64 - before) * SHARE_OF_LATEST;
        self.nanoseconds.store(now as u64, Ordering::Relaxed);
    }

    /// The times as they are at present.
    pub fn at_present(&self, times: &Arc<BatchTimes>) -> Arc<BatchTimes> {
        self.of(times).map_or_else(|| Arc::clone(times), Arc::new)
    }

    /// The times as they are at present; `None` if they are as measured.
    fn of(&self, times: &BatchTimes) -> Option<BatchTimes> {
        let delay = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        let counts = delay > times.of(1).mul_f64(MIN_SHARE);
        counts.then(|| times.with_delay(delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_that_are_late_for_a_while_change_the_times() {
        let times = times(&[(1, 200), (256, 400)]);
        let delay = Delay::default();
        let observe = |busy, micros| {
            for _ in 0..200 {
                delay.observe(&times, 256, busy, Duration::from_micros(micros));
            }
        };
        // As measured, also where two batches share the device.
        observe(1, 390);
        observe(2, 790);
        assert_eq!(delay.of(&times), None);
        observe(2, 2300);
        let late = delay.of(&times).unwrap();
        let speed = 256.0 / (400e-6 + 1500e-6);
        assert!((late.speed(256) / speed - 1.0).abs() < 0.02);
        assert_eq!(late.of(256), times.of(256));
        observe(1, 400);
        assert_eq!(delay.of(&times), None);
        // One accident is none.
        delay.observe(&times, 1, 1, Duration::from_secs(5));
        let delayed = delay.of(&times).unwrap();
        assert!(delayed.delay < Duration::from_millis(1));
    }

    fn times(points: &[(usize, u64)]) -> BatchTimes {
        let points = points
            .iter()
            .map(|&(size, time)| (size, Duration::from_micros(time)));
        BatchTimes::new(points.collect()).unwrap()
    }

    #[test]
    fn times_between_the_measured_sizes_are_interpolated() {
        let times = times(&[(64, 260), (1, 190), (256, 440)]);
        assert_eq!(times.of(1), Duration::from_micros(190));
        assert_eq!(times.of(160), Duration::from_micros(350));
        assert_eq!(times.of(512), Duration::from_micros(880));
        assert_eq!(times.largest(), 256);
        // 190 + 70 * 15 / 63 = 207 microseconds for 16 positions, 190 + 70 * 31 / 63 = 224 for 32.
        assert_eq!((times.nearly_free(0.1), times.nearly_free(0.2)), (16, 32));
        assert!((times.speed(256) - 256.0 / 440e-6).abs() < 1.0);
    }

    #[test]
    fn batches_are_padded_or_cut_whichever_costs_less() {
        for (rows, first) in [
            (1, 1),
            (8, 8),
            // 64 padded, rather than 8, 8 and 4.
            (20, 20),
            // 64 and 1, rather than 256 of which 191 are for nothing.
            (65, 64),
            (200, 200),
            // 256 and 44, rather than 1024.
            (300, 256),
            (900, 900),
            (1024, 1024),
            (1500, 1024),
        ] {
            assert_eq!(next_run(&[8, 64, 256, 1024], rows), first, "{rows}");
        }
        assert_eq!((next_run(&[32], 100), next_run(&[], 7)), (32, 7));
    }

    #[test]
    fn on_a_device_with_some_sizes_a_batch_takes_the_time_of_its_runs() {
        let any = times(&[(1, 200), (8, 200), (64, 260), (256, 440), (1024, 1390)]);
        let some = any.clone().with_sizes(&[8, 64, 256, 1024]);
        for (size, micros) in [
            (1, 200),
            (8, 200),
            // Padded.
            (20, 260),
            (64, 260),
            (200, 440),
            // 64 and 1; 256 and 44; 256, 64 and 64.
            (65, 460),
            (300, 700),
            (384, 960),
            (900, 1390),
            (1500, 1390 + 880),
        ] {
            assert_eq!(some.of(size), Duration::from_micros(micros), "{size}");
        }
        assert!(any.speed(384) > any.speed(256) && some.speed(384) < some.speed(256));
        // 260 microseconds are 30 % more than 200. There is no size between 8 and 64.
        assert_eq!((any.nearly_free(0.2), some.nearly_free(0.2)), (32, 8));
        assert_eq!(some.nearly_free(0.35), 64);
        assert_eq!(
            some.with_delay(Duration::from_millis(1)).sizes(),
            some.sizes()
        );
    }

    #[test]
    fn noise_in_measurements_gives_no_negative_times() {
        let noisy = times(&[(1, 200), (16, 190), (64, 210), (64, 250)]);
        assert_eq!(noisy.of(16), Duration::from_micros(200));
        assert_eq!(noisy.of(64), Duration::from_micros(210));
        assert!(BatchTimes::new(vec![(0, Duration::from_secs(1))]).is_none());
        assert!(BatchTimes::new(vec![(4, Duration::ZERO)]).is_none());
    }
}
