//! Expansion: replays the line of a leaf, applies the rules of the game, and evaluates the position or queues it for
//! the network. Needs no lock.

use std::ops::Range;

use shakmaty::{Color, Position};

use super::{
    leaf_priors::LeafPriors,
    look_ahead::look_ahead,
    params::SearchParams,
    tree::{
        TreeFull,
        edges::{EdgeRange, EdgeWriter},
        node::Origin,
        transpositions,
    },
    visits::{Leaf, VisitState, Visits},
};
use crate::{
    chess::{
        History, PackedMove,
        moves::{MAX_MOVES, has_legal_move, only_move},
    },
    network::{Added, Batch, EvalPosition, Evaluator, Value},
    syzygy::Tables,
};

/// A game that continues from the root along the line last replayed. Consecutive lines share most of their moves.
pub(super) struct Replay {
    history: History,
    root_len: usize,
    played: Vec<PackedMove>,
    /// The legal moves of the last position, listed when they are first needed, which for many leaves is never.
    moves: Vec<PackedMove>,
    /// Room for their priors.
    priors: [f32; MAX_MOVES],
}

impl Replay {
    /// Lines that begin at the end of `history`.
    pub fn new(history: &History) -> Replay {
        Replay {
            root_len: history.len(),
            history: history.clone(),
            played: Vec::new(),
            moves: Vec::new(),
            priors: [0.0; MAX_MOVES],
        }
    }

    /// Plays these moves from the root.
    pub(super) fn go_to(&mut self, moves: impl Iterator<Item = PackedMove> + Clone) {
        let shared = self
            .played
            .iter()
            .zip(moves.clone())
            .take_while(|(a, b)| **a == *b)
            .count();
        self.played.truncate(shared);
        self.history.truncate(self.root_len + shared);
        for m in moves.skip(shared) {
            self.history.push(m);
            self.played.push(m);
        }
        self.moves.clear();
    }

    /// The last position, to be evaluated.
    pub(super) fn position(&mut self) -> EvalPosition<'_> {
        EvalPosition::new(self.history.plies(), &mut self.moves, &mut self.priors)
    }

    /// The side to move there.
    pub(super) fn turn(&self) -> Color {
        self.history.position().turn()
    }

    /// Changes the priors that that position was given, `depth` plies below the root.
    fn change_priors(&mut self, priors: &LeafPriors, depth: usize) {
        let own = &mut self.priors[..self.moves.len()];
        priors.change(depth, &self.moves, own);
    }

    /// Writes the moves of that position with the priors that it was given.
    ///
    /// # Errors
    /// When the tree has no room for more.
    pub(super) fn write_edges(&self, writer: &mut EdgeWriter) -> Result<EdgeRange, TreeFull> {
        writer.write_moves(&self.moves, &self.priors)
    }

    /// Whether that position has no legal moves: checkmate or stalemate.
    fn has_no_legal_moves(&self) -> bool {
        self.moves.is_empty() && !has_legal_move(self.history.position())
    }

    /// The positions that the line leads through.
    fn write_keys(&self, keys: &mut [u64]) {
        let plies = &self.history.plies()[self.root_len..];
        for (key, ply) in keys.iter_mut().zip(plies) {
            *key = transpositions::key(ply);
        }
    }
}

/// What a leaf is evaluated by: the rules, the endgame tables, the evaluator.
pub(super) struct ExpandContext<'a> {
    pub params: &'a SearchParams,
    pub tables: Option<&'a Tables>,
    /// The side whose opponent is modelled.
    pub contempt_side: Option<Color>,
    pub evaluator: &'a dyn Evaluator,
}

impl ExpandContext<'_> {
    /// The position at the end of a line, to be evaluated.
    pub(super) fn position<'r>(&self, replay: &'r mut Replay) -> EvalPosition<'r> {
        replay.position().searched_for(self.contempt_side)
    }

    /// Evaluates every claimed leaf (it is terminal, or its evaluation is known at once) or queues it in `batch`.
    /// Positions that were evaluated before without their moves get these.
    ///
    /// # Errors
    /// When the tree has no room for the moves of a leaf, which then stays claimed.
    pub(super) fn expand(
        &self,
        visits: &mut Visits,
        replay: &mut Replay,
        batch: &mut Batch,
    ) -> Result<(), TreeFull> {
        visits.priors.modelled = self.evaluator.modelled_side();
        for index in 0..visits.list.len() {
            match visits.list[index].state {
                VisitState::Claimed => {
                    let steps = visits.list[index].steps.clone();
                    visits.list[index].state = self.evaluated(visits, steps, replay, batch)?;
                }
                VisitState::Unexpanded => {
                    let edges = self.add_moves(visits, index, replay)?;
                    self.extend(visits, index, edges, replay, batch)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives its moves to a position that was evaluated before without them.
    fn add_moves(
        &self,
        visits: &mut Visits,
        index: usize,
        replay: &mut Replay,
    ) -> Result<EdgeRange, TreeFull> {
        let steps = visits.steps[visits.list[index].steps.clone()].iter();
        replay.go_to(steps.map(|step| step.m));
        self.evaluator.priors(&mut self.position(replay), 1.0);
        replay.change_priors(&visits.priors, visits.list[index].steps.len());
        let edges = replay.write_edges(&mut visits.writer)?;
        visits.list[index].state = VisitState::Expanded(edges);
        Ok(edges)
    }

    /// Evaluates the leaves to which the visits that came to a position without moves go on. The visit at index `first`
    /// gave it these moves.
    fn extend(
        &self,
        visits: &mut Visits,
        first: usize,
        edges: EdgeRange,
        replay: &mut Replay,
        batch: &mut Batch,
    ) -> Result<(), TreeFull> {
        for index in visits.go_on(first, edges, self.params) {
            if !matches!(visits.list[index].state, VisitState::Extending) {
                continue;
            }
            let steps = visits.list[index].steps.clone();
            match self.evaluated(visits, steps, replay, batch)? {
                VisitState::Ready(leaf) => {
                    visits.list[index].state = VisitState::Extended(edges, leaf);
                }
                _ => visits.list[index].go_back(edges),
            }
        }
        Ok(())
    }

    /// The state of a visit to the leaf behind `steps`: known, or queued.
    fn evaluated(
        &self,
        visits: &mut Visits,
        steps: Range<usize>,
        replay: &mut Replay,
        batch: &mut Batch,
    ) -> Result<VisitState, TreeFull> {
        let depth = steps.len();
        replay.go_to(visits.steps[steps.clone()].iter().map(|step| step.m));
        if self.params.options.transpositions() {
            visits.keys.resize(visits.steps.len(), 0);
            replay.write_keys(&mut visits.keys[steps]);
        }
        let verdict = self.verdict(replay, depth);
        if let RuleVerdict::Known(leaf) = verdict {
            let is_table = matches!(leaf.terminal, Some((_, Origin::Tablebase)));
            visits.tb_hits += u64::from(is_table);
            return Ok(VisitState::Ready(leaf));
        }
        let is_safe = matches!(verdict, RuleVerdict::AtLeastDrawn);
        visits.tb_hits += u64::from(is_safe);
        let writer = &mut visits.writer;
        if let Some(state) = self.by_moves(replay, depth, writer)? {
            return Ok(state);
        }
        let added = self.evaluator.add(&mut self.position(replay), batch);
        visits.evaluations += u64::from(matches!(added, Added::Computed(_)));
        let (value, edges) = match added {
            Added::Queued(index) => return Ok(VisitState::Queued { index, is_safe }),
            Added::Fetched(value) => {
                replay.change_priors(&visits.priors, depth);
                (value, replay.write_edges(writer)?)
            }
            Added::Computed(value) => (value, self.first_edges(replay, depth, writer)?),
        };
        let leaf = Leaf::evaluated(value, is_safe, edges, depth, &visits.values);
        Ok(VisitState::Ready(leaf))
    }

    /// The edges of a leaf, `depth` plies below the root, whose value was computed without its priors: those of the
    /// root are needed now, those of every other position when a second visit comes to it.
    fn first_edges(
        &self,
        replay: &mut Replay,
        depth: usize,
        writer: &mut EdgeWriter,
    ) -> Result<EdgeRange, TreeFull> {
        if depth > 0 {
            return Ok(EdgeRange::default());
        }
        self.evaluator.priors(&mut self.position(replay), 1.0);
        replay.write_edges(writer)
    }

    /// The state of a leaf, `depth` plies below the root, that needs no evaluation because of its moves: it is proven
    /// by looking ahead, or has a single move and is passed through when the visit comes again.
    fn by_moves(
        &self,
        replay: &mut Replay,
        depth: usize,
        writer: &mut EdgeWriter,
    ) -> Result<Option<VisitState>, TreeFull> {
        if depth == 0 {
            return Ok(None);
        }
        let history = &replay.history;
        if self.params.looks_ahead()
            && let Some(ahead) = look_ahead(history)
        {
            return Ok(Some(VisitState::Ready(ahead.into_leaf(writer)?)));
        }
        if self.params.options.auto_extend()
            && let Some(m) = only_move(history.position())
        {
            let edges = writer.write_moves(&[m], &[1.0])?;
            return Ok(Some(VisitState::Expanded(edges)));
        }
        Ok(None)
    }

    /// The verdict of the rules and the tables on a leaf, `depth` plies below the root. The root is searched even
    /// where the game could be claimed drawn.
    fn verdict(&self, replay: &mut Replay, depth: usize) -> RuleVerdict {
        if depth == 0 {
            return RuleVerdict::Open;
        }
        if !self.params.computes_at_once() {
            // They are needed in any case, and also answer whether there are any.
            replay.position().moves();
        }
        let history = &replay.history;
        let has_no_legal_moves = replay.has_no_legal_moves();
        if let Some((value, result, origin)) =
            terminal(history, has_no_legal_moves, depth, self.params)
        {
            return RuleVerdict::Known(Leaf {
                value,
                terminal: Some((result, origin)),
                edges: EdgeRange::default(),
            });
        }
        let Some(tables) = self.tables else {
            return RuleVerdict::Open;
        };
        match (self.params.contempt_pieces(), self.contempt_side) {
            (Some(pieces), Some(side)) => contempt_verdict(tables, history, side, pieces),
            _ => match tables.result(history.position()) {
                Some(result) => RuleVerdict::Known(from_tablebase(result, 0)),
                None => RuleVerdict::Open,
            },
        }
    }
}

/// What is certain about a leaf.
enum RuleVerdict {
    /// Its result.
    Known(Leaf),
    /// Its side to move can hold a draw, but may hope for more.
    AtLeastDrawn,
    /// Nothing.
    Open,
}

/// The verdict of the tables if the opponent of `side` is fallible: only results that are certain for that side
/// count. A win is certain; a draw with fewer than `pieces` pieces raises the leaf's own value to a draw at
/// least, which is no bound of its node; everything else is left to the
/// network, which has learned what is difficult to play.
fn contempt_verdict(tables: &Tables, history: &History, side: Color, pieces: usize) -> RuleVerdict {
    let position = history.position();
    if position.turn() != side {
        return RuleVerdict::Open;
    }
    match tables.verdict(position) {
        Some((1, plies)) => RuleVerdict::Known(from_tablebase(1, plies)),
        Some((0, _)) if position.board().occupied().count() < pieces => RuleVerdict::AtLeastDrawn,
        _ => RuleVerdict::Open,
    }
}

/// A leaf with the result of a tablebase, which may also give the plies to the next capture or pawn move, but not the
/// length of the win.
fn from_tablebase(result: i8, plies: u32) -> Leaf {
    let value = Value {
        wl: f32::from(result),
        d: if result == 0 { 1.0 } else { 0.0 },
        m: plies as f32,
    };
    Leaf {
        value,
        terminal: Some((result, Origin::Tablebase)),
        edges: EdgeRange::default(),
    }
}

/// The result of a finished game for the side to move, which may have no legal moves; `depth` counts the plies from
/// the root.
fn terminal(
    history: &History,
    has_no_legal_moves: bool,
    depth: usize,
    params: &SearchParams,
) -> Option<(Value, i8, Origin)> {
    let last = history.last();
    let draw = |m: f32, origin| Some((Value { wl: 0.0, d: 1.0, m }, 0, origin));
    if has_no_legal_moves {
        if last.position.is_check() {
            return Some((
                Value {
                    wl: -1.0,
                    d: 0.0,
                    m: 0.0,
                },
                -1,
                Origin::Rules,
            ));
        }
        return draw(0.0, Origin::Rules);
    }
    let is_drawn_by_rule =
        last.position.is_insufficient_material() || last.rule50() >= 100 || last.repetitions >= 2;
    if is_drawn_by_rule {
        return draw(0.0, Origin::Rules);
    }
    let cycle = usize::from(last.plies_since_repetition);
    if params.options.two_fold_draws() && last.repetitions == 1 && depth >= 4 && cycle <= depth {
        return draw(cycle as f32, Origin::TwoFold);
    }
    None
}
