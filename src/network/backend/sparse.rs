//! The `sparse` backend: sparse networks in integers, part of the program, for any CPU.
//!
//! It takes the widest vectors that the processor has and gives the same answers with all of them. Single positions are as fast
//! as batches, so it advises a search not to gather any.

use std::sync::Arc;

use parking_lot::Mutex;

use super::pool::Label;
use crate::{
    network::{
        Advice, Batch, EvaluateError, Evaluator, Value, cores,
        input::{Encoding, View},
    },
    sparse::{
        features::Features,
        infer::{Network, Scratch, softmax},
        simd::Level,
    },
};

/// Evaluates positions with a sparse network.
pub struct SparseEvaluator {
    label: Label,
    network: Arc<Network>,
    view: View,
    level: Level,
    /// Memory for as many threads as have evaluated at once.
    scratch: Mutex<Vec<Scratch>>,
}

impl SparseEvaluator {
    /// An evaluator that uses these instructions, and sees what the view says.
    pub fn new(label: Label, network: Arc<Network>, view: View, level: Level) -> SparseEvaluator {
        SparseEvaluator {
            label,
            network,
            view,
            level,
            scratch: Mutex::default(),
        }
    }

    /// What this evaluator is called.
    pub fn label(&self) -> &Label {
        &self.label
    }

    fn evaluate_one(
        &self,
        batch: &mut Batch,
        index: usize,
        scratch: &mut Scratch,
    ) -> Result<(), EvaluateError> {
        let temperature = batch.policy_temperature();
        let (inputs, _, policy) = batch.answer_mut(index);
        let features = Features::of_masks(inputs.masks(Encoding::Sparse.layout(), index));
        let (features, rows) = (features.as_slice(), inputs.move_rows(index));
        let network = &self.network;
        network.policy(self.level, features, rows, policy, scratch);
        for logit in policy.iter_mut() {
            *logit /= temperature;
        }
        softmax(policy);
        let value = network.value(self.level, features, scratch);
        let [win, draw, loss] = value.wdl;
        let value = Value {
            wl: win - loss,
            d: draw,
            m: value.plies,
        };
        if !(value.wl.is_finite() && value.d.is_finite() && value.m.is_finite()) {
            return Err(EvaluateError::NotFinite {
                network: self.label.network.clone(),
                output: "wdl".into(),
            });
        }
        batch.set_value(index, value);
        Ok(())
    }
}

impl Evaluator for SparseEvaluator {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        if batch.inputs().len() != batch.len() {
            return Err(EvaluateError::Backend {
                backend: self.label.backend,
                batch: batch.len(),
                message: format!("only {} positions have inputs", batch.inputs().len()),
            });
        }
        let mut scratch = self.scratch.lock().pop().unwrap_or_default();
        let mut positions = 0..batch.len();
        let done = positions.try_for_each(|index| self.evaluate_one(batch, index, &mut scratch));
        self.scratch.lock().push(scratch);
        done
    }

    fn view(&self) -> &View {
        &self.view
    }

    fn advice(&self) -> Advice {
        Advice {
            threads: cores(),
            minibatch: 1,
        }
    }

    fn describe(&self) -> String {
        let Label {
            backend,
            network,
            device,
            ..
        } = &self.label;
        format!("{backend} ({device}), network {network}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::moves::legal_moves,
        network::{input::key::HistoryRead, tests::game},
        options::HistoryFill,
        sparse::network::Shape,
    };

    fn evaluator(level: Level) -> SparseEvaluator {
        let shape = Shape {
            policy: 128,
            value: 64,
            hidden: 8,
        };
        let mut weights = shape.start(6);
        for (at, weight) in weights.iter_mut().enumerate() {
            *weight += 0.03 * (at as f32 * 0.7).sin();
        }
        let network = Arc::new(Network::quantize(shape, &weights));
        let view = View {
            encoding: Some(Encoding::Sparse),
            fill: HistoryFill::FenOnly,
            reads: HistoryRead::BOARD,
            moves_left: true,
        };
        let label = Label {
            backend: "sparse",
            network: "test".into(),
            device: "CPU".into(),
            note: String::new(),
        };
        SparseEvaluator::new(label, network, view, level)
    }

    /// Values and policies of these games, asked for in one batch.
    fn answers(evaluator: &SparseEvaluator, games: &[&str]) -> Vec<(Value, Vec<f32>)> {
        let mut batch = Batch::default();
        for moves in games {
            let start = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1";
            let game = game(start, moves);
            let moves: Vec<_> = legal_moves(game.position()).collect();
            evaluator.queue(game.plies(), &moves, &mut batch);
        }
        evaluator.evaluate(&mut batch).unwrap();
        let all = 0..batch.len();
        all.map(|at| (batch.value(at), batch.policy(at).to_vec()))
            .collect()
    }

    const GAMES: [&str; 4] = ["", "e1g1", "e1g1 e8c8", "d5d6"];

    #[test]
    fn batches_and_instruction_sets_change_nothing() {
        let plain = answers(&evaluator(Level::PLAIN), &GAMES);
        for (value, policy) in &plain {
            assert!((policy.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            assert!(value.wl.abs() < 1.0 && value.d > 0.0);
        }
        assert_ne!(plain[0].0, plain[1].0);
        for level in Level::available() {
            let evaluator = evaluator(level);
            let together = answers(&evaluator, &GAMES);
            assert!(together == plain, "{}", level.name());
            for (alone, expected) in GAMES.iter().zip(&plain) {
                assert!(answers(&evaluator, &[alone])[0] == *expected);
            }
        }
    }

    #[test]
    fn a_higher_temperature_evens_the_policy() {
        let evaluator = evaluator(Level::detect());
        let game = game("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "");
        let moves: Vec<_> = legal_moves(game.position()).collect();
        let mut most = Vec::new();
        for temperature in [1.0, 3.0] {
            let mut batch = Batch::default();
            evaluator.queue(game.plies(), &moves, &mut batch);
            batch.set_policy_temperature(temperature);
            evaluator.evaluate(&mut batch).unwrap();
            most.push(batch.policy(0).iter().copied().fold(0.0, f32::max));
        }
        assert!(most[1] < most[0] && most[1] >= 1.0 / moves.len() as f32);
    }

    #[test]
    fn positions_without_inputs_are_an_error() {
        let mut batch = Batch::default();
        batch.push(1, &[]);
        assert!(evaluator(Level::PLAIN).evaluate(&mut batch).is_err());
    }
}
