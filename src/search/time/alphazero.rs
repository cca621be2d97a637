//! AlphaZero's use of time: the same part, a twentieth, of what is left for every move (Silver et al. 2018, supplementary
//! materials). It spends much early and never runs out.

use super::{ClockState, Spent, TimeManager, limits};
use crate::{options::time_manager::AlphaZero, search::Limits};

/// The manager; it needs no memory.
pub(super) struct AlphaZeroManager(AlphaZero);

impl AlphaZeroManager {
    /// At the beginning of a game.
    pub fn new(parameters: AlphaZero) -> AlphaZeroManager {
        AlphaZeroManager(parameters)
    }
}

impl TimeManager for AlphaZeroManager {
    fn plan(&mut self, clock: &ClockState) -> Limits {
        // What is left when the clock is filled up again is lost: the last moves before may take their share of all.
        let even = clock
            .moves_to_go
            .map_or(0.0, |moves| 1.0 / f64::from(moves.max(1)));
        let part = (self.0.time_pct / 100.0).max(even);
        let factor = f64::from(clock.slowmover) * clock.ponder_factor(1.0);
        let moves = clock.usual_moves();
        limits(clock.usable(moves) * part * factor, clock.most(moves))
    }

    fn learn(&mut self, _: &Spent) {}
}

#[cfg(test)]
mod tests {
    use super::{super::simulation::quiet, *};

    #[test]
    fn a_twentieth_or_what_the_option_says() {
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
