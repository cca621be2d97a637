//! The visits that one worker has under way: their ways to the leaves, and how far each has come.

use super::{
    tree::{
        Full,
        edges::{EdgeRange, EdgeWriter},
        node::Origin,
    },
    wdl_contempt::WdlContempt,
};
use crate::{
    chess::PackedMove,
    network::{Batch, Value},
};

/// One step of a way from the root: which child, and how it was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathStep {
    /// The child's slot, which stays valid while the child's id may change.
    pub slot: u8,
    /// Whether search-contempt drew the move.
    pub drawn: bool,
    /// The move.
    pub m: PackedMove,
}

/// The way from the root to a position that is due to have its priors refined.
pub(super) type DueWay = Box<[PathStep]>;

/// What is known about a leaf, ready to be backed up.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Its value, from the point of view of its side to move.
    pub value: Value,
    /// For terminal positions: the result for the side to move (-1, 0, 1) and why.
    pub terminal: Option<(i8, Origin)>,
    /// Its moves with priors; none yet, if the evaluator tells them only when they are needed.
    pub edges: EdgeRange,
}

/// The value of a position whose side to move is sure of a draw.
fn at_least_drawn(value: Value) -> Value {
    match value.wl < 0.0 {
        true => Value {
            wl: 0.0,
            d: 1.0,
            ..value
        },
        false => value,
    }
}

impl Leaf {
    /// A leaf `depth` plies below the root that a network has judged: the one place where its answer becomes a value. A side
    /// to move that `is_safe` has a draw in hand.
    pub fn judged(
        (answer, is_safe): (Value, bool),
        edges: EdgeRange,
        depth: usize,
        contempt: Option<&WdlContempt>,
    ) -> Leaf {
        let value = contempt.map_or(answer, |contempt| contempt.of_leaf(answer, depth));
        Leaf {
            value: match is_safe {
                true => at_least_drawn(value),
                false => value,
            },
            terminal: None,
            edges,
        }
    }
}

/// How far a visit has come.
#[derive(Clone, Debug)]
pub(super) enum VisitState {
    /// A leaf was claimed; its position is not known yet.
    Claimed,
    /// It came to a position that was judged but has no moves yet, and claimed it.
    Unexpanded,
    /// These are that position's moves: the visit itself is undone, and comes again.
    Expanded(EdgeRange),
    /// It waits for the network, at this place of the batch; its side to move may be sure of a draw.
    Queued(usize, bool),
    /// It can be backed up.
    Ready(Leaf),
    /// It reached a node whose value is taken as it is (only when out-of-order backup is off).
    Settled,
    /// It has to be undone.
    Collision,
    /// It was backed up.
    Done,
}

impl VisitState {
    /// Whether its position is to be looked at.
    pub fn is_to_be_expanded(&self) -> bool {
        matches!(self, VisitState::Claimed | VisitState::Unexpanded)
    }

    /// Whether it can be backed up or undone although the batch is not evaluated yet.
    pub fn is_ready(&self) -> bool {
        matches!(self, VisitState::Ready(_) | VisitState::Expanded(_))
    }
}

/// A visit: its steps (a range of [`Visits::steps`]) and its state.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    /// The end of the way as selection left it, from which `steps` are made.
    pub head: u32,
    pub steps: std::ops::Range<usize>,
    pub state: VisitState,
}

/// The visits of one gathering; the memory is reused from one to the next.
#[derive(Default)]
pub(super) struct Visits {
    pub list: Vec<Visit>,
    pub steps: Vec<PathStep>,
    /// The positions that the steps lead to, for transpositions (see there); empty if those are off.
    pub keys: Vec<u64>,
    /// Collisions so far.
    pub collisions: usize,
    /// Tablebase probes that hit, not yet counted in the tree.
    pub tb_hits: u64,
    /// Positions that the network judged, not yet counted in the tree.
    pub evaluations: u64,
    /// How the network's values are changed.
    pub contempt: Option<WdlContempt>,
    /// Visits backed up while gathering.
    pub out_of_order: usize,
    /// Writes the edges of the leaves.
    pub writer: EdgeWriter,
}

impl Visits {
    /// No visits; the edges of those to come go where `writer` writes, and their values are changed as `contempt` says.
    pub fn new(writer: EdgeWriter, contempt: Option<WdlContempt>) -> Visits {
        Visits {
            writer,
            contempt,
            ..Visits::default()
        }
    }

    /// Forgets the visits, keeping their memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.steps.clear();
        self.keys.clear();
        self.collisions = 0;
        self.out_of_order = 0;
    }

    /// How many visits are under way: not backed up and no collisions.
    pub fn waiting(&self) -> usize {
        let is_waiting =
            |visit: &&Visit| !matches!(visit.state, VisitState::Done | VisitState::Collision);
        self.list.iter().filter(is_waiting).count()
    }

    /// Whether nothing but collisions came of gathering.
    pub fn is_idle(&self) -> bool {
        let is_collision = |visit: &Visit| matches!(visit.state, VisitState::Collision);
        self.out_of_order == 0 && self.list.iter().all(is_collision)
    }

    /// How many of the visits from number `first` on can be backed up already.
    pub fn ready(&self, first: usize) -> usize {
        self.list[first..]
            .iter()
            .filter(|visit| visit.state.is_ready())
            .count()
    }

    /// Turns what the network answered into leaves that can be backed up. Needs no lock.
    ///
    /// # Errors
    /// When the tree has no room for more: the visits concerned are left as they were.
    pub fn receive(&mut self, batch: &Batch) -> Result<(), Full> {
        for visit in &mut self.list {
            if let VisitState::Queued(index, is_safe) = visit.state {
                let (moves, policy) = (batch.moves(index), batch.policy(index));
                let edges = self.writer.write_moves(moves, policy)?;
                let judged = (batch.value(index), is_safe);
                let leaf = Leaf::judged(judged, edges, visit.steps.len(), self.contempt.as_ref());
                visit.state = VisitState::Ready(leaf);
                self.evaluations += 1;
            }
        }
        Ok(())
    }
}
