//! A network that knows more and is slower, for the priors of few positions: those that have had many visits (`RefineWeights`). There a
//! wrong prior costs most, and what it costs to ask is little beside the visits that the position has had.
//!
//! Values stay those of the main network: a position with hundreds of visits has its value from what lies below it.

use std::sync::Arc;

use shakmaty::{Color, Position};

use crate::{
    chess::{PackedMove, Ply},
    network::{Batch, EvaluateError, Evaluator, Immediate, Refiner},
};

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

    fn refiner(&self) -> Option<&dyn Refiner> {
        Some(self)
    }

    fn host(&self, work: &mut (dyn FnMut() + Send)) {
        self.main.host(&mut || self.refiner.host(work));
    }
}

impl Refiner for Refining {
    fn refine(
        &self,
        line: &[Ply],
        moves: &[PackedMove],
        policy: &mut [f32],
    ) -> Result<bool, EvaluateError> {
        let turn = line.last().map(|ply| ply.position.turn());
        if turn.is_none() || turn == self.modelled {
            return Ok(false);
        }
        if self.refiner.probe(line, policy).is_none() {
            let mut batch = Batch::default();
            let index = self.refiner.queue(line, moves, &mut batch);
            self.refiner.evaluate(&mut batch)?;
            policy.copy_from_slice(batch.policy(index));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::moves::legal_moves,
        network::{hash::HashEvaluator, tests::game},
    };

    #[test]
    fn only_a_side_that_nobody_models_is_refined() {
        let line = game("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "e2e4");
        let moves: Vec<PackedMove> = legal_moves(line.position()).collect();
        let refine = |modelled| {
            let refining = Refining {
                main: Arc::new(HashEvaluator),
                refiner: Arc::new(HashEvaluator),
                modelled,
            };
            let mut policy = vec![0.0; moves.len()];
            let refined = refining.refine(line.plies(), &moves, &mut policy).unwrap();
            (refined, policy.iter().sum::<f32>())
        };
        assert_eq!(refine(Some(Color::Black)), (false, 0.0));
        for modelled in [None, Some(Color::White)] {
            let (refined, sum) = refine(modelled);
            assert!(refined && (sum - 1.0).abs() < 1e-5);
        }
    }
}
