//! Nodes and constants that are added to a model: before its nodes, where they compute its input from others, or
//! behind them, where they compute other outputs.

use std::iter;

use prost::{Message, bytes::Bytes};

use super::graph::{KERNEL_DOMAIN, value_info};
use super::proto::{
    AttributeProto, Dimension, Extent, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfo,
    data_type,
};
use crate::lc0::{error::NetError, model::OnnxModel};

/// The messages of a model.
///
/// # Errors
/// When its bytes are not an ONNX model.
pub(super) fn decode(model: &OnnxModel) -> Result<ModelProto, NetError> {
    let decoded = ModelProto::decode(Bytes::copy_from_slice(&model.bytes));
    decoded.map_err(|error| NetError::Protobuf {
        what: "ONNX model",
        error,
    })
}

/// The error that a model has no graph.
pub(super) fn missing_graph() -> NetError {
    NetError::missing("the graph of the ONNX model")
}

/// The first dimension of an input or output: a size or a name.
pub(super) fn batch_of(value: &ValueInfo) -> Dimension {
    let info = value.r#type.as_ref().and_then(|t| t.tensor_type.as_ref());
    let shape = info.and_then(|info| info.shape.as_ref());
    let first = shape.and_then(|shape| shape.dim.first()).cloned();
    first.unwrap_or(Dimension { extent: None })
}

/// An input or output of this shape behind its batch dimension.
pub(super) fn input(name: &str, element: i32, batch: &Dimension, rest: &[i64]) -> ValueInfo {
    let rest = rest.iter().map(|&size| Dimension {
        extent: Some(Extent::Value(size)),
    });
    let shape = iter::once(batch.clone()).chain(rest).collect();
    value_info(name, element, shape)
}

/// Nodes and their constants.
pub(super) struct Extension {
    graph: GraphProto,
    /// The prefix of their names.
    prefix: String,
}

impl Extension {
    /// None yet.
    pub(super) fn new(prefix: String) -> Extension {
        Extension {
            graph: GraphProto::default(),
            prefix,
        }
    }

    /// Adds them to a graph, before its nodes.
    pub(super) fn put_before(self, graph: &mut GraphProto) {
        graph.initializer.extend(self.graph.initializer);
        graph.node.splice(0..0, self.graph.node);
    }

    /// Adds them to a graph, behind its nodes.
    pub(super) fn put_behind(self, graph: &mut GraphProto) {
        graph.initializer.extend(self.graph.initializer);
        graph.node.extend(self.graph.node);
    }

    /// A node; returns the name of its output.
    pub(super) fn node(
        &mut self,
        operation: &str,
        name: &str,
        inputs: &[&String],
        attribute: Option<AttributeProto>,
    ) -> String {
        let output = format!("{}/{name}", self.prefix);
        self.named_node(operation, output, inputs, attribute)
    }

    /// A node whose output has this name.
    pub(super) fn named_node(
        &mut self,
        operation: &str,
        output: String,
        inputs: &[&String],
        attribute: Option<AttributeProto>,
    ) -> String {
        self.node_of(None, operation, output, inputs, attribute)
    }

    /// A node of Scorn's own operators, whose output has this name.
    pub(super) fn kernel_node(
        &mut self,
        operation: &str,
        output: String,
        inputs: &[&String],
    ) -> String {
        self.node_of(Some(KERNEL_DOMAIN), operation, output, inputs, None)
    }

    fn node_of(
        &mut self,
        domain: Option<&str>,
        operation: &str,
        output: String,
        inputs: &[&String],
        attribute: Option<AttributeProto>,
    ) -> String {
        let node = NodeProto {
            input: inputs.iter().map(ToString::to_string).collect(),
            output: vec![output.clone()],
            name: Some(format!("{}/to/{output}", self.prefix)),
            op_type: Some(operation.to_owned()),
            attribute: attribute.into_iter().collect(),
            domain: domain.map(str::to_owned),
        };
        self.graph.node.push(node.encode_to_vec().into());
        output
    }

    /// A constant of 32-bit floats.
    pub(super) fn floats(&mut self, name: &str, dims: &[usize], values: &[f32]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.constant(name, dims, data_type::FLOAT, bytes.collect())
    }

    /// A constant list of 64-bit integers.
    pub(super) fn integers(&mut self, name: &str, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.constant(name, &[values.len()], data_type::INT64, bytes.collect())
    }

    /// A constant list of 32-bit integers.
    pub(super) fn small_integers(&mut self, name: &str, values: &[i32]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.constant(name, &[values.len()], data_type::INT32, bytes.collect())
    }

    /// A constant of any type, whose bytes are given.
    pub(super) fn constant(
        &mut self,
        name: &str,
        dims: &[usize],
        element: i32,
        bytes: Vec<u8>,
    ) -> String {
        let name = format!("{}/{name}", self.prefix);
        let tensor = TensorProto {
            dims: dims.iter().map(|&dim| dim as i64).collect(),
            data_type: Some(element),
            name: Some(name.clone()),
            raw_data: Some(bytes.into()),
        };
        self.graph.initializer.push(tensor.encode_to_vec().into());
        name
    }
}
