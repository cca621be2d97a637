//! How proven results order moves: mates, tablebase wins, open moves, tablebase losses, moves that get mated.

use std::cmp::Ordering;

use super::tree::node::{Node, Origin};

/// What is certain about a move, best first. The distance to a tablebase result is unknown, so a mate is better than
/// a tablebase win, and a tablebase loss, which still has to be played out, is better than being mated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    Mates,
    WinsByTable,
    Open,
    LosesByTable,
    IsMated,
}

impl Certainty {
    pub fn of(node: &Node) -> Certainty {
        match (node.bounds().result(), node.origin()) {
            (Some(1), Origin::Tablebase) => Certainty::WinsByTable,
            (Some(1), _) => Certainty::Mates,
            (Some(-1), Origin::Tablebase) => Certainty::LosesByTable,
            (Some(-1), _) => Certainty::IsMated,
            _ => Certainty::Open,
        }
    }
}

/// Better first: proven wins (the shorter the better), then by visits, Q and prior, proven losses last (the longer the
/// better).
pub(super) fn compare(a: (&Node, f32), b: (&Node, f32), draw_score: f32) -> Ordering {
    let ((a, a_p), (b, b_p)) = (a, b);
    let certainty = Certainty::of(a);
    certainty
        .cmp(&Certainty::of(b))
        .then_with(|| match certainty {
            Certainty::Mates | Certainty::WinsByTable => a.m.total_cmp(&b.m),
            Certainty::LosesByTable | Certainty::IsMated => b.m.total_cmp(&a.m),
            Certainty::Open => {
                b.n.cmp(&a.n)
                    .then_with(|| b.q(draw_score).total_cmp(&a.q(draw_score)))
                    .then_with(|| b_p.total_cmp(&a_p))
            }
        })
}
