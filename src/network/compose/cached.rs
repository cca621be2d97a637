//! A network as a search uses it: the backend, the transforms of its priors and its cache. Transforms and cache can
//! change while the backend stays loaded.

use std::sync::Arc;

use super::{
    cache::{CACHE_ENTRY, Cache},
    prior_transforms::{CheckingMoves, PriorContext, PriorTransform},
    role::Role,
};
use crate::{
    memory,
    network::{
        Added, Batch, EvalPosition, EvaluateError, Evaluator, Info,
        backend::needs_network,
        input::{Encoding, View, planes::HISTORY},
    },
    options::Options,
};

/// The positions that the cache of each network may hold: `NNCacheSize`, and together no more than half of the memory
/// for the caches and the tree.
fn cache_entries(options: &Options) -> usize {
    let Some(limit) = memory::limit(options) else {
        return options.nn_cache_size;
    };
    let networks = Role::ALL.into_iter().filter(|role| role.is_wanted(options));
    let caches = networks.count() as u64;
    let half = usize::try_from(limit / 2 / caches / CACHE_ENTRY).unwrap_or(usize::MAX);
    options.nn_cache_size.min(half)
}

/// How the answers of a backend are changed and kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkSettings {
    /// Softmax temperature of the policy.
    pub temperature: f32,
    /// Added to the priors of unlikely moves that give check; 0 leaves them alone.
    pub check_bonus: f32,
    /// Whether the network sees White as Black and Black as White.
    pub swap_colors: bool,
    /// Positions that the cache may hold; 0 is no cache.
    pub cache: usize,
    /// The positions before the current one by which the cache tells evaluations apart: at most 7, which is all that
    /// networks see.
    pub cache_history: usize,
}

impl NetworkSettings {
    /// Answers stay as they are, and are not kept.
    pub const NONE: NetworkSettings = NetworkSettings {
        temperature: 1.0,
        check_bonus: 0.0,
        swap_colors: false,
        cache: 0,
        cache_history: HISTORY - 1,
    };

    /// By the options. The hash evaluator's answers stay as they are.
    pub fn of(options: &Options, role: Role) -> NetworkSettings {
        if !needs_network(&options.backend) {
            return NetworkSettings::NONE;
        }
        NetworkSettings {
            temperature: role.policy_temperature(options),
            check_bonus: role.check_bonus(options),
            // The other networks were trained on both sides' moves.
            swap_colors: options.swap_colors && role == Role::Main,
            cache: cache_entries(options),
            cache_history: options.cache_history_length,
        }
    }

    /// Applies them to a backend.
    pub fn over(&self, backend: Arc<dyn Evaluator>) -> Arc<dyn Evaluator> {
        if *self == NetworkSettings::NONE {
            backend
        } else {
            Arc::new(CachedEvaluator::new(backend, self))
        }
    }

    /// The transforms of priors below the cache, in the order in which they are applied.
    fn transforms(&self) -> Vec<PriorTransform> {
        let bonus = (self.check_bonus > 0.0).then_some(self.check_bonus);
        bonus.map(PriorTransform::CheckBonus).into_iter().collect()
    }
}

/// A backend, the transforms of its priors, and a cache of the result.
pub struct CachedEvaluator {
    backend: Arc<dyn Evaluator>,
    /// What is seen of a position, and distinguished by the cache, if that is not [the backend's
    /// view](Evaluator::view).
    other_view: Option<View>,
    temperature: f32,
    transforms: Vec<PriorTransform>,
    cache: Option<Cache>,
}

impl CachedEvaluator {
    /// A backend with these settings.
    pub fn new(backend: Arc<dyn Evaluator>, settings: &NetworkSettings) -> CachedEvaluator {
        // What computes at once is faster than a cache.
        let has_cache = settings.cache > 0 && !backend.info().computes_at_once;
        let view = backend.view();
        let sees_colors = matches!(
            view.encoding,
            Some(Encoding::Lc0(_) | Encoding::AlphaZero(_))
        );
        let other_view = View {
            swap_colors: view.swap_colors || settings.swap_colors && sees_colors,
            reads: if has_cache {
                view.reads.within(settings.cache_history)
            } else {
                view.reads
            },
            ..*view
        };
        CachedEvaluator {
            other_view: (other_view != *view).then_some(other_view),
            temperature: settings.temperature,
            transforms: settings.transforms(),
            cache: has_cache.then(|| Cache::new(settings.cache)),
            backend,
        }
    }

    /// A backend whose answers stay as they are, with a cache for `cache` positions.
    pub fn with_cache(backend: Arc<dyn Evaluator>, cache: usize) -> CachedEvaluator {
        let settings = NetworkSettings {
            cache,
            ..NetworkSettings::NONE
        };
        CachedEvaluator::new(backend, &settings)
    }
}

impl Evaluator for CachedEvaluator {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        batch.set_policy_temperature(self.temperature);
        self.backend.evaluate(batch)?;
        for index in 0..batch.len() {
            for transform in &self.transforms {
                let (checks, priors) = batch.checks_mut(index);
                let context = PriorContext {
                    checks: CheckingMoves::Marked(checks),
                    ..PriorContext::default()
                };
                transform.apply(priors, &context);
            }
            if let Some(cache) = &self.cache {
                cache.insert(batch.key(index), batch.value(index), batch.policy(index));
            }
        }
        Ok(())
    }

    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        let line = position.line();
        if let Some(cache) = &self.cache
            && let Some(value) = cache.look_up(self.view().key(line), position.policy().1)
        {
            return Added::Fetched(value);
        }
        let added = match &self.other_view {
            Some(view) => Added::Queued(view.queue(line, position.moves(), batch)),
            None => self.backend.add(position, batch),
        };
        if let Added::Queued(index) = added {
            for transform in &self.transforms {
                transform.prepare(line, batch, index);
            }
        }
        added
    }

    fn priors(&self, position: &mut EvalPosition<'_>, temperature: f32) {
        let line = position.line();
        self.backend
            .priors(position, temperature * self.temperature);
        for transform in &self.transforms {
            let (moves, priors) = position.policy();
            let context = PriorContext {
                checks: CheckingMoves::of(line, moves),
                ..PriorContext::default()
            };
            transform.apply(priors, &context);
        }
    }

    fn view(&self) -> &View {
        match &self.other_view {
            Some(view) => view,
            None => self.backend.view(),
        }
    }

    fn info(&self) -> Info {
        Info {
            cache: self.cache.as_ref().map(Cache::usage).unwrap_or_default(),
            ..self.backend.info()
        }
    }

    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        self.backend.run_on_worker_thread(work);
    }

    fn warm_up(&self, may_continue: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        self.backend.warm_up(may_continue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        lc0::{AlphaZeroMoves, InputFormat},
        network::{
            Value, evaluator::evaluate_all, hash::HashEvaluator, input::key::HistoryRead, prior,
        },
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
        // The planes that hold all squares for Black to move, none for White.
        let lc0 = (Encoding::Lc0(InputFormat::Classical112), 108);
        let alphazero = (Encoding::AlphaZero(AlphaZeroMoves::SquareMajor), 112);
        let mut options = Options::default();
        options.set("SwapColors", "true").unwrap();
        let game = History::default();
        let moves: Vec<_> = legal_moves(game.position()).collect();
        for (role, (encoding, color_plane), colour) in [
            (Role::Main, lc0, u64::MAX),
            (Role::Opponent, lc0, 0),
            (Role::Main, alphazero, u64::MAX),
            (Role::Opponent, alphazero, 0),
        ] {
            let backend: Arc<dyn Evaluator> = Arc::new(Seeing(View {
                encoding: Some(encoding),
                ..View::KEY_ONLY
            }));
            let evaluator = NetworkSettings::of(&options, role).over(backend);
            let mut batch = Batch::default();
            evaluator.view().queue(game.plies(), &moves, &mut batch);
            let masks = batch.inputs().masks(encoding.layout(), 0);
            assert_eq!(masks[color_plane], colour, "{encoding:?}");
            assert_eq!(masks[0], 0xff00, "the pawns of the side to move");
        }
    }

    #[test]
    fn a_cache_tells_apart_as_much_of_the_history_as_it_is_told_to() {
        let line = |moves| crate::network::tests::game("4k3/8/8/8/8/8/8/R3K2R w - - 0 1", moves);
        let base = "a1a2 e8e7 a2a1 e7e8 a1b1 e8d8 b1a1 d8e8 ";
        let orders = [
            line(&format!("{base}a1c1 e8d7 h1g1")),
            line(&format!("{base}h1g1 e8d7 a1c1")),
        ];
        let encoding = Encoding::Lc0(InputFormat::Classical112);
        let keys = |length: &str| {
            let mut options = Options::default();
            options.set("CacheHistoryLength", length).unwrap();
            let backend: Arc<dyn Evaluator> = Arc::new(Seeing(View {
                encoding: Some(encoding),
                ..View::KEY_ONLY
            }));
            let evaluator = NetworkSettings::of(&options, Role::Main).over(backend);
            orders
                .each_ref()
                .map(|game| evaluator.view().key(game.plies()))
        };
        // Both reach the same position, by the same last position but one and by another one before that.
        let equal = ["0", "1", "2", "7"].map(|length| keys(length)[0] == keys(length)[1]);
        assert_eq!(equal, [true, false, false, false]);
    }

    #[test]
    fn what_computes_at_once_has_no_cache_and_sees_all_that_it_reads() {
        struct AtOnce(View);
        impl Evaluator for AtOnce {
            fn evaluate(&self, _: &mut Batch) -> Result<(), EvaluateError> {
                unreachable!("nothing is queued")
            }
            fn add(&self, _: &mut EvalPosition<'_>, _: &mut Batch) -> Added {
                Added::Computed(Value::default())
            }
            fn view(&self) -> &View {
                &self.0
            }
            fn info(&self) -> Info {
                Info {
                    computes_at_once: true,
                    ..Info::default()
                }
            }
        }
        let view = View {
            reads: HistoryRead::boards(3),
            ..View::KEY_ONLY
        };
        let mut options = Options::default();
        options.set("CacheHistoryLength", "0").unwrap();
        let evaluator = NetworkSettings::of(&options, Role::Opponent).over(Arc::new(AtOnce(view)));
        assert_eq!(*evaluator.view(), view);
        let game = History::default();
        let (mut batch, mut moves, mut priors) = (Batch::default(), Vec::new(), [0.0; 256]);
        let mut position = EvalPosition::new(game.plies(), &mut moves, &mut priors);
        let added = evaluator.add(&mut position, &mut batch);
        assert_eq!(added, Added::Computed(Value::default()));
    }

    #[test]
    fn the_second_evaluation_of_a_position_comes_from_the_cache() {
        let cached = CachedEvaluator::with_cache(Arc::new(HashEvaluator), 100);
        let game = History::default();
        let first = evaluate_all(&cached, [game.plies()]).unwrap();
        let (mut batch, mut moves, mut priors) = (Batch::default(), Vec::new(), [0.0; 256]);
        let mut position = EvalPosition::new(game.plies(), &mut moves, &mut priors);
        let added = cached.add(&mut position, &mut batch);
        assert_eq!(added, Added::Fetched(first[0].value));
        let rounded = first[0]
            .priors
            .iter()
            .map(|&p| prior::decode(prior::encode(p)));
        assert!(rounded.eq(position.policy().1.iter().copied()));
        assert_eq!(moves, first[0].moves);
        let (info, of_backend) = (cached.info(), HashEvaluator.info());
        assert_eq!(info.cache.permille, 10);
        assert_eq!(info.description, of_backend.description);
        assert_eq!(info.advice, of_backend.advice);
    }
}
