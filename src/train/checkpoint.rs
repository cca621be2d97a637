//! The state of a run on disk. A file appears under its name only when it is whole.
//!
//! A line of JSON (`Header`), then the vectors of [`Moments`] as little-endian 32-bit floats.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::adam::Moments;
use crate::{files::output::NewFile, sparse::network::Shape};

/// The first word of a checkpoint's header.
const FORMAT: &str = "scorn-sparse-checkpoint-1";

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingProgress {
    /// Steps done.
    pub step: u64,
    /// Positions seen.
    pub positions: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// The step at which the rate began to fall.
    pub decay_step: u64,
    /// And the seconds then.
    pub decay_seconds: f64,
    /// Whether it is falling. Files of older versions say it by the step alone.
    #[serde(default)]
    pub is_decay: bool,
}

impl TrainingProgress {
    /// Whether the run is a decay.
    pub fn is_of_a_decay(&self) -> bool {
        self.is_decay || self.decay_step > 0
    }
}

/// What a checkpoint says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct CheckpointHeader {
    format: String,
    shape: Shape,
    inputs: usize,
    rows: usize,
    progress: TrainingProgress,
}

/// A run, as saved.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The network's sizes.
    pub shape: Shape,
    /// How far the run is.
    pub progress: TrainingProgress,
    /// Weights and moments.
    pub state: Moments,
}

impl Checkpoint {
    /// Writes it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        save(path, self.shape, self.progress, &self.state)
    }

    /// Writes it to a new file that was begun under this name.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, file: NewFile, path: &Path) -> Result<()> {
        write(file, path, self.shape, self.progress, &self.state)
    }

    /// Reads one.
    ///
    /// # Errors
    /// When it cannot be read, is none, or is of a network with other inputs.
    pub fn load(path: &Path) -> Result<Checkpoint> {
        let name = path.display();
        let (header, mut file) = open(path)?;
        let here = (super::INPUTS, super::ROWS);
        ensure!(
            (header.inputs, header.rows) == here && header.shape.is_valid(),
            "{name} holds a network with other inputs or moves"
        );
        let total = header.shape.sections().total;
        let mut vector = || read(&mut file, total).with_context(|| format!("{name} is damaged"));
        let state = Moments {
            weights: vector()?,
            first: vector()?,
            second: vector()?,
            average: vector()?,
        };
        Ok(Checkpoint {
            shape: header.shape,
            progress: header.progress,
            state,
        })
    }
}

/// How far the run of a checkpoint is, without its weights.
///
/// # Errors
/// When it cannot be read or is none.
pub fn progress(path: &Path) -> Result<TrainingProgress> {
    open(path).map(|(header, _)| header.progress)
}

/// Opens a checkpoint and reads its header.
fn open(path: &Path) -> Result<(CheckpointHeader, BufReader<File>)> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut line = Vec::new();
    (&mut file).take(4096).read_until(b'\n', &mut line)?;
    let header: CheckpointHeader =
        serde_json::from_slice(&line).with_context(|| format!("{name} is no checkpoint"))?;
    ensure!(header.format == FORMAT, "{name} is no checkpoint");
    Ok((header, file))
}

/// Writes a checkpoint, in the place of the one before.
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
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let header = CheckpointHeader {
        format: FORMAT.into(),
        shape,
        inputs: super::INPUTS,
        rows: super::ROWS,
        progress,
    };
    let mut put = || -> std::io::Result<()> {
        serde_json::to_writer(&mut file, &header)?;
        file.write_all(b"\n")?;
        for vector in [&state.weights, &state.first, &state.second, &state.average] {
            for value in vector {
                file.write_all(&value.to_le_bytes())?;
            }
        }
        file.flush()
    };
    put().with_context(|| format!("cannot write {}", path.display()))?;
    let (file, _) = file.into_parts();
    file.finish()
}

fn read(file: &mut impl Read, count: usize) -> Result<Vec<f32>> {
    let mut bytes = vec![0; 4 * count];
    file.read_exact(&mut bytes)?;
    let values = bytes.as_chunks::<4>().0.iter();
    Ok(values.map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_survives_the_disk_and_damage_is_found() {
        let shape = Shape {
            policy: 64,
            value: 64,
            hidden: 4,
            stages: 2,
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
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let error = format!("{:#}", Checkpoint::load(&path).unwrap_err());
        assert!(error.contains("is damaged"), "{error}");
        std::fs::write(&path, b"something else").unwrap();
        let error = format!("{:#}", Checkpoint::load(&path).unwrap_err());
        assert!(error.contains("is no checkpoint"), "{error}");
    }
}
