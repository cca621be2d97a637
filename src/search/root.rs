//! The root's moves after a search: their order, their lines, their statistics, and the choice of the move to play.

use rand::rngs::Xoshiro256PlusPlus;
use shakmaty::Position;

use super::{
    alternatives,
    certainty::{Certainty, compare},
    choice::Criterion,
    job::Job,
    look_ahead,
    params::SearchParams,
    report::{MoveStat, PvLine, Score},
    root_moves::RootMove,
    state::SearchState,
    tree::{
        Tree,
        node::{Bounds, Node, Origin},
    },
};
use crate::{
    chess::{PackedMove, moves::legal_moves},
    network::Value,
    options::SearchOptions,
    random::weighted_index,
};

/// The allowed root moves, best first.
pub(super) fn ranked(state: &SearchState, params: &SearchParams) -> Vec<RootMove> {
    let tree = &state.tree;
    let root = tree.node(tree.root);
    let draw_score = params.draw_score(tree.root_turn);
    let mut moves: Vec<RootMove> = state
        .root_moves
        .allowed()
        .map(|(edge, p)| RootMove::of(tree, edge, p))
        .collect();
    // If a draw is the best possible result, a move that may lose is ranked behind a sure draw, however often it was
    // visited.
    let is_drawn = root.bounds().result() == Some(0);
    let is_risk = |m: &RootMove| is_drawn && !is_at_least_a_draw(&m.child);
    moves.sort_by(|a, b| {
        let by_risk = is_risk(a).cmp(&is_risk(b));
        by_risk.then_with(|| compare((&a.child, a.p), (&b.child, b.p), draw_score))
    });
    moves
}

/// Whether the move to this node cannot lose.
fn is_at_least_a_draw(child: &Node) -> bool {
    // A repetition within the tree, which is not claimed in the game, takes several plies, and re-rooting reverts those
    // that reach back to before the root.
    debug_assert!(child.origin() != Origin::TwoFold);
    child.bounds().lower >= 0
}

impl Tree {
    /// The principal variation, beginning with a root move.
    pub(super) fn principal_variation(
        &self,
        first: PackedMove,
        child: Node,
        params: &SearchParams,
    ) -> Vec<PackedMove> {
        let mut pv = vec![first];
        let mut node = child;
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
        // A position that was proven by look-ahead continues with the proving move.
        if node.is_proven() && node.n_children == 0 {
            pv.extend(proving_move(self, &node));
        }
        if let Some(mate) = self.mating_reply(first, &child, pv.get(1)) {
            pv = vec![first, mate];
        }
        pv
    }

    /// The reply that mates immediately after a root move to this node: `known`, or one that no visit has reached,
    /// because the end of a search checks for mates itself.
    fn mating_reply(
        &self,
        first: PackedMove,
        child: &Node,
        known: Option<&PackedMove>,
    ) -> Option<PackedMove> {
        if score(child) != Score::Mate(-1) {
            return None;
        }
        let mut after = self.history()?.position().clone();
        after.play_unchecked(first.unpack(&after));
        let mut replies = known.copied().into_iter().chain(legal_moves(&after));
        replies.find(|&m| look_ahead::mates(&after, m))
    }
}

/// The move by which look-ahead proved a position.
fn proving_move(tree: &Tree, node: &Node) -> Option<PackedMove> {
    tree.edges(node).get(0).map(|edge| edge.m())
}

/// The lines to report, best first: `count` of them, or as many as there are moves. `best`, the move that is going to
/// be played, comes first; moves that no visit has reached follow those with visits, by their priors.
pub(super) fn lines(
    state: &SearchState,
    params: &SearchParams,
    count: usize,
    best: Option<u8>,
) -> Vec<PvLine> {
    let mut moves = ranked(state, params);
    if !state.table_moves.is_empty() {
        moves.sort_by_cached_key(|m| score_with_tables(state, m).order());
    }
    if let Some(index) = best.and_then(|edge| moves.iter().position(|m| m.edge == edge)) {
        moves[..=index].rotate_right(1);
    }
    let line = |m: &RootMove| PvLine {
        score: score_with_tables(state, m),
        value: line_value(state, params, m),
        pv: state.tree.principal_variation(m.m, m.child, params),
        nodes: u64::from(m.child.n),
        objective: None,
    };
    moves.iter().take(count).map(line).collect()
}

/// The value of a root move for the side to move: the tablebases', that of its visits, or what the search assumes of a
/// move without visits (first-play urgency).
fn line_value(state: &SearchState, params: &SearchParams, m: &RootMove) -> Value {
    if let (Score::Open, Some((result, plies))) = (score(&m.child), state.table_result(m.m)) {
        return Value::of_result(result, plies as f32);
    }
    if m.child.n > 0 || m.child.is_proven() {
        return value(&m.child);
    }
    let root = state.root();
    let assumed = fpu(state, params) - params.draw_score(state.tree.root_turn) * root.d;
    // It promises no more than the position: the moves with visits were chosen before it.
    let wl = assumed.min(-root.wl as f32).clamp(-1.0, 1.0);
    Value {
        wl,
        d: root.d.min(1.0 - wl.abs()),
        m: root.m,
    }
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
    // Plies to the end, including this move. A damaged network may return any number.
    let plies = child.m.clamp(0.0, 1e6).round() as i32 + 1;
    match Certainty::of(child) {
        Certainty::Mates => Score::Mate((plies + 1) / 2),
        Certainty::WinsByTable => Score::Tablebase(plies),
        Certainty::Open => Score::Open,
        Certainty::LosesByTable => Score::Tablebase(-plies),
        Certainty::IsMated => Score::Mate(-(plies / 2)),
    }
}

/// The score of a root move, where tablebases may have a result that the search has not proven.
fn score_with_tables(state: &SearchState, m: &RootMove) -> Score {
    match (score(&m.child), state.table_result(m.m)) {
        (Score::Open, Some((result @ (1 | -1), plies))) => {
            let plies = i32::try_from(plies.max(1)).unwrap_or(i32::MAX);
            Score::Tablebase(i32::from(result) * plies)
        }
        (score, _) => score,
    }
}

/// Whether no visit has reached the move along this edge of the root, and the root's value, which is all that is known
/// about it, is lower than that of a draw.
pub(super) fn is_unvisited_and_below_draw(
    state: &SearchState,
    params: &SearchParams,
    edge: u8,
) -> bool {
    let draw_score = params.draw_score(state.tree.root_turn);
    let is_known = |child: &Node| child.n > 0 || child.is_proven();
    !state.root_child(edge).is_some_and(is_known) && -state.root().q(-draw_score) < draw_score
}

/// The value of an unvisited root move, for the side to move.
fn fpu(state: &SearchState, params: &SearchParams) -> f32 {
    let parent_q = -state.root().q(-params.draw_score(state.tree.root_turn));
    params
        .fpu_at_root()
        .value(parent_q, state.visited_root_mass())
}

/// The root moves that this search may not play.
fn excluded(state: &SearchState) -> Vec<RootMove> {
    let (tree, root) = (&state.tree, state.root());
    let is_allowed = |edge: u8| state.root_moves.allowed().any(|(known, _)| known == edge);
    let edges = (0..).zip(tree.edges(root).iter());
    edges
        .filter(|(edge, _)| !is_allowed(*edge))
        .map(|(index, edge)| RootMove::of(tree, index, edge.p()))
        .collect()
}

/// The tablebases' result of a root move that the search has not proven, with the plies to it.
fn unproven_table_result(state: &SearchState, m: &RootMove) -> Option<(i8, u32)> {
    state.table_result(m.m).filter(|_| !m.child.is_proven())
}

/// The value of a root move for the side to move, as far as there is one: the tablebases' or that of its visits.
fn known_value(state: &SearchState, m: &RootMove) -> Option<Value> {
    let is_visited = m.child.n > 0;
    let Some((result, plies)) = unproven_table_result(state, m) else {
        return (is_visited || m.child.is_proven()).then(|| value(&m.child));
    };
    // The distance of the tables ends at the next capture or pawn move; visits look beyond.
    let plies = if is_visited {
        m.child.m + 1.0
    } else {
        plies as f32
    };
    Some(Value::of_result(result, plies))
}

/// Statistics of all root moves: first those that may not be played, then the others, worst first, the root itself
/// last.
pub(super) fn move_stats(state: &SearchState, params: &SearchParams) -> Vec<MoveStat> {
    let tree = &state.tree;
    let root = state.root();
    let draw_score = params.draw_score(tree.root_turn);
    let exploration = params.cpuct_at_root().exploration(root.n);
    let fpu = fpu(state, params);
    let moves_left = params
        .moves_left
        .filter(|moves_left| moves_left.is_active(root.wl));
    let stat = |m: &RootMove| {
        let child = &m.child;
        let is_visited = child.n > 0;
        let q = if is_visited { child.q(draw_score) } else { fpu };
        let prior = m.p + params.root_prior_bonus;
        let u = exploration * prior / (1 + child.n + child.in_flight) as f32;
        let utility = moves_left
            .filter(|_| is_visited)
            .map_or(0.0, |moves_left| moves_left.utility(q, child.m - root.m));
        MoveStat {
            m: Some(m.m),
            n: child.n,
            in_flight: child.in_flight,
            p: m.p,
            p_without_noise: tree.edges(root).at(m.edge).p(),
            value: known_value(state, m),
            q,
            u,
            s: q + u + utility,
            v: is_visited.then_some(child.v),
            bounds: unproven_table_result(state, m)
                .map_or(child.bounds(), |(result, _)| Bounds::exact(result)),
            frozen: tree.frozen(child).is_some(),
        }
    };
    let mut stats: Vec<MoveStat> = excluded(state).iter().map(stat).collect();
    stats.extend(ranked(state, params).iter().rev().map(stat));
    stats.push(MoveStat {
        m: None,
        n: root.n,
        in_flight: root.in_flight,
        p: state.visited_root_mass(),
        p_without_noise: state.visited_root_mass(),
        value: Some(Value {
            wl: -root.wl as f32,
            d: root.d,
            m: root.m,
        }),
        q: -root.q(-draw_score),
        u: 0.0,
        s: -root.q(-draw_score),
        v: Some(-root.v),
        bounds: root.bounds().flipped(),
        frozen: false,
    });
    stats
}

/// The move to play: the preferred one or, with a temperature, a random one drawn by visits.
pub(super) fn choose(
    state: &SearchState,
    params: &SearchParams,
    job: &Job,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<RootMove> {
    let moves = candidates(state, params, job);
    if moves.len() <= 1 {
        return moves.first().copied();
    }
    let temperature = temperature(&job.options, job);
    let draw_score = params.draw_score(state.tree.root_turn);
    if temperature <= 0.0 {
        return alternatives::draw_opening(&moves, job, draw_score, rng)
            .or_else(|| by_criterion(state, &moves, job, draw_score, rng));
    }
    let fpu = fpu(state, params);
    let drawn = draw(&moves, temperature, &job.options, draw_score, fpu, rng);
    Some(drawn.unwrap_or(moves[0]))
}

/// The move that the search prefers: the best one by the configured criterion, without temperature and
/// `OpeningVariety`.
pub(super) fn preferred(
    state: &SearchState,
    params: &SearchParams,
    job: &Job,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<RootMove> {
    let draw_score = params.draw_score(state.tree.root_turn);
    let moves = candidates(state, params, job);
    by_criterion(state, &moves, job, draw_score, rng)
}

/// The moves to choose from, without those that give away the tablebase result, the best-ranked first: that one alone,
/// if it wins or nothing is left to decide.
fn candidates(state: &SearchState, params: &SearchParams, job: &Job) -> Vec<RootMove> {
    let mut moves = ranked(state, params);
    moves.retain(|m| !state.given_away.contains(&m.edge));
    let wins = |m: &RootMove| m.child.is_won();
    if state.root().is_proven() || moves.first().is_some_and(wins) {
        moves.truncate(1);
        return moves;
    }
    let draw_score = params.draw_score(state.tree.root_turn);
    alternatives::without_avoided(moves, &job.avoided, draw_score)
}

/// The best of these moves by the configured criterion.
fn by_criterion(
    state: &SearchState,
    moves: &[RootMove],
    job: &Job,
    draw_score: f32,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<RootMove> {
    let by_visits: Vec<(u8, Node)> = moves.iter().map(|m| (m.edge, m.child)).collect();
    let criterion = Criterion::new(&job.options);
    let index = criterion.best(&state.tree, &by_visits, draw_score, rng);
    moves.get(index).copied()
}

/// The temperature at this point of the game, after decay and cut-off (as lc0 computes it).
fn temperature(options: &SearchOptions, job: &Job) -> f32 {
    let moves_played = job.history.position().fullmoves().get() - 1;
    let (delay, decay) = (options.temp_decay_delay_moves(), options.temp_decay_moves());
    let cutoff = options.temp_cutoff_move();
    if cutoff > 0 && moves_played + 1 >= cutoff {
        return options.temp_endgame();
    }
    let mut temperature = options.temperature();
    if temperature > 0.0 && decay > 0 {
        if moves_played >= delay + decay {
            temperature = 0.0;
        } else if moves_played >= delay {
            temperature *= (delay + decay - moves_played) as f32 / decay as f32;
        }
        temperature = temperature.max(options.temp_endgame());
    }
    temperature
}

/// Draws a move with probability proportional to (visits + offset)^(1/temperature), among those that are not much
/// worse than the most visited one; an unvisited move is worth `fpu`. If no move has visits beyond the
/// offset, priors replace them, which plays by the policy, as in lc0. `None` if all weights are zero.
fn draw(
    moves: &[RootMove],
    temperature: f32,
    options: &SearchOptions,
    draw_score: f32,
    fpu: f32,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<RootMove> {
    let offset = options.temp_visit_offset();
    let by_policy = moves.iter().all(|m| m.child.n as f32 + offset <= 0.0);
    let visits = |m: &RootMove| {
        if by_policy {
            m.p
        } else {
            m.child.n as f32 + offset
        }
    };
    let q = |m: &RootMove| match m.child.n {
        0 => fpu,
        _ => m.child.q(draw_score),
    };
    let most_visited = moves
        .iter()
        .max_by(|a, b| visits(a).total_cmp(&visits(b)))?;
    // The cut-off is in per cent of winning chances: 2 in Q are 100.
    let worst = q(most_visited) - options.temp_value_cutoff() / 50.0;
    let weight = |m: &RootMove| {
        let is_candidate = visits(m) > 0.0 && q(m) >= worst;
        if is_candidate {
            f64::from(visits(m) / visits(most_visited)).powf(1.0 / f64::from(temperature))
        } else {
            0.0
        }
    };
    Some(moves[weighted_index(moves.iter().map(weight), rng)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

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

    #[test]
    fn a_network_may_expect_any_number_of_moves() {
        for m in [f32::MAX, f32::INFINITY, f32::NAN, f32::MIN] {
            let child = Node { m, ..Node::EMPTY };
            assert!(matches!(score(&child), Score::Open));
            let scores = [
                (1, Origin::Rules),
                (1, Origin::Tablebase),
                (-1, Origin::Rules),
            ]
            .map(|(result, origin)| score(&proven(1, result, origin, m)));
            let [
                Score::Mate(win),
                Score::Tablebase(win_by_table),
                Score::Mate(loss),
            ] = scores
            else {
                panic!("{m} {scores:?}");
            };
            assert!(win > 0 && win_by_table > 0 && loss <= 0, "{m} {scores:?}");
        }
    }

    #[test]
    fn the_preferred_move_is_the_criterion_s_whatever_the_temperature() {
        let open = |n, wl| child(n, wl, Bounds::OPEN, Origin::Children, 20.0);
        let state = SearchState::with_children(&[open(16, 0.2), open(15, 0.27)]);
        for (choice, temperature, edge) in [("lcb", "0", 1), ("lcb", "1", 1), ("visits", "1", 0)] {
            let mut options = Options::default();
            options.set("RootChoice", choice).unwrap();
            options.set("Temperature", temperature).unwrap();
            let params = SearchParams::new(&options.search(), 1, true);
            let history = crate::chess::History::default();
            let job = Job::new(history, crate::search::Limits::default(), options.search());
            let mut drawn = [0; 2];
            for seed in 0..20 {
                let mut rng = rand::SeedableRng::seed_from_u64(seed);
                let preferred = preferred(&state, &params, &job, &mut rng).unwrap();
                assert_eq!(preferred.edge, edge, "{choice} {temperature}");
                let chosen = choose(&state, &params, &job, &mut rng).unwrap();
                drawn[usize::from(chosen.edge)] += 1;
            }
            let is_random = drawn.iter().all(|&count| count > 0);
            assert_eq!(is_random, temperature == "1", "{choice} {drawn:?}");
        }
    }

    /// The edges of the root's moves, best first.
    fn order(state: &SearchState) -> Vec<u8> {
        let params = SearchParams::new(&Options::default().search(), 1, true);
        ranked(state, &params).iter().map(|m| m.edge).collect()
    }

    #[test]
    fn mates_come_before_tablebase_wins_and_tablebase_losses_before_being_mated() {
        let tree = SearchState::with_children(&[
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
    fn a_sure_draw_comes_first_if_no_win_is_possible() {
        let most_visited = Bounds {
            lower: -1,
            upper: 0,
        };
        let mut state = SearchState::with_children(&[
            child(300, -0.2, most_visited, Origin::Children, 20.0),
            proven(1, 0, Origin::Tablebase, 0.0),
        ]);
        assert_eq!(order(&state), [0, 1], "a win is still possible");
        let root = state.tree.root();
        let bounds = Bounds::exact(0);
        state
            .tree
            .node_mut(root)
            .set_bounds(bounds, Origin::Children);
        assert_eq!(order(&state), [1, 0]);
        let options = Options {
            temperature: 1.0,
            ..Options::default()
        };
        let params = SearchParams::new(&options.search(), 1, true);
        let job = Job::new(
            crate::chess::History::default(),
            crate::search::Limits::default(),
            options.search(),
        );
        for seed in 0..20 {
            let mut rng = rand::SeedableRng::seed_from_u64(seed);
            assert_eq!(choose(&state, &params, &job, &mut rng).unwrap().edge, 1);
        }
    }
}
