//! The engine's clock: when it began to run, which time manager divides it, and what of it was lost on the way between engine
//! and GUI in this game.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::{
    chess::{History, Place},
    options::{Options, time_manager::TimeManagerChoice},
    search::{
        Limits,
        time::{self, ClockState, Spent, TimeManager, lag::Lag},
    },
};

/// A pause between `position` and `go` that is longer than this is no delay on the way: nobody's clock is running.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// The last part of the reserve, of so many.
const LAST_PART: u32 = 8;

/// When the clock may have begun to run, by the engine's clock.
#[derive(Clone, Copy, Debug)]
struct Start {
    at: Duration,
    /// Whether the GUI was told that the engine is ready, after the position came.
    is_ready: bool,
}

/// Told when the GUI hears that the engine is ready.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyMark(Arc<Mutex<Option<Start>>>);

impl ReadyMark {
    /// The GUI is told, now. It waits for that before it starts the clock.
    pub fn set(&self, now: Duration) {
        if let Some(start) = &mut *self.0.lock() {
            *start = Start {
                at: now,
                is_ready: true,
            };
        }
    }
}

/// What is remembered of a game's time.
pub(super) struct Timing {
    choice: TimeManagerChoice,
    manager: Box<dyn TimeManager>,
    lag: Lag,
    last: Option<Planned>,
    start: ReadyMark,
}

/// The last search that had a clock.
#[derive(Clone, Copy, Debug)]
struct Planned {
    clock: ClockState,
    /// Where in the game it was.
    place: Place,
    received: Duration,
    /// How long it was to take at most.
    longest: Duration,
    /// How long it took, once it has ended.
    used: Option<Duration>,
}

impl Timing {
    /// Before the first game.
    pub fn new(options: &Options) -> Timing {
        Timing {
            choice: options.time_manager.clone(),
            manager: time::manager(&options.time_manager),
            lag: Lag::default(),
            last: None,
            start: ReadyMark::default(),
        }
    }

    /// Another game begins. What its clock loses is best guessed by what the last one's did.
    pub fn new_game(&mut self) {
        self.manager = time::manager(&self.choice);
        self.last = None;
    }

    /// A position has come: many GUIs start the clock now.
    pub fn position_set(&self, now: Duration) {
        *self.start.0.lock() = Some(Start {
            at: now,
            is_ready: false,
        });
    }

    /// To be told when the GUI hears that the engine is ready.
    pub fn ready_mark(&self) -> ReadyMark {
        self.start.clone()
    }

    /// When the clock for a `go` that came `now` began to run.
    pub fn started(&self, strict: bool, now: Duration) -> Duration {
        match self.start.0.lock().take() {
            Some(start) if strict && start.is_ready => now,
            Some(start) if now.saturating_sub(start.at) <= LONGEST_DELAY => start.at,
            _ => now,
        }
    }

    /// The limits that the clock sets to a search of the end of `history`.
    pub fn plan(
        &mut self,
        options: &Options,
        history: &History,
        clock: ClockState,
        received: Duration,
    ) -> Limits {
        if self.choice != options.time_manager {
            self.choice = options.time_manager.clone();
            self.manager = time::manager(&self.choice);
        }
        self.see_lag(history, &clock);
        let clock = ClockState {
            overhead: self.lag.overhead(clock.overhead),
            lag: self.lag.mean(),
            ..clock
        };
        let limits = self.manager.plan(&clock);
        self.last = Some(Planned {
            clock,
            place: history.place(),
            received,
            longest: limits.max_time().unwrap_or(Duration::MAX),
            used: None,
        });
        limits
    }

    /// How long to ponder, if not as long as the opponent thinks: `remaining` is on the own clock, and so much of it was `asked` to
    /// be kept in reserve.
    pub fn pondering(&self, remaining: Duration, asked: Duration) -> Option<Duration> {
        time::pondering(remaining, self.lag.overhead(asked))
    }

    /// Whether what is on the own clock is the last of what was `asked` to be kept in reserve: there is no time to search any more.
    pub fn is_at_the_end(&self, remaining: Duration, asked: Duration) -> bool {
        remaining < self.lag.overhead(asked) / LAST_PART
    }

    /// The search has ended, `now`, with so many visits of the root.
    pub fn ended(&mut self, now: Duration, nodes: u64) {
        if let Some(last) = self.last.as_mut().filter(|last| last.used.is_none()) {
            let time = now.saturating_sub(last.received);
            last.used = Some(time);
            self.manager.finish(&Spent { time, nodes });
        }
    }

    /// If the last search was for the move before, its clock says what was lost on the way. What the search took beyond its
    /// plan is lost, too: on a busy machine, threads wait for their turn.
    fn see_lag(&mut self, history: &History, clock: &ClockState) {
        let Some(last) = self.last else { return };
        let is_next = history.place_before(2) == Some(last.place);
        if let (true, Some(used)) = (is_next, last.used) {
            let before = last.clock;
            let used = used.min(last.longest);
            self.lag
                .record(before.remaining, before.increment, clock.remaining, used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::setup;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_clock_runs_since_the_position_unless_timing_is_strict() {
        let ms = Duration::from_millis;
        let timing = Timing::new(&Options::default());
        assert_eq!(
            timing.started(false, SECOND),
            SECOND,
            "there was no position"
        );
        for (strict, is_ready, expected) in [
            (false, false, 10),
            (true, false, 10),
            (false, true, 20),
            (true, true, 40),
        ] {
            timing.ready_mark().set(ms(5));
            timing.position_set(ms(10));
            if is_ready {
                timing.ready_mark().set(ms(20));
            }
            assert_eq!(timing.started(strict, ms(40)), ms(expected));
            assert_eq!(timing.started(strict, ms(50)), ms(50), "another go");
        }
        timing.position_set(ms(10));
        assert_eq!(
            timing.started(false, SECOND * 3),
            SECOND * 3,
            "a person types"
        );
    }

    fn clock(remaining: Duration) -> ClockState {
        ClockState {
            remaining,
            increment: Duration::ZERO,
            moves_to_go: None,
            ply: 0,
            overhead: Duration::from_millis(200),
            lag: None,
            slowmover: 1.0,
            ponder: false,
            known_nodes: 0,
        }
    }

    #[test]
    fn the_overhead_grows_with_the_lag_that_was_seen() {
        let moves = ["e2e4", "e7e5", "g1f3", "b8c6"].map(String::from);
        let game = |plies: usize| setup::history_from(None, &moves[..plies]).unwrap();
        let options = Options::default();
        let budget_with_lag = |lag: Duration| {
            let mut timing = Timing::new(&options);
            timing.plan(&options, &game(0), clock(60 * SECOND), Duration::ZERO);
            timing.ended(SECOND, 100);
            timing.plan(&options, &game(2), clock(59 * SECOND - lag), SECOND);
            timing.last.unwrap().clock.overhead
        };
        assert_eq!(budget_with_lag(Duration::ZERO), Duration::from_millis(200));
        assert_eq!(budget_with_lag(SECOND), 2 * SECOND);
        // A search that took longer than was planned.
        let mut timing = Timing::new(&options);
        let limits = timing.plan(&options, &game(0), clock(60 * SECOND), Duration::ZERO);
        let used = limits.max_time().unwrap() + SECOND;
        timing.ended(used, 100);
        timing.plan(&options, &game(2), clock(60 * SECOND - used), used);
        assert_eq!(timing.lag.mean(), Some(SECOND));
        // After a step back nothing is known about the time between.
        let mut timing = Timing::new(&options);
        timing.plan(&options, &game(0), clock(60 * SECOND), Duration::ZERO);
        timing.ended(SECOND, 100);
        timing.plan(&options, &game(4), clock(55 * SECOND), SECOND);
        assert_eq!(timing.lag.mean(), None);
    }

    #[test]
    fn a_new_game_or_another_manager_starts_afresh() {
        let mut options = Options::default();
        let mut timing = Timing::new(&options);
        let budget = |timing: &mut Timing, options: &Options| {
            let game = History::default();
            let limits = timing.plan(options, &game, clock(60 * SECOND), Duration::ZERO);
            timing.ended(limits.budget.unwrap(), 100);
            limits.budget.unwrap()
        };
        let first = budget(&mut timing, &options);
        assert!(
            budget(&mut timing, &options) < first / 2,
            "the bonus of the first move"
        );
        timing.new_game();
        assert_eq!(budget(&mut timing, &options), first);
        options.set("TimeManager", "alphazero").unwrap();
        let twentieth = budget(&mut timing, &options);
        assert!(twentieth > first / 4 && twentieth < first * 2);
        assert_eq!(budget(&mut timing, &options), twentieth);
    }
}
