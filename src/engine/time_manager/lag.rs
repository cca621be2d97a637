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
/// The reserve is this multiple of the worst lag, at most `MAX_RESERVE_PART` of the clock or `MAX_RESERVE` seconds,
/// whichever is more: a laptop that slept, or a network that was gone, does not spoil the rest of the game.
const RESERVE: f64 = 2.0;
const MAX_RESERVE: f64 = 2.0;
const MAX_RESERVE_PART: f64 = 0.25;
/// The means take a lag as at most `OUTLIER` times the sum of the mean and `USUAL` seconds.
const OUTLIER: f64 = 4.0;
const USUAL: f64 = 0.05;
/// The means take a move that was charged less than it used, as by a clock of whole seconds, as at most so much less.
const MAX_GIFT: f64 = 1.0;
/// A larger difference is not lag: the clock was set by hand, or time was taken away.
const MAX_LAG: Duration = Duration::from_secs(10);

/// The lag since the program's start: one game tells about the next.
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
        let lag = charged.as_secs_f64() - used.as_secs_f64();
        if lag > MAX_LAG.as_secs_f64() {
            return;
        }
        self.worst = lag.max(self.worst * WORST_DECAY);
        let usual = self.mean.unwrap_or_default().max(0.0) + USUAL;
        let lag = lag.clamp(-MAX_GIFT, OUTLIER * usual);
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
    }

    /// The mean lag per move, now or when the machine was busier; `None` before the second measurement. If it exceeds
    /// the increment, time must be saved while the machine is calm.
    pub fn mean(&self) -> Option<Duration> {
        self.mean
            .map(|mean| Duration::from_secs_f64(mean.max(self.peak)))
    }

    /// The reserve to keep of a clock with `remaining` time: the `configured` one, or more if a larger lag was
    /// measured.
    pub fn overhead(&self, configured: Duration, remaining: Duration) -> Duration {
        let most = MAX_RESERVE.max(remaining.as_secs_f64() * MAX_RESERVE_PART);
        configured.max(Duration::from_secs_f64((self.worst * RESERVE).min(most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_the_loss_of_the_clock_beyond_the_search() {
        let ms = Duration::from_millis;
        let mut lag = Lag::default();
        assert_eq!(
            (lag.mean(), lag.overhead(ms(200), ms(9_000))),
            (None, ms(200))
        );
        for _ in 0..50 {
            lag.record(ms(10_000), ms(100), ms(9_060), ms(1_000));
        }
        let mean = lag.mean().unwrap();
        assert!(mean.abs_diff(ms(40)) < ms(1), "{mean:?}");
        assert_eq!(lag.overhead(ms(200), ms(9_000)), ms(200));
        // One outlier raises the reserve, and its effect decays.
        lag.record(ms(10_000), ms(100), ms(8_600), ms(1_000));
        assert_eq!(lag.overhead(ms(200), ms(9_000)), ms(1_000));
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
        assert_eq!(lag.overhead(ms(200), ms(9_000)), ms(200));
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
        assert_eq!(
            (lag.mean(), lag.overhead(ms(200), ms(57_600))),
            (None, ms(4_000))
        );
        lag.record(ms(57_600), ms(600), ms(57_190), ms(1_000));
        let mean = lag.mean().unwrap();
        assert!((ms(9)..ms(12)).contains(&mean), "{mean:?}");
    }

    #[test]
    fn a_stall_costs_a_reserve_and_hardly_changes_the_means() {
        let ms = Duration::from_millis;
        let mut lag = Lag::default();
        for _ in 0..5 {
            lag.record(ms(30_000), ms(0), ms(28_990), ms(1_000));
        }
        lag.record(ms(30_000), ms(0), ms(21_000), ms(1_000));
        let mean = lag.mean().unwrap();
        assert!((ms(40)..ms(70)).contains(&mean), "{mean:?}");
        assert_eq!(lag.overhead(ms(200), ms(20_000)), ms(5_000));
        assert_eq!(lag.overhead(ms(200), ms(4_000)), ms(2_000));
        // A lag that stays is learned within a few moves.
        for _ in 0..12 {
            lag.record(ms(30_000), ms(0), ms(28_000), ms(1_000));
        }
        assert!(lag.mean().unwrap() > ms(800), "{:?}", lag.mean());
    }

    #[test]
    fn a_clock_of_whole_seconds_is_no_lag() {
        let ms = Duration::from_millis;
        let mut lag = Lag::default();
        let used = [400, 700, 1_300, 600, 500, 900, 800, 300, 1_100, 650];
        let mut exact = 60_000;
        for used in used.repeat(3) {
            let shown = |time: u64| ms(time / 1_000 * 1_000);
            let before = exact;
            exact -= used;
            lag.record(shown(before), ms(0), shown(exact), ms(used));
        }
        assert!(lag.mean().unwrap() < ms(150), "{:?}", lag.mean());
    }
}
