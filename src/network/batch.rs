//! A [`Batch`]: positions that are evaluated together, with their legal moves, and afterwards their evaluations. It is
//! filled again and again, so that a search allocates no memory.

use super::input::planes::Inputs;
use crate::chess::{PackedMove, wdl::Value};

/// Positions to evaluate together, and afterwards their evaluations. Reused from batch to batch.
pub struct Batch {
    items: Vec<BatchPosition>,
    inputs: Inputs,
    moves: Vec<PackedMove>,
    policy: Vec<f32>,
    /// Which of the moves give check, as far as that was [marked](Batch::mark_checks).
    checks: Vec<bool>,
    policy_temperature: f32,
    parts: Vec<SubBatch>,
}

struct BatchPosition {
    key: u64,
    /// Where this position's moves begin in `moves` and `policy`.
    moves_start: u32,
    value: Value,
}

/// Some positions of a batch, for evaluators that combine others: those that one of these evaluates, or has evaluated.
#[derive(Default)]
pub struct SubBatch {
    /// The positions.
    pub batch: Batch,
    /// Their indices in the whole batch.
    pub indices: Vec<usize>,
}

impl SubBatch {
    fn clear(&mut self) {
        self.batch.clear();
        self.indices.clear();
    }

    /// Every evaluated position: its index in the whole batch, its value and its policy.
    pub fn evaluations(&self) -> impl Iterator<Item = (usize, Value, &[f32])> {
        let places = self.indices.iter().enumerate();
        places.map(|(place, &index)| (index, self.batch.value(place), self.batch.policy(place)))
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            items: Vec::new(),
            inputs: Inputs::default(),
            moves: Vec::new(),
            policy: Vec::new(),
            checks: Vec::new(),
            policy_temperature: 1.0,
            parts: Vec::new(),
        }
    }
}

impl Batch {
    /// Removes all positions, keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.inputs.clear();
        self.moves.clear();
        self.policy.clear();
        self.checks.clear();
        self.policy_temperature = 1.0;
        self.parts.iter_mut().for_each(SubBatch::clear);
    }

    /// Adds a position: the key of everything that is seen of it and its legal moves. Returns its index. For
    /// evaluators, which also add its planes to the inputs; a search uses [`Evaluator::add`](super::Evaluator::add).
    pub fn push(&mut self, key: u64, moves: &[PackedMove]) -> usize {
        self.items.push(BatchPosition {
            key,
            moves_start: self.moves.len() as u32,
            value: Value::default(),
        });
        self.moves.extend_from_slice(moves);
        self.policy.resize(self.moves.len(), 0.0);
        self.items.len() - 1
    }

    /// The same positions, not evaluated yet.
    pub fn clone_inputs(&self) -> Batch {
        let without_value = |item: &BatchPosition| BatchPosition {
            value: Value::default(),
            ..*item
        };
        Batch {
            items: self.items.iter().map(without_value).collect(),
            inputs: self.inputs.clone(),
            moves: self.moves.clone(),
            policy: vec![0.0; self.policy.len()],
            checks: self.checks.clone(),
            policy_temperature: self.policy_temperature,
            parts: Vec::new(),
        }
    }

    /// Adds the positions of another batch, with the evaluations that it has already (its parts may). The policy
    /// temperature stays as it is.
    pub fn append(&mut self, other: &Batch) {
        let (positions, moves) = (self.items.len(), self.moves.len());
        let moved = |item: &BatchPosition| BatchPosition {
            moves_start: item.moves_start + moves as u32,
            ..*item
        };
        self.items.extend(other.items.iter().map(moved));
        self.inputs.append(&other.inputs);
        self.moves.extend_from_slice(&other.moves);
        self.policy.extend_from_slice(&other.policy);
        if !other.checks.is_empty() {
            self.checks.resize(moves, false);
            self.checks.extend_from_slice(&other.checks);
        }
        for (number, other) in other.parts.iter().enumerate() {
            let part = self.part(number);
            part.batch.append(&other.batch);
            part.indices
                .extend(other.indices.iter().map(|index| index + positions));
        }
    }

    /// Takes the evaluations of its positions from a batch to which they were appended, at `start`.
    pub fn take_evaluations(&mut self, whole: &Batch, start: usize) {
        for index in 0..self.items.len() {
            self.items[index].value = whole.value(start + index);
            let range = self.range(index);
            self.policy[range].copy_from_slice(whole.policy(start + index));
        }
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

    /// The input planes of all positions, in order; empty if the evaluator needs none.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// For evaluators: the input planes, to which those of the next position are added.
    pub fn inputs_mut(&mut self) -> &mut Inputs {
        &mut self.inputs
    }

    /// The softmax temperature at which logits become probabilities; 1 unless another one was set.
    pub fn policy_temperature(&self) -> f32 {
        self.policy_temperature
    }

    /// For evaluators: sets another temperature.
    pub fn set_policy_temperature(&mut self, temperature: f32) {
        self.policy_temperature = temperature;
    }

    /// For evaluators that combine others: the sub-batch with this number, empty at first. Numbers count from 0
    /// without gaps.
    pub fn part(&mut self, number: usize) -> &mut SubBatch {
        if self.parts.len() <= number {
            self.parts.resize_with(number + 1, SubBatch::default);
        }
        &mut self.parts[number]
    }

    /// For evaluators that combine others: takes the sub-batches out, to be put back by [`Batch::put_parts`].
    pub fn take_parts(&mut self) -> Vec<SubBatch> {
        std::mem::take(&mut self.parts)
    }

    /// Puts sub-batches back, so that their memory is used again.
    pub fn put_parts(&mut self, parts: Vec<SubBatch>) {
        self.parts = parts;
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

    /// For evaluators: marks the moves of position `index` that give check.
    pub fn mark_checks(&mut self, index: usize, gives_check: impl Fn(PackedMove) -> bool) {
        let range = self.range(index);
        self.checks.resize(self.moves.len(), false);
        let marks = self.checks[range.clone()].iter_mut();
        for (mark, &m) in marks.zip(&self.moves[range]) {
            *mark = gives_check(m);
        }
    }

    /// For evaluators: which moves of position `index` are marked as giving check, and the place for their
    /// probabilities.
    pub fn checks_mut(&mut self, index: usize) -> (&[bool], &mut [f32]) {
        let range = self.range(index);
        self.checks.resize(self.moves.len(), false);
        (&self.checks[range.clone()], &mut self.policy[range])
    }

    /// For evaluators: the inputs of all positions, and of position `index` the place for the probabilities of its
    /// moves.
    pub fn evaluation_mut(&mut self, index: usize) -> (&Inputs, &mut [f32]) {
        let range = self.range(index);
        (&self.inputs, &mut self.policy[range])
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
