//! Where the times of a GPU's batches are kept, so that a search has the same batches whatever the card was doing while
//! the network was loaded.
//!
//! Each network has a file for each combination of what the times depend on: cards, number of the card, backend,
//! precision, batch sizes, and the versions of the libraries. They are measured anew if there is no such file, or if
//! 64 positions now take a third more or less time than the file says.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::engine_cache::{folder_name, user_cache};
use crate::{
    files::{self, output},
    network::EvaluateError,
};

/// The batch that shows whether the times of the file still hold.
const CHECKED_BATCH: usize = 64;

/// Times that differ by more than this factor are not the same.
const TOLERANCE: f64 = 1.33;

/// No file of times is as long, in bytes.
const MAX_BYTES: u64 = 1 << 12;

/// Times of batches, by size.
pub(super) type Times = Vec<(usize, Duration)>;

/// The file of the times of one network.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimesCache {
    path: PathBuf,
}

impl TimesCache {
    /// For a model and these settings (whatever else the times depend on), in the user's cache folder; `None` if the
    /// user has none.
    pub(super) fn of(model: &[u8], settings: &str) -> Option<TimesCache> {
        let folder = user_cache()?.join("batch-times");
        Some(TimesCache::at(folder.join(folder_name(model, settings))))
    }

    /// In this file.
    fn at(path: PathBuf) -> TimesCache {
        TimesCache { path }
    }

    /// The times in the file; `None` if there is none, or it is damaged.
    fn read(&self) -> Option<Times> {
        let bytes = files::read(&self.path, MAX_BYTES).ok()?;
        let text = str::from_utf8(&bytes).ok()?;
        let time = |line: &str| {
            let (size, nanoseconds) = line.split_once(' ')?;
            let time = Duration::from_nanos(nanoseconds.parse().ok()?);
            Some((size.parse().ok()?, time))
        };
        let times: Times = text.lines().map(time).collect::<Option<_>>()?;
        (!times.is_empty()).then_some(times)
    }

    /// Keeps these times. What cannot be written is measured the next time, too.
    fn write(&self, times: &[(usize, Duration)]) {
        let line = |(size, time): &(usize, Duration)| format!("{size} {}\n", time.as_nanos());
        let text: String = times.iter().map(line).collect();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        if fs::create_dir_all(folder).is_ok() {
            let _ = output::write(&self.path, text.as_bytes(), true, &[]);
        }
    }
}

/// The times in the file if they still hold, or else those that `measure` gives, which are then kept.
///
/// # Errors
/// Those of `time_of`, which measures one size, and of `measure`.
pub(super) fn cached_or_measured(
    cache: Option<&TimesCache>,
    mut time_of: impl FnMut(usize) -> Result<Duration, EvaluateError>,
    measure: impl FnOnce() -> Result<Times, EvaluateError>,
) -> Result<Times, EvaluateError> {
    let cached = cache.and_then(TimesCache::read);
    if let Some(times) = cached
        && let Some(&(size, before)) = times.iter().find(|(size, _)| *size == CHECKED_BATCH)
        && is_as_before(time_of(size)?, before)
    {
        return Ok(times);
    }
    let times = measure()?;
    if let Some(cache) = cache {
        cache.write(&times);
    }
    Ok(times)
}

/// Whether a batch takes the time that it took before.
fn is_as_before(now: Duration, before: Duration) -> bool {
    let (now, before) = (now.as_secs_f64(), before.as_secs_f64());
    now <= before * TOLERANCE && before <= now * TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a card with these microseconds for 64 positions takes: the times, and whether they were measured anew.
    fn times(cache: &TimesCache, microseconds: u64) -> (Times, bool) {
        let mut is_measured = false;
        let time = Duration::from_micros(microseconds);
        let times = cached_or_measured(
            Some(cache),
            |size| {
                assert_eq!(size, CHECKED_BATCH);
                Ok(time)
            },
            || {
                is_measured = true;
                Ok(vec![(1, time / 2), (CHECKED_BATCH, time), (256, 2 * time)])
            },
        );
        (times.unwrap(), is_measured)
    }

    #[test]
    fn times_are_measured_once_and_again_when_the_card_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let cache = TimesCache::at(folder.path().join("made/when/needed"));
        let (first, is_measured) = times(&cache, 260);
        assert!(is_measured);
        // A busy card is a little slower: the times stay those of the first measurement.
        assert_eq!(times(&cache, 300), (first.clone(), false));
        assert_eq!(times(&cache, 200), (first.clone(), false));
        for other in [400, 100] {
            let (found, is_measured) = times(&cache, other);
            assert!(is_measured && found != first, "{other}");
            assert_eq!(times(&cache, other), (found, false));
        }
    }

    #[test]
    fn a_damaged_file_is_measured_and_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let cache = TimesCache::at(folder.path().join("times"));
        for damage in ["", "64", "64 x\n", "1 5\n64 -1\n", "1 95000\n", "\u{0}"] {
            fs::write(&cache.path, damage).unwrap();
            assert!(times(&cache, 260).1, "{damage:?}");
            assert!(!times(&cache, 260).1, "{damage:?}");
        }
    }

    #[test]
    fn times_that_cannot_be_kept_are_measured_each_time() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let cache = TimesCache::at(folder.path().join("file/times"));
        assert!(times(&cache, 260).1 && times(&cache, 260).1);
        let fails = |_| -> Result<Duration, EvaluateError> { unreachable!("there is no file") };
        let measured = cached_or_measured(None, fails, || Ok(vec![(1, Duration::from_micros(5))]));
        assert_eq!(measured.unwrap().len(), 1);
    }
}
