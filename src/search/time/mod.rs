//! The time managers: from the clock to the limits of one search. Each is a [`TimeManager`] with parameters
//! ([`crate::options::time_manager`] reads them) and a memory of the game so far; none ever plans to use more than there is,
//! whatever the GUI sends. [`lag`] learns from the clock what is lost between engine and GUI.

mod alphazero;
pub mod lag;
mod legacy;
mod simple;
#[cfg(test)]
mod simulation;
mod smooth;

use std::time::Duration;

use super::Limits;
use crate::options::time_manager::TimeManagerChoice;

/// A single move takes at most this part of the clock, while other moves have to be made with it.
const HARD_PART: f64 = 0.6;
/// What there is to be used, at most, of a clock that is already below the overhead.
const EMERGENCY_PART: f64 = 0.05;
/// Of what such a clock gets back with each move: the rest fills the reserve up again, or every late answer would bring it
/// nearer to its end.
const REFILL_PART: f64 = 0.5;
/// The overhead is a reserve for one bad moment; while nothing is known about the lag, every move is taken to lose this part
/// of it.
const LAG_PART: f64 = 0.05;
/// The opponent's time that even a clock near its end uses, in seconds: for some hundred nodes.
const LEAST_PONDERING: f64 = 0.005;
/// Without an increment, time for the lag of at least this many more moves is kept: games can be long.
const SUDDEN_DEATH_MOVES: f64 = 50.0;
/// How much more is used of what is on the clock when the opponent's time is used, too.
const PONDER_PART: f64 = 0.25;

/// What is known about the clock when a search begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockState {
    /// Time left to the side to move.
    pub remaining: Duration,
    /// Added after each move.
    pub increment: Duration,
    /// Moves until the clock is filled up again; `None`: the rest of the game.
    pub moves_to_go: Option<u32>,
    /// Plies played since the beginning of the game.
    pub ply: u32,
    /// Kept in reserve for the way between engine and GUI.
    pub overhead: Duration,
    /// What each move was seen to lose on that way; `None`: nothing is known yet.
    pub lag: Option<Duration>,
    /// Multiplies the time spent (1 is normal).
    pub slowmover: f32,
    /// Whether part of the thinking happens on the opponent's time.
    pub ponder: bool,
    /// Visits of the position to search that the tree holds already.
    pub known_nodes: u64,
}

/// What a search took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// Time from the start of the clock to the answer.
    pub time: Duration,
    /// Visits of the root at the end.
    pub nodes: u64,
}

/// A way to divide the clock among the moves of a game.
pub trait TimeManager: Send {
    /// The budget of the next search and the time never to exceed.
    fn plan(&mut self, clock: &ClockState) -> Limits;

    /// The search that was planned last has ended.
    fn learn(&mut self, spent: &Spent);
}

/// The manager that an option names, at the beginning of a game.
pub fn manager(choice: &TimeManagerChoice) -> Box<dyn TimeManager> {
    match choice.clone() {
        TimeManagerChoice::Legacy(parameters) => Box::new(legacy::LegacyManager::new(parameters)),
        TimeManagerChoice::Smooth(parameters) => Box::new(smooth::SmoothManager::new(parameters)),
        TimeManagerChoice::Simple(parameters) => Box::new(simple::SimpleManager::new(parameters)),
        TimeManagerChoice::AlphaZero(parameters) => {
            Box::new(alphazero::AlphaZeroManager::new(parameters))
        }
    }
}

/// The time for `go movetime`: a little less than asked for, because the answer has a way to go too.
pub fn fixed(movetime: Duration, overhead: Duration) -> Duration {
    to_duration((movetime - overhead.min(movetime / 10)).as_secs_f64())
}

/// How long to think on the opponent's time, with so much left on the own clock and so much of it kept in reserve; `None` is for
/// as long as the opponent does. With a clock that is below the reserve it counts how soon the engine answers when the reply has come: where
/// processors are busy, those who have rested get their turn first.
pub fn pondering(remaining: Duration, reserve: Duration) -> Option<Duration> {
    let part = remaining.as_secs_f64() * EMERGENCY_PART;
    (remaining < reserve).then(|| to_duration(part.max(LEAST_PONDERING)))
}

/// What the managers ask the clock; all in seconds.
impl ClockState {
    fn remaining(&self) -> f64 {
        self.remaining.as_secs_f64()
    }

    fn overhead(&self) -> f64 {
        self.overhead.as_secs_f64()
    }

    /// What the clock gains, or loses to lag, with each of the moves after this one.
    fn gain(&self) -> f64 {
        let lag = self
            .lag
            .map_or(self.overhead() * LAG_PART, |lag| lag.as_secs_f64());
        self.increment.as_secs_f64() - lag
    }

    /// The same for all of `moves` moves but the first.
    fn later(&self, moves: f64) -> f64 {
        let gain = self.gain();
        let more = match self.moves_to_go {
            None if gain < 0.0 => (moves - 1.0).max(SUDDEN_DEATH_MOVES),
            _ => moves - 1.0,
        };
        gain * more
    }

    /// What this move could use if it were the last, of a game of `moves` more moves.
    fn usable(&self, moves: f64) -> f64 {
        (self.remaining() - self.overhead() + self.later(moves).min(0.0)).max(self.emergency())
    }

    /// What there is to be used of a clock that is below the overhead: with an increment less than what comes back, so
    /// that the clock rises again.
    fn emergency(&self) -> f64 {
        let part = self.remaining() * EMERGENCY_PART;
        match self.increment.is_zero() {
            true => part,
            false => part.min(self.gain().max(0.0) * REFILL_PART),
        }
    }

    /// The most that one move may take, of `moves` that have to be made.
    fn most(&self, moves: f64) -> f64 {
        let usable = self.usable(moves);
        match self.moves_to_go {
            Some(0 | 1) => usable,
            _ => usable * HARD_PART,
        }
    }

    /// The time for this move and the `moves - 1` after it, increments and lag counted in.
    fn total(&self, moves: f64) -> f64 {
        (self.remaining() - self.overhead() + self.later(moves)).max(self.usable(moves))
    }

    /// Multiplies a share of the time for `moves` moves. Of increments there is no more for one who ponders than comes with a
    /// move; otherwise they would be overdrawn, and the clock would sink as far as it may.
    fn ponder_factor(&self, moves: f64) -> f64 {
        match self.ponder {
            true => 1.0 + PONDER_PART * self.usable(moves) / self.total(moves).max(1e-3),
            false => 1.0,
        }
    }

    /// How many moves a game like this one usually still has.
    fn usual_moves(&self) -> f64 {
        self.expected_moves(51.5, 7.0)
    }

    /// How many moves the clock has to last for, when a typical game has `midpoint`: after `p` moves still
    /// `m (1 + 2 (p/m)^s)^(1/s) - p`, which starts at `m` and never falls to zero.
    fn expected_moves(&self, midpoint: f64, steepness: f64) -> f64 {
        let played = f64::from(self.ply) / 2.0;
        let bend = 1.0 + 2.0 * (played / midpoint).powf(steepness);
        let estimate = match bend.is_finite() {
            true => midpoint * bend.powf(1.0 / steepness) - played,
            // The limit for very long games.
            false => played * (2.0_f64.powf(1.0 / steepness) - 1.0),
        };
        match self.moves_to_go {
            Some(moves) => estimate.min(f64::from(moves.max(1))),
            None => estimate,
        }
        .max(1.0)
    }
}

/// Limits with this budget, but at most `most` for the move (all in seconds).
fn limits(share: f64, most: f64) -> Limits {
    Limits {
        budget: Some(to_duration(share.min(most))),
        movetime: Some(to_duration(most)),
        ..Limits::default()
    }
}

/// At least a millisecond, so that a search always gets to its first batch.
fn to_duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(if seconds > 0.0 {
            Duration::MAX
        } else {
            Duration::ZERO
        })
        .max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::{simulation::clock, *};

    #[test]
    fn a_clock_below_the_reserve_rises_again() {
        let with_lag = |remaining: u64, increment: u64, lag: u64| {
            let clock = ClockState {
                lag: Some(Duration::from_millis(lag)),
                ..clock(remaining, increment, None, 60)
            };
            (clock.usable(40.0) * 1000.0).round()
        };
        // A twentieth, but no more than half of what comes back.
        assert_eq!(with_lag(100, 20, 1), 5.0);
        assert_eq!(with_lag(100, 10, 2), 4.0);
        assert_eq!(with_lag(100, 10, 8), 1.0);
        assert_eq!(with_lag(100, 10, 12), 0.0);
        // Nothing comes back.
        assert_eq!(with_lag(100, 0, 8), 5.0);
    }

    #[test]
    fn a_clock_below_the_reserve_has_no_time_to_ponder() {
        let ms = Duration::from_millis;
        assert_eq!(pondering(ms(200), ms(200)), None);
        assert_eq!(pondering(ms(100), ms(200)), Some(ms(5)));
        assert_eq!(
            pondering(ms(190), ms(200)),
            Some(Duration::from_micros(9500))
        );
        assert_eq!(pondering(ms(0), ms(200)), Some(ms(5)));
    }

    #[test]
    fn movetime_keeps_a_reserve() {
        let ms = Duration::from_millis;
        assert_eq!(fixed(ms(1000), ms(200)), ms(900));
        assert_eq!(fixed(ms(10_000), ms(200)), ms(9_800));
        assert_eq!(fixed(ms(0), ms(200)), ms(1));
    }
}
