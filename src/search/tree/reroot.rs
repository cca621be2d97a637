//! Re-rooting: when the game continues, the subtree of the new position is kept and the rest is freed.
//!
//! The subtree is copied into fresh arenas, so that it is compact: first the nodes, breadth first, then the edges,
//! which are most of the memory, in their old order and into segments that have been read already. So both trees
//! together take at most a third more than the old one alone, while the nodes are there twice.
//!
//! | The new position | Game ([`reroot`]) | Analysis ([`reroot_in_analysis`]) |
//! |---|---|---|
//! | is the root | the tree stays as it is | the same, from the cache |
//! | is below the root, there is time to copy | copied, the source is freed | copied, the source stays in the cache if there is room |
//! | is below the root, a copy would take too long | its node becomes the root | the same; a step back begins anew |
//! | is below the root, the search is stopped | its node becomes the root | a new tree, so that the larger one is kept |
//! | was searched with other root moves | a new tree | a new tree beside those in the cache |
//! | is a root that was moved there | copied as soon as there is time | the same |
//! | is not in the tree | a new tree | a new tree beside those in the cache |
//!
//! A copy takes about half a microsecond a node, before the search begins. Where that is too much of the search's time,
//! or the search is stopped meanwhile, the new position's node becomes the root where it is, and the rest of the tree
//! stays until the next copy.

use std::time::Duration;

use shakmaty::Position;

use super::{
    Tree, TreeFull,
    edges::EdgeRange,
    node::{Edge, Node, NodeId, Origin},
    records::{ReplyRecords, Rule},
};
use crate::{
    chess::{History, PackedMove},
    search::{job::StopSignal, limits::Limits},
};

/// Nodes that are copied in a millisecond, on a slow machine.
const COPIED_IN_A_MILLISECOND: f64 = 2000.0;

/// The time for a copy before a search without a clock, which should report soon, and for one whose source stays in the
/// cache of an analysis.
const COPY_TIME: Duration = Duration::from_millis(250);
const COPY_TIME_IN_ANALYSIS: Duration = Duration::from_secs(2);

/// The share of a search's time for a copy, and that for a copy which makes a large tree smaller: one that takes half
/// of its memory, or so many bytes.
const COPY_SHARE: f64 = 0.01;
const COPY_SHARE_WHEN_CROWDED: f64 = 0.25;
const CROWDED_BYTES: usize = 1 << 30;

/// Decides whether a subtree is copied when it becomes the tree.
#[derive(Clone, Copy, Debug)]
pub(in crate::search) struct CopyRule<'a> {
    /// The most nodes that are copied.
    max_nodes: f64,
    /// The same in a tree of `crowded_bytes` and more, which is to become smaller.
    max_nodes_when_crowded: f64,
    crowded_bytes: usize,
    /// Ends a copy that has begun, as long as nodes are copied.
    stop: Option<&'a StopSignal>,
}

/// Nodes that are copied in this time.
fn nodes(time: Duration) -> f64 {
    1e3 * time.as_secs_f64() * COPIED_IN_A_MILLISECOND
}

impl<'a> CopyRule<'a> {
    /// The rule for a search with these limits that this signal stops.
    pub fn new(limits: &Limits, stop: &'a StopSignal) -> CopyRule<'a> {
        let half = limits.tree_bytes.map_or(usize::MAX, |bytes| bytes / 2);
        match limits.max_time().map(nodes) {
            Some(nodes) => CopyRule {
                max_nodes: COPY_SHARE * nodes,
                max_nodes_when_crowded: COPY_SHARE_WHEN_CROWDED * nodes,
                crowded_bytes: half.min(CROWDED_BYTES),
                stop: Some(stop),
            },
            None => CopyRule {
                max_nodes: nodes(COPY_TIME),
                max_nodes_when_crowded: f64::INFINITY,
                crowded_bytes: half,
                stop: Some(stop),
            },
        }
    }

    /// The same in an analysis, where the trees of earlier positions are worth more time.
    pub fn in_analysis(limits: &Limits, stop: &'a StopSignal) -> CopyRule<'a> {
        let rule = CopyRule::new(limits, stop);
        let max_nodes = match limits.max_time() {
            Some(_) => rule.max_nodes_when_crowded,
            None => nodes(COPY_TIME_IN_ANALYSIS),
        };
        CopyRule { max_nodes, ..rule }
    }

    /// Whether the subtree of this node is copied.
    fn copies(&self, tree: &Tree, id: NodeId) -> bool {
        // A visit adds hardly ever more than one node, and often none.
        let nodes = tree.node_count().min(tree.node(id).n as usize);
        let most = if tree.memory() >= self.crowded_bytes {
            self.max_nodes_when_crowded
        } else {
            self.max_nodes
        };
        nodes as f64 <= most
    }

    /// Whether the search was stopped.
    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(StopSignal::is_stopped)
    }
}

/// Makes `tree` the tree of `history` under `rule`, for a search of these root moves (empty: of all), keeping what is
/// still valid. Returns the number of visits kept.
pub(in crate::search) fn reroot(
    tree: &mut Tree,
    history: &History,
    rule: Option<Rule>,
    root_moves: &[PackedMove],
    copy_rule: CopyRule<'_>,
) -> u32 {
    for cached in std::mem::take(&mut tree.tree_cache) {
        cached.free();
    }
    let kept = (tree.rule == rule)
        .then(|| find_for(tree, history, root_moves))
        .flatten();
    match kept {
        Some(id) if id == tree.root && !tree.has_moved_root => {}
        Some(id) => match subtree(tree, id, history, SourceTree::Consumed, copy_rule) {
            Some(copied) => replace(tree, copied),
            None if id == tree.root => {}
            None => move_root(tree, id, history),
        },
        None => replace(tree, Tree::new(history.clone(), rule)),
    }
    tree.history = Some(history.clone());
    tree.root_moves = root_moves.to_vec();
    check(tree);
    tree.node(tree.root).n
}

/// Replaces a tree, and frees it.
fn replace(tree: &mut Tree, by: Tree) {
    std::mem::replace(tree, by).free();
}

/// A copy of a node's subtree as the tree of `history`; `None`, with the source unchanged, if it takes too long.
fn subtree(
    tree: &mut Tree,
    id: NodeId,
    history: &History,
    source_tree: SourceTree,
    copy_rule: CopyRule<'_>,
) -> Option<Tree> {
    if !copy_rule.copies(tree, id) {
        return None;
    }
    let mut fresh = Tree::new(history.clone(), tree.rule.clone());
    // Records store the gathering in which a reply was blocked.
    fresh.records = ReplyRecords::following(&tree.records);
    fresh.butterfly = tree.butterfly.clone();
    let is_copied = match copy(tree, id, &mut fresh, source_tree, copy_rule) {
        Ok(()) => true,
        // The copy is never larger than the original, which fitted.
        Err(Incomplete::Full) => false,
        Err(Incomplete::Stopped) => {
            fresh.free();
            return None;
        }
    };
    if source_tree == SourceTree::Consumed {
        fresh.shared_values = std::mem::take(&mut tree.shared_values);
    }
    Some(if is_copied && has_visits(&fresh) {
        fresh
    } else {
        Tree::new(history.clone(), fresh.rule.take())
    })
}

/// Makes a node the root. What no line leads to any more stays in memory until the next copy.
fn move_root(tree: &mut Tree, id: NodeId, history: &History) {
    tree.root = id;
    tree.has_moved_root = true;
    tree.root_turn = history.position().turn();
    // The root has no record: it is always searched.
    let range = tree.edge_range(tree.node(id));
    let root = tree.node_mut(id);
    root.edges = range.start;
    root.set_has_record(false);
    revert_outdated(tree, MOVED_ROOT_DEPTH);
    if !has_visits(tree) {
        let rule = tree.rule.take();
        replace(tree, Tree::new(history.clone(), rule));
    }
}

/// How deep outdated repetitions are reverted where the root moves without a copy: as deep as those of two moves of
/// each side. Others wait for the next copy.
const MOVED_ROOT_DEPTH: u32 = 3;

/// Re-rooting for an analysis, in which the user goes back and forth: trees of other positions, and those of other root
/// moves, stay in a cache of at most `room` bytes, and the one with the most visits of `history` is used. Returns the
/// number of visits kept.
pub(in crate::search) fn reroot_in_analysis(
    tree: &mut Tree,
    history: &History,
    rule: Option<Rule>,
    root_moves: &[PackedMove],
    room: usize,
    copy_rule: CopyRule<'_>,
) -> u32 {
    let mut tree_cache = std::mem::take(&mut tree.tree_cache);
    tree_cache.push(std::mem::take(tree));
    let is_usable = |cached: &Tree| cached.history.is_some() && cached.rule == rule;
    for outdated in tree_cache.extract_if(.., |cached| !is_usable(cached)) {
        outdated.free();
    }
    let places = tree_cache.iter().enumerate();
    let found = places.filter_map(|(place, cached)| {
        let id = find_for(cached, history, root_moves)?;
        Some((cached.node(id).n, place, id))
    });
    let found = found.max();
    *tree = match found {
        Some((_, place, id)) => take_cached(&mut tree_cache, (place, id), history, room, copy_rule),
        None => Tree::new(history.clone(), rule),
    };
    // The oldest are dropped first.
    let mut taken: usize = tree_cache.iter().map(Tree::memory).sum();
    for dropped in tree_cache.extract_if(.., |cached| {
        let fits = taken <= room;
        taken -= if fits { 0 } else { cached.memory() };
        !fits
    }) {
        dropped.free();
    }
    tree.tree_cache = tree_cache;
    tree.history = Some(history.clone());
    tree.root_moves = root_moves.to_vec();
    check(tree);
    tree.node(tree.root).n
}

/// The tree of `history`, whose position is this node of the tree at this place in the cache: that tree itself, or a
/// copy of the subtree, while the source stays in the cache if there is `room`.
fn take_cached(
    tree_cache: &mut Vec<Tree>,
    (place, id): (usize, NodeId),
    history: &History,
    room: usize,
    copy_rule: CopyRule<'_>,
) -> Tree {
    let cached = &mut tree_cache[place];
    let is_root = id == cached.root;
    if is_root && !cached.has_moved_root {
        return tree_cache.remove(place);
    }
    // A source that is not kept: no history leads to the rest of it, or it would not stay in the cache, and there may
    // be no memory for both.
    let source_tree = if is_root || cached.memory() > room {
        SourceTree::Consumed
    } else {
        SourceTree::Kept
    };
    let copied = subtree(cached, id, history, source_tree, copy_rule);
    match (copied, source_tree) {
        (Some(copied), SourceTree::Kept) => copied,
        (Some(copied), SourceTree::Consumed) => {
            tree_cache.remove(place).free();
            copied
        }
        // Whoever steps through a game quickly comes back to the larger tree.
        (None, SourceTree::Kept) if copy_rule.is_stopped() => {
            Tree::new(history.clone(), cached.rule.clone())
        }
        (None, _) => {
            let mut cached = tree_cache.remove(place);
            if !is_root {
                move_root(&mut cached, id, history);
            }
            cached
        }
    }
}

/// Whether the root has visits left: those of outdated draws were removed.
fn has_visits(tree: &Tree) -> bool {
    tree.node(tree.root).n > 0
}

/// Builds with debug assertions check that the tree is consistent and holds no NaN.
fn check(tree: &Tree) {
    if cfg!(debug_assertions) {
        tree.assert_adds_up(true);
    }
}

/// What happens to a tree that is copied from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceTree {
    /// Its memory is reused for the copy.
    Consumed,
    /// It stays unchanged.
    Kept,
}

/// The node at the end of `history`, if a search of that position with these root moves may go on with it: with the
/// moves that its visits were distributed over. Below the root these were all.
pub(in crate::search) fn find_for(
    tree: &Tree,
    history: &History,
    root_moves: &[PackedMove],
) -> Option<NodeId> {
    let searched = |&id: &NodeId| {
        if id == tree.root {
            &tree.root_moves[..]
        } else {
            &[]
        }
    };
    find(tree, history).filter(|id| searched(id) == root_moves)
}

/// The node at the end of `history`, if a search of that position may go on with it.
pub(in crate::search) fn find(tree: &Tree, history: &History) -> Option<NodeId> {
    let known = tree.history.as_ref()?;
    history.plies_since(known)?;
    let mut id = tree.root;
    for index in known.len() - 1..history.len() - 1 {
        let m = history.move_after(index)?;
        let node = tree.node(id);
        let edge = tree.edges(node).iter().position(|edge| edge.m() == m)?;
        id = tree.child_id(node, tree.slot_of_edge(node, edge as u8)?);
    }
    // A position that ended a line (a repetition, for example, or a mate found by look-ahead) does not have all its
    // moves, so as a root it is searched anew. So is one that was only passed through.
    let node = tree.node(id);
    let has_ended = node.is_proven() && node.n_children == 0;
    (node.n_edges > 0 && node.n > 0 && !has_ended).then_some(id)
}

/// A node that waits to be copied below its parent's copy.
struct Pending {
    old: NodeId,
    new: NodeId,
    depth: u32,
}

/// Why a copy is not complete.
enum Incomplete {
    /// There was no room.
    Full,
    /// The search was stopped, and the source is unchanged.
    Stopped,
}

impl From<TreeFull> for Incomplete {
    fn from(TreeFull: TreeFull) -> Incomplete {
        Incomplete::Full
    }
}

fn copy(
    tree: &mut Tree,
    id: NodeId,
    fresh: &mut Tree,
    source_tree: SourceTree,
    copy_rule: CopyRule<'_>,
) -> Result<(), Incomplete> {
    let mut queue = std::collections::VecDeque::from([Pending {
        old: id,
        new: fresh.root,
        depth: 0,
    }]);
    let mut deepest_outdated = None;
    let mut edges = Vec::new();
    *fresh.node_mut(fresh.root) = *tree.node(id);
    while let Some(Pending { old, new, depth }) = queue.pop_front() {
        if copy_rule.is_stopped() {
            return Err(Incomplete::Stopped);
        }
        let source = *tree.node(old);
        if is_outdated(&source, depth) {
            // Breadth first: the last one is the deepest.
            deepest_outdated = Some(depth);
        }
        let record = tree.record(&source);
        if source.n_edges > 0 {
            edges.push(EdgeMove {
                from: record.map_or(source.edges, |record| record.edges),
                to: new,
            });
        }
        // The root has no record: it is always searched.
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
            queue.push_back(Pending {
                old: from,
                new: to,
                depth: depth + 1,
            });
        }
    }
    if copy_rule.is_stopped() {
        return Err(Incomplete::Stopped);
    }
    // From here on a consumed tree cannot be kept.
    if source_tree == SourceTree::Consumed {
        tree.free_nodes();
    }
    copy_edges(tree, edges, fresh, source_tree, copy_rule)?;
    if let Some(depth) = deepest_outdated {
        revert_outdated(fresh, depth);
    }
    Ok(())
}

/// Where the edges of a copied node were, and the copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EdgeMove {
    from: u32,
    to: NodeId,
}

/// Copies edges in their old order, reusing the memory that has been read.
fn copy_edges(
    tree: &mut Tree,
    mut moves: Vec<EdgeMove>,
    fresh: &mut Tree,
    source_tree: SourceTree,
    copy_rule: CopyRule<'_>,
) -> Result<(), Incomplete> {
    moves.sort_unstable();
    let mut writer = fresh.edges.take_writer();
    let mut buffer: Vec<Edge> = Vec::new();
    for EdgeMove { from, to } in moves {
        match source_tree {
            SourceTree::Consumed => tree.edges.hand_over_before(from, &mut writer),
            SourceTree::Kept if copy_rule.is_stopped() => return Err(Incomplete::Stopped),
            SourceTree::Kept => {}
        }
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

/// Whether this node, `depth` plies below the root, is a two-fold repetition of a position before the root, so that it
/// is no longer a draw.
fn is_outdated(node: &Node, depth: u32) -> bool {
    node.origin() == Origin::TwoFold && node.m > depth as f32
}

/// Reverts outdated two-fold repetitions of at most this depth.
fn revert_outdated(tree: &mut Tree, max_depth: u32) {
    let mut path = Vec::new();
    revert_below(tree, tree.root, &mut path, max_depth);
}

/// The same at a node and below it; `path` has the nodes above it, from the root on.
fn revert_below(tree: &mut Tree, id: NodeId, path: &mut Vec<NodeId>, max_depth: u32) {
    let (node, depth) = (*tree.node(id), path.len() as u32);
    if is_outdated(&node, depth) {
        return revert(tree, path, id);
    }
    if depth == max_depth {
        return;
    }
    path.push(id);
    for slot in 0..node.n_children {
        revert_below(tree, tree.child_id(&node, slot), path, max_depth);
    }
    path.pop();
}

/// Removes the visits of a two-fold repetition that is no longer a draw from the node and its ancestors, which `path`
/// has from the root on. (Their weight in a moving average is unknown; the weight in the mean is used.)
fn revert(tree: &mut Tree, path: &[NodeId], id: NodeId) {
    let source = *tree.node(id);
    let visits = source.n;
    let edge = source.edge;
    *tree.node_mut(id) = Node {
        edge,
        ..Node::EMPTY
    };
    let mut m = source.m;
    for &id in path.iter().rev() {
        m += 1.0;
        let is_root = id == tree.root;
        let node = tree.node_mut(id);
        if node.is_proven() && !is_root {
            // Its value, and its ancestors' values, do not depend on these visits.
            return;
        }
        if node.n == visits {
            // It was passed through only (`AutoExtend`), and is to be again.
            *node = Node {
                wl: Node::EMPTY.wl,
                d: Node::EMPTY.d,
                m: Node::EMPTY.m,
                v: Node::EMPTY.v,
                n: 0,
                ..*node
            };
            continue;
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

#[cfg(test)]
mod tests {
    use super::super::node::{Bounds, tests::node};
    use super::*;
    use crate::{
        chess::{moves::legal_moves, setup::position_from_fen},
        search::puct::tests::searched,
    };

    /// Copies always, and never.
    const RULES: [CopyRule<'static>; 2] = [rule(f64::INFINITY), rule(-1.0)];

    const fn rule(max_nodes: f64) -> CopyRule<'static> {
        CopyRule {
            max_nodes,
            max_nodes_when_crowded: max_nodes,
            crowded_bytes: usize::MAX,
            stop: None,
        }
    }

    /// A draw by repetition, `plies` after the first occurrence.
    fn repetition(n: u32, plies: f32) -> Node {
        let mut node = node(n, 0.0, 1.0, plies);
        node.set_bounds(Bounds::exact(0), Origin::TwoFold);
        node
    }

    /// The game after its first legal move.
    fn after_first_move(game: &History) -> History {
        let mut game = game.clone();
        let first = legal_moves(game.position()).next().unwrap();
        game.push(first);
        game
    }

    /// A root, below it the next root with a reply, below that `leaves`. Returns the tree re-rooted to the second of
    /// them, and its reply's children: as a copy, and with a moved root.
    fn rerooted(next: Node, reply: Node, leaves: &[Node]) -> [(Tree, Vec<Node>); 2] {
        RULES.map(|rule| rerooted_by(rule, next, reply, leaves))
    }

    fn rerooted_by(
        rule: CopyRule<'_>,
        next: Node,
        reply: Node,
        leaves: &[Node],
    ) -> (Tree, Vec<Node>) {
        let game = History::default();
        let (second, third) = (
            after_first_move(&game),
            after_first_move(&after_first_move(&game)),
        );
        let mut tree = Tree::new(game.clone(), None);
        let root = tree.root;
        *tree.node_mut(root) = node(next.n + 6, 0.1, 0.3, 40.0);
        let next = tree.grow(root, &game, &[next, node(5, 0.0, 0.2, 30.0)])[0];
        let reply = tree.grow(next, &second, &[reply])[0];
        tree.grow(reply, &third, leaves);
        let kept = tree.node(next).n;
        let visits = reroot(&mut tree, &second, None, &[], rule);
        assert_eq!(visits, tree.node(tree.root).n);
        assert_eq!(tree.root_turn, second.position().turn());
        assert!(tree.node(tree.root).n <= kept);
        let reply = tree.child_id(tree.node(tree.root), 0);
        let leaves = tree.children(tree.node(reply)).to_vec();
        (tree, leaves)
    }

    fn assert_is(node: &Node, n: u32, wl: f64, d: f32, m: f32) {
        assert_eq!(node.n, n);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-5;
        assert!(close(node.wl, wl), "W-L {} instead of {wl}", node.wl);
        assert!(
            close(node.d.into(), d.into()),
            "D {} instead of {d}",
            node.d
        );
        assert!(
            close(node.m.into(), m.into()),
            "{} plies instead of {m}",
            node.m
        );
    }

    #[test]
    fn shared_values_are_kept_within_a_game_and_dropped_with_another() {
        for rule in RULES {
            shared_values_are_kept(rule);
        }
    }

    fn shared_values_are_kept(rule: CopyRule<'_>) {
        let game = History::default();
        let second = after_first_move(&game);
        let mut tree = Tree::new(game.clone(), None);
        let root = tree.root;
        *tree.node_mut(root) = node(10, 0.1, 0.3, 40.0);
        let replies = [node(5, 0.1, 0.2, 9.0), node(4, 0.2, 0.1, 9.0)];
        let next = tree.grow(root, &game, &replies)[0];
        tree.grow(next, &second, &[]);
        tree.shared_values.store(13, &node(9, 0.25, 0.5, 8.0));
        let known = |tree: &Tree| tree.shared_values.value(13).map(|known| known.wl);
        assert_eq!(reroot(&mut tree, &game, None, &[], rule), 10);
        assert_eq!(known(&tree), Some(-0.25));
        assert_eq!(reroot(&mut tree, &second, None, &[], rule), 5);
        assert_eq!(known(&tree), Some(-0.25));
        // Back to the start: that is another tree.
        assert_eq!(reroot(&mut tree, &game, None, &[], rule), 0);
        assert_eq!(known(&tree), None);
    }

    #[test]
    fn outdated_repetitions_are_reverted_up_to_the_root() {
        // The reply: one visit of its own (0.2, 0.4, 20 plies), 4 draws (three plies back: to the old root, 4 plies
        // left seen from here), 5 of the other leaf (0.6, 0.1, 30 plies seen from here).
        let wl = (0.2 + 4.0 * 0.0 + 5.0 * 0.6) / 10.0;
        let d = (0.4 + 4.0 * 1.0 + 5.0 * 0.1) / 10.0;
        let m = (20.0 + 4.0 * 4.0 + 5.0 * 30.0) / 10.0;
        let reply = node(10, wl, d, m);
        // The next root: one visit (-0.5, 0.3, 10 plies) and the reply's.
        let next = node(
            11,
            (-0.5 - 10.0 * wl) / 11.0,
            (0.3 + 10.0 * d) / 11.0,
            (10.0 + 10.0 * (m + 1.0)) / 11.0,
        );
        let leaves = [repetition(4, 3.0), node(5, -0.6, 0.1, 29.0)];
        // As if those four visits had never happened.
        let (wl, d, m) = (3.2 / 6.0, 0.9 / 6.0, 170.0 / 6.0);
        for (tree, leaves) in rerooted(next, reply, &leaves) {
            assert_is(&tree.children(tree.node(tree.root))[0], 6, wl, d, m);
            let (root_d, root_m) = ((0.3 + 6.0 * d) / 7.0, (10.0 + 6.0 * (m + 1.0)) / 7.0);
            assert_is(
                tree.node(tree.root),
                7,
                (-0.5 - 6.0 * wl) / 7.0,
                root_d,
                root_m,
            );
            // The position can be searched again; its move stays in its place.
            assert_is(&leaves[0], 0, 0.0, Node::EMPTY.d, Node::EMPTY.m);
            assert!(!leaves[0].is_proven() && leaves[0].origin() != Origin::TwoFold);
            assert_eq!((leaves[0].edge, leaves[1].edge), (0, 1));
            assert_is(&leaves[1], 5, -0.6, 0.1, 29.0);
        }
    }

    /// A position in which White has one move: the king takes the queen.
    const ONE_MOVE: &str = "7k/8/8/8/8/8/1q6/K7 w - - 0 1";

    #[test]
    fn positions_that_were_passed_through_only_are_as_new_without_their_draws() {
        let one_move = History::new(position_from_fen(ONE_MOVE).unwrap());
        assert_eq!(legal_moves(one_move.position()).count(), 1);
        let game = History::default();
        let second = after_first_move(&game);
        // With a reply that was searched, and without.
        for (others, rule) in [(1, RULES[0]), (0, RULES[0]), (1, RULES[1]), (0, RULES[1])] {
            let mut tree = Tree::new(game.clone(), None);
            let (root, n) = (tree.root, 4 + others + u32::from(others > 0));
            *tree.node_mut(root) = node(n + 1, 0.0, 0.9, 8.0);
            let next = tree.grow(root, &game, &[node(n, 0.0, 0.9, 7.0)])[0];
            let mut replies = vec![node(4, 0.0, 1.0, 4.0)];
            if others > 0 {
                replies.push(node(others, 0.5, 0.25, 9.0));
            }
            let position = if others > 0 { &second } else { &one_move };
            let reply = tree.grow(next, position, &replies)[0];
            tree.grow(reply, &one_move, &[repetition(4, 3.0)]);
            tree.assert_consistent();
            assert_eq!(reroot(&mut tree, &second, None, &[], rule), n - 4);
            tree.assert_consistent();
            let root = *tree.node(tree.root);
            if others == 0 {
                assert_eq!((root.n_edges, root.n_children), (0, 0), "begins anew");
                continue;
            }
            let replies = tree.children(&root).to_vec();
            assert_is(&replies[0], 0, 0.0, 0.0, 0.0);
            assert_eq!((replies[0].n_edges, replies[0].n_children), (1, 1));
            assert_is(&tree.children(&replies[0])[0], 0, 0.0, 0.0, 0.0);
            assert_is(&replies[1], others, 0.5, 0.25, 9.0);
        }
    }

    #[test]
    fn a_repetition_within_the_tree_that_stays_is_still_a_draw() {
        let (next, reply) = (node(11, 0.1, 0.5, 9.0), node(10, -0.1, 0.5, 8.0));
        // Two plies back from two plies below the new root is that root itself.
        for (tree, leaves) in rerooted(next, reply, &[repetition(9, 2.0)]) {
            assert_is(tree.node(tree.root), 11, 0.1, 0.5, 9.0);
            assert_is(&tree.children(tree.node(tree.root))[0], 10, -0.1, 0.5, 8.0);
            assert_is(&leaves[0], 9, 0.0, 1.0, 2.0);
            assert_eq!(leaves[0].origin(), Origin::TwoFold);
        }
    }

    #[test]
    fn proofs_do_not_depend_on_reverted_visits() {
        let (next, mut reply) = (node(11, -0.9, 0.05, 9.0), node(10, 1.0, 0.0, 8.0));
        reply.set_bounds(Bounds::exact(1), Origin::Children);
        let leaves = [repetition(4, 3.0), node(5, -1.0, 0.0, 7.0)];
        for (tree, leaves) in rerooted(next, reply, &leaves) {
            assert_is(tree.node(tree.root), 11, -0.9, 0.05, 9.0);
            assert_is(&tree.children(tree.node(tree.root))[0], 10, 1.0, 0.0, 8.0);
            assert_eq!((leaves[0].n, leaves[1].n), (0, 5));
        }
    }

    #[test]
    fn another_game_or_rule_begins_anew() {
        for rule in RULES {
            another_game_begins_anew(rule);
        }
    }

    fn another_game_begins_anew(rule: CopyRule<'_>) {
        let tree = || {
            let game = History::default();
            let mut tree = Tree::new(game.clone(), None);
            let root = tree.root;
            *tree.node_mut(root) = node(7, 0.0, 0.0, 9.0);
            let children = [node(6, 0.0, 0.0, 9.0)];
            let child = tree.grow(root, &game, &children)[0];
            let next = after_first_move(&game);
            tree.grow(child, &next, &[node(5, 0.0, 0.0, 9.0)]);
            (tree, game, next)
        };
        let (mut same, game, next) = tree();
        assert_eq!(reroot(&mut same, &game, None, &[], rule), 7);
        assert_eq!(reroot(&mut same, &next, None, &[], rule), 6);
        assert_eq!(
            reroot(&mut same, &game, None, &[], rule),
            0,
            "back to the start"
        );
        // A move that was not searched, and a reply without moves of its own.
        let (mut other, mut game, next) = tree();
        let unvisited = legal_moves(game.position()).nth(1).unwrap();
        game.push(unvisited);
        assert_eq!(reroot(&mut other, &game, None, &[], rule), 0);
        let (mut leaf, ..) = tree();
        assert_eq!(
            reroot(&mut leaf, &after_first_move(&next), None, &[], rule),
            0
        );
        assert_eq!(leaf.node(leaf.root).n_children, 0);
    }

    /// The line of most visits below the root of a tree, as games.
    fn main_line(tree: &Tree, plies: usize) -> Vec<History> {
        let (mut id, mut game) = (tree.root, tree.history.clone().unwrap());
        let mut games = Vec::new();
        for _ in 0..plies {
            let node = tree.node(id);
            let slots = 0..node.n_children;
            let best = slots.max_by_key(|&slot| tree.node(tree.child_id(node, slot)).n);
            let child = tree.child_id(node, best.unwrap());
            let m = tree.edges(node).at(tree.node(child).edge).m();
            game.push(m);
            games.push(game.clone());
            id = child;
        }
        games
    }

    #[test]
    fn a_moved_root_has_the_tree_of_a_copy_and_is_copied_later() {
        let [copied, moved] = RULES.map(|rule| {
            let mut tree = searched(3000).0.tree;
            let next = main_line(&tree, 1).remove(0);
            let before = tree.node_count();
            reroot(&mut tree, &next, None, &[], rule);
            tree.assert_consistent();
            (tree, before)
        });
        assert!(copied.0.node_count() < copied.1);
        assert_eq!(moved.0.node_count(), moved.1);
        let nodes = |tree: &Tree| {
            let mut nodes = Vec::new();
            tree.for_each(|node, depth| {
                let moves: Vec<_> = tree.edges(node).iter().map(Edge::bits).collect();
                nodes.push((depth, node.n, node.wl.to_bits(), node.flags, moves));
            });
            nodes
        };
        assert!(copied.0.root_visits() > 100);
        assert_eq!(nodes(&copied.0), nodes(&moved.0));
        // Both go on as one.
        let next = main_line(&moved.0, 2).remove(1);
        let [one, other] = [copied, moved].map(|(mut tree, _)| {
            reroot(&mut tree, &next, None, &[], RULES[0]);
            tree
        });
        assert_eq!(nodes(&one), nodes(&other));
        assert_eq!(one.node_count(), other.node_count());
    }

    /// A tree of many visits whose search was restricted to these moves, its game, and the game one move later.
    fn restricted_to(root_moves: &[PackedMove]) -> (Tree, History, History) {
        let mut tree = searched(3000).0.tree;
        tree.root_moves = root_moves.to_vec();
        let (game, next) = (tree.history.clone().unwrap(), main_line(&tree, 1).remove(0));
        (tree, game, next)
    }

    #[test]
    fn a_root_is_kept_for_the_moves_that_it_was_searched_with() {
        let one: Vec<PackedMove> = legal_moves(History::default().position()).take(1).collect();
        let (all, one) = (&[][..], &one[..]);
        for rule in RULES {
            for (before, after, same, later) in [
                (all, all, true, true),
                (one, one, true, false),
                // Below the root all moves were searched.
                (one, all, false, true),
                (all, one, false, false),
            ] {
                let (mut tree, game, next) = restricted_to(before);
                let kept = reroot(&mut tree, &game, None, after, rule);
                assert_eq!(kept > 100, same, "{before:?} {after:?}");
                let (mut tree, ..) = restricted_to(before);
                let kept = reroot(&mut tree, &next, None, after, rule);
                assert_eq!(kept > 100, later, "{before:?} {after:?}");
                assert_eq!(tree.root_moves, after);
            }
        }
    }

    #[test]
    fn an_analysis_of_some_moves_keeps_the_trees_of_all_moves() {
        let (mut tree, game, next) = restricted_to(&[]);
        let all = tree.root_visits();
        let mut visits = |game: &History, root_moves: &[PackedMove]| {
            let visits =
                reroot_in_analysis(&mut tree, game, None, root_moves, usize::MAX, RULES[0]);
            tree.assert_consistent();
            u64::from(visits)
        };
        let one: Vec<PackedMove> = legal_moves(game.position()).take(1).collect();
        assert_eq!(visits(&game, &one), 0);
        let of_next = visits(&next, &[]);
        assert!(of_next > 100 && of_next < all);
        assert_eq!(visits(&next, &one), 0);
        assert_eq!(visits(&game, &[]), all);
        assert_eq!(visits(&next, &[]), of_next);
    }

    #[test]
    fn a_copy_ends_when_the_search_is_stopped() {
        let stop = StopSignal::default();
        let rule = CopyRule {
            stop: Some(&stop),
            ..RULES[0]
        };
        let after = |in_analysis: bool| {
            let mut tree = searched(3000).0.tree;
            let next = main_line(&tree, 1).remove(0);
            let before = tree.node_count();
            let visits = if in_analysis {
                reroot_in_analysis(&mut tree, &next, None, &[], usize::MAX, rule)
            } else {
                reroot(&mut tree, &next, None, &[], rule)
            };
            tree.assert_consistent();
            let cached = tree.tree_cache.iter().map(Tree::root_visits).sum::<u64>();
            (visits > 100, tree.node_count() < before, cached)
        };
        let all = searched(3000).0.tree.root_visits();
        assert_eq!(
            [false, true].map(after),
            [(true, true, 0), (true, true, all)]
        );
        stop.stop();
        // What there is stays in one tree; in an analysis that one is kept for a step back, and another one is begun.
        assert_eq!(
            [false, true].map(after),
            [(true, false, 0), (false, true, all)]
        );
    }

    #[test]
    fn a_tree_whose_root_was_moved_is_copied_by_the_next_search_of_the_same_position() {
        for in_analysis in [false, true] {
            let again = |tree: &mut Tree, next: &History, rule| {
                if in_analysis {
                    reroot_in_analysis(tree, next, None, &[], usize::MAX, rule)
                } else {
                    reroot(tree, next, None, &[], rule)
                }
            };
            let mut tree = searched(3000).0.tree;
            let next = main_line(&tree, 1).remove(0);
            let before = tree.node_count();
            let visits = again(&mut tree, &next, RULES[1]);
            assert!(tree.node_count() == before && tree.has_moved_root);
            // As little time as before, and then enough.
            assert_eq!(again(&mut tree, &next, RULES[1]), visits);
            assert_eq!(tree.node_count(), before);
            assert_eq!(again(&mut tree, &next, RULES[0]), visits);
            assert!(tree.node_count() < before && !tree.has_moved_root);
            assert!(tree.tree_cache.is_empty());
        }
    }

    #[test]
    fn copies_take_a_small_part_of_the_time_or_memory_that_is_short() {
        let tree = searched(3000).0.tree;
        let (id, bytes) = (tree.root, tree.memory());
        let never = StopSignal::default();
        let copies = |limits: &Limits| CopyRule::new(limits, &never).copies(&tree, id);
        let movetime = |ms: u64, tree_bytes| Limits {
            movetime: Some(Duration::from_millis(ms)),
            tree_bytes,
            ..Limits::default()
        };
        // 3000 nodes at most: 1.5 ms.
        assert!(copies(&Limits::default()));
        assert!(copies(&movetime(1000, None)));
        assert!(copies(&movetime(1000, Some(2 * bytes))));
        assert!(!copies(&movetime(20, None)));
        assert!(!copies(&movetime(20, Some(3 * bytes))));
        // An analysis keeps the trees of earlier positions, which is worth more time.
        let in_analysis = CopyRule::in_analysis(&movetime(20, None), &never);
        assert!(in_analysis.copies(&tree, id));
        let in_analysis = CopyRule::in_analysis(&movetime(2, None), &never);
        assert!(!in_analysis.copies(&tree, id));
        let crowded = Limits {
            tree_bytes: Some(bytes),
            ..Limits::default()
        };
        let few = CopyRule {
            max_nodes: 10.0,
            ..CopyRule::new(&crowded, &never)
        };
        assert!(few.copies(&tree, id));
        let few = CopyRule {
            crowded_bytes: bytes + 1,
            ..few
        };
        assert!(!few.copies(&tree, id));
    }
}
