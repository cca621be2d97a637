//! Models with ONNX Runtime's fused operators, planes as bits and the softmax over the legal moves in the graph: they
//! must agree with the plain models. ONNX Runtime runs both on its CPU provider, which has all these operators. Models
//! with Scorn's own operators run with plain versions of these.

use std::sync::Arc;

use scorn::{
    chess::{History, moves::legal_moves, setup::history_from},
    lc0::{
        ConvertOptions, DataType, Net, OnnxModel, Operators, gather_legal_moves, pack_input,
        to_onnx,
    },
    network::{
        backend::{
            ort::{
                cpu::CpuProvider,
                plan::{ExecutionProvider, SessionSettings},
                runtime::Runtime,
                session::create,
            },
            pool::{DeviceSession, Outputs, PolicyKind},
        },
        input::{Encoding, Inputs},
    },
    options::HistoryFill,
};

use crate::{
    reference_kernels::ReferenceProvider,
    run::{shared, skipped},
    synth::{self, Body, Embedding, Policy, Smolgen, Spec},
};

/// The most legal moves of a position.
const SLOTS: usize = 256;

/// White and Black promote, and there are more moves than in most positions.
const PROMOTIONS: [&str; 2] = [
    "r1n1k3/1P4P1/8/3Q4/8/2N2B2/1p4p1/R1N1K3 w Qq - 3 40",
    "r1n1k3/1P4P1/8/3Q4/8/2N2B2/1p4p1/R1N1K3 b Qq - 4 40",
];

/// Runs both forms of a network, and panics if they differ. Without ONNX Runtime it does nothing.
pub fn check(net: &Net, options: &ConvertOptions, name: &str) {
    let Ok(runtime) = Runtime::open("") else {
        return skipped("ONNX Runtime is not installed");
    };
    let data_types = [(DataType::Float32, 1e-4), (DataType::Float16, 3e-2)];
    for (data_type, tolerance) in data_types {
        let options = ConvertOptions {
            data_type,
            ..options.clone()
        };
        let plain = to_onnx(net, &options).unwrap();
        let fused = fused(net, &options);
        let inputs = positions(&plain);
        for temperature in [1.0, 1.6] {
            let expected = probabilities(&runtime, &plain, &inputs, temperature);
            let found = probabilities(&runtime, &fused, &inputs, temperature);
            let largest = difference(&expected, &found);
            assert!(
                largest < tolerance,
                "{name}, {data_type:?}, temperature {temperature}: {largest}"
            );
            // The plain versions of the kernels are those for 32 bits.
            if data_type == DataType::Float32 {
                let kernels = with_operators(net, &options, Operators::Scorn);
                let found = probabilities(&runtime, &kernels, &inputs, temperature);
                let largest = difference(&expected, &found);
                assert!(largest < tolerance, "{name}, own kernels: {largest}");
            }
        }
    }
}

fn fused(net: &Net, options: &ConvertOptions) -> OnnxModel {
    with_operators(net, options, Operators::OnnxRuntime)
}

/// The network with these operators, planes as bits and legal moves.
fn with_operators(net: &Net, options: &ConvertOptions, operators: Operators) -> OnnxModel {
    let options = ConvertOptions {
        operators,
        ..options.clone()
    };
    let model = to_onnx(net, &options).unwrap();
    let encoding = Encoding::of(&model);
    let layout = encoding.layout();
    let packed = pack_input(&model, layout.planes, layout.scalar_planes).unwrap();
    gather_legal_moves(&packed, encoding.policy().size(), SLOTS).unwrap()
}

/// Positions of a game, and promotions.
fn positions(model: &OnnxModel) -> Inputs {
    let encoding = Encoding::of(model);
    let mut inputs = Inputs::default();
    let mut add = |game: &History| {
        let moves: Vec<_> = legal_moves(game.position()).collect();
        let seen = (HistoryFill::FenOnly, false);
        encoding.encode(game.plies(), &moves, seen, &mut inputs);
        moves
    };
    let mut game = History::default();
    for ply in 0..9 {
        let moves = add(&game);
        game.push(moves[ply * 7 % moves.len()]);
    }
    for fen in PROMOTIONS {
        add(&history_from(Some(fen), &[]).unwrap());
    }
    inputs
}

/// For each position the probabilities of its legal moves, then its value.
fn probabilities(
    runtime: &Runtime,
    model: &OnnxModel,
    inputs: &Inputs,
    temperature: f32,
) -> Vec<Vec<f32>> {
    // Batches are padded as on a GPU.
    let provider: Arc<dyn ExecutionProvider> = match &model.kernels {
        Some(_) => Arc::new(ReferenceProvider),
        None => Arc::new(CpuProvider),
    };
    let settings = SessionSettings {
        provider,
        threads: 1,
        batch_sizes: vec![16],
        session_per_size: model.kernels.is_some(),
        is_lazy: true,
    };
    let mut session = create(runtime, &Arc::new(model.clone()), &settings).unwrap();
    let encoding = Encoding::of(model);
    let rows = inputs.rows(encoding.layout(), 0..inputs.len());
    let mut outputs = Outputs::default();
    session
        .run(rows.at_temperature(temperature), &mut outputs)
        .unwrap();
    let (values, width) = match &model.wdl {
        Some(_) => (&outputs.wdl, 3),
        None => (&outputs.value, 1),
    };
    let position = |index: usize| {
        let moves = inputs.move_rows(index);
        let mut row = vec![0.0; moves.len()];
        match outputs.policy_kind {
            PolicyKind::Logits => {
                let size = encoding.policy().size();
                let logits = &outputs.policy[index * size..][..size];
                let layout = encoding.policy();
                assert!(layout.probabilities(logits, moves, temperature, &mut row));
            }
            PolicyKind::Probabilities { slots } => {
                let places = &outputs.policy[index * slots..][..slots];
                row.copy_from_slice(&places[..moves.len()]);
                // What is no move has no probability.
                assert!(places[moves.len()..].iter().all(|&p| p == 0.0));
            }
        }
        row.extend_from_slice(&values[index * width..][..width]);
        // Plies left are up to hundreds.
        row.extend(outputs.mlh.get(index).map(|plies| plies / 100.0));
        row
    };
    (0..inputs.len()).map(position).collect()
}

fn difference(one: &[Vec<f32>], other: &[Vec<f32>]) -> f32 {
    assert_eq!(one.len(), other.len());
    let pairs = one.iter().zip(other).flat_map(|(a, b)| {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b)
    });
    let differences = pairs.map(|(a, b)| match (a - b).abs() {
        difference if difference.is_nan() => f32::INFINITY,
        difference => difference,
    });
    differences.fold(0.0, f32::max)
}

#[test]
fn recorded_networks() {
    for name in [
        "maia-1900",
        "synth-classical-se",
        "synth-noSE-classical",
        "synth-conv-wdl-mlh",
        "synth-attn-pemap-smolgen",
        "synth-bt-multihead",
    ] {
        if let Some(path) = shared(&format!("nets/{name}.pb.gz")) {
            check(&Net::load(&path).unwrap(), &ConvertOptions::default(), name);
        }
    }
}

/// A transformer whose embedding, attention and policy all differ between the forms.
fn transformer() -> Net {
    let spec = Spec {
        body: Body::Attention {
            layers: 2,
            width: 12,
            model: 24,
            heads: 3,
            feed_forward: 20,
            embedding: Embedding::Dense { channels: 5 },
            multiply_gate: true,
            add_gate: true,
            smolgen: Some(Smolgen {
                compress: 3,
                hidden: 10,
                generator: 7,
            }),
        },
        policy: Policy::Attention {
            width: 10,
            model: 14,
            encoders: 0,
        },
        // Swish.
        smolgen_activation: 7,
        ..Default::default()
    };
    Net::parse(&synth::file(&spec)).unwrap()
}

fn contains(model: &OnnxModel, text: &str) -> bool {
    let mut windows = model.bytes.windows(text.len());
    windows.any(|window| window == text.as_bytes())
}

#[test]
fn what_can_be_fused_is_fused_and_only_where_it_is_requested() {
    let net = transformer();
    let model = |data_type, operators| {
        let options = ConvertOptions {
            data_type,
            operators,
            ..Default::default()
        };
        to_onnx(&net, &options).unwrap()
    };
    let operators = [
        "MultiHeadAttention",
        "SkipLayerNormalization",
        "QuickGelu",
        "com.microsoft",
    ];
    let fused = model(DataType::Float16, Operators::OnnxRuntime);
    for operator in operators {
        assert!(contains(&fused, operator), "{operator}");
    }
    // What ONNX Runtime computes from lists that it uploads at run time, and what attention does not need.
    for operator in ["Concat", "LayerNormalization/", "/attention/softmax"] {
        assert!(!contains(&fused, operator), "{operator}");
    }
    let plain = [
        model(DataType::Float16, Operators::Standard),
        // ONNX Runtime's operators are not all defined for this type.
        model(DataType::BFloat16, Operators::OnnxRuntime),
    ];
    assert!(!fused.concatenates);
    for plain in plain {
        assert!(contains(&plain, "Concat") && plain.concatenates);
        for operator in operators {
            assert!(!contains(&plain, operator), "{operator}");
        }
    }
}

#[test]
fn more_legal_moves_than_places_are_an_error() {
    let Ok(runtime) = Runtime::open("") else {
        return skipped("ONNX Runtime is not installed");
    };
    let model = to_onnx(&transformer(), &ConvertOptions::default()).unwrap();
    let encoding = Encoding::of(&model);
    let few = gather_legal_moves(&model, encoding.policy().size(), 19).unwrap();
    let provider: Arc<dyn ExecutionProvider> = match &model.kernels {
        Some(_) => Arc::new(ReferenceProvider),
        None => Arc::new(CpuProvider),
    };
    let settings = SessionSettings {
        provider,
        threads: 1,
        batch_sizes: Vec::new(),
        session_per_size: false,
        is_lazy: true,
    };
    let mut session = create(&runtime, &Arc::new(few), &settings).unwrap();
    let inputs = positions(&model);
    let rows = inputs.rows(encoding.layout(), 0..2);
    let error = session.run(rows, &mut Outputs::default()).unwrap_err();
    assert!(error.contains("more than 19 legal moves"), "{error}");
}
