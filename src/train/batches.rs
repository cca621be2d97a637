//! Streams of training batches for the PyTorch trainers in `networks/training`.
//!
//! A GPU takes positions faster than one processor core can draw them and compute their inputs. Several threads
//! therefore prepare whole batches, each for its own steps, which are written in the order of the steps: the same seed
//! and files give the same stream, whatever the number of threads. `networks/training/scorn_training/batches.py` reads
//! it.
//!
//! The stream begins with a line of JSON ([`StreamHeader`]). A batch consists of counts as little-endian `u32`, the
//! number of bytes of its arrays as `u32`, and the arrays, each padded with zeros to a multiple of eight bytes.
//!
//! Sparse networks (`scorn-batches-2`); the counts are policy positions, their inputs, their moves, value positions,
//! their inputs:
//!
//! | array | type | length |
//! |---|---|---|
//! | number of inputs of each policy position | `u16` | policy positions |
//! | these inputs, one position after the other | `u16` | their inputs |
//! | number of legal moves of each policy position | `u16` | policy positions |
//! | policy rows of these moves | `u16` | their moves |
//! | rows of the classes of these moves ([`InputSet::Classes`]) | `u16` | their moves |
//! | target share of each move; sums to 1 over a position | `f32` | their moves |
//! | number of inputs of each value position | `u16` | value positions |
//! | these inputs | `u16` | their inputs |
//! | win, draw, loss, weight; plies left in units of [`PLIES_UNIT`], weight | `f32` | 6 x value positions |
//!
//! Dense networks (`scorn-dense-batches-1`, [`DenseBatch`]); the counts are positions and moves per position:
//!
//! | array | type | length |
//! |---|---|---|
//! | the first 36 bytes of each position's record ([`record`](crate::dataset::record)) | `u8` | 36 x positions |
//! | indices of the policy vector, the best move first; unused ones repeat it | `u16` | moves x positions |
//! | target share of each of these moves; sums to 1 over a position, or 0 if unknown | `f32` | moves x positions |
//! | win, draw, loss, weight; plies left in units of [`PLIES_UNIT`], weight | `f32` | 6 x positions |

use std::{
    io::{self, Write},
    ops::Range,
    path::Path,
};

use anyhow::{Context, Result, ensure};
use crossbeam::channel::{Receiver, Sender, bounded};
use serde::{Deserialize, Serialize};

use super::chunk::{Chunk, Lists};
use super::data::{self, BatchSampler, DrawNumber, Mixture, MixtureSettings, SampleBatch};
use super::dense::{DenseBatch, POSITION_BYTES};
use super::targets::ResultShare;
use super::targets::ValueTarget;
use crate::lc0::policy_list::POLICY_SIZE;
use crate::sparse::network::PLIES_UNIT;
use crate::sparse::{
    features::{INPUTS, InputSet},
    moves::row_count,
};
use crate::threads;

/// Arrays are padded to a multiple of this many bytes.
const ALIGNMENT: usize = 8;
/// Batches that a thread prepares in advance.
const AHEAD: usize = 2;
/// Context of an error of the stream.
const CANNOT_WRITE: &str = "cannot write batches (has the program that reads them ended?)";

/// The network for which batches are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum BatchEncoding {
    /// Sparse networks: active inputs and the rows of the legal moves.
    #[default]
    Sparse,
    /// Dense networks: positions and indices of the policy vector.
    Dense,
}

/// Settings of a stream.
#[derive(Clone, Debug)]
pub struct BatchSettings {
    /// The training data.
    pub mixture: MixtureSettings,
    /// The network for which the batches are made.
    pub encoding: BatchEncoding,
    /// Positions per step.
    pub batch: usize,
    /// First step.
    pub from: u64,
    /// Number of steps; without one the stream goes on until its reader ends.
    pub steps: Option<u64>,
    /// Number of threads.
    pub threads: usize,
}

impl BatchSettings {
    /// The numbers of the stream's batches, counted from 0.
    fn numbers(&self) -> Range<u64> {
        0..self.steps.unwrap_or(u64::MAX)
    }
}

/// The first line of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamHeader {
    /// `scorn-batches-2` or `scorn-dense-batches-1`.
    pub format: String,
    /// Sparse networks: number of inputs. Dense networks: bytes of a position.
    pub inputs: usize,
    /// Size of the policy: rows of a sparse network with classes of moves, entries of the policy vector of a dense one.
    pub rows: usize,
    /// Positions per step.
    pub batch: usize,
    /// First step.
    pub from: u64,
    /// Unit of the plies left; only for dense networks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plies_unit: Option<f32>,
}

/// A batch that can be written to a stream.
trait StreamBatch: SampleBatch + Send {
    /// No positions.
    fn empty() -> Self;

    /// The first line of a stream of such batches.
    fn header(batch: usize, from: u64) -> StreamHeader;

    /// The batch as bytes.
    fn frame(&self) -> Vec<u8>;
}

/// Writes the batches of these steps.
///
/// # Errors
/// When a file cannot be read or has nothing to train on, or the stream cannot be written, for example because its
/// reader has ended.
pub fn stream(settings: &BatchSettings, out: &mut dyn Write) -> Result<()> {
    match settings.encoding {
        BatchEncoding::Sparse => stream_of::<Chunk>(settings, out),
        BatchEncoding::Dense => stream_of::<DenseBatch>(settings, out),
    }
}

/// Writes at most `count` test positions of a file (see [`data::test_set`]), as batches of dense networks.
///
/// # Errors
/// When the file cannot be read or the stream cannot be written.
pub fn stream_held_out(
    path: &Path,
    count: usize,
    share: ResultShare,
    out: &mut dyn Write,
) -> Result<()> {
    let tested = data::test_set(&path.into(), count, share, DenseBatch::default)?;
    write_header(&DenseBatch::header(data::TEST_BATCH, 0), out)?;
    for batch in tested.batches {
        out.write_all(&batch.frame()).context(CANNOT_WRITE)?;
    }
    out.flush().context(CANNOT_WRITE)
}

fn stream_of<B: StreamBatch>(settings: &BatchSettings, out: &mut dyn Write) -> Result<()> {
    ensure!(
        settings.batch > 0 && settings.threads > 0,
        "batch size and number of threads must be positive"
    );
    let inputs = B::empty().inputs();
    for part in &settings.mixture.data {
        part.file.check_players(inputs)?;
    }
    let mut mixture = Mixture::new(settings.mixture.clone())?;
    let samplers = (0..settings.threads).map(|_| mixture.sampler());
    let samplers = samplers.collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let receivers: Vec<Receiver<_>> = samplers
            .into_iter()
            .zip(0..)
            .map(|(sampler, number)| {
                let (sender, receiver) = bounded(AHEAD);
                let mixture = &mixture;
                let prepare = move || prepare::<B>(settings, mixture, sampler, number, &sender);
                threads::spawn_scoped(scope, "batches", prepare).map(|_| receiver)
            })
            .collect::<io::Result<_>>()
            .context("cannot start the threads that prepare batches")?;
        // Threads end when their receivers are dropped, which is before the scope joins them.
        write_header(&B::header(settings.batch, settings.from), out)?;
        write_batches(settings, receivers, out)
    })
}

/// A thread: prepares every `threads`-th batch, beginning with its own number.
fn prepare<B: StreamBatch>(
    settings: &BatchSettings,
    mixture: &Mixture,
    mut sampler: BatchSampler,
    number: usize,
    sender: &Sender<Result<Vec<u8>>>,
) {
    let mut batch = B::empty();
    for index in settings.numbers().skip(number).step_by(settings.threads) {
        let number = DrawNumber {
            step: settings.from + index,
            chunk: 0,
        };
        let drawn = mixture.draw(&mut sampler, number, settings.batch, &mut batch);
        let is_last = drawn.is_err();
        if sender.send(drawn.map(|()| batch.frame())).is_err() || is_last {
            return;
        }
    }
}

fn write_header(header: &StreamHeader, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string(header)?).context(CANNOT_WRITE)
}

fn write_batches(
    settings: &BatchSettings,
    receivers: Vec<Receiver<Result<Vec<u8>>>>,
    out: &mut dyn Write,
) -> Result<()> {
    for index in settings.numbers() {
        let receiver = &receivers[(index % settings.threads as u64) as usize];
        let frame = receiver.recv().context("a thread has ended too early")??;
        out.write_all(&frame).context(CANNOT_WRITE)?;
    }
    out.flush().context(CANNOT_WRITE)
}

impl StreamBatch for Chunk {
    fn empty() -> Chunk {
        Chunk::of(InputSet::Classes)
    }

    fn header(batch: usize, from: u64) -> StreamHeader {
        StreamHeader {
            format: "scorn-batches-2".into(),
            inputs: INPUTS,
            rows: row_count(InputSet::Classes),
            batch,
            from,
            plies_unit: None,
        }
    }

    fn frame(&self) -> Vec<u8> {
        let counts = [
            self.policy_inputs.len(),
            self.policy_inputs.items().len(),
            self.shares.len(),
            self.value_inputs.len(),
            self.value_inputs.items().len(),
        ];
        let mut frame = Frame::new(&counts);
        frame.push_lists(&self.policy_inputs);
        frame.push_lists(&self.rows);
        // Each move has one class.
        frame.push(self.classes.items().iter().map(|row| row.to_le_bytes()));
        frame.push(self.shares.iter().map(|share| share.to_le_bytes()));
        frame.push_lists(&self.value_inputs);
        frame.push_values(&self.values);
        frame.finish()
    }
}

impl StreamBatch for DenseBatch {
    fn empty() -> DenseBatch {
        DenseBatch::default()
    }

    fn header(batch: usize, from: u64) -> StreamHeader {
        StreamHeader {
            format: "scorn-dense-batches-1".into(),
            inputs: POSITION_BYTES,
            rows: POLICY_SIZE,
            batch,
            from,
            plies_unit: Some(PLIES_UNIT),
        }
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = Frame::new(&[self.policy.len(), self.moves_per_position()]);
        frame.push(self.positions.iter().map(|byte| [*byte]));
        frame.push(self.policy_table().map(|(index, _)| index.to_le_bytes()));
        frame.push(self.policy_table().map(|(_, share)| share.to_le_bytes()));
        frame.push_values(&self.values);
        frame.finish()
    }
}

/// A batch as bytes, in the making.
struct Frame {
    bytes: Vec<u8>,
    /// Bytes before the arrays.
    head: usize,
}

impl Frame {
    fn new(counts: &[usize]) -> Frame {
        let counts = counts.iter().map(|count| *count as u32).chain([0]);
        let bytes: Vec<u8> = counts.flat_map(u32::to_le_bytes).collect();
        let head = bytes.len();
        Frame { bytes, head }
    }

    /// Adds an array and its padding.
    fn push<const N: usize>(&mut self, items: impl Iterator<Item = [u8; N]>) {
        items.for_each(|item| self.bytes.extend_from_slice(&item));
        let size = (self.bytes.len() - self.head).next_multiple_of(ALIGNMENT);
        self.bytes.resize(self.head + size, 0);
    }

    /// Adds the lengths of the lists, then their items.
    fn push_lists(&mut self, lists: &Lists) {
        self.push(lengths(lists).map(u16::to_le_bytes));
        self.push(lists.items().iter().map(|item| item.to_le_bytes()));
    }

    /// Adds the array of value targets.
    fn push_values(&mut self, values: &[ValueTarget]) {
        let values = values.iter().flat_map(|target| {
            let [win, draw, loss] = target.wdl;
            let plies = [target.plies, target.plies_weight];
            [win, draw, loss, target.weight, plies[0], plies[1]]
        });
        self.push(values.map(f32::to_le_bytes));
    }

    /// The bytes, with the size of the arrays before them.
    fn finish(mut self) -> Vec<u8> {
        let size = (self.bytes.len() - self.head) as u32;
        self.bytes[self.head - 4..self.head].copy_from_slice(&size.to_le_bytes());
        self.bytes
    }
}

/// The lengths of the lists.
fn lengths(lists: &Lists) -> impl Iterator<Item = u16> {
    (0..lists.len()).map(|index| lists.get(index).len() as u16)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::data::{MixPart, NetworkPart};
    use super::super::targets::TargetSettings;
    use super::super::testing::write;
    use super::*;

    fn settings(data: &Path, threads: usize, from: u64) -> BatchSettings {
        BatchSettings {
            mixture: MixtureSettings {
                data: vec![MixPart {
                    file: data.into(),
                    share: 1.0,
                }],
                seed: 3,
                targets: TargetSettings::default(),
                trained_part: NetworkPart::Both,
            },
            encoding: BatchEncoding::Sparse,
            batch: 20,
            from,
            steps: Some(7 - from),
            threads,
        }
    }

    fn streamed(settings: &BatchSettings) -> Vec<u8> {
        let mut bytes = Vec::new();
        stream(settings, &mut bytes).unwrap();
        bytes
    }

    /// The stream without its first line.
    fn batches(settings: &BatchSettings) -> Vec<u8> {
        let bytes = streamed(settings);
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let header: StreamHeader = serde_json::from_slice(&bytes[..end]).unwrap();
        assert_eq!(header.batch, 20);
        assert_eq!(header.from, settings.from);
        bytes[end + 1..].to_vec()
    }

    /// Takes an array of this many items off the front.
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

    /// Takes a batch off the front.
    fn read(bytes: &mut &[u8]) -> Chunk {
        let counts = take::<4>(bytes, 6).into_iter();
        let counts: Vec<usize> = counts.map(|b| u32::from_le_bytes(b) as usize).collect();
        let (mut body, rest) = bytes.split_at(counts[5]);
        *bytes = rest;
        let mut policy = || {
            let lengths = take(&mut body, counts[0]);
            let inputs = lists(lengths, take(&mut body, counts[1]));
            let lengths = take(&mut body, counts[0]);
            let [rows, classes] =
                [(); 2].map(|()| lists(lengths.clone(), take(&mut body, counts[2])));
            (inputs, rows, classes)
        };
        let (policy_inputs, rows, classes) = policy();
        let floats = |bytes: Vec<[u8; 4]>| bytes.into_iter().map(f32::from_le_bytes);
        let shares = floats(take(&mut body, counts[2])).collect();
        let lengths = take(&mut body, counts[3]);
        let value_inputs = lists(lengths, take(&mut body, counts[4]));
        let values: Vec<f32> = floats(take(&mut body, 6 * counts[3])).collect();
        let values = values.as_chunks::<6>().0.iter();
        let values = values.map(|&[win, draw, loss, weight, plies, plies_weight]| {
            super::super::targets::ValueTarget {
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
            classes,
            set: InputSet::Classes,
        }
    }

    #[test]
    fn the_stream_holds_the_batches_that_were_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 60);
        let settings = settings(&data, 2, 0);
        let bytes = batches(&settings);
        let mut left = &bytes[..];
        let mut mixture = Mixture::new(settings.mixture.clone()).unwrap();
        let mut sampler = mixture.sampler().unwrap();
        let mut chunk = Chunk::empty();
        for step in settings.numbers() {
            mixture
                .draw(
                    &mut sampler,
                    DrawNumber { step, chunk: 0 },
                    settings.batch,
                    &mut chunk,
                )
                .unwrap();
            assert_eq!(chunk.policy_inputs.len(), 20);
            assert_eq!(format!("{:?}", read(&mut left)), format!("{chunk:?}"));
        }
        assert!(left.is_empty());
    }

    #[test]
    fn dense_batches_hold_positions_and_both_targets() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 60);
        let mut settings = settings(&data, 2, 0);
        settings.encoding = BatchEncoding::Dense;
        let bytes = batches(&settings);
        let mut left = &bytes[..];
        let mut mixture = Mixture::new(settings.mixture.clone()).unwrap();
        let mut sampler = mixture.sampler().unwrap();
        let mut batch = DenseBatch::default();
        for step in settings.numbers() {
            mixture
                .draw(
                    &mut sampler,
                    DrawNumber { step, chunk: 0 },
                    settings.batch,
                    &mut batch,
                )
                .unwrap();
            let (head, rest) = left.split_at(12);
            let head = head.as_chunks::<4>().0;
            let [positions, moves, size] =
                [0, 1, 2].map(|at| u32::from_le_bytes(head[at]) as usize);
            let (mut body, rest) = rest.split_at(size);
            left = rest;
            assert_eq!((positions, moves), (20, 5));
            let found: Vec<[u8; POSITION_BYTES]> = take(&mut body, positions);
            assert_eq!(found.as_flattened(), batch.positions);
            let indices = take(&mut body, positions * moves).into_iter();
            let shares = take(&mut body, positions * moves).into_iter();
            let table = indices
                .map(u16::from_le_bytes)
                .zip(shares.map(f32::from_le_bytes));
            assert!(table.eq(batch.policy_table()));
            let values: Vec<[u8; 24]> = take(&mut body, positions);
            let wdl = values[3].as_chunks::<4>().0[..3].iter();
            assert!(wdl.map(|x| f32::from_le_bytes(*x)).eq(batch.values[3].wdl));
            assert!(body.is_empty());
        }
        assert!(left.is_empty());
    }

    #[test]
    fn threads_and_interruptions_do_not_change_the_stream() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 60);
        let whole = batches(&settings(&data, 1, 0));
        assert_eq!(whole, batches(&settings(&data, 3, 0)));
        let rest = batches(&settings(&data, 2, 4));
        assert!(rest.len() < whole.len() && whole.ends_with(&rest));
    }

    /// A reader that closes after this many bytes.
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
    fn a_closed_reader_and_bad_data_end_the_stream_with_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x.rec");
        write(&data, 60);
        let mut endless = settings(&data, 2, 0);
        endless.steps = None;
        let error = stream(&endless, &mut Reader(50_000)).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write batches"));
        let missing = settings(&folder.path().join("none.rec"), 1, 0);
        let error = stream(&missing, &mut Vec::new()).unwrap_err();
        assert!(format!("{error:#}").contains("none.rec"), "{error:#}");
    }
}
