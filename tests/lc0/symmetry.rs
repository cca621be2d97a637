//! Positions without pawns and castling look the same from all eight sides of the board. A network with a canonical
//! input format must therefore say the same about all of them: the same value, and the same probability for the same
//! move. (lc0 0.32.1 does not: it maps the policy of transposed positions wrongly.)

use std::{fs, path::Path, sync::Arc};

use scorn::{
    chess::{History, PackedMove, moves::legal_moves},
    lc0::InputFormat,
    network::{
        Batch, Evaluator, Value,
        load::{NetworkConfig, load_backend},
    },
    options::Options,
};
use shakmaty::{Board, CastlingMode, Square, fen::Fen, uci::UciMove};

use crate::synth::{self, Body, Policy, Spec};

const TOLERANCE: f32 = 1e-5;

/// The formats that turn the board.
const CANONICAL: [InputFormat; 5] = [
    InputFormat::Canonical,
    InputFormat::CanonicalHectoplies,
    InputFormat::CanonicalV2,
    InputFormat::HectopliesArmageddon,
    InputFormat::CanonicalV2Armageddon,
];

/// Positions with the moves that lead to them. Rule 50 counts in some of them before the first move.
const GAMES: [(&str, &str); 6] = [
    ("8/8/1k6/8/4Q3/1K6/8/7r w - - 10 70", ""),
    ("7k/8/8/3n4/8/3B4/1K6/8 w - - 0 1", "d3e4 d5f6 e4g2"),
    ("8/8/8/2k5/8/4N3/3K1N2/8 b - - 3 1", "c5d4 f2g4"),
    ("k7/8/8/8/3K4/8/1N6/5q2 w - - 99 60", ""),
    ("8/8/1R6/8/3K4/8/5N2/k7 w - - 42 50", "b6b2 a1b2 f2d3"),
    ("6k1/8/8/8/8/q7/8/R5K1 b - - 17 40", "a3a1"),
];

/// One of the eight: bit 0 reverses the files, bit 1 the ranks, bit 2 then reflects at a diagonal.
fn turned(square: Square, symmetry: u8) -> Square {
    let square = if symmetry & 1 != 0 {
        square.flip_horizontal()
    } else {
        square
    };
    let square = if symmetry & 2 != 0 {
        square.flip_vertical()
    } else {
        square
    };
    if symmetry & 4 != 0 {
        square.flip_diagonal()
    } else {
        square
    }
}

/// The game as seen from another side.
fn game(fen: &str, moves: &str, symmetry: u8) -> History {
    let fen: Fen = fen.parse().unwrap();
    let mut setup = fen.into_setup();
    let board = std::mem::replace(&mut setup.board, Board::empty());
    for (square, piece) in board {
        setup.board.set_piece_at(turned(square, symmetry), piece);
    }
    let start = setup.position(CastlingMode::Standard);
    let mut game = History::new(start.unwrap());
    for text in moves.split_whitespace() {
        let UciMove::Normal { from, to, .. } = text.parse().unwrap() else {
            panic!("{text} is no plain move");
        };
        let uci = UciMove::Normal {
            from: turned(from, symmetry),
            to: turned(to, symmetry),
            promotion: None,
        };
        let m = uci.to_move(game.position()).unwrap();
        game.push_move(m);
    }
    game
}

/// The output for a position: its value, and its moves, named as from the first side, by their squares.
type Said = (Value, Vec<(Square, Square, f32)>);

fn said(batch: &Batch, symmetry: u8) -> Said {
    // The inverse of a symmetry is one of the eight, too.
    let home = |square| {
        let found = Square::ALL
            .into_iter()
            .find(|&from| turned(from, symmetry) == square);
        found.unwrap()
    };
    let named = |(m, &p): (&PackedMove, &f32)| (home(m.from()), home(m.to()), p);
    let index = usize::from(symmetry);
    let mut moves: Vec<_> = batch
        .moves(index)
        .iter()
        .zip(batch.policy(index))
        .map(named)
        .collect();
    moves.sort_by_key(|&(from, to, _)| (from, to));
    (batch.value(index), moves)
}

/// A network of random weights that reads this format.
fn network(folder: &Path, number: usize, format: InputFormat) -> Arc<dyn Evaluator> {
    let spec = Spec {
        body: Body::Conv {
            blocks: 2,
            filters: 16,
            squeeze_excite: Some(4),
        },
        // The first two encode squares by themselves, the last by its weights.
        policy: [Policy::Convolution, Policy::Classical { channels: 4 }][number % 2],
        moves_left: Some(4),
        seed: number as u64,
        ..Spec::default()
    };
    let mut net = synth::network(&spec);
    let formats = net
        .format
        .as_mut()
        .and_then(|format| format.network_format.as_mut());
    formats.unwrap().input = Some(format.number());
    let path = folder.join(format!("{}.pb", format.number()));
    fs::write(&path, prost::Message::encode_to_vec(&net)).unwrap();
    let config = NetworkConfig {
        weights: path.to_string_lossy().into_owned(),
        backend: "rten".to_owned(),
        ..NetworkConfig::from(&Options::default())
    };
    load_backend(&config, &|_| {}).unwrap()
}

fn assert_same((value, policy): &Said, (other_value, other_policy): &Said, about: &str) {
    let near = |a: f32, b: f32| (a - b).abs() < TOLERANCE * a.abs().max(1.0);
    let is_same = near(value.wl, other_value.wl)
        && near(value.d, other_value.d)
        && near(value.m, other_value.m);
    assert!(is_same, "{about}: {value:?} {other_value:?}");
    assert_eq!(policy.len(), other_policy.len(), "{about}");
    for (one, other) in policy.iter().zip(other_policy) {
        assert_eq!((one.0, one.1), (other.0, other.1), "{about}");
        assert!(near(one.2, other.2), "{about}: {one:?} {other:?}");
    }
}

#[test]
fn all_sides_of_the_board_get_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    for (number, format) in CANONICAL.into_iter().enumerate() {
        let evaluator = network(folder.path(), number, format);
        let mut widest = 0.0f32;
        for (fen, moves) in GAMES {
            let mut batch = Batch::default();
            for symmetry in 0..8 {
                let game = game(fen, moves, symmetry);
                let legal: Vec<_> = legal_moves(game.position()).collect();
                evaluator.view().queue(game.plies(), &legal, &mut batch);
            }
            evaluator.evaluate(&mut batch).unwrap();
            let first = said(&batch, 0);
            for symmetry in 1..8 {
                let about = format!("{format:?}, {fen} {moves}, side {symmetry}");
                assert_same(&first, &said(&batch, symmetry), &about);
            }
            let probabilities = first.1.iter().map(|m| m.2);
            let largest = probabilities.clone().fold(0.0, f32::max);
            let smallest = probabilities.fold(1.0, f32::min);
            widest = widest.max(largest - smallest);
        }
        assert!(
            widest > 0.01,
            "{format:?} must tell moves apart, or this proves nothing"
        );
    }
}
