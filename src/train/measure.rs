//! Tests of a network on held-out positions.

use std::fmt;

use super::step::{self, Chunk, Losses, Workspace, entropy};
use crate::sparse::infer::{self, Scratch, softmax};
use serde::Serialize;

use crate::sparse::network::{PLIES_UNIT, Shape};
use crate::sparse::simd::Level;

/// Means over the tested positions.
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
            "policy {:.4} kl {:.4} top-1 {:.2} % ({}) value {:.4} (floor {:.4}) |q error| {:.4} ({}) plies {:.4}",
            self.policy,
            self.divergence,
            100.0 * self.top1,
            self.moves,
            self.value,
            self.floor,
            self.error,
            self.values,
            self.plies,
        )
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
    pub network: &'a infer::IntegerNetwork,
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
    let (moves, values) = (sums.moves.max(1.0), sums.values.max(1.0));
    Measures {
        policy: sums.policy / moves,
        divergence: sums.divergence / moves,
        top1: sums.top1 / moves,
        value: sums.value / values,
        floor: sums.floor / values,
        error: sums.error / values,
        plies: losses.plies / losses.plies_count.max(1.0),
        ..sums
    }
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

fn value(chunk: &Chunk, values: &[[f32; 4]], sums: &mut Measures, losses: &mut Losses) {
    for (output, target) in values.iter().zip(&chunk.values) {
        let error = f64::from((output[3] - target.plies).abs());
        let plies = if error < 1.0 {
            error * error / 2.0
        } else {
            error - 0.5
        };
        losses.plies += plies * f64::from(target.plies_weight);
        losses.plies_count += f64::from(target.plies_weight);
        if target.weight == 0.0 {
            continue;
        }
        let entropy = |of: &[f32]| -> f64 {
            let terms = target.wdl.iter().zip(of);
            -terms
                .map(|(t, p)| f64::from(t * (p + 1e-9).ln()))
                .sum::<f64>()
        };
        sums.values += 1.0;
        sums.value += entropy(&output[..3]);
        sums.floor += entropy(&target.wdl);
        let (q, target_q) = (output[0] - output[2], target.wdl[0] - target.wdl[2]);
        sums.error += f64::from((q - target_q).abs());
    }
}
