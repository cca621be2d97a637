//! Networks of every kind with random weights: the converted model must agree with the plain evaluation.

use prost::Message;
use scorn::lc0::{Calibration, ConvertOptions, DataType, Net, read_onnx, to_onnx};

use crate::{
    fused,
    naive::Naive,
    run::{calibrate, distance, run},
    synth::{self, Body, Embedding, Encoding, Policy, Rng, Smolgen, Spec},
};

/// Inputs like those of chess positions: sparse ones, a rule-50 counter, a plane of ones.
pub fn positions(count: usize) -> Vec<Vec<f32>> {
    let mut rng = Rng(99);
    let mut position = || {
        let mut planes: Vec<f32> = (0..112 * 64)
            .map(|_| f32::from(u8::from(rng.below(8) == 0)))
            .collect();
        planes[109 * 64..110 * 64].fill(rng.below(100) as f32 / 10.0);
        planes[110 * 64..111 * 64].fill(0.0);
        planes[111 * 64..].fill(1.0);
        planes
    };
    (0..count).map(|_| position()).collect()
}

fn check_heads(spec: &Spec, policy: Option<&str>, value: Option<&str>) {
    let proto = synth::network(spec);
    let net =
        Net::parse(&proto.encode_to_vec()).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    let options = ConvertOptions {
        policy_head: policy.map(str::to_owned),
        value_head: value.map(str::to_owned),
        ..Default::default()
    };
    let model = to_onnx(&net, &options).unwrap();
    let again = read_onnx(&model.bytes).unwrap();
    assert_eq!(
        (&again.policy, &again.wdl, &again.value, &again.mlh),
        (&model.policy, &model.wdl, &model.value, &model.mlh)
    );
    fused::check(&net, &options, &format!("{spec:?}"));
    let positions = positions(2);
    let outputs = run(&model, &positions);
    let naive = Naive::new(&proto);
    for (index, planes) in positions.iter().enumerate() {
        let expected = naive.evaluate(
            planes,
            policy.unwrap_or("vanilla"),
            value.unwrap_or("winner"),
        );
        let scale = expected.policy.iter().fold(1f32, |max, v| max.max(v.abs()));
        let policy = distance(&outputs.policy[index], &expected.policy) / scale;
        let value = distance(&outputs.any_value()[index], &expected.value);
        assert!(
            policy < 2e-5 && value < 2e-5,
            "{spec:?}: policy {policy}, value {value}"
        );
        let m = outputs.mlh.as_ref().map(|mlh| mlh[index][0]);
        assert_eq!(m.is_some(), expected.moves_left.is_some());
        if let (Some(m), Some(expected)) = (m, expected.moves_left) {
            assert!(
                (m - expected).abs() < 1e-4 * expected.max(1.0),
                "{spec:?}: {m}, {expected}"
            );
        }
    }
}

fn check(spec: Spec) {
    check_heads(&spec, None, None);
}

fn conv(blocks: usize, filters: usize, squeeze_excite: Option<usize>) -> Body {
    Body::Conv {
        blocks,
        filters,
        squeeze_excite,
    }
}

fn attention(embedding: Embedding, gates: (bool, bool), smolgen: Option<Smolgen>) -> Body {
    Body::Attention {
        layers: 2,
        width: 12,
        model: 24,
        heads: 3,
        feed_forward: 20,
        embedding,
        multiply_gate: gates.0,
        add_gate: gates.1,
        smolgen,
    }
}

const SMOLGEN: Option<Smolgen> = Some(Smolgen {
    compress: 3,
    hidden: 10,
    generator: 7,
});

const ATTENTION_POLICY: Policy = Policy::Attention {
    width: 10,
    model: 14,
    encoders: 0,
};

#[test]
fn convolutional_networks_of_unusual_sizes() {
    for (seed, (body, policy, value_channels, value_hidden)) in [
        (conv(0, 5, None), Policy::Convolution, 1, 3),
        (
            conv(1, 7, Some(3)),
            Policy::Classical { channels: 3 },
            8,
            128,
        ),
        (conv(2, 16, Some(5)), Policy::Convolution, 48, 20),
        (conv(2, 9, None), ATTENTION_POLICY, 32, 128),
    ]
    .into_iter()
    .enumerate()
    {
        for (mish, wdl, batch_norm) in [(false, true, true), (true, false, false)] {
            check(Spec {
                body,
                policy,
                value_channels,
                value_hidden,
                wdl,
                mish,
                batch_norm,
                moves_left: wdl.then_some(3),
                seed: seed as u64,
                ..Default::default()
            });
        }
    }
}

#[test]
fn attention_bodies_of_every_kind() {
    let stem = Embedding::Stem {
        blocks: 1,
        filters: 6,
    };
    for (embedding, gates, smolgen) in [
        (Embedding::Map, (false, false), None),
        (Embedding::Map, (true, true), SMOLGEN),
        (Embedding::Map, (true, false), None),
        (Embedding::Dense { channels: 5 }, (false, true), None),
        (Embedding::Dense { channels: 8 }, (true, true), SMOLGEN),
        (stem, (false, false), SMOLGEN),
    ] {
        check(Spec {
            body: attention(embedding, gates, smolgen),
            policy: ATTENTION_POLICY,
            mish: true,
            moves_left: Some(2),
            ..Default::default()
        });
    }
}

#[test]
fn policy_encoders() {
    let policy = Policy::Attention {
        width: 8,
        model: 6,
        encoders: 2,
    };
    for body in [
        conv(1, 8, None),
        attention(Embedding::Map, (false, false), None),
        attention(Embedding::Dense { channels: 4 }, (false, false), SMOLGEN),
    ] {
        check(Spec {
            body,
            policy,
            ..Default::default()
        });
    }
}

#[test]
fn every_activation() {
    let dense = Embedding::Dense { channels: 4 };
    for activation in 1..=8 {
        for embedding in [Embedding::Map, dense] {
            check(Spec {
                body: attention(embedding, (true, true), SMOLGEN),
                policy: ATTENTION_POLICY,
                ffn_activation: activation,
                smolgen_activation: 9 - activation,
                ..Default::default()
            });
        }
    }
}

#[test]
fn every_head_of_a_multihead_network() {
    let spec = Spec {
        body: attention(Embedding::Dense { channels: 4 }, (false, false), None),
        policy: ATTENTION_POLICY,
        multihead: true,
        ..Default::default()
    };
    for (policy, value) in [
        ("vanilla", "winner"),
        ("optimistic", "q"),
        ("soft", "st"),
        ("opponent", "q"),
    ] {
        check_heads(&spec, Some(policy), Some(value));
    }
    let net = Net::parse(&synth::file(&spec)).unwrap();
    assert_eq!(
        net.describe().policy_heads,
        ["vanilla", "optimistic", "soft", "opponent"]
    );
    let heads = |policy: &str, value: &str| ConvertOptions {
        policy_head: Some(policy.to_owned()),
        value_head: Some(value.to_owned()),
        ..Default::default()
    };
    let bytes = |policy, value| to_onnx(&net, &heads(policy, value)).unwrap().bytes;
    for policy in ["OPTIMISTIC", "optimistic_st", "Optimistic_ST"] {
        assert!(bytes(policy, "Q") == bytes("optimistic", "q"), "{policy}");
    }
    let error = to_onnx(&net, &heads("hard", "q")).unwrap_err().to_string();
    assert_eq!(
        error,
        "no policy head 'hard' in this network; it has: vanilla, optimistic, soft, opponent"
    );
}

/// The same numbers in four encodings give the same outputs, within their precision.
#[test]
fn encodings_agree() {
    for body in [
        conv(2, 8, Some(4)),
        attention(Embedding::Map, (true, true), SMOLGEN),
    ] {
        let spec = Spec {
            body,
            policy: ATTENTION_POLICY,
            ..Default::default()
        };
        let positions = positions(3);
        let outputs = |encoding| {
            let file = synth::file(&Spec { encoding, ..spec });
            let net = Net::parse(&file).unwrap();
            run(
                &to_onnx(&net, &ConvertOptions::default()).unwrap(),
                &positions,
            )
        };
        let exact = outputs(Encoding::Float32);
        for (encoding, tolerance) in [
            (Encoding::Linear16, 2e-3),
            (Encoding::Float16, 2e-2),
            (Encoding::BFloat16, 2e-1),
        ] {
            let outputs = outputs(encoding);
            let policy = distance(&outputs.policy.concat(), &exact.policy.concat());
            let value = distance(&outputs.any_value().concat(), &exact.any_value().concat());
            assert!(
                policy < 5.0 * tolerance && value < tolerance,
                "{encoding:?}: {policy}, {value}"
            );
            assert!(policy > 0.0);
        }
    }
}

/// 16-bit models are half as large and nearly as accurate. (rten has no bfloat16: such a model is only inspected.)
#[test]
fn precisions_agree() {
    let body = attention(Embedding::Dense { channels: 8 }, (true, true), SMOLGEN);
    for body in [conv(2, 24, Some(6)), body] {
        let spec = Spec {
            body,
            policy: ATTENTION_POLICY,
            moves_left: Some(4),
            mish: true,
            ..Default::default()
        };
        let net = Net::parse(&synth::file(&spec)).unwrap();
        let model = |data_type| {
            let options = ConvertOptions {
                data_type,
                ..Default::default()
            };
            to_onnx(&net, &options).unwrap()
        };
        let (full, half, brain) = (
            model(DataType::Float32),
            model(DataType::Float16),
            model(DataType::BFloat16),
        );
        for small in [&half, &brain] {
            assert!(small.bytes.len() < full.bytes.len() * 7 / 10);
            assert_eq!(read_onnx(&small.bytes).unwrap().wdl, full.wdl);
        }
        let positions = positions(3);
        let (full, half) = (run(&full, &positions), run(&half, &positions));
        let policy = distance(&half.policy.concat(), &full.policy.concat());
        let value = distance(&half.any_value().concat(), &full.any_value().concat());
        assert!(policy < 2e-2 && value < 4e-3, "{policy}, {value}");
    }
}

/// 8-bit models are a quarter as large in the body, and roughly as accurate.
#[test]
fn quantized_models_are_close() {
    let dense = attention(Embedding::Dense { channels: 8 }, (true, true), SMOLGEN);
    for (body, mish) in [
        (conv(3, 48, Some(6)), false),
        (conv(2, 16, None), true),
        (dense, true),
    ] {
        let spec = Spec {
            body,
            policy: ATTENTION_POLICY,
            mish,
            ..Default::default()
        };
        let net = Net::parse(&synth::file(&spec)).unwrap();
        let mut options = ConvertOptions::default();
        let full = to_onnx(&net, &options).unwrap();
        let positions = positions(8);
        options.calibration = Some(calibrate(&net, &options, &positions));
        options.data_type = DataType::Int8;
        let small = to_onnx(&net, &options).unwrap();
        assert_eq!(read_onnx(&small.bytes).unwrap().wdl, full.wdl);
        let (full, small) = (run(&full, &positions), run(&small, &positions));
        let policy = distance(&small.policy.concat(), &full.policy.concat());
        let value = distance(&small.any_value().concat(), &full.any_value().concat());
        assert!(policy < 0.5 && value < 0.05, "{spec:?}: {policy}, {value}");
        assert!(policy > 0.0);
    }
}

#[test]
fn quantization_needs_calibration() {
    let net = Net::parse(&synth::file(&Spec::default())).unwrap();
    let mut options = ConvertOptions {
        data_type: DataType::Int8,
        ..Default::default()
    };
    let error = to_onnx(&net, &options).unwrap_err().to_string();
    assert_eq!(error, "the calibration for int8 is missing");
    options.calibration = Some(Calibration::default());
    let error = to_onnx(&net, &options).unwrap_err().to_string();
    assert_eq!(
        error,
        "the calibrated range of tensor /input/conv/relu is missing"
    );
}

#[test]
fn a_fixed_batch_is_declared() {
    let net = Net::parse(&synth::file(&Spec::default())).unwrap();
    let options = ConvertOptions {
        batch: Some(3),
        ..Default::default()
    };
    let model = to_onnx(&net, &options).unwrap();
    assert_eq!(read_onnx(&model.bytes).unwrap().batch, Some(3));
    assert_eq!(run(&model, &positions(3)).policy.len(), 3);
    // OpenVINO would divide by a batch of 0, which ends the process.
    for (batch, expected) in [(65537, "up to 65536"), (0, "[batch, 112, 8, 8]")] {
        let options = ConvertOptions {
            batch: Some(batch),
            ..Default::default()
        };
        let error = read_onnx(&to_onnx(&net, &options).unwrap().bytes).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let open = to_onnx(&net, &ConvertOptions::default()).unwrap();
    assert_eq!(read_onnx(&open.bytes).unwrap().batch, None);
}
