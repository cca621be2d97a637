//! Re-rooting: when the game goes on, the subtree of the position that was reached stays, and the rest is freed.
//!
//! The subtree is copied into fresh arenas, so that what remains is compact: first the nodes, breadth first, then the
//! edges, which are most of the memory, in their old order and into segments that were read already. So both trees
//! together take little more than the old one alone.

use super::{
    edges::EdgeRange,
    node::{Edge, Node, NodeId, Origin},
    search_contempt::Rule,
    tree::{Full, Tree},
};
use crate::chess::History;

/// Makes `tree` the tree of `history` under `rule`, keeping what is still valid. Returns the number of visits kept.
pub(super) fn reroot(tree: &mut Tree, history: &History, rule: Option<Rule>) -> u32 {
    let kept = (tree.rule == rule).then(|| find(tree, history)).flatten();
    match kept {
        Some(id) if id == tree.root => {}
        Some(id) => {
            let mut fresh = Tree::new(history.clone(), rule);
            // Records remember in which gathering a reply was busy.
            fresh.gathering = tree.gathering;
            let mut old = std::mem::take(tree);
            // The copy is never larger than the original, which fitted.
            if copy(&mut old, id, &mut fresh).is_err() {
                fresh = Tree::new(history.clone(), fresh.rule.take());
            }
            *tree = fresh;
        }
        None => *tree = Tree::new(history.clone(), rule),
    }
    tree.history = Some(history.clone());
    tree.node(tree.root).n
}

/// The node that stands for the end of `history`.
fn find(tree: &Tree, history: &History) -> Option<NodeId> {
    let known = tree.history.as_ref()?;
    history.plies_since(known)?;
    let mut id = tree.root;
    for index in known.len() - 1..history.len() - 1 {
        let m = history.move_after(index)?;
        let node = tree.node(id);
        let edge = tree.edges(node).iter().position(|edge| edge.m() == m)?;
        id = tree.child_id(node, tree.slot_of_edge(node, edge as u8)?);
    }
    // A position that ended a line (a repetition, say) has no moves to choose from: as a root it begins anew.
    (tree.node(id).n_edges > 0).then_some(id)
}

/// A node that waits to be copied below its parent's copy.
struct Pending {
    old: NodeId,
    new: NodeId,
    depth: u32,
}

fn copy(tree: &mut Tree, id: NodeId, fresh: &mut Tree) -> Result<(), Full> {
    let mut queue = std::collections::VecDeque::from([Pending {
        old: id,
        new: fresh.root,
        depth: 0,
    }]);
    let mut parents: Vec<(NodeId, NodeId)> = Vec::new();
    let mut reverted: Vec<(NodeId, Node)> = Vec::new();
    let mut edges = Vec::new();
    *fresh.node_mut(fresh.root) = *tree.node(id);
    while let Some(Pending { old, new, depth }) = queue.pop_front() {
        let source = *tree.node(old);
        if source.origin() == Origin::TwoFold && source.m > depth as f32 {
            // The first occurrence is no longer part of the tree (the root has moved past it).
            reverted.push((new, source));
        }
        let record = tree.record(&source);
        if source.n_edges > 0 {
            edges.push(EdgeMove {
                from: record.map_or(source.edges, |record| record.edges),
                to: new,
            });
        }
        // The root's record goes: the root is always searched.
        let record = record.filter(|_| depth > 0).cloned();
        let copied = fresh.node_mut(new);
        copied.set_has_record(record.is_some());
        if let Some(record) = record {
            let index = fresh.records.push(record);
            fresh.node_mut(new).edges = index;
        }
        if source.n_children == 0 {
            continue;
        }
        let block = fresh.allocate_children(source.n_children)?;
        fresh.adopt_children(new, block);
        for slot in 0..source.n_children {
            let (from, to) = (tree.child_id(&source, slot), block + NodeId::from(slot));
            *fresh.node_mut(to) = *tree.node(from);
            parents.push((to, new));
            queue.push_back(Pending {
                old: from,
                new: to,
                depth: depth + 1,
            });
        }
    }
    tree.forget_nodes();
    copy_edges(tree, edges, fresh)?;
    if !reverted.is_empty() {
        parents.sort_unstable();
        for (id, source) in reverted {
            revert(fresh, &parents, id, &source);
        }
    }
    Ok(())
}

/// Where the edges of a copied node were, and the copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EdgeMove {
    from: u32,
    to: NodeId,
}

/// Copies edges in their old order, into the memory that lies behind.
fn copy_edges(tree: &mut Tree, mut moves: Vec<EdgeMove>, fresh: &mut Tree) -> Result<(), Full> {
    moves.sort_unstable();
    let mut writer = fresh.edges.take_writer();
    let mut buffer: Vec<Edge> = Vec::new();
    for EdgeMove { from, to } in moves {
        tree.edges.hand_over_before(from, &mut writer);
        let len = fresh.node(to).n_edges;
        let range = EdgeRange { start: from, len };
        buffer.clear();
        buffer.extend(tree.edges.get(range).iter());
        fresh.edges.reserve(&mut writer, 1)?;
        let start = writer.write(&buffer)?.start;
        fresh.edges.install(&mut writer);
        fresh.move_edges(to, start);
    }
    fresh.edges.put_back(writer);
    Ok(())
}

/// Takes the visits of a two-fold draw that no longer is one back from the node and its ancestors.
fn revert(tree: &mut Tree, parents: &[(NodeId, NodeId)], id: NodeId, source: &Node) {
    let visits = source.n;
    let edge = source.edge;
    *tree.node_mut(id) = Node {
        edge,
        ..Node::EMPTY
    };
    let mut m = source.m;
    let mut id = id;
    while let Ok(index) = parents.binary_search_by_key(&id, |pair| pair.0) {
        id = parents[index].1;
        m += 1.0;
        let is_root = id == tree.root;
        let node = tree.node_mut(id);
        if node.is_proven() && !is_root {
            // Its value, and what its ancestors made of it, do not depend on these visits.
            return;
        }
        let (before, after) = (f64::from(node.n), f64::from(node.n - visits));
        // Drawn visits: W-L 0, D 1, moves left the distance to the repetition.
        node.wl = (node.wl * before / after).clamp(-1.0, 1.0);
        node.d = ((f64::from(node.d) * before - f64::from(visits)) / after).clamp(0.0, 1.0) as f32;
        node.m =
            ((f64::from(node.m) * before - f64::from(m * visits as f32)) / after).max(0.0) as f32;
        node.n -= visits;
    }
}
