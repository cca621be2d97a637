//! The root: which of its moves are searched and with what priors, which one is played, and what there is to say about
//! them.

use std::cmp::Ordering;

use rand::{RngExt, rngs::Xoshiro256PlusPlus};
use rand_distr::{Distribution, Gamma};
use shakmaty::Position;

use super::{
    Job, Line, MoveStat, Proven, Score,
    node::{Node, Origin},
    params::Params,
    tree::Tree,
};
use crate::{chess::PackedMove, network::Value, options::Options};

/// The root's moves as one search sees them: those it may play, with noise in their priors if so wished.
#[derive(Clone, Debug, Default)]
pub(super) struct RootMoves(Vec<(u8, f32)>);

impl RootMoves {
    /// Takes the root's edges, keeps those in `wanted` (all, if that is empty) and mixes Dirichlet noise into the priors.
    pub fn new(
        tree: &Tree,
        wanted: &[PackedMove],
        options: &Options,
        rng: &mut Xoshiro256PlusPlus,
    ) -> RootMoves {
        let edges = tree.edges(tree.node(tree.root)).iter().enumerate();
        let mut moves: Vec<(u8, f32)> = edges
            .filter(|(_, edge)| wanted.is_empty() || wanted.contains(&edge.m()))
            .map(|(index, edge)| (index as u8, edge.p()))
            .collect();
        let epsilon = options.noise_epsilon;
        if epsilon > 0.0 && !moves.is_empty() {
            let noise = dirichlet(moves.len(), options.noise_alpha, rng);
            for ((_, p), noise) in moves.iter_mut().zip(noise) {
                *p += epsilon * (noise - *p);
            }
        }
        RootMoves(moves)
    }

    /// The allowed edges and their priors.
    pub fn allowed(&self) -> impl Iterator<Item = (u8, f32)> {
        self.0.iter().copied()
    }

    /// How many moves are allowed.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// A draw from the symmetric Dirichlet distribution.
fn dirichlet(len: usize, alpha: f32, rng: &mut Xoshiro256PlusPlus) -> Vec<f32> {
    let uniform = vec![1.0 / len as f32; len];
    // Alpha 0 (or a NaN) has no distribution; all of its limits are as good as this one.
    let Ok(gamma) = Gamma::new(alpha, 1.0) else {
        return uniform;
    };
    let draws: Vec<f32> = (0..len).map(|_| gamma.sample(rng)).collect();
    let sum: f32 = draws.iter().sum();
    if sum > f32::MIN_POSITIVE {
        draws.iter().map(|draw| draw / sum).collect()
    } else {
        uniform
    }
}

/// A root move with its child's statistics ([`Node::EMPTY`] if it was never visited).
#[derive(Clone, Copy, Debug)]
pub(super) struct RootMove {
    pub edge: u8,
    pub m: PackedMove,
    pub p: f32,
    pub child: Node,
}

/// What is certain about a move, best first. How long a tablebase result takes is not known, so a mate is preferred to a
/// tablebase win, and a tablebase loss, which still has to be played out, to being mated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    Mates,
    WinsByTable,
    Open,
    LosesByTable,
    IsMated,
}

impl Certainty {
    fn of(node: &Node) -> Certainty {
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
fn compare(a: (&Node, f32), b: (&Node, f32), draw_score: f32) -> Ordering {
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

/// The allowed root moves, best first.
pub(super) fn ranked(tree: &Tree, params: &Params) -> Vec<RootMove> {
    let root = tree.node(tree.root);
    let draw_score = params.draw_score(tree.root_turn);
    let mut moves: Vec<RootMove> = tree
        .root_moves
        .allowed()
        .map(|(edge, p)| {
            let slot = tree.slot_of_edge(root, edge);
            let child = slot.map_or(Node::EMPTY, |slot| tree.children(root)[usize::from(slot)]);
            RootMove {
                edge,
                m: tree.edges(root).at(edge).m(),
                p,
                child,
            }
        })
        .collect();
    // Where no more than a draw is to be had, what is not a sure draw can only be worse, however often it was visited.
    let is_drawn = root.bounds().result() == Some(0);
    let is_risk = |m: &RootMove| is_drawn && !is_at_least_a_draw(&m.child);
    moves.sort_by(|a, b| {
        let by_risk = is_risk(a).cmp(&is_risk(b));
        by_risk.then_with(|| compare((&a.child, a.p), (&b.child, b.p), draw_score))
    });
    moves
}

/// Whether the move to this node is sure to lose nothing. A repetition within the tree is not claimed in the game.
fn is_at_least_a_draw(child: &Node) -> bool {
    child.bounds().lower >= 0 && child.origin() != Origin::TwoFold
}

impl Tree {
    /// The root's children that may be played.
    pub(super) fn allowed_children(&self) -> impl Iterator<Item = &Node> {
        let root = self.node(self.root);
        let slots = self
            .root_moves
            .allowed()
            .filter_map(|(edge, _)| self.slot_of_edge(root, edge));
        slots.map(|slot| &self.children(root)[usize::from(slot)])
    }

    /// The same without proven losses: what may become the best move.
    pub(super) fn contenders(&self) -> impl Iterator<Item = &Node> {
        self.allowed_children()
            .filter(|child| child.bounds().result() != Some(-1))
    }

    /// Prior mass of the root moves that have been visited.
    pub(super) fn visited_root_mass(&self) -> f32 {
        let root = self.node(self.root);
        let children = self.children(root);
        let is_visited = |edge| {
            self.slot_of_edge(root, edge)
                .is_some_and(|slot| children[usize::from(slot)].n > 0)
        };
        self.root_moves
            .allowed()
            .filter(|&(edge, _)| is_visited(edge))
            .map(|(_, p)| p)
            .sum()
    }

    /// The line that both sides prefer, from a root move on.
    pub(super) fn principal_variation(&self, first: &RootMove, params: &Params) -> Vec<PackedMove> {
        let mut pv = vec![first.m];
        let mut node = first.child;
        let mut turn = self.root_turn.other();
        while node.n_children > 0 {
            let draw_score = params.draw_score(turn);
            let edges = self.edges(&node);
            let visited = self.children(&node).iter().filter(|child| child.n > 0);
            let with_prior = |child: &Node| edges.at(child.edge).p();
            let Some(best) =
                visited.min_by(|a, b| compare((a, with_prior(a)), (b, with_prior(b)), draw_score))
            else {
                break;
            };
            pv.push(edges.at(best.edge).m());
            node = *best;
            turn = turn.other();
        }
        pv
    }
}

/// The lines to report, best first; `best`, the move that is going to be played, leads them.
pub(super) fn lines(tree: &Tree, params: &Params, count: usize, best: Option<u8>) -> Vec<Line> {
    let mut moves = ranked(tree, params);
    if let Some(index) = best.and_then(|edge| moves.iter().position(|m| m.edge == edge)) {
        moves[..=index].rotate_right(1);
    }
    let root = tree.node(tree.root);
    let line = |m: &RootMove| Line {
        score: score(&m.child),
        value: if m.child.n > 0 {
            value(&m.child)
        } else {
            Value {
                wl: -root.wl as f32,
                d: root.d,
                m: root.m,
            }
        },
        pv: tree.principal_variation(m, params),
        nodes: u64::from(m.child.n),
        objective: None,
    };
    moves.iter().take(count).map(line).collect()
}

/// A child's value for the side to move at the root.
fn value(child: &Node) -> Value {
    Value {
        wl: child.wl as f32,
        d: child.d,
        m: child.m + 1.0,
    }
}

/// What is certain about the move to a child, for the side to move at the root.
pub(super) fn score(child: &Node) -> Score {
    // Plies to the end, the move itself included.
    let plies = child.m.round() as i32 + 1;
    match Certainty::of(child) {
        Certainty::Mates => Score::Mate((plies + 1) / 2),
        Certainty::WinsByTable => Score::Tablebase(plies),
        Certainty::Open => Score::Open,
        Certainty::LosesByTable => Score::Tablebase(-plies),
        Certainty::IsMated => Score::Mate(-(plies / 2)),
    }
}

/// Statistics of all allowed root moves, worst first, the root itself last.
pub(super) fn move_stats(tree: &Tree, params: &Params) -> Vec<MoveStat> {
    let root = tree.node(tree.root);
    let draw_score = params.draw_score(tree.root_turn);
    let exploration = params.cpuct(true).exploration(root.n);
    let root_q = -root.q(-draw_score);
    let fpu = params.fpu(true).value(root_q, tree.visited_root_mass());
    let stat = |m: &RootMove| {
        let child = &m.child;
        let is_visited = child.n > 0;
        MoveStat {
            m: Some(m.m),
            n: child.n,
            in_flight: child.in_flight,
            p: m.p,
            value: is_visited.then(|| value(child)),
            q: if is_visited { child.q(draw_score) } else { fpu },
            u: exploration * m.p / (1 + child.n + child.in_flight) as f32,
            v: is_visited.then_some(child.v),
            proven: proven(child.bounds().result()),
            frozen: tree.frozen(child).is_some(),
        }
    };
    let mut stats: Vec<MoveStat> = ranked(tree, params).iter().rev().map(stat).collect();
    stats.push(MoveStat {
        m: None,
        n: root.n,
        in_flight: root.in_flight,
        p: 1.0,
        value: Some(Value {
            wl: -root.wl as f32,
            d: root.d,
            m: root.m,
        }),
        q: root_q,
        u: 0.0,
        v: Some(-root.v),
        proven: proven(root.bounds().flipped().result()),
        frozen: false,
    });
    stats
}

fn proven(result: Option<i8>) -> Option<Proven> {
    match result? {
        1 => Some(Proven::Win),
        0 => Some(Proven::Draw),
        _ => Some(Proven::Loss),
    }
}

/// The move to play: the best one, or, with a temperature, one drawn by visits.
pub(super) fn choose(
    tree: &Tree,
    params: &Params,
    job: &Job,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<RootMove> {
    let moves = ranked(tree, params);
    let best = *moves.first()?;
    let temperature = temperature(&job.options, job);
    let is_certain = best.child.bounds().result() == Some(1) || tree.node(tree.root).is_proven();
    if temperature <= 0.0 || is_certain {
        return Some(best);
    }
    Some(
        draw(
            &moves,
            temperature,
            &job.options,
            params.draw_score(tree.root_turn),
            rng,
        )
        .unwrap_or(best),
    )
}

/// The temperature at this point of the game, after decay and cut-off (as lc0 computes it).
fn temperature(options: &Options, job: &Job) -> f32 {
    let moves_played = job.history.position().fullmoves().get() - 1;
    let (delay, decay) = (options.temp_decay_delay_moves, options.temp_decay_moves);
    let cutoff = options.temp_cutoff_move;
    if cutoff > 0 && moves_played + 1 >= cutoff {
        return options.temp_endgame;
    }
    let mut temperature = options.temperature;
    if temperature > 0.0 && decay > 0 {
        if moves_played >= delay + decay {
            temperature = 0.0;
        } else if moves_played >= delay {
            temperature *= (delay + decay - moves_played) as f32 / decay as f32;
        }
        temperature = temperature.max(options.temp_endgame);
    }
    temperature
}

/// Draws a move with probability proportional to (visits + offset)^(1/temperature), among those that are not much
/// worse than the most visited one.
fn draw(
    moves: &[RootMove],
    temperature: f32,
    options: &Options,
    draw_score: f32,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<RootMove> {
    let visits = |m: &RootMove| m.child.n as f32 + options.temp_visit_offset;
    let most = moves
        .iter()
        .max_by(|a, b| visits(a).total_cmp(&visits(b)))?;
    // The cut-off is in per cent of winning chances: 2 in Q are 100.
    let worst = most.child.q(draw_score) - options.temp_value_cutoff / 50.0;
    let weight = |m: &RootMove| {
        let is_candidate = m.child.n > 0 && visits(m) > 0.0 && m.child.q(draw_score) >= worst;
        if is_candidate {
            f64::from(visits(m) / visits(most)).powf(1.0 / f64::from(temperature))
        } else {
            0.0
        }
    };
    let weights: Vec<f64> = moves.iter().map(weight).collect();
    let mut rest = rng.random::<f64>() * weights.iter().sum::<f64>();
    let candidates = moves
        .iter()
        .zip(weights)
        .filter(|(_, weight)| *weight > 0.0);
    let mut chosen = None;
    for (m, weight) in candidates {
        chosen = Some(*m);
        rest -= weight;
        if rest < 0.0 {
            break;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::node::Bounds;

    fn child(n: u32, wl: f64, bounds: Bounds, origin: Origin, m: f32) -> Node {
        let mut node = Node {
            n,
            wl,
            m,
            ..Node::EMPTY
        };
        node.set_bounds(bounds, origin);
        node
    }

    fn proven(n: u32, result: i8, origin: Origin, m: f32) -> Node {
        child(n, f64::from(result), Bounds::exact(result), origin, m)
    }

    /// The edges of the root's moves, best first.
    fn order(tree: &Tree) -> Vec<u8> {
        let params = Params::new(&Options::default(), 1, true);
        ranked(tree, &params).iter().map(|m| m.edge).collect()
    }

    #[test]
    fn mates_come_before_tablebase_wins_and_tablebase_losses_before_being_mated() {
        let tree = Tree::with_children(&[
            proven(9, -1, Origin::Rules, 8.0),
            proven(1, -1, Origin::Tablebase, 0.0),
            child(5, 0.9, Bounds::OPEN, Origin::Children, 20.0),
            proven(9, 1, Origin::Tablebase, 0.0),
            proven(2, 1, Origin::Children, 5.0),
            proven(1, 1, Origin::Children, 3.0),
            proven(3, -1, Origin::Children, 30.0),
        ]);
        assert_eq!(order(&tree), [5, 4, 3, 2, 1, 6, 0]);
    }

    #[test]
    fn a_sure_draw_comes_first_where_there_is_no_more_to_be_had() {
        let most_visited = Bounds {
            lower: -1,
            upper: 0,
        };
        let mut tree = Tree::with_children(&[
            child(300, -0.2, most_visited, Origin::Children, 20.0),
            proven(4, 0, Origin::TwoFold, 4.0),
            proven(1, 0, Origin::Tablebase, 0.0),
        ]);
        assert_eq!(order(&tree), [0, 1, 2], "a win is still possible");
        let root = tree.root();
        tree.node_mut(root)
            .set_bounds(Bounds::exact(0), Origin::Children);
        assert_eq!(order(&tree), [2, 0, 1]);
        let options = Options {
            temperature: 1.0,
            ..Options::default()
        };
        let params = Params::new(&options, 1, true);
        let job = Job::new(
            crate::chess::History::default(),
            crate::search::Limits::default(),
            std::sync::Arc::new(options),
        );
        for seed in 0..20 {
            let mut rng = rand::SeedableRng::seed_from_u64(seed);
            assert_eq!(choose(&tree, &params, &job, &mut rng).unwrap().edge, 2);
        }
    }
}
