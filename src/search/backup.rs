//! Backup: values go from the leaves to the root, proofs with them.

use super::{
    batch::{Leaf, Minibatch, State, Step},
    bounds::{self, Correction},
    node::{Node, NodeId},
    params::Params,
    search_contempt::Fate,
    tree::{Full, Tree},
};

/// Backs up every visit of the batch that is ready; with `finish`, also undoes its collisions.
///
/// # Errors
/// When the tree's arenas are full: the visits that found no room are undone.
pub(super) fn backup(
    tree: &mut Tree,
    params: &Params,
    batch: &mut Minibatch,
    finish: bool,
) -> Result<(), Full> {
    tree.progress.tb_hits += std::mem::take(&mut batch.tb_hits);
    let mut result = Ok(());
    let mut path = std::mem::take(&mut batch.path);
    for visit in &mut batch.visits {
        let steps = &batch.steps[visit.steps.clone()];
        match &visit.state {
            State::Ready(leaf) => {
                tree.follow(steps.iter().map(|step| step.slot), &mut path);
                result = result.and(back_up_leaf(tree, params, &path, steps, leaf, &batch.edges));
                tree.progress.claimed -= 1;
            }
            State::Proven if finish => {
                tree.follow(steps.iter().map(|step| step.slot), &mut path);
                revisit(tree, params, &path, steps);
                tree.progress.claimed -= 1;
            }
            State::Collision if finish => {
                tree.follow(steps.iter().map(|step| step.slot), &mut path);
                cancel(tree, &path, steps);
            }
            _ => continue,
        }
        visit.state = State::Done;
    }
    batch.path = path;
    result
}

/// Undoes every visit of the batch that is not backed up yet.
pub(super) fn cancel_all(tree: &mut Tree, batch: &mut Minibatch) {
    for visit in &mut batch.visits {
        if matches!(visit.state, State::Done) {
            continue;
        }
        let steps = &batch.steps[visit.steps.clone()];
        tree.follow(steps.iter().map(|step| step.slot), &mut batch.path);
        cancel(tree, &batch.path, steps);
        if !matches!(visit.state, State::Collision) {
            tree.progress.claimed -= 1;
        }
        visit.state = State::Done;
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

fn back_up_leaf(
    tree: &mut Tree,
    params: &Params,
    path: &[NodeId],
    steps: &[Step],
    leaf: &Leaf,
    edges: &[super::node::Edge],
) -> Result<(), Full> {
    let id = path[path.len() - 1];
    if let Err(full) = tree.set_edges(id, &edges[leaf.edges.clone()]) {
        cancel(tree, path, steps);
        return Err(full);
    }
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
    Ok(())
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
