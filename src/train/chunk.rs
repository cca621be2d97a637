//! The positions of one pass of a sparse network's training: inputs and targets, without padding.

use std::ops::Range;

use shakmaty::{Chess, Color, Position};

use super::data::{SampleBatch, SkipReason};
use super::targets::{Targets, ValueTarget};
use crate::dataset::record::Record;
use crate::sparse::attacks::Attacks;
use crate::sparse::features::{ActiveFeatures, InputSet, SquareView};
use crate::sparse::history::Past;
use crate::sparse::moves::{MoveRows, RowBuffer, Rows};

/// Lists of different lengths, stored contiguously.
#[derive(Clone, Debug)]
pub struct Lists {
    items: Vec<u16>,
    ends: Vec<usize>,
}

impl Default for Lists {
    fn default() -> Lists {
        Lists {
            items: Vec::new(),
            ends: vec![0],
        }
    }
}

impl Lists {
    /// Adds a list.
    pub fn push(&mut self, list: &[u16]) {
        self.items.extend_from_slice(list);
        self.ends.push(self.items.len());
    }

    /// Number of lists.
    #[expect(clippy::len_without_is_empty, reason = "no caller needs is_empty")]
    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// The range of a list within [`Lists::items`].
    #[inline(always)]
    pub fn range(&self, index: usize) -> Range<usize> {
        self.ends[index]..self.ends[index + 1]
    }

    /// The items of a list.
    #[inline(always)]
    pub fn get(&self, index: usize) -> &[u16] {
        &self.items[self.range(index)]
    }

    /// The items of all lists, one list after the other.
    pub fn items(&self) -> &[u16] {
        &self.items
    }

    fn clear(&mut self) {
        self.items.clear();
        self.ends.truncate(1);
    }
}

/// Training positions of a sparse network: inputs and targets of the policy network and of the value network.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// Active inputs of the positions with a policy target.
    pub policy_inputs: Lists,
    /// Policy rows of their legal moves.
    pub rows: Lists,
    /// Rows of these moves' classes; empty lists for networks without classes.
    pub classes: Lists,
    /// Target probabilities of these moves; they sum to 1 over a position.
    pub shares: Vec<f32>,
    /// Active inputs of the positions with a value target.
    pub value_inputs: Lists,
    /// Their value targets.
    pub values: Vec<ValueTarget>,
    /// The set of the inputs.
    pub set: InputSet,
}

impl Chunk {
    /// No positions, for a network with these inputs.
    pub fn of(set: InputSet) -> Chunk {
        Chunk {
            set,
            ..Chunk::default()
        }
    }

    /// Adds the policy rows of a position's moves.
    pub fn push_rows(&mut self, of_moves: MoveRows<'_>) {
        self.rows.push(of_moves.rows);
        self.classes.push(of_moves.classes);
    }

    /// The policy rows of a position's moves.
    pub fn move_rows(&self, index: usize) -> MoveRows<'_> {
        MoveRows {
            rows: self.rows.get(index),
            classes: self.classes.get(index),
        }
    }
}

impl SampleBatch for Chunk {
    const SAMPLES_RESULTS: bool = true;
    const MIRRORS: bool = false;

    fn clear(&mut self) {
        self.policy_inputs.clear();
        self.rows.clear();
        self.classes.clear();
        self.shares.clear();
        self.value_inputs.clear();
        self.values.clear();
    }

    fn inputs(&self) -> InputSet {
        self.set
    }

    fn add(&mut self, record: &Record, past: &Past, targets: &Targets) -> Result<(), SkipReason> {
        if targets.policy.is_empty() && targets.value.is_none() {
            return Err(SkipReason::Unlabelled);
        }
        let position = record.position().map_err(|_| SkipReason::Impossible)?;
        let view = SquareView::of(&position);
        let attacks = Attacks::of(&position);
        let mut features = ActiveFeatures::with(&position, view, &attacks);
        features.push_past(self.set, view, past);
        let rows = Rows::new(self.set, &position, view, &attacks, past);
        let has_policy = add_policy(&targets.policy, &position, rows, self);
        if has_policy {
            self.policy_inputs.push(features.as_slice());
        }
        if let Some(value) = targets.value {
            self.value_inputs.push(features.as_slice());
            self.values.push(value);
        }
        if has_policy || targets.value.is_some() {
            Ok(())
        } else {
            Err(SkipReason::Unlabelled)
        }
    }
}

/// Adds the rows and shares of the legal moves, unless none of them has a share.
fn add_policy(policy: &[(u16, f32)], position: &Chess, rows: Rows<'_>, chunk: &mut Chunk) -> bool {
    if policy.is_empty() {
        return false;
    }
    let moves = position.legal_moves();
    let start = chunk.shares.len();
    for &m in &moves {
        let packed = Record::pack_move(m, Color::White);
        let share = policy.iter().find(|(m, _)| *m == packed);
        chunk.shares.push(share.map_or(0.0, |(_, share)| *share));
    }
    let sum: f32 = chunk.shares[start..].iter().sum();
    if sum <= 0.0 {
        chunk.shares.truncate(start);
        return false;
    }
    chunk.shares[start..]
        .iter_mut()
        .for_each(|share| *share /= sum);
    let mut buffer = RowBuffer::default();
    chunk.push_rows(rows.of_moves(moves.iter().copied(), &mut buffer));
    true
}
