//! Objective values: what the lines are worth against best replies, from the same search.
//!
//! Values in a tree with search-contempt are *practical*: a frozen node's value is the mean over its replies as this
//! opponent is expected to choose them. The *objective* value of a frozen node is that of the best reply found there;
//! if all visited replies are proven losses and others were never visited, it is the network's value of the position.
//! All other means follow from their children's. Where nothing is frozen both are equal. The difference for a line is
//! its *trap value*: how much of its value depends on mistakes of the opponent.

use std::time::Duration;

use super::{
    limits::Limits,
    params::SearchParams,
    report::{Objective, PvLine, Score},
    tree::{
        Tree,
        node::{Node, NodeId},
    },
};
use crate::{network::Value, options::SearchOptions};

/// W-L, draw probability and plies left, from the point of view of the side that moved into a node.
#[derive(Clone, Copy)]
struct Mean {
    wl: f64,
    d: f32,
    m: f32,
}

impl Mean {
    fn of(node: &Node) -> Mean {
        Mean {
            wl: node.wl,
            d: node.d,
            m: node.m,
        }
    }

    fn q(self, draw_score: f32) -> f64 {
        self.wl + f64::from(draw_score * self.d)
    }
}

/// Time per visit of the tree for computing objective values on a busy machine; memory latency dominates.
const TIME_PER_VISIT: Duration = Duration::from_micros(1);
/// Objective values may take at most one part in this many of a search's time.
const MIN_TIME_RATIO: u32 = 4;

/// The time needed for objective values at the end of a search with this tree; `None` if they are off, or if there is
/// not enough time for them.
pub(super) fn time_needed(
    tree: &Tree,
    options: &SearchOptions,
    limits: &Limits,
) -> Option<Duration> {
    let is_wanted = options.show_objective() && tree.rule.is_some();
    let time = TIME_PER_VISIT.saturating_mul(tree.node(tree.root).n);
    let is_enough = |all: Duration| time <= all / MIN_TIME_RATIO;
    (is_wanted && limits.max_time().is_none_or(is_enough)).then_some(time)
}

impl Tree {
    /// Adds the objective values of the lines.
    pub(super) fn add_objectives(&self, params: &SearchParams, lines: &mut [PvLine]) {
        let root = self.node(self.root);
        let draw_score = params.draw_score(self.root_turn);
        for line in lines {
            // A tablebase result holds against every reply, even if the tree has not found it.
            if matches!(line.score, Score::Tablebase(_)) {
                line.objective = Some(Objective {
                    value: line.value,
                    trap_mass: 0.0,
                });
                continue;
            }
            let edges = self.edges(root).iter();
            let edge = edges
                .zip(0..)
                .find(|(edge, _)| line.pv.first() == Some(&edge.m()));
            let slot = edge.and_then(|(_, edge)| self.slot_of_edge(root, edge));
            line.objective = slot.map(|slot| self.objective(self.child_id(root, slot), draw_score));
        }
    }

    /// The objective values of the line that begins with the move to this node. A draw is worth `draw_score` to the
    /// side that moved into it.
    fn objective(&self, id: NodeId, draw_score: f32) -> Objective {
        let node = self.node(id);
        let mean = self.objective_mean(node, draw_score);
        Objective {
            value: Value {
                wl: mean.wl as f32,
                d: mean.d,
                m: mean.m + 1.0,
            },
            trap_mass: self.trap_mass(node, -draw_score),
        }
    }

    /// The node's mean against best replies. A draw is worth `draw_score` to the side that moved into it.
    fn objective_mean(&self, node: &Node, draw_score: f32) -> Mean {
        let mean = Mean::of(node);
        // A proven result holds against every reply.
        if node.is_proven() || node.n == 0 {
            return mean;
        }
        if self.frozen(node).is_some() {
            let visited = self.children(node).iter().filter(|child| child.n > 0);
            let replies = visited.map(|child| self.objective_mean(child, -draw_score));
            let best = self.best_reply(node, replies, -draw_score);
            return best.map_or(mean, |best| Mean {
                wl: -best.wl,
                d: best.d,
                m: best.m + 1.0,
            });
        }
        let visited = self.children(node).iter().filter(|child| child.n > 0);
        let replies = visited.map(|child| (child, self.objective_mean(child, -draw_score)));
        replies.fold(mean, |mut mean, (child, reply)| {
            let share = f64::from(child.n) / f64::from(node.n);
            mean.wl -= share * (reply.wl - child.wl);
            mean.d += share as f32 * (reply.d - child.d);
            mean.m += share as f32 * (reply.m - child.m);
            mean
        })
    }

    /// The best value at a frozen node among these visited replies, seen by the side to move; a draw is worth
    /// `draw_score` to it.
    fn best_reply(
        &self,
        node: &Node,
        replies: impl Iterator<Item = Mean>,
        draw_score: f32,
    ) -> Option<Mean> {
        let visited = || self.children(node).iter().filter(|child| child.n > 0);
        let has_unknown = visited().count() < usize::from(node.n_edges);
        if has_unknown && visited().all(Node::is_lost) {
            // The position is not known to be lost, so the network's value is used.
            return Some(Mean {
                wl: -f64::from(node.v),
                d: node.d.min(1.0 - node.v.abs()),
                m: node.m - 1.0,
            });
        }
        replies.max_by(|a, b| a.q(draw_score).total_cmp(&b.q(draw_score)))
    }

    /// See [`Objective::trap_mass`]; a draw is worth `draw_score` to the side to move at the node.
    fn trap_mass(&self, node: &Node, draw_score: f32) -> f32 {
        let Some(record) = self.frozen(node) else {
            return 0.0;
        };
        let children = self.children(node).iter().zip(record.probabilities());
        let replies: Vec<(f64, Mean)> = children
            .filter(|(child, _)| child.n > 0)
            .map(|(child, p)| (p, self.objective_mean(child, draw_score)))
            .collect();
        let means = replies.iter().map(|&(_, mean)| mean);
        let best = self.best_reply(node, means, draw_score);
        let best = best.map_or(f64::NEG_INFINITY, |best| best.q(draw_score));
        let losses = replies
            .iter()
            .map(|(p, mean)| p * (best - mean.q(draw_score)));
        losses.sum::<f64>() as f32
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
    use shakmaty::Color;

    use super::*;
    use crate::{
        chess::History,
        options::{Options, ScSampling},
        search::{
            search_contempt::Rule,
            tree::node::{Bounds, Origin},
        },
    };

    /// Adds a child with this many visits and this W-L.
    fn child(tree: &mut Tree, parent: NodeId, n: u32, wl: f64, d: f32) -> NodeId {
        let slot = tree.add_child(parent, 0).unwrap();
        let id = tree.child_id(tree.node(parent), slot);
        let node = tree.node_mut(id);
        (node.n, node.wl, node.d, node.m) = (n, wl, d, 10.0);
        id
    }

    /// A tree in which White has one move, to which Black has replied with two moves, three times each: one loses 0.8
    /// for Black, the other wins 0.4.
    fn tree() -> (Tree, NodeId) {
        let rule = Rule {
            side: Color::Black,
            limit: 6,
            temperature: 1.0,
            sampling: ScSampling::Thompson,
        };
        let mut tree = Tree::new(History::default(), Some(rule));
        let root = tree.root();
        let offer = child(&mut tree, root, 7, 0.2, 0.1);
        child(&mut tree, offer, 3, -0.8, 0.0);
        child(&mut tree, offer, 3, 0.4, 0.2);
        (tree, offer)
    }

    fn freeze(tree: &mut Tree, id: NodeId) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        tree.node_mut(id).in_flight = 1;
        tree.reply(id, Color::Black, &mut rng);
        tree.node_mut(id).in_flight = 0;
        assert!(tree.frozen(tree.node(id)).is_some());
    }

    #[test]
    fn a_tablebase_result_is_no_trap() {
        let (mut tree, offer) = tree();
        freeze(&mut tree, offer);
        let value = Value {
            wl: 1.0,
            d: 0.0,
            m: 9.0,
        };
        let mut lines = [PvLine {
            score: Score::Tablebase(9),
            value,
            pv: Vec::new(),
            nodes: 7,
            objective: None,
        }];
        tree.add_objectives(
            &SearchParams::new(&Options::default().search(), 1, true),
            &mut lines,
        );
        let known = Objective {
            value,
            trap_mass: 0.0,
        };
        assert_eq!(lines[0].objective, Some(known));
    }

    #[test]
    fn a_frozen_node_is_worth_its_best_reply() {
        let (mut tree, offer) = tree();
        let open = tree.objective(offer, 0.0);
        assert_eq!((open.value.wl, open.trap_mass), (0.2, 0.0));
        freeze(&mut tree, offer);
        let frozen = tree.objective(offer, 0.0);
        assert_eq!((frozen.value.wl, frozen.value.d), (-0.4, 0.2));
        assert_eq!(frozen.value.m, 12.0);
        // Half of the time the reply is 1.2 worse than the best one.
        assert!((frozen.trap_mass - 0.6).abs() < 1e-6);
    }

    #[test]
    fn unvisited_replies_may_save_a_position() {
        let (mut tree, offer) = tree();
        freeze(&mut tree, offer);
        let lost = |tree: &mut Tree, count: u32| {
            for reply in 0..count {
                let id = tree.node(offer).children + reply;
                let reply = tree.node_mut(id);
                reply.set_bounds(Bounds::exact(-1), Origin::Rules);
                (reply.wl, reply.d) = (-1.0, 0.0);
            }
        };
        (tree.node_mut(offer).v, tree.node_mut(offer).n_edges) = (0.25, 2);
        lost(&mut tree, 1);
        // The other one was found.
        assert_eq!(tree.objective(offer, 0.0).value.wl, -0.4);
        lost(&mut tree, 2);
        assert_eq!(tree.objective(offer, 0.0).value.wl, 1.0);
        assert_eq!(tree.objective(offer, 0.0).trap_mass, 0.0);
        // A third one exists.
        tree.node_mut(offer).n_edges = 3;
        let saved = tree.objective(offer, 0.0);
        assert_eq!(saved.value.wl, 0.25);
        // All expected replies lose 0.75.
        assert!((saved.trap_mass - 0.75).abs() < 1e-6);
    }

    #[test]
    fn objective_values_use_the_draw_score() {
        let (mut tree, offer) = tree();
        freeze(&mut tree, offer);
        let children = tree.node(offer).children;
        tree.node_mut(children).wl = 0.3;
        tree.node_mut(children + 1).wl = 0.2;
        assert_eq!(tree.objective(offer, 0.0).value.wl, -0.3);
        // Draws count as losses for White and wins for Black, whose second reply draws one time in five.
        assert_eq!(tree.objective(offer, -1.0).value.wl, -0.2);
    }

    #[test]
    fn means_of_ancestors_follow_and_proofs_stand() {
        let (mut tree, offer) = tree();
        freeze(&mut tree, offer);
        let offered = *tree.node(offer);
        let replies = offered.children;
        // A position before it, in which White has a quiet move too: 3 of its 11 visits, 7 are the offer's.
        let root = tree.root();
        let entry = child(&mut tree, root, 11, -0.3, 0.1);
        child(&mut tree, entry, 3, 0.5, 0.1);
        let copy = child(&mut tree, entry, 7, 0.2, 0.1);
        *tree.node_mut(copy) = offered;
        // The offer's objective value is 0.6 less for White, so Black, who moved into `entry`, has 0.6 * 7 / 11 more.
        let mean = tree.objective_mean(tree.node(entry), 0.0);
        assert!((mean.wl - (-0.3 + 7.0 / 11.0 * 0.6)).abs() < 1e-9);
        let offer = copy;
        tree.node_mut(replies)
            .set_bounds(Bounds::exact(-1), Origin::Rules);
        assert_eq!(tree.objective(offer, 0.0).value.wl, -0.4);
        tree.node_mut(offer)
            .set_bounds(Bounds::exact(-1), Origin::Children);
        tree.node_mut(offer).wl = -1.0;
        assert_eq!(tree.objective(offer, 0.0).value.wl, -1.0);
    }
}
