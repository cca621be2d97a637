//! Root moves that are nearly as good as the best one: what the variety of openings is drawn from, and what is played
//! in place of a move that led into a lost game.
//!
//! A move with few visits is known badly, and its Q is one of many of which the largest are overrated. So what counts
//! is an estimate below Q: Q less a reserve that shrinks with the visits. The reserve was chosen by comparing such
//! estimates with plain searches of the moves, in openings at odds and without (docs/profiles.md).

use rand::rngs::Xoshiro256PlusPlus;
use shakmaty::Position;

use super::{certainty::Certainty, job::Job, root_moves::RootMove};
use crate::{chess::PackedMove, random::weighted_index};

/// The reserve of a move with one visit, in Q.
const RESERVE: f32 = 0.4;

/// How much worse (in Q) than the best move another one may be that replaces it.
const WINDOW: f32 = 0.05;

/// Moves whose estimate is further below the best than this multiple of `OpeningVariety` are never drawn.
const MAX_LOSS: f32 = 3.0;

/// What a move is worth at least, by its visits; `None` without visits, and for moves that lose for certain.
fn estimate(m: &RootMove, draw_score: f32) -> Option<f32> {
    let is_open = Certainty::of(&m.child) <= Certainty::Open;
    let reserve = if m.child.is_proven() {
        0.0
    } else {
        RESERVE / (m.child.n as f32).sqrt()
    };
    (is_open && m.child.n > 0).then(|| m.child.q(draw_score) - reserve)
}

/// The largest estimate.
fn best_estimate(moves: &[RootMove], draw_score: f32) -> Option<f32> {
    let estimates = moves.iter().filter_map(|m| estimate(m, draw_score));
    estimates.max_by(f32::total_cmp)
}

/// Whether a move is nearly as good as the one with the best estimate.
fn is_near(m: &RootMove, best: f32, draw_score: f32) -> bool {
    estimate(m, draw_score).is_some_and(|own| own >= best - WINDOW)
}

/// The moves without those to avoid, if one is left that is nearly as good as the best; otherwise all.
pub(super) fn without_avoided(
    moves: Vec<RootMove>,
    avoided: &[PackedMove],
    draw_score: f32,
) -> Vec<RootMove> {
    let Some(best) = best_estimate(&moves, draw_score).filter(|_| !avoided.is_empty()) else {
        return moves;
    };
    let is_left = |m: &&RootMove| !avoided.contains(&m.m) && is_near(m, best, draw_score);
    let left: Vec<RootMove> = moves.iter().filter(is_left).copied().collect();
    if left.is_empty() { moves } else { left }
}

/// Whether a move other than the chosen one, and none to avoid, is nearly as good as the best.
pub(super) fn has_alternative(
    moves: &[RootMove],
    chosen: u8,
    avoided: &[PackedMove],
    draw_score: f32,
) -> bool {
    let Some(best) = best_estimate(moves, draw_score) else {
        return false;
    };
    let mut others = moves.iter().filter(|m| m.edge != chosen);
    others.any(|m| !avoided.contains(&m.m) && is_near(m, best, draw_score))
}

/// Draws one of the first moves of a game, if `OpeningVariety` draws this one: with a weight of e^(-loss/variety),
/// where the loss is that of the estimates.
pub(super) fn draw_opening(
    moves: &[RootMove],
    job: &Job,
    draw_score: f32,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<RootMove> {
    let variety = job.options.opening_variety() / 100.0;
    let number = job.history.position().fullmoves().get();
    if variety <= 0.0 || number > job.options.opening_variety_moves() || job.limits.infinite {
        return None;
    }
    let best = best_estimate(moves, draw_score)?;
    let weight = |m: &RootMove| {
        let loss = estimate(m, draw_score).map_or(f32::INFINITY, |own| (best - own) / variety);
        if loss <= MAX_LOSS {
            f64::from(-loss).exp()
        } else {
            0.0
        }
    };
    Some(moves[weighted_index(moves.iter().map(weight), rng)?])
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::{
        chess::setup::history_from,
        options::Options,
        search::{
            Limits,
            params::SearchParams,
            root,
            state::SearchState,
            tree::node::{Bounds, Node, Origin},
        },
    };

    fn node(n: u32, wl: f64) -> Node {
        Node {
            n,
            wl,
            ..Node::EMPTY
        }
    }

    fn lost(n: u32) -> Node {
        let mut node = node(n, -1.0);
        node.set_bounds(Bounds::exact(-1), Origin::Children);
        node
    }

    /// A job in the position of the states below, at the given move of the game.
    fn job(settings: &[(&str, &str)], number: u32) -> Job {
        let mut options = Options::default();
        for (name, value) in settings {
            options.set(name, value).unwrap();
        }
        let fen = format!("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 {number}");
        let history = history_from(Some(&fen), &[]).unwrap();
        Job::new(history, Limits::default(), options.search())
    }

    /// The edges that are chosen with many seeds, each once.
    fn chosen(state: &SearchState, job: &Job) -> Vec<u8> {
        let params = SearchParams::new(&job.options, 1, true);
        let choose = |seed| {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            root::choose(state, &params, job, &mut rng).unwrap().edge
        };
        let mut edges: Vec<u8> = (0..300).map(choose).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    #[test]
    fn openings_vary_among_moves_that_are_nearly_as_good_as_the_best() {
        // Estimates 0.28, 0.28, 0.25, 0.20, 0.21 and none: the move with four visits has the largest Q.
        let state = SearchState::with_children(&[
            node(400, 0.30),
            node(100, 0.32),
            node(100, 0.29),
            node(4, 0.40),
            node(100, 0.25),
            lost(100),
        ]);
        let of = |settings: &[(&str, &str)], number| chosen(&state, &job(settings, number));
        assert_eq!(of(&[], 1), [0]);
        assert_eq!(of(&[("OpeningVariety", "1.5")], 1), [0, 1, 2]);
        assert_eq!(of(&[("OpeningVariety", "2.5")], 4), [0, 1, 2, 4]);
        assert_eq!(of(&[("OpeningVariety", "2.5")], 5), [0]);
        let longer = [("OpeningVariety", "2.5"), ("OpeningVarietyMoves", "8")];
        assert_eq!(of(&longer, 8), [0, 1, 2, 4]);
        assert_eq!(of(&[("OpeningVariety", "100")], 1), [0, 1, 2, 3, 4]);
        let mut analysis = job(&[("OpeningVariety", "2.5")], 1);
        analysis.limits.infinite = true;
        assert_eq!(chosen(&state, &analysis), [0]);
    }

    #[test]
    fn moves_are_avoided_as_long_as_another_one_is_nearly_as_good() {
        let state = SearchState::with_children(&[
            node(400, 0.30),
            node(100, 0.29),
            node(100, 0.20),
            lost(100),
        ]);
        let moves: Vec<PackedMove> = {
            let edges = state.tree.edges(state.root());
            edges.iter().map(|edge| edge.m()).collect()
        };
        let avoiding = |avoided: &[usize]| {
            let mut job = job(&[], 1);
            job.avoided = avoided.iter().map(|&edge| moves[edge]).collect();
            chosen(&state, &job)
        };
        assert_eq!(avoiding(&[]), [0]);
        assert_eq!(avoiding(&[1]), [0]);
        assert_eq!(avoiding(&[0]), [1]);
        assert_eq!(avoiding(&[0, 1]), [0], "nothing else is nearly as good");
        let params = SearchParams::new(&Options::default().search(), 1, true);
        let ranked = root::ranked(&state, &params);
        let has = |chosen, avoided: &[usize]| {
            let avoided: Vec<PackedMove> = avoided.iter().map(|&edge| moves[edge]).collect();
            has_alternative(&ranked, chosen, &avoided, 0.0)
        };
        assert!(has(0, &[]) && has(1, &[]) && has(1, &[1]));
        assert!(!has(0, &[1]) && !has(1, &[0]));
    }

    #[test]
    fn a_proven_win_is_played_although_it_is_to_be_avoided() {
        let mut won = node(1, 1.0);
        won.set_bounds(Bounds::exact(1), Origin::Rules);
        let state = SearchState::with_children(&[won, node(9, 0.9)]);
        let mut job = job(&[("OpeningVariety", "100")], 1);
        job.avoided = vec![state.tree.edges(state.root()).at(0).m()];
        assert_eq!(chosen(&state, &job), [0]);
    }
}
