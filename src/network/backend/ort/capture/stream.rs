//! The seam between the order of work and the device: a [`DeviceStream`] is one stream of a GPU on which one network is
//! run, and [`capture_all`] captures a graph for each of its batch sizes.
//!
//! A captured graph is all the work of a batch (upload, network, download), which the GPU then does at one command:
//! what the processor does for each of a hundred kernels is done once, at loading. CUDA forbids nearly everything while
//! a stream is captured, in some modes also to the other streams of the process; errors 900 and 901 report it and end
//! the capture. So graphs are captured one after the other under one lock, before the first search.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// One stream of a device, on which one network is run in batches of a few sizes. Sizes are numbered by their place in
/// the list.
pub trait DeviceStream: Send {
    /// The buffers of a batch size on the processor's side; nothing may be queued or running.
    ///
    /// # Errors
    /// The message of the device.
    fn buffers(&mut self, place: usize) -> Result<Buffers<'_>, String>;

    /// Queues the work of one batch: upload, network, download. It does not wait.
    ///
    /// # Errors
    /// The message of the device or of the runtime.
    fn queue(&mut self, place: usize) -> Result<(), String>;

    /// Begins to capture what is queued, which is not executed.
    ///
    /// # Errors
    /// The message of the device.
    fn begin_capture(&mut self) -> Result<(), String>;

    /// Ends the capture and keeps it as that of this batch size.
    ///
    /// # Errors
    /// The message of the device, if what was queued cannot be captured; the stream can be used again nevertheless.
    fn end_capture(&mut self, place: usize) -> Result<(), String>;

    /// Starts the captured work of one batch. It does not wait.
    ///
    /// # Errors
    /// The message of the device.
    fn launch(&mut self, place: usize) -> Result<(), String>;

    /// Returns when everything is done: polls for that until `limit` is over, and then sleeps
    /// ([`poll_then_sleep`](super::waiting::poll_then_sleep)).
    ///
    /// # Errors
    /// The message of the device.
    fn wait(&mut self, limit: Duration) -> Result<(), String>;
}

/// The buffers of a batch size on the processor's side.
pub struct Buffers<'a> {
    /// Planes as bits.
    pub masks: &'a mut [u8],
    /// The numbers of scalar planes.
    pub scalars: &'a mut [f32],
    /// The entries of the legal moves in the policy vector, -1 behind them.
    pub entries: &'a mut [i16],
    /// The inverse of the softmax temperature.
    pub sharpness: &'a mut [f32],
    /// Probabilities of the legal moves; W/D/L or value; plies left, or nothing.
    pub outputs: [&'a mut [f32]; 3],
}

/// Held while a stream is made and its graphs are captured: one for all streams of a process.
pub type CaptureLock = Mutex<()>;

/// Runs before a capture: in the first ones, memory is allocated and kernels are selected, which cannot be captured.
const RUNS_BEFORE: usize = 2;

/// The largest difference between a captured run and an ordinary one.
const TOLERANCE: f32 = 5e-3;

/// Captures a graph for each of `count` batch sizes, and checks each against an ordinary run: what was freed or
/// unloaded after its capture shows as another result. `_alone` is the [`CaptureLock`].
///
/// # Errors
/// When something cannot be captured, or gives other results.
pub fn capture_all(
    stream: &mut dyn DeviceStream,
    count: usize,
    _alone: &MutexGuard<'_, ()>,
) -> Result<(), String> {
    let mut expected: Vec<Vec<f32>> = vec![Vec::new(); count];
    // The largest first: with one session for all sizes, the others fit into its memory.
    for place in (0..count).rev() {
        write_sample(&mut stream.buffers(place)?);
        for _ in 0..RUNS_BEFORE {
            stream.queue(place)?;
            stream.wait(Duration::ZERO)?;
        }
        expected[place] = stream.buffers(place)?.outputs.concat();
        stream.begin_capture()?;
        let queued = stream.queue(place);
        let ended = stream.end_capture(place);
        queued?;
        ended?;
    }
    for (place, expected) in expected.iter().enumerate() {
        // What the ordinary run left there would pass for the graph's.
        for output in stream.buffers(place)?.outputs {
            output.fill(f32::NAN);
        }
        stream.launch(place)?;
        stream.wait(Duration::ZERO)?;
        let found = stream.buffers(place)?.outputs.concat();
        let mut pairs = found.iter().zip(expected);
        // NaN is not close to anything.
        let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= TOLERANCE * b.abs().max(1.0);
        if !pairs.all(is_close) {
            return Err("a captured graph gives other results than an ordinary run".to_owned());
        }
    }
    Ok(())
}

/// Writes inputs that differ from position to position.
fn write_sample(buffers: &mut Buffers<'_>) {
    let mut state = 1u32;
    // Xorshift (Marsaglia, 2003).
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    for mask in buffers.masks.iter_mut() {
        // One square in eight.
        *mask = (next() & next() & next()).to_le_bytes()[1];
    }
    for scalar in buffers.scalars.iter_mut() {
        *scalar = (next() % 64) as f32;
    }
    for (index, entry) in buffers.entries.iter_mut().enumerate() {
        *entry = match index % 5 {
            0 => -1,
            _ => (next() % 1024) as i16,
        };
    }
    buffers.sharpness.fill(1.0);
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Barrier},
        thread,
    };

    use super::{
        super::fake::{FakeCard, Fault},
        *,
    };

    const SIZES: [usize; 3] = [1, 8, 64];

    #[test]
    fn every_size_is_captured_after_two_runs_and_then_checked() {
        let card = FakeCard::default();
        let mut stream = card.stream(&SIZES);
        capture_all(&mut stream, SIZES.len(), &CaptureLock::default().lock()).unwrap();
        let size = |place: usize| {
            let run = format!("run {place}");
            [
                &*run,
                "wait",
                &*run,
                "wait",
                "begin",
                &*run,
                &*format!("end {place}"),
            ]
            .map(str::to_owned)
        };
        let check = |place: usize| [format!("launch {place}"), "wait".to_owned()];
        let captured = (0..SIZES.len()).rev().flat_map(size);
        let expected: Vec<String> = captured.chain((0..SIZES.len()).flat_map(check)).collect();
        assert_eq!(stream.log(), expected);
    }

    /// Two streams on two threads; each has its own lock, or both have the same.
    fn capture_two(card: &FakeCard, locks: [&Arc<CaptureLock>; 2]) -> Vec<Result<(), String>> {
        let together = Barrier::new(2);
        thread::scope(|scope| {
            let capture = |lock: &Arc<CaptureLock>| {
                let (mut stream, lock) = (card.stream(&SIZES), Arc::clone(lock));
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    capture_all(&mut stream, SIZES.len(), &lock.lock())
                })
            };
            let threads = locks.map(capture);
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        })
    }

    #[test]
    fn under_one_lock_captures_do_not_overlap() {
        for _ in 0..20 {
            let (card, lock) = (FakeCard::default(), Arc::default());
            let results = capture_two(&card, [&lock, &lock]);
            assert!(results.iter().all(Result::is_ok), "{results:?}");
        }
    }

    #[test]
    fn captures_that_overlap_fail_as_on_a_card() {
        let card = FakeCard::default();
        let (mut one, mut other) = (card.stream(&SIZES), card.stream(&SIZES));
        one.begin_capture().unwrap();
        let error = other.wait(Duration::ZERO).unwrap_err();
        assert!(error.contains("900"), "{error}");
        // The other one's wait has spoilt the capture.
        one.queue(0).unwrap_err();
        let error = one.end_capture(0).unwrap_err();
        assert!(error.contains("901"), "{error}");
        // Both can be used again.
        for stream in [&mut one, &mut other] {
            capture_all(stream, SIZES.len(), &CaptureLock::default().lock()).unwrap();
        }
    }

    #[test]
    fn graphs_with_other_results_are_refused() {
        let card = FakeCard::default();
        for fault in [Fault::Another, Fault::Nothing] {
            let mut stream = card.stream(&SIZES);
            stream.corrupt(1, fault);
            let error =
                capture_all(&mut stream, SIZES.len(), &CaptureLock::default().lock()).unwrap_err();
            assert!(error.contains("other results"), "{error}");
        }
    }
}
