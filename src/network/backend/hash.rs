//! The `hash` backend: values and priors computed from the position's key. They mean nothing in chess, but they are
//! fast and the same on every machine, which is what tests, tree benchmarks and the bench signature need.

use std::sync::Arc;

use super::{
    error::LoadError,
    factory::{BackendFactory, BackendInfo, BackendKind, BackendRequest},
};
use crate::{
    chess::PackedMove,
    hashing::mix,
    network::{Batch, EvaluateError, Evaluator, Info, Value, cores},
};

/// Description of `hash`.
pub static INFO: BackendInfo = BackendInfo {
    name: "hash",
    lc0_names: &["random", "trivial"],
    kind: BackendKind::WithoutNetwork,
    summary: "no network, for tests",
    documentation: "no network: deterministic values computed from a hash of the position, for tests and `scorn bench`",
    requirements: "",
    install_command: None,
    settings: &[],
};

/// The backend `hash`.
pub struct Hash;

impl BackendFactory for Hash {
    fn info(&self) -> &BackendInfo {
        &INFO
    }

    fn create(&self, request: &BackendRequest<'_>) -> Result<Arc<dyn Evaluator>, LoadError> {
        INFO.check_settings(request.options)?;
        Ok(Arc::new(OnProcessors(HashEvaluator)))
    }
}

/// The evaluator of the backend: it gets no more threads than there are processors, which compute all. More of them
/// would only take turns, and two processors make three quarters of the nodes with eight threads
/// (`docs/lab/driver.md`).
struct OnProcessors(HashEvaluator);

impl Evaluator for OnProcessors {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        self.0.evaluate(batch)
    }

    fn info(&self) -> Info {
        Info {
            max_threads: Some(cores()),
            ..self.0.info()
        }
    }
}

/// Evaluates positions by hashing their keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashEvaluator;

impl Evaluator for HashEvaluator {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        for index in 0..batch.len() {
            let key = batch.key(index);
            batch.set_value(index, value(key));
            let (moves, policy) = batch.policy_mut(index);
            fill_priors(key, moves, policy);
        }
        Ok(())
    }

    fn info(&self) -> Info {
        Info {
            description:
                "hash (deterministic values from the position key; plays random-looking chess)"
                    .into(),
            ..Info::default()
        }
    }
}

/// Uniform in 0..1, exactly representable.
fn unit(bits: u64) -> f32 {
    (bits >> 40) as f32 / (1u32 << 24) as f32
}

/// A policy weight between 1 and 17, most of them small: priors as uneven as a weak network's.
fn weight(bits: u64) -> f32 {
    let x = unit(bits);
    let x2 = x * x;
    1.0 + 16.0 * x2 * x2
}

/// The priors of a position's moves.
pub(super) fn fill_priors(key: u64, moves: &[PackedMove], priors: &mut [f32]) {
    let mut sum = 0.0;
    for (m, p) in moves.iter().zip(priors.iter_mut()) {
        *p = weight(mix(
            key ^ u64::from(m.bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ));
        sum += *p;
    }
    for p in priors {
        *p /= sum;
    }
}

/// The value of a position, for its side to move.
pub(super) fn value(key: u64) -> Value {
    let bits = mix(key);
    // The mean of two uniform numbers: most positions are near equality.
    let wl = (unit(bits) + unit(mix(bits)) - 1.0) * 0.8;
    let d = (1.0 - wl.abs()) * 0.5;
    Value {
        wl,
        d,
        m: 20.0 + 80.0 * unit(bits.rotate_left(24)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        network::backend::{factory::with_request, options::BackendOptions},
    };

    #[test]
    fn it_has_no_settings() {
        let create = |options: &str| {
            let options = BackendOptions::parse(options).unwrap();
            let create = |request: BackendRequest<'_>| Hash.create(&request).map(drop);
            with_request("", &options, create).0
        };
        create("").unwrap();
        let error = create("threads=2").unwrap_err().to_string();
        assert!(error.contains("hash has no setting 'threads'"), "{error}");
    }

    #[test]
    fn a_batch_gets_proper_probabilities_and_depends_on_the_key_only() {
        let moves: Vec<_> = legal_moves(History::default().position()).collect();
        let mut batch = Batch::default();
        for key in [1, 2, 1] {
            batch.push(key, &moves);
        }
        HashEvaluator.evaluate(&mut batch).unwrap();
        for index in 0..batch.len() {
            assert!((batch.policy(index).iter().sum::<f32>() - 1.0).abs() < 1e-5);
            let Value { wl, d, .. } = batch.value(index);
            assert!(wl.abs() + d <= 1.0);
        }
        assert_eq!(batch.policy(0), batch.policy(2));
        assert_eq!(batch.value(0), batch.value(2));
        assert_ne!(batch.policy(0), batch.policy(1));
    }
}
