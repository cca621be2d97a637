//! Extensions of the search: certainty propagation with look-ahead, auto-extend, moving-average Q, optimal selection.

use crate::common::{Setup, game, position, uci};
use scorn::{options::Options, search::Score};

/// One thread, batches of one, and these options.
fn options(settings: &[(&str, &str)]) -> Options {
    let mut options = Options {
        threads: 1,
        minibatch_size: 1,
        ..Options::default()
    };
    for (name, value) in settings {
        options.set(name, value).unwrap();
    }
    options
}

/// A setup with the built-in network.
fn with_default_network(settings: &[(&str, &str)]) -> Setup {
    let options = options(settings);
    Setup {
        evaluator: crate::common::evaluator(&options).unwrap(),
        ..Setup::new(options)
    }
}

/// Mate in two by Qxh7+, which the priors hide: Videodr0me's example for look-ahead.
const QXH7: &str = "r1bq2rk/pp3pbp/2p1p1pQ/7P/3P4/2PB1N2/PP3PPR/2KR4 w - - 0 1";

#[test]
fn look_ahead_finds_the_mate_that_takes_plain_search_many_visits() {
    let game = position(QXH7);
    let nodes = 5000;
    let plain = with_default_network(&[]).search(&game, nodes);
    assert_eq!(plain.report.lines[0].score, Score::Open);
    for certainty_prop in ["1", "2"] {
        let setup =
            with_default_network(&[("CertaintyProp", certainty_prop), ("AutoExtend", "true")]);
        let found = setup.search(&game, nodes);
        let line = &found.report.lines[0];
        assert_eq!(uci(&game, found.best.unwrap()), "h6h7");
        assert_eq!(line.score, Score::Mate(2));
        let pv: Vec<String> = {
            let mut game = game.clone();
            let names = line.pv.iter().map(|&m| {
                let name = uci(&game, m);
                game.push(m);
                name
            });
            names.collect()
        };
        assert_eq!(pv, ["h6h7", "h8h7", "h5g6"]);
        setup.tree.lock().assert_consistent();
    }
}

#[test]
fn a_mate_at_the_root_is_played_whatever_its_prior_is() {
    // 218 moves; several mate.
    let game = position("R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1");
    let setup = Setup::new(options(&[("CertaintyProp", "1")]));
    let found = setup.search(&game, 2);
    assert_eq!(found.report.lines[0].score, Score::Mate(1));
    let after = {
        let mut after = game.clone();
        after.push(found.best.unwrap());
        after
    };
    use shakmaty::Position;
    assert!(after.position().is_checkmate());
    // Without look-ahead it is found at the end of the search.
    let plain = Setup::new(options(&[])).search(&game, 2);
    assert_eq!(plain.report.lines[0].score, Score::Mate(1));
    let unproven = Setup::new(options(&[("StickyEndgames", "false")])).search(&game, 2);
    assert_eq!(unproven.report.lines[0].score, Score::Open);
    setup.tree.lock().assert_consistent();
}

#[test]
fn only_requested_moves_are_played_after_look_ahead_found_a_mate() {
    // 1 Kf6 Kg8 2 Ra8 mates: the position before it is proven, and has one edge, when the game comes to it.
    let first = position("7k/8/4K3/8/8/8/8/R7 w - - 0 1");
    let setup = Setup::new(options(&[("CertaintyProp", "1")]));
    setup.search(&first, 600);
    let next = game("7k/8/4K3/8/8/8/8/R7 w - - 0 1", ["e6f7", "h8h7"]);
    let quiet = scorn::chess::moves::legal_moves(next.position())
        .find(|&m| uci(&next, m) == "a1a2")
        .unwrap();
    let found = setup.search_moves(&next, vec![quiet], 50);
    assert_eq!(found.best, Some(quiet));
    // All moves are available again.
    let all = setup.search(&next, 60);
    assert_eq!(uci(&next, all.best.unwrap()), "a1h1");
    assert_eq!(all.report.lines[0].score, Score::Mate(1));
}

#[test]
fn proven_losses_are_avoided() {
    // Black is mated after every king move except to the corner's other side; the options make the search explore
    // widely.
    let game = position("r1bq2rk/pp3pbp/2p1p1pQ/7P/3P4/2PB1N2/PP3PPR/2KR4 b - - 0 1");
    let lost_visits = |certainty_prop: &str| {
        // Such a search revisits moves that are proven losses, unless it avoids them.
        let setup = with_default_network(&[("CertaintyProp", certainty_prop), ("CPuct", "8")]);
        setup.search(&game, 6000);
        let tree = setup.tree.lock();
        tree.assert_consistent();
        let mut visits = 0;
        let mut lost = 0;
        tree.for_each(|node, depth| {
            if depth > 1 && node.bounds().result() == Some(-1) {
                visits += node.n;
                lost += 1;
            }
        });
        (visits, lost)
    };
    let (visited, some) = lost_visits("1");
    let (avoided, others) = lost_visits("2");
    assert!(some > 20 && others > 20, "{some} {others}");
    let mean = |visits: u32, lost: u32| f64::from(visits) / f64::from(lost);
    assert!(
        mean(avoided, others) < mean(visited, some),
        "{avoided} of {others}, {visited} of {some}"
    );
}

#[test]
fn a_modelled_opponent_keeps_the_counts_of_plain_puct() {
    // At the opponent's nodes proven losses are visited as before. With a limit that is never reached no node
    // freezes, but the same rule holds, and the search differs from plain PUCT.
    let game = position(QXH7);
    let visits = |sc_limit: &str, certainty_prop: &str| {
        let setup =
            with_default_network(&[("ScLimit", sc_limit), ("CertaintyProp", certainty_prop)]);
        setup.search(&game, 3000);
        setup.tree.lock().assert_consistent();
        setup.visits()
    };
    // Only the own moves are avoided then: fewer differences from mode 1 than where both sides avoid.
    assert_ne!(visits("999999", "2"), visits("1000000000", "2"));
    // In mode 1 nothing is avoided, so the model makes no difference.
    assert_eq!(visits("999999", "1"), visits("1000000000", "1"));
}

#[test]
fn frozen_replies_are_drawn_but_proofs_pass_through_them() {
    let game = position(QXH7);
    let setup = with_default_network(&[
        ("ScLimit", "10"),
        ("CertaintyProp", "2"),
        ("OptimalSelect", "1"),
    ]);
    let found = setup.search(&game, 20_000);
    assert_eq!(found.report.lines[0].score, Score::Mate(2));
    setup.tree.lock().assert_consistent();
}

#[test]
fn a_forced_reply_is_passed_through_in_the_same_visit() {
    // After 1 Qa8+ or 1 Qb8+ Black has one move.
    let game = position("6k1/5ppp/8/8/8/7P/5PP1/QR4K1 b - - 0 1");
    let plain = Setup::new(options(&[]));
    let extended = Setup::new(options(&[("AutoExtend", "true")]));
    let count = |setup: &Setup| {
        setup.search(&game, 2000);
        let tree = setup.tree.lock();
        tree.assert_consistent();
        let (mut passed, mut stopped) = (0, 0);
        let mut stack = vec![tree.root()];
        while let Some(id) = stack.pop() {
            let node = tree.node(id);
            let children = tree.children(node);
            if node.n_edges == 1 && id != tree.root() && !node.is_proven() {
                let below: u32 = children.iter().map(|child| child.n).sum();
                passed += u32::from(node.n == below && node.n > 0);
                stopped += u32::from(node.n == below + 1);
                if let (1, [only]) = (node.n, children) {
                    // One visit has evaluated both positions.
                    assert_eq!((node.wl, node.d), (-only.wl, only.d));
                    assert_eq!(node.v, -only.v);
                    assert_eq!(node.m, only.m + 1.0);
                }
            }
            stack.extend((0..node.n_children).map(|slot| tree.child_id(node, slot)));
        }
        (passed, stopped)
    };
    let (passed, stopped) = count(&plain);
    assert!(passed == 0 && stopped > 10, "{passed} {stopped}");
    let (passed, stopped) = count(&extended);
    assert!(passed > 10 && stopped == 0, "{passed} {stopped}");
}

#[test]
fn auto_extend_goes_with_batches_search_contempt_and_reuse() {
    for sc_limit in ["1000000000", "8"] {
        for batch in [1, 16] {
            let setup = Setup::new(Options {
                minibatch_size: batch,
                ..options(&[
                    ("AutoExtend", "true"),
                    ("ScLimit", sc_limit),
                    ("CertaintyProp", "2"),
                ])
            });
            let first = position("6k1/5ppp/8/8/8/7P/5PP1/QR4K1 b - - 0 1");
            let outcome = setup.search(&first, 3000);
            assert_eq!(outcome.report.nodes, 3000);
            setup.tree.lock().assert_consistent();
            let mut next = first.clone();
            next.push(outcome.best.unwrap());
            next.push(outcome.ponder.unwrap());
            let outcome = setup.search(&next, 5000);
            assert!(outcome.best.is_some());
            setup.tree.lock().assert_consistent();
        }
    }
}

#[test]
fn a_moving_average_is_the_recursion_of_its_formula() {
    // The line from the root: the values that the first three visits returned, each for its own side to move, and the
    // root's Q after three visits. At the third visit the weight of the old Q is beta * 2^gamma.
    let game = position("startpos");
    let q_after = |settings: &[(&str, &str)], nodes: u64| {
        let setup = Setup::new(options(settings));
        setup.search(&game, nodes);
        let q = {
            let tree = setup.tree.lock();
            tree.node(tree.root()).wl
        };
        setup.search(&game, 2000);
        setup.tree.lock().assert_consistent();
        q
    };
    let returned = {
        let setup = Setup::new(options(&[]));
        setup.search(&game, 3);
        let tree = setup.tree.lock();
        let root = *tree.node(tree.root());
        let children = tree.children(&root);
        match children {
            [child] => {
                let reply = tree.children(child)[0];
                [f64::from(root.v), -f64::from(child.v), f64::from(reply.v)]
            }
            _ => {
                let second = |index: usize| -f64::from(children[index].v);
                [f64::from(root.v), second(0), second(1)]
            }
        }
    };
    let recursion = |beta: f64, gamma: f64, visits: usize| {
        let [first, rest @ ..] = returned;
        let rest = rest.iter().take(visits - 1).zip(1..);
        rest.fold(first, |q, (v, before)| {
            q + (v - q) / (beta * f64::from(before).powf(gamma) + 1.0)
        })
    };
    for (beta, gamma) in [
        (1.0, 1.0),
        (0.49, 1.0),
        (1.0, 0.75),
        (0.49, 0.5),
        (2.0, 3.0),
    ] {
        let settings = [beta, gamma].map(|x: f64| x.to_string());
        let settings = [
            ("BackpropagateBeta", &*settings[0]),
            ("BackpropagateGamma", &*settings[1]),
        ];
        for visits in [2, 3] {
            let (q, expected) = (
                q_after(&settings, visits),
                recursion(beta, gamma, visits as usize),
            );
            assert!(
                (q - expected).abs() < 1e-6,
                "beta {beta}, gamma {gamma}, {visits} visits: {q}, expected {expected}"
            );
        }
    }
    // A wrong exponent would be seen: the third visits differ by far more than the tolerance.
    assert!((recursion(1.0, 0.75, 3) - recursion(1.0, 1.0 / 0.75, 3)).abs() > 1e-3);
}

#[test]
fn butterfly_history_changes_new_priors_of_any_network() {
    let opening = game("startpos", ["e2e4", "e7e5", "g1f3", "b8c6", "f1b5"]);
    // Priors that come with values, as a network's in batches, and priors that are computed when they are needed.
    for comes_with_values in [true, false] {
        let found = |settings: &[(&str, &str)]| {
            let setup = if comes_with_values {
                Setup::new(options(settings))
            } else {
                with_default_network(settings)
            };
            let line = setup.search(&opening, 600).report.lines[0].clone();
            setup.tree.lock().assert_consistent();
            (line.value, line.pv)
        };
        let with_history = found(&[("ButterflyHistory", "20")]);
        assert_ne!(with_history, found(&[]));
        assert_eq!(with_history, found(&[("ButterflyHistory", "20")]));
    }
}

#[test]
fn optimal_selection_tries_every_move_of_the_root() {
    let game = position(QXH7);
    let unvisited = |setting: &str| {
        let setup = with_default_network(&[("OptimalSelect", setting)]);
        setup.search(&game, 1000);
        let tree = setup.tree.lock();
        let root = tree.node(tree.root());
        let visited = tree.children(root).iter().filter(|child| child.n > 0);
        usize::from(root.n_edges) - visited.count()
    };
    assert!(unvisited("0") > 5);
    assert_eq!(unvisited("1"), 0);
}

#[test]
fn batches_and_threads_do_not_disturb_the_extensions() {
    let settings = [
        ("CertaintyProp", "2"),
        ("AutoExtend", "true"),
        ("BackpropagateBeta", "0.49"),
        ("OptimalSelect", "1"),
    ];
    let game = position(QXH7);
    let setup = with_default_network(&settings);
    for threads in [1, 4] {
        let setup = Setup {
            options: Options {
                threads,
                minibatch_size: 32,
                ..setup.options.clone()
            },
            evaluator: setup.evaluator.clone(),
            ..Setup::new(Options::default())
        };
        let found = setup.search(&game, 20_000);
        assert_eq!(found.report.lines[0].score, Score::Mate(2));
        setup.tree.lock().assert_consistent();
    }
}
