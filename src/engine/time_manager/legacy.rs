//! lc0's "legacy" time manager. The number of remaining moves is estimated from the moves played, and the clock plus
//! the increments of those moves is divided evenly. Time that smart pruning saves goes to the next moves, and the
//! first move of a game gets more, because it has no tree to reuse.

use super::{ClockState, SearchCost, TimeManager, first_share, limits};
use crate::{options::time_manager::Legacy, search::Limits};

/// Maximum number of plies of an opening book that count for the bonus of the first move.
const MAX_BOOK_PLIES: u32 = 12;

/// The manager, with the time that it has saved so far.
pub(super) struct LegacyManager {
    parameters: Legacy,
    /// Seconds that were planned but not used.
    saved: f64,
    /// The budget of the last planned search without what `Slowmover` adds, in seconds: what is left of it is saved.
    planned: f64,
    is_first: bool,
}

impl LegacyManager {
    /// A manager for a new game.
    pub fn new(parameters: Legacy) -> LegacyManager {
        LegacyManager {
            parameters,
            saved: 0.0,
            planned: 0.0,
            is_first: true,
        }
    }

    /// The factor on the share of the next move.
    fn bonus(&self, ply: u32) -> f64 {
        let parameters = &self.parameters;
        if self.is_first {
            let book = f64::from(ply.min(MAX_BOOK_PLIES)) * parameters.book_ply_bonus;
            1.0 + parameters.first_move_bonus + book
        } else {
            1.0
        }
    }
}

impl TimeManager for LegacyManager {
    fn plan(&mut self, clock: &ClockState) -> Limits {
        let parameters = &self.parameters;
        let moves = clock.expected_moves(parameters.midpoint_move, parameters.steepness);
        let total = clock.total(moves);
        // The time of the other moves cannot be spent at once.
        let extra = (self.saved * parameters.immediate_use).clamp(0.0, total / 2.0);
        self.saved -= extra;
        let slowmover = f64::from(clock.slowmover) * parameters.slowmover;
        let factor = slowmover * clock.ponder_factor(moves);
        let even = (total - extra - self.saved).max(0.0) / moves * factor;
        let excess = even * (1.0 - 1.0 / slowmover.max(1.0));
        let share = first_share(even * self.bonus(clock.ply), even, total) + extra;
        let limits = limits(share, clock.max_time(moves));
        self.is_first = false;
        self.planned = limits.budget.unwrap_or_default().as_secs_f64() - excess;
        limits
    }

    fn finish(&mut self, spent: &SearchCost) {
        self.saved = (self.saved + self.planned - spent.time.as_secs_f64()).max(0.0);
    }

    fn discard_savings(&mut self) {
        self.saved = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::simulation::clock, *};

    fn budget(manager: &mut LegacyManager, clock: &ClockState) -> u128 {
        manager.plan(clock).budget.unwrap().as_millis()
    }

    /// In the middle of a game, with nothing saved.
    fn manager() -> LegacyManager {
        LegacyManager {
            is_first: false,
            ..LegacyManager::new(Legacy::default())
        }
    }

    #[test]
    fn shares_are_sensible() {
        for (clock, expected) in [
            // An hour: a move takes a fiftieth.
            (clock(3_600_000, 0, None, 0), 69_899),
            // 10+0.1 at the start: about the share plus the increment.
            (clock(10_000, 100, None, 0), 278),
            // 40 moves in 10 s; the last of them may use all.
            (clock(10_000, 0, Some(40), 0), 235),
            (clock(1_000, 0, Some(1), 78), 800),
            (clock(1_000, 0, Some(2), 76), 395),
            // The clock is below the overhead, or empty.
            (clock(100, 0, None, 0), 1),
            (clock(0, 0, None, 0), 1),
            // In a very long game a move still gets a share.
            (clock(60_000, 0, None, 400), 2_845),
        ] {
            let got = budget(&mut manager(), &clock);
            assert!(
                got.abs_diff(expected) <= expected / 50 + 1,
                "{clock:?}: {got}"
            );
        }
    }

    #[test]
    fn saved_time_is_used_by_the_next_move() {
        let clock = clock(100_000, 0, None, 20);
        let mut manager = manager();
        let usual = budget(&mut manager, &clock);
        manager.finish(&SearchCost {
            time: Duration::from_millis(usual as u64 - 500),
            nodes: 1,
        });
        let more = budget(&mut manager, &clock);
        assert!(
            (usual + 480..=usual + 500).contains(&more),
            "{usual} {more}"
        );
        // And only once.
        manager.finish(&SearchCost {
            time: Duration::from_millis(more as u64),
            nodes: 1,
        });
        assert!(budget(&mut manager, &clock) <= usual + 1);
    }

    /// As in lc0, which takes it off what was saved.
    #[test]
    fn what_slowmover_adds_is_not_saved() {
        let clock = ClockState {
            slowmover: 2.0,
            ..clock(300_000, 0, None, 40)
        };
        let mut manager = manager();
        let usual = budget(&mut manager, &clock);
        manager.finish(&SearchCost {
            time: Duration::from_millis(usual as u64 / 2),
            nodes: 1,
        });
        assert!(budget(&mut manager, &clock).abs_diff(usual) <= 1);
    }

    /// lc0's `immediate-use`: the rest is kept for later moves.
    #[test]
    fn saved_time_is_no_part_of_the_shares() {
        let parameters = Legacy {
            immediate_use: 0.0,
            ..Legacy::default()
        };
        let mut kept = LegacyManager {
            saved: 10.0,
            is_first: false,
            ..LegacyManager::new(parameters)
        };
        let got = budget(&mut kept, &clock(60_000, 0, None, 40));
        assert_eq!(got, budget(&mut manager(), &clock(50_000, 0, None, 40)));
    }

    #[test]
    fn the_first_move_has_more_time_and_more_after_a_book() {
        let share = budget(&mut manager(), &clock(100_000, 0, None, 0)) as f64;
        for (ply, factor) in [(0, 2.8), (4, 3.8), (12, 5.8)] {
            let clock = clock(100_000, 0, None, ply);
            let mut fresh = LegacyManager::new(Legacy::default());
            let first = budget(&mut fresh, &clock) as f64;
            // Each ply of the book leaves half a move fewer to come.
            let moves = |ply: u32| 51.5 - f64::from(ply) / 2.0;
            let expected = share * factor * moves(0) / moves(ply);
            assert!((first / expected - 1.0).abs() < 0.01, "{first} {expected}");
        }
        // A game that is resumed.
        let mut fresh = LegacyManager::new(Legacy::default());
        let first = budget(&mut fresh, &clock(20_000, 0, None, 120));
        assert!((2_000..3_100).contains(&first), "{first}");
    }

    #[test]
    fn savings_of_another_game_are_discarded() {
        let mut manager = manager();
        budget(&mut manager, &clock(600_000, 0, None, 20));
        manager.finish(&SearchCost {
            time: Duration::ZERO,
            nodes: 1,
        });
        manager.discard_savings();
        let usual = budget(&mut self::manager(), &clock(20_000, 0, None, 0));
        assert_eq!(budget(&mut manager, &clock(20_000, 0, None, 0)), usual);
    }
}
