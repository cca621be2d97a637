//! The lag between engine and GUI, estimated from the clock: between two searches the GUI takes more time off the
//! clock than the search has used.

use std::time::Duration;

/// Learning rate of the mean.
const MEAN_RATE: f64 = 0.2;
/// Learning rate of the slow mean, which single outliers hardly change.
const SLOW_RATE: f64 = 0.05;
/// Decay per move of the highest slow mean.
const PEAK_DECAY: f64 = 0.99;
/// Decay per move of the worst lag.
const WORST_DECAY: f64 = 0.95;
/// The reserve is this multiple of the worst lag.
const RESERVE: f64 = 2.0;
/// A larger difference is not lag: the clock was set by hand, or time was taken away.
const MAX_LAG: Duration = Duration::from_secs(10);

/// The lag of one game.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lag {
    /// The first measurement, which alone may be an outlier.
    first: Option<f64>,
    mean: Option<f64>,
    /// The slow mean, and its decaying maximum.
    slow: f64,
    peak: f64,
    worst: f64,
}

impl Lag {
    /// Records a move that took `used` by the engine's clock, while the GUI's clock fell from `before` to `now` with
    /// `increment` added.
    pub fn record(&mut self, before: Duration, increment: Duration, now: Duration, used: Duration) {
        // A clock that rose was reset, and gives no information.
        let Some(charged) = (before + increment).checked_sub(now) else {
            return;
        };
        let lag = charged.saturating_sub(used);
        if lag > MAX_LAG {
            return;
        }
        let lag = lag.as_secs_f64();
        self.mean = match (self.mean, self.first) {
            (Some(mean), _) => Some(mean + (lag - mean) * MEAN_RATE),
            (None, Some(first)) => Some(first.min(lag)),
            (None, None) => {
                self.first = Some(lag);
                None
            }
        };
        self.slow += (lag - self.slow) * SLOW_RATE;
        self.peak = self.slow.max(self.peak * PEAK_DECAY);
        self.worst = lag.max(self.worst * WORST_DECAY);
    }

    /// The mean lag per move, now or when the machine was busier; `None` before the second measurement. If it exceeds
    /// the increment, time must be saved while the machine is calm.
    pub fn mean(&self) -> Option<Duration> {
        self.mean
            .map(|mean| Duration::from_secs_f64(mean.max(self.peak)))
    }

    /// The reserve to keep: the `configured` one, or more if a larger lag was measured.
    pub fn overhead(&self, configured: Duration) -> Duration {
        configured.max(Duration::from_secs_f64(self.worst * RESERVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_the_loss_of_the_clock_beyond_the_search() {
        let ms = Duration::from_millis;
        let mut lag = Lag::default();
        assert_eq!((lag.mean(), lag.overhead(ms(200))), (None, ms(200)));
        for _ in 0..50 {
            lag.record(ms(10_000), ms(100), ms(9_060), ms(1_000));
        }
        let mean = lag.mean().unwrap();
        assert!(mean.abs_diff(ms(40)) < ms(1), "{mean:?}");
        assert_eq!(lag.overhead(ms(200)), ms(200));
        // One outlier raises the reserve, and its effect decays.
        lag.record(ms(10_000), ms(100), ms(8_600), ms(1_000));
        assert_eq!(lag.overhead(ms(200)), ms(1_000));
        let mut busy = Lag::default();
        for (moves, after) in [(60, 9_060), (60, 9_100)] {
            for _ in 0..moves {
                busy.record(ms(10_000), ms(100), ms(after), ms(1_000));
            }
        }
        // 40 ms, then none for sixty moves.
        let mean = busy.mean().unwrap();
        assert!((ms(18)..ms(24)).contains(&mean), "{mean:?}");
        for _ in 0..50 {
            lag.record(ms(10_000), ms(100), ms(9_060), ms(1_000));
        }
        assert_eq!(lag.overhead(ms(200)), ms(200));
    }

    #[test]
    fn implausible_differences_are_ignored() {
        let ms = Duration::from_millis;
        let mut lag = Lag::default();
        // The clock was reset; the clock of another game.
        lag.record(ms(1_000), ms(0), ms(60_000), ms(500));
        lag.record(ms(600_000), ms(0), ms(60_000), ms(500));
        assert_eq!(lag.mean(), None);
        // The GUI charges less than was used: no lag.
        lag.record(ms(1_000), ms(0), ms(990), ms(500));
        lag.record(ms(990), ms(0), ms(980), ms(500));
        assert_eq!(lag.mean(), Some(ms(0)));
    }

    #[test]
    fn an_outlier_at_the_start_is_not_the_mean() {
        let ms = Duration::from_millis;
        let mut lag = Lag::default();
        lag.record(ms(60_000), ms(600), ms(57_600), ms(1_000));
        assert_eq!((lag.mean(), lag.overhead(ms(200))), (None, ms(4_000)));
        lag.record(ms(57_600), ms(600), ms(57_190), ms(1_000));
        // 10 ms, and what is left of two seconds in the slow mean.
        let mean = lag.mean().unwrap();
        assert!((ms(90)..ms(110)).contains(&mean), "{mean:?}");
    }
}
