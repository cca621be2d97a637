//! Tests of a network on held-out positions.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

use super::average::averaged;
use super::checkpoint::Checkpoint;
use super::chunk::Chunk;
use super::data::{GamesFile, test_set};
use super::step::{self, Losses, Workspace, entropy, plies_loss, value_error, wdl_cross_entropy};
use super::targets::ResultShare;
use crate::sparse::infer::{IntegerNetwork, Scratch, softmax};
use crate::sparse::network::{OUTPUTS, PLIES_UNIT, Shape};
use crate::sparse::simd::Level;

/// Means over the tested positions; NaN, which is null in JSON, where no position has such a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measures {
    /// Number of positions with a policy target.
    pub moves: f64,
    /// Negative logarithm of the probability of the target's best move (legal moves only).
    pub policy: f64,
    /// KL divergence of the policy from the target distribution.
    pub divergence: f64,
    /// Share of positions whose most probable move is the target's best move, 0..=1.
    pub top1: f64,
    /// Number of positions with a value target.
    pub values: f64,
    /// Cross-entropy of win, draw, loss.
    pub value: f64,
    /// Entropy of the value targets, the lower bound of the cross-entropy.
    pub floor: f64,
    /// Mean absolute error of W - L.
    pub error: f64,
    /// Huber loss of the plies left, in units of [`PLIES_UNIT`].
    pub plies: f64,
}

impl fmt::Display for Measures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "policy {} kl {} top-1 {} ({}) value {} (floor {}) |q error| {} ({}) plies {}",
            mean(self.policy),
            mean(self.divergence),
            known(self.top1, || format!("{:.2} %", 100.0 * self.top1)),
            self.moves,
            mean(self.value),
            mean(self.floor),
            mean(self.error),
            self.values,
            mean(self.plies),
        )
    }
}

fn mean(value: f64) -> String {
    known(value, || format!("{value:.4}"))
}

/// The text of a value, or `-` if there is none.
fn known(value: f64, text: impl FnOnce() -> String) -> String {
    if value.is_nan() {
        "-".to_owned()
    } else {
        text()
    }
}

/// A network under test.
pub trait MeasuredNetwork {
    /// Writes the chunk's move probabilities and values to the workspace.
    fn outputs(&mut self, chunk: &Chunk, workspace: &mut Workspace);
}

/// The network in floating point.
#[derive(Clone, Copy, Debug)]
pub struct FloatNetwork<'a> {
    /// Its sizes.
    pub shape: Shape,
    /// Its weights.
    pub weights: &'a [f32],
    /// SIMD instructions to use.
    pub level: Level,
}

impl MeasuredNetwork for FloatNetwork<'_> {
    fn outputs(&mut self, chunk: &Chunk, workspace: &mut Workspace) {
        step::run(self.level, self.shape, self.weights, chunk, None, workspace);
    }
}

/// The quantised network, as used for play.
#[derive(Clone, Debug)]
pub struct Integers<'a> {
    /// The network.
    pub network: &'a IntegerNetwork,
    /// SIMD instructions to use.
    pub level: Level,
    /// Reused buffers.
    pub scratch: Scratch,
}

impl MeasuredNetwork for Integers<'_> {
    fn outputs(&mut self, chunk: &Chunk, workspace: &mut Workspace) {
        let Integers {
            network,
            level,
            scratch,
        } = self;
        workspace.policy.clear();
        workspace.policy.resize(chunk.shares.len(), 0.0);
        for index in 0..chunk.policy_inputs.len() {
            let (inputs, rows) = (chunk.policy_inputs.get(index), chunk.move_rows(index));
            let policy = &mut workspace.policy[chunk.rows.range(index)];
            network.policy(*level, inputs, rows, policy, scratch);
            softmax(policy);
        }
        workspace.values.clear();
        for index in 0..chunk.value_inputs.len() {
            let value = network.value(*level, chunk.value_inputs.get(index), scratch);
            let [win, draw, loss] = value.wdl;
            let plies = value.plies / PLIES_UNIT;
            workspace.values.push([win, draw, loss, plies]);
        }
    }
}

/// Tests a network on chunks.
pub fn measure(network: &mut impl MeasuredNetwork, chunks: &[Chunk]) -> Measures {
    let mut sums = Measures::default();
    let mut losses = Losses::default();
    let mut workspace = Workspace::default();
    for chunk in chunks {
        network.outputs(chunk, &mut workspace);
        policy(chunk, &workspace.policy, &mut sums);
        value(chunk, &workspace.values, &mut sums, &mut losses);
    }
    let (moves, values) = (sums.moves, sums.values);
    Measures {
        policy: sums.policy / moves,
        divergence: sums.divergence / moves,
        top1: sums.top1 / moves,
        value: sums.value / values,
        floor: sums.floor / values,
        error: sums.error / values,
        plies: losses.plies / losses.plies_count,
        ..sums
    }
}

/// Test results of a checkpoint's averaged weights: in floating point and quantised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TestResults {
    /// In floating point, as trained.
    pub floating: Measures,
    /// Quantised to integers, as used for play.
    pub integers: Measures,
}

/// Tests a checkpoint on the test positions of a file (see [`test_set`]); `None` if it has none.
///
/// # Errors
/// When the file cannot be read.
pub fn measure_file(
    checkpoint: &Checkpoint,
    file: &GamesFile,
    count: usize,
    result_share: ResultShare,
) -> Result<Option<TestResults>> {
    let shape = checkpoint.shape;
    let weights = &averaged(&checkpoint.state, &checkpoint.progress);
    file.check_players(shape.inputs)?;
    let empty = || Chunk::of(shape.inputs);
    let chunks = test_set(file, count, result_share, empty)?.batches;
    let mut integers = Integers {
        network: &IntegerNetwork::quantize(shape, weights),
        level: Level::detect(),
        scratch: Scratch::default(),
    };
    let quality = TestResults {
        floating: measure_floating(shape, weights, &chunks),
        integers: measure(&mut integers, &chunks),
    };
    let is_any = chunks
        .iter()
        .any(|chunk| !chunk.values.is_empty() || !chunk.shares.is_empty());
    Ok(is_any.then_some(quality))
}

/// Tests weights in floating point.
pub(super) fn measure_floating(shape: Shape, weights: &[f32], chunks: &[Chunk]) -> Measures {
    let level = Level::detect();
    let mut network = FloatNetwork {
        shape,
        weights,
        level,
    };
    measure(&mut network, chunks)
}

fn policy(chunk: &Chunk, probabilities: &[f32], sums: &mut Measures) {
    for index in 0..chunk.policy_inputs.len() {
        let range = chunk.rows.range(index);
        let (probabilities, shares) = (&probabilities[range.clone()], &chunk.shares[range]);
        let most = probabilities.iter().copied().fold(0.0, f32::max);
        let moves = shares.iter().enumerate();
        let best = moves.max_by(|a, b| a.1.total_cmp(b.1));
        let best = best.map_or(0.0, |(at, _)| probabilities[at]);
        let terms = shares.iter().zip(probabilities);
        let crossed = terms.map(|(s, p)| s * p.max(f32::MIN_POSITIVE).ln());
        sums.divergence -= f64::from(crossed.sum::<f32>() + entropy(shares));
        sums.moves += 1.0;
        sums.policy -= f64::from(best.max(f32::MIN_POSITIVE)).ln();
        sums.top1 += if best == most { 1.0 } else { 0.0 };
    }
}

fn value(chunk: &Chunk, values: &[[f32; OUTPUTS]], sums: &mut Measures, losses: &mut Losses) {
    for (output, target) in values.iter().zip(&chunk.values) {
        let plies = plies_loss(output, target);
        losses.plies += f64::from(plies * target.plies_weight);
        losses.plies_count += f64::from(target.plies_weight);
        if target.weight == 0.0 {
            continue;
        }
        sums.values += 1.0;
        sums.value += f64::from(wdl_cross_entropy(&target.wdl, output));
        sums.floor += f64::from(entropy(&target.wdl));
        sums.error += f64::from(value_error(output, target).abs());
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::SmallRng};

    use super::{super::targets::ValueTarget, *};
    use crate::sparse::{
        features::InputSet,
        moves::{MoveRows, ROWS},
    };

    const SHAPE: Shape = Shape {
        policy: 192,
        value: 128,
        hidden: 7,
        stages: 4,
        inputs: InputSet::Position,
    };

    #[test]
    fn what_no_position_has_is_not_measured() {
        let weights = SHAPE.start(3);
        let mut network = FloatNetwork {
            shape: SHAPE,
            weights: &weights,
            level: Level::PLAIN,
        };
        let nothing = measure(&mut network, &[]);
        let text = "policy - kl - top-1 - (0) value - (floor -) |q error| - (0) plies -";
        assert_eq!(nothing.to_string(), text);
        // A position with a value only, which is drawn for certain.
        let mut chunk = Chunk::default();
        chunk.value_inputs.push(&[1, 2]);
        chunk.values.push(ValueTarget {
            wdl: [0.0, 1.0, 0.0],
            weight: 1.0,
            ..ValueTarget::default()
        });
        let measures = measure(&mut network, &[chunk]);
        let text = measures.to_string();
        let value = format!(
            "policy - kl - top-1 - (0) value {:.4} (floor 0.0000)",
            measures.value
        );
        assert!(text.starts_with(&value) && measures.value > 0.0, "{text}");
        assert!(text.ends_with("(1) plies -"), "{text}");
        let json = serde_json::to_value(measures).unwrap();
        assert!(json["policy"].is_null() && json["top1"].is_null() && json["plies"].is_null());
        assert_eq!((&json["moves"], &json["floor"]), (&0.0.into(), &0.0.into()));
    }

    #[test]
    fn integers_agree_with_the_network_that_was_trained() {
        let mut rng = SmallRng::seed_from_u64(9);
        // Something in every section.
        let mut weights = SHAPE.start(3);
        for weight in &mut weights {
            *weight += rng.random_range(-0.05..0.05);
        }
        let mut chunk = Chunk::default();
        for _ in 0..50 {
            let mut below = |count: usize, most: usize| -> Vec<u16> {
                let numbers = (0..count).map(|_| rng.random_range(0..most as u16));
                numbers.collect()
            };
            let inputs = below(3 + chunk.value_inputs.len() % 31, SHAPE.inputs.len());
            let rows = below(1 + chunk.value_inputs.len(), ROWS);
            chunk.policy_inputs.push(&inputs);
            chunk.push_rows(MoveRows::of(&rows, rows.len()));
            chunk.shares.resize(chunk.shares.len() + rows.len(), 0.0);
            chunk.value_inputs.push(&inputs);
            chunk.values.push(ValueTarget::default());
        }
        let network = IntegerNetwork::quantize(SHAPE, &weights);
        let (mut found, mut expected) = (Workspace::default(), Workspace::default());
        let mut integers = Integers {
            network: &network,
            level: Level::PLAIN,
            scratch: Scratch::default(),
        };
        integers.outputs(&chunk, &mut found);
        let mut floats = FloatNetwork {
            shape: SHAPE,
            weights: &weights,
            level: Level::PLAIN,
        };
        floats.outputs(&chunk, &mut expected);
        assert_eq!(found.policy.len(), expected.policy.len());
        for (found, expected) in found.policy.iter().zip(&expected.policy) {
            assert!((found - expected).abs() < 0.03 * expected + 1e-3);
        }
        assert_eq!(found.values.len(), 50);
        for (found, expected) in found.values.iter().zip(&expected.values) {
            let [wdl, expected_wdl] = [found, expected].map(|value| &value[..3]);
            for (found, expected) in wdl.iter().zip(expected_wdl) {
                assert!((found - expected).abs() < 0.02, "{wdl:?}");
            }
            let error = PLIES_UNIT * (found[3] - expected[3].max(0.0));
            assert!(error.abs() < 1.0, "{error}");
        }
    }
}
