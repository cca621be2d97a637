//! One visited position: 40 bytes.
//!
//! All values of a node are from the point of view of the side that *moved into* it, so that its parent prefers the
//! larger one. Edges (the legal moves with their priors) are in an arena of their own, 4 bytes each, and the children
//! of one node are neighbours: selection reads them sequentially.

use crate::{chess::PackedMove, network::prior};

/// Index of a node in the tree's arena. It changes when the parent's children move to a larger block, so it must not
/// be kept without the lock; a path of child slots stays valid.
pub type NodeId = u32;

/// A legal move and its prior, in one sortable word: the prior's 16 bits above the move's 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge(u32);

impl Edge {
    /// A move with a prior of 0..=1 (rounded to 16 bits).
    pub fn new(m: PackedMove, p: f32) -> Edge {
        Edge(u32::from(prior::encode(p)) << 16 | u32::from(m.bits()))
    }

    /// The edge of a word from [`Edge::bits`].
    #[inline]
    pub(in crate::search) fn from_bits(bits: u32) -> Edge {
        Edge(bits)
    }

    /// As one word.
    #[inline]
    pub(in crate::search) fn bits(self) -> u32 {
        self.0
    }

    /// The move.
    pub fn m(self) -> PackedMove {
        PackedMove::from_bits(self.0 as u16)
    }

    /// The prior, 0..=1.
    #[inline]
    pub fn p(self) -> f32 {
        prior::decode((self.0 >> 16) as u16)
    }
}

/// What is certain about a node's result, from the same point of view as its values: -1 lost, 0 drawn, 1 won.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The result is at least this.
    pub lower: i8,
    /// The result is at most this.
    pub upper: i8,
}

impl Bounds {
    /// Nothing is known.
    pub const OPEN: Bounds = Bounds {
        lower: -1,
        upper: 1,
    };

    /// A known result.
    pub const fn exact(result: i8) -> Bounds {
        Bounds {
            lower: result,
            upper: result,
        }
    }

    /// The result, if it is known.
    pub fn result(self) -> Option<i8> {
        (self.lower == self.upper).then_some(self.lower)
    }

    /// The same seen by the other side.
    pub fn flipped(self) -> Bounds {
        Bounds {
            lower: -self.upper,
            upper: -self.lower,
        }
    }
}

/// The mean of visits to a node, or one on its way to the root: W-L, draw probability and plies left, seen by the side
/// that moved into the node.
#[derive(Clone, Copy)]
pub(in crate::search) struct Mean {
    pub wl: f64,
    pub d: f32,
    pub m: f32,
}

impl Mean {
    /// The mean of all visits to a node.
    pub fn of(node: &Node) -> Mean {
        Mean {
            wl: node.wl,
            d: node.d,
            m: node.m,
        }
    }

    /// The value one ply closer to the root, seen by the other side.
    pub fn flipped(self) -> Mean {
        Mean {
            wl: -self.wl,
            d: self.d,
            m: self.m + 1.0,
        }
    }

    /// The expected result, where a draw counts `draw_score`.
    pub fn q(self, draw_score: f32) -> f64 {
        self.wl + f64::from(draw_score * self.d)
    }
}

/// Where a node's certainty comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Origin {
    /// From its children, or not certain at all.
    Children = 0,
    /// The rules: mate, stalemate, material, 50 moves, threefold repetition.
    Rules = 1,
    /// A repetition within the tree, counted as a draw, but only on this path and from this root, so it proves
    /// nothing to the parent. `m` holds the length of the cycle.
    TwoFold = 2,
    /// An endgame tablebase.
    Tablebase = 3,
}

/// Flag bits: lower bound + 1 in bits 0-1, upper bound + 1 in bits 2-3, bit 4: has a record, origin in bits 5-6,
/// refined in bit 7.
const HAS_RECORD: u8 = 1 << 4;
const REFINED: u8 = 1 << 7;
const OPEN_FLAGS: u8 = 2 << 2;

/// One visited position. Its values are for the side that moved into it.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Mean of W-L over the visits, -1..=1.
    pub wl: f64,
    /// Mean draw probability. (In 32 bits, so that after some ten million visits single ones hardly move it.)
    pub d: f32,
    /// Mean plies to the end of the game (in 32 bits, too). For a proven node, the length of the proof in plies, by its
    /// origin: to the mate that was found, to the end of the longest drawn line, to the repetition, or to the
    /// tablebases' next capture or pawn move.
    pub m: f32,
    /// W-L of this position by itself: the network's, rescaled where there is WDL contempt, or the terminal value.
    pub v: f32,
    /// Completed visits.
    pub n: u32,
    /// Visits that have passed through and are not backed up yet.
    pub in_flight: u32,
    /// Index of the first edge, or of the record if there is one (see [`crate::search::search_contempt`]).
    pub(in crate::search) edges: u32,
    /// First child.
    pub(in crate::search) children: NodeId,
    /// Number of edges; 0 until the position is evaluated, and for terminal positions.
    pub n_edges: u8,
    /// Number of children, visited or being visited.
    pub n_children: u8,
    /// Which of the parent's edges leads here.
    pub edge: u8,
    pub(in crate::search) flags: u8,
}

impl Node {
    /// A position that was never visited.
    pub const EMPTY: Node = Node {
        wl: 0.0,
        d: 0.0,
        m: 0.0,
        v: 0.0,
        n: 0,
        in_flight: 0,
        edges: 0,
        children: 0,
        n_edges: 0,
        n_children: 0,
        edge: 0,
        flags: OPEN_FLAGS,
    };

    /// What is certain about the result.
    #[inline]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            lower: (self.flags & 3) as i8 - 1,
            upper: (self.flags >> 2 & 3) as i8 - 1,
        }
    }

    /// Sets what is certain and why.
    pub fn set_bounds(&mut self, bounds: Bounds, origin: Origin) {
        let lower = (bounds.lower + 1) as u8;
        let upper = (bounds.upper + 1) as u8;
        self.flags = self.flags & (HAS_RECORD | REFINED) | lower | upper << 2 | (origin as u8) << 5;
    }

    /// Whether the result is certain, so that visits end here.
    #[inline]
    pub fn is_proven(&self) -> bool {
        self.flags & 3 == self.flags >> 2 & 3
    }

    /// Whether the move to it is a proven loss.
    pub fn is_lost(&self) -> bool {
        self.bounds().result() == Some(-1)
    }

    /// Whether the move to it is a proven win.
    pub fn is_won(&self) -> bool {
        self.bounds().result() == Some(1)
    }

    /// Where the certainty comes from.
    pub fn origin(&self) -> Origin {
        match self.flags >> 5 & 3 {
            1 => Origin::Rules,
            2 => Origin::TwoFold,
            3 => Origin::Tablebase,
            _ => Origin::Children,
        }
    }

    /// Whether search-contempt has a record of this node's replies.
    #[inline]
    pub fn has_record(&self) -> bool {
        self.flags & HAS_RECORD != 0
    }

    pub(in crate::search) fn set_has_record(&mut self, has: bool) {
        self.flags = self.flags & !HAS_RECORD | if has { HAS_RECORD } else { 0 };
    }

    /// Whether a stronger network has refined its priors, or is about to.
    #[inline]
    pub fn is_refined(&self) -> bool {
        self.flags & REFINED != 0
    }

    pub(in crate::search) fn set_refined(&mut self, is: bool) {
        self.flags = self.flags & !REFINED | if is { REFINED } else { 0 };
    }

    /// Q with draws counted as `draw_score` (-1..=1, from the same point of view).
    #[inline]
    pub fn q(&self, draw_score: f32) -> f32 {
        self.wl as f32 + draw_score * self.d
    }

    /// Adds one visit to the means; `share` gives the weight of the visit with this number.
    #[inline]
    pub fn add_visit(&mut self, wl: f64, d: f32, m: f32, share: impl Fn(u32) -> f64) {
        debug_assert!(wl.is_finite() && d.is_finite() && m.is_finite());
        self.n += 1;
        let share = share(self.n);
        self.wl += (wl - self.wl) * share;
        self.d += (d - self.d) * share as f32;
        self.m += (m - self.m) * share as f32;
    }
}

#[cfg(test)]
pub(in crate::search) mod tests {
    use super::*;

    /// A node with this number of visits and these means.
    pub fn node(n: u32, wl: f64, d: f32, m: f32) -> Node {
        Node {
            n,
            wl,
            d,
            m,
            ..Node::EMPTY
        }
    }

    #[test]
    fn nodes_and_edges_have_the_promised_sizes() {
        assert_eq!(size_of::<Node>(), 40);
        assert_eq!(size_of::<Edge>(), 4);
    }

    #[test]
    fn flags_keep_bounds_origin_and_record_apart() {
        let mut node = Node::EMPTY;
        assert_eq!(node.bounds(), Bounds::OPEN);
        assert!(!node.is_proven() && !node.has_record());
        node.set_has_record(true);
        for origin in [
            Origin::Children,
            Origin::Rules,
            Origin::TwoFold,
            Origin::Tablebase,
        ] {
            for bounds in [
                Bounds::OPEN,
                Bounds::exact(-1),
                Bounds { lower: 0, upper: 1 },
                Bounds::exact(1),
            ] {
                node.set_bounds(bounds, origin);
                assert_eq!((node.bounds(), node.origin()), (bounds, origin));
                assert_eq!(node.is_proven(), bounds.result().is_some());
                assert!(node.has_record());
            }
        }
        node.set_has_record(false);
        assert_eq!(node.bounds(), Bounds::exact(1));
    }
}
