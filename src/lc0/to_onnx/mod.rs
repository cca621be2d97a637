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
mod squares;

use prost::Message;

use super::{
    architecture::{Architecture, Body, Tower},
    error::NetError,
    format::{Activation, Format, PLANES, Structure},
    model::{ConvertOptions, DataType, OnnxModel, tensor_name},
    net::Net,
    onnx::{
        check_converted,
        graph::{Graph, GraphValue, Operators, Precision},
        inspect::{concatenates, filters, has_convolutions},
        proto::ModelProto,
        read::embedded_model,
    },
    weights::{Dense, Norm},
};

use quantize::Quantization;

/// The precision of the graph.
fn precision(data_type: DataType) -> Precision {
    match data_type {
        DataType::Float32 | DataType::Int8 => Precision::Float32,
        DataType::Float16 => Precision::Float16,
        DataType::BFloat16 => Precision::BFloat16,
    }
}

/// Maximum size of a protobuf message.
const MAX_MODEL_BYTES: usize = i32::MAX as usize;

/// Converts a network. An embedded ONNX model stays as it is but for its interface, which
/// becomes float32, and Scorn's metadata.
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

/// For calibration: the float32 model with the same heads, and the names of the additional outputs whose values, in
/// positions of games, are to be given to [`Calibration::observe`](super::Calibration::observe). Their shapes are those
/// of the layers.
pub fn calibration_model(
    net: &Net,
    options: &ConvertOptions,
) -> Result<(OnnxModel, Vec<String>), NetError> {
    if net.format().structure == Structure::Onnx {
        return Err(NetError::Unsupported {
            field: "calibration".to_owned(),
            found: "requested for an embedded ONNX model".to_owned(),
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
        graph: empty_graph(options, &quantization),
        format,
        batch: options.batch,
        quantization,
    };
    let mut model = emitter.network(&architecture, options)?;
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
    let written = graph.into_model(metadata);
    if let Some(graph) = &written.graph {
        check_converted(graph)?;
        model.has_convolutions = has_convolutions(graph);
        model.filters = filters(graph);
        model.concatenates = concatenates(graph);
    }
    model.bytes = encode(&written)?;
    Ok((
        model,
        shown
            .iter()
            .map(|tensor| tensor.name().to_owned())
            .collect(),
    ))
}

/// The graph that the options describe, still empty.
fn empty_graph(options: &ConvertOptions, quantization: &Quantization) -> Graph {
    let operators = match quantization {
        Quantization::None => options.operators,
        // Integer kernels are made of ONNX's own.
        Quantization::Collect(_) | Quantization::Apply(_) => Operators::Standard,
    };
    Graph::new("lc0 network", precision(options.data_type))
        .limiting_squares(options.limits_squares)
        .with_operators(operators)
}

/// The bytes of the model, unless they are too many for protobuf.
fn encode(model: &ModelProto) -> Result<Vec<u8>, NetError> {
    if model.encoded_len() <= MAX_MODEL_BYTES {
        Ok(model.encode_to_vec())
    } else {
        Err(NetError::TooLarge {
            what: "the ONNX model (a 16-bit data type halves it)",
            limit: MAX_MODEL_BYTES as u64,
        })
    }
}

/// Metadata of the model.
fn metadata(
    net: &Net,
    options: &ConvertOptions,
    architecture: &Architecture<'_>,
    model: &OnnxModel,
) -> Vec<(String, String)> {
    let entries = [
        (
            super::metadata_key::POLICY_HEAD,
            Some(architecture.policy_name.clone()),
        ),
        (
            super::metadata_key::VALUE_HEAD,
            Some(architecture.value_name.clone()),
        ),
        ("lc0.network", net.name().map(str::to_owned)),
        ("lc0.network_sha256", Some(net.sha256().to_owned())),
        ("lc0.data_type", Some(options.data_type.name().to_owned())),
        (super::metadata_key::LICENSE[0], net.proto().license.clone()),
    ];
    let entries = entries
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    let tensors = model.tensor_metadata();
    let pairs = tensors.into_iter().chain(entries);
    pairs.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The features of the body, in the layout in which the body computes them.
enum BodyOutput {
    /// \[batch, channels, 8, 8\]
    Board(GraphValue),
    /// \[batch x 64, width\]
    Tokens(GraphValue),
    /// \[batch, 8, 8, channels\], for Scorn's own operators.
    Squares(GraphValue),
}

/// Writes the parts of a network into a graph.
struct Emitter {
    graph: Graph,
    format: Format,
    batch: Option<usize>,
    quantization: Quantization,
}

impl Emitter {
    /// Writes the body and the heads; the model has no bytes yet.
    fn network(
        &mut self,
        architecture: &Architecture<'_>,
        options: &ConvertOptions,
    ) -> Result<OnnxModel, NetError> {
        let input = tensor_name::INPUT.to_owned();
        let planes = if self.graph.is_for_kernels() {
            self.graph.raw_input(&input, options.batch, &[8, 8, PLANES])
        } else {
            self.graph.input(&input, options.batch, &[PLANES, 8, 8])
        };
        let features = self.body(&architecture.body, planes)?;
        let (policy, kernels) = if self.graph.is_for_kernels() {
            let (policy, kernels) = self.raw_policy(&architecture.policy, &features)?;
            (policy, Some(kernels))
        } else {
            (self.policy(&architecture.policy, &features)?, None)
        };
        let (wdl, value) = self.value(&architecture.value, &features)?;
        let mlh = match &architecture.moves_left {
            Some(head) => Some(self.moves_left(head, &features)?),
            None => None,
        };
        Ok(OnnxModel {
            input,
            kernels,
            policy,
            wdl,
            value,
            mlh,
            batch: options.batch,
            is_bfloat16: options.data_type == DataType::BFloat16,
            ..OnnxModel::empty(self.format.input)
        })
    }

    fn body(&mut self, body: &Body<'_>, planes: GraphValue) -> Result<BodyOutput, NetError> {
        Ok(match body {
            Body::Conv(tower) => self.convolutions(tower, planes)?,
            Body::Attention(body) => BodyOutput::Tokens(self.attention_body(body, planes)?),
        })
    }

    /// A convolutional body.
    fn convolutions(
        &mut self,
        tower: &Tower<'_>,
        planes: GraphValue,
    ) -> Result<BodyOutput, NetError> {
        Ok(if self.graph.is_for_kernels() {
            BodyOutput::Squares(self.tower_of_squares(tower, planes)?)
        } else {
            BodyOutput::Board(self.tower(tower, planes)?)
        })
    }

    /// The features of a body with this number of channels as \[batch x 64, channels\].
    fn tokens(&mut self, name: &str, features: &BodyOutput, channels: usize) -> GraphValue {
        match features {
            BodyOutput::Tokens(tokens) => tokens.clone(),
            BodyOutput::Board(board) => self.board_to_tokens(name, board, channels),
            BodyOutput::Squares(squares) => {
                let name = format!("{name}/tokens");
                self.graph.reshape(&name, squares, &[-1, channels as i64])
            }
        }
    }

    /// activation(x + bias), the bias being added along the last dimension, with Scorn's own operator.
    fn biased(
        &mut self,
        name: &str,
        x: &GraphValue,
        bias: &[f32],
        activation: Activation,
    ) -> GraphValue {
        let bias = self
            .graph
            .floats(&format!("{name}/bias"), &[bias.len()], bias);
        self.graph.bias_activation(name, x, &bias, activation)
    }

    /// W x + b, both multiplied by `scale`, over the last dimension of `x`.
    fn dense(
        &mut self,
        name: &str,
        x: &GraphValue,
        dense: &Dense<'_>,
        scale: f32,
    ) -> Result<GraphValue, NetError> {
        let (weights, bias) = dense.decode(scale)?;
        let weights = self.graph.floats(
            &format!("{name}/weights"),
            &[dense.inputs, dense.outputs],
            &weights,
        );
        let Some(bias) = bias else {
            return Ok(self.graph.matmul(name, x, &weights));
        };
        let product = self.graph.matmul(&format!("{name}/matmul"), x, &weights);
        if self.graph.is_for_kernels() {
            return Ok(self.biased(name, &product, &bias, Activation::None));
        }
        let bias = self
            .graph
            .floats(&format!("{name}/bias"), &[dense.outputs], &bias);
        Ok(self.graph.add(name, &product, &bias))
    }

    /// A dense layer and an activation.
    fn dense_activated(
        &mut self,
        name: &str,
        x: &GraphValue,
        dense: &Dense<'_>,
        activation: Activation,
    ) -> Result<GraphValue, NetError> {
        if self.graph.is_for_kernels() {
            let (product, bias) = self.product_and_bias(name, x, dense, 1.0)?;
            let bias = bias.unwrap_or_else(|| vec![0.0; dense.outputs]);
            return Ok(self.biased(name, &product, &bias, activation));
        }
        let y = self.dense(name, x, dense, 1.0)?;
        Ok(self.graph.activation(name, y, activation))
    }

    fn layer_norm(
        &mut self,
        name: &str,
        x: &GraphValue,
        norm: &Norm<'_>,
        epsilon: f32,
    ) -> Result<GraphValue, NetError> {
        let [gammas, betas] = self.norm_weights(name, norm)?;
        Ok(self.graph.layer_norm(name, x, &gammas, &betas, epsilon))
    }

    /// The factors and shifts of a normalisation.
    fn norm_weights(&mut self, name: &str, norm: &Norm<'_>) -> Result<[GraphValue; 2], NetError> {
        let size = norm.gammas.len();
        let gammas = self
            .graph
            .floats(&format!("{name}/gammas"), &[size], &norm.gammas.decode()?);
        let betas = self
            .graph
            .floats(&format!("{name}/betas"), &[size], &norm.betas.decode()?);
        Ok([gammas, betas])
    }

    /// W x without bias, and the bias, if there is one; both multiplied by `scale`.
    fn product_and_bias(
        &mut self,
        name: &str,
        x: &GraphValue,
        dense: &Dense<'_>,
        scale: f32,
    ) -> Result<(GraphValue, Option<Vec<f32>>), NetError> {
        let (weights, bias) = dense.decode(scale)?;
        let dims = [dense.inputs, dense.outputs];
        let weights = self
            .graph
            .floats(&format!("{name}/weights"), &dims, &weights);
        let product = self.graph.matmul(&format!("{name}/matmul"), x, &weights);
        Ok((product, bias))
    }
}
