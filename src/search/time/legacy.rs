//! lc0's "legacy" time manager. A typical game is about 50 moves long; how many are still to come, after `p` moves,
//! is estimated as `m (1 + 2 (p/m)^s)^(1/s) - p`, which starts at `m` and never falls to zero. The clock, with the
//! increments of those moves, is shared out equally.

use super::{ClockState, to_duration};
use crate::search::Limits;

/// Moves of a typical game.
const TYPICAL_GAME: f64 = 51.5;
/// How sharply the estimate bends when a game becomes longer than that.
const STEEPNESS: f64 = 7.0;
/// A single move may take this many times its share before it is cut off.
const HARD_FACTOR: f64 = 3.0;
/// And at most this part of the clock, while other moves have to be made with it.
const HARD_PART: f64 = 0.6;
/// The overhead is a reserve for one bad moment; every move loses this part of it.
const LAG_PART: f64 = 0.05;
/// What is spent of a clock that is already below the overhead.
const EMERGENCY_PART: f64 = 0.05;

/// The time to aim at and the time never to exceed.
pub fn plan(clock: &ClockState) -> Limits {
    let remaining = clock.remaining.as_secs_f64();
    let overhead = clock.overhead.as_secs_f64();
    let moves = expected_moves(clock);
    // What the clock gains, or loses to lag, with each of the moves after this one.
    let gain = clock.increment.as_secs_f64() - overhead * LAG_PART;
    let later = gain * (moves - 1.0);
    let usable = (remaining - overhead + later.min(0.0)).max(remaining * EMERGENCY_PART);
    let most = match clock.moves_to_go {
        Some(1) => usable,
        _ => usable * HARD_PART,
    };
    let total = (remaining - overhead + later).max(usable);
    let ponder = if clock.ponder { 1.25 } else { 1.0 };
    let share = total / moves * f64::from(clock.slowmover) * ponder;
    Limits {
        budget: Some(to_duration(share.min(most))),
        movetime: Some(to_duration((share * HARD_FACTOR).min(most))),
        ..Limits::default()
    }
}

/// How many moves the clock has to last for.
fn expected_moves(clock: &ClockState) -> f64 {
    let played = f64::from(clock.ply) / 2.0;
    let bend = 1.0 + 2.0 * (played / TYPICAL_GAME).powf(STEEPNESS);
    let estimate = TYPICAL_GAME * bend.powf(1.0 / STEEPNESS) - played;
    match clock.moves_to_go {
        Some(moves) => estimate.min(f64::from(moves.max(1))),
        None => estimate,
    }
    .max(1.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn clock(remaining: u64, increment: u64, moves_to_go: Option<u32>, ply: u32) -> ClockState {
        ClockState {
            remaining: Duration::from_millis(remaining),
            increment: Duration::from_millis(increment),
            moves_to_go,
            ply,
            overhead: Duration::from_millis(200),
            slowmover: 1.0,
            ponder: false,
        }
    }

    fn millis(limits: &Limits) -> (u128, u128) {
        (
            limits.budget.unwrap().as_millis(),
            limits.movetime.unwrap().as_millis(),
        )
    }

    #[test]
    fn shares_are_sensible() {
        for (clock, budget, hard) in [
            // An hour: the first move takes a fiftieth.
            (clock(3_600_000, 0, None, 0), 69_899, 209_697),
            // 10+0.1 at the start: about the share plus the increment.
            (clock(10_000, 100, None, 0), 278, 835),
            // 40 moves in 10 s; the last of them may take all.
            (clock(10_000, 0, Some(40), 0), 235, 705),
            (clock(1_000, 0, Some(1), 78), 800, 800),
            (clock(1_000, 0, Some(2), 76), 395, 474),
            // The clock is below the overhead, or empty.
            (clock(100, 0, None, 0), 1, 1),
            (clock(0, 0, None, 0), 1, 1),
            // A very long game still gets a tenth.
            (clock(60_000, 0, None, 400), 2_845, 8_537),
        ] {
            let got = millis(&plan(&clock));
            let near = |a: u128, b: u128| a.abs_diff(b) <= b / 50 + 1;
            assert!(
                near(got.0, budget) && near(got.1, hard),
                "{clock:?}: {got:?}"
            );
        }
    }

    #[test]
    fn never_more_than_there_is() {
        for remaining in [0, 1, 10, 100, 199, 200, 201, 1000, 60_000, u64::MAX / 4] {
            for increment in [0, 10, 1000, 3_600_000] {
                for moves_to_go in [None, Some(0), Some(1), Some(2), Some(40), Some(u32::MAX)] {
                    for ply in [0, 1, 60, 200, u32::MAX] {
                        for slowmover in [0.0, 1.0, 100.0] {
                            let mut clock = clock(remaining, increment, moves_to_go, ply);
                            clock.slowmover = slowmover;
                            let limits = plan(&clock);
                            let (budget, hard) = (limits.budget.unwrap(), limits.movetime.unwrap());
                            let usable = clock
                                .remaining
                                .saturating_sub(clock.overhead)
                                .max(clock.remaining / 20)
                                .max(Duration::from_millis(1));
                            assert!(budget <= hard, "{clock:?}");
                            assert!(
                                hard <= usable + Duration::from_micros(1)
                                    || hard - usable < usable / 1_000_000,
                                "{clock:?}: {hard:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Plays whole games by the clock; every move takes its hard limit and `delay` more.
    fn survives(mut clock: ClockState, refill: Option<(u32, u64)>, delay: u64) {
        for number in 0..400 {
            clock.ply = 2 * number;
            if let Some((moves, time)) = refill {
                if number > 0 && number % moves == 0 {
                    clock.remaining += Duration::from_millis(time);
                }
                clock.moves_to_go = Some(moves - number % moves);
            }
            let used = plan(&clock).movetime.unwrap() + Duration::from_millis(delay);
            assert!(used <= clock.remaining, "move {number}: {used:?} {clock:?}");
            clock.remaining = clock.remaining - used + clock.increment;
        }
    }

    #[test]
    fn no_game_is_lost_on_time() {
        for delay in [0, 3, 8] {
            survives(clock(1_000, 10, None, 0), None, delay);
            survives(clock(10_000, 100, None, 0), None, delay);
            survives(clock(10_000, 0, Some(40), 0), Some((40, 10_000)), delay);
        }
        survives(clock(10_000, 100, None, 0), None, 80);
    }
}
