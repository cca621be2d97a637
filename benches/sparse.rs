//! A sparse network on one core, part by part: features, rows of the moves, policy, value.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use scorn::sparse::{
    attacks::Attacks,
    features::{ActiveFeatures, SquareView},
    infer::{IntegerNetwork, Scratch},
    moves::Rows,
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

fn bench(c: &mut Criterion) {
    let positions = FENS.map(|fen| -> Chess {
        let fen: Fen = fen.parse().unwrap();
        fen.into_position(CastlingMode::Standard).unwrap()
    });
    let shape = Shape::default();
    let network = IntegerNetwork::quantize(shape, &shape.start(1));
    let seen = positions.each_ref().map(|position| {
        let (view, attacks) = (SquareView::of(position), Attacks::of(position));
        let features = ActiveFeatures::with(position, view, &attacks);
        let rows = Rows::new(position, view, &attacks);
        let moves = position.legal_moves();
        let rows: Vec<u16> = moves.iter().map(|&m| rows.row(m)).collect();
        (features, rows)
    });
    let mut group = c.benchmark_group("sparse, 4 positions");
    group.bench_function("features", |b| {
        b.iter(|| {
            positions
                .each_ref()
                .map(|position| ActiveFeatures::of(black_box(position)))
        });
    });
    let moves = positions.each_ref().map(|position| position.legal_moves());
    group.bench_function("rows of moves", |b| {
        b.iter(|| {
            let mut sum = 0;
            for (position, moves) in positions.iter().zip(&moves) {
                let rows = Rows::new(position, SquareView::of(position), &Attacks::of(position));
                sum += moves.iter().map(|&m| u32::from(rows.row(m))).sum::<u32>();
            }
            sum
        });
    });
    let mut scratch = Scratch::default();
    for level in Level::available() {
        group.bench_function(format!("value, {}", level.name()), |b| {
            b.iter(|| {
                let seen = seen.each_ref();
                seen.map(|(features, _)| network.value(level, features.as_slice(), &mut scratch))
            });
        });
        group.bench_function(format!("policy, {}", level.name()), |b| {
            let mut logits = [0.0; 256];
            b.iter(|| {
                for (features, rows) in &seen {
                    let logits = &mut logits[..rows.len()];
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
