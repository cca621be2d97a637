//! The network: its shape and its weights while it is trained.
//!
//! Policy and value are two networks with the same inputs and nothing else in common:
//!
//! ```text
//! inputs (about 40 of 5026 are 1)
//!     -> 512, clipped to 0..1 -> products of pairs, 256 -> policy: a row for each legal move
//!     -> 512, clipped to 0..1 -> products of pairs, 256 -> 32 -> 32 -> win, draw, loss, plies left
//!        (plus a direct linear term of the inputs)
//! ```
//!
//! The layers after the value's products may exist several times, for different stages of the game; the number of
//! pieces selects one of them ([`Shape::stage`]).
//!
//! Weights that are quantised to 8 bits are clamped to their range in training ([`Section::limit`]), so quantisation
//! only rounds. All weights are in one vector, which makes optimizers and files simple; [`Shape::sections`] gives their
//! ranges. A first layer is stored in blocks of 64 columns (32 and their partners in the products), so that the table
//! of a block fits into a processor's cache.

use std::{fmt, ops::Range};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use super::features::{InputSet, PIECE_INPUTS};
use super::moves::row_count;

/// Columns of a block of a first layer.
pub const BLOCK: usize = 64;
/// Products of a block: column `i` by column `PAIRS + i`.
pub const PAIRS: usize = BLOCK / 2;
/// Outputs of the value network: win, draw, loss (logits), plies left.
pub const OUTPUTS: usize = 4;
/// The value network gives the plies that are left in this unit.
pub const PLIES_UNIT: f32 = 20.0;

/// What an activation of 1 is in integers before the products.
pub const ACTIVATION_ONE: i32 = 255;
/// What the product of two activations of 1 is in integers.
pub const PRODUCT_ONE: i32 = 127;
/// Products are divided by 2 to this power: 255 x 255 >> 9 = 127.
pub const PRODUCT_SHIFT: u32 = 9;
/// What a weight of 1 is in integers, behind the products.
pub const WEIGHT_ONE: i32 = 64;
/// What a sum of products with such weights is worth: 127 x 64 is 1.
pub const SUM_ONE: f32 = (PRODUCT_ONE * WEIGHT_ONE) as f32;

/// The sizes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Columns of the policy's first layer, a multiple of 64.
    pub policy: usize,
    /// Columns of the value's first layer, a multiple of 64.
    pub value: usize,
    /// Units of the value's hidden layers.
    pub hidden: usize,
    /// How many stages of the game have hidden layers of their own.
    #[serde(default = "one_stage")]
    pub stages: usize,
    /// The inputs.
    #[serde(default)]
    pub inputs: InputSet,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape {
            policy,
            value,
            hidden,
            stages,
            inputs,
        } = self;
        write!(
            f,
            "first layers {policy} wide (policy) and {value} (value), hidden layers {hidden}"
        )?;
        if *stages != 1 {
            write!(f, " in {stages} stages of the game")?;
        }
        match inputs {
            InputSet::Position => Ok(()),
            InputSet::Classes => write!(f, ", with classes of moves"),
            InputSet::History => write!(f, ", with inputs of the last moves and the rating"),
            InputSet::Opponent => write!(f, ", with inputs of who is to move"),
            InputSet::OpponentClasses => {
                write!(f, ", with inputs of who is to move and classes of moves")
            }
        }
    }
}

/// What there was before there were stages.
fn one_stage() -> usize {
    1
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            policy: 512,
            value: 512,
            hidden: 32,
            stages: 1,
            inputs: InputSet::Position,
        }
    }
}

/// Maximum number of pieces of a position.
const MAX_PIECES: usize = 32;

/// A part of the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Where it lies.
    pub range: Range<usize>,
    /// Limit of the absolute value of a weight: the range of 8 bits, or infinite for weights stored in 32 bits.
    pub limit: f32,
    /// Weights at the start are random up to this.
    start: f32,
    /// And have this added.
    offset: f32,
}

/// The sections of the weight vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Sections {
    /// `[block][input][column]`
    pub policy_in: Section,
    /// `[block][column]`
    pub policy_bias: Section,
    /// `[row][product]`, the classes of moves after the rows of moves
    pub rows: Section,
    /// `[row]`
    pub rows_bias: Section,
    /// `[block][input][column]`
    pub value_in: Section,
    /// `[block][column]`
    pub value_bias: Section,
    /// `[stage][product][unit]`
    pub hidden: Section,
    /// `[stage][unit]`
    pub hidden_bias: Section,
    /// `[stage][unit][unit]`
    pub second: Section,
    /// `[stage][unit]`
    pub second_bias: Section,
    /// `[stage][unit][output]`
    pub out: Section,
    /// `[stage][output]`
    pub out_bias: Section,
    /// `[input][output]`
    pub direct: Section,
    /// How many weights there are.
    pub total: usize,
}

impl Shape {
    /// Whether such a network can be built.
    pub fn is_valid(self) -> bool {
        let layer = |width: usize| (BLOCK..=4096).contains(&width) && width.is_multiple_of(BLOCK);
        let counts = (1..=256).contains(&self.hidden) && (1..=MAX_PIECES).contains(&self.stages);
        layer(self.policy) && layer(self.value) && counts
    }

    /// The stage of a position with these inputs, the one of fewest pieces first: 32 pieces are divided evenly.
    #[inline]
    pub fn stage(self, inputs: &[u16]) -> usize {
        stage(self.stages, inputs)
    }

    /// Where which weights lie.
    pub fn sections(self) -> Sections {
        let mut next = 0;
        let mut section = |len: usize, limit: f32, start: f32, offset: f32| {
            let range = next..next + len;
            next += len;
            Section {
                range,
                limit,
                start,
                offset,
            }
        };
        let free = f32::INFINITY;
        let first = PRODUCT_ONE as f32 / ACTIVATION_ONE as f32;
        let later = PRODUCT_ONE as f32 / WEIGHT_ONE as f32;
        let hidden_start = 2.0 / (self.value as f32 / 2.0).sqrt();
        let second_start = 1.5 / (self.hidden as f32).sqrt();
        let (inputs, rows) = (self.inputs.len(), row_count(self.inputs));
        // Of all stages.
        let units = self.stages * self.hidden;
        let mut sections = Sections {
            policy_in: section(inputs * self.policy, first, 0.1, 0.0),
            policy_bias: section(self.policy, free, 0.0, 0.25),
            rows: section(rows * self.policy / 2, later, 0.05, 0.0),
            rows_bias: section(rows, free, 0.0, 0.0),
            value_in: section(inputs * self.value, first, 0.1, 0.0),
            value_bias: section(self.value, free, 0.0, 0.25),
            hidden: section(self.value / 2 * units, later, hidden_start, 0.0),
            hidden_bias: section(units, free, 0.0, 0.25),
            second: section(self.hidden * units, free, second_start, 0.0),
            second_bias: section(units, free, 0.0, 0.25),
            out: section(units * OUTPUTS, free, second_start, 0.0),
            out_bias: section(self.stages * OUTPUTS, free, 0.0, 0.0),
            direct: section(inputs * OUTPUTS, free, 0.0, 0.0),
            total: 0,
        };
        sections.total = sections.direct.range.end;
        sections
    }

    /// Random weights to start from.
    pub fn start(self, seed: u64) -> Vec<f32> {
        let sections = self.sections();
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut weights = vec![0.0; sections.total];
        for section in sections.all() {
            for weight in &mut weights[section.range.clone()] {
                *weight = section.offset + section.start * rng.random_range(-1.0..1.0_f32);
            }
        }
        weights
    }
}

/// See [`Shape::stage`].
#[inline]
pub(super) fn stage(stages: usize, inputs: &[u16]) -> usize {
    if stages == 1 {
        return 0;
    }
    let is_piece = |input: &&u16| usize::from(**input) < PIECE_INPUTS;
    let pieces = inputs.iter().filter(is_piece).count();
    (pieces.saturating_sub(1) * stages / MAX_PIECES).min(stages - 1)
}

impl Sections {
    /// All weights of the policy.
    pub fn policy(&self) -> Range<usize> {
        self.policy_in.range.start..self.rows_bias.range.end
    }

    /// All weights of the value.
    pub fn value(&self) -> Range<usize> {
        self.value_in.range.start..self.direct.range.end
    }

    /// All of them, in the order of the vector.
    pub fn all(&self) -> [&Section; 13] {
        [
            &self.policy_in,
            &self.policy_bias,
            &self.rows,
            &self.rows_bias,
            &self.value_in,
            &self.value_bias,
            &self.hidden,
            &self.hidden_bias,
            &self.second,
            &self.second_bias,
            &self.out,
            &self.out_bias,
            &self.direct,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_follow_each_other_without_gaps() {
        let sections = Shape::default().sections();
        let mut end = 0;
        for section in sections.all() {
            assert_eq!(section.range.start, end);
            end = section.range.end;
        }
        assert_eq!(end, sections.total);
        assert!((7_150_000..7_200_000).contains(&sections.total), "{end}");
    }

    #[test]
    fn pieces_say_which_stage_it_is() {
        let stage = |pieces: usize, stages: usize| {
            let mut inputs: Vec<u16> = (0..pieces as u16).collect();
            inputs.extend([PIECE_INPUTS as u16, InputSet::Position.len() as u16 - 1]);
            let shape = Shape {
                stages,
                ..Shape::default()
            };
            shape.stage(&inputs)
        };
        assert_eq!(
            [2, 4, 5, 8, 9, 29, 32].map(|n| stage(n, 8)),
            [0, 0, 1, 1, 2, 7, 7]
        );
        assert_eq!([0, 16, 17, 32, 40].map(|n| stage(n, 2)), [0, 0, 1, 1, 1]);
        assert_eq!(stage(20, 1), 0);
    }

    #[test]
    fn the_same_seed_starts_the_same_network() {
        let shape = Shape {
            policy: 64,
            value: 64,
            hidden: 4,
            stages: 1,
            inputs: InputSet::History,
        };
        assert_eq!(shape.start(1), shape.start(1));
        assert_ne!(shape.start(1), shape.start(2));
        let sections = shape.sections();
        let start = shape.start(1);
        let largest = |section: &Section| {
            start[section.range.clone()]
                .iter()
                .fold(0.0_f32, |most, weight| most.max(weight.abs()))
        };
        for section in sections.all() {
            assert!(largest(section) <= section.limit);
        }
    }
}
