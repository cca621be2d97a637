//! Shared by the tests: a tree with an evaluator, a session with the real program, and machines with problems.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses its part of this"
)]

pub mod generated;
pub mod machine;
pub mod ordered;
pub mod recorded;
pub mod script;
pub mod session;
mod shared;

use std::sync::Arc;

pub use shared::{shared, skipped};

use parking_lot::Mutex;
use scorn::syzygy::Tables;
use scorn::{
    chess::{History, PackedMove},
    network::{
        Evaluator,
        compose::cached::NetworkSettings,
        hash::HashEvaluator,
        load::{LoadError, NetworkConfig, load_backend},
        opponent::Role,
    },
    options::Options,
    search::{self, Job, Limits, Outcome, Silent, StopSignal, SystemClock, Tree},
};
use shakmaty::{CastlingMode, Chess, Color, Position, fen::Fen, uci::UciMove};

/// The evaluator that these options configure: the network's backend with its settings.
pub fn evaluator(options: &Options) -> Result<Arc<dyn Evaluator>, LoadError> {
    let backend = load_backend(&NetworkConfig::from(options), &|_| {})?;
    Ok(NetworkSettings::of(options, Role::Main).over(backend))
}

/// A tree, an evaluator and options.
pub struct Setup {
    pub tree: Mutex<Tree>,
    pub evaluator: Arc<dyn Evaluator>,
    pub options: Options,
    /// Endgame tablebases.
    pub tables: Option<Arc<Tables>>,
    /// The contempt side; by default the side to move.
    pub contempt_side: Option<Color>,
}

impl Setup {
    pub fn new(options: Options) -> Setup {
        Setup {
            tree: Mutex::default(),
            evaluator: Arc::new(HashEvaluator),
            options,
            contempt_side: None,
            tables: None,
        }
    }

    pub fn search(&self, history: &History, nodes: u64) -> Outcome {
        self.search_with(
            history,
            Limits {
                nodes: Some(nodes),
                ..Limits::default()
            },
        )
    }

    pub fn search_with(&self, history: &History, limits: Limits) -> Outcome {
        self.run(history, Vec::new(), limits)
    }

    pub fn search_moves(
        &self,
        history: &History,
        root_moves: Vec<PackedMove>,
        nodes: u64,
    ) -> Outcome {
        self.run(
            history,
            root_moves,
            Limits {
                nodes: Some(nodes),
                ..Limits::default()
            },
        )
    }

    fn run(&self, history: &History, root_moves: Vec<PackedMove>, limits: Limits) -> Outcome {
        let options = Arc::new(self.options.clone());
        let job = Job {
            root_moves,
            contempt_side: self.contempt_side.or(Some(history.position().turn())),
            tables: self.tables.clone(),
            ..Job::new(history.clone(), limits, options.search())
        };
        let clock = SystemClock::default();
        let stop = StopSignal::default();
        search::run(
            &mut self.tree.lock(),
            &*self.evaluator,
            &job,
            &stop,
            &clock,
            &mut Silent,
        )
        .unwrap()
    }

    /// Visits of every node, in a fixed order.
    pub fn visits(&self) -> Vec<u32> {
        let mut visits = Vec::new();
        self.tree.lock().for_each(|node, _| visits.push(node.n));
        visits
    }
}

/// A position from a FEN, or `startpos`.
pub fn position(fen: &str) -> History {
    if fen == "startpos" {
        return History::default();
    }
    let position: Chess = fen
        .parse::<Fen>()
        .unwrap()
        .into_position(CastlingMode::Chess960)
        .unwrap();
    History::new(position)
}

/// A move as UCI text.
pub fn uci(history: &History, m: PackedMove) -> String {
    m.to_uci(history.position(), CastlingMode::Standard)
        .to_string()
}

/// The game from a FEN, or `startpos`, with these moves in UCI.
pub fn game<'a>(fen: &str, moves: impl IntoIterator<Item = &'a str>) -> History {
    let mut game = position(fen);
    for text in moves {
        let m: UciMove = text.parse().unwrap();
        game.push_move(m.to_move(game.position()).unwrap());
    }
    game
}

/// The game of a row of lc0's records.
pub fn recorded_game(row: &serde_json::Value) -> History {
    let moves = row["moves"].as_array().unwrap();
    let moves = moves.iter().map(|m| m.as_str().unwrap());
    game(row["fen"].as_str().unwrap(), moves)
}

/// How castling is written in such a row.
pub fn recorded_mode(row: &serde_json::Value) -> CastlingMode {
    CastlingMode::from_chess960(row["chess960"].as_bool() == Some(true))
}
