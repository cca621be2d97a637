//! Output of `scorn analyze`: text or JSON on standard output, or a file of JSON lines.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context, Result};
use shakmaty::Position as _;

use super::AnalyzeArgs;
use crate::{
    analysis::{
        input::{Item, PgnGame},
        record::{PositionRecord, sans},
        results::{EarlierResult, ResultFile},
    },
    game::adjudicate,
    terminal::{self, counted},
};

/// The destination of results.
pub enum ResultOutput {
    /// Nothing; a report is written at the end.
    Silent,
    /// Nothing any more: the reader of standard output has what it needs.
    Unread,
    /// Text on standard output.
    Text,
    /// JSON lines on standard output.
    Json,
    /// JSON lines appended to a file.
    File(ResultFile),
}

impl ResultOutput {
    /// The output that the arguments select. `inputs` are as for [`ResultFile::open`].
    ///
    /// # Errors
    /// As [`ResultFile::open`].
    pub fn new(args: &AnalyzeArgs, inputs: &[PathBuf]) -> Result<ResultOutput> {
        Ok(match &args.output {
            Some(path) if path.as_os_str() == "-" => ResultOutput::Json,
            Some(path) => ResultOutput::File(ResultFile::open(path, inputs, args.is_reviewed())?),
            None if args.json => ResultOutput::Json,
            None if args.is_reviewed() => ResultOutput::Silent,
            None => ResultOutput::Text,
        })
    }

    /// The result of an earlier run for this position.
    ///
    /// # Errors
    /// As [`ResultFile::already_done`].
    pub fn already_done(&mut self, item: &Item, settings: &str) -> Result<Option<EarlierResult>> {
        match self {
            ResultOutput::File(file) => file.already_done(item, settings),
            _ => Ok(None),
        }
    }

    /// Whether a later run can continue an analysis with this output.
    pub fn can_be_continued(&self) -> bool {
        matches!(self, ResultOutput::File(file) if file.can_be_continued())
    }

    /// Checks that all positions of the earlier run were part of this one.
    ///
    /// # Errors
    /// When the earlier run had more positions.
    pub fn check_complete(&self) -> Result<()> {
        match self {
            ResultOutput::File(file) => file.check_complete(),
            _ => Ok(()),
        }
    }

    /// Writes a result and flushes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, record: &PositionRecord, item: &Item) -> Result<()> {
        let text = match self {
            ResultOutput::Silent | ResultOutput::Unread => return Ok(()),
            ResultOutput::File(file) => return file.write(record),
            ResultOutput::Json => serde_json::to_string(record)? + "\n",
            ResultOutput::Text => text(record, item),
        };
        match terminal::print(text).and_then(|()| io::stdout().flush()) {
            // As by `head`.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => *self = ResultOutput::Unread,
            printed => printed.context("cannot write the analysis")?,
        }
        Ok(())
    }

    /// Whether further results can still be read.
    pub fn is_read(&self) -> bool {
        !matches!(self, ResultOutput::Unread)
    }
}

/// A result as text.
fn text(record: &PositionRecord, item: &Item) -> String {
    let mut text = record.name.clone();
    if let Some(players) = item.game.as_deref().and_then(PgnGame::players) {
        text += &format!("  {players}");
    }
    text.push('\n');
    if record.name != record.fen {
        text += &format!("  {}\n", record.fen);
    }
    let Some(best) = &record.best_san else {
        let how = adjudicate::by_rules(&item.history);
        let how = how.map_or(String::new(), |how| format!(": {}", how.ending.text()));
        return text + &format!("  the game is over{how}\n");
    };
    let verdict = match (record.solved, item.played) {
        (Some(true), _) => match record.solution {
            Some(found) => format!(
                "  solved at {}, {:.2} s",
                counted(found.nodes, "node"),
                found.time_ms as f64 / 1000.0
            ),
            None => "  solved".into(),
        },
        (Some(false), _) => "  not solved".into(),
        (None, Some(m)) => format!(
            "  played: {}",
            sans(item.history.position(), &[m]).join(" ")
        ),
        (None, None) => String::new(),
    };
    text += &format!(
        "  best {best}  ({}, {:.1} s; values for {}){verdict}\n",
        counted(record.nodes, "node"),
        record.time_ms as f64 / 1000.0,
        item.history.position().turn().fold_wb("White", "Black"),
    );
    for line in &record.lines {
        let Some(wdl) = line.wdl else {
            text += &format!("  not searched  {}\n", line.san.join(" "));
            continue;
        };
        let [win, draw, loss] = wdl.map(|n| f64::from(n) / 10.0);
        text += &format!(
            "  {:>8}  win {win:.1} % draw {draw:.1} % loss {loss:.1} %  {}\n",
            line.score_text(),
            line.san.join(" ")
        );
        if let Some(objective) = &line.objective {
            let [win, draw, loss] = objective.wdl.map(|n| f64::from(n) / 10.0);
            text += &format!(
                "  {:>8}  win {win:.1} % draw {draw:.1} % loss {loss:.1} %  against best replies \
                 (practical gain {:+.1} % of a point)\n",
                objective.score_text(),
                50.0 * objective.gain
            );
        }
    }
    text
}
