//! The checkpoint file of a run. It is written beside the old one and renamed, so an incomplete file never replaces it.
//!
//! Format: a line of JSON (`CheckpointHeader`), then the vectors of [`Moments`] as little-endian 32-bit floats. The
//! line has the checksum of the whole file, in which 64 zeros stand for the checksum itself.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Read, Write},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::adam::Moments;
use crate::files::{self, output::NewFile};
use crate::hashing::hex;
use crate::sparse::{moves::row_count, network::Shape};

/// Format name in a checkpoint's header.
const FORMAT: &str = "scorn-sparse-checkpoint-1";
/// Most bytes of a header; those written have less than 1000.
const MAX_HEADER: u64 = 4096;
/// Bytes of the file for each weight: four vectors of 32-bit floats.
const BYTES_PER_WEIGHT: u64 = 16;

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingProgress {
    /// Steps done.
    pub step: u64,
    /// Positions trained on, repetitions included.
    pub positions: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// Step at which the decay of the learning rate began.
    pub decay_step: u64,
    /// Seconds of training when it began.
    pub decay_seconds: f64,
    /// Whether the run is a decay.
    pub is_decay: bool,
    /// Step at which the decay ended, its learning rate being zero.
    pub decay_end: Option<u64>,
}

impl TrainingProgress {
    /// Seconds of training since the decay began.
    pub fn seconds_of_decay(&self) -> f64 {
        self.seconds - self.decay_seconds
    }
}

/// The first line of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct CheckpointHeader {
    format: String,
    shape: Shape,
    inputs: usize,
    rows: usize,
    progress: TrainingProgress,
    /// SHA-256 of the file, in hexadecimal.
    sha256: String,
}

/// What stands for the checksum while it is computed.
const NO_SUM: [u8; 64] = [b'0'; 64];

/// The hash of a header's line whose checksum is replaced by zeros.
fn hash_of_line(line: &[u8], sum: &str) -> Sha256 {
    let at = line
        .windows(NO_SUM.len())
        .position(|part| part == sum.as_bytes());
    let mut line = line.to_vec();
    if let Some(at) = at {
        line[at..at + NO_SUM.len()].copy_from_slice(&NO_SUM);
    }
    Sha256::new_with_prefix(line)
}

/// A saved run.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The network's sizes.
    pub shape: Shape,
    /// Progress of the run.
    pub progress: TrainingProgress,
    /// Weights and moments.
    pub state: Moments,
}

impl Checkpoint {
    /// Writes the checkpoint to `path`, replacing an existing one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        save(path, self.shape, self.progress, &self.state)
    }

    /// Writes the checkpoint to a file that was already created for `path`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, file: NewFile, path: &Path) -> Result<()> {
        write(file, path, self.shape, self.progress, &self.state)
    }

    /// Reads a checkpoint.
    ///
    /// # Errors
    /// When the file cannot be read, is not a checkpoint, is incomplete, or holds a network with other inputs.
    pub fn load(path: &Path) -> Result<Checkpoint> {
        let name = path.display();
        let (header, line, mut file) = open(path)?;
        let here = (header.shape.inputs.len(), row_count(header.shape.inputs));
        ensure!(
            (header.inputs, header.rows) == here && header.shape.is_valid(),
            "{name} holds a network with other inputs or moves: it was written by an incompatible version"
        );
        let total = header.shape.sections().total;
        // Before memory is taken for what the header declares.
        let left = file
            .get_ref()
            .metadata()?
            .len()
            .saturating_sub(line.len() as u64);
        ensure!(
            left >= BYTES_PER_WEIGHT * total as u64,
            "{name} is damaged: incomplete weights"
        );
        let mut sum = hash_of_line(&line, &header.sha256);
        let mut vector = || {
            read(&mut file, total, &mut sum)
                .with_context(|| format!("{name} is damaged: incomplete weights"))
        };
        let state = Moments {
            weights: vector()?,
            first: vector()?,
            second: vector()?,
            average: vector()?,
        };
        ensure!(
            hex(&sum.finalize()) == header.sha256,
            "{name} is damaged: its checksum does not match"
        );
        Ok(Checkpoint {
            shape: header.shape,
            progress: header.progress,
            state,
        })
    }
}

/// Reads the progress of a checkpoint without its weights.
///
/// # Errors
/// When the file cannot be read or is not a checkpoint.
pub fn progress(path: &Path) -> Result<TrainingProgress> {
    open(path).map(|(header, ..)| header.progress)
}

/// Opens a checkpoint and reads its header. Returns the header's line, too.
fn open(path: &Path) -> Result<(CheckpointHeader, Vec<u8>, BufReader<File>)> {
    let name = path.display();
    let file = files::open_file(path).with_context(|| format!("cannot open {name}"))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut line = Vec::new();
    (&mut file).take(MAX_HEADER).read_until(b'\n', &mut line)?;
    let header: CheckpointHeader =
        serde_json::from_slice(&line).with_context(|| format!("{name} is not a checkpoint"))?;
    ensure!(header.format == FORMAT, "{name} is not a checkpoint");
    Ok((header, line, file))
}

/// Writes a checkpoint to `path`, replacing an existing one.
///
/// # Errors
/// When the file cannot be written.
pub fn save(path: &Path, shape: Shape, progress: TrainingProgress, state: &Moments) -> Result<()> {
    let file = NewFile::create(path, true, &[])?;
    write(file, path, shape, progress, state)
}

fn write(
    file: NewFile,
    path: &Path,
    shape: Shape,
    progress: TrainingProgress,
    state: &Moments,
) -> Result<()> {
    let header = CheckpointHeader {
        format: FORMAT.into(),
        shape,
        inputs: shape.inputs.len(),
        rows: row_count(shape.inputs),
        progress,
        sha256: String::from_utf8_lossy(&NO_SUM).into_owned(),
    };
    let vectors = [&state.weights, &state.first, &state.second, &state.average];
    let line = |header: &CheckpointHeader| -> Result<Vec<u8>> {
        let mut line = serde_json::to_vec(header)?;
        line.push(b'\n');
        Ok(line)
    };
    let mut sum = Sha256::new_with_prefix(line(&header)?);
    for vector in vectors {
        each_piece(vector, |bytes| {
            sum.update(bytes);
            Ok(())
        })?;
    }
    let header = CheckpointHeader {
        sha256: hex(&sum.finalize()),
        ..header
    };
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let mut put = || -> Result<()> {
        file.write_all(&line(&header)?)?;
        for vector in vectors {
            each_piece(vector, |bytes| file.write_all(bytes))?;
        }
        Ok(file.flush()?)
    };
    put().with_context(|| format!("cannot write {}", path.display()))?;
    let (file, _) = file.into_parts();
    file.finish()
}

/// Passes the bytes of a vector on, a few thousand numbers at a time.
fn each_piece(
    vector: &[f32],
    mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    for piece in vector.chunks(1 << 14) {
        bytes.clear();
        bytes.extend(piece.iter().flat_map(|value| value.to_le_bytes()));
        take(&bytes)?;
    }
    Ok(())
}

fn read(file: &mut impl Read, count: usize, sum: &mut Sha256) -> Result<Vec<f32>> {
    let mut bytes = vec![0; 4 * count];
    file.read_exact(&mut bytes)?;
    sum.update(&bytes);
    let values = bytes.as_chunks::<4>().0.iter();
    Ok(values.map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sparse::features::InputSet;

    #[test]
    fn a_checkpoint_is_read_back_unchanged_and_damage_is_an_error() {
        let shape = Shape {
            policy: 64,
            value: 64,
            hidden: 4,
            stages: 2,
            inputs: InputSet::History,
        };
        let mut state = Moments::new(shape.start(3));
        state.first[5] = 0.5;
        state.average[7] = -2.0;
        let progress = TrainingProgress {
            step: 7,
            positions: 99,
            seconds: 1.5,
            ..TrainingProgress::default()
        };
        let checkpoint = Checkpoint {
            shape,
            progress,
            state,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        checkpoint.save(&path).unwrap();
        assert_eq!(Checkpoint::load(&path).unwrap(), checkpoint);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let bytes = std::fs::read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            format!("{:#}", Checkpoint::load(&path).unwrap_err())
        };
        let error = refused(&bytes[..bytes.len() - 1]);
        assert!(error.contains("incomplete weights"), "{error}");
        // A number of the progress, the checksum itself, a weight in the middle, the last byte.
        let line = bytes.iter().position(|&byte| byte == b'\n').unwrap();
        let header = String::from_utf8(bytes[..line].to_vec()).unwrap();
        let step = header.find("\"step\":7").unwrap() + 7;
        let sum = header.find("\"sha256\":\"").unwrap() + 12;
        for at in [step, sum, bytes.len() / 2, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let error = refused(&damaged);
            assert!(
                error.contains("checksum does not match"),
                "byte {at}: {error}"
            );
        }
        std::fs::write(&path, b"something else").unwrap();
        let error = format!("{:#}", Checkpoint::load(&path).unwrap_err());
        assert!(error.contains("is not a checkpoint"), "{error}");
    }
}
