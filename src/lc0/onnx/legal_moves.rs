//! Probabilities of the legal moves: gives a model the legal moves of each position as an input, and has it compute
//! their softmax.
//!
//! Otherwise a GPU returns 7.4 KB of logits a position, of which a search needs those of some 35 moves. The model with
//! legal moves returns a probability for each of a fixed number of places ([`LegalMoves::slots`]) a position; places
//! beyond its moves hold 0.

use prost::Message;

use super::{
    extension::{Extension, batch_of, decode, input, missing_graph},
    graph::int,
    proto::{Dimension, Extent, data_type},
};
use crate::lc0::{
    error::NetError,
    model::{LegalMoves, OnnxModel},
};

/// The logit of a place without a move: its probability is 0 beside any move.
const NO_MOVE: f32 = -1e30;

/// The model whose policy is the probabilities of legal moves, `slots` a position, in place of `entries` logits.
///
/// # Errors
/// When the bytes are not an ONNX model, or it has no such policy.
pub fn gather_legal_moves(
    model: &OnnxModel,
    entries: usize,
    slots: usize,
) -> Result<OnnxModel, NetError> {
    let mut proto = decode(model)?;
    let graph = proto.graph.as_mut().ok_or_else(missing_graph)?;
    let mut outputs = graph.output.iter();
    let place = outputs.position(|output| output.name() == model.policy);
    let place = place.ok_or_else(|| NetError::missing("the policy of the ONNX model"))?;
    let batch = batch_of(&graph.output.remove(place));
    let prefix = format!("{}/legal", model.policy);
    let legal = LegalMoves {
        entries: format!("{prefix}/entries"),
        sharpness: format!("{prefix}/sharpness"),
        slots,
    };
    let one = Dimension {
        extent: Some(Extent::Value(1)),
    };
    graph.input.extend([
        input(&legal.entries, data_type::INT16, &batch, &[slots as i64]),
        input(&legal.sharpness, data_type::FLOAT, &one, &[]),
    ]);
    let mut nodes = Extension::new(prefix.clone());
    let policy = match &model.kernels {
        None => {
            // Some models have a policy of several dimensions.
            let shape = nodes.integers("shape", &[-1, entries as i64]);
            let logits = nodes.node("Reshape", "all", &[&model.policy, &shape], None);
            write_softmax(&mut nodes, &logits, &legal)
        }
        Some(kernels) => {
            let places = nodes.small_integers("places", &kernels.policy_places);
            let output = format!("{prefix}/probabilities");
            let inputs = [&model.policy, &places, &legal.entries, &legal.sharpness];
            nodes.kernel_node("LegalMoves", output, &inputs)
        }
    };
    nodes.put_behind(graph);
    let probabilities = input(&policy, data_type::FLOAT, &batch, &[slots as i64]);
    graph.output.insert(place, probabilities);
    Ok(OnnxModel {
        bytes: proto.encode_to_vec(),
        policy,
        legal_moves: Some(legal),
        ..model.clone()
    })
}

/// Writes the nodes from the logits of all moves to the probabilities of the legal ones; returns the name of these.
fn write_softmax(nodes: &mut Extension, logits: &String, legal: &LegalMoves) -> String {
    let narrow = int("to", i64::from(data_type::INT32));
    let entries = nodes.node("Cast", "indices", &[&legal.entries], Some(narrow));
    // An entry of -1 counts from the end, and its logit is not used.
    let axis = int("axis", 1);
    let gathered = nodes.node("GatherElements", "logits", &[logits, &entries], Some(axis));
    let sharpened = nodes.node("Mul", "sharpened", &[&gathered, &legal.sharpness], None);
    let zero = nodes.constant("zero", &[1], data_type::INT32, vec![0; 4]);
    let is_empty = nodes.node("Less", "is_empty", &[&entries, &zero], None);
    let no_move = nodes.floats("no_move", &[1], &[NO_MOVE]);
    let masked = nodes.node("Where", "masked", &[&is_empty, &no_move, &sharpened], None);
    let axis = int("axis", -1);
    nodes.node("Softmax", "probabilities", &[&masked], Some(axis))
}
