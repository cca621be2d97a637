//! What an analysis says about a position: a few lines for people, or a JSON object for programs.

use std::{
    fs::File,
    io::{self, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use shakmaty::{Chess, Position, san::SanPlus};

use super::{AnalyzeArgs, Item, sign};
use crate::{
    chess::{PackedMove, setup, wdl},
    files::{
        LineEnd,
        output::{Stream, open_stream},
        read_line,
    },
    options::Options,
    search::{MoveStat, Outcome, Proven, PvLine, Score},
    terminal::say,
    uci::info,
};

/// The result for one position. Values are from the point of view of the side to move, except `white`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PositionRecord {
    /// The position's name: line or move number, id.
    pub name: String,
    /// The position.
    pub fen: String,
    /// A fingerprint of the limits and options: what was begun with others is not continued.
    #[serde(default)]
    pub settings: String,
    /// The move to play; absent if the game is over.
    pub best: Option<String>,
    /// The same, as people write it.
    pub best_san: Option<String>,
    /// The move that was played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub played: Option<String>,
    /// Whether the move is one that the file asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solved: Option<bool>,
    /// When the search came to that move for good, if it is one that the file asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solution: Option<SolutionRecord>,
    /// Visits of the root.
    pub nodes: u64,
    /// Time taken.
    pub time_ms: u64,
    /// Mean depth.
    pub depth: u32,
    /// Deepest line.
    pub seldepth: u32,
    /// W-L of the best line from White's point of view.
    pub white: f32,
    /// The best lines.
    pub lines: Vec<LineRecord>,
    /// All moves, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MoveRecord>,
}

/// When a search came to the solution, to within the interval of its reports.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SolutionRecord {
    /// Visits of the root.
    pub nodes: u64,
    /// Time.
    pub time_ms: u64,
}

/// One line of play.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LineRecord {
    /// In the unit of `ScoreType`; absent if there is a forced mate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i32>,
    /// Moves to mate; negative when being mated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mate: Option<i32>,
    /// Chances to win, draw and lose, in per mille.
    pub wdl: [u32; 3],
    /// What best replies would make of it, if search-contempt is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveRecord>,
    /// Visits of the first move.
    pub nodes: u64,
    /// The moves.
    pub pv: Vec<String>,
    /// The moves as people write them.
    pub san: Vec<String>,
}

/// A line against best replies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObjectiveRecord {
    /// In the unit of `ScoreType`; absent if there is a forced mate, which holds against every reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i32>,
    /// Chances to win, draw and lose, in per mille.
    pub wdl: [u32; 3],
    /// How much of the line's W-L are the opponent's mistakes.
    pub trap: f32,
    /// How much of it the opponent's next reply loses on average.
    pub next: f32,
}

/// One move of the position.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MoveRecord {
    /// The move.
    #[serde(rename = "move")]
    pub m: String,
    /// Visits.
    pub n: u32,
    /// Prior.
    pub p: f32,
    /// Mean W-L of the visits.
    pub wl: Option<f32>,
    /// Mean draw probability.
    pub d: Option<f32>,
    /// `win`, `draw` or `loss` if that is certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<String>,
    /// Whether search-contempt has frozen the replies.
    pub frozen: bool,
}

impl PositionRecord {
    /// Nothing found yet.
    #[cfg(test)]
    pub fn empty(item: &Item) -> PositionRecord {
        PositionRecord {
            name: item.name.clone(),
            fen: item.fen(),
            settings: String::new(),
            best: None,
            best_san: None,
            played: None,
            solved: None,
            solution: None,
            nodes: 0,
            time_ms: 0,
            depth: 0,
            seldepth: 0,
            white: 0.0,
            lines: Vec::new(),
            moves: Vec::new(),
        }
    }

    /// Puts the outcome of a search into words and numbers.
    pub fn new(
        item: &Item,
        outcome: &Outcome,
        options: &Options,
        stats: Option<&[MoveStat]>,
    ) -> PositionRecord {
        let position = item.history.position();
        let report = &outcome.report;
        // What is no standard game cannot be written as one: castling would read as a king's move.
        let chess960 = options.chess960 || !setup::castles_as_usual(&item.history);
        let options = &Options {
            chess960,
            ..options.clone()
        };
        let text = |m: PackedMove| setup::move_text(position, m, chess960);
        let wl = report.lines.first().map_or(0.0, |line| line.value.wl);
        PositionRecord {
            name: item.name.clone(),
            fen: item.fen(),
            settings: String::new(),
            best: outcome.best.map(text),
            best_san: outcome.best.and_then(|m| sans(position, &[m]).pop()),
            played: item.played.map(text),
            solved: outcome.best.and_then(|m| item.is_solved_by(m)),
            solution: None,
            nodes: report.nodes,
            time_ms: report.elapsed.as_millis() as u64,
            depth: report.depth,
            seldepth: report.seldepth,
            white: sign(position.turn()) * wl,
            lines: report
                .lines
                .iter()
                .map(|line| LineRecord::new(position, line, options))
                .collect(),
            moves: stats
                .unwrap_or_default()
                .iter()
                .rev()
                .filter_map(|stat| Some(MoveRecord::new(text(stat.m?), stat)))
                .collect(),
        }
    }
}

impl LineRecord {
    fn new(position: &Chess, line: &PvLine, options: &Options) -> LineRecord {
        let style = info::Style { position, options };
        let (score, mate) = match line.score {
            Score::Mate(moves) => (None, Some(moves)),
            _ => (Some(style.score(line.value)), None),
        };
        LineRecord {
            score,
            mate,
            wdl: wdl::per_mille(line.value),
            objective: line.objective.map(|objective| ObjectiveRecord {
                score: mate.is_none().then(|| style.score(objective.value)),
                wdl: wdl::per_mille(objective.value),
                trap: line.value.wl - objective.value.wl,
                next: objective.trap_mass,
            }),
            nodes: line.nodes,
            pv: style.move_list(&line.pv),
            san: sans(position, &line.pv),
        }
    }

    /// This score, or the moves to the mate if there is one.
    fn score_text(&self, score: Option<i32>) -> String {
        match (self.mate, score) {
            (Some(moves), _) => format!("mate {moves}"),
            (None, Some(score)) => format!("{:+.2}", f64::from(score) / 100.0),
            (None, None) => String::new(),
        }
    }
}

impl MoveRecord {
    fn new(m: String, stat: &MoveStat) -> MoveRecord {
        MoveRecord {
            m,
            n: stat.n,
            p: stat.p,
            wl: stat.value.map(|v| v.wl),
            d: stat.value.map(|v| v.d),
            proven: stat.proven().map(|proven| {
                match proven {
                    Proven::Win => "win",
                    Proven::Draw => "draw",
                    Proven::Loss => "loss",
                }
                .to_owned()
            }),
            frozen: stat.frozen,
        }
    }
}

fn sans(position: &Chess, moves: &[PackedMove]) -> Vec<String> {
    let mut position = position.clone();
    moves
        .iter()
        .map(|m| {
            let m = m.unpack(&position);
            SanPlus::from_move_and_play_unchecked(&mut position, m).to_string()
        })
        .collect()
}

/// Where the records go. In a file, those of an earlier run come first.
pub struct ResultWriter {
    to: Box<dyn Write>,
    json: bool,
    settings: String,
    done: Vec<Earlier>,
    /// How many of the earlier records have been met again.
    met: usize,
}

impl ResultWriter {
    /// Opens the output, and reads what an earlier run has left in it.
    ///
    /// # Errors
    /// When the file cannot be opened, is an input, holds something else or is just being written by somebody else.
    pub fn new(args: &AnalyzeArgs, settings: &str, inputs: &[PathBuf]) -> Result<ResultWriter> {
        let (to, json, done): (Box<dyn Write>, _, _) = match &args.output {
            // Who wants a report does not want pages of text, too.
            None if args.is_reviewed() && !args.json => (Box::new(io::sink()), true, Vec::new()),
            None => (Box::new(Printed), args.json, Vec::new()),
            Some(path) => match open_stream(path, inputs)? {
                Stream::Plain(to) => (Box::new(to), true, Vec::new()),
                Stream::Continued(mut file) => {
                    let done = read_records(&mut file, path, args.is_reviewed())?;
                    (Box::new(file), true, done)
                }
            },
        };
        Ok(ResultWriter {
            to,
            json,
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
    pub fn already_done(&mut self, item: &Item) -> Result<Option<&Earlier>> {
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

    /// Writes a record, whole, at once.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, record: &PositionRecord, item: &Item) -> Result<()> {
        let text = if self.json {
            serde_json::to_string(record)? + "\n"
        } else {
            for_people(record, item)
        };
        self.to
            .write_all(text.as_bytes())
            .and_then(|()| self.to.flush())
            .context("cannot write the analysis")
    }
}

/// Standard output, for people or a pipe.
struct Printed;

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        say(String::from_utf8_lossy(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// What is kept of a record that an earlier run has written.
pub struct Earlier {
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
fn read_records(file: &mut File, path: &Path, keep: bool) -> Result<Vec<Earlier>> {
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
        records.push(Earlier {
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

fn for_people(record: &PositionRecord, item: &Item) -> String {
    let mut text = format!("{}\n", record.name);
    if record.name != record.fen {
        text += &format!("  {}\n", record.fen);
    }
    let Some(best) = &record.best_san else {
        return text + "  the game is over\n";
    };
    let verdict = match (record.solved, item.played) {
        (Some(true), _) => match record.solution {
            Some(found) => format!(
                "  solved at {} nodes, {:.2} s",
                found.nodes,
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
        "  best {best}  ({} nodes, {:.1} s){verdict}\n",
        record.nodes,
        record.time_ms as f64 / 1000.0
    );
    for line in &record.lines {
        let [win, draw, loss] = line.wdl.map(|n| f64::from(n) / 10.0);
        text += &format!(
            "  {:>8}  win {win:.1} % draw {draw:.1} % loss {loss:.1} %  {}\n",
            line.score_text(line.score),
            line.san.join(" ")
        );
        if let Some(objective) = &line.objective {
            let [win, draw, loss] = objective.wdl.map(|n| f64::from(n) / 10.0);
            text += &format!(
                "  {:>8}  win {win:.1} % draw {draw:.1} % loss {loss:.1} %  against best replies (trap {:+.1} %)\n",
                line.score_text(objective.score),
                50.0 * objective.trap
            );
        }
    }
    text
}
