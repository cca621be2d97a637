//! Backup: values go from the leaves to the root, proofs with them.

use super::{
    bounds::{self, Correction},
    params::Params,
    search_contempt::VisitEnd,
    state::SearchState,
    tree::{
        Tree,
        node::{Node, NodeId},
    },
    visits::{Leaf, Step, VisitState, Visits},
};

/// The node ids on the ways of visits, valid until the tree grows; scratch of backup.
#[derive(Default)]
pub(super) struct Paths {
    ids: Vec<NodeId>,
    ways: Vec<Way>,
}

/// Which visit, and where its ids are.
struct Way {
    visit: usize,
    ids: std::ops::Range<usize>,
}

impl Paths {
    /// Backs up every visit that is ready; with `finish`, also undoes the collisions.
    pub fn back_up(
        &mut self,
        state: &mut SearchState,
        params: &Params,
        visits: &mut Visits,
        finish: bool,
    ) {
        state.tree.edges.install(&mut visits.writer);
        state.progress.tb_hits += std::mem::take(&mut visits.tb_hits);
        let is_due = |state: &VisitState| match state {
            VisitState::Ready(_) => true,
            VisitState::Proven | VisitState::Collision => finish,
            VisitState::Claimed | VisitState::Queued(_) | VisitState::Done => false,
        };
        self.follow(&state.tree, visits, is_due);
        for (index, path) in self.iter() {
            let visit = &mut visits.list[index];
            let steps = &visits.steps[visit.steps.clone()];
            match &visit.state {
                VisitState::Ready(leaf) => {
                    back_up_leaf(state, params, path, steps, leaf);
                    state.progress.claimed -= 1;
                }
                VisitState::Proven => {
                    revisit(state, params, path, steps);
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
        for (index, path) in self.iter() {
            let visit = &mut visits.list[index];
            cancel(&mut state.tree, path, &visits.steps[visit.steps.clone()]);
            if !matches!(visit.state, VisitState::Collision) {
                state.progress.claimed -= 1;
            }
            visit.state = VisitState::Done;
        }
    }

    /// Follows the steps of the visits that are `due`. All ways grow together, ply by ply, so that the memory for
    /// one need not be waited for before that for the next is asked for.
    fn follow(&mut self, tree: &Tree, visits: &Visits, due: impl Fn(&VisitState) -> bool) {
        self.ids.clear();
        self.ways.clear();
        let mut longest = 0;
        for (index, visit) in visits.list.iter().enumerate() {
            if due(&visit.state) {
                let start = self.ids.len();
                self.ids.resize(start + visit.steps.len() + 1, tree.root);
                longest = longest.max(visit.steps.len());
                self.ways.push(Way {
                    visit: index,
                    ids: start..self.ids.len(),
                });
            }
        }
        for depth in 0..longest {
            for way in &self.ways {
                let steps = &visits.steps[visits.list[way.visit].steps.clone()];
                if let Some(step) = steps.get(depth) {
                    let ids = &mut self.ids[way.ids.clone()];
                    ids[depth + 1] = tree.child_id(tree.node(ids[depth]), step.slot);
                }
            }
        }
    }

    /// The visits and the nodes on their ways, from the root to the leaf.
    fn iter(&self) -> impl Iterator<Item = (usize, &[NodeId])> {
        self.ways
            .iter()
            .map(|way| (way.visit, &self.ids[way.ids.clone()]))
    }
}

/// Takes a visit's in-flight marks back.
fn cancel(tree: &mut Tree, path: &[NodeId], steps: &[Step]) {
    for &id in path {
        tree.node_mut(id).in_flight -= 1;
    }
    for (&id, step) in path.iter().zip(steps) {
        tree.settle_reply(id, step.slot, step.drawn, VisitEnd::Cancelled);
    }
    // A visit of another thread may have been the last that a node waited for, but for this one.
    for (depth, &id) in path.iter().enumerate() {
        tree.freeze_if_due(id, depth);
    }
}

/// Backs up one more visit to a proven node.
pub(super) fn revisit(state: &mut SearchState, params: &Params, path: &[NodeId], steps: &[Step]) {
    let leaf = state.tree.node(path[path.len() - 1]);
    let value = BackupValue::of(leaf);
    back_up(state, params, path, steps, value, false);
}

fn back_up_leaf(
    state: &mut SearchState,
    params: &Params,
    path: &[NodeId],
    steps: &[Step],
    leaf: &Leaf,
) {
    let id = path[path.len() - 1];
    let tree = &mut state.tree;
    tree.set_edges(id, leaf.edges);
    let node = tree.node_mut(id);
    node.v = -leaf.value.wl;
    if let Some((result, origin)) = leaf.terminal {
        bounds::prove(node, -result, leaf.value.m, origin);
    }
    let value = BackupValue {
        wl: f64::from(-leaf.value.wl),
        d: leaf.value.d,
        m: leaf.value.m,
    };
    back_up(state, params, path, steps, value, leaf.terminal.is_some());
}

/// A value on its way up, seen by the side that moved into the node at hand.
#[derive(Clone, Copy)]
struct BackupValue {
    wl: f64,
    d: f32,
    m: f32,
}

impl BackupValue {
    fn of(node: &Node) -> BackupValue {
        BackupValue {
            wl: node.wl,
            d: node.d,
            m: node.m,
        }
    }

    /// The same one ply up, seen by the other side.
    fn flipped(self) -> BackupValue {
        BackupValue {
            wl: -self.wl,
            d: self.d,
            m: self.m + 1.0,
        }
    }
}

/// Adds `value` to every node of the path, from the leaf to the root. A leaf that has just been proven (`is_proof`) may
/// prove its ancestors.
fn back_up(
    state: &mut SearchState,
    params: &Params,
    path: &[NodeId],
    steps: &[Step],
    mut value: BackupValue,
    is_proof: bool,
) {
    let mut propagate = is_proof && params.sticky_endgames;
    let mut correction = Correction::default();
    state.progress.add_visit(steps.len() as u32);
    let tree = &mut state.tree;
    for depth in (0..path.len()).rev() {
        let id = path[depth];
        let is_root = depth == 0;
        let node = tree.node_mut(id);
        if node.is_proven() && !is_root {
            value = BackupValue::of(node);
        }
        node.in_flight -= 1;
        node.add_visit(value.wl, value.d, value.m);
        if correction.visits > 0 && (is_root || !node.is_proven()) {
            correction.apply(node);
        }
        if let Some(step) = steps.get(depth) {
            tree.settle_reply(id, step.slot, step.drawn, VisitEnd::Completed);
        }
        tree.freeze_if_due(id, depth);
        if is_root {
            break;
        }
        let parent = path[depth - 1];
        let parent_is_proven = tree.node(parent).is_proven() && depth > 1;
        if parent_is_proven {
            correction = Correction::default();
        } else if propagate {
            match bounds::update(tree, parent) {
                None => propagate = false,
                Some(proof) if proof.visits > 0 => correction = proof.flipped(),
                Some(_) => {}
            }
        }
        value = value.flipped();
        correction = correction.flipped();
    }
}
