//! The options of a conversion ([`ConvertOptions`]) and its result ([`OnnxModel`]), also for models made elsewhere.

use std::collections::BTreeMap;

use super::{
    error::NetError,
    format::InputFormat,
    onnx::{
        PlaneSet,
        graph::{Operators, Range},
    },
};

/// Planes of AlphaZero's input.
pub const ALPHAZERO_PLANES: usize = 119;
/// Entries of AlphaZero's policy vector: 64 squares times 73 move types.
pub const ALPHAZERO_POLICY: usize = 64 * 73;

/// Encodings of ONNX networks, without those of sparse networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnnxEncoding {
    /// lc0's 112 planes and 1858 moves.
    Lc0,
    /// AlphaZero's 119 planes and 8 x 8 x 73 moves.
    AlphaZero,
}

impl OnnxEncoding {
    /// The value of the metadata entry [`metadata_key::ENCODING`] for AlphaZero's encoding.
    pub const ALPHAZERO: &'static str = "alphazero";
}

/// The order of AlphaZero's policy vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlphaZeroMoves {
    /// \[8, 8, 73\]: all move types from a1, then from b1.
    SquareMajor,
    /// \[73, 8, 8\]: the first move type from all squares, then the second.
    PlaneMajor,
}

/// Metadata keys of written models, which [`read_onnx`](super::read_onnx) reads.
pub mod metadata_key {
    /// The encoding if it is not lc0's: `alphazero`, or a sparse network's.
    pub const ENCODING: &str = "scorn.encoding";
    /// lc0's name of the input planes, such as `INPUT_CLASSICAL_112_PLANE`.
    pub const INPUT_FORMAT: &str = "lc0.input_format";
    /// The licence, in either spelling; lc0's comes first.
    pub const LICENSE: [&str; 2] = ["license", "licence"];
    /// The name of the input tensor.
    pub const INPUT: &str = "lc0.input";
    /// The policy head that was converted.
    pub const POLICY_HEAD: &str = "lc0.policy_head";
    /// The value head that was converted.
    pub const VALUE_HEAD: &str = "lc0.value_head";
    /// The name of the output with policy logits.
    pub const POLICY: &str = "lc0.output.policy";
    /// The name of the output with win, draw and loss probabilities.
    pub const WDL: &str = "lc0.output.wdl";
    /// The name of the output with a single value.
    pub const VALUE: &str = "lc0.output.value";
    /// The name of the output with plies left.
    pub const MLH: &str = "lc0.output.mlh";
}

/// Names of lc0's tensors.
pub(crate) mod tensor_name {
    pub(crate) const INPUT: &str = "/input/planes";
    pub(crate) const POLICY: &str = "/output/policy";
    pub(crate) const WDL: &str = "/output/wdl";
    pub(crate) const VALUE: &str = "/output/value";
    pub(crate) const MLH: &str = "/output/mlh";
}

/// The type of a model's weights and of its computation. Inputs and outputs are float32 in every case. lc0's names for
/// them are accepted, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DataType {
    /// 32-bit floats: exact, runs everywhere.
    #[default]
    #[value(name = "fp32", alias = "f32")]
    Float32,
    /// 16-bit floats: half the size, for GPUs.
    #[value(name = "fp16", alias = "f16")]
    Float16,
    /// 16-bit floats with the range of 32-bit ones, for recent GPUs.
    #[value(name = "bf16")]
    BFloat16,
    /// 8-bit integers in most layers of the body, which then take a quarter of their size; calibrated by games of the
    /// network against itself from the starting position, for CPUs.
    #[value(name = "int8")]
    Int8,
}

impl DataType {
    pub(super) fn name(self) -> &'static str {
        match self {
            DataType::Float32 => "fp32",
            DataType::Float16 => "fp16",
            DataType::BFloat16 => "bf16",
            DataType::Int8 => "int8",
        }
    }
}

/// Options of a conversion.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// The policy head: `vanilla` (the default), `optimistic`, `soft` or `opponent`.
    pub policy_head: Option<String>,
    /// The value head: `winner` (the default), `q` or `st`.
    pub value_head: Option<String>,
    /// The type of weights and computation.
    pub data_type: DataType,
    /// A fixed batch size; `None` for any size.
    pub batch: Option<usize>,
    /// The ranges of activations; [`DataType::Int8`] needs them, see [`calibration_model`](super::calibration_model).
    pub calibration: Option<Calibration>,
    /// The encoding of a model that is already ONNX; `None` takes that of its metadata.
    pub encoding: Option<OnnxEncoding>,
    /// Whether values are limited before squaring so that 16-bit floats can hold the squares, which
    /// [`DataType::Float16`] always does: for runtimes that compute a 32-bit model in 16 bits.
    pub limits_squares: bool,
    /// The operators that the model may have.
    pub operators: Operators,
}

/// The inputs of a model that takes planes as bits; see [`pack_input`](super::pack_input).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedInput {
    /// A byte for each rank of each plane, the a-file as bit 0: \[batch, planes, 8\], uint8.
    pub masks: String,
    /// The values of planes that hold a number: \[batch, such planes\], float32.
    pub scalars: String,
}

/// What distinguishes a model with Scorn's own operators ([`Operators::Scorn`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelModel {
    /// The place of each entry of the policy vector among the logits that the network computes.
    pub policy_places: Vec<i32>,
}

/// The inputs of a model whose policy is the probabilities of the legal moves; see
/// [`gather_legal_moves`](super::gather_legal_moves).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegalMoves {
    /// The entries of the policy vector that stand for the legal moves, then -1: \[batch, slots\], int16.
    pub entries: String,
    /// The inverse of the softmax temperature: \[1\], float32.
    pub sharpness: String,
    /// Places for moves of a position.
    pub slots: usize,
}

/// An ONNX model with lc0's inputs and outputs, and the names of its tensors.
#[derive(Clone, Debug)]
pub struct OnnxModel {
    /// The model, as in an `.onnx` file.
    pub bytes: Vec<u8>,
    /// The input tensor, \[batch, 112, 8, 8\], float32.
    pub input: String,
    /// The packed inputs that replace it, if planes are given as bits.
    pub packed: Option<PackedInput>,
    /// The input planes that the model reads.
    pub planes_read: PlaneSet,
    /// The inputs for legal moves, if the policy is their probabilities.
    pub legal_moves: Option<LegalMoves>,
    /// If the model has Scorn's own operators.
    pub kernels: Option<KernelModel>,
    /// Whether the model computes shapes at run time, which GPUs leave to the CPU.
    pub computes_shapes: bool,
    /// Whether it has convolutions.
    pub has_convolutions: bool,
    /// The number of filters that most of its convolutions have; 0 without convolutions.
    pub filters: usize,
    /// Whether it concatenates tensors, for which ONNX Runtime uploads lists to a GPU at run time if the parts are
    /// unequal.
    pub concatenates: bool,
    /// Whether its weights are bfloat16.
    pub is_bfloat16: bool,
    /// Policy logits, \[batch, 1858\], or the probabilities of legal moves, \[batch, slots\].
    pub policy: String,
    /// Win, draw and loss probabilities, \[batch, 3\].
    pub wdl: Option<String>,
    /// The value, -1..=1, \[batch, 1\]; in networks without win/draw/loss.
    pub value: Option<String>,
    /// Plies left, \[batch, 1\].
    pub mlh: Option<String>,
    /// What the input planes hold.
    pub input_format: InputFormat,
    /// Only of a sparse network ([`crate::sparse::file`]), which has its own inputs and moves; `input_format` is unused
    /// then.
    pub sparse: Option<SparseModel>,
    /// The order of moves if it has AlphaZero's encoding (`input_format` is unused then, too).
    pub alphazero: Option<AlphaZeroMoves>,
    /// The batch size, if it is fixed.
    pub batch: Option<usize>,
}

/// What distinguishes sparse networks from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseModel {
    /// Whether the inputs include the last moves.
    pub reads_moves: bool,
    /// Whether they include who is to move, the engine or its opponent.
    pub reads_mover: bool,
    /// Whether the policy has rows for tactical classes of moves.
    pub has_classes: bool,
}

impl OnnxModel {
    /// A model without bytes and tensors, to be filled in.
    pub fn empty(input_format: InputFormat) -> OnnxModel {
        OnnxModel {
            bytes: Vec::new(),
            input: tensor_name::INPUT.to_owned(),
            packed: None,
            legal_moves: None,
            kernels: None,
            planes_read: PlaneSet::ALL,
            computes_shapes: false,
            has_convolutions: false,
            filters: 0,
            concatenates: false,
            is_bfloat16: false,
            policy: tensor_name::POLICY.to_owned(),
            wdl: None,
            value: None,
            mlh: None,
            input_format,
            sparse: None,
            alphazero: None,
            batch: None,
        }
    }

    /// The metadata entries that name the tensors.
    pub(crate) fn tensor_metadata(&self) -> Vec<(&'static str, String)> {
        let outputs = [
            (metadata_key::WDL, &self.wdl),
            (metadata_key::VALUE, &self.value),
            (metadata_key::MLH, &self.mlh),
        ];
        let encoding = match self.alphazero {
            Some(_) => (metadata_key::ENCODING, OnnxEncoding::ALPHAZERO.to_owned()),
            None => (
                metadata_key::INPUT_FORMAT,
                self.input_format.lc0_name().to_owned(),
            ),
        };
        let named = [
            encoding,
            (metadata_key::INPUT, self.input.clone()),
            (metadata_key::POLICY, self.policy.clone()),
        ];
        let outputs = outputs
            .into_iter()
            .filter_map(|(key, name)| Some((key, name.clone()?)));
        named.into_iter().chain(outputs).collect()
    }
}

/// The ranges of activations in positions of games.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    ranges: BTreeMap<String, Range>,
}

impl Calibration {
    /// Extends the range of a tensor to these values. Non-finite values are ignored.
    pub fn observe(&mut self, tensor: &str, values: &[f32]) {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let range = self.ranges.entry(tensor.to_owned()).or_default();
        range.min = finite().fold(range.min, f32::min);
        range.max = finite().fold(range.max, f32::max);
    }

    /// Whether every one of these tensors has had different values.
    #[cfg(test)]
    pub(crate) fn covers(&self, tensors: &[String]) -> bool {
        let is_wide = |name| {
            self.ranges
                .get(name)
                .is_some_and(|range| range.min < range.max)
        };
        tensors.iter().all(is_wide)
    }

    pub(super) fn range(&self, tensor: &str) -> Result<Range, NetError> {
        let range = self.ranges.get(tensor).copied();
        range.ok_or_else(|| NetError::missing(format!("the calibrated range of tensor {tensor}")))
    }
}
