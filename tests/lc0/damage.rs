//! Damaged and unsuitable files cause an error that names the place, never a panic.

use std::{fs, time::Instant};

use prost::Message;
use scorn::{
    lc0::{ConvertOptions, DataType, Net, OnnxModel, proto, read_onnx, to_onnx},
    network::source::NetworkSource,
};

use crate::{
    onnx_file::{OnnxGraph, OnnxNode, OnnxTensor},
    run::shared,
    synth::{self, Body, Embedding, Policy, Rng, Smolgen, Spec},
};

fn small_networks() -> Vec<Vec<u8>> {
    let conv = Spec::smallest();
    let attention = Spec {
        body: Body::Attention {
            layers: 1,
            width: 2,
            model: 4,
            heads: 2,
            feed_forward: 2,
            embedding: Embedding::Dense { channels: 1 },
            multiply_gate: true,
            add_gate: true,
            smolgen: Some(Smolgen {
                compress: 1,
                hidden: 2,
                generator: 1,
            }),
        },
        policy: Policy::Attention {
            width: 2,
            model: 2,
            encoders: 1,
        },
        multihead: true,
        ..conv
    };
    vec![synth::file(&conv), synth::file(&attention)]
}

/// Parses and converts, ignoring the result.
fn exercise(bytes: &[u8]) -> bool {
    match Net::parse(bytes) {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
        Ok(net) => {
            let _ = net.describe().to_string();
            match to_onnx(&net, &ConvertOptions::default()) {
                Ok(model) => read_onnx(&model.bytes).is_ok(),
                Err(error) => error.to_string().is_empty(),
            }
        }
    }
}

#[test]
fn mutated_networks_never_panic() {
    let mut rng = Rng(2024);
    let start = Instant::now();
    let (mut converted, mut tried) = (0, 0);
    for file in small_networks() {
        assert!(exercise(&file));
        // Field numbers and lengths are at the beginnings of messages: find the bytes that are not weights.
        let structure: Vec<usize> = (0..file.len())
            .filter(|&i| {
                i < 200
                    || file[i.saturating_sub(3)..=i]
                        .iter()
                        .any(|b| [0x0a, 0x12, 0x1a, 0x22].contains(b))
            })
            .collect();
        for _ in 0..1500 {
            let mut bytes = file.clone();
            for _ in 0..=rng.below(8) {
                let at = match rng.below(4) {
                    0 => rng.below(bytes.len()),
                    _ => structure[rng.below(structure.len())],
                };
                bytes[at] = match rng.below(3) {
                    0 => rng.next() as u8,
                    1 => bytes[at].wrapping_add(1),
                    _ => bytes[at] ^ (1 << rng.below(8)),
                };
            }
            if rng.below(10) == 0 {
                bytes.truncate(rng.below(bytes.len()));
            }
            tried += 1;
            converted += usize::from(exercise(&bytes));
        }
    }
    println!(
        "{converted} of {tried} still convert, {:?}",
        start.elapsed()
    );
    assert!(converted > 0 && converted < tried);
}

#[test]
fn mutated_archives_never_panic() {
    let Some(path) = shared("nets/synth-attn-pemap-smolgen.pb.gz") else {
        return;
    };
    let file = fs::read(path).unwrap();
    let mut rng = Rng(7);
    for _ in 0..60 {
        let mut bytes = file.clone();
        let at = rng.below(bytes.len());
        bytes[at] ^= 1 << rng.below(8);
        exercise(&bytes);
        assert!(Net::parse(&file[..rng.below(file.len())]).is_err());
    }
}

#[test]
fn mutated_onnx_never_panics() {
    let net = Net::parse(&small_networks()[0]).unwrap();
    let file = to_onnx(&net, &ConvertOptions::default()).unwrap().bytes;
    let mut rng = Rng(8);
    for _ in 0..2000 {
        let mut bytes = file.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len());
            bytes[at] = rng.next() as u8;
        }
        bytes.truncate(bytes.len() - rng.below(2) * rng.below(bytes.len()));
        let _ = read_onnx(&bytes);
    }
}

fn refusal(change: impl FnOnce(&mut proto::ProtoNet)) -> String {
    let mut net = synth::network(&Spec {
        body: Body::Attention {
            layers: 1,
            width: 4,
            model: 4,
            heads: 2,
            feed_forward: 4,
            embedding: Embedding::Map,
            multiply_gate: false,
            add_gate: false,
            smolgen: None,
        },
        policy: Policy::Attention {
            width: 4,
            model: 4,
            encoders: 0,
        },
        ..Default::default()
    });
    change(&mut net);
    let result = Net::parse(&net.encode_to_vec());
    result.err().expect("a refusal").to_string()
}

fn assert_named<const N: usize>(refusals: [(String, &str); N]) {
    for (message, expected) in refusals {
        assert!(message.contains(expected), "'{message}' lacks '{expected}'");
    }
}

#[test]
fn unsuitable_formats_are_named() {
    let format = |net: &mut proto::ProtoNet, change: fn(&mut proto::NetworkFormat)| {
        change(
            net.format
                .as_mut()
                .unwrap()
                .network_format
                .as_mut()
                .unwrap(),
        );
    };
    assert_named([
        (
            refusal(|n| format(n, |f| f.network = Some(99))),
            "network_format.network is 99 (unknown",
        ),
        (
            refusal(|n| format(n, |f| f.policy = Some(2))),
            "POLICY_CONVOLUTION",
        ),
        (
            refusal(|n| format(n, |f| f.input = Some(0))),
            "INPUT_UNKNOWN",
        ),
        (
            refusal(|n| format(n, |f| f.ffn_activation = Some(9))),
            "ACTIVATION_SOFTMAX",
        ),
        (
            refusal(|n| format(n, |f| f.network = Some(3))),
            "1 encoder layers",
        ),
        (refusal(|n| n.magic = Some(5)), "not an lc0 network"),
    ]);
}

#[test]
fn missing_or_inconsistent_layers_are_named() {
    let encoder = |net: &mut proto::ProtoNet, change: fn(&mut proto::EncoderLayer)| {
        change(&mut net.weights.as_mut().unwrap().encoder[0]);
    };
    assert_named([
        (
            refusal(|n| {
                encoder(n, |e| {
                    e.mha.as_mut().unwrap().rpe_q = Some(proto::Layer::default());
                });
            }),
            "encoder[0].mha is relative (RPE, layer rpe_q)",
        ),
        (
            refusal(|n| encoder(n, |e| e.ffn = None)),
            "layer encoder[0].ffn is missing",
        ),
        (
            refusal(|n| n.weights.as_mut().unwrap().headcount = Some(3)),
            "encoder[0].mha.q_w",
        ),
        (refusal(|n| n.weights = None), "weights is missing"),
        (
            refusal(|n| n.weights.as_mut().unwrap().ip2_val_b = None),
            "layer ip2_val_b is missing",
        ),
        (
            refusal(|n| {
                n.weights
                    .as_mut()
                    .unwrap()
                    .ip_emb_b
                    .as_mut()
                    .unwrap()
                    .encoding = Some(9);
            }),
            "encoding of layer ip_emb_b is 9",
        ),
        (
            refusal(|n| {
                n.weights.as_mut().unwrap().ip_emb_b =
                    Some(synth::encode(&[0.0; 3], synth::Encoding::Float32));
            }),
            "layer ip_emb_b has 3 values, expected 4 (one per row of ip_emb_w)",
        ),
    ]);
}

#[test]
fn a_non_finite_weight_is_named() {
    let mut net = synth::network(&Spec::default());
    let bias = net.weights.as_mut().unwrap().ip1_val_b.as_mut().unwrap();
    let mut values = bias.params().to_vec();
    values[4..8].copy_from_slice(&f32::INFINITY.to_le_bytes());
    bias.params = Some(values.into());
    let net = Net::parse(&net.encode_to_vec()).unwrap();
    let error = to_onnx(&net, &ConvertOptions::default())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "layer ip1_val_b: value 1 is inf, expected a finite number"
    );
}

/// A field of protobuf that has a length.
fn message(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut bytes);
    [bytes, content.to_vec()].concat()
}

/// A model with half precision inputs and outputs, as lc0's own converter writes them.
fn half_precision_interface() -> Vec<u8> {
    // Cast nodes only: the planes' first entries are the outputs.
    let dim = |n: u64| {
        let mut bytes = vec![8];
        prost::encoding::encode_varint(n, &mut bytes);
        message(1, &bytes)
    };
    let value = |name: &str, dims: &[u64]| {
        let shape: Vec<u8> = dims.iter().flat_map(|&n| dim(n)).collect();
        let tensor = [vec![8, 10], message(2, &shape)].concat();
        [
            message(1, name.as_bytes()),
            message(2, &message(1, &tensor)),
        ]
        .concat()
    };
    let node = |op: &str, inputs: &[&str], output: &str| {
        let inputs: Vec<u8> = inputs
            .iter()
            .flat_map(|name| message(1, name.as_bytes()))
            .collect();
        message(
            1,
            &[
                inputs,
                message(2, output.as_bytes()),
                message(4, op.as_bytes()),
            ]
            .concat(),
        )
    };
    let constant = |name: &str, values: &[i64]| {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let dims = vec![8, values.len() as u8, 16, 7];
        message(
            5,
            &[dims, message(8, name.as_bytes()), message(9, &data)].concat(),
        )
    };
    let graph = [
        node("Reshape", &["/input/planes", "flat"], "all"),
        node("Slice", &["all", "zero", "policy", "one"], "/output/policy"),
        node("Slice", &["all", "zero", "three", "one"], "/output/wdl"),
        message(2, b"half"),
        constant("flat", &[1, 7168]),
        constant("zero", &[0]),
        constant("one", &[1]),
        constant("three", &[3]),
        constant("policy", &[1858]),
        message(11, &value("/input/planes", &[1, 112, 8, 8])),
        message(12, &value("/output/policy", &[1, 1858])),
        message(12, &value("/output/wdl", &[1, 3])),
    ];
    [
        vec![8, 8],
        message(7, &graph.concat()),
        message(8, &[16, 17]),
    ]
    .concat()
}

#[test]
fn half_precision_inputs_and_outputs_are_widened() {
    let model = read_onnx(&half_precision_interface()).unwrap();
    assert_eq!(model.batch, Some(1));
    let planes: Vec<f32> = (0..112 * 64).map(|i| (i % 50) as f32).collect();
    let outputs = crate::run::run(&model, &[planes]);
    assert_eq!(outputs.wdl.unwrap()[0], [0.0, 1.0, 2.0]);
    assert_eq!(outputs.policy[0][49], 49.0);
    // The changes are in the metadata: the model can be written to a file and read again.
    let again = read_onnx(&model.bytes).unwrap();
    assert_eq!((again.input, again.bytes), (model.input, model.bytes));
}

/// A model, and the network in which it is embedded.
fn embedded() -> (OnnxModel, proto::ProtoNet) {
    let inner = Net::parse(&small_networks()[0]).unwrap();
    let inner = to_onnx(&inner, &ConvertOptions::default()).unwrap();
    let outer = proto::ProtoNet {
        magic: Some(0x1c0),
        format: Some(proto::ProtoFormat {
            weights_encoding: None,
            network_format: Some(proto::NetworkFormat {
                input: Some(3),
                network: Some(5),
                ..Default::default()
            }),
        }),
        onnx_model: Some(proto::ProtoOnnxModel {
            model: Some(inner.bytes.clone().into()),
            input_planes: Some(inner.input.clone()),
            output_policy: Some(inner.policy.clone()),
            output_wdl: inner.wdl.clone(),
            ..Default::default()
        }),
        ..Default::default()
    };
    (inner, outer)
}

/// An embedded model passes through with the names from the file.
#[test]
fn embedded_onnx_passes_through() {
    let (inner, mut outer) = embedded();
    let net = Net::parse(&outer.encode_to_vec()).unwrap();
    let model = to_onnx(&net, &ConvertOptions::default()).unwrap();
    assert_eq!(model.input_format.number(), 3);
    // Its metadata contains that now, and nothing else has changed.
    assert_eq!(read_onnx(&model.bytes).unwrap().input_format.number(), 3);
    let length = model.bytes.len() as i64 - inner.bytes.len() as i64;
    assert!(length.abs() < 40, "{length}");
    assert!(net.describe().to_string().contains("embedded ONNX"));

    outer.onnx_model.as_mut().unwrap().output_policy = Some("/output/wdl".to_owned());
    let net = Net::parse(&outer.encode_to_vec());
    let error = net
        .and_then(|net| to_onnx(&net, &ConvertOptions::default()))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor '/output/wdl' of the ONNX model is float32 [batch, 3], expected float32 [batch, 1858]"
    );
}

/// A model whose graph has these fields in addition.
fn with_graph_fields(model: &[u8], fields: &[u8]) -> Vec<u8> {
    let (mut rest, mut bytes) = (model, Vec::new());
    while !rest.is_empty() {
        let field = rest;
        let (key, wire_type) = prost::encoding::decode_key(&mut rest).unwrap();
        if key == 7 {
            let length = prost::encoding::decode_varint(&mut rest).unwrap() as usize;
            let (graph, after) = rest.split_at(length);
            bytes.extend(message(7, &[graph, fields].concat()));
            rest = after;
        } else {
            let context = prost::encoding::DecodeContext::default();
            prost::encoding::skip_field(wire_type, key, &mut rest, context).unwrap();
            bytes.extend(&field[..field.len() - rest.len()]);
        }
    }
    bytes
}

/// A dense model, a sparse network and a model inside lc0's format: no backend gets one that decoders read differently.
#[test]
fn what_repeats_a_part_of_a_model_is_refused_for_every_backend() {
    let (model, outer) = embedded();
    // A length of a petabyte, which rten would allocate, in a part that only it decodes.
    let length = [
        0x6a, 12, 0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0, 0, 0,
    ];
    let second_graph = message(7, &length[..2]);
    for (name, whole) in [
        ("x.onnx", &model.bytes[..]),
        ("sparse.onnx", scorn_network_sparse::SPARSE),
    ] {
        for (bytes, part) in [
            (with_graph_fields(whole, &length), "are left"),
            ([whole, &second_graph].concat(), "twice"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            fs::write(&path, &bytes).unwrap();
            let source = NetworkSource::new(path.to_str().unwrap());
            let error = source.convert(&ConvertOptions::default()).err().unwrap();
            let error = error.to_string();
            assert!(error.contains(part) && error.contains(name), "{error}");
        }
    }
    let mut outer = outer;
    let bytes = with_graph_fields(&model.bytes, &length);
    outer.onnx_model.as_mut().unwrap().model = Some(bytes.into());
    let net = Net::parse(&outer.encode_to_vec()).unwrap();
    let error = to_onnx(&net, &ConvertOptions::default()).unwrap_err();
    assert!(error.to_string().contains("are left"), "{error}");
}

/// Models that would overflow a backend's stack or memory are refused before a backend loads them, wherever they come
/// from.
#[test]
fn models_that_are_too_deep_or_too_large_are_refused_by_name() {
    let (model, outer) = embedded();
    let chain = (0..10_000).map(|link| OnnxNode {
        inputs: vec![match link {
            0 => model.input.clone(),
            _ => format!("link{}", link - 1),
        }],
        outputs: vec![format!("link{link}")],
        operator: "Relu".to_owned(),
    });
    let deep = OnnxGraph {
        nodes: chain.collect(),
        ..Default::default()
    };
    let large = OnnxGraph {
        initializers: vec![OnnxTensor {
            dims: vec![1 << 20, 1 << 20],
            data_type: 1,
            name: "everything".to_owned(),
        }],
        ..Default::default()
    };
    for (graph, parts) in [
        (deep, ["link4000", "4000 nodes"]),
        (large, ["everything", "1048576"]),
    ] {
        let bytes = with_graph_fields(&model.bytes, &graph.encode_to_vec());
        let by_itself = read_onnx(&bytes).unwrap_err().to_string();
        let mut outer = outer.clone();
        outer.onnx_model.as_mut().unwrap().model = Some(bytes.into());
        let net = Net::parse(&outer.encode_to_vec()).unwrap();
        let in_a_network = to_onnx(&net, &ConvertOptions::default()).unwrap_err();
        for error in [by_itself, in_a_network.to_string()] {
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}

/// Backends request their own precision; such a network has its own, and its own heads.
#[test]
fn an_embedded_model_keeps_its_precision_and_its_heads() {
    let (_, outer) = embedded();
    let bytes = outer.encode_to_vec();
    let model = to_onnx(&Net::parse(&bytes).unwrap(), &ConvertOptions::default()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let read = |options: &ConvertOptions| {
        NetworkSource::new(file.path().to_str().unwrap()).convert(options)
    };
    for data_type in [DataType::Float16, DataType::BFloat16, DataType::Int8] {
        let network = read(&ConvertOptions {
            data_type,
            ..Default::default()
        });
        let network = network.unwrap();
        assert_eq!(network.onnx.bytes, model.bytes);
        assert!(!network.is_converted);
    }
    let other_head = ConvertOptions {
        policy_head: Some("optimistic".to_owned()),
        ..Default::default()
    };
    let error = read(&other_head).err().unwrap().to_string();
    assert!(
        error.contains("PolicyHead optimistic: ")
            && error.ends_with("here vanilla; clear PolicyHead"),
        "{error}"
    );
    let own_head = ConvertOptions {
        policy_head: Some("vanilla".to_owned()),
        value_head: Some("winner".to_owned()),
        ..Default::default()
    };
    assert_eq!(read(&own_head).unwrap().onnx.bytes, model.bytes);
}
