//! Puts an ONNX model with lc0's inputs and outputs into a network file of lc0 (`NETWORK_ONNX`), as lc0's `onnx2leela`
//! does. The model is kept as it is: layers of lc0's own formats cannot be recovered from it.

use prost::{Message, bytes::Bytes};

use super::{
    error::NetError,
    format::{InputFormat, MovesLeftFormat, PolicyFormat, Structure, ValueFormat},
    model::{OnnxEncoding, metadata_key},
    net::MAGIC,
    onnx::read::{metadata, read_onnx},
    proto,
};

/// lc0 reads such networks since version 0.28.
const MIN_VERSION: u32 = 28;
/// `OnnxModel.DataType`: inputs and outputs are 32-bit floats.
const FLOAT: i32 = 1;
/// `NetworkFormat.OutputFormat`: a single value, and probabilities of win, draw and loss.
const OUTPUT_CLASSICAL: i32 = 1;
const OUTPUT_WDL: i32 = 2;

/// The uncompressed network file (`.pb`) with an ONNX model. Its input planes are of the format in its metadata;
/// otherwise of the given one, or else the classical ones.
///
/// # Errors
/// When the model is damaged, its inputs and outputs are not lc0's, or its metadata names other planes than the given
/// ones.
pub fn from_onnx(bytes: &[u8], input_format: Option<InputFormat>) -> Result<Vec<u8>, NetError> {
    let metadata = metadata(bytes)?;
    refuse_other_encodings(&metadata)?;
    let model = read_onnx(bytes)?;
    let input_format = input_format.unwrap_or(model.input_format);
    let is_stated = metadata
        .iter()
        .any(|(key, _)| key == metadata_key::INPUT_FORMAT);
    if is_stated && input_format != model.input_format {
        return Err(NetError::OtherPlanes {
            entry: metadata_key::INPUT_FORMAT,
            stated: model.input_format.to_string(),
            requested: input_format.to_string(),
        });
    }
    let license = metadata
        .into_iter()
        .filter(|(key, _)| metadata_key::LICENSE.contains(&&**key))
        .map(|(_, text)| text)
        .next();
    let (value, output) = match model.wdl {
        Some(_) => (ValueFormat::Wdl, OUTPUT_WDL),
        None => (ValueFormat::Classical, OUTPUT_CLASSICAL),
    };
    let moves_left = match model.mlh {
        Some(_) => MovesLeftFormat::V1,
        None => MovesLeftFormat::None,
    };
    let network_format = proto::NetworkFormat {
        input: Some(input_format.number()),
        output: Some(output),
        network: Some(Structure::Onnx.number()),
        policy: Some(PolicyFormat::Classical.number()),
        value: Some(value.number()),
        moves_left: Some(moves_left.number()),
        ..proto::NetworkFormat::default()
    };
    let net = proto::ProtoNet {
        magic: Some(MAGIC),
        license,
        min_version: Some(proto::EngineVersion {
            major: Some(0),
            minor: Some(MIN_VERSION),
            patch: None,
        }),
        format: Some(proto::ProtoFormat {
            weights_encoding: None,
            network_format: Some(network_format),
        }),
        onnx_model: Some(proto::ProtoOnnxModel {
            data_type: Some(FLOAT),
            input_planes: Some(model.input),
            // lc0 refuses a network with both.
            output_value: model.value.filter(|_| model.wdl.is_none()),
            output_wdl: model.wdl,
            output_policy: Some(model.policy),
            output_mlh: model.mlh,
            model: Some(Bytes::from(model.bytes)),
        }),
        ..proto::ProtoNet::default()
    };
    Ok(net.encode_to_vec())
}

/// lc0 knows its own planes and moves only.
fn refuse_other_encodings(metadata: &[(String, String)]) -> Result<(), NetError> {
    let mut entries = metadata.iter();
    match entries.find(|(key, _)| key == metadata_key::ENCODING) {
        None => Ok(()),
        Some((key, found)) => Err(NetError::Unsupported {
            field: key.clone(),
            found: match found.as_str() {
                OnnxEncoding::ALPHAZERO => "alphazero (119 planes, 8 x 8 x 73 moves)".to_owned(),
                _ => format!("{found} (a sparse network)"),
            },
            expected: format!(
                "models with lc0's planes, such as {}, and its 1858 moves",
                InputFormat::Classical112
            ),
        }),
    }
}
