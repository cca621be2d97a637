//! What all games of a run have in common: the two players, where games begin, and the terms on which they are played.

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
    /// For the games' text.
    pub name: String,
    /// How it searches.
    pub options: Arc<Options>,
    /// The same for fast searches (see [`PlayoutCap`]): without noise.
    pub fast_options: Arc<Options>,
    /// Nodes a move.
    pub nodes: u64,
    /// Endgame tables.
    pub tables: Option<Arc<Tables>>,
    networks: Networks,
    params: Arc<SearchParams>,
    /// Which of the plan's evaluators it asks with White and with Black.
    evaluators: [usize; 2],
}

impl Contestant {
    /// A player with these options. If `MinibatchSize` names no other number, a tree adds one position at a time to a batch:
    /// other games fill it, and no visit has to be chosen before the last one is known.
    pub fn new(name: &str, options: Options, nodes: u64, networks: Networks) -> Contestant {
        let params = SearchParams::with_batches(1..=1, &options.search(), &*networks.main);
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

    /// Another search-contempt limit and number of nodes.
    pub fn set_limits(&mut self, sc_limit: i32, nodes: u64) {
        for options in [&mut self.options, &mut self.fast_options] {
            Arc::make_mut(options).sc_limit = sc_limit;
        }
        self.nodes = nodes;
    }

    /// Which of the plan's evaluators it asks when it plays `side`.
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
    /// The share of games that are played on nevertheless, to see how often resigning is wrong, 0..=1.
    pub playthrough: f64,
}

/// Random moves at the start of a game.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomPlies {
    /// Plies after the opening in which they may happen.
    pub plies: usize,
    /// With which probability each of them does.
    pub share: f64,
}

/// Playout-cap randomisation (D. J. Wu, "Accelerating Self-Play Learning in Go", 2019): most searches are fast and without
/// noise and are no samples, so that there are more games for the same nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlayoutCap {
    /// Nodes of a fast search.
    pub nodes: u64,
    /// The share of searches with all nodes, 0..=1.
    pub full: f64,
}

/// On which terms games are played.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// When games end early.
    pub rules: Rules,
    /// Whether sides resign.
    pub resign: Option<Resign>,
    /// Whether games begin with random moves.
    pub random: Option<RandomPlies>,
    /// Whether searches differ in size.
    pub cap: Option<PlayoutCap>,
    /// Whether a side keeps its tree for its next move.
    pub reuse_tree: bool,
}

/// Which colour the first player has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    /// Always this one.
    Fixed(Color),
    /// White and Black in turn: every opening is played twice.
    Both,
}

/// Where games begin.
#[derive(Clone, Debug)]
pub enum Starts {
    /// Openings, in the order in which they are taken; never empty.
    Book(Vec<Opening>),
    /// The first player gives odds as White and as Black.
    Odds(Box<[Opening; 2]>),
}

impl Starts {
    /// Takes the openings of a book in the order that the seed says; in the file's without one.
    pub fn book(book: &Book, seed: Option<u64>) -> Starts {
        Starts::Book(book.ordered(seed, book.len()).cloned().collect())
    }

    /// Odds (see [`odds::start`]).
    ///
    /// # Errors
    /// When the text names none.
    pub fn odds(text: &str) -> Result<Starts, OddsError> {
        let starts = [
            odds::start(text, Color::White)?,
            odds::start(text, Color::Black)?,
        ];
        Ok(Starts::Odds(Box::new(starts)))
    }

    /// All of them.
    pub fn all(&self) -> &[Opening] {
        match self {
            Starts::Book(openings) => openings,
            Starts::Odds(starts) => &**starts,
        }
    }
}

/// All that decides the games of a run.
#[derive(Clone)]
pub struct Plan {
    /// The first and the second player.
    pub players: [Contestant; 2],
    /// What the players ask; each is there once.
    pub evaluators: Vec<Arc<dyn Evaluator>>,
    /// The first player's colour.
    pub colors: Colors,
    /// Where games begin.
    pub starts: Starts,
    /// How they are played.
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
        for player in &mut players {
            for side in Color::ALL {
                let contempt_side = contempt_side(&player.options, side);
                let evaluator = player.networks.against(&player.options, contempt_side);
                let known = evaluators.iter().position(|e| Arc::ptr_eq(e, &evaluator));
                let index = known.unwrap_or_else(|| {
                    evaluators.push(evaluator);
                    evaluators.len() - 1
                });
                player.evaluators[side.fold_wb(0, 1)] = index;
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

    /// The player who has White in a game.
    pub fn white(&self, number: u64) -> usize {
        let first = match self.colors {
            Colors::Fixed(color) => color,
            Colors::Both => Color::from_white(number.is_multiple_of(2)),
        };
        first.fold_wb(0, 1)
    }

    /// Where a game begins.
    pub fn opening(&self, number: u64) -> &Opening {
        let index = match (&self.starts, self.colors) {
            (Starts::Odds(_), _) => self.white(number),
            (Starts::Book(openings), Colors::Fixed(_)) => (number % openings.len() as u64) as usize,
            (Starts::Book(openings), Colors::Both) => (number / 2 % openings.len() as u64) as usize,
        };
        &self.starts.all()[index]
    }

    /// The seed of a game.
    pub fn game_seed(&self, number: u64) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        mix(mix(self.seed.wrapping_add(GOLDEN)) ^ number.wrapping_mul(GOLDEN).wrapping_add(GOLDEN))
    }
}
