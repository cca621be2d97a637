//! Positions of a tree with the lines to them, for training on search results.

use super::{Tree, node::Node};
use crate::{chess::PackedMove, network::Value};

/// A position of a tree with its search result.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchedLine {
    /// The moves from the root.
    pub line: Vec<PackedMove>,
    /// The mean over its visits, for the side to move.
    pub value: Value,
    /// The visited moves with their visits, in the order of their first visits.
    pub replies: Vec<(PackedMove, u32)>,
}

impl Tree {
    /// The moves from the root to each visited position below it whose result is open.
    pub fn open_lines(&self) -> Vec<Vec<PackedMove>> {
        let lines = self.lines(|node| node.n > 0 && !node.is_proven());
        let lines = lines.into_iter().map(|(line, _)| line);
        lines.filter(|line| !line.is_empty()).collect()
    }

    /// The positions with at least `min_visits` visits, including the root. Proven and frozen ones are left out:
    /// visits there do not show which move is best.
    pub fn searched_lines(&self, min_visits: u32) -> Vec<SearchedLine> {
        let is_searched =
            |node: &Node| node.n >= min_visits && !node.is_proven() && !node.has_record();
        let searched = |(line, node): (_, &Node)| {
            let edges = self.edges(node);
            let visited = self.children(node).iter().filter(|child| child.n > 0);
            SearchedLine {
                line,
                value: Value {
                    wl: -node.wl as f32,
                    d: node.d,
                    m: node.m,
                },
                replies: visited
                    .map(|child| (edges.at(child.edge).m(), child.n))
                    .collect(),
            }
        };
        self.lines(is_searched).into_iter().map(searched).collect()
    }

    /// The selected nodes, with the moves from the root to each.
    fn lines(&self, is_selected: impl Fn(&Node) -> bool) -> Vec<(Vec<PackedMove>, &Node)> {
        let mut lines = Vec::new();
        let mut stack = vec![(self.root, Vec::new())];
        while let Some((id, line)) = stack.pop() {
            let node = self.node(id);
            let edges = self.edges(node);
            for (slot, child) in (0..).zip(self.children(node)) {
                let mut line = line.clone();
                line.push(edges.at(child.edge).m());
                stack.push((self.child_id(node, slot), line));
            }
            if is_selected(node) {
                lines.push((line, node));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::tree::node::{Bounds, Origin, tests::node};

    #[test]
    fn positions_with_enough_visits_give_their_search_results() {
        let mut won = node(40, 1.0, 0.25, 30.0);
        won.set_bounds(Bounds::exact(1), Origin::Children);
        let mut tree =
            Tree::with_children(&[node(9, 0.5, 0.25, 30.0), node(0, 0.0, 0.25, 30.0), won]);
        let root = tree.root;
        tree.node_mut(root).wl = -0.125;
        let lengths = |lines: &[SearchedLine]| lines.iter().map(|it| it.line.len()).max();
        let all = tree.searched_lines(9);
        assert_eq!((all.len(), lengths(&all)), (2, Some(1)));
        let below = all.iter().find(|it| !it.line.is_empty()).unwrap();
        // The node's values are from the point of view of the side that moved into it.
        assert_eq!((below.value.wl, below.value.d), (-0.5, 0.25));
        assert_eq!(below.replies, []);
        let top = tree.searched_lines(10);
        assert_eq!((top.len(), lengths(&top)), (1, Some(0)));
        assert_eq!(top[0].value.wl, 0.125);
        let visits: Vec<u32> = top[0].replies.iter().map(|(_, visits)| *visits).collect();
        assert_eq!(visits, [9, 40]);
        assert_eq!(top[0].replies[0].0, below.line[0]);
        assert_eq!(tree.open_lines().len(), 1);
    }
}
