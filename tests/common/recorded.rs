//! A network's outputs, recorded by position: searches with a network that is not part of the project.
//!
//! A file is, for each position: its key (8 bytes), W-L and draw (4 bytes each, a float), the number of its legal moves
//! (1 byte) and their probabilities in the order of `legal_moves` (2 bytes each, a half float); little-endian, packed
//! by gzip.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    path::Path,
    sync::Arc,
};

use half::f16;
use parking_lot::Mutex;
use scorn::{
    chess::Ply,
    hashing::Fnv1a,
    network::{
        Added, Batch, EvalPosition, EvaluateError, Evaluator, Info, Value, evaluator::evaluate_all,
    },
};
use shakmaty::{EnPassantMode, fen::Fen};

/// Positions of a network's history.
const HISTORY: usize = 8;

/// A position's value, and its probabilities at temperature 1.
#[derive(Clone, Debug, PartialEq)]
struct Output {
    wl: f32,
    d: f32,
    priors: Vec<f16>,
}

/// Recorded outputs; what is missing comes from the network, if there is one.
pub struct RecordedOutputs {
    outputs: Mutex<BTreeMap<u64, Output>>,
    network: Option<Arc<dyn Evaluator>>,
}

/// A hash of what a network sees of a line.
fn key(line: &[Ply]) -> u64 {
    let seen = &line[line.len().saturating_sub(HISTORY)..];
    let hash = seen.iter().fold(Fnv1a::new(), |hash, ply| {
        let fen = Fen::from_position(&ply.position, EnPassantMode::Legal);
        hash.and(fen.to_string().as_bytes())
    });
    hash.value()
}

impl RecordedOutputs {
    /// No outputs yet: all come from the network.
    pub fn of(network: Arc<dyn Evaluator>) -> RecordedOutputs {
        RecordedOutputs {
            outputs: Mutex::default(),
            network: Some(network),
        }
    }

    /// The outputs of a file.
    pub fn read(path: &Path) -> RecordedOutputs {
        let packed = std::fs::read(path).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&*packed)
            .read_to_end(&mut bytes)
            .unwrap();
        let mut outputs = BTreeMap::new();
        let mut rest = &bytes[..];
        let mut take = |count: usize| {
            let (taken, after) = rest.split_at_checked(count)?;
            rest = after;
            Some(taken)
        };
        while let Some(key) = take(8) {
            let key = u64::from_le_bytes(key.try_into().unwrap());
            let mut float = || f32::from_le_bytes(take(4).unwrap().try_into().unwrap());
            let (wl, d) = (float(), float());
            let moves = usize::from(take(1).unwrap()[0]);
            let priors = take(2 * moves).unwrap().chunks_exact(2);
            let priors = priors.map(|pair| f16::from_le_bytes(pair.try_into().unwrap()));
            let priors = priors.collect();
            outputs.insert(key, Output { wl, d, priors });
        }
        RecordedOutputs {
            outputs: Mutex::new(outputs),
            network: None,
        }
    }

    /// Writes all outputs.
    pub fn write(&self, path: &Path) {
        let mut bytes = Vec::new();
        for (key, output) in &*self.outputs.lock() {
            bytes.extend(key.to_le_bytes());
            bytes.extend(output.wl.to_le_bytes());
            bytes.extend(output.d.to_le_bytes());
            bytes.push(u8::try_from(output.priors.len()).unwrap());
            bytes.extend(output.priors.iter().flat_map(|prior| prior.to_le_bytes()));
        }
        let file = std::fs::File::create(path).unwrap();
        let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::best());
        packer.write_all(&bytes).unwrap();
        packer.finish().unwrap();
    }
}

impl Evaluator for RecordedOutputs {
    fn add(&self, leaf: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        let key = key(leaf.line());
        if let Some(network) = &self.network
            && !self.outputs.lock().contains_key(&key)
        {
            let evaluation = evaluate_all(&**network, [leaf.line()]).unwrap().remove(0);
            let output = Output {
                wl: evaluation.value.wl,
                d: evaluation.value.d,
                priors: evaluation
                    .priors
                    .iter()
                    .map(|&p| f16::from_f32(p))
                    .collect(),
            };
            self.outputs.lock().insert(key, output);
        }
        Added::Queued(batch.push(key, leaf.moves()))
    }

    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        let outputs = self.outputs.lock();
        let temperature = batch.policy_temperature();
        for index in 0..batch.len() {
            let output = outputs.get(&batch.key(index));
            let Output { wl, d, priors } =
                output.expect("the search visits a position that is not recorded");
            let value = Value {
                wl: *wl,
                d: *d,
                m: 0.0,
            };
            batch.set_value(index, value);
            let (moves, policy) = batch.policy_mut(index);
            assert_eq!(moves.len(), priors.len());
            for (p, prior) in policy.iter_mut().zip(priors) {
                *p = prior.to_f32().powf(1.0 / temperature);
            }
            let sum: f32 = policy.iter().sum();
            policy.iter_mut().for_each(|p| *p /= sum);
        }
        Ok(())
    }

    fn info(&self) -> Info {
        Info {
            description: "recorded outputs".into(),
            ..Info::default()
        }
    }
}
