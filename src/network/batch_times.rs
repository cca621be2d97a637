//! How long batches take, by size: on a GPU a small batch costs as much as a larger one, on a processor each position
//! costs the same.

use std::time::Duration;

/// Measured times of batches, by size. Between the measured sizes the time grows evenly; beyond the largest, and below
/// the smallest, it is in proportion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchTimes(Vec<(usize, Duration)>);

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
        (!points.is_empty()).then_some(BatchTimes(points))
    }

    /// The time of a batch of `size` positions.
    pub fn of(&self, size: usize) -> Duration {
        let above = self.0.partition_point(|&(measured, _)| measured < size);
        match (
            above.checked_sub(1).map(|below| self.0[below]),
            self.0.get(above),
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
        self.0.last().map_or(1, |point| point.0)
    }

    /// Positions per second in batches of `size`.
    pub fn speed(&self, size: usize) -> f64 {
        size as f64 / self.of(size).as_secs_f64().max(1e-9)
    }

    /// The largest batch that takes at most `share` more time than a single position.
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

#[cfg(test)]
mod tests {
    use super::*;

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
