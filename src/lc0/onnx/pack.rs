//! Packed planes: gives a model inputs of a thirty-second of the size that the model unpacks itself.
//!
//! Otherwise a GPU takes 28 KB of floats per position, which the CPU has to write and the bus to transfer, though
//! nearly all of them are 0 or 1. The packed model takes a byte for each rank of each plane, bit 0 being the a-file,
//! looks the eight squares up in a table, and multiplies the few planes that hold a number by it. The resulting
//! floats are the same.

use prost::Message;

use super::{
    extension::{Extension, batch_of, decode, input, missing_graph},
    graph::int,
    proto::data_type,
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
    let mut proto = decode(model)?;
    let missing = || NetError::missing("the input of the ONNX model");
    let graph = proto.graph.as_mut().ok_or_else(missing_graph)?;
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
    let mut unpacking = Extension::new(format!("{}/unpack", model.input));
    match &model.kernels {
        None => write_unpacking(&mut unpacking, &names, &model.input, planes, scalar_planes),
        Some(_) => {
            let place = |plane| scalar_planes.iter().position(|&scalar| scalar == plane);
            let places = (0..planes).map(|plane| place(plane).map_or(-1, |place| place as i32));
            let places: Vec<i32> = places.collect();
            let places = unpacking.small_integers("places", &places);
            let inputs = [&names.masks, &names.scalars, &places];
            unpacking.kernel_node("UnpackPlanes", model.input.clone(), &inputs);
        }
    }
    unpacking.put_before(graph);
    Ok(OnnxModel {
        bytes: proto.encode_to_vec(),
        packed: Some(names),
        ..model.clone()
    })
}

/// Writes the nodes that compute `output`, the planes as floats, from the packed inputs.
fn write_unpacking(
    nodes: &mut Extension,
    names: &PackedInput,
    output: &str,
    planes: usize,
    scalar_planes: &[usize],
) {
    // table[byte][file]: whether that square is set.
    let table: Vec<f32> = (0..256 * 8)
        .map(|entry| f32::from(u8::from((entry / 8) >> (entry % 8) & 1 == 1)))
        .collect();
    let table = nodes.floats("table", &[256, 8], &table);
    let wide = int("to", i64::from(data_type::INT64));
    let bytes = nodes.node("Cast", "bytes", &[&names.masks], Some(wide));
    let squares = nodes.node("Gather", "squares", &[&table, &bytes], None);
    // The factors of planes: 1, or the plane's number.
    let is_plain = |plane| f32::from(u8::from(!scalar_planes.contains(&plane)));
    let plain: Vec<f32> = (0..planes).map(is_plain).collect();
    let mut factors = nodes.floats("plain", &[1, planes], &plain);
    for (index, &scalar_plane) in scalar_planes.iter().enumerate() {
        let is_it: Vec<f32> = (0..planes)
            .map(|plane| f32::from(u8::from(plane == scalar_plane)))
            .collect();
        let is_it = nodes.floats(&format!("is{scalar_plane}"), &[1, planes], &is_it);
        let place = nodes.integers(&format!("place{index}"), &[index as i64]);
        let column = format!("column{index}");
        let axis = int("axis", 1);
        let scalar = nodes.node("Gather", &column, &[&names.scalars, &place], Some(axis));
        let there = nodes.node("Mul", &format!("there{index}"), &[&scalar, &is_it], None);
        factors = nodes.node("Add", &format!("factors{index}"), &[&factors, &there], None);
    }
    let shape = nodes.integers("shape", &[-1, planes as i64, 1, 1]);
    let factors = nodes.node("Reshape", "factors", &[&factors, &shape], None);
    nodes.named_node("Mul", output.to_owned(), &[&squares, &factors], None);
}
