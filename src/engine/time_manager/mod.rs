//! The time managers: from the clock to the limits of one search. Each is a [`TimeManager`] with parameters (parsed
//! by [`crate::options::time_manager`]) and the state of the game so far. None ever plans to use more time than is
//! left, whatever the GUI sends. [`lag`] estimates the time lost between engine and GUI.

mod alphazero;
pub mod lag;
mod legacy;
mod simple;
#[cfg(test)]
mod simulation;
mod smooth;

use std::time::Duration;

use crate::{
    options::time_manager::{Legacy, TimeManagerChoice},
    search::Limits,
};

/// Maximum part of the clock for a single move, if other moves have to be made with it.
const HARD_PART: f64 = 0.6;
/// Maximum part to use of a clock that is already below the overhead.
const EMERGENCY_PART: f64 = 0.05;
/// Maximum part of the increment to use with such a clock: the rest rebuilds the reserve, or every late answer would
/// bring it closer to zero.
const REFILL_PART: f64 = 0.5;
/// The overhead is a reserve for one outlier. Until the lag has been measured, every move is assumed to lose this
/// part of it.
const LAG_PART: f64 = 0.05;
/// The part of all time that the first move of a game may have, unless its even share is more.
const MAX_FIRST_PART: f64 = 0.15;
/// Minimum pondering time in seconds, even with a clock near zero: enough for some hundred nodes.
const MIN_PONDERING: f64 = 0.005;
/// Without an increment, time for the lag of at least this many more moves is reserved, or until the next time control,
/// because games can be long.
const SUDDEN_DEATH_MOVES: f64 = 50.0;
/// How much more of the clock is used when pondering is on.
const PONDER_PART: f64 = 0.25;

/// The state of the clock when a search begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockState {
    /// Time left to the side to move.
    pub remaining: Duration,
    /// Added after each move.
    pub increment: Duration,
    /// Moves until the next time control; `None`: the rest of the game.
    pub moves_to_go: Option<u32>,
    /// Plies played since the beginning of the game.
    pub ply: u32,
    /// Reserve for the communication between engine and GUI.
    pub overhead: Duration,
    /// Measured lag of a move; `None`: not measured yet.
    pub lag: Option<Duration>,
    /// Factor on the time spent (1 is normal).
    pub slowmover: f32,
    /// Whether the engine also ponders.
    pub ponder: bool,
    /// Visits of the position to search that are already in the tree.
    pub known_nodes: u64,
}

/// Time and nodes that a search took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchCost {
    /// Time from the start of the clock to the answer.
    pub time: Duration,
    /// Visits of the root at the end.
    pub nodes: u64,
}

/// Divides the clock among the moves of a game.
pub trait TimeManager: Send {
    /// The budget of the next search, and its maximum time.
    fn plan(&mut self, clock: &ClockState) -> Limits;

    /// Called at the end of the last planned search.
    fn finish(&mut self, spent: &SearchCost);

    /// Called before the plan for a position that does not follow the last planned one: time that was saved there is
    /// not on this clock.
    fn discard_savings(&mut self) {}
}

/// The manager that an option selects, for a new game.
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

/// The time for `go movetime`: less than requested, to leave time for the answer to arrive.
pub fn fixed(movetime: Duration, overhead: Duration) -> Duration {
    to_duration((movetime - overhead.min(movetime / 10)).as_secs_f64())
}

/// How long to ponder, with this much time left on the own clock and this reserve; `None` means until the opponent
/// moves. With a clock below the reserve a quick answer to the reply matters most, and busy schedulers favour threads
/// that have slept.
pub fn pondering(remaining: Duration, reserve: Duration) -> Option<Duration> {
    let part = remaining.as_secs_f64() * EMERGENCY_PART;
    (remaining < reserve).then(|| to_duration(part.max(MIN_PONDERING)))
}

/// Quantities derived from the clock, in seconds.
impl ClockState {
    fn remaining(&self) -> f64 {
        self.remaining.as_secs_f64()
    }

    fn overhead(&self) -> f64 {
        self.overhead.as_secs_f64()
    }

    /// What the clock gains, or loses to lag, with each move after this one.
    fn gain(&self) -> f64 {
        let lag = self
            .lag
            .map_or(self.overhead() * LAG_PART, |lag| lag.as_secs_f64());
        self.increment.as_secs_f64() - lag
    }

    /// The gain of all `moves` moves but the first.
    fn later(&self, moves: f64) -> f64 {
        let gain = self.gain();
        let others = moves - 1.0;
        if gain >= 0.0 {
            return gain * others;
        }
        let at_most = match self.moves_to_go {
            Some(left) => f64::from(left.max(1)) - 1.0,
            None => f64::INFINITY,
        };
        gain * others.max(SUDDEN_DEATH_MOVES.min(at_most))
    }

    /// The time that this move could use if it were the last, in a game of `moves` more moves.
    fn usable(&self, moves: f64) -> f64 {
        (self.remaining() - self.overhead() + self.later(moves).min(0.0)).max(self.emergency())
    }

    /// The usable part of a clock that is below the overhead: with an increment less than the gain, so that the clock
    /// rises again.
    fn emergency(&self) -> f64 {
        let part = self.remaining() * EMERGENCY_PART;
        if self.increment.is_zero() {
            part
        } else {
            part.min(self.gain().max(0.0) * REFILL_PART)
        }
    }

    /// Maximum time for one of `moves` moves.
    fn max_time(&self, moves: f64) -> f64 {
        let usable = self.usable(moves);
        match self.moves_to_go {
            Some(0 | 1) => usable,
            _ => usable * HARD_PART,
        }
    }

    /// The time for this move and the `moves - 1` after it, with increments and lag.
    fn total(&self, moves: f64) -> f64 {
        (self.remaining() - self.overhead() + self.later(moves)).max(self.usable(moves))
    }

    /// Factor on a share of the time for `moves` moves. Pondering does not add increments; counting it on them would
    /// overdraw the clock.
    fn ponder_factor(&self, moves: f64) -> f64 {
        if self.ponder {
            1.0 + PONDER_PART * self.usable(moves) / self.total(moves).max(1e-3)
        } else {
            1.0
        }
    }

    /// The number of moves that a game like this one usually still has.
    fn usual_moves(&self) -> f64 {
        let usual = Legacy::default();
        self.expected_moves(usual.midpoint_move, usual.steepness)
    }

    /// The number of moves that the clock has to last for, if a typical game has `midpoint` moves: after `p` moves `m
    /// (1 + 2 (p/m)^s)^(1/s) - p`, which starts at `m` and never falls to zero.
    fn expected_moves(&self, midpoint: f64, steepness: f64) -> f64 {
        let played = f64::from(self.ply) / 2.0;
        let bend = 1.0 + 2.0 * (played / midpoint).powf(steepness);
        let estimate = if bend.is_finite() {
            midpoint * bend.powf(1.0 / steepness) - played
        } else {
            played * (2.0_f64.powf(1.0 / steepness) - 1.0)
        };
        match self.moves_to_go {
            Some(moves) => estimate.min(f64::from(moves.max(1))),
            None => estimate,
        }
        .max(1.0)
    }
}

/// The share of a game's first move, which gets more than the `even` one of the `total` time: a game that is resumed
/// late has few moves left, and the extra time would take most of the clock.
fn first_share(share: f64, even: f64, total: f64) -> f64 {
    share.min(even.max(total * MAX_FIRST_PART))
}

/// Limits with a budget of `share`, but at most `max_time` for the move (all in seconds).
fn limits(share: f64, max_time: f64) -> Limits {
    Limits {
        budget: Some(to_duration(share.min(max_time))),
        movetime: Some(to_duration(max_time)),
        ..Limits::default()
    }
}

/// At least a millisecond, so that a search always reaches its first batch.
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
        // A twentieth, but at most half of the gain.
        assert_eq!(with_lag(100, 20, 1), 5.0);
        assert_eq!(with_lag(100, 10, 2), 4.0);
        assert_eq!(with_lag(100, 10, 8), 1.0);
        assert_eq!(with_lag(100, 10, 12), 0.0);
        // No gain.
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
