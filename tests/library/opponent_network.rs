//! The opponent's network: in the tree, with search-contempt, and in the real program.

use std::{collections::BTreeMap, process::Command, sync::Arc, thread, time::Duration};

use crate::common::{Setup, ordered::Ordered, position, session::Session, shared};
use scorn::{
    chess::PackedMove,
    network::{
        evaluator::evaluate_all,
        load::{NetworkConfig, load_backend},
        opponent::Networks,
    },
    options::Options,
};
use shakmaty::Color;

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/networks/tiny.onnx");
const NAN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/networks/nan.onnx");
const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/networks/scorn-dense.onnx");

const OWN: Ordered = Ordered {
    rising: true,
    wl: 0.0,
};
const OPPONENTS: Ordered = Ordered {
    rising: false,
    wl: -0.9,
};

/// A search for White whose opponent has its priors in reverse order.
fn setup(sc_limit: i32) -> Setup {
    let options = Options {
        sc_limit,
        opponent_weights: "fake".into(),
        ..Options::default()
    };
    let networks = Networks {
        opponent: Some(Arc::new(OPPONENTS)),
        ..Networks::alone(Arc::new(OWN))
    };
    let mut setup = Setup::new(options);
    setup.evaluator = networks.against(&setup.options, Some(Color::White));
    setup
}

#[test]
fn every_node_has_the_priors_of_its_side_to_move() {
    for (threads, minibatch_size) in [(1, 1), (1, 32), (2, 16)] {
        let mut setup = setup(1_000_000_000);
        setup.options.threads = threads;
        setup.options.minibatch_size = minibatch_size;
        setup.search(&position("startpos"), 3000);
        let tree = setup.tree.lock();
        let mut seen = [0, 0];
        tree.for_each(|node, depth| {
            let edges: Vec<_> = tree.edges(node).iter().map(|e| (e.m(), e.p())).collect();
            let moves: Vec<PackedMove> = edges.iter().map(|edge| edge.0).collect();
            let whose = depth as usize % 2;
            let expected = [&OWN, &OPPONENTS][whose].policy(&moves);
            for ((_, p), expected) in edges.iter().zip(expected) {
                assert!(
                    (p - expected).abs() < 1e-3,
                    "{p}, not {expected}, at depth {depth}"
                );
            }
            // The value is the main network's everywhere, and it is the same in all positions.
            assert!(node.wl.abs() < 1e-6 || node.is_proven());
            seen[whose] += usize::from(!edges.is_empty());
        });
        assert!(seen[0] > 100 && seen[1] > 100, "{seen:?}");
    }
}

/// Mean share of frozen replies that were the move with the lowest and with the highest code.
fn frozen_shares(setup: &Setup, limit: u32) -> (f64, f64) {
    let tree = setup.tree.lock();
    let (mut lowest, mut highest, mut records) = (0.0, 0.0, 0.0);
    tree.for_each(|node, _| {
        let Some(record) = tree.record(node) else {
            return;
        };
        let codes: Vec<u16> = tree.edges(node).iter().map(|e| e.m().bits()).collect();
        if codes.len() < 5 || !record.is_final() {
            return;
        }
        let (Some(low), Some(high)) = (codes.iter().min(), codes.iter().max()) else {
            return;
        };
        for (child, share) in tree.children(node).iter().zip(&record.shares) {
            let code = codes[usize::from(child.edge)];
            let share = f64::from(share.count) / f64::from(limit);
            lowest += if code == *low { share } else { 0.0 };
            highest += if code == *high { share } else { 0.0 };
        }
        records += 1.0;
    });
    assert!(records > 10.0, "only {records} nodes froze");
    (lowest / records, highest / records)
}

#[test]
fn frozen_replies_are_those_of_the_second_network() {
    for limit in [8, 24, 60] {
        let with = setup(limit);
        with.search(&position("startpos"), 5000);
        let (lowest, highest) = frozen_shares(&with, limit as u32);
        assert!(highest > 0.35 && lowest < 0.05, "{lowest} {highest}");
        let mut without = setup(limit);
        without.evaluator = Arc::new(OWN);
        without.search(&position("startpos"), 5000);
        let (lowest, highest) = frozen_shares(&without, limit as u32);
        assert!(lowest > 0.35 && highest < 0.05, "{lowest} {highest}");
    }
}

/// The program's output for these lines of UCI. Each search is waited for.
fn uci(arguments: &[&str], script: &str) -> String {
    let mut session = Session::with(arguments);
    let mut output = Vec::new();
    for line in script.lines() {
        session.send(line);
        if line.starts_with("go ") {
            output.extend(session.until("bestmove"));
        }
    }
    output.extend(session.end());
    output.join("\n")
}

/// Analyses a position with one node: the priors of its moves and its value for White.
fn analyzed(fen: &str, arguments: &[&str]) -> (BTreeMap<String, f64>, f64) {
    let common = ["analyze", "--fen", fen, "--nodes", "1", "--json", "--moves"];
    let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args([&common[..], &["-b", "rten"], arguments].concat())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let moves = record["moves"].as_array().unwrap().iter();
    let priors = moves.map(|m| {
        let name = m["move"].as_str().unwrap().to_owned();
        (name, m["p"].as_f64().unwrap())
    });
    (priors.collect(), record["white"].as_f64().unwrap())
}

/// Checks, with the main network's options and the second one's and White as the opponent, that a search has the
/// second network's priors, the first one's value, and the mean of the priors with half a mixture.
fn assert_priors_are_the_seconds(main: &str, second: &str) {
    const WHITES: &str = "r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3";
    let main = ["--weights", main];
    let opponent = ["--opponent-weights", second];
    let mode = ["--contempt-mode", "black_side_analysis"];
    let cool = ["--policy-softmax-temp", "0.7"];
    let opponents_cool = ["--opponent-policy-softmax-temp", "0.7"];
    let (own, value) = analyzed(WHITES, &main);
    for (second_alone, with_second) in [
        (&["--policy-softmax-temp", "1"][..], &[][..]),
        (&cool, &opponents_cool),
    ] {
        let alone = [&["--weights", second], second_alone].concat();
        let (expected, _) = analyzed(WHITES, &alone);
        let together = [&main[..], &opponent, &mode, with_second].concat();
        let (priors, same_value) = analyzed(WHITES, &together);
        assert_eq!((&priors, value), (&expected, same_value));
        assert_ne!(priors, own);
        let half = [&together[..], &["--opponent-policy-mix", "0.5"]].concat();
        for (m, p) in analyzed(WHITES, &half).0 {
            assert!((p - (own[&m] + expected[&m]) / 2.0).abs() < 1e-3, "{m} {p}");
        }
    }
    // Where the engine's own side moves, the priors are its own.
    let playing = [&main[..], &opponent].concat();
    assert_eq!(analyzed(WHITES, &playing), (own, value));
}

#[test]
fn the_built_in_network_meets_another_one() {
    assert_priors_are_the_seconds("<built in>", TINY);
    assert_priors_are_the_seconds(TINY, "<built in>");
}

#[test]
fn a_copy_of_the_same_network_at_the_same_temperature_changes_nothing() {
    let main = [
        "-v",
        "-b",
        "rten",
        "-w",
        DEFAULT,
        "--threads",
        "1",
        "--sc-limit",
        "20",
        "--seed",
        "1",
    ];
    let search = |more: &[&str]| {
        let script = "position startpos moves e2e4\ngo nodes 300\n";
        let text = uci(&[&main, more].concat(), script);
        let is_stat = |line: &&str| line.contains("N:") || line.starts_with("bestmove");
        text.lines()
            .filter(is_stat)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let copy = ["--opponent-weights", DEFAULT];
    let same = ["--opponent-policy-softmax-temp", "1.359"];
    let plain = search(&[]);
    assert!(plain.len() > 20);
    assert_eq!(search(&[&copy[..], &same].concat()), plain);
    assert_ne!(search(&copy), plain);
}

#[test]
fn maia_networks_play_the_opponent() {
    let (Some(main), Some(human)) = (
        shared("nets/maia-1900.pb.gz"),
        shared("nets/maia-1100.pb.gz"),
    ) else {
        return;
    };
    let (main, human) = (main.to_str().unwrap(), human.to_str().unwrap());
    assert_priors_are_the_seconds(main, human);
    // Another input format than the main network's.
    if let Some(canonical) = shared("nets/synth-bt-multihead.pb.gz") {
        assert_priors_are_the_seconds(main, canonical.to_str().unwrap());
    }
}

#[test]
fn a_missing_or_broken_opponent_network_is_reported_with_its_option() {
    for (file, reason) in [("/no/maia.pb.gz", "/no/maia.pb.gz"), (NAN, "nan.onnx")] {
        let script = format!(
            "setoption name OpponentWeights value {file}\n\
             isready\ngo nodes 2\n\
             setoption name OpponentWeights value <empty>\ngo nodes 2\n\
             setoption name OpponentWeights value {TINY}\ngo nodes 2\n"
        );
        let text = uci(&["-b", "rten"], &script);
        let errors: Vec<_> = text.lines().filter(|l| l.contains("error")).collect();
        let is_named = |l: &&str| l.contains("OpponentWeights: ") && l.contains(reason);
        assert!(!errors.is_empty() && errors.iter().all(is_named), "{text}");
        let answers: Vec<_> = text.lines().filter(|l| l.starts_with("bestmove")).collect();
        // The main network plays, which is reported.
        assert_eq!(answers.len(), 3, "{text}");
        assert!(answers.iter().all(|l| !l.contains("none")), "{text}");
        assert!(text.contains("; playing without it"), "{text}");
        assert!(text.contains("the opponent's priors: rten"), "{text}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["-b", "rten", "--opponent-weights", "/no/maia.pb.gz"])
        .args(["analyze", "--fen", "startpos"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("OpponentWeights: ") && errors.contains("/no/maia.pb.gz"));
}

/// The nodes that the second search reports, after a first one of 1000: more than requested if the tree was kept.
fn nodes_after(arguments: &[&str], between: &str) -> u64 {
    let script = format!("position startpos\ngo nodes 1000\n{between}\ngo nodes 1\n");
    // One thread: a second one that is preempted while it holds a leaf would block the first from that move.
    let main = ["-b", "rten", "-w", TINY, "--threads", "1"];
    let text = uci(&[&main, arguments].concat(), &script);
    reported_nodes(text.lines()).unwrap()
}

/// The nodes in the last of these lines that contains them.
fn reported_nodes<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> Option<u64> {
    let mut reports = lines.rev().filter(|line| line.starts_with("info depth"));
    let mut words = reports
        .next()?
        .split(' ')
        .skip_while(|word| *word != "nodes");
    Some(words.nth(1).unwrap().parse().unwrap())
}

#[test]
fn trees_searched_with_other_priors_are_dropped() {
    // A move that is certainly in the tree: both networks search some moves.
    let step = "position startpos moves c2c3";
    let with = ["--opponent-weights", DEFAULT];
    assert!(nodes_after(&[], step) > 2);
    assert!(nodes_after(&with, "") >= 200);
    // The side to move is the other one now, and so is the opponent.
    assert_eq!(nodes_after(&with, step), 1);
    let white = ["--contempt-mode", "white_side_analysis"];
    assert!(nodes_after(&[&with[..], &white].concat(), step) > 2);
    for change in [
        format!("OpponentWeights value {TINY}"),
        "OpponentPolicyMix value 0.5".into(),
        "OpponentPolicyTemperature value 2".into(),
        "ContemptMode value black_side_analysis".into(),
        "ContemptMode value disable".into(),
    ] {
        let nodes = nodes_after(&with, &format!("setoption name {change}"));
        assert_eq!(nodes, 1, "{change}");
    }
    // Without a second network, the opponent's side matters only to search-contempt.
    let disable = "setoption name ContemptMode value disable";
    assert!(nodes_after(&[], disable) >= 200);
}

#[test]
fn pondering_models_the_same_opponent_as_the_next_move() {
    let main = ["-b", "rten", "-w", TINY, "--threads", "1"];
    let mut session = Session::with(&[&main[..], &["--opponent-weights", DEFAULT]].concat());
    // However slow the machine is, it eventually visits the expected move more than twice.
    let is_kept = (0..8).any(|attempt| {
        session.send("ucinewgame\nposition startpos moves c2c3\ngo ponder");
        thread::sleep(Duration::from_millis(100 << attempt));
        session.go("stop");
        let (_, lines) = session.go("go nodes 1");
        reported_nodes(lines.iter().map(String::as_str)).is_some_and(|nodes| nodes > 2)
    });
    assert!(is_kept);
    session.end();
}

#[test]
fn an_unused_opponent_network_is_reported_once() {
    let go = "go nodes 1\n";
    let disable = "setoption name ContemptMode value disable\n";
    let text = uci(
        &["-b", "rten", "--opponent-weights", TINY],
        &format!("{go}{disable}{go}{go}"),
    );
    assert_eq!(text.matches("has no effect").count(), 1, "{text}");
    assert_eq!(text.matches("bestmove ").count(), 3, "{text}");
    let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["analyze", "--fen", "startpos", "--nodes", "1", "-b", "hash"])
        .args(["--opponent-weights", TINY])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && errors.contains("has no effect"),
        "{errors}"
    );
}

#[test]
fn backendbench_measures_both_networks() {
    let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["backendbench", "-b", "rten", "-w", TINY, "--sizes", "8"])
        .args(["--time", "20", "--bench-threads", "1"])
        .args(["--opponent-weights", DEFAULT])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("tiny.onnx") && text.contains("scorn-dense.onnx"),
        "{text}"
    );
}

/// The opponent's priors at the start position after 1.e4, as percentages by move, for these options.
fn replies(options: &[(&str, &str)]) -> Vec<f32> {
    let mut set = Options::default();
    for (name, value) in options {
        set.set(name, value).unwrap();
    }
    let load = |role| {
        let config = NetworkConfig::of(&set, role);
        load_backend(&config, &|_| ())
    };
    let networks = Networks::load(&set, load).unwrap();
    let evaluator = networks.against(&set, Some(Color::White));
    let history = position("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1");
    let mut evaluated = evaluate_all(&*evaluator, [history.plies()]).unwrap();
    evaluated.remove(0).priors
}

#[test]
fn a_rating_selects_a_built_in_human_network() {
    let at = |rating: &str| replies(&[("OpponentRating", rating)]);
    let (nobody, low, middle, high) = (at("0"), at("1100"), at("1300"), at("1500"));
    assert!((low.iter().sum::<f32>() - 1.0).abs() < 1e-3);
    assert_ne!(nobody, low);
    assert_ne!(low, high);
    // A rating between two others is nearer to both than they are to each other.
    let distance = |a: &[f32], b: &[f32]| -> f32 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| (a - b).abs()).sum()
    };
    let between = [distance(&low, &middle), distance(&middle, &high)];
    assert!(
        between
            .iter()
            .all(|&d| d > 0.0 && d < distance(&low, &high))
    );
    // Outside of the available ratings the nearest one is used.
    assert_eq!(at("600"), low);
    assert_eq!(at("3000"), at("2600"));
    assert_ne!(at("2600"), at("1900"));
    // The same by name; a dense network has the same opponent.
    assert_eq!(
        replies(&[("OpponentWeights", "<built in human 1300>")]),
        middle
    );
    let dense = replies(&[
        ("WeightsFile", "<built in dense>"),
        ("Backend", "rten"),
        ("OpponentRating", "1300"),
    ]);
    for (dense, middle) in dense.iter().zip(&middle) {
        assert!((dense - middle).abs() < 1e-3);
    }
    // Half of the priors are the engine's own.
    let half = replies(&[("OpponentRating", "1300"), ("OpponentPolicyMix", "0.5")]);
    for ((half, middle), nobody) in half.iter().zip(&middle).zip(&nobody) {
        assert!((half - (middle + nobody) / 2.0).abs() < 1e-3);
    }
}

#[test]
fn an_opponent_of_a_rating_is_reported_and_modelled() {
    let text = uci(
        &["--sc-limit", "20", "--threads", "1"],
        "setoption name OpponentRating value 1500\ngo nodes 2000\n",
    );
    assert!(text.contains("a player rated 1500"), "{text}");
    assert!(text.contains("bestmove"), "{text}");
}
