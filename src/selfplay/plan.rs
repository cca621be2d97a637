//! What all games of a run have in common: the two players, the start positions, and the rules.

use std::sync::Arc;

use shakmaty::Color;

use crate::{
    game::{
        adjudicate::Rules,
        odds::{self, OddsError},
        openings::{Book, Opening},
    },
    hashing::mix,
    network::{Evaluator, opponent::Networks},
    options::Options,
    player::contempt_side,
    search::SearchParams,
    syzygy::Tables,
};

/// One of the two players.
#[derive(Clone)]
pub struct Contestant {
    /// Name in the PGN.
    pub name: String,
    /// Search options.
    pub options: Arc<Options>,
    /// Options of fast searches (see [`PlayoutCap`]): without noise.
    pub fast_options: Arc<Options>,
    /// Nodes per move.
    pub nodes: u64,
    /// Endgame tables.
    pub tables: Option<Arc<Tables>>,
    networks: Networks,
    params: Arc<SearchParams>,
    /// Indices of the plan's evaluators that it uses with White and with Black.
    evaluators: [usize; 2],
}

impl Contestant {
    /// A player with these options. Unless `MinibatchSize` is set to another number, a tree adds one position at a
    /// time to a batch: other games fill it, and no visit is selected before the previous one is backed up.
    pub fn new(name: &str, options: Options, nodes: u64, networks: Networks) -> Contestant {
        // The colour makes no difference: with either one the same networks are used.
        let evaluator = networks.against(&options, contempt_side(&options, Color::White));
        let params = SearchParams::for_shared_batches(&options.search(), &*evaluator);
        let fast_options = Arc::new(Options {
            noise_epsilon: 0.0,
            ..options.clone()
        });
        Contestant {
            name: name.to_owned(),
            options: Arc::new(options),
            fast_options,
            nodes,
            tables: None,
            networks,
            params: Arc::new(params),
            evaluators: [0, 0],
        }
    }

    /// The networks that it searches with.
    pub fn networks(&self) -> &Networks {
        &self.networks
    }

    /// Sets another search-contempt limit and number of nodes.
    pub fn set_limits(&mut self, sc_limit: i32, nodes: u64) {
        for options in [&mut self.options, &mut self.fast_options] {
            Arc::make_mut(options).sc_limit = sc_limit;
        }
        self.nodes = nodes;
    }

    /// The index of the plan's evaluator that it uses for `side`.
    pub fn evaluator(&self, side: Color) -> usize {
        self.evaluators[side.fold_wb(0, 1)]
    }

    /// The search parameters.
    pub fn params(&self) -> Arc<SearchParams> {
        Arc::clone(&self.params)
    }
}

/// Resignation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resign {
    /// A side resigns when its expected score is below this, 0..=1.
    pub below: f32,
    /// The share of games that are played to the end nevertheless, to measure how often resigning is wrong, 0..=1.
    pub playthrough: f64,
}

/// Random moves at the start of a game.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomPlies {
    /// Plies after the opening in which moves may be random.
    pub plies: usize,
    /// Probability of a random move in each of these plies.
    pub share: f64,
}

/// Playout-cap randomisation (D. J. Wu, "Accelerating Self-Play Learning in Go", 2019): most searches are fast,
/// without noise, and give no samples, so that there are more games for the same number of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlayoutCap {
    /// Nodes of a fast search.
    pub nodes: u64,
    /// The share of searches with all nodes, 0..=1.
    pub full: f64,
}

/// The rules of a run's games.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Early ends of games.
    pub rules: Rules,
    /// Resignation, if it is on.
    pub resign: Option<Resign>,
    /// Random moves at the start, if they are on.
    pub random: Option<RandomPlies>,
    /// Fast searches, if they are on.
    pub cap: Option<PlayoutCap>,
    /// Whether a side keeps its tree for its next move.
    pub reuse_tree: bool,
}

/// The colour of the first player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// Always this one.
    Fixed(Color),
    /// White and Black alternately: every opening is played twice.
    Both,
}

/// The start positions of games.
#[derive(Clone, Debug)]
pub enum Starts {
    /// Openings, in the order of the games; never empty.
    Book(Vec<Opening>),
    /// The first player gives odds as White and as Black.
    Odds(Box<[Opening; 2]>),
}

impl Starts {
    /// The openings of a book, in the order given by the seed, or in the file's without one.
    pub fn book(book: &Book, seed: Option<u64>) -> Starts {
        Starts::Book(book.ordered(seed, book.len()).cloned().collect())
    }

    /// Odds positions (see [`odds::start`]).
    ///
    /// # Errors
    /// When the text is not a valid specification of odds.
    pub fn odds(text: &str) -> Result<Starts, OddsError> {
        let starts = [
            odds::start(text, Color::White)?,
            odds::start(text, Color::Black)?,
        ];
        Ok(Starts::Odds(Box::new(starts)))
    }

    /// All openings.
    pub fn all(&self) -> &[Opening] {
        match self {
            Starts::Book(openings) => openings,
            Starts::Odds(starts) => &**starts,
        }
    }
}

/// Everything that determines the games of a run.
#[derive(Clone)]
pub struct Plan {
    /// The first and the second player.
    pub players: [Contestant; 2],
    /// The evaluators of the players; players of equal networks, and of equal options if
    /// the opponent is modelled, share them.
    pub evaluators: Vec<Arc<dyn Evaluator>>,
    /// The first player's colour.
    pub colors: Colors,
    /// The start positions.
    pub starts: Starts,
    /// The rules.
    pub terms: Terms,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Plan {
    /// The plan for two players.
    pub fn new(
        mut players: [Contestant; 2],
        colors: Colors,
        starts: Starts,
        terms: Terms,
        seed: u64,
    ) -> Plan {
        let mut evaluators: Vec<Arc<dyn Evaluator>> = Vec::new();
        // The player and the modelled side of each. Evaluators of equal ones share their batches.
        let mut made: Vec<(Contestant, Option<Color>)> = Vec::new();
        for player in &mut players {
            for side in Color::ALL {
                let side_of = contempt_side(&player.options, side);
                let modelled = side_of.filter(|_| player.networks.opponent.is_some());
                let is_same = |(other, side): &(Contestant, Option<Color>)| {
                    let same_options = modelled.is_none() || player.options == other.options;
                    *side == modelled && same_options && player.networks.same_as(&other.networks)
                };
                let known = made.iter().position(is_same);
                player.evaluators[side.fold_wb(0, 1)] = known.unwrap_or(made.len());
                if known.is_none() {
                    evaluators.push(player.networks.against(&player.options, side_of));
                    made.push((player.clone(), modelled));
                }
            }
        }
        Plan {
            players,
            evaluators,
            colors,
            starts,
            terms,
            seed,
        }
    }

    /// The index of the player with White in a game.
    pub fn white(&self, number: u64) -> usize {
        let first = match self.colors {
            Colors::Fixed(color) => color,
            Colors::Both => Color::from_white(number.is_multiple_of(2)),
        };
        first.fold_wb(0, 1)
    }

    /// The opening of a game.
    pub fn opening(&self, number: u64) -> &Opening {
        let index = match (&self.starts, self.colors) {
            (Starts::Odds(_), _) => self.white(number),
            (Starts::Book(openings), Colors::Fixed(_)) => (number % openings.len() as u64) as usize,
            (Starts::Book(openings), Colors::Both) => (number / 2 % openings.len() as u64) as usize,
        };
        &self.starts.all()[index]
    }

    /// The tablebases of the players and of the adjudication, which are often the same.
    pub fn tables(&self) -> impl Iterator<Item = &Tables> {
        let of_players = self.players.iter().map(|player| &player.tables);
        let all = of_players.chain([&self.terms.rules.tables]);
        all.filter_map(Option::as_deref)
    }

    /// The seed of a game.
    pub fn game_seed(&self, number: u64) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        mix(mix(self.seed.wrapping_add(GOLDEN)) ^ number.wrapping_mul(GOLDEN).wrapping_add(GOLDEN))
    }
}
