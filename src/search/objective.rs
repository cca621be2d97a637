//! Objective values: what the lines are worth against best replies, from the same search.
//!
//! Values in a tree with search-contempt are *practical*: a frozen node's value is the mean over its replies as this
//! opponent is expected to choose them. *Objective* values are those that a search without frozen nodes would have: at
//! every node above a frozen one the same number of visits is shared out anew as PUCT would have shared them between
//! children of these objective values, and the node's value is the mean by those shares. The value of the best child
//! alone would be wrong: the largest of several estimates is too large, and that error grows from ply to ply and with
//! the number of frozen nodes. If all visited replies of a frozen node are proven losses and others were never visited,
//! its value is the network's value of the position. Where nothing is frozen both values are equal. The difference for
//! a line is how much of its value depends on the opponent's replies not being the best.

use std::time::Duration;

use shakmaty::Color;

use super::{
    limits::Limits,
    params::SearchParams,
    report::{Objective, PvLine, Score},
    tree::{
        Tree,
        node::{Mean, Node, NodeId},
    },
};
use crate::{network::Value, options::SearchOptions};

/// Time per visit of the tree for computing objective values on a busy machine; memory latency dominates.
const TIME_PER_VISIT: Duration = Duration::from_micros(1);
/// Objective values may take at most one part in this many of a search's time.
const MIN_TIME_RATIO: u32 = 4;
/// The same after a search without a clock: the user who has stopped it waits for the move.
const MAX_TIME: Duration = Duration::from_secs(10);

/// The time needed for objective values at the end of a search with this tree; `None` if they are off, or if there is
/// not enough time for them.
pub(super) fn time_needed(
    tree: &Tree,
    options: &SearchOptions,
    limits: &Limits,
) -> Option<Duration> {
    let is_wanted = options.show_objective() && tree.rule.is_some() && !limits.pondering;
    let time = TIME_PER_VISIT.saturating_mul(tree.node(tree.root).n);
    let most = limits
        .max_time()
        .map_or(MAX_TIME, |all| all / MIN_TIME_RATIO);
    (is_wanted && time <= most).then_some(time)
}

/// A child of a node whose visits are shared out anew.
struct ObjectiveReply {
    /// Its value for the side to move at the node.
    q: f64,
    /// Its share of the exploration term's numerator.
    exploration: f64,
    mean: Mean,
}

/// How PUCT would share out `visits` between these children if their values were known from the start: `n` of each,
/// such that Q + U is the same for all with visits. The result sums to `visits`, unless there are no children.
///
/// From `q + e / (1 + n) = level` follows `n = e / (level - q) - 1` for each child, or 0 where that is negative; the
/// level at which these sum to `visits` is found by Newton's method, from below: the sum is convex and falls with it.
fn shared_out(replies: &[ObjectiveReply], visits: f64) -> Vec<f64> {
    let lowest = |reply: &ObjectiveReply| reply.q + reply.exploration / (1.0 + visits);
    let mut level = replies.iter().map(lowest).fold(f64::NEG_INFINITY, f64::max);
    let share = |reply: &ObjectiveReply, level: f64| {
        let room = (level - reply.q).max(f64::MIN_POSITIVE);
        (reply.exploration / room - 1.0).max(0.0)
    };
    for _ in 0..NEWTON_STEPS {
        let (mut sum, mut slope) = (0.0, 0.0);
        for reply in replies {
            let n = share(reply, level);
            sum += n;
            if n > 0.0 {
                slope += (n + 1.0).powi(2) / reply.exploration;
            }
        }
        if sum <= visits * (1.0 + 1e-6) || slope <= 0.0 {
            break;
        }
        level += (sum - visits) / slope;
    }
    let shares: Vec<f64> = replies.iter().map(|reply| share(reply, level)).collect();
    let sum: f64 = shares.iter().sum();
    if sum > 0.0 {
        shares.iter().map(|n| n * visits / sum).collect()
    } else {
        shares
    }
}

/// More than Newton's method needs here.
const NEWTON_STEPS: u32 = 40;
/// Children have at least this prior in the account, so that every visited one has an exploration term.
const MIN_PRIOR: f32 = 1e-4;

impl Tree {
    /// Adds the objective values of the lines.
    pub(super) fn add_objectives(&self, params: &SearchParams, lines: &mut [PvLine]) {
        let root = self.node(self.root);
        for line in lines {
            // A tablebase result holds against every reply, even if the tree has not found it.
            if matches!(line.score, Score::Tablebase(_)) {
                line.objective = Some(Objective {
                    value: line.value,
                    next_loss: 0.0,
                });
                continue;
            }
            let edges = self.edges(root).iter();
            let edge = edges
                .zip(0..)
                .find(|(edge, _)| line.pv.first() == Some(&edge.m()));
            let slot = edge.and_then(|(_, edge)| self.slot_of_edge(root, edge));
            line.objective = slot.map(|slot| self.objective(self.child_id(root, slot), params));
        }
    }

    /// The objective values of the line that begins with the root's move to this node.
    fn objective(&self, id: NodeId, params: &SearchParams) -> Objective {
        let account = Account { tree: self, params };
        let (node, turn) = (self.node(id), self.root_turn.other());
        let replies = account.reply_means(node, turn);
        let mean = account.mean_with(node, turn, &replies);
        let mean = mean.unwrap_or(Mean::of(node));
        Objective {
            value: Value {
                wl: mean.wl as f32,
                d: mean.d,
                m: mean.m + 1.0,
            },
            next_loss: account.next_loss(node, turn, mean, &replies),
        }
    }
}

/// Computes objective values in a tree.
struct Account<'a> {
    tree: &'a Tree,
    params: &'a SearchParams,
}

impl Account<'_> {
    /// The objective mean of a node at which `turn` moves; `None` if it is the node's own mean, because nothing below
    /// is frozen or its result is proven and holds against every reply.
    fn mean(&self, node: &Node, turn: Color) -> Option<Mean> {
        self.mean_with(node, turn, &self.reply_means(node, turn))
    }

    /// The objective means of a node's visited replies, as [`Account::mean`] gives them; none where they do not matter.
    fn reply_means(&self, node: &Node, turn: Color) -> Vec<Option<Mean>> {
        if node.is_proven() {
            return Vec::new();
        }
        let replies = self.visited(node);
        replies
            .map(|child| self.mean(child, turn.other()))
            .collect()
    }

    /// The objective mean of a node whose replies have these.
    fn mean_with(&self, node: &Node, turn: Color, replies: &[Option<Mean>]) -> Option<Mean> {
        if replies.is_empty() {
            return None;
        }
        let is_frozen = self.tree.frozen(node).is_some();
        if is_frozen && let Some(mean) = self.unknown(node) {
            return Some(mean);
        }
        let is_changed = is_frozen || replies.iter().any(Option::is_some);
        let means = || -> Vec<Mean> {
            self.visited(node)
                .zip(replies)
                .map(|(child, mean)| mean.unwrap_or(Mean::of(child)))
                .collect()
        };
        is_changed.then(|| self.shared_mean(node, turn, &means()))
    }

    /// The mean of a node whose visited children have these means, if its visits were shared out by them.
    fn shared_mean(&self, node: &Node, turn: Color, means: &[Mean]) -> Mean {
        let draw_score = self.params.draw_score(turn);
        let edges = self.tree.edges(node);
        let prior = |child: &Node| {
            edges
                .get(usize::from(child.edge))
                .map_or(0.0, |edge| edge.p())
        };
        let factor = f64::from(self.params.cpuct().exploration(node.n));
        let replies: Vec<ObjectiveReply> = self
            .visited(node)
            .zip(means)
            .map(|(child, &mean)| ObjectiveReply {
                q: mean.q(draw_score),
                exploration: factor * f64::from(prior(child).max(MIN_PRIOR)),
                mean,
            })
            .collect();
        let visits: f64 = self.visited(node).map(|child| f64::from(child.n)).sum();
        // The visits that ended at the node itself.
        let own = (f64::from(node.n) - visits).max(0.0);
        let all = own + visits;
        let mut mean = self.own_value(node, own / all);
        for (reply, n) in replies.iter().zip(shared_out(&replies, visits)) {
            let share = n / all;
            mean.wl -= share * reply.mean.wl;
            mean.d += share as f32 * reply.mean.d;
            mean.m += share as f32 * (reply.mean.m + 1.0);
        }
        mean
    }

    /// The part of a node's mean that its own evaluation has.
    fn own_value(&self, node: &Node, share: f64) -> Mean {
        let v = f64::from(node.v);
        Mean {
            wl: share * v,
            d: share as f32 * node.d.min(1.0 - node.v.abs()).max(0.0),
            m: share as f32 * node.m,
        }
    }

    fn visited(&self, node: &Node) -> impl Iterator<Item = &Node> {
        self.tree.children(node).iter().filter(|child| child.n > 0)
    }

    /// The value of a frozen node whose visited replies are all proven losses while others were never visited: the
    /// position is not known to be lost, so it is the network's.
    fn unknown(&self, node: &Node) -> Option<Mean> {
        let has_unknown = self.visited(node).count() < usize::from(node.n_edges);
        let is_unknown = has_unknown && self.visited(node).all(Node::is_lost);
        is_unknown.then(|| self.own_value(node, 1.0))
    }

    /// See [`Objective::next_loss`]; `turn` moves at the node, whose objective mean is `mean` and whose replies have
    /// these.
    fn next_loss(&self, node: &Node, turn: Color, mean: Mean, replies: &[Option<Mean>]) -> f32 {
        let Some(record) = self.tree.frozen(node).filter(|_| !node.is_proven()) else {
            return 0.0;
        };
        let draw_score = self.params.draw_score(turn);
        let children = self.tree.children(node).iter().zip(record.probabilities());
        let visited = children.filter(|(child, _)| child.n > 0).zip(replies);
        let replies =
            visited.map(|((child, p), mean)| p * mean.unwrap_or(Mean::of(child)).q(draw_score));
        let best = -mean.q(-draw_score);
        (best - replies.sum::<f64>()).max(0.0) as f32
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

    use super::*;
    use crate::{
        chess::History,
        options::{Options, ScSampling},
        search::{
            search_contempt::{DrawRatio, Rule},
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
            draws: DrawRatio::ALL,
        };
        let mut tree = Tree::new(History::default(), Some(rule));
        let root = tree.root();
        let offer = child(&mut tree, root, 7, 0.2, 0.1);
        child(&mut tree, offer, 3, -0.8, 0.0);
        child(&mut tree, offer, 3, 0.4, 0.2);
        (tree, offer)
    }

    #[test]
    fn a_search_that_only_prepares_takes_no_time_for_them() {
        let (tree, _) = tree();
        let options = Options {
            show_objective: true,
            ..Options::default()
        };
        let time = |pondering| {
            let limits = Limits {
                infinite: true,
                pondering,
                ..Limits::default()
            };
            time_needed(&tree, &options.search(), &limits)
        };
        assert!(time(false).is_some());
        assert_eq!(time(true), None);
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
            next_loss: 0.0,
        };
        assert_eq!(lines[0].objective, Some(known));
    }

    fn params(settings: &[(&str, &str)]) -> SearchParams {
        let mut options = Options::default();
        for (name, value) in settings {
            options.set(name, value).unwrap();
        }
        SearchParams::new(&options.search(), 1, true)
    }

    fn objective(tree: &Tree, id: NodeId) -> Objective {
        tree.objective(id, &params(&[]))
    }

    #[test]
    fn visits_are_shared_out_as_puct_would() {
        let reply = |q: f64, prior: f64, visits: f64| ObjectiveReply {
            q,
            exploration: 1.5 * prior * visits.sqrt(),
            mean: Mean::of(&Node::EMPTY),
        };
        for visits in [10_u32, 100, 5000] {
            let n = f64::from(visits);
            let replies = [(0.1, 0.5), (0.15, 0.2), (-0.3, 0.25), (0.12, 0.05)]
                .map(|(q, prior)| reply(q, prior, n));
            let mut counts = [0.0; 4];
            for _ in 0..visits {
                let score =
                    |&at: &usize| replies[at].q + replies[at].exploration / (1.0 + counts[at]);
                let best = (0..4).max_by(|a, b| score(a).total_cmp(&score(b))).unwrap();
                counts[best] += 1.0;
            }
            let shares = shared_out(&replies, n);
            assert!((shares.iter().sum::<f64>() - n).abs() < 1e-3 * n);
            for (share, count) in shares.iter().zip(counts) {
                assert!(
                    (share - count).abs() < 3.0,
                    "{visits}: {shares:?}, {counts:?}"
                );
            }
        }
        assert!(shared_out(&[], 10.0).is_empty());
        let even = shared_out(&[reply(0.2, 0.5, 9.0), reply(0.2, 0.5, 9.0)], 9.0);
        assert!((even[0] - 4.5).abs() < 1e-6);
    }

    #[test]
    fn the_visits_of_a_frozen_node_go_to_its_best_reply() {
        let (mut tree, offer) = tree();
        let open = objective(&tree, offer);
        assert_eq!((open.value.wl, open.next_loss), (0.2, 0.0));
        freeze(&mut tree, offer);
        let frozen = objective(&tree, offer);
        // Six of seven visits have the reply that is worth 0.4, one ended at the node itself, which is even.
        assert!(
            (frozen.value.wl + 0.4 * 6.0 / 7.0).abs() < 0.02,
            "{frozen:?}"
        );
        assert!((frozen.value.d - 0.2 * 6.0 / 7.0).abs() < 0.02);
        // The shares are even: the mean of the replies is -0.2.
        assert!((frozen.next_loss - 0.343 - 0.2).abs() < 0.02, "{frozen:?}");
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
        tree.node_mut(offer).v = 0.25;
        lost(&mut tree, 1);
        // The other one was found.
        assert!(objective(&tree, offer).value.wl < -0.25);
        lost(&mut tree, 2);
        assert!(objective(&tree, offer).value.wl > 0.85);
        assert!(objective(&tree, offer).next_loss < 0.15);
        // A third one exists.
        tree.node_mut(offer).n_edges = 3;
        let saved = objective(&tree, offer);
        assert_eq!(saved.value.wl, 0.25);
        // All expected replies lose 0.75.
        assert!((saved.next_loss - 0.75).abs() < 1e-6);
    }

    #[test]
    fn objective_values_use_the_draw_score() {
        let (mut tree, offer) = tree();
        freeze(&mut tree, offer);
        let children = tree.node(offer).children;
        tree.node_mut(children).wl = 0.3;
        tree.node_mut(children + 1).wl = 0.25;
        let wl = |score: &str| {
            tree.objective(offer, &params(&[("DrawScore", score)]))
                .value
                .wl
        };
        // Draws count as losses for White and wins for Black, whose second reply draws one time in five.
        assert!(wl("0") < -0.3 * 6.0 / 7.0 + 0.01);
        assert!(wl("-1") > wl("0") + 0.02, "{} {}", wl("-1"), wl("0"));
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
        // The offer's objective value is worse than the quiet move's, which gets the visits: 10 of 11.
        let params = params(&[]);
        let account = Account {
            tree: &tree,
            params: &params,
        };
        let mean = account.mean(tree.node(entry), Color::White).unwrap();
        assert!((mean.wl + 0.5 * 10.0 / 11.0).abs() < 0.02, "{}", mean.wl);
        assert!(account.mean(tree.node(replies), Color::White).is_none());
        let offer = copy;
        tree.node_mut(replies)
            .set_bounds(Bounds::exact(-1), Origin::Rules);
        assert!(objective(&tree, offer).value.wl < -0.3);
        tree.node_mut(offer)
            .set_bounds(Bounds::exact(-1), Origin::Children);
        tree.node_mut(offer).wl = -1.0;
        assert_eq!(objective(&tree, offer).value.wl, -1.0);
    }
}
