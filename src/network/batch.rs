//! A [`Batch`]: positions that are evaluated together, with their legal moves, and afterwards what was said about them. It
//! is filled again and again, so that a search allocates no memory.

use super::input::Planes;
use crate::chess::{PackedMove, wdl::Value};

/// Positions to evaluate together, and afterwards their evaluations. Reused from batch to batch.
#[derive(Default)]
pub struct Batch {
    items: Vec<Item>,
    planes: Vec<Planes>,
    moves: Vec<PackedMove>,
    policy: Vec<f32>,
    /// What each of two networks is asked, if there are two.
    pub(super) parts: Option<Box<super::compose::opponent::Parts>>,
}

struct Item {
    key: u64,
    /// Where this position's moves begin in `moves` and `policy`.
    moves_start: u32,
    value: Value,
}

impl Batch {
    /// Forgets all positions, keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.planes.clear();
        self.moves.clear();
        self.policy.clear();
        if let Some(parts) = &mut self.parts {
            parts.clear();
        }
    }

    /// Adds a position: the key of everything a network sees of it (see [`Evaluator::key`]), its input planes (when the
    /// evaluator asks for any, see [`Evaluator::encode`]) and its legal moves. Returns its index. A search does not know
    /// these: it lets the evaluator do it ([`Evaluator::queue`]).
    pub fn push(&mut self, key: u64, planes: Option<Planes>, moves: &[PackedMove]) -> usize {
        self.items.push(Item {
            key,
            moves_start: self.moves.len() as u32,
            value: Value::default(),
        });
        self.planes.extend(planes);
        self.moves.extend_from_slice(moves);
        self.policy.resize(self.moves.len(), 0.0);
        self.items.len() - 1
    }

    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The key of position `index`.
    pub fn key(&self, index: usize) -> u64 {
        self.items[index].key
    }

    /// The planes of all positions, in order; empty if the evaluator needs none.
    pub fn planes(&self) -> &[Planes] {
        &self.planes
    }

    /// The legal moves of position `index`.
    pub fn moves(&self, index: usize) -> &[PackedMove] {
        &self.moves[self.range(index)]
    }

    /// The probabilities of those moves (they sum to 1), once evaluated.
    pub fn policy(&self, index: usize) -> &[f32] {
        &self.policy[self.range(index)]
    }

    /// The value of position `index`, once evaluated.
    pub fn value(&self, index: usize) -> Value {
        self.items[index].value
    }

    /// For evaluators: the moves of position `index` beside the place for their probabilities.
    pub fn policy_mut(&mut self, index: usize) -> (&[PackedMove], &mut [f32]) {
        let range = self.range(index);
        (&self.moves[range.clone()], &mut self.policy[range])
    }

    /// For evaluators: sets the value of position `index`.
    pub fn set_value(&mut self, index: usize, value: Value) {
        self.items[index].value = value;
    }

    fn range(&self, index: usize) -> std::ops::Range<usize> {
        let end = self
            .items
            .get(index + 1)
            .map_or(self.moves.len(), |next| next.moves_start as usize);
        self.items[index].moves_start as usize..end
    }
}
