//! What stands in front of a network's backend: the policy's temperature and the cache. Both can change while the backend
//! stays loaded.

use std::sync::Arc;

use super::{
    cache::{CACHE_ENTRY, Cached},
    check_bonus::Raised,
    role::Role,
};
use crate::{
    chess::{PackedMove, Ply},
    memory,
    network::{
        Batch, EvaluateError, Evaluator, Immediate, Value,
        backend::hash::is_hash,
        input::{Encoding, View},
    },
    options::Options,
};

/// The positions that the cache of each network may hold: NNCacheSize, and all together no more than half of the memory that
/// there is for them and the tree.
fn cache_entries(options: &Options) -> usize {
    let Some(limit) = memory::limit(options) else {
        return options.nn_cache_size;
    };
    let networks = Role::ALL.into_iter().filter(|role| role.is_wanted(options));
    let caches = networks.count() as u64;
    let half = usize::try_from(limit / 2 / caches / CACHE_ENTRY).unwrap_or(usize::MAX);
    options.nn_cache_size.min(half)
}

/// Which decorators a backend gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decorators {
    /// Softmax temperature of the policy.
    pub temperature: f32,
    /// Added to the priors of unlikely moves that give check; 0 leaves them alone.
    pub check_bonus: f32,
    /// Whether the network sees White as Black and Black as White.
    pub swap_colors: bool,
    /// Positions that the cache may hold; 0 is no cache.
    pub cache: usize,
}

impl Decorators {
    /// Those that the options ask for. The hash evaluator has none.
    pub fn of(options: &Options, role: Role) -> Decorators {
        if is_hash(&options.backend) {
            return Decorators {
                temperature: 1.0,
                check_bonus: 0.0,
                swap_colors: false,
                cache: 0,
            };
        }
        Decorators {
            temperature: role.policy_temperature(options),
            check_bonus: role.check_bonus(options),
            // The other networks were trained on both sides' moves.
            swap_colors: options.swap_colors && role == Role::Main,
            cache: cache_entries(options),
        }
    }

    /// Puts them in front of a backend.
    pub fn over(&self, backend: Arc<dyn Evaluator>) -> Arc<dyn Evaluator> {
        let sees_colors = matches!(backend.view().encoding, Some(Encoding::Lc0(_)));
        let backend: Arc<dyn Evaluator> = match self.swap_colors && sees_colors {
            true => Arc::new(Swapped {
                view: View {
                    swap_colors: true,
                    ..*backend.view()
                },
                inner: backend,
            }),
            false => backend,
        };
        let tempered = Arc::new(Tempered {
            inner: backend,
            temperature: self.temperature,
        });
        let raised: Arc<dyn Evaluator> = match self.check_bonus > 0.0 {
            true => Arc::new(Raised::new(tempered, self.check_bonus)),
            false => tempered,
        };
        match self.cache {
            // What is asked one position at a time is faster than a cache.
            _ if raised.immediate().is_some() => raised,
            0 => raised,
            entries => Arc::new(Cached::new(raised, entries)),
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

/// Shows a network every position with the colours exchanged. Stands behind the cache, which forgets everything when this
/// changes.
struct Swapped {
    inner: Arc<dyn Evaluator>,
    view: View,
}

impl Evaluator for Swapped {
    fn inner(&self) -> Option<&dyn Evaluator> {
        Some(&*self.inner)
    }

    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        self.inner.evaluate(batch)
    }

    fn view(&self) -> &View {
        &self.view
    }

    fn queue(&self, line: &[Ply], moves: &[PackedMove], batch: &mut Batch) -> usize {
        self.view.queue(line, moves, batch)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        lc0::InputFormat,
        network::hash::HashEvaluator,
    };

    /// Sees lc0's planes.
    struct Seeing(View);

    impl Evaluator for Seeing {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            HashEvaluator.evaluate(batch)
        }
        fn view(&self) -> &View {
            &self.0
        }
    }

    #[test]
    fn colours_are_exchanged_for_the_main_network_alone() {
        /// All squares for Black to move, none for White.
        const COLOR_PLANE: usize = 108;
        let encoding = Encoding::Lc0(InputFormat::Classical112);
        let mut options = Options::default();
        options.set("SwapColors", "true").unwrap();
        let game = History::default();
        let moves: Vec<_> = legal_moves(game.position()).collect();
        for (role, colour) in [(Role::Main, u64::MAX), (Role::Opponent, 0)] {
            let backend: Arc<dyn Evaluator> = Arc::new(Seeing(View {
                encoding: Some(encoding),
                ..View::KEY_ONLY
            }));
            let evaluator = Decorators::of(&options, role).over(backend);
            let mut batch = Batch::default();
            evaluator.queue(game.plies(), &moves, &mut batch);
            let masks = batch.inputs().masks(encoding.layout(), 0);
            assert_eq!(masks[COLOR_PLANE], colour);
            assert_eq!(masks[0], 0xff00, "the pawns of the side to move");
        }
    }
}
