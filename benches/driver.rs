//! How a search scales, on hardware that is not at hand: `cargo bench --bench driver [PART]`, where PART is
//! `processors`, `device`, `selfplay` or `threads`; without it all of them. Figures: `docs/lab/driver.md`.
//!
//! * `processors`: nodes per second with 1 to 64 simulated processors, of which each takes 6.5 microseconds a position.
//! * `device`: nodes reached in 0.1, 0.3 and 1 s from the start position in a fresh tree, on a simulated GPU with the
//!   batch times of an H100 and of one that is four times slower.
//! * `selfplay`: evaluations per second and positions per batch of self-play on the simulated H100, by 2 to 16 threads.
//! * `threads`: nodes per second and CPU second with the hash evaluator and the real processors, in large batches:
//!   what the tree and everything around it cost.

#[path = "common/cpu_time.rs"]
mod cpu_time;

use std::{sync::Arc, time::Duration};

use cpu_time::cpu_time;
use scorn::{
    chess::History,
    game::{adjudicate::Rules, openings::Book},
    network::{
        Evaluator,
        backend::simulated::{
            H100_LARGE, H100_SMALL, H100_TRANSFORMER, SimulatedDevice, SimulatedProcessors, times,
        },
        hash::HashEvaluator,
        opponent::Networks,
    },
    options::Options,
    search::{self, Clock, Job, Limits, Silent, StopSignal, SystemClock, Tree},
    selfplay::{
        driver::{self, GamesProgress, Workload},
        plan::{Colors, Contestant, Plan, Starts, Terms},
    },
};

fn main() {
    let parts: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wants("processors") {
        processors();
    }
    if wants("device") {
        device();
    }
    if wants("selfplay") {
        selfplay();
    }
    if wants("threads") {
        threads();
    }
}

/// A search of a fresh tree from the start position: the nodes, and the seconds of wall and of CPU time.
fn search(
    evaluator: &dyn Evaluator,
    threads: usize,
    minibatch: usize,
    limits: Limits,
) -> (u64, f64, f64) {
    let options = Options {
        threads,
        minibatch_size: minibatch,
        ..Options::default()
    };
    let job = Job::new(History::default(), limits, options.search());
    let mut tree = Tree::default();
    let (clock, stop) = (SystemClock::default(), StopSignal::default());
    let (wall, cpu) = (clock.now(), cpu_time());
    search::run(&mut tree, evaluator, &job, &stop, &clock, &mut Silent).expect("the search runs");
    let wall = (clock.now() - wall).as_secs_f64();
    (tree.root_visits(), wall, (cpu_time() - cpu).as_secs_f64())
}

fn movetime(milliseconds: u64) -> Limits {
    Limits {
        movetime: Some(Duration::from_millis(milliseconds)),
        ..Limits::default()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn processors() {
    println!("simulated processors, 6.5 µs a position, 1 s, median of 3:");
    println!(
        "{:>8} {:>10} {:>8} {:>10}",
        "threads", "nodes/s", "times", "CPU µs/node"
    );
    let evaluator = SimulatedProcessors(Duration::from_nanos(6500));
    let mut one = 0.0;
    for threads in [1, 2, 4, 8, 16, 64] {
        let runs: Vec<_> = (0..3)
            .map(|_| search(&evaluator, threads, 0, movetime(1000)))
            .collect();
        let speed = median(runs.iter().map(|run| run.0 as f64 / run.1).collect());
        let cpu = median(runs.iter().map(|run| 1e6 * run.2 / run.0 as f64).collect());
        if threads == 1 {
            one = speed;
        }
        println!(
            "{threads:>8} {speed:>10.0} {:>8.2} {cpu:>10.2}",
            speed / one
        );
    }
}

fn device() {
    println!(
        "simulated GPU, nodes in 100, 300 and 1000 ms, median of 3, and what its batch times allow in a second:"
    );
    let networks = [
        ("6x64", &H100_SMALL),
        ("20x256", &H100_LARGE),
        ("15x768", &H100_TRANSFORMER),
    ];
    for (name, milliseconds) in networks {
        for (card, factor) in [("H100", 1.0), ("a quarter of it", 4.0)] {
            let Some(curve) = times(milliseconds, factor) else {
                continue;
            };
            let most = curve.speed(curve.largest());
            for (threads, minibatch) in [(2, 0), (3, 0), (4, 0), (1, 64), (3, 256)] {
                let evaluator =
                    SimulatedDevice::new(Arc::new(HashEvaluator), curve.clone(), threads);
                let nodes = [100, 300, 1000].map(|ms| {
                    let run = |_| search(&evaluator, threads, minibatch, movetime(ms)).0 as f64;
                    median((0..3).map(run).collect())
                });
                println!(
                    "{name:>7} {card:<16} threads {threads} batch {minibatch:>3} {:>8.0} {:>8.0} {:>8.0}   {most:>8.0}",
                    nodes[0], nodes[1], nodes[2]
                );
            }
        }
    }
}

fn selfplay() {
    println!(
        "self-play on a simulated H100, 6x64, hash evaluator, 100 nodes a move, 600 games at once:"
    );
    println!("{:>8} {:>12} {:>10}", "threads", "positions/s", "batch");
    for threads in [2, 4, 8, 16] {
        let Some(curve) = times(&H100_SMALL, 1.0) else {
            continue;
        };
        let device: Arc<dyn Evaluator> =
            Arc::new(SimulatedDevice::new(Arc::new(HashEvaluator), curve, 2));
        let networks = Networks::alone(device);
        let options = Options {
            temperature: 1.0,
            ..Options::default()
        };
        let player = Contestant::new("x", options, 100, networks);
        let terms = Terms {
            rules: Rules {
                max_plies: Some(16),
                ..Rules::default()
            },
            ..Terms::default()
        };
        let starts = Starts::book(&Book::standard(), None);
        let plan = Plan::new([player.clone(), player], Colors::Both, starts, terms, 1);
        let load = Workload {
            parallel: 600,
            threads,
            batch: 1024,
        };
        let numbers: Vec<u64> = (0..600).collect();
        let progress = GamesProgress::default();
        let clock = SystemClock::default();
        let begun = clock.now();
        driver::play(&plan, &numbers, load, &progress, |_| Ok(())).expect("nothing can fail");
        let seconds = (clock.now() - begun).as_secs_f64();
        let positions = progress.positions.into_inner() as f64;
        let batches = progress.batches.into_inner().max(1) as f64;
        println!(
            "{threads:>8} {:>12.0} {:>10.0}",
            positions / seconds,
            positions / batches
        );
    }
}

fn threads() {
    println!("hash evaluator, 2 M nodes, batches of 32 and 64:");
    println!(
        "{:>8} {:>6} {:>10} {:>12}",
        "threads", "batch", "nodes/s", "nodes/CPU s"
    );
    for minibatch in [32, 64] {
        for threads in [1, 2, 4, 8, 16, 64] {
            let limits = Limits {
                nodes: Some(2_000_000),
                ..Limits::default()
            };
            let (nodes, wall, cpu) = search(&HashEvaluator, threads, minibatch, limits);
            let nodes = nodes as f64;
            println!(
                "{threads:>8} {minibatch:>6} {:>10.0} {:>12.0}",
                nodes / wall,
                nodes / cpu
            );
        }
    }
}
