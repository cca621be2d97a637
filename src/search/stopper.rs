//! When a search ends: a limit is reached, the result is certain, or going on would change nothing.

use std::{sync::Arc, time::Duration};

use shakmaty::Position;

use super::{
    job::Job, limits::Limits, objective, open_choice::OpenChoice, report::Score, root::score,
    state::SearchState,
};
use crate::options::{RootChoice, SearchOptions};

/// Time after the first evaluation from which on the measured speed is used for predictions; a tenth of the budget, if
/// that is less.
const SETTLING_TIME: Duration = Duration::from_millis(200);

/// Minimum visits of the root before information gain is measured.
const KLD_MIN_VISITS: u32 = 10;

/// Decides after each batch whether the search continues.
#[derive(Debug)]
pub(super) struct Stopper {
    limits: Limits,
    options: Arc<SearchOptions>,
    /// Smart pruning's factor; 0 turns it off.
    pruning_factor: f64,
    /// Whether the most visited move is played, so that smart pruning may decide by visits alone.
    chooses_by_visits: bool,
    /// See [`Job::wanted_wins`].
    wanted_wins: usize,
    /// What a draw is worth to the side to move at the root.
    draw_score: f32,
    /// Minimum number of batches before smart pruning.
    pruning_batches: u32,
    /// Whether smart pruning also applies to node limits.
    prunes_nodes: bool,
    /// Batches backed up so far.
    batches: u32,
    /// The playouts after the last of them.
    playouts: u64,
    /// Present if there is time beyond the budget.
    open_choice: Option<OpenChoice>,
    minimum_kld_gain: f32,
    kld_interval: u64,
    kld_previous: Vec<(u8, u32)>,
    kld_visits: u32,
    /// When the first batch was done.
    first: Option<Reached>,
}

/// How far a search is.
#[derive(Clone, Copy, Debug)]
struct Reached {
    elapsed: Duration,
    playouts: u64,
}

impl Stopper {
    /// For one search.
    pub fn new(job: &Job) -> Stopper {
        let options = &job.options;
        let draw_score = options.draw_score_for(job.history.position().turn());
        let bank = job.limits.bank.clone();
        Stopper {
            pruning_batches: options.smart_pruning_minimum_batches(),
            prunes_nodes: options.smart_pruning_nodes(),
            batches: 0,
            playouts: 0,
            open_choice: bank.map(|bank| OpenChoice::new(bank, draw_score)),
            draw_score,
            wanted_wins: job.wanted_wins(),
            limits: job.limits.clone(),
            options: Arc::clone(&job.options),
            pruning_factor: f64::from(options.smart_pruning_factor()),
            chooses_by_visits: options.root_choice() == RootChoice::Visits,
            minimum_kld_gain: options.minimum_kldgain_per_node(),
            kld_interval: options.kldgain_average_interval(),
            kld_previous: Vec::new(),
            kld_visits: 0,
            first: None,
        }
    }

    /// Takes note of what has been searched, `elapsed` after the start, and returns whether the search is over. To be
    /// called after each batch: it counts batches, measures the speed, follows the open choice and the gain of
    /// information, keeps the tree below its memory limit, and sets which root moves selection may still search.
    pub fn update(&mut self, state: &mut SearchState, elapsed: Duration) -> bool {
        let bytes = self.limits.tree_bytes;
        state.is_at_memory_limit = bytes.is_some_and(|bytes| !state.tree.shrink_cache_below(bytes));
        let playouts = state.progress.playouts;
        let first = *self.first.get_or_insert(Reached { elapsed, playouts });
        if playouts != self.playouts {
            self.batches += 1;
            self.playouts = playouts;
        }
        if let Some(open_choice) = &mut self.open_choice {
            open_choice.observe(state, elapsed);
        }
        if self.is_limit_reached(state, elapsed) {
            return true;
        }
        if self.limits.infinite {
            return false;
        }
        self.is_decided(state)
            || self.is_choice_settled(state, elapsed, first)
            || self.has_no_information_gain(state)
    }

    fn is_limit_reached(&self, state: &SearchState, elapsed: Duration) -> bool {
        let limits = &self.limits;
        // The time for computing objective values counts as well.
        let reporting_time = objective::time_needed(&state.tree, &self.options, limits);
        let elapsed = elapsed + reporting_time.unwrap_or_default();
        let is_past = |limit: Option<Duration>| limit.is_some_and(|limit| elapsed >= limit);
        let progress = &state.progress;
        let has_visits_left = progress.visits_left(state.root().n) > 0 || progress.claimed > 0;
        !has_visits_left
            || is_past(limits.movetime)
            || self
                .deadline(elapsed)
                .is_some_and(|end| elapsed >= end || self.is_time_used_up(state, elapsed, end))
            || limits.depth.is_some_and(|depth| {
                // At the memory limit no visit makes a line longer.
                let is_deep = progress.has_depth(depth) || state.is_at_memory_limit;
                progress.playouts > 1 && is_deep
            })
            || limits.mate.is_some_and(|moves| has_mate(state, moves))
    }

    /// The time at which the budget, or the bank after it, is used up.
    fn deadline(&self, elapsed: Duration) -> Option<Duration> {
        let budget = self.limits.budget?;
        Some(match &self.open_choice {
            Some(open_choice) if elapsed >= budget => budget + open_choice.bank(),
            _ => budget,
        })
    }

    /// Whether the budget is used up and the bank, which lasts until `end`, is not to be used.
    fn is_time_used_up(&self, state: &SearchState, elapsed: Duration, end: Duration) -> bool {
        self.limits.budget.is_some_and(|budget| elapsed >= budget)
            && self
                .open_choice
                .as_ref()
                .is_none_or(|open_choice| !open_choice.is_open(state, elapsed, end))
    }

    /// Whether the results of as many of the best allowed moves as are wanted are certain, or (in a game) only one move
    /// can be played.
    fn is_decided(&self, state: &SearchState) -> bool {
        let root = state.root();
        let moves = state.root_moves.len();
        if moves == 0 {
            // The root moves have not been chosen yet.
            return false;
        }
        let (mut won, mut lost, mut proven) = (0, 0, 0);
        for child in state.allowed_children() {
            let result = child.bounds().result();
            won += usize::from(result == Some(1));
            lost += usize::from(result == Some(-1));
            proven += usize::from(result.is_some());
        }
        if self.limits.mate.is_some() {
            // There may be a shorter mate than the one that was found, unless all moves are proven.
            return proven == moves;
        }
        let are_all_allowed = moves == usize::from(root.n_edges);
        // With a winning move the root is proven, however many are wanted.
        let is_root_decided = are_all_allowed && root.is_proven() && won == 0;
        let is_certain = won >= self.wanted_wins || proven == moves || is_root_decided;
        if self.pruning_factor == 0.0 {
            // What is proven does not become deeper.
            return is_certain && self.limits.depth.is_some();
        }
        is_certain || (self.limits.budget.is_some() && moves <= 1 + lost)
    }

    /// Smart pruning, for searches with a time budget (and optionally a node limit): the remaining visits cannot
    /// change which move has most. Where the choice is not by visits, that move must have the best value, too: then its
    /// lower bound and the sum of its value and the logarithm of its visits are most probably the best.
    fn is_choice_settled(
        &self,
        state: &mut SearchState,
        elapsed: Duration,
        first: Reached,
    ) -> bool {
        if self.pruning_factor == 0.0 || self.batches < self.pruning_batches {
            return false;
        }
        let left = state.progress.visits_left(state.root().n);
        let has_node_limit = self.limits.nodes.or(self.limits.playouts).is_some();
        let remaining = match self.deadline(elapsed) {
            Some(end) => {
                let since_first = elapsed.saturating_sub(first.elapsed);
                if since_first < SETTLING_TIME.min(end / 10) {
                    return false;
                }
                let done = state.progress.playouts.saturating_sub(first.playouts);
                let speed = done as f64 / since_first.as_secs_f64();
                left.min((speed * end.saturating_sub(elapsed).as_secs_f64()) as u64)
            }
            None if self.prunes_nodes && has_node_limit => left,
            None => return false,
        };
        let catch_up = (remaining as f64 / self.pruning_factor) as u64;
        if self.chooses_by_visits {
            state.progress.catch_up = catch_up;
        }
        let Some(leader) = state.leader() else {
            return false;
        };
        let others = state.contenders().filter(|child| child.edge != leader.edge);
        // Moves that were never visited have no child.
        let second = others.map(|other| other.n).max().unwrap_or(0);
        u64::from(leader.n - second) > catch_up
            && (self.chooses_by_visits || !state.has_better_value(leader, 2, self.draw_score))
    }

    /// Whether the distribution of root visits has (nearly) stopped changing.
    fn has_no_information_gain(&mut self, state: &SearchState) -> bool {
        let root = state.root();
        let due = u64::from(root.n) >= u64::from(self.kld_visits) + self.kld_interval;
        // A search for a mate needs every visit, however little it says about the choice.
        let is_on = self.minimum_kld_gain > 0.0 && self.limits.mate.is_none();
        if !is_on || !due || root.n < KLD_MIN_VISITS {
            return false;
        }
        let now: Vec<(u8, u32)> = state
            .tree
            .children(root)
            .iter()
            .map(|child| (child.edge, child.n))
            .collect();
        let gain = kld_per_node(&self.kld_previous, &now);
        self.kld_previous = now;
        self.kld_visits = root.n;
        gain.is_some_and(|gain| gain < f64::from(self.minimum_kld_gain))
    }
}

/// Information gained per visit between two distributions of root visits (Kullback-Leibler divergence).
fn kld_per_node(before: &[(u8, u32)], now: &[(u8, u32)]) -> Option<f64> {
    let sum = |visits: &[(u8, u32)]| visits.iter().map(|&(_, n)| f64::from(n)).sum::<f64>();
    let (sum_before, sum_now) = (sum(before), sum(now));
    if sum_before == 0.0 || sum_now <= sum_before {
        return None;
    }
    let gain: f64 = before
        .iter()
        .filter(|&&(_, n)| n > 0)
        .filter_map(|&(edge, n)| {
            let now = now.iter().find(|&&(other, _)| other == edge)?.1;
            let p = f64::from(n) / sum_before;
            Some(p * (p / (f64::from(now) / sum_now)).ln())
        })
        .sum();
    Some(gain / (sum_now - sum_before))
}

fn has_mate(state: &SearchState, moves: u32) -> bool {
    state
        .allowed_children()
        .any(|child| matches!(score(child), Score::Mate(n @ 1..) if n.unsigned_abs() <= moves))
}

#[cfg(test)]
mod tests {
    use shakmaty::Color;

    use super::*;
    use crate::{
        chess::History,
        options::Options,
        search::{
            progress::Progress,
            tree::{
                node::{Bounds, Node, Origin},
                records::Rule,
            },
        },
    };

    fn child(n: u32, bounds: Bounds) -> Node {
        let mut node = Node { n, ..Node::EMPTY };
        node.set_bounds(bounds, Origin::Children);
        node
    }

    /// Half of ten seconds is over and 1000 visits are done, so 1000 more are possible.
    fn is_over(state: &mut SearchState) -> bool {
        let limits = Limits {
            budget: Some(Duration::from_secs(10)),
            ..Limits::default()
        };
        let job = Job::new(History::default(), limits.clone(), SearchOptions::default());
        state.progress = Progress::new(&limits);
        let mut stopper = Stopper::new(&job);
        assert!(!stopper.update(state, Duration::ZERO));
        state.progress.playouts = 1000;
        stopper.update(state, Duration::from_secs(5))
    }

    #[test]
    fn a_lead_counts_only_if_its_move_can_be_played() {
        let lost = Bounds::exact(-1);
        let far_ahead = [
            child(6000, Bounds::OPEN),
            child(500, Bounds::OPEN),
            child(480, Bounds::OPEN),
        ];
        assert!(is_over(&mut SearchState::with_children(&far_ahead)));
        let refuted = [
            child(6000, lost),
            child(500, Bounds::OPEN),
            child(480, Bounds::OPEN),
        ];
        assert!(!is_over(&mut SearchState::with_children(&refuted)));
        let mut excluded = SearchState::with_children(&far_ahead);
        excluded.allow(&[1, 2]);
        assert!(!is_over(&mut excluded));
    }

    #[test]
    fn results_of_moves_that_are_not_allowed_decide_nothing() {
        let won = [
            child(10, Bounds::exact(1)),
            child(10, Bounds::OPEN),
            child(10, Bounds::exact(-1)),
            child(10, Bounds::OPEN),
        ];
        assert!(is_decided(&SearchState::with_children(&won)));
        let mut tree = SearchState::with_children(&won);
        let root = tree.tree.root();
        tree.tree
            .node_mut(root)
            .set_bounds(Bounds::exact(-1), Origin::Children);
        tree.allow(&[1, 3]);
        assert!(!is_decided(&tree));
        tree.allow(&[1, 2]);
        assert!(is_decided(&tree), "only one move is left");
        tree.allow(&[0, 1]);
        assert!(is_decided(&tree));
    }

    fn is_decided(state: &SearchState) -> bool {
        let limits = Limits {
            budget: Some(Duration::from_secs(10)),
            ..Limits::default()
        };
        let job = Job::new(History::default(), limits, SearchOptions::default());
        Stopper::new(&job).is_decided(state)
    }

    /// The kinds of search whose ends are tested.
    const KINDS: [&str; 5] = ["infinite", "movetime", "nodes", "mate", "clock"];

    fn limits_of(kind: &str) -> Limits {
        let mut limits = Limits::default();
        match kind {
            "infinite" => limits.infinite = true,
            "movetime" => limits.movetime = Some(Duration::from_secs(10)),
            "nodes" => limits.nodes = Some(30_000),
            "mate" => limits.mate = Some(3),
            _ => limits.budget = Some(Duration::from_secs(10)),
        }
        limits
    }

    /// Which of the [`KINDS`] of search end within five seconds and a thousand visits, before the limit itself.
    fn ended(children: &[Node], settings: &[(&str, &str)]) -> [bool; 5] {
        KINDS.map(|kind| {
            let mut options = Options::default();
            for (name, value) in settings {
                options.set(name, value).unwrap();
            }
            let job = Job::new(History::default(), limits_of(kind), options.search());
            let mut state = SearchState::with_children(children);
            state.progress = Progress::new(&job.limits);
            let mut stopper = Stopper::new(&job);
            let mut is_over = false;
            for half_second in 0..=10 {
                state.progress.playouts = half_second * 100;
                is_over |= stopper.update(&mut state, Duration::from_millis(half_second * 500));
                // A few more visits with nearly the same distribution: no information gain.
                let root = state.tree.root();
                for slot in 0..children.len() as u8 {
                    let child = state.tree.child_id(state.root(), slot);
                    state.tree.node_mut(child).n += 10;
                    state.tree.node_mut(root).n += 10;
                }
            }
            is_over
        })
    }

    /// A mate in ten.
    fn far_mate() -> Node {
        Node {
            m: 20.0,
            ..child(600, Bounds::exact(1))
        }
    }

    #[test]
    fn with_several_lines_one_mate_ends_searches_with_a_clock_only() {
        let two_lines = [("MultiPV", "2")];
        let one = [far_mate(), child(500, Bounds::OPEN)];
        let clock_only = [false, false, false, false, true];
        assert_eq!(ended(&one, &two_lines), clock_only);
        let both = [far_mate(), far_mate()];
        assert_eq!(ended(&both, &two_lines), [false, true, true, true, true]);
        let three_lines = [("MultiPV", "3")];
        assert_eq!(ended(&both, &three_lines), [false, true, true, true, true]);
    }

    #[test]
    fn each_reason_ends_the_searches_that_its_help_names_and_no_others() {
        let open = [child(600, Bounds::OPEN), child(500, Bounds::OPEN)];
        assert_eq!(ended(&open, &[]), [false; 5]);
        // A mate ends all searches but infinite ones and those for a shorter mate; a lost game ends none while a move
        // is open.
        let won = [far_mate(), child(500, Bounds::OPEN)];
        assert_eq!(ended(&won, &[]), [false, true, true, false, true]);
        assert_eq!(ended(&won, &[("SmartPruningFactor", "0")]), [false; 5]);
        let only_one = [child(600, Bounds::OPEN), child(500, Bounds::exact(-1))];
        assert_eq!(ended(&only_one, &[]), [false, false, false, false, true]);
        let all_lost = [600, 500].map(|n| child(n, Bounds::exact(-1)));
        assert_eq!(ended(&all_lost, &[]), [false, true, true, true, true]);
        // Smart pruning applies to clocks and, by an option, to node limits.
        let ahead = [child(19_000, Bounds::OPEN), child(100, Bounds::OPEN)];
        assert_eq!(ended(&ahead, &[]), [false, false, false, false, true]);
        let nodes_too = [("SmartPruningNodes", "true")];
        assert_eq!(ended(&ahead, &nodes_too), [false, false, true, false, true]);
        // "A search that is neither infinite nor for a mate".
        let kld = [
            ("MinimumKLDGainPerNode", "0.001"),
            ("KLDGainAverageInterval", "10"),
        ];
        assert_eq!(ended(&open, &kld), [false, true, true, false, true]);
    }

    #[test]
    fn a_lead_in_visits_settles_a_choice_by_value_only_with_the_best_value() {
        let is_settled = |choice: &str, [first, second]: [(u32, f64); 2]| {
            let mut options = Options::default();
            options.set("RootChoice", choice).unwrap();
            let limits = Limits {
                budget: Some(Duration::from_secs(10)),
                ..Limits::default()
            };
            let job = Job::new(History::default(), limits.clone(), options.search());
            let children = [first, second].map(|(n, wl)| Node {
                wl,
                ..child(n, Bounds::OPEN)
            });
            let mut state = SearchState::with_children(&children);
            state.progress = Progress::new(&limits);
            let mut stopper = Stopper::new(&job);
            // 1000 visits a second: 5000 more at the second observation.
            [0, 5].map(|second| {
                state.progress.playouts = 1000 * second;
                stopper.update(&mut state, Duration::from_secs(second))
            }) == [false, true]
        };
        for (first, by_visits, by_bound) in [
            ((6000, 0.2), true, true),
            ((6000, 0.05), true, false),
            ((3000, 0.2), false, false),
        ] {
            let both = [first, (100, 0.1)];
            assert_eq!(is_settled("visits", both), by_visits, "{both:?}");
            assert_eq!(is_settled("lcb", both), by_bound, "{both:?}");
        }
        // One visit proves nothing.
        assert!(is_settled("lcb", [(6000, 0.05), (1, 0.1)]));
    }

    #[test]
    fn node_limits_are_pruned_only_if_configured_and_not_too_early() {
        let is_over = |nodes: u64, settings: &[(&str, &str)]| {
            let mut options = Options::default();
            for (name, value) in settings {
                options.set(name, value).unwrap();
            }
            let limits = Limits {
                nodes: Some(nodes),
                ..Limits::default()
            };
            let job = Job::new(History::default(), limits.clone(), options.search());
            let children = [child(700, Bounds::OPEN), child(300, Bounds::OPEN)];
            let mut state = SearchState::with_children(&children);
            state.progress = Progress::new(&limits);
            let mut stopper = Stopper::new(&job);
            let mut observe = |playouts: u64| {
                state.progress.playouts = playouts;
                stopper.update(&mut state, Duration::from_millis(playouts))
            };
            (1..=3)
                .map(|batch| observe(batch * 100))
                .collect::<Vec<_>>()
        };
        let on = ("SmartPruningNodes", "true");
        let root_visits = 1001;
        assert_eq!(is_over(root_visits + 500, &[]), [false; 3]);
        assert_eq!(is_over(root_visits + 500, &[on]), [true; 3]);
        assert_eq!(is_over(root_visits + 700, &[on]), [false; 3]);
        let later = ("SmartPruningMinimumBatches", "3");
        assert_eq!(
            is_over(root_visits + 500, &[on, later]),
            [false, false, true]
        );
    }

    #[test]
    fn objective_values_have_their_share_of_the_time() {
        let seconds = Duration::from_secs(4);
        let limits = Limits {
            movetime: Some(seconds),
            ..Limits::default()
        };
        let observe = |visits: u32, show_objective: bool, at: Duration| {
            let options = Options {
                show_objective,
                sc_limit: 10,
                ..Options::default()
            };
            let rule = Rule::new(&options.search(), Some(Color::White));
            let job = Job::new(History::default(), limits.clone(), options.search());
            let mut state =
                SearchState::with_children(&[child(visits, Bounds::OPEN), child(9, Bounds::OPEN)]);
            state.tree.rule = rule;
            Stopper::new(&job).update(&mut state, at)
        };
        let (half, before_the_end) = (seconds / 2, seconds - Duration::from_millis(500));
        assert!(observe(800_000, true, before_the_end));
        assert!(!observe(800_000, true, half));
        assert!(!observe(800_000, false, before_the_end));
        assert!(
            !observe(2_000_000, true, before_the_end),
            "too many for that"
        );
    }

    #[test]
    fn the_bank_is_used_while_the_choice_is_open() {
        let run = |wl: [f64; 2], at: u64| {
            let limits = Limits {
                budget: Some(Duration::from_secs(10)),
                bank: Some(crate::search::limits::TimeBank {
                    time: Duration::from_secs(5),
                    forced: Duration::from_secs(1),
                    period: Duration::from_secs(3),
                    best_pace: 1.0,
                    other_pace: 1.0,
                }),
                ..Limits::default()
            };
            let job = Job::new(History::default(), limits, SearchOptions::default());
            let nodes = [(wl[0], 6000), (wl[1], 5000)].map(|(wl, n)| Node {
                n,
                wl,
                ..Node::EMPTY
            });
            let mut state = SearchState::with_children(&nodes);
            let mut stopper = Stopper::new(&job);
            assert!(!stopper.update(&mut state, Duration::ZERO));
            // 1000 visits a second: the leader could still be overtaken.
            state.progress.playouts = at * 1000;
            for second in [4, 8, at] {
                if stopper.update(&mut state, Duration::from_secs(second)) {
                    return true;
                }
            }
            false
        };
        assert!(!run([0.1, 0.2], 11), "another move has the better value");
        assert!(run([0.1, 0.2], 15), "the bank is empty");
        assert!(run([0.2, 0.1], 11), "the choice is closed");
    }

    #[test]
    fn an_unchanged_distribution_gains_nothing() {
        assert_eq!(kld_per_node(&[], &[(0, 10)]), None);
        let still = kld_per_node(&[(0, 10), (1, 30)], &[(0, 20), (1, 60)]).unwrap();
        assert!(still.abs() < 1e-12);
        let moving = kld_per_node(&[(0, 10), (1, 30)], &[(0, 50), (1, 30)]).unwrap();
        assert!(moving > 1e-3);
    }
}
