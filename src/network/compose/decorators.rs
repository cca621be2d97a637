//! What stands in front of a network's backend: the policy's temperature and the cache. Both can change while the backend
//! stays loaded.

use std::sync::Arc;

use super::{
    cache::Cached,
    role::{Role, is_wanted},
};
use crate::{
    chess::{PackedMove, Ply},
    network::{Batch, EvaluateError, Evaluator, Immediate, Value, backend::hash::is_hash},
    options::Options,
};

/// Memory of a cached evaluation, in bytes.
pub const CACHE_ENTRY: u64 = 90;

/// Caches in use: one for each network.
pub fn caches(options: &Options) -> u64 {
    1 + u64::from(is_wanted(options))
}

/// The positions that each cache may hold: NNCacheSize, and all together no more than half of RamLimitMb.
pub fn cache_entries(options: &Options) -> usize {
    match options.ram_limit_mb << 20 {
        0 => options.nn_cache_size,
        limit => {
            let half =
                usize::try_from(limit / 2 / caches(options) / CACHE_ENTRY).unwrap_or(usize::MAX);
            options.nn_cache_size.min(half)
        }
    }
}

/// Which decorators a backend gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decorators {
    /// Softmax temperature of the policy.
    pub temperature: f32,
    /// Positions that the cache may hold; 0 is no cache.
    pub cache: usize,
}

impl Decorators {
    /// Those that the options ask for. The hash evaluator has none.
    pub fn of(options: &Options, role: Role) -> Decorators {
        if is_hash(&options.backend) {
            return Decorators {
                temperature: 1.0,
                cache: 0,
            };
        }
        Decorators {
            temperature: match role {
                Role::Main => options.policy_temperature,
                Role::Opponent => options.opponent_policy_temperature,
            },
            cache: cache_entries(options),
        }
    }

    /// Puts them in front of a backend.
    pub fn over(&self, backend: Arc<dyn Evaluator>) -> Arc<dyn Evaluator> {
        let tempered = Arc::new(Tempered {
            inner: backend,
            temperature: self.temperature,
        });
        match self.cache {
            // What is asked one position at a time is faster than a cache.
            _ if tempered.immediate().is_some() => tempered,
            0 => tempered,
            entries => Arc::new(Cached::new(tempered, entries)),
        }
    }
}

impl Immediate for Tempered {
    fn value(&self, line: &[Ply]) -> Value {
        let inner = self.inner.immediate();
        inner.map_or(Value::default(), |inner| inner.value(line))
    }

    fn policy(&self, line: &[Ply], moves: &[PackedMove], temperature: f32, policy: &mut [f32]) {
        if let Some(inner) = self.inner.immediate() {
            inner.policy(line, moves, temperature * self.temperature, policy);
        }
    }
}

/// Has a network's policy computed at a temperature. Stands behind the cache, which keeps what comes out.
struct Tempered {
    inner: Arc<dyn Evaluator>,
    temperature: f32,
}

impl Evaluator for Tempered {
    fn inner(&self) -> Option<&dyn Evaluator> {
        Some(&*self.inner)
    }

    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        batch.set_policy_temperature(self.temperature);
        self.inner.evaluate(batch)
    }

    fn immediate(&self) -> Option<&dyn Immediate> {
        self.inner.immediate().map(|_| self as &dyn Immediate)
    }
}
