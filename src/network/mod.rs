//! Policy/value networks: what goes in, what comes out, and who computes it.
//!
//! A search fills a [`Batch`] with positions and hands it to an [`Evaluator`]; afterwards the batch holds, for each
//! position, a probability per legal move, win/draw/loss and the expected length of the game. Backends
//! (ONNX Runtime, rten, the hash evaluator) and decorators (the cache, the opponent's network) share the one trait.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod backend;
pub mod backend_options;
pub mod cache;
pub mod commands;
pub mod encoder;
pub mod hash;
pub mod key;
pub mod measure;
pub mod multi;
pub mod nvidia;
pub mod onnx;
pub mod opponent;
pub mod policy_map;
pub mod prior;
pub mod registry;
pub mod rten;
pub mod runtime;
pub mod targets;
pub mod weights;

use thiserror::Error;

use crate::chess::{PackedMove, Ply};

/// Number of input planes of an lc0 network.
pub const PLANES: usize = 112;

/// What a network says about one position, from the point of view of its side to move.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Value {
    /// Probability of a win minus that of a loss, -1..=1.
    pub wl: f32,
    /// Probability of a draw, 0..=1; 0 for networks that do not tell.
    pub d: f32,
    /// Expected number of plies until the game ends; 0 for networks that do not tell.
    pub m: f32,
}

/// The input of one position, still packed: 112 bit masks and the one plane that is not binary.
///
/// Bit 0 is a1, bit 63 is h8, seen from the side to move (ranks flipped for Black), after the board
/// transform of the canonical formats.
#[derive(Clone, Debug, PartialEq)]
pub struct Planes {
    /// Squares on which each plane is set.
    pub masks: [u64; PLANES],
    /// The value that the set squares of the rule-50 plane (109) hold; 1 on all other planes.
    pub rule50: f32,
    /// Whether Black is to move, so that moves map to policy indices with ranks flipped.
    pub black_to_move: bool,
    /// The board transform of canonical formats: bit 0 flip files, bit 1 mirror ranks, bit 2 transpose.
    pub transform: u8,
}

impl Planes {
    /// Planes on which nothing is set, White to move.
    pub fn empty() -> Planes {
        Planes {
            masks: [0; PLANES],
            rule50: 0.0,
            black_to_move: false,
            transform: 0,
        }
    }
}

/// Positions to evaluate together, and afterwards their evaluations. Reused from batch to batch.
#[derive(Default)]
pub struct Batch {
    items: Vec<Item>,
    planes: Vec<Planes>,
    moves: Vec<PackedMove>,
    policy: Vec<f32>,
    /// What each of two networks is asked, if there are two.
    parts: Option<Box<opponent::Parts>>,
}

struct Item {
    key: u64,
    /// Where this position's moves begin in `moves` and `policy`.
    moves_start: u32,
    value: Value,
}

impl Batch {
    /// Forgets all positions, keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.planes.clear();
        self.moves.clear();
        self.policy.clear();
        if let Some(parts) = &mut self.parts {
            parts.clear();
        }
    }

    /// Adds a position: the key of everything a network sees of it (see [`Evaluator::key`]), its input planes (when the
    /// evaluator asks for any, see [`Evaluator::encode`]) and its legal moves. Returns its index. A search does not know
    /// these: it lets the evaluator do it ([`Evaluator::queue`]).
    pub fn push(&mut self, key: u64, planes: Option<Planes>, moves: &[PackedMove]) -> usize {
        self.items.push(Item {
            key,
            moves_start: self.moves.len() as u32,
            value: Value::default(),
        });
        self.planes.extend(planes);
        self.moves.extend_from_slice(moves);
        self.policy.resize(self.moves.len(), 0.0);
        self.items.len() - 1
    }

    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The key of position `index`.
    pub fn key(&self, index: usize) -> u64 {
        self.items[index].key
    }

    /// The planes of all positions, in order; empty if the evaluator needs none.
    pub fn planes(&self) -> &[Planes] {
        &self.planes
    }

    /// The legal moves of position `index`.
    pub fn moves(&self, index: usize) -> &[PackedMove] {
        &self.moves[self.range(index)]
    }

    /// The probabilities of those moves (they sum to 1), once evaluated.
    pub fn policy(&self, index: usize) -> &[f32] {
        &self.policy[self.range(index)]
    }

    /// The value of position `index`, once evaluated.
    pub fn value(&self, index: usize) -> Value {
        self.items[index].value
    }

    /// For evaluators: the moves of position `index` beside the place for their probabilities.
    pub fn policy_mut(&mut self, index: usize) -> (&[PackedMove], &mut [f32]) {
        let range = self.range(index);
        (&self.moves[range.clone()], &mut self.policy[range])
    }

    /// For evaluators: sets the value of position `index`.
    pub fn set_value(&mut self, index: usize, value: Value) {
        self.items[index].value = value;
    }

    fn range(&self, index: usize) -> std::ops::Range<usize> {
        let end = self
            .items
            .get(index + 1)
            .map_or(self.moves.len(), |next| next.moves_start as usize);
        self.items[index].moves_start as usize..end
    }
}

/// Why a batch could not be evaluated. The message names the file, tensor or device and the next step.
#[derive(Debug, Error)]
pub enum EvaluateError {
    /// The backend's library reported an error.
    #[error("{backend}: evaluating a batch of {batch} failed: {message}")]
    Backend {
        /// The backend's name, as in the `Backend` option.
        backend: &'static str,
        /// Positions in the batch.
        batch: usize,
        /// What the library said.
        message: String,
    },
    /// The network produced NaN or infinity.
    #[error("{network} is not usable: its output {output} is not a finite number")]
    NotFinite {
        /// The network's file or name.
        network: String,
        /// The tensor's name.
        output: String,
    },
}

/// What a backend would like the search to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Search threads that keep the device busy.
    pub threads: usize,
    /// Positions per batch.
    pub minibatch: usize,
}

/// Something that evaluates positions.
pub trait Evaluator: Send + Sync {
    /// Evaluates all positions of the batch, in place. Called from several threads at once.
    ///
    /// # Errors
    /// When the backend fails or the network's output is not finite; the batch then holds nothing useful.
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError>;

    /// The evaluator whose view of positions this one shares, for those that stand in front of others (a cache, say):
    /// what they do not say themselves is then said by that one.
    fn inner(&self) -> Option<&dyn Evaluator> {
        None
    }

    /// Runs once whatever is slow the first time (a GPU's kernels for each batch size), so that a search need not wait
    /// for it later. Evaluating goes on meanwhile. `go_on` is asked before each run: it may wait, or end it.
    ///
    /// # Errors
    /// When the backend fails, as it would in a search.
    fn warm_up(&self, go_on: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        self.inner().map_or(Ok(()), |inner| inner.warm_up(go_on))
    }

    /// Looks the current (last) position of a line of play up without evaluating: on a hit, its value, and its moves'
    /// probabilities are written to `policy` (in the order in which `moves` were given when it was evaluated, which is
    /// move generation order). Without one, what `policy` holds means nothing.
    fn probe(&self, _line: &[Ply], _policy: &mut [f32]) -> Option<Value> {
        None
    }

    /// Adds the current position of a line to a batch that this evaluator will be given; returns its index there.
    fn queue(&self, line: &[Ply], moves: &[PackedMove], batch: &mut Batch) -> usize {
        batch.push(self.key(line), self.encode(line), moves)
    }

    /// Turns the current position of a line into input planes, or `None` if this evaluator needs none.
    fn encode(&self, line: &[Ply]) -> Option<Planes> {
        self.inner()?.encode(line)
    }

    /// The key under which the current position of a line is evaluated and cached: it must differ whenever what the
    /// network sees differs.
    fn key(&self, line: &[Ply]) -> u64 {
        match self.inner() {
            Some(inner) => inner.key(line),
            None => line.last().map_or(0, |ply| ply.key),
        }
    }

    /// Whether [`Value::m`] means anything.
    fn predicts_moves_left(&self) -> bool {
        self.inner().is_some_and(Evaluator::predicts_moves_left)
    }

    /// The threads and batch size this backend works best with.
    fn advice(&self) -> Advice;

    /// One line for people: backend, network, device.
    fn describe(&self) -> String;

    /// Share of the cache in use, in per mille; 0 without a cache.
    fn cache_permille(&self) -> u32 {
        0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use shakmaty::{CastlingMode, Chess, fen::Fen, uci::UciMove};

    use crate::chess::History;

    /// The position of a FEN.
    pub(crate) fn position(fen: &str) -> Chess {
        let fen: Fen = fen.parse().unwrap();
        fen.into_position(CastlingMode::Chess960).unwrap()
    }

    /// The game that starts at `fen` with these moves in UCI.
    pub(crate) fn game(fen: &str, moves: &str) -> History {
        let mut game = History::new(position(fen));
        for text in moves.split_whitespace() {
            let uci: UciMove = text.parse().unwrap();
            let m = uci.to_move(game.position()).unwrap();
            game.push_move(m);
        }
        game
    }

    /// A row of the reference outputs: the game, and the rest of the row.
    pub(crate) fn reference(file: &str) -> Option<Vec<(History, serde_json::Value)>> {
        let path = crate::shared::shared(&format!("reference/{file}"))?;
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let moves = row["moves"].as_array().unwrap();
            let moves: Vec<_> = moves.iter().map(|m| m.as_str().unwrap()).collect();
            (game(row["fen"].as_str().unwrap(), &moves.join(" ")), row)
        });
        Some(rows.collect())
    }
}
