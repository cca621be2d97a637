//! The search on the hash evaluator: what must hold at every batch size and with every number of threads.

mod common;

use common::{Setup, position};
use scorn::{options::Options, search::Limits};

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
fn one_thread_repeats_itself_exactly() {
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
        assert_eq!(common::uci(&position(fen), line.pv[0]), best);
        setup.tree.lock().assert_consistent();
    }
}

#[test]
fn a_game_that_goes_on_keeps_its_subtree() {
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
