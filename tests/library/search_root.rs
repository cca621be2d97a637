//! The choice at the root: how moves are drawn with a temperature, when it falls, and which moves are excluded.

use std::collections::HashMap;

use crate::common::{Setup, position};
use scorn::{
    chess::{History, PackedMove},
    options::{Options, RootChoice},
    search::{PvLine, Score},
};
use shakmaty::Position;

const NODES: u64 = 300;

/// The start position, before this move of the game.
fn start(fullmove: u32) -> History {
    position(&format!(
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 {fullmove}"
    ))
}

/// A finished search of `game` with temperature 0, and its visited lines, the most visited first.
fn searched(game: &History) -> (Setup, Vec<PvLine>) {
    let setup = Setup::new(Options {
        threads: 1,
        multi_pv: 500,
        ..Options::default()
    });
    let mut lines = setup.search(game, NODES).report.lines;
    lines.retain(|line| line.nodes > 0);
    assert!(lines.len() > 5 && lines[0].nodes > lines[5].nodes);
    (setup, lines)
}

/// How often each move is chosen with the seeds 0..draws. The tree has all its nodes already, so nothing is searched.
fn draws(setup: &mut Setup, game: &History, draws: u64) -> HashMap<PackedMove, u64> {
    let mut chosen = HashMap::new();
    for seed in 0..draws {
        setup.options.seed = seed;
        let outcome = setup.search(game, NODES);
        assert_eq!(outcome.report.playouts, 0);
        *chosen.entry(outcome.best.unwrap()).or_default() += 1;
    }
    chosen
}

/// Asserts that moves are chosen in proportion to `weight` of their lines, within five standard deviations; all lines
/// together have `share` of the draws.
fn assert_drawn(
    setup: &mut Setup,
    game: &History,
    lines: &[PvLine],
    share: f64,
    weight: impl Fn(&PvLine) -> f64,
) {
    const DRAWS: u64 = 2000;
    let chosen = draws(setup, game, DRAWS);
    let sum: f64 = lines.iter().map(&weight).sum();
    for line in lines {
        let share = share * weight(line) / sum;
        let expected = share * DRAWS as f64;
        let deviation = (expected * (1.0 - share)).sqrt();
        let count = chosen.get(&line.pv[0]).copied().unwrap_or(0);
        assert!(
            (count as f64 - expected).abs() <= 5.0 * deviation + 1e-6,
            "{} visits: drawn {count} times, not {expected:.1}",
            line.nodes
        );
    }
}

#[test]
fn moves_are_drawn_by_visits_to_the_power_of_one_by_temperature() {
    let game = start(1);
    let (mut setup, lines) = searched(&game);
    for temperature in [1.0, 0.5, 2.0] {
        setup.options.temperature = temperature;
        let power = 1.0 / f64::from(temperature);
        assert_drawn(&mut setup, &game, &lines, 1.0, |line| {
            (line.nodes as f64).powf(power)
        });
    }
}

#[test]
fn the_seed_decides_the_draw() {
    let game = start(1);
    let (mut setup, _) = searched(&game);
    setup.options.temperature = 1.0;
    let first = draws(&mut setup, &game, 50);
    assert_eq!(draws(&mut setup, &game, 50), first);
    assert!(first.len() > 5, "{first:?}");
}

#[test]
fn an_offset_is_added_to_the_visits() {
    let game = start(1);
    let (mut setup, lines) = searched(&game);
    let middle = lines[lines.len() / 2].nodes as f64;
    for offset in [-middle, 100.0] {
        setup.options.temperature = 1.0;
        setup.options.temp_visit_offset = offset as f32;
        // Moves without visits have only the offset.
        let unvisited = game.position().legal_moves().len() - lines.len();
        let alone = unvisited as f64 * offset.max(0.0);
        let sum: f64 = lines
            .iter()
            .map(|line| (line.nodes as f64 + offset).max(0.0))
            .sum();
        let share = sum / (sum + alone);
        assert_drawn(&mut setup, &game, &lines, share, |line| {
            (line.nodes as f64 + offset).max(0.0)
        });
    }
}

#[test]
fn moves_worse_than_the_best_by_more_than_the_cutoff_are_left_out() {
    let game = start(1);
    let (mut setup, lines) = searched(&game);
    let mut values: Vec<f32> = lines.iter().map(|line| line.value.wl).collect();
    values.sort_by(f32::total_cmp);
    let best = lines[0].value.wl;
    // Between two values in the worse half; 1 in W-L is 50 % of a win.
    let index = values.len() / 3;
    let threshold = (values[index] + values[index + 1]) / 2.0;
    assert!(values[index] < threshold && threshold < best);
    setup.options.temperature = 1.0;
    setup.options.temp_value_cutoff = (best - threshold) * 50.0;
    assert_drawn(&mut setup, &game, &lines, 1.0, |line| {
        if line.value.wl > threshold {
            line.nodes as f64
        } else {
            0.0
        }
    });
}

#[test]
fn the_temperature_falls_after_the_delay_and_not_below_that_of_the_endgame() {
    // (move of the game, TempEndgame, temperature): 2 moves without decay, then 10 in which it falls from 1.
    let cases = [
        (1, 0.0, 1.0),
        (3, 0.0, 1.0),
        (8, 0.0, 0.5),
        (12, 0.0, 0.1),
        (12, 0.4, 0.4),
        (13, 0.4, 0.4),
        (60, 0.4, 0.4),
    ];
    for (fullmove, endgame, temperature) in cases {
        let game = start(fullmove);
        let (mut setup, lines) = searched(&game);
        setup.options.temperature = 1.0;
        setup.options.temp_decay_delay_moves = 2;
        setup.options.temp_decay_moves = 10;
        setup.options.temp_endgame = endgame;
        assert_drawn(&mut setup, &game, &lines, 1.0, |line| {
            (line.nodes as f64).powf(1.0 / temperature)
        });
    }
    let game = start(13);
    let (mut setup, lines) = searched(&game);
    setup.options.temperature = 1.0;
    setup.options.temp_decay_delay_moves = 2;
    setup.options.temp_decay_moves = 10;
    assert_eq!(
        draws(&mut setup, &game, 100),
        HashMap::from([(lines[0].pv[0], 100)])
    );
}

#[test]
fn from_the_cutoff_move_on_the_temperature_is_that_of_the_endgame() {
    for (fullmove, endgame, temperature) in [(7, 0.0, 1.0), (8, 0.5, 0.5), (60, 0.5, 0.5)] {
        let game = start(fullmove);
        let (mut setup, lines) = searched(&game);
        setup.options.temperature = 1.0;
        setup.options.temp_cutoff_move = 8;
        setup.options.temp_endgame = endgame;
        assert_drawn(&mut setup, &game, &lines, 1.0, |line| {
            (line.nodes as f64).powf(1.0 / temperature)
        });
    }
    let game = start(8);
    let (mut setup, lines) = searched(&game);
    setup.options.temperature = 1.0;
    setup.options.temp_cutoff_move = 8;
    assert_eq!(
        draws(&mut setup, &game, 100),
        HashMap::from([(lines[0].pv[0], 100)])
    );
}

#[test]
fn a_proven_win_is_always_played() {
    let game = position("6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1");
    let mut setup = Setup::new(Options {
        threads: 1,
        temperature: 10.0,
        temp_visit_offset: 100.0,
        ..Options::default()
    });
    for seed in 0..50 {
        setup.options.seed = seed;
        let outcome = setup.search(&game, 400);
        assert_eq!(crate::common::uci(&game, outcome.best.unwrap()), "a1a8");
    }
}

#[test]
fn with_several_lines_a_mate_leaves_the_visits_to_the_others() {
    // Ra8 mates; White has no other mate in two.
    let game = position("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1");
    let search = |lines| {
        let setup = Setup::new(Options {
            threads: 1,
            multi_pv: lines,
            ..Options::default()
        });
        let outcome = setup.search(&game, 2000);
        assert_eq!(outcome.report.lines[0].score, Score::Mate(1));
        assert_eq!(outcome.best, Some(outcome.report.lines[0].pv[0]));
        outcome.report
    };
    assert!(search(1).nodes < 1000, "one line ends with the mate");
    let report = search(3);
    assert_eq!(report.nodes, 2000);
    let others: u64 = report.lines[1..].iter().map(|line| line.nodes).sum();
    assert!(others > report.lines[0].nodes, "{:?}", report.lines);
}

#[test]
fn a_mate_without_visits_is_in_the_line() {
    // White has one move, and Black mates after it.
    let game = position("2k5/2r5/PQ2p3/8/7P/5b2/1r6/3K4 w - - 6 45");
    for nodes in [1, 2, 3, 4, 200] {
        let setup = Setup::new(Options {
            threads: 1,
            ..Options::default()
        });
        let outcome = setup.search(&game, nodes);
        let line = &outcome.report.lines[0];
        assert_eq!(line.score, Score::Mate(-1), "{nodes} nodes");
        assert_eq!(line.pv.len(), 2, "{nodes} nodes");
        assert_eq!(outcome.ponder, Some(line.pv[1]));
        let mut after = game.clone();
        after.push(line.pv[0]);
        assert_eq!(
            crate::common::uci(&after, line.pv[1]),
            "c7c1",
            "{nodes} nodes"
        );
    }
}

/// Of the lines, the first move of the one with the largest score.
fn best_by(lines: &[PvLine], score: impl Fn(&PvLine) -> f64) -> PackedMove {
    let best = lines.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
    best.unwrap().pv[0]
}

#[test]
fn the_value_log_visits_criterion_maximises_its_score() {
    let game = start(1);
    let (mut setup, lines) = searched(&game);
    setup.options.root_choice = RootChoice::ValueLogVisits;
    let expected = best_by(&lines, |line| {
        f64::from(line.value.wl) + (line.nodes as f64).ln()
    });
    let outcome = setup.search(&game, NODES);
    assert_eq!(outcome.best, Some(expected));
    assert_eq!(outcome.report.lines[0].pv[0], expected);
    assert!(outcome.report.lines.len() > 2);
    // Moves without visits, whose score would be minus infinity, come last.
    let visited = outcome.report.lines.iter().map(|line| line.nodes > 0);
    assert!(visited.is_sorted_by(|one, next| one >= next));
}

#[test]
fn a_lower_confidence_bound_without_deviations_is_the_value_of_moves_with_enough_visits() {
    let game = start(1);
    let (mut setup, lines) = searched(&game);
    setup.options.root_choice = RootChoice::Lcb;
    setup.options.lcb_stdevs = 0.0;
    for share in [0.0, 0.3, 1.0] {
        setup.options.lcb_min_visit_share = share;
        let least = (f64::from(share) * lines[0].nodes as f64).max(2.0);
        let expected = best_by(&lines, |line| {
            if line.nodes as f64 >= least {
                f64::from(line.value.wl)
            } else {
                f64::NEG_INFINITY
            }
        });
        assert_eq!(setup.search(&game, NODES).best, Some(expected), "{share}");
    }
}

#[test]
fn with_one_node_moves_are_drawn_by_the_policy() {
    let game = start(1);
    let mut setup = Setup::new(Options {
        threads: 1,
        temperature: 1.0,
        ..Options::default()
    });
    assert_eq!(setup.search(&game, 1).report.nodes, 1);
    let priors: Vec<(PackedMove, f64)> = {
        let tree = setup.tree.lock();
        let edges = tree.edges(tree.node(tree.root()));
        edges
            .iter()
            .map(|edge| (edge.m(), f64::from(edge.p())))
            .collect()
    };
    for temperature in [1.0, 0.5] {
        setup.options.temperature = temperature;
        let mut chosen: HashMap<PackedMove, u64> = HashMap::new();
        const DRAWS: u64 = 4000;
        for seed in 0..DRAWS {
            setup.options.seed = seed;
            *chosen
                .entry(setup.search(&game, 1).best.unwrap())
                .or_default() += 1;
        }
        let weight = |p: f64| p.powf(1.0 / f64::from(temperature));
        let sum: f64 = priors.iter().map(|&(_, p)| weight(p)).sum();
        for &(m, p) in &priors {
            let share = weight(p) / sum;
            let expected = share * DRAWS as f64;
            let count = chosen.get(&m).copied().unwrap_or(0) as f64;
            let deviation = (expected * (1.0 - share)).sqrt();
            assert!(
                (count - expected).abs() <= 5.0 * deviation + 1.0,
                "{count} {expected}"
            );
        }
    }
}
