//! Decides whether more time would help: the choice at the root is open if the most visited move is not the one with
//! the best value, or if another move is about to overtake it. lc0's "smooth" time manager uses its bank then.

use std::time::Duration;

use super::{limits::TimeBank, state::SearchState};

/// The visits of the root's moves (edge, visits) at a moment of the search.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    at: Duration,
    visits: Vec<(u8, u32)>,
}

impl Snapshot {
    fn visits_of(&self, edge: u8) -> u32 {
        let known = self.visits.iter().find(|&&(other, _)| other == edge);
        known.map_or(0, |&(_, n)| n)
    }
}

/// Observes the visits of the root's moves during a search that has a bank.
#[derive(Debug)]
pub(super) struct OpenChoice {
    bank: TimeBank,
    /// What a draw is worth to the side to move at the root.
    draw_score: f32,
    /// The snapshot that paces are measured from: one to two periods old, once the search is that old.
    old: Snapshot,
    recent: Snapshot,
    now: Snapshot,
    /// Whether nothing was observed: the visits of a reused tree belong to no pace.
    is_new: bool,
}

impl OpenChoice {
    /// Begins to observe a search.
    pub fn new(bank: TimeBank, draw_score: f32) -> OpenChoice {
        OpenChoice {
            bank,
            draw_score,
            old: Snapshot::default(),
            recent: Snapshot::default(),
            now: Snapshot::default(),
            is_new: true,
        }
    }

    /// The time beyond the budget.
    pub fn bank(&self) -> Duration {
        self.bank.time
    }

    /// Records the root's visits; called after each batch.
    pub fn observe(&mut self, state: &SearchState, elapsed: Duration) {
        let visits = state.contenders().map(|child| (child.edge, child.n));
        self.now.at = elapsed;
        self.now.visits.clear();
        self.now.visits.extend(visits);
        if std::mem::replace(&mut self.is_new, false) {
            self.old.clone_from(&self.now);
            self.recent.clone_from(&self.now);
        } else if elapsed.saturating_sub(self.recent.at) >= self.bank.period {
            std::mem::swap(&mut self.old, &mut self.recent);
            self.recent.clone_from(&self.now);
        }
    }

    /// Whether a search that has used up its budget should use the bank, which lasts until `end`.
    pub fn is_open(&self, state: &SearchState, elapsed: Duration, end: Duration) -> bool {
        elapsed < self.bank.forced
            || self.has_better_value(state)
            || self.is_overtaken(elapsed, end)
    }

    fn has_better_value(&self, state: &SearchState) -> bool {
        let leader = state.leader();
        leader.is_some_and(|leader| state.has_better_value(leader, 1, self.draw_score))
    }

    /// Whether another move has more visits at `end`, at the pace of the last periods and the expected changes of
    /// pace.
    fn is_overtaken(&self, elapsed: Duration, end: Duration) -> bool {
        let measured = elapsed.saturating_sub(self.old.at).as_secs_f64();
        let left = end.saturating_sub(elapsed).as_secs_f64();
        let Some(&(best, n)) = self.now.visits.iter().max_by_key(|&&(_, n)| n) else {
            return false;
        };
        if measured <= 0.0 {
            return false;
        }
        let at_end = |edge: u8, n: u32, factor: f64| {
            let new = f64::from(n.saturating_sub(self.old.visits_of(edge)));
            f64::from(n) + new / measured * left * factor
        };
        let best_at_end = at_end(best, n, self.bank.best_pace);
        let mut others = self.now.visits.iter().filter(|&&(edge, _)| edge != best);
        others.any(|&(edge, n)| at_end(edge, n, self.bank.other_pace) > best_at_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::tree::node::{Bounds, Node, Origin};

    const SECOND: Duration = Duration::from_secs(1);

    fn child(n: u32, wl: f64) -> Node {
        Node {
            n,
            wl,
            ..Node::EMPTY
        }
    }

    fn watch() -> OpenChoice {
        let bank = TimeBank {
            time: 5 * SECOND,
            forced: SECOND,
            period: 3 * SECOND,
            best_pace: 1.0,
            other_pace: 1.0,
        };
        OpenChoice::new(bank, 0.0)
    }

    fn is_open(before: &[Node], now: &[Node]) -> bool {
        let mut watch = watch();
        watch.observe(&SearchState::with_children(before), 4 * SECOND);
        let state = SearchState::with_children(now);
        watch.observe(&state, 8 * SECOND);
        watch.observe(&state, 9 * SECOND);
        watch.is_open(&state, 9 * SECOND, 14 * SECOND)
    }

    #[test]
    fn a_clear_choice_is_closed() {
        assert!(!is_open(
            &[child(400, 0.2), child(100, 0.1)],
            &[child(800, 0.2), child(200, 0.1)]
        ));
        let state = SearchState::with_children(&[child(400, 0.2), child(100, 0.1)]);
        assert!(
            watch().is_open(&state, SECOND / 2, 6 * SECOND),
            "at first it is open"
        );
    }

    /// Also before the first period has passed.
    #[test]
    fn visits_of_a_reused_tree_show_no_pace() {
        let mut watch = watch();
        let before = [child(25_000, 0.2), child(7500, 0.1)];
        watch.observe(&SearchState::with_children(&before), SECOND / 100);
        let state = SearchState::with_children(&[child(40_000, 0.2), child(8000, 0.1)]);
        watch.observe(&state, SECOND);
        watch.bank.other_pace = 4.0;
        assert!(!watch.is_open(&state, SECOND, 5 * SECOND));
    }

    #[test]
    fn it_is_open_if_another_move_has_the_better_value() {
        let mut moves = [child(800, 0.2), child(200, 0.3)];
        assert!(is_open(&moves, &moves));
        moves[1].set_bounds(Bounds::exact(-1), Origin::Children);
        assert!(!is_open(&moves, &moves), "a lost move is no choice");
    }

    #[test]
    fn it_is_open_if_another_move_is_catching_up() {
        // 60 visits a second against none: 300 more until the end.
        let now = |n: u32| [child(800, 0.2), child(n, 0.1)];
        let before = |n: u32| [child(800, 0.2), child(n - 300, 0.1)];
        assert!(is_open(&before(501), &now(501)));
        assert!(!is_open(&before(420), &now(420)));
    }
}
