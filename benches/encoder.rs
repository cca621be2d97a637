//! The cost of a leaf before the network: its key, its planes, their floats, the policy over its moves, the cache.
//!
//! `cargo bench --bench encoder`

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use scorn::{
    chess::{History, moves::legal_moves},
    lc0::InputFormat,
    network::{
        Batch, Evaluator,
        compose::cache::Cache,
        hash::HashEvaluator,
        input::{
            Encoding, Inputs,
            encoder::{INPUT_SIZE, encode, expand},
            key::{HistoryRead, position_key},
            policy_map::{POLICY_SIZE, softmax},
        },
    },
    options::HistoryFill,
};

/// A middlegame of more than eight plies.
fn game() -> History {
    let mut game = History::default();
    for ply in 0..30 {
        let moves: Vec<_> = legal_moves(game.position()).collect();
        game.push(moves[(ply * 7 + 3) % moves.len()]);
    }
    game
}

fn leaf(c: &mut Criterion) {
    let game = game();
    let plies = game.plies();
    c.bench_function("key", |b| {
        b.iter(|| position_key(black_box(plies), HistoryFill::FenOnly, &HistoryRead::ALL));
    });
    for format in [InputFormat::Classical112, InputFormat::CanonicalV2] {
        c.bench_function(&format!("encode {format}"), |b| {
            b.iter(|| encode(black_box(plies), format, HistoryFill::FenOnly));
        });
    }
    let planes = encode(plies, InputFormat::Classical112, HistoryFill::FenOnly);
    let mut floats = vec![0.0; INPUT_SIZE];
    c.bench_function("expand", |b| {
        b.iter(|| expand(black_box(&planes), &mut floats));
    });
    let encoding = Encoding::Lc0(InputFormat::Classical112);
    let (layout, mut inputs) = (encoding.layout(), Inputs::default());
    encoding.encode(
        plies,
        &legal_moves(game.position()).collect::<Vec<_>>(),
        (HistoryFill::FenOnly, false),
        &mut inputs,
    );
    let (mut masks, mut scalars) = (vec![0; 8 * layout.planes], [0.0]);
    c.bench_function("expand to bits only", |b| {
        b.iter(|| {
            let rows = black_box(&inputs).rows(layout, 0..1);
            rows.write_packed(&mut masks, &mut scalars);
        });
    });
    let moves: Vec<_> = legal_moves(game.position()).collect();
    let logits: Vec<f32> = (0..POLICY_SIZE).map(|i| (i % 17) as f32 / 5.0).collect();
    let mut policy = vec![0.0; moves.len()];
    c.bench_function(&format!("softmax over {} moves", moves.len()), |b| {
        b.iter(|| softmax(black_box(&logits), inputs.move_rows(0), 1.359, &mut policy));
    });
}

fn cache(c: &mut Criterion) {
    let game = game();
    let moves: Vec<_> = legal_moves(game.position()).collect();
    let cache = Cache::new(200_000);
    let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut batch = Batch::default();
    for i in 0..200_000 {
        batch.push(key(i), &moves);
    }
    let filled = HashEvaluator.evaluate(&mut batch);
    assert!(filled.is_ok());
    for index in 0..batch.len() {
        cache.insert(batch.key(index), batch.value(index), batch.policy(index));
    }
    let mut policy = vec![0.0; moves.len()];
    let mut i = 0;
    c.bench_function("cache hit", |b| {
        b.iter(|| {
            i = (i + 7919) % 200_000;
            cache.look_up(key(i), &mut policy)
        });
    });
    c.bench_function("cache miss", |b| {
        b.iter(|| {
            i += 1;
            cache.look_up(key(i + 1_000_000), &mut policy)
        });
    });
}

criterion_group!(benches, leaf, cache);
criterion_main!(benches);
