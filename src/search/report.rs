//! What a search reports: progress while it runs, and statistics and the outcome at its end.

use std::time::Duration;

use shakmaty::{Chess, Position};

use super::tree::node::Bounds;
use crate::{chess::PackedMove, network::Value};

/// What a line is worth, from the point of view of the side to move at the root.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// Not decided: see the line's value.
    Open,
    /// Mate in this many of the winner's moves; negative when being mated; 0 when mated already.
    Mate(i32),
    /// A tablebase win (positive) or loss, with the plies to get there as far as they are known.
    Tablebase(i32),
}

impl Score {
    /// Smaller is better: wins, the nearest first, what is not decided, losses, the farthest first.
    pub fn order(self) -> (u8, i64) {
        match self {
            Score::Mate(n @ 1..) => (0, n.into()),
            Score::Tablebase(n @ 1..) => (1, n.into()),
            Score::Open => (2, 0),
            Score::Tablebase(n) => (3, n.into()),
            Score::Mate(n) => (4, n.into()),
        }
    }

    /// The score one move earlier, for the other side, which made that move.
    pub(crate) fn before_move(self) -> Score {
        match self {
            Score::Open => Score::Open,
            // The winner's moves are counted; if the winner made the move, it is one more.
            Score::Mate(n) if n > 0 => Score::Mate(-n),
            Score::Mate(n) => Score::Mate(1 - n),
            Score::Tablebase(n) => Score::Tablebase(-n - n.signum()),
        }
    }

    /// The score one move later, for the other side.
    fn after_reply(self) -> Score {
        match self {
            Score::Open => Score::Open,
            // The winner's moves are counted; if the winner made the move, one is done.
            Score::Mate(n) if n > 0 => Score::Mate(1 - n),
            Score::Mate(n) => Score::Mate(-n),
            Score::Tablebase(n) => Score::Tablebase(-n),
        }
    }
}

/// One principal variation.
#[derive(Clone, Debug, PartialEq)]
pub struct PvLine {
    /// Proven result or not.
    pub score: Score,
    /// Mean value, from the point of view of the side to move at the root.
    pub value: Value,
    /// The moves, from the root.
    pub pv: Vec<PackedMove>,
    /// Visits of the first move; see [`PvLine::is_guess`].
    pub nodes: u64,
    /// The line's value against best replies: in the last report of a search with search-contempt, if `ShowObjective`
    /// is set.
    pub objective: Option<Objective>,
}

impl PvLine {
    /// Whether the value is only what the search assumes of a move that it has not visited: neither a proof nor
    /// tablebases give its result.
    pub fn is_guess(&self) -> bool {
        self.nodes == 0 && self.score == Score::Open && self.value.d < 1.0
    }
}

/// A line's evaluation against best replies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The line's value against best replies, from the point of view of the side to move at the root.
    pub value: Value,
    /// How much the opponent's next reply loses on average, in W-L (0..=2): the node's objective value less the mean of
    /// its replies' objective values by their frozen shares. 0 if that node is not frozen.
    pub next_loss: f32,
}

/// The progress of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Mean depth of the visited leaves, in plies.
    pub depth: u32,
    /// Depth of the deepest line.
    pub seldepth: u32,
    /// Time since the search began.
    pub elapsed: Duration,
    /// Visits of the root, those of a reused tree included.
    pub nodes: u64,
    /// Visits made by this search.
    pub playouts: u64,
    /// Memory in use, in per mille of the limit (of the cache, without a limit).
    pub hashfull: u32,
    /// Tablebase probes that hit.
    pub tb_hits: u64,
    /// Positions that the network evaluated in this search; cache hits are not counted.
    pub evaluations: u64,
    /// The best lines, best first; at most `MultiPV`.
    pub lines: Vec<PvLine>,
}

impl Report {
    /// The report for a position without legal moves: mate or stalemate.
    pub fn of_finished_game(position: &Chess) -> Report {
        let (score, value) = if position.is_check() {
            (
                Score::Mate(0),
                Value {
                    wl: -1.0,
                    ..Value::default()
                },
            )
        } else {
            (
                Score::Open,
                Value {
                    d: 1.0,
                    ..Value::default()
                },
            )
        };
        let line = PvLine {
            score,
            value,
            pv: Vec::new(),
            nodes: 0,
            objective: None,
        };
        Report {
            lines: vec![line],
            ..Report::default()
        }
    }

    /// Converts a report about the position before `reply` to one about the position after it: only the lines that
    /// begin with `reply`, without it, from the other side. `None` if there is no such line.
    pub fn after_reply(&self, reply: PackedMove) -> Option<Report> {
        let goes_on = |line: &&PvLine| line.pv.first() == Some(&reply) && line.pv.len() > 1;
        let lines: Vec<PvLine> = self
            .lines
            .iter()
            .filter(goes_on)
            .map(|line| PvLine {
                score: line.score.after_reply(),
                value: Value {
                    wl: -line.value.wl,
                    ..line.value
                },
                pv: line.pv[1..].to_vec(),
                nodes: line.nodes,
                objective: None,
            })
            .collect();
        (!lines.is_empty()).then(|| Report {
            lines,
            ..self.clone()
        })
    }
}

/// Statistics of one root move, for `VerboseMoveStats`. Values are from the point of view of the side to move at the
/// root; values that an unvisited move does not have are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveStat {
    /// The move; `None` for the root itself (the row that lc0 calls `node`).
    pub m: Option<PackedMove>,
    /// Visits.
    pub n: u32,
    /// Visits in flight.
    pub in_flight: u32,
    /// Prior, 0..=1, as the search used it.
    pub p: f32,
    /// Prior without the Dirichlet noise of the root.
    pub p_without_noise: f32,
    /// Mean value of the visits, or the proven one, which a move that look-ahead has proven (`CertaintyProp`) has
    /// without visits. Tablebases that cover the root prove the results of all its moves.
    pub value: Option<Value>,
    /// Q as selection uses it (draw score included; first-play urgency if unvisited).
    pub q: f32,
    /// The exploration term.
    pub u: f32,
    /// The score that selection compares, Q + U. It is not adjusted when WDL contempt is removed from Q.
    pub s: f32,
    /// W-L of the position after the move by itself, without a search: the network's, rescaled where there is WDL
    /// contempt, which is not removed from it.
    pub v: Option<f32>,
    /// What is certain about the result, for the side to move at the root.
    pub bounds: Bounds,
    /// Whether the position after the move is frozen by search-contempt.
    pub frozen: bool,
}

impl MoveStat {
    /// The result for the side to move at the root, if it is certain.
    pub fn proven(&self) -> Option<Proven> {
        match self.bounds.result()? {
            1 => Some(Proven::Win),
            0 => Some(Proven::Draw),
            _ => Some(Proven::Loss),
        }
    }
}

/// A certain result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proven {
    /// Won.
    Win,
    /// Drawn.
    Draw,
    /// Lost.
    Loss,
}

/// Receives the reports of a search. It is called on one of the search threads, which waits for it.
pub trait Reporter: Send {
    /// The progress of the search, during the search and at its end.
    fn report(&mut self, report: &Report);
    /// Statistics of all root moves, least interesting first, the root itself last.
    fn move_stats(&mut self, _stats: &[MoveStat]) {}
    /// A message for the user.
    fn note(&mut self, _text: &str) {}
    /// A message that the system refused threads, which may be so in many searches in a row.
    fn note_missing_threads(&mut self, text: &str) {
        self.note(text);
    }
    /// A message that the tree has reached its memory limit, which may be so in many searches in a row.
    fn note_memory_limit(&mut self, text: &str) {
        self.note(text);
    }
    /// Minimum time between two checks for something new to report.
    fn interval(&self) -> Duration {
        REPORT_INTERVAL
    }
}

/// Default of [`Reporter::interval`].
pub const REPORT_INTERVAL: Duration = Duration::from_millis(20);

/// Ignores all reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn report(&mut self, _: &Report) {}
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The move to play; `None` if the game is over.
    pub best: Option<PackedMove>,
    /// The expected reply.
    pub ponder: Option<PackedMove>,
    /// Whether another move, none of those to avoid, is nearly as good as the best one.
    pub has_alternative: bool,
    /// The final report (also sent to the reporter).
    pub report: Report,
}

impl Outcome {
    /// The outcome that plays the first line of the report.
    pub(super) fn of(report: Report) -> Outcome {
        let pv = report.lines.first().map_or(&[][..], |line| &line.pv);
        Outcome {
            best: pv.first().copied(),
            ponder: pv.get(1).copied(),
            has_alternative: false,
            report,
        }
    }

    /// The outcome of a position without legal moves.
    pub(super) fn without_move(report: Report) -> Outcome {
        Outcome {
            best: None,
            ponder: None,
            has_alternative: false,
            report,
        }
    }
}
