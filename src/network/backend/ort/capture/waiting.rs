//! How a thread waits for the end of a batch. Sleeping costs nothing but the time that waking takes, some 5 µs, in a
//! virtual machine some 50; polling keeps a processor busy. Which one pays is measured at loading
//! ([`measured_limits`]).

use std::{
    hint, iter,
    time::{Duration, Instant},
};

use super::stream::DeviceStream;

/// Minimum number of processors with which a thread may poll: fewer have the search's own threads to run.
const MIN_PROCESSORS: usize = 8;

/// Polling pays if it saves this part of the time of the smallest batch.
const MIN_GAIN: f64 = 0.05;

/// Batches that take longer than the smallest one by this factor are not polled for: what polling saves is little of
/// their time.
const LONGEST: u32 = 4;

/// A thread polls for this many times what the batch takes alone: the device may be busy with another one.
const PATIENCE: u32 = 2;

/// The time between two looks. Each one asks the device's driver, which other threads use, too.
const LOOK_EVERY: Duration = Duration::from_micros(5);

/// Batches of the smallest size that are measured with each way of waiting, and those of every other size.
const TRIALS: usize = 25;
const TRIALS_OF_SIZE: usize = 3;

/// Waits for the end of a batch: polls until `limit` is over, and then sleeps. A limit of zero sleeps at once.
///
/// # Errors
/// Those of `is_done` and `sleep`.
pub fn poll_then_sleep(
    limit: Duration,
    mut is_done: impl FnMut() -> Result<bool, String>,
    sleep: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    if !limit.is_zero() {
        let begin = Instant::now();
        loop {
            if is_done()? {
                return Ok(());
            }
            let looked = begin.elapsed();
            if looked >= limit {
                break;
            }
            while begin.elapsed() - looked < LOOK_EVERY {
                hint::spin_loop();
            }
        }
    }
    sleep()
}

/// How long to poll for the end of a batch of each of `count` sizes on this machine; zero is to sleep at once.
/// `processors` are those that this process may use. All sizes are captured, and their inputs written.
///
/// # Errors
/// The message of the device.
pub fn measured_limits(
    stream: &mut dyn DeviceStream,
    count: usize,
    processors: usize,
) -> Result<Vec<Duration>, String> {
    let never = vec![Duration::ZERO; count];
    if processors < MIN_PROCESSORS {
        return Ok(never);
    }
    let (mut sleeping, mut polling) = (Vec::new(), Vec::new());
    for _ in 0..TRIALS {
        sleeping.push(time_of(stream, 0, Duration::ZERO)?);
        polling.push(time_of(stream, 0, Duration::MAX)?);
    }
    let (sleeping, smallest) = (median(sleeping), median(polling));
    if !is_worth_it(sleeping, smallest) {
        return Ok(never);
    }
    let limit_of = |place| {
        let times = (0..TRIALS_OF_SIZE).map(|_| time_of(stream, place, Duration::MAX));
        let times: Result<Vec<Duration>, String> = times.collect();
        Ok(limit(median(times?), smallest))
    };
    let others = (1..count).map(limit_of);
    iter::once(Ok(limit(smallest, smallest)))
        .chain(others)
        .collect()
}

/// The time of one batch, where a thread waits so.
fn time_of(
    stream: &mut dyn DeviceStream,
    place: usize,
    limit: Duration,
) -> Result<Duration, String> {
    let begin = Instant::now();
    stream.launch(place)?;
    stream.wait(limit)?;
    Ok(begin.elapsed())
}

/// Whether polling pays, by the time of the smallest batch with each way of waiting.
fn is_worth_it(sleeping: Duration, polling: Duration) -> bool {
    let gain = sleeping.saturating_sub(polling);
    !gain.is_zero() && gain.as_secs_f64() >= MIN_GAIN * sleeping.as_secs_f64()
}

/// How long to poll for a batch that takes `time`.
fn limit(time: Duration, smallest: Duration) -> Duration {
    if time <= smallest * LONGEST {
        time * PATIENCE
    } else {
        Duration::ZERO
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{
        super::{
            fake::FakeCard,
            stream::{CaptureLock, capture_all},
        },
        *,
    };

    #[test]
    fn a_thread_polls_for_the_end_of_a_batch_for_a_while_and_then_sleeps() {
        let long = Duration::from_secs(600);
        for (limit, done_at, expected_polls, expected_sleeps) in [
            (Duration::ZERO, 0, 0, 1),
            (long, 0, 1, 0),
            (long, 3, 4, 0),
            // It is over after the first poll.
            (Duration::from_nanos(1), usize::MAX, 1, 1),
        ] {
            let (mut polls, mut sleeps) = (0, 0);
            let is_done = || {
                polls += 1;
                // Longer than the shortest limit.
                thread::sleep(Duration::from_micros(1));
                Ok(polls > done_at)
            };
            let sleep = || {
                sleeps += 1;
                Ok(())
            };
            poll_then_sleep(limit, is_done, sleep).unwrap();
            assert_eq!((polls, sleeps), (expected_polls, expected_sleeps));
        }
        let failed = || Err("CUDA: 719".to_owned());
        let never = || panic!("it slept after an error");
        assert!(poll_then_sleep(long, failed, never).is_err());
    }

    #[test]
    fn polling_has_to_save_a_part_of_a_short_batch() {
        let microseconds = Duration::from_micros;
        for (sleeping, polling, expected) in [
            // A small network in a virtual machine.
            (210, 170, true),
            (200, 190, true),
            (200, 191, false),
            // A large one: waking takes as long and counts for little.
            (1540, 1500, false),
            (200, 200, false),
            (190, 210, false),
            (0, 0, false),
        ] {
            let is_worth_it = is_worth_it(microseconds(sleeping), microseconds(polling));
            assert_eq!(is_worth_it, expected, "{sleeping} {polling}");
        }
        for (time, expected) in [(170, 340), (680, 1360), (681, 0), (1400, 0)] {
            let limit = limit(microseconds(time), microseconds(170));
            assert_eq!(limit, microseconds(expected), "{time}");
        }
    }

    #[test]
    fn a_thread_polls_where_sleeping_takes_longer_and_processors_are_many() {
        let sizes = [1, 8];
        let chosen = |slept: u64, processors: usize| {
            let mut stream = FakeCard::default().stream(&sizes);
            stream.sleep_longer(Duration::from_millis(slept));
            capture_all(&mut stream, sizes.len(), &CaptureLock::default().lock()).unwrap();
            let limits = measured_limits(&mut stream, sizes.len(), processors).unwrap();
            let polls = stream.log().iter().filter(|line| *line == "poll").count();
            (limits, polls)
        };
        let (limits, polls) = chosen(3, MIN_PROCESSORS);
        assert!(limits.len() == sizes.len() && !limits[0].is_zero());
        assert_eq!(polls, TRIALS + TRIALS_OF_SIZE);
        let never = vec![Duration::ZERO; sizes.len()];
        assert_eq!(chosen(3, MIN_PROCESSORS - 1), (never, 0));
    }
}
