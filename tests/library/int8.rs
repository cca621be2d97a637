//! 8-bit networks compared with the same networks in 32 bits, on positions from real games.
//!
//! The network and the positions are in the folder shared between checkouts (`SCORN_SHARED`, or `../shared`); without
//! it the tests print a message and pass.

use std::{fs, path::Path, sync::Arc};

use crate::common::{position, shared};
use scorn::{
    chess::{History, moves::legal_moves},
    lc0::{ConvertOptions, DataType, Net, calibration_model, to_onnx},
    network::{
        Batch, Evaluator,
        load::{LoadError, NetworkConfig, load_backend},
        source::calibrate::calibrate,
    },
    options::Options,
};

/// Positions of human games, in all phases.
fn positions() -> Option<Vec<History>> {
    let puzzles = fs::read_to_string(shared("suites/lichess-puzzles-1000.csv")?).unwrap();
    let fens = puzzles
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(1));
    Some(fens.map(position).collect())
}

/// The evaluations of the positions by a backend with these options, and its description; `None` if it is not
/// installed.
fn evaluate(
    backend: &str,
    backend_options: &str,
    network: &Path,
    positions: &[History],
) -> Option<(Batch, String)> {
    let mut config = NetworkConfig::from(&Options::default());
    config.backend = backend.to_owned();
    config.backend_options = backend_options.to_owned();
    config.weights = network.to_string_lossy().into_owned();
    config.threads = 1;
    let evaluator: Arc<dyn Evaluator> = match load_backend(&config, &|_| {}) {
        Ok(evaluator) => evaluator,
        Err(error @ (LoadError::Runtime { .. } | LoadError::Unavailable { .. })) => {
            crate::common::skipped(&error.to_string());
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut batch = Batch::default();
    for game in positions {
        let moves: Vec<_> = legal_moves(game.position()).collect();
        evaluator.view().queue(game.plies(), &moves, &mut batch);
    }
    evaluator.evaluate(&mut batch).unwrap();
    Some((batch, evaluator.info().description))
}

/// The differences between two evaluations.
#[derive(Debug, Default)]
struct Distance {
    /// Share of positions with the same most probable move.
    top1: f64,
    /// Mean and largest difference of a position's policies, half the sum over all moves (total variation).
    policy: (f64, f64),
    /// Mean and largest difference of W - L and of D.
    wl: (f64, f64),
    d: (f64, f64),
}

fn best(policy: &[f32]) -> Option<usize> {
    (0..policy.len()).max_by(|&a, &b| policy[a].total_cmp(&policy[b]))
}

fn distance(ours: &Batch, theirs: &Batch) -> Distance {
    let mut sum = Distance::default();
    let count = ours.len() as f64;
    let add = |(mean, most): &mut (f64, f64), difference: f64| {
        *mean += difference / count;
        *most = most.max(difference);
    };
    for index in 0..ours.len() {
        let (a, b) = (ours.policy(index), theirs.policy(index));
        sum.top1 += f64::from(u8::from(best(a) == best(b))) / count;
        let differences = a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs()));
        add(&mut sum.policy, differences.sum::<f64>() / 2.0);
        let (a, b) = (ours.value(index), theirs.value(index));
        add(&mut sum.wl, f64::from((a.wl - b.wl).abs()));
        add(&mut sum.d, f64::from((a.d - b.d).abs()));
    }
    sum
}

#[test]
fn maia_in_eight_bits_is_nearly_the_same_player() {
    let (Some(path), Some(positions)) = (shared("nets/maia-1900.pb.gz"), positions()) else {
        return;
    };
    let net = Net::load(&path).unwrap();
    let mut options = ConvertOptions::default();
    let (model, tensors) = calibration_model(&net, &options).unwrap();
    options.data_type = DataType::Int8;
    options.calibration = Some(calibrate(&model, &tensors).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let eight_bits = folder.path().join("int8.onnx");
    fs::write(&eight_bits, to_onnx(&net, &options).unwrap().bytes).unwrap();
    for (backend, backend_options, network) in [
        ("rten", "", &eight_bits),
        ("onnx-cpu", "precision=int8", &path),
        ("openvino", "precision=int8", &path),
    ] {
        let exact = match backend {
            "openvino" => "precision=fp32",
            _ => "",
        };
        let exact = evaluate(backend, exact, &path, &positions);
        let coarse = evaluate(backend, backend_options, network, &positions);
        let (Some((exact, _)), Some((coarse, description))) = (exact, coarse) else {
            continue;
        };
        assert!(description.contains("int8"), "{description}");
        let distance = distance(&coarse, &exact);
        eprintln!("{backend}: {distance:.4?}");
        // Measured: 95 %, 0.033 and 0.20, 0.016 and 0.088, 0.002 and 0.037.
        let Distance {
            top1,
            policy,
            wl,
            d,
        } = distance;
        assert!(top1 >= 0.93, "{backend}: {top1}");
        for (measured, bound) in [
            (policy, (0.04, 0.3)),
            (wl, (0.02, 0.13)),
            (d, (0.004, 0.06)),
        ] {
            assert!(
                measured.0 <= bound.0 && measured.1 <= bound.1,
                "{backend}: {measured:?}"
            );
        }
    }
}

#[test]
fn a_network_that_cannot_be_converted_is_not_said_to_be() {
    let mut config = NetworkConfig::from(&Options::default());
    config.weights = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/networks/tiny.onnx").into();
    config.backend = "onnx-cpu".into();
    config.backend_options = "precision=int8".into();
    match load_backend(&config, &|_| {}).err() {
        Some(error @ LoadError::Runtime { .. }) => crate::common::skipped(&error.to_string()),
        Some(error) => {
            let error = error.to_string();
            assert!(
                error.contains("precision=int8") && error.contains(".pb.gz"),
                "{error}"
            );
        }
        None => panic!("this should not load"),
    }
}
