//! What is lost between engine and GUI, learnt from the clock: between two searches of a game the GUI takes more off the clock
//! than the search has used.

use std::time::Duration;

/// The part of the difference by which the mean moves to what is seen.
const MEAN_RATE: f64 = 0.2;
/// The same for the mean of a longer time, which single bad moments hardly move.
const SLOW_RATE: f64 = 0.05;
/// The part of the highest such mean that is remembered from move to move.
const SLOW_MEMORY: f64 = 0.99;
/// The part of the worst lag that is remembered from move to move.
const MEMORY: f64 = 0.95;
/// A reserve is this many times the worst lag remembered.
const RESERVE: f64 = 2.0;
/// More than this is no lag but another clock: a person has set it, or time was taken away.
const IMPLAUSIBLE: Duration = Duration::from_secs(10);

/// The lag of one game.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lag {
    mean: Option<f64>,
    /// The mean of a longer time, and the highest that it was.
    slow: f64,
    peak: f64,
    worst: f64,
}

impl Lag {
    /// A move took `used` by the engine's clock; the GUI's clock fell from `before` to `now`, with `increment` added between.
    pub fn see(&mut self, before: Duration, increment: Duration, now: Duration, used: Duration) {
        // A clock that rose has been filled up, and says nothing.
        let Some(charged) = (before + increment).checked_sub(now) else {
            return;
        };
        let lag = charged.saturating_sub(used);
        if lag > IMPLAUSIBLE {
            return;
        }
        let lag = lag.as_secs_f64();
        let mean = self.mean.unwrap_or(lag);
        self.mean = Some(mean + (lag - mean) * MEAN_RATE);
        self.slow += (lag - self.slow) * SLOW_RATE;
        self.peak = self.slow.max(self.peak * SLOW_MEMORY);
        self.worst = lag.max(self.worst * MEMORY);
    }

    /// What a move loses on average, now or when the machine was busier; `None` before anything was seen. Where that is more than
    /// the increment, time has to be put by while it is calm.
    pub fn mean(&self) -> Option<Duration> {
        self.mean
            .map(|mean| Duration::from_secs_f64(mean.max(self.peak)))
    }

    /// The reserve to keep: `asked` for by the user, or more if the lag was seen to be bad.
    pub fn overhead(&self, asked: Duration) -> Duration {
        asked.max(Duration::from_secs_f64(self.worst * RESERVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_what_the_clock_lost_beyond_the_search() {
        let ms = Duration::from_millis;
        let mut lag = Lag::default();
        assert_eq!((lag.mean(), lag.overhead(ms(200))), (None, ms(200)));
        for _ in 0..50 {
            lag.see(ms(10_000), ms(100), ms(9_060), ms(1_000));
        }
        let mean = lag.mean().unwrap();
        assert!(mean.abs_diff(ms(40)) < ms(1), "{mean:?}");
        assert_eq!(lag.overhead(ms(200)), ms(200));
        // One bad moment raises the reserve, and is forgotten slowly.
        lag.see(ms(10_000), ms(100), ms(8_600), ms(1_000));
        assert_eq!(lag.overhead(ms(200)), ms(1_000));
        let mut busy = Lag::default();
        for (moves, after) in [(60, 9_060), (60, 9_100)] {
            for _ in 0..moves {
                busy.see(ms(10_000), ms(100), ms(after), ms(1_000));
            }
        }
        // Forty, and then nothing for sixty moves.
        let mean = busy.mean().unwrap();
        assert!((ms(18)..ms(24)).contains(&mean), "{mean:?}");
        for _ in 0..50 {
            lag.see(ms(10_000), ms(100), ms(9_060), ms(1_000));
        }
        assert_eq!(lag.overhead(ms(200)), ms(200));
    }

    #[test]
    fn what_is_no_lag_is_left_out() {
        let ms = Duration::from_millis;
        let mut lag = Lag::default();
        // Filled up; the clock of another game.
        lag.see(ms(1_000), ms(0), ms(60_000), ms(500));
        lag.see(ms(600_000), ms(0), ms(60_000), ms(500));
        assert_eq!(lag.mean(), None);
        // The GUI charges less than was used: no lag at all.
        lag.see(ms(1_000), ms(0), ms(990), ms(500));
        assert_eq!(lag.mean(), Some(ms(0)));
    }
}
