//! Learning: from record files to the weights of a sparse network, on a CPU.
//!
//! A step draws a batch ([`data`]), cuts it into chunks that the threads take one after the other ([`step`]: outputs, losses,
//! gradients), and changes the weights ([`adam`]). The rate is constant after a warm-up, so a run can go on as long as there is
//! time; a decay is a copy of a run whose rate falls to zero, which is where the best network comes from. A run can be
//! stopped at any time: it goes on from its last checkpoint, which is never half written. With one thread the same seed and files
//! give the same network bit by bit; with several, the order in which gradients are added up differs from run to run.

pub mod adam;
pub mod batches;
pub mod checkpoint;
pub mod data;
pub mod measure;
pub mod start;
pub mod step;
pub mod targets;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::adam::{Moments, Stride};
use self::checkpoint::{Checkpoint, TrainingProgress};
use self::data::{Drawer, Mixture, MixtureSettings};
use self::measure::{Floating, Integers, Measures};
use self::start::random_start;
use self::step::{Chunk, Losses, Scales, ValueLoss, Workspace};
use self::targets::ResultShare;
use crate::files::output::{is_same_place, open_to_continue};
use crate::sparse::features::INPUTS;
use crate::sparse::file;
use crate::sparse::infer::{self, Scratch};
use crate::sparse::moves::ROWS;
use crate::sparse::network::{Sections, Shape};
use crate::sparse::simd::Level;

/// Steps after which the average of the weights is moved.
const AVERAGE_EVERY: u64 = 8;
/// The average's horizon: this share of the run so far, at most so many steps.
const AVERAGE_SHARE: f64 = 0.1;
const AVERAGE_MOST: f64 = 2000.0;
/// The name of a run's checkpoint in its folder.
const CHECKPOINT: &str = "checkpoint";

/// What a run is told.
#[derive(Clone, Debug)]
pub struct TrainingSettings {
    /// Checkpoint and log lie here.
    pub folder: PathBuf,
    /// What is drawn to learn from; its seed is that of random weights, too.
    pub mixture: MixtureSettings,
    /// Files whose held-out positions to measure on.
    pub test: Vec<PathBuf>,
    /// Positions of each of them.
    pub test_positions: usize,
    /// Sizes of the network; `None`: the usual ones, or those of the checkpoint.
    pub shape: Option<Shape>,
    /// Positions a step.
    pub batch: usize,
    /// Positions that a thread takes at a time.
    pub chunk: usize,
    /// The learning rate.
    pub rate: f64,
    /// Steps over which it rises from 0.
    pub warmup: u64,
    /// What weights lose in a step, as a share of themselves, times the rate.
    pub weight_decay: f64,
    /// The run ends at this step.
    pub steps: u64,
    /// Or after so many minutes (of the decay, if it is one); [`ENDLESS`]: not.
    pub minutes: f64,
    /// Start from this checkpoint and let the rate fall to 0, in a folder of its own, where the same goes on.
    pub decay: Option<PathBuf>,
    /// What is lost by a wrong value.
    pub value_loss: ValueLoss,
    /// Weight of the plies left beside the value.
    pub plies_weight: f64,
    /// Threads.
    pub threads: usize,
    /// Each thread takes the same chunks every time, so that the same number of threads gives the same network.
    pub fixed_order: bool,
    /// Steps between checkpoints.
    pub save_every: u64,
    /// Steps between measurements.
    pub test_every: u64,
    /// Steps between lines of the log.
    pub log_every: u64,
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
    tests: Vec<(String, Vec<Chunk>)>,
    /// Locked, so that no other program trains in this folder.
    log: File,
}

/// What a thread owns.
struct TrainWorker {
    drawer: Drawer,
    chunk: Chunk,
    workspace: Workspace,
}

/// Minutes of a training run that nobody has bounded.
pub const ENDLESS: f64 = 1e9;

/// Whether there is a network of these sizes.
///
/// # Errors
/// When there is none, with what is possible.
pub fn check_shape(shape: Shape) -> Result<()> {
    ensure!(
        shape.is_valid(),
        "first layers have a multiple of {} columns, up to 4096, hidden layers 1 to 256 units, a game 1 to 32 stages",
        crate::sparse::network::BLOCK
    );
    Ok(())
}

/// Trains, or goes on with it, and returns how far it came. `report` is given the lines of the log.
///
/// # Errors
/// When files cannot be read or written, or the loss is not finite.
pub fn run(settings: &TrainingSettings, report: &mut dyn FnMut(&str)) -> Result<TrainingProgress> {
    settings.shape.map_or(Ok(()), check_shape)?;
    ensure!(
        settings.batch > 0 && settings.chunk > 0 && settings.threads > 0,
        "sizes must be positive"
    );
    ensure!(
        settings.weight_decay >= 0.0 && settings.rate * settings.weight_decay < 1.0,
        "the weight decay times the rate of {} must be from 0 to below 1: the weight decay cannot be {}",
        settings.rate,
        settings.weight_decay
    );
    // Each thread has gradients of its own: what has nothing to do is not started.
    ensure!(
        settings.threads <= settings.batch.div_ceil(settings.chunk),
        "{} threads have nothing to share in a batch of {} positions in chunks of {}",
        settings.threads,
        settings.batch,
        settings.chunk
    );
    std::fs::create_dir_all(&settings.folder)
        .with_context(|| format!("cannot make {}", settings.folder.display()))?;
    let mut run = TrainingRun::begin(settings)?;
    run.go(report)?;
    Ok(run.progress)
}

/// A decay that begins has steps before it, and every one an end at which the rate is zero.
fn check_decay(
    settings: &TrainingSettings,
    progress: &TrainingProgress,
    is_fresh: bool,
) -> Result<()> {
    ensure!(
        settings.steps < u64::MAX || settings.minutes < ENDLESS,
        "a decay needs an end, where the rate is zero: say after how many minutes or steps"
    );
    ensure!(
        !is_fresh || progress.step < settings.steps,
        "the decay is to end at step {}, and the checkpoint is at step {}: steps count from the beginning of the run",
        settings.steps,
        progress.step
    );
    Ok(())
}

/// Whether the run in a folder is a decay of this checkpoint, which may have gone, or gone on, since that began.
fn check_is_decay_of(from: &Path, own: &Path, progress: &TrainingProgress) -> Result<()> {
    let other = "for the decay name another --folder";
    ensure!(
        progress.is_of_a_decay(),
        "{} is of a run that is no decay: {other}",
        own.display()
    );
    ensure!(
        !is_same_place(from, own),
        "{} is of this decay itself: {other}",
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
        "{} is of a decay that began at step {}, and not from {}, which is at step {}: {other}",
        own.display(),
        progress.decay_step,
        from.display(),
        now.step
    );
    Ok(())
}

impl<'a> TrainingRun<'a> {
    fn begin(settings: &'a TrainingSettings) -> Result<TrainingRun<'a>> {
        let own = settings.folder.join(CHECKPOINT);
        let start = match own.exists() {
            true => Some(&own),
            false => settings.decay.as_ref(),
        };
        let saved = start.map(|path| Checkpoint::load(path)).transpose()?;
        let is_fresh_decay = settings.decay.is_some() && start != Some(&own);
        let checkpoint = match saved {
            Some(saved) => saved,
            None => random_start(settings.shape.unwrap_or_default(), settings.mixture.seed),
        };
        ensure!(
            settings.shape.is_none_or(|shape| shape == checkpoint.shape),
            "the checkpoint holds a network of other sizes: {}",
            checkpoint.shape
        );
        let (shape, mut progress) = (checkpoint.shape, checkpoint.progress);
        if let Some(from) = &settings.decay {
            if is_fresh_decay {
                (progress.decay_step, progress.decay_seconds) = (progress.step, progress.seconds);
                progress.is_decay = true;
            } else {
                check_is_decay_of(from, &own, &progress)?;
            }
            check_decay(settings, &progress, is_fresh_decay)?;
        }
        let mixture = Mixture::new(settings.mixture.clone())?;
        let worker = || -> Result<TrainWorker> {
            Ok(TrainWorker {
                drawer: mixture.drawer()?,
                chunk: Chunk::default(),
                workspace: Workspace::default(),
            })
        };
        let workers = (0..settings.threads)
            .map(|_| worker())
            .collect::<Result<_>>()?;
        let test = |path: &PathBuf| -> Result<(String, Vec<Chunk>)> {
            let share = settings.mixture.result_share;
            let chunks = data::held_out(path, settings.test_positions, share)?;
            Ok((path.display().to_string(), chunks))
        };
        let tests = settings.test.iter().map(test).collect::<Result<_>>()?;
        let sections = shape.sections();
        // Only now: what cannot begin leaves no log.
        let mut log = open_to_continue(&settings.folder.join("log.txt"), &[])?;
        log.seek(SeekFrom::End(0))?;
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
        })
    }

    fn go(&mut self, report: &mut dyn FnMut(&str)) -> Result<()> {
        let (start, before) = (Instant::now(), self.progress.seconds);
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
                self.mixture.reopen()?;
            }
            if step.is_multiple_of(self.settings.test_every) {
                self.test(report)?;
            }
        }
        self.save()?;
        let impossible = self.mixture.impossible();
        if impossible > 0 {
            let text = format!(
                "of the records drawn {impossible} hold no possible position and were left out: a file is damaged"
            );
            self.log(&text, report)?;
        }
        self.test(report)
    }

    fn is_over(&self, elapsed: Duration) -> bool {
        let seconds = match self.settings.decay {
            Some(_) => self.progress.seconds - self.progress.decay_seconds,
            None => elapsed.as_secs_f64(),
        };
        seconds >= 60.0 * self.settings.minutes
    }

    /// One batch.
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
                    mixture.draw(&mut worker.drawer, (step, index), size, &mut worker.chunk)?;
                    let gradient = Some((&mut gradient[..], scales));
                    let workspace = &mut worker.workspace;
                    losses += step::run(level, shape, weights, &worker.chunk, gradient, workspace);
                }
            };
        let losses = in_parallel(&mut self.workers, &mut self.gradients, &work)?;
        let total = losses.policy + losses.value + losses.plies;
        ensure!(total.is_finite(), "the loss is not finite at step {step}");
        self.progress.step += 1;
        self.progress.positions += settings.batch as u64;
        let step = self.progress.step;
        let stride = Stride {
            rate: self.rate(),
            weight_decay: settings.weight_decay as f32,
            step,
        };
        self.state
            .update(level, &self.sections, &mut self.gradients, stride);
        if step.is_multiple_of(AVERAGE_EVERY) {
            let steps = (step - self.progress.decay_step) as f64;
            let horizon = (AVERAGE_SHARE * steps).clamp(AVERAGE_EVERY as f64, AVERAGE_MOST);
            self.state
                .average_in(level, (AVERAGE_EVERY as f64 / horizon) as f32);
        }
        Ok(losses)
    }

    /// The learning rate of the step: rising, constant, or falling in a decay.
    fn rate(&self) -> f32 {
        let (settings, progress) = (self.settings, &self.progress);
        let rate = if settings.decay.is_some() {
            let steps = settings.steps.saturating_sub(progress.decay_step).max(1);
            let by_steps = (progress.step - progress.decay_step) as f64 / steps as f64;
            let seconds = progress.seconds - progress.decay_seconds;
            let by_time = seconds / (60.0 * settings.minutes);
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

    fn test(&self, report: &mut dyn FnMut(&str)) -> Result<()> {
        for (name, chunks) in &self.tests {
            let measures = measure_floating(self.shape, &self.state.average, chunks);
            let text = match measures.moves + measures.values > 0.0 {
                true => measures.to_string(),
                false => "no position is held out".into(),
            };
            self.log(&format!("held out {name}: {text}"), report)?;
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

/// The means of losses, for the log.
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

/// Has every worker work, each with a gradient of its own, and adds up the losses.
fn in_parallel(
    workers: &mut [TrainWorker],
    gradients: &mut [Vec<f32>],
    work: &(impl Fn(u64, &mut TrainWorker, &mut Vec<f32>) -> Result<Losses> + Sync),
) -> Result<Losses> {
    std::thread::scope(|scope| {
        let mut pairs = (0..).zip(workers.iter_mut().zip(gradients));
        let own = pairs.next();
        let others: Vec<_> = pairs
            .map(|(number, (worker, gradient))| scope.spawn(move || work(number, worker, gradient)))
            .collect();
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
    let mut network = Floating {
        shape,
        weights,
        level,
    };
    measure::measure(&mut network, chunks)
}

/// How good the averaged weights of a checkpoint are: as trained, and in integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// In floating point.
    pub floating: Measures,
    /// As it is played with.
    pub integers: Measures,
}

/// Measures a checkpoint on positions of a file that are held out (see [`data::held_out`]); `None` if there are none.
///
/// # Errors
/// When the file cannot be read.
pub fn measure_file(
    checkpoint: &Checkpoint,
    path: &Path,
    count: usize,
    result_share: ResultShare,
) -> Result<Option<Quality>> {
    let chunks = data::held_out(path, count, result_share)?;
    let (shape, weights) = (checkpoint.shape, &checkpoint.state.average);
    let mut integers = Integers {
        network: &infer::IntegerNetwork::quantize(shape, weights),
        level: Level::detect(),
        scratch: Scratch::default(),
    };
    let quality = Quality {
        floating: measure_floating(shape, weights, &chunks),
        integers: measure::measure(&mut integers, &chunks),
    };
    let is_any = chunks
        .iter()
        .any(|chunk| !chunk.values.is_empty() || !chunk.shares.is_empty());
    Ok(is_any.then_some(quality))
}

/// The file of a checkpoint's averaged weights in integers, with more metadata (who made it, of what).
pub fn export(checkpoint: &Checkpoint, metadata: &[(&str, &str)]) -> Vec<u8> {
    let network = infer::IntegerNetwork::quantize(checkpoint.shape, &checkpoint.state.average);
    file::write(&network, metadata)
}

#[cfg(test)]
mod tests {
    use shakmaty::{Chess, Color, Position};

    use super::data::{MixPart, NetworkPart};
    use super::start::{Changes, start_from};
    use super::*;
    use crate::dataset::record::{Record, Source};
    use crate::dataset::record_file::{Layout, RecordWriter};

    const TINY: Shape = Shape {
        policy: 64,
        value: 64,
        hidden: 8,
        stages: 1,
    };

    /// A few positions of a game of first moves, each with the move wanted and an evaluation; every eighth is held out.
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
                    path: data.into(),
                    share: 1.0,
                }],
                seed: 1,
                result_weight: 0.1,
                result_share: ResultShare::default(),
                subject: NetworkPart::Both,
            },
            test: vec![data.into()],
            test_positions: 100,
            shape: Some(TINY),
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
        // The time a run took is not the same twice.
        checkpoint.progress.seconds = 0.0;
        checkpoint
    }

    #[test]
    fn a_stopped_run_goes_on_as_if_it_had_not_been_stopped() {
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
    fn weights_that_a_step_uses_decay_by_their_share_and_others_stay() {
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
            // Weights lie in groups: one that the batch did not touch decays with its neighbours or not at all.
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
    fn a_few_positions_are_learned_by_heart_and_a_decay_ends_the_run() {
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
        // It leaves nothing that a next run would go on from.
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
        // What was learned by heart is in the average, which is what is used.
        let checkpoint = Checkpoint::load(&folder.path().join("end").join(CHECKPOINT)).unwrap();
        let records = crate::dataset::record_file::read_all(&data).unwrap();
        let learned: Vec<Record> = records.into_iter().filter(|r| !r.held_out()).collect();
        let weights = &checkpoint.state.average;
        let measures = measure_floating(TINY, weights, &data::chunks(&learned));
        assert!(measures.top1 == 1.0 && measures.policy < 0.1, "{measures}");
        assert!(measures.error < 0.05, "{measures}");
        // So it is in integers and in the file.
        let share = ResultShare::default();
        let quality = measure_file(&checkpoint, &data, 100, share);
        let quality = quality.unwrap().unwrap();
        assert_eq!(quality.integers.moves, 1.0);
        assert!((quality.integers.error - quality.floating.error).abs() < 0.02);
        let bytes = export(&checkpoint, &[("name", "by heart")]);
        let network = file::read(&bytes).unwrap();
        let mut integers = Integers {
            network: &network,
            level: Level::detect(),
            scratch: Scratch::default(),
        };
        let measures = measure::measure(&mut integers, &data::chunks(&learned));
        assert!(measures.top1 == 1.0 && measures.error < 0.06, "{measures}");
    }

    #[test]
    fn a_decay_goes_on_in_its_own_folder_and_begins_in_no_other_runs() {
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
        // From the beginning of a run, too.
        for (main, end, steps) in [("main", "end", 6), ("fresh", "fresh-end", 0)] {
            run_in(main, None, steps).unwrap();
            let before = weights(&at(main));
            let refused = run_in(main, Some(main), steps + 4).unwrap_err().to_string();
            assert!(refused.contains("another --folder"), "{refused}");
            assert!(weights(&at(main)) == before);
            let half = run_in(end, Some(main), steps + 2).unwrap();
            assert_eq!((half.decay_step, half.is_decay), (steps, true));
            // The run may go on meanwhile.
            run_in(main, None, steps + 1).unwrap();
            let whole = run_in(end, Some(main), steps + 4).unwrap();
            assert_eq!((whole.step, whole.decay_step), (steps + 4, steps));
            // What is finished stays as it is, as a plain run does.
            let again = run_in(end, Some(main), steps + 4).unwrap();
            assert_eq!((again.step, again.decay_step), (whole.step, steps));
            let refused = run_in(end, Some(end), steps + 9).unwrap_err().to_string();
            assert!(refused.contains("this decay itself"), "{refused}");
        }
        run_in("other", None, 2).unwrap();
        let refused = run_in("end", Some("other"), 20).unwrap_err().to_string();
        assert!(refused.contains("began at step 6"), "{refused}");
        let refused = run_in("new", Some("other"), 2).unwrap_err().to_string();
        assert!(refused.contains("is to end at step 2"), "{refused}");
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
    fn one_network_learns_while_the_other_stays() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        // Another value network beside the policy that is there.
        let known = export(&random_start(TINY, 5), &[]);
        let changes = Changes {
            value: Some(128),
            forget: Some(NetworkPart::Value),
            ..Changes::default()
        };
        let start = start_from(&known, changes, 9).unwrap();
        let same = start_from(&known, Changes::default(), 9).unwrap();
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

        for (subject, learned, kept) in [
            (NetworkPart::Value, value.clone(), policy.clone()),
            (NetworkPart::Policy, policy, value),
        ] {
            let into = folder.path().join(format!("{subject:?}"));
            std::fs::create_dir(&into).unwrap();
            start.save(&into.join(CHECKPOINT)).unwrap();
            let mut settings = settings(&into, &data);
            (settings.mixture.subject, settings.shape) = (subject, None);
            let mut lines = Vec::new();
            run(&settings, &mut |line| lines.push(line.to_owned())).unwrap();
            let end = weights(&into);
            assert!(
                weights_at(&end, kept.clone()) == weights_at(&start, kept),
                "{subject:?}"
            );
            assert!(weights_at(&end, learned.clone()) != weights_at(&start, learned));
            // What is not learned is measured all the same.
            assert!(
                lines.iter().any(|line| line.contains("held out")),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn a_test_without_positions_is_no_perfect_score() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        // The eighth would be held out.
        write(&data, 7);
        let mut lines = Vec::new();
        let settings = settings(&folder.path().join("run"), &data);
        run(&settings, &mut |line| lines.push(line.to_owned())).unwrap();
        let last = lines.last().unwrap();
        assert!(last.ends_with("no position is held out"), "{last}");
    }

    #[test]
    fn records_without_a_position_are_left_out_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let mut bytes = std::fs::read(&data).unwrap();
        bytes[48 * 3..48 * 3 + 32].fill(0);
        std::fs::write(&data, bytes).unwrap();
        let mut lines = Vec::new();
        let settings = settings(&folder.path().join("run"), &data);
        run(&settings, &mut |line| lines.push(line.to_owned())).unwrap();
        let is_reported = |line: &&String| line.contains("hold no possible position");
        assert_eq!(lines.iter().filter(is_reported).count(), 1, "{lines:?}");
    }

    #[test]
    fn what_cannot_be_learned_from_is_said() {
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
        let told = |data: &Path, subject| {
            let mut settings = settings(&folder.path().join("run"), data);
            (settings.mixture.subject, settings.mixture.result_weight) = (subject, 0.0);
            run(&settings, &mut |_| {}).unwrap_err().to_string()
        };
        let error = told(&data, NetworkPart::Both);
        assert!(
            error.contains(" held out") && !error.contains(','),
            "{error}"
        );
        let write_with = |name: &str, change: fn(&mut Record)| {
            let path = folder.path().join(name);
            let mut writer = RecordWriter::create(&path, Layout::Plain).unwrap();
            let mut record = Record::new(&Chess::default(), false, Source::Real);
            change(&mut record);
            writer.write(&record).unwrap();
            writer.finish().unwrap();
            path
        };
        for (name, change, subject, expected) in [
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
            let error = told(&write_with(name, change), subject);
            assert!(
                error.contains(name) && error.contains(expected) && !error.contains("held out"),
                "{error}"
            );
        }
    }
}
