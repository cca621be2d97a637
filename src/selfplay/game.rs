//! One game: the searches of both sides in turn, each on its own tree, until the game ends.
//!
//! A [`GameInPlay`] is driven by its owner, which looks up the evaluator that the game waits for, lets it gather
//! leaves into a batch together with other games, and returns the evaluated batch.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use shakmaty::{Color, KnownOutcome, Position};

use super::{
    plan::{Contestant, Plan},
    played::{MoveSource, PlayedGame, PlayedMove, RawOutput, Reason, SearchResult, player_of},
};
use crate::{
    chess::{History, PackedMove, moves::legal_moves},
    game::adjudicate::{Adjudicator, by_rules},
    hashing::mix,
    network::{Batch, Evaluator, Value},
    player::contempt_side,
    search::{Clock, Job, Limits, MoveStat, Tree, TreeSearch},
};

/// The clock of all searches: no limit depends on time, and reading a clock for every visit would cost some per cent.
#[derive(Debug)]
struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

/// A game in progress.
pub struct GameInPlay<'p> {
    plan: &'p Plan,
    number: u64,
    seed: u64,
    rng: Xoshiro256PlusPlus,
    clock: Arc<NoClock>,
    /// The player with White.
    white: usize,
    history: History,
    moves: Vec<PlayedMove>,
    /// The players' trees between searches.
    trees: [Tree; 2],
    search: Option<TreeSearch>,
    /// Whether the search has all its nodes.
    is_full: bool,
    /// The network's output for its root, if it was evaluated.
    raw: Option<(f32, f32)>,
    adjudicator: Adjudicator<'p>,
    /// Whether resignation is off in this game.
    plays_on: bool,
    would_resign: Option<Color>,
    nodes: u64,
    /// Positions evaluated for its moves and not counted yet.
    evaluations: u64,
    end: Option<(KnownOutcome, Reason)>,
}

impl<'p> GameInPlay<'p> {
    /// The game of this number, which waits for its first evaluation or is already over.
    ///
    /// # Errors
    /// When the search fails.
    pub fn new(plan: &'p Plan, number: u64) -> Result<GameInPlay<'p>> {
        let seed = plan.game_seed(number);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let opening = plan.opening(number);
        let resign = plan.terms.resign.as_ref();
        let plays_on = resign.is_some_and(|resign| rng.random::<f64>() < resign.playthrough);
        let book = |&m: &PackedMove| PlayedMove {
            m,
            source: MoveSource::Book,
        };
        let history = opening.history();
        let mut game = GameInPlay {
            plan,
            number,
            seed,
            rng,
            clock: Arc::new(NoClock),
            white: plan.white(number),
            end: by_rules(&history).map(|end| (end.outcome, Reason::Ended(end.ending))),
            history,
            moves: opening.moves.iter().map(book).collect(),
            trees: Default::default(),
            search: None,
            is_full: true,
            raw: None,
            adjudicator: Adjudicator::new(&plan.terms.rules),
            plays_on,
            would_resign: None,
            nodes: 0,
            evaluations: 0,
        };
        game.advance()?;
        Ok(game)
    }

    /// The index of the evaluator that it waits for; `None` when it is over.
    pub fn evaluator_index(&self) -> Option<usize> {
        let side = self.history.position().turn();
        self.search
            .as_ref()
            .map(|_| self.plan.players[self.player(side)].evaluator(side))
    }

    /// Adds leaves to the batch, which must be returned with [`GameInPlay::apply`] before the next call.
    ///
    /// # Errors
    /// When a network that refines priors fails.
    pub fn gather(&mut self, evaluator: &dyn Evaluator, batch: &mut Batch) -> Result<()> {
        if let Some(search) = &mut self.search {
            search.gather(evaluator, batch)?;
        }
        Ok(())
    }

    /// Takes the evaluated batch, and plays the move if the search is over.
    ///
    /// # Errors
    /// When the search fails.
    pub fn apply(&mut self, batch: &Batch) -> Result<()> {
        if let Some(search) = &mut self.search {
            search.apply(batch);
            let tree = search.tree();
            let root = tree.node(tree.root());
            if root.n == 1 {
                self.raw = Some((root.d, root.m));
            }
        }
        self.advance()
    }

    /// Takes the number of positions evaluated for played moves since the last call.
    pub fn take_evaluations(&mut self) -> u64 {
        std::mem::take(&mut self.evaluations)
    }

    /// The game, if it is over.
    pub fn finish(self) -> Option<PlayedGame> {
        let (outcome, reason) = self.end?;
        Some(PlayedGame {
            number: self.number,
            seed: self.seed,
            white: self.white,
            start: self.plan.opening(self.number).start.clone(),
            moves: self.moves,
            outcome,
            reason,
            would_resign: self.would_resign,
            nodes: self.nodes,
        })
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// The index of the player of `side`.
    fn player(&self, side: Color) -> usize {
        player_of(self.white, side)
    }

    /// Continues until an evaluation is needed.
    fn advance(&mut self) -> Result<()> {
        while self.end.is_none() {
            match self.search.take_if(|search| search.is_over()) {
                Some(search) => self.finish_move(search)?,
                None if self.search.is_some() => return Ok(()),
                None => match self.random_move() {
                    Some(m) => self.play(m, MoveSource::Random, None),
                    None => self.begin_search(),
                },
            }
        }
        Ok(())
    }

    fn begin_search(&mut self) {
        let plan = self.plan;
        let side = self.history.position().turn();
        let index = self.player(side);
        let player = &plan.players[index];
        let cap = plan.terms.cap.as_ref();
        let fast = cap.filter(|cap| self.rng.random::<f64>() >= cap.full);
        self.is_full = fast.is_none();
        self.raw = None;
        let job = self.job(player, side, fast.map(|cap| cap.nodes));
        let tree = std::mem::take(&mut self.trees[index]);
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let search = TreeSearch::with_clock(tree, job, player.params(), clock);
        self.search = Some(search);
    }

    fn job(&self, player: &Contestant, side: Color, fast: Option<u64>) -> Job {
        let nodes = Some(fast.map_or(player.nodes, |nodes| nodes.min(player.nodes)));
        let options = if fast.is_some() {
            &player.fast_options
        } else {
            &player.options
        };
        let mut limits = Limits::default();
        limits.set_nodes(nodes, options.nodes_as_playouts);
        Job {
            contempt_side: contempt_side(options, side),
            tables: player.tables.clone(),
            // Each search has random numbers of its own, even in a repeated position.
            seed: mix(self.seed ^ mix(self.moves.len() as u64 + 1)),
            ..Job::new(self.history.clone(), limits, options.search())
        }
    }

    /// Plays the move that a search has chosen, or resigns.
    fn finish_move(&mut self, search: TreeSearch) -> Result<()> {
        let side = self.history.position().turn();
        let (outcome, mut moves) = search.outcome();
        let m = outcome.best.context("a search found no move")?;
        let line = outcome.report.lines.first();
        let score = line.context("a search has no line")?.score;
        let root = moves.pop().context("a search has no statistics")?;
        let best = search.preferred().unwrap_or(m);
        self.nodes += outcome.report.playouts;
        self.evaluations += outcome.report.evaluations;
        let search_result = SearchResult {
            root: value_of_root(&root, &moves, best),
            raw: RawOutput {
                wl: root.v.unwrap_or_default(),
                rest: self.raw.take(),
            },
            visits: root.n,
            best,
            score,
            depth: outcome.report.depth,
            is_full: self.is_full,
            moves,
        };
        if self.plan.terms.reuse_tree {
            self.trees[self.player(side)] = search.into_tree();
        }
        if self.resigns(&search_result, side) {
            let winner = !side;
            self.end = Some((KnownOutcome::Decisive { winner }, Reason::Resignation));
            return Ok(());
        }
        let value = f64::from(search_result.value(m).wl);
        self.play(
            m,
            MoveSource::Search(Box::new(search_result)),
            Some(side.fold_wb(value, -value)),
        );
        Ok(())
    }

    /// Whether a side resigns: even the move that its search prefers is hopeless. In games that are played to the end
    /// it is only recorded.
    fn resigns(&mut self, search_result: &SearchResult, side: Color) -> bool {
        let Some(resign) = &self.plan.terms.resign else {
            return false;
        };
        let expected = (search_result.value(search_result.best).wl + 1.0) / 2.0;
        let is_hopeless = expected < resign.below;
        if is_hopeless && self.plays_on {
            self.would_resign.get_or_insert(side);
        }
        is_hopeless && !self.plays_on
    }

    /// A random move, in the first plies after the opening.
    fn random_move(&mut self) -> Option<PackedMove> {
        let random = self.plan.terms.random.as_ref()?;
        let played = self.moves.len() - self.plan.opening(self.number).moves.len();
        if played >= random.plies || self.rng.random::<f64>() >= random.share {
            return None;
        }
        let moves: Vec<PackedMove> = legal_moves(self.history.position()).collect();
        moves
            .get(self.rng.random_range(0..moves.len().max(1)))
            .copied()
    }

    /// Plays a move. `value` is White's W-L from the mover's search.
    fn play(&mut self, m: PackedMove, source: MoveSource, value: Option<f64>) {
        self.history.push(m);
        self.moves.push(PlayedMove { m, source });
        let verdict = self.adjudicator.after_move(&self.history, value);
        self.end = verdict.map(|verdict| (verdict.outcome, Reason::Ended(verdict.ending)));
    }
}

/// The value of the root: that of its visits or, if its result is proven, the result. The visits before the proof know
/// nothing of it.
fn value_of_root(root: &MoveStat, moves: &[MoveStat], best: PackedMove) -> Value {
    let mean = root.value.unwrap_or_default();
    let Some(result) = root.bounds.result() else {
        return mean;
    };
    // The length of a proof is that of its best move.
    let known = moves.iter().find(|stat| stat.m == Some(best));
    let best = known.and_then(|stat| stat.value);
    Value::of_result(result, best.map_or(mean.m, |best| best.m))
}
