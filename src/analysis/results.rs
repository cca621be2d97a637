//! The file of results: one JSON object per line, which a resumed analysis continues.

use std::{
    collections::{HashMap, VecDeque},
    fs::{self, File},
    io::{BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
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

/// A file of results, or a stream without earlier results. A new file in which nothing is written is removed.
pub struct ResultFile {
    /// The name for messages.
    name: String,
    /// The place of a file that was not there before.
    new: Option<PathBuf>,
    to: Box<dyn Write>,
    earlier: EarlierResults,
    /// Whether a later run can continue it.
    can_be_continued: bool,
}

/// The results of an earlier run that have not been used again.
#[derive(Default)]
struct EarlierResults {
    /// By the name of the position; `--fen` may name one twice.
    by_name: HashMap<String, VecDeque<EarlierResult>>,
    /// How many there are of each game.
    of_game: HashMap<String, usize>,
    count: usize,
}

/// The game in the name of a position, if it is from one.
fn game_in(name: &str) -> Option<&str> {
    let (game, _) = name.split_once(", move ")?;
    game.starts_with("game ").then_some(game)
}

impl EarlierResults {
    fn add(&mut self, result: EarlierResult) {
        if let Some(game) = game_in(&result.name) {
            *self.of_game.entry(game.to_owned()).or_default() += 1;
        }
        self.count += 1;
        let same = self.by_name.entry(result.name.clone()).or_default();
        same.push_back(result);
    }

    /// Removes the result of this name.
    fn take(&mut self, name: &str) -> Option<EarlierResult> {
        let result = self.by_name.get_mut(name)?.pop_front()?;
        self.count -= 1;
        if let Some(left) = game_in(name).and_then(|game| self.of_game.get_mut(game)) {
            *left -= 1;
        }
        Some(result)
    }

    /// Whether a position of this name may be a new one: all that there was has been used, or, among results of games,
    /// that of its game, which could not be read before or was not finished.
    fn may_lack(&self, name: &str) -> bool {
        let are_games = !self.of_game.is_empty();
        let is_left = |game| self.of_game.get(game).is_some_and(|&left| left > 0);
        self.count == 0 || are_games && game_in(name).is_some_and(|game| !is_left(game))
    }
}

impl ResultFile {
    /// Opens the output and reads the results of an earlier run. `keep_records` keeps whole records in memory, as
    /// reviews of games need.
    ///
    /// # Errors
    /// When the file cannot be opened, is an input, holds other data, or is being written by another process.
    pub fn open(path: &Path, inputs: &[PathBuf], keep_records: bool) -> Result<ResultFile> {
        let is_new = !path.exists();
        let (to, earlier, can_be_continued): (Box<dyn Write>, _, _) =
            match open_stream(path, inputs)? {
                Stream::Plain(to) => (Box::new(to), EarlierResults::default(), false),
                Stream::Continued(mut file) => {
                    let earlier = read_records(&mut file, path, keep_records)?;
                    (Box::new(file), earlier, true)
                }
            };
        Ok(ResultFile {
            name: path.display().to_string(),
            new: is_new.then(|| path.to_owned()),
            to,
            earlier,
            can_be_continued,
        })
    }

    /// Whether a later run can continue it.
    pub fn can_be_continued(&self) -> bool {
        self.can_be_continued
    }

    /// The earlier result for this position, which is given once; `None` for a position that is new. `settings` is the
    /// fingerprint of everything that determines it. Whether it is solved depends on the solution in the present input.
    ///
    /// # Errors
    /// When the earlier run was about other positions or had other settings.
    pub fn already_done(&mut self, item: &Item, settings: &str) -> Result<Option<EarlierResult>> {
        let Some(mut record) = self.earlier.take(&item.name) else {
            ensure!(
                self.earlier.may_lack(&item.name),
                "{} contains an analysis of other positions, without {}: use another --output",
                self.name,
                item.name
            );
            return Ok(None);
        };
        let fen = item.fen();
        ensure!(
            record.fen == fen,
            "{} contains an analysis of other positions ({} is {} there and {fen} here): use another --output",
            self.name,
            record.name,
            record.fen
        );
        let played = record.played.as_deref();
        let played = played.and_then(|m| setup::parse_move(item.history.position(), m).ok());
        ensure!(
            played == item.played,
            "{} contains an analysis in which {} goes on differently: use another --output",
            self.name,
            record.name
        );
        ensure!(
            record.settings == settings,
            "{} was written with other limits or options: use the same ones or another --output",
            self.name
        );
        let best = record.best.as_deref();
        let best = best.and_then(|best| setup::parse_move(item.history.position(), best).ok());
        let solved = best.and_then(|m| item.is_solved_by(m));
        if solved != record.solved {
            // The time at which the search found that move was not recorded.
            record.solution = None;
        }
        record.solved = solved;
        Ok(Some(record))
    }

    /// Checks that the earlier run did not have more positions than this one.
    ///
    /// # Errors
    /// When it had.
    pub fn check_complete(&self) -> Result<()> {
        ensure!(
            self.earlier.count == 0,
            "{} already holds an analysis of more positions than these: use another --output",
            self.name
        );
        Ok(())
    }

    /// Writes a result and flushes it.
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

impl Drop for ResultFile {
    fn drop(&mut self) {
        // The file is still locked.
        let is_empty = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.len() == 0);
        if let Some(path) = self.new.take_if(|path| is_empty(path)) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The part of an earlier record that is kept.
pub struct EarlierResult {
    name: String,
    fen: String,
    settings: String,
    played: Option<String>,
    best: Option<String>,
    /// As [`PositionRecord::solved`].
    pub solved: Option<bool>,
    /// As [`PositionRecord::solution`].
    pub solution: Option<SolutionRecord>,
    /// The whole record, where it is needed.
    pub record: Option<PositionRecord>,
}

/// Maximum length of a line of an earlier analysis, in bytes: enough for the largest MultiPV.
const MAX_LINE_BYTES: usize = 1 << 24;

/// Reads the records of an earlier run. An incomplete last line and blank lines at the end are removed from the file
/// before it is continued.
fn read_records(file: &mut File, path: &Path, keep: bool) -> Result<EarlierResults> {
    let context = || format!("{} is not an earlier analysis", path.display());
    let mut reader = BufReader::new(&mut *file);
    let (mut read, mut good, mut line) = (0u64, 0u64, Vec::new());
    let mut records = EarlierResults::default();
    loop {
        line.clear();
        let end = read_line(&mut reader, &mut line, MAX_LINE_BYTES).with_context(context)?;
        if end != LineEnd::Whole || !line.ends_with(b"\n") {
            break;
        }
        read += line.len() as u64;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let record: PositionRecord = serde_json::from_slice(&line).with_context(context)?;
        records.add(EarlierResult {
            name: record.name.clone(),
            fen: record.fen.clone(),
            settings: record.settings.clone(),
            played: record.played.clone(),
            best: record.best.clone(),
            solved: record.solved,
            solution: record.solution,
            record: keep.then_some(record),
        });
        good = read;
    }
    ensure!(is_truncated_record(&line), context());
    file.set_len(good).with_context(context)?;
    file.seek(SeekFrom::Start(good)).with_context(context)?;
    Ok(records)
}

/// Whether the last line is an incomplete record. Other text would begin differently, or be complete.
fn is_truncated_record(line: &[u8]) -> bool {
    let begin = b"{\"name\":";
    let rest = line.trim_ascii();
    let is_other = serde_json::from_slice::<IgnoredAny>(rest).is_ok()
        && serde_json::from_slice::<PositionRecord>(rest).is_err();
    rest.starts_with(&begin[..rest.len().min(begin.len())])
        && line.len() < MAX_LINE_BYTES
        && !is_other
}
