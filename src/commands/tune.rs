//! `scorn tune`: the best backend, threads and batch size on this machine. Where positions are judged one by one (`sparse`), threads
//! and batches are left to the search, which knows best: larger batches would be faster there and weaker.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::backendbench::{evaluator_of_search, positive};
use crate::{
    config_file,
    files::{self, output::NewFile},
    network::{
        Evaluator,
        backend::pool::MAX_SESSIONS,
        load::BACKENDS,
        measure::{Speed, speed},
    },
    options::Options,
};

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
                    true => say!("{backend:10} not used, for the same reason"),
                    false => say!("{backend:10} not used: {text}"),
                }
                reason = text;
                continue;
            }
        };
        let tuned = tune_one(&*evaluator, time)?;
        let Speed {
            evals_per_second,
            threads,
            batch,
            ..
        } = tuned.speed;
        say!("{backend:10} {evals_per_second:8.0} evals/s with {threads} thread(s), batch {batch}");
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
    say!("\n{}", lines.join("\n"));
    if let (Some(path), Some(mut file)) = (&args.write, config) {
        let text = new_config(path, &lines)?;
        let written = file.write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        file.finish()?;
        say!("written to {}", path.display());
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

/// The batch size with as many threads as the device is thought to want, then the number of threads with that size.
fn tune_one(evaluator: &dyn Evaluator, time: Duration) -> Result<Tuned> {
    let advised = evaluator.advice().threads.min(MAX_SESSIONS);
    if evaluator.immediate().is_some() {
        return Ok(Tuned {
            speed: speed(evaluator, 1, advised, time)?,
            threads: 0,
            minibatch_size: 0,
        });
    }
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
    let speed = least_of_the_fast(&threads).context("nothing was measured")?;
    Ok(Tuned {
        speed,
        threads: speed.threads,
        minibatch_size: speed.batch,
    })
}

/// The first that is nearly as fast as the fastest: small batches and few threads make better searches.
fn least_of_the_fast(speeds: &[Speed]) -> Option<Speed> {
    let rates = speeds.iter().map(|speed| speed.evals_per_second);
    let fastest = rates.fold(0.0, f64::max);
    let mut good = speeds.iter();
    good.find(|speed| speed.evals_per_second >= 0.93 * fastest)
        .copied()
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
        let text = new_config(&path, &["--threads=2".into(), "--backend=rten".into()]).unwrap();
        assert_eq!(text, "# mine\n--cpuct=2\n--threads=2\n--backend=rten\n");
    }
}
