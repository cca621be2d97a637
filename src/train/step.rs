//! One forward and backward pass over a chunk of a few hundred positions: outputs, losses, gradients.
//!
//! The first layers take most of the time and are bound by memory. They are computed in blocks of columns, each for all
//! positions of the chunk, so that the block's part of the table stays in the cache. Everything else is computed
//! position by position. The losses are the cross-entropy of the policy over the legal moves, the cross-entropy of
//! W/D/L or the squared error of W - L ([`ValueLoss`]), and the Huber loss of the plies left.

use std::ops::{AddAssign, Range};

use super::chunk::{Chunk, Lists};
use super::targets::ValueTarget;
use crate::sparse::classes::MoveClasses;
use crate::sparse::moves::{MoveRows, ROWS};
use crate::sparse::network::{BLOCK, OUTPUTS, PAIRS, Section, Sections, Shape};
use crate::sparse::simd::{Isa, Kernel, Level};

/// Sums of losses over positions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// Cross-entropy of the policy.
    pub policy: f64,
    /// Number of positions with a policy target.
    pub policy_count: f64,
    /// Entropy of the policy targets. Cross-entropy minus entropy is the KL divergence.
    pub entropy: f64,
    /// Weighted loss of the value.
    pub value: f64,
    /// Sum of the weights of the value targets.
    pub value_count: f64,
    /// Huber loss of the plies left.
    pub plies: f64,
    /// Number of positions whose plies left are known.
    pub plies_count: f64,
}

impl AddAssign for Losses {
    fn add_assign(&mut self, other: Losses) {
        self.policy += other.policy;
        self.policy_count += other.policy_count;
        self.entropy += other.entropy;
        self.value += other.value;
        self.value_count += other.value_count;
        self.plies += other.plies;
        self.plies_count += other.plies_count;
    }
}

/// The value loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ValueLoss {
    /// The cross-entropy of win, draw and loss.
    #[default]
    CrossEntropy,
    /// `(z - v)^2` with `v` = W - L of the output and `z` = W - L of the target, as in AlphaZero (Silver et al. 2018,
    /// equation 1). It gives no gradient for the draw probability alone.
    Squared,
}

/// Scales of the gradients of the losses.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// Scale of a position's policy gradient.
    pub policy: f32,
    /// Scale of a position's value gradient.
    pub value: f32,
    /// Scale of a position's plies gradient.
    pub plies: f32,
    /// The value loss.
    pub value_loss: ValueLoss,
}

/// Reused buffers: activations, gradients of the activations, and the outputs of the last chunk.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// Probabilities of all moves, in the order of the chunk's rows.
    pub policy: Vec<f32>,
    /// Probabilities of W, D, L and the plies left, for each position with a value target.
    pub values: Vec<[f32; OUTPUTS]>,
    clipped: Vec<f32>,
    products: Vec<f32>,
    gradients: Vec<f32>,
}

/// Computes the outputs and losses of a chunk. With `gradient` (as long as the weights), adds the gradient to it;
/// without it, the value loss is the cross-entropy.
pub fn run(
    level: Level,
    shape: Shape,
    weights: &[f32],
    chunk: &Chunk,
    gradient: Option<(&mut [f32], Scales)>,
    workspace: &mut Workspace,
) -> Losses {
    let sections = &shape.sections();
    level.run(Pass {
        shape,
        sections,
        weights,
        chunk,
        gradient,
        workspace,
    })
}

struct Pass<'a> {
    shape: Shape,
    sections: &'a Sections,
    weights: &'a [f32],
    chunk: &'a Chunk,
    gradient: Option<(&'a mut [f32], Scales)>,
    workspace: &'a mut Workspace,
}

impl Kernel for Pass<'_> {
    type Output = Losses;

    #[inline(always)]
    fn run<I: Isa>(mut self, _: I) -> Losses {
        let mut losses = Losses::default();
        self.policy(&mut losses);
        self.value(&mut losses);
        losses
    }
}

/// Writes the logits of moves, given the logit of a row, which is computed once for each class.
#[inline(always)]
fn write_logits(of_moves: MoveRows<'_>, logits: &mut [f32], logit_of: impl Fn(usize) -> f32) {
    for (logit, &row) in logits.iter_mut().zip(of_moves.rows) {
        *logit = logit_of(row.into());
    }
    let mut known = [None; MoveClasses::MOST];
    for (logit, &row) in logits.iter_mut().zip(of_moves.classes) {
        let row = usize::from(row);
        *logit += *known[row - ROWS].get_or_insert_with(|| logit_of(row));
    }
}

/// Calls `add` with each row and the gradient of its logit, given those of the moves.
#[inline(always)]
fn for_each_row(of_moves: MoveRows<'_>, gradients: &[f32], mut add: impl FnMut(usize, f32)) {
    for (gradient, &row) in gradients.iter().zip(of_moves.rows) {
        add(row.into(), *gradient);
    }
    let mut sums = [0.0; MoveClasses::MOST];
    for (gradient, &row) in gradients.iter().zip(of_moves.classes) {
        sums[usize::from(row) - ROWS] += gradient;
    }
    for &row in of_moves.classes {
        let row = usize::from(row);
        match std::mem::take(&mut sums[row - ROWS]) {
            0.0 => {}
            gradient => add(row, gradient),
        }
    }
}

impl Pass<'_> {
    #[inline(always)]
    fn policy(&mut self, losses: &mut Losses) {
        let (s, ws, chunk) = (self.sections, &mut *self.workspace, self.chunk);
        let width = self.shape.policy;
        let layer = FirstLayer::new(width, self.weights, &s.policy_in, &s.policy_bias);
        layer.forward(&chunk.policy_inputs, ws);
        let rows = &self.weights[s.rows.range.clone()];
        let biases = &self.weights[s.rows_bias.range.clone()];
        ws.policy.clear();
        ws.policy.resize(chunk.shares.len(), 0.0);
        ws.gradients.clear();
        ws.gradients.resize(ws.products.len(), 0.0);
        for index in 0..chunk.policy_inputs.len() {
            let (range, of_moves) = (chunk.rows.range(index), chunk.move_rows(index));
            let products = &ws.products[index * width / 2..(index + 1) * width / 2];
            let logits = &mut ws.policy[range.clone()];
            write_logits(of_moves, logits, |row: usize| {
                biases[row] + dot(&rows[row * width / 2..(row + 1) * width / 2], products)
            });
            let shares = &chunk.shares[range];
            losses.policy += f64::from(cross_entropy(logits, shares));
            losses.policy_count += 1.0;
            losses.entropy += f64::from(entropy(shares));
            let Some((gradient, scales)) = &mut self.gradient else {
                continue;
            };
            let gradients = &mut ws.gradients[index * width / 2..(index + 1) * width / 2];
            // `logits` holds probabilities now, and then their gradients.
            for (logit, share) in logits.iter_mut().zip(shares) {
                *logit = scales.policy * (*logit - share);
            }
            for_each_row(of_moves, logits, |row: usize, logit_gradient: f32| {
                let at = row * width / 2..(row + 1) * width / 2;
                add_scaled(gradients, &rows[at.clone()], logit_gradient);
                let start = s.rows.range.start;
                add_scaled(&mut gradient[start..][at], products, logit_gradient);
                gradient[s.rows_bias.range.start + row] += logit_gradient;
            });
        }
        if let Some((gradient, _)) = &mut self.gradient {
            let (inputs, bias) = (&s.policy_in, &s.policy_bias);
            backward(width, gradient, inputs, bias, &chunk.policy_inputs, ws);
        }
    }

    #[inline(always)]
    fn value(&mut self, losses: &mut Losses) {
        let (s, ws, chunk) = (self.sections, &mut *self.workspace, self.chunk);
        let width = self.shape.value;
        let layer = FirstLayer::new(width, self.weights, &s.value_in, &s.value_bias);
        layer.forward(&chunk.value_inputs, ws);
        ws.values.clear();
        ws.gradients.clear();
        ws.gradients.resize(ws.products.len(), 0.0);
        let mut head = HiddenLayers::new(self.shape, s, self.weights);
        for (index, target) in chunk.values.iter().enumerate() {
            let inputs = chunk.value_inputs.get(index);
            let at = index * width / 2..(index + 1) * width / 2;
            let output = head.forward(inputs, &ws.products[at.clone()]);
            ws.values.push(output);
            let kind = self.gradient.as_ref().map(|(_, scales)| scales.value_loss);
            let (loss, plies_loss) = value_losses(kind.unwrap_or_default(), &output, target);
            losses.value += f64::from(loss * target.weight);
            losses.value_count += f64::from(target.weight);
            losses.plies += f64::from(plies_loss * target.plies_weight);
            losses.plies_count += f64::from(target.plies_weight);
            if let Some((gradient, scales)) = &mut self.gradient {
                let gradients = output_gradients(&output, target, *scales);
                let (products, below) = (&ws.products[at.clone()], &mut ws.gradients[at]);
                head.backward(gradient, inputs, products, gradients, below);
            }
        }
        if let Some((gradient, _)) = &mut self.gradient {
            let (inputs, bias) = (&s.value_in, &s.value_bias);
            backward(width, gradient, inputs, bias, &chunk.value_inputs, ws);
        }
    }
}

/// A first layer: sums the table rows of the active inputs, in blocks of columns.
struct FirstLayer<'a> {
    width: usize,
    /// How many inputs there are.
    inputs: usize,
    table: &'a [[f32; BLOCK]],
    bias: &'a [[f32; BLOCK]],
}

impl<'a> FirstLayer<'a> {
    #[inline(always)]
    fn new(width: usize, weights: &'a [f32], table: &Section, bias: &Section) -> FirstLayer<'a> {
        FirstLayer {
            width,
            inputs: table.range.len() / width,
            table: weights[table.range.clone()].as_chunks().0,
            bias: weights[bias.range.clone()].as_chunks().0,
        }
    }

    /// Fills the workspace with the clipped sums [block][position][column] and their products [position][product].
    #[inline(always)]
    fn forward(&self, lists: &Lists, ws: &mut Workspace) {
        let (count, half) = (lists.len(), self.width / 2);
        ws.clipped.resize(count * self.width, 0.0);
        ws.products.resize(count * half, 0.0);
        let clipped = ws.clipped.as_chunks_mut::<BLOCK>().0;
        for (block, bias) in self.bias.iter().enumerate() {
            let table = &self.table[block * self.inputs..(block + 1) * self.inputs];
            for index in 0..count {
                let mut sums = *bias;
                for &input in lists.get(index) {
                    let row = &table[usize::from(input)];
                    for (sum, weight) in sums.iter_mut().zip(row) {
                        *sum += weight;
                    }
                }
                for sum in &mut sums {
                    *sum = sum.clamp(0.0, 1.0);
                }
                let start = index * half + block * PAIRS;
                let products = &mut ws.products[start..start + PAIRS];
                for pair in 0..PAIRS {
                    products[pair] = sums[pair] * sums[PAIRS + pair];
                }
                clipped[block * count + index] = sums;
            }
        }
    }
}

/// Adds the gradient of a first layer's weights, given the gradients of its products.
#[inline(always)]
fn backward(
    width: usize,
    gradient: &mut [f32],
    table: &Section,
    bias: &Section,
    lists: &Lists,
    ws: &Workspace,
) {
    let (count, half) = (lists.len(), width / 2);
    let clipped = ws.clipped.as_chunks::<BLOCK>().0;
    // Weights of a block.
    let size = table.range.len() / (width / BLOCK);
    for block in 0..width / BLOCK {
        let mut bias_gradients = [0.0; BLOCK];
        let start = table.range.start + block * size;
        let table = gradient[start..start + size].as_chunks_mut::<BLOCK>().0;
        for index in 0..count {
            let values = &clipped[block * count + index];
            let at = index * half + block * PAIRS;
            let gradients = &ws.gradients[at..at + PAIRS];
            let mut sums = [0.0; BLOCK];
            for pair in 0..PAIRS {
                let (first, second) = (values[pair], values[PAIRS + pair]);
                // Where the sum is clipped its gradient is 0.
                let passes = |value: f32| f32::from(u8::from(value > 0.0 && value < 1.0));
                sums[pair] = gradients[pair] * second * passes(first);
                sums[PAIRS + pair] = gradients[pair] * first * passes(second);
            }
            for &input in lists.get(index) {
                let row = &mut table[usize::from(input)];
                for (place, value) in row.iter_mut().zip(&sums) {
                    *place += value;
                }
            }
            for (place, value) in bias_gradients.iter_mut().zip(&sums) {
                *place += value;
            }
        }
        let start = bias.range.start + block * BLOCK;
        for (place, value) in gradient[start..start + BLOCK]
            .iter_mut()
            .zip(&bias_gradients)
        {
            *place += value;
        }
    }
}

/// The value network after its first layer.
struct HiddenLayers<'a> {
    shape: Shape,
    /// The stage of the last position of [`HiddenLayers::forward`].
    stage: usize,
    sections: &'a Sections,
    weights: &'a [f32],
    /// Activations of the hidden layers: sums clipped to 0..1, and their squares.
    first: Vec<f32>,
    first_squares: Vec<f32>,
    second: Vec<f32>,
    second_squares: Vec<f32>,
    gradients: Vec<f32>,
    gradients_below: Vec<f32>,
}

impl<'a> HiddenLayers<'a> {
    #[inline(always)]
    fn new(shape: Shape, sections: &'a Sections, weights: &'a [f32]) -> HiddenLayers<'a> {
        let zeros = || vec![0.0; shape.hidden];
        HiddenLayers {
            shape,
            stage: 0,
            sections,
            weights,
            first: zeros(),
            first_squares: zeros(),
            second: zeros(),
            second_squares: zeros(),
            gradients: zeros(),
            gradients_below: zeros(),
        }
    }

    /// The range of the weights of the position's stage.
    #[inline(always)]
    fn of_stage(&self, section: &Section) -> Range<usize> {
        let len = section.range.len() / self.shape.stages;
        let start = section.range.start + self.stage * len;
        start..start + len
    }

    /// Probabilities of W, D, L, and plies left.
    #[inline(always)]
    fn forward(&mut self, inputs: &[u16], products: &[f32]) -> [f32; OUTPUTS] {
        self.stage = self.shape.stage(inputs);
        let (s, weights) = (self.sections, self.weights);
        let [hidden, hidden_bias, second, second_bias, out, out_bias] = [
            &s.hidden,
            &s.hidden_bias,
            &s.second,
            &s.second_bias,
            &s.out,
            &s.out_bias,
        ]
        .map(|section| &weights[self.of_stage(section)]);
        self.first.copy_from_slice(hidden_bias);
        add_product(&mut self.first, hidden, products);
        squared_crelu(&mut self.first, &mut self.first_squares);
        self.second.copy_from_slice(second_bias);
        add_product(&mut self.second, second, &self.first_squares);
        squared_crelu(&mut self.second, &mut self.second_squares);
        let mut outputs = [0.0; OUTPUTS];
        outputs.copy_from_slice(out_bias);
        add_product(&mut outputs, out, &self.second_squares);
        let direct = weights[s.direct.range.clone()].as_chunks::<OUTPUTS>().0;
        for &input in inputs {
            for (output, weight) in outputs.iter_mut().zip(&direct[usize::from(input)]) {
                *output += weight;
            }
        }
        let most = outputs[0].max(outputs[1]).max(outputs[2]);
        let wdl = [0, 1, 2].map(|at| (outputs[at] - most).exp());
        let sum: f32 = wdl.iter().sum();
        [wdl[0] / sum, wdl[1] / sum, wdl[2] / sum, outputs[3]]
    }

    /// Adds the gradient for the last position of [`HiddenLayers::forward`] and writes the gradients of its products to
    /// `below`.
    #[inline(always)]
    fn backward(
        &mut self,
        gradient: &mut [f32],
        inputs: &[u16],
        products: &[f32],
        outputs: [f32; OUTPUTS],
        below: &mut [f32],
    ) {
        let (s, weights) = (self.sections, self.weights);
        let [hidden, hidden_bias, second, second_bias, out, out_bias] = [
            &s.hidden,
            &s.hidden_bias,
            &s.second,
            &s.second_bias,
            &s.out,
            &s.out_bias,
        ]
        .map(|section| self.of_stage(section));
        let start = s.direct.range.start;
        for &input in inputs {
            let at = start + usize::from(input) * OUTPUTS;
            add_scaled(&mut gradient[at..at + OUTPUTS], &outputs, 1.0);
        }
        add_scaled(&mut gradient[out_bias], &outputs, 1.0);
        add_outer(&mut gradient[out.clone()], &self.second_squares, &outputs);
        back_product(&mut self.gradients, &weights[out], &outputs);
        squared_crelu_backward(&mut self.gradients, &self.second);
        add_scaled(&mut gradient[second_bias], &self.gradients, 1.0);
        let place = &mut gradient[second.clone()];
        add_outer(place, &self.first_squares, &self.gradients);
        back_product(&mut self.gradients_below, &weights[second], &self.gradients);
        squared_crelu_backward(&mut self.gradients_below, &self.first);
        let gradients = &self.gradients_below;
        add_scaled(&mut gradient[hidden_bias], gradients, 1.0);
        add_outer(&mut gradient[hidden.clone()], products, gradients);
        back_product(below, &weights[hidden], gradients);
    }
}

/// Replaces logits by probabilities (softmax) and returns their cross-entropy to the target shares.
#[inline(always)]
fn cross_entropy(logits: &mut [f32], shares: &[f32]) -> f32 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let expected: f32 = logits.iter().zip(shares).map(|(l, s)| (l - most) * s).sum();
    let shares: f32 = shares.iter().sum();
    let mut sum = 0.0;
    for logit in logits.iter_mut() {
        *logit = (*logit - most).exp();
        sum += *logit;
    }
    for probability in logits.iter_mut() {
        *probability /= sum;
    }
    sum.ln() * shares - expected
}

/// The entropy of target shares, in nats.
#[inline(always)]
pub fn entropy(shares: &[f32]) -> f32 {
    // Shares of 0 and 1 contribute nothing.
    let counted = shares.iter().filter(|share| **share > 0.0 && **share < 1.0);
    -counted.map(|share| share * share.ln()).sum::<f32>()
}

/// The value loss, and the Huber loss of the plies left.
#[inline(always)]
fn value_losses(kind: ValueLoss, output: &[f32; OUTPUTS], target: &ValueTarget) -> (f32, f32) {
    let value = match kind {
        ValueLoss::CrossEntropy => wdl_cross_entropy(&target.wdl, output),
        ValueLoss::Squared => value_error(output, target).powi(2),
    };
    (value, plies_loss(output, target))
}

/// The cross-entropy of W/D/L probabilities, the first three of `output`, to their target.
#[inline(always)]
pub(super) fn wdl_cross_entropy(target: &[f32; 3], output: &[f32]) -> f32 {
    let terms = target.iter().zip(output);
    -terms.map(|(t, p)| t * p.max(1e-9).ln()).sum::<f32>()
}

/// The Huber loss of the plies left.
#[inline(always)]
pub(super) fn plies_loss(output: &[f32; OUTPUTS], target: &ValueTarget) -> f32 {
    let error = (output[3] - target.plies).abs();
    if error < 1.0 {
        error * error / 2.0
    } else {
        error - 0.5
    }
}

/// W - L of the output minus W - L of the target.
#[inline(always)]
pub(super) fn value_error(output: &[f32; OUTPUTS], target: &ValueTarget) -> f32 {
    (output[0] - output[2]) - (target.wdl[0] - target.wdl[2])
}

/// The gradients of the losses with respect to the outputs before the softmax.
#[inline(always)]
fn output_gradients(
    output: &[f32; OUTPUTS],
    target: &ValueTarget,
    scales: Scales,
) -> [f32; OUTPUTS] {
    let logit_gradient = |at: usize| match scales.value_loss {
        ValueLoss::CrossEntropy => output[at] - target.wdl[at],
        ValueLoss::Squared => {
            let worth = [1.0, 0.0, -1.0][at] - (output[0] - output[2]);
            2.0 * value_error(output, target) * output[at] * worth
        }
    };
    let value = |at: usize| scales.value * target.weight * logit_gradient(at);
    let error = (output[3] - target.plies).clamp(-1.0, 1.0);
    let plies = scales.plies * target.plies_weight * error;
    [value(0), value(1), value(2), plies]
}

/// The dot product of two vectors whose length is a multiple of 16.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    for (a, b) in a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0) {
        for lane in 0..16 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

/// `to += scale * values`
#[inline(always)]
fn add_scaled(to: &mut [f32], values: &[f32], scale: f32) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += scale * value;
    }
}

/// `to[j] += sum over i of weights[i][j] * values[i]`
#[inline(always)]
fn add_product(to: &mut [f32], weights: &[f32], values: &[f32]) {
    let width = to.len();
    for (row, value) in weights.chunks_exact(width).zip(values) {
        if *value != 0.0 {
            add_scaled(to, row, *value);
        }
    }
}

/// `gradient[i][j] += values[i] * gradients[j]`
#[inline(always)]
fn add_outer(gradient: &mut [f32], values: &[f32], gradients: &[f32]) {
    for (row, value) in gradient.chunks_exact_mut(gradients.len()).zip(values) {
        if *value != 0.0 {
            add_scaled(row, gradients, *value);
        }
    }
}

/// `below[i] = sum over j of weights[i][j] * gradients[j]`
#[inline(always)]
fn back_product(below: &mut [f32], weights: &[f32], gradients: &[f32]) {
    let width = gradients.len();
    for (below, row) in below.iter_mut().zip(weights.chunks_exact(width)) {
        *below = if width.is_multiple_of(16) {
            dot(row, gradients)
        } else {
            row.iter().zip(gradients).map(|(w, s)| w * s).sum()
        };
    }
}

/// Clips values to 0..1 in place and writes their squares.
#[inline(always)]
fn squared_crelu(values: &mut [f32], squares: &mut [f32]) {
    for (value, square) in values.iter_mut().zip(squares) {
        *value = value.clamp(0.0, 1.0);
        *square = *value * *value;
    }
}

/// Turns gradients of the squares into gradients of the values before clipping.
#[inline(always)]
fn squared_crelu_backward(gradients: &mut [f32], clipped: &[f32]) {
    for (gradient, value) in gradients.iter_mut().zip(clipped) {
        *gradient *= if *value < 1.0 { 2.0 * value } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::sparse::features::InputSet;

    const TINY: Shape = Shape {
        policy: 64,
        value: 128,
        hidden: 5,
        // The tests' positions belong to the first two stages.
        stages: 8,
        inputs: InputSet::Classes,
    };

    /// Random inputs and targets that touch few rows; they are not chess positions.
    fn chunk(rng: &mut SmallRng) -> Chunk {
        let mut chunk = Chunk::default();
        for index in 0..6 {
            let inputs: Vec<u16> = (0..4 + index).map(|_| rng.random_range(0..40)).collect();
            let rows: Vec<u16> = (0..5).map(|at| ROWS as u16 - 1 - 7 * at - index).collect();
            chunk.policy_inputs.push(&inputs);
            let classes = [0, 3, 0, 3, 80].map(|class| ROWS as u16 + class);
            chunk.push_rows(MoveRows {
                rows: &rows,
                classes: &classes,
            });
            chunk.shares.extend([0.0, 0.7, 0.0, 0.3, 0.0]);
            chunk.value_inputs.push(&inputs[1..]);
            chunk.values.push(ValueTarget {
                wdl: [0.5, 0.3, 0.2],
                weight: 0.5 + f32::from(index),
                plies: f32::from(index) - 2.0,
                plies_weight: f32::from(index % 2),
            });
        }
        chunk
    }

    const SCALES: Scales = Scales {
        policy: 1.0,
        value: 0.7,
        plies: 0.3,
        value_loss: ValueLoss::CrossEntropy,
    };

    fn total(weights: &[f32], chunk: &Chunk, scales: Scales) -> f64 {
        let mut gradient = vec![0.0; weights.len()];
        let losses = run(
            Level::PLAIN,
            TINY,
            weights,
            chunk,
            Some((&mut gradient, scales)),
            &mut Workspace::default(),
        );
        losses.policy + 0.7 * losses.value + 0.3 * losses.plies
    }

    #[test]
    fn every_gradient_agrees_with_finite_differences() {
        for value_loss in [ValueLoss::CrossEntropy, ValueLoss::Squared] {
            check_gradients(Scales {
                value_loss,
                ..SCALES
            });
        }
    }

    fn check_gradients(scales: Scales) {
        let mut rng = SmallRng::seed_from_u64(5);
        let chunk = chunk(&mut rng);
        let mut weights = TINY.start(1);
        let sections = TINY.sections();
        // Weights that start at 0 would hide gradients.
        for weight in &mut weights[sections.out.range.start..] {
            *weight += rng.random_range(-0.2..0.2);
        }
        let mut gradient = vec![0.0; weights.len()];
        let ws = &mut Workspace::default();
        run(
            Level::PLAIN,
            TINY,
            &weights,
            &chunk,
            Some((&mut gradient, scales)),
            ws,
        );
        for (name, section) in [
            ("policy_in", &sections.policy_in),
            ("policy_bias", &sections.policy_bias),
            ("rows", &sections.rows),
            ("rows_bias", &sections.rows_bias),
            ("value_in", &sections.value_in),
            ("value_bias", &sections.value_bias),
            ("hidden", &sections.hidden),
            ("hidden_bias", &sections.hidden_bias),
            ("second", &sections.second),
            ("second_bias", &sections.second_bias),
            ("out", &sections.out),
            ("out_bias", &sections.out_bias),
            ("direct", &sections.direct),
        ] {
            let touched: Vec<usize> = section
                .range
                .clone()
                .filter(|&at| gradient[at] != 0.0)
                .collect();
            assert!(!touched.is_empty(), "{name} has no gradient");
            let (mut difference, mut size) = (0.0, 0.0);
            for _ in 0..40 {
                let at = touched[rng.random_range(0..touched.len())];
                let (kept, step) = (weights[at], 1e-3);
                weights[at] = kept + step;
                let above = total(&weights, &chunk, scales);
                weights[at] = kept - step;
                let below = total(&weights, &chunk, scales);
                weights[at] = kept;
                let expected = (above - below) / f64::from(2.0 * step);
                difference += (expected - f64::from(gradient[at])).powi(2);
                size += expected * expected;
            }
            let kind = scales.value_loss;
            assert!(
                difference < 3e-3 * size,
                "{kind:?}, {name}: {difference} of {size}"
            );
        }
    }

    #[test]
    fn untouched_weights_have_no_gradient() {
        let mut rng = SmallRng::seed_from_u64(5);
        let chunk = chunk(&mut rng);
        let weights = TINY.start(1);
        let mut gradient = vec![0.0; weights.len()];
        let ws = &mut Workspace::default();
        run(
            Level::PLAIN,
            TINY,
            &weights,
            &chunk,
            Some((&mut gradient, SCALES)),
            ws,
        );
        let table = TINY.sections().policy_in.range;
        let rows = gradient[table].as_chunks::<BLOCK>().0;
        assert!(
            rows[40..TINY.inputs.len()]
                .iter()
                .all(|row| row == &[0.0; BLOCK])
        );
    }

    #[test]
    fn every_instruction_set_gives_the_same_gradient() {
        let chunk = chunk(&mut SmallRng::seed_from_u64(5));
        let weights = TINY.start(1);
        let gradient = |level: Level| {
            let mut gradient = vec![0.0; weights.len()];
            let ws = &mut Workspace::default();
            run(
                level,
                TINY,
                &weights,
                &chunk,
                Some((&mut gradient, SCALES)),
                ws,
            );
            gradient
        };
        let plain = gradient(Level::PLAIN);
        for level in Level::available() {
            assert_eq!(gradient(level), plain, "{}", level.name());
        }
    }

    #[test]
    fn the_value_outputs_are_probabilities() {
        let chunk = chunk(&mut SmallRng::seed_from_u64(9));
        let mut ws = Workspace::default();
        run(Level::PLAIN, TINY, &TINY.start(2), &chunk, None, &mut ws);
        assert_eq!(ws.values.len(), 6);
        for [win, draw, loss, _] in ws.values {
            assert!((win + draw + loss - 1.0).abs() < 1e-6 && win.min(draw).min(loss) > 0.0);
        }
    }
}
