//! Chooses the root move to play: the most visited one, the one with the best lower confidence bound, or the one with
//! the largest sum of value and logarithm of visits. Proofs come before any of these, see [`super::certainty`].

use rand::{RngExt, rngs::Xoshiro256PlusPlus};

use super::{
    certainty::Certainty,
    tree::{
        Tree,
        node::{Node, NodeId},
    },
};
use crate::options::{RootChoice, SearchOptions};

/// Above this number of visits the variance is estimated from samples: walking a million visits takes a tenth of a
/// second.
const MAX_EXACT_VISITS: u32 = 50_000;
/// Number of samples; the standard deviation is then accurate to within 1 %.
const SAMPLES: u32 = 20_000;

/// Above this Q a position is won and lower confidence bounds are not used: they would avoid lines in which some
/// visit found a mistake, which does not matter in a won position, where visits should follow the policy to the mate.
const WON_Q: f32 = 0.8;

/// The rule by which a root move is chosen when nothing is proven.
#[derive(Clone, Copy, Debug)]
pub(super) struct Criterion {
    choice: RootChoice,
    /// How many standard errors a lower confidence bound lies below Q.
    stdevs: f64,
    /// Minimum share of the most visited move's visits that a move needs before its bound is trusted.
    min_visit_share: f64,
}

/// What the scores of all moves depend on.
#[derive(Clone, Copy)]
struct ScoreScale {
    /// Visits of the most visited move.
    max_visits: u32,
    /// The value of a draw.
    draw_score: f32,
}

impl Criterion {
    /// The criterion that the options select.
    pub fn new(options: &SearchOptions) -> Criterion {
        Criterion {
            choice: options.root_choice(),
            stdevs: options.lcb_stdevs().into(),
            min_visit_share: options.lcb_min_visit_share().into(),
        }
    }

    /// The index of the move to play, in `moves` (edges and child nodes, ranked by visits). A draw is worth
    /// `draw_score`.
    pub fn best(
        self,
        tree: &Tree,
        moves: &[(u8, Node)],
        draw_score: f32,
        rng: &mut Xoshiro256PlusPlus,
    ) -> usize {
        let is_open = |child: &Node| Certainty::of(child) == Certainty::Open;
        let Some((_, first)) = moves.first().filter(|(_, first)| is_open(first)) else {
            return 0;
        };
        let is_won = self.choice == RootChoice::Lcb && first.q(draw_score) > WON_Q;
        if self.choice == RootChoice::Visits || is_won {
            return 0;
        }
        let mut best = (f64::NEG_INFINITY, 0);
        for (index, (edge, child)) in moves.iter().enumerate() {
            // No score by bounds is larger than Q: then the walk through the move's visits is spared.
            let may_be_best =
                self.choice != RootChoice::Lcb || f64::from(child.q(draw_score)) > best.0;
            if is_open(child) && child.n > 0 && may_be_best {
                let scale = ScoreScale {
                    max_visits: first.n,
                    draw_score,
                };
                let score = self.score(tree, *edge, child, scale, rng);
                if score > best.0 {
                    best = (score, index);
                }
            }
        }
        best.1
    }

    /// The score of a move by this criterion.
    fn score(
        self,
        tree: &Tree,
        edge: u8,
        child: &Node,
        scale: ScoreScale,
        rng: &mut Xoshiro256PlusPlus,
    ) -> f64 {
        let (q, n) = (f64::from(child.q(scale.draw_score)), f64::from(child.n));
        match self.choice {
            RootChoice::Visits => n,
            // Marchete's CGZero: SelectMoveScore = value + log(visits).
            RootChoice::ValueLogVisits => q + n.ln(),
            RootChoice::Lcb => {
                let root = tree.node(tree.root());
                let slot = tree.slot_of_edge(root, edge);
                let least = self.min_visit_share * f64::from(scale.max_visits);
                let is_known = child.n >= 2 && n >= least;
                match slot.filter(|_| is_known) {
                    Some(slot) => {
                        let variance = variance(tree, tree.child_id(root, slot), rng);
                        q - self.stdevs * ((variance + variance_prior(n)) / n).sqrt()
                    }
                    None => f64::NEG_INFINITY,
                }
            }
        }
    }
}

/// The variance of a prior observation, added to the sample variance of `n` values because a few values may agree by
/// chance: one more value with weight 1 / n^2 at distance 1 from their mean.
fn variance_prior(n: f64) -> f64 {
    1.0 / (n.powi(3) + 1.0)
}

/// Number, sum and sum of squares of the values that visits returned.
#[derive(Default)]
struct ValueMoments {
    n: f64,
    sum: f64,
    squares: f64,
}

impl ValueMoments {
    fn add(&mut self, n: f64, value: f64) {
        self.n += n;
        self.sum += n * value;
        self.squares += n * value * value;
    }

    fn variance(&self) -> f64 {
        if self.n < 2.0 {
            return 0.0;
        }
        ((self.squares - self.sum * self.sum / self.n) / (self.n - 1.0)).max(0.0)
    }
}

/// The sample variance of the values (W-L) that a node's visits returned; the node has at least two visits. Every
/// visit ended at some node, and its value is still stored there. (With `Transpositions` a node's first visit may
/// have returned the mean of an equal position; the node's own value stands in for it.)
fn variance(tree: &Tree, id: NodeId, rng: &mut Xoshiro256PlusPlus) -> f64 {
    if tree.node(id).n <= MAX_EXACT_VISITS {
        exact_moments(tree, id).variance()
    } else {
        sampled_moments(tree, id, rng).variance()
    }
}

/// The moments of all visits of a node.
fn exact_moments(tree: &Tree, id: NodeId) -> ValueMoments {
    let mut moments = ValueMoments::default();
    let mut stack = vec![(id, 1.0)];
    while let Some((id, sign)) = stack.pop() {
        let node = tree.node(id);
        let (ended, value) = own_visits(tree, node);
        moments.add(ended, sign * value);
        if !node.is_proven() {
            stack.extend((0..node.n_children).map(|slot| (tree.child_id(node, slot), -sign)));
        }
    }
    moments
}

/// The moments of a random sample of a node's visits.
fn sampled_moments(tree: &Tree, id: NodeId, rng: &mut Xoshiro256PlusPlus) -> ValueMoments {
    let mut moments = ValueMoments::default();
    for _ in 0..SAMPLES {
        let (mut id, mut sign) = (id, 1.0);
        let value = loop {
            let node = tree.node(id);
            if node.is_proven() {
                break node.wl;
            }
            let mut visit = rng.random_range(0..node.n.max(1));
            // Visits that continued to a child come first, in the order of the children.
            let went_on = tree.children(node).iter().position(|child| {
                let is_there = visit < child.n;
                visit = visit.saturating_sub(child.n);
                is_there
            });
            let Some(slot) = went_on else {
                break node.v.into();
            };
            id = tree.child_id(node, slot as u8);
            sign = -sign;
        };
        moments.add(1.0, sign * value);
    }
    moments
}

/// How many visits ended at a node, and the value that they returned. All visits of a proven node count as having
/// ended there.
fn own_visits(tree: &Tree, node: &Node) -> (f64, f64) {
    if node.is_proven() {
        return (node.n.into(), node.wl);
    }
    let below: u32 = tree.children(node).iter().map(|child| child.n).sum();
    (node.n.saturating_sub(below).into(), node.v.into())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        options::Options,
        search::{
            state::SearchState,
            tree::node::{Bounds, Origin},
        },
    };

    fn node(n: u32, wl: f64, v: f32) -> Node {
        Node {
            n,
            wl,
            v,
            ..Node::EMPTY
        }
    }

    /// A root with two moves: 10 visits of which all returned 0.3, and 7 of different values.
    fn state() -> SearchState {
        let mut state = SearchState::with_children(&[node(10, 0.3, 0.3), node(7, 0.4, 0.2)]);
        let mut next = History::default();
        let second = legal_moves(next.position()).nth(1).unwrap();
        next.push(second);
        let tree = &mut state.tree;
        let child = tree.child_id(tree.node(tree.root()), 1);
        let mut lost = node(4, -1.0, 0.9);
        lost.set_bounds(Bounds::exact(-1), Origin::Children);
        tree.grow(child, &next, &[node(2, 0.5, 0.5), lost]);
        state
    }

    #[test]
    fn the_variance_is_that_of_the_returned_values() {
        let state = state();
        let tree = &state.tree;
        let child = |slot| tree.child_id(tree.node(tree.root()), slot);
        assert!(exact_moments(tree, child(0)).variance() < 1e-12);
        // 0.2 once, -0.5 twice, and a proven win of four visits.
        let values = [0.2_f32, -0.5, -0.5, 1.0, 1.0, 1.0, 1.0].map(f64::from);
        let mean = values.iter().sum::<f64>() / 7.0;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        assert!((exact_moments(tree, child(1)).variance() - squares / 6.0).abs() < 1e-9);
    }

    #[test]
    fn samples_estimate_the_moments_of_all_visits() {
        let state = state();
        let tree = &state.tree;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for slot in 0..2 {
            let child = tree.child_id(tree.node(tree.root()), slot);
            let (all, some) = (
                exact_moments(tree, child),
                sampled_moments(tree, child, &mut rng),
            );
            assert_eq!(some.n, f64::from(SAMPLES));
            assert!((all.sum / all.n - some.sum / some.n).abs() < 0.02);
            // Of few the sample variance is larger by n / (n - 1).
            let (all, some) = (all.variance() * (all.n - 1.0) / all.n, some.variance());
            assert!((all - some).abs() < 0.02, "{all} {some}");
        }
    }

    #[test]
    fn few_equal_visits_have_a_wide_bound() {
        let state = |few| SearchState::with_children(&[node(16, 0.2, 0.2), node(few, 0.27, 0.27)]);
        for (few, edge) in [(3, 0), (7, 0), (15, 1)] {
            assert_eq!(chosen(&state(few), &[("RootChoice", "lcb")]), edge, "{few}");
        }
    }

    /// The edge that the criterion chooses.
    fn chosen(state: &SearchState, settings: &[(&str, &str)]) -> u8 {
        let mut options = Options::default();
        for (name, value) in settings {
            options.set(name, value).unwrap();
        }
        let tree = &state.tree;
        let children = tree.children(state.root()).iter();
        let moves: Vec<(u8, Node)> = children.map(|child| (child.edge, *child)).collect();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        moves[Criterion::new(&options.search()).best(tree, &moves, 0.0, &mut rng)].0
    }

    #[test]
    fn each_criterion_takes_its_own_move() {
        let state = state();
        // Values 0.3 and 0.4, visits 10 and 7, deviations 0 and 0.75.
        assert_eq!(chosen(&state, &[]), 0);
        let lcb = ("RootChoice", "lcb");
        assert_eq!(chosen(&state, &[lcb]), 0);
        assert_eq!(chosen(&state, &[lcb, ("LcbStdevs", "0.2")]), 1);
        // Fewer than four fifths of the visits are too few.
        let share = ("LcbMinVisitShare", "0.8");
        assert_eq!(chosen(&state, &[lcb, ("LcbStdevs", "0.2"), share]), 0);
        // 0.3 + ln 10 = 2.60 against 0.4 + ln 7 = 2.35; with 9 visits 2.597 would still be less, with a value of 0.7
        // more.
        let cgzero = ("RootChoice", "value_log_visits");
        assert_eq!(chosen(&state, &[cgzero]), 0);
        let better = SearchState::with_children(&[node(10, 0.3, 0.3), node(7, 0.7, 0.7)]);
        assert_eq!(chosen(&better, &[cgzero]), 1);
    }

    #[test]
    fn in_a_won_position_the_most_visited_move_is_taken() {
        for (wl, edge) in [(0.7, 1), (0.85, 0)] {
            let better = node(80, wl + 0.03, wl as f32 + 0.03);
            let state = SearchState::with_children(&[node(90, wl, wl as f32), better]);
            assert_eq!(chosen(&state, &[("RootChoice", "lcb")]), edge);
        }
    }

    #[test]
    fn proofs_come_first() {
        let mut won = node(1, 1.0, 0.0);
        won.set_bounds(Bounds::exact(1), Origin::Rules);
        let mut lost = node(30, -1.0, 0.0);
        lost.set_bounds(Bounds::exact(-1), Origin::Rules);
        for choice in ["visits", "lcb", "value_log_visits"] {
            let first = SearchState::with_children(&[won, node(9, 0.9, 0.9)]);
            assert_eq!(chosen(&first, &[("RootChoice", choice)]), 0);
            let last = SearchState::with_children(&[node(9, -0.9, -0.9), lost]);
            assert_eq!(chosen(&last, &[("RootChoice", choice)]), 0);
        }
    }
}
