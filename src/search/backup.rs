//! Backup: values go from the leaves to the root, proofs with them.

use super::{
    batch::{Leaf, Minibatch, State, Step},
    bounds::{self, Correction},
    node::{Node, NodeId},
    params::Params,
    search_contempt::Fate,
    tree::Tree,
};

/// Backs up every visit of the batch that is ready; with `finish`, also undoes its collisions.
pub(super) fn backup(tree: &mut Tree, params: &Params, batch: &mut Minibatch, finish: bool) {
    tree.edges.install(&mut batch.writer);
    tree.progress.tb_hits += std::mem::take(&mut batch.tb_hits);
    let is_due = |state: &State| match state {
        State::Ready(_) => true,
        State::Proven | State::Collision => finish,
        State::Claimed | State::Queued(_) | State::Done => false,
    };
    let mut paths = std::mem::take(&mut batch.paths);
    paths.follow(tree, batch, is_due);
    for (index, path) in paths.iter() {
        let visit = &mut batch.visits[index];
        let steps = &batch.steps[visit.steps.clone()];
        match &visit.state {
            State::Ready(leaf) => {
                back_up_leaf(tree, params, path, steps, leaf);
                tree.progress.claimed -= 1;
            }
            State::Proven => {
                revisit(tree, params, path, steps);
                tree.progress.claimed -= 1;
            }
            _ => cancel(tree, path, steps),
        }
        visit.state = State::Done;
    }
    batch.paths = paths;
}

/// Undoes every visit of the batch that is not backed up yet.
pub(super) fn cancel_all(tree: &mut Tree, batch: &mut Minibatch) {
    let mut paths = std::mem::take(&mut batch.paths);
    paths.follow(tree, batch, |state| !matches!(state, State::Done));
    for (index, path) in paths.iter() {
        let visit = &mut batch.visits[index];
        cancel(tree, path, &batch.steps[visit.steps.clone()]);
        if !matches!(visit.state, State::Collision) {
            tree.progress.claimed -= 1;
        }
        visit.state = State::Done;
    }
    batch.paths = paths;
}

/// The node ids on the ways of visits, valid until the tree grows.
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
    /// Follows the steps of the batch's visits that are `due`. All ways grow together, ply by ply, so that the memory for
    /// one need not be waited for before that for the next is asked for.
    fn follow(&mut self, tree: &Tree, batch: &Minibatch, due: impl Fn(&State) -> bool) {
        self.ids.clear();
        self.ways.clear();
        let mut longest = 0;
        for (index, visit) in batch.visits.iter().enumerate() {
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
                let steps = &batch.steps[batch.visits[way.visit].steps.clone()];
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
pub(super) fn cancel(tree: &mut Tree, path: &[NodeId], steps: &[Step]) {
    for &id in path {
        tree.node_mut(id).in_flight -= 1;
    }
    for (&id, step) in path.iter().zip(steps) {
        tree.settle_reply(id, step.slot, step.drawn, Fate::Cancelled);
    }
    // A visit of another thread may have been the last that a node waited for, but for this one.
    for (depth, &id) in path.iter().enumerate() {
        tree.freeze_if_due(id, depth);
    }
}

/// Backs up one more visit to a proven node.
pub(super) fn revisit(tree: &mut Tree, params: &Params, path: &[NodeId], steps: &[Step]) {
    let leaf = tree.node(path[path.len() - 1]);
    let value = Backed::of(leaf);
    back_up(tree, params, path, steps, value, false);
}

fn back_up_leaf(tree: &mut Tree, params: &Params, path: &[NodeId], steps: &[Step], leaf: &Leaf) {
    let id = path[path.len() - 1];
    tree.set_edges(id, leaf.edges);
    let node = tree.node_mut(id);
    node.v = -leaf.value.wl;
    if let Some((result, origin)) = leaf.terminal {
        bounds::prove(node, -result, leaf.value.m, origin);
    }
    let value = Backed {
        wl: f64::from(-leaf.value.wl),
        d: leaf.value.d,
        m: leaf.value.m,
    };
    back_up(tree, params, path, steps, value, leaf.terminal.is_some());
}

/// A value on its way up, seen by the side that moved into the node at hand.
#[derive(Clone, Copy)]
struct Backed {
    wl: f64,
    d: f32,
    m: f32,
}

impl Backed {
    fn of(node: &Node) -> Backed {
        Backed {
            wl: node.wl,
            d: node.d,
            m: node.m,
        }
    }

    /// The same one ply up, seen by the other side.
    fn flipped(self) -> Backed {
        Backed {
            wl: -self.wl,
            d: self.d,
            m: self.m + 1.0,
        }
    }
}

/// Adds `value` to every node of the path, from the leaf to the root. A leaf that has just been proven (`is_proof`) may
/// prove its ancestors.
fn back_up(
    tree: &mut Tree,
    params: &Params,
    path: &[NodeId],
    steps: &[Step],
    mut value: Backed,
    is_proof: bool,
) {
    let mut propagate = is_proof && params.sticky_endgames;
    let mut correction = Correction::default();
    tree.progress.add_visit(steps.len() as u32);
    for depth in (0..path.len()).rev() {
        let id = path[depth];
        let is_root = depth == 0;
        let node = tree.node_mut(id);
        if node.is_proven() && !is_root {
            value = Backed::of(node);
        }
        node.in_flight -= 1;
        node.add_visit(value.wl, value.d, value.m);
        if correction.visits > 0 && (is_root || !node.is_proven()) {
            correction.apply(node);
        }
        if let Some(step) = steps.get(depth) {
            tree.settle_reply(id, step.slot, step.drawn, Fate::Completed);
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
