//! `scorn tune`: the best backend, threads and batch size on this machine. Where positions are evaluated one by one
//! (`sparse`), the batch size is left to the search (larger batches would be faster there and weaker), and the threads
//! are those of the fastest search: what they wait for is the tree. Backends are compared by searches with the settings
//! that are best for each.

use std::{
    fmt::Arguments,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use super::backendbench::{backend_taken, evaluator_of_search, positive, replaced_by};
use crate::{
    chess::setup,
    config_file::{self, ConfigEntry},
    files::{self, output::NewFile},
    network::{
        Evaluator,
        backend::{automatic, ort::runtime::LIBRARY_OPTION, pool::MAX_SESSIONS},
        cores,
        measure::{Speed, speed},
    },
    options::Options,
    player::Player,
    search::Limits,
    terminal::{self, counted},
};

/// The position in which searches are measured, of the Ruy Lopez.
const MIDDLEGAME: &str =
    "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5a4 g8f6 e1g1 f8e7 f1e1 b7b5 a4b3 d7d6 c2c3 e8g8";

/// Find the fastest Backend, Threads and MinibatchSize for this machine and network.
///
/// Measures all backends that work, or the one that is named by --backend, and prints the settings as lines of a
/// configuration file, with the BackendOptions and network that they were measured with. The backend with the fastest
/// search is taken. A MinibatchSize of 0 leaves the batch size to the search.
#[derive(Clone, Debug, Args)]
pub struct TuneArgs {
    /// Write the result to this configuration file (other lines of it are kept); see --config.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Milliseconds for each measurement.
    #[arg(long, default_value_t = 500, value_parser = positive())]
    pub time: u64,
    /// Print one JSON object per line: one for each measurement, and one with the settings.
    #[arg(long)]
    pub json: bool,
}

/// Runs `scorn tune`.
///
/// # Errors
/// When no backend works, or the file cannot be written.
pub fn run(args: &TuneArgs, options: &Options) -> Result<()> {
    // A file that cannot be written is reported before anything is measured.
    if let Some(path) = args.write.as_deref().filter(|path| path.is_file()) {
        config_file::read(path).context("--write is for a configuration file")?;
    }
    let config = args
        .write
        .as_deref()
        .map(|path| NewFile::create(path, true, &[]));
    let config = config.transpose()?;
    let named = (options.backend != Options::default().backend).then(|| options.backend.clone());
    let taken = backend_taken(options);
    let candidates = match &named {
        Some(name) if *name != taken => vec![name.as_str(), taken.as_str()],
        Some(name) => vec![name.as_str()],
        None => automatic().map(|factory| factory.info().name).collect(),
    };
    let Some((backend, tuned)) = fastest(&candidates, options, args)? else {
        bail!("no backend works with {}", options.weights_file);
    };
    let settings = tuned_settings(backend, tuned, options);
    if args.json {
        print_line!("{}", settings_json(&settings));
    } else {
        print_line!("");
        for line in settings.iter().filter_map(TunedSetting::line) {
            print_line!("{line}");
        }
    }
    if let (Some(path), Some(file)) = (&args.write, config) {
        file.finish_with(new_config(path, &settings)?.as_bytes())?;
        if !args.json {
            print_line!(
                "written to {}; use it with --config (a scorn.config in the program's folder is read automatically)",
                path.display()
            );
        }
    }
    Ok(())
}

/// An option and its value; `None` if it has to have its default.
struct TunedSetting {
    name: &'static str,
    flag: &'static str,
    value: Option<String>,
}

impl TunedSetting {
    fn new(name: &'static str, flag: &'static str, value: Option<String>) -> TunedSetting {
        TunedSetting { name, flag, value }
    }

    /// The line of a configuration file that sets it.
    fn line(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        Some(format!("{}={value}", self.flag))
    }
}

/// The last line of `--json`: the options that are set, by name.
fn settings_json(settings: &[TunedSetting]) -> Value {
    let set = settings.iter().filter(|setting| setting.value.is_some());
    let set: Map<String, Value> = set
        .map(|setting| (setting.name.to_owned(), json!(setting.value)))
        .collect();
    json!({ "settings": set })
}

/// What was measured, and with what: the backend may not work without its options, or be slower. The network and the
/// library are set only if they were given, because others may stand in the file.
fn tuned_settings(backend: &str, tuned: Tuned, options: &Options) -> Vec<TunedSetting> {
    let default = Options::default();
    let given = |value: &str, default: &str| (value != default).then(|| value.to_owned());
    let backend_options = given(&options.backend_options, &default.backend_options);
    let (threads, batch) = (tuned.threads.to_string(), tuned.minibatch_size.to_string());
    let mut settings = vec![
        TunedSetting::new("Backend", "--backend", Some(backend.to_owned())),
        TunedSetting::new("Threads", "--threads", Some(threads)),
        TunedSetting::new("MinibatchSize", "--minibatch-size", Some(batch)),
        TunedSetting::new("BackendOptions", "--backend-opts", backend_options),
    ];
    if let Some(weights) = given(&options.weights_file, &default.weights_file) {
        let path = Some(from_anywhere(&weights));
        settings.push(TunedSetting::new("WeightsFile", "--weights", path));
    }
    if let Some(library) = given(&options.onnx_runtime_path, &default.onnx_runtime_path) {
        let path = Some(from_anywhere(&library));
        settings.push(TunedSetting::new(
            LIBRARY_OPTION,
            "--onnxruntime-path",
            path,
        ));
    }
    settings
}

/// A path that means the same in every folder; what names no file stays.
fn from_anywhere(path: &str) -> String {
    let absolute = std::path::absolute(path).ok();
    let absolute = absolute.filter(|absolute| absolute.exists());
    absolute.map_or(path.to_owned(), |path| path.display().to_string())
}

impl TuneArgs {
    /// Whether nobody reads the measurements any more, and no file is to be written.
    fn is_for_nobody(&self) -> bool {
        self.write.is_none() && terminal::is_unread()
    }
}

/// Measures backends, and prints their speeds; the fastest one with its settings.
fn fastest<'a>(
    candidates: &[&'a str],
    options: &Options,
    args: &TuneArgs,
) -> Result<Option<(&'a str, Tuned)>> {
    let mut options = options.clone();
    let mut best: Option<(&str, Tuned)> = None;
    let mut reason = String::new();
    for &backend in candidates {
        if args.is_for_nobody() {
            break;
        }
        options.backend = backend.into();
        let evaluator = match evaluator_of(&options) {
            Ok(evaluator) => evaluator,
            Err(text) => {
                match text == reason {
                    _ if args.json => print_line!("{}", json!({"backend": backend, "error": text})),
                    true => print_line!("{backend:10} not used, for the same reason"),
                    false => print_line!("{backend:10} not used: {text}"),
                }
                reason = text;
                continue;
            }
        };
        let tuned = tune_one(&evaluator, &options, args)?;
        if best.is_none_or(|(_, best)| tuned.nodes_per_second > best.nodes_per_second) {
            best = Some((backend, tuned));
        }
    }
    Ok(best)
}

/// The evaluator of a search with the backend that is named; otherwise why there is none.
fn evaluator_of(options: &Options) -> Result<Arc<dyn Evaluator>, String> {
    let taken = backend_taken(options);
    if taken == options.backend {
        evaluator_of_search(options).map_err(|error| format!("{error:#}"))
    } else {
        Err(replaced_by(&taken))
    }
}

/// The best settings of a backend.
#[derive(Clone, Copy, Debug)]
struct Tuned {
    /// The options; a batch size of 0 leaves the choice to the search.
    threads: usize,
    minibatch_size: usize,
    /// The speed of a search with them.
    nodes_per_second: f64,
}

fn tune_one(evaluator: &Arc<dyn Evaluator>, options: &Options, args: &TuneArgs) -> Result<Tuned> {
    if evaluator.info().computes_at_once {
        tune_search(evaluator, options, args)
    } else {
        tune_batches(evaluator, options, args)
    }
}

/// The threads with which a search is fastest: more of them would wait for the tree.
fn tune_search(
    evaluator: &Arc<dyn Evaluator>,
    options: &Options,
    args: &TuneArgs,
) -> Result<Tuned> {
    let mut searched = Vec::new();
    for threads in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64] {
        if threads > 1 && (threads > cores() || args.is_for_nobody()) {
            break;
        }
        let tuned = tuned_for(evaluator, options, threads, 0, args)?;
        searched.push((tuned, tuned.nodes_per_second));
    }
    first_of_the_fastest(&searched).context("nothing was measured")
}

/// Prints a measurement: with `--json` as an object, otherwise as text.
fn print_measured(args: &TuneArgs, object: &Value, text: Arguments<'_>) -> Result<()> {
    if args.json {
        print_line!("{object}");
    } else {
        print_line!("{text}");
    }
    Ok(())
}

/// Measures and prints the speed of a search with these settings, which takes four times the time of a measurement.
fn tuned_for(
    evaluator: &Arc<dyn Evaluator>,
    options: &Options,
    threads: usize,
    minibatch_size: usize,
    args: &TuneArgs,
) -> Result<Tuned> {
    let backend = &options.backend;
    let options = Options {
        threads,
        minibatch_size,
        ..options.clone()
    };
    let player = Player::with_evaluator(options, Arc::clone(evaluator));
    let moves = MIDDLEGAME.split(' ').map(str::to_owned);
    let limits = Limits {
        movetime: Some(Duration::from_millis(args.time) * 4),
        ..Limits::default()
    };
    let job = player.job(
        setup::history_from(None, &moves.collect::<Vec<_>>())?,
        limits,
    );
    let started = Instant::now();
    let (outcome, _) = player.search_once(&job)?;
    let taken = started.elapsed().as_secs_f64();
    let nodes_per_second = outcome.report.playouts as f64 / taken.max(1e-3);
    print_measured(
        args,
        &json!({
            "backend": backend,
            "threads": threads,
            "minibatch_size": minibatch_size,
            "nodes_per_second": nodes_per_second.round(),
        }),
        format_args!(
            "{backend:10} {nodes_per_second:8.0} nodes/s in a search with {}",
            counted(threads as u64, "thread")
        ),
    )?;
    Ok(Tuned {
        threads,
        minibatch_size,
        nodes_per_second,
    })
}

/// The batch size with as many threads as the backend advises, then the number of threads with that size.
fn tune_batches(
    evaluator: &Arc<dyn Evaluator>,
    options: &Options,
    args: &TuneArgs,
) -> Result<Tuned> {
    let time = Duration::from_millis(args.time);
    let advised = evaluator.info().advice.threads.min(MAX_SESSIONS);
    let mut sizes = Vec::new();
    for size in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
        let measured = speed(&**evaluator, size, advised, time)?;
        sizes.push(measured);
        if measured.ms_per_batch > 250.0 {
            break;
        }
    }
    let rates = |speeds: &[Speed]| -> Vec<(Speed, f64)> {
        let rate = |speed: &Speed| (*speed, speed.evals_per_second);
        speeds.iter().map(rate).collect()
    };
    let best = first_of_the_fastest(&rates(&sizes)).context("nothing was measured")?;
    // Half as many: two of them may share a processor's core. Twice as many: a GPU may need more than one batch ahead.
    let mut threads = vec![best];
    for count in [advised / 2, (2 * advised).min(MAX_SESSIONS)] {
        if count > 0 {
            threads.push(speed(&**evaluator, best.batch, count, time)?);
        }
    }
    threads.sort_by_key(|speed| speed.threads);
    let Speed {
        evals_per_second,
        threads,
        batch,
        ..
    } = first_of_the_fastest(&rates(&threads)).context("nothing was measured")?;
    let backend = &options.backend;
    print_measured(
        args,
        &json!({
            "backend": backend,
            "threads": threads,
            "batch": batch,
            "evals_per_second": evals_per_second.round(),
        }),
        format_args!(
            "{backend:10} {evals_per_second:8.0} evals/s without a search, with {}, batch {batch}",
            counted(threads as u64, "thread")
        ),
    )?;
    tuned_for(evaluator, options, threads, batch, args)
}

/// The first that reaches 93 % of the highest rate: small batches and few threads make better searches.
fn first_of_the_fastest<T: Copy>(rates: &[(T, f64)]) -> Option<T> {
    let fastest = rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    let mut good = rates.iter();
    let first = good.find(|&&(_, rate)| rate >= 0.93 * fastest);
    first.map(|&(measured, _)| measured)
}

/// The text of a configuration file in which these lines replace all that set the options of these names.
fn new_config(path: &Path, settings: &[TunedSetting]) -> Result<String> {
    let (old, entries) = if path.exists() {
        (files::read_text(path)?, config_file::read(path)?)
    } else {
        (String::new(), Vec::new())
    };
    let replaces = |entry: &ConfigEntry| settings.iter().any(|it| entry.name == it.name);
    let replaced: Vec<usize> = entries
        .iter()
        .filter(|entry| replaces(entry))
        .map(|entry| entry.line)
        .collect();
    let kept = old
        .lines()
        .zip(1..)
        .filter(|(_, number)| !replaced.contains(number))
        .map(|(line, _)| line.to_owned());
    let written = settings.iter().filter_map(TunedSetting::line);
    let new: Vec<String> = kept.chain(written).collect();
    Ok(new.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_smallest_of_nearly_equal_rates_is_taken() {
        let rates = [(1, 500.0), (8, 950.0), (16, 1000.0), (32, 990.0)];
        assert_eq!(first_of_the_fastest(&rates), Some(8));
        assert_eq!(first_of_the_fastest::<u32>(&[]), None);
    }

    #[test]
    fn tuning_replaces_its_own_lines_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scorn.config");
        fs::write(
            &path,
            "# mine\n--threads=9\n--cpuct=2\nThreads = 8\nbackend=cuda\nbackend-opts=gpu=1\n",
        )
        .unwrap();
        let settings = [
            TunedSetting::new("Threads", "--threads", Some("2".into())),
            TunedSetting::new("Backend", "--backend", Some("rten".into())),
            TunedSetting::new("BackendOptions", "--backend-opts", None),
        ];
        let text = new_config(&path, &settings).unwrap();
        assert_eq!(text, "# mine\n--cpuct=2\n--threads=2\n--backend=rten\n");
    }
}
