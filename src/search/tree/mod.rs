//! The tree: three arenas and a root.
//!
//! ```text
//!  nodes   | root | a b c . |  a1 | c1 c2 |          children of one node: neighbours in a block; slots in the
//!             |___^             ^     ^              order in which they were first visited (that of the priors)
//!                   a__________|  c__|
//!  edges   | e4 d4 Nf3 ... | e5 c5 ... | ...         legal moves with priors, largest first; written once (see `edges`)
//!  records | c: counts of c1, c2 |                   search-contempt: frozen visit counts (few nodes have one)
//! ```
//!
//! A full block is copied to the next larger one and its old place is reused, so node ids are valid only while the
//! lock is held; a path is recorded as child slots, which never change. There are no parent pointers. Re-rooting
//! copies the kept subtree and drops the rest, unless that would take much of a search's time (see `reroot`).

pub(super) mod edges;
mod full;
pub mod lines;
pub mod node;
pub(super) mod records;
pub(super) mod reroot;
pub(super) mod transpositions;

use std::sync::Arc;

use shakmaty::{Color, Position};

pub use self::full::TreeFull;
use self::{
    edges::{EdgeArena, EdgeRange, Edges},
    node::{Edge, Node, NodeId, Origin},
    records::{ReplyRecord, ReplyRecords, Rule},
    transpositions::SharedValues,
};
use super::{butterfly::Butterfly, wdl_contempt::WdlContempt};
use crate::{
    chess::{History, PackedMove},
    threads,
};

/// From so many bytes on, memory is freed on another thread: that of a search has no time for it.
const LARGE: usize = 32 << 20;

/// Block sizes for children; a node moves to the next class when its block is full.
const BLOCK_SIZES: [u8; 12] = [1, 3, 6, 10, 16, 24, 32, 48, 64, 96, 160, 255];

/// The search tree, kept between searches.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    pub(super) edges: EdgeArena,
    /// Blocks that are free again, per size class.
    free_blocks: [Vec<NodeId>; BLOCK_SIZES.len()],
    /// Search-contempt's frozen counts.
    pub(super) records: ReplyRecords,
    /// The root, once there is one.
    pub(super) root: NodeId,
    /// The game up to the root's position; `None` in an empty tree.
    pub(super) history: Option<History>,
    /// The side to move at the root.
    pub(super) root_turn: Color,
    /// The moves to which the searches of the root were restricted, which biases its visits; empty if they were not.
    pub(super) root_moves: Vec<PackedMove>,
    /// Which nodes freeze and when; the statistics depend on it, so a change drops the tree.
    pub(super) rule: Option<Rule>,
    /// Statistics of positions, independent of their place in the tree.
    pub(super) shared_values: SharedValues,
    /// How moves turned out anywhere in the tree; `None` without `ButterflyHistory`.
    pub(super) butterfly: Option<Arc<Butterfly>>,
    /// The WDL contempt applied to the network's values, seen from the root; a change drops the tree.
    pub(super) contempt: Option<WdlContempt>,
    /// Whether the root was moved without a copy, so that there may be nodes to which no line leads.
    pub(super) has_moved_root: bool,
    /// In an analysis: trees of earlier positions, the latest last. Their own caches are empty.
    pub(super) tree_cache: Vec<Tree>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            nodes: vec![Node::EMPTY],
            edges: EdgeArena::default(),
            free_blocks: Default::default(),
            records: ReplyRecords::default(),
            root: 0,
            history: None,
            root_turn: Color::White,
            root_moves: Vec::new(),
            rule: None,
            shared_values: SharedValues::default(),
            butterfly: None,
            contempt: None,
            has_moved_root: false,
            tree_cache: Vec::new(),
        }
    }
}

/// The slot of the child behind each edge of a node.
pub(super) struct SlotsByEdge([u8; 256]);

impl SlotsByEdge {
    /// No slot; a node has fewer children than that.
    const NONE: u8 = u8::MAX;

    /// The slot of the child that `edge` leads to, if there is one.
    #[inline]
    pub fn get(&self, edge: u8) -> Option<u8> {
        let slot = self.0[usize::from(edge)];
        (slot != Self::NONE).then_some(slot)
    }
}

impl Tree {
    /// An empty tree for the game `history`.
    pub fn new(history: History, rule: Option<Rule>) -> Tree {
        let root_turn = history.position().turn();
        Tree {
            history: Some(history),
            root_turn,
            rule,
            ..Tree::default()
        }
    }

    /// The game that leads to the root, unless the tree is empty.
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// The root.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// Completed visits of the root.
    pub fn root_visits(&self) -> u64 {
        self.history
            .as_ref()
            .map_or(0, |_| u64::from(self.node(self.root).n))
    }

    /// The side to move at the root.
    pub fn root_turn(&self) -> Color {
        self.root_turn
    }

    /// A node.
    #[inline]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// Mutable access to a node.
    #[inline]
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// The children of a node, in slot order.
    #[inline]
    pub fn children(&self, node: &Node) -> &[Node] {
        let start = node.children as usize;
        &self.nodes[start..start + usize::from(node.n_children)]
    }

    /// The id of the child in `slot`.
    #[inline]
    pub fn child_id(&self, node: &Node, slot: u8) -> NodeId {
        debug_assert!(slot < node.n_children);
        node.children + NodeId::from(slot)
    }

    /// The node at the end of a path from the root.
    pub(super) fn follow(&self, slots: impl Iterator<Item = u8>) -> NodeId {
        slots.fold(self.root, |id, slot| self.child_id(self.node(id), slot))
    }

    /// The edges of a node, largest prior first; after a refinement, visited edges come first.
    #[inline]
    pub fn edges(&self, node: &Node) -> Edges<'_> {
        self.edges.get(self.edge_range(node))
    }

    #[inline]
    fn edge_range(&self, node: &Node) -> EdgeRange {
        let start = if node.has_record() {
            self.records.get(node.edges).edges
        } else {
            node.edges
        };
        EdgeRange {
            start,
            len: node.n_edges,
        }
    }

    /// Software prefetch: reads parts of the memory that a visit to the node will need, and returns a value that
    /// depends on them. Reading for many nodes at once lets the processor load all of that memory in parallel.
    #[inline]
    pub(super) fn prefetch(&self, id: NodeId) -> u32 {
        let node = self.node(id);
        let children = self.children(node);
        let first = children.first().map_or(0, |child| child.n);
        let last = children.last().map_or(0, |child| child.n);
        let edge = self.edges(node).get(0).map_or(0, |edge| edge.bits());
        first ^ last ^ edge
    }

    /// The slot of the child that `edge` leads to, if it was visited.
    pub fn slot_of_edge(&self, node: &Node, edge: u8) -> Option<u8> {
        // Slots follow the priors nearly everywhere, so the first guess is usually right.
        let children = self.children(node);
        if children
            .get(usize::from(edge))
            .is_some_and(|child| child.edge == edge)
        {
            return Some(edge);
        }
        children
            .iter()
            .position(|child| child.edge == edge)
            .map(|slot| slot as u8)
    }

    /// The slots of all edges at once.
    #[inline]
    pub(super) fn slots_by_edge(&self, node: &Node) -> SlotsByEdge {
        let mut slots = [SlotsByEdge::NONE; 256];
        for (slot, child) in self.children(node).iter().enumerate() {
            slots[usize::from(child.edge)] = slot as u8;
        }
        SlotsByEdge(slots)
    }

    /// The search-contempt record of a node.
    pub fn record(&self, node: &Node) -> Option<&ReplyRecord> {
        node.has_record().then(|| self.records.get(node.edges))
    }

    /// The record of a frozen node.
    pub(super) fn frozen(&self, node: &Node) -> Option<&ReplyRecord> {
        self.record(node).filter(|record| record.is_final())
    }

    /// Gives its edges to a node that was just evaluated.
    pub(super) fn set_edges(&mut self, id: NodeId, edges: EdgeRange) {
        let node = self.node_mut(id);
        debug_assert_eq!(node.n_edges, 0);
        node.edges = edges.start;
        node.n_edges = edges.len;
    }

    /// Replaces the priors of a node, unless its replies are frozen. Edges with children keep their places, because
    /// slots depend on them; at the root all do, because a search identifies its moves by them.
    pub(super) fn refine(&mut self, id: NodeId, edges: EdgeRange) {
        let node = *self.node(id);
        if node.has_record() || node.n_edges != edges.len {
            return;
        }
        let kept = if id == self.root {
            usize::from(node.n_edges)
        } else {
            usize::from(node.n_children)
        };
        let mut refined: Vec<Edge> = self.edges.get(edges).iter().collect();
        for (place, edge) in self.edges(&node).iter().take(kept).enumerate() {
            let Some(behind) = refined[place..].iter().position(|it| it.m() == edge.m()) else {
                return;
            };
            refined[place..=place + behind].rotate_right(1);
        }
        self.edges.reorder(edges, &refined);
        self.move_edges(id, edges.start);
    }

    /// Sets the new place of a node's edges.
    pub(super) fn move_edges(&mut self, id: NodeId, start: u32) {
        let node = *self.node(id);
        if node.has_record() {
            self.records.get_mut(node.edges).edges = start;
        } else {
            self.node_mut(id).edges = start;
        }
    }

    /// Frees the memory of all nodes; afterwards only edges may be read.
    pub(super) fn free_nodes(&mut self) {
        let nodes = std::mem::replace(&mut self.nodes, vec![Node::EMPTY]);
        self.root = 0;
        if nodes.len() * size_of::<Node>() >= LARGE {
            threads::drop_aside(nodes);
        }
    }

    /// Frees the tree, a large one on another thread.
    pub(crate) fn free(self) {
        if self.memory() >= LARGE {
            threads::drop_aside(self);
        }
    }

    /// Frees trees of earlier positions, the oldest first, until the whole takes less than `bytes` or no such tree is
    /// left. Returns whether it takes less.
    pub(super) fn shrink_cache_below(&mut self, bytes: usize) -> bool {
        while self.memory() >= bytes {
            if self.tree_cache.is_empty() {
                return false;
            }
            self.tree_cache.remove(0).free();
        }
        true
    }

    /// Number of nodes, those that no line leads to any more included.
    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Shares the statistics of the nodes of a path, from the root on, by position.
    pub(super) fn share_values(&mut self, path: &[NodeId], keys: &[u64]) {
        for (&id, &key) in path[1..].iter().zip(keys) {
            self.shared_values.store(key, &self.nodes[id as usize]);
        }
    }

    /// Adds a child for an edge that has none; returns its slot.
    ///
    /// # Errors
    /// When the arena is full; nothing changes then.
    pub fn add_child(&mut self, parent: NodeId, edge: u8) -> Result<u8, TreeFull> {
        let node = *self.node(parent);
        let slot = node.n_children;
        let class = BLOCK_SIZES.partition_point(|&size| size < slot);
        let is_full = slot == 0 || BLOCK_SIZES[class] == slot;
        if is_full {
            let larger = if slot == 0 { 0 } else { class + 1 };
            let block = self.allocate(larger)?;
            let old = node.children as usize..node.children as usize + usize::from(slot);
            self.nodes.copy_within(old, block as usize);
            if slot > 0 {
                self.free_blocks[class].push(node.children);
            }
            self.node_mut(parent).children = block;
        }
        let child = self.node(parent).children + NodeId::from(slot);
        *self.node_mut(child) = Node {
            edge,
            ..Node::EMPTY
        };
        self.node_mut(parent).n_children += 1;
        Ok(slot)
    }

    /// A block of the size class, reused or new.
    fn allocate(&mut self, class: usize) -> Result<NodeId, TreeFull> {
        if let Some(block) = self.free_blocks[class].pop() {
            return Ok(block);
        }
        let start = self.nodes.len();
        let end = start + usize::from(BLOCK_SIZES[class]);
        if end > NodeId::MAX as usize {
            return Err(TreeFull);
        }
        self.nodes.resize(end, Node::EMPTY);
        Ok(start as NodeId)
    }

    /// A block for exactly the children of a copied node; used when the tree is rebuilt.
    pub(super) fn allocate_children(&mut self, count: u8) -> Result<NodeId, TreeFull> {
        self.allocate(BLOCK_SIZES.partition_point(|&size| size < count))
    }

    /// Gives a freshly copied node the block made by [`Tree::allocate_children`].
    pub(super) fn adopt_children(&mut self, parent: NodeId, block: NodeId) {
        self.node_mut(parent).children = block;
    }

    /// Bytes in use by nodes, edges, records and shared values, those of the cached trees included.
    pub fn memory(&self) -> usize {
        self.nodes.len() * size_of::<Node>()
            + self.edges.memory()
            + self.records.memory()
            + self.shared_values.memory()
            + self.tree_cache.iter().map(Tree::memory).sum::<usize>()
    }

    /// Visits all nodes, including the root, for tests and checks: calls `visit` with the node and its depth.
    pub fn for_each(&self, mut visit: impl FnMut(&Node, u32)) {
        let mut stack = vec![(self.root, 0)];
        while let Some((id, depth)) = stack.pop() {
            let node = self.node(id);
            visit(node, depth);
            stack.extend((0..node.n_children).map(|slot| (self.child_id(node, slot), depth + 1)));
        }
    }

    /// A start position whose first moves, in the order of their priors, lead to these nodes; all moves are allowed.
    #[cfg(test)]
    pub(super) fn with_children(children: &[Node]) -> Tree {
        let mut tree = Tree::new(History::default(), None);
        let moves = tree
            .history
            .as_ref()
            .map(|game| game.position().legal_moves());
        let moves = moves.into_iter().flatten().take(children.len());
        let edges: Vec<Edge> = moves.map(|m| Edge::new(PackedMove::pack(m), 0.1)).collect();
        let mut writer = tree.edges.take_writer();
        tree.edges.reserve(&mut writer, 1).unwrap();
        let range = writer.write(&edges).unwrap();
        tree.edges.put_back(writer);
        tree.set_edges(tree.root, range);
        for (edge, child) in (0..).zip(children) {
            let slot = tree.add_child(tree.root, edge).unwrap();
            let id = tree.child_id(tree.node(tree.root), slot);
            *tree.node_mut(id) = Node { edge, ..*child };
        }
        tree.node_mut(tree.root).n = 1 + children.iter().map(|child| child.n).sum::<u32>();
        tree
    }

    /// Gives a node all legal moves of the end of `game` with equal priors, and children for the first of them, whose
    /// ids it returns.
    #[cfg(test)]
    pub(super) fn grow(&mut self, id: NodeId, game: &History, children: &[Node]) -> Vec<NodeId> {
        let moves: Vec<_> = crate::chess::moves::legal_moves(game.position()).collect();
        let prior = 1.0 / moves.len() as f32;
        let edges: Vec<Edge> = moves.iter().map(|&m| Edge::new(m, prior)).collect();
        let mut writer = self.edges.take_writer();
        self.edges.reserve(&mut writer, 1).unwrap();
        let range = writer.write(&edges).unwrap();
        self.edges.install(&mut writer);
        self.edges.put_back(writer);
        self.set_edges(id, range);
        let edges = 0..children.len() as u8;
        let slots: Vec<u8> = edges
            .map(|edge| self.add_child(id, edge).unwrap())
            .collect();
        let ids = slots.iter().map(|&slot| self.child_id(self.node(id), slot));
        let ids: Vec<NodeId> = ids.collect();
        for ((edge, &id), child) in (0..).zip(&ids).zip(children) {
            *self.node_mut(id) = Node { edge, ..*child };
        }
        ids
    }

    /// Checks the invariants between searches: no visits in flight, and the visits of every open node are its own one
    /// plus those of its children.
    ///
    /// # Panics
    /// When an invariant is violated; a test helper.
    pub fn assert_consistent(&self) {
        self.assert_adds_up(false);
    }

    /// The same. If the tree `has_dead_ends`, visits may have ended at positions below which there was no memory for
    /// others.
    pub(super) fn assert_adds_up(&self, has_dead_ends: bool) {
        self.for_each(|node, depth| {
            assert_eq!(
                node.in_flight, 0,
                "visits in flight at depth {depth}: {node:?}"
            );
            let visits: u32 = self.children(node).iter().map(|child| child.n).sum();
            // A position with one move may have been passed through.
            let is_passed = node.n_edges == 1 && node.n == visits;
            // Visits end at a proven position; it may be the root later.
            let may_end_visits = node.is_proven() || has_dead_ends;
            if node.n > 0 && !may_end_visits {
                assert!(
                    node.n == 1 + visits || is_passed,
                    "visits do not add up at depth {depth}: {node:?}, {visits} below"
                );
            } else if node.n > 0 {
                assert!(
                    node.n > visits || is_passed,
                    "more visits below than above at depth {depth}: {node:?}"
                );
            }
            assert!(
                node.wl.abs() <= 1.0 + 1e-9 && (-1e-5..=1.0 + 1e-5).contains(&node.d),
                "{node:?}"
            );
            assert!(node.m.is_finite() && node.v.is_finite(), "{node:?}");
            if matches!(node.origin(), Origin::Rules | Origin::TwoFold) {
                assert_eq!(
                    node.n_children, 0,
                    "a terminal position has children: {node:?}"
                );
            }
        });
    }
}
