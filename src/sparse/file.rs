//! A sparse network as an ONNX file, and back.
//!
//! The file holds the integers of [`infer`] and a graph that does the same computation in floating point: every sum and
//! product of the first layers is an integer, small enough to be exact in 32-bit floats, and `Floor` truncates like the
//! integer code. Every runtime therefore computes the same outputs, except for the last bits of the float sums at the
//! end. The graph's input is dense: 1 where an input of [`features`](super::features) is active, 0 elsewhere.
//!
//! | tensor | shape | |
//! |---|---|---|
//! | `/input/planes` | \[batch, 79 or 93, 8, 8\] | 0 or 1: the inputs in order, 64 a plane; the rest of the last is unused |
//! | `/output/policy` | \[batch, 7768, 8254 or 8452\] | logits of all rows of [`moves`](super::moves) and of [`classes`](super::classes) |
//! | `/output/wdl` | \[batch, 3\] | probabilities for the side to move |
//! | `/output/mlh` | \[batch, 1\] | plies left |
//!
//! The version is the set of inputs ([`InputSet`]): `sparse-2` those of the position, `sparse-4` those of the position
//! and who is to move, `sparse-5` and `sparse-6` these with classes of moves in the policy, `sparse-8` those of the
//! position, of the last moves and of the players' rating, with classes for human moves (`sparse-3` had others). Files
//! of the first version (`sparse-1`, 49 planes) have the first [`FIRST_INPUTS`] inputs only. They are read as networks
//! with weights of 0 for the other inputs, and runtimes get a graph with all inputs. Those of `sparse-7` have the first
//! [`FIRST_RATINGS`] ratings only; the others are read as the last of these.

use std::collections::HashMap;

use prost::Message;
use thiserror::Error;

use super::classes::MoveClasses;
use super::features::{FIRST_INPUTS, FIRST_RATINGS, INPUTS, InputSet, PIECE_INPUTS, RATINGS};
use super::infer::{self, IntegerFirstLayer, IntegerNetwork, IntegerValueHead, MAX_BIAS};
use super::moves::row_count;
use super::network::{
    ACTIVATION_ONE, OUTPUTS, PLIES_UNIT, PRODUCT_ONE, PRODUCT_SHIFT, SUM_ONE, Shape, WEIGHT_ONE,
};
use crate::lc0::onnx::graph::{Graph, GraphValue, Precision};
use crate::lc0::onnx::proto::{ModelProto, TensorProto, data_type};
use crate::lc0::onnx::read;
use crate::lc0::{InputFormat, NetError, OnnxEncoding, OnnxModel, SparseModel};

/// The metadata key of the encoding of inputs and moves.
pub const ENCODING_KEY: &str = "scorn.encoding";
/// Inputs, rows and integers as they are in this version.
pub const ENCODING: &str = "sparse-2";
/// The same with inputs of the last moves and the players' rating.
pub const HISTORY_ENCODING: &str = "sparse-8";
/// The same without the rating of grandmasters.
const FIRST_HISTORY_ENCODING: &str = "sparse-7";
/// Those of the position, and who is to move.
pub const OPPONENT_ENCODING: &str = "sparse-4";
/// Those of the position, with tactical classes of moves.
pub const CLASSES_ENCODING: &str = "sparse-5";
/// Those, and who is to move.
pub const OPPONENT_CLASSES_ENCODING: &str = "sparse-6";
/// Versions that can be read, how many inputs their files have, and the inputs of the networks.
const VERSIONS: [(&str, usize, InputSet); 7] = [
    (ENCODING, INPUTS, InputSet::Position),
    ("sparse-1", FIRST_INPUTS, InputSet::Position),
    (HISTORY_ENCODING, InputSet::History.len(), InputSet::History),
    (
        FIRST_HISTORY_ENCODING,
        InputSet::History.len() - (RATINGS.len() - FIRST_RATINGS),
        InputSet::History,
    ),
    (
        OPPONENT_ENCODING,
        InputSet::Opponent.len(),
        InputSet::Opponent,
    ),
    (CLASSES_ENCODING, INPUTS, InputSet::Classes),
    (
        OPPONENT_CLASSES_ENCODING,
        InputSet::OpponentClasses.len(),
        InputSet::OpponentClasses,
    ),
];
/// The rating of a network of several that is used without naming one.
pub const DEFAULT_RATING: u32 = 1500;
/// The input tensor.
pub const INPUT: &str = "/input/planes";
/// The output with the logits of all rows.
pub const POLICY: &str = "/output/policy";
/// The output with probabilities of win, draw and loss.
pub const WDL: &str = "/output/wdl";
/// The output with the plies left.
pub const PLIES: &str = "/output/mlh";

/// Maximum weight: no trained network has larger ones, with which a value may not be finite.
const MAX_WEIGHT: f32 = 10_000.0;

/// Why a file cannot be read as a sparse network.
#[derive(Debug, Error)]
pub enum FileError {
    /// The bytes are no ONNX model, or one that no runtime should load.
    #[error("{0}")]
    Onnx(NetError),
    /// It is another kind of network.
    #[error(
        "not a sparse network that this version reads: the metadata entry {ENCODING_KEY} is {found}, expected \
         sparse-1, sparse-2 or sparse-4 to sparse-8"
    )]
    Encoding {
        /// The entry's value, or that it is missing.
        found: String,
    },
    /// A tensor is missing or has another type or shape than expected.
    #[error("damaged sparse network: {what}")]
    Tensor {
        /// The tensor and its defect.
        what: String,
    },
}

impl From<NetError> for FileError {
    fn from(error: NetError) -> FileError {
        FileError::Onnx(error)
    }
}

impl From<prost::DecodeError> for FileError {
    fn from(error: prost::DecodeError) -> FileError {
        let what = "ONNX model";
        FileError::Onnx(NetError::Protobuf { what, error })
    }
}

/// A file's metadata.
pub type Metadata = Vec<(String, String)>;

/// The ONNX model of a network, with this metadata after the encoding.
pub fn write(network: &IntegerNetwork, metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut graph = Graph::new("sparse network", Precision::Float32);
    let g = &mut graph;
    let (inputs, planes) = (network.inputs.len(), network.inputs.planes());
    let dense = g.input(INPUT, None, &[planes, 8, 8]);
    let flat = g.reshape("/input/flat", &dense, &[-1, 64 * planes as i64]);
    let input = g.slice("/input/used", &flat, &[(1, 0, inputs as i64)]);
    let products = first(g, "/policy", &input, &network.policy);
    let rows = weights(
        g,
        "/policy/rows",
        &[network.rows_bias.len(), network.policy.width / 2],
        &network.rows,
    );
    let biases: Vec<f32> = network
        .rows_bias
        .iter()
        .map(|&sum| sum as f32 / SUM_ONE)
        .collect();
    let biases = g.floats("/policy/rows/bias", &[biases.len()], &biases);
    let sums = g.matmul("/policy/sums", &products, &rows);
    let policy = g.add(POLICY, &sums, &biases);
    let products = first(g, "/value", &input, &network.value);
    let outputs = value_head(
        g,
        &input,
        &products,
        &network.value_head,
        network.value.width / 2,
    );
    let wdl = g.slice("/value/wdl", &outputs, &[(1, 0, 3)]);
    let wdl = g.softmax(WDL, &wdl);
    let plies = g.slice("/value/plies", &outputs, &[(1, 3, 4)]);
    let unit = g.floats("/value/plies/unit", &[1], &[PLIES_UNIT]);
    let plies = g.mul("/value/plies/scaled", &plies, &unit);
    let plies = g.relu(PLIES, &plies);
    for (output, width) in [(&policy, network.rows_bias.len()), (&wdl, 3), (&plies, 1)] {
        g.output(output, None, &[width]);
    }
    let encoding = match network.inputs {
        InputSet::Position => ENCODING,
        InputSet::History => HISTORY_ENCODING,
        InputSet::Opponent => OPPONENT_ENCODING,
        InputSet::Classes => CLASSES_ENCODING,
        InputSet::OpponentClasses => OPPONENT_CLASSES_ENCODING,
    };
    let own = [(ENCODING_KEY, encoding)];
    let all = own.iter().chain(metadata);
    let all = all.map(|(key, value)| (key.to_string(), value.to_string()));
    graph.into_model(all.collect()).encode_to_vec()
}

/// 8-bit weights [output, product] as a matrix [product, output], multiplied by the quantisation step.
fn weights(g: &mut Graph, name: &str, dims: &[usize; 2], values: &[i8]) -> GraphValue {
    let steps = g.bytes(&format!("{name}/weights"), dims, values);
    let steps = g.transpose(&format!("{name}/transposed"), &steps, &[1, 0]);
    let scale = g.floats("/weights/step", &[1], &[1.0 / WEIGHT_ONE as f32]);
    g.mul(name, &steps, &scale)
}

/// A first layer: the products of pairs, 0 to 1 in steps of 1 / 127.
fn first(g: &mut Graph, name: &str, input: &GraphValue, layer: &IntegerFirstLayer) -> GraphValue {
    let table = g.bytes(
        &format!("{name}/in/weights"),
        &[layer.weights.len() / layer.width, layer.width],
        &layer.weights,
    );
    let bias: Vec<f32> = layer.bias.iter().map(|&bias| f32::from(bias)).collect();
    let bias = g.floats(&format!("{name}/in/bias"), &[layer.width], &bias);
    let sums = g.matmul(&format!("{name}/in/sums"), input, &table);
    let sums = g.add(&format!("{name}/in"), &sums, &bias);
    let clipped = g.clip(
        &format!("{name}/clipped"),
        &sums,
        0.0,
        ACTIVATION_ONE as f32,
    );
    let (first, second) = g.halves(&format!("{name}/halves"), &clipped);
    let products = g.mul(&format!("{name}/pairs"), &first, &second);
    let shift = g.floats(
        "/products/shift",
        &[1],
        &[1.0 / f32::from(1_u16 << PRODUCT_SHIFT)],
    );
    let products = g.mul(&format!("{name}/shifted"), &products, &shift);
    let products = g.floor(&format!("{name}/whole"), &products);
    let step = g.floats("/products/step", &[1], &[1.0 / PRODUCT_ONE as f32]);
    g.mul(&format!("{name}/products"), &products, &step)
}

/// The value network behind its products: logits of win, draw, loss, and plies in their unit.
fn value_head(
    g: &mut Graph,
    input: &GraphValue,
    products: &GraphValue,
    head: &IntegerValueHead,
    half: usize,
) -> GraphValue {
    let (stages, units) = (head.stages, head.units);
    let all = stages * units;
    let stage = &(stages > 1).then(|| (stages, stage(g, input, head)));
    let hidden = weights(g, "/value/hidden", &[all, half], &head.hidden);
    let biases: Vec<f32> = head
        .hidden_bias
        .iter()
        .map(|&sum| sum as f32 / SUM_ONE)
        .collect();
    let biases = g.floats("/value/hidden/bias", &[all], &biases);
    let first = dense(
        g,
        "/value/first",
        products,
        (&hidden, &biases, units),
        stage,
    );
    let first = squared_crelu(g, "/value/first", &first);
    let second = side_by_side(&head.second, stages, units);
    let second = g.floats("/value/second/weights", &[units, all], &second);
    let biases = g.floats("/value/second/bias", &[all], &head.second_bias);
    let second = dense(g, "/value/second", &first, (&second, &biases, units), stage);
    let second = squared_crelu(g, "/value/second", &second);
    let (out, outputs) = (side_by_side(&head.out, stages, OUTPUTS), stages * OUTPUTS);
    let out = g.floats("/value/out/weights", &[units, outputs], &out);
    let biases = g.floats("/value/out/bias", &[outputs], head.out_bias.as_flattened());
    let out = dense(g, "/value/out", &second, (&out, &biases, OUTPUTS), stage);
    let direct = g.floats(
        "/value/direct/weights",
        &[head.direct.len(), OUTPUTS],
        &head.direct_weights(),
    );
    let direct = g.matmul("/value/direct", input, &direct);
    g.add("/value/outputs", &out, &direct)
}

/// Matrices of stages as one, in which they stand side by side: `[stage][row][column]` as `[row][stage][column]`.
fn side_by_side(weights: &[f32], stages: usize, columns: usize) -> Vec<f32> {
    let of_stage = weights.len() / stages;
    let rows = (0..of_stage).step_by(columns);
    let parts = rows.flat_map(|row| (0..stages).map(move |stage| stage * of_stage + row));
    parts
        .flat_map(|start| &weights[start..start + columns])
        .copied()
        .collect()
}

/// And back.
fn one_by_one(weights: &[f32], stages: usize, columns: usize) -> Vec<f32> {
    // The same with rows in the place of stages.
    side_by_side(weights, weights.len() / stages / columns, columns)
}

/// Which stage a position is of: \[batch, 1, stages\], 1 at its place, 0 elsewhere. See [`Shape::stage`].
fn stage(g: &mut Graph, input: &GraphValue, head: &IntegerValueHead) -> GraphValue {
    let (stages, inputs) = (head.stages, head.direct.len());
    let is_piece = |input| if input < PIECE_INPUTS { 1.0 } else { 0.0 };
    let ones: Vec<f32> = (0..inputs).map(is_piece).collect();
    let ones = g.floats("/stage/of/pieces", &[inputs, 1], &ones);
    let pieces = g.matmul("/stage/pieces", input, &ones);
    let (less, share) = (
        g.floats("/stage/less", &[1], &[-1.0]),
        g.floats("/stage/share", &[1], &[stages as f32 / 32.0]),
    );
    let others = g.add("/stage/others", &pieces, &less);
    let scaled = g.mul("/stage/scaled", &others, &share);
    let whole = g.floor("/stage/whole", &scaled);
    let number = g.clip("/stage/number", &whole, 0.0, stages as f32 - 1.0);
    // 1 - (number - stage)^2 is 1 where they are the same and not positive elsewhere.
    let negated: Vec<f32> = (0..stages).map(|stage| -(stage as f32)).collect();
    let negated = g.floats("/stage/negated", &[stages], &negated);
    let distance = g.add("/stage/distance", &number, &negated);
    let squared = g.mul("/stage/squared", &distance, &distance);
    let negative = g.mul("/stage/negative", &squared, &less);
    let one = g.floats("/stage/one", &[1], &[1.0]);
    let near = g.add("/stage/near", &negative, &one);
    let mask = g.relu("/stage/mask", &near);
    g.reshape("/stage", &mask, &[-1, 1, stages as i64])
}

/// The sums of a dense layer with this many columns; with stages (their number and the position's), those of that
/// stage.
fn dense(
    g: &mut Graph,
    name: &str,
    x: &GraphValue,
    (weights, bias, columns): (&GraphValue, &GraphValue, usize),
    stage: &Option<(usize, GraphValue)>,
) -> GraphValue {
    let sums = g.matmul(&format!("{name}/product"), x, weights);
    let sums = g.add(&format!("{name}/sums"), &sums, bias);
    let Some((stages, mask)) = stage else {
        return sums;
    };
    let dims = [-1, *stages as i64, columns as i64];
    let all = g.reshape(&format!("{name}/stages"), &sums, &dims);
    let own = g.matmul(&format!("{name}/own"), mask, &all);
    g.reshape(&format!("{name}/of-stage"), &own, &[-1, columns as i64])
}

/// The squares of sums, clipped to 0..1 before.
fn squared_crelu(g: &mut Graph, name: &str, sums: &GraphValue) -> GraphValue {
    let clipped = g.clip(&format!("{name}/clipped"), sums, 0.0, 1.0);
    g.mul(&format!("{name}/squares"), &clipped, &clipped)
}

/// Whether a file is a sparse network, whatever its version.
pub fn is_sparse(bytes: &[u8]) -> bool {
    let is_entry =
        |(key, value): &(String, String)| key == ENCODING_KEY && value != OnnxEncoding::ALPHAZERO;
    metadata(bytes).is_ok_and(|entries| entries.iter().any(is_entry))
}

/// Of which version a sparse network's file is, how many inputs those have, and the set of inputs of the network.
///
/// # Errors
/// When it is no sparse network, or one of an unknown version.
pub fn version(bytes: &[u8]) -> Result<(&'static str, usize, InputSet), FileError> {
    version_of(&metadata(bytes)?)
}

fn version_of(entries: &Metadata) -> Result<(&'static str, usize, InputSet), FileError> {
    let entry = entries.iter().find(|(key, _)| key == ENCODING_KEY);
    let found = entry.map_or("missing", |(_, encoding)| encoding);
    let version = VERSIONS.into_iter().find(|(name, ..)| *name == found);
    version.ok_or_else(|| FileError::Encoding {
        found: found.to_owned(),
    })
}

/// The metadata of an ONNX model.
///
/// # Errors
/// When the bytes are not an ONNX model.
pub fn metadata(bytes: &[u8]) -> Result<Metadata, FileError> {
    Ok(metadata_of(&read::decode(bytes)?))
}

fn metadata_of(model: &ModelProto) -> Metadata {
    let entries = model.metadata_props.iter();
    let pair = |key: &Option<String>| key.clone().unwrap_or_default();
    entries
        .map(|entry| (pair(&entry.key), pair(&entry.value)))
        .collect()
}

/// The model of a file, for runtimes. A network of several ratings becomes one of [`DEFAULT_RATING`].
///
/// # Errors
/// When it is no sparse network, or damaged.
pub fn model(bytes: &[u8]) -> Result<OnnxModel, FileError> {
    let (network, entries) = read_with_metadata(bytes)?;
    let inputs = network.inputs;
    let (_, in_file, _) = version_of(&entries)?;
    let bytes = if inputs.has_history() || in_file != inputs.len() {
        write_again(&network.for_rating(DEFAULT_RATING), &entries)
    } else {
        bytes.to_vec()
    };
    Ok(OnnxModel {
        bytes,
        input: INPUT.to_owned(),
        policy: POLICY.to_owned(),
        wdl: Some(WDL.to_owned()),
        mlh: Some(PLIES.to_owned()),
        sparse: Some(inputs.into()),
        ..OnnxModel::empty(InputFormat::Classical112)
    })
}

impl From<InputSet> for SparseModel {
    fn from(inputs: InputSet) -> SparseModel {
        SparseModel {
            reads_moves: inputs.has_history(),
            reads_mover: inputs.has_mover(),
            has_classes: inputs.classes() == MoveClasses::Tactical,
        }
    }
}

impl From<SparseModel> for InputSet {
    fn from(model: SparseModel) -> InputSet {
        match (model.reads_moves, model.reads_mover, model.has_classes) {
            (true, ..) => InputSet::History,
            (false, false, false) => InputSet::Position,
            (false, false, true) => InputSet::Classes,
            (false, true, false) => InputSet::Opponent,
            (false, true, true) => InputSet::OpponentClasses,
        }
    }
}

/// The file of a network of one rating, made from one of several ([`IntegerNetwork::for_rating`]). Other networks stay
/// as they are.
///
/// # Errors
/// When it is no sparse network, or damaged.
pub fn for_rating(bytes: &[u8], rating: u32) -> Result<Vec<u8>, FileError> {
    let (network, entries) = read_with_metadata(bytes)?;
    Ok(write_again(&network.for_rating(rating), &entries))
}

/// The file of a network with the value of one file and the policy of another, whose inputs are the first ones of the
/// first file's: further inputs have no effect on the policy. The metadata are those of the first.
///
/// # Errors
/// When one is no sparse network, or damaged, or the inputs do not fit.
pub fn with_policy(value: &[u8], policy: &[u8]) -> Result<Vec<u8>, FileError> {
    let (network, entries) = read_with_metadata(value)?;
    let other = read(policy)?;
    let Some(inputs) = network.inputs.with_policy_of(other.inputs) else {
        return Err(FileError::Tensor {
            what: "its policy belongs to a network with other inputs or moves".to_owned(),
        });
    };
    let mut first = other.policy;
    first.weights.resize(inputs.len() * first.width, 0);
    let network = IntegerNetwork {
        inputs,
        policy: first,
        rows: other.rows,
        rows_bias: other.rows_bias,
        ..network
    };
    Ok(write_again(&network, &entries))
}

/// The model of a network with the metadata of a file, whose encoding is left out.
fn write_again(network: &IntegerNetwork, entries: &Metadata) -> Vec<u8> {
    let others = entries.iter().filter(|(key, _)| key != ENCODING_KEY);
    let others: Vec<_> = others.map(|(key, value)| (&**key, &**value)).collect();
    write(network, &others)
}

/// The network of an ONNX model that [`write()`] made.
///
/// # Errors
/// When it is no such model, or damaged.
pub fn read(bytes: &[u8]) -> Result<IntegerNetwork, FileError> {
    Ok(read_with_metadata(bytes)?.0)
}

fn read_with_metadata(bytes: &[u8]) -> Result<(IntegerNetwork, Metadata), FileError> {
    let model = read::decode_for_runtime(bytes)?;
    let entries = metadata_of(&model);
    let (_, inputs, set) = version_of(&entries)?;
    let tensors = Tensors::of(model)?;
    let [policy, value] = ["/policy", "/value"].map(|name| tensors.first(name, inputs, set));
    let (policy, value) = (policy?, value?);
    // Those of all stages, as many as there are biases of the outputs.
    let all = tensors.length("/value/hidden/bias")?;
    let stages = (tensors.length("/value/out/bias")? / OUTPUTS).max(1);
    if !all.is_multiple_of(stages) {
        return Err(damaged(format!(
            "/value/hidden/bias has {all} numbers, not the same number for each of {stages} stages"
        )));
    }
    let (units, outputs) = (all / stages, stages * OUTPUTS);
    let shape = Shape {
        policy: policy.width,
        value: value.width,
        hidden: units,
        stages,
        inputs: set,
    };
    if !shape.is_valid() {
        return Err(damaged(format!("there is no network of sizes {shape:?}")));
    }
    let second = tensors.floats("/value/second/weights", &[units, all])?;
    let out = tensors.floats("/value/out/weights", &[units, outputs])?;
    let out_bias = tensors.floats("/value/out/bias", &[outputs])?;
    let mut direct = tensors.floats("/value/direct/weights", &[inputs, OUTPUTS])?;
    add_later_inputs(&mut direct, (inputs, set), OUTPUTS);
    let network = IntegerNetwork {
        inputs: set,
        rows: tensors.bytes("/policy/rows/weights", &[row_count(set), shape.policy / 2])?,
        rows_bias: sums(&tensors.floats("/policy/rows/bias", &[row_count(set)])?),
        value_head: IntegerValueHead {
            stages,
            units,
            hidden: tensors.bytes("/value/hidden/weights", &[all, shape.value / 2])?,
            hidden_bias: sums(&tensors.floats("/value/hidden/bias", &[all])?),
            second: one_by_one(&second, stages, units),
            second_bias: tensors.floats("/value/second/bias", &[all])?,
            out: one_by_one(&out, stages, OUTPUTS),
            out_bias: out_bias.as_chunks().0.to_vec(),
            direct: infer::direct(&direct),
        },
        policy,
        value,
    };
    if network.is_consistent() {
        Ok((network, entries))
    } else {
        Err(damaged(format!(
            "its sizes {shape:?} do not belong together"
        )))
    }
}

/// Adds the rows of weights of those inputs that a file lacks because its version is older: 0, but a rating's are those
/// of the nearest one that it has.
fn add_later_inputs<T: Copy + Default>(
    weights: &mut Vec<T>,
    (inputs, set): (usize, InputSet),
    width: usize,
) {
    if set.has_history() {
        let last = weights.len() - width;
        for _ in inputs..set.len() {
            weights.extend_from_within(last..last + width);
        }
    } else {
        weights.resize(set.len() * width, T::default());
    }
}

fn sums(biases: &[f32]) -> Vec<i32> {
    biases
        .iter()
        .map(|bias| (bias * SUM_ONE).round() as i32)
        .collect()
}

fn damaged(what: String) -> FileError {
    FileError::Tensor { what }
}

/// The constants of a model by name.
struct Tensors(HashMap<String, TensorProto>);

impl Tensors {
    fn of(model: ModelProto) -> Result<Tensors, FileError> {
        let mut tensors = HashMap::new();
        for bytes in model
            .graph
            .map(|graph| graph.initializer)
            .unwrap_or_default()
        {
            let tensor = TensorProto::decode(bytes)?;
            tensors.insert(tensor.name.clone().unwrap_or_default(), tensor);
        }
        Ok(Tensors(tensors))
    }

    fn get(&self, name: &str) -> Result<&TensorProto, FileError> {
        self.0
            .get(name)
            .ok_or_else(|| damaged(format!("{name} is missing")))
    }

    /// The last dimension.
    fn length(&self, name: &str) -> Result<usize, FileError> {
        let length = self.get(name)?.dims.last().copied();
        let length = length.and_then(|length| usize::try_from(length).ok());
        length.ok_or_else(|| damaged(format!("{name} has no size")))
    }

    /// The contents of a tensor of a type (of `width` bytes) and shape.
    fn raw(
        &self,
        name: &str,
        element: i32,
        width: usize,
        dims: &[usize],
    ) -> Result<&[u8], FileError> {
        let tensor = self.get(name)?;
        let expected: Vec<i64> = dims.iter().map(|&dim| dim as i64).collect();
        let bytes = tensor.raw_data.as_deref().unwrap_or_default();
        let is_right = tensor.data_type == Some(element)
            && tensor.dims == expected
            && bytes.len() == dims.iter().product::<usize>() * width;
        if is_right {
            Ok(bytes)
        } else {
            let found = &tensor.dims;
            Err(damaged(format!(
                "{name} is {found:?}, expected {expected:?}"
            )))
        }
    }

    fn bytes(&self, name: &str, dims: &[usize]) -> Result<Vec<i8>, FileError> {
        let raw = self.raw(name, data_type::INT8, 1, dims)?;
        Ok(raw.iter().map(|&byte| byte as i8).collect())
    }

    /// Floats that no sum of them makes infinite.
    fn floats(&self, name: &str, dims: &[usize]) -> Result<Vec<f32>, FileError> {
        let raw = self.raw(name, data_type::FLOAT, 4, dims)?;
        let values: Vec<f32> = raw
            .as_chunks()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect();
        if values.iter().all(|value| value.abs() <= MAX_WEIGHT) {
            Ok(values)
        } else {
            Err(damaged(format!(
                "{name} holds NaN or a number beyond +-{MAX_WEIGHT}"
            )))
        }
    }

    /// A first layer of a file with this many inputs; inputs of the set that the file lacks have weights of 0.
    fn first(
        &self,
        name: &str,
        inputs: usize,
        set: InputSet,
    ) -> Result<IntegerFirstLayer, FileError> {
        let bias = format!("{name}/in/bias");
        let width = self.length(&bias)?;
        let bias = self.floats(&bias, &[width])?;
        if bias.iter().any(|bias| bias.abs() > MAX_BIAS.into()) {
            return Err(damaged(format!(
                "{name}/in/bias holds a number above {MAX_BIAS}"
            )));
        }
        let mut weights = self.bytes(&format!("{name}/in/weights"), &[inputs, width])?;
        add_later_inputs(&mut weights, (inputs, set), width);
        Ok(IntegerFirstLayer {
            width,
            weights,
            bias: bias.iter().map(|bias| bias.round() as i16).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rten::{Model, ModelOptions, Value};
    use rten_tensor::{AsView, NdTensor};

    use super::*;
    use crate::sparse::infer::{Scratch, softmax};
    use crate::sparse::moves::{MoveRows, ROWS};
    use crate::sparse::simd::Level;

    const SHAPE: Shape = Shape {
        policy: 128,
        value: 192,
        hidden: 8,
        stages: 1,
        inputs: InputSet::Position,
    };

    fn network() -> IntegerNetwork {
        network_of(SHAPE)
    }

    fn network_of(shape: Shape) -> IntegerNetwork {
        let mut weights = shape.start(4);
        // Nothing may be 0 everywhere, or its place in the graph would not matter.
        for (at, weight) in weights.iter_mut().enumerate() {
            *weight += 0.03 * (at as f32 * 0.7).sin();
        }
        IntegerNetwork::quantize(shape, &weights)
    }

    /// The same with stages.
    fn staged() -> IntegerNetwork {
        network_of(Shape { stages: 8, ..SHAPE })
    }

    #[test]
    fn a_network_survives_the_file() {
        let network = network();
        let bytes = write(&network, &[("name", "a test")]);
        assert!(read(&bytes).unwrap() == network);
        assert!(read(&write(&staged(), &[])).unwrap() == staged());
        assert!(is_sparse(&bytes) && !is_sparse(b"something else"));
        let entries = metadata(&bytes).unwrap();
        assert!(entries.contains(&("name".to_owned(), "a test".to_owned())));
    }

    /// A network whose later inputs have weights of 0, and its file of the first version.
    fn first_version() -> (IntegerNetwork, Vec<u8>) {
        let mut network = staged();
        for layer in [&mut network.policy, &mut network.value] {
            layer.weights[FIRST_INPUTS * layer.width..].fill(0);
        }
        network.value_head.direct[FIRST_INPUTS..].fill([0; OUTPUTS]);
        let bytes = of_fewer_inputs(&network, "sparse-1");
        (network, bytes)
    }

    /// The file of a network in an earlier version, which has only the first of its inputs.
    fn of_fewer_inputs(network: &IntegerNetwork, encoding: &str) -> Vec<u8> {
        let (_, few, set) = *VERSIONS
            .iter()
            .find(|(name, ..)| *name == encoding)
            .unwrap();
        let mut model = ModelProto::decode(&write(network, &[("name", "old")])[..]).unwrap();
        model.metadata_props[0].value = Some(encoding.into());
        for bytes in &mut model.graph.as_mut().unwrap().initializer {
            let mut tensor = TensorProto::decode(bytes.clone()).unwrap();
            if tensor.dims.first() == Some(&(set.len() as i64)) {
                let size = tensor.raw_data.as_ref().unwrap().len() / set.len() * few;
                tensor.dims[0] = few as i64;
                tensor.raw_data.as_mut().unwrap().truncate(size);
                *bytes = tensor.encode_to_vec().into();
            }
        }
        model.encode_to_vec()
    }

    #[test]
    fn files_of_the_first_version_are_read() {
        let (network, bytes) = first_version();
        let expected = ("sparse-1", 3092, InputSet::Position);
        assert_eq!(version(&bytes).unwrap(), expected);
        assert!(read(&bytes).unwrap() == network);
        // Runtimes get a graph with all inputs, and the file's metadata.
        let model = model(&bytes).unwrap();
        assert_eq!(version(&model.bytes).unwrap().0, ENCODING);
        assert!(read(&model.bytes).unwrap() == network);
        let entries = metadata(&model.bytes).unwrap();
        assert!(entries.contains(&("name".to_owned(), "old".to_owned())));
        assert_eq!(entries.len(), 2);
    }

    #[test]
    fn a_network_of_several_ratings_becomes_one_of_a_rating() {
        let shape = Shape {
            inputs: InputSet::History,
            ..SHAPE
        };
        let network = network_of(shape);
        let bytes = write(&network, &[("name", "people")]);
        assert!(read(&bytes).unwrap() == network);
        let rated = for_rating(&bytes, 1700).unwrap();
        assert!(read(&rated).unwrap() == network.clone().for_rating(1700));
        assert!(metadata(&rated).unwrap() == metadata(&bytes).unwrap());
        // Runtimes get one of the default rating, or of the one that was chosen.
        let [any, chosen] = [&bytes, &rated].map(|bytes| model(bytes).unwrap());
        assert_eq!(any.sparse.map(InputSet::from), Some(InputSet::History));
        assert!(read(&any.bytes).unwrap() == network.for_rating(DEFAULT_RATING));
        assert!(read(&chosen.bytes).unwrap() == read(&rated).unwrap());
    }

    #[test]
    fn a_file_without_grandmasters_takes_them_for_the_best_it_knows() {
        let network = network_of(Shape {
            inputs: InputSet::History,
            ..SHAPE
        });
        let bytes = of_fewer_inputs(&network, FIRST_HISTORY_ENCODING);
        let old = read(&bytes).unwrap();
        assert!(old.is_consistent() && old.inputs == InputSet::History);
        assert!(old != network);
        for rating in [1100, 1700, 1900] {
            assert!(old.clone().for_rating(rating) == network.clone().for_rating(rating));
        }
        assert!(old.clone().for_rating(2600) == old.for_rating(1900));
    }

    #[test]
    fn a_network_of_the_opponent_survives_the_file() {
        let network = network_of(Shape {
            inputs: InputSet::Opponent,
            ..SHAPE
        });
        let bytes = write(&network, &[]);
        assert_eq!(version(&bytes).unwrap().0, OPPONENT_ENCODING);
        assert!(read(&bytes).unwrap() == network);
        let model = model(&bytes).unwrap();
        assert_eq!(model.sparse.map(InputSet::from), Some(InputSet::Opponent));
        assert!(read(&model.bytes).unwrap() == network);
    }

    #[test]
    fn a_value_takes_the_policy_of_another_file() {
        let value = network_of(Shape {
            inputs: InputSet::Opponent,
            ..SHAPE
        });
        let other = network_of(Shape {
            policy: 128,
            ..SHAPE
        });
        let bytes = write(&value, &[("name", "odds")]);
        let both = with_policy(&bytes, &write(&other, &[])).unwrap();
        assert!(metadata(&both).unwrap() == metadata(&bytes).unwrap());
        let both = read(&both).unwrap();
        assert!(both.is_consistent() && both.shape().policy == 128);
        assert!(both.value == value.value && both.value_head == value.value_head);
        assert!(both.policy.weights.starts_with(&other.policy.weights));
        let people = network_of(Shape {
            inputs: InputSet::History,
            ..SHAPE
        });
        let classed = network_of(Shape {
            inputs: InputSet::Classes,
            ..SHAPE
        });
        let both = with_policy(&bytes, &write(&classed, &[])).unwrap();
        assert_eq!(version(&both).unwrap().0, OPPONENT_CLASSES_ENCODING);
        let both = read(&both).unwrap();
        assert!(both.is_consistent() && both.rows == classed.rows && both.value == value.value);
        let error = with_policy(&bytes, &write(&people, &[])).unwrap_err();
        assert!(error.to_string().contains("other inputs"), "{error}");
    }

    #[test]
    fn another_encoding_and_damage_are_named() {
        let bytes = write(&network(), &[]);
        let changed = |change: &dyn Fn(&mut ModelProto)| {
            let mut model = ModelProto::decode(&bytes[..]).unwrap();
            change(&mut model);
            read(&model.encode_to_vec()).unwrap_err().to_string()
        };
        let error = changed(&|model| model.metadata_props[0].value = Some("sparse-9".into()));
        assert!(error.contains("sparse-9"), "{error}");
        let error = changed(&|model| model.metadata_props.clear());
        assert!(error.contains("missing"), "{error}");
        let error = changed(&|model| model.graph.as_mut().unwrap().initializer.truncate(3));
        assert!(error.contains("is missing"), "{error}");
        // Sizes that would be divided by.
        let error = changed(&|model| {
            let constants = &mut model.graph.as_mut().unwrap().initializer;
            for bytes in constants {
                let mut tensor = TensorProto::decode(bytes.clone()).unwrap();
                if tensor.name.as_deref() == Some("/value/hidden/bias") {
                    tensor.dims = vec![0];
                    tensor.raw_data = None;
                    *bytes = tensor.encode_to_vec().into();
                }
            }
        });
        assert!(error.contains("hidden: 0"), "{error}");
        assert!(read(&bytes[..bytes.len() / 2]).is_err());
        // Numbers that a sum could not hold.
        let with_number = |name: &str, number: f32| {
            changed(&|model| {
                for bytes in &mut model.graph.as_mut().unwrap().initializer {
                    let mut tensor = TensorProto::decode(bytes.clone()).unwrap();
                    if tensor.name.as_deref() == Some(name) {
                        let raw = tensor.raw_data.as_deref().unwrap();
                        let raw = [&number.to_le_bytes()[..], &raw[4..]].concat();
                        tensor.raw_data = Some(raw.into());
                        *bytes = tensor.encode_to_vec().into();
                    }
                }
            })
        };
        for number in [f32::NAN, f32::INFINITY, 3e38] {
            let error = with_number("/value/out/bias", number);
            assert!(error.contains("/value/out/bias"), "{error}");
        }
        let error = with_number("/policy/in/bias", 4000.0);
        assert!(error.contains("/policy/in/bias"), "{error}");
    }

    #[test]
    fn units_that_the_stages_do_not_share_equally_are_named() {
        let mut model = ModelProto::decode(&write(&staged(), &[])[..]).unwrap();
        for bytes in &mut model.graph.as_mut().unwrap().initializer {
            let mut tensor = TensorProto::decode(bytes.clone()).unwrap();
            if tensor.name.as_deref() == Some("/value/hidden/bias") {
                tensor.dims[0] += 1;
                let raw = tensor.raw_data.as_deref().unwrap();
                tensor.raw_data = Some([raw, &[0; 4]].concat().into());
                *bytes = tensor.encode_to_vec().into();
            }
        }
        let error = read(&model.encode_to_vec()).unwrap_err().to_string();
        assert!(error.contains("not the same number"), "{error}");
    }

    #[test]
    fn a_runtime_computes_the_same_from_the_file() {
        let inputs: [u16; 11] = [3, 77, 500, 901, 1500, 1777, 2222, 3071, 3080, 4000, 5025];
        let more: Vec<u16> = (0..31).map(|at| 5 + 97 * at).collect();
        let (one, many) = (network(), staged());
        let values = [
            check_runtime(&one, &inputs),
            check_runtime(&many, &inputs),
            check_runtime(&many, &more),
        ];
        assert!(values[1] != values[0] && values[2] != values[1]);
        let past = network_of(Shape {
            inputs: InputSet::History,
            ..SHAPE
        });
        let last = InputSet::History.len() as u16 - 1;
        check_runtime(&past, &[&inputs[..], &[5500, last]].concat());
        let classed = network_of(Shape {
            inputs: InputSet::Classes,
            ..SHAPE
        });
        check_runtime(&classed, &inputs);
    }

    /// Compares the outputs of `rten` with ours and returns our value.
    fn check_runtime(network: &IntegerNetwork, inputs: &[u16]) -> [f32; 3] {
        let bytes = write(network, &[]);
        let model: Model = ModelOptions::with_all_ops().load(bytes).unwrap();
        let mut dense = NdTensor::<f32, 4>::zeros([2, network.inputs.planes(), 8, 8]);
        for input in inputs.iter().copied().map(usize::from) {
            dense[[1, input / 64, input / 8 % 8, input % 8]] = 1.0;
        }
        let node = |name: &str| model.node_id(name).unwrap();
        let found = model
            .run(
                vec![(node(INPUT), dense.view().into())],
                &[node(POLICY), node(WDL), node(PLIES)],
                None,
            )
            .unwrap();
        let second = |value: &Value, width: usize| -> Vec<f32> {
            let Value::FloatTensor(tensor) = value else {
                panic!("not floats");
            };
            tensor.iter().copied().skip(width).collect()
        };
        let scratch = &mut Scratch::default();
        let count = row_count(network.inputs);
        let classes = row_count(network.inputs) - ROWS;
        let rows: Vec<u16> = (0..ROWS as u16).collect();
        // Each class in turn.
        let of_moves = 0..if classes == 0 { 0 } else { ROWS };
        let classes: Vec<u16> = of_moves.map(|at| (ROWS + at % classes) as u16).collect();
        let rows = MoveRows {
            rows: &rows,
            classes: &classes,
        };
        let mut logits = vec![0.0; ROWS];
        let level = Level::detect();
        network.policy(level, inputs, rows, &mut logits, scratch);
        let from_graph: Vec<f32> = rows.logits(&second(&found[0], count)).collect();
        let largest = logits
            .iter()
            .fold(0.0_f32, |most, logit| most.max(logit.abs()));
        assert!(largest > 0.05, "{largest}");
        for (ours, theirs) in logits.iter().zip(&from_graph) {
            assert!((ours - theirs).abs() < 1e-4, "{ours} {theirs}");
        }
        let value = network.value(level, inputs, scratch);
        for (ours, theirs) in value.wdl.iter().zip(second(&found[1], 3)) {
            assert!((ours - theirs).abs() < 1e-5, "{ours} {theirs}");
        }
        assert!((value.plies - second(&found[2], 1)[0]).abs() < 1e-3);
        softmax(&mut logits);
        assert!((logits.iter().sum::<f32>() - 1.0).abs() < 1e-4);
        value.wdl
    }
}
