//! Converted networks compared with lc0's own outputs, for positions with recorded input planes.

use std::{collections::HashMap, fs, path::Path};

use scorn::lc0::{ConvertOptions, DataType, Net, to_onnx};
use serde_json::Value;

use crate::run::{calibrate, run, shared};

fn json_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The recorded planes of each position, 112 x 64.
fn planes() -> HashMap<String, Vec<f32>> {
    let position = |row: &Value| {
        let plane = |pair: &Value| {
            let mask = u64::from_str_radix(pair[0].as_str().unwrap().trim_start_matches("0x"), 16)
                .unwrap();
            let value = pair[1].as_f64().unwrap() as f32;
            (0..64).map(move |square| if mask >> square & 1 == 1 { value } else { 0.0 })
        };
        let planes: Vec<f32> = row["planes"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(plane)
            .collect();
        (row["id"].as_str().unwrap().to_owned(), planes)
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/lc0/planes.jsonl");
    json_lines(Path::new(path)).iter().map(position).collect()
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = logits.iter().map(|v| (v - max).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.into_iter().map(|v| v / sum).collect()
}

/// Largest differences from lc0's outputs.
#[derive(Debug, Default)]
struct Worst {
    policy: f64,
    q: f64,
    d: f64,
    m: f64,
}

/// The differences of the converted network from lc0's outputs; `None` if the files are missing.
fn differences(
    net: &str,
    reference: &str,
    options: impl FnOnce(&Net, &[Vec<f32>]) -> ConvertOptions,
) -> Option<Worst> {
    let net = shared(&format!("nets/{net}.pb.gz"))?;
    let reference_file = shared(&format!("reference/{reference}.jsonl"))?;
    let (net, planes) = (Net::load(&net).unwrap(), planes());
    let rows = json_lines(&reference_file);
    let rows: Vec<&Value> = rows
        .iter()
        .filter(|row| planes.contains_key(row["id"].as_str().unwrap()))
        .collect();
    assert!(rows.len() >= 9, "{} positions", rows.len());
    let positions: Vec<Vec<f32>> = rows
        .iter()
        .map(|row| planes[row["id"].as_str().unwrap()].clone())
        .collect();
    let model = to_onnx(&net, &options(&net, &positions)).unwrap();
    let outputs = run(&model, &positions);
    let mut worst = Worst::default();
    for (index, row) in rows.iter().enumerate() {
        let indices = row["policy_index"].as_object().unwrap();
        let logits: Vec<f64> = indices
            .values()
            .map(|i| f64::from(outputs.policy[index][i.as_u64().unwrap() as usize]))
            .collect();
        for (mv, ours) in indices.keys().zip(softmax(&logits)) {
            worst.policy = worst
                .policy
                .max((ours - row["policy"][mv].as_f64().unwrap()).abs());
        }
        let value = outputs.any_value()[index]
            .iter()
            .map(|&v| f64::from(v))
            .collect::<Vec<_>>();
        let (q, d) = if value.len() == 3 {
            (value[0] - value[2], value[1])
        } else {
            (value[0], 0.0)
        };
        let m = outputs
            .mlh
            .as_ref()
            .map_or(0.0, |mlh| f64::from(mlh[index][0]));
        worst.q = worst.q.max((q - row["q"].as_f64().unwrap()).abs());
        worst.d = worst.d.max((d - row["d"].as_f64().unwrap()).abs());
        worst.m = worst.m.max((m - row["m"].as_f64().unwrap()).abs());
    }
    println!("{reference}, {} positions: {worst:?}", rows.len());
    Some(worst)
}

/// Compares float32 closely and half precision coarsely.
fn compare(net: &str, reference: &str) {
    for (data_type, bound) in [(DataType::Float32, 1e-4), (DataType::Float16, 5e-3)] {
        let options = ConvertOptions {
            data_type,
            ..Default::default()
        };
        let Some(worst) = differences(net, reference, |_, _| options) else {
            return;
        };
        let probabilities = worst.policy.max(worst.q).max(worst.d);
        assert!(
            probabilities < bound && worst.m < 10.0 * bound,
            "{net} in {data_type:?}: {worst:?}"
        );
    }
}

#[test]
fn maia_in_8_bits() {
    let options = |net: &Net, positions: &[Vec<f32>]| {
        let float = ConvertOptions::default();
        ConvertOptions {
            data_type: DataType::Int8,
            calibration: Some(calibrate(net, &float, positions)),
            ..float
        }
    };
    let Some(worst) = differences("maia-1900", "maia1900_reference", options) else {
        return;
    };
    let probabilities = worst.policy.max(worst.q).max(worst.d);
    assert!(probabilities < 0.1, "{worst:?}");
}

#[test]
fn maia() {
    compare("maia-1900", "maia1900_reference");
}

#[test]
fn classical_policy_and_value() {
    compare("synth-classical-se", "synth-classical-se");
}

#[test]
fn without_squeeze_and_excite() {
    compare("synth-noSE-classical", "synth-noSE-classical");
}

#[test]
fn convolutional_policy_and_moves_left() {
    compare("synth-conv-wdl-mlh", "synth-conv-wdl-mlh");
}

#[test]
fn attention_with_a_position_map() {
    compare("synth-attn-pemap-smolgen", "synth-attn-pemap-smolgen");
}

#[test]
fn attention_with_several_heads() {
    compare("synth-bt-multihead", "synth-bt-multihead");
}
