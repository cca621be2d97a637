//! Expansion: what position is this leaf? Replays its line, applies the rules of the game, and queues for the network
//! what only the network can answer. Needs no lock.

use shakmaty::{Color, Position};

use super::{
    look_ahead::look_ahead,
    params::SearchParams,
    tree::{
        Full,
        edges::{EdgeRange, EdgeWriter},
        node::Origin,
        transpositions,
    },
    visits::{Leaf, VisitState, Visits},
};
use crate::{
    chess::{
        History, PackedMove,
        moves::{add_legal_moves, has_legal_move, only_move},
    },
    network::{Batch, Evaluator, Value},
    syzygy::Tables,
};

/// A game that continues from the root along the line last replayed. Consecutive lines share most of their moves.
pub(super) struct Replay {
    history: History,
    root_len: usize,
    played: Vec<PackedMove>,
    /// The legal moves of the last position, if somebody has asked for them, which for most leaves nobody does.
    moves: Vec<PackedMove>,
    policy: Vec<f32>,
}

impl Replay {
    /// Lines that begin at the end of `history`.
    pub fn new(history: &History) -> Replay {
        Replay {
            root_len: history.len(),
            history: history.clone(),
            played: Vec::new(),
            moves: Vec::new(),
            policy: Vec::new(),
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

    /// The game up to the position that was gone to, and its legal moves.
    fn listed(&mut self) -> (&History, &[PackedMove]) {
        if self.moves.is_empty() {
            add_legal_moves(self.history.position(), &mut self.moves);
        }
        (&self.history, &self.moves)
    }

    /// Whether that position has no legal move: checkmate or stalemate.
    fn has_no_legal_moves(&self) -> bool {
        self.moves.is_empty() && !has_legal_move(self.history.position())
    }

    /// The game up to the position that was gone to, its legal moves, and room for their priors.
    pub(super) fn policy_buffers(&mut self) -> (&History, &[PackedMove], &mut [f32]) {
        self.listed();
        self.policy.clear();
        self.policy.resize(self.moves.len(), 0.0);
        (&self.history, &self.moves, &mut self.policy)
    }

    /// Which positions the line leads through.
    fn write_keys(&self, keys: &mut [u64]) {
        let plies = &self.history.plies()[self.root_len..];
        for (key, ply) in keys.iter_mut().zip(plies) {
            *key = transpositions::key(ply);
        }
    }
}

/// What leaves are looked up in, and by which rules.
pub(super) struct ExpandContext<'a> {
    pub params: &'a SearchParams,
    pub tables: Option<&'a Tables>,
    /// Whose opponent is modelled.
    pub contempt_side: Option<Color>,
    pub evaluator: &'a dyn Evaluator,
}

impl ExpandContext<'_> {
    /// Finds out about every claimed leaf: it becomes ready (terminal, cached or judged at once) or is queued for the network
    /// in `batch`. Positions that were judged before get their moves.
    ///
    /// # Errors
    /// When the tree has no room for the moves of a leaf, which then stays claimed.
    pub(super) fn expand(
        &self,
        visits: &mut Visits,
        replay: &mut Replay,
        batch: &mut Batch,
    ) -> Result<(), Full> {
        let Visits {
            tb_hits,
            evaluations,
            contempt,
            list,
            steps,
            keys,
            writer,
            ..
        } = visits;
        if self.params.options.transpositions() {
            keys.resize(steps.len(), 0);
        }
        let is_immediate = self.evaluator.immediate().is_some();
        for visit in list {
            if !visit.state.needs_expansion() {
                continue;
            }
            let range = visit.steps.clone();
            let steps = &steps[range.clone()];
            replay.go_to(steps.iter().map(|step| step.m));
            if self.params.options.transpositions() {
                replay.write_keys(&mut keys[range]);
            }
            if matches!(visit.state, VisitState::Unexpanded) {
                visit.state = VisitState::Expanded(self.moves_of(replay, writer)?);
                continue;
            }
            let verdict = self.verdict(replay, steps.len());
            if let RuleVerdict::Known(leaf) = verdict {
                let is_table = matches!(leaf.terminal, Some((_, Origin::Tablebase)));
                *tb_hits += u64::from(is_table);
                visit.state = VisitState::Ready(leaf);
                continue;
            }
            let is_safe = matches!(verdict, RuleVerdict::AtLeastDrawn);
            *tb_hits += u64::from(is_safe);
            if let Some(state) = self.by_moves(replay, steps.len(), writer)? {
                visit.state = state;
                continue;
            }
            visit.state = match self.value_now(replay, steps.len()) {
                Some((value, has_policy)) => {
                    let edges = match has_policy {
                        true => writer.write_moves(&replay.moves, &replay.policy)?,
                        false => EdgeRange::default(),
                    };
                    *evaluations += u64::from(is_immediate);
                    let judged = (value, is_safe);
                    VisitState::Ready(Leaf::judged(judged, edges, steps.len(), contempt.as_ref()))
                }
                None => {
                    let (line, moves) = replay.listed();
                    let index = self.evaluator.queue(line.plies(), moves, batch);
                    VisitState::Queued(index, is_safe)
                }
            };
        }
        Ok(())
    }

    /// Whether every leaf's moves are asked for, and not only those of positions that a visit comes back to.
    fn needs_moves(&self) -> bool {
        self.evaluator.immediate().is_none()
    }

    /// What the moves of a leaf, `depth` plies below the root, make of it without its being judged: it is proven by looking
    /// ahead, or has one move and is passed through when the visit comes again.
    fn by_moves(
        &self,
        replay: &mut Replay,
        depth: usize,
        writer: &mut EdgeWriter,
    ) -> Result<Option<VisitState>, Full> {
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

    /// The value of a leaf, `depth` plies below the root, if it can be had at once: from an evaluator that needs no batches,
    /// or from the cache. Also tells whether `replay.policy` holds the priors. The root gets them at once, every other position
    /// when a second visit comes.
    fn value_now(&self, replay: &mut Replay, depth: usize) -> Option<(Value, bool)> {
        if let Some(immediate) = self.evaluator.immediate() {
            let is_root = depth == 0;
            if is_root {
                self.ask_policy(replay);
            }
            return Some((immediate.value(replay.history.plies()), is_root));
        }
        let (line, _, policy) = replay.policy_buffers();
        let value = self.evaluator.probe(line.plies(), policy)?;
        Some((value, true))
    }

    /// The moves of a position that an evaluator which needs no batches has judged before.
    fn moves_of(&self, replay: &mut Replay, writer: &mut EdgeWriter) -> Result<EdgeRange, Full> {
        self.ask_policy(replay);
        writer.write_moves(&replay.moves, &replay.policy)
    }

    /// Asks an evaluator that needs no batches for the priors.
    fn ask_policy(&self, replay: &mut Replay) {
        let (line, moves, policy) = replay.policy_buffers();
        if let Some(immediate) = self.evaluator.immediate() {
            immediate.policy(line.plies(), moves, 1.0, policy);
        }
    }

    /// The leaf, `depth` plies below the root, if the rules or the tables know its result. The root is searched even where
    /// the game could be claimed drawn.
    fn verdict(&self, replay: &mut Replay, depth: usize) -> RuleVerdict {
        if depth == 0 {
            return RuleVerdict::Open;
        }
        if self.needs_moves() {
            replay.listed();
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

/// What the tables may say where the opponent of `side` is taken to err: only what that side can be sure of. A win is one; a
/// draw, of fewer than `pieces` pieces, is the least it gets; all else is left to the network, which knows what is hard to play.
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

/// A leaf whose result a tablebase knows, and perhaps the plies to the next capture or pawn move; how long the win takes it
/// does not tell.
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
