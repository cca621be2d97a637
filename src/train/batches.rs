//! Batches for a trainer elsewhere: what a step learns from, as a stream of bytes.
//!
//! A GPU takes positions faster than one processor core can draw them and work out their inputs. So threads make whole batches, each
//! its own steps, and they are written in the order of the steps: the same seed and files give the same stream, whatever the number of
//! threads. `networks/training/scorn_training/sparse.py` reads it.
//!
//! The stream begins with a line of JSON ([`StreamHeader`]). A batch is five counts as little-endian `u32` (policy positions, their
//! inputs, their moves, value positions, their inputs), the bytes of what follows as `u32`, and then, each padded with zeros to a
//! multiple of eight bytes:
//!
//! | array | type | length |
//! |---|---|---|
//! | inputs of each policy position, how many | `u16` | policy positions |
//! | those inputs, one position after the other | `u16` | their inputs |
//! | legal moves of each, how many | `u16` | policy positions |
//! | the moves' rows | `u16` | their moves |
//! | what each move should have; sums to 1 over a position | `f32` | their moves |
//! | inputs of each value position, how many | `u16` | value positions |
//! | those inputs | `u16` | their inputs |
//! | win, draw, loss, weight; plies left in the network's unit, weight | `f32` | 6 x value positions |

use std::io::Write;

use anyhow::{Context, Result, ensure};
use crossbeam::channel::{Receiver, Sender, bounded};
use serde::{Deserialize, Serialize};

use super::data::{Mixture, MixtureSettings, Sampler};
use super::step::{Chunk, Lists};
use crate::sparse::{features::INPUTS, moves::ROWS};

/// The first word of the header.
const FORMAT: &str = "scorn-batches-1";
/// Arrays begin at multiples of so many bytes.
const ALIGNMENT: usize = 8;
/// Bytes of a batch before its arrays.
const HEAD: usize = 24;
/// Batches that a thread makes ahead.
const AHEAD: usize = 2;

/// What a stream is told.
#[derive(Clone, Debug)]
pub struct BatchSettings {
    /// What is drawn.
    pub mixture: MixtureSettings,
    /// Positions a step.
    pub batch: usize,
    /// The step to begin with.
    pub from: u64,
    /// How many steps there are.
    pub steps: u64,
    /// Threads.
    pub threads: usize,
}

/// What a stream says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHeader {
    /// `scorn-batches-1`.
    pub format: String,
    /// Numbers of inputs are below this.
    pub inputs: usize,
    /// Numbers of rows are below this.
    pub rows: usize,
    /// Positions a step.
    pub batch: usize,
    /// The step that comes first.
    pub from: u64,
}

/// Writes the batches of these steps.
///
/// # Errors
/// When a file cannot be read or holds nothing to learn from, or the stream cannot be written: also when nobody reads it any
/// more.
pub fn stream(settings: &BatchSettings, out: &mut dyn Write) -> Result<()> {
    ensure!(
        settings.batch > 0 && settings.threads > 0,
        "sizes must be positive"
    );
    let mixture = Mixture::new(settings.mixture.clone())?;
    let samplers = (0..settings.threads).map(|_| mixture.sampler());
    let samplers = samplers.collect::<Result<Vec<_>>>()?;
    let header = StreamHeader {
        format: FORMAT.into(),
        inputs: INPUTS,
        rows: ROWS,
        batch: settings.batch,
        from: settings.from,
    };
    std::thread::scope(|scope| {
        let receivers: Vec<_> = samplers
            .into_iter()
            .zip(0..)
            .map(|(sampler, number)| {
                let (sender, receiver) = bounded(AHEAD);
                let mixture = &mixture;
                scope.spawn(move || make(settings, mixture, sampler, number, &sender));
                receiver
            })
            .collect();
        // Threads end when their receivers are gone, which is before the scope waits for them.
        write_all(settings, &header, receivers, out)
    })
}

/// A thread: its own first step and from there each that is the number of threads further.
fn make(
    settings: &BatchSettings,
    mixture: &Mixture,
    mut sampler: Sampler,
    number: u64,
    sender: &Sender<Result<Vec<u8>>>,
) {
    let mut chunk = Chunk::default();
    for index in (number..settings.steps).step_by(settings.threads) {
        let step = (settings.from + index, 0);
        let drawn = mixture.draw(&mut sampler, step, settings.batch, &mut chunk);
        let is_last = drawn.is_err();
        if sender.send(drawn.map(|()| frame(&chunk))).is_err() || is_last {
            return;
        }
    }
}

fn write_all(
    settings: &BatchSettings,
    header: &StreamHeader,
    receivers: Vec<Receiver<Result<Vec<u8>>>>,
    out: &mut dyn Write,
) -> Result<()> {
    let cannot = "cannot write batches";
    writeln!(out, "{}", serde_json::to_string(header)?).context(cannot)?;
    for index in 0..settings.steps {
        let receiver = &receivers[(index % settings.threads as u64) as usize];
        let frame = receiver.recv().context("a thread has ended too early")??;
        out.write_all(&frame).context(cannot)?;
    }
    out.flush().context(cannot)
}

/// A batch as bytes.
fn frame(chunk: &Chunk) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    for (lists, with_moves) in [(&chunk.policy_inputs, true), (&chunk.value_inputs, false)] {
        put(&mut bytes, lengths(lists).map(u16::to_le_bytes));
        put(&mut bytes, lists.items().iter().map(|at| at.to_le_bytes()));
        if with_moves {
            put(&mut bytes, lengths(&chunk.rows).map(u16::to_le_bytes));
            let rows = chunk.rows.items().iter();
            put(&mut bytes, rows.map(|row| row.to_le_bytes()));
            put(&mut bytes, chunk.shares.iter().map(|x| x.to_le_bytes()));
        }
    }
    let values = chunk.values.iter().flat_map(|target| {
        let [win, draw, loss] = target.wdl;
        let plies = [target.plies, target.plies_weight];
        [win, draw, loss, target.weight, plies[0], plies[1]]
    });
    put(&mut bytes, values.map(f32::to_le_bytes));
    let counts = [
        chunk.policy_inputs.len(),
        chunk.policy_inputs.items().len(),
        chunk.shares.len(),
        chunk.value_inputs.len(),
        chunk.value_inputs.items().len(),
        bytes.len() - HEAD,
    ];
    for (place, count) in bytes.chunks_exact_mut(4).zip(counts) {
        place.copy_from_slice(&(count as u32).to_le_bytes());
    }
    bytes
}

/// How long the lists are.
fn lengths(lists: &Lists) -> impl Iterator<Item = u16> {
    (0..lists.len()).map(|index| lists.get(index).len() as u16)
}

/// Adds an array and what fills it up.
fn put<const N: usize>(body: &mut Vec<u8>, items: impl Iterator<Item = [u8; N]>) {
    items.for_each(|bytes| body.extend_from_slice(&bytes));
    body.resize(body.len().next_multiple_of(ALIGNMENT), 0);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::data::{MixPart, NetworkPart};
    use super::super::targets::ResultShare;
    use super::super::tests::write;
    use super::*;

    fn settings(data: &Path, threads: usize, from: u64) -> BatchSettings {
        BatchSettings {
            mixture: MixtureSettings {
                data: vec![MixPart {
                    path: data.into(),
                    share: 1.0,
                }],
                seed: 3,
                result_weight: 0.1,
                result_share: ResultShare::default(),
                trained_part: NetworkPart::Both,
            },
            batch: 20,
            from,
            steps: 7 - from,
            threads,
        }
    }

    fn streamed(settings: &BatchSettings) -> Vec<u8> {
        let mut bytes = Vec::new();
        stream(settings, &mut bytes).unwrap();
        bytes
    }

    /// The stream without its first line, which is checked.
    fn batches(settings: &BatchSettings) -> Vec<u8> {
        let bytes = streamed(settings);
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let header: StreamHeader = serde_json::from_slice(&bytes[..end]).unwrap();
        assert_eq!((header.format.as_str(), header.batch), (FORMAT, 20));
        assert_eq!(header.from, settings.from);
        bytes[end + 1..].to_vec()
    }

    /// Takes an array of so many items off the front.
    fn take<const N: usize>(bytes: &mut &[u8], count: usize) -> Vec<[u8; N]> {
        let (array, rest) = bytes.split_at((count * N).next_multiple_of(ALIGNMENT));
        *bytes = rest;
        assert!(array[count * N..].iter().all(|byte| *byte == 0));
        array[..count * N].as_chunks::<N>().0.to_vec()
    }

    fn lists(lengths: Vec<[u8; 2]>, items: Vec<[u8; 2]>) -> Lists {
        let mut lists = Lists::default();
        let mut items = items.into_iter().map(u16::from_le_bytes);
        for length in lengths {
            let length = usize::from(u16::from_le_bytes(length));
            lists.push(&items.by_ref().take(length).collect::<Vec<_>>());
        }
        lists
    }

    /// Takes a batch off the front, as the table above says.
    fn read(bytes: &mut &[u8]) -> Chunk {
        let counts = take::<4>(bytes, 6).into_iter();
        let counts: Vec<usize> = counts.map(|b| u32::from_le_bytes(b) as usize).collect();
        let (mut body, rest) = bytes.split_at(counts[5]);
        *bytes = rest;
        let mut policy = || {
            let lengths = take(&mut body, counts[0]);
            let inputs = lists(lengths, take(&mut body, counts[1]));
            let lengths = take(&mut body, counts[0]);
            (inputs, lists(lengths, take(&mut body, counts[2])))
        };
        let (policy_inputs, rows) = policy();
        let floats = |bytes: Vec<[u8; 4]>| bytes.into_iter().map(f32::from_le_bytes);
        let shares = floats(take(&mut body, counts[2])).collect();
        let lengths = take(&mut body, counts[3]);
        let value_inputs = lists(lengths, take(&mut body, counts[4]));
        let values: Vec<f32> = floats(take(&mut body, 6 * counts[3])).collect();
        let values = values.as_chunks::<6>().0.iter();
        let values = values.map(|&[win, draw, loss, weight, plies, plies_weight]| {
            super::super::step::ValueTarget {
                wdl: [win, draw, loss],
                weight,
                plies,
                plies_weight,
            }
        });
        assert_eq!(body.len(), 0);
        Chunk {
            policy_inputs,
            rows,
            shares,
            value_inputs,
            values: values.collect(),
        }
    }

    #[test]
    fn what_is_read_is_what_was_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 60);
        let settings = settings(&data, 2, 0);
        let bytes = batches(&settings);
        let mut left = &bytes[..];
        let mixture = Mixture::new(settings.mixture.clone()).unwrap();
        let mut sampler = mixture.sampler().unwrap();
        let mut chunk = Chunk::default();
        for step in 0..settings.steps {
            mixture
                .draw(&mut sampler, (step, 0), settings.batch, &mut chunk)
                .unwrap();
            assert_eq!(chunk.policy_inputs.len(), 20);
            assert_eq!(format!("{:?}", read(&mut left)), format!("{chunk:?}"));
        }
        assert!(left.is_empty());
    }

    #[test]
    fn neither_threads_nor_a_stop_change_the_stream() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 60);
        let whole = batches(&settings(&data, 1, 0));
        assert_eq!(whole, batches(&settings(&data, 3, 0)));
        let rest = batches(&settings(&data, 2, 4));
        assert!(rest.len() < whole.len() && whole.ends_with(&rest));
    }

    /// Takes so many bytes, then nobody reads.
    struct Reader(usize);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
            let taken = self.0.min(bytes.len());
            self.0 -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_goes_away_ends_the_stream_and_so_does_bad_data() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 60);
        let mut endless = settings(&data, 2, 0);
        endless.steps = u64::MAX;
        let error = stream(&endless, &mut Reader(50_000)).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write batches"));
        let missing = settings(&folder.path().join("none.rec"), 1, 0);
        let error = stream(&missing, &mut Vec::new()).unwrap_err();
        assert!(format!("{error:#}").contains("none.rec"), "{error:#}");
    }
}
