//! lc0's "smooth" time manager: it aims at trees of equal size for every move rather than at equal times. From the
//! speed, the usual tree reuse and the time that smart pruning usually saves it computes how much time that takes. A
//! part of each move's time goes to a bank, which is used by searches whose choice is open.

use std::time::Duration;

use super::{ClockState, SearchCost, TimeManager, first_share, limits, to_duration};
use crate::{
    options::time_manager::Smooth,
    search::{Limits, limits::TimeBank},
};

/// The manager, with its estimates from the game. Times are in seconds.
pub(super) struct SmoothManager {
    parameters: Smooth,
    /// Fraction of a tree that the next move reuses.
    reuse: f64,
    /// New visits per second, once measured.
    speed: Option<f64>,
    /// Fraction of a budget that is used.
    use_of_time: f64,
    /// Time in the bank; `None` before the first move.
    bank: Option<f64>,
    last: Option<Last>,
}

/// The last planned search.
struct Last {
    budget: f64,
    /// Average time per move for the rest of the game.
    mean: f64,
    known_nodes: u64,
    /// Set when it has ended.
    nodes: Option<u64>,
}

impl SmoothManager {
    /// A manager for a new game.
    pub fn new(parameters: Smooth) -> SmoothManager {
        SmoothManager {
            reuse: parameters.init_tree_reuse.min(parameters.max_tree_reuse),
            speed: None,
            use_of_time: parameters.init_timeuse.max(parameters.min_timeuse),
            bank: None,
            last: None,
            parameters,
        }
    }

    /// Updates the estimate of tree reuse.
    fn record_reuse(&mut self, known_nodes: u64) {
        if let Some(nodes) = self.last.as_ref().and_then(|last| last.nodes) {
            let seen = known_nodes as f64 / (nodes as f64).max(1.0);
            let seen = seen.clamp(0.0, self.parameters.max_tree_reuse);
            let rate = self.parameters.tree_reuse_update_rate;
            self.reuse = approach(self.reuse, seen, 1.0 / rate);
        }
    }

    /// The time for this move if each is to have a tree of the same size; `mean` is the average time of a move, `total`
    /// that of all moves.
    fn time_worth(&self, mean: f64, total: f64, known_nodes: u64) -> f64 {
        match self.speed {
            Some(speed) => (mean / (1.0 - self.reuse) - known_nodes as f64 / speed).max(0.0),
            // The first move of a game, for which nothing is known.
            None if known_nodes == 0 => first_share(mean / (1.0 - self.reuse), mean, total),
            None => mean,
        }
    }
}

/// Moves from `from` half of the remaining way to `to` in each half-life.
fn approach(from: f64, to: f64, half_lives: f64) -> f64 {
    to + (from - to) * 0.5_f64.powf(half_lives)
}

impl TimeManager for SmoothManager {
    fn plan(&mut self, clock: &ClockState) -> Limits {
        self.record_reuse(clock.known_nodes);
        let parameters = &self.parameters;
        let moves = clock.expected_moves(parameters.midpoint, parameters.steepness);
        let total = clock.total(moves);
        let most_in_bank = parameters.max_piggybank_moves * total / moves;
        let first = clock.remaining() * parameters.init_piggybank;
        // The last moves before the time control may take the rest.
        let bank = self
            .bank
            .unwrap_or(first)
            .min(most_in_bank)
            .min(total * (1.0 - 1.0 / moves));
        let mean = (total - bank) / moves;
        let time_worth = self.time_worth(mean, total, clock.known_nodes);
        let deposit = (time_worth * parameters.per_move_piggybank).min(most_in_bank - bank);
        let deposit = if moves > 1.0 { deposit.max(0.0) } else { 0.0 };
        let factor = f64::from(clock.slowmover) * clock.ponder_factor(moves);
        let budget = (time_worth - deposit) / self.use_of_time * factor;
        let max_time = if moves > 1.0 {
            clock
                .max_time(moves)
                .min(clock.remaining() * parameters.max_move_budget)
        } else {
            clock.max_time(moves)
        };
        let budget = budget.min(max_time);
        self.bank = Some(bank + deposit);
        self.last = Some(Last {
            budget,
            mean,
            known_nodes: clock.known_nodes,
            nodes: None,
        });
        let from_millis = |millis: f64| to_duration(millis / 1000.0);
        let limits = limits(budget, max_time);
        let rest = limits.movetime.unwrap_or_default() - limits.budget.unwrap_or_default();
        let open = Duration::try_from_secs_f64(bank * parameters.max_piggybank_use);
        Limits {
            bank: Some(TimeBank {
                time: open.unwrap_or(Duration::MAX).min(rest),
                forced: from_millis(parameters.force_piggybank_ms),
                period: from_millis(parameters.trend_nps_update_period_ms),
                best_pace: parameters.bestmove_optimism,
                other_pace: parameters.overtaker_optimism,
            }),
            ..limits
        }
    }

    fn discard_savings(&mut self) {
        (self.bank, self.last) = (None, None);
    }

    fn finish(&mut self, spent: &SearchCost) {
        let Some(last) = &mut self.last else { return };
        let parameters = &self.parameters;
        let time = spent.time.as_secs_f64();
        last.nodes = Some(spent.nodes);
        let from_bank = (time - last.budget).max(0.0);
        self.bank = self.bank.map(|bank| (bank - from_bank).max(0.0));
        let seen = (time / last.budget.max(1e-3)).min(1.0);
        let moves = time / last.mean.max(1e-3);
        let half_lives = moves / parameters.timeuse_update_rate;
        self.use_of_time = approach(self.use_of_time, seen, half_lives).max(parameters.min_timeuse);
        let new = spent.nodes.saturating_sub(last.known_nodes) as f64;
        if new > 0.0 && time > 0.0 {
            let seen = new / time;
            let half_lives = time / parameters.nps_update_period;
            self.speed = Some(match self.speed {
                Some(speed) => approach(speed, seen, half_lives),
                None => seen,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::simulation::quiet, *};

    const SPEED: u64 = 10_000;

    /// Plans a move with a tree that starts with `known` nodes, and uses the whole budget.
    fn play(manager: &mut SmoothManager, known: u64) -> (f64, u64) {
        let limits = manager.plan(&ClockState {
            known_nodes: known,
            ..quiet(100_200, 0, None, 40)
        });
        let time = limits.budget.unwrap();
        let nodes = known + (time.as_secs_f64() * SPEED as f64) as u64;
        manager.finish(&SearchCost { time, nodes });
        (time.as_secs_f64(), nodes)
    }

    #[test]
    fn trees_become_equal_not_times() {
        let mut manager = SmoothManager::new(Smooth {
            init_piggybank: 0.0,
            per_move_piggybank: 0.0,
            init_timeuse: 1.0,
            tree_reuse_update_rate: 1e3,
            ..Smooth::default()
        });
        play(&mut manager, 0);
        let (without, size_without) = play(&mut manager, 0);
        let (with, size_with) = play(&mut manager, size_without / 2);
        assert!(
            size_with.abs_diff(size_without) < size_without / 50,
            "{size_with} {size_without}"
        );
        assert!((with / without - 0.5).abs() < 0.02, "{with} {without}");
    }

    #[test]
    fn the_first_move_has_the_time_for_a_tree_that_later_ones_inherit() {
        let budget = |init_tree_reuse| {
            let mut manager = SmoothManager::new(Smooth {
                init_tree_reuse,
                per_move_piggybank: 0.0,
                ..Smooth::default()
            });
            let clock = quiet(100_200, 0, None, 0);
            manager.plan(&clock).budget.unwrap().as_secs_f64()
        };
        assert!((budget(0.5) / budget(0.0) - 2.0).abs() < 1e-3);
    }

    #[test]
    fn the_bank_takes_a_part_of_each_move_and_gives_it_back() {
        let mut manager = SmoothManager::new(Smooth::default());
        let clock = quiet(100_200, 0, None, 0);
        let limits = manager.plan(&clock);
        let bank = limits.bank.clone().unwrap();
        // 9 % of the clock, of which 94 % may be used.
        assert!((bank.time.as_secs_f64() - 100.2 * 0.09 * 0.94).abs() < 1e-6);
        let before = manager.bank.unwrap();
        assert!((before - 100.2 * 0.09) > 0.1);
        let time = limits.budget.unwrap() + Duration::from_secs(3);
        manager.finish(&SearchCost { time, nodes: 100 });
        assert!((before - manager.bank.unwrap() - 3.0).abs() < 1e-6);
    }

    #[test]
    fn the_use_of_time_is_learnt() {
        let mut manager = SmoothManager::new(Smooth {
            init_tree_reuse: 0.0,
            ..Smooth::default()
        });
        let clock = quiet(100_200, 0, None, 0);
        let first = manager.plan(&clock).budget.unwrap();
        for _ in 0..40 {
            let time = manager.plan(&clock).budget.unwrap() / 2;
            manager.finish(&SearchCost { time, nodes: 0 });
        }
        assert!((0.34..0.55).contains(&manager.use_of_time));
        assert!(manager.plan(&clock).budget.unwrap() > first);
    }
}
