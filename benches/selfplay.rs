//! Speed of self-play compared with the network alone: `cargo bench --bench selfplay`.
//!
//! A row plays some games for a few plies, and prints the evaluated positions per second of wall time and of CPU
//! time; before and after it the same network evaluates batches of the same size and nothing else, as `scorn
//! backendbench` does. Rows: the built-in networks, sparse and dense, and the hash evaluator, for which nodes count,
//! because its evaluations cost nothing. With an argument only the rows of that name are measured.

#[path = "common/cpu_time.rs"]
mod cpu_time;

use std::{sync::Arc, time::Duration};

use cpu_time::cpu_time;
use scorn::{
    game::{adjudicate::Rules, openings::Book},
    network::{
        Evaluator, cores,
        load::{NetworkConfig, load_backend},
        measure,
        opponent::Networks,
    },
    options::Options,
    search::{Clock, SystemClock},
    selfplay::{
        driver::{self, GamesProgress, Workload},
        plan::{Colors, Contestant, Plan, Starts, Terms},
    },
};

/// A self-play configuration.
struct Row {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    batch: usize,
    parallel: usize,
    games: u64,
    nodes: u64,
    plies: usize,
}

const DENSE: [(&str, &str); 2] = [("Backend", "rten"), ("WeightsFile", "<built in dense>")];

const ROWS: [Row; 4] = [
    Row {
        name: "sparse",
        settings: &[],
        batch: 1,
        parallel: 2,
        games: 16,
        nodes: 800,
        plies: 40,
    },
    Row {
        name: "dense",
        settings: &DENSE,
        batch: 32,
        parallel: 128,
        games: 128,
        nodes: 100,
        plies: 3,
    },
    Row {
        name: "hash",
        settings: &[("Backend", "hash")],
        batch: 1,
        parallel: 2,
        games: 40,
        nodes: 800,
        plies: 60,
    },
    Row {
        name: "hash, 8 at a time",
        settings: &[("Backend", "hash"), ("MinibatchSize", "8")],
        batch: 8,
        parallel: 2,
        games: 40,
        nodes: 800,
        plies: 60,
    },
];

fn main() {
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let threads = cores().min(2);
    println!("{threads} threads; evaluations per second: of wall time, of CPU time");
    println!(
        "{:18} {:>5}  {:>21}  {:>21}  {:>11}",
        "", "batch", "network alone", "self-play", "ratio"
    );
    for row in ROWS {
        if wanted
            .as_ref()
            .is_none_or(|wanted| row.name.starts_with(wanted))
        {
            measure_row(&row, threads);
        }
    }
}

/// A rate by wall time and by CPU time.
#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    per_cpu_second: f64,
}

fn rate(work: impl FnOnce() -> u64) -> Rate {
    let clock = SystemClock::default();
    let (wall, cpu) = (clock.now(), cpu_time());
    let count = work() as f64;
    let per = |time: Duration| count / time.as_secs_f64().max(1e-9);
    Rate {
        per_second: per(clock.now() - wall),
        per_cpu_second: per(cpu_time() - cpu),
    }
}

fn measure_row(row: &Row, threads: usize) {
    let mut options = Options::default();
    options.set("Temperature", "1").expect("it is an option");
    for (name, value) in row.settings {
        options.set(name, value).expect("they are options");
    }
    let evaluator =
        load_backend(&NetworkConfig::from(&options), &|_| {}).expect("the backend is built in");
    let plan = plan(options, &evaluator, row);
    let alone = || {
        rate(|| {
            let time = Duration::from_secs(1);
            let speed = measure::speed(&*evaluator, row.batch, threads, time);
            let speed = speed.expect("it evaluates");
            (speed.evals_per_second * time.as_secs_f64()) as u64
        })
    };
    let before = alone();
    let played = rate(|| play(&plan, row, threads));
    let after = alone();
    let of_both = |of: fn(&Rate) -> f64| f64::midpoint(of(&before), of(&after));
    let [wall, cpu] = [
        of_both(|rate| rate.per_second),
        of_both(|rate| rate.per_cpu_second),
    ];
    println!(
        "{:18} {:>5}  {wall:>10.0} {cpu:>10.0}  {:>10.0} {:>10.0}  {:>3.0} % {:>3.0} %",
        row.name,
        row.batch,
        played.per_second,
        played.per_cpu_second,
        100.0 * played.per_second / wall,
        100.0 * played.per_cpu_second / cpu,
    );
}

fn plan(options: Options, evaluator: &Arc<dyn Evaluator>, row: &Row) -> Plan {
    let networks = Networks::alone(Arc::clone(evaluator));
    let player = Contestant::new("x", options, row.nodes, networks);
    let rules = Rules {
        max_plies: Some(row.plies),
        ..Rules::default()
    };
    let terms = Terms {
        rules,
        ..Terms::default()
    };
    let starts = Starts::book(&Book::standard(), None);
    Plan::new([player.clone(), player], Colors::Both, starts, terms, 1)
}

/// Plays the games; returns their visits, nearly all of which were evaluations.
fn play(plan: &Plan, row: &Row, threads: usize) -> u64 {
    let numbers: Vec<u64> = (0..row.games).collect();
    let load = Workload {
        parallel: row.parallel,
        threads,
        batch: row.batch,
    };
    let progress = GamesProgress::default();
    driver::play(plan, &numbers, load, &progress, |_| Ok(())).expect("nothing can fail");
    progress.positions.into_inner()
}
