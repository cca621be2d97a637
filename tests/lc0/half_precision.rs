//! What half precision does to a network, on any machine: the converted model is computed operator by operator, and
//! each result rounded to 16 bits (infinite beyond 65504) before the next one sees it, as a GPU stores it. Sums within
//! an operator have 32 bits, which is what ONNX defines for layer normalisation and what tensor cores do.
//!
//! The networks are scaled so that they compute the same output with far larger intermediate numbers.

use std::collections::{BTreeSet, HashMap};

use half::f16;
use prost::Message;
use rten::{Model, ModelOptions, Value, ValueOrView};
use rten_tensor::{AsView, NdTensor, Tensor};
use scorn::lc0::{ConvertOptions, DataType, Net, OnnxModel, proto, to_onnx};

use crate::{
    onnx_file::{OnnxFile, OnnxNode},
    run::{distance, run},
    synth::{self, Body, Embedding, Encoding, Policy, Spec},
    synthetic::positions,
};

/// A model's outputs if every intermediate result is rounded to 16 bits, and the largest magnitude among these
/// results.
struct Rounded {
    policy: Vec<f32>,
    wdl: Vec<f32>,
    largest: f32,
}

fn run_rounded(model: &OnnxModel, positions: &[Vec<f32>]) -> Rounded {
    let graph = OnnxFile::decode(&model.bytes[..]).unwrap().graph.unwrap();
    let runner = ModelOptions::with_all_ops()
        .enable_optimization(false)
        .load(model.bytes.clone())
        .unwrap();
    let input = NdTensor::from_data([positions.len(), 112, 8, 8], positions.concat());
    let mut values: HashMap<&str, Value> = HashMap::new();
    values.insert(&model.input, input.into());
    let mut largest = 0f32;
    for node in &graph.nodes {
        for (name, value) in node.outputs.iter().zip(compute(&runner, node, &values)) {
            let value = match Tensor::<f32>::try_from(value.clone()) {
                Ok(numbers) => {
                    let rounded = numbers.map(|&number| f16::from_f32(number).to_f32());
                    largest = rounded.iter().fold(largest, |max, x| max.max(x.abs()));
                    rounded.into()
                }
                Err(_) => value,
            };
            values.insert(name, value);
        }
    }
    let output = |name: &str| {
        Tensor::<f32>::try_from(values[name].clone())
            .unwrap()
            .to_vec()
    };
    Rounded {
        policy: output(&model.policy),
        wdl: output(model.wdl.as_ref().unwrap()),
        largest,
    }
}

/// The outputs of one node, from those of the nodes before it; weights come from the model.
fn compute(runner: &Model, node: &OnnxNode, values: &HashMap<&str, Value>) -> Vec<Value> {
    let id = |name: &String| runner.node_id(name).unwrap();
    let known = |name: &String| Some((id(name), ValueOrView::from(values.get(&**name)?.clone())));
    let distinct: BTreeSet<&String> = node.inputs.iter().collect();
    let inputs = distinct.into_iter().filter_map(known).collect();
    let outputs: Vec<_> = node.outputs.iter().map(id).collect();
    runner.run(inputs, &outputs, None).unwrap()
}

/// Multiplies the numbers of some layers.
fn scale<'a>(layers: impl IntoIterator<Item = &'a mut Option<proto::Layer>>, factor: f32) {
    for layer in layers {
        let numbers: Vec<f32> = synth::decode(layer).iter().map(|x| x * factor).collect();
        *layer = Some(synth::encode(&numbers, Encoding::Float32));
    }
}

fn convert(network: &proto::ProtoNet, data_type: DataType) -> OnnxModel {
    let options = ConvertOptions {
        data_type,
        ..Default::default()
    };
    convert_as(network, &options)
}

fn convert_as(network: &proto::ProtoNet, options: &ConvertOptions) -> OnnxModel {
    let net = Net::parse(&network.encode_to_vec()).unwrap();
    to_onnx(&net, options).unwrap()
}

/// Softmax of each position's logits.
fn probabilities(logits: &[f32]) -> Vec<f32> {
    let row = |row: &[f32]| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f32> = row.iter().map(|x| (x - most).exp()).collect();
        let sum: f32 = powers.iter().sum();
        powers.into_iter().map(move |x| x / sum).collect::<Vec<_>>()
    };
    logits.chunks_exact(1858).flat_map(row).collect()
}

/// Differences between 16 and 32 bits (policy and W/D/L, as probabilities), and the largest intermediate number.
fn error_of_rounding(network: &proto::ProtoNet) -> (f32, f32) {
    let positions = positions(4);
    let full = run(&convert(network, DataType::Float32), &positions);
    let half = run_rounded(&convert(network, DataType::Float16), &positions);
    let policy = distance(
        &probabilities(&half.policy),
        &probabilities(&full.policy.concat()),
    );
    let wdl = distance(&half.wdl, &full.wdl.unwrap().concat());
    (policy.max(wdl), half.largest)
}

/// lc0's number of a squared ReLU.
const RELU_2: i32 = 8;

fn transformer(ffn_activation: i32) -> Spec {
    Spec {
        body: Body::Attention {
            layers: 2,
            width: 24,
            model: 24,
            heads: 3,
            feed_forward: 40,
            embedding: Embedding::Map,
            multiply_gate: false,
            add_gate: false,
            smolgen: None,
        },
        policy: Policy::Attention {
            width: 10,
            model: 14,
            encoders: 0,
        },
        ffn_activation,
        ..Default::default()
    }
}

/// A transformer with `factor` times as large numbers before the squared ReLU and the same output.
fn loud_squares(factor: f32) -> proto::ProtoNet {
    let mut network = synth::network(&transformer(RELU_2));
    for encoder in &mut network.weights.as_mut().unwrap().encoder {
        let ffn = encoder.ffn.as_mut().unwrap();
        scale([&mut ffn.dense1_w, &mut ffn.dense1_b], factor);
        scale([&mut ffn.dense2_w], 1.0 / (factor * factor));
    }
    network
}

#[test]
fn squares_of_large_numbers_are_correct_while_they_fit() {
    for factor in [1.0, 8.0, 40.0] {
        let (error, largest) = error_of_rounding(&loud_squares(factor));
        eprintln!("squares, {factor} times: {error:.1e}, up to {largest}");
        assert!(error > 0.0 && error < 5e-3, "{factor}: {error}");
        assert!(
            largest >= factor * factor && largest <= 65504.0,
            "{largest}"
        );
    }
}

/// Clipped at 255, because the square of 256 is infinite, and one infinite number makes a whole layer normalisation
/// NaN.
#[test]
fn squares_that_do_not_fit_stay_finite() {
    let network = loud_squares(600.0);
    let model = convert(&network, DataType::Float16);
    assert_squares_fit(&model);
    // The same model without the limit.
    let limit = f16::from_f32(255.0).to_le_bytes();
    let unlimited = without_limit(&model, limit);
    let rounded = run_rounded(&unlimited, &positions(4));
    assert_eq!(rounded.largest, f32::INFINITY);
}

/// Checks that a model whose squares are too large for 16 bits still stays finite.
fn assert_squares_fit(model: &OnnxModel) {
    let rounded = run_rounded(model, &positions(4));
    assert_eq!(rounded.largest, 65024.0); // 255 x 255 in 11 bits of mantissa.
    let mut outputs = rounded.policy.iter().chain(&rounded.wdl);
    assert!(outputs.all(|x| x.is_finite()));
}

/// TensorRT takes models of 32 bits and computes them in 16.
#[test]
fn a_32_bit_model_is_limited_only_for_16_bit_runtimes() {
    let network = loud_squares(600.0);
    let model = |limits_squares| {
        let options = ConvertOptions {
            limits_squares,
            ..Default::default()
        };
        convert_as(&network, &options)
    };
    let has_limit = |model: &OnnxModel| {
        let name = b"/relu2/most";
        model.bytes.windows(name.len()).any(|window| window == name)
    };
    let (plain, limited) = (model(false), model(true));
    assert!(has_limit(&limited) && !has_limit(&plain));
    assert_squares_fit(&limited);
    let rounded = run_rounded(&plain, &positions(4));
    assert_eq!(rounded.largest, f32::INFINITY);
}

/// The model with the largest finite number as the limit of squared values.
fn without_limit(model: &OnnxModel, limit: [u8; 2]) -> OnnxModel {
    // In the file a constant's numbers follow its name; nodes contain the name too.
    let name = b"/relu2/most";
    let mut bytes = model.bytes.to_vec();
    let mentions = bytes.windows(name.len()).enumerate();
    let limits: Vec<usize> = mentions
        .filter(|(_, window)| window == name)
        .filter_map(|(at, _)| {
            let numbers = at + name.len()..at + name.len() + 4;
            let found = bytes[numbers.clone()]
                .windows(2)
                .position(|two| two == limit)?;
            Some(numbers.start + found)
        })
        .collect();
    let [at] = limits[..] else {
        panic!("one constant of this name: {limits:?}");
    };
    bytes[at..at + 2].copy_from_slice(&f16::MAX.to_le_bytes());
    OnnxModel {
        bytes,
        ..model.clone()
    }
}

/// A layer normalisation removes the scale of its input, so the sums of squares within it may exceed 65504, and do
/// here.
#[test]
fn layer_normalisation_sums_in_32_bits() {
    for factor in [1.0, 500.0] {
        let mut network = synth::network(&transformer(0));
        let weights = network.weights.as_mut().unwrap();
        // The residual sum of an encoder, which is normalised.
        scale([&mut weights.ip_emb_w, &mut weights.ip_emb_b], factor);
        let attention = weights.encoder[0].mha.as_mut().unwrap();
        scale([&mut attention.q_w, &mut attention.k_w], 1.0 / factor);
        let (error, largest) = error_of_rounding(&network);
        eprintln!("normalisation, {factor} times: {error:.1e}, up to {largest}");
        assert!(error > 0.0 && error < 5e-3, "{factor}: {error}");
        assert!(largest <= 65504.0 && (factor == 1.0 || 24.0 * largest.powi(2) > 65504.0));
    }
}

/// Convolutions and ReLU: the numbers in the tower may be large.
#[test]
fn large_activations_of_convolutions_are_correct_while_they_fit() {
    for factor in [1.0, 100.0, 2000.0] {
        let mut network = synth::network(&Spec {
            body: Body::Conv {
                blocks: 3,
                filters: 24,
                squeeze_excite: None,
            },
            batch_norm: false,
            ..Default::default()
        });
        let weights = network.weights.as_mut().unwrap();
        let input = weights.input.as_mut().unwrap();
        scale([&mut input.weights, &mut input.biases], factor);
        for block in &mut weights.residual {
            scale([&mut block.conv1.as_mut().unwrap().weights], 1.0 / factor);
            let second = block.conv2.as_mut().unwrap();
            scale([&mut second.weights, &mut second.biases], factor);
        }
        for head in [&mut weights.policy1, &mut weights.value] {
            scale([&mut head.as_mut().unwrap().weights], 1.0 / factor);
        }
        let (error, largest) = error_of_rounding(&network);
        eprintln!("convolutions, {factor} times: {error:.1e}, up to {largest}");
        assert!(error > 0.0 && error < 5e-3, "{factor}: {error}");
        assert!(largest >= factor && largest <= 65504.0, "{largest}");
    }
}
