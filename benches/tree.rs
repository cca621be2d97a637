//! Speed and memory of the tree with the hash evaluator: `cargo bench --bench tree`.
//!
//! Times whole searches from the start position and reports visits per second, of wall time and of CPU time, and the
//! tree's bytes per visit; then searches with a simulated accelerator, whose batches take 2 milliseconds of which the
//! processor sees nothing, by 1 to 16 threads. With arguments `NODES THREADS BATCH [MICROSECONDS]` it makes one such
//! search and nothing else, which suits profilers and comparisons of whole processes.

#[path = "common/cpu_time.rs"]
mod cpu_time;

use std::time::Duration;

use cpu_time::cpu_time;
use scorn::{
    chess::History,
    network::{Batch, EvaluateError, Evaluator, hash::HashEvaluator},
    options::Options,
    search::{self, Clock, Job, Limits, Silent, StopSignal, SystemClock, Tree},
};

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    println!(
        "{:>9} {:>7} {:>5} {:>10} {:>12} {:>10}",
        "nodes", "threads", "batch", "nodes/s", "nodes/CPU s", "bytes/node"
    );
    if let [nodes, threads, batch, ref delay @ ..] = numbers[..] {
        let delay = Duration::from_micros(delay.first().copied().unwrap_or(0));
        measure(nodes, threads as usize, batch as usize, delay);
        return;
    }
    for (nodes, threads) in [(200_000, 1), (200_000, 2), (1_000_000, 1), (1_000_000, 2)] {
        for batch in [1, 32, 256] {
            measure(nodes, threads, batch, Duration::ZERO);
        }
    }
    println!("with batches of 2 ms each:");
    for batch in [32, 256] {
        for threads in [1, 2, 4, 8, 16] {
            measure(400_000, threads, batch, Duration::from_millis(2));
        }
    }
}

/// The hash evaluator on a device with a fixed time per batch, however many run at once.
struct Delayed(Duration);

impl Evaluator for Delayed {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        if !self.0.is_zero() {
            std::thread::sleep(self.0);
        }
        HashEvaluator.evaluate(batch)
    }
}

fn measure(nodes: u64, threads: usize, minibatch_size: usize, delay: Duration) {
    let options = Options {
        threads,
        minibatch_size,
        ..Options::default()
    };
    let limits = Limits {
        nodes: Some(nodes),
        ..Limits::default()
    };
    let job = Job::new(History::default(), limits, options.search());
    let mut tree = Tree::default();
    let clock = SystemClock::default();
    let (wall, cpu) = (clock.now(), cpu_time());
    search::run(
        &mut tree,
        &Delayed(delay),
        &job,
        &StopSignal::default(),
        &clock,
        &mut Silent,
    )
    .expect("it cannot fail");
    let (wall, cpu) = (clock.now() - wall, cpu_time() - cpu);
    let per_second = |time: Duration| nodes as f64 / time.as_secs_f64().max(1e-9);
    let bytes = tree.memory() as f64 / nodes as f64;
    println!(
        "{nodes:>9} {threads:>7} {minibatch_size:>5} {:>10.0} {:>12.0} {bytes:>10.1}",
        per_second(wall),
        per_second(cpu)
    );
}
