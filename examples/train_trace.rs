//! A tool for tests: traces twenty steps of `scorn train`'s arithmetic on one small batch:
//! `cargo run --example train_trace -- FOLDER [squared]`.
//!
//! The folder gets `batch.json` (sizes, offsets of the weights, inputs, targets), `start.f32` and `end.f32` (all
//! weights, little-endian) and the losses of each step. `tests/python/train_twin.py` does the same with PyTorch.

use std::{env, fs, path::Path};

use anyhow::{Context, Result};
use rand::{RngExt, SeedableRng, rngs::SmallRng, seq::index};
use scorn::sparse::{
    classes::MoveClasses,
    features::{INPUTS, InputSet},
    moves::{MoveRows, ROWS},
    network::{Sections, Shape},
    simd::Level,
};
use scorn::train::{
    adam::{AdamWStep, Moments},
    chunk::{Chunk, Lists},
    step::{self, Losses, Scales, ValueLoss, Workspace},
    targets::ValueTarget,
};
use serde_json::{Value, json};

const SHAPE: Shape = Shape {
    policy: 64,
    value: 128,
    hidden: 8,
    stages: 8,
    inputs: InputSet::Classes,
};
const STEPS: u64 = 20;
const RATE: f32 = 3e-3;
/// Large enough to show in the final weights.
const WEIGHT_DECAY: f32 = 0.2;
const POSITIONS: usize = 12;

fn main() -> Result<()> {
    let folder = env::args()
        .nth(1)
        .context("usage: train_trace FOLDER [squared]")?;
    let is_squared = env::args().nth(2).is_some_and(|word| word == "squared");
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    let (level, sections) = (Level::detect(), SHAPE.sections());
    let chunk = batch();
    let scales = Scales {
        policy: 1.0 / POSITIONS as f32,
        value: 0.7 / POSITIONS as f32,
        plies: 0.1 / POSITIONS as f32,
        value_loss: if is_squared {
            ValueLoss::Squared
        } else {
            ValueLoss::CrossEntropy
        },
    };
    let mut state = Moments::new(SHAPE.start(1));
    fs::write(folder.join("start.f32"), bytes(&state.weights))?;
    let mut workspace = Workspace::default();
    let mut gradients = vec![vec![0.0; sections.total]];
    let mut losses: Vec<Losses> = Vec::new();
    for number in 1..=STEPS {
        let gradient = Some((&mut gradients[0][..], scales));
        let weights = &state.weights;
        losses.push(step::run(
            level,
            SHAPE,
            weights,
            &chunk,
            gradient,
            &mut workspace,
        ));
        let step = AdamWStep {
            rate: RATE,
            weight_decay: WEIGHT_DECAY,
            number,
        };
        state.update(level, &sections, &mut gradients, step);
    }
    fs::write(folder.join("end.f32"), bytes(&state.weights))?;
    let text = description(&sections, is_squared, scales, &chunk, &losses);
    fs::write(folder.join("batch.json"), text.to_string())?;
    Ok(())
}

/// The inputs of the twin, and the losses that it must reproduce.
fn description(
    sections: &Sections,
    is_squared: bool,
    scales: Scales,
    chunk: &Chunk,
    losses: &[Losses],
) -> Value {
    let lists = |lists: &Lists| {
        let all = (0..lists.len()).map(|index| lists.get(index).to_vec());
        all.collect::<Vec<_>>()
    };
    json!({
        "shape": SHAPE,
        "sections": sections.all().map(|section| [section.range.start, section.range.end]),
        "limits": sections.all().map(|section| section.limit.is_finite().then_some(section.limit)),
        "rate": RATE,
        "weight_decay": WEIGHT_DECAY,
        "squared": is_squared,
        "scales": [scales.policy, scales.value, scales.plies],
        "policy_inputs": lists(&chunk.policy_inputs),
        "rows": lists(&chunk.rows),
        "classes": lists(&chunk.classes),
        "shares": chunk.shares,
        "value_inputs": lists(&chunk.value_inputs),
        "wdl": chunk.values.iter().map(|target| target.wdl).collect::<Vec<_>>(),
        "weights": chunk.values.iter().map(|target| target.weight).collect::<Vec<_>>(),
        "plies": chunk.values.iter().map(|target| target.plies).collect::<Vec<_>>(),
        "plies_weights": chunk.values.iter().map(|target| target.plies_weight).collect::<Vec<_>>(),
        "losses": losses.iter().map(|loss| [loss.policy, loss.value, loss.plies]).collect::<Vec<_>>(),
    })
}

/// Positions with random inputs and targets.
fn batch() -> Chunk {
    let mut rng = SmallRng::seed_from_u64(2);
    let mut chunk = Chunk::default();
    let mut choose = |most: usize, count: usize| {
        let mut list = index::sample(&mut rng, most, count).into_vec();
        list.sort_unstable();
        list.into_iter()
            .map(|index| index as u16)
            .collect::<Vec<u16>>()
    };
    for position in 0..POSITIONS {
        chunk.policy_inputs.push(&choose(INPUTS, 20 + position));
        // Positions of all stages.
        chunk.value_inputs.push(&choose(INPUTS, 8 + 2 * position));
        let rows = choose(ROWS, 5 + position);
        let classes = classes_of(rows.len());
        chunk.push_rows(MoveRows {
            rows: &rows,
            classes: &classes,
        });
    }
    for position in 0..POSITIONS {
        let shares: Vec<f32> = (0..5 + position)
            .map(|_| rng.random_range(0.0..1.0))
            .collect();
        let sum: f32 = shares.iter().sum();
        chunk.shares.extend(shares.iter().map(|share| share / sum));
        let win = rng.random_range(0.0..0.6);
        let draw = rng.random_range(0.0..0.4);
        chunk.values.push(ValueTarget {
            wdl: [win, draw, 1.0 - win - draw],
            weight: rng.random_range(0.5..1.5),
            plies: rng.random_range(0.0..6.0),
            plies_weight: f32::from(u8::from(position % 3 > 0)),
        });
    }
    chunk
}

/// Rows of the classes of this number of moves, some of which share one.
fn classes_of(moves: usize) -> Vec<u16> {
    let class = |at: usize| (97 * moves + 31 * (at % (moves - 1))) % MoveClasses::Tactical.count();
    (0..moves).map(|at| (ROWS + class(at)) as u16).collect()
}

fn bytes(weights: &[f32]) -> Vec<u8> {
    weights
        .iter()
        .flat_map(|weight| weight.to_le_bytes())
        .collect()
}
