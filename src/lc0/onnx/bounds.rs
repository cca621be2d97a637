//! Limits on the models that are passed to a runtime. Runtimes trust their models: they recurse along a graph and
//! allocate what a tensor declares, so that a few bytes can overflow the stack or exhaust memory. So the depth of a
//! graph, nested graphs and the sizes of constants are checked before a model is loaded.
//!
//! So are the values of constants: a weight that is not a number may give wrong moves without an error, since
//! `max(x, 0)` of a NaN is 0 in some runtimes.
//!
//! Sizes that a graph computes from other numbers are not checked: a model is still a program.

use std::collections::HashMap;

use half::{bf16, f16};
use prost::{Message, bytes::Bytes};

use super::proto::{GraphProto, ModelProto, data_type};
use crate::lc0::error::NetError;

/// Maximum length of a chain of nodes. The deepest networks of chess have less than 2000; `rten` overflows a thread's
/// stack of 2 MiB beyond about 10 000.
const MAX_DEPTH: usize = 4000;
/// Maximum nesting of graphs; exporters use two levels.
const MAX_NESTING: usize = 4;
/// Maximum number of elements that a node may create from a constant shape.
const MAX_ELEMENTS: f64 = (1u64 << 28) as f64;

/// Operators whose result size is given by the values of some inputs, and the indices of those inputs.
const SIZE_INPUTS: &[(&str, &[usize])] = &[
    ("ConstantOfShape", &[0]),
    ("Expand", &[1]),
    ("OneHot", &[1]),
    ("Pad", &[1]),
    ("Resize", &[2, 3]),
    ("Tile", &[1]),
    ("Upsample", &[1]),
];

#[derive(Clone, PartialEq, Message)]
struct NodeBounds {
    #[prost(string, repeated, tag = "1")]
    input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    name: Option<String>,
    #[prost(string, optional, tag = "4")]
    op_type: Option<String>,
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<Attribute>,
}

/// An attribute; parts that may be nested stay encoded.
#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(float, optional, tag = "2")]
    float: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    int: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    tensor: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    graph: Option<Bytes>,
    #[prost(float, repeated, tag = "7")]
    floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "10")]
    tensors: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "11")]
    graphs: Vec<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "22")]
    sparse: Option<Bytes>,
}

/// A constant, with all its representations.
#[derive(Clone, PartialEq, Message)]
struct TensorBounds {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    data_type: Option<i32>,
    #[prost(float, repeated, tag = "4")]
    float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    int32_data: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    string_data: Vec<Bytes>,
    #[prost(int64, repeated, tag = "7")]
    int64_data: Vec<i64>,
    #[prost(string, optional, tag = "8")]
    name: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    raw_data: Option<Bytes>,
    #[prost(double, repeated, tag = "10")]
    double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    uint64_data: Vec<u64>,
    /// 1: stored in another file.
    #[prost(int32, optional, tag = "14")]
    data_location: Option<i32>,
}

/// Small constants by the names of their tensors: those of a graph, and of the graphs around it, which its nodes may
/// use.
#[derive(Default)]
struct Constants<'a> {
    own: HashMap<String, Vec<f64>>,
    around: Option<&'a Constants<'a>>,
}

impl Constants<'_> {
    fn get_key_value(&self, name: &str) -> Option<(&str, &[f64])> {
        let own = self.own.get_key_value(name);
        let own = own.map(|(name, numbers)| (&**name, &**numbers));
        own.or_else(|| self.around?.get_key_value(name))
    }

    fn get(&self, name: &str) -> Option<&[f64]> {
        Some(self.get_key_value(name)?.1)
    }
}

/// Refuses a model whose graph is too deep, or whose constants are inconsistent or not finite.
pub(super) fn check(model: &ModelProto, graph: &GraphProto) -> Result<(), NetError> {
    // Functions are graphs under other names, which may call each other.
    if !model.functions.is_empty() {
        return Err(NetError::Unsupported {
            field: "the ONNX model".to_owned(),
            found: "functions of its own".to_owned(),
            expected: "one graph (onnx.inliner.inline_local_functions makes it)".to_owned(),
        });
    }
    check_graph(graph, None, 0)
}

/// Refuses a converted network whose constants are not finite: those that are computed from several finite weights may
/// not be.
pub(crate) fn check_converted(graph: &GraphProto) -> Result<(), NetError> {
    for tensor in &graph.initializer {
        let tensor: TensorBounds = decode(tensor, "constant")?;
        check_finite(&tensor, tensor.name())?;
    }
    Ok(())
}

/// The constants `around` are those of the enclosing graphs.
fn check_graph(
    graph: &GraphProto,
    around: Option<&Constants<'_>>,
    nested: usize,
) -> Result<(), NetError> {
    let mut constants = Constants {
        around,
        ..Constants::default()
    };
    for tensor in &graph.initializer {
        let tensor: TensorBounds = decode(tensor, "constant")?;
        check_tensor(&tensor, tensor.name())?;
        check_finite(&tensor, tensor.name())?;
        if let Some(numbers) = numbers(&tensor) {
            constants.own.insert(tensor.name().to_owned(), numbers);
        }
    }
    if !graph.sparse_initializer.is_empty() {
        return Err(no_sparse("an initializer"));
    }
    let nodes = graph.node.iter().map(|node| decode(node, "node"));
    let nodes: Vec<NodeBounds> = nodes.collect::<Result<_, _>>()?;
    let mut inner_graphs = Vec::new();
    for node in &nodes {
        for attribute in &node.attribute {
            if let (Some(numbers), Some(output)) =
                (numbers_of(node, attribute), node.output.first())
            {
                constants.own.insert(output.clone(), numbers);
            }
            for tensor in attribute.tensor.iter().chain(&attribute.tensors) {
                let tensor: TensorBounds = decode(tensor, "constant")?;
                check_tensor(&tensor, name_of(node))?;
                check_finite(&tensor, name_of(node))?;
                if let (Some(numbers), Some(output)) = (numbers(&tensor), node.output.first()) {
                    constants.own.insert(output.clone(), numbers);
                }
            }
            if attribute.sparse.is_some() {
                return Err(no_sparse(name_of(node)));
            }
            for inner in attribute.graph.iter().chain(&attribute.graphs) {
                if nested == MAX_NESTING {
                    return Err(too_deep(node, "graphs inside one another", MAX_NESTING));
                }
                inner_graphs.push(decode(inner, "nested graph")?);
            }
        }
    }
    for node in &nodes {
        check_growth(node, &constants)?;
    }
    check_depth(&nodes)?;
    for inner in &inner_graphs {
        check_graph(inner, Some(&constants), nested + 1)?;
    }
    Ok(())
}

/// Decodes a part of a graph. The decoder's error names a type of this file, which nobody else knows.
fn decode<M: Message + Default>(bytes: &Bytes, part: &'static str) -> Result<M, NetError> {
    M::decode(bytes.clone()).map_err(|_| NetError::Undecodable { part })
}

/// A sparse constant of a few bytes can have any size.
fn no_sparse(name: &str) -> NetError {
    NetError::Unsupported {
        field: format!("the constant of '{name}' in the ONNX model"),
        found: "sparse".to_owned(),
        expected: "constants with all their values".to_owned(),
    }
}

/// The name of a node in messages: many have no name, but all have an output.
fn name_of(node: &NodeBounds) -> &str {
    let output = || node.output.first().map_or("", |name| name);
    Some(node.name())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(output)
}

fn too_deep(node: &NodeBounds, what: &str, limit: usize) -> NetError {
    NetError::Unsupported {
        field: format!("the depth of the ONNX model at node '{}'", name_of(node)),
        found: format!("more than {limit} {what}"),
        expected: "fewer".to_owned(),
    }
}

/// Checks that a constant holds as many values as its shape declares.
fn check_tensor(tensor: &TensorBounds, name: &str) -> Result<(), NetError> {
    let wrong = |found: String, expected: &str| NetError::TensorShape {
        tensor: name.to_owned(),
        found,
        expected: expected.to_owned(),
    };
    if tensor.data_location == Some(1) {
        return Err(wrong("in another file".to_owned(), "in this one"));
    }
    let size = elements(tensor);
    let shape = || format!("of shape {:?}", tensor.dims);
    let Some(size) = size else {
        return Err(wrong(shape(), "a possible one"));
    };
    let held = values_held(tensor, size);
    if held != size {
        let text = format!("{} and holds {held} values", shape());
        return Err(wrong(text, "as many values as its shape has"));
    }
    Ok(())
}

/// Refuses a constant with a NaN or an infinite value. Only masks and limits may be infinite: all their other values
/// are 0.
fn check_finite(tensor: &TensorBounds, name: &str) -> Result<(), NetError> {
    let words = tensor.int32_data.iter().map(|&word| word as u16);
    let half: fn(u16) -> f64 = match tensor.data_type() {
        data_type::FLOAT16 => |bits| f16::from_bits(bits).to_f64(),
        _ => |bits| bf16::from_bits(bits).to_f64(),
    };
    let found = match (tensor.data_type(), &tensor.raw_data) {
        (data_type::FLOAT, Some(raw)) => {
            let values = raw.as_chunks::<4>().0.iter();
            not_finite(values.map(|&bytes| f32::from_le_bytes(bytes).into()))
        }
        (data_type::FLOAT, None) => not_finite(tensor.float_data.iter().map(|&value| value.into())),
        (data_type::FLOAT16 | data_type::BFLOAT16, Some(raw)) => {
            let values = raw.as_chunks::<2>().0.iter();
            not_finite(values.map(|&bytes| half(u16::from_le_bytes(bytes))))
        }
        (data_type::FLOAT16 | data_type::BFLOAT16, None) => not_finite(words.map(half)),
        _ => None,
    };
    match found {
        None => Ok(()),
        Some((index, value)) => Err(NetError::NotFinite {
            tensor: name.to_owned(),
            index,
            value,
        }),
    }
}

/// The first value that is not finite, and its place, unless the values are those of a mask.
fn not_finite(mut values: impl Iterator<Item = f64> + Clone) -> Option<(usize, f64)> {
    let mut places = values.clone().enumerate();
    let found = places.find(|(_, value)| !value.is_finite())?;
    let is_mask = values.all(|value| value.is_infinite() || value == 0.0);
    (!is_mask).then_some(found)
}

/// The number of values of this shape, if it is valid.
fn elements(tensor: &TensorBounds) -> Option<u64> {
    let mut dims = tensor.dims.iter().map(|&dim| u64::try_from(dim).ok());
    dims.try_fold(1u64, |size, dim| size.checked_mul(dim?))
}

/// The number of values that a constant holds; for types with less than a byte per value, the expected number if
/// possible.
fn values_held(tensor: &TensorBounds, size: u64) -> u64 {
    let Some(raw) = &tensor.raw_data else {
        let lengths = [
            tensor.float_data.len(),
            tensor.int32_data.len(),
            tensor.string_data.len(),
            tensor.int64_data.len(),
            tensor.double_data.len(),
            tensor.uint64_data.len(),
        ];
        let held = lengths.into_iter().max().unwrap_or(0) as u64;
        // Complex numbers have two entries; of 4-bit types two values share one.
        let fits = held == size.saturating_mul(2) || held == size.div_ceil(2);
        let is_whole = fits && !is_byte_sized(tensor.data_type());
        return if is_whole { size } else { held };
    };
    match element_bytes(tensor.data_type()) {
        Some(bytes) if (raw.len() as u64).is_multiple_of(bytes) => raw.len() as u64 / bytes,
        // Two values per byte: decoding cannot need much more memory than the file.
        None if size / 2 <= raw.len() as u64 => size,
        _ => 0,
    }
}

/// Whether a typed list has an entry for each value.
fn is_byte_sized(data_type: i32) -> bool {
    element_bytes(data_type).is_some_and(|bytes| bytes <= 8 && !matches!(data_type, 14 | 15))
        || data_type == 8
}

/// The bytes per element (`TensorProto.DataType` in onnx.proto); `None` for 4-bit or unknown types.
fn element_bytes(data_type: i32) -> Option<u64> {
    Some(match data_type {
        data_type::UINT8 | data_type::INT8 | 9 | 17..=20 | 24 => 1,
        4 | 5 | data_type::FLOAT16 | data_type::BFLOAT16 => 2,
        data_type::FLOAT | data_type::INT32 | 12 => 4,
        data_type::INT64 | 11 | 13 | 14 => 8,
        15 => 16,
        _ => return None,
    })
}

/// The numbers of a small constant, such as a shape.
fn numbers(tensor: &TensorBounds) -> Option<Vec<f64>> {
    if elements(tensor)? > 64 {
        return None;
    }
    let Some(raw) = &tensor.raw_data else {
        return Some(match tensor.data_type() {
            data_type::INT64 => tensor.int64_data.iter().map(|&n| n as f64).collect(),
            data_type::INT32 => tensor.int32_data.iter().map(|&n| n.into()).collect(),
            data_type::FLOAT => tensor.float_data.iter().map(|&n| n.into()).collect(),
            _ => return None,
        });
    };
    let (eights, fours) = (raw.as_chunks::<8>().0, raw.as_chunks::<4>().0);
    Some(match tensor.data_type() {
        data_type::INT64 => eights
            .iter()
            .map(|&n| i64::from_le_bytes(n) as f64)
            .collect(),
        data_type::INT32 => fours
            .iter()
            .map(|&n| i32::from_le_bytes(n).into())
            .collect(),
        data_type::FLOAT => fours
            .iter()
            .map(|&n| f32::from_le_bytes(n).into())
            .collect(),
        _ => return None,
    })
}

/// The numbers of a constant that is stored in an attribute.
fn numbers_of(node: &NodeBounds, attribute: &Attribute) -> Option<Vec<f64>> {
    if node.op_type() != "Constant" {
        return None;
    }
    let Attribute {
        float,
        int,
        floats,
        ints,
        ..
    } = attribute;
    let floats = float.iter().chain(floats).map(|&number| number.into());
    let ints = int.iter().chain(ints).map(|&number| number as f64);
    let numbers: Vec<f64> = floats.chain(ints).collect();
    Some(numbers).filter(|numbers| !numbers.is_empty())
}

/// Refuses a node that creates a too large tensor from constant numbers.
fn check_growth(node: &NodeBounds, constants: &Constants<'_>) -> Result<(), NetError> {
    let too_large = |name: &str, numbers: &[f64]| NetError::TensorShape {
        tensor: name.to_owned(),
        found: format!("{numbers:?}, from which {} makes a tensor", node.op_type()),
        expected: format!("numbers for at most {MAX_ELEMENTS} elements"),
    };
    if node.op_type() == "Range" {
        let number = |at: usize, usual: f64| {
            let known = node.input.get(at).and_then(|name| constants.get(name));
            known
                .and_then(|numbers| numbers.first())
                .copied()
                .unwrap_or(usual)
        };
        let [start, limit, step] = [number(0, 0.0), number(1, 0.0), number(2, 1.0)];
        // A step of 0 would give infinitely many.
        let length = ((limit - start) / step).abs();
        if length > MAX_ELEMENTS {
            return Err(too_large(name_of(node), &[start, limit, step]));
        }
    }
    let growing = SIZE_INPUTS.iter().find(|(op, _)| *op == node.op_type());
    let inputs = growing.map_or(&[][..], |(_, inputs)| inputs);
    let names = inputs.iter().filter_map(|&index| node.input.get(index));
    for (name, numbers) in names.filter_map(|name| constants.get_key_value(name)) {
        let product: f64 = numbers.iter().filter(|n| **n > 1.0).product();
        if product > MAX_ELEMENTS {
            return Err(too_large(name, numbers));
        }
    }
    Ok(())
}

/// Refuses a graph with a too long chain of nodes, or with a cycle. Uses Kahn's algorithm, because recursion would
/// need the stack that is to be protected.
fn check_depth(nodes: &[NodeBounds]) -> Result<(), NetError> {
    let mut makers = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            makers.insert(output.as_str(), index);
        }
    }
    let mut users = vec![Vec::new(); nodes.len()];
    let mut waits = vec![0usize; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for maker in node
            .input
            .iter()
            .filter_map(|name| makers.get(name.as_str()))
        {
            users[*maker].push(index);
            waits[index] += 1;
        }
    }
    let mut depths = vec![1usize; nodes.len()];
    let mut ready: Vec<usize> = (0..nodes.len())
        .filter(|&index| waits[index] == 0)
        .collect();
    let mut done = 0;
    while let Some(index) = ready.pop() {
        done += 1;
        if depths[index] > MAX_DEPTH {
            return Err(too_deep(
                &nodes[index],
                "nodes one after the other",
                MAX_DEPTH,
            ));
        }
        for &user in &users[index] {
            depths[user] = depths[user].max(depths[index] + 1);
            waits[user] -= 1;
            if waits[user] == 0 {
                ready.push(user);
            }
        }
    }
    match waits.iter().position(|&count| count > 0) {
        Some(index) if done < nodes.len() => Err(NetError::Unsupported {
            field: format!(
                "the input of the ONNX model's node '{}'",
                name_of(&nodes[index])
            ),
            found: "made from its own output".to_owned(),
            expected: "made by nodes before it".to_owned(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lc0::onnx::proto::TensorProto;

    fn node(op: &str, input: &str, output: &str) -> NodeBounds {
        NodeBounds {
            input: vec![input.into()],
            output: vec![output.into()],
            op_type: Some(op.into()),
            ..Default::default()
        }
    }

    fn graph(nodes: &[NodeBounds], constants: &[TensorProto]) -> GraphProto {
        GraphProto {
            node: nodes
                .iter()
                .map(|node| node.encode_to_vec().into())
                .collect(),
            initializer: constants
                .iter()
                .map(|tensor| tensor.encode_to_vec().into())
                .collect(),
            ..Default::default()
        }
    }

    fn chain(length: usize) -> Vec<NodeBounds> {
        (0..length)
            .map(|at| node("Relu", &format!("t{at}"), &format!("t{}", at + 1)))
            .collect()
    }

    fn constant(name: &str, dims: &[i64], numbers: &[i64]) -> TensorProto {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        TensorProto {
            dims: dims.to_vec(),
            data_type: Some(data_type::INT64),
            name: Some(name.into()),
            raw_data: Some(bytes.into()),
        }
    }

    /// Checks a model that consists of only a graph.
    fn check(graph: &GraphProto) -> Result<(), NetError> {
        super::check(&ModelProto::default(), graph)
    }

    fn refused(nodes: &[NodeBounds], constants: &[TensorProto]) -> String {
        check(&graph(nodes, constants)).unwrap_err().to_string()
    }

    fn with_graph(mut node: NodeBounds, inner: &GraphProto) -> NodeBounds {
        node.attribute.push(Attribute {
            graph: Some(inner.encode_to_vec().into()),
            ..Default::default()
        });
        node
    }

    #[test]
    fn graphs_have_a_depth_in_any_order_and_no_circles() {
        let mut deep = chain(MAX_DEPTH + 1);
        assert!(check(&graph(&deep[1..], &[])).is_ok());
        deep.reverse();
        let last = format!("'t{}'", MAX_DEPTH + 1);
        assert!(
            refused(&deep, &[]).contains(&last),
            "{}",
            refused(&deep, &[])
        );
        let circle = [node("Relu", "a", "b"), node("Relu", "b", "a")];
        assert!(refused(&circle, &[]).contains("its own output"));
    }

    #[test]
    fn graphs_inside_nodes_have_a_depth_too() {
        let mut inner = graph(&[], &[]);
        for depth in 0..20 {
            let outer = node("If", "condition", &format!("out{depth}"));
            inner = graph(&[with_graph(outer, &inner)], &[]);
            assert_eq!(check(&inner).is_ok(), depth < MAX_NESTING, "{depth}");
        }
        assert!(
            check(&inner)
                .unwrap_err()
                .to_string()
                .contains("graphs inside one another")
        );
    }

    #[test]
    fn constants_hold_as_many_values_as_their_shape() {
        assert!(check(&graph(&[], &[constant("ok", &[3], &[1, 2, 3])])).is_ok());
        assert!(check(&graph(&[], &[constant("none", &[0], &[])])).is_ok());
        let none = [i64::MAX, 2, 0];
        assert!(check(&graph(&[], &[constant("none", &none, &[])])).is_ok());
        for (dims, numbers) in [
            (&[1 << 40][..], &[][..]),
            (&[4], &[1, 2, 3]),
            (&[1 << 32, 1 << 32], &[]),
            (&[-1], &[]),
        ] {
            let error = refused(&[], &[constant("weights", dims, numbers)]);
            assert!(error.contains("'weights'"), "{error}");
        }
        // A node's own constant.
        let mut made = node("Constant", "", "made");
        made.attribute.push(Attribute {
            tensor: Some(constant("", &[1 << 40], &[]).encode_to_vec().into()),
            ..Default::default()
        });
        assert!(refused(&[made], &[]).contains("'made'"));
    }

    /// A constant of two or four bytes a value, with its values as bytes.
    fn of_bytes(data_type: i32, bytes: Vec<u8>, values: usize) -> TensorBounds {
        TensorBounds {
            dims: vec![values as i64],
            data_type: Some(data_type),
            name: Some("weights".into()),
            raw_data: Some(bytes.into()),
            ..TensorBounds::default()
        }
    }

    /// Constants of these values: of each type of floats, in both representations.
    fn weights(values: &[f32]) -> Vec<TensorBounds> {
        let count = values.len();
        let list = |data_type| TensorBounds {
            raw_data: None,
            ..of_bytes(data_type, Vec::new(), count)
        };
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let mut weights = vec![
            of_bytes(data_type::FLOAT, bytes.collect(), count),
            TensorBounds {
                float_data: values.to_vec(),
                ..list(data_type::FLOAT)
            },
        ];
        for data_type in [data_type::FLOAT16, data_type::BFLOAT16] {
            let words = values.iter().map(|&value| match data_type {
                data_type::FLOAT16 => f16::from_f32(value).to_bits(),
                _ => bf16::from_f32(value).to_bits(),
            });
            let bytes = words.clone().flat_map(u16::to_le_bytes);
            weights.push(of_bytes(data_type, bytes.collect(), count));
            weights.push(TensorBounds {
                int32_data: words.map(i32::from).collect(),
                ..list(data_type)
            });
        }
        weights
    }

    #[test]
    fn weights_are_finite_numbers() {
        let check_one = |constant: &TensorBounds| {
            check(&GraphProto {
                initializer: vec![constant.encode_to_vec().into()],
                ..GraphProto::default()
            })
        };
        let infinity = f32::INFINITY;
        // The last two are a mask and a limit.
        for values in [&[1.0, -2.5][..], &[0.0, -infinity], &[infinity]] {
            for constant in weights(values) {
                check_one(&constant).unwrap();
            }
        }
        for (value, name) in [(f32::NAN, "NaN"), (-infinity, "-inf")] {
            let expected = format!(
                "value 2 of the constant 'weights' of the ONNX model is {name}, expected a finite number"
            );
            for constant in weights(&[0.0, 0.5, value]) {
                assert_eq!(check_one(&constant).unwrap_err().to_string(), expected);
            }
        }
        // A node's own constant.
        let mut made = node("Constant", "", "made");
        let constant = of_bytes(data_type::FLOAT, f32::NAN.to_le_bytes().to_vec(), 1);
        made.attribute.push(Attribute {
            tensor: Some(constant.encode_to_vec().into()),
            ..Default::default()
        });
        assert!(refused(&[made], &[]).contains("'made' of the ONNX model is NaN"));
    }

    #[test]
    fn constant_shapes_cannot_make_huge_tensors() {
        let shape = |numbers: &[i64]| constant("shape", &[numbers.len() as i64], numbers);
        for op in ["ConstantOfShape", "Expand", "Tile"] {
            let mut grow = [node(op, "shape", "huge")];
            if op != "ConstantOfShape" {
                grow[0].input.insert(0, "data".to_owned());
            }
            assert!(check(&graph(&grow, &[shape(&[-1, 64, 8, 8])])).is_ok());
            let error = refused(&grow, &[shape(&[1 << 20, 1 << 20])]);
            assert!(error.contains("'shape'") && error.contains(op), "{error}");
        }
    }

    #[test]
    fn constants_are_found_in_attributes_and_nested_graphs() {
        let grow = node("ConstantOfShape", "shape", "huge");
        let made = |ints: &[i64]| {
            let mut made = node("Constant", "", "shape");
            made.attribute.push(Attribute {
                ints: ints.to_vec(),
                ..Default::default()
            });
            made
        };
        assert!(check(&graph(&[made(&[64, 8, 8]), grow.clone()], &[])).is_ok());
        let huge = made(&[1 << 20, 1 << 20]);
        assert!(refused(&[huge.clone(), grow.clone()], &[]).contains("'shape'"));
        let branch = with_graph(node("If", "condition", "out"), &graph(&[grow], &[]));
        assert!(refused(&[branch, huge], &[]).contains("'shape'"));
    }

    #[test]
    fn ranges_have_the_length_of_their_ends_and_step() {
        let range = |start: i64, limit: i64, step: i64| {
            let names = ["start", "limit", "step"];
            let mut range = node("Range", names[0], "range");
            range.input = names.map(str::to_owned).to_vec();
            let constants = [start, limit, step];
            let constants = names.iter().zip(constants);
            let constants: Vec<_> = constants
                .map(|(name, n)| constant(name, &[], &[n]))
                .collect();
            check(&graph(&[range], &constants))
        };
        for (start, limit, step) in [(0, 64, 1), (64, 0, -1), (1 << 40, 64 + (1 << 40), 1)] {
            assert!(range(start, limit, step).is_ok(), "{start} {limit} {step}");
        }
        for (start, limit, step) in [(0, 1 << 40, 1), (-(1 << 40), 0, 1), (0, 64, 0)] {
            assert!(range(start, limit, step).is_err(), "{start} {limit} {step}");
        }
    }

    #[test]
    fn a_damaged_node_is_one_of_the_model() {
        let mut bytes = node("Relu", "in", "out").encode_to_vec();
        let at = bytes.windows(2).position(|part| part == b"in").unwrap();
        bytes[at] = 0xff;
        let graph = GraphProto {
            node: vec![bytes.into()],
            ..GraphProto::default()
        };
        let error = check(&graph).unwrap_err().to_string();
        assert_eq!(
            error,
            "damaged ONNX model: a node of its graph cannot be decoded"
        );
    }

    #[test]
    fn a_model_with_functions_is_refused() {
        let model = ModelProto {
            functions: vec![Bytes::new()],
            ..Default::default()
        };
        let error = super::check(&model, &graph(&[], &[])).unwrap_err();
        assert!(error.to_string().contains("functions"), "{error}");
    }
}
