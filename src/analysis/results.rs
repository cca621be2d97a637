//! The file of results: one JSON object per line, which an interrupted analysis continues.

use std::{
    fs::File,
    io::{BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde::de::IgnoredAny;

use super::{
    input::Item,
    record::{PositionRecord, SolutionRecord},
};
use crate::{
    chess::setup,
    files::{
        LineEnd,
        output::{Stream, open_stream},
        read_line,
    },
};

/// A file of results, or a stream without earlier ones.
pub struct ResultFile {
    to: Box<dyn Write>,
    settings: String,
    done: Vec<EarlierResult>,
    /// How many of the earlier results have been met again.
    met: usize,
}

impl ResultFile {
    /// Opens the output, and reads the results of an earlier run. `settings` is the fingerprint of what decides results;
    /// `keep_records` keeps whole records in memory, which reviews of games need.
    ///
    /// # Errors
    /// When the file cannot be opened, is an input, holds something else or is being written by another process.
    pub fn open(
        path: &Path,
        settings: &str,
        inputs: &[PathBuf],
        keep_records: bool,
    ) -> Result<ResultFile> {
        let (to, done): (Box<dyn Write>, _) = match open_stream(path, inputs)? {
            Stream::Plain(to) => (Box::new(to), Vec::new()),
            Stream::Continued(mut file) => {
                let done = read_records(&mut file, path, keep_records)?;
                (Box::new(file), done)
            }
        };
        Ok(ResultFile {
            to,
            settings: settings.to_owned(),
            done,
            met: 0,
        })
    }

    /// The record that an earlier run has written about this position. Whether it is solved goes by what the file asks for
    /// now.
    ///
    /// # Errors
    /// When the earlier run was about something else.
    pub fn already_done(&mut self, item: &Item) -> Result<Option<&EarlierResult>> {
        let Some(record) = self.done.get_mut(self.met) else {
            return Ok(None);
        };
        self.met += 1;
        if record.name != item.name || record.fen != item.fen() {
            bail!(
                "the output file holds an analysis of other positions ({} instead of {}); name another file",
                record.name,
                item.name
            );
        }
        ensure!(
            record.settings == self.settings,
            "the output file was begun with other limits or options; go on with the same ones, or name another file"
        );
        let best = record.best.as_deref();
        let best = best.and_then(|best| setup::parse_move(item.history.position(), best).ok());
        let solved = best.and_then(|m| item.is_solved_by(m));
        if solved != record.solved {
            // When the search came to that move, nobody noted.
            record.solution = None;
        }
        record.solved = solved;
        Ok(Some(record))
    }

    /// Fails if the earlier run had more positions than this one.
    ///
    /// # Errors
    /// In that case.
    pub fn check_complete(&self) -> Result<()> {
        ensure!(
            self.met == self.done.len(),
            "the output file already holds an analysis of more positions than these"
        );
        Ok(())
    }

    /// Writes a result, whole, at once.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, record: &PositionRecord) -> Result<()> {
        let text = serde_json::to_string(record)? + "\n";
        self.to
            .write_all(text.as_bytes())
            .and_then(|()| self.to.flush())
            .context("cannot write the analysis")
    }
}

/// What is kept of a record that an earlier run has written.
pub struct EarlierResult {
    name: String,
    fen: String,
    settings: String,
    best: Option<String>,
    /// As [`PositionRecord::solved`].
    pub solved: Option<bool>,
    /// As [`PositionRecord::solution`].
    pub solution: Option<SolutionRecord>,
    /// All of it, where that is needed.
    pub record: Option<PositionRecord>,
}

/// The longest line of an earlier analysis, in bytes: one with the most lines of play that can be asked for is shorter.
const LONGEST_LINE: usize = 1 << 24;

/// Reads the records of an earlier run. A last line that was cut off and blank ones at the end are removed from the file,
/// in which writing goes on.
fn read_records(file: &mut File, path: &Path, keep: bool) -> Result<Vec<EarlierResult>> {
    let context = || format!("{} is not an earlier analysis", path.display());
    let mut reader = BufReader::new(&mut *file);
    let (mut records, mut read, mut good, mut line) = (Vec::new(), 0u64, 0u64, Vec::new());
    loop {
        line.clear();
        let end = read_line(&mut reader, &mut line, LONGEST_LINE).with_context(context)?;
        if end != LineEnd::Whole || !line.ends_with(b"\n") {
            break;
        }
        read += line.len() as u64;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let record: PositionRecord = serde_json::from_slice(&line).with_context(context)?;
        records.push(EarlierResult {
            name: record.name.clone(),
            fen: record.fen.clone(),
            settings: record.settings.clone(),
            best: record.best.clone(),
            solved: record.solved,
            solution: record.solution,
            record: keep.then_some(record),
        });
        good = read;
    }
    ensure!(is_cut_record(&line), context());
    file.set_len(good).with_context(context)?;
    file.seek(SeekFrom::Start(good)).with_context(context)?;
    Ok(records)
}

/// Whether the last line is a record that was cut off, be it only before its end of line: anything else would begin in
/// another way, or be whole.
fn is_cut_record(line: &[u8]) -> bool {
    let begin = b"{\"name\":";
    let rest = line.trim_ascii();
    let is_other = serde_json::from_slice::<IgnoredAny>(rest).is_ok()
        && serde_json::from_slice::<PositionRecord>(rest).is_err();
    rest.starts_with(&begin[..rest.len().min(begin.len())])
        && line.len() < LONGEST_LINE
        && !is_other
}
