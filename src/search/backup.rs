//! Backup: adds values and proofs to the nodes from the leaves to the root.

use super::{
    bounds::{self, Correction},
    params::SearchParams,
    search_contempt::VisitEnd,
    state::SearchState,
    tree::{
        Tree,
        edges::EdgeRange,
        node::{Mean, NodeId},
    },
    visits::{Leaf, PathStep, VisitState, Visits},
};
use crate::chess::turn_after;

/// The node ids on the paths of visits, valid until the tree grows; scratch memory of backup. [`extend`] makes it grow
/// between two of them: that moves only the children of a node that had no edges when the visits were selected, so no
/// other path of these visits leads below it.
#[derive(Default)]
pub(super) struct Paths {
    ids: Vec<NodeId>,
    list: Vec<Path>,
}

/// The visit, and the range of its ids.
struct Path {
    visit: usize,
    ids: std::ops::Range<usize>,
}

impl Paths {
    /// Backs up every visit that is ready; with `finish`, also undoes the collisions.
    pub fn back_up(
        &mut self,
        state: &mut SearchState,
        params: &SearchParams,
        visits: &mut Visits,
        finish: bool,
    ) {
        state.tree.edges.install(&mut visits.writer);
        state.progress.tb_hits += std::mem::take(&mut visits.tb_hits);
        state.progress.evaluations += std::mem::take(&mut visits.evaluations);
        let is_due = |state: &VisitState| match state {
            VisitState::Settled | VisitState::Collision => finish,
            state => state.is_ready(),
        };
        self.follow(&state.tree, visits, is_due);
        for Path { visit, ids } in &self.list {
            let visit = &mut visits.list[*visit];
            let path = &mut self.ids[ids.clone()];
            let steps = &visits.steps[visit.steps.clone()];
            let keys = visits.keys.get(visit.steps.clone()).unwrap_or_default();
            match &visit.state {
                VisitState::Ready(leaf) => {
                    back_up_leaf(state, params, path, steps, leaf, keys);
                    state.tree.share_values(path, keys);
                    state.progress.claimed -= 1;
                }
                VisitState::Settled => {
                    revisit(state, params, path, steps);
                    state.progress.claimed -= 1;
                }
                VisitState::Expanded(edges) => {
                    let id = path[path.len() - 1];
                    if state.tree.node(id).n_edges == 0 {
                        state.tree.set_edges(id, *edges);
                    }
                    cancel(&mut state.tree, path, steps);
                    state.progress.claimed -= 1;
                }
                VisitState::Extended(edges, leaf) => {
                    let slot = steps[steps.len() - 1].slot;
                    if extend(&mut state.tree, path, *edges, slot) {
                        back_up_leaf(state, params, path, steps, leaf, keys);
                        state.tree.share_values(path, keys);
                    } else {
                        let last = steps.len() - 1;
                        cancel(&mut state.tree, &path[..=last], &steps[..last]);
                    }
                    state.progress.claimed -= 1;
                }
                _ => cancel(&mut state.tree, path, steps),
            }
            visit.state = VisitState::Done;
        }
    }

    /// Undoes every visit that is not backed up yet.
    pub fn cancel_all(&mut self, state: &mut SearchState, visits: &mut Visits) {
        self.follow(&state.tree, visits, |state| {
            !matches!(state, VisitState::Done)
        });
        for Path { visit, ids } in &self.list {
            let visit = &mut visits.list[*visit];
            let steps = visit.steps_in_tree();
            let path = &self.ids[ids.start..=ids.start + steps.len()];
            cancel(&mut state.tree, path, &visits.steps[steps]);
            if !matches!(visit.state, VisitState::Collision) {
                state.progress.claimed -= 1;
            }
            visit.state = VisitState::Done;
        }
    }

    /// Follows the steps of the visits that are `due`. All paths grow together, ply by ply, so that their memory
    /// accesses overlap.
    fn follow(&mut self, tree: &Tree, visits: &Visits, due: impl Fn(&VisitState) -> bool) {
        self.ids.clear();
        self.list.clear();
        let mut longest = 0;
        for (index, visit) in visits.list.iter().enumerate() {
            if due(&visit.state) {
                let start = self.ids.len();
                self.ids.resize(start + visit.steps.len() + 1, tree.root);
                longest = longest.max(visit.steps.len());
                self.list.push(Path {
                    visit: index,
                    ids: start..self.ids.len(),
                });
            }
        }
        for depth in 0..longest {
            for path in &self.list {
                let steps = &visits.steps[visits.list[path.visit].steps_in_tree()];
                if let Some(step) = steps.get(depth) {
                    let ids = &mut self.ids[path.ids.clone()];
                    ids[depth + 1] = tree.child_id(tree.node(ids[depth]), step.slot);
                }
            }
        }
    }
}

/// Gives the last but one node of `path` its moves, unless a visit that came with this one did, and makes the last one,
/// in this slot, with a visit in flight. Returns false, leaving the last place as it was, if the visit has to be
/// repeated: another one was faster, the node's replies are to be drawn, or there is no room.
fn extend(tree: &mut Tree, path: &mut [NodeId], edges: EdgeRange, slot: u8) -> bool {
    let [.., id, end] = path else { return false };
    let id = *id;
    if tree.node(id).n_edges == 0 {
        tree.set_edges(id, edges);
    }
    let node = tree.node(id);
    if node.n_children != slot || node.edges != edges.start || !tree.is_below_limit(id) {
        return false;
    }
    if tree.add_child(id, slot).is_err() {
        return false;
    }
    *end = tree.child_id(tree.node(id), slot);
    tree.node_mut(*end).in_flight += 1;
    true
}

/// Removes the in-flight marks of a visit.
fn cancel(tree: &mut Tree, path: &[NodeId], steps: &[PathStep]) {
    for &id in path {
        tree.node_mut(id).in_flight -= 1;
    }
    for (&id, step) in path.iter().zip(steps) {
        tree.settle_reply(id, step.slot, step.chosen, VisitEnd::Cancelled);
    }
    // This visit may have been the last one in flight, so that the node freezes now.
    for (depth, &id) in path.iter().enumerate() {
        tree.freeze_if_due(id, depth);
    }
}

/// Backs up one more visit to a node whose value is used as it is.
pub(super) fn revisit(
    state: &mut SearchState,
    params: &SearchParams,
    path: &[NodeId],
    steps: &[PathStep],
) {
    let leaf = state.tree.node(path[path.len() - 1]);
    let value = Mean::of(leaf);
    back_up(state, params, path, steps, value, false);
}

fn back_up_leaf(
    state: &mut SearchState,
    params: &SearchParams,
    path: &[NodeId],
    steps: &[PathStep],
    leaf: &Leaf,
    keys: &[u64],
) {
    let id = path[path.len() - 1];
    let tree = &mut state.tree;
    tree.set_edges(id, leaf.edges);
    let mut v = -leaf.value.wl;
    let node = tree.node_mut(id);
    node.v = v;
    if let Some((result, origin)) = leaf.terminal {
        bounds::prove(node, -result, leaf.value.m, origin);
    }
    // Positions that were passed through get the same evaluation.
    for &id in path[..path.len() - 1].iter().rev() {
        let node = tree.node_mut(id);
        if node.n > 0 {
            break;
        }
        v = -v;
        node.v = v;
    }
    let known = match (leaf.terminal, keys.last()) {
        (None, Some(&key)) => tree.shared_values.value(key),
        _ => None,
    };
    let value = known.unwrap_or(leaf.value);
    let value = Mean {
        wl: f64::from(-value.wl),
        d: value.d,
        m: value.m,
    };
    back_up(state, params, path, steps, value, leaf.terminal.is_some());
    if leaf.terminal.is_none() {
        state.progress.note_open_visit(steps.len() as u32);
    }
}

/// What a backup does for proofs above the leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proofs {
    /// Nothing: the leaf is not newly proven, or proofs do not propagate.
    None,
    /// Ancestors may be proven.
    Propagate,
    /// Ancestors may be proven, and the means above them are corrected.
    Correct,
}

/// Adds `value` to every node of the path, from the leaf to the root. A leaf that has just been proven (`is_proof`) may
/// prove its ancestors.
fn back_up(
    state: &mut SearchState,
    params: &SearchParams,
    path: &[NodeId],
    steps: &[PathStep],
    value: Mean,
    is_proof: bool,
) {
    let proofs = |kind: Proofs| {
        if is_proof && params.propagates_proofs() {
            kind
        } else {
            Proofs::None
        }
    };
    let mean = |n| 1.0 / f64::from(n);
    match params.moving_average {
        None => back_up_by(state, path, steps, value, proofs(Proofs::Correct), mean),
        // The weight of a proven node's visits in a moving average above it is unknown, so there a proof acts only
        // through later visits.
        Some(average) => {
            let share = |n| average.share(n);
            back_up_by(state, path, steps, value, proofs(Proofs::Propagate), share);
        }
    }
}

/// Backs up a value, where `share` is the weight of a node's latest visit in its mean.
#[inline(always)]
fn back_up_by(
    state: &mut SearchState,
    path: &[NodeId],
    steps: &[PathStep],
    mut value: Mean,
    mut proofs: Proofs,
    share: impl Fn(u32) -> f64,
) {
    let mut correction = Correction::default();
    state.progress.add_visit(steps.len() as u32);
    let tree = &mut state.tree;
    for depth in (0..path.len()).rev() {
        let id = path[depth];
        let is_root = depth == 0;
        let node = tree.node_mut(id);
        if node.is_proven() && !is_root {
            value = Mean::of(node);
        }
        node.in_flight -= 1;
        node.add_visit(value.wl, value.d, value.m, &share);
        if correction.visits > 0 && (is_root || !node.is_proven()) {
            correction.apply(node);
        }
        if let Some(step) = steps.get(depth) {
            tree.settle_reply(id, step.slot, step.chosen, VisitEnd::Completed);
        }
        tree.freeze_if_due(id, depth);
        if is_root {
            break;
        }
        let parent = path[depth - 1];
        if let Some(butterfly) = &tree.butterfly
            && !tree.node(id).is_proven()
            && tree.node(parent).n > 0
        {
            let turn = turn_after(tree.root_turn, depth - 1);
            let change = (value.wl + tree.node(parent).wl) as f32;
            butterfly.record(turn, steps[depth - 1].m, change);
        }
        let parent_is_proven = tree.node(parent).is_proven() && depth > 1;
        if parent_is_proven {
            correction = Correction::default();
            if proofs != Proofs::None && !bounds::renew(tree, parent) {
                proofs = Proofs::None;
            }
        } else if proofs != Proofs::None {
            match bounds::update(tree, parent) {
                None => proofs = Proofs::None,
                Some(proof) if proofs == Proofs::Correct && proof.visits > 0 => {
                    correction = proof.flipped();
                }
                Some(_) => {}
            }
        }
        value = value.flipped();
        correction = correction.flipped();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        network::Value,
        options::Options,
        search::{
            search_contempt::ChosenBy,
            tree::node::{Bounds, Node, Origin, tests::node},
            visits::Visit,
        },
    };

    /// A root with one visit of its own and two children, of which the first has two replies; two visits are in
    /// flight to a third reply of it.
    struct Line {
        state: SearchState,
        visits: Visits,
        /// Root, child, leaf.
        path: [NodeId; 3],
    }

    impl Line {
        fn new(children: [Node; 2]) -> Line {
            let mut next = History::default();
            let first = legal_moves(next.position()).next().unwrap();
            let replies = [
                node(2, -0.2, 0.4, 11.0),
                node(1, 0.3, 0.1, 21.0),
                Node::EMPTY,
            ];
            let mut tree = Tree::new(next.clone(), None);
            let root = tree.root;
            *tree.node_mut(root) = node(10, 0.0, 0.3, 14.0);
            let child = tree.grow(root, &next, &children)[0];
            next.push(first);
            let leaf = tree.grow(child, &next, &replies)[2];
            let m = tree.edges(tree.node(child)).at(2).m();
            let path = [root, child, leaf];
            for id in path {
                tree.node_mut(id).in_flight = 2;
            }
            let step = |slot, m| PathStep {
                slot,
                chosen: ChosenBy::Search,
                m,
            };
            let mut state = SearchState {
                tree,
                ..SearchState::default()
            };
            state.progress.claimed = 1;
            let mut visits = Visits {
                steps: [step(0, first), step(2, m)].repeat(2),
                ..Visits::default()
            };
            for (steps, state) in [(0..2, VisitState::Claimed), (2..4, VisitState::Collision)] {
                visits.list.push(Visit {
                    head: 0,
                    steps,
                    state,
                });
            }
            Line {
                state,
                visits,
                path,
            }
        }

        /// Two children: four visits (the two replies', and its own) and five.
        fn open() -> Line {
            Line::new([node(4, 0.2, 0.3, 12.0), node(5, -0.1, 0.2, 15.0)])
        }

        /// Sets the evaluation of the leaf, for its side to move.
        fn evaluated(&mut self, value: Value, terminal: Option<(i8, Origin)>) {
            self.visits.list[0].state = VisitState::Ready(Leaf {
                value,
                terminal,
                edges: Default::default(),
            });
        }

        /// Shares a value for the leaf's position, as if another node had searched it; the keys are 11 for the
        /// child's position and 13 for the leaf's.
        fn share_value_of_leaf(&mut self) {
            self.visits.keys = vec![11, 13, 11, 13];
            let elsewhere = node(40, 0.2, 0.5, 8.0);
            self.state.tree.shared_values.store(13, &elsewhere);
        }

        fn back_up(&mut self, finish: bool) {
            let params = SearchParams::new(&Options::default().search(), 2, true);
            Paths::default().back_up(&mut self.state, &params, &mut self.visits, finish);
        }

        fn assert_is(&self, depth: usize, n: u32, wl: f64, d: f64, m: f64) {
            let node = self.state.tree.node(self.path[depth]);
            let close = |a: f64, b: f64| (a - b).abs() < 1e-5;
            let is_right = close(node.wl, wl) && close(node.d.into(), d) && close(node.m.into(), m);
            assert!(node.n == n && is_right, "{n} {wl} {d} {m}, not {node:?}");
        }

        fn in_flight(&self) -> [u32; 3] {
            self.path.map(|id| self.state.tree.node(id).in_flight)
        }
    }

    const VALUE: Value = Value {
        wl: 0.6,
        d: 0.3,
        m: 20.0,
    };

    /// That of a side that is mated.
    const MATED: Value = Value {
        wl: -1.0,
        d: 0.0,
        m: 0.0,
    };

    #[test]
    fn a_value_changes_sides_and_length_on_its_way_up() {
        let mut line = Line::open();
        line.evaluated(VALUE, None);
        line.back_up(false);
        line.assert_is(2, 1, -0.6, 0.3, 20.0);
        assert_eq!(line.state.tree.node(line.path[2]).v, -0.6);
        line.assert_is(
            1,
            5,
            (4.0 * 0.2 + 0.6) / 5.0,
            (4.0 * 0.3 + 0.3) / 5.0,
            (48.0 + 21.0) / 5.0,
        );
        line.assert_is(0, 11, -0.6 / 11.0, 3.3 / 11.0, (140.0 + 22.0) / 11.0);
        assert_eq!(
            (line.state.progress.claimed, line.state.progress.playouts),
            (0, 1)
        );
        assert_eq!(line.state.progress.seldepth, 2);
        // The collision is still in flight; it leaves no trace.
        assert_eq!(line.in_flight(), [1, 1, 1]);
        line.back_up(true);
        assert_eq!(line.in_flight(), [0, 0, 0]);
        line.assert_is(2, 1, -0.6, 0.3, 20.0);
        assert_eq!(line.state.tree.node(line.path[0]).n, 11);
        assert_eq!(line.state.progress.playouts, 1);
    }

    #[test]
    fn a_shared_value_initialises_a_leaf() {
        let mut line = Line::open();
        line.evaluated(VALUE, None);
        line.share_value_of_leaf();
        line.back_up(true);
        // The leaf is worth -0.2 to its side to move, whatever the network's value is.
        line.assert_is(2, 1, 0.2, 0.5, 8.0);
        assert_eq!(line.state.tree.node(line.path[2]).v, -0.6);
        line.assert_is(
            1,
            5,
            (4.0 * 0.2 - 0.2) / 5.0,
            (4.0 * 0.3 + 0.5) / 5.0,
            (48.0 + 9.0) / 5.0,
        );
        // The parent's statistics are shared as well, for its side to move.
        let known = line.state.tree.shared_values.value(11).unwrap();
        assert!((known.wl + 0.12).abs() < 1e-6 && (known.d - 0.34).abs() < 1e-6);
    }

    #[test]
    fn a_result_needs_no_shared_value() {
        let mut line = Line::open();
        let drawn = Value {
            wl: 0.0,
            d: 1.0,
            m: 0.0,
        };
        line.evaluated(drawn, Some((0, Origin::TwoFold)));
        line.share_value_of_leaf();
        line.back_up(true);
        line.assert_is(2, 1, 0.0, 1.0, 0.0);
    }

    #[test]
    fn unevaluated_visits_wait_and_can_be_undone() {
        let mut line = Line::open();
        line.back_up(true);
        assert_eq!(line.in_flight(), [1, 1, 1]);
        assert_eq!(line.state.progress.claimed, 1);
        Paths::default().cancel_all(&mut line.state, &mut line.visits);
        assert_eq!(line.in_flight(), [0, 0, 0]);
        assert_eq!(
            (line.state.progress.claimed, line.state.progress.playouts),
            (0, 0)
        );
        line.assert_is(0, 10, 0.0, 0.3, 14.0);
        line.assert_is(1, 4, 0.2, 0.3, 12.0);
    }

    #[test]
    fn a_mate_proves_the_move_that_allows_it_lost_and_corrects_the_root() {
        let mut line = Line::open();
        line.evaluated(MATED, Some((-1, Origin::Rules)));
        line.back_up(true);
        let tree = &line.state.tree;
        let [root, child, leaf] = line.path.map(|id| *tree.node(id));
        assert_eq!(leaf.bounds(), Bounds::exact(1));
        assert_eq!(child.bounds(), Bounds::exact(-1));
        assert_eq!(
            (child.origin(), root.is_proven()),
            (Origin::Children, false)
        );
        line.assert_is(2, 1, 1.0, 0.0, 0.0);
        line.assert_is(1, 5, -1.0, 0.0, 1.0);
        // As if all five visits of the child had been lost in two plies: its four visits were worth -0.2 each to the
        // other side.
        line.assert_is(
            0,
            11,
            (4.0 * 0.2 + 5.0 * 1.0) / 11.0,
            (3.0 - 4.0 * 0.3) / 11.0,
            (140.0 - 4.0 * 12.0 + 5.0 * 1.0 + 1.0) / 11.0,
        );
    }

    #[test]
    fn a_shorter_mate_that_was_in_flight_shortens_the_proof() {
        let mut lost = node(4, -1.0, 0.0, 5.0);
        lost.set_bounds(Bounds::exact(-1), Origin::Children);
        let mut line = Line::new([lost, node(5, -0.1, 0.2, 15.0)]);
        let tree = &mut line.state.tree;
        let reply = tree.child_id(tree.node(line.path[1]), 0);
        tree.node_mut(reply).m = 4.0;
        tree.node_mut(reply)
            .set_bounds(Bounds::exact(1), Origin::Children);
        line.evaluated(MATED, Some((-1, Origin::Rules)));
        line.back_up(true);
        line.assert_is(1, 5, -1.0, 0.0, 1.0);
        let child = line.state.tree.node(line.path[1]);
        assert_eq!(child.bounds(), Bounds::exact(-1));
    }

    #[test]
    fn without_sticky_endgames_a_mate_is_a_value_like_any_other() {
        let mut line = Line::open();
        line.evaluated(MATED, Some((-1, Origin::Rules)));
        let options = Options {
            sticky_endgames: false,
            ..Options::default()
        };
        let params = SearchParams::new(&options.search(), 2, true);
        Paths::default().back_up(&mut line.state, &params, &mut line.visits, true);
        assert!(!line.state.tree.node(line.path[1]).is_proven());
        line.assert_is(1, 5, (4.0 * 0.2 - 1.0) / 5.0, 1.2 / 5.0, (48.0 + 1.0) / 5.0);
        line.assert_is(0, 11, 1.0 / 11.0, 3.0 / 11.0, (140.0 + 2.0) / 11.0);
    }

    #[test]
    fn below_a_proven_node_only_its_value_is_backed_up() {
        let mut child = node(4, 1.0, 0.0, 7.0);
        child.set_bounds(Bounds::exact(1), Origin::Children);
        let mut line = Line::new([child, node(5, -0.1, 0.2, 15.0)]);
        line.evaluated(VALUE, None);
        line.back_up(true);
        line.assert_is(2, 1, -0.6, 0.3, 20.0);
        line.assert_is(1, 5, 1.0, 0.0, 7.0);
        line.assert_is(0, 11, -1.0 / 11.0, 3.0 / 11.0, (140.0 + 8.0) / 11.0);
    }
}
