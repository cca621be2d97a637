//! The time manager: from the clock to the limits of one search. Pure functions, so that their promises can be tested in
//! tables: they never plan to use more than there is, whatever the GUI sends.

mod legacy;

use std::time::Duration;

pub use self::legacy::plan;

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
    /// Multiplies the time spent (1 is normal).
    pub slowmover: f32,
    /// Whether part of the thinking happens on the opponent's time.
    pub ponder: bool,
}

/// The time for `go movetime`: a little less than asked for, because the answer has a way to go too.
pub fn fixed(movetime: Duration, overhead: Duration) -> Duration {
    to_duration((movetime - overhead.min(movetime / 10)).as_secs_f64())
}

/// At least a millisecond, so that a search always gets to its first batch.
fn to_duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(Duration::MAX)
        .max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movetime_keeps_a_reserve() {
        let ms = Duration::from_millis;
        assert_eq!(fixed(ms(1000), ms(200)), ms(900));
        assert_eq!(fixed(ms(10_000), ms(200)), ms(9_800));
        assert_eq!(fixed(ms(0), ms(200)), ms(1));
    }
}
