//! The built-in dense network: it loads in rten, has the expected heads, and values material.

use std::{path::Path, process::Command};

use crate::common::session::{Session, nodes};

use rten::{Model, ModelOptions, ValueOrView};
use rten_tensor::{AsView, NdTensorView};
use scorn::{
    chess::{History, moves::legal_moves, setup},
    network::{
        Batch,
        evaluator::{Evaluation, evaluate_all},
    },
    options::Options,
};
use shakmaty::{CastlingMode, CastlingSide, Chess, Color, Position, fen::Fen};

const PLANE: usize = 64;
const INPUT: usize = 112 * PLANE;

/// lc0's planes of a position without history.
fn planes(fen: &str) -> Vec<f32> {
    let pos: Chess = fen
        .parse::<Fen>()
        .unwrap()
        .into_position(CastlingMode::Standard)
        .unwrap();
    let us = pos.turn();
    let mut input = vec![0.0; INPUT];
    for (square, piece) in pos.board() {
        let plane = piece.role as usize - 1 + if piece.color == us { 0 } else { 6 };
        let seen = if us == Color::Black {
            usize::from(square) ^ 56
        } else {
            usize::from(square)
        };
        input[plane * PLANE + seen] = 1.0;
    }
    let rights = [
        (us, CastlingSide::QueenSide),
        (us, CastlingSide::KingSide),
        (!us, CastlingSide::QueenSide),
        (!us, CastlingSide::KingSide),
    ];
    for (index, (color, side)) in rights.into_iter().enumerate() {
        if pos.castles().has(color, side) {
            input[(104 + index) * PLANE..][..PLANE].fill(1.0);
        }
    }
    input[111 * PLANE..].fill(1.0);
    input
}

fn run(model: &Model, input: &[f32]) -> [Vec<f32>; 3] {
    let outputs =
        ["/output/policy", "/output/wdl", "/output/mlh"].map(|name| model.node_id(name).unwrap());
    let view: ValueOrView<'_> =
        NdTensorView::from_data([input.len() / INPUT, 112, 8, 8], input).into();
    let values = model
        .run(
            vec![(model.node_id("/input/planes").unwrap(), view)],
            &outputs,
            None,
        )
        .unwrap();
    let mut values = values.into_iter().map(|value| {
        let rten::Value::FloatTensor(tensor) = value else {
            panic!("an output is not float32")
        };
        tensor.iter().copied().collect::<Vec<f32>>()
    });
    std::array::from_fn(|_| values.next().unwrap())
}

/// For the side to move, which lacks a queen, rook, knight, pawn, or nothing; or its opponent lacks a pawn, knight,
/// rook, queen.
const ODDS: [&str; 9] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/1NBQKBNR w Kkq - 0 1",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/R1BQKBNR w KQkq - 0 1",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPP1PP/RNBQKBNR w KQkq - 0 1",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "rnbqkbnr/ppppp1pp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r1bqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "1nbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQk - 0 1",
    "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
];

#[test]
fn the_default_network_loads_and_puts_odds_in_order() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("networks/scorn-dense.onnx");
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.len() < 8 << 20, "{} bytes", bytes.len());
    let model = ModelOptions::with_all_ops().load(bytes).unwrap();

    let positions = ODDS;
    let input: Vec<f32> = positions.iter().flat_map(|fen| planes(fen)).collect();
    let [policy, wdl, mlh] = run(&model, &input);
    let n = positions.len();
    assert_eq!((policy.len(), wdl.len(), mlh.len()), (n * 1858, n * 3, n));
    assert!(policy.iter().chain(&mlh).all(|value| value.is_finite()));
    let q: Vec<f32> = wdl.chunks(3).map(|wdl| wdl[0] - wdl[2]).collect();
    assert!(
        wdl.chunks(3)
            .all(|wdl| (wdl.iter().sum::<f32>() - 1.0).abs() < 1e-4)
    );
    assert!(q.is_sorted_by(|a, b| a < b), "{q:?}");
    assert!(q[0] < -0.9 && q[4].abs() < 0.3 && q[8] > 0.9, "{q:?}");

    // A batch gives the same as single positions.
    for (index, fen) in positions.iter().enumerate() {
        let [one, _, _] = run(&model, &planes(fen));
        let same = one
            .iter()
            .zip(&policy[index * 1858..])
            .all(|(a, b)| (a - b).abs() < 1e-3);
        assert!(same, "{fen} alone and in a batch");
    }
}

#[test]
fn the_sparse_network_is_taken_by_its_own_backend_and_puts_odds_in_order() {
    assert!(scorn_network_sparse::SPARSE.len() < 12 << 20);
    let mut options = Options::default();
    options.set("WeightsFile", "<built in sparse>").unwrap();
    let evaluator = crate::common::evaluator(&options).unwrap();
    assert!(
        evaluator.info().description.starts_with("sparse ("),
        "{}",
        evaluator.info().description
    );
    let mut last = -1.0;
    for fen in ODDS {
        let history = History::new(setup::position_from_fen(fen).unwrap());
        let evaluated = evaluate_all(&*evaluator, [history.plies()]).unwrap();
        let Evaluation { value, priors, .. } = &evaluated[0];
        assert!(value.wl > last, "{fen}: {value:?}");
        last = value.wl;
        assert!((priors.iter().sum::<f32>() - 1.0).abs() < 1e-4);
    }
    assert!(last > 0.9);
}

/// Maximum difference of floating-point backends from `Backend sparse`, in W - L and the probability of any move: the
/// file rounds like the integers.
const TOLERANCE: f32 = 1e-3;

#[test]
fn the_sparse_network_agrees_on_the_backends_of_dense_ones() {
    let mut options = Options::default();
    options.set("WeightsFile", "<built in sparse>").unwrap();
    let sparse = crate::common::evaluator(&options).unwrap();
    let middlegames = [
        "r1bqk2r/pppp1ppp/2n2n2/2b1p3/2B1P3/3P1N2/PPP2PPP/RNBQK2R w KQkq - 0 5",
        "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 b - - 0 10",
        "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    ];
    for backend in ["rten", "onnx-cpu"] {
        options.set("Backend", backend).unwrap();
        let dense = match crate::common::evaluator(&options) {
            Ok(dense) => dense,
            Err(error) if backend == "onnx-cpu" => {
                eprintln!("SKIPPED: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let mut largest = [0f32; 2];
        for fen in ODDS.iter().chain(&middlegames) {
            let history = History::new(setup::position_from_fen(fen).unwrap());
            let moves: Vec<_> = legal_moves(history.position()).collect();
            let mut answers = [&sparse, &dense].map(|evaluator| {
                let mut batch = Batch::default();
                evaluator.view().queue(history.plies(), &moves, &mut batch);
                evaluator.evaluate(&mut batch).unwrap();
                (batch.value(0), batch.policy(0).to_vec())
            });
            let [(ours, our_policy), (theirs, their_policy)] = &mut answers;
            largest[0] = largest[0].max((ours.wl - theirs.wl).abs());
            for (p, other) in our_policy.iter().zip(their_policy) {
                largest[1] = largest[1].max((p - *other).abs());
            }
        }
        eprintln!(
            "{backend}: W-L differs by {:.1e}, a probability by {:.1e}",
            largest[0], largest[1]
        );
        assert!(
            largest[0] < TOLERANCE && largest[1] < TOLERANCE,
            "{backend}: {largest:?}"
        );
    }
}

#[test]
fn a_limit_on_the_speed_does_not_end_a_search_at_its_root() {
    let mut session = Session::with(&["--threads", "1", "--nps-limit", "20000"]);
    session.send_and_sync("position startpos");
    let (best, lines) = session.go("go nodes 300");
    assert_ne!(best, "(none)");
    assert!(nodes(&lines) >= 300, "{lines:?}");
}

/// Endings that do not occur in games between strong players; each is a mate within 16 moves.
const BARE_KINGS: [&str; 4] = [
    "8/8/8/8/3k4/8/8/R3K3 w - - 0 1",
    "8/8/3k4/8/8/8/8/Q3K3 b - - 0 1",
    "8/8/8/3k4/8/8/8/4K2R w - - 0 1",
    "8/8/8/3k4/8/8/8/1R2K2R w - - 0 1",
];

#[test]
fn a_bare_king_is_mated_in_time_without_tablebases() {
    let folder = tempfile::tempdir().unwrap();
    let (book, out) = (folder.path().join("bare.epd"), folder.path().join("games"));
    std::fs::write(&book, BARE_KINGS.join("\n")).unwrap();
    let played = Command::new(env!("CARGO_BIN_EXE_scorn"))
        .args(["selfplay", "--games", "4", "--nodes", "800", "--seed", "1"])
        .args(["--threads", "2", "--book"])
        .arg(&book)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(played.status.success(), "{played:?}");
    let games = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let games = games.filter(|path| path.extension().is_some_and(|it| it == "pgn"));
    let games: String = games
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(games.matches("[Result \"1-0\"]").count(), 4, "{games}");
}
