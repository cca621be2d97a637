//! The current visits of one worker: their paths and their states.

use std::ops::Range;

use super::{
    first_visits::FirstVisits,
    leaf_priors::LeafPriors,
    leaf_values::LeafValues,
    params::SearchParams,
    search_contempt::ChosenBy,
    tree::{
        TreeFull,
        edges::{EdgeRange, EdgeWriter},
        node::Origin,
    },
};
use crate::{
    chess::PackedMove,
    network::{Batch, Value},
};

/// One step of a path from the root: which child, and how it was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathStep {
    /// The child's slot, which stays valid while the child's id may change.
    pub slot: u8,
    /// How the move was chosen.
    pub chosen: ChosenBy,
    /// The move.
    pub m: PackedMove,
}

/// The path from the root to a position whose priors are to be refined.
pub(super) type RefinementPath = Box<[PathStep]>;

/// The evaluation of a leaf, ready to be backed up.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Its value, from the point of view of its side to move.
    pub value: Value,
    /// For terminal positions: the result for the side to move (-1, 0, 1) and why.
    pub terminal: Option<(i8, Origin)>,
    /// Its moves with priors; empty if the evaluator provides priors later.
    pub edges: EdgeRange,
}

/// The value of a position whose side to move has at least a draw.
fn at_least_drawn(value: Value) -> Value {
    if value.wl < 0.0 {
        Value {
            wl: 0.0,
            d: 1.0,
            ..value
        }
    } else {
        value
    }
}

impl Leaf {
    /// A leaf `depth` plies below the root with the network's evaluation. If `is_safe`, the side to move has at least a
    /// draw.
    pub fn evaluated(
        answer: Value,
        is_safe: bool,
        edges: EdgeRange,
        depth: usize,
        values: &LeafValues,
    ) -> Leaf {
        let value = values.of(answer, depth);
        Leaf {
            value: if is_safe {
                at_least_drawn(value)
            } else {
                value
            },
            terminal: None,
            edges,
        }
    }
}

/// The state of a visit.
///
/// ```text
/// selection      expansion                                       evaluation     backup
///
/// Claimed -----> Queued (the network is needed) ---------------> Ready -------> Done
///         `----> Ready (a result, or evaluated at once) ----------------------> Done
/// Unexpanded --> Extending (it goes on) ---> Extended (with the leaf there) --> Done
///           `--> Expanded (undone and repeated) ------------------------------> Done
/// Settled --------------------------------------------------------------------> Done
/// Collision ------------------------------------------------------------------> Done (undone)
/// ```
#[derive(Clone, Debug)]
pub(super) enum VisitState {
    /// A leaf was claimed; its position has not been looked at.
    Claimed,
    /// It reached and claimed a position that is evaluated but has no moves yet.
    Unexpanded,
    /// The position's moves; the visit itself is undone and repeated.
    Expanded(EdgeRange),
    /// It goes on from such a position to one of its moves, its last step, for which there is no child yet. The leaf
    /// there has not been looked at.
    Extending,
    /// The same, with the moves of the position and the evaluation of the leaf.
    Extended(EdgeRange, Leaf),
    /// It waits for the network.
    Queued {
        /// Its place in the batch.
        index: usize,
        /// Whether its side to move has at least a draw.
        is_safe: bool,
    },
    /// It can be backed up.
    Ready(Leaf),
    /// It reached a node whose value is used as it is (only when out-of-order backup is off).
    Settled,
    /// It has to be undone.
    Collision,
    /// It was backed up.
    Done,
}

impl VisitState {
    /// Whether it can be backed up or undone before the batch is evaluated.
    pub fn is_ready(&self) -> bool {
        use VisitState::{Expanded, Extended, Ready};
        matches!(self, Ready(_) | Expanded(_) | Extended(..))
    }
}

/// A visit: its steps (a range of [`Visits::steps`]) and its state.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    /// The last link of its path during selection, from which `steps` are written.
    pub head: u32,
    pub steps: Range<usize>,
    pub state: VisitState,
}

impl Visit {
    /// Whether its last step leads to a position for which there is no node yet.
    pub fn has_gone_on(&self) -> bool {
        use VisitState::{Extended, Extending};
        matches!(self.state, Extending | Extended(..))
    }

    /// Those of its steps that lead to nodes of the tree.
    pub fn steps_in_tree(&self) -> Range<usize> {
        self.steps.start..self.steps.end - usize::from(self.has_gone_on())
    }

    /// Leaves the visit where the position got these moves: it is undone and repeated.
    pub fn go_back(&mut self, edges: EdgeRange) {
        self.steps = self.steps_in_tree();
        self.state = VisitState::Expanded(edges);
    }
}

/// The visits of one gathering; the memory is reused.
#[derive(Default)]
pub(super) struct Visits {
    pub list: Vec<Visit>,
    pub steps: Vec<PathStep>,
    /// The keys of the positions on the path, for transpositions; empty if those are off.
    pub keys: Vec<u64>,
    /// Collisions so far.
    pub collisions: usize,
    /// Tablebase probes that hit, not yet counted in the tree.
    pub tb_hits: u64,
    /// Positions that the network evaluated, not yet counted in the tree.
    pub evaluations: u64,
    /// How the network's output becomes the values of leaves.
    pub values: LeafValues,
    /// Visits backed up while gathering.
    pub out_of_order: usize,
    /// How the network's priors become those of leaves.
    pub priors: LeafPriors,
    /// Scratch: the changed priors of one leaf.
    pub changed: Vec<f32>,
    /// Writes the edges of the leaves.
    pub writer: EdgeWriter,
    /// Scratch: the visits that went on from one position.
    pub first_visits: FirstVisits,
}

impl Visits {
    /// No visits; edges are written by `writer`, and `values` and `priors` are those of leaves.
    pub fn new(writer: EdgeWriter, values: LeafValues, priors: LeafPriors) -> Visits {
        Visits {
            writer,
            values,
            priors,
            ..Visits::default()
        }
    }

    /// Removes the visits, keeping their memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.steps.clear();
        self.keys.clear();
        self.collisions = 0;
        self.out_of_order = 0;
    }

    /// Number of visits that are neither backed up nor collisions.
    pub fn waiting(&self) -> usize {
        let is_waiting =
            |visit: &&Visit| !matches!(visit.state, VisitState::Done | VisitState::Collision);
        self.list.iter().filter(is_waiting).count()
    }

    /// Whether gathering resulted only in collisions.
    pub fn is_idle(&self) -> bool {
        let is_collision = |visit: &Visit| matches!(visit.state, VisitState::Collision);
        self.out_of_order == 0 && self.list.iter().all(is_collision)
    }

    /// How many of the visits from index `first` on can be backed up.
    pub fn ready(&self, first: usize) -> usize {
        self.list[first..]
            .iter()
            .filter(|visit| visit.state.is_ready())
            .count()
    }

    /// Sends the visit at index `first`, which gave its position these moves (the last ones written), and those that
    /// came there with it on to these moves, as PUCT does. A visit for whose move another is in flight is to be
    /// repeated. Returns the indices of all of them.
    pub fn go_on(&mut self, first: usize, edges: EdgeRange, params: &SearchParams) -> Range<usize> {
        self.first_visits.clear();
        let path = self.list[first].steps.clone();
        let prior_bonus = params.prior_bonus(path.len());
        let mut end = first;
        while end < self.list.len() && (end == first || self.comes_to(&path, end)) {
            let visit = &mut self.list[end];
            end += 1;
            let moves = self.writer.last_written();
            let Some(place) = self.first_visits.take(moves, prior_bonus) else {
                visit.state = VisitState::Expanded(edges);
                continue;
            };
            let start = self.steps.len();
            self.steps.extend_from_within(visit.steps.clone());
            self.steps.push(PathStep {
                slot: place as u8,
                chosen: ChosenBy::Search,
                m: moves[place].m(),
            });
            visit.steps = start..self.steps.len();
            visit.state = VisitState::Extending;
        }
        first..end
    }

    /// Whether a visit came to the position at the end of this path and waits for its moves.
    fn comes_to(&self, path: &Range<usize>, index: usize) -> bool {
        let visit = &self.list[index];
        let slots = |steps: &Range<usize>| self.steps[steps.clone()].iter().map(|step| step.slot);
        matches!(visit.state, VisitState::Unexpanded) && slots(path).eq(slots(&visit.steps))
    }

    /// Turns the network's output into leaves that can be backed up. Needs no lock.
    ///
    /// # Errors
    /// When the tree is full: the affected visits are left as they were.
    pub fn receive(&mut self, batch: &Batch) -> Result<(), TreeFull> {
        for visit in &mut self.list {
            if let VisitState::Queued { index, is_safe } = visit.state {
                let moves = batch.moves(index);
                let leaf = (visit.steps.len(), moves);
                let priors = batch.policy(index);
                let priors = self.priors.changed(leaf, priors, &mut self.changed);
                let edges = self.writer.write_moves(moves, priors)?;
                let (answer, depth) = (batch.value(index), visit.steps.len());
                let leaf = Leaf::evaluated(answer, is_safe, edges, depth, &self.values);
                visit.state = VisitState::Ready(leaf);
                self.evaluations += 1;
            }
        }
        Ok(())
    }
}
