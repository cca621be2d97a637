//! How long batches take, by size: on a GPU a small batch costs as much as a larger one, on a processor each position
//! costs the same. On a device that others use, too, all of them take longer ([`Delay`]).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Measured times of batches, by size. Between the measured sizes the time grows evenly; beyond the largest, and below
/// the smallest, it is in proportion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchTimes {
    /// On a device that nobody else uses.
    points: Vec<(usize, Duration)>,
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
            delay: Duration::ZERO,
        })
    }

    /// The same times while every batch takes so much longer.
    pub fn with_delay(&self, delay: Duration) -> BatchTimes {
        BatchTimes {
            points: self.points.clone(),
            delay,
        }
    }

    /// The time of a batch of `size` positions without delay.
    pub fn of(&self, size: usize) -> Duration {
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
        let sizes = (0..)
            .map(|bits| 1 << bits)
            .take_while(|&size| size <= self.largest());
        sizes
            .take_while(|&size| self.of(size) <= limit)
            .last()
            .unwrap_or(1)
    }
}

/// What batches take longer than was measured on the device alone: other programs use it, too, or its clock is slower.
/// It is averaged over some of the latest batches.
#[derive(Debug, Default)]
pub struct Delay {
    nanoseconds: AtomicU64,
}

/// The share of the latest batch in the average.
const SHARE_OF_LATEST: f64 = 1.0 / 32.0;

/// A batch that takes longer than this counts as one that takes as long: it was an accident.
const LONGEST_DELAY: Duration = Duration::from_millis(20);

/// A delay is taken into account from this share of the time of one position on.
const SMALLEST_SHARE: f64 = 0.5;

impl Delay {
    /// Takes note that a batch of `size` positions took so long while `busy` batches were on the device.
    pub fn observe(&self, times: &BatchTimes, size: usize, busy: usize, taken: Duration) {
        let expected = times.of(size).mul_f64(busy.max(1) as f64);
        let late = taken.saturating_sub(expected).min(LONGEST_DELAY);
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
        let counts = delay > times.of(1).mul_f64(SMALLEST_SHARE);
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
    fn noise_in_measurements_gives_no_negative_times() {
        let noisy = times(&[(1, 200), (16, 190), (64, 210), (64, 250)]);
        assert_eq!(noisy.of(16), Duration::from_micros(200));
        assert_eq!(noisy.of(64), Duration::from_micros(210));
        assert!(BatchTimes::new(vec![(0, Duration::from_secs(1))]).is_none());
        assert!(BatchTimes::new(vec![(4, Duration::ZERO)]).is_none());
    }
}
