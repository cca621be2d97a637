//! A played game: its moves, the search result for each of them, its end, and its PGN.

use shakmaty::{Chess, Color, KnownOutcome, Position};

use crate::{
    chess::{PackedMove, wdl},
    game::adjudicate::Ending,
    network::Value,
    pgn::{
        LIMIT_TAG,
        write::{GameText, white_eval, white_wdl},
    },
    search::{MoveStat, Score},
};

/// The result of the search for a move. Values are from the mover's point of view.
#[derive(Clone, Debug)]
pub struct SearchResult {
    /// Statistics of each root move, best last; the root itself is not included.
    pub moves: Vec<MoveStat>,
    /// The root: mean over all visits or, if its result is proven, the result.
    pub root: Value,
    /// The network's output for the position; draw probability and length only if the tree was new.
    pub raw: RawOutput,
    /// Visits of the root.
    pub visits: u32,
    /// The move that the search prefers: the one that is played without temperature and `OpeningVariety`. With most
    /// criteria (`RootChoice`) it is not always the most visited one.
    pub best: PackedMove,
    /// The score of the played move, for the mover.
    pub score: Score,
    /// Mean depth in plies.
    pub depth: u32,
    /// Whether the search had all its nodes; fast searches of playout-cap randomisation give no samples.
    pub is_full: bool,
}

/// The player, 0 or 1, of a side in a game in which the player `white` has White.
pub fn player_of(white: usize, side: Color) -> usize {
    side.fold_wb(white, 1 - white)
}

/// The network's output for a position.
#[derive(Clone, Copy, Debug)]
pub struct RawOutput {
    /// W-L for the side to move.
    pub wl: f32,
    /// Draw probability and plies left.
    pub rest: Option<(f32, f32)>,
}

impl SearchResult {
    /// The statistics of a root move.
    pub fn stat(&self, m: PackedMove) -> Option<&MoveStat> {
        self.moves.iter().find(|stat| stat.m == Some(m))
    }

    /// The root's moves and their visits, to learn from. Where none has any, because the result was certain before the
    /// first visit (`CertaintyProp`) or the search had one node, the best move counts as visited once.
    pub fn learned_visits(&self) -> impl Iterator<Item = (&MoveStat, PackedMove, u32)> {
        let are_unvisited = self.moves.iter().all(|stat| stat.n == 0);
        self.moves.iter().filter_map(move |stat| {
            let m = stat.m?;
            let n = if are_unvisited {
                u32::from(m == self.best)
            } else {
                stat.n
            };
            Some((stat, m, n))
        })
    }

    /// A move's mean value, or its proven result; the root's if neither is known.
    pub fn value(&self, m: PackedMove) -> Value {
        let value = self.stat(m).and_then(|stat| stat.value);
        value.unwrap_or(self.root)
    }
}

/// How a move was chosen.
#[derive(Clone, Debug)]
pub enum MoveSource {
    /// The opening.
    Book,
    /// At random: no sample.
    Random,
    /// A search.
    Search(Box<SearchResult>),
}

/// A move of a game.
#[derive(Clone, Debug)]
pub struct PlayedMove {
    /// The move.
    pub m: PackedMove,
    /// How it was chosen.
    pub source: MoveSource,
}

/// Why a game is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// By the rules or by adjudication.
    Ended(Ending),
    /// A side resigned.
    Resignation,
}

impl Reason {
    /// The reason as text.
    pub fn text(self) -> &'static str {
        match self {
            Reason::Ended(ending) => ending.text(),
            Reason::Resignation => "resignation",
        }
    }

    /// The value of PGN's tag `Termination`.
    pub fn tag(self) -> &'static str {
        match self {
            Reason::Ended(ending) if !ending.is_by_rules() => "adjudication",
            Reason::Ended(_) | Reason::Resignation => "normal",
        }
    }

    /// Whether the game ended early, so that its result is an estimate.
    pub fn is_early(self) -> bool {
        match self {
            Reason::Ended(ending) => !ending.is_by_rules(),
            Reason::Resignation => true,
        }
    }
}

/// The player of White or Black, for the PGN.
#[derive(Clone, Copy, Debug)]
pub struct Seat<'a> {
    /// Name.
    pub name: &'a str,
    /// Nodes per move.
    pub nodes: u64,
    /// `ScLimit`.
    pub sc_limit: i32,
}

/// A finished game.
#[derive(Clone, Debug)]
pub struct PlayedGame {
    /// Its number within the run, from 0.
    pub number: u64,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The player with White: 0 or 1.
    pub white: usize,
    /// The start position.
    pub start: Chess,
    /// All moves, including those of the opening.
    pub moves: Vec<PlayedMove>,
    /// The result.
    pub outcome: KnownOutcome,
    /// The reason for the end.
    pub reason: Reason,
    /// The side that would have resigned, in a game that is played to the end to measure how often that is wrong.
    pub would_resign: Option<Color>,
    /// Visits of all its searches.
    pub nodes: u64,
}

impl PlayedGame {
    /// Whether a resignation would have been a mistake: the side did not lose in the end.
    pub fn is_false_resignation(&self) -> bool {
        let lost = |side: Color| self.outcome == KnownOutcome::Decisive { winner: !side };
        self.would_resign.is_some_and(|side| !lost(side))
    }

    /// Plies for which a game that ended early would have gone on, as its last search expected; 0 for others.
    pub fn expected_rest(&self) -> f32 {
        let last = self.moves.last().filter(|_| self.reason.is_early());
        match last.map(|last| (&last.source, last.m)) {
            Some((MoveSource::Search(search_result), m)) => {
                (search_result.value(m).m - 1.0).max(0.0)
            }
            _ => 0.0,
        }
    }

    /// The game as PGN. Seats are White's and Black's.
    pub fn pgn(&self, seats: [Seat<'_>; 2]) -> String {
        let result = self.outcome.as_str();
        let [white, black] = seats;
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
            ("Termination", self.reason.tag().to_owned()),
            ("TerminationDetails", self.reason.text().to_owned()),
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

/// `[%eval 0.31,12] [%wdl 402,420,178] [%nodes 800]`: the evaluation for White in pawns and the depth, White's wins,
/// draws and losses in per mille, and the nodes.
fn comment(played: &PlayedMove, turn: Color) -> String {
    let search_result = match &played.source {
        MoveSource::Book => return String::new(),
        MoveSource::Random => return "random".to_owned(),
        MoveSource::Search(search_result) => search_result,
    };
    let value = search_result.value(played.m);
    let mate = match search_result.score {
        Score::Mate(moves) => Some(moves),
        _ => None,
    };
    let eval = white_eval(value.wl, mate, turn);
    let wdl = white_wdl(wdl::per_mille(value), turn);
    let (depth, nodes) = (search_result.depth, search_result.visits);
    format!("[%eval {eval},{depth}] [%wdl {wdl}] [%nodes {nodes}]")
}
