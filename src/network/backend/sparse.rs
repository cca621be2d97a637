//! The `sparse` backend: sparse networks in integers, part of the program, for any CPU.
//!
//! It takes the widest vectors that the processor has and gives the same answers with all of them. Single positions
//! are as fast as batches, so it advises a search not to gather any.

use std::{cell::RefCell, sync::Arc};

use super::{
    error::LoadError,
    factory::{BackendFactory, BackendInfo, BackendKind, BackendRequest, SPARSE, evaluate_start},
    pool::Label,
};
use crate::{
    chess::Ply,
    lc0::{DataType, Operators},
    network::{
        Added, Advice, Batch, EvalPosition, EvaluateError, Evaluator, Info, Value, cores,
        input::{
            Encoding, View,
            encoding::{sparse_features, sparse_past},
        },
        source::NetworkSource,
    },
    sparse::{
        attacks::Attacks,
        features::{ActiveFeatures, SquareView},
        file,
        history::Past,
        infer::{IntegerNetwork, Scratch},
        moves::{MoveRows, RowBuffer, Rows},
        simd::Level,
    },
};

/// Description of `sparse`.
pub static INFO: BackendInfo = BackendInfo {
    name: SPARSE,
    lc0_names: &[],
    kind: BackendKind::Device { is_automatic: true },
    summary: "sparse networks, such as the built-in one",
    documentation: "sparse networks (`scorn train`, the built-in network) in 8- and 16-bit integers with AVX-512 VNNI, \
        AVX2, NEON or portable code; the results are identical with all of them, and do not depend on the batch. \
        `rten` and `onnx-cpu` run the same file in floats and agree within 1e-6 (tolerance of the tests: 1e-3), but \
        do not pass the side to move to an odds network. It refuses other networks, and `auto` skips it for them",
    requirements: "",
    install_command: None,
    settings: &[],
};

/// The backend `sparse`.
pub struct Sparse;

impl BackendFactory for Sparse {
    fn info(&self) -> &BackendInfo {
        &INFO
    }

    fn is_meant_for(&self, network: &NetworkSource) -> bool {
        network.is_sparse()
    }

    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        INFO.check_settings(request.options)?;
        let network = request.network_as(DataType::Float32, false, Operators::Standard)?;
        if network.onnx.sparse.is_none() {
            let message = "it is not a sparse network; those are made by \"scorn train\"";
            return Err(INFO.refused(&network.name, message));
        }
        let integers = file::read(&network.onnx.bytes)
            .map_err(|error| INFO.refused(&network.name, &error.to_string()))?;
        let level = Level::detect();
        let label = request.label(&INFO, &network, format!("CPU, {}", level.name()));
        let view = request.view(&network.onnx);
        let evaluator = SparseEvaluator::new(label, Arc::new(integers), view, level);
        evaluate_start(&evaluator)?;
        Ok(Arc::new(evaluator))
    }
}

/// Evaluates positions with a sparse network.
pub struct SparseEvaluator {
    label: Label,
    network: Arc<IntegerNetwork>,
    view: View,
    level: Level,
    /// Processors that it may use; counting them takes as long as ten evaluations.
    processors: usize,
}

thread_local! {
    /// The memory of a thread: what all threads share would be fetched from another processor for each position.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl SparseEvaluator {
    /// An evaluator that uses these instructions, for positions encoded according to `view`.
    pub fn new(
        label: Label,
        network: Arc<IntegerNetwork>,
        view: View,
        level: Level,
    ) -> SparseEvaluator {
        SparseEvaluator {
            label,
            network,
            view,
            level,
            processors: cores(),
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
        let (inputs, policy) = batch.evaluation_mut(index);
        let set = self.network.inputs;
        let masks = inputs.masks(Encoding::Sparse(set).layout(), index);
        let features = ActiveFeatures::of_masks(set, masks);
        let rows = MoveRows::of(inputs.move_rows(index), policy.len());
        let features = features.as_slice();
        self.policy_of(features, rows, temperature, policy, scratch);
        let value = self.value_of(features, scratch);
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

impl SparseEvaluator {
    /// What the network sees besides the position.
    fn past(&self, position: &EvalPosition<'_>) -> Past {
        Past {
            mover: position.mover(),
            ..sparse_past(self.network.inputs, position.line())
        }
    }

    /// The value of a position with these features.
    fn value_of(&self, features: &[u16], scratch: &mut Scratch) -> Value {
        let value = self.network.value(self.level, features, scratch);
        let [win, draw, loss] = value.wdl;
        Value {
            wl: win - loss,
            d: draw,
            m: value.plies,
        }
    }

    /// The probabilities of moves with these rows.
    fn policy_of(
        &self,
        features: &[u16],
        rows: MoveRows<'_>,
        temperature: f32,
        policy: &mut [f32],
        scratch: &mut Scratch,
    ) {
        self.network
            .priors(self.level, features, rows, temperature, policy, scratch);
    }
}

impl Evaluator for SparseEvaluator {
    fn add(&self, position: &mut EvalPosition<'_>, _: &mut Batch) -> Added {
        let line = position.line();
        let Some(Ply { position: last, .. }) = line.last() else {
            return Added::Computed(Value::default());
        };
        let (view, attacks) = (SquareView::of(last), Attacks::of(last));
        let (set, past) = (self.network.inputs, self.past(position));
        let features = sparse_features(set, last, view, &attacks, &past);
        let value = |scratch: &mut Scratch| self.value_of(features.as_slice(), scratch);
        Added::Computed(SCRATCH.with_borrow_mut(value))
    }

    fn priors(&self, position: &mut EvalPosition<'_>, temperature: f32) {
        let line = position.line();
        let Some(Ply { position: last, .. }) = line.last() else {
            return;
        };
        let (view, attacks) = (SquareView::of(last), Attacks::of(last));
        let (set, past) = (self.network.inputs, self.past(position));
        let features = sparse_features(set, last, view, &attacks, &past);
        let rows = Rows::new(set, last, view, &attacks, &past);
        let (moves, priors) = position.policy();
        let mut buffer = RowBuffer::default();
        let rows = rows.of_moves(moves.iter().map(|m| m.unpack(last)), &mut buffer);
        SCRATCH.with_borrow_mut(|scratch| {
            self.policy_of(features.as_slice(), rows, temperature, priors, scratch);
        });
    }

    /// Of positions that were queued by the [view](Evaluator::view), for evaluators that compare backends or share
    /// positions out among several.
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        if batch.inputs().len() != batch.len() {
            return Err(EvaluateError::Backend {
                backend: self.label.backend,
                batch: batch.len(),
                message: format!("only {} positions have inputs", batch.inputs().len()),
            });
        }
        SCRATCH.with_borrow_mut(|scratch| {
            (0..batch.len()).try_for_each(|index| self.evaluate_one(batch, index, scratch))
        })
    }

    fn view(&self) -> &View {
        &self.view
    }

    fn info(&self) -> Info {
        Info {
            description: self.label.to_string(),
            advice: Advice {
                threads: self.processors,
                // It needs no batches, but in a large tree visits that go down together find their leaves in less time.
                minibatch: 16,
                min_batch: 1,
            },
            computes_at_once: true,
            max_threads: Some(self.processors),
            reads_mover: self.network.inputs.has_mover(),
            ..Info::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use shakmaty::Color;

    use super::*;
    use crate::{
        chess::moves::{MAX_MOVES, legal_moves},
        network::{
            compose::cached::NetworkSettings, evaluator::evaluate_all, input::key::HistoryRead,
            tests::game,
        },
        options::HistoryFill,
        sparse::{features::InputSet, network::Shape},
    };

    const ALL: [InputSet; 5] = [
        InputSet::Position,
        InputSet::Classes,
        InputSet::History,
        InputSet::Opponent,
        InputSet::OpponentClasses,
    ];

    fn evaluator(level: Level) -> SparseEvaluator {
        evaluator_with(InputSet::Position, level)
    }

    fn evaluator_with(inputs: InputSet, level: Level) -> SparseEvaluator {
        let shape = Shape {
            policy: 128,
            value: 64,
            hidden: 8,
            stages: 4,
            inputs,
        };
        let mut weights = shape.start(6);
        for (at, weight) in weights.iter_mut().enumerate() {
            *weight += 0.03 * (at as f32 * 0.7).sin();
        }
        let network = Arc::new(IntegerNetwork::quantize(shape, &weights));
        let view = View {
            encoding: Some(Encoding::Sparse(inputs)),
            swap_colors: false,
            fill: HistoryFill::FenOnly,
            reads: match inputs {
                InputSet::History => HistoryRead::boards(3),
                _ => HistoryRead::BOARD,
            },
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

    /// Values and policies of these games, evaluated in one batch.
    fn answers(evaluator: &SparseEvaluator, games: &[&str]) -> Vec<(Value, Vec<f32>)> {
        let mut batch = Batch::default();
        for moves in games {
            let start = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1";
            let game = game(start, moves);
            let moves: Vec<_> = legal_moves(game.position()).collect();
            evaluator.view().queue(game.plies(), &moves, &mut batch);
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
            evaluator.view().queue(game.plies(), &moves, &mut batch);
            batch.set_policy_temperature(temperature);
            evaluator.evaluate(&mut batch).unwrap();
            most.push(batch.policy(0).iter().copied().fold(0.0, f32::max));
        }
        assert!(most[1] < most[0] && most[1] >= 1.0 / moves.len() as f32);
    }

    #[test]
    fn what_is_computed_at_once_is_what_batches_give() {
        let settings = NetworkSettings {
            temperature: 1.4,
            cache: 1000,
            ..NetworkSettings::NONE
        };
        for inputs in ALL {
            let evaluator = evaluator_with(inputs, Level::detect());
            let evaluator = settings.over(Arc::new(evaluator));
            let start = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1";
            for moves in GAMES {
                let game = game(start, moves);
                let moves: Vec<_> = legal_moves(game.position()).collect();
                let mut batch = Batch::default();
                evaluator.view().queue(game.plies(), &moves, &mut batch);
                evaluator.evaluate(&mut batch).unwrap();
                let at_once = &evaluate_all(&*evaluator, [game.plies()]).unwrap()[0];
                assert_eq!(at_once.value, batch.value(0));
                assert_eq!(at_once.priors, batch.policy(0));
            }
        }
    }

    #[test]
    fn only_a_network_of_history_sees_which_move_led_to_a_position() {
        let start = "4k3/8/8/8/8/8/8/R3K2R w - - 0 1";
        let different = |inputs: InputSet| {
            let settings = NetworkSettings {
                cache: 1000,
                ..NetworkSettings::NONE
            };
            let evaluator = settings.over(Arc::new(evaluator_with(inputs, Level::detect())));
            let priors = ["a1a2 e8e7 h1h2", "h1h2 e8e7 a1a2"].map(|moves| {
                let game = game(start, moves);
                evaluate_all(&*evaluator, [game.plies()]).unwrap()[0]
                    .priors
                    .clone()
            });
            priors[0] != priors[1]
        };
        assert!(!different(InputSet::Position));
        assert!(different(InputSet::History));
    }

    #[test]
    fn only_a_network_of_the_opponent_asks_who_is_to_move() {
        let game = game("4k3/8/8/8/8/8/8/R3K2R w - - 0 1", "");
        let values = |inputs: InputSet| {
            let evaluator = evaluator_with(inputs, Level::detect());
            let for_sides = [None, Some(Color::White), Some(Color::Black)];
            for_sides.map(|side| {
                let (mut moves, mut priors) = (Vec::new(), [0.0; MAX_MOVES]);
                let position = EvalPosition::new(game.plies(), &mut moves, &mut priors);
                let mut position = position.searched_for(side);
                match evaluator.add(&mut position, &mut Batch::default()) {
                    Added::Computed(value) => value,
                    other => panic!("{other:?}"),
                }
            })
        };
        let [nobody, engine, opponent] = values(InputSet::Opponent);
        assert!(nobody != engine && engine != opponent && opponent != nobody);
        for inputs in [InputSet::Position, InputSet::History] {
            let [first, others @ ..] = values(inputs);
            assert_eq!(others, [first; 2], "{inputs:?}");
        }
    }

    #[test]
    fn positions_without_inputs_are_an_error() {
        let mut batch = Batch::default();
        batch.push(1, &[]);
        assert!(evaluator(Level::PLAIN).evaluate(&mut batch).is_err());
    }
}
