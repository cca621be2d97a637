//! The result of an analysis for one position, as written in JSON.

use serde::{Deserialize, Serialize};
use shakmaty::{Chess, Position, san::SanPlus};

use super::{
    input::Item,
    sign,
    traps::{MistakeRecord, TrapRecord},
};
use crate::{
    chess::{PackedMove, setup, wdl},
    options::Options,
    search::{MoveStat, Outcome, Proven, PvLine, Report, Score},
    uci::info,
};

/// Share of the visits of a search that a move has if its value is to be trusted.
pub(super) const MIN_VISIT_SHARE: f64 = 0.01;

/// The result for one position. Values are from the point of view of the side to move, except `white`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PositionRecord {
    /// The position's name: line or move number, id.
    pub name: String,
    /// The position.
    pub fen: String,
    /// A fingerprint of the limits and options: an analysis is resumed only with the same ones.
    #[serde(default)]
    pub settings: String,
    /// The move to play; absent if the game is over.
    pub best: Option<String>,
    /// The move in standard algebraic notation.
    pub best_san: Option<String>,
    /// The move that was played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub played: Option<String>,
    /// Whether the best move is a solution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solved: Option<bool>,
    /// When the search settled on the solution, if its best move is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solution: Option<SolutionRecord>,
    /// Visits of the root.
    pub nodes: u64,
    /// Time taken, in milliseconds.
    pub time_ms: u64,
    /// Mean depth.
    pub depth: u32,
    /// Deepest line.
    pub seldepth: u32,
    /// W-L of the best line from White's point of view.
    pub white: f32,
    /// The best lines. With search-contempt also the best line against best replies and that of the played move.
    pub lines: Vec<LineRecord>,
    /// The move that is best against best replies, if search-contempt is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective_best: Option<String>,
    /// The mistake that the side to move is likely to make, in reviews of games.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mistake: Option<MistakeRecord>,
    /// Traps that the played move or another one sets, in reviews of games.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traps: Vec<TrapRecord>,
    /// All moves, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MoveRecord>,
}

/// When a search found the solution, to within a batch.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SolutionRecord {
    /// Visits of the root.
    pub nodes: u64,
    /// Time until then, in milliseconds.
    pub time_ms: u64,
}

/// One line of play.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LineRecord {
    /// The score in the unit of `ScoreType`; absent if there is a forced mate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i32>,
    /// Moves to mate; negative when being mated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mate: Option<i32>,
    /// Probabilities of win, draw and loss, in per mille; absent if no search has visited the move and nothing is
    /// certain about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wdl: Option<[u32; 3]>,
    /// The values against best replies, if search-contempt is on and the plain search has visited the move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveRecord>,
    /// Visits of the first move.
    pub nodes: u64,
    /// The moves: those of the practical search, or of the plain one if it is the only one that visited the first
    /// move. In a reviewed game, the played move is followed by the best line of the next position.
    pub pv: Vec<String>,
    /// The moves in standard algebraic notation.
    pub san: Vec<String>,
}

/// The values of a line against best replies, from a plain search.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObjectiveRecord {
    /// The score in the unit of `ScoreType`; absent if there is a forced mate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i32>,
    /// Moves to mate; negative when being mated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mate: Option<i32>,
    /// Probabilities of win, draw and loss, in per mille.
    pub wdl: [u32; 3],
    /// By how much the practical W-L is higher, for the side to move.
    pub gain: f32,
    /// Visits of the first move in that search; 0 if its result is certain without them.
    pub nodes: u64,
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
    /// Mean W-L of the visits, or the proven one.
    pub wl: Option<f32>,
    /// Mean draw probability.
    pub d: Option<f32>,
    /// `win`, `draw` or `loss` if the result is proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven: Option<String>,
    /// Whether search-contempt has frozen the replies.
    pub frozen: bool,
}

impl PositionRecord {
    /// Whether there are values against best replies beside the practical ones.
    pub fn has_practical_values(&self) -> bool {
        self.lines.iter().any(|line| line.objective.is_some())
    }

    /// Win, draw and loss of one of the lines against best replies, in per mille, if they are known.
    pub fn objective_wdl(&self, line: &LineRecord) -> Option<[u32; 3]> {
        match &line.objective {
            Some(found) => Some(found.wdl),
            None if self.has_practical_values() => None,
            None => line.wdl,
        }
    }

    /// A record without a result.
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
            objective_best: None,
            mistake: None,
            traps: Vec::new(),
            moves: Vec::new(),
        }
    }

    /// The record of a search outcome, and the statistics of its moves. `plain` is the report of a plain search with
    /// all moves, from which the values against best replies come. `keeps_moves` includes every move.
    pub fn new(
        item: &Item,
        outcome: &Outcome,
        plain: Option<&Report>,
        options: &Options,
        stats: &[MoveStat],
        keeps_moves: bool,
    ) -> PositionRecord {
        let position = item.history.position();
        let report = &outcome.report;
        // Moves of a Chess960 game are written in its notation: otherwise castling would read as a king's move.
        let chess960 = options.chess960 || !setup::has_standard_castling(&item.history);
        let options = &Options {
            chess960,
            ..options.clone()
        };
        let text = |m: PackedMove| setup::move_text(position, m, chess960);
        let wl = report.lines.first().map_or(0.0, |line| {
            let known = practical(line, objective_of(plain, line));
            known.unwrap_or(line).value.wl
        });
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
            // Adding 0 turns -0 into 0.
            white: sign(position.turn()) * wl + 0.0,
            lines: lines(item, report, stats, plain, options),
            objective_best: plain.and_then(|plain| Some(text(*plain.lines.first()?.pv.first()?))),
            mistake: None,
            traps: Vec::new(),
            moves: stats
                .iter()
                .rev()
                .filter(|_| keeps_moves)
                .filter_map(|stat| Some(MoveRecord::new(text(stat.m?), stat)))
                .collect(),
        }
    }
}

/// The line of a plain search with the same first move, if that search knows its value.
fn objective_of<'a>(plain: Option<&'a Report>, line: &PvLine) -> Option<&'a PvLine> {
    let mut lines = plain?.lines.iter().enumerate();
    let (index, found) = lines.find(|(_, other)| other.pv.first() == line.pv.first())?;
    // The first line has at least the value of the position.
    (index == 0 || !found.is_guess()).then_some(found)
}

/// The line that has the practical value: `line`, unless the one against best replies is worth more. The side that
/// moves may also play for best replies, so the practical value is at least that. `None` if neither is known.
fn practical<'a>(line: &'a PvLine, objective: Option<&'a PvLine>) -> Option<&'a PvLine> {
    let known = Some(line).filter(|line| !line.is_guess());
    match (known, objective) {
        (Some(line), Some(objective)) if objective.value.wl > line.value.wl => Some(objective),
        (known, objective) => known.or(objective),
    }
}

/// The lines of a record: those of the search, and of a plain one the best line and that of the played move.
fn lines(
    item: &Item,
    report: &Report,
    stats: &[MoveStat],
    plain: Option<&Report>,
    options: &Options,
) -> Vec<LineRecord> {
    let position = item.history.position();
    let first = |line: &PvLine| line.pv.first().copied();
    let wanted = plain.and_then(|plain| plain.lines.first()).and_then(first);
    let is_wanted = |line: &PvLine| {
        let m = first(line);
        m.is_some() && (m == wanted || m == item.played)
    };
    let is_known = |line: &PvLine| report.lines.iter().any(|other| first(other) == first(line));
    let added = plain.iter().flat_map(|plain| &plain.lines);
    let added = added.filter(|line| is_wanted(line) && !is_known(line));
    let record =
        |line: &PvLine| LineRecord::new(position, line, objective_of(plain, line), options);
    // The search with search-contempt has a value of an added line if it has visited its first move.
    let least = MIN_VISIT_SHARE * report.nodes as f64;
    let added = added.map(|line| {
        let mut moves = stats.iter();
        let stat = moves.find(|stat| stat.m.is_some() && stat.m == first(line));
        let stat = stat.filter(|stat| f64::from(stat.n) >= least.max(1.0));
        match stat.and_then(|stat| Some((stat.value?, stat.n))) {
            Some((value, n)) => record(&PvLine {
                value,
                score: Score::Open,
                nodes: n.into(),
                ..line.clone()
            }),
            None => LineRecord {
                nodes: 0,
                ..record(line)
            },
        }
    });
    // The first line has at least the value of the position.
    let first = |(index, line): (usize, &PvLine)| match index {
        0 if practical(line, objective_of(plain, line)).is_none() => {
            LineRecord::valued(position, line, Some(line), None, options)
        }
        _ => record(line),
    };
    let own = report.lines.iter().enumerate().map(first);
    own.chain(added).collect()
}

impl LineRecord {
    fn new(
        position: &Chess,
        line: &PvLine,
        objective: Option<&PvLine>,
        options: &Options,
    ) -> LineRecord {
        let practical = practical(line, objective);
        LineRecord::valued(position, line, practical, objective, options)
    }

    /// The record of `line` with these values, as far as they are known.
    fn valued(
        position: &Chess,
        line: &PvLine,
        practical: Option<&PvLine>,
        objective: Option<&PvLine>,
        options: &Options,
    ) -> LineRecord {
        let style = info::Style { position, options };
        let score = |line: &PvLine| match line.score {
            Score::Mate(moves) => (None, Some(moves)),
            _ => (Some(style.score(line.value)), None),
        };
        let (own_score, mate) = practical.map_or((None, None), score);
        LineRecord {
            score: own_score,
            mate,
            wdl: practical.map(|line| wdl::per_mille(line.value)),
            objective: practical.zip(objective).map(|(practical, objective)| {
                let (score, mate) = score(objective);
                ObjectiveRecord {
                    score,
                    mate,
                    wdl: wdl::per_mille(objective.value),
                    gain: practical.value.wl - objective.value.wl,
                    nodes: objective.nodes,
                }
            }),
            nodes: line.nodes,
            pv: style.move_list(&line.pv),
            san: sans(position, &line.pv),
        }
    }

    /// The score as text, or the moves to the mate if there is one.
    pub fn score_text(&self) -> String {
        score_text(self.mate, self.score)
    }

    /// Whether the result is certain by a proof or tablebases.
    pub fn is_certain(&self) -> bool {
        self.mate.is_some() || self.wdl.is_some_and(|wdl| wdl.contains(&1000))
    }
}

impl ObjectiveRecord {
    /// The score as text, or the moves to the mate if there is one.
    pub fn score_text(&self) -> String {
        score_text(self.mate, self.score)
    }
}

fn score_text(mate: Option<i32>, score: Option<i32>) -> String {
    match (mate, score) {
        (Some(moves), _) => format!("mate {moves}"),
        (None, Some(score)) => format!("{:+.2}", f64::from(score) / 100.0),
        (None, None) => String::new(),
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

/// The first move of a line in standard algebraic notation; nothing if there is none.
pub fn first_san(position: &Chess, line: &[PackedMove]) -> String {
    let first = line.get(..1).unwrap_or_default();
    sans(position, first).pop().unwrap_or_default()
}

/// The moves of a line in standard algebraic notation. `moves` are played from `position`.
pub fn sans(position: &Chess, moves: &[PackedMove]) -> Vec<String> {
    let mut position = position.clone();
    moves
        .iter()
        .map(|m| {
            let m = m.unpack(&position);
            SanPlus::from_move_and_play_unchecked(&mut position, m).to_string()
        })
        .collect()
}
