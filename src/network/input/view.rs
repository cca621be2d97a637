//! What an evaluator sees of a position: everything that its evaluation depends on.

use super::{
    encoding::Encoding,
    key::{HistoryRead, position_key},
};
use crate::{
    chess::{PackedMove, Ply},
    network::Batch,
    options::HistoryFill,
};

/// An evaluator's view of a position: that of the backend, also for what combines or caches backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The input planes and the policy vector; `None` if the evaluator needs no more than the position's key.
    pub encoding: Option<Encoding>,
    /// How the history before the first position is filled.
    pub fill: HistoryFill,
    /// The part of the history that is read.
    pub reads: HistoryRead,
    /// Whether positions are seen with the colours exchanged.
    pub swap_colors: bool,
    /// Whether [`Value::m`](crate::network::Value::m) means anything.
    pub moves_left: bool,
}

impl View {
    /// Of an evaluator that looks at the position's key only.
    pub const KEY_ONLY: View = View {
        encoding: None,
        fill: HistoryFill::No,
        reads: HistoryRead::ALL,
        swap_colors: false,
        moves_left: false,
    };

    /// The key under which the current (last) position of a line is evaluated and cached: it differs whenever what is
    /// seen differs.
    pub fn key(&self, line: &[Ply]) -> u64 {
        match self.encoding {
            Some(_) => position_key(line, self.fill, &self.reads),
            None => line.last().map_or(0, |ply| ply.key),
        }
    }

    /// Adds the current position of a line, with its legal moves, to a batch; returns its index there.
    pub fn queue(&self, line: &[Ply], moves: &[PackedMove], batch: &mut Batch) -> usize {
        if let Some(encoding) = self.encoding {
            let seen = (self.fill, self.swap_colors);
            encoding.encode(line, moves, seen, batch.inputs_mut());
        }
        batch.push(self.key(line), moves)
    }
}
