//! Inspects ONNX models: which of the 112 input planes a model reads (many networks ignore some of the history), and
//! whether it computes shapes.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use prost::Message;

use super::proto::{AttributeProto, GraphProto, NodeProto, TensorProto, attribute_type, data_type};
use crate::lc0::format::PLANES;

/// A set of input planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneSet(u128);

impl PlaneSet {
    /// All planes.
    pub const ALL: PlaneSet = PlaneSet((1 << PLANES) - 1);

    /// The planes of a range, the first as bit 0; at most 32.
    pub fn bits(self, range: Range<usize>) -> u32 {
        let from = (self.0 >> range.start) as u32;
        from & (u32::MAX >> (32 - range.len().clamp(1, 32)))
    }
}

impl FromIterator<usize> for PlaneSet {
    fn from_iter<I: IntoIterator<Item = usize>>(planes: I) -> PlaneSet {
        PlaneSet(planes.into_iter().fold(0, |set, plane| set | 1 << plane))
    }
}

/// Whether a model reads the shape of a tensor, so that some of its nodes compute with shapes.
pub(super) fn computes_shapes(graph: &GraphProto) -> bool {
    has_node(graph, &["Shape", "Size"])
}

/// Whether a model has convolutions, in any precision.
pub(crate) fn has_convolutions(graph: &GraphProto) -> bool {
    has_node(graph, &["Conv", "ConvInteger", "QLinearConv", "FusedConv"])
}

/// Whether a model concatenates tensors.
pub(crate) fn concatenates(graph: &GraphProto) -> bool {
    has_node(graph, &["Concat"])
}

/// The number of filters that most convolutions of a model have; the larger one of two numbers that are as frequent. 0
/// if there are no convolutions with constant weights.
pub(crate) fn filters(graph: &GraphProto) -> usize {
    let nodes = graph.node.iter();
    let weights: Vec<String> = nodes
        .filter_map(|node| NodeProto::decode(node.clone()).ok())
        .filter(|node| node.op_type() == "Conv")
        .filter_map(|node| node.input.into_iter().nth(1))
        .collect();
    if weights.is_empty() {
        return 0;
    }
    let tensors = graph.initializer.iter();
    let outputs: HashMap<String, usize> = tensors
        .filter_map(|tensor| TensorProto::decode(tensor.clone()).ok())
        .filter_map(|tensor| {
            let outputs = usize::try_from(*tensor.dims.first()?).ok()?;
            Some((tensor.name?, outputs))
        })
        .collect();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for outputs in weights.iter().filter_map(|name| outputs.get(name)) {
        *counts.entry(*outputs).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|&(_, count)| count);
    most.map_or(0, |(outputs, _)| outputs)
}

fn has_node(graph: &GraphProto, operations: &[&str]) -> bool {
    let mut nodes = graph
        .node
        .iter()
        .filter_map(|node| NodeProto::decode(node.clone()).ok());
    nodes.any(|node| operations.contains(&node.op_type()))
}

/// Whether any of a model's weights are bfloat16.
pub(crate) fn is_bfloat16(graph: &GraphProto) -> bool {
    let mut tensors = graph
        .initializer
        .iter()
        .filter_map(|tensor| TensorProto::decode(tensor.clone()).ok());
    tensors.any(|tensor| tensor.data_type() == data_type::BFLOAT16)
}

/// The planes that a model reads of its input, if it does nothing with the input but gather planes; otherwise all
/// planes.
pub(super) fn planes_read(graph: &GraphProto, input: &str) -> PlaneSet {
    picked(graph, input).unwrap_or(PlaneSet::ALL)
}

fn picked(graph: &GraphProto, input: &str) -> Option<PlaneSet> {
    let nodes: Result<Vec<_>, _> = graph
        .node
        .iter()
        .map(|node| NodeProto::decode(node.clone()))
        .collect();
    let nodes = nodes.ok()?;
    // A nested graph may read everything of the graphs around it.
    let has_graph = |node: &NodeProto| {
        let is_graph = |attribute: &AttributeProto| {
            [attribute_type::GRAPH, attribute_type::GRAPHS].contains(&attribute.r#type())
        };
        node.attribute.iter().any(is_graph)
    };
    let is_output = graph.output.iter().any(|output| output.name() == input);
    if is_output || nodes.iter().any(has_graph) {
        return None;
    }
    let mut planes = Vec::new();
    for node in nodes
        .iter()
        .filter(|node| node.input.iter().any(|name| name == input))
    {
        let axis = node
            .attribute
            .iter()
            .find(|attribute| attribute.name() == "axis");
        let [data, indices] = &node.input[..] else {
            return None;
        };
        let is_pick = node.op_type() == "Gather" && data == input && indices != input;
        if !is_pick || axis.map_or(0, AttributeProto::i) != 1 {
            return None;
        }
        planes.extend(indices_of(graph, indices)?);
    }
    Some(planes.into_iter().collect())
}

/// The plane numbers in an initializer.
fn indices_of(graph: &GraphProto, name: &str) -> Option<Vec<usize>> {
    let tensors = graph
        .initializer
        .iter()
        .filter_map(|tensor| TensorProto::decode(tensor.clone()).ok());
    let tensor = tensors.into_iter().find(|tensor| tensor.name() == name)?;
    if tensor.data_type() != data_type::INT64 {
        return None;
    }
    let (numbers, rest) = tensor.raw_data.as_deref()?.as_chunks::<8>();
    let mut dims = tensor.dims.iter();
    let count = dims.try_fold(1i64, |count, &size| count.checked_mul(size))?;
    if !rest.is_empty() || count != numbers.len() as i64 {
        return None;
    }
    let plane = |&bytes: &[u8; 8]| {
        let number = i64::from_le_bytes(bytes);
        // Negative indices count from the end.
        let from_end = if number < 0 { PLANES as i64 } else { 0 };
        let plane = usize::try_from(number.checked_add(from_end)?).ok();
        plane.filter(|&plane| plane < PLANES)
    };
    numbers.iter().map(plane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lc0::onnx::proto::ValueInfo;

    const INPUT: &str = "planes";

    fn gather(data: &str, indices: &str, axis: i64) -> NodeProto {
        NodeProto {
            input: vec![data.into(), indices.into()],
            op_type: Some("Gather".into()),
            attribute: vec![AttributeProto {
                name: Some("axis".into()),
                i: Some(axis),
                r#type: Some(attribute_type::INT),
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    fn numbers(name: &str, numbers: &[i64]) -> TensorProto {
        let bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        TensorProto {
            dims: vec![numbers.len() as i64],
            data_type: Some(data_type::INT64),
            name: Some(name.into()),
            raw_data: Some(bytes.into()),
        }
    }

    fn read(nodes: &[NodeProto], tensors: &[TensorProto]) -> PlaneSet {
        let graph = GraphProto {
            node: nodes
                .iter()
                .map(|node| node.encode_to_vec().into())
                .collect(),
            initializer: tensors
                .iter()
                .map(|tensor| tensor.encode_to_vec().into())
                .collect(),
            ..Default::default()
        };
        planes_read(&graph, INPUT)
    }

    #[test]
    fn picked_planes_are_found() {
        let tensors = [numbers("a", &[0, 5, 111]), numbers("b", &[-1, 20])];
        let nodes = [
            gather(INPUT, "a", 1),
            gather(INPUT, "b", 1),
            gather("other", "a", 0),
        ];
        assert_eq!(read(&nodes, &tensors), PlaneSet::from_iter([0, 5, 20, 111]));
        let planes = read(&nodes, &tensors);
        assert_eq!(
            (planes.bits(0..13), planes.bits(13..26)),
            (1 | 1 << 5, 1 << 7)
        );
    }

    #[test]
    fn computed_shapes_are_detected() {
        let graph = |operations: &[&str]| GraphProto {
            node: operations
                .iter()
                .map(|operation| NodeProto {
                    op_type: Some((*operation).to_owned()),
                    ..Default::default()
                })
                .map(|node| node.encode_to_vec().into())
                .collect(),
            ..Default::default()
        };
        assert!(computes_shapes(&graph(&["Conv", "Shape", "Gather"])));
        assert!(!computes_shapes(&graph(&["Conv", "Reshape"])));
        assert!(concatenates(&graph(&["Conv", "Concat"])) && !concatenates(&graph(&["Conv"])));
    }

    #[test]
    fn convolutions_and_their_type_are_detected() {
        let node = |operation: &str| NodeProto {
            op_type: Some(operation.to_owned()),
            ..Default::default()
        };
        let weights = |data_type| TensorProto {
            data_type: Some(data_type),
            ..Default::default()
        };
        let graph = |operation, data_type| GraphProto {
            node: vec![node(operation).encode_to_vec().into()],
            initializer: vec![weights(data_type).encode_to_vec().into()],
            ..Default::default()
        };
        let conv = graph("Conv", data_type::BFLOAT16);
        assert!(has_convolutions(&conv) && is_bfloat16(&conv));
        let dense = graph("MatMul", data_type::FLOAT16);
        assert!(!has_convolutions(&dense) && !is_bfloat16(&dense));
    }

    #[test]
    fn most_convolutions_decide_about_the_filters() {
        let conv = |weights: &str| NodeProto {
            input: vec!["x".into(), weights.into()],
            op_type: Some("Conv".into()),
            ..Default::default()
        };
        let weights = |name: &str, outputs| TensorProto {
            dims: vec![outputs, 3, 3, 3],
            name: Some(name.into()),
            ..Default::default()
        };
        let graph = |convs: &[&str]| GraphProto {
            node: convs
                .iter()
                .map(|name| conv(name).encode_to_vec().into())
                .collect(),
            initializer: [weights("a", 64), weights("b", 64), weights("head", 80)]
                .iter()
                .map(|tensor| tensor.encode_to_vec().into())
                .collect(),
            ..Default::default()
        };
        assert_eq!(filters(&graph(&["a", "b", "head"])), 64);
        assert_eq!(filters(&graph(&["a", "head"])), 80);
        assert_eq!(
            (filters(&graph(&["computed"])), filters(&graph(&[]))),
            (0, 0)
        );
    }

    #[test]
    fn unknown_uses_of_the_input_read_all_planes() {
        let tensors = [numbers("a", &[0, 5]), numbers("far", &[112])];
        let pick = gather(INPUT, "a", 1);
        let other = NodeProto {
            input: vec![INPUT.into()],
            op_type: Some("Conv".into()),
            ..Default::default()
        };
        let mut inside = gather("other", "a", 0);
        inside.attribute[0].r#type = Some(attribute_type::GRAPH);
        for nodes in [
            vec![pick.clone(), other],
            vec![pick.clone(), inside],
            vec![pick.clone(), gather(INPUT, "a", 2)],
            vec![pick.clone(), gather(INPUT, "far", 1)],
            vec![pick.clone(), gather(INPUT, "computed", 1)],
            vec![pick.clone(), gather("a", INPUT, 1)],
        ] {
            assert_eq!(read(&nodes, &tensors), PlaneSet::ALL, "{nodes:?}");
        }
        let graph = GraphProto {
            output: vec![ValueInfo {
                name: Some(INPUT.into()),
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(planes_read(&graph, INPUT), PlaneSet::ALL);
    }
}
