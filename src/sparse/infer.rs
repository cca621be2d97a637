//! Integer inference of sparse networks.
//!
//! Sums of the first layers are 16-bit integers, in which 255 is 1; products of pairs are 0..=127; the rows of the
//! policy and the value's first hidden layer multiply those by 8-bit weights, in which 64 is 1, and add up in 32 bits.
//! The rest (64 numbers per position) is computed in 32-bit floats, in a fixed order, with an exponential of our own.
//! The result is therefore the same on every processor, bit by bit: all levels of [`simd`](super::simd) compute the
//! same sums.
//!
//! Policy and value are computed separately, because a search needs the value of many positions that it never expands.

use super::classes::MoveClasses;
use super::features::{InputSet, MAX_ACTIVE};
use super::history::{rating_inputs, rating_shares};
use super::moves::{MoveRows, ROWS, row_count};
use super::network::{
    ACTIVATION_ONE, BLOCK, OUTPUTS, PAIRS, PLIES_UNIT, PRODUCT_SHIFT, SUM_ONE, Section, Shape,
    WEIGHT_ONE, stage,
};
use super::simd::{Isa, Kernel, Level};

/// Maximum bias of a first layer, in integers: with the weights of all inputs that can be 1, 16 bits hold the sum.
pub const MAX_BIAS: i16 = i16::MAX - 128 * MAX_ACTIVE as i16;
/// What a weight of 1 straight from an input to an output is in integers.
pub const DIRECT_ONE: f32 = (1 << 20) as f32;
/// Larger weights are not needed: floats hold them exactly, and 32 bits the sum of all.
const DIRECT_MOST: f32 = 4.0 * DIRECT_ONE;
/// Lists of products are filled up with zeros to a multiple of this, the widest vector.
const LANES: usize = 64;
/// Columns of a first layer that are added up at a time; with many registers, twice as many.
const COLUMNS: usize = 128;

/// A first layer: its outputs are products of pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct IntegerFirstLayer {
    /// Columns: the first half is multiplied by the second.
    pub width: usize,
    /// `[input][column]`, 255 is 1.
    pub weights: Vec<i8>,
    /// `[column]`, 255 is 1.
    pub bias: Vec<i16>,
}

/// The value network behind its first layer, for each stage of the game.
#[derive(Clone, Debug, PartialEq)]
pub struct IntegerValueHead {
    /// Stages of the game.
    pub stages: usize,
    /// Units of the hidden layers of a stage.
    pub units: usize,
    /// `[stage][unit][product]`, 64 is 1.
    pub hidden: Vec<i8>,
    /// `[stage][unit]`, 127 x 64 is 1.
    pub hidden_bias: Vec<i32>,
    /// `[stage][unit][unit]`, as trained.
    pub second: Vec<f32>,
    /// `[stage][unit]`
    pub second_bias: Vec<f32>,
    /// `[stage][unit][output]`
    pub out: Vec<f32>,
    /// `[stage]`
    pub out_bias: Vec<[f32; OUTPUTS]>,
    /// `[input][output]`, [`DIRECT_ONE`] is 1: the order in which they are added up does not matter.
    pub direct: Vec<[i32; OUTPUTS]>,
}

/// A network of integers.
#[derive(Clone, Debug, PartialEq)]
pub struct IntegerNetwork {
    /// The inputs.
    pub inputs: InputSet,
    /// The policy's first layer.
    pub policy: IntegerFirstLayer,
    /// `[row][product]`, 64 is 1; the classes of moves after the rows of moves.
    pub rows: Vec<i8>,
    /// `[row]`, 127 x 64 is 1.
    pub rows_bias: Vec<i32>,
    /// The value's first layer.
    pub value: IntegerFirstLayer,
    /// What follows it.
    pub value_head: IntegerValueHead,
}

/// The value network's outputs: probabilities for the side to move, and plies left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ValueLayers {
    /// Win, draw, loss; sums to 1.
    pub wdl: [f32; 3],
    /// Plies left, not negative.
    pub plies: f32,
}

/// Memory for one thread.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    sums: Vec<i16>,
    products: Vec<u8>,
    first: Vec<f32>,
    second: Vec<f32>,
    /// Of the classes that the last position had.
    class_sums: Vec<f32>,
}

impl IntegerNetwork {
    /// Rounds weights (see [`Shape::sections`]) to integers.
    pub fn quantize(shape: Shape, weights: &[f32]) -> IntegerNetwork {
        let s = shape.sections();
        let part = |section: &Section| &weights[section.range.clone()];
        let (rows, units) = (part(&s.rows), shape.hidden);
        let half = shape.value / 2;
        // Transposed: a unit's weights lie together.
        let transposed = |hidden: &[f32]| -> Vec<i8> {
            let weights = (0..units * half).map(|at| hidden[at % half * units + at / half]);
            weights.map(|weight| to_i8(weight, WEIGHT_ONE)).collect()
        };
        let hidden = part(&s.hidden).chunks_exact(units * half);
        IntegerNetwork {
            inputs: shape.inputs,
            policy: first(shape.policy, part(&s.policy_in), part(&s.policy_bias)),
            rows: rows
                .iter()
                .map(|&weight| to_i8(weight, WEIGHT_ONE))
                .collect(),
            rows_bias: part(&s.rows_bias)
                .iter()
                .map(|&bias| to_sum(bias))
                .collect(),
            value: first(shape.value, part(&s.value_in), part(&s.value_bias)),
            value_head: IntegerValueHead {
                stages: shape.stages,
                units,
                hidden: hidden.flat_map(transposed).collect(),
                hidden_bias: part(&s.hidden_bias)
                    .iter()
                    .map(|&bias| to_sum(bias))
                    .collect(),
                second: part(&s.second).to_vec(),
                second_bias: part(&s.second_bias).to_vec(),
                out: part(&s.out).to_vec(),
                out_bias: part(&s.out_bias).as_chunks().0.to_vec(),
                direct: direct(part(&s.direct)),
            },
        }
    }

    /// The weights that are rounded to this network: to go on training with it.
    pub fn weights(&self) -> Vec<f32> {
        let s = self.shape().sections();
        let inputs = self.inputs.len();
        let mut weights = vec![0.0; s.total];
        let mut set = |section: &Section, at: usize, weight: f32| {
            weights[section.range.clone()][at] = weight;
        };
        for (layer, table, bias) in [
            (&self.policy, &s.policy_in, &s.policy_bias),
            (&self.value, &s.value_in, &s.value_bias),
        ] {
            for (at, &weight) in layer.weights.iter().enumerate() {
                let (input, column) = (at / layer.width, at % layer.width);
                let (block, place) = place(layer.width, column);
                let weight = f32::from(weight) / ACTIVATION_ONE as f32;
                set(table, (block * inputs + input) * BLOCK + place, weight);
            }
            for (column, &weight) in layer.bias.iter().enumerate() {
                let (block, place) = place(layer.width, column);
                let weight = f32::from(weight) / ACTIVATION_ONE as f32;
                set(bias, block * BLOCK + place, weight);
            }
        }
        for (at, &weight) in self.rows.iter().enumerate() {
            set(&s.rows, at, f32::from(weight) / WEIGHT_ONE as f32);
        }
        for (at, &bias) in self.rows_bias.iter().enumerate() {
            set(&s.rows_bias, at, bias as f32 / SUM_ONE);
        }
        let head = &self.value_head;
        let half = self.value.width / 2;
        let of_stage = head.units * half;
        for (at, &weight) in head.hidden.iter().enumerate() {
            let (stage, at) = (at / of_stage, at % of_stage);
            let place = stage * of_stage + at % half * head.units + at / half;
            set(&s.hidden, place, f32::from(weight) / WEIGHT_ONE as f32);
        }
        for (at, &bias) in head.hidden_bias.iter().enumerate() {
            set(&s.hidden_bias, at, bias as f32 / SUM_ONE);
        }
        for (section, values) in [
            (&s.second, &head.second[..]),
            (&s.second_bias, &head.second_bias),
            (&s.out, &head.out),
            (&s.out_bias, head.out_bias.as_flattened()),
            (&s.direct, &head.direct_weights()),
        ] {
            weights[section.range.clone()].copy_from_slice(values);
        }
        weights
    }

    /// The sizes.
    pub fn shape(&self) -> Shape {
        Shape {
            policy: self.policy.width,
            value: self.value.width,
            hidden: self.value_head.units,
            stages: self.value_head.stages,
            inputs: self.inputs,
        }
    }

    /// Whether all parts have the sizes that belong together, so that evaluating cannot fail.
    pub fn is_consistent(&self) -> bool {
        let shape = self.shape();
        let inputs = self.inputs.len();
        let first = |layer: &IntegerFirstLayer| {
            layer.weights.len() == inputs * layer.width && layer.bias.len() == layer.width
        };
        let head = &self.value_head;
        let units = shape.stages * shape.hidden;
        shape.is_valid()
            && first(&self.policy)
            && first(&self.value)
            && self.rows.len() == row_count(self.inputs) * shape.policy / 2
            && self.rows_bias.len() == row_count(self.inputs)
            && head.hidden.len() == units * shape.value / 2
            && head.hidden_bias.len() == units
            && head.second.len() == units * shape.hidden
            && head.second_bias.len() == units
            && head.out.len() == units * OUTPUTS
            && head.out_bias.len() == shape.stages
            && head.direct.len() == inputs
    }

    /// The network of players of a rating: the weights of the rating's inputs are added to the biases (rounded, and
    /// limited to what 16 bits can hold), and those inputs are without effect. A network without such inputs, or one
    /// that was made for a rating before, stays as it is. See [`rating_shares`] for ratings without an input.
    #[must_use]
    pub fn for_rating(mut self, rating: u32) -> IntegerNetwork {
        if !self.inputs.has_history() {
            return self;
        }
        let shares = rating_shares(rating);
        for layer in [&mut self.policy, &mut self.value] {
            layer.add_to_bias(&shares);
        }
        let head = &mut self.value_head;
        for bias in &mut head.out_bias {
            for (input, share) in shares {
                for (bias, &weight) in bias.iter_mut().zip(&head.direct[input]) {
                    *bias += share * weight as f32 / DIRECT_ONE;
                }
            }
        }
        for input in rating_inputs() {
            head.direct[input] = [0; OUTPUTS];
        }
        self
    }

    /// The value of a position with these inputs.
    pub fn value(&self, level: Level, inputs: &[u16], scratch: &mut Scratch) -> ValueLayers {
        level.run(ValueKernel {
            network: self,
            inputs,
            scratch,
        })
    }

    /// The logits of moves with these rows, in a position with these inputs.
    pub fn policy(
        &self,
        level: Level,
        inputs: &[u16],
        rows: MoveRows<'_>,
        logits: &mut [f32],
        scratch: &mut Scratch,
    ) {
        level.run(PolicyKernel {
            network: self,
            inputs,
            rows,
            logits,
            scratch,
        });
    }

    /// The probabilities of moves with these rows, at a softmax temperature.
    pub fn priors(
        &self,
        level: Level,
        inputs: &[u16],
        rows: MoveRows<'_>,
        temperature: f32,
        priors: &mut [f32],
        scratch: &mut Scratch,
    ) {
        level.run(PriorsKernel {
            policy: PolicyKernel {
                network: self,
                inputs,
                rows,
                logits: priors,
                scratch,
            },
            temperature,
        });
    }
}

impl IntegerValueHead {
    /// `[input][output]`: the direct weights as floats, without loss.
    pub fn direct_weights(&self) -> Vec<f32> {
        let weights = self.direct.as_flattened().iter();
        weights.map(|&weight| weight as f32 / DIRECT_ONE).collect()
    }
}

/// Direct weights `[input][output]` in integers.
pub fn direct(weights: &[f32]) -> Vec<[i32; OUTPUTS]> {
    let to_integer = |weight: &f32| {
        let scaled = (weight * DIRECT_ONE).round();
        scaled.clamp(-DIRECT_MOST, DIRECT_MOST) as i32
    };
    let rows = weights.as_chunks().0.iter();
    rows.map(|row: &[f32; OUTPUTS]| row.each_ref().map(to_integer))
        .collect()
}

fn to_i8(weight: f32, one: i32) -> i8 {
    (weight * one as f32).round().clamp(-127.0, 127.0) as i8
}

fn to_sum(bias: f32) -> i32 {
    (bias * SUM_ONE).round() as i32
}

/// Where a column of a first layer is in a row of blocks: block and place in it.
fn place(width: usize, column: usize) -> (usize, usize) {
    let half = width / 2;
    let (partner, pair) = (column / half, column % half);
    (pair / PAIRS, partner * PAIRS + pair % PAIRS)
}

/// A first layer as trained (in blocks) with its columns in order.
fn first(width: usize, table: &[f32], bias: &[f32]) -> IntegerFirstLayer {
    // All blocks have a row of each input.
    let inputs = table.len() / width;
    let mut weights = vec![0; inputs * width];
    for (input, row) in weights.chunks_exact_mut(width).enumerate() {
        for (column, weight) in row.iter_mut().enumerate() {
            let (block, at) = place(width, column);
            *weight = to_i8(table[(block * inputs + input) * BLOCK + at], ACTIVATION_ONE);
        }
    }
    let bias = (0..width).map(|column| {
        let (block, at) = place(width, column);
        let bias = (bias[block * BLOCK + at] * ACTIVATION_ONE as f32).round();
        bias.clamp((-MAX_BIAS).into(), MAX_BIAS.into()) as i16
    });
    IntegerFirstLayer {
        width,
        weights,
        bias: bias.collect(),
    }
}

impl IntegerFirstLayer {
    /// Adds shares of the rows of some inputs to the bias, and sets the rows of all ratings to 0.
    fn add_to_bias(&mut self, shares: &[(usize, f32)]) {
        let width = self.width;
        for (column, bias) in self.bias.iter_mut().enumerate() {
            let row = |input: usize| f32::from(self.weights[input * width + column]);
            let more: f32 = shares
                .iter()
                .map(|&(input, share)| share * row(input))
                .sum();
            let sum = (f32::from(*bias) + more).round();
            *bias = sum.clamp((-MAX_BIAS).into(), MAX_BIAS.into()) as i16;
        }
        for input in rating_inputs() {
            self.weights[input * width..(input + 1) * width].fill(0);
        }
    }

    /// The sums of some columns, from number `start` on.
    #[inline(always)]
    fn sums<const N: usize>(&self, inputs: &[u16], start: usize) -> [i16; N] {
        let mut sums = [0; N];
        sums.copy_from_slice(&self.bias[start..start + N]);
        for &input in inputs {
            let start = usize::from(input) * self.width + start;
            let row = &self.weights[start..start + N];
            for (sum, weight) in sums.iter_mut().zip(row) {
                *sum += i16::from(*weight);
            }
        }
        sums
    }

    /// Adds up the columns from number `first` on, `N` at a time as long as `N` are left; returns the first one that
    /// is left.
    #[inline(always)]
    fn add_up<const N: usize>(&self, inputs: &[u16], sums: &mut [i16], first: usize) -> usize {
        let blocks = sums[first..].as_chunks_mut::<N>().0;
        let end = first + N * blocks.len();
        for (at, sums) in blocks.iter_mut().enumerate() {
            *sums = self.sums(inputs, first + N * at);
        }
        end
    }

    /// Writes the products for these inputs.
    #[inline(always)]
    fn products<I: Isa>(&self, inputs: &[u16], sums: &mut Vec<i16>, products: &mut Vec<u8>) {
        let half = self.width / 2;
        sums.resize(self.width, 0);
        products.resize(half.next_multiple_of(LANES), 0);
        // As many columns at a time as stay in registers.
        let mut done = 0;
        if I::HAS_MANY_REGISTERS {
            done = self.add_up::<{ 2 * COLUMNS }>(inputs, sums, done);
        }
        done = self.add_up::<COLUMNS>(inputs, sums, done);
        self.add_up::<LANES>(inputs, sums, done);
        let (first, second) = sums.split_at(half);
        for ((product, first), second) in products.iter_mut().zip(first).zip(second) {
            let clip = |sum: i16| sum.clamp(0, ACTIVATION_ONE as i16) as u16;
            *product = ((clip(*first) * clip(*second)) >> PRODUCT_SHIFT) as u8;
        }
    }
}

struct PolicyKernel<'a> {
    network: &'a IntegerNetwork,
    inputs: &'a [u16],
    rows: MoveRows<'a>,
    logits: &'a mut [f32],
    scratch: &'a mut Scratch,
}

impl Kernel for PolicyKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let (network, scratch) = (self.network, self.scratch);
        let layer = &network.policy;
        layer.products::<I>(self.inputs, &mut scratch.sums, &mut scratch.products);
        let half = layer.width / 2;
        let products = &scratch.products[..half];
        let class_sums = &mut scratch.class_sums;
        let sum_of = |row: usize| {
            let weights = &network.rows[row * half..(row + 1) * half];
            network.rows_bias[row] + isa.dot(products, weights)
        };
        let MoveRows { rows, classes } = self.rows;
        for (logit, &row) in self.logits.iter_mut().zip(rows) {
            // Sums of bytes are integers that floats hold without loss.
            *logit = sum_of(row.into()) as f32;
        }
        // Many moves share a class.
        let mut known = [0_u64; MoveClasses::MOST.div_ceil(64)];
        class_sums.resize(MoveClasses::MOST, 0.0);
        for (logit, &row) in self.logits.iter_mut().zip(classes) {
            let class = usize::from(row) - ROWS;
            let bit = 1 << (class % 64);
            if known[class / 64] & bit == 0 {
                known[class / 64] |= bit;
                class_sums[class] = sum_of(row.into()) as f32;
            }
            *logit += class_sums[class];
        }
        self.logits.iter_mut().for_each(|logit| *logit /= SUM_ONE);
    }
}

struct PriorsKernel<'a> {
    policy: PolicyKernel<'a>,
    temperature: f32,
}

impl Kernel for PriorsKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let PolicyKernel {
            network,
            inputs,
            rows,
            logits,
            scratch,
        } = self.policy;
        let policy = PolicyKernel {
            network,
            inputs,
            rows,
            logits: &mut *logits,
            scratch,
        };
        policy.run(isa);
        for logit in logits.iter_mut() {
            *logit /= self.temperature;
        }
        softmax(logits);
    }
}

struct ValueKernel<'a> {
    network: &'a IntegerNetwork,
    inputs: &'a [u16],
    scratch: &'a mut Scratch,
}

impl Kernel for ValueKernel<'_> {
    type Output = ValueLayers;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> ValueLayers {
        let (head, scratch) = (&self.network.value_head, self.scratch);
        let layer = &self.network.value;
        layer.products::<I>(self.inputs, &mut scratch.sums, &mut scratch.products);
        let half = layer.width / 2;
        let products = &scratch.products[..half];
        let (stage, units) = (stage(head.stages, self.inputs), head.units);
        let hidden = &head.hidden[stage * units * half..(stage + 1) * units * half];
        let of_stage = stage * units..(stage + 1) * units;
        scratch.first.clear();
        let biases = &head.hidden_bias[of_stage.clone()];
        for (bias, weights) in biases.iter().zip(hidden.chunks_exact(half)) {
            let sum = (bias + isa.dot(products, weights)) as f32 / SUM_ONE;
            scratch.first.push(squared_crelu(sum));
        }
        scratch.second.clear();
        scratch
            .second
            .extend_from_slice(&head.second_bias[of_stage]);
        let second = &head.second[stage * units * units..(stage + 1) * units * units];
        add_product(&mut scratch.second, second, &scratch.first);
        for sum in &mut scratch.second {
            *sum = squared_crelu(*sum);
        }
        let mut outputs = head.out_bias[stage];
        let out = &head.out[stage * units * OUTPUTS..(stage + 1) * units * OUTPUTS];
        add_product(&mut outputs, out, &scratch.second);
        let mut direct = [0; OUTPUTS];
        for &input in self.inputs {
            let row = &head.direct[usize::from(input)];
            for (sum, weight) in direct.iter_mut().zip(row) {
                *sum += weight;
            }
        }
        for (output, sum) in outputs.iter_mut().zip(direct) {
            *output += sum as f32 / DIRECT_ONE;
        }
        let mut wdl = [outputs[0], outputs[1], outputs[2]];
        softmax(&mut wdl);
        ValueLayers {
            wdl,
            plies: (outputs[3] * PLIES_UNIT).max(0.0),
        }
    }
}

#[inline(always)]
fn squared_crelu(sum: f32) -> f32 {
    let clipped = sum.clamp(0.0, 1.0);
    clipped * clipped
}

/// `to[j] += sum over i of weights[i][j] * values[i]`, in the order of `i`.
#[inline(always)]
fn add_product(to: &mut [f32], weights: &[f32], values: &[f32]) {
    // As many sums at a time as stay in registers.
    let done = add_columns::<32>(to, 0, weights, values);
    let done = add_columns::<OUTPUTS>(to, done, weights, values);
    add_columns::<1>(to, done, weights, values);
}

/// The same for the columns from `first` on, `N` at a time as long as `N` are left; returns the first one that is
/// left.
#[inline(always)]
fn add_columns<const N: usize>(
    to: &mut [f32],
    first: usize,
    weights: &[f32],
    values: &[f32],
) -> usize {
    let width = to.len();
    let blocks = to[first..].as_chunks_mut::<N>().0;
    let end = first + N * blocks.len();
    for (at, block) in blocks.iter_mut().enumerate() {
        let start = first + N * at;
        let mut sums = *block;
        for (row, value) in weights.chunks_exact(width).zip(values) {
            for (sum, weight) in sums.iter_mut().zip(&row[start..start + N]) {
                *sum += weight * value;
            }
        }
        *block = sums;
    }
    end
}

/// Numbers that are computed side by side in one vector.
const SIDE_BY_SIDE: usize = 8;

/// Logits to probabilities, the same on every machine.
#[inline(always)]
pub fn softmax(values: &mut [f32]) {
    let most = largest(values);
    let (blocks, rest) = values.as_chunks_mut::<SIDE_BY_SIDE>();
    for block in blocks {
        for value in block {
            *value = exp(*value - most);
        }
    }
    for value in rest {
        *value = exp(*value - most);
    }
    let sum = values.iter().fold(0.0, |sum, value| sum + value);
    for value in values.iter_mut() {
        *value /= sum;
    }
}

/// The largest of some numbers.
#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    let (blocks, rest) = values.as_chunks::<SIDE_BY_SIDE>();
    let mut most = [f32::NEG_INFINITY; SIDE_BY_SIDE];
    for block in blocks {
        for (most, value) in most.iter_mut().zip(block) {
            *most = most.max(*value);
        }
    }
    let all = most.iter().chain(rest).copied();
    all.fold(f32::NEG_INFINITY, f32::max)
}

/// The exponential of a number that is not positive, to 2e-7 of its value; 0 below -87. Only additions and
/// multiplications, so that every processor gives the same (the standard library's may differ in the last bit).
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Cody and Waite's reduction and the polynomial of Cephes' expf (S. Moshier).
    let x = x.max(-87.0);
    let n = (x * std::f32::consts::LOG2_E - 0.5) as i32;
    let r = x - n as f32 * 0.693_359_4 - n as f32 * -2.121_944_4e-4;
    let mut p = 1.987_569_2e-4;
    for term in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = p * r + term;
    }
    let value = p * r * r + r + 1.0;
    if x > -87.0 {
        value * f32::from_bits(((n + 127) as u32) << 23)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::sparse::{features::RATINGS, history::rating_input};

    const SHAPE: Shape = Shape {
        policy: 192,
        value: 128,
        hidden: 7,
        stages: 4,
        inputs: InputSet::Position,
    };

    /// Weights with something in every section.
    fn weights() -> Vec<f32> {
        let mut rng = SmallRng::seed_from_u64(3);
        let mut weights = SHAPE.start(3);
        for weight in &mut weights {
            *weight += rng.random_range(-0.05..0.05);
        }
        weights
    }

    fn inputs(rng: &mut SmallRng) -> Vec<u16> {
        let count = rng.random_range(3..34);
        (0..count)
            .map(|_| rng.random_range(0..SHAPE.inputs.len() as u16))
            .collect()
    }

    fn rows(rng: &mut SmallRng) -> Vec<u16> {
        let count = rng.random_range(1..60);
        (0..count)
            .map(|_| rng.random_range(0..ROWS as u16))
            .collect()
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let mut rng = SmallRng::seed_from_u64(8);
        let network = IntegerNetwork::quantize(SHAPE, &weights());
        assert!(network.is_consistent() && network.shape() == SHAPE);
        let scratch = &mut Scratch::default();
        for _ in 0..50 {
            let (inputs, rows) = (inputs(&mut rng), rows(&mut rng));
            let mut plain = vec![0.0; rows.len()];
            network.policy(
                Level::PLAIN,
                &inputs,
                MoveRows::of(&rows, rows.len()),
                &mut plain,
                scratch,
            );
            let value = network.value(Level::PLAIN, &inputs, scratch);
            assert!(plain.iter().any(|logit| logit.abs() > 0.01));
            for level in Level::available() {
                let mut logits = vec![0.0; rows.len()];
                network.policy(
                    level,
                    &inputs,
                    MoveRows::of(&rows, rows.len()),
                    &mut logits,
                    scratch,
                );
                assert_eq!(logits, plain, "{}", level.name());
                assert_eq!(network.value(level, &inputs, scratch), value);
            }
        }
    }

    #[test]
    fn a_rating_becomes_part_of_the_biases() {
        let shape = Shape {
            inputs: InputSet::History,
            ..SHAPE
        };
        let mut rng = SmallRng::seed_from_u64(10);
        let weights: Vec<f32> = shape.start(4).iter().map(|weight| 0.5 * weight).collect();
        let network = IntegerNetwork::quantize(shape, &weights);
        let scratch = &mut Scratch::default();
        let outputs = |network: &IntegerNetwork, inputs: &[u16], scratch: &mut Scratch| {
            let mut logits = vec![0.0; 50];
            let rows: Vec<u16> = (0..50).map(|row| 150 * row).collect();
            network.policy(
                Level::PLAIN,
                inputs,
                MoveRows::of(&rows, rows.len()),
                &mut logits,
                scratch,
            );
            (logits, network.value(Level::PLAIN, inputs, scratch).wdl)
        };
        let mut different = 0;
        for rating in RATINGS {
            let rated = network.clone().for_rating(rating);
            assert!(rated.is_consistent() && rated.clone().for_rating(1100) == rated);
            let inputs = inputs(&mut rng);
            let input = rating_input(rating).unwrap() as u16;
            let told = [&inputs[..], &[input]].concat();
            let (expected, found) = (
                outputs(&network, &told, scratch),
                outputs(&rated, &told, scratch),
            );
            assert_eq!(found.0, expected.0);
            assert!(
                found
                    .1
                    .iter()
                    .zip(expected.1)
                    .all(|(a, b)| (a - b).abs() < 1e-6)
            );
            different += usize::from(outputs(&network, &inputs, scratch) != found);
        }
        assert_eq!(different, RATINGS.len());
        let plain = IntegerNetwork::quantize(SHAPE, &SHAPE.start(4));
        assert!(plain.clone().for_rating(1100) == plain);
    }

    #[test]
    fn the_exponential_is_one() {
        for step in 0..8700 {
            let x = -0.01 * step as f32;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs();
            assert!(error <= 3e-7 * expected, "{x}: {error}");
        }
        assert_eq!(
            (exp(0.0), exp(-87.5), exp(f32::NEG_INFINITY)),
            (1.0, 0.0, 0.0)
        );
    }

    #[test]
    fn a_part_of_the_wrong_size_is_noticed() {
        let mut network = IntegerNetwork::quantize(SHAPE, &weights());
        network.rows_bias.pop();
        assert!(!network.is_consistent());
    }
}
