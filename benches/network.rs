//! Speed of the backends by batch size, with one thread, and the time to load a network.
//!
//! `SCORN_BENCH_WEIGHTS=net.pb.gz cargo bench --bench network`; without the variable the network of `tests/data` is
//! used, which measures only the overhead around a network.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use scorn::{
    chess::{History, moves::legal_moves},
    network::{
        Batch,
        backend::automatic,
        load::{NetworkConfig, load_backend},
    },
    options::Options,
};

fn backends(c: &mut Criterion) {
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/networks/tiny.onnx");
    let mut config = NetworkConfig::from(&Options::default());
    config.weights = std::env::var("SCORN_BENCH_WEIGHTS").unwrap_or(tiny.to_owned());
    config.threads = 1;
    for backend in automatic().map(|factory| factory.info().name) {
        config.backend = backend.to_owned();
        let evaluator = match load_backend(&config, &|_| {}) {
            Ok(evaluator) => evaluator,
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                continue;
            }
        };
        let mut group = c.benchmark_group(backend);
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(2));
        for size in [1, 16, 64, 256] {
            let game = History::default();
            let moves: Vec<_> = legal_moves(game.position()).collect();
            let mut batch = Batch::default();
            for _ in 0..size {
                evaluator.view().queue(game.plies(), &moves, &mut batch);
            }
            // A backend that fails is not a fast one. The first evaluation of a size may prepare the others.
            let mut evaluate = || evaluator.evaluate(&mut batch).expect("the backend works");
            evaluate();
            group.throughput(Throughput::Elements(size));
            group.bench_function(BenchmarkId::from_parameter(size), |b| b.iter(&mut evaluate));
        }
    }
}

/// From the bytes in the program to an evaluator.
fn loading(c: &mut Criterion) {
    for (weights, backend) in [("<built in>", "sparse"), ("<built in dense>", "rten")] {
        let mut config = NetworkConfig::from(&Options::default());
        config.weights = weights.to_owned();
        config.backend = backend.to_owned();
        c.bench_function(&format!("load {weights} with {backend}"), |b| {
            b.iter(|| load_backend(&config, &|_| {}).expect("the program contains it"));
        });
    }
}

criterion_group!(benches, backends, loading);
criterion_main!(benches);
