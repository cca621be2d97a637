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

/// Better first: proven wins (the shorter the better), then by visits, Q and prior, proven losses last (the longer the
/// better).
fn compare(a: (&Node, f32), b: (&Node, f32), draw_score: f32) -> Ordering {
    let rank = |node: &Node| match node.bounds().result() {
        Some(1) => 0,
        Some(-1) => 2,
        _ => 1,
    };
    let ((a, a_p), (b, b_p)) = (a, b);
    rank(a).cmp(&rank(b)).then_with(|| match rank(a) {
        0 => a.m.total_cmp(&b.m),
        2 => b.m.total_cmp(&a.m),
        _ => {
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
    moves.sort_by(|a, b| compare((&a.child, a.p), (&b.child, b.p), draw_score));
    moves
}

impl Tree {
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
    fn principal_variation(&self, first: &RootMove, params: &Params) -> Vec<PackedMove> {
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

fn score(child: &Node) -> Score {
    // Plies to the end, the move itself included.
    let plies = child.m.round() as i32 + 1;
    match (child.bounds().result(), child.origin()) {
        (Some(result @ (1 | -1)), Origin::Tablebase) => Score::Tablebase(i32::from(result) * plies),
        (Some(1), _) => Score::Mate((plies + 1) / 2),
        (Some(-1), _) => Score::Mate(-(plies / 2)),
        _ => Score::Open,
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
            frozen: tree.record(child).is_some_and(|record| record.is_final()),
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
    let is_won = best.child.bounds().result() == Some(1);
    if temperature <= 0.0 || is_won {
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
