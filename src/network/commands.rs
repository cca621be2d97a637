//! The commands about networks and hardware: `scorn runtime`, `scorn backendbench`, `scorn tune`.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use shakmaty::Color;

use super::{
    Evaluator,
    measure::{Speed, speed},
    nvidia::has_provider,
    onnx::{OPENVINO_EP, devices},
    opponent::Networks,
    registry::{BACKENDS, MAX_SESSIONS, NetworkConfig, cores, load_uncached},
    runtime::{
        GPU_INSTALL_COMMAND, INSTALL_COMMAND, LIBRARY_VARIABLE, OPENVINO_INSTALL_COMMAND, Runtime,
        RuntimeError, usual_places,
    },
};
use crate::options::Options;

/// Measure how fast each backend evaluates the network.
///
/// This is the speed without a search. Backend, network and precision are taken from the usual options, for example:
/// scorn backendbench --weights maia-1900.pb.gz --backend onnx-cpu
#[derive(Clone, Debug, Args)]
pub struct BackendbenchArgs {
    /// Batch sizes.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256,512,1024", value_parser = positive())]
    pub sizes: Vec<u64>,
    /// Numbers of threads that evaluate at the same time [default: 1 and all processors]
    #[arg(long, value_delimiter = ',', value_parser = positive())]
    pub bench_threads: Vec<u64>,
    /// Measure every backend that works here, not only the one of the Backend option.
    #[arg(long)]
    pub all: bool,
    /// Milliseconds for each measurement.
    #[arg(long, default_value_t = 1000, value_parser = positive())]
    pub time: u64,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

fn positive() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=100_000)
}

/// Show which runtime libraries and devices were found, which backend `auto` takes, and how to install what is missing.
#[derive(Clone, Debug, Args)]
pub struct RuntimeArgs {
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Measure this machine with this network and print the best Backend, Threads and MinibatchSize.
#[derive(Clone, Debug, Args)]
pub struct TuneArgs {
    /// Write the result to this configuration file (other lines of it are kept); see --config.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Milliseconds for each measurement.
    #[arg(long, default_value_t = 500, value_parser = positive())]
    pub time: u64,
}

/// Runs `scorn backendbench`.
///
/// # Errors
/// When the backend or the network does not work.
pub fn backendbench(args: &BackendbenchArgs, options: &Options) -> Result<()> {
    let mut options = options.clone();
    let backends: Vec<String> = match args.all {
        true => BACKENDS.iter().map(ToString::to_string).collect(),
        false => vec![options.backend.clone()],
    };
    let mut measured = 0;
    for backend in backends {
        options.backend = backend;
        match evaluator_of_search(&options) {
            Ok(evaluator) => {
                bench_one(args, &options.backend, &*evaluator)?;
                measured += 1;
            }
            Err(error) if args.all => eprintln!("{}: {error:#}", options.backend),
            Err(error) => return Err(error),
        }
    }
    if measured == 0 {
        bail!("no backend works with {}", options.weights_file);
    }
    Ok(())
}

/// What a search for White would use, without caches: with OpponentWeights, both networks.
fn evaluator_of_search(options: &Options) -> Result<Arc<dyn Evaluator>> {
    let load = |role| load_uncached(&NetworkConfig::of(options, role));
    let networks = Networks::load(options, load)?;
    Ok(networks.against(options, Some(Color::White)))
}

fn bench_one(args: &BackendbenchArgs, backend: &str, evaluator: &dyn Evaluator) -> Result<()> {
    if !args.json {
        say!("{}", evaluator.describe());
        say!("threads  batch    evals/s   ms/batch");
    }
    for threads in thread_counts(&args.bench_threads) {
        for &size in &args.sizes {
            let time = Duration::from_millis(args.time);
            let speed = speed(evaluator, size as usize, threads, time)?;
            if args.json {
                let line = json!({
                    "backend": backend,
                    "description": evaluator.describe(),
                    "threads": speed.threads,
                    "batch": speed.batch,
                    "evals_per_second": speed.evals_per_second,
                    "ms_per_batch": speed.ms_per_batch,
                });
                say!("{line}");
            } else {
                say!(
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

fn thread_counts(asked: &[u64]) -> Vec<usize> {
    let mut counts: Vec<usize> = asked.iter().map(|&count| count as usize).collect();
    if counts.is_empty() {
        counts = vec![1, cores()];
        counts.dedup();
    }
    counts
}

/// Runs `scorn runtime`.
///
/// # Errors
/// When nobody reads the answer; what is missing is part of it.
pub fn runtime(args: &RuntimeArgs, options: &Options) -> Result<()> {
    let runtime = Runtime::open(&options.onnx_runtime_path);
    let states = try_backends(options);
    let works = states.iter().find(|(_, state)| state.is_ok());
    let automatic = match works {
        Some((_, state)) => state.clone().unwrap_or_default(),
        None => format!("none: no backend works with {}", options.weights_file),
    };
    let devices = runtime.as_ref().map(device_lines).unwrap_or_default();
    if args.json {
        return print_report(&runtime, &states, &devices, &automatic);
    }
    match &runtime {
        Ok(runtime) => {
            let library = runtime.library().display();
            say!("ONNX Runtime   {} at {library}", runtime.version());
        }
        Err(error) => {
            say!("ONNX Runtime   not usable: {error}");
            let places = usual_places();
            let places: Vec<_> = places
                .iter()
                .map(|place| place.display().to_string())
                .collect();
            say!(
                "               (OnnxRuntimePath, {LIBRARY_VARIABLE}, {})",
                places.join(", ")
            );
        }
    }
    for device in devices {
        say!("device         {device}");
    }
    // Without the library the reason is the same for all backends that need it, and was just given.
    let told = states
        .iter()
        .filter(|(name, _)| runtime.is_ok() || *name == "rten");
    for (name, state) in told {
        match state {
            Ok(_) => say!("{name:14} works"),
            Err(reason) => say!("{name:14} does not work: {reason}"),
        }
    }
    say!("auto takes     {automatic}");
    print_missing(runtime.as_ref().ok(), &states)
}

/// A backend, and its description or why it does not work.
type State = (&'static str, Result<String, String>);

/// Loads the network with each backend, in the order of `auto`: the only way to know what works.
fn try_backends(options: &Options) -> Vec<State> {
    let states = BACKENDS.map(|name| {
        let config = NetworkConfig {
            backend: name.into(),
            threads: 1,
            ..NetworkConfig::from(options)
        };
        let state = load_uncached(&config);
        let state = state.map(|evaluator| evaluator.describe());
        (name, state.map_err(|error| error.reason()))
    });
    states.into()
}

fn print_report(
    runtime: &Result<Runtime, RuntimeError>,
    states: &[State],
    devices: &[String],
    automatic: &str,
) -> Result<()> {
    let backend = |(name, state): &State| {
        let (works, text) = match state {
            Ok(description) => (true, description),
            Err(reason) => (false, reason),
        };
        (name.to_string(), json!({ "works": works, "text": text }))
    };
    let library = runtime.as_ref().ok();
    let report = json!({
        "library": library.map(|runtime| runtime.library().display().to_string()),
        "version": library.map(Runtime::version),
        "error": runtime.as_ref().err().map(ToString::to_string),
        "devices": devices,
        "backends": states.iter().map(backend).collect::<serde_json::Map<_, _>>(),
        "auto": automatic,
    });
    say!("{report:#}");
    Ok(())
}

fn device_lines(runtime: &Runtime) -> Vec<String> {
    let all = ["CPUExecutionProvider", OPENVINO_EP, "CUDAExecutionProvider"];
    let lines = all.into_iter().flat_map(|provider| {
        devices(runtime, provider, None)
            .into_iter()
            .map(move |device| {
                let hardware = device.hardware_device();
                format!(
                    "{provider}: {} {:?}",
                    hardware.vendor().unwrap_or("unknown"),
                    hardware.ty()
                )
            })
    });
    lines.collect()
}

fn print_missing(runtime: Option<&Runtime>, states: &[State]) -> Result<()> {
    let cuda = runtime.is_some_and(|runtime| has_provider(runtime, "cuda"));
    let openvino = states
        .iter()
        .any(|(name, state)| *name == "openvino" && state.is_ok());
    say!();
    for (there, what, command) in [
        (runtime.is_some(), "for speed on any CPU", INSTALL_COMMAND),
        (
            openvino,
            "for more on Intel and AMD CPUs",
            OPENVINO_INSTALL_COMMAND,
        ),
        (cuda, "for NVIDIA GPUs", GPU_INSTALL_COMMAND),
    ] {
        if !there {
            say!("{what:31} {command}");
        }
    }
    Ok(())
}

/// Runs `scorn tune`.
///
/// # Errors
/// When no backend works, or the file cannot be written.
pub fn tune(args: &TuneArgs, options: &Options) -> Result<()> {
    let mut options = options.clone();
    let time = Duration::from_millis(args.time);
    let mut best: Option<(&str, Speed)> = None;
    for backend in BACKENDS {
        options.backend = backend.into();
        let evaluator = match evaluator_of_search(&options) {
            Ok(evaluator) => evaluator,
            Err(error) => {
                say!("{backend:10} not used: {error:#}");
                continue;
            }
        };
        let candidate = tune_one(&*evaluator, time)?;
        say!(
            "{backend:10} {:8.0} evals/s with {} thread(s), batch {}",
            candidate.evals_per_second,
            candidate.threads,
            candidate.batch
        );
        if best.is_none_or(|(_, speed)| candidate.evals_per_second > speed.evals_per_second) {
            best = Some((backend, candidate));
        }
    }
    let Some((backend, speed)) = best else {
        bail!("no backend works with {}", options.weights_file);
    };
    let lines = [
        format!("--backend={backend}"),
        format!("--threads={}", speed.threads),
        format!("--minibatch-size={}", speed.batch),
    ];
    if let Some(path) = &args.write {
        write_config(path, &lines)?;
    }
    say!("\n{}", lines.join("\n"));
    if let Some(path) = &args.write {
        say!("written to {}", path.display());
    }
    Ok(())
}

/// The batch size with as many threads as the device is thought to want, then the number of threads with that size.
fn tune_one(evaluator: &dyn Evaluator, time: Duration) -> Result<Speed> {
    let advised = evaluator.advice().threads.min(MAX_SESSIONS);
    let mut sizes = Vec::new();
    for size in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
        let measured = speed(evaluator, size, advised, time)?;
        sizes.push(measured);
        if measured.ms_per_batch > 250.0 {
            break;
        }
    }
    let best = least_of_the_fast(&sizes).context("nothing was measured")?;
    // Half as many: two of them may share a processor's core. Twice as many: a GPU may want more than one batch ahead.
    let mut threads = vec![best];
    for count in [advised / 2, (2 * advised).min(MAX_SESSIONS)] {
        if count > 0 {
            threads.push(speed(evaluator, best.batch, count, time)?);
        }
    }
    threads.sort_by_key(|speed| speed.threads);
    least_of_the_fast(&threads).context("nothing was measured")
}

/// The first that is nearly as fast as the fastest: small batches and few threads make better searches.
fn least_of_the_fast(speeds: &[Speed]) -> Option<Speed> {
    let rates = speeds.iter().map(|speed| speed.evals_per_second);
    let fastest = rates.fold(0.0, f64::max);
    let mut good = speeds.iter();
    good.find(|speed| speed.evals_per_second >= 0.93 * fastest)
        .copied()
}

/// Replaces the lines of these flags, and keeps all others.
fn write_config(path: &PathBuf, lines: &[String]) -> Result<()> {
    let old = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let flag = |line: &str| line.split('=').next().unwrap_or("").trim().to_owned();
    let replaced: Vec<String> = lines.iter().map(|line| flag(line)).collect();
    let kept = old.lines().filter(|line| !replaced.contains(&flag(line)));
    let new: Vec<&str> = kept.chain(lines.iter().map(String::as_str)).collect();
    fs::write(path, new.join("\n") + "\n")
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_better_if_it_is_as_fast() {
        let speeds = [(1, 500.0), (8, 950.0), (16, 1000.0), (32, 990.0)];
        let speeds = speeds.map(|(batch, evals_per_second)| Speed {
            threads: 1,
            batch,
            evals_per_second,
            ms_per_batch: 1.0,
        });
        assert_eq!(least_of_the_fast(&speeds).map(|speed| speed.batch), Some(8));
        assert_eq!(least_of_the_fast(&[]), None);
    }

    #[test]
    fn tuning_replaces_its_own_lines_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scorn.config");
        fs::write(&path, "# mine\n--threads=9\n--cpuct=2\n").unwrap();
        write_config(&path, &["--threads=2".into(), "--backend=rten".into()]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "# mine\n--cpuct=2\n--threads=2\n--backend=rten\n");
    }
}
