//! A sparse network on one core, part by part: features, rows of the moves, policy, value.

use std::hint::black_box;

use criterion::{
    BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime,
};
use scorn::sparse::{
    attacks::Attacks,
    features::{ActiveFeatures, InputSet, SquareView},
    history::Past,
    infer::{IntegerNetwork, Scratch},
    moves::{MoveRows, RowBuffer, Rows},
    network::Shape,
    simd::Level,
};
use shakmaty::{CastlingMode, Chess, Position, fen::Fen};

/// Middlegames with about 35 moves each.
const FENS: [&str; 4] = [
    "r1bq1rk1/pp2bppp/2n1pn2/3p4/3P1B2/2NBPN2/PP3PPP/R2Q1RK1 b - - 5 10",
    "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10",
    "2rq1rk1/1p3ppp/p2p1n2/2bPp3/4P1b1/2N2N2/PPQ1BPPP/R1B2RK1 w - - 2 13",
    "r2q1rk1/ppp2ppp/2n1b3/3np3/8/2PP1NP1/PP2PPBP/R1BQ1RK1 w - - 1 9",
];

fn bench_rows(group: &mut BenchmarkGroup<'_, WallTime>, positions: &[Chess; 4]) {
    let moves = positions.each_ref().map(|position| position.legal_moves());
    for (name, set) in [
        ("rows of moves", InputSet::Position),
        ("rows of moves and classes", InputSet::Classes),
    ] {
        group.bench_function(name, |b| {
            let mut buffer = RowBuffer::default();
            b.iter(|| {
                for (position, moves) in positions.iter().zip(&moves) {
                    let (view, attacks) = (SquareView::of(position), Attacks::of(position));
                    let rows = Rows::new(set, position, view, &attacks, &Past::default());
                    black_box(rows.of_moves(moves.iter().copied(), &mut buffer));
                }
            });
        });
    }
}

fn bench(c: &mut Criterion) {
    let positions = FENS.map(|fen| -> Chess {
        let fen: Fen = fen.parse().unwrap();
        fen.into_position(CastlingMode::Standard).unwrap()
    });
    let inputs = InputSet::Classes;
    let shape = Shape {
        inputs,
        ..Shape::default()
    };
    let network = IntegerNetwork::quantize(shape, &shape.start(1));
    let seen = positions.each_ref().map(|position| {
        let (view, attacks) = (SquareView::of(position), Attacks::of(position));
        let features = ActiveFeatures::with(position, view, &attacks);
        let rows = Rows::new(inputs, position, view, &attacks, &Past::default());
        let moves = position.legal_moves();
        let mut buffer = RowBuffer::default();
        let rows = rows.of_moves(moves.iter().copied(), &mut buffer);
        (features, rows.entries().collect::<Vec<u16>>(), moves.len())
    });
    let mut group = c.benchmark_group("sparse, 4 positions");
    group.bench_function("features", |b| {
        b.iter(|| {
            positions
                .each_ref()
                .map(|position| ActiveFeatures::of(black_box(position)))
        });
    });
    bench_rows(&mut group, &positions);
    let mut scratch = Scratch::default();
    for level in Level::available() {
        group.bench_function(format!("value, {}", level.name()), |b| {
            b.iter(|| {
                let seen = seen.each_ref();
                seen.map(|(features, ..)| network.value(level, features.as_slice(), &mut scratch))
            });
        });
        group.bench_function(format!("policy, {}", level.name()), |b| {
            let mut logits = [0.0; 256];
            b.iter(|| {
                for (features, entries, moves) in &seen {
                    let logits = &mut logits[..*moves];
                    let rows = MoveRows::of(entries, *moves);
                    network.policy(level, features.as_slice(), rows, logits, &mut scratch);
                }
                logits[0]
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
