//! Expansion: what position is this leaf? Replays its line, applies the rules of the game, and queues for the network
//! what only the network can answer. Needs no lock.

use shakmaty::Position;

use super::{
    batch::{Leaf, Minibatch, State},
    edges::EdgeRange,
    node::Origin,
    params::Params,
    tree::Full,
};
use crate::{
    chess::{History, PackedMove, moves::legal_moves},
    network::{Evaluator, Value},
    syzygy::Tables,
};

/// A game that continues from the root along the line last replayed. Consecutive lines share most of their moves.
pub(super) struct Line {
    history: History,
    root_len: usize,
    played: Vec<PackedMove>,
    moves: Vec<PackedMove>,
    policy: Vec<f32>,
}

impl Line {
    /// A line that begins at the end of `history`.
    pub fn new(history: &History) -> Line {
        Line {
            root_len: history.len(),
            history: history.clone(),
            played: Vec::new(),
            moves: Vec::new(),
            policy: Vec::new(),
        }
    }

    fn replay(&mut self, moves: impl Iterator<Item = PackedMove> + Clone) {
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
    }
}

/// Finds out about every claimed leaf of the batch: it becomes ready (terminal or cached) or is queued for the network.
///
/// # Errors
/// When the tree has no room for the moves of a leaf, which then stays claimed.
pub(super) fn expand(
    batch: &mut Minibatch,
    line: &mut Line,
    params: &Params,
    evaluator: &dyn Evaluator,
    tables: Option<&Tables>,
) -> Result<(), Full> {
    let Minibatch {
        tb_hits,
        visits,
        steps,
        writer,
        eval,
        ..
    } = batch;
    for visit in visits
        .iter_mut()
        .filter(|visit| matches!(visit.state, State::Claimed))
    {
        let steps = &steps[visit.steps.clone()];
        line.replay(steps.iter().map(|step| step.m));
        line.moves.clear();
        line.moves.extend(legal_moves(line.history.position()));
        if let Some((value, result, origin)) =
            terminal(&line.history, &line.moves, steps.len(), params)
        {
            let terminal = Some((result, origin));
            visit.state = State::Ready(Leaf {
                value,
                terminal,
                edges: EdgeRange::default(),
            });
            continue;
        }
        if let Some(result) = tables.and_then(|tables| tables.result(line.history.position())) {
            *tb_hits += 1;
            visit.state = State::Ready(from_tablebase(result));
            continue;
        }
        let plies = line.history.plies();
        line.policy.resize(line.moves.len(), 0.0);
        if let Some(value) = evaluator.probe(plies, &mut line.policy) {
            visit.state = State::Ready(Leaf {
                value,
                terminal: None,
                edges: writer.write_moves(&line.moves, &line.policy)?,
            });
            continue;
        }
        visit.state = State::Queued(evaluator.queue(plies, &line.moves, eval));
    }
    Ok(())
}

/// A leaf whose result a tablebase knows. How long the win takes it does not tell.
fn from_tablebase(result: i8) -> Leaf {
    let value = Value {
        wl: f32::from(result),
        d: if result == 0 { 1.0 } else { 0.0 },
        m: 0.0,
    };
    Leaf {
        value,
        terminal: Some((result, Origin::Tablebase)),
        edges: EdgeRange::default(),
    }
}

/// The same for the root, which is searched even where the game could be claimed drawn.
pub(super) fn expand_root(batch: &mut Minibatch, history: &History, evaluator: &dyn Evaluator) {
    let moves: Vec<PackedMove> = legal_moves(history.position()).collect();
    for visit in &mut batch.visits {
        visit.state = State::Queued(evaluator.queue(history.plies(), &moves, &mut batch.eval));
    }
}

/// The result of a finished game, for the side to move; `depth` counts the plies from the root.
fn terminal(
    history: &History,
    moves: &[PackedMove],
    depth: usize,
    params: &Params,
) -> Option<(Value, i8, Origin)> {
    let last = history.last();
    let draw = |m: f32, origin| Some((Value { wl: 0.0, d: 1.0, m }, 0, origin));
    if moves.is_empty() {
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
    if params.two_fold_draws && last.repetitions == 1 && depth >= 4 && cycle <= depth {
        return draw(cycle as f32, Origin::TwoFold);
    }
    None
}
