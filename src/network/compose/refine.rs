//! A network that knows more and is slower, for the priors of few positions: those that have had many visits (`RefineWeights`). There a
//! wrong prior costs most, and what it costs to ask is little beside the visits that the position has had.
//!
//! Values stay those of the main network: a position with hundreds of visits has its value from what lies below it.

use std::sync::Arc;

use shakmaty::Color;

use crate::network::{Batch, EvaluateError, Evaluator, Immediate, Refiner};

/// An evaluator with another one that refines its priors.
pub struct Refining {
    /// What judges every position.
    pub main: Arc<dyn Evaluator>,
    /// What knows more.
    pub refiner: Arc<dyn Evaluator>,
    /// Where this side moves nothing is refined: its priors are those of a model of the opponent.
    pub modelled: Option<Color>,
}

impl Evaluator for Refining {
    fn inner(&self) -> Option<&dyn Evaluator> {
        Some(&*self.main)
    }

    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        self.main.evaluate(batch)
    }

    fn immediate(&self) -> Option<&dyn Immediate> {
        self.main.immediate()
    }

    fn refiner(&self) -> Option<Refiner<'_>> {
        Some(Refiner {
            network: &*self.refiner,
            modelled: self.modelled,
        })
    }

    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        self.main
            .run_on_worker_thread(&mut || self.refiner.run_on_worker_thread(work));
    }
}
