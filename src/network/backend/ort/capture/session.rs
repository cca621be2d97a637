//! A session whose batches are captured graphs ([`CapturedSession`]), on any [`DeviceStream`].
//!
//! A batch is three steps: write the pinned buffers, start the graph, wait until it is done. Nothing is allocated, and
//! the runtime is not called.

use std::{
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    stream::{Buffers, CaptureLock, DeviceStream, capture_all},
    waiting::measured_limits,
};
use crate::network::{
    backend::pool::{DeviceSession, Outputs, PolicyKind},
    batch_times::next_run,
    evaluator::cores,
    input::InputRows,
};

/// The shape of a network's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultShape {
    /// Places for moves of a position.
    pub slots: usize,
    /// Whether the value is win, draw and loss probabilities.
    pub has_wdl: bool,
}

/// One network on one stream, whose batch sizes are captured.
pub struct CapturedSession {
    /// Gone before the thread that captured.
    stream: Box<dyn DeviceStream>,
    /// Ascending.
    sizes: Vec<usize>,
    shape: ResultShape,
    /// How long a thread polls for the end of a batch of each size before it sleeps.
    poll_limits: Vec<Duration>,
    _thread: CaptureThread,
}

/// The thread that captured. What the runtime keeps for a thread (handles of libraries, with memory that the captured
/// graphs use) exists as long as the thread does, and so it waits until the graphs are gone.
struct CaptureThread {
    /// Nothing is ever sent; the thread ends when this is dropped.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for CaptureThread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl CapturedSession {
    /// Makes a stream for these batch sizes (ascending) and captures all of them, on a thread of its own and under the
    /// lock. A thread polls for the end of a batch for `poll_limit`, or, without one, as long as measurements advise.
    ///
    /// # Errors
    /// The message of the device or of the runtime.
    pub fn capture<L: DeviceStream + 'static>(
        sizes: &[usize],
        shape: ResultShape,
        poll_limit: Option<Duration>,
        lock: Arc<CaptureLock>,
        make: impl FnOnce() -> Result<L, String> + Send + 'static,
    ) -> Result<CapturedSession, String> {
        let (end, ends) = channel::<()>();
        let (send, receive) = channel();
        let count = sizes.len();
        let work = move || {
            let alone = lock.lock();
            let captured = make().and_then(|mut stream| {
                capture_all(&mut stream, count, &alone)?;
                let limits = match poll_limit {
                    Some(limit) => vec![limit; count],
                    None => measured_limits(&mut stream, count, cores())?,
                };
                Ok((stream, limits))
            });
            drop(alone);
            let has_failed = captured.is_err();
            let _ = send.send(captured);
            if !has_failed {
                // Until the session is dropped.
                let _ = ends.recv();
            }
        };
        let thread = thread::Builder::new().name("graph capture".to_owned());
        let thread = thread.spawn(work).map_err(|error| error.to_string())?;
        let capture = CaptureThread {
            end: Some(end),
            thread: Some(thread),
        };
        let captured = receive.recv();
        let (stream, poll_limits) =
            captured.map_err(|_| "the thread that captures ended with a panic".to_owned())??;
        Ok(CapturedSession {
            stream: Box::new(stream),
            sizes: sizes.to_vec(),
            shape,
            poll_limits,
            _thread: capture,
        })
    }
}

impl DeviceSession for CapturedSession {
    fn max_batch(&self) -> usize {
        self.sizes.last().copied().unwrap_or(0)
    }

    fn next_run(&self, rows: usize) -> usize {
        next_run(&self.sizes, rows)
    }

    fn run(&mut self, inputs: InputRows<'_>, outputs: &mut Outputs) -> Result<(), String> {
        let place = self.sizes.iter().position(|&size| size >= inputs.len());
        let place = place.ok_or_else(|| format!("no batch size for {} positions", inputs.len()))?;
        write(inputs, self.shape.slots, &mut self.stream.buffers(place)?)?;
        self.stream.launch(place)?;
        self.stream.wait(self.poll_limits[place])?;
        read(&self.stream.buffers(place)?, inputs, self.shape, outputs)
    }
}

/// Writes the inputs; what is beyond them stays, and its results are ignored.
fn write(inputs: InputRows<'_>, slots: usize, buffers: &mut Buffers<'_>) -> Result<(), String> {
    inputs.write_packed(buffers.masks, buffers.scalars);
    buffers.sharpness.fill(inputs.temperature().recip());
    inputs.write_moves(slots, buffers.entries)
}

/// Reads the results of the positions that there are.
fn read(
    buffers: &Buffers<'_>,
    inputs: InputRows<'_>,
    shape: ResultShape,
    outputs: &mut Outputs,
) -> Result<(), String> {
    let rows = inputs.len();
    let copy = |from: &[f32], count: usize, to: &mut Vec<f32>| {
        let part = from.get(..count);
        let part = part.ok_or_else(|| "an output has too few numbers".to_owned())?;
        to.clear();
        to.extend_from_slice(part);
        Ok::<_, String>(())
    };
    let [policy, value, mlh] = &buffers.outputs;
    outputs.policy_kind = PolicyKind::Probabilities { slots: shape.slots };
    copy(policy, rows * shape.slots, &mut outputs.policy)?;
    if shape.has_wdl {
        copy(value, 3 * rows, &mut outputs.wdl)?;
    } else {
        copy(value, rows, &mut outputs.value)?;
    }
    if mlh.is_empty() {
        outputs.mlh.clear();
    } else {
        copy(mlh, rows, &mut outputs.mlh)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{
        super::fake::{FakeCard, FakeStream, Fault, SLOTS},
        *,
    };
    use crate::{
        chess::{History, moves::legal_moves},
        lc0::InputFormat,
        network::input::{Encoding, Inputs},
        options::HistoryFill,
    };

    const SHAPE: ResultShape = ResultShape {
        slots: SLOTS,
        has_wdl: true,
    };

    const SIZES: [usize; 2] = [2, 8];

    fn session(
        make: impl FnOnce() -> Result<FakeStream, String> + Send + 'static,
    ) -> Result<CapturedSession, String> {
        CapturedSession::capture(&SIZES, SHAPE, None, Arc::default(), make)
    }

    fn captured() -> CapturedSession {
        session(|| Ok(FakeCard::default().stream(&SIZES))).unwrap()
    }

    /// The starting position and what follows it.
    fn positions(count: usize) -> Inputs {
        let encoding = Encoding::Lc0(InputFormat::Classical112);
        let (mut game, mut inputs) = (History::default(), Inputs::default());
        for _ in 0..count {
            let moves: Vec<_> = legal_moves(game.position()).collect();
            let seen = (HistoryFill::FenOnly, false);
            encoding.encode(game.plies(), &moves, seen, &mut inputs);
            game.push(moves[0]);
        }
        inputs
    }

    #[test]
    fn a_batch_is_written_run_and_read_at_the_size_that_fits() {
        let mut session = captured();
        assert_eq!((session.max_batch(), session.next_run(5)), (8, 5));
        let inputs = positions(5);
        let layout = Encoding::Lc0(InputFormat::Classical112).layout();
        for (rows, temperature) in [(5, 1.0), (2, 1.0), (1, 2.0), (5, 2.0)] {
            let part = inputs.rows(layout, 0..rows).at_temperature(temperature);
            let mut outputs = Outputs::default();
            session.run(part, &mut outputs).unwrap();
            assert_eq!(
                outputs.policy_kind,
                PolicyKind::Probabilities { slots: SLOTS }
            );
            let lengths = [&outputs.policy, &outputs.wdl, &outputs.mlh].map(Vec::len);
            assert_eq!(lengths, [rows * SLOTS, rows * 3, rows]);
            for index in 0..rows {
                let moves = inputs.move_rows(index);
                let policy = &outputs.policy[index * SLOTS..][..moves.len()];
                for (p, &entry) in policy.iter().zip(moves) {
                    assert!((p - f32::from(entry) / 1858.0 / temperature).abs() < 1e-6);
                }
                let set: u32 = inputs
                    .masks(layout, index)
                    .iter()
                    .map(|m| m.count_ones())
                    .sum();
                let w = set as f32 / (112.0 * 64.0);
                assert!((outputs.wdl[3 * index] - w).abs() < 1e-6);
            }
        }
        let many = positions(9);
        let error = session.run(many.rows(layout, 0..9), &mut Outputs::default());
        assert!(error.unwrap_err().contains("9 positions"));
    }

    #[test]
    fn a_thread_polls_as_long_as_was_set() {
        let waits = |limit: Option<Duration>| {
            let stream = FakeCard::default().stream(&SIZES);
            let log = stream.shared_log();
            let make = move || Ok(stream);
            let mut session =
                CapturedSession::capture(&SIZES, SHAPE, limit, Arc::default(), make).unwrap();
            log.lock().clear();
            let inputs = positions(5);
            let layout = Encoding::Lc0(InputFormat::Classical112).layout();
            let mut outputs = Outputs::default();
            session
                .run(inputs.rows(layout, 0..5), &mut outputs)
                .unwrap();
            log.lock().clone()
        };
        assert_eq!(waits(Some(Duration::ZERO)), ["launch 1", "wait"]);
        assert_eq!(
            waits(Some(Duration::from_micros(300))),
            ["launch 1", "poll"]
        );
    }

    #[test]
    fn what_fails_while_capture_is_the_error_of_the_session() {
        let refused = session(|| Err("there is no such GPU".to_owned()));
        assert_eq!(refused.err().as_deref(), Some("there is no such GPU"));
        let corrupted = session(|| {
            let mut stream = FakeCard::default().stream(&SIZES);
            stream.corrupt(0, Fault::Another);
            Ok(stream)
        });
        assert!(corrupted.err().unwrap().contains("other results"));
        let panicked = session(|| panic!("a panic on purpose"));
        assert!(panicked.err().unwrap().contains("panic"));
    }
}
