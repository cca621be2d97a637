//! Reads ONNX models made elsewhere (by lc0's `leela2onnx`, by training code, by us): finds lc0's tensors in them and
//! checks their types and shapes.

use prost::{Message, bytes::Bytes};

use super::proto::{Extent, ModelProto, ValueInfo, data_type};
use crate::lc0::{
    error::NetError,
    format::InputFormat,
    net::Net,
    to_onnx::{ConvertOptions, DataType, OnnxModel, metadata_key, tensor_name},
};

/// Reads an ONNX model with lc0's tensors: `/input/planes`, `/output/policy`, `/output/wdl` or `/output/value`, and
/// `/output/mlh`, or others that its metadata names. Without metadata, the input planes are the classical ones.
pub fn read_onnx(bytes: &[u8]) -> Result<OnnxModel, NetError> {
    let model = decode(bytes)?;
    let metadata = |key: &str| {
        let entry = model.metadata_props.iter().find(|entry| entry.key() == key);
        entry.map(|entry| entry.value().to_owned())
    };
    let names = Names {
        input: metadata(metadata_key::INPUT),
        policy: metadata(metadata_key::POLICY),
        wdl: metadata(metadata_key::WDL),
        value: metadata(metadata_key::VALUE),
        mlh: metadata(metadata_key::MLH),
    };
    let input_format = match metadata(metadata_key::INPUT_FORMAT) {
        None => InputFormat::Classical112,
        Some(name) => input_format(&name)?,
    };
    find_tensors(bytes.to_vec(), &model, names, input_format)
}

/// The metadata of a model.
pub(crate) fn metadata(bytes: &[u8]) -> Result<Vec<(String, String)>, NetError> {
    let entries = decode(bytes)?.metadata_props;
    let pair =
        |entry: super::proto::StringStringEntry| (entry.key().to_owned(), entry.value().to_owned());
    Ok(entries.into_iter().map(pair).collect())
}

/// The model of a `NETWORK_ONNX` file, as it is.
pub(crate) fn embedded_model(net: &Net, options: &ConvertOptions) -> Result<OnnxModel, NetError> {
    let set = [
        ("policy head", options.policy_head.is_some()),
        ("value head", options.value_head.is_some()),
        ("batch size", options.batch.is_some()),
        ("data type", options.data_type != DataType::Float32),
    ];
    if let Some((option, _)) = set.into_iter().find(|&(_, set)| set) {
        return Err(NetError::Unsupported {
            field: "the conversion of an embedded ONNX model".to_owned(),
            found: format!("asked for another {option}"),
            expected: "none of its own options: the model is passed through as it is".to_owned(),
        });
    }
    let embedded = net.embedded_onnx()?;
    let model = decode(embedded.model())?;
    let names = Names {
        input: embedded.input_planes.clone(),
        policy: embedded.output_policy.clone(),
        wdl: embedded.output_wdl.clone(),
        value: embedded.output_value.clone(),
        mlh: embedded.output_mlh.clone(),
    };
    find_tensors(embedded.model().to_vec(), &model, names, net.format().input)
}

fn decode(bytes: &[u8]) -> Result<ModelProto, NetError> {
    ModelProto::decode(Bytes::copy_from_slice(bytes)).map_err(|error| NetError::Protobuf {
        what: "ONNX model",
        error,
    })
}

fn input_format(name: &str) -> Result<InputFormat, NetError> {
    let known = InputFormat::ALL
        .iter()
        .find(|format| format.lc0_name() == name);
    known.copied().ok_or_else(|| NetError::Unsupported {
        field: format!("the metadata entry {}", metadata_key::INPUT_FORMAT),
        found: name.to_owned(),
        expected: InputFormat::ALL
            .iter()
            .map(|format| format.lc0_name())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// Names of tensors, where the file gives them.
struct Names {
    input: Option<String>,
    policy: Option<String>,
    wdl: Option<String>,
    value: Option<String>,
    mlh: Option<String>,
}

fn find_tensors(
    bytes: Vec<u8>,
    model: &ModelProto,
    names: Names,
    input_format: InputFormat,
) -> Result<OnnxModel, NetError> {
    let graph = model
        .graph
        .as_ref()
        .ok_or_else(|| NetError::missing("the graph of the ONNX model"))?;
    let named = |name: Option<String>| name.filter(|name| !name.is_empty());
    let required =
        |role, tensors: &[ValueInfo], name: Option<String>, default: &str, dims: &[i64]| {
            let name = named(name).unwrap_or_else(|| default.to_owned());
            let tensor = tensors.iter().find(|tensor| tensor.name() == name);
            let tensor = tensor.ok_or_else(|| no_tensor(role, &name, tensors))?;
            let batch = check(tensor, dims)?;
            Ok::<_, NetError>((name, batch))
        };
    // An output that the file names must be there; one it does not name is taken if it has lc0's name.
    let optional = |name: Option<String>, default: &str, dims: &[i64]| {
        let present = graph.output.iter().any(|tensor| tensor.name() == default);
        match named(name) {
            None if !present => Ok(None),
            name => Ok::<_, NetError>(Some(
                required("output", &graph.output, name, default, dims)?.0,
            )),
        }
    };
    let (input, batch) = required(
        "input",
        &graph.input,
        names.input,
        tensor_name::INPUT,
        &[112, 8, 8],
    )?;
    let (policy, _) = required(
        "output",
        &graph.output,
        names.policy,
        tensor_name::POLICY,
        &[1858],
    )?;
    let wdl = optional(names.wdl, tensor_name::WDL, &[3])?;
    let value = optional(names.value, tensor_name::VALUE, &[1])?;
    if wdl.is_none() && value.is_none() {
        let either = format!("{}' or '{}", tensor_name::WDL, tensor_name::VALUE);
        return Err(no_tensor("output", &either, &graph.output));
    }
    Ok(OnnxModel {
        bytes,
        input,
        policy,
        wdl,
        value,
        mlh: optional(names.mlh, tensor_name::MLH, &[1])?,
        input_format,
        batch,
    })
}

fn no_tensor(role: &'static str, expected: &str, tensors: &[ValueInfo]) -> NetError {
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name()).collect();
    NetError::NoTensor {
        role,
        expected: expected.to_owned(),
        found: match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        },
    }
}

/// Requires float32 and a batch of these dimensions; returns the batch size if it is fixed. Dimensions that the model
/// leaves open are taken to fit.
fn check(tensor: &ValueInfo, dims: &[i64]) -> Result<Option<usize>, NetError> {
    let info = tensor.r#type.as_ref().and_then(|t| t.tensor_type.as_ref());
    let element = info.map_or(0, |info| info.elem_type());
    let shape = info.and_then(|info| info.shape.as_ref());
    let extents = shape.map(|shape| {
        shape
            .dim
            .iter()
            .map(|dim| dim.extent.as_ref())
            .collect::<Vec<_>>()
    });
    let fits = match &extents {
        None => true,
        Some(found) => {
            let inner = found.iter().skip(1).zip(dims);
            let open_or = |extent: &Option<&Extent>, dim: i64| match extent {
                Some(Extent::Value(value)) => *value == dim,
                _ => true,
            };
            found.len() == dims.len() + 1
                && inner.into_iter().all(|(extent, &dim)| open_or(extent, dim))
        }
    };
    if element != data_type::FLOAT || !fits {
        return Err(NetError::TensorShape {
            tensor: tensor.name().to_owned(),
            found: format!(
                "{} {}",
                data_type::name(element),
                shape_text(extents.as_deref())
            ),
            expected: format!("float32 [batch, {}]", join(dims)),
        });
    }
    let batch = extents
        .as_ref()
        .and_then(|extents| extents.first().copied().flatten());
    Ok(match batch {
        Some(Extent::Value(size)) if *size > 0 => Some(*size as usize),
        _ => None,
    })
}

fn join(dims: &[i64]) -> String {
    dims.iter()
        .map(i64::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn shape_text(extents: Option<&[Option<&Extent>]>) -> String {
    let Some(extents) = extents else {
        return "of unknown shape".to_owned();
    };
    let text = |extent: &Option<&Extent>| match extent {
        Some(Extent::Value(value)) => value.to_string(),
        Some(Extent::Param(name)) => name.clone(),
        None => "?".to_owned(),
    };
    format!(
        "[{}]",
        extents.iter().map(text).collect::<Vec<_>>().join(", ")
    )
}
