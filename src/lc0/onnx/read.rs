//! Reads ONNX models made elsewhere (by lc0's `leela2onnx`, by training code, by Scorn): finds lc0's tensors in them
//! and checks their types and shapes.

use prost::{Message, bytes::Bytes};

use super::{
    bounds,
    graph::cast_node,
    inspect::{
        PlaneSet, computes_shapes, concatenates, filters, has_convolutions, is_bfloat16,
        planes_read,
    },
    proto::{Extent, GraphProto, ModelProto, StringStringEntry, ValueInfo, data_type},
};
use crate::lc0::{
    architecture::head_name,
    error::NetError,
    format::{InputFormat, PLANES},
    model::{
        ALPHAZERO_PLANES, ALPHAZERO_POLICY, AlphaZeroMoves, ConvertOptions, DataType, OnnxEncoding,
        OnnxModel, metadata_key, tensor_name,
    },
    net::{GZIP, Net, RAW_PREFIX, failed_download},
    policy_list::POLICY_SIZE,
    wire,
};

/// Reads an ONNX model with lc0's tensors: `/input/planes`, `/output/policy`, `/output/wdl` or `/output/value`, and
/// `/output/mlh`, or others that its metadata names. Without metadata, the input planes are the classical ones. Models
/// with 16-bit inputs and outputs get casts to and from float32.
pub fn read_onnx(bytes: &[u8]) -> Result<OnnxModel, NetError> {
    read_onnx_as(bytes, None)
}

/// Reads a model with a given encoding; otherwise it is AlphaZero's if the metadata entry `scorn.encoding` says so,
/// and lc0's if not.
pub fn read_onnx_as(bytes: &[u8], encoding: Option<OnnxEncoding>) -> Result<OnnxModel, NetError> {
    let mut model = decode_for_runtime(bytes)?;
    let metadata = |key: &str| {
        let entry = model.metadata_props.iter().find(|entry| entry.key() == key);
        entry.map(|entry| entry.value().to_owned())
    };
    let named = |entry, default| Naming {
        given: metadata(entry),
        default,
        entry: Some(entry),
    };
    let names = Names {
        input: named(metadata_key::INPUT, tensor_name::INPUT),
        policy: named(metadata_key::POLICY, tensor_name::POLICY),
        wdl: named(metadata_key::WDL, tensor_name::WDL),
        value: named(metadata_key::VALUE, tensor_name::VALUE),
        mlh: named(metadata_key::MLH, tensor_name::MLH),
    };
    let input_format = match metadata(metadata_key::INPUT_FORMAT) {
        None => InputFormat::Classical112,
        Some(name) => input_format(&name)?,
    };
    let metadata_entry = metadata(metadata_key::ENCODING);
    let encoding = encoding.unwrap_or(match metadata_entry.as_deref() {
        Some(OnnxEncoding::ALPHAZERO) => OnnxEncoding::AlphaZero,
        _ => OnnxEncoding::Lc0,
    });
    let mut found = find_tensors(&model, &names, encoding, input_format)?;
    let changed = widen_interface(&mut model, &mut found);
    Ok(finish(model, found, bytes, changed))
}

/// The metadata of a model.
pub fn metadata(bytes: &[u8]) -> Result<Vec<(String, String)>, NetError> {
    Ok(metadata_of(&decode(bytes)?))
}

fn metadata_of(model: &ModelProto) -> Vec<(String, String)> {
    let pair = |entry: &StringStringEntry| (entry.key().to_owned(), entry.value().to_owned());
    model.metadata_props.iter().map(pair).collect()
}

/// Refuses other heads than those that the metadata names: a model has no choice of them.
pub fn check_heads(bytes: &[u8], options: &ConvertOptions) -> Result<(), NetError> {
    let heads = [
        (
            "PolicyHead",
            metadata_key::POLICY_HEAD,
            &options.policy_head,
        ),
        ("ValueHead", metadata_key::VALUE_HEAD, &options.value_head),
    ];
    for (option, entry, head) in heads {
        let Some(head) = head else {
            continue;
        };
        let metadata = metadata(bytes)?;
        let own = metadata.into_iter().find(|(key, _)| key == entry);
        let own = own.map(|(_, own)| own);
        let is_own = |own: &String| own.eq_ignore_ascii_case(head_name(head));
        if !own.as_ref().is_some_and(is_own) {
            return Err(NetError::OneHead {
                option,
                requested: head.clone(),
                own: own.map_or_else(String::new, |own| format!(", here {own}")),
            });
        }
    }
    Ok(())
}

/// The model of a `NETWORK_ONNX` file, unchanged except for metadata from the file.
pub(crate) fn embedded_model(net: &Net, options: &ConvertOptions) -> Result<OnnxModel, NetError> {
    let set = [
        ("batch size", options.batch.is_some()),
        ("data type", options.data_type != DataType::Float32),
    ];
    if let Some((option, _)) = set.into_iter().find(|&(_, set)| set) {
        return Err(NetError::Unsupported {
            field: "the conversion of an embedded ONNX model".to_owned(),
            found: format!("requested with another {option}"),
            expected: "none of its own options: the model is passed through as it is".to_owned(),
        });
    }
    let embedded = net.embedded_onnx()?;
    check_heads(embedded.model(), options)?;
    let mut model = decode_for_runtime(embedded.model())?;
    let named = |given: &Option<String>, default| Naming {
        given: given.clone(),
        default,
        entry: None,
    };
    let names = Names {
        input: named(&embedded.input_planes, tensor_name::INPUT),
        policy: named(&embedded.output_policy, tensor_name::POLICY),
        wdl: named(&embedded.output_wdl, tensor_name::WDL),
        value: named(&embedded.output_value, tensor_name::VALUE),
        mlh: named(&embedded.output_mlh, tensor_name::MLH),
    };
    let mut found = find_tensors(&model, &names, OnnxEncoding::Lc0, net.format().input)?;
    let metadata_entry = metadata_of(&model);
    let agrees = |entry: &(&str, String)| {
        metadata_entry
            .iter()
            .any(|(key, value)| (key.as_str(), value) == (entry.0, &entry.1))
    };
    let silent = !found.tensor_metadata().iter().all(agrees);
    let changed = widen_interface(&mut model, &mut found);
    Ok(finish(model, found, embedded.model(), silent || changed))
}

/// Checks the bytes of a model, decodes them and checks that a runtime can take the model. Every ONNX file goes through
/// this, whatever backend runs it.
pub(crate) fn decode_for_runtime(bytes: &[u8]) -> Result<ModelProto, NetError> {
    let model = decode(bytes)?;
    bounds::check(&model, graph_of(&model)?)?;
    Ok(model)
}

fn graph_of(model: &ModelProto) -> Result<&GraphProto, NetError> {
    let graph = model.graph.as_ref();
    graph.ok_or_else(|| NetError::missing("the graph of the ONNX model"))
}

/// Checks the bytes of a model and decodes them.
pub(crate) fn decode(bytes: &[u8]) -> Result<ModelProto, NetError> {
    let hint = if bytes.starts_with(&GZIP) {
        Some(
            "it is packed by gzip: lc0's networks need names that end in .pb.gz, others have to be unpacked",
        )
    } else if bytes.starts_with(&RAW_PREFIX) {
        Some("it is one of lc0's networks, whose names have to end in .pb or .pb.gz")
    } else {
        failed_download(bytes)
    };
    if let Some(hint) = hint {
        return Err(NetError::NotAModel { hint });
    }
    wire::check_model(bytes)?;
    ModelProto::decode(Bytes::copy_from_slice(bytes)).map_err(|error| NetError::Protobuf {
        what: "ONNX model",
        error,
    })
}

fn input_format(name: &str) -> Result<InputFormat, NetError> {
    InputFormat::from_lc0_name(name).ok_or_else(|| NetError::Unsupported {
        field: format!("the metadata entry {}", metadata_key::INPUT_FORMAT),
        found: name.to_owned(),
        expected: InputFormat::lc0_names(),
    })
}

/// How the tensors are named.
struct Names {
    input: Naming,
    policy: Naming,
    wdl: Naming,
    value: Naming,
    mlh: Naming,
}

/// How a tensor is named.
struct Naming {
    /// The name that the file contains, if it does.
    given: Option<String>,
    /// lc0's name.
    default: &'static str,
    /// The metadata entry that may contain another name; `None` where the metadata is not used.
    entry: Option<&'static str>,
}

impl Naming {
    /// The name that the file contains; an empty one does not count.
    fn given(&self) -> Option<&str> {
        self.given.as_deref().filter(|name| !name.is_empty())
    }

    fn name(&self) -> &str {
        self.given().unwrap_or(self.default)
    }
}

/// Maximum fixed batch size of a model: memory for a whole batch is needed.
const MAX_BATCH: i64 = 65536;

fn find_tensors(
    model: &ModelProto,
    names: &Names,
    encoding: OnnxEncoding,
    input_format: InputFormat,
) -> Result<OnnxModel, NetError> {
    let graph = graph_of(model)?;
    let (input, batch) = find_input(graph, &names.input, encoding)?;
    let outputs = &graph.output;
    let policy = |dims: &[i64]| {
        let found = required("output", outputs, &names.policy, dims);
        found.map(|(name, _)| name)
    };
    let (policy, alphazero) = match encoding {
        OnnxEncoding::Lc0 => (policy(&[POLICY_SIZE as i64])?, None),
        OnnxEncoding::AlphaZero => alphazero_policy(policy)?,
    };
    let planes_read = match encoding {
        OnnxEncoding::Lc0 => planes_read(graph, &input),
        OnnxEncoding::AlphaZero => PlaneSet::ALL,
    };
    let wdl = optional_output(outputs, &names.wdl, &[3])?;
    let value = optional_output(outputs, &names.value, &[1])?;
    if wdl.is_none() && value.is_none() {
        return Err(no_tensor("output", &[&names.wdl, &names.value], outputs));
    }
    Ok(OnnxModel {
        input,
        planes_read,
        alphazero,
        policy,
        wdl,
        value,
        mlh: optional_output(outputs, &names.mlh, &[1])?,
        batch,
        ..inspected(graph, input_format)
    })
}

/// The input planes, and their batch size if that is fixed.
fn find_input(
    graph: &GraphProto,
    naming: &Naming,
    encoding: OnnxEncoding,
) -> Result<(String, Option<usize>), NetError> {
    let find = |planes: usize| required("input", &graph.input, naming, &[planes as i64, 8, 8]);
    let (planes, others, hint) = match encoding {
        OnnxEncoding::Lc0 => (
            PLANES,
            ALPHAZERO_PLANES,
            "for AlphaZero's planes set NetworkEncoding alphazero",
        ),
        OnnxEncoding::AlphaZero => (
            ALPHAZERO_PLANES,
            PLANES,
            "for lc0's planes set NetworkEncoding lc0",
        ),
    };
    find(planes).map_err(|error| match error {
        NetError::TensorShape {
            tensor,
            found,
            expected,
        } if naming.entry.is_some() && find(others).is_ok() => NetError::TensorShape {
            tensor,
            found,
            expected: format!("{expected}; {hint}"),
        },
        error => error,
    })
}

/// The tensor that the file names, or else the one with lc0's name, and its batch size if that is fixed.
fn required(
    role: &'static str,
    tensors: &[ValueInfo],
    naming: &Naming,
    dims: &[i64],
) -> Result<(String, Option<usize>), NetError> {
    let name = naming.name();
    let tensor = tensors.iter().find(|tensor| tensor.name() == name);
    let tensor = tensor.ok_or_else(|| no_tensor(role, &[naming], tensors))?;
    let batch = check(tensor, dims)?;
    Ok((name.to_owned(), batch))
}

/// An output that the file names must exist; otherwise the output with lc0's name is used if it exists.
fn optional_output(
    outputs: &[ValueInfo],
    naming: &Naming,
    dims: &[i64],
) -> Result<Option<String>, NetError> {
    let is_there = |name: &str| outputs.iter().any(|tensor| tensor.name() == name);
    if naming.given().is_none() && !is_there(naming.default) {
        return Ok(None);
    }
    required("output", outputs, naming, dims).map(|(name, _)| Some(name))
}

/// The policy output of an AlphaZero network: `find` looks for it with these dimensions.
fn alphazero_policy(
    find: impl Fn(&[i64]) -> Result<String, NetError>,
) -> Result<(String, Option<AlphaZeroMoves>), NetError> {
    let squares_first = [&[8, 8, 73][..], &[64, 73]];
    let planes_first = [&[73, 8, 8][..], &[73, 64]];
    let is_any = |shapes: [&[i64]; 2]| shapes.into_iter().find_map(|shape| find(shape).ok());
    let flat = find(&[ALPHAZERO_POLICY as i64]);
    match (is_any(planes_first), is_any(squares_first)) {
        (Some(name), None) if flat.is_err() => Ok((name, Some(AlphaZeroMoves::PlaneMajor))),
        (None, Some(name)) => Ok((name, Some(AlphaZeroMoves::SquareMajor))),
        (None, None) => Ok((flat?, Some(AlphaZeroMoves::SquareMajor))),
        // The wrong order would give random moves without an error.
        (Some(name), _) => Err(NetError::TensorShape {
            tensor: name,
            found: "of a shape that is left open".to_owned(),
            expected:
                "[batch, 73, 8, 8] or [batch, 8, 8, 73], so that the order of the moves is known"
                    .to_owned(),
        }),
    }
}

/// Metadata of the graph.
fn inspected(graph: &GraphProto, input_format: InputFormat) -> OnnxModel {
    OnnxModel {
        computes_shapes: computes_shapes(graph),
        has_convolutions: has_convolutions(graph),
        filters: filters(graph),
        concatenates: concatenates(graph),
        is_bfloat16: is_bfloat16(graph),
        ..OnnxModel::empty(input_format)
    }
}

/// Replaces 16-bit inputs and outputs by float32 ones with casts. Returns whether there were any.
fn widen_interface(model: &mut ModelProto, found: &mut OnnxModel) -> bool {
    let Some(graph) = &mut model.graph else {
        return false;
    };
    let mut changed = false;
    if let Some((narrow, element)) = widen(&mut graph.input, &mut found.input) {
        graph
            .node
            .insert(0, cast_node(&found.input, &narrow, element));
        changed = true;
    }
    let others = [&mut found.wdl, &mut found.value, &mut found.mlh];
    let others = others.into_iter().filter_map(Option::as_mut);
    for name in std::iter::once(&mut found.policy).chain(others) {
        if let Some((narrow, _)) = widen(&mut graph.output, name) {
            graph.node.push(cast_node(&narrow, name, data_type::FLOAT));
            changed = true;
        }
    }
    changed
}

/// Turns the named tensor, if it is a 16-bit one, into a float32 one with another name. Returns its old name and
/// type.
fn widen(tensors: &mut [ValueInfo], name: &mut String) -> Option<(String, i32)> {
    let tensor = tensors.iter_mut().find(|tensor| tensor.name() == name)?;
    let info = tensor.r#type.as_mut()?.tensor_type.as_mut()?;
    let element = info.elem_type();
    if element == data_type::FLOAT {
        return None;
    }
    info.elem_type = Some(data_type::FLOAT);
    let wide = format!("{name}/float32");
    tensor.name = Some(wide.clone());
    Some((std::mem::replace(name, wide), element))
}

/// The model's bytes: the original ones or, if the model was changed, new ones with metadata about its tensors.
fn finish(
    mut model: ModelProto,
    mut found: OnnxModel,
    original: &[u8],
    changed: bool,
) -> OnnxModel {
    found.bytes = if changed {
        let metadata_entry = found.tensor_metadata();
        model
            .metadata_props
            .retain(|entry| metadata_entry.iter().all(|(key, _)| *key != entry.key()));
        let entry = |(key, value): (&str, String)| StringStringEntry {
            key: Some(key.to_owned()),
            value: Some(value),
        };
        model
            .metadata_props
            .extend(metadata_entry.into_iter().map(entry));
        model.encode_to_vec()
    } else {
        original.to_vec()
    };
    found
}

/// The error that none of the expected tensors is there.
fn no_tensor(role: &'static str, expected: &[&Naming], tensors: &[ValueInfo]) -> NetError {
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name()).collect();
    let wanted: Vec<&str> = expected.iter().map(|naming| naming.name()).collect();
    let entries: Vec<&str> = expected.iter().filter_map(|naming| naming.entry).collect();
    NetError::NoTensor {
        role,
        expected: wanted.join("' or '"),
        found: if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        },
        hint: if entries.is_empty() {
            String::new()
        } else {
            format!("; its metadata can name another: {}", entries.join(" or "))
        },
    }
}

/// Requires floating point numbers and a batch of these dimensions; returns the batch size if it is fixed. Open
/// dimensions are accepted.
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
        // No position at all: OpenVINO divides by it.
        Some(found) if matches!(found.first(), Some(Some(Extent::Value(0)))) => false,
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
    let floating = [data_type::FLOAT, data_type::FLOAT16, data_type::BFLOAT16];
    if !floating.contains(&element) || !fits {
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
    match batch {
        Some(Extent::Value(size)) if *size > MAX_BATCH => Err(NetError::TensorShape {
            tensor: tensor.name().to_owned(),
            found: format!("a batch of {size}"),
            expected: format!("any size, or a fixed one up to {MAX_BATCH}"),
        }),
        Some(Extent::Value(size)) if *size > 0 => Ok(Some(*size as usize)),
        _ => Ok(None),
    }
}

fn join(dims: &[i64]) -> String {
    dims.iter()
        .map(i64::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn shape_text(extents: Option<&[Option<&Extent>]>) -> String {
    let Some(extents @ [_, ..]) = extents else {
        return "without a shape".to_owned();
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

#[cfg(test)]
mod tests {
    use super::{super::graph::value_info, super::proto::Dimension, *};

    fn tensor(name: &str, dims: &[i64]) -> ValueInfo {
        let extents = dims.iter().map(|&dim| Some(Extent::Value(dim)));
        let shape = extents.map(|extent| Dimension { extent }).collect();
        value_info(name, data_type::FLOAT, shape)
    }

    /// What is wrong with a model that has this input, these outputs and these names of tensors in its metadata.
    fn error(input: ValueInfo, outputs: &[ValueInfo], names: &[(&str, &str)]) -> String {
        let bytes = model(input, outputs, names);
        read_onnx(&bytes).unwrap_err().to_string()
    }

    fn model(input: ValueInfo, outputs: &[ValueInfo], metadata: &[(&str, &str)]) -> Vec<u8> {
        let entry = |&(key, value): &(&str, &str)| StringStringEntry {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        let model = ModelProto {
            ir_version: Some(8),
            graph: Some(GraphProto {
                input: vec![input],
                output: outputs.to_vec(),
                ..GraphProto::default()
            }),
            metadata_props: metadata.iter().map(entry).collect(),
            ..ModelProto::default()
        };
        model.encode_to_vec()
    }

    #[test]
    fn a_model_has_the_heads_that_its_metadata_names() {
        let checked = |metadata: &[(&str, &str)], policy: Option<&str>, value: Option<&str>| {
            let options = ConvertOptions {
                policy_head: policy.map(str::to_owned),
                value_head: value.map(str::to_owned),
                ..ConvertOptions::default()
            };
            let bytes = model(tensor("x", &[]), &[], metadata);
            check_heads(&bytes, &options).map_err(|error| error.to_string())
        };
        let named = [("lc0.policy_head", "optimistic"), ("lc0.value_head", "q")];
        for (policy, value) in [
            (None, None),
            (Some("optimistic"), None),
            (Some("Optimistic_ST"), Some("Q")),
        ] {
            assert_eq!(checked(&named, policy, value), Ok(()));
        }
        assert_eq!(
            checked(&named, None, Some("winner")).unwrap_err(),
            "ValueHead winner: this is an ONNX model, which has one head of each kind, here q; clear ValueHead"
        );
        assert_eq!(
            checked(&[], Some("vanilla"), None).unwrap_err(),
            "PolicyHead vanilla: this is an ONNX model, which has one head of each kind; clear PolicyHead"
        );
    }

    #[test]
    fn what_came_in_the_place_of_a_model_is_recognised() {
        for (bytes, what) in [
            (&b""[..], "the file is empty"),
            (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
            (b"<!DOCTYPE html>", "a web page"),
            (b"\n\n<html>", "a web page"),
        ] {
            let error = decode(bytes).unwrap_err().to_string();
            assert!(
                error.starts_with("not an ONNX model: ") && error.contains(what),
                "{error}"
            );
        }
    }

    #[test]
    fn the_entries_that_can_name_tensors_are_named() {
        let planes = |name| tensor(name, &[1, 112, 8, 8]);
        assert_eq!(
            error(planes("x"), &[], &[]),
            "the ONNX model has no input named '/input/planes'; it has: x; its metadata can name another: lc0.input"
        );
        let policy = [tensor("p", &[1, 1858])];
        let mut names = vec![("lc0.input", "x")];
        let missing = error(planes("x"), &policy, &names);
        assert!(missing.ends_with(": lc0.output.policy"), "{missing}");
        names.push(("lc0.output.policy", "p"));
        assert_eq!(
            error(planes("x"), &policy, &names),
            "the ONNX model has no output named '/output/wdl' or '/output/value'; it has: p; its metadata can name \
             another: lc0.output.wdl or lc0.output.value"
        );
    }

    #[test]
    fn shapes_that_do_not_fit_are_described() {
        let planes = |number| tensor(tensor_name::INPUT, &[1, number, 8, 8]);
        let alphazero = error(planes(119), &[], &[]);
        assert!(
            alphazero.ends_with("for AlphaZero's planes set NetworkEncoding alphazero"),
            "{alphazero}"
        );
        let lc0 = model(planes(112), &[], &[]);
        let lc0 = read_onnx_as(&lc0, Some(OnnxEncoding::AlphaZero));
        let lc0 = lc0.unwrap_err().to_string();
        assert!(
            lc0.ends_with("[batch, 119, 8, 8]; for lc0's planes set NetworkEncoding lc0"),
            "{lc0}"
        );
        let other = error(planes(118), &[], &[]);
        assert!(
            other.ends_with("expected float32 [batch, 112, 8, 8]"),
            "{other}"
        );
        let scalar = [tensor(tensor_name::POLICY, &[])];
        let scalar = error(planes(112), &scalar, &[]);
        assert!(
            scalar.contains("is float32 without a shape, expected float32 [batch, 1858]"),
            "{scalar}"
        );
    }
}
