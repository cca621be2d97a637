//! The commands about networks and hardware: `scorn runtime`, `scorn backendbench`, `scorn tune`.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use shakmaty::Color;

use super::{
    Evaluator,
    measure::{Speed, speed},
    onnx::{OPENVINO_EP, devices},
    opponent::Networks,
    registry::{BACKENDS, NetworkConfig, cores, load_uncached},
    runtime::{INSTALL_COMMAND, LIBRARY_VARIABLE, OPENVINO_INSTALL_COMMAND, Runtime, usual_places},
    targets::has_provider,
};
use crate::options::Options;

/// The command for NVIDIA GPUs.
const GPU_INSTALL_COMMAND: &str =
    "python3 -m pip install --target runtime 'onnxruntime-gpu[cuda,cudnn]'";

/// Measure how fast each backend evaluates the network.
///
/// This is the speed without a search. Backend, network and precision are taken from the usual options, for example:
/// scorn backendbench --weights maia-1900.pb.gz --backend onnx-cpu
#[derive(Clone, Debug, Args)]
pub struct BackendbenchArgs {
    /// Batch sizes.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256", value_parser = positive())]
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
        println!("{}", evaluator.describe());
        println!("threads  batch    evals/s   ms/batch");
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
                println!("{line}");
            } else {
                println!(
                    "{:7} {:6} {:10.0} {:10.2}",
                    speed.threads, speed.batch, speed.evals_per_second, speed.ms_per_batch
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
/// Never; what is missing is the answer.
pub fn runtime(args: &RuntimeArgs, options: &Options) -> Result<()> {
    let runtime = Runtime::open(&options.onnx_runtime_path);
    let openvino = runtime
        .as_ref()
        .map_err(ToString::to_string)
        .and_then(|runtime| {
            runtime.register_openvino()?;
            Ok(runtime.openvino_plugin())
        });
    let config = NetworkConfig {
        backend: "auto".into(),
        ..NetworkConfig::from(options)
    };
    let automatic = match load_uncached(&config) {
        Ok(evaluator) => evaluator.describe(),
        Err(error) => format!("none: {error}"),
    };
    let devices = runtime.as_ref().map(device_lines).unwrap_or_default();
    if args.json {
        let library = runtime
            .as_ref()
            .ok()
            .map(|runtime| runtime.library().display().to_string());
        let version = runtime.as_ref().ok().map(Runtime::version);
        let provider = |name| {
            runtime
                .as_ref()
                .is_ok_and(|runtime| has_provider(runtime, name))
        };
        let report = json!({
            "library": library,
            "version": version,
            "error": runtime.as_ref().err().map(ToString::to_string),
            "openvino": openvino.is_ok(),
            "cuda": provider("cuda"),
            "tensorrt": provider("tensorrt"),
            "devices": devices,
            "auto": automatic,
        });
        println!("{report:#}");
        return Ok(());
    }
    match &runtime {
        Ok(runtime) => print_found(runtime, openvino.as_ref().map(|_| ()), &devices),
        Err(error) => {
            println!("ONNX Runtime   not usable: {error}");
            let places = usual_places();
            let places: Vec<_> = places
                .iter()
                .map(|place| place.display().to_string())
                .collect();
            println!(
                "               (OnnxRuntimePath, {LIBRARY_VARIABLE}, {})",
                places.join(", ")
            );
        }
    }
    println!("rten           always there");
    println!("auto takes     {automatic}");
    print_missing(&runtime.ok(), openvino.is_ok());
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

fn print_found(runtime: &Runtime, openvino: Result<(), &String>, devices: &[String]) {
    println!(
        "ONNX Runtime   {} at {}",
        runtime.version(),
        runtime.library().display()
    );
    match openvino {
        Ok(()) => println!("OpenVINO       found"),
        Err(reason) => println!("OpenVINO       {reason}"),
    }
    for (name, provider) in [("CUDA", "cuda"), ("TensorRT", "tensorrt")] {
        let there = if has_provider(runtime, provider) {
            "found"
        } else {
            "not in this build of the library"
        };
        println!("{name:14} {there}");
    }
    for device in devices {
        println!("device         {device}");
    }
}

fn print_missing(runtime: &Option<Runtime>, openvino: bool) {
    let cuda = runtime
        .as_ref()
        .is_some_and(|runtime| has_provider(runtime, "cuda"));
    println!();
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
            println!("{what:31} {command}");
        }
    }
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
                println!("{backend:10} not used: {error:#}");
                continue;
            }
        };
        let candidate = tune_one(&*evaluator, time)?;
        println!(
            "{backend:10} {:8.0} evals/s with {} thread(s), batch {}",
            candidate.evals_per_second, candidate.threads, candidate.batch
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
    println!("\n{}", lines.join("\n"));
    match &args.write {
        Some(path) => write_config(path, &lines),
        None => Ok(()),
    }
}

/// The smallest batch that is nearly as fast as the fastest: small batches make better searches. Threads are as many as
/// the device wants.
fn tune_one(evaluator: &dyn Evaluator, time: Duration) -> Result<Speed> {
    let advice = evaluator.advice();
    let mut speeds = Vec::new();
    for size in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
        let measured = speed(evaluator, size, advice.threads, time)?;
        speeds.push(measured);
        if measured.ms_per_batch > 250.0 {
            break;
        }
    }
    let fastest = speeds
        .iter()
        .map(|speed| speed.evals_per_second)
        .fold(0.0, f64::max);
    let good = speeds
        .into_iter()
        .find(|speed| speed.evals_per_second >= 0.93 * fastest);
    good.context("nothing was measured")
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
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("written to {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
