//! A training run: locks its folder, continues its checkpoint, then trains, logs, saves and tests.

use std::{
    fs::{self, File},
    io::{self, Seek, SeekFrom, Write},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::adam::{AdamWStep, Moments};
use super::average::{AVERAGE_EVERY, average_share, averaged};
use super::checkpoint::{self, Checkpoint, TrainingProgress};
use super::chunk::Chunk;
use super::data::{self, BatchSampler, DrawNumber, GamesFile, Mixture, TestSet};
use super::measure::measure_floating;
use super::settings::TrainingSettings;
use super::start::random_start;
use super::step::{self, Losses, Scales, Workspace};
use crate::files::output::{open_to_continue, remove, remove_partial};
use crate::sparse::features::InputSet;
use crate::sparse::network::{Sections, Shape};
use crate::sparse::simd::Level;
use crate::terminal;
use crate::threads;

/// File name of a run's checkpoint in its folder.
pub(super) const CHECKPOINT: &str = "checkpoint";
/// The name of a run's log in its folder; whoever has locked it trains there.
const LOG: &str = "log.txt";

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
    tests: Vec<NamedTest>,
    /// The step of the last test.
    tested_step: Option<u64>,
    /// The log file. It is locked so that no other process trains in this folder.
    log: File,
}

/// The test positions of a file.
struct NamedTest {
    file: String,
    set: TestSet<Chunk>,
}

impl NamedTest {
    /// Draws the test positions of a file, for a network with these inputs.
    fn read(settings: &TrainingSettings, file: &GamesFile, inputs: InputSet) -> Result<NamedTest> {
        let share = settings.mixture.targets.result_share;
        let empty = || Chunk::of(inputs);
        let set = data::test_set(file, settings.test_positions, share, empty)?;
        if !set.is_held_out {
            settings.check_test(file)?;
        }
        let file = file.path.display().to_string();
        Ok(NamedTest { file, set })
    }
}

/// Per-thread state.
struct TrainWorker {
    sampler: BatchSampler,
    chunk: Chunk,
    workspace: Workspace,
}

/// Starts or continues a training run and returns its progress at the end. `report` receives the lines of the log.
///
/// # Errors
/// When files cannot be read or written, or the loss is not finite.
pub fn run(settings: &TrainingSettings, report: &mut dyn FnMut(&str)) -> Result<TrainingProgress> {
    settings.check()?;
    let is_new = !settings.folder.exists();
    fs::create_dir_all(&settings.folder)
        .with_context(|| format!("cannot create the folder {}", settings.folder.display()))?;
    let begun = TrainingRun::begin(settings);
    if begun.is_err() && is_new {
        // Only if it is empty: another process may use it by now.
        let _ = fs::remove_dir(&settings.folder);
    }
    let mut run = begun?;
    run.train(report)?;
    Ok(run.progress)
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
            // The reason for the failure counts, not what becomes of the log.
            let _ = remove(&path);
        }
        run
    }

    /// The run that continues the folder's checkpoint, or starts a new one. `log` is open and locked.
    fn load(settings: &'a TrainingSettings, log: File) -> Result<TrainingRun<'a>> {
        let own = settings.folder.join(CHECKPOINT);
        let start = if own.exists() {
            Some(&own)
        } else {
            settings.decay.as_ref()
        };
        let saved = start.map(|path| Checkpoint::load(path)).transpose()?;
        let is_fresh_decay = settings.decay.is_some() && start != Some(&own);
        let checkpoint = match saved {
            Some(saved) => saved,
            None => random_start(settings.sizes.over(Shape::default()), settings.mixture.seed),
        };
        ensure!(
            settings.sizes.over(checkpoint.shape) == checkpoint.shape,
            "the checkpoint holds a network of other sizes ({}): leave out the options for sizes, or use another \
             --folder",
            checkpoint.shape
        );
        let (shape, mut progress) = (checkpoint.shape, checkpoint.progress);
        if is_fresh_decay {
            (progress.decay_step, progress.decay_seconds) = (progress.step, progress.seconds);
            (progress.is_decay, progress.decay_end) = (true, None);
            settings.check_new_decay(&progress)?;
        } else {
            settings.check_continued(&own, &progress)?;
        }
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
        let tests = settings.test.iter();
        let tests = tests.map(|file| NamedTest::read(settings, file, shape.inputs));
        let tests = tests.collect::<Result<_>>()?;
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

    /// Trains up to the end that the settings give, then saves and tests.
    fn train(&mut self, report: &mut dyn FnMut(&str)) -> Result<()> {
        let (start, before) = (Instant::now(), self.progress.seconds);
        let first_step = self.progress.step;
        let (mut losses, mut since) = (Losses::default(), Instant::now());
        let mut counted = self.progress.positions;
        while !self.is_over(start.elapsed()) {
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
        if self.settings.decay.is_some() && (step > first_step || Some(step) == self.settings.steps)
        {
            self.progress.decay_end = Some(self.progress.step);
        }
        self.save()?;
        let impossible = self.mixture.impossible();
        if impossible > 0 {
            let text = format!(
                "skipped {} with an impossible position: a data file is damaged",
                terminal::counted(impossible, "sample")
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
        self.settings.is_over(self.progress.step, seconds)
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
                    let index = if settings.fixed_order {
                        own.next().unwrap_or(chunks)
                    } else {
                        next.fetch_add(1, Ordering::Relaxed)
                    };
                    if index >= chunks {
                        return Ok(losses);
                    }
                    let size = settings
                        .chunk
                        .min(settings.batch - index as usize * settings.chunk);
                    let drawn = DrawNumber { step, chunk: index };
                    mixture.draw(&mut worker.sampler, drawn, size, &mut worker.chunk)?;
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
            let by_steps = settings.steps.map_or(0.0, |end| {
                let steps = end.saturating_sub(progress.decay_step).max(1);
                (progress.step - progress.decay_step) as f64 / steps as f64
            });
            let by_time = settings.minutes.map_or(0.0, |minutes| {
                progress.seconds_of_decay() / (60.0 * minutes)
            });
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
        for NamedTest { file, set } in &self.tests {
            let measures = measure_floating(self.shape, &weights, &set.batches);
            let text = if measures.moves + measures.values > 0.0 {
                measures.to_string()
            } else {
                "no positions to test on".into()
            };
            let kind = if set.is_held_out { "held out" } else { "test" };
            self.log(&format!("{kind} {file}: {text}"), report)?;
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

#[cfg(test)]
mod tests {
    use std::{ops::Range, path::Path};

    use shakmaty::Chess;

    use super::*;
    use crate::dataset::record::{Record, Source};
    use crate::dataset::record_file::{Layout, RecordWriter, read_all};
    use crate::sparse::{file, history::Past, infer::Scratch};
    use crate::train::data::NetworkPart;
    use crate::train::export;
    use crate::train::measure::{Integers, measure, measure_file};
    use crate::train::start::{Changes, Sizes, start_from};
    use crate::train::targets::ResultShare;
    use crate::train::testing::{TINY, settings, weights, write};

    #[test]
    fn an_interrupted_run_gives_the_same_network() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
        run(&settings(&whole, &data), &mut |_| {}).unwrap();
        let mut first = settings(&parts, &data);
        first.steps = Some(7);
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
            (settings.steps, settings.warmup, settings.rate) = (Some(1), 1, 1e-3);
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
        (run_settings.steps, run_settings.rate) = (Some(250), 1e-2);
        run(&run_settings, &mut |_| {}).unwrap();
        let mut decay = settings(&folder.path().join("end"), &data);
        decay.decay = Some(main.join(CHECKPOINT));
        (decay.steps, decay.minutes) = (None, None);
        let refused = run(&decay, &mut |_| {}).unwrap_err().to_string();
        assert!(refused.contains("needs an end"), "{refused}");
        // The refused run leaves nothing behind.
        assert!(!decay.folder.join("log.txt").exists());
        (decay.steps, decay.rate) = (Some(450), 1e-2);
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
        let records = read_all(&data).unwrap();
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
        let measures = measure(
            &mut integers,
            &data::chunks(&training, &GamesFile::from(&*data), Chunk::default),
        );
        assert!(measures.top1 == 1.0 && measures.error < 0.06, "{measures}");
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
        let weights_at =
            |checkpoint: &Checkpoint, part: Range<usize>| checkpoint.state.weights[part].to_vec();
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
            fs::create_dir(&into).unwrap();
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
        let mut bytes = fs::read(&data).unwrap();
        bytes[48 * 3..48 * 3 + 32].fill(0);
        fs::write(&data, bytes).unwrap();
        let mut lines = Vec::new();
        let settings = settings(&folder.path().join("run"), &data);
        run(&settings, &mut |line| lines.push(line.to_owned())).unwrap();
        let skipped = |line: &String| {
            let (rest, _) = line.split_once(" samples with an impossible position")?;
            rest.rsplit(' ').next()?.parse::<u64>().ok()
        };
        let counts: Vec<u64> = lines.iter().filter_map(skipped).collect();
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
        let mut records = read_all(&data).unwrap();
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
