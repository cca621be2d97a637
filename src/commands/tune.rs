//! `scorn tune`: the best backend, threads and batch size on this machine. Where positions are judged one by one (`sparse`), batches
//! are left to the search, which knows best (larger ones would be faster there and weaker), and the threads are those of the
//! fastest search: what they wait for is the tree.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::backendbench::{evaluator_of_search, positive};
use crate::{
    chess::setup,
    config_file,
    files::{self, output::NewFile},
    network::{
        Evaluator,
        backend::pool::MAX_SESSIONS,
        cores,
        load::BACKENDS,
        measure::{Speed, speed},
    },
    options::Options,
    player::Player,
    search::{Clock, Limits, Silent, StopSignal, SystemClock, Tree},
};

/// What searches are measured on: a position of the Ruy Lopez.
const MIDDLEGAME: &str =
    "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5a4 g8f6 e1g1 f8e7 f1e1 b7b5 a4b3 d7d6 c2c3 e8g8";

/// Measure this machine with this network and print the best Backend (of all, or the one that is named), Threads and
/// MinibatchSize (0: as the search finds best).
#[derive(Clone, Debug, Args)]
pub struct TuneArgs {
    /// Write the result to this configuration file (other lines of it are kept); see --config.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Milliseconds for each measurement.
    #[arg(long, default_value_t = 500, value_parser = positive())]
    pub time: u64,
}

/// Runs `scorn tune`.
///
/// # Errors
/// When no backend works, or the file cannot be written.
pub fn tune(args: &TuneArgs, options: &Options) -> Result<()> {
    // What cannot be written is said before anything is measured.
    if let Some(path) = args.write.as_deref().filter(|path| path.is_file()) {
        config_file::read(path).context("--write is for a configuration file")?;
    }
    let config = args
        .write
        .as_deref()
        .map(|path| NewFile::create(path, true, &[]));
    let config = config.transpose()?;
    let mut options = options.clone();
    let time = Duration::from_millis(args.time);
    let named = (options.backend != Options::default().backend).then(|| options.backend.clone());
    let candidates = match &named {
        Some(name) => vec![name.as_str()],
        None => BACKENDS.to_vec(),
    };
    let mut best: Option<(&str, Tuned)> = None;
    let mut reason = String::new();
    for backend in candidates {
        options.backend = backend.into();
        let evaluator = match evaluator_of_search(&options) {
            Ok(evaluator) => evaluator,
            Err(error) => {
                let text = format!("{error:#}");
                match text == reason {
                    true => print_line!("{backend:10} not used, for the same reason"),
                    false => print_line!("{backend:10} not used: {text}"),
                }
                reason = text;
                continue;
            }
        };
        let tuned = tune_one(&evaluator, &options, time)?;
        let Speed {
            evals_per_second,
            threads,
            batch,
            ..
        } = tuned.speed;
        print_line!(
            "{backend:10} {evals_per_second:8.0} evals/s with {threads} thread(s), batch {batch}"
        );
        if best.is_none_or(|(_, best)| evals_per_second > best.speed.evals_per_second) {
            best = Some((backend, tuned));
        }
    }
    let Some((backend, tuned)) = best else {
        bail!("no backend works with {}", options.weights_file);
    };
    let lines = [
        format!("--backend={backend}"),
        format!("--threads={}", tuned.threads),
        format!("--minibatch-size={}", tuned.minibatch_size),
    ];
    print_line!("\n{}", lines.join("\n"));
    if let (Some(path), Some(file)) = (&args.write, config) {
        file.finish_with(new_config(path, &lines)?.as_bytes())?;
        print_line!("written to {}", path.display());
    }
    Ok(())
}

/// How a backend is used best.
#[derive(Clone, Copy, Debug)]
struct Tuned {
    /// How fast it is then.
    speed: Speed,
    /// The options; 0: as the search finds best.
    threads: usize,
    minibatch_size: usize,
}

fn tune_one(evaluator: &Arc<dyn Evaluator>, options: &Options, time: Duration) -> Result<Tuned> {
    match evaluator.info().computes_at_once {
        true => tune_search(evaluator, options, time),
        false => tune_batches(&**evaluator, time),
    }
}

/// The threads with which a search is fastest: the tree lets only so many work at a time.
fn tune_search(evaluator: &Arc<dyn Evaluator>, options: &Options, time: Duration) -> Result<Tuned> {
    let mut searched = Vec::new();
    for threads in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64] {
        if threads > cores() && threads > 1 {
            break;
        }
        let nodes = nodes_per_second(evaluator, options, threads, time)?;
        let backend = &options.backend;
        print_line!("{backend:10} {nodes:8.0} nodes/s in a search with {threads} thread(s)");
        searched.push((threads, nodes));
    }
    Ok(Tuned {
        speed: speed(&**evaluator, 1, cores(), time)?,
        threads: least_of_the_fast(&searched).context("nothing was measured")?,
        minibatch_size: 0,
    })
}

/// Nodes a second of a search of so many threads, which takes four times the `time`.
fn nodes_per_second(
    evaluator: &Arc<dyn Evaluator>,
    options: &Options,
    threads: usize,
    time: Duration,
) -> Result<f64> {
    let options = Options {
        threads,
        ..options.clone()
    };
    let player = Player::with_evaluator(options, Arc::clone(evaluator));
    let moves = MIDDLEGAME.split(' ').map(str::to_owned);
    let limits = Limits {
        movetime: Some(4 * time),
        ..Limits::default()
    };
    let job = player.job(
        setup::history_from(None, &moves.collect::<Vec<_>>())?,
        limits,
    );
    let (clock, stop) = (SystemClock::default(), StopSignal::default());
    let started = clock.now();
    let outcome = player.search(&mut Tree::default(), &job, &stop, &clock, &mut Silent)?;
    let taken = (clock.now() - started).as_secs_f64();
    Ok(outcome.report.playouts as f64 / taken.max(1e-3))
}

/// The batch size with as many threads as the device is thought to want, then the number of threads with that size.
fn tune_batches(evaluator: &dyn Evaluator, time: Duration) -> Result<Tuned> {
    let advised = evaluator.info().advice.threads.min(MAX_SESSIONS);
    let mut sizes = Vec::new();
    for size in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
        let measured = speed(evaluator, size, advised, time)?;
        sizes.push(measured);
        if measured.ms_per_batch > 250.0 {
            break;
        }
    }
    let rates = |speeds: &[Speed]| -> Vec<(Speed, f64)> {
        let rate = |speed: &Speed| (*speed, speed.evals_per_second);
        speeds.iter().map(rate).collect()
    };
    let best = least_of_the_fast(&rates(&sizes)).context("nothing was measured")?;
    // Half as many: two of them may share a processor's core. Twice as many: a GPU may want more than one batch ahead.
    let mut threads = vec![best];
    for count in [advised / 2, (2 * advised).min(MAX_SESSIONS)] {
        if count > 0 {
            threads.push(speed(evaluator, best.batch, count, time)?);
        }
    }
    threads.sort_by_key(|speed| speed.threads);
    let speed = least_of_the_fast(&rates(&threads)).context("nothing was measured")?;
    Ok(Tuned {
        speed,
        threads: speed.threads,
        minibatch_size: speed.batch,
    })
}

/// The first whose rate is nearly the highest: small batches and few threads make better searches.
fn least_of_the_fast<T: Copy>(rates: &[(T, f64)]) -> Option<T> {
    let fastest = rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    let mut good = rates.iter();
    let first = good.find(|&&(_, rate)| rate >= 0.93 * fastest);
    first.map(|&(measured, _)| measured)
}

/// A file of options with these lines in the place of those of the same flags, and all others that it has.
fn new_config(path: &Path, lines: &[String]) -> Result<String> {
    let old = match path.exists() {
        true => files::read_text(path)?,
        false => String::new(),
    };
    let flag = |line: &str| line.split('=').next().unwrap_or("").trim().to_owned();
    let replaced: Vec<String> = lines.iter().map(|line| flag(line)).collect();
    let kept = old.lines().filter(|line| !replaced.contains(&flag(line)));
    let new: Vec<&str> = kept.chain(lines.iter().map(String::as_str)).collect();
    Ok(new.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn less_is_better_if_it_is_as_fast() {
        let rates = [(1, 500.0), (8, 950.0), (16, 1000.0), (32, 990.0)];
        assert_eq!(least_of_the_fast(&rates), Some(8));
        assert_eq!(least_of_the_fast::<u32>(&[]), None);
    }

    #[test]
    fn tuning_replaces_its_own_lines_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scorn.config");
        fs::write(&path, "# mine\n--threads=9\n--cpuct=2\n").unwrap();
        let text = new_config(&path, &["--threads=2".into(), "--backend=rten".into()]).unwrap();
        assert_eq!(text, "# mine\n--cpuct=2\n--threads=2\n--backend=rten\n");
    }
}
