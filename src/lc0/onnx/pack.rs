//! Packed planes: gives a model inputs of a thirty-second of the size that the model unpacks itself.
//!
//! Otherwise a GPU takes 28 KB of floats per position, which the CPU has to write and the bus to transfer, though
//! nearly all of them are 0 or 1. The packed model takes a byte for each rank of each plane, bit 0 being the a-file,
//! looks the eight squares up in a table, and multiplies the few planes that hold a number by it. The resulting
//! floats are the same.

use prost::{Message, bytes::Bytes};

use super::proto::{
    AttributeProto, Dimension, Extent, GraphProto, ModelProto, NodeProto, TensorProto, TensorShape,
    TensorType, TypeProto, ValueInfo, attribute_type, data_type,
};
use crate::lc0::{
    error::NetError,
    model::{OnnxModel, PackedInput},
};

/// The model with packed planes. `scalar_planes` are planes that hold a number, which is a separate input.
///
/// # Errors
/// When the bytes are not an ONNX model, or it has no such input.
pub fn pack_input(
    model: &OnnxModel,
    planes: usize,
    scalar_planes: &[usize],
) -> Result<OnnxModel, NetError> {
    let decoded = ModelProto::decode(Bytes::copy_from_slice(&model.bytes));
    let mut proto = decoded.map_err(|error| NetError::Protobuf {
        what: "ONNX model",
        error,
    })?;
    let missing = || NetError::missing("the input of the ONNX model");
    let graph = proto.graph.as_mut().ok_or_else(missing)?;
    let place = graph
        .input
        .iter()
        .position(|input| input.name() == model.input)
        .ok_or_else(missing)?;
    let batch = batch_of(&graph.input.remove(place));
    let names = PackedInput {
        masks: format!("{}/masks", model.input),
        scalars: format!("{}/scalars", model.input),
    };
    let masks = [planes as i64, 8];
    let scalars = [scalar_planes.len() as i64];
    graph.input.extend([
        input(&names.masks, data_type::UINT8, &batch, &masks),
        input(&names.scalars, data_type::FLOAT, &batch, &scalars),
    ]);
    let mut unpacking = Unpacking {
        graph: GraphProto::default(),
        prefix: format!("{}/unpack", model.input),
    };
    unpacking.write(&names, &model.input, planes, scalar_planes);
    graph.initializer.extend(unpacking.graph.initializer);
    graph.node.splice(0..0, unpacking.graph.node);
    Ok(OnnxModel {
        bytes: proto.encode_to_vec(),
        packed: Some(names),
        ..model.clone()
    })
}

/// The first dimension of an input: a size or a name.
fn batch_of(input: &ValueInfo) -> Dimension {
    let info = input.r#type.as_ref().and_then(|t| t.tensor_type.as_ref());
    let shape = info.and_then(|info| info.shape.as_ref());
    let first = shape.and_then(|shape| shape.dim.first()).cloned();
    first.unwrap_or(Dimension { extent: None })
}

fn input(name: &str, element: i32, batch: &Dimension, rest: &[i64]) -> ValueInfo {
    let rest = rest.iter().map(|&size| Dimension {
        extent: Some(Extent::Value(size)),
    });
    ValueInfo {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorType {
                elem_type: Some(element),
                shape: Some(TensorShape {
                    dim: std::iter::once(batch.clone()).chain(rest).collect(),
                }),
            }),
        }),
    }
}

/// The unpacking nodes and their constants.
struct Unpacking {
    graph: GraphProto,
    /// The prefix of their names.
    prefix: String,
}

impl Unpacking {
    fn write(&mut self, names: &PackedInput, output: &str, planes: usize, scalar_planes: &[usize]) {
        // table[byte][file]: whether that square is set.
        let table: Vec<f32> = (0..256 * 8)
            .map(|entry| f32::from(u8::from((entry / 8) >> (entry % 8) & 1 == 1)))
            .collect();
        let table = self.floats("table", &[256, 8], &table);
        let wide = attribute("to", i64::from(data_type::INT64));
        let bytes = self.node("Cast", "bytes", &[&names.masks], Some(wide));
        let squares = self.node("Gather", "squares", &[&table, &bytes], None);
        // The factors of planes: 1, or the plane's number.
        let is_plain = |plane| f32::from(u8::from(!scalar_planes.contains(&plane)));
        let plain: Vec<f32> = (0..planes).map(is_plain).collect();
        let mut factors = self.floats("plain", &[1, planes], &plain);
        for (index, &scalar_plane) in scalar_planes.iter().enumerate() {
            let is_it: Vec<f32> = (0..planes)
                .map(|plane| f32::from(u8::from(plane == scalar_plane)))
                .collect();
            let is_it = self.floats(&format!("is{scalar_plane}"), &[1, planes], &is_it);
            let place = self.integers(&format!("place{index}"), &[index as i64]);
            let column = format!("column{index}");
            let axis = attribute("axis", 1);
            let scalar = self.node("Gather", &column, &[&names.scalars, &place], Some(axis));
            let there = self.node("Mul", &format!("there{index}"), &[&scalar, &is_it], None);
            factors = self.node("Add", &format!("factors{index}"), &[&factors, &there], None);
        }
        let shape = self.integers("shape", &[-1, planes as i64, 1, 1]);
        let factors = self.node("Reshape", "factors", &[&factors, &shape], None);
        self.named_node("Mul", output.to_owned(), &[&squares, &factors], None);
    }

    fn node(
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
    fn named_node(
        &mut self,
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
        };
        self.graph.node.push(node.encode_to_vec().into());
        output
    }

    fn floats(&mut self, name: &str, dims: &[usize], values: &[f32]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.constant(name, dims, data_type::FLOAT, bytes.collect())
    }

    fn integers(&mut self, name: &str, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.constant(name, &[values.len()], data_type::INT64, bytes.collect())
    }

    fn constant(&mut self, name: &str, dims: &[usize], element: i32, bytes: Vec<u8>) -> String {
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

fn attribute(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        i: Some(value),
        r#type: Some(attribute_type::INT),
        ..Default::default()
    }
}
