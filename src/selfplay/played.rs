//! What is known about a game that was played: moves, what was thought about each, how it ended; and its text.

use shakmaty::{Chess, Color, KnownOutcome, Position};

use crate::{
    chess::{PackedMove, wdl},
    game::adjudicate::Ending,
    network::Value,
    options::ScoreType,
    pgn::{LIMIT_TAG, write::GameText},
    search::{MoveStat, Score},
};

/// What a search said about the position in which a move was played. Values are the mover's.
#[derive(Clone, Debug)]
pub struct Thought {
    /// What each root move got, best last; the root itself is not among them.
    pub moves: Vec<MoveStat>,
    /// The root: mean over all visits.
    pub root: Value,
    /// What the network alone said about the position; draw and length only where the tree was new.
    pub raw: Raw,
    /// Visits of the root.
    pub visits: u32,
    /// The most visited move, which is not always played.
    pub best: PackedMove,
    /// How sure the played move is.
    pub score: Score,
    /// Mean depth.
    pub depth: u32,
    /// Whether the search had all its nodes; fast ones of playout-cap randomisation are no samples.
    pub is_full: bool,
}

/// The network's own word.
#[derive(Clone, Copy, Debug)]
pub struct Raw {
    /// W-L.
    pub wl: f32,
    /// Draw probability and plies left.
    pub rest: Option<(f32, f32)>,
}

impl Thought {
    /// What is known about a root move.
    pub fn stat(&self, m: PackedMove) -> Option<&MoveStat> {
        self.moves.iter().find(|stat| stat.m == Some(m))
    }

    /// A move's mean value; the root's if it was never visited.
    pub fn value(&self, m: PackedMove) -> Value {
        let value = self.stat(m).and_then(|stat| stat.value);
        value.unwrap_or(self.root)
    }
}

/// Who chose a move.
#[derive(Clone, Debug)]
pub enum By {
    /// The opening.
    Book,
    /// Chance alone: no sample.
    Chance,
    /// A search.
    Search(Box<Thought>),
}

/// A move of a game.
#[derive(Clone, Debug)]
pub struct PlayedMove {
    /// The move.
    pub m: PackedMove,
    /// Who chose it.
    pub by: By,
}

/// Why a game is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// By the rules or by adjudication.
    Ended(Ending),
    /// A side saw no chance.
    Resignation,
}

impl Reason {
    /// In words, for people.
    pub fn words(self) -> &'static str {
        match self {
            Reason::Ended(ending) => ending.words(),
            Reason::Resignation => "resignation",
        }
    }

    /// Whether the game was broken off: its result is an opinion.
    pub fn is_early(self) -> bool {
        match self {
            Reason::Ended(ending) => !ending.is_by_rules(),
            Reason::Resignation => true,
        }
    }
}

/// Who plays White or Black, for the game's text.
#[derive(Clone, Copy, Debug)]
pub struct Seat<'a> {
    /// Name.
    pub name: &'a str,
    /// Nodes a move.
    pub nodes: u64,
    /// `ScLimit`.
    pub sc_limit: i32,
}

/// A game that is over.
#[derive(Clone, Debug)]
pub struct Played {
    /// Its number within the run, from 0.
    pub number: u64,
    /// The seed of its random choices.
    pub seed: u64,
    /// Which player had White: 0 or 1.
    pub white: usize,
    /// Where it began.
    pub start: Chess,
    /// All moves, those of the opening included.
    pub moves: Vec<PlayedMove>,
    /// Who won.
    pub outcome: KnownOutcome,
    /// Why.
    pub reason: Reason,
    /// The side that would have resigned, in games that are played to their end to see how often that is wrong.
    pub would_resign: Option<Color>,
    /// Visits of all its searches.
    pub nodes: u64,
}

impl Played {
    /// Whether a resignation would have been a mistake: the side did not lose in the end.
    pub fn is_false_resignation(&self) -> bool {
        let lost = |side: Color| self.outcome == KnownOutcome::Decisive { winner: !side };
        self.would_resign.is_some_and(|side| !lost(side))
    }

    /// The game as PGN. Seats are White's and Black's.
    pub fn pgn(&self, seats: [Seat<'_>; 2]) -> String {
        let result = self.outcome.as_str();
        let [white, black] = seats;
        let termination = if self.reason.is_early() {
            "adjudication"
        } else {
            "normal"
        };
        let mut tags = vec![
            ("Event", "self-play".to_owned()),
            ("Site", "?".to_owned()),
            ("Date", "????.??.??".to_owned()),
            ("Round", (self.number + 1).to_string()),
            ("White", white.name.to_owned()),
            ("Black", black.name.to_owned()),
            ("Result", result.to_owned()),
            ("WhiteNodes", white.nodes.to_string()),
            ("BlackNodes", black.nodes.to_string()),
            ("WhiteScLimit", white.sc_limit.to_string()),
            ("BlackScLimit", black.sc_limit.to_string()),
            ("Seed", self.seed.to_string()),
            ("Termination", termination.to_owned()),
            ("TerminationDetails", self.reason.words().to_owned()),
        ];
        if white.sc_limit == black.sc_limit {
            tags.push((LIMIT_TAG, white.sc_limit.to_string()));
        }
        let castles = self.start.castles();
        if castles.mode().is_chess960() && castles.any() {
            tags.push(("Variant", "Chess960".to_owned()));
        }
        let mut turn = self.start.turn();
        let mut moves = Vec::with_capacity(self.moves.len());
        for played in &self.moves {
            moves.push((played.m, comment(played, turn)));
            turn = !turn;
        }
        let game = GameText {
            tags,
            start: &self.start,
            moves: &moves,
            nags: &[],
            result,
        };
        game.text()
    }
}

/// `[%eval 0.31,12] [%nodes 800]`: the evaluation for White in pawns, the depth and the nodes.
fn comment(played: &PlayedMove, turn: Color) -> String {
    let thought = match &played.by {
        By::Book => return String::new(),
        By::Chance => return "random".to_owned(),
        By::Search(thought) => thought,
    };
    let eval = match thought.score {
        Score::Mate(moves) => format!("#{}", turn.fold_wb(moves, -moves)),
        _ => {
            let value = thought.value(played.m);
            let centipawns = wdl::score(value, 0.0, ScoreType::Centipawn);
            let pawns = f64::from(turn.fold_wb(centipawns, -centipawns)) / 100.0;
            // No "-0.00".
            format!("{:.2}", pawns + 0.0)
        }
    };
    let (depth, nodes) = (thought.depth, thought.visits);
    format!("[%eval {eval},{depth}] [%nodes {nodes}]")
}
