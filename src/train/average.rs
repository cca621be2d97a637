//! The averaged weights, which are tested and exported.

use std::borrow::Cow;

use super::adam::Moments;
use super::checkpoint::TrainingProgress;

/// Steps between two updates of the averaged weights.
pub(super) const AVERAGE_EVERY: u64 = 8;
/// Horizon of the average: this share of the steps so far, at most `AVERAGE_MOST` steps.
const AVERAGE_SHARE: f64 = 0.1;
const AVERAGE_MOST: f64 = 2000.0;

/// How far the average moves towards the weights, this many steps after its last update.
pub(super) fn average_share(steps: u64, progress: &TrainingProgress) -> f32 {
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
pub(super) fn averaged<'a>(state: &'a Moments, progress: &TrainingProgress) -> Cow<'a, [f32]> {
    let steps = progress.step % AVERAGE_EVERY;
    if steps == 0 {
        return Cow::Borrowed(&state.average);
    }
    let share = average_share(steps, progress);
    let pairs = state.average.iter().zip(&state.weights);
    Cow::Owned(pairs.map(|(a, w)| a + share * (w - a)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::checkpoint::Checkpoint;
    use crate::train::chunk::Chunk;
    use crate::train::data::{self, GamesFile};
    use crate::train::export;
    use crate::train::measure::measure_floating;
    use crate::train::run::run;
    use crate::train::start::random_start;
    use crate::train::targets::ResultShare;
    use crate::train::testing::{TINY, settings, weights, write};

    #[test]
    fn the_last_steps_of_a_run_are_in_its_average() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 24);
        let start = random_start(TINY, 1);
        let at = |steps: u64| {
            let mut settings = settings(&folder.path().join("run"), &data);
            (settings.steps, settings.rate) = (Some(steps), 1e-2);
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
}
