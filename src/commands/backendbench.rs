//! `scorn backendbench`: the speed of backends without a search.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use shakmaty::Color;

use crate::{
    network::{
        Evaluator,
        backend::automatic,
        compose::role::Role,
        cores,
        load::{NetworkConfig, load_backend},
        measure::{mixed_speed, speed},
        opponent::Networks,
    },
    options::Options,
    terminal::{self, eprint_line},
};

/// Measure how fast each backend evaluates the network.
///
/// This is the speed without a search. Backend, network and precision are taken from the usual options, for example:
/// scorn backendbench --weights maia-1900.pb.gz --backend onnx-cpu
#[derive(Clone, Debug, Args)]
pub struct BackendbenchArgs {
    /// Batch sizes.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256,512,1024", value_parser = positive())]
    pub sizes: Vec<u64>,
    /// Numbers of threads that evaluate at the same time [default: 1 and all processors].
    #[arg(long, value_delimiter = ',', value_parser = positive())]
    pub bench_threads: Vec<u64>,
    /// Measure every backend that works here, not only the one of the Backend option.
    #[arg(long)]
    pub all: bool,
    /// Milliseconds for each measurement.
    #[arg(long, default_value_t = 1000, value_parser = positive())]
    pub time: u64,
    /// Vary the batch size as a search does, up to the given size.
    #[arg(long)]
    pub mixed: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

/// A number from 1 to 100000.
pub(super) fn positive() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=100_000)
}

/// Runs `scorn backendbench`.
///
/// # Errors
/// When the backend or the network does not work.
pub fn run(args: &BackendbenchArgs, options: &Options) -> Result<()> {
    let mut options = options.clone();
    let backends: Vec<String> = if args.all {
        automatic()
            .map(|factory| factory.info().name.to_owned())
            .collect()
    } else {
        vec![options.backend.clone()]
    };
    let mut measured = 0;
    for backend in backends {
        options.backend = backend;
        let taken = backend_taken(&options);
        if args.all && taken != options.backend {
            let reason = replaced_by(&taken);
            eprint_line(format_args!("{}: {reason}", options.backend));
            continue;
        }
        match evaluator_of_search(&options) {
            Ok(evaluator) => {
                bench_one(args, &taken, &*evaluator)?;
                measured += 1;
            }
            Err(error) if args.all => eprint_line(format_args!("{}: {error:#}", options.backend)),
            Err(error) => return Err(error),
        }
    }
    if measured == 0 {
        bail!("no backend works with {}", options.weights_file);
    }
    Ok(())
}

/// The backend that runs the main network: some networks have one that takes the place of any other.
pub(super) fn backend_taken(options: &Options) -> String {
    NetworkConfig::of(options, Role::Main).backend
}

/// Why a backend is not measured, if this one takes its place.
pub(super) fn replaced_by(taken: &str) -> String {
    format!("the network runs on {taken}, whatever Backend names")
}

/// The evaluator of a search for White, without caches: with OpponentWeights, both networks.
pub(super) fn evaluator_of_search(options: &Options) -> Result<Arc<dyn Evaluator>> {
    let uncached = Options {
        nn_cache_size: 0,
        ..options.clone()
    };
    let load = |role| load_backend(&NetworkConfig::of(options, role), &|text| eprint_line(text));
    let networks = Networks::load(&uncached, load)?;
    Ok(networks.against(options, Some(Color::White)))
}

fn bench_one(args: &BackendbenchArgs, backend: &str, evaluator: &dyn Evaluator) -> Result<()> {
    if !args.json {
        print_line!("{}", evaluator.info().description);
        print_line!("threads  batch    evals/s   ms/batch");
    }
    for threads in thread_counts(&args.bench_threads) {
        for &size in &args.sizes {
            if terminal::is_unread() {
                return Ok(());
            }
            let time = Duration::from_millis(args.time);
            let measure = if args.mixed { mixed_speed } else { speed };
            let speed = measure(evaluator, size as usize, threads, time)?;
            if args.json {
                let line = json!({
                    "backend": backend,
                    "description": evaluator.info().description,
                    "threads": speed.threads,
                    "batch": speed.batch,
                    "mixed": args.mixed,
                    "evals_per_second": speed.evals_per_second,
                    "ms_per_batch": speed.ms_per_batch,
                });
                print_line!("{line}");
            } else {
                print_line!(
                    "{:7} {:6} {:10.0} {:10.2}",
                    speed.threads,
                    speed.batch,
                    speed.evals_per_second,
                    speed.ms_per_batch
                );
            }
        }
    }
    Ok(())
}

fn thread_counts(requested: &[u64]) -> Vec<usize> {
    let mut counts: Vec<usize> = requested.iter().map(|&count| count as usize).collect();
    if counts.is_empty() {
        counts = vec![1, cores()];
        counts.dedup();
    }
    counts
}
