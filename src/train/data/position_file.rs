//! Files of positions of either kind: records, or searched positions of self-play.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Result, ensure};

use super::part::NetworkPart;
use super::sample_batch::{SampleBatch, SkipReason};
use crate::dataset::record::Record;
use crate::dataset::record_file::RecordFile;
use crate::dataset::searched::{Searched, SearchedFile, is_searched};
use crate::sparse::features::InputSet;
use crate::sparse::history::Past;
use crate::train::past;
use crate::train::targets::{ResultShare, Targets};

/// A file of either kind.
#[derive(Debug)]
pub(super) enum PositionFile {
    Records(RecordFile),
    Searched(SearchedFile),
}

/// A position of either kind.
#[derive(Debug)]
pub(super) enum DrawnPosition {
    Record(Record),
    Searched(Searched),
}

impl PositionFile {
    pub(super) fn open(path: &Path) -> Result<PositionFile> {
        Ok(if is_searched(path)? {
            PositionFile::Searched(SearchedFile::open(path)?)
        } else {
            PositionFile::Records(RecordFile::open(path)?)
        })
    }

    /// Opens a file to draw from, which must hold positions.
    pub(super) fn open_filled(path: &Path) -> Result<PositionFile> {
        let file = PositionFile::open(path)?;
        ensure!(file.count() > 0, "{} holds no records", path.display());
        Ok(file)
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            PositionFile::Records(file) => file.count,
            PositionFile::Searched(file) => file.count,
        }
    }

    /// What was before a position of the file, as far as the positions before it tell and `inputs` ask for it.
    pub(super) fn past(&mut self, inputs: InputSet, index: u64, record: &Record) -> Result<Past> {
        match self {
            PositionFile::Records(file) => past::before(inputs, |at| file.get(at), index, record),
            PositionFile::Searched(file) => {
                past::before(inputs, |at| file.record(at), index, record)
            }
        }
    }

    pub(super) fn get(&mut self, index: u64) -> Result<DrawnPosition> {
        Ok(match self {
            PositionFile::Records(file) => DrawnPosition::Record(file.get(index)?),
            PositionFile::Searched(file) => DrawnPosition::Searched(file.get(index)?),
        })
    }
}

impl DrawnPosition {
    pub(super) fn record(&self) -> &Record {
        match self {
            DrawnPosition::Record(record) => record,
            DrawnPosition::Searched(searched) => &searched.record,
        }
    }

    /// Mirrors the position and its moves left to right. Only valid without castling rights.
    pub(super) fn mirror(&mut self) {
        match self {
            DrawnPosition::Record(record) => record.mirror(),
            DrawnPosition::Searched(searched) => searched.mirror(),
        }
    }
}

/// A file, as it was when it was last opened.
#[derive(Debug)]
pub(super) struct CountedFile {
    /// Number of its positions.
    pub(super) count: u64,
    /// When it was written, as far as the system says.
    written: Option<SystemTime>,
    /// Lengths of the games of a self-play file, if the share of the result depends on the ply.
    pub(super) lengths: HashMap<u32, u16>,
}

impl CountedFile {
    /// Counts the positions of a file. The lengths of its games, if `share` needs them, are read unless the file is as
    /// it was `before`.
    pub(super) fn read(
        path: &Path,
        before: Option<CountedFile>,
        share: ResultShare,
    ) -> Result<CountedFile> {
        let file = PositionFile::open_filled(path)?;
        let count = file.count();
        let written = fs::metadata(path).and_then(|file| file.modified()).ok();
        // A file that was replaced may have as many positions as the one before.
        if let Some(before) = before
            && before.count == count
            && before.written == written
            && written.is_some()
        {
            return Ok(before);
        }
        let lengths = match file {
            PositionFile::Searched(file) if share.depends_on_ply() => file.lengths()?,
            _ => HashMap::new(),
        };
        Ok(CountedFile {
            count,
            written,
            lengths,
        })
    }
}

/// Adds a self-play position with its targets. Without visits there is no policy target, and the position is skipped
/// unless only the value is trained.
pub(super) fn add_searched<B: SampleBatch>(
    searched: &Searched,
    past: &Past,
    targets: Targets,
    trained_part: NetworkPart,
    batch: &mut B,
) -> Result<(), SkipReason> {
    if targets.policy.is_empty() && trained_part != NetworkPart::Value {
        return Err(SkipReason::Unlabelled);
    }
    batch.add(&searched.record, past, &targets.only(trained_part))
}
