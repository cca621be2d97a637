//! The engine's clock: when it started, the time manager that divides it, and the lag between engine and GUI that was
//! measured so far.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::time_manager::{self, ClockState, SearchCost, TimeManager, lag::Lag};
use crate::{
    chess::{History, Place},
    options::{Options, time_manager::TimeManagerChoice},
    search::Limits,
};

/// Maximum delay between `position` and `go`: after a longer pause no clock was running.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Fraction of the reserve below which no time is left for a search.
const FINAL_FRACTION: u32 = 8;

/// When the GUI may have started the clock, on the engine's own clock.
#[derive(Clone, Copy, Debug)]
struct Start {
    at: Duration,
    /// Whether `readyok` was sent after the position.
    is_ready: bool,
}

/// Records when `readyok` is sent.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyMark(Arc<Mutex<Option<Start>>>);

impl ReadyMark {
    /// `readyok` is sent now. The GUI waits for it before it starts the clock.
    pub fn set(&self, now: Duration) {
        if let Some(start) = &mut *self.0.lock() {
            *start = Start {
                at: now,
                is_ready: true,
            };
        }
    }
}

/// The state of a game's clock.
pub(super) struct Timing {
    choice: TimeManagerChoice,
    manager: Box<dyn TimeManager>,
    lag: Lag,
    last: Option<Planned>,
    start: ReadyMark,
}

/// The last search with a clock.
#[derive(Clone, Copy, Debug)]
struct Planned {
    clock: ClockState,
    /// Where in the game it was.
    place: Place,
    received: Duration,
    /// Its maximum time.
    max_time: Duration,
    /// The time it took, once it has ended.
    used: Option<Duration>,
}

impl Timing {
    /// Before the first game.
    pub fn new(options: &Options) -> Timing {
        Timing {
            choice: options.time_manager.clone(),
            manager: time_manager::manager(&options.time_manager),
            lag: Lag::default(),
            last: None,
            start: ReadyMark::default(),
        }
    }

    /// Another game begins. The lag of the last one is the best estimate of its lag.
    pub fn new_game(&mut self) {
        self.manager = time_manager::manager(&self.choice);
        self.last = None;
    }

    /// A position was set: many GUIs start the clock now.
    pub fn position_set(&self, now: Duration) {
        *self.start.0.lock() = Some(Start {
            at: now,
            is_ready: false,
        });
    }

    /// For the sender of `readyok`.
    pub fn ready_mark(&self) -> ReadyMark {
        self.start.clone()
    }

    /// When the clock for a `go` received `now` started. It is that of one `go`: the next needs another.
    pub fn take_start(&self, strict: bool, now: Duration) -> Duration {
        match self.start.0.lock().take() {
            Some(start) if strict && start.is_ready => now,
            Some(start) if now.saturating_sub(start.at) <= MAX_DELAY => start.at,
            _ => now,
        }
    }

    /// The time limits of a search of the position at the end of `history`.
    pub fn plan(
        &mut self,
        options: &Options,
        history: &History,
        clock: ClockState,
        received: Duration,
    ) -> Limits {
        if self.choice != options.time_manager {
            self.choice = options.time_manager.clone();
            self.manager = time_manager::manager(&self.choice);
        }
        self.see_lag(history, &clock);
        // A GUI that sends only the position, without the moves, says nothing about the game.
        let says_nothing = |last: Planned| history.place().is_start() && last.place.is_start();
        let leaves = |last: Planned| !history.passes(last.place) && !says_nothing(last);
        if self.last.is_some_and(leaves) {
            self.manager.discard_savings();
        }
        let clock = ClockState {
            overhead: self.lag.overhead(clock.overhead, clock.remaining),
            lag: self.lag.mean(),
            ..clock
        };
        let limits = self.manager.plan(&clock);
        self.last = Some(Planned {
            clock,
            place: history.place(),
            received,
            max_time: limits.max_time().unwrap_or(Duration::MAX),
            used: None,
        });
        limits
    }

    /// Maximum time to ponder; `None` is as long as the opponent thinks. `remaining` is the engine's own time, of which
    /// `reserve` is kept.
    pub fn pondering(&self, remaining: Duration, reserve: Duration) -> Option<Duration> {
        time_manager::pondering(remaining, self.lag.overhead(reserve, remaining))
    }

    /// Whether so little of `reserve` remains on the engine's own clock that there is no time for a search.
    pub fn is_at_the_end(&self, remaining: Duration, reserve: Duration) -> bool {
        remaining < self.lag.overhead(reserve, remaining) / FINAL_FRACTION
    }

    /// The search has ended `now`, with this number of root visits.
    pub fn ended(&mut self, now: Duration, nodes: u64) {
        if let Some(last) = self.last.as_mut().filter(|last| last.used.is_none()) {
            let time = now.saturating_sub(last.received);
            last.used = Some(time);
            self.manager.finish(&SearchCost { time, nodes });
        }
    }

    /// If the last search was for the previous move, the two clocks give the lag. Time that the search took beyond its
    /// limit counts as lag, too: on a busy machine, threads have to wait.
    fn see_lag(&mut self, history: &History, clock: &ClockState) {
        let Some(last) = self.last else { return };
        let is_next = history.place_before(2) == Some(last.place);
        if let (true, Some(used)) = (is_next, last.used) {
            let before = last.clock;
            let used = used.min(last.max_time);
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
            timing.take_start(false, SECOND),
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
            assert_eq!(timing.take_start(strict, ms(40)), ms(expected));
            assert_eq!(timing.take_start(strict, ms(50)), ms(50), "another go");
        }
        timing.position_set(ms(10));
        assert_eq!(
            timing.take_start(false, SECOND * 3),
            SECOND * 3,
            "a user types commands"
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
        assert_eq!(timing.lag.overhead(Duration::ZERO, 50 * SECOND), 2 * SECOND);
        // After a step back nothing is known about the time between.
        let mut timing = Timing::new(&options);
        timing.plan(&options, &game(0), clock(60 * SECOND), Duration::ZERO);
        timing.ended(SECOND, 100);
        timing.plan(&options, &game(4), clock(55 * SECOND), SECOND);
        assert_eq!(
            timing.lag.overhead(Duration::ZERO, 50 * SECOND),
            Duration::ZERO
        );
    }

    #[test]
    fn savings_stay_in_their_game() {
        let moves = ["e2e4", "e7e5", "g1f3", "b8c6"].map(String::from);
        let game = |plies: usize| setup::history_from(None, &moves[..plies]).unwrap();
        let other = setup::history_from(None, &["d2d4".to_owned(), "d7d5".to_owned()]).unwrap();
        let only_fen = |fen: &str| setup::history_from(Some(fen), &[]).unwrap();
        let kings = [
            "4k3/8/8/8/8/8/8/4K2R w - - 0 40",
            "4k3/8/8/8/8/8/R7/4K3 w - - 4 42",
        ];
        let second_budget = |first: &History, second: &History| {
            let options = Options::default();
            let mut timing = Timing::new(&options);
            timing.plan(&options, first, clock(600 * SECOND), Duration::ZERO);
            // Nothing was used.
            timing.ended(Duration::ZERO, 100);
            timing
                .plan(&options, second, clock(60 * SECOND), Duration::ZERO)
                .budget
                .unwrap()
        };
        let (continued, left) = (
            second_budget(&game(0), &game(2)),
            second_budget(&game(0), &other),
        );
        assert_eq!(continued, left, "both go on from the start");
        let left = second_budget(&game(2), &other);
        assert!(left < second_budget(&game(2), &game(4)) / 2, "{left:?}");
        let left = second_budget(&game(2), &game(0));
        assert!(left < second_budget(&game(0), &game(2)) / 2, "{left:?}");
        let [first, second] = kings.map(only_fen);
        assert!(second_budget(&first, &second) > 2 * left);
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
