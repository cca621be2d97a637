//! Finds the ranges of a network's activations, which 8-bit models need: the network plays games against itself and the
//! tensors in question are watched while it does. Its own games contain the positions that it will evaluate, from the
//! opening to the endgame, and no file of positions has to be shipped.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use rten::{Model, NodeId, Value, ValueView};
use rten_tensor::{AsView, NdTensor, Tensor};
use shakmaty::Position;

use crate::{
    chess::{History, PackedMove, moves::legal_moves},
    lc0::{Calibration, ConvertOptions, Net, OnnxModel, calibration_model},
    network::input::{
        PLANES,
        encoder::{self, INPUT_SIZE},
        policy_map::{self, POLICY_SIZE},
    },
    options::HistoryFill,
};

/// Games at a time, one batch.
const GAMES: usize = 16;
/// Plies of each.
const PLIES: usize = 72;
/// Number of plies from one position whose tensors are watched to the next: neighbouring positions are alike.
const WATCH_EVERY: usize = 4;

/// What the ranges of a network's activations depend on.
#[derive(PartialEq, Eq)]
struct Calibrated {
    sha256: String,
    policy_head: Option<String>,
    value_head: Option<String>,
    limits_squares: bool,
}

impl Calibrated {
    fn new(net: &Net, options: &ConvertOptions) -> Calibrated {
        Calibrated {
            sha256: net.sha256().to_owned(),
            policy_head: options.policy_head.clone(),
            value_head: options.value_head.clone(),
            limits_squares: options.limits_squares,
        }
    }
}

/// The ranges of a network: none as long as they are not found, and locked while they are sought.
type SharedCalibration = Arc<Mutex<Option<Calibration>>>;

/// The ranges that were found in this process: each backend converts a network for itself, and again when an option
/// changes.
static KNOWN: Mutex<Vec<(Calibrated, SharedCalibration)>> = Mutex::new(Vec::new());

/// The place of a network's ranges.
fn place_of(wanted: Calibrated) -> SharedCalibration {
    let mut known = KNOWN.lock();
    if let Some((_, found)) = known.iter().find(|(known, _)| *known == wanted) {
        return Arc::clone(found);
    }
    let found = SharedCalibration::default();
    known.push((wanted, Arc::clone(&found)));
    found
}

/// Whether the ranges of a network are known, so that [`calibration_of`] plays no games.
pub fn is_calibrated(net: &Net, options: &ConvertOptions) -> bool {
    let found = place_of(Calibrated::new(net, options));
    // Locked, they are being sought: whoever needs them waits as long.
    found.try_lock().is_some_and(|found| found.is_some())
}

/// The ranges of a network with the heads of `options`. They are found once in a process, however many threads ask.
pub fn calibration_of(net: &Net, options: &ConvertOptions) -> Result<Calibration> {
    let place = place_of(Calibrated::new(net, options));
    let mut found = place.lock();
    if let Some(calibration) = &*found {
        return Ok(calibration.clone());
    }
    let (model, tensors) = calibration_model(net, options)?;
    let calibration = calibrate(&model, &tensors)?;
    Ok(found.insert(calibration).clone())
}

/// Plays games with a model that shows `tensors` as outputs, and returns their ranges; see
/// [`calibration_model`]. The same model gives the same ranges.
pub fn calibrate(model: &OnnxModel, tensors: &[String]) -> Result<Calibration> {
    let runner = Model::load(model.bytes.clone()).context("loading the float model")?;
    let node = |name: &String| {
        runner
            .node_id(name)
            .with_context(|| format!("tensor {name}"))
    };
    let input = node(&model.input)?;
    let policy = [node(&model.policy)?];
    let shown = tensors.iter().map(node).collect::<Result<Vec<NodeId>>>()?;
    let watched = [&policy[..], &shown].concat();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut games = vec![History::default(); GAMES];
    let mut calibration = Calibration::default();
    for ply in 0..PLIES {
        let planes = encode(&games, model);
        let outputs = if ply % WATCH_EVERY == 0 {
            &watched[..]
        } else {
            &policy
        };
        let values = runner.run(
            vec![(input, ValueView::from(planes.view()).into())],
            outputs,
            None,
        )?;
        let mut values = values.into_iter().map(floats);
        let logits = values.next().context("the policy output")??;
        for (name, tensor) in tensors.iter().zip(values) {
            calibration.observe(name, &tensor?);
        }
        for (game, logits) in games.iter_mut().zip(logits.chunks_exact(POLICY_SIZE)) {
            play(game, logits, model, &mut rng);
        }
    }
    Ok(calibration)
}

/// The input of a batch: the last position of each game.
fn encode(games: &[History], model: &OnnxModel) -> NdTensor<f32, 4> {
    let mut floats = vec![0.0; games.len() * INPUT_SIZE];
    for (game, out) in games.iter().zip(floats.chunks_exact_mut(INPUT_SIZE)) {
        let planes = encoder::encode(game.plies(), model.input_format, HistoryFill::FenOnly);
        encoder::expand(&planes, out);
    }
    NdTensor::from_data([games.len(), PLANES, 8, 8], floats)
}

fn floats(value: Value) -> Result<Vec<f32>> {
    let tensor: Tensor<f32> = value.try_into().map_err(|error| anyhow!("{error:?}"))?;
    Ok(tensor.to_vec())
}

/// Plays a move drawn from the policy, or starts another game when this one is over.
fn play(game: &mut History, logits: &[f32], model: &OnnxModel, rng: &mut Xoshiro256PlusPlus) {
    let last = game.last();
    let moves: Vec<PackedMove> = legal_moves(&last.position).collect();
    let drawn =
        last.rule50() >= 100 || last.repetitions > 1 || last.position.is_insufficient_material();
    if moves.is_empty() || drawn {
        *game = History::default();
        return;
    }
    let planes = encoder::encode(game.plies(), model.input_format, HistoryFill::FenOnly);
    let mut shares = vec![0.0; moves.len()];
    let (black, transform) = (planes.black_to_move, planes.transform);
    let entry = |&m: &PackedMove| policy_map::index(m, black, transform) as u16;
    let entries: Vec<u16> = moves.iter().map(entry).collect();
    policy_map::softmax(logits, &entries, 1.0, &mut shares);
    let mut rest: f32 = rng.random();
    let chosen = shares.iter().position(|share| {
        rest -= share;
        rest < 0.0
    });
    game.push(moves[chosen.unwrap_or(0)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lc0::{DataType, to_onnx},
        shared::shared,
    };

    #[test]
    fn a_network_calibrates_itself() {
        let Some(path) = shared("nets/synth-conv-wdl-mlh.pb.gz") else {
            return;
        };
        let net = Net::load(&path).unwrap();
        let mut options = ConvertOptions::default();
        let (model, tensors) = calibration_model(&net, &options).unwrap();
        let calibration = calibrate(&model, &tensors).unwrap();
        assert!(!tensors.is_empty() && calibration.covers(&tensors));
        assert_eq!(calibration, calibrate(&model, &tensors).unwrap());
        options.data_type = DataType::Int8;
        options.calibration = Some(calibration);
        assert!(to_onnx(&net, &options).is_ok());
    }
}
