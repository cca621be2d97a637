//! Export: a checkpoint's network as the file that plays.

use super::average::averaged;
use super::checkpoint::Checkpoint;
use crate::sparse::{file, infer::IntegerNetwork};

/// Quantises a checkpoint's averaged weights and returns the bytes of an ONNX file with this additional metadata.
pub fn export(checkpoint: &Checkpoint, metadata: &[(&str, &str)]) -> Vec<u8> {
    let weights = averaged(&checkpoint.state, &checkpoint.progress);
    let network = IntegerNetwork::quantize(checkpoint.shape, &weights);
    file::write(&network, metadata)
}
