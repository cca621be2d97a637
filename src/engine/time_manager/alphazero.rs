//! AlphaZero's time management: a twentieth of the remaining time for every move (Silver et al. 2018, supplementary
//! materials). It spends much early and never runs out.

use super::{ClockState, SearchCost, TimeManager, limits};
use crate::{options::time_manager::AlphaZero, search::Limits};

/// The manager; it has no state.
pub(super) struct AlphaZeroManager(AlphaZero);

impl AlphaZeroManager {
    /// A manager for a new game.
    pub fn new(parameters: AlphaZero) -> AlphaZeroManager {
        AlphaZeroManager(parameters)
    }
}

impl TimeManager for AlphaZeroManager {
    fn plan(&mut self, clock: &ClockState) -> Limits {
        // Time that is left at the time control is lost, so the last moves before it may take an even share.
        let even = clock
            .moves_to_go
            .map_or(0.0, |moves| 1.0 / f64::from(moves.max(1)));
        let part = (self.0.time_pct / 100.0).max(even);
        let factor = f64::from(clock.slowmover) * clock.ponder_factor(1.0);
        let moves = clock.usual_moves();
        limits(clock.usable(moves) * part * factor, clock.max_time(moves))
    }

    fn finish(&mut self, _: &SearchCost) {}
}

#[cfg(test)]
mod tests {
    use super::{super::simulation::quiet, *};

    #[test]
    fn a_twentieth_or_the_configured_percentage() {
        for (percent, clock, expected) in [
            (5.0, quiet(100_200, 0, None, 0), 5_000),
            (5.0, quiet(100_200, 0, None, 300), 5_000),
            (12.0, quiet(100_200, 10_000, None, 0), 12_000),
            (5.0, quiet(100_200, 0, Some(40), 0), 5_000),
            (5.0, quiet(100_200, 0, Some(4), 0), 25_000),
            (5.0, quiet(100_200, 0, Some(1), 0), 100_000),
        ] {
            let parameters = AlphaZero { time_pct: percent };
            let limits = AlphaZeroManager::new(parameters).plan(&clock);
            assert_eq!(limits.budget.unwrap().as_millis(), expected, "{clock:?}");
        }
    }
}
