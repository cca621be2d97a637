//! Where the times of a GPU's batches are kept, so that a search has the same batches whatever the card was doing while
//! the network was loaded.
//!
//! Each network has a file for each combination of what the times depend on: cards, number of the card, backend and its
//! settings, form of the graph, precision, batch sizes, and the versions of the libraries. They are measured anew if
//! there is no such file, or if the smallest batch or one of 64 positions (or of the next size) now takes a third more
//! or less time than the file says.

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

/// The batch that, with the smallest one, shows whether the times of the file still hold; if there is none of this
/// size, the next larger one, or else the largest.
const CHECKED_BATCH: usize = 64;

/// Times that differ by more than this factor are not the same.
const TOLERANCE: f64 = 1.33;

/// No file of times is as long, in bytes.
const MAX_BYTES: u64 = 1 << 12;

/// Times of batches, by size.
pub(super) type Times = Vec<(usize, Duration)>;

/// The batches of one network that are timed, and the file of their times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimesCache {
    /// `None` if the user has no cache folder: nothing is kept then.
    path: Option<PathBuf>,
    sizes: Vec<usize>,
}

impl TimesCache {
    /// For a model, these settings (whatever else the times depend on) and the sizes of its batches (ascending; none if
    /// it takes any), in the user's cache folder.
    pub(super) fn of(model: &[u8], settings: &str, sizes: Vec<usize>) -> TimesCache {
        let folder = user_cache().map(|cache| cache.join("batch-times"));
        TimesCache {
            path: folder.map(|folder| folder.join(folder_name(model, settings))),
            sizes,
        }
    }

    /// The sizes of the network's batches, ascending; none if it takes any.
    pub(super) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The times in the file; `None` if there is none, or it is damaged.
    fn read(&self) -> Option<Times> {
        let bytes = files::read(self.path.as_ref()?, MAX_BYTES).ok()?;
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
        let Some(path) = &self.path else { return };
        let line = |(size, time): &(usize, Duration)| format!("{size} {}\n", time.as_nanos());
        let text: String = times.iter().map(line).collect();
        let folder = path.parent().unwrap_or(Path::new("."));
        if fs::create_dir_all(folder).is_ok() {
            let _ = output::write(path, text.as_bytes(), true, &[]);
        }
    }
}

/// The times in the file if they still hold, or else those that `measure` gives, which are then kept.
///
/// # Errors
/// Those of `time_of`, which measures one size, and of `measure`.
pub(super) fn cached_or_measured(
    cache: Option<&TimesCache>,
    time_of: impl Fn(usize) -> Result<Duration, EvaluateError>,
    measure: impl FnOnce() -> Result<Times, EvaluateError>,
) -> Result<Times, EvaluateError> {
    if let Some(cache) = cache
        && let Some(times) = cache.read()
        && still_hold(&times, time_of)?
    {
        return Ok(times);
    }
    let times = measure()?;
    if let Some(cache) = cache {
        cache.write(&times);
    }
    Ok(times)
}

/// Whether the smallest batch and that of [`CHECKED_BATCH`] positions take the time that they took before.
fn still_hold(
    times: &[(usize, Duration)],
    time_of: impl Fn(usize) -> Result<Duration, EvaluateError>,
) -> Result<bool, EvaluateError> {
    let larger = times.iter().find(|(size, _)| *size >= CHECKED_BATCH);
    let (Some(larger), Some(smallest)) = (larger.or(times.last()), times.first()) else {
        return Ok(false);
    };
    let is_as_before = |&(size, before): &(usize, Duration)| -> Result<bool, EvaluateError> {
        Ok(is_near(time_of(size)?, before))
    };
    Ok(is_as_before(larger)? && (smallest == larger || is_as_before(smallest)?))
}

/// Whether these are times of the same batch on the same card.
fn is_near(now: Duration, before: Duration) -> bool {
    let (now, before) = (now.as_secs_f64(), before.as_secs_f64());
    now <= before * TOLERANCE && before <= now * TOLERANCE
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A file of times of batches of these sizes.
    fn cache(path: PathBuf, sizes: &[usize]) -> TimesCache {
        TimesCache {
            path: Some(path),
            sizes: sizes.to_vec(),
        }
    }

    /// The times of a card that needs these microseconds for one position and for more, whether they were measured
    /// anew, and what was checked before.
    fn times_on(cache: &TimesCache, [one, more]: [u64; 2]) -> (Times, bool, Vec<usize>) {
        let [one, more] = [one, more].map(Duration::from_micros);
        let (mut is_measured, checked) = (false, RefCell::new(Vec::new()));
        let time_of = |size| {
            checked.borrow_mut().push(size);
            Ok(if size == 1 { one } else { more })
        };
        let times = cached_or_measured(Some(cache), time_of, || {
            is_measured = true;
            let sizes: &[usize] = match &cache.sizes[..] {
                [] => &[1, 64, 256],
                sizes => sizes,
            };
            let time = |&size: &usize| (size, if size == 1 { one } else { more });
            Ok(sizes.iter().map(time).collect())
        });
        (times.unwrap(), is_measured, checked.into_inner())
    }

    /// The times of a card with these microseconds for 64 positions, and whether they were measured anew.
    fn times(cache: &TimesCache, microseconds: u64) -> (Times, bool) {
        let (times, is_measured, _) = times_on(cache, [microseconds / 2, microseconds]);
        (times, is_measured)
    }

    #[test]
    fn times_are_measured_once_and_again_when_the_card_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path().join("made/when/needed"), &[]);
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
    fn an_accident_at_the_smallest_batch_is_found_when_the_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path().join("times"), &[1, 32, 64, 128]);
        assert!(times_on(&cache, [1000, 260]).1);
        let (found, is_measured, checked) = times_on(&cache, [190, 260]);
        assert!(is_measured);
        assert_eq!(checked, [64, 1]);
        assert_eq!(found[0], (1, Duration::from_micros(190)));
        assert!(!times_on(&cache, [190, 260]).1);
    }

    #[test]
    fn batches_that_there_are_show_whether_times_hold() {
        let folder = tempfile::tempdir().unwrap();
        for (sizes, expected) in [
            (&[][..], &[64, 1][..]),
            (&[8, 64, 256], &[64, 8]),
            (&[32, 256], &[256, 32]),
            (&[8, 16], &[16, 8]),
            (&[16], &[16]),
        ] {
            let cache = cache(folder.path().join(format!("{sizes:?}")), sizes);
            assert!(times_on(&cache, [190, 260]).1, "{sizes:?}");
            let (_, is_measured, checked) = times_on(&cache, [190, 260]);
            assert!(!is_measured, "{sizes:?}");
            assert_eq!(checked, expected, "{sizes:?}");
        }
        // A slow card, whose larger batches were not timed.
        let [one, many] = [40, 90].map(Duration::from_millis);
        let times = [(1, one), (32, many)];
        let time_of = |size| Ok(if size == 1 { one } else { many });
        assert!(still_hold(&times, time_of).unwrap());
        assert!(!still_hold(&times, |_| Ok(one)).unwrap());
    }

    #[test]
    fn a_damaged_file_is_measured_and_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times");
        let cache = cache(path.clone(), &[]);
        for damage in ["", "64", "64 x\n", "1 5\n64 -1\n", "\u{0}"] {
            fs::write(&path, damage).unwrap();
            assert!(times(&cache, 260).1, "{damage:?}");
            assert!(!times(&cache, 260).1, "{damage:?}");
        }
    }

    #[test]
    fn times_that_cannot_be_kept_are_measured_each_time() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let unwritable = cache(folder.path().join("file/times"), &[]);
        let nowhere = TimesCache {
            path: None,
            sizes: Vec::new(),
        };
        for cache in [unwritable, nowhere] {
            assert!(times(&cache, 260).1 && times(&cache, 260).1);
        }
        let fails = |_| -> Result<Duration, EvaluateError> { unreachable!("there is no file") };
        let measured = cached_or_measured(None, fails, || Ok(vec![(1, Duration::from_micros(5))]));
        assert_eq!(measured.unwrap().len(), 1);
    }
}
