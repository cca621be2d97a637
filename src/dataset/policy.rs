//! What a network says about recorded positions, as training data for another one: the probability of each move in the
//! place of visits, the value in that of a search's. So a small network learns to be like a large one, or like the one that
//! knows how people of some rating play.

use anyhow::{Context, Result, ensure};

use super::{
    record::Record,
    searched::{self, ENTRY, POSITION, SHARED},
};
use crate::{
    chess::{History, PackedMove, moves::legal_moves},
    network::{Batch, Evaluator, Value},
};

/// What stands for a probability of 1.
const WHOLE: f32 = 1_000_000.0;

/// Positions with a network's answers, as they stand in a file (see [`searched`]).
#[derive(Default)]
pub struct Answers {
    positions: Vec<u8>,
    entries: Vec<u8>,
    /// Records whose position is over or impossible: they are left out.
    pub skipped: u64,
}

impl Answers {
    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.positions.len() / POSITION
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Asks about some records, all in one batch.
    ///
    /// # Errors
    /// When the network fails, or there are too many positions for one file.
    pub fn ask(&mut self, records: &[Record], evaluator: &dyn Evaluator) -> Result<()> {
        let mut batch = Batch::default();
        let mut asked = Vec::new();
        for record in records {
            let Ok(position) = record.position() else {
                self.skipped += 1;
                continue;
            };
            let history = History::new(position);
            let moves: Vec<PackedMove> = legal_moves(history.position()).collect();
            if moves.is_empty() {
                self.skipped += 1;
                continue;
            }
            evaluator.queue(history.plies(), &moves, &mut batch);
            asked.push((record, history));
        }
        if batch.is_empty() {
            return Ok(());
        }
        evaluator.evaluate(&mut batch)?;
        for (index, (record, history)) in asked.into_iter().enumerate() {
            let value = batch.value(index);
            let chances = batch.moves(index).iter().zip(batch.policy(index));
            self.push(record, &history, value, chances)?;
        }
        Ok(())
    }

    fn push<'p>(
        &mut self,
        record: &Record,
        history: &History,
        value: Value,
        chances: impl Iterator<Item = (&'p PackedMove, &'p f32)>,
    ) -> Result<()> {
        let position = history.position();
        let turn = shakmaty::Position::turn(position);
        let first = u32::try_from(self.entries.len() / ENTRY)
            .context("too many positions for one file: lower --count")?;
        let (mut sum, mut count, mut best) = (0_u32, 0_u16, (0, 0));
        for (m, p) in chances {
            let m = Record::pack_move(m.unpack(position), turn);
            let visits = (p * WHOLE).round() as u32;
            self.entries.extend(m.to_le_bytes());
            self.entries.extend(visits.to_le_bytes());
            (sum, count) = (sum + visits, count + 1);
            best = best.max((visits, m));
        }
        ensure!(sum > 0, "the network gives no move a chance");
        let record = Record {
            best: best.1,
            ..*record
        };
        let q = (value.wl.clamp(-1.0, 1.0) * 32767.0).round() as i16;
        let d = (value.d.clamp(0.0, 1.0) * 65535.0).round() as u16;
        self.positions.extend(&record.to_bytes()[..SHARED]);
        self.positions.extend(first.to_le_bytes());
        self.positions.extend(count.to_le_bytes());
        self.positions.extend(best.1.to_le_bytes());
        self.positions.extend(sum.to_le_bytes());
        self.positions.extend(q.to_le_bytes());
        self.positions.extend(d.to_le_bytes());
        Ok(())
    }

    /// The bytes of a file.
    pub fn to_file(&self) -> Vec<u8> {
        let entries = (self.entries.len() / ENTRY) as u64;
        let mut bytes = searched::header(self.len() as u64, entries);
        bytes.extend(&self.positions);
        bytes.extend(&self.entries);
        bytes
    }
}
