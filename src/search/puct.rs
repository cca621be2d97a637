//! PUCT: a visit takes the move of a node with the largest Q + U.
//!
//! U = c * P * sqrt(N) / (1 + n + n in flight) with a c that grows with N (AlphaZero's formula with lc0's visits in
//! flight); a move without visits has, in place of a Q, the node's own Q less a reduction (first-play urgency). Only
//! the visits in flight change while a batch is gathered. So where many visits pass through one node, a [`Ranking`]
//! computes the scores once and then takes moves one after the other, with the same result as a separate selection
//! for each visit.

use shakmaty::Color;

use super::{
    params::SearchParams,
    state::SearchState,
    tree::{
        Tree, TreeFull,
        node::{Node, NodeId},
    },
};

/// The move that a visit takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pick {
    /// A child that exists.
    Child(u8),
    /// The position behind an edge that was never visited.
    Unvisited(u8),
}

impl Pick {
    /// The slot of the child, which is created if there is none.
    fn into_slot(self, tree: &mut Tree, id: NodeId) -> Result<u8, TreeFull> {
        match self {
            Pick::Child(slot) => Ok(slot),
            Pick::Unvisited(edge) => tree.add_child(id, edge),
        }
    }
}

/// A move that may be selected.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    pick: Pick,
    /// Its value for the side to move, with first-play urgency and the utility of moves left.
    q: f32,
    /// The exploration term's numerator.
    exploration: f32,
    /// Visits, completed and in flight.
    visits: u32,
}

impl Candidate {
    #[inline]
    fn score(&self) -> f32 {
        self.q + self.exploration / (1 + self.visits) as f32
    }
}

/// Subtracted from the value of a proven loss where such moves are avoided: more than U can be in a tree that fits into
/// memory (at most 3 million in one of four thousand million visits, with the usual constants), so that it ranks behind
/// all others.
const LOST: f32 = 1e7;

/// Rules that are the same for all nodes at one ply of the selection.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlyRules {
    /// The side to move.
    pub turn: Color,
    /// Added to every prior.
    pub prior_bonus: f32,
    /// Whether moves that are proven losses are avoided.
    pub avoids_losses: bool,
}

/// The slot of the move that one visit takes; its child is created if the move was never visited.
///
/// # Errors
/// When there is no room for the child.
pub(super) fn best_move(
    state: &mut SearchState,
    params: &SearchParams,
    id: NodeId,
    rules: PlyRules,
) -> Result<u8, TreeFull> {
    let mut best = (f32::NEG_INFINITY, Pick::Unvisited(0));
    for_each_candidate(state, params, id, rules, |candidate| {
        let score = candidate.score();
        if score > best.0 {
            best = (score, candidate.pick);
        }
    });
    // A node whose moves are all lost is proven itself, and no visit comes to it.
    debug_assert!(best.0 > f32::NEG_INFINITY, "a node without a candidate");
    best.1.into_slot(&mut state.tree, id)
}

/// The scored moves of one node, for several visits of one gathering.
#[derive(Default)]
pub(super) struct Ranking {
    candidates: Vec<Candidate>,
    ranks: Vec<i64>,
}

/// An integer that is larger for a larger score and, of equal scores, for the smaller index, which it contains.
/// Integers compare without branches, which matters when looking for the largest of about thirty.
#[inline]
fn rank(score: f32, index: usize) -> i64 {
    let bits = score.to_bits() as i32;
    let ordinal = bits ^ ((bits >> 31) & i32::MAX);
    i64::from(ordinal) << 8 | (0xFF - (index as i64 & 0xFF))
}

/// The index in the largest of `ranks`.
#[inline]
fn index_of_best(ranks: &[i64]) -> usize {
    // Four at a time, so that no comparison has to wait for the previous one.
    let (fours, rest) = ranks.as_chunks::<4>();
    let mut best = [i64::MIN; 4];
    for four in fours {
        for (best, &rank) in best.iter_mut().zip(four) {
            *best = rank.max(*best);
        }
    }
    let best = best.iter().chain(rest).copied().fold(i64::MIN, i64::max);
    0xFF - (best & 0xFF) as usize
}

impl Ranking {
    /// Clears the scores, so that the next visit computes those of another node.
    pub fn clear(&mut self) {
        self.candidates.clear();
        self.ranks.clear();
    }

    fn compute_scores(
        &mut self,
        state: &SearchState,
        params: &SearchParams,
        id: NodeId,
        rules: PlyRules,
    ) {
        for_each_candidate(state, params, id, rules, |candidate| {
            self.ranks
                .push(rank(candidate.score(), self.candidates.len()));
            self.candidates.push(candidate);
        });
    }

    /// The slot of the move that the next visit takes; its child is created if the move was never visited.
    ///
    /// # Errors
    /// When there is no room for the child.
    pub fn take(
        &mut self,
        state: &mut SearchState,
        params: &SearchParams,
        id: NodeId,
        rules: PlyRules,
    ) -> Result<u8, TreeFull> {
        if self.candidates.is_empty() {
            self.compute_scores(state, params, id, rules);
        }
        debug_assert!(!self.candidates.is_empty(), "a node without a candidate");
        let tree = &mut state.tree;
        let best = index_of_best(&self.ranks);
        let candidate = &mut self.candidates[best];
        let slot = candidate.pick.into_slot(tree, id)?;
        candidate.visits += 1;
        let taken = *candidate;
        self.ranks[best] = rank(taken.score(), best);
        self.candidates[best].pick = Pick::Child(slot);
        if let Pick::Unvisited(edge) = taken.pick
            && id != tree.root
        {
            let bonus = rules.prior_bonus;
            self.add_next(tree, params, id, taken.q, bonus, edge + 1);
        }
        Ok(slot)
    }

    /// Adds the next unvisited move: below the root only the first unvisited move is a candidate.
    fn add_next(
        &mut self,
        tree: &Tree,
        params: &SearchParams,
        id: NodeId,
        fpu: f32,
        prior_bonus: f32,
        edge: u8,
    ) {
        let node = tree.node(id);
        if let Some(next) = tree.edges(node).get(usize::from(edge)) {
            let candidate = Candidate {
                pick: Pick::Unvisited(edge),
                q: fpu,
                exploration: params.cpuct().exploration(node.n) * (next.p() + prior_bonus),
                visits: 0,
            };
            self.ranks
                .push(rank(candidate.score(), self.candidates.len()));
            self.candidates.push(candidate);
        }
    }
}

/// Calls `consider` with every move that may be the best. Of several equal ones the first wins.
#[inline(always)]
fn for_each_candidate(
    state: &SearchState,
    params: &SearchParams,
    id: NodeId,
    rules: PlyRules,
    consider: impl FnMut(Candidate),
) {
    let tree = &state.tree;
    let node = tree.node(id);
    // A node that is only passed through has no value of its own to stop at.
    let may_grow = !state.is_at_memory_limit || node.n == 0;
    if id == tree.root {
        for_each_at_root(state, params, rules, consider);
    } else if rules.avoids_losses {
        for_each_below_root::<true>(tree, params, node, rules, may_grow, consider);
    } else {
        for_each_below_root::<false>(tree, params, node, rules, may_grow, consider);
    }
}

/// Below the root the children are the first edges in order, because priors are sorted and unvisited moves share one
/// Q. If the tree may not grow, only visited moves count, of which there is at least one.
#[inline(always)]
fn for_each_below_root<const AVOIDS_LOSSES: bool>(
    tree: &Tree,
    params: &SearchParams,
    node: &Node,
    rules: PlyRules,
    may_grow: bool,
    mut consider: impl FnMut(Candidate),
) {
    let children = tree.children(node);
    let edges = tree.edges(node);
    let draw_score = params.draw_score(rules.turn);
    let exploration = params.cpuct().exploration(node.n);
    let parent_q = -node.q(-draw_score);
    let moves_left = params
        .moves_left
        .filter(|moves_left| moves_left.is_active(node.wl));
    let mut visited_mass = 0.0;
    let mut has_unevaluated = false;
    for (slot, (child, edge)) in children.iter().zip(edges.iter()).enumerate() {
        if child.n == 0 {
            has_unevaluated = true;
            continue;
        }
        let p = edge.p();
        visited_mass += p;
        let mut q = child.q(draw_score);
        if let Some(moves_left) = moves_left {
            q += moves_left.utility(q, child.m - node.m);
        }
        if AVOIDS_LOSSES && child.is_lost() {
            q -= LOST;
        }
        consider(Candidate {
            pick: Pick::Child(slot as u8),
            q,
            exploration: exploration * (p + rules.prior_bonus),
            visits: child.n + child.in_flight,
        });
    }
    let fpu = params.fpu().value(parent_q, visited_mass);
    let mut consider_unvisited = |pick, p, visits| {
        consider(Candidate {
            pick,
            q: fpu,
            exploration: exploration * (p + rules.prior_bonus),
            visits,
        });
    };
    if has_unevaluated {
        for (slot, (child, edge)) in children.iter().zip(edges.iter()).enumerate() {
            if child.n == 0 {
                consider_unvisited(Pick::Child(slot as u8), edge.p(), child.in_flight);
            }
        }
    }
    if let Some(edge) = edges.get(children.len()).filter(|_| may_grow) {
        consider_unvisited(Pick::Unvisited(children.len() as u8), edge.p(), 0);
    }
}

/// At the root priors may carry noise, moves may be excluded, and moves that can no longer become the best are
/// skipped.
fn for_each_at_root(
    state: &SearchState,
    params: &SearchParams,
    rules: PlyRules,
    mut consider: impl FnMut(Candidate),
) {
    let tree = &state.tree;
    let node = state.root();
    let draw_score = params.draw_score(rules.turn);
    let exploration = params.cpuct_at_root().exploration(node.n);
    let parent_q = -node.q(-draw_score);
    let moves_left = params
        .moves_left
        .filter(|moves_left| moves_left.is_active(node.wl));
    let (slots, children) = (tree.slots_by_edge(node), tree.children(node));
    let (visited_mass, most_visits) = state.visits_at_root(&slots);
    let passes_over_wins = state.passes_over_wins();
    let fpu = params.fpu_at_root().value(parent_q, visited_mass);
    for (edge, p) in state.root_moves.allowed() {
        let slot = slots.get(edge);
        let child = slot.map_or(Node::EMPTY, |slot| children[usize::from(slot)]);
        let behind = u64::from(most_visits.saturating_sub(child.n));
        if behind > state.progress.catch_up {
            continue;
        }
        if passes_over_wins && child.is_won() {
            continue;
        }
        let mut q = fpu;
        if child.n > 0 {
            q = child.q(draw_score);
            if let Some(moves_left) = moves_left {
                q += moves_left.utility(q, child.m - node.m);
            }
            if rules.avoids_losses && child.is_lost() {
                q -= LOST;
            }
        }
        consider(Candidate {
            pick: slot.map_or(Pick::Unvisited(edge), Pick::Child),
            q,
            exploration: exploration * (p + rules.prior_bonus),
            visits: child.n + child.in_flight,
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        chess::History,
        network::{Batch, Evaluator, hash::HashEvaluator},
        options::Options,
        search::{
            Job, Limits, TreeSearch,
            first_visits::FirstVisits,
            tree::node::{Bounds, Edge, Origin},
        },
    };

    /// A tree of this many nodes, the same every time.
    pub fn searched(nodes: u64) -> (SearchState, SearchParams) {
        let options = Options {
            minibatch_size: 8,
            ..Options::default()
        };
        let params = SearchParams::new(&options.search(), 8, true);
        let limits = Limits {
            nodes: Some(nodes),
            ..Limits::default()
        };
        let job = Job::new(History::default(), limits, options.search());
        let mut search = TreeSearch::new(Tree::default(), job, Arc::new(params.clone()));
        let mut batch = Batch::default();
        while !search.is_over() {
            batch.clear();
            search.gather(&HashEvaluator, &mut batch).unwrap();
            HashEvaluator.evaluate(&mut batch).unwrap();
            search.apply(&batch);
        }
        (search.into_state(), params)
    }

    /// The rules of plain PUCT.
    fn rules(turn: Color) -> PlyRules {
        PlyRules {
            turn,
            prior_bonus: 0.0,
            avoids_losses: false,
        }
    }

    /// The root and its most visited children.
    fn busy_nodes(tree: &Tree) -> Vec<(NodeId, Color)> {
        let root = tree.node(tree.root);
        let slots = 0..root.n_children;
        let children = slots.map(|slot| tree.child_id(root, slot));
        let busy = children.filter(|&id| tree.node(id).n > 5 && !tree.node(id).is_proven());
        let busy = busy.map(|id| (id, tree.root_turn.other()));
        [(tree.root, tree.root_turn)]
            .into_iter()
            .chain(busy)
            .collect()
    }

    #[test]
    fn first_visits_take_the_moves_that_puct_takes() {
        // Without and with OptimalSelect, one ply below the root.
        for prior_bonus in [0.0, 1.0 / 64.0] {
            compare_first_visits(prior_bonus);
        }
    }

    fn compare_first_visits(prior_bonus: f32) {
        let (mut state, params) = searched(3000);
        let parents = busy_nodes(&state.tree);
        let mut compared = 0;
        for (parent, turn) in parents {
            for slot in 0..state.tree.node(parent).n_children {
                let tree = &state.tree;
                let id = tree.child_id(tree.node(parent), slot);
                let node = *tree.node(id);
                if node.n != 1 || node.n_children > 0 || node.n_edges < 4 {
                    continue;
                }
                let moves: Vec<Edge> = tree.edges(&node).iter().collect();
                let (mut first_visits, mut ranking) = (FirstVisits::default(), Ranking::default());
                let mut seen = 0;
                for _ in 0..20 {
                    let rules = PlyRules {
                        prior_bonus,
                        ..rules(turn.other())
                    };
                    let taken = ranking.take(&mut state, &params, id, rules).unwrap();
                    let expected = (taken == seen).then_some(usize::from(taken));
                    seen += u8::from(taken == seen);
                    assert_eq!(first_visits.take(&moves, prior_bonus), expected);
                }
                compared += 1;
            }
        }
        assert!(compared > 10, "{compared}");
        let mut none = FirstVisits::default();
        assert_eq!(none.take(&[], 0.0), None);
    }

    #[test]
    fn a_ranking_takes_the_same_moves_as_separate_visits() {
        for nodes in [2, 30, 400, 5000] {
            let ((mut one, params), (mut all, _)) = (searched(nodes), searched(nodes));
            let mut ranking = Ranking::default();
            let mut compared = 0;
            for (id, turn) in busy_nodes(&one.tree) {
                ranking.clear();
                for visit in 0..100 {
                    let alone = best_move(&mut one, &params, id, rules(turn)).unwrap();
                    let together = ranking.take(&mut all, &params, id, rules(turn)).unwrap();
                    assert_eq!(together, alone, "{nodes} nodes, node {id}, visit {visit}");
                    for tree in [&mut one.tree, &mut all.tree] {
                        let child = tree.child_id(tree.node(id), alone);
                        tree.node_mut(child).in_flight += 1;
                    }
                    compared += 1;
                }
            }
            assert!(compared >= 100);
        }
    }

    #[test]
    fn moves_that_are_not_allowed_leave_none_of_the_others_behind() {
        let (mut state, params) = searched(5000);
        let last = state.root().n_edges - 1;
        state.allow(&[last]);
        state.progress.catch_up = 0;
        let (root, turn) = (state.tree.root, state.tree.root_turn);
        let slot = state.tree.slot_of_edge(state.root(), last).unwrap();
        assert_eq!(best_move(&mut state, &params, root, rules(turn)), Ok(slot));
        let taken = Ranking::default().take(&mut state, &params, root, rules(turn));
        assert_eq!(taken, Ok(slot));
    }

    #[test]
    fn proven_wins_that_visits_pass_over_leave_no_open_move_behind() {
        let child = |n, bounds| {
            let mut node = Node { n, ..Node::EMPTY };
            node.set_bounds(bounds, Origin::Children);
            node
        };
        let (won, open) = (Bounds::exact(1), Bounds::OPEN);
        let children = [child(6000, won), child(5990, won), child(10, open)];
        let mut state = SearchState::with_children(&children);
        let params = searched(2).1;
        state.looks_beside_wins = true;
        state.progress.catch_up = 0;
        let (root, turn) = (state.tree.root, state.tree.root_turn);
        assert_eq!(best_move(&mut state, &params, root, rules(turn)), Ok(2));
        let taken = Ranking::default().take(&mut state, &params, root, rules(turn));
        assert_eq!(taken, Ok(2));
    }

    #[test]
    fn in_the_largest_trees_a_proven_loss_still_ranks_behind_all_others() {
        let mut lost = Node {
            n: 1,
            ..Node::EMPTY
        };
        lost.set_bounds(Bounds::exact(-1), Origin::Children);
        let bad = Node {
            n: 4_000_000_000,
            wl: -1.0,
            ..Node::EMPTY
        };
        let mut state = SearchState::with_children(&[lost, bad]);
        let params = searched(2).1;
        state.progress.catch_up = u64::MAX;
        let (root, turn) = (state.tree.root, state.tree.root_turn);
        for (avoids_losses, slot) in [(true, 1), (false, 0)] {
            let rules = PlyRules {
                avoids_losses,
                ..rules(turn)
            };
            assert_eq!(best_move(&mut state, &params, root, rules), Ok(slot));
            let taken = Ranking::default().take(&mut state, &params, root, rules);
            assert_eq!(taken, Ok(slot));
        }
    }

    #[test]
    fn ranks_order_scores_and_then_indices() {
        let scores = [-f32::INFINITY, -2.0, -0.5, -0.0, 0.0, 1e-9, 0.5, 3.0];
        for pair in scores.windows(2) {
            assert!(
                rank(pair[0], 0) <= rank(pair[1], 255) || pair[0] == pair[1],
                "{pair:?}"
            );
        }
        let ranks: Vec<i64> = [0.5, -1.0, 0.7, 0.7, 0.2, 0.7]
            .iter()
            .enumerate()
            .map(|(index, &score)| rank(score, index))
            .collect();
        assert_eq!(index_of_best(&ranks), 2);
        assert_eq!(index_of_best(&ranks[3..]), 3);
        assert_eq!(index_of_best(&ranks[..1]), 0);
    }
}
