//! How a thread waits for the end of a batch. Sleeping costs nothing but the time that waking takes, some 5 µs, in a
//! virtual machine some 50; polling keeps a processor busy. Which one pays is measured at loading ([`measured_limit`]).

use std::{
    hint,
    time::{Duration, Instant},
};

use super::stream::DeviceStream;

/// From so many processors on a thread may poll: fewer have the search's own threads to run.
const LEAST_PROCESSORS: usize = 8;

/// Polling pays if it saves this part of the time of one position.
const LEAST_GAIN: f64 = 0.05;

/// A thread polls for as long as one position takes, times this: about what a batch of a hundred takes.
const BATCH_OF_ONE: u32 = 4;

/// Pauses of the processor between two looks, about a microsecond.
const PAUSE: usize = 32;

/// Batches that are measured with each way of waiting.
const TRIALS: usize = 25;

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
            if begin.elapsed() >= limit {
                break;
            }
            // The device's driver is asked for each look, and others use it, too.
            for _ in 0..PAUSE {
                hint::spin_loop();
            }
        }
    }
    sleep()
}

/// How long to poll on this machine, by batches of the first size that wait in turn in both ways; zero is to sleep at
/// once. `processors` are those that this process may use. All sizes are captured, and their inputs written.
///
/// # Errors
/// The message of the device.
pub fn measured_limit(
    stream: &mut dyn DeviceStream,
    processors: usize,
) -> Result<Duration, String> {
    if processors < LEAST_PROCESSORS {
        return Ok(Duration::ZERO);
    }
    let (mut sleeping, mut polling) = (Vec::new(), Vec::new());
    for _ in 0..TRIALS {
        for (times, limit) in [
            (&mut sleeping, Duration::ZERO),
            (&mut polling, Duration::MAX),
        ] {
            let begin = Instant::now();
            stream.launch(0)?;
            stream.wait(limit)?;
            times.push(begin.elapsed());
        }
    }
    Ok(limit(median(sleeping), median(polling)))
}

/// The limit by the time of one position with each way of waiting.
fn limit(sleeping: Duration, polling: Duration) -> Duration {
    let gain = sleeping.saturating_sub(polling);
    match gain.as_secs_f64() >= LEAST_GAIN * sleeping.as_secs_f64() && !gain.is_zero() {
        true => polling * BATCH_OF_ONE,
        false => Duration::ZERO,
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
            (210, 170, 680),
            (200, 190, 760),
            (200, 191, 0),
            // A large one: waking takes as long and counts for little.
            (1540, 1500, 0),
            (200, 200, 0),
            (190, 210, 0),
            (0, 0, 0),
        ] {
            let limit = limit(microseconds(sleeping), microseconds(polling));
            assert_eq!(limit, microseconds(expected), "{sleeping} {polling}");
        }
    }

    #[test]
    fn a_thread_polls_where_sleeping_takes_longer_and_processors_are_many() {
        let sizes = [1, 8];
        let chosen = |slept: u64, processors: usize| {
            let mut stream = FakeCard::default().stream(&sizes);
            stream.sleep_longer(Duration::from_millis(slept));
            capture_all(&mut stream, sizes.len(), &CaptureLock::default().lock()).unwrap();
            let limit = measured_limit(&mut stream, processors).unwrap();
            let log = stream.log().to_vec();
            (limit, log.iter().filter(|line| *line == "poll").count())
        };
        let (limit, polls) = chosen(3, LEAST_PROCESSORS);
        assert!(!limit.is_zero());
        assert_eq!(polls, TRIALS);
        assert_eq!(chosen(3, LEAST_PROCESSORS - 1), (Duration::ZERO, 0));
    }
}
