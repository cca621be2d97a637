//! Sessions of ONNX Runtime as on GPUs, as far as a CPU can show: one for each batch size, smaller batches padded.

use std::{path::Path, sync::Arc};

use scorn::{
    chess::{moves::legal_moves, setup::history_from},
    lc0::{ConvertOptions, DataType, Net, OnnxModel, pack_input, read_onnx, to_onnx},
    network::{
        backend::{
            ort::{cpu::CpuProvider, plan::SessionSettings, runtime::Runtime, session::create},
            pool::{DeviceSession, Outputs},
        },
        input::{Encoding, Inputs},
    },
    options::HistoryFill,
};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/networks/tiny.onnx");

/// Long after the last capture or pawn move, without castling rights on one side.
const LATE: &str = "r3k2r/1p3ppp/p1n2n2/2b1p3/4P3/2N2N2/PPP2PPP/R1B1K2R b Kq - 37 61";

/// ONNX Runtime, unless it is not installed.
fn runtime() -> Option<Runtime> {
    let opened = Runtime::open("");
    opened
        .inspect_err(|error| crate::common::skipped(&error.to_string()))
        .ok()
}

/// The positions of a game of `count` plies from the start, or from this position.
fn positions(encoding: Encoding, start: Option<&str>, count: usize) -> Inputs {
    let (mut game, mut inputs) = (history_from(start, &[]).unwrap(), Inputs::default());
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

fn settings(batch_sizes: &[usize], session_per_size: bool, is_lazy: bool) -> SessionSettings {
    SessionSettings {
        provider: Arc::new(CpuProvider),
        threads: 1,
        batch_sizes: batch_sizes.to_vec(),
        session_per_size,
        is_lazy,
    }
}

/// The output of a session for the first `rows` positions: policy, and W/D/L or value.
fn said(
    session: &mut impl DeviceSession,
    model: &OnnxModel,
    inputs: &Inputs,
    rows: usize,
) -> [Vec<f32>; 2] {
    let encoding = Encoding::of(model);
    let mut outputs = Outputs::default();
    let rows_of = inputs.rows(encoding.layout(), 0..rows);
    session.run(rows_of, &mut outputs).unwrap();
    let (mut values, width) = match model.wdl {
        Some(_) => (outputs.wdl, 3),
        None => (outputs.value, 1),
    };
    values.truncate(rows * width);
    outputs.policy.truncate(rows * encoding.policy().size());
    assert_eq!(values.len(), rows * width);
    [outputs.policy, values]
}

/// The largest difference between the outputs of two sessions.
fn distance(one: &[Vec<f32>; 2], other: &[Vec<f32>; 2]) -> f32 {
    let lengths = |said: &[Vec<f32>; 2]| said.each_ref().map(Vec::len);
    assert_eq!(lengths(one), lengths(other));
    let pairs = one.iter().flatten().zip(other.iter().flatten());
    // NaN is not close to anything.
    let differences = pairs.map(|(a, b)| match (a - b).abs() {
        difference if difference.is_nan() => f32::INFINITY,
        difference => difference,
    });
    differences.fold(0.0, f32::max)
}

#[test]
fn a_session_per_batch_size_gives_the_same_output() {
    let Some(runtime) = runtime() else { return };
    let model = Arc::new(read_onnx(&std::fs::read(TINY).unwrap()).unwrap());
    let inputs = positions(Encoding::of(&model), None, 8);
    let mut any = create(&runtime, &model, &settings(&[], false, false)).unwrap();
    for (session_per_size, is_lazy) in [(false, false), (true, false), (false, true), (true, true)]
    {
        let with_sizes = |sizes: &[usize]| {
            let settings = settings(sizes, session_per_size, is_lazy);
            create(&runtime, &model, &settings).unwrap()
        };
        let mut fixed = with_sizes(&[2, 8]);
        assert_eq!((fixed.max_batch(), fixed.cold_size(8)), (8, Some(2)));
        for (rows, cold) in [(5, Some(2)), (1, None), (8, None), (2, None)] {
            let expected = said(&mut any, &model, &inputs, rows);
            let largest = distance(&expected, &said(&mut fixed, &model, &inputs, rows));
            assert!(largest < 1e-4, "{rows} positions: {largest}");
            // A session that has run is not cold any more.
            assert_eq!(fixed.cold_size(8), cold);
        }
        let too_many = inputs.rows(Encoding::of(&model).layout(), 0..8);
        let error = with_sizes(&[2]).run(too_many, &mut Outputs::default());
        let error = error.unwrap_err();
        assert!(error.contains("8 positions"), "{error}");
    }
}

#[test]
fn unused_batch_sizes_are_created_only_if_cheap() {
    let Some(runtime) = runtime() else { return };
    let model = Arc::new(read_onnx(&std::fs::read(TINY).unwrap()).unwrap());
    let inputs = positions(Encoding::of(&model), None, 2);
    for session_per_size in [false, true] {
        // A search with batches of at most two: what else is warmed up?
        for (is_lazy, cold) in [(false, Some(8)), (true, None)] {
            let settings = settings(&[2, 8], session_per_size, is_lazy);
            let mut session = create(&runtime, &model, &settings).unwrap();
            said(&mut session, &model, &inputs, 2);
            assert_eq!(session.cold_size(2), cold);
            // Larger batches are still possible, but cold.
            assert_eq!(session.cold_size(3), Some(8));
        }
    }
}

/// Models of all kinds and precisions, with names.
fn models() -> Vec<(String, OnnxModel)> {
    let file = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let model = read_onnx(&std::fs::read(path).unwrap()).unwrap();
        (file.to_owned(), model)
    };
    let mut models = vec![
        file("tests/data/networks/tiny.onnx"),
        file("networks/scorn-dense.onnx"),
    ];
    for name in ["synth-conv-wdl-mlh", "synth-noSE-classical"] {
        let Some(path) = crate::common::shared(&format!("nets/{name}.pb.gz")) else {
            continue;
        };
        let net = Net::load(&path).unwrap();
        for data_type in [DataType::Float32, DataType::Float16] {
            let options = ConvertOptions {
                data_type,
                ..Default::default()
            };
            let model = to_onnx(&net, &options).unwrap();
            models.push((format!("{name}, {data_type:?}"), model));
        }
    }
    models
}

#[test]
fn a_model_that_unpacks_planes_gives_the_same_output() {
    let Some(runtime) = runtime() else { return };
    for (name, plain) in models() {
        let layout = Encoding::of(&plain).layout();
        let packed = pack_input(&plain, layout.planes, layout.scalar_planes).unwrap();
        assert!(packed.packed.is_some() && plain.packed.is_none());
        let (plain, packed) = (Arc::new(plain), Arc::new(packed));
        for start in [None, Some(LATE)] {
            let inputs = positions(Encoding::of(&plain), start, 24);
            for sizes in [&[][..], &[32]] {
                let settings = settings(sizes, false, false);
                let mut one = create(&runtime, &plain, &settings).unwrap();
                let mut other = create(&runtime, &packed, &settings).unwrap();
                for rows in [24, 3] {
                    let expected = said(&mut one, &plain, &inputs, rows);
                    let largest = distance(&expected, &said(&mut other, &packed, &inputs, rows));
                    assert!(largest < 1e-4, "{name} from {start:?}: {largest}");
                }
            }
        }
    }
}
