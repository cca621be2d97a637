//! Proof propagation: what is certain about a node follows from what is certain about its children.
//!
//! This is certainty propagation (Winands' MCTS-solver, Videodr0me's extension, lc0's sticky endgames) with a lower and
//! an upper bound per node, so that draws and "cannot lose" propagate as well. A proven node ends visits like a
//! terminal, and its ancestors' means are corrected as if all its visits had returned the proven value.

use super::tree::{
    Tree,
    node::{Bounds, Node, NodeId, Origin},
};

/// How much the sum of a node's values changes when a proof replaces its mean, seen by the side that moved into it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Correction {
    /// Visits that counted the old mean.
    pub visits: u32,
    /// New W-L minus old mean.
    pub wl: f64,
    /// New D minus old mean.
    pub d: f32,
    /// New moves left minus old mean.
    pub m: f32,
}

impl Correction {
    /// The same seen by the other side.
    pub fn flipped(self) -> Correction {
        Correction {
            wl: -self.wl,
            ..self
        }
    }

    /// Applies to an ancestor whose visits include those of the proven node.
    pub fn apply(self, node: &mut Node) {
        let share = f64::from(self.visits) / f64::from(node.n.max(1));
        node.wl = (node.wl + self.wl * share).clamp(-1.0, 1.0);
        node.d = (node.d + self.d * share as f32).clamp(0.0, 1.0);
        node.m += self.m * share as f32;
    }
}

/// Gives a node a certain result.
pub(super) fn prove(node: &mut Node, result: i8, m: f32, origin: Origin) {
    node.set_bounds(Bounds::exact(result), origin);
    node.wl = f64::from(result);
    node.d = if result == 0 { 1.0 } else { 0.0 };
    node.m = m;
}

/// Tightens the bounds of a node from those of its children. Returns `None` if nothing changed, otherwise the
/// correction that its ancestors need (with zero visits if the node is not proven yet).
pub(super) fn update(tree: &mut Tree, id: NodeId) -> Option<Correction> {
    let node = *tree.node(id);
    let (bounds, proof) = combine(tree.children(&node), usize::from(node.n_edges));
    let bounds = bounds.flipped();
    if bounds == node.bounds() {
        return None;
    }
    let is_root = id == tree.root;
    let node = tree.node_mut(id);
    let Some(result) = bounds.result().filter(|_| !is_root) else {
        // The root keeps its means: its move still has to be chosen, and its values are the ones that are reported.
        node.set_bounds(bounds, Origin::Children);
        return Some(Correction::default());
    };
    let before = *node;
    prove(node, result, proof.m, proof.origin());
    Some(Correction {
        visits: before.n,
        wl: node.wl - before.wl,
        d: node.d - before.d,
        m: node.m - before.m,
    })
}

/// Takes the proof that the mover prefers now for a node whose result was proven by its children before: visits that
/// were in flight may have found another one. Returns whether it is another one, of which the parent's may be made.
pub(super) fn renew(tree: &mut Tree, id: NodeId) -> bool {
    let node = *tree.node(id);
    let (bounds, proof) = combine(tree.children(&node), usize::from(node.n_edges));
    // What the rules, the tables or a look ahead have proven does not follow from children.
    if bounds.flipped() != node.bounds() {
        return false;
    }
    let known = Proof {
        m: node.m,
        from_tablebase: node.origin() == Origin::Tablebase,
    };
    // One winning move is enough: there may have been a better proof than any that is in the tree now.
    let is_better = bounds.result() != Some(1) || is_preferred(proof, known, 1);
    let origin = proof.origin();
    if !is_better || (proof.m, origin) == (node.m, node.origin()) {
        return false;
    }
    let node = tree.node_mut(id);
    node.set_bounds(node.bounds(), origin);
    node.m = proof.m;
    true
}

/// How the result that [`combine`] found comes about.
#[derive(Clone, Copy)]
struct Proof {
    m: f32,
    from_tablebase: bool,
}

impl Proof {
    /// Where the certainty of a node with this proof comes from.
    fn origin(self) -> Origin {
        if self.from_tablebase {
            Origin::Tablebase
        } else {
            Origin::Children
        }
    }
}

/// The bounds for the side to move, given its children and how many moves it has.
fn combine(children: &[Node], moves: usize) -> (Bounds, Proof) {
    let mut bounds = Bounds::exact(-1);
    let mut best = Proof {
        m: 0.0,
        from_tablebase: false,
    };
    let mut of = None;
    for child in children {
        // A repetition holds only on this path, so it bounds nothing.
        let known = if child.origin() == Origin::TwoFold {
            Bounds::OPEN
        } else {
            child.bounds()
        };
        bounds.lower = bounds.lower.max(known.lower);
        bounds.upper = bounds.upper.max(known.upper);
        let Some(result) = known.result().filter(|&result| result == bounds.lower) else {
            continue;
        };
        let proof = Proof {
            m: child.m,
            from_tablebase: child.origin() == Origin::Tablebase,
        };
        if of != Some(result) || is_preferred(proof, best, result) {
            (best, of) = (proof, Some(result));
        }
    }
    if children.len() < moves {
        bounds.upper = 1;
    }
    best.m += 1.0;
    (bounds, best)
}

/// Whether the mover prefers proof `a` to proof `b` of the same result. A win should be short, and by mate rather
/// than by tablebase, which does not give a distance. Any other result should be long, and a loss rather by
/// tablebase.
fn is_preferred(a: Proof, b: Proof, result: i8) -> bool {
    if a.from_tablebase != b.from_tablebase && result != 0 {
        return a.from_tablebase == (result < 0);
    }
    if result > 0 { a.m < b.m } else { a.m > b.m }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(bounds: Bounds, m: f32, origin: Origin) -> Node {
        let mut node = Node {
            n: 1,
            m,
            ..Node::EMPTY
        };
        node.set_bounds(bounds, origin);
        node
    }

    #[test]
    fn one_win_is_enough_and_the_shortest_counts() {
        let children = [
            child(Bounds::exact(1), 5.0, Origin::Children),
            child(Bounds::exact(1), 3.0, Origin::Rules),
            child(Bounds::OPEN, 0.0, Origin::Children),
        ];
        let (bounds, proof) = combine(&children, 20);
        assert_eq!((bounds, proof.m), (Bounds::exact(1), 4.0));
    }

    #[test]
    fn all_moves_must_lose_and_the_longest_counts() {
        let children = [
            child(Bounds::exact(-1), 2.0, Origin::Rules),
            child(Bounds::exact(-1), 6.0, Origin::Children),
        ];
        assert_eq!(combine(&children, 3).0, Bounds::OPEN);
        let (bounds, proof) = combine(&children, 2);
        assert_eq!((bounds, proof.m), (Bounds::exact(-1), 7.0));
    }

    #[test]
    fn a_mate_is_preferred_to_a_tablebase_win_and_a_tablebase_loss_to_being_mated() {
        for (result, from_tablebase, m) in [(1, false, 6.0), (-1, true, 1.0)] {
            let mut children = [
                child(Bounds::exact(result), 5.0, Origin::Children),
                child(Bounds::exact(result), 0.0, Origin::Tablebase),
            ];
            for _ in 0..2 {
                let (bounds, proof) = combine(&children, 2);
                assert_eq!(bounds, Bounds::exact(result));
                assert_eq!((proof.from_tablebase, proof.m), (from_tablebase, m));
                children.reverse();
            }
        }
    }

    #[test]
    fn the_length_is_that_of_the_result() {
        let children = [
            child(Bounds::exact(-1), 30.0, Origin::Children),
            child(Bounds::exact(0), 2.0, Origin::Rules),
        ];
        let (bounds, proof) = combine(&children, 2);
        assert_eq!((bounds, proof.m), (Bounds::exact(0), 3.0));
    }

    #[test]
    fn a_draw_in_hand_is_a_lower_bound_and_repetitions_are_not() {
        let draw = child(Bounds::exact(0), 0.0, Origin::Rules);
        assert_eq!(combine(&[draw], 2).0, Bounds { lower: 0, upper: 1 });
        let repetition = child(Bounds::exact(0), 4.0, Origin::TwoFold);
        assert_eq!(combine(&[repetition], 1).0, Bounds::OPEN);
    }

    #[test]
    fn a_correction_replaces_the_mean_of_the_visits_it_is_about() {
        let mut ancestor = Node {
            n: 10,
            wl: 0.2,
            d: 0.4,
            m: 30.0,
            ..Node::EMPTY
        };
        Correction {
            visits: 5,
            wl: 0.5,
            d: -0.4,
            m: -10.0,
        }
        .apply(&mut ancestor);
        assert!((ancestor.wl - 0.45).abs() < 1e-12);
        assert!((ancestor.d - 0.2).abs() < 1e-6 && (ancestor.m - 25.0).abs() < 1e-5);
    }
}
