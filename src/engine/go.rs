//! The command `go`, and the search limits that follow from it.

use std::time::Duration;

use shakmaty::{Color, Position};

use super::time_manager::{self, ClockState};
use crate::{chess::History, options::Options, search::Limits};

/// A `go` command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Go {
    /// White's clock.
    pub wtime: Option<Duration>,
    /// Black's clock.
    pub btime: Option<Duration>,
    /// White's increment.
    pub winc: Duration,
    /// Black's increment.
    pub binc: Duration,
    /// Moves until the next time control.
    pub moves_to_go: Option<u32>,
    /// Depth limit.
    pub depth: Option<u32>,
    /// Node limit.
    pub nodes: Option<u64>,
    /// A mate in this many moves.
    pub mate: Option<u32>,
    /// Exact time.
    pub movetime: Option<Duration>,
    /// Until `stop`.
    pub infinite: bool,
    /// Search on the opponent's time: the last move of the game is only expected.
    pub ponder: bool,
    /// The moves to consider; empty means all.
    pub search_moves: Vec<String>,
    /// Not a search: count the positions this many plies ahead.
    pub perft: Option<u32>,
    /// Whether there are words that need a limit and no valid limit, so that one node is searched.
    pub lacks_limit: bool,
    /// Words that have no effect.
    pub ignored_words: Vec<IgnoredWord>,
    /// When the clock began to run, if that was before the search could begin (`ponderhit`); by the engine's clock.
    pub received: Option<Duration>,
}

/// A word of `go` that has no effect, with what belongs to it, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredWord {
    /// There is no such word.
    Unknown(String),
    /// A number must follow it.
    NoNumber(String),
    /// What follows it is not a number, or is a negative one where it must not be.
    BadNumber(String),
    /// `perft` with too many plies.
    TooDeep {
        /// The plies asked for.
        plies: u32,
        /// The most that are counted.
        most: u32,
    },
}

/// A search waits at most this fraction of the clock for a network.
const WAITING_FRACTION: u32 = 20;

impl Go {
    /// The remaining time of a side, if known, and its increment.
    pub(super) fn clock(&self, side: Color) -> (Option<Duration>, Duration) {
        match side {
            Color::White => (self.wtime, self.winc),
            Color::Black => (self.btime, self.binc),
        }
    }

    /// Whether the game is played with a clock.
    pub(super) fn has_clock(&self) -> bool {
        self.wtime.or(self.btime).is_some()
    }

    /// Whether the search continues until the GUI ends it.
    pub(super) fn is_ended_by_gui(&self) -> bool {
        self.infinite || self.ponder
    }

    /// Whether the words say when the search ends, or that only the GUI ends it.
    pub fn has_limit(&self) -> bool {
        let has_time = self.wtime.or(self.btime).or(self.movetime).is_some();
        let has_count = self.nodes.is_some()
            || [self.depth, self.mate, self.perft]
                .iter()
                .any(Option::is_some);
        has_time || has_count || self.is_ended_by_gui()
    }

    /// The limits of a search; `by_clock` are those of the time manager (see [`Go::clock_state`]).
    pub fn limits(&self, options: &Options, by_clock: Option<Limits>) -> Limits {
        let mut limits = by_clock.unwrap_or_default();
        if let Some(exact) = self.movetime.filter(|_| !self.is_ended_by_gui()) {
            let overhead = Duration::from_millis(options.move_overhead_ms);
            let exact = time_manager::fixed(exact, overhead);
            limits.movetime = Some(limits.movetime.map_or(exact, |hard| hard.min(exact)));
        }
        limits.depth = self.depth;
        limits.mate = self.mate;
        self.limit_nodes(&mut limits, options);
        limits.infinite = self.is_ended_by_gui() || limits == Limits::default();
        limits
    }

    /// Sets the limits of nodes anew, for these options.
    pub(super) fn limit_nodes(&self, limits: &mut Limits, options: &Options) {
        // The limit holds for pondering, too: the tree must not be larger than that of a move.
        let nodes = if self.infinite {
            self.nodes
        } else {
            options.limited(self.nodes)
        };
        // A mate in 0 moves cannot be searched for: one node gives a move.
        let at_once = self.mate.filter(|&moves| moves == 0).map(|_| 1);
        let nodes = nodes.into_iter().chain(at_once).min();
        limits.set_nodes(nodes, options.nodes_as_playouts);
    }

    /// Maximum wait for a network: a fraction of the time available, or `None` (no limit) without a time limit.
    pub fn patience(&self, history: &History) -> Option<Duration> {
        if self.is_ended_by_gui() {
            return None;
        }
        // As in `clock_state`: nothing is left where only the other side has a clock.
        let (left, _) = self.clock(history.position().turn());
        let clock = self
            .has_clock()
            .then(|| left.unwrap_or_default() / WAITING_FRACTION);
        let movetime = self.movetime.map(|time| time / 2);
        clock.into_iter().chain(movetime).min()
    }

    /// The clock of the side to move at the end of `history`; `None` for searches without a clock. Measurements of the
    /// game so far (lag, known nodes) are not included.
    pub fn clock_state(&self, options: &Options, history: &History) -> Option<ClockState> {
        if self.is_ended_by_gui() || !self.has_clock() {
            return None;
        }
        let position = history.position();
        let (remaining, increment) = self.clock(position.turn());
        Some(ClockState {
            // If only the other side has a clock, something is wrong, and a quick move is the safe choice.
            remaining: remaining.unwrap_or_default(),
            increment,
            moves_to_go: self.moves_to_go,
            ply: (u32::from(position.fullmoves()) - 1)
                .saturating_mul(2)
                .saturating_add(u32::from(position.turn().is_black())),
            overhead: Duration::from_millis(options.move_overhead_ms),
            lag: None,
            slowmover: options.slowmover,
            ponder: options.ponder,
            known_nodes: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::setup::position_from_fen;

    #[test]
    fn the_limit_of_nodes_holds_for_pondering_too_and_not_for_analysis() {
        let options = Options {
            node_limit: 16,
            ..Options::default()
        };
        let limits = |go: &Go| go.limits(&options, None);
        let ponder = Go {
            ponder: true,
            ..Go::default()
        };
        assert_eq!(limits(&Go::default()).nodes, Some(16));
        assert_eq!(limits(&ponder).nodes, Some(16));
        assert!(limits(&ponder).infinite && !limits(&Go::default()).infinite);
        let fewer = Go {
            nodes: Some(4),
            ..ponder
        };
        assert_eq!(limits(&fewer).nodes, Some(4));
        let analysis = Go {
            infinite: true,
            ..Go::default()
        };
        assert_eq!(limits(&analysis).nodes, None);
    }

    #[test]
    fn plies_are_counted_by_the_moves_of_both_sides() {
        let go = Go {
            wtime: Some(Duration::from_secs(60)),
            btime: Some(Duration::from_secs(60)),
            ..Go::default()
        };
        let ply = |fen: &str| {
            let history = History::new(position_from_fen(fen).unwrap());
            go.clock_state(&Options::default(), &history).unwrap().ply
        };
        for (fields, plies) in [
            ("w - - 0 1", 0),
            ("b - - 0 1", 1),
            ("w - - 0 30", 58),
            ("b - - 0 30", 59),
        ] {
            assert_eq!(ply(&format!("4k3/8/8/8/8/8/4P3/4K3 {fields}")), plies);
        }
    }
}
