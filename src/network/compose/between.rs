//! A mixture of two networks of one kind: the priors and values of a player whose strength lies between those of the
//! players that the networks were trained on.

use std::sync::Arc;

use crate::{
    chess::moves::MAX_MOVES,
    network::{Added, Batch, EvalPosition, EvaluateError, Evaluator, Info, Value, input::View},
};

/// Two networks that see the same of a position, mixed.
pub struct Between {
    low: Arc<dyn Evaluator>,
    high: Arc<dyn Evaluator>,
    /// The share of `high`, 0..=1.
    share: f32,
    name: String,
    computes_at_once: bool,
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
        let computes_at_once = low.info().computes_at_once && high.info().computes_at_once;
        Between {
            computes_at_once,
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

    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        if self.computes_at_once
            && let Added::Computed(low) = self.low.add(position, batch)
            && let Added::Computed(high) = self.high.add(position, batch)
        {
            return Added::Computed(self.mix_values(low, high));
        }
        let line = position.line();
        Added::Queued(self.view().queue(line, position.moves(), batch))
    }

    fn priors(&self, position: &mut EvalPosition<'_>, temperature: f32) {
        let mut buffer = [0.0; MAX_MOVES];
        self.low.priors(position, temperature);
        self.high
            .priors(&mut position.with_priors(&mut buffer), temperature);
        for (low, &high) in position.policy().1.iter_mut().zip(&buffer) {
            *low = self.mix(*low, high);
        }
    }

    fn view(&self) -> &View {
        self.low.view()
    }

    fn info(&self) -> Info {
        Info {
            description: self.name.clone(),
            computes_at_once: self.computes_at_once,
            ..self.low.info()
        }
    }

    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        self.low.run_on_worker_thread(work);
    }

    fn warm_up(&self, may_continue: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        self.low.warm_up(may_continue)
    }
}
