//! A network with known output.

use scorn::{
    chess::PackedMove,
    network::{Advice, Batch, EvaluateError, Evaluator, Info, Value},
};

/// A network whose value is the same in all positions, and whose priors halve from move to move, in the order of the
/// moves' codes (`rising`) or against it.
pub struct Ordered {
    pub rising: bool,
    pub wl: f32,
}

impl Ordered {
    pub fn policy(&self, moves: &[PackedMove]) -> Vec<f32> {
        let is_before = |a: &PackedMove, b: &PackedMove| (a.bits() < b.bits()) == self.rising;
        let weight = |m: &PackedMove| {
            let before = moves
                .iter()
                .filter(|other| *other != m && is_before(other, m));
            0.5f32.powi(before.count() as i32)
        };
        let sum: f32 = moves.iter().map(weight).sum();
        moves.iter().map(|m| weight(m) / sum).collect()
    }
}

impl Evaluator for Ordered {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        for index in 0..batch.len() {
            let (wl, policy) = (self.wl, self.policy(batch.moves(index)));
            batch.set_value(index, Value { wl, d: 0.0, m: 0.0 });
            batch.policy_mut(index).1.copy_from_slice(&policy);
        }
        Ok(())
    }

    fn info(&self) -> Info {
        Info {
            description: "ordered".into(),
            advice: Advice {
                threads: 1,
                minibatch: 8,
                min_batch: 1,
            },
            ..Info::default()
        }
    }
}
