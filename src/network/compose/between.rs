//! Something between two networks of one kind: the priors and values of a player whose strength lies between those that the
//! networks were trained on.

use std::sync::Arc;

use crate::{
    chess::{PackedMove, Ply, moves::MOST_MOVES},
    network::{Batch, EvaluateError, Evaluator, Immediate, Value},
};

/// Two networks that see the same of a position, mixed. Has no memory of its own and asks for none.
pub struct Between {
    low: Arc<dyn Evaluator>,
    high: Arc<dyn Evaluator>,
    /// The share of `high`, 0..=1.
    share: f32,
    name: String,
}

impl Between {
    /// A mixture with this share of `high`, under this name.
    pub fn new(
        low: Arc<dyn Evaluator>,
        high: Arc<dyn Evaluator>,
        share: f32,
        name: String,
    ) -> Between {
        let share = share.clamp(0.0, 1.0);
        Between {
            low,
            high,
            share,
            name,
        }
    }

    fn mix(&self, low: f32, high: f32) -> f32 {
        low + self.share * (high - low)
    }

    fn mix_values(&self, low: Value, high: Value) -> Value {
        Value {
            wl: self.mix(low.wl, high.wl),
            d: self.mix(low.d, high.d),
            m: self.mix(low.m, high.m),
        }
    }
}

impl Evaluator for Between {
    fn inner(&self) -> Option<&dyn Evaluator> {
        Some(&*self.low)
    }

    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        let mut other = batch.clone_inputs();
        self.low.evaluate(batch)?;
        self.high.evaluate(&mut other)?;
        for index in 0..batch.len() {
            let value = self.mix_values(batch.value(index), other.value(index));
            batch.set_value(index, value);
            let policy = batch.policy_mut(index).1;
            for (low, &high) in policy.iter_mut().zip(other.policy(index)) {
                *low = self.mix(*low, high);
            }
        }
        Ok(())
    }

    fn immediate(&self) -> Option<&dyn Immediate> {
        let both = self.low.immediate().and(self.high.immediate());
        both.map(|_| self as &dyn Immediate)
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

impl Immediate for Between {
    fn value(&self, line: &[Ply]) -> Value {
        match (self.low.immediate(), self.high.immediate()) {
            (Some(low), Some(high)) => self.mix_values(low.value(line), high.value(line)),
            _ => Value::default(),
        }
    }

    fn policy(&self, line: &[Ply], moves: &[PackedMove], temperature: f32, policy: &mut [f32]) {
        let (Some(low), Some(high)) = (self.low.immediate(), self.high.immediate()) else {
            return;
        };
        let mut buffer = [0.0; MOST_MOVES];
        let others = &mut buffer[..policy.len()];
        low.policy(line, moves, temperature, policy);
        high.policy(line, moves, temperature, others);
        for (low, &high) in policy.iter_mut().zip(&*others) {
            *low = self.mix(*low, high);
        }
    }
}
