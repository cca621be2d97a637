//! Networks with AlphaZero's planes and moves, on every available backend, and games with that encoding.

use std::process::Command;

use crate::common::game;
use scorn::{
    chess::moves::legal_moves,
    lc0::AlphaZeroMoves,
    network::{
        Batch, Evaluator,
        input::alphazero,
        load::{LoadError, NetworkConfig, load_backend},
    },
    options::{HistoryFill, Options},
};

const NETWORKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/networks");
const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

fn config(backend: &str, file: &str, encoding: &str) -> NetworkConfig {
    let mut options = Options::default();
    let weights = format!("{NETWORKS}/{file}");
    for (name, value) in [
        ("Backend", backend),
        ("WeightsFile", &weights),
        ("NetworkEncoding", encoding),
        ("PolicyTemperature", "1"),
        ("Threads", "1"),
        ("HistoryFill", "no"),
    ] {
        options.set(name, value).unwrap();
    }
    NetworkConfig::from(&options)
}

/// The test networks' logits are the first 4672 floats of the planes.
fn expected(line: &scorn::chess::History, order: AlphaZeroMoves) -> Vec<f64> {
    let planes = alphazero::encode(line.plies(), HistoryFill::No);
    let position = line.position();
    let logit = |row: u16| {
        let (plane, square) = (usize::from(row) / 64, usize::from(row) % 64);
        f64::from(u8::from(planes.masks[plane] >> square & 1 == 1))
    };
    let moves = legal_moves(position).map(|m| m.unpack(position));
    let weights: Vec<f64> = moves
        .map(|m| logit(alphazero::row(position, m, order)).exp())
        .collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

fn assert_agrees(evaluator: &dyn Evaluator, order: AlphaZeroMoves) {
    let games = [
        game(START, []),
        game(START, "e2e4 e7e5 g1f3".split(" ")),
        game("r3k2r/1P4p1/8/8/8/8/1p4P1/R3K2R b KQkq - 9 40", []),
    ];
    let mut batch = Batch::default();
    for game in &games {
        let moves: Vec<_> = legal_moves(game.position()).collect();
        evaluator.view().queue(game.plies(), &moves, &mut batch);
    }
    evaluator.evaluate(&mut batch).unwrap();
    let mut is_uniform = true;
    for (index, game) in games.iter().enumerate() {
        let wanted = expected(game, order);
        is_uniform &= wanted.iter().all(|&p| (p - wanted[0]).abs() < 1e-3);
        for (p, wanted) in batch.policy(index).iter().zip(wanted) {
            assert!((f64::from(*p) - wanted).abs() < 1e-5, "{p} {wanted}");
        }
    }
    assert!(!is_uniform, "uniform policies show nothing");
}

#[test]
fn the_policy_is_read_as_it_is_listed_on_every_backend() {
    for backend in ["rten", "onnx-cpu", "openvino"] {
        for (file, encoding, order) in [
            ("alphazero.onnx", "auto", AlphaZeroMoves::SquareMajor),
            ("alphazero.onnx", "alphazero", AlphaZeroMoves::SquareMajor),
            (
                "alphazero-planes.onnx",
                "alphazero",
                AlphaZeroMoves::PlaneMajor,
            ),
        ] {
            match load_backend(&config(backend, file, encoding), &|_| {}) {
                Ok(evaluator) => assert_agrees(&*evaluator, order),
                Err(error @ (LoadError::Runtime { .. } | LoadError::Unavailable { .. })) => {
                    crate::common::skipped(&error.to_string());
                }
                Err(error) => panic!("{backend} {file}: {error}"),
            }
        }
    }
}

#[test]
fn a_network_that_does_not_say_what_it_is_is_taken_for_lc0s() {
    for (file, encoding) in [("alphazero-planes.onnx", "auto"), ("alphazero.onnx", "lc0")] {
        let error = load_backend(&config("rten", file, encoding), &|_| {})
            .err()
            .unwrap();
        let error = error.to_string();
        assert!(
            error.contains("[batch, 112, 8, 8]") && error.contains(file),
            "{error}"
        );
    }
    let error = load_backend(&config("rten", "tiny.onnx", "alphazero"), &|_| {})
        .err()
        .unwrap();
    assert!(error.to_string().contains("[batch, 119, 8, 8]"), "{error}");
}

#[test]
fn describe_names_the_encoding() {
    let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["describe", &format!("{NETWORKS}/alphazero.onnx")])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("AlphaZero's 119 planes"), "{said}");
}

#[test]
fn games_become_planes() {
    let folder = tempfile::tempdir().unwrap();
    let games = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/training-smoke.pgn");
    let convert = |name: &str, arguments: &[&str]| {
        let out = folder.path().join(name);
        let output = Command::new(env!("CARGO_BIN_EXE_scorn"))
            .args(["dataset", "planes", games, "--out"])
            .arg(&out)
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.starts_with("24 games, 2208 positions; skipped 0"),
            "{said} {output:?}"
        );
        std::fs::read(&out).unwrap()
    };
    for (encoding, size) in [("alphazero", 119 * 8 + 8 + 6), ("lc0", 112 * 8 + 4 + 6)] {
        let planes = convert(encoding, &["--encoding", encoding]);
        assert_eq!(planes.len(), 2208 * size);
        let filled = format!("{encoding}-filled");
        let filled = convert(&filled, &["--encoding", encoding, "--history-fill=always"]);
        assert_eq!(filled.len(), planes.len());
        assert_ne!(filled, planes, "what was before a game's start");
    }
}
