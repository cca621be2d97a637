//! lc0's "simple" time manager: a percentage of the clock that grows with the game, a part of the increment, and the
//! time that the previous move left unused.

use super::{ClockState, SearchCost, TimeManager, limits};
use crate::{options::time_manager::Simple, search::Limits};

/// The manager, with the unused time of the last move.
pub(super) struct SimpleManager {
    parameters: Simple,
    /// Unused seconds of the last move.
    unused: f64,
    /// The budget of the last planned search, in seconds.
    budget: f64,
    is_first: bool,
}

impl SimpleManager {
    /// A manager for a new game.
    pub fn new(parameters: Simple) -> SimpleManager {
        SimpleManager {
            parameters,
            unused: 0.0,
            budget: 0.0,
            is_first: true,
        }
    }
}

impl TimeManager for SimpleManager {
    fn plan(&mut self, clock: &ClockState) -> Limits {
        let parameters = &self.parameters;
        let percent = parameters.base_pct + parameters.ply_pct * f64::from(clock.ply);
        // Time that is left at the time control is lost: no move before it gets less than its even share.
        let even = clock
            .moves_to_go
            .map_or(0.0, |moves| 1.0 / f64::from(moves.max(1)));
        let moves = clock.usual_moves();
        let usable = clock.usable(moves);
        let increment = clock.increment.as_secs_f64() * parameters.time_factor;
        let increment = increment * usable / clock.remaining().max(1e-3);
        let bonus = if self.is_first {
            1.0 + parameters.opening_bonus_pct / 100.0
        } else {
            1.0
        };
        let factor = f64::from(clock.slowmover) * clock.ponder_factor(moves) * bonus;
        let share = usable * (percent / 100.0).max(even) + increment;
        let limits = limits(share * factor + self.unused, clock.max_time(moves));
        self.is_first = false;
        self.budget = limits.budget.unwrap_or_default().as_secs_f64();
        limits
    }

    fn finish(&mut self, spent: &SearchCost) {
        self.unused = (self.budget - spent.time.as_secs_f64()).max(0.0);
    }

    fn discard_savings(&mut self) {
        self.unused = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::simulation::quiet, *};

    #[test]
    fn the_percentage_grows_and_unused_time_is_added() {
        let mut manager = SimpleManager::new(Simple {
            opening_bonus_pct: 100.0,
            ..Simple::default()
        });
        let mut budget = |clock: &ClockState, used: u64| {
            let budget = manager.plan(clock).budget.unwrap();
            manager.finish(&SearchCost {
                time: Duration::from_millis(used),
                nodes: 1,
            });
            budget.as_millis()
        };
        // 1.4 % of 100 s, twice because it is the first move.
        assert_eq!(budget(&quiet(100_200, 0, None, 0), 800), 2_800);
        // 1.4 + 2 * 0.049 percent, and the two seconds left over.
        assert_eq!(budget(&quiet(100_200, 0, None, 2), 3_498), 3_498);
        // With an increment of a second: one and a half more, less the overhead's share.
        let with_increment = budget(&quiet(100_200, 1_000, None, 2), 10_000);
        assert!(
            (2_990..=2_998).contains(&with_increment),
            "{with_increment}"
        );
        // An even share before the time control.
        assert_eq!(budget(&quiet(100_200, 0, Some(10), 2), 10_000), 10_000);
    }
}
