//! From a network's typed layers to an ONNX model.
//!
//! The graph takes lc0's 112 planes and gives policy logits over the 1858 moves, win/draw/loss probabilities (or one
//! value), and plies left. What lc0 computes at run time but depends on weights only is computed here instead: batch
//! normalisation, the scale of attention scores, the residual factor of deep transformers, the position encoding, and
//! the common part of promotion logits are all folded into weights and biases.

mod attention;
mod conv;
mod heads;
mod quantize;

use prost::Message;

use super::{
    architecture::{Architecture, Body, PLANES},
    error::NetError,
    format::{Activation, Format, InputFormat, Structure},
    net::Net,
    onnx::{
        PlaneSet,
        graph::{Graph, Precision, Value},
        proto::ModelProto,
        read::embedded_model,
    },
    weights::{Dense, Norm},
};

use quantize::Quantization;

pub use super::onnx::read::read_onnx;
pub use quantize::Calibration;

/// Metadata keys of the models written, and understood by [`read_onnx`].
pub mod metadata_key {
    /// lc0's name of the input planes, such as `INPUT_CLASSICAL_112_PLANE`.
    pub const INPUT_FORMAT: &str = "lc0.input_format";
    /// The name of the input tensor.
    pub const INPUT: &str = "lc0.input";
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

/// No protobuf message may be larger than this.
const MAX_MODEL_BYTES: usize = i32::MAX as usize;

/// The type of a model's weights and of its computation. Inputs and outputs are float32 in every case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DataType {
    /// 32-bit floats: exact, runs everywhere.
    #[default]
    #[value(name = "fp32")]
    Float32,
    /// 16-bit floats: half the size, for GPUs.
    #[value(name = "fp16")]
    Float16,
    /// 16-bit floats with the range of 32-bit ones, for recent GPUs.
    #[value(name = "bf16")]
    BFloat16,
    /// 8-bit integers in the body, calibrated on real positions: a quarter of the size, for CPUs.
    #[value(name = "int8")]
    Int8,
}

impl DataType {
    fn precision(self) -> Precision {
        match self {
            DataType::Float32 | DataType::Int8 => Precision::Float32,
            DataType::Float16 => Precision::Float16,
            DataType::BFloat16 => Precision::BFloat16,
        }
    }

    fn name(self) -> &'static str {
        match self {
            DataType::Float32 => "fp32",
            DataType::Float16 => "fp16",
            DataType::BFloat16 => "bf16",
            DataType::Int8 => "int8",
        }
    }
}

/// How to convert a network.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// The policy head: `vanilla` (the default), `optimistic`, `soft` or `opponent`.
    pub policy_head: Option<String>,
    /// The value head: `winner` (the default), `q` or `st`.
    pub value_head: Option<String>,
    /// The type of weights and computation.
    pub data_type: DataType,
    /// A fixed batch size; any size without it.
    pub batch: Option<usize>,
    /// The ranges of activations; [`DataType::Int8`] needs them, see [`calibration_model`].
    pub calibration: Option<Calibration>,
}

/// An ONNX model with lc0's inputs and outputs, and the names of its tensors.
#[derive(Clone, Debug)]
pub struct OnnxModel {
    /// The model, as in an `.onnx` file.
    pub bytes: Vec<u8>,
    /// The input tensor, \[batch, 112, 8, 8\], float32.
    pub input: String,
    /// The planes of it that the model reads.
    pub planes_read: PlaneSet,
    /// Whether the model works out shapes while it runs. GPUs leave that to the CPU.
    pub computes_shapes: bool,
    /// Policy logits, \[batch, 1858\].
    pub policy: String,
    /// Win, draw and loss probabilities, \[batch, 3\].
    pub wdl: Option<String>,
    /// The value, -1..=1, \[batch, 1\]; in networks without win/draw/loss.
    pub value: Option<String>,
    /// Plies left, \[batch, 1\].
    pub mlh: Option<String>,
    /// What the input planes hold.
    pub input_format: InputFormat,
    /// The batch size, if it is fixed.
    pub batch: Option<usize>,
}

impl OnnxModel {
    /// The metadata entries that tell a reader which tensor is which.
    pub(crate) fn tensor_metadata(&self) -> Vec<(&'static str, String)> {
        let outputs = [
            (metadata_key::WDL, &self.wdl),
            (metadata_key::VALUE, &self.value),
            (metadata_key::MLH, &self.mlh),
        ];
        let named = [
            (
                metadata_key::INPUT_FORMAT,
                self.input_format.lc0_name().to_owned(),
            ),
            (metadata_key::INPUT, self.input.clone()),
            (metadata_key::POLICY, self.policy.clone()),
        ];
        let outputs = outputs
            .into_iter()
            .filter_map(|(key, name)| Some((key, name.clone()?)));
        named.into_iter().chain(outputs).collect()
    }
}

/// Converts a network. An embedded ONNX model is passed through as it is.
pub fn to_onnx(net: &Net, options: &ConvertOptions) -> Result<OnnxModel, NetError> {
    if net.format().structure == Structure::Onnx {
        return embedded_model(net, options);
    }
    let quantization = match (options.data_type, &options.calibration) {
        (DataType::Int8, Some(calibration)) => Quantization::Apply(calibration.clone()),
        (DataType::Int8, None) => return Err(NetError::missing("the calibration for int8")),
        _ => Quantization::None,
    };
    Ok(emit(net, options, quantization)?.0)
}

/// For calibration: the float32 model with the same heads, and the names of the additional outputs whose values, on
/// real positions, are to be given to [`Calibration::observe`]. Their shapes are those of the layers.
pub fn calibration_model(
    net: &Net,
    options: &ConvertOptions,
) -> Result<(OnnxModel, Vec<String>), NetError> {
    if net.format().structure == Structure::Onnx {
        return Err(NetError::Unsupported {
            field: "calibration".to_owned(),
            found: "asked for an embedded ONNX model".to_owned(),
            expected: "networks with layers of their own".to_owned(),
        });
    }
    let float = ConvertOptions {
        data_type: DataType::Float32,
        ..options.clone()
    };
    emit(net, &float, Quantization::Collect(Vec::new()))
}

/// Writes the model; with [`Quantization::Collect`] also the names of the tensors to calibrate.
fn emit(
    net: &Net,
    options: &ConvertOptions,
    quantization: Quantization,
) -> Result<(OnnxModel, Vec<String>), NetError> {
    let format = *net.format();
    let architecture = Architecture::read(
        net.proto(),
        format,
        options.policy_head.as_deref(),
        options.value_head.as_deref(),
    )?;
    let mut emitter = Emitter {
        graph: Graph::new("lc0 network", options.data_type.precision()),
        format,
        batch: options.batch,
        quantization,
    };
    let input = tensor_name::INPUT.to_owned();
    let planes = emitter.graph.input(&input, options.batch, &[PLANES, 8, 8]);
    let features = emitter.body(&architecture.body, planes)?;
    let policy = emitter.policy(&architecture.policy, &features)?;
    let (wdl, value) = emitter.value(&architecture.value, &features)?;
    let mlh = match &architecture.moves_left {
        Some(head) => Some(emitter.moves_left(head, &features)?),
        None => None,
    };
    let mut model = OnnxModel {
        bytes: Vec::new(),
        input,
        planes_read: PlaneSet::ALL,
        computes_shapes: false,
        policy,
        wdl,
        value,
        mlh,
        input_format: format.input,
        batch: options.batch,
    };
    let metadata = metadata(net, options, &architecture, &model);
    let Emitter {
        mut graph,
        quantization,
        ..
    } = emitter;
    let shown = match quantization {
        Quantization::Collect(tensors) => tensors,
        _ => Vec::new(),
    };
    shown.iter().for_each(|tensor| graph.extra_output(tensor));
    model.bytes = encode(&graph.into_model(metadata))?;
    Ok((
        model,
        shown
            .iter()
            .map(|tensor| tensor.name().to_owned())
            .collect(),
    ))
}

/// The bytes of the model, if there are not too many for protobuf.
fn encode(model: &ModelProto) -> Result<Vec<u8>, NetError> {
    match model.encoded_len() > MAX_MODEL_BYTES {
        false => Ok(model.encode_to_vec()),
        true => Err(NetError::TooLarge {
            what: "the ONNX model (a 16-bit data type halves it)",
            limit: MAX_MODEL_BYTES as u64,
        }),
    }
}

/// What the model tells about itself.
fn metadata(
    net: &Net,
    options: &ConvertOptions,
    architecture: &Architecture<'_>,
    model: &OnnxModel,
) -> Vec<(String, String)> {
    let entries = [
        ("lc0.policy_head", Some(architecture.policy_name.clone())),
        ("lc0.value_head", Some(architecture.value_name.clone())),
        ("lc0.network", net.name().map(str::to_owned)),
        ("lc0.network_sha256", Some(net.sha256().to_owned())),
        ("lc0.data_type", Some(options.data_type.name().to_owned())),
        ("license", net.proto().license.clone()),
    ];
    let entries = entries
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    let tensors = model.tensor_metadata();
    let pairs = tensors.into_iter().chain(entries);
    pairs.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The features of the body, in the layout the body computes them in.
enum Features {
    /// \[batch, channels, 8, 8\]
    Board(Value),
    /// \[batch x 64, width\]
    Tokens(Value),
}

/// Writes the parts of a network into a graph.
struct Emitter {
    graph: Graph,
    format: Format,
    batch: Option<usize>,
    quantization: Quantization,
}

impl Emitter {
    fn body(&mut self, body: &Body<'_>, planes: Value) -> Result<Features, NetError> {
        Ok(match body {
            Body::Conv(tower) => Features::Board(self.tower(tower, planes)?),
            Body::Attention(body) => Features::Tokens(self.attention_body(body, planes)?),
        })
    }

    /// W x + b, both times `scale`, over the last dimension of `x`.
    fn dense(
        &mut self,
        name: &str,
        x: &Value,
        dense: &Dense<'_>,
        scale: f32,
    ) -> Result<Value, NetError> {
        let (weights, bias) = dense.decode(scale)?;
        let weights = self.graph.floats(
            &format!("{name}/weights"),
            &[dense.inputs, dense.outputs],
            &weights,
        );
        let Some(bias) = bias else {
            return Ok(self.graph.matmul(name, x, &weights));
        };
        let bias = self
            .graph
            .floats(&format!("{name}/bias"), &[dense.outputs], &bias);
        let product = self.graph.matmul(&format!("{name}/matmul"), x, &weights);
        Ok(self.graph.add(name, &product, &bias))
    }

    /// A dense layer and an activation.
    fn dense_activated(
        &mut self,
        name: &str,
        x: &Value,
        dense: &Dense<'_>,
        activation: Activation,
    ) -> Result<Value, NetError> {
        let y = self.dense(name, x, dense, 1.0)?;
        Ok(self.graph.activation(name, y, activation))
    }

    fn layer_norm(
        &mut self,
        name: &str,
        x: &Value,
        norm: &Norm<'_>,
        epsilon: f32,
    ) -> Result<Value, NetError> {
        let size = norm.gammas.len();
        let gammas = self
            .graph
            .floats(&format!("{name}/gammas"), &[size], &norm.gammas.decode()?);
        let betas = self
            .graph
            .floats(&format!("{name}/betas"), &[size], &norm.betas.decode()?);
        Ok(self.graph.layer_norm(name, x, &gammas, &betas, epsilon))
    }
}
