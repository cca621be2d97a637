//! A builder for ONNX graphs with the operators of lc0's networks.
//!
//! Every method appends nodes and returns the [`GraphValue`] they compute, so a network reads as nested function calls.
//! Nodes are named like paths (`/block3/conv1`), and a node's output has the node's name. The precision of the
//! computation is a property of the graph: weights are stored in it, and operators that ONNX does not define for
//! bfloat16 are wrapped in casts. What is emitted is opset 17, restricted to operators that ONNX Runtime and rten both
//! have and optimise (MatMul + Add rather than Gemm, Softplus and Tanh rather than Mish, Elu rather than Selu).

use std::collections::{HashMap, HashSet};

use half::{bf16, f16};
use prost::{Message, bytes::Bytes};

use super::proto::{
    AttributeProto, Dimension, Extent, GraphProto, ModelProto, NodeProto, OperatorSetId,
    StringStringEntry, TensorProto, TensorShape, TensorType, TypeProto, ValueInfo, attribute_type,
    data_type,
};
use crate::{lc0::format::Activation, version::VERSION};

/// The name of the first dimension of inputs and outputs in written models, if it has no fixed size.
pub const BATCH_DIMENSION: &str = "batch";
/// The operator set of written models.
const OPSET: i64 = 17;
/// The version of ONNX's file format.
const IR_VERSION: i64 = 8;
/// The name and version of the operator set of ONNX Runtime.
const RUNTIME_DOMAIN: &str = "com.microsoft";
const RUNTIME_OPSET: i64 = 1;
/// The name of the set of Scorn's own operators, and its version.
pub const KERNEL_DOMAIN: &str = "scorn";
const KERNEL_OPSET: i64 = 1;

/// The floating point type of weights and of the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    Float32,
    Float16,
    BFloat16,
}

impl Precision {
    fn data_type(self) -> i32 {
        match self {
            Precision::Float32 => data_type::FLOAT,
            Precision::Float16 => data_type::FLOAT16,
            Precision::BFloat16 => data_type::BFLOAT16,
        }
    }

    fn encode(self, values: &[f32]) -> Bytes {
        let bytes: Vec<u8> = match self {
            Precision::Float32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Precision::Float16 => {
                // Saturate: an infinite weight would make every output NaN.
                let max = f16::MAX.to_f32();
                let half = |v: &f32| f16::from_f32(v.clamp(-max, max)).to_le_bytes();
                values.iter().flat_map(half).collect()
            }
            Precision::BFloat16 => values
                .iter()
                .flat_map(|&v| bf16::from_f32(v).to_le_bytes())
                .collect(),
        };
        bytes.into()
    }
}

/// The operators of a written model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operators {
    /// ONNX's own, which every runtime has.
    #[default]
    Standard,
    /// Those of ONNX Runtime, too: attention with its bias, a sum with its normalisation, and an activation are one
    /// operator each, and nothing depends on lists that the processor copies to a GPU at run time (`Concat` of
    /// unequal parts). For 32- and 16-bit floats; other types get ONNX's own.
    OnnxRuntime,
    /// Scorn's own kernels, too: what stands between two products or convolutions is one operator, and boards have
    /// their channels last, \[batch, 8, 8, channels\]. The graph takes its planes so, in the precision of the
    /// computation, and its policy is the logits of the network in their own order;
    /// [`pack_input`](crate::lc0::pack_input) and [`gather_legal_moves`](crate::lc0::gather_legal_moves) complete it.
    /// For the types that ONNX Runtime's operators have.
    Scorn,
}

/// The numbers of activations in the attribute `activation` of Scorn's own operators.
fn activation_code(activation: Activation) -> i64 {
    match activation {
        Activation::None => 0,
        Activation::Relu => 1,
        Activation::Tanh => 2,
        Activation::Sigmoid => 3,
        Activation::Relu2 => 4,
        Activation::Swish => 5,
        Activation::Mish => 6,
        Activation::Selu => 7,
    }
}

/// The name of a tensor in the graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GraphValue(String);

impl GraphValue {
    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

/// The values a tensor takes; always contains 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Range {
    pub(crate) min: f32,
    pub(crate) max: f32,
}

impl Range {
    /// The size of one of 255 steps. A tensor that is always 0 may have any scale.
    fn scale(self) -> f32 {
        match (self.max - self.min) / 255.0 {
            scale if scale.is_normal() => scale,
            _ => 1.0,
        }
    }

    /// The step that represents 0.
    fn zero_point(self) -> u8 {
        (-self.min / self.scale()).round().clamp(0.0, 255.0) as u8
    }
}

/// A value rounded to 255 steps, from [`Graph::quantize`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QuantizedValue {
    /// The rounded value.
    pub(crate) value: GraphValue,
    /// The range of the steps.
    range: Range,
}

/// 8-bit weights with a scale per output.
pub(crate) struct QuantizedWeights {
    dims: Vec<usize>,
    /// The dimension of the outputs.
    axis: usize,
    values: Vec<i8>,
    scales: Vec<f32>,
}

impl QuantizedWeights {
    /// Outputs are the first dimension.
    pub(crate) fn by_row(dims: &[usize], weights: &[f32]) -> QuantizedWeights {
        let row = weights.len() / dims[0].max(1);
        QuantizedWeights::new(dims, 0, weights, |index| index / row.max(1))
    }

    /// Outputs are the second of two dimensions.
    pub(crate) fn by_column(dims: &[usize; 2], weights: &[f32]) -> QuantizedWeights {
        QuantizedWeights::new(dims, 1, weights, |index| index % dims[1])
    }

    fn new(
        dims: &[usize],
        axis: usize,
        weights: &[f32],
        output: impl Fn(usize) -> usize,
    ) -> QuantizedWeights {
        let mut scales = vec![0f32; dims[axis]];
        for (index, weight) in weights.iter().enumerate() {
            let scale = &mut scales[output(index)];
            *scale = scale.max(weight.abs() / 127.0);
        }
        scales
            .iter_mut()
            .filter(|scale| !scale.is_normal())
            .for_each(|scale| *scale = 1.0);
        let quantized =
            |(index, weight): (usize, &f32)| (weight / scales[output(index)]).round() as i8;
        QuantizedWeights {
            dims: dims.to_vec(),
            axis,
            values: weights.iter().enumerate().map(quantized).collect(),
            scales,
        }
    }
}

/// A graph being built.
pub(crate) struct Graph {
    precision: Precision,
    /// That of the graph as a whole; some nodes have another.
    main_precision: Precision,
    /// Whether values are limited before squaring in other precisions than [`Precision::Float16`], too.
    limits_squares: bool,
    /// The operators that may be written.
    operators: Operators,
    /// Whether some of them are ONNX Runtime's own.
    has_runtime_nodes: bool,
    graph: GraphProto,
    /// Names of constants that exist.
    constants: HashSet<String>,
    /// Quantized values, by the values that were rounded and by the results.
    quantized: HashMap<GraphValue, QuantizedValue>,
}

/// An attribute that is an integer.
pub(super) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        i: Some(value),
        r#type: Some(attribute_type::INT),
        ..Default::default()
    }
}

fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        ints: values.to_vec(),
        r#type: Some(attribute_type::INTS),
        ..Default::default()
    }
}

fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        f: Some(value),
        r#type: Some(attribute_type::FLOAT),
        ..Default::default()
    }
}

/// The attributes of a convolution with a square kernel of odd size that keeps the board 8 x 8.
fn kernel_attributes(kernel: usize) -> Vec<AttributeProto> {
    let (kernel, pad) = (kernel as i64, kernel as i64 / 2);
    vec![ints("kernel_shape", &[kernel; 2]), ints("pads", &[pad; 4])]
}

/// An input or output of this shape.
pub(super) fn value_info(name: &str, element: i32, shape: Vec<Dimension>) -> ValueInfo {
    ValueInfo {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorType {
                elem_type: Some(element),
                shape: Some(TensorShape { dim: shape }),
            }),
        }),
    }
}

/// A float32 input or output whose first dimension is the batch.
fn float_info(name: &str, batch: Option<usize>, dims: &[usize]) -> ValueInfo {
    typed_info(name, data_type::FLOAT, batch, dims)
}

/// An input or output of this type whose first dimension is the batch.
fn typed_info(name: &str, element: i32, batch: Option<usize>, dims: &[usize]) -> ValueInfo {
    let batch = match batch {
        Some(size) => Extent::Value(size as i64),
        None => Extent::Param(BATCH_DIMENSION.to_owned()),
    };
    let rest = dims.iter().map(|&dim| Extent::Value(dim as i64));
    let shape = std::iter::once(batch).chain(rest).map(|extent| Dimension {
        extent: Some(extent),
    });
    value_info(name, element, shape.collect())
}

/// An encoded node that converts a tensor to another type.
pub(crate) fn cast_node(from: &str, to: &str, data_type: i32) -> Bytes {
    let node = NodeProto {
        input: vec![from.to_owned()],
        output: vec![to.to_owned()],
        name: Some(format!("{from}/to/{to}")),
        op_type: Some("Cast".to_owned()),
        attribute: vec![int("to", i64::from(data_type))],
        domain: None,
    };
    node.encode_to_vec().into()
}

impl Graph {
    /// An empty graph.
    pub(crate) fn new(name: &str, precision: Precision) -> Graph {
        Graph {
            precision,
            main_precision: precision,
            limits_squares: false,
            operators: Operators::Standard,
            has_runtime_nodes: false,
            graph: GraphProto {
                name: Some(name.to_owned()),
                ..Default::default()
            },
            constants: HashSet::new(),
            quantized: HashMap::new(),
        }
    }

    /// The same graph with values limited before squaring so that 16 bits can hold the squares, whatever its
    /// precision is.
    pub(crate) fn limiting_squares(self, limits_squares: bool) -> Graph {
        Graph {
            limits_squares,
            ..self
        }
    }

    /// The same graph with these operators.
    pub(crate) fn with_operators(self, operators: Operators) -> Graph {
        Graph { operators, ..self }
    }

    /// Whether ONNX Runtime's own operators are written, which are not defined for all types.
    pub(crate) fn is_for_runtime(&self) -> bool {
        self.operators != Operators::Standard && self.precision != Precision::BFloat16
    }

    /// Whether Scorn's own operators are written, and boards have their channels last.
    pub(crate) fn is_for_kernels(&self) -> bool {
        self.operators == Operators::Scorn
            && self.main_precision != Precision::BFloat16
            && self.precision == self.main_precision
    }

    /// The type of weights and computation.
    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    /// Sets the type of weights and computation of the following nodes; returns the previous one.
    pub(crate) fn set_precision(&mut self, precision: Precision) -> Precision {
        std::mem::replace(&mut self.precision, precision)
    }

    /// The constant with this name, if it exists.
    pub(crate) fn constant(&self, name: &str) -> Option<GraphValue> {
        self.constants
            .contains(name)
            .then(|| GraphValue(name.to_owned()))
    }

    /// The graph's input in the precision of the computation.
    pub(crate) fn raw_input(
        &mut self,
        name: &str,
        batch: Option<usize>,
        dims: &[usize],
    ) -> GraphValue {
        let element = self.precision.data_type();
        let input = typed_info(name, element, batch, dims);
        self.graph.input.push(input);
        GraphValue(name.to_owned())
    }

    /// Declares a value as an output in the precision of the computation.
    pub(crate) fn raw_output(&mut self, value: &GraphValue, batch: Option<usize>, dims: &[usize]) {
        let element = self.precision.data_type();
        let output = typed_info(value.name(), element, batch, dims);
        self.graph.output.push(output);
    }

    /// The graph's input, float32, converted to the precision of the computation.
    pub(crate) fn input(&mut self, name: &str, batch: Option<usize>, dims: &[usize]) -> GraphValue {
        self.graph.input.push(float_info(name, batch, dims));
        let input = GraphValue(name.to_owned());
        match self.precision {
            Precision::Float32 => input,
            precision => self.cast(&format!("{name}/narrow"), &input, precision),
        }
    }

    /// Declares a value as a float32 output; its name is the output's name.
    pub(crate) fn output(&mut self, value: &GraphValue, batch: Option<usize>, dims: &[usize]) {
        self.graph
            .output
            .push(float_info(value.name(), batch, dims));
    }

    /// Adds a float32 value of any shape as an output.
    pub(crate) fn extra_output(&mut self, value: &GraphValue) {
        self.graph.output.push(ValueInfo {
            name: Some(value.name().to_owned()),
            r#type: Some(TypeProto {
                tensor_type: Some(TensorType {
                    elem_type: Some(data_type::FLOAT),
                    shape: None,
                }),
            }),
        });
    }

    fn operator_sets(&self) -> Vec<OperatorSetId> {
        let set = |domain: &str, version| OperatorSetId {
            domain: Some(domain.to_owned()),
            version: Some(version),
        };
        let mut sets = vec![set("", OPSET)];
        if self.has_runtime_nodes {
            sets.push(set(RUNTIME_DOMAIN, RUNTIME_OPSET));
        }
        if self.operators == Operators::Scorn {
            sets.push(set(KERNEL_DOMAIN, KERNEL_OPSET));
        }
        sets
    }

    /// The finished model.
    pub(crate) fn into_model(self, metadata: Vec<(String, String)>) -> ModelProto {
        let opset_import = self.operator_sets();
        let entry = |(key, value)| StringStringEntry {
            key: Some(key),
            value: Some(value),
        };
        ModelProto {
            ir_version: Some(IR_VERSION),
            producer_name: Some("Scorn".to_owned()),
            producer_version: Some(VERSION.to_owned()),
            graph: Some(self.graph),
            opset_import,
            metadata_props: metadata.into_iter().map(entry).collect(),
            ..Default::default()
        }
    }

    fn initializer(
        &mut self,
        name: &str,
        dims: &[usize],
        data_type: i32,
        raw_data: Bytes,
    ) -> GraphValue {
        if self.constants.insert(name.to_owned()) {
            let tensor = TensorProto {
                dims: dims.iter().map(|&dim| dim as i64).collect(),
                data_type: Some(data_type),
                name: Some(name.to_owned()),
                raw_data: Some(raw_data),
            };
            self.graph.initializer.push(tensor.encode_to_vec().into());
        }
        GraphValue(name.to_owned())
    }

    /// A constant in the precision of the computation. A name that was used before returns the existing constant.
    pub(crate) fn floats(&mut self, name: &str, dims: &[usize], values: &[f32]) -> GraphValue {
        let bytes = self.precision.encode(values);
        self.initializer(name, dims, self.precision.data_type(), bytes)
    }

    /// A constant list of integers.
    pub(crate) fn integers(&mut self, name: &str, values: &[i64]) -> GraphValue {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.initializer(name, &[values.len()], data_type::INT64, bytes.into())
    }

    /// A constant list of truth values.
    pub(crate) fn booleans(&mut self, name: &str, values: &[bool]) -> GraphValue {
        let bytes: Vec<u8> = values.iter().map(|&value| u8::from(value)).collect();
        self.initializer(name, &[values.len()], data_type::BOOL, bytes.into())
    }

    /// A constant stored as 8-bit integers, in the precision of the computation.
    pub(crate) fn bytes(&mut self, name: &str, dims: &[usize], values: &[i8]) -> GraphValue {
        let bytes: Vec<u8> = values.iter().map(|&value| value as u8).collect();
        let stored = self.initializer(name, dims, data_type::INT8, bytes.into());
        let precision = self.precision;
        self.cast(&format!("{name}/wide"), &stored, precision)
    }

    /// A constant list of integers named after its contents.
    fn dims(&mut self, values: &[i64]) -> GraphValue {
        let text: Vec<String> = values.iter().map(i64::to_string).collect();
        self.integers(&format!("/dims/{}", text.join("x")), values)
    }

    fn node_with_outputs(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[&GraphValue],
        attributes: Vec<AttributeProto>,
        outputs: Vec<String>,
    ) {
        let node = NodeProto {
            input: inputs.iter().map(|value| value.0.clone()).collect(),
            output: outputs,
            name: Some(name.to_owned()),
            op_type: Some(op.to_owned()),
            attribute: attributes,
            domain: None,
        };
        self.graph.node.push(node.encode_to_vec().into());
    }

    /// A node of ONNX Runtime's own operators. An input that is left out has no name.
    fn runtime_node(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[Option<&GraphValue>],
        attributes: Vec<AttributeProto>,
    ) -> GraphValue {
        self.has_runtime_nodes = true;
        self.node_of(RUNTIME_DOMAIN, op, name, inputs, attributes)
    }

    /// A node of Scorn's own operators.
    fn kernel_node(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[&GraphValue],
        activation: Activation,
    ) -> GraphValue {
        let inputs: Vec<_> = inputs.iter().map(|&input| Some(input)).collect();
        let attributes = vec![int("activation", activation_code(activation))];
        self.node_of(KERNEL_DOMAIN, op, name, &inputs, attributes)
    }

    fn node_of(
        &mut self,
        domain: &str,
        op: &str,
        name: &str,
        inputs: &[Option<&GraphValue>],
        attributes: Vec<AttributeProto>,
    ) -> GraphValue {
        let input = |value: &Option<&GraphValue>| value.map_or_else(String::new, |v| v.0.clone());
        let node = NodeProto {
            input: inputs.iter().map(input).collect(),
            output: vec![name.to_owned()],
            name: Some(name.to_owned()),
            op_type: Some(op.to_owned()),
            attribute: attributes,
            domain: Some(domain.to_owned()),
        };
        self.graph.node.push(node.encode_to_vec().into());
        GraphValue(name.to_owned())
    }

    fn node(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[&GraphValue],
        attributes: Vec<AttributeProto>,
    ) -> GraphValue {
        self.node_with_outputs(op, name, inputs, attributes, vec![name.to_owned()]);
        GraphValue(name.to_owned())
    }

    /// A node that opset 17 does not define for bfloat16: it is computed in float32.
    fn wide_node(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[&GraphValue],
        attributes: Vec<AttributeProto>,
    ) -> GraphValue {
        if self.precision != Precision::BFloat16 {
            return self.node(op, name, inputs, attributes);
        }
        let wide: Vec<GraphValue> = inputs
            .iter()
            .enumerate()
            .map(|(i, input)| self.cast(&format!("{name}/wide{i}"), input, Precision::Float32))
            .collect();
        let wide: Vec<&GraphValue> = wide.iter().collect();
        let result = self.node(op, &format!("{name}/wide"), &wide, attributes);
        self.cast(name, &result, Precision::BFloat16)
    }

    fn cast(&mut self, name: &str, value: &GraphValue, to: Precision) -> GraphValue {
        self.node(
            "Cast",
            name,
            &[value],
            vec![int("to", i64::from(to.data_type()))],
        )
    }

    /// The value in float32, for outputs.
    pub(crate) fn widen(&mut self, name: &str, value: GraphValue) -> GraphValue {
        match self.precision {
            Precision::Float32 => value,
            _ => self.cast(name, &value, Precision::Float32),
        }
    }

    /// A convolution with a square kernel of odd size and padding that keeps the board 8 x 8.
    pub(crate) fn conv(
        &mut self,
        name: &str,
        x: &GraphValue,
        weights: &GraphValue,
        bias: &GraphValue,
        kernel: usize,
    ) -> GraphValue {
        self.wide_node("Conv", name, &[x, weights, bias], kernel_attributes(kernel))
    }

    /// The same without a bias, for a board with its channels last. The transpositions around it cancel those with
    /// which a runtime surrounds convolutions that it computes so.
    pub(crate) fn conv_of_board(
        &mut self,
        name: &str,
        x: &GraphValue,
        weights: &GraphValue,
        kernel: usize,
    ) -> GraphValue {
        let attributes = kernel_attributes(kernel);
        let x = self.transpose(&format!("{name}/channels"), x, &[0, 3, 1, 2]);
        let y = self.node("Conv", &format!("{name}/conv"), &[&x, weights], attributes);
        self.transpose(name, &y, &[0, 2, 3, 1])
    }

    /// activation(x + bias), the bias being added along the last dimension, as one operator.
    pub(crate) fn bias_activation(
        &mut self,
        name: &str,
        x: &GraphValue,
        bias: &GraphValue,
        activation: Activation,
    ) -> GraphValue {
        self.kernel_node("BiasActivation", name, &[x, bias], activation)
    }

    /// activation(x + bias + shortcut), as one operator.
    pub(crate) fn bias_sum_activation(
        &mut self,
        name: &str,
        [x, shortcut]: [&GraphValue; 2],
        bias: &GraphValue,
        activation: Activation,
    ) -> GraphValue {
        let inputs = [x, bias, shortcut];
        self.kernel_node("BiasSumActivation", name, &inputs, activation)
    }

    /// The end of a residual block on boards with their channels last, as one operator: activation(sigmoid(gamma)
    /// (x + bias) + beta + shortcut), where gamma and beta are dense functions of the means of x + bias. `squeeze` and
    /// `excite` are the weights and biases of the two layers.
    pub(crate) fn squeeze_excite(
        &mut self,
        name: &str,
        [x, shortcut]: [&GraphValue; 2],
        bias: &GraphValue,
        squeeze: [&GraphValue; 2],
        excite: [&GraphValue; 2],
        activation: Activation,
    ) -> GraphValue {
        let [squeeze, squeeze_bias] = squeeze;
        let [excite, excite_bias] = excite;
        let inputs = [
            x,
            bias,
            shortcut,
            squeeze,
            squeeze_bias,
            excite,
            excite_bias,
        ];
        self.kernel_node("SqueezeExcite", name, &inputs, activation)
    }

    /// The value rounded to 255 steps in this range. One that was rounded before stays as it was.
    pub(crate) fn quantize(&mut self, x: &GraphValue, range: Range) -> QuantizedValue {
        if let Some(known) = self.quantized(x) {
            return known;
        }
        let name = x.name();
        let scale = self.initializer(
            &format!("{name}/scale"),
            &[],
            data_type::FLOAT,
            range.scale().to_le_bytes().to_vec().into(),
        );
        let zero = self.initializer(
            &format!("{name}/zero"),
            &[],
            data_type::UINT8,
            vec![range.zero_point()].into(),
        );
        let steps = self.node(
            "QuantizeLinear",
            &format!("{name}/quantized"),
            &[x, &scale, &zero],
            Vec::new(),
        );
        let output = format!("{name}/dequantized");
        let value = self.node(
            "DequantizeLinear",
            &output,
            &[&steps, &scale, &zero],
            Vec::new(),
        );
        let quantized = QuantizedValue { value, range };
        for key in [x, &quantized.value] {
            self.quantized.insert(key.clone(), quantized.clone());
        }
        quantized
    }

    /// What [`Graph::quantize`] returned for this value, which may be the result itself.
    pub(crate) fn quantized(&self, x: &GraphValue) -> Option<QuantizedValue> {
        self.quantized.get(x).cloned()
    }

    /// 8-bit weights as dequantized floats.
    fn quantized_weights(&mut self, name: &str, weights: &QuantizedWeights) -> GraphValue {
        let bytes: Vec<u8> = weights.values.iter().map(|&value| value as u8).collect();
        self.dequantized_constant(
            name,
            weights,
            &weights.dims,
            data_type::INT8,
            bytes,
            &weights.scales,
        )
    }

    fn dequantized_constant(
        &mut self,
        name: &str,
        weights: &QuantizedWeights,
        dims: &[usize],
        data_type: i32,
        bytes: Vec<u8>,
        scales: &[f32],
    ) -> GraphValue {
        let width = if data_type == data_type::INT8 { 1 } else { 4 };
        let axis = if dims.len() == 1 { 0 } else { weights.axis };
        let steps = self.initializer(&format!("{name}/quantized"), dims, data_type, bytes.into());
        let scale_bytes: Vec<u8> = scales
            .iter()
            .flat_map(|scale| scale.to_le_bytes())
            .collect();
        let outputs = [scales.len()];
        let scale = self.initializer(
            &format!("{name}/scale"),
            &outputs,
            data_type::FLOAT,
            scale_bytes.into(),
        );
        let zeros = vec![0; width * scales.len()];
        let zero = self.initializer(&format!("{name}/zero"), &outputs, data_type, zeros.into());
        self.node(
            "DequantizeLinear",
            name,
            &[&steps, &scale, &zero],
            vec![int("axis", axis as i64)],
        )
    }

    /// Biases as 32-bit integers in the steps of the products, as integer kernels add them.
    fn quantized_bias(
        &mut self,
        name: &str,
        x: &QuantizedValue,
        weights: &QuantizedWeights,
        biases: &[f32],
    ) -> GraphValue {
        let step = x.range.scale();
        let scales: Vec<f32> = weights.scales.iter().map(|scale| scale * step).collect();
        let integers = biases
            .iter()
            .zip(&scales)
            .map(|(bias, scale)| (bias / scale).round() as i32);
        let bytes: Vec<u8> = integers.flat_map(|integer| integer.to_le_bytes()).collect();
        let bias_name = format!("{name}/bias");
        self.dequantized_constant(
            &bias_name,
            weights,
            &[biases.len()],
            data_type::INT32,
            bytes,
            &scales,
        )
    }

    /// A dense layer with 8-bit weights.
    pub(crate) fn quantized_dense(
        &mut self,
        name: &str,
        x: &QuantizedValue,
        weights: &QuantizedWeights,
        biases: &[f32],
    ) -> GraphValue {
        let bias = self.quantized_bias(name, x, weights, biases);
        let weights = self.quantized_weights(&format!("{name}/weights"), weights);
        let product = self.matmul(&format!("{name}/matmul"), &x.value, &weights);
        self.add(name, &product, &bias)
    }

    /// A convolution with 8-bit weights.
    pub(crate) fn quantized_conv(
        &mut self,
        name: &str,
        x: &QuantizedValue,
        weights: &QuantizedWeights,
        biases: &[f32],
        kernel: usize,
    ) -> GraphValue {
        let bias = self.quantized_bias(name, x, weights, biases);
        let weights = self.quantized_weights(&format!("{name}/weights"), weights);
        self.conv(name, &x.value, &weights, &bias, kernel)
    }

    /// Means over the board: \[batch, channels, 8, 8\] to \[batch, channels, 1, 1\].
    pub(crate) fn global_average_pool(&mut self, name: &str, x: &GraphValue) -> GraphValue {
        self.wide_node("GlobalAveragePool", name, &[x], Vec::new())
    }

    pub(crate) fn matmul(&mut self, name: &str, a: &GraphValue, b: &GraphValue) -> GraphValue {
        self.node("MatMul", name, &[a, b], Vec::new())
    }

    pub(crate) fn add(&mut self, name: &str, a: &GraphValue, b: &GraphValue) -> GraphValue {
        self.node("Add", name, &[a, b], Vec::new())
    }

    pub(crate) fn mul(&mut self, name: &str, a: &GraphValue, b: &GraphValue) -> GraphValue {
        self.node("Mul", name, &[a, b], Vec::new())
    }

    pub(crate) fn relu(&mut self, name: &str, x: &GraphValue) -> GraphValue {
        self.node("Relu", name, &[x], Vec::new())
    }

    /// The value limited for squaring: in 16 bits with a short exponent to at most 255, or the square would be
    /// infinite.
    fn squarable_relu(&mut self, name: &str, x: &GraphValue) -> GraphValue {
        if self.precision != Precision::Float16 && !self.limits_squares {
            return self.relu(name, x);
        }
        let least = self.floats("/relu2/least", &[], &[0.0]);
        let most = self.floats("/relu2/most", &[], &[255.0]);
        self.node("Clip", name, &[x, &least, &most], Vec::new())
    }

    /// The floor of the value.
    pub(crate) fn floor(&mut self, name: &str, x: &GraphValue) -> GraphValue {
        self.wide_node("Floor", name, &[x], Vec::new())
    }

    /// The value limited to a range.
    pub(crate) fn clip(&mut self, name: &str, x: &GraphValue, min: f32, max: f32) -> GraphValue {
        let limits = [min, max].map(|limit| self.floats(&format!("/limit/{limit}"), &[], &[limit]));
        self.wide_node("Clip", name, &[x, &limits[0], &limits[1]], Vec::new())
    }

    pub(crate) fn sigmoid(&mut self, name: &str, x: &GraphValue) -> GraphValue {
        self.node("Sigmoid", name, &[x], Vec::new())
    }

    pub(crate) fn tanh(&mut self, name: &str, x: &GraphValue) -> GraphValue {
        self.node("Tanh", name, &[x], Vec::new())
    }

    /// Softmax over the last dimension.
    pub(crate) fn softmax(&mut self, name: &str, x: &GraphValue) -> GraphValue {
        self.node("Softmax", name, &[x], vec![int("axis", -1)])
    }

    /// Layer normalisation over the last dimension.
    pub(crate) fn layer_norm(
        &mut self,
        name: &str,
        x: &GraphValue,
        gammas: &GraphValue,
        betas: &GraphValue,
        epsilon: f32,
    ) -> GraphValue {
        let attributes = vec![int("axis", -1), float("epsilon", epsilon)];
        self.node("LayerNormalization", name, &[x, gammas, betas], attributes)
    }

    /// Layer normalisation of `x + bias + shortcut` over the last dimension, as one operator.
    pub(crate) fn skip_layer_norm(
        &mut self,
        name: &str,
        [x, shortcut]: [&GraphValue; 2],
        bias: Option<&GraphValue>,
        [gammas, betas]: [&GraphValue; 2],
        epsilon: f32,
    ) -> GraphValue {
        let inputs = [Some(x), Some(shortcut), Some(gammas), Some(betas), bias];
        let count = if bias.is_some() { 5 } else { 4 };
        let attributes = vec![float("epsilon", epsilon)];
        self.runtime_node("SkipLayerNormalization", name, &inputs[..count], attributes)
    }

    /// softmax(Q K^T + logits) V for each of the heads, as one operator. Queries, keys and values are \[batch, tokens,
    /// width\], `bias` is added to the three of them (\[3 x width\]), `logits` are \[batch, heads, tokens, tokens\].
    pub(crate) fn multi_head_attention(
        &mut self,
        name: &str,
        [query, key, value]: [&GraphValue; 3],
        bias: Option<&GraphValue>,
        logits: Option<&GraphValue>,
        heads: usize,
    ) -> GraphValue {
        let attributes = vec![int("num_heads", heads as i64), float("scale", 1.0)];
        let padding_mask = None;
        let inputs = [
            Some(query),
            Some(key),
            Some(value),
            bias,
            padding_mask,
            logits,
        ];
        self.runtime_node("MultiHeadAttention", name, &inputs, attributes)
    }

    /// The entries of `a` where the constant `condition` is set, else those of `b`.
    pub(crate) fn choose(
        &mut self,
        name: &str,
        condition: &GraphValue,
        a: &GraphValue,
        b: &GraphValue,
    ) -> GraphValue {
        self.node("Where", name, &[condition, a, b], Vec::new())
    }

    /// The same numbers in another shape; -1 stands for the remaining size.
    pub(crate) fn reshape(&mut self, name: &str, x: &GraphValue, dims: &[i64]) -> GraphValue {
        let dims = self.dims(dims);
        self.node("Reshape", name, &[x, &dims], Vec::new())
    }

    pub(crate) fn transpose(&mut self, name: &str, x: &GraphValue, order: &[i64]) -> GraphValue {
        self.node("Transpose", name, &[x], vec![ints("perm", order)])
    }

    pub(crate) fn concat(&mut self, name: &str, parts: &[&GraphValue], axis: i64) -> GraphValue {
        self.node("Concat", name, parts, vec![int("axis", axis)])
    }

    /// The part of `x` between `start` and `end` along some axes, given as (axis, start, end).
    pub(crate) fn slice(
        &mut self,
        name: &str,
        x: &GraphValue,
        ranges: &[(i64, i64, i64)],
    ) -> GraphValue {
        let starts = self.dims(&ranges.iter().map(|r| r.1).collect::<Vec<_>>());
        let ends = self.dims(&ranges.iter().map(|r| r.2).collect::<Vec<_>>());
        let axes = self.dims(&ranges.iter().map(|r| r.0).collect::<Vec<_>>());
        self.node("Slice", name, &[x, &starts, &ends, &axes], Vec::new())
    }

    /// The entries of dimension 1 at these indices.
    pub(crate) fn gather(
        &mut self,
        name: &str,
        x: &GraphValue,
        indices: &GraphValue,
    ) -> GraphValue {
        self.node("Gather", name, &[x, indices], vec![int("axis", 1)])
    }

    /// Two halves along dimension 1.
    pub(crate) fn halves(&mut self, name: &str, x: &GraphValue) -> (GraphValue, GraphValue) {
        let outputs = ["first", "second"].map(|half| format!("{name}/{half}"));
        self.node_with_outputs("Split", name, &[x], vec![int("axis", 1)], outputs.to_vec());
        let [first, second] = outputs;
        (GraphValue(first), GraphValue(second))
    }

    /// An activation function; formulas at [`crate::lc0::format::NamedActivation`].
    pub(crate) fn activation(
        &mut self,
        name: &str,
        x: GraphValue,
        activation: Activation,
    ) -> GraphValue {
        match activation {
            Activation::None => x,
            Activation::Relu => self.relu(&format!("{name}/relu"), &x),
            Activation::Tanh => self.tanh(&format!("{name}/tanh"), &x),
            Activation::Sigmoid => self.sigmoid(&format!("{name}/sigmoid"), &x),
            Activation::Relu2 => {
                let relu = self.squarable_relu(&format!("{name}/relu"), &x);
                self.mul(&format!("{name}/relu2"), &relu, &relu)
            }
            // x sigmoid(x)
            Activation::Swish if self.is_for_runtime() => {
                let attributes = vec![float("alpha", 1.0)];
                self.runtime_node(
                    "QuickGelu",
                    &format!("{name}/swish"),
                    &[Some(&x)],
                    attributes,
                )
            }
            Activation::Swish => {
                let gate = self.sigmoid(&format!("{name}/sigmoid"), &x);
                self.mul(&format!("{name}/swish"), &x, &gate)
            }
            Activation::Mish => {
                let softplus =
                    self.wide_node("Softplus", &format!("{name}/softplus"), &[&x], Vec::new());
                let gate = self.tanh(&format!("{name}/tanh"), &softplus);
                self.mul(&format!("{name}/mish"), &x, &gate)
            }
            Activation::Selu => {
                // The constants are those that keep mean 0 and variance 1 (Klambauer et al., 2017).
                let elu = vec![float("alpha", 1.673_263_2)];
                let elu = self.wide_node("Elu", &format!("{name}/elu"), &[&x], elu);
                let scale = self.floats("/selu/scale", &[1], &[1.050_701]);
                self.mul(&format!("{name}/selu"), &elu, &scale)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(graph: &Graph) -> Vec<String> {
        let node = |bytes: &Bytes| NodeProto::decode(bytes.clone()).unwrap().op_type.unwrap();
        graph.graph.node.iter().map(node).collect()
    }

    #[test]
    fn bfloat16_wraps_what_onnx_does_not_define() {
        let mut graph = Graph::new("test", Precision::BFloat16);
        let x = graph.input("x", None, &[4]);
        let y = graph.activation("/a", x, Activation::Mish);
        graph.widen("y", y);
        assert_eq!(
            ops(&graph),
            ["Cast", "Cast", "Softplus", "Cast", "Tanh", "Mul", "Cast"]
        );
    }

    /// The output of a graph of one squared ReLU for these numbers.
    fn squared(precision: Precision, numbers: &[f32]) -> Vec<f32> {
        use rten::{Model, ValueView};
        use rten_tensor::{AsView, NdTensor};
        let mut graph = Graph::new("test", precision);
        let x = graph.input("x", None, &[numbers.len()]);
        let y = graph.activation("/a", x, Activation::Relu2);
        let y = graph.widen("y", y);
        graph.output(&y, None, &[numbers.len()]);
        let bytes = graph.into_model(Vec::new()).encode_to_vec();
        let model = Model::load(bytes).unwrap();
        let input = NdTensor::from_data([1, numbers.len()], numbers.to_vec());
        let inputs = vec![(
            model.node_id("x").unwrap(),
            ValueView::from(input.view()).into(),
        )];
        let [output] = model
            .run_n(inputs, [model.node_id(y.name()).unwrap()], None)
            .unwrap();
        let output: NdTensor<f32, 2> = output.try_into().unwrap();
        output.to_vec()
    }

    #[test]
    fn a_squared_relu_stays_finite_in_half_precision() {
        let numbers = [-3.0, 0.5, 16.0, 255.0, 300.0, 60000.0];
        let half = squared(Precision::Float16, &numbers);
        assert_eq!(half, [0.0, 0.25, 256.0, 65025.0, 65025.0, 65025.0]);
        assert!(half.iter().all(|&number| number <= f32::from(f16::MAX)));
        let full = squared(Precision::Float32, &numbers);
        assert_eq!(full[3..], [65025.0, 90000.0, 3.6e9]);
    }

    #[test]
    fn constants_with_one_name_are_stored_once() {
        let mut graph = Graph::new("test", Precision::Float32);
        let x = graph.input("x", Some(3), &[4, 4]);
        let flat = graph.reshape("/flat", &x, &[-1, 16]);
        graph.reshape("/again", &flat, &[-1, 16]);
        assert_eq!(graph.graph.initializer.len(), 1);
    }

    #[test]
    fn quantization_keeps_zero_and_the_largest_weight() {
        let range = Range {
            min: -1.0,
            max: 3.0,
        };
        assert_eq!(range.zero_point(), 64);
        assert_eq!(Range::default().zero_point(), 0);
        let weights = QuantizedWeights::by_column(&[2, 3], &[0.5, 0.0, -2.0, -1.0, 0.0, 1.0]);
        assert_eq!(weights.values, [64, 0, -127, -127, 0, 64]);
        let weights = QuantizedWeights::by_row(&[2, 3], &[0.5, 0.0, -2.0, -1.0, 0.0, 1.0]);
        assert_eq!(weights.values, [32, 0, -127, -127, 0, 127]);
    }

    #[test]
    fn a_value_is_quantized_once_and_its_range_is_that_of_the_biases() {
        let mut graph = Graph::new("test", Precision::Float32);
        let x = graph.input("x", None, &[2]);
        let range = Range {
            min: 0.0,
            max: 510.0,
        };
        let quantized = graph.quantize(&x, range);
        let again = graph.quantize(&x, Range::default());
        let of_result = graph.quantize(&again.value, Range::default());
        assert_eq!([&again, &of_result], [&quantized; 2]);
        assert_eq!(ops(&graph), ["QuantizeLinear", "DequantizeLinear"]);
        // A weight of 127 has steps of 1, and those of the value are 2.
        let weights = QuantizedWeights::by_column(&[2, 1], &[127.0, 0.0]);
        graph.quantized_dense("/a", &of_result, &weights, &[8.0]);
        let constant = |name: &str| {
            let decode = |bytes: &Bytes| TensorProto::decode(bytes.clone()).unwrap();
            let mut constants = graph.graph.initializer.iter().map(decode);
            let found = constants.find(|tensor| tensor.name.as_deref() == Some(name));
            found.unwrap().raw_data.unwrap()
        };
        assert_eq!(*constant("/a/bias/scale"), 2f32.to_le_bytes());
        assert_eq!(*constant("/a/bias/quantized"), 4i32.to_le_bytes());
    }

    #[test]
    fn half_precision_saturates() {
        let bytes = Precision::Float16.encode(&[1e6, -1e6, 1.0]);
        let values: Vec<f16> = bytes
            .chunks(2)
            .map(|b| f16::from_le_bytes([b[0], b[1]]))
            .collect();
        assert_eq!(values, [f16::MAX, f16::MIN, f16::ONE]);
    }
}
