//! Training: from record files to the weights of a sparse network, on a CPU.
//!
//! A step draws a batch ([`data`]), divides it into chunks that the threads process in turn ([`step`]: outputs, losses,
//! gradients), and updates the weights ([`adam`]). The learning rate is constant after a warm-up, so a run can be
//! extended at will. A decay run is a copy of a run whose rate falls to zero; it yields the best network. A run can be
//! stopped at any time and continues from its last checkpoint, which is replaced atomically. With one thread, the same
//! seed and files give the same network bit by bit; with several threads, the order in which gradients are added
//! differs from run to run.

pub mod adam;
pub mod batches;
pub mod checkpoint;
pub mod data;
pub mod dense;
pub mod measure;
mod past;
pub mod start;
pub mod step;
pub mod targets;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use self::adam::{AdamWStep, Moments};
use self::checkpoint::{Checkpoint, TrainingProgress};
use self::data::{BatchSampler, GamesFile, Mixture, MixtureSettings, TestSet};
use self::measure::{FloatNetwork, Integers, Measures};
use self::start::{Sizes, random_start};
use self::step::{Chunk, Losses, Scales, ValueLoss, Workspace};
use self::targets::ResultShare;
use crate::files::output::{is_same_place, open_to_continue, remove, remove_partial};
use crate::sparse::file;
use crate::sparse::infer::{self, Scratch};
use crate::sparse::network::{Sections, Shape};
use crate::sparse::simd::Level;
use crate::threads;

/// Steps between two updates of the averaged weights.
const AVERAGE_EVERY: u64 = 8;
/// Horizon of the average: this share of the steps so far, at most `AVERAGE_MOST` steps.
const AVERAGE_SHARE: f64 = 0.1;
const AVERAGE_MOST: f64 = 2000.0;
/// Positions that a thread processes at a time, as long as the threads can share a batch.
pub const CHUNK: usize = 512;
/// File name of a run's checkpoint in its folder.
const CHECKPOINT: &str = "checkpoint";
/// The name of a run's log in its folder; whoever has locked it trains there.
const LOG: &str = "log.txt";

/// Settings of a training run.
#[derive(Clone, Debug)]
pub struct TrainingSettings {
    /// Folder of the checkpoint and the log.
    pub folder: PathBuf,
    /// The training data. Its seed also initialises random weights.
    pub mixture: MixtureSettings,
    /// Files whose positions the network is tested on (see [`data::test_set`]).
    pub test: Vec<GamesFile>,
    /// Number of test positions of each of these files.
    pub test_positions: usize,
    /// Sizes of the network; those that are not given are the checkpoint's, or the defaults.
    pub sizes: Sizes,
    /// Positions per step.
    pub batch: usize,
    /// Positions that a thread processes at a time.
    pub chunk: usize,
    /// Learning rate.
    pub rate: f64,
    /// Steps over which the learning rate rises from 0.
    pub warmup: u64,
    /// Decoupled weight decay, multiplied by the learning rate.
    pub weight_decay: f64,
    /// Step at which the run ends.
    pub steps: u64,
    /// Minutes after which the run ends (counted from the start of the decay, if it is one); [`ENDLESS`]: no limit.
    pub minutes: f64,
    /// Checkpoint to start a decay from. The decay has its own folder and continues there.
    pub decay: Option<PathBuf>,
    /// The loss of the value.
    pub value_loss: ValueLoss,
    /// Weight of the plies-left loss relative to the value loss.
    pub plies_weight: f64,
    /// Number of threads.
    pub threads: usize,
    /// Gives each thread the same chunks in every run, so that the same number of threads gives the same network.
    pub fixed_order: bool,
    /// Steps between checkpoints.
    pub save_every: u64,
    /// Steps between tests.
    pub test_every: u64,
    /// Steps between lines of the log.
    pub log_every: u64,
}

impl TrainingSettings {
    /// Checks that the network has inputs of what is said of the players.
    fn check_players(&self, shape: Shape) -> Result<()> {
        let data = self.mixture.data.iter().map(|part| &part.file);
        data.chain(&self.test)
            .try_for_each(|file| file.check_players(shape.inputs))
    }

    /// Checks that a file whose test positions are not marked as held out is not trained on.
    fn check_test(&self, test: &GamesFile) -> Result<()> {
        let mut data = self.mixture.data.iter().map(|part| &part.file.path);
        ensure!(
            !data.any(|path| is_same_place(path, &test.path)),
            "{} is given to both --data and --test, and none of its positions is marked as held out: it would be \
             tested on what it is trained on. Give --test a file that is not in --data",
            test.path.display()
        );
        Ok(())
    }

    /// Checks that the run, which has its checkpoint at `own`, is or becomes the decay that is asked for; or that it
    /// is none, if none is asked for.
    fn check_decay(&self, own: &Path, progress: &TrainingProgress, is_fresh: bool) -> Result<()> {
        let Some(from) = &self.decay else {
            ensure!(
                !progress.is_decay_run(),
                "{} belongs to a decay, which would go on at the full rate without --decay: give it the checkpoint \
                 that the decay began from. To train on at the full rate, use another --folder with that checkpoint, \
                 or with one of scorn train start --network",
                own.display()
            );
            return Ok(());
        };
        if !is_fresh {
            check_is_decay_of(from, own, progress)?;
            self.check_end(own, progress)?;
        }
        check_decay(self, progress, is_fresh)
    }

    /// Checks that a decay that has ended does not go on: its rate would rise again.
    fn check_end(&self, own: &Path, progress: &TrainingProgress) -> Result<()> {
        let Some(end) = progress.decay_end else {
            return Ok(());
        };
        let has_time = progress.seconds_of_decay() < 60.0 * self.minutes;
        ensure!(
            progress.step >= self.steps || !has_time,
            "{} belongs to a decay that ended at step {end}, where the learning rate reached zero; with these --steps \
             and --minutes it would go on at a raised rate. For a longer decay, use another --folder",
            own.display()
        );
        Ok(())
    }
}

/// A run in progress.
struct TrainingRun<'a> {
    settings: &'a TrainingSettings,
    shape: Shape,
    sections: Sections,
    level: Level,
    state: Moments,
    progress: TrainingProgress,
    mixture: Mixture,
    workers: Vec<TrainWorker>,
    gradients: Vec<Vec<f32>>,
    /// The names of the test files, and their positions.
    tests: Vec<(String, TestSet<Chunk>)>,
    /// The step of the last test.
    tested_step: Option<u64>,
    /// The log file. It is locked so that no other process trains in this folder.
    log: File,
}

/// Per-thread state.
struct TrainWorker {
    sampler: BatchSampler,
    chunk: Chunk,
    workspace: Workspace,
}

/// Value of [`TrainingSettings::minutes`] for a run without a time limit.
pub const ENDLESS: f64 = 1e9;

/// The default of [`TrainingSettings::chunk`]: [`CHUNK`], or less where the threads could not share a batch.
pub fn default_chunk(batch: usize, threads: usize) -> usize {
    match threads <= batch.div_ceil(CHUNK) {
        true => CHUNK,
        false => (batch / threads.max(1)).max(1),
    }
}

/// Checks that a network can have these sizes.
///
/// # Errors
/// When it cannot; the message lists the possible sizes.
pub fn check_shape(shape: Shape) -> Result<()> {
    ensure!(
        shape.is_valid(),
        "invalid network sizes: first layers must have a multiple of {} columns up to 4096, hidden layers 1 to 256 units, \
         and there must be 1 to 32 stages",
        crate::sparse::network::BLOCK
    );
    Ok(())
}

/// Starts or continues a training run and returns its progress at the end. `report` receives the lines of the log.
///
/// # Errors
/// When files cannot be read or written, or the loss is not finite.
pub fn run(settings: &TrainingSettings, report: &mut dyn FnMut(&str)) -> Result<TrainingProgress> {
    check_shape(settings.sizes.over(Shape::default()))?;
    ensure!(
        settings.batch > 0 && settings.chunk > 0 && settings.threads > 0,
        "batch size, chunk size and number of threads must be positive"
    );
    ensure!(
        settings.weight_decay >= 0.0 && settings.rate * settings.weight_decay < 1.0,
        "invalid weight decay {}: multiplied by the learning rate {}, it must be at least 0 and less than 1",
        settings.weight_decay,
        settings.rate
    );
    // Each thread allocates its own gradients, so idle threads are refused.
    ensure!(
        settings.threads <= settings.batch.div_ceil(settings.chunk),
        "too many threads: {} threads cannot share a batch of {} positions in chunks of {}; set a smaller --chunk, a \
         larger --batch, or fewer --threads",
        settings.threads,
        settings.batch,
        settings.chunk
    );
    std::fs::create_dir_all(&settings.folder)
        .with_context(|| format!("cannot create the folder {}", settings.folder.display()))?;
    let mut run = TrainingRun::begin(settings)?;
    run.go(report)?;
    Ok(run.progress)
}

/// Checks that a decay has an end, and if it is new, that the end lies after the checkpoint.
fn check_decay(
    settings: &TrainingSettings,
    progress: &TrainingProgress,
    is_fresh: bool,
) -> Result<()> {
    ensure!(
        settings.steps < u64::MAX || settings.minutes < ENDLESS,
        "a decay needs an end, where the learning rate reaches zero: set --minutes or --steps"
    );
    ensure!(
        !is_fresh || progress.step < settings.steps,
        "the decay would end at step {}, but the checkpoint is already at step {}: steps count from the beginning of the \
         run, so set --steps higher",
        settings.steps,
        progress.step
    );
    Ok(())
}

/// Checks that the run in a folder is a decay of the checkpoint `from`. That checkpoint may have advanced or been
/// deleted since the decay began.
fn check_is_decay_of(from: &Path, own: &Path, progress: &TrainingProgress) -> Result<()> {
    let other = "use another --folder for the decay";
    ensure!(
        progress.is_decay_run(),
        "{} belongs to a run that is not a decay: {other}",
        own.display()
    );
    ensure!(
        !is_same_place(from, own),
        "{} is the checkpoint of this decay itself: {other}",
        from.display()
    );
    if !from.exists() {
        return Ok(());
    }
    let now = checkpoint::progress(from)?;
    let is_same =
        now.step == progress.decay_step && (now.seconds - progress.decay_seconds).abs() < 1e-3;
    ensure!(
        is_same || now.step > progress.decay_step,
        "{} belongs to a decay that began at step {}, so it did not start from {}, which is at step {}: {other}",
        own.display(),
        progress.decay_step,
        from.display(),
        now.step
    );
    Ok(())
}

impl<'a> TrainingRun<'a> {
    /// Locks the folder, then reads its checkpoint: in the other order, two processes that start at the same time could
    /// each read the checkpoint before the other one advances it. A run that cannot start leaves no log behind.
    fn begin(settings: &'a TrainingSettings) -> Result<TrainingRun<'a>> {
        let path = settings.folder.join(LOG);
        let is_new = !path.exists();
        let mut log = open_to_continue(&path, &[])?;
        log.seek(SeekFrom::End(0))?;
        remove_partial(&settings.folder, &format!(".{CHECKPOINT}."))?;
        let run = TrainingRun::load(settings, log);
        if run.is_err() && is_new {
            remove(&path)?;
        }
        run
    }

    /// The run that continues the folder's checkpoint, or starts a new one. `log` is open and locked.
    fn load(settings: &'a TrainingSettings, log: File) -> Result<TrainingRun<'a>> {
        let own = settings.folder.join(CHECKPOINT);
        let start = match own.exists() {
            true => Some(&own),
            false => settings.decay.as_ref(),
        };
        let saved = start.map(|path| Checkpoint::load(path)).transpose()?;
        let is_fresh_decay = settings.decay.is_some() && start != Some(&own);
        let checkpoint = match saved {
            Some(saved) => saved,
            None => random_start(settings.sizes.over(Shape::default()), settings.mixture.seed),
        };
        ensure!(
            settings.sizes.over(checkpoint.shape) == checkpoint.shape,
            "the checkpoint holds a network of other sizes ({}): leave out the options for sizes, or use another --folder",
            checkpoint.shape
        );
        let (shape, mut progress) = (checkpoint.shape, checkpoint.progress);
        if is_fresh_decay {
            (progress.decay_step, progress.decay_seconds) = (progress.step, progress.seconds);
            (progress.is_decay, progress.decay_end) = (true, None);
        }
        settings.check_decay(&own, &progress, is_fresh_decay)?;
        settings.check_players(shape)?;
        let mut mixture = Mixture::new(settings.mixture.clone())?;
        let mut worker = || -> Result<TrainWorker> {
            Ok(TrainWorker {
                sampler: mixture.sampler()?,
                chunk: Chunk::of(shape.inputs),
                workspace: Workspace::default(),
            })
        };
        let workers = (0..settings.threads)
            .map(|_| worker())
            .collect::<Result<_>>()?;
        let test = |file: &GamesFile| -> Result<(String, TestSet<Chunk>)> {
            let share = settings.mixture.targets.result_share;
            let empty = || Chunk::of(shape.inputs);
            let set = data::test_set(file, settings.test_positions, share, empty)?;
            if !set.is_held_out {
                settings.check_test(file)?;
            }
            Ok((file.path.display().to_string(), set))
        };
        let tests = settings.test.iter().map(test).collect::<Result<_>>()?;
        let sections = shape.sections();
        Ok(TrainingRun {
            settings,
            shape,
            level: Level::detect(),
            gradients: vec![vec![0.0; sections.total]; settings.threads],
            sections,
            state: checkpoint.state,
            progress,
            mixture,
            workers,
            log,
            tests,
            tested_step: None,
        })
    }

    fn go(&mut self, report: &mut dyn FnMut(&str)) -> Result<()> {
        let (start, before) = (Instant::now(), self.progress.seconds);
        let first_step = self.progress.step;
        let (mut losses, mut since) = (Losses::default(), Instant::now());
        let mut counted = self.progress.positions;
        while self.progress.step < self.settings.steps && !self.is_over(start.elapsed()) {
            let found = self.step()?;
            losses += found;
            self.progress.seconds = before + start.elapsed().as_secs_f64();
            let step = self.progress.step;
            if step.is_multiple_of(self.settings.log_every) {
                let seen = self.progress.positions - counted;
                let speed = seen as f64 / since.elapsed().as_secs_f64();
                self.log(&format!("{} speed {speed:.0}/s", text_of(&losses)), report)?;
                (losses, since, counted) =
                    (Losses::default(), Instant::now(), self.progress.positions);
            }
            if step.is_multiple_of(self.settings.save_every) {
                self.save()?;
                let samplers = self.workers.iter_mut().map(|worker| &mut worker.sampler);
                self.mixture.reopen(samplers)?;
            }
            if step.is_multiple_of(self.settings.test_every) {
                self.test(report)?;
            }
        }
        // A call that had nothing to do, because of a smaller limit, ends no decay; one that was killed after its last
        // step is ended by the next.
        let step = self.progress.step;
        if self.settings.decay.is_some() && (step > first_step || step == self.settings.steps) {
            self.progress.decay_end = Some(self.progress.step);
        }
        self.save()?;
        let impossible = self.mixture.impossible();
        if impossible > 0 {
            let text = format!(
                "drew a record that holds an impossible position {impossible} times and skipped it: a data file is \
                 damaged"
            );
            self.log(&text, report)?;
        }
        self.test(report)
    }

    fn is_over(&self, elapsed: Duration) -> bool {
        let seconds = match self.settings.decay {
            Some(_) => self.progress.seconds_of_decay(),
            None => elapsed.as_secs_f64(),
        };
        seconds >= 60.0 * self.settings.minutes
    }

    /// One step: draws a batch, computes its gradients and updates the weights.
    fn step(&mut self) -> Result<Losses> {
        let settings = self.settings;
        let step = self.progress.step;
        let chunks = settings.batch.div_ceil(settings.chunk) as u64;
        let scales = Scales {
            policy: 1.0 / settings.batch as f32,
            value: 1.0 / settings.batch as f32,
            plies: settings.plies_weight as f32 / settings.batch as f32,
            value_loss: settings.value_loss,
        };
        let next = AtomicU64::new(0);
        let (level, shape, mixture) = (self.level, self.shape, &self.mixture);
        let weights = &self.state.weights;
        let work =
            |number: u64, worker: &mut TrainWorker, gradient: &mut Vec<f32>| -> Result<Losses> {
                let mut losses = Losses::default();
                let mut own = (number..).step_by(settings.threads);
                loop {
                    let index = match settings.fixed_order {
                        true => own.next().unwrap_or(chunks),
                        false => next.fetch_add(1, Ordering::Relaxed),
                    };
                    if index >= chunks {
                        return Ok(losses);
                    }
                    let size = settings
                        .chunk
                        .min(settings.batch - index as usize * settings.chunk);
                    mixture.draw(&mut worker.sampler, (step, index), size, &mut worker.chunk)?;
                    let gradient = Some((&mut gradient[..], scales));
                    let workspace = &mut worker.workspace;
                    losses += step::run(level, shape, weights, &worker.chunk, gradient, workspace);
                }
            };
        let losses = in_parallel(&mut self.workers, &mut self.gradients, &work)?;
        let total = losses.policy + losses.value + losses.plies;
        ensure!(
            total.is_finite(),
            "the loss is not finite at step {step}: continue from the last checkpoint with a lower --rate"
        );
        self.progress.step += 1;
        self.progress.positions += settings.batch as u64;
        let step = self.progress.step;
        let adamw = AdamWStep {
            rate: self.rate(),
            weight_decay: settings.weight_decay as f32,
            number: step,
        };
        self.state
            .update(level, &self.sections, &mut self.gradients, adamw);
        if step.is_multiple_of(AVERAGE_EVERY) {
            let share = average_share(AVERAGE_EVERY, &self.progress);
            self.state.average_in(level, share);
        }
        Ok(losses)
    }

    /// The learning rate of the current step: rising in the warm-up, then constant; falling in a decay.
    fn rate(&self) -> f32 {
        let (settings, progress) = (self.settings, &self.progress);
        let rate = if settings.decay.is_some() {
            let steps = settings.steps.saturating_sub(progress.decay_step).max(1);
            let by_steps = (progress.step - progress.decay_step) as f64 / steps as f64;
            let by_time = progress.seconds_of_decay() / (60.0 * settings.minutes);
            settings.rate * (1.0 - by_steps.max(by_time)).max(0.0)
        } else {
            settings.rate * (progress.step as f64 / settings.warmup.max(1) as f64).min(1.0)
        };
        rate as f32
    }

    fn save(&self) -> Result<()> {
        let path = self.settings.folder.join(CHECKPOINT);
        checkpoint::save(&path, self.shape, self.progress, &self.state)
    }

    /// Tests the network and logs the results, unless that was done at this step.
    fn test(&mut self, report: &mut dyn FnMut(&str)) -> Result<()> {
        let step = Some(self.progress.step);
        if std::mem::replace(&mut self.tested_step, step) == step {
            return Ok(());
        }
        let weights = averaged(&self.state, &self.progress);
        for (name, set) in &self.tests {
            let measures = measure_floating(self.shape, &weights, &set.batches);
            let text = match measures.moves + measures.values > 0.0 {
                true => measures.to_string(),
                false => "no positions to test on".into(),
            };
            let kind = if set.is_held_out { "held out" } else { "test" };
            self.log(&format!("{kind} {name}: {text}"), report)?;
        }
        Ok(())
    }

    fn log(&self, text: &str, report: &mut dyn FnMut(&str)) -> Result<()> {
        let TrainingProgress {
            step,
            positions,
            seconds,
            ..
        } = self.progress;
        let millions = positions as f64 / 1e6;
        let line = format!("{seconds:.0} s step {step} positions {millions:.2}M {text}");
        report(&line);
        writeln!(&self.log, "{line}")
            .with_context(|| format!("cannot write the log in {}", self.settings.folder.display()))
    }
}

/// How far the average moves towards the weights, this many steps after its last update.
fn average_share(steps: u64, progress: &TrainingProgress) -> f32 {
    // A decay without a step of its own is the run that it began from.
    let all = match progress.step.saturating_sub(progress.decay_step) {
        0 => progress.step,
        of_decay => of_decay,
    };
    let horizon = (AVERAGE_SHARE * all as f64).clamp(steps as f64, AVERAGE_MOST);
    (steps as f64 / horizon) as f32
}

/// The averaged weights, which are tested and exported. The steps since the last update of the average are added here
/// rather than in the checkpoint, so that a run does not depend on where it was interrupted.
fn averaged<'a>(state: &'a Moments, progress: &TrainingProgress) -> Cow<'a, [f32]> {
    let steps = progress.step % AVERAGE_EVERY;
    if steps == 0 {
        return Cow::Borrowed(&state.average);
    }
    let share = average_share(steps, progress);
    let pairs = state.average.iter().zip(&state.weights);
    Cow::Owned(pairs.map(|(a, w)| a + share * (w - a)).collect())
}

/// The mean losses, for the log.
fn text_of(losses: &Losses) -> String {
    let mean = |sum: f64, count: f64| sum / count.max(1.0);
    format!(
        "policy {:.4} kl {:.4} value {:.4} plies {:.4}",
        mean(losses.policy, losses.policy_count),
        mean(losses.policy - losses.entropy, losses.policy_count),
        mean(losses.value, losses.value_count),
        mean(losses.plies, losses.plies_count),
    )
}

/// Runs `work` on all workers in parallel, each with its own gradient, and adds up the losses.
fn in_parallel(
    workers: &mut [TrainWorker],
    gradients: &mut [Vec<f32>],
    work: &(impl Fn(u64, &mut TrainWorker, &mut Vec<f32>) -> Result<Losses> + Sync),
) -> Result<Losses> {
    std::thread::scope(|scope| {
        let mut pairs = (0..).zip(workers.iter_mut().zip(gradients));
        let own = pairs.next();
        let spawn = |(number, (worker, gradient))| {
            threads::spawn_scoped(scope, "train", move || work(number, worker, gradient))
        };
        let others = pairs.map(spawn).collect::<io::Result<Vec<_>>>();
        let others = others.context("cannot start the threads of the training")?;
        let mut losses = Losses::default();
        if let Some((number, (worker, gradient))) = own {
            losses += work(number, worker, gradient)?;
        }
        for other in others {
            losses += other
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(losses)
    })
}

fn measure_floating(shape: Shape, weights: &[f32], chunks: &[Chunk]) -> Measures {
    let level = Level::detect();
    let mut network = FloatNetwork {
        shape,
        weights,
        level,
    };
    measure::measure(&mut network, chunks)
}

/// Test results of a checkpoint's averaged weights: in floating point and quantised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TestResults {
    /// In floating point, as trained.
    pub floating: Measures,
    /// Quantised to integers, as used for play.
    pub integers: Measures,
}

/// Tests a checkpoint on the test positions of a file (see [`data::test_set`]); `None` if it has none.
///
/// # Errors
/// When the file cannot be read.
pub fn measure_file(
    checkpoint: &Checkpoint,
    file: &GamesFile,
    count: usize,
    result_share: ResultShare,
) -> Result<Option<TestResults>> {
    let shape = checkpoint.shape;
    let weights = &averaged(&checkpoint.state, &checkpoint.progress);
    file.check_players(shape.inputs)?;
    let empty = || Chunk::of(shape.inputs);
    let chunks = data::test_set(file, count, result_share, empty)?.batches;
    let mut integers = Integers {
        network: &infer::IntegerNetwork::quantize(shape, weights),
        level: Level::detect(),
        scratch: Scratch::default(),
    };
    let quality = TestResults {
        floating: measure_floating(shape, weights, &chunks),
        integers: measure::measure(&mut integers, &chunks),
    };
    let is_any = chunks
        .iter()
        .any(|chunk| !chunk.values.is_empty() || !chunk.shares.is_empty());
    Ok(is_any.then_some(quality))
}

/// Quantises a checkpoint's averaged weights and returns the bytes of an ONNX file with this additional metadata.
pub fn export(checkpoint: &Checkpoint, metadata: &[(&str, &str)]) -> Vec<u8> {
    let weights = averaged(&checkpoint.state, &checkpoint.progress);
    let network = infer::IntegerNetwork::quantize(checkpoint.shape, &weights);
    file::write(&network, metadata)
}

#[cfg(test)]
mod tests {
    use shakmaty::{Chess, Color, Position};

    use super::data::{MixPart, NetworkPart};
    use super::start::{Changes, start_from};
    use super::targets::TargetSettings;
    use super::*;
    use crate::dataset::record::{Record, Source};
    use crate::dataset::record_file::{Layout, RecordWriter};
    use crate::sparse::features::InputSet;
    use crate::sparse::history::Past;
    use std::fs;

    const TINY: Shape = Shape {
        policy: 64,
        value: 64,
        hidden: 8,
        stages: 1,
        inputs: InputSet::Position,
    };

    #[test]
    fn all_held_out_positions_of_a_small_file_are_tested() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.rec");
        write(&path, 64);
        let file = path.into();
        let tested = |most: usize| {
            let empty = || Chunk::of(InputSet::Position);
            let set = data::test_set(&file, most, ResultShare::default(), empty).unwrap();
            assert!(set.is_held_out);
            set.batches
                .iter()
                .map(|chunk| chunk.values.len())
                .sum::<usize>()
        };
        assert_eq!([100, 8, 3].map(tested), [8, 8, 3]);
    }

    /// Writes the first `count` positions of a game, each with a best move and a score; every eighth is held out.
    pub(super) fn write(path: &Path, count: usize) {
        let mut writer = RecordWriter::create(path, Layout::Plain).unwrap();
        let mut position = Chess::default();
        for index in 0..count {
            let moves = position.legal_moves();
            let Some(&m) = moves.get(index * 7 % moves.len().max(1)) else {
                break;
            };
            let mut record = Record::new(&position, position.turn() == Color::Black, Source::Real);
            record.best = Record::pack_move(m, position.turn());
            record.score = (index as i16 * 137) % 500 - 250;
            record.plies_left = (count - index) as u16;
            if index % 8 == 7 {
                record.flags |= Record::HELD_OUT;
            }
            writer.write(&record).unwrap();
            position.play_unchecked(m);
        }
        assert_eq!(writer.finish().unwrap(), count as u64);
    }

    fn settings(folder: &Path, data: &Path) -> TrainingSettings {
        TrainingSettings {
            folder: folder.into(),
            mixture: MixtureSettings {
                data: vec![MixPart {
                    file: data.into(),
                    share: 1.0,
                }],
                seed: 1,
                targets: TargetSettings::default(),
                trained_part: NetworkPart::Both,
            },
            test: vec![data.into()],
            test_positions: 100,
            sizes: Sizes::of(TINY),
            batch: 32,
            chunk: 16,
            rate: 5e-3,
            warmup: 10,
            weight_decay: adam::WEIGHT_DECAY,
            steps: 20,
            minutes: 10.0,
            decay: None,
            value_loss: ValueLoss::default(),
            plies_weight: 0.02,
            threads: 1,
            fixed_order: false,
            save_every: 1000,
            test_every: 1000,
            log_every: 10,
        }
    }

    fn weights(folder: &Path) -> Checkpoint {
        let mut checkpoint = Checkpoint::load(&folder.join(CHECKPOINT)).unwrap();
        // The duration of a run is not reproducible.
        checkpoint.progress.seconds = 0.0;
        checkpoint
    }

    #[test]
    fn an_interrupted_run_gives_the_same_network() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
        run(&settings(&whole, &data), &mut |_| {}).unwrap();
        let mut first = settings(&parts, &data);
        first.steps = 7;
        run(&first, &mut |_| {}).unwrap();
        let progress = run(&settings(&parts, &data), &mut |_| {}).unwrap();
        assert_eq!((progress.step, progress.positions), (20, 640));
        assert!(weights(&whole) == weights(&parts));
    }

    #[test]
    fn weight_decay_applies_to_touched_weights_only() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let after_a_step = |weight_decay: f64| {
            let into = folder.path().join(weight_decay.to_string());
            let mut settings = settings(&into, &data);
            (settings.steps, settings.warmup, settings.rate) = (1, 1, 1e-3);
            settings.weight_decay = weight_decay;
            run(&settings, &mut |_| {}).map(|_| weights(&into).state.weights)
        };
        let start = random_start(TINY, 1).state.weights;
        let [plain, decayed] = [0.0, 50.0].map(|decay| after_a_step(decay).unwrap());
        let [mut used, mut unused] = [0, 0];
        for ((&start, &plain), &decayed) in start.iter().zip(&plain).zip(&decayed) {
            // Groups of weights are updated together: an untouched weight decays with its group or not at all.
            if start == plain && start == decayed {
                unused += usize::from(start != 0.0);
                continue;
            }
            let lost = plain - decayed;
            assert!((lost - 0.05 * start).abs() < 1e-6, "{lost} of {start}");
            used += usize::from(start != 0.0);
        }
        assert!(used > 1000 && unused > 1000, "{used} {unused}");
        for absurd in [-0.01, f64::NAN, 1000.0] {
            let error = after_a_step(absurd).unwrap_err().to_string();
            assert!(error.contains("weight decay"), "{error}");
        }
    }

    #[test]
    fn training_overfits_a_few_positions_and_a_decay_ends_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 10);
        let main = folder.path().join("main");
        let mut run_settings = settings(&main, &data);
        (run_settings.steps, run_settings.rate) = (250, 1e-2);
        run(&run_settings, &mut |_| {}).unwrap();
        let mut decay = settings(&folder.path().join("end"), &data);
        decay.decay = Some(main.join(CHECKPOINT));
        (decay.steps, decay.minutes) = (u64::MAX, ENDLESS);
        let refused = run(&decay, &mut |_| {}).unwrap_err().to_string();
        assert!(refused.contains("needs an end"), "{refused}");
        // The refused run leaves nothing behind.
        assert!(!decay.folder.join("log.txt").exists());
        (decay.steps, decay.rate) = (450, 1e-2);
        decay.threads = 2;
        let mut lines = Vec::new();
        let progress = run(&decay, &mut |line| lines.push(line.to_owned())).unwrap();
        assert_eq!((progress.step, progress.decay_step), (450, 250));
        let last = lines.iter().rfind(|line| line.contains("speed")).unwrap();
        let number = |name: &str| -> f64 {
            let rest = last.split(&format!("{name} ")).nth(1).unwrap();
            rest.split(' ').next().unwrap().parse().unwrap()
        };
        assert!(number("policy") < 0.1, "{last}");
        let held_out = lines.last().unwrap();
        assert!(
            held_out.contains("held out") && held_out.contains("(1)"),
            "{held_out}"
        );
        // The averaged weights, which are exported, have memorised the positions, too.
        let checkpoint = Checkpoint::load(&folder.path().join("end").join(CHECKPOINT)).unwrap();
        let records = crate::dataset::record_file::read_all(&data).unwrap();
        let training = records.into_iter().filter(|record| !record.held_out());
        let training: Vec<_> = training.map(|record| (record, Past::default())).collect();
        let measures = measure_floating(
            TINY,
            &averaged(&checkpoint.state, &checkpoint.progress),
            &data::chunks(&training, &GamesFile::from(&*data), Chunk::default),
        );
        assert!(measures.top1 == 1.0 && measures.policy < 0.1, "{measures}");
        assert!(measures.error < 0.05, "{measures}");
        // The same holds for the quantised network and for the exported file.
        let share = ResultShare::default();
        let quality = measure_file(&checkpoint, &GamesFile::from(&*data), 100, share);
        let quality = quality.unwrap().unwrap();
        assert_eq!(quality.integers.moves, 1.0);
        assert!((quality.integers.error - quality.floating.error).abs() < 0.02);
        let bytes = export(&checkpoint, &[("name", "overfitted")]);
        let network = file::read(&bytes).unwrap();
        let mut integers = Integers {
            network: &network,
            level: Level::detect(),
            scratch: Scratch::default(),
        };
        let measures = measure::measure(
            &mut integers,
            &data::chunks(&training, &GamesFile::from(&*data), Chunk::default),
        );
        assert!(measures.top1 == 1.0 && measures.error < 0.06, "{measures}");
    }

    #[test]
    fn a_decay_continues_in_its_own_folder_and_never_starts_in_that_of_another_run() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let at = |name: &str| folder.path().join(name);
        let run_in = |name: &str, from: Option<&str>, steps: u64| {
            let mut settings = settings(&at(name), &data);
            settings.decay = from.map(|from| at(from).join(CHECKPOINT));
            settings.steps = steps;
            run(&settings, &mut |_| {})
        };
        // A decay may also start from step 0 of a run.
        for (main, end, steps) in [("main", "end", 6), ("fresh", "fresh-end", 0)] {
            run_in(main, None, steps).unwrap();
            let before = weights(&at(main));
            let refused = run_in(main, Some(main), steps + 4).unwrap_err().to_string();
            assert!(refused.contains("another --folder"), "{refused}");
            assert!(weights(&at(main)) == before);
            let half = run_in(end, Some(main), steps + 2).unwrap();
            assert_eq!((half.decay_step, half.is_decay), (steps, true));
            // The original run may continue meanwhile.
            run_in(main, None, steps + 1).unwrap();
            // The decay has ended: its rate would rise again.
            let refused = run_in(end, Some(main), steps + 4).unwrap_err().to_string();
            let expected = format!("ended at step {}", steps + 2);
            assert!(refused.contains(&expected), "{refused}");
            interrupt(&at(end));
            let ended = run_in(end, Some(main), steps + 2).unwrap();
            assert_eq!((ended.step, ended.decay_end), (steps + 2, Some(steps + 2)));
            interrupt(&at(end));
            // A smaller number of steps, in between, does nothing.
            let nothing = run_in(end, Some(main), steps + 1).unwrap();
            assert_eq!((nothing.step, nothing.decay_end), (steps + 2, None));
            let whole = run_in(end, Some(main), steps + 4).unwrap();
            assert_eq!((whole.step, whole.decay_step), (steps + 4, steps));
            // A finished decay stays unchanged, as a finished run does.
            let again = run_in(end, Some(main), steps + 4).unwrap();
            assert_eq!((again.step, again.decay_step), (whole.step, steps));
            let refused = run_in(end, Some(end), steps + 9).unwrap_err().to_string();
            assert!(refused.contains("of this decay itself"), "{refused}");
            // Without its start it would go on at the full rate.
            let before = weights(&at(end));
            let refused = run_in(end, None, steps + 9).unwrap_err().to_string();
            assert!(refused.contains("without --decay"), "{refused}");
            assert!(weights(&at(end)) == before);
        }
        run_in("other", None, 2).unwrap();
        let refused = run_in("end", Some("other"), 20).unwrap_err().to_string();
        assert!(refused.contains("began at step 6"), "{refused}");
        let refused = run_in("new", Some("other"), 2).unwrap_err().to_string();
        assert!(refused.contains("would end at step 2"), "{refused}");
    }

    /// Makes a decay that has ended look as if it had been killed there.
    fn interrupt(folder: &Path) {
        let path = folder.join(CHECKPOINT);
        let mut checkpoint = Checkpoint::load(&path).unwrap();
        checkpoint.progress.decay_end = None;
        checkpoint.save(&path).unwrap();
    }

    #[test]
    fn a_new_decay_may_start_from_one_that_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let at = |name: &str| folder.path().join(name);
        for (name, from, steps) in [
            ("main", None, 2),
            ("end", Some("main"), 4),
            ("longer", Some("end"), 6),
        ] {
            let mut settings = settings(&at(name), &data);
            settings.decay = from.map(|from| at(from).join(CHECKPOINT));
            settings.steps = steps;
            let progress = run(&settings, &mut |_| {}).unwrap();
            let end = from.map(|_| steps);
            assert_eq!((progress.step, progress.decay_end), (steps, end));
        }
    }

    #[test]
    fn the_last_steps_of_a_run_are_in_its_average() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let start = random_start(TINY, 1);
        let at = |steps: u64| {
            let mut settings = settings(&folder.path().join("run"), &data);
            (settings.steps, settings.rate) = (steps, 1e-2);
            let mut lines = Vec::new();
            run(&settings, &mut |line| lines.push(line.to_owned())).unwrap();
            let test = lines.last().and_then(|line| line.split_once("held out"));
            (weights(&settings.folder), test.unwrap().1.to_owned())
        };
        // The last tenth of a short run is its last step. The checkpoint's average is as it was, for the next run.
        let (early, test) = at(5);
        assert!(early.state.average == start.state.weights);
        let far = |checkpoint: &Checkpoint| {
            let average = averaged(&checkpoint.state, &checkpoint.progress);
            let pairs = average.iter().zip(&checkpoint.state.weights);
            pairs.map(|(a, w)| (a - w).abs()).fold(0.0, f32::max)
        };
        assert!(far(&early) < 1e-6, "{}", far(&early));
        assert!(export(&early, &[]) != export(&start, &[]));
        let set = data::test_set(
            &GamesFile::from(&*data),
            100,
            ResultShare::default(),
            || Chunk::of(TINY.inputs),
        );
        let measures = measure_floating(TINY, &early.state.weights, &set.unwrap().batches);
        assert!(test.ends_with(&measures.to_string()), "{test} {measures}");
        // Later it is a mixture, of which the steps since the last update are a part.
        let (late, _) = at(205);
        let average = averaged(&late.state, &late.progress);
        let part = average_share(5, &late.progress);
        assert!((part - 5.0 / 20.5).abs() < 1e-6, "{part}");
        assert!(*average != late.state.average && far(&late) > 1e-3);
        let (even, _) = at(208);
        assert!(*averaged(&even.state, &even.progress) == even.state.average);
    }

    #[test]
    fn a_data_file_may_be_replaced_during_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let [data, larger] = ["x.rec", "larger.rec"].map(|name| folder.path().join(name));
        write(&data, 9);
        write(&larger, 60);
        let mut settings = settings(&folder.path().join("run"), &data);
        (settings.save_every, settings.log_every) = (2, 1);
        let progress = run(&settings, &mut |_| {
            if larger.exists() {
                fs::rename(&larger, &data).unwrap();
            }
        });
        assert_eq!(progress.unwrap().step, 20);
        assert!(!larger.exists());
    }

    #[test]
    fn threads_share_a_batch_unless_the_chunk_is_given() {
        for (batch, threads, chunk) in [
            (4096, 1, 512),
            (4096, 8, 512),
            (4096, 16, 256),
            (4100, 9, 512),
            (4096, 9, 455),
            (100, 1, 512),
            (10, 3, 3),
            (10, 20, 1),
        ] {
            assert_eq!(default_chunk(batch, threads), chunk, "{batch} {threads}");
            assert!(threads > batch || threads <= batch.div_ceil(chunk));
        }
        let mut settings = settings(Path::new("never made"), Path::new("x.rec"));
        settings.threads = 3;
        let error = run(&settings, &mut |_| {}).unwrap_err().to_string();
        assert!(
            error.contains("--chunk") && error.contains("--batch"),
            "{error}"
        );
    }

    #[test]
    fn players_that_the_network_does_not_see_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let named = |players: &str| {
            let file = GamesFile::parse(&format!("{}{players}", data.display()));
            file.unwrap()
        };
        let at = |name: &str| folder.path().join(name);
        run(&settings(&at("run"), &data), &mut |_| {}).unwrap();
        let checkpoint = weights(&at("run"));
        let share = ResultShare::default();
        for players in ["@1500", "@white"] {
            let mut trained = settings(&at("new"), &data);
            trained.mixture.data[0].file = named(players);
            let mut tested = settings(&at("new"), &data);
            tested.test = vec![named(players)];
            let batches = batches::BatchSettings {
                mixture: trained.mixture.clone(),
                encoding: batches::BatchEncoding::Dense,
                batch: 8,
                from: 0,
                steps: 1,
                threads: 1,
            };
            for error in [
                run(&trained, &mut |_| {}).err(),
                run(&tested, &mut |_| {}).err(),
                measure_file(&checkpoint, &named(players), 9, share).err(),
                batches::stream(&batches, &mut Vec::new()).err(),
            ] {
                let error = error.unwrap().to_string();
                assert!(error.contains(&format!("leave out {players}")), "{error}");
            }
        }
    }

    #[test]
    fn the_folder_is_locked_before_its_checkpoint_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data.rec");
        write(&data, 20);
        let settings = settings(&folder.path().join("run"), &data);
        fs::create_dir(&settings.folder).unwrap();
        fs::write(settings.folder.join(CHECKPOINT), "damaged").unwrap();
        // A process that was killed while it saved left this behind.
        let partial = settings.folder.join(".checkpoint.x1.partial");
        fs::write(&partial, "half").unwrap();
        let error = |settings| format!("{:#}", run(settings, &mut |_| {}).unwrap_err());
        // Another process trains here: its checkpoint is not even looked at, and its log stays.
        let other = open_to_continue(&settings.folder.join(LOG), &[]).unwrap();
        assert!(
            error(&settings).contains("another program is writing"),
            "{}",
            error(&settings)
        );
        assert!(settings.folder.join(LOG).exists() && partial.exists());
        drop(other);
        fs::remove_file(settings.folder.join(LOG)).unwrap();
        assert!(
            error(&settings).contains(CHECKPOINT),
            "{}",
            error(&settings)
        );
        assert!(!settings.folder.join(LOG).exists() && !partial.exists());
    }

    #[test]
    fn threads_in_a_fixed_order_give_the_same_network() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let trained = |name: &str| {
            let mut settings = settings(&folder.path().join(name), &data);
            (settings.threads, settings.fixed_order, settings.chunk) = (3, true, 4);
            run(&settings, &mut |_| {}).unwrap();
            weights(&settings.folder)
        };
        assert!(trained("a") == trained("b"));
    }

    #[test]
    fn one_network_is_trained_while_the_other_stays_frozen() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        // A new value network beside an existing policy network.
        let existing = export(&random_start(TINY, 5), &[]);
        let changes = Changes {
            sizes: Sizes {
                value: Some(128),
                ..Sizes::default()
            },
            reinit: Some(NetworkPart::Value),
        };
        let start = start_from(&existing, changes, 9).unwrap();
        let same = start_from(&existing, Changes::default(), 9).unwrap();
        let parts = |shape: Shape| (shape.sections().policy(), shape.sections().value());
        let (policy, value) = parts(start.shape);
        assert_eq!((start.shape.policy, start.shape.value), (64, 128));
        let weights_at = |checkpoint: &Checkpoint, part: std::ops::Range<usize>| {
            checkpoint.state.weights[part].to_vec()
        };
        assert!(weights_at(&start, policy.clone()) == weights_at(&same, parts(TINY).0));
        assert!(
            weights_at(&start, value.clone())
                == random_start(start.shape, 9).state.weights[value.clone()]
        );

        for (trained_part, trained, frozen) in [
            (NetworkPart::Value, value.clone(), policy.clone()),
            (NetworkPart::Policy, policy, value),
        ] {
            let into = folder.path().join(format!("{trained_part:?}"));
            std::fs::create_dir(&into).unwrap();
            start.save(&into.join(CHECKPOINT)).unwrap();
            let mut settings = settings(&into, &data);
            (settings.mixture.trained_part, settings.sizes) = (trained_part, Sizes::default());
            let mut lines = Vec::new();
            run(&settings, &mut |line| lines.push(line.to_owned())).unwrap();
            let end = weights(&into);
            assert!(
                weights_at(&end, frozen.clone()) == weights_at(&start, frozen),
                "{trained_part:?}"
            );
            assert!(weights_at(&end, trained.clone()) != weights_at(&start, trained));
            // The frozen part is tested all the same.
            assert!(
                lines.iter().any(|line| line.contains("held out")),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn a_test_without_positions_reports_no_figures() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        // Only the eighth position would be held out.
        write(&data, 7);
        let mut lines = Vec::new();
        let settings = settings(&folder.path().join("run"), &data);
        run(&settings, &mut |line| lines.push(line.to_owned())).unwrap();
        let last = lines.last().unwrap();
        assert!(last.ends_with("no positions to test on"), "{last}");
    }

    #[test]
    fn a_step_is_tested_once() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        for (test_every, tested) in [(10, vec![10, 20]), (8, vec![8, 16, 20])] {
            let mut settings = settings(&folder.path().join(test_every.to_string()), &data);
            settings.test_every = test_every;
            let mut steps = Vec::new();
            run(&settings, &mut |line| {
                if line.contains("held out") {
                    let step = line.split(' ').skip_while(|word| *word != "step").nth(1);
                    steps.push(step.unwrap().parse::<u64>().unwrap());
                }
            })
            .unwrap();
            assert_eq!(steps, tested, "every {test_every}");
        }
    }

    #[test]
    fn impossible_positions_are_skipped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let mut bytes = std::fs::read(&data).unwrap();
        bytes[48 * 3..48 * 3 + 32].fill(0);
        std::fs::write(&data, bytes).unwrap();
        let mut lines = Vec::new();
        let settings = settings(&folder.path().join("run"), &data);
        run(&settings, &mut |line| lines.push(line.to_owned())).unwrap();
        let counted = |line: &String| {
            let (_, rest) = line.split_once("drew a record that holds an impossible position ")?;
            rest.split(' ').next()?.parse::<u64>().ok()
        };
        let counts: Vec<u64> = lines.iter().filter_map(counted).collect();
        // One of 24 records is damaged; 20 steps draw 32 each.
        let [drawn] = counts[..] else {
            panic!("{lines:?}");
        };
        assert!((10..70).contains(&drawn), "{lines:?}");
    }

    #[test]
    fn data_without_usable_positions_is_an_error_with_the_reasons() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 8);
        let mut run_settings = settings(&folder.path().join("run"), &data);
        run_settings.mixture.data.clear();
        let error = run(&run_settings, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("--data"), "{error}");
        let mut records = crate::dataset::record_file::read_all(&data).unwrap();
        let data = folder.path().join("held-out.rec");
        let mut writer = RecordWriter::create(&data, Layout::Plain).unwrap();
        for record in &mut records {
            record.flags |= Record::HELD_OUT;
            writer.write(record).unwrap();
        }
        writer.finish().unwrap();
        let message = |data: &Path, trained_part| {
            let mut settings = settings(&folder.path().join("run"), data);
            settings.mixture.trained_part = trained_part;
            settings.mixture.targets.result_weight = 0.0;
            run(&settings, &mut |_| {}).unwrap_err().to_string()
        };
        let error = message(&data, NetworkPart::Both);
        let is_held_out = error.contains(" held out") && !error.contains(',');
        assert!(is_held_out, "{error}");
        let write_with = |name: &str, change: fn(&mut Record)| {
            let path = folder.path().join(name);
            let mut writer = RecordWriter::create(&path, Layout::Plain).unwrap();
            let mut record = Record::new(&Chess::default(), false, Source::Real);
            change(&mut record);
            writer.write(&record).unwrap();
            writer.finish().unwrap();
            path
        };
        for (name, change, trained_part, expected) in [
            (
                "unlabelled.rec",
                (|_| {}) as fn(&mut Record),
                NetworkPart::Policy,
                "dataset label",
            ),
            (
                "results.rec",
                |record| record.result = 1,
                NetworkPart::Value,
                "--result-weight",
            ),
            (
                "damaged.rec",
                |record| (record.board, record.best) = ([0; 32], 7),
                NetworkPart::Both,
                "impossible",
            ),
        ] {
            let error = message(&write_with(name, change), trained_part);
            assert!(
                error.contains(name) && error.contains(expected) && !error.contains("held out"),
                "{error}"
            );
        }
    }
}
