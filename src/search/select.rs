//! Selection: from the root to a leaf, again and again, until the batch is full.
//!
//! At each node one question decides: draw a reply from frozen counts (search-contempt), or take the move with the
//! largest Q + U (PUCT)? Visits in flight count in U's denominator only. A leaf that another visit has claimed is a
//! collision, noted and undone after the batch; a proven node is backed up on the spot.

use rand::rngs::Xoshiro256PlusPlus;
use shakmaty::Color;

use super::{
    backup,
    batch::{Minibatch, State, Step},
    node::{Node, NodeId},
    params::Params,
    search_contempt::Reply,
    tree::{Full, Tree},
};

/// Where a descent ended.
enum End {
    /// At a position nobody has evaluated yet.
    Leaf,
    /// At a leaf that another visit has claimed.
    Collision,
    /// At a node whose value is certain.
    Proven,
}

/// Which way to go from a node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pick {
    /// To a child that exists.
    Child(u8),
    /// To the position behind an edge that was never visited.
    Unvisited(u8),
}

/// Selects up to `want` leaves into `batch`. Stops early when the batch has had as many as `collisions`, when the visits that the
/// search may still make are used up, or when the tree is full.
///
/// # Errors
/// When the tree's arenas are full; what was selected before stays valid.
pub(super) fn select(
    tree: &mut Tree,
    params: &Params,
    batch: &mut Minibatch,
    rng: &mut Xoshiro256PlusPlus,
    want: usize,
    collisions: usize,
) -> Result<(), Full> {
    tree.gathering = tree.gathering.wrapping_add(1);
    let mut selected = 0;
    while selected < want
        && batch.collisions < collisions
        && batch.out_of_order < params.max_out_of_order
        && tree.progress.visits_left(tree.node(tree.root).n) > 0
    {
        let first_step = batch.steps.len();
        batch.path.clear();
        let end = match descend(tree, params, batch, rng) {
            Ok(end) => end,
            Err(Full) => {
                backup::cancel(tree, &batch.path, &batch.steps[first_step..]);
                return Err(Full);
            }
        };
        match end {
            End::Leaf => {
                tree.progress.claimed += 1;
                batch.add_visit(first_step, State::Claimed);
                selected += 1;
            }
            End::Collision => {
                for (&id, step) in batch.path.iter().zip(&batch.steps[first_step..]) {
                    if step.drawn {
                        tree.note_collision(id, step.slot);
                    }
                }
                batch.add_visit(first_step, State::Collision);
                batch.collisions += 1;
            }
            End::Proven if params.out_of_order => {
                let steps = &batch.steps[first_step..];
                backup::revisit(tree, params, &batch.path, steps);
                batch.steps.truncate(first_step);
                batch.out_of_order += 1;
            }
            End::Proven => {
                tree.progress.claimed += 1;
                batch.add_visit(first_step, State::Proven);
                selected += 1;
            }
        }
    }
    Ok(())
}

/// Goes down from the root, marking visits in flight; the way is left in `batch.path` and at the end of `batch.steps`.
fn descend(
    tree: &mut Tree,
    params: &Params,
    batch: &mut Minibatch,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<End, Full> {
    let mut id = tree.root;
    let mut turn = tree.root_turn;
    loop {
        let is_root = id == tree.root;
        let node = tree.node_mut(id);
        node.in_flight += 1;
        batch.path.push(id);
        if node.n == 0 {
            return Ok(if node.in_flight > 1 {
                End::Collision
            } else {
                End::Leaf
            });
        }
        if node.is_proven() && !is_root {
            return Ok(End::Proven);
        }
        let (slot, drawn) = match tree.reply(id, turn, rng) {
            Reply::Draw(slot) => (slot, true),
            Reply::Search => (search_move(tree, params, id, turn)?, false),
            Reply::Blocked => return Ok(End::Collision),
        };
        let node = tree.node(id);
        let child = tree.child_id(node, slot);
        let m = tree.edges(node)[usize::from(tree.node(child).edge)].m();
        batch.steps.push(Step { slot, drawn, m });
        id = child;
        turn = turn.other();
    }
}

/// The slot of the move that PUCT prefers, made if it was never visited.
fn search_move(tree: &mut Tree, params: &Params, id: NodeId, turn: Color) -> Result<u8, Full> {
    let node = tree.node(id);
    let pick = if id == tree.root {
        best_root_move(tree, params, node, turn)
    } else {
        best_move(tree, params, node, turn)
    };
    let slot = match pick {
        Pick::Child(slot) => slot,
        Pick::Unvisited(edge) => tree.add_child(id, edge)?,
    };
    tree.count_reply(id, slot);
    Ok(slot)
}

/// PUCT below the root. The children are the first edges in order, for priors are sorted and unvisited moves share one Q.
fn best_move(tree: &Tree, params: &Params, node: &Node, turn: Color) -> Pick {
    let children = tree.children(node);
    let edges = tree.edges(node);
    let draw_score = params.draw_score(turn);
    let exploration = params.cpuct(false).exploration(node.n);
    let parent_q = -node.q(-draw_score);
    let moves_left = params
        .moves_left
        .filter(|moves_left| moves_left.is_active(parent_q));
    let mut best = (f32::NEG_INFINITY, Pick::Unvisited(0));
    let mut visited_mass = 0.0;
    let mut has_unevaluated = false;
    for (slot, (child, edge)) in children.iter().zip(edges).enumerate() {
        if child.n == 0 {
            has_unevaluated = true;
            continue;
        }
        let p = edge.p();
        visited_mass += p;
        let q = child.q(draw_score);
        let mut score = q + exploration * p / (1 + child.n + child.in_flight) as f32;
        if let Some(moves_left) = moves_left {
            score += moves_left.utility(q, child.m - node.m);
        }
        if score > best.0 {
            best = (score, Pick::Child(slot as u8));
        }
    }
    let fpu = params.fpu(false).value(parent_q, visited_mass);
    if has_unevaluated {
        for (slot, (child, edge)) in children.iter().zip(edges).enumerate() {
            let score = fpu + exploration * edge.p() / (1 + child.in_flight) as f32;
            if child.n == 0 && score > best.0 {
                best = (score, Pick::Child(slot as u8));
            }
        }
    }
    if let Some(edge) = edges.get(children.len())
        && fpu + exploration * edge.p() > best.0
    {
        best.1 = Pick::Unvisited(children.len() as u8);
    }
    best.1
}

/// PUCT at the root: priors may carry noise, moves may be excluded, and moves that can no longer become the best are
/// left alone.
fn best_root_move(tree: &Tree, params: &Params, node: &Node, turn: Color) -> Pick {
    let draw_score = params.draw_score(turn);
    let exploration = params.cpuct(true).exploration(node.n);
    let parent_q = -node.q(-draw_score);
    let moves_left = params
        .moves_left
        .filter(|moves_left| moves_left.is_active(parent_q));
    let fpu = params.fpu(true).value(parent_q, tree.visited_root_mass());
    let most_visits = tree
        .children(node)
        .iter()
        .map(|child| child.n)
        .max()
        .unwrap_or(0);
    let mut best = (f32::NEG_INFINITY, Pick::Unvisited(0));
    for (edge, p) in tree.root_moves.allowed() {
        let slot = tree.slot_of_edge(node, edge);
        let child = slot.map_or(Node::EMPTY, |slot| tree.children(node)[usize::from(slot)]);
        let behind = u64::from(most_visits - child.n);
        if behind > tree.progress.catch_up && behind > 0 {
            continue;
        }
        let q = if child.n > 0 {
            child.q(draw_score)
        } else {
            fpu
        };
        let mut score = q + exploration * p / (1 + child.n + child.in_flight) as f32;
        if let Some(moves_left) = moves_left.filter(|_| child.n > 0) {
            score += moves_left.utility(q, child.m - node.m);
        }
        if score > best.0 {
            best = (score, slot.map_or(Pick::Unvisited(edge), Pick::Child));
        }
    }
    best.1
}
