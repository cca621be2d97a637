//! Re-rooting: when the game goes on, the subtree of the position that was reached stays, and the rest is freed.
//!
//! The subtree is copied into fresh arenas, breadth first, so that what remains is compact and the old memory goes back
//! to the system at once.

use super::{
    edges::EdgeWriter,
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
            // The copy is never larger than the original, which fitted.
            if copy(tree, id, &mut fresh).is_err() {
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

fn copy(tree: &Tree, id: NodeId, fresh: &mut Tree) -> Result<(), Full> {
    let mut queue = std::collections::VecDeque::from([Pending {
        old: id,
        new: fresh.root,
        depth: 0,
    }]);
    let mut parents: Vec<(NodeId, NodeId)> = Vec::new();
    let mut reverted: Vec<(NodeId, Node)> = Vec::new();
    let mut edges = EdgeCopy::new(fresh);
    *fresh.node_mut(fresh.root) = *tree.node(id);
    while let Some(Pending { old, new, depth }) = queue.pop_front() {
        let source = *tree.node(old);
        if source.origin() == Origin::TwoFold && source.m > depth as f32 {
            // The first occurrence is no longer part of the tree (the root has moved past it).
            reverted.push((new, source));
        }
        edges.copy(tree, fresh, &source, new, depth == 0)?;
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
    fresh.edges.put_back(edges.writer);
    if !reverted.is_empty() {
        parents.sort_unstable();
        for (id, source) in reverted {
            revert(fresh, &parents, id, &source);
        }
    }
    Ok(())
}

/// Copies edges and records into the fresh tree.
struct EdgeCopy {
    writer: EdgeWriter,
    buffer: Vec<Edge>,
}

impl EdgeCopy {
    fn new(fresh: &mut Tree) -> EdgeCopy {
        EdgeCopy {
            writer: fresh.edges.take_writer(),
            buffer: Vec::new(),
        }
    }

    /// Copies those of one node. The root's record goes: the root is always searched.
    fn copy(
        &mut self,
        tree: &Tree,
        fresh: &mut Tree,
        source: &Node,
        new: NodeId,
        is_root: bool,
    ) -> Result<(), Full> {
        self.buffer.clear();
        self.buffer.extend(tree.edges(source).iter());
        fresh.edges.reserve(&mut self.writer, 1)?;
        let range = self.writer.write(&self.buffer)?;
        fresh.edges.install(&mut self.writer);
        let record = tree.record(source).filter(|_| !is_root).cloned();
        let node = fresh.node_mut(new);
        node.set_has_record(false);
        node.n_edges = 0;
        fresh.set_edges(new, range);
        if let Some(mut record) = record {
            record.edges = range.start;
            let index = fresh.records.push(record);
            let node = fresh.node_mut(new);
            node.edges = index;
            node.set_has_record(true);
        }
        Ok(())
    }
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
