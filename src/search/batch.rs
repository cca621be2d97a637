//! What one worker gathers: the ways to the leaves it selected, and the positions to evaluate.

use super::node::{Edge, NodeId, Origin};
use crate::{
    chess::PackedMove,
    network::{self, Value},
};

/// One step of a way from the root: which child, and how it was chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The child's slot, which stays valid while the child's id may change.
    pub slot: u8,
    /// Whether search-contempt drew the move.
    pub drawn: bool,
    /// The move.
    pub m: PackedMove,
}

/// What is known about a leaf, ready to be backed up.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Its value, from the point of view of its side to move.
    pub value: Value,
    /// For terminal positions: the result for the side to move (-1, 0, 1) and why.
    pub terminal: Option<(i8, Origin)>,
    /// Its moves with priors, as a range of [`Minibatch::edges`].
    pub edges: std::ops::Range<usize>,
}

/// How far a visit has come.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// A leaf was claimed; its position is not known yet.
    Claimed,
    /// It waits for the network, at this place of the batch.
    Queued(usize),
    /// It can be backed up.
    Ready(Leaf),
    /// It reached a proven node (only when out-of-order backup is off).
    Proven,
    /// It has to be undone.
    Collision,
    /// It was backed up.
    Done,
}

/// A visit: its steps (a range of [`Minibatch::steps`]) and its state.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub steps: std::ops::Range<usize>,
    pub state: State,
}

/// One worker's batch, reused from iteration to iteration.
#[derive(Default)]
pub(super) struct Minibatch {
    /// The positions for the network.
    pub eval: network::Batch,
    pub visits: Vec<Visit>,
    pub steps: Vec<Step>,
    pub edges: Vec<Edge>,
    /// Collisions so far.
    pub collisions: usize,
    /// Tablebase probes that hit, not yet counted in the tree.
    pub tb_hits: u64,
    /// Visits backed up while gathering.
    pub out_of_order: usize,
    /// Scratch: node ids of the path at hand.
    pub path: Vec<NodeId>,
}

impl Minibatch {
    /// Empties the batch, keeping its memory.
    pub fn clear(&mut self) {
        self.eval.clear();
        self.visits.clear();
        self.steps.clear();
        self.edges.clear();
        self.collisions = 0;
        self.out_of_order = 0;
    }

    /// Adds a visit whose steps begin at `first_step` and end with the last one.
    pub fn add_visit(&mut self, first_step: usize, state: State) {
        self.visits.push(Visit {
            steps: first_step..self.steps.len(),
            state,
        });
    }

    /// Sorts moves by their priors into `edges`, returning their place there.
    pub fn add_edges(
        edges: &mut Vec<Edge>,
        moves: &[PackedMove],
        policy: &[f32],
    ) -> std::ops::Range<usize> {
        let start = edges.len();
        edges.extend(moves.iter().zip(policy).map(|(&m, &p)| Edge::new(m, p)));
        edges[start..].sort_unstable_by(|a, b| b.cmp(a));
        start..edges.len()
    }

    /// Turns what the network answered into leaves that can be backed up. Needs no lock.
    pub fn finish(&mut self) {
        for visit in &mut self.visits {
            if let State::Queued(index) = visit.state {
                let edges = Self::add_edges(
                    &mut self.edges,
                    self.eval.moves(index),
                    self.eval.policy(index),
                );
                visit.state = State::Ready(Leaf {
                    value: self.eval.value(index),
                    terminal: None,
                    edges,
                });
            }
        }
    }
}
