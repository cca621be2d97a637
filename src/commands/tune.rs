//! `scorn tune`: the best backend, threads and batch size on this machine.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::backendbench::{evaluator_of_search, positive};
use crate::{
    files::{self, output::NewFile},
    network::{
        Evaluator,
        backend::pool::MAX_SESSIONS,
        load::BACKENDS,
        measure::{Speed, speed},
    },
    options::Options,
};

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

/// Runs `scorn tune`.
///
/// # Errors
/// When no backend works, or the file cannot be written.
pub fn tune(args: &TuneArgs, options: &Options) -> Result<()> {
    // What cannot be written is said before anything is measured.
    let config = args
        .write
        .as_deref()
        .map(|path| NewFile::create(path, true, &[]));
    let config = config.transpose()?;
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
