//! The settings of a training run, and their checks.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::checkpoint::{self, TrainingProgress};
use super::data::{GamesFile, MixtureSettings};
use super::start::{Sizes, check_shape};
use super::step::ValueLoss;
use crate::files::output::is_same_place;
use crate::sparse::network::Shape;

/// Seconds by which the time in two checkpoints of the same step may differ: numbers are rounded as JSON is read.
const SECONDS_TOLERANCE: f64 = 1e-3;
/// Positions that a thread processes at a time, as long as the threads can share a batch.
pub const CHUNK: usize = 512;

/// Settings of a training run.
#[derive(Clone, Debug)]
pub struct TrainingSettings {
    /// Folder of the checkpoint and the log.
    pub folder: PathBuf,
    /// The training data. Its seed also initialises random weights.
    pub mixture: MixtureSettings,
    /// Files whose positions the network is tested on (see [`test_set`](super::data::test_set)).
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
    /// Step at which the run ends; no limit if `None`.
    pub steps: Option<u64>,
    /// Minutes after which the run ends (counted from the start of the decay, if it is one); no limit if `None`.
    pub minutes: Option<f64>,
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
    /// Checks what can be checked before a file is opened.
    pub(super) fn check(&self) -> Result<()> {
        check_shape(self.sizes.over(Shape::default()))?;
        ensure!(
            self.batch > 0 && self.chunk > 0 && self.threads > 0,
            "batch size, chunk size and number of threads must be positive"
        );
        ensure!(
            self.weight_decay >= 0.0 && self.rate * self.weight_decay < 1.0,
            "invalid weight decay {}: multiplied by the learning rate {}, it must be at least 0 and less than 1",
            self.weight_decay,
            self.rate
        );
        // Each thread allocates its own gradients, so idle threads are refused.
        ensure!(
            self.threads <= self.batch.div_ceil(self.chunk),
            "too many threads: {} threads cannot share a batch of {} positions in chunks of {}; set a smaller --chunk, \
             a larger --batch, or fewer --threads",
            self.threads,
            self.batch,
            self.chunk
        );
        Ok(())
    }

    /// Checks that the network has inputs for what `--data` and `--test` say of the players.
    pub(super) fn check_players(&self, shape: Shape) -> Result<()> {
        let data = self.mixture.data.iter().map(|part| &part.file);
        data.chain(&self.test)
            .try_for_each(|file| file.check_players(shape.inputs))
    }

    /// Checks that a file whose test positions are not marked as held out is not trained on.
    pub(super) fn check_test(&self, test: &GamesFile) -> Result<()> {
        let mut data = self.mixture.data.iter().map(|part| &part.file.path);
        ensure!(
            !data.any(|path| is_same_place(path, &test.path)),
            "{} is given to both --data and --test, and none of its positions is marked as held out: it would be \
             tested on what it is trained on. Give --test a file that is not in --data",
            test.path.display()
        );
        Ok(())
    }

    /// Checks that a decay which begins at a checkpoint with this progress has an end after it.
    pub(super) fn check_new_decay(&self, progress: &TrainingProgress) -> Result<()> {
        self.check_has_end()?;
        if let Some(steps) = self.steps {
            ensure!(
                progress.step < steps,
                "the decay would end at step {steps}, but the checkpoint is already at step {}: steps count from the \
                 beginning of the run, so set --steps higher",
                progress.step
            );
        }
        Ok(())
    }

    /// Checks that the run, whose checkpoint is or will be at `own`, is the decay that the settings name, and that it
    /// is none if they name none.
    pub(super) fn check_continued(&self, own: &Path, progress: &TrainingProgress) -> Result<()> {
        let Some(from) = &self.decay else {
            ensure!(
                !progress.is_decay,
                "{} belongs to a decay, which would go on at the full rate without --decay: give it the checkpoint \
                 that the decay began from. To train on at the full rate, use another --folder with that checkpoint, \
                 or with one of scorn train start --network",
                own.display()
            );
            return Ok(());
        };
        check_is_decay_of(from, own, progress)?;
        self.check_end(own, progress)?;
        self.check_has_end()
    }

    /// Whether a limit of the run is reached, given its step and the seconds that count.
    pub(super) fn is_over(&self, step: u64, seconds: f64) -> bool {
        self.steps.is_some_and(|steps| step >= steps)
            || self
                .minutes
                .is_some_and(|minutes| seconds >= 60.0 * minutes)
    }

    /// Checks that a decay has an end.
    fn check_has_end(&self) -> Result<()> {
        ensure!(
            self.steps.is_some() || self.minutes.is_some(),
            "a decay needs an end, where the learning rate reaches zero: set --minutes or --steps"
        );
        Ok(())
    }

    /// Checks that a decay that has ended does not go on: its rate would rise again.
    fn check_end(&self, own: &Path, progress: &TrainingProgress) -> Result<()> {
        let Some(end) = progress.decay_end else {
            return Ok(());
        };
        ensure!(
            self.is_over(progress.step, progress.seconds_of_decay()),
            "{} belongs to a decay that ended at step {end}, where the learning rate reached zero; with these --steps \
             and --minutes it would go on at a raised rate. For a longer decay, use another --folder",
            own.display()
        );
        Ok(())
    }
}

/// The default of [`TrainingSettings::chunk`]: [`CHUNK`], or less where the threads could not share a batch.
pub fn default_chunk(batch: usize, threads: usize) -> usize {
    if threads <= batch.div_ceil(CHUNK) {
        CHUNK
    } else {
        (batch / threads.max(1)).max(1)
    }
}

/// Checks that the run in a folder is a decay of the checkpoint `from`. That checkpoint may have advanced or been
/// deleted since the decay began.
fn check_is_decay_of(from: &Path, own: &Path, progress: &TrainingProgress) -> Result<()> {
    let other = "use another --folder for the decay";
    ensure!(
        progress.is_decay,
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
    let is_same = now.step == progress.decay_step
        && (now.seconds - progress.decay_seconds).abs() < SECONDS_TOLERANCE;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::batches::{self, BatchEncoding, BatchSettings};
    use crate::train::checkpoint::Checkpoint;
    use crate::train::measure::measure_file;
    use crate::train::run::{CHECKPOINT, run};
    use crate::train::targets::ResultShare;
    use crate::train::testing::{settings, weights, write};

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
    fn a_run_is_over_at_the_first_of_its_limits() {
        let mut settings = settings(Path::new("never made"), Path::new("x.rec"));
        for (steps, minutes, expected) in [
            (None, None, [false; 3]),
            (Some(10), None, [false, true, true]),
            (None, Some(2.0), [false, false, true]),
            (Some(10), Some(2.0), [false, true, true]),
            (Some(99), Some(0.5), [false, true, true]),
        ] {
            (settings.steps, settings.minutes) = (steps, minutes);
            let over = [(9, 29.0), (10, 31.0), (u64::MAX, 1e12)]
                .map(|(step, seconds)| settings.is_over(step, seconds));
            assert_eq!(over, expected, "{steps:?} {minutes:?}");
        }
        settings.decay = Some("main".into());
        let progress = TrainingProgress::default();
        assert!(settings.check_new_decay(&progress).is_ok());
        settings.steps = None;
        assert!(settings.check_new_decay(&progress).is_ok());
        settings.minutes = None;
        assert!(settings.check_new_decay(&progress).is_err());
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
            let batches = BatchSettings {
                mixture: trained.mixture.clone(),
                encoding: BatchEncoding::Dense,
                batch: 8,
                from: 0,
                steps: Some(1),
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
    fn a_decay_continues_in_its_own_folder_and_never_starts_in_that_of_another_run() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let at = |name: &str| folder.path().join(name);
        let run_in = |name: &str, from: Option<&str>, steps: u64| {
            let mut settings = settings(&at(name), &data);
            settings.decay = from.map(|from| at(from).join(CHECKPOINT));
            settings.steps = Some(steps);
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
            settings.steps = Some(steps);
            let progress = run(&settings, &mut |_| {}).unwrap();
            let end = from.map(|_| steps);
            assert_eq!((progress.step, progress.decay_end), (steps, end));
        }
    }
}
