//! The search on the hash evaluator: invariants at every batch size and number of threads.

use std::{sync::Arc, time::Duration};

use crate::common::{Setup, game, position};
use scorn::{
    network::{Advice, Batch, EvaluateError, Evaluator, Info, hash::HashEvaluator},
    options::Options,
    search::Limits,
};

#[test]
fn node_limits_are_exact_and_the_tree_adds_up() {
    for (threads, minibatch) in [(1, 1), (1, 7), (1, 256), (2, 16), (4, 64)] {
        for nodes in [1, 2, 10, 100, 3000] {
            let setup = Setup::new(Options {
                threads,
                minibatch_size: minibatch,
                ..Options::default()
            });
            let outcome = setup.search(&position("startpos"), nodes);
            assert_eq!(
                outcome.report.nodes, nodes,
                "{threads} threads, batches of {minibatch}"
            );
            assert!(outcome.best.is_some());
            setup.tree.lock().assert_consistent();
        }
    }
}

#[test]
fn one_thread_is_deterministic() {
    let options = Options {
        threads: 1,
        minibatch_size: 32,
        sc_limit: 20,
        ..Options::default()
    };
    let runs: Vec<_> = (0..2)
        .map(|_| {
            let setup = Setup::new(options.clone());
            setup.search(&position("startpos"), 5000);
            setup.visits()
        })
        .collect();
    assert_eq!(runs[0], runs[1]);
}

#[test]
fn mates_are_found_and_proven() {
    let fens = [
        ("6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1", "a1a8", 1),
        ("kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1", "a1a6", 2),
    ];
    for (fen, best, moves) in fens {
        let setup = Setup::new(Options {
            threads: 1,
            ..Options::default()
        });
        let limits = Limits {
            mate: Some(moves),
            nodes: Some(1_000_000),
            ..Limits::default()
        };
        let outcome = setup.search_with(&position(fen), limits);
        let line = &outcome.report.lines[0];
        assert_eq!(
            line.score,
            scorn::search::Score::Mate(moves as i32),
            "{fen}"
        );
        assert_eq!(crate::common::uci(&position(fen), line.pv[0]), best);
        setup.tree.lock().assert_consistent();
    }
}

#[test]
fn the_next_move_of_a_game_keeps_its_subtree() {
    let setup = Setup::new(Options {
        threads: 1,
        minibatch_size: 16,
        sc_limit: 30,
        ..Options::default()
    });
    let mut game = position("startpos");
    for _ in 0..6 {
        let outcome = setup.search(&game, 2000);
        setup.tree.lock().assert_consistent();
        game.push(outcome.best.unwrap());
        game.push(outcome.ponder.unwrap());
    }
    let memory_before = setup.tree.lock().memory();
    let outcome = setup.search(&game, 2);
    assert!(outcome.report.nodes > 2, "nothing was kept");
    assert_eq!(outcome.report.playouts, 0);
    assert!(setup.tree.lock().memory() < memory_before);
    setup.tree.lock().assert_consistent();
}

/// Two kings and blocked pawns: few moves and many repetitions.
#[test]
fn repetitions_that_begin_before_the_new_root_are_no_draws_any_more() {
    let mut game = position("k7/p7/P7/8/8/p7/P7/K7 w - - 0 1");
    let setup = Setup::new(Options {
        threads: 1,
        minibatch_size: 8,
        ..Options::default()
    });
    let repetitions = |setup: &Setup| {
        let (mut all, mut outdated) = (0, 0);
        setup.tree.lock().for_each(|node, depth| {
            let is_repetition = node.origin() == scorn::search::tree::node::Origin::TwoFold;
            all += u32::from(is_repetition);
            outdated += u32::from(is_repetition && node.m > depth as f32);
        });
        (all, outdated)
    };
    for _ in 0..4 {
        let outcome = setup.search(&game, 3000);
        assert!(repetitions(&setup).0 > 10);
        setup.tree.lock().assert_consistent();
        game.push(outcome.best.unwrap());
        setup.search(&game, 1);
        assert_eq!(repetitions(&setup).1, 0);
        setup.tree.lock().assert_consistent();
    }
}

#[test]
fn search_moves_and_noise_reach_the_root_only() {
    let setup = Setup::new(Options {
        threads: 1,
        noise_epsilon: 0.25,
        ..Options::default()
    });
    let game = position("startpos");
    setup.search(&game, 500);
    setup.tree.lock().assert_consistent();
    let restricted = scorn::chess::moves::legal_moves(game.position())
        .skip(7)
        .take(2)
        .collect::<Vec<_>>();
    let outcome = setup.search_moves(&game, restricted.clone(), 3000);
    assert!(restricted.contains(&outcome.best.unwrap()));
    setup.tree.lock().assert_consistent();
}

/// The hash evaluator, with an advice that makes batches grow.
struct Growing;

impl Evaluator for Growing {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        HashEvaluator.evaluate(batch)
    }
    fn info(&self) -> Info {
        Info {
            advice: Advice {
                threads: 1,
                minibatch: 16,
                min_batch: 1,
            },
            ..Info::default()
        }
    }
}

#[test]
fn threads_whose_batches_grow_do_not_wait_for_each_other_for_ever() {
    for threads in [1, 2, 3, 8] {
        let mut setup = Setup::new(Options {
            threads,
            ..Options::default()
        });
        setup.evaluator = Arc::new(Growing);
        // The time limit only matters for a search that would hang; otherwise its node limit ends it.
        let limits = Limits {
            nodes: Some(3000),
            movetime: Some(Duration::from_secs(60)),
            ..Limits::default()
        };
        let outcome = setup.search_with(&position("startpos"), limits);
        assert_eq!(outcome.report.nodes, 3000, "{threads} threads");
        setup.tree.lock().assert_consistent();
    }
}

#[test]
fn in_an_analysis_one_can_step_back_and_forth() {
    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
    let games = [&[][..], &["e2e4"], &["e2e4", "e7e5"], &["e2e4", "c7c5"]];
    let games = games.map(|moves| game(START, moves.iter().copied()));
    for (analyse_mode, again) in [(true, 0), (false, 1500)] {
        let setup = Setup::new(Options {
            threads: 1,
            analyse_mode,
            ..Options::default()
        });
        let playouts = |index: usize| setup.search(&games[index], 1500).report.playouts;
        assert_eq!(playouts(0), 1500);
        let forward = playouts(1);
        assert!(forward < 1500, "the visits below e2e4 are kept");
        assert!(playouts(2) < 1500);
        setup.tree.lock().assert_consistent();
        // Back, to the other reply, back to the start, and forward again.
        assert_eq!(playouts(1), again);
        assert!(playouts(3) < 1500);
        assert_eq!(playouts(0), again);
        setup.tree.lock().assert_consistent();
        assert_eq!(playouts(2) == 0, analyse_mode);
    }
    // With little memory the oldest trees are dropped.
    let setup = Setup::new(Options {
        threads: 1,
        analyse_mode: true,
        ..Options::default()
    });
    let limits = |nodes| Limits {
        nodes: Some(nodes),
        tree_bytes: Some(700_000),
        ..Limits::default()
    };
    for history in &games {
        setup.search_with(history, limits(2000));
    }
    assert!(setup.search_with(&games[0], limits(2000)).report.playouts > 0);
}
