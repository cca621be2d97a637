//! Simulated games for every manager and the time controls that matter: no game is lost on time, lag included, and
//! the clock is used.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use super::{ClockState, SearchCost, TimeManager, lag::Lag, manager};
use crate::search::Limits;

/// A clock for tests; times in milliseconds.
pub(super) fn clock(
    remaining: u64,
    increment: u64,
    moves_to_go: Option<u32>,
    ply: u32,
) -> ClockState {
    ClockState {
        remaining: Duration::from_millis(remaining),
        increment: Duration::from_millis(increment),
        moves_to_go,
        ply,
        overhead: Duration::from_millis(200),
        lag: None,
        slowmover: 1.0,
        ponder: false,
        known_nodes: 0,
    }
}

/// The same with a measured lag of zero.
pub(super) fn quiet(
    remaining: u64,
    increment: u64,
    moves_to_go: Option<u32>,
    ply: u32,
) -> ClockState {
    ClockState {
        lag: Some(Duration::ZERO),
        ..clock(remaining, increment, moves_to_go, ply)
    }
}

const MANAGERS: [&str; 4] = ["legacy", "smooth", "simple", "alphazero"];

/// Base and increment in milliseconds, and moves until the base is added again.
const CONTROLS: [(u64, u64, Option<u32>); 4] = [
    (1_000, 10, None),
    (10_000, 100, None),
    (10_000, 0, Some(40)),
    (30_000, 0, None),
];

/// How a simulated search uses its time.
#[derive(Clone, Copy, Debug)]
enum TimeUse {
    /// All of its budget, and of the bank.
    Everything,
    /// A random part, as smart pruning leaves it, and the bank now and then.
    Pruned,
}

/// A simulated machine that searches, with lag.
struct Machine {
    rng: Xoshiro256PlusPlus,
    style: TimeUse,
    /// Milliseconds that every move loses, and that one move in fifty loses.
    lag: (u64, u64),
    /// Milliseconds that every move loses besides.
    steady_lag: u64,
    ponders: bool,
    nodes: u64,
}

impl Machine {
    fn search(&mut self, limits: &Limits) -> Duration {
        let budget = limits.budget.unwrap();
        let all = limits.budget_and_bank().unwrap();
        let used = match self.style {
            TimeUse::Everything => all,
            TimeUse::Pruned if self.rng.random_bool(0.1) => all,
            TimeUse::Pruned => budget.mul_f64(self.rng.random_range(0.2..1.0)),
        };
        self.nodes = self.nodes / 2 + (used.as_secs_f64() * 20_000.0) as u64;
        // A batch may be running when the time is up.
        used + Duration::from_millis(1)
    }

    fn loses(&mut self) -> Duration {
        let (usual, bad) = self.lag;
        let bad = if self.rng.random_bool(0.02) { bad } else { 0 };
        Duration::from_millis(self.steady_lag + self.rng.random_range(0..=usual) + bad)
    }
}

/// Plays `moves` moves. Returns the fraction of the total time that is used up after each move.
fn game(
    manager: &mut dyn TimeManager,
    (base, increment, refill): (u64, u64, Option<u32>),
    machine: &mut Machine,
    moves: u32,
) -> Vec<f64> {
    let mut state = ClockState {
        ponder: machine.ponders,
        ..clock(base, increment, refill, 0)
    };
    let mut lag = Lag::default();
    let (mut given, mut parts) = (state.remaining, Vec::new());
    for number in 0..moves {
        if let Some(every) = refill {
            if number > 0 && number % every == 0 {
                state.remaining += Duration::from_millis(base);
                given += Duration::from_millis(base);
            }
            state.moves_to_go = Some(every - number % every);
        }
        state.ply = 2 * number;
        state.overhead = lag.overhead(Duration::from_millis(200), state.remaining);
        state.lag = lag.mean();
        state.known_nodes = machine.nodes / 2;
        let limits = manager.plan(&state);
        let (budget, max_time) = (limits.budget.unwrap(), limits.movetime.unwrap());
        assert!(budget <= max_time && max_time <= state.remaining.max(Duration::from_millis(1)));
        let used = machine.search(&limits);
        manager.finish(&SearchCost {
            time: used,
            nodes: machine.nodes,
        });
        let charged = used + machine.loses();
        let before = state.remaining;
        state.remaining = before
            .checked_sub(charged)
            .unwrap_or_else(|| panic!("move {number} takes {charged:?} of {before:?}: {limits:?}"));
        state.remaining += state.increment;
        given += state.increment;
        lag.record(before, state.increment, state.remaining, used);
        parts.push(1.0 - state.remaining.as_secs_f64() / given.as_secs_f64());
    }
    parts
}

/// The seed of each simulated machine, its lag, whether it ponders, and the moves of its games. With pondering, a clock
/// without increment runs down sooner.
const MACHINES: [(u64, (u64, u64), bool, u32); 4] = [
    (1, (0, 0), false, 120),
    (2, (4, 60), false, 120),
    (3, (8, 120), false, 120),
    (4, (4, 60), true, 100),
];

/// The games of a manager at every time control, in both styles, on every machine that ponders or does not.
fn games(name: &str, ponders: bool) -> Vec<(String, TimeUse, Vec<f64>)> {
    let mut played = Vec::new();
    for control in CONTROLS {
        for style in [TimeUse::Everything, TimeUse::Pruned] {
            for (seed, lag, _, moves) in MACHINES.into_iter().filter(|machine| machine.2 == ponders)
            {
                let mut machine = Machine {
                    rng: Xoshiro256PlusPlus::seed_from_u64(seed),
                    style,
                    lag,
                    steady_lag: 0,
                    ponders,
                    nodes: 0,
                };
                let mut manager = manager(&name.parse().unwrap());
                let parts = game(&mut *manager, control, &mut machine, moves);
                let what = format!("{name} {control:?} {style:?} lag {lag:?}");
                played.push((what, style, parts));
            }
        }
    }
    played
}

#[test]
fn no_game_is_lost_on_time_and_the_clock_is_used() {
    for name in MANAGERS {
        for (what, style, parts) in [false, true]
            .into_iter()
            .flat_map(|ponders| games(name, ponders))
        {
            let least = match style {
                TimeUse::Everything => 0.5,
                TimeUse::Pruned => 0.3,
            };
            assert!(parts[39] > least, "{what}: {:.2}", parts[39]);
            assert!(parts[79] > 0.7, "{what}: {:.2}", parts[79]);
            // Enough is left for the second half of a game.
            assert!(parts[19] < 0.85, "{what}: {:.2}", parts[19]);
        }
    }
}

/// A clock that is filled up after some moves pays for the lag of all moves until then, however few are expected.
#[test]
fn a_steady_lag_loses_no_game_with_time_controls() {
    for (name, lag) in MANAGERS
        .into_iter()
        .flat_map(|name| [(name, 50), (name, 80)])
    {
        for style in [TimeUse::Everything, TimeUse::Pruned] {
            let mut machine = Machine {
                rng: Xoshiro256PlusPlus::seed_from_u64(5),
                style,
                lag: (0, 0),
                steady_lag: lag,
                ponders: false,
                nodes: 0,
            };
            let mut manager = manager(&name.parse().unwrap());
            game(&mut *manager, (10_000, 0, Some(40)), &mut machine, 120);
        }
    }
}

#[test]
fn the_page_has_the_part_of_the_time_that_is_used() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/time.md");
    let page = std::fs::read_to_string(page).unwrap();
    for name in MANAGERS {
        let played = games(name, false);
        let cells = [20, 40, 80, 120].map(|moves| {
            let percent = played.iter().map(|(_, _, parts)| 100.0 * parts[moves - 1]);
            let (low, high) = percent.fold((f64::INFINITY, 0.0_f64), |(low, high), part| {
                (low.min(part), high.max(part))
            });
            format!("{low:.0} to {high:.0} %")
        });
        let row = format!("| {name} | {} |", cells.join(" | "));
        assert!(page.contains(&row), "docs/time.md lacks: {row}");
    }
}

#[test]
fn pondering_does_not_overdraw_the_increments() {
    for name in MANAGERS {
        let left = [false, true].map(|ponders| {
            let mut machine = Machine {
                rng: Xoshiro256PlusPlus::seed_from_u64(1),
                style: TimeUse::Everything,
                lag: (0, 0),
                steady_lag: 0,
                ponders,
                nodes: 0,
            };
            let mut manager = manager(&name.parse().unwrap());
            let parts = game(&mut *manager, (10_000, 1_000, None), &mut machine, 25);
            (1.0 - parts[24]) * 35.0
        });
        assert!(left[1] > 0.8 * left[0], "{name} {left:?}");
    }
}

#[test]
fn never_more_than_there_is() {
    for name in MANAGERS {
        for remaining in [0, 1, 10, 100, 199, 200, 201, 1000, 60_000, u64::MAX / 4] {
            for increment in [0, 10, 1000, 3_600_000] {
                for moves_to_go in [None, Some(0), Some(1), Some(2), Some(40), Some(u32::MAX)] {
                    for ply in [0, 1, 60, 200, u32::MAX] {
                        for slowmover in [0.0, 1.0, 100.0] {
                            let state = ClockState {
                                slowmover,
                                known_nodes: u64::from(ply),
                                ..clock(remaining, increment, moves_to_go, ply)
                            };
                            let mut manager = manager(&name.parse().unwrap());
                            fits(&state, &manager.plan(&state));
                            // A second move, after one that took no time and one that took too much.
                            for time in [0, remaining] {
                                manager.finish(&SearchCost {
                                    time: Duration::from_millis(time),
                                    nodes: 1_000_000,
                                });
                                fits(&state, &manager.plan(&state));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Checks that a plan leaves the overhead, or most of a clock that is below it.
fn fits(clock: &ClockState, limits: &Limits) {
    let usable = clock
        .remaining
        .saturating_sub(clock.overhead)
        .max(clock.remaining / 20)
        .max(Duration::from_millis(1));
    let (budget, hard) = (limits.budget.unwrap(), limits.movetime.unwrap());
    assert!(budget <= hard, "{clock:?}");
    for time in [hard, limits.budget_and_bank().unwrap()] {
        // Beyond the precision of a clock that was set for centuries.
        let slack = usable / 1_000_000 + Duration::from_micros(1);
        assert!(time <= usable + slack, "{clock:?}: {limits:?}");
    }
}
