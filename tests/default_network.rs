//! The network that is shipped: it loads in rten, has the heads it promises, and knows what a queen is worth.

use std::path::Path;

use rten::{Model, ModelOptions, ValueOrView};
use rten_tensor::{AsView, NdTensorView};
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

#[test]
fn the_default_network_loads_and_puts_odds_in_order() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("networks/scorn-default.onnx");
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.len() < 8 << 20, "{} bytes", bytes.len());
    let model = ModelOptions::with_all_ops().load(bytes).unwrap();

    // From the side to move: it lacks a queen, rook, knight, pawn, nothing; the opponent lacks a pawn, knight, rook, queen.
    let positions = [
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

    // A batch is its positions.
    for (index, fen) in positions.iter().enumerate() {
        let [one, _, _] = run(&model, &planes(fen));
        let same = one
            .iter()
            .zip(&policy[index * 1858..])
            .all(|(a, b)| (a - b).abs() < 1e-3);
        assert!(same, "{fen} alone and in a batch");
    }
}
