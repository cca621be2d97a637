//! Sessions of ONNX Runtime as GPUs get them, as far as a CPU can show: one for each batch size, smaller batches padded.

mod common;

use std::sync::Arc;

use scorn::{
    chess::{History, moves::legal_moves},
    lc0::{OnnxModel, pack_input, read_onnx},
    network::{
        backend::{
            ort::{
                plan::{SessionSettings, Target},
                runtime::Runtime,
                session::create,
            },
            pool::{DeviceSession, Outputs},
        },
        input::{Encoding, Inputs},
    },
    options::HistoryFill,
};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/networks/tiny.onnx");

/// The positions of a game of `count` plies.
fn positions(encoding: Encoding, count: usize) -> Inputs {
    let (mut game, mut inputs) = (History::default(), Inputs::default());
    for ply in 0..count {
        encoding.encode(
            game.plies(),
            &[],
            (HistoryFill::FenOnly, false),
            &mut inputs,
        );
        let moves: Vec<_> = legal_moves(game.position()).collect();
        game.push(moves[ply * 7 % moves.len()]);
    }
    inputs
}

fn settings(batch_sizes: &[usize], session_per_size: bool) -> SessionSettings {
    SessionSettings {
        target: Target::Cpu,
        threads: 1,
        batch_sizes: batch_sizes.to_vec(),
        session_per_size,
    }
}

/// What a session says about the first `rows` positions.
fn policy(
    session: &mut impl DeviceSession,
    model: &OnnxModel,
    inputs: &Inputs,
    rows: usize,
) -> Vec<f32> {
    let encoding = Encoding::of(model);
    let mut outputs = Outputs::default();
    let rows_of = inputs.rows(encoding.layout(), 0..rows);
    session.run(rows_of, &mut outputs).unwrap();
    outputs.policy.truncate(rows * encoding.policy().size());
    outputs.policy
}

#[test]
fn a_session_for_each_batch_size_says_what_one_for_all_says() {
    let runtime = match Runtime::open("") {
        Ok(runtime) => runtime,
        Err(error) => return common::skipped(&error.to_string()),
    };
    let model = Arc::new(read_onnx(&std::fs::read(TINY).unwrap()).unwrap());
    let inputs = positions(Encoding::of(&model), 8);
    let mut any = create(&runtime, &model, &settings(&[], false)).unwrap();
    for session_per_size in [false, true] {
        let settings = settings(&[2, 8], session_per_size);
        let mut fixed = create(&runtime, &model, &settings).unwrap();
        assert_eq!(fixed.max_batch(), 8);
        for (rows, cold) in [(5, Some(2)), (1, None), (8, None), (2, None)] {
            let expected = policy(&mut any, &model, &inputs, rows);
            let found = policy(&mut fixed, &model, &inputs, rows);
            assert_eq!(expected.len(), found.len());
            let differences = expected.iter().zip(&found).map(|(a, b)| (a - b).abs());
            let largest = differences.fold(0.0, f32::max);
            assert!(largest < 1e-4, "{rows} positions: {largest}");
            // What was run is not cold any more.
            assert_eq!(fixed.cold_size(8), cold);
        }
        let too_many = inputs.rows(Encoding::of(&model).layout(), 0..8);
        let mut small = create(&runtime, &model, &self::settings(&[2], session_per_size)).unwrap();
        let error = small.run(too_many, &mut Outputs::default()).unwrap_err();
        assert!(error.contains("8 positions"), "{error}");
    }
}

#[test]
fn a_model_that_unpacks_its_planes_says_the_same() {
    let runtime = match Runtime::open("") {
        Ok(runtime) => runtime,
        Err(error) => return common::skipped(&error.to_string()),
    };
    for file in [
        "tests/data/networks/tiny.onnx",
        "networks/scorn-default.onnx",
    ] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let plain = Arc::new(read_onnx(&std::fs::read(path).unwrap()).unwrap());
        let layout = Encoding::of(&plain).layout();
        let packed = pack_input(&plain, layout.planes, layout.scalar_planes).unwrap();
        assert!(packed.packed.is_some() && plain.packed.is_none());
        let packed = Arc::new(packed);
        let inputs = positions(Encoding::of(&plain), 24);
        for sizes in [&[][..], &[32]] {
            let settings = settings(sizes, false);
            let mut one = create(&runtime, &plain, &settings).unwrap();
            let mut other = create(&runtime, &packed, &settings).unwrap();
            for rows in [24, 3] {
                let expected = policy(&mut one, &plain, &inputs, rows);
                let found = policy(&mut other, &packed, &inputs, rows);
                let differences = expected.iter().zip(&found).map(|(a, b)| (a - b).abs());
                let largest = differences.fold(0.0, f32::max);
                assert!(
                    expected.len() == found.len() && largest < 1e-4,
                    "{file}: {largest}"
                );
            }
        }
    }
}
