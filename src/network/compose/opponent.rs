//! A second network for the opponent: at the nodes where the opponent moves, the priors come from it, wholly or mixed.
//!
//! Search-contempt models an opponent who stops searching; this models which replies such an opponent considers in
//! the first place: a network trained on the games of players of some rating (a Maia, for example) gives the priors.
//! The value of a position is always the main network's, so the engine still evaluates each reply correctly.
//!
//! [`Networks`] are the networks that the options name. [`Networks::against`] makes of them the [`SearchEvaluator`]
//! of one search, for which the opponent's colour is given. Neither network's cache ever holds a mixture, so both
//! stay valid whatever the opponent's colour and share are, and a position that is in only one of the caches is
//! evaluated by the other network only.

use std::sync::Arc;

use anyhow::Context;
use shakmaty::Color;

use super::{
    cached::NetworkSettings,
    search_evaluator::{ModelledOpponent, SearchEvaluator},
};
use crate::{
    network::{EvaluateError, Evaluator, cores},
    options::{Invalidates, Options},
};

pub use super::role::{Role, side, why_idle, why_side_is_missing};

/// The networks that the options name.
#[derive(Clone)]
pub struct Networks {
    /// The engine's own network.
    pub main: Arc<dyn Evaluator>,
    /// The opponent's network, if it has one of its own.
    pub opponent: Option<Arc<dyn Evaluator>>,
    /// The network that refines the priors of positions with many visits.
    pub refiner: Option<Arc<dyn Evaluator>>,
}

/// Whether two sets of options name the same networks with the same settings.
pub fn are_same(one: &Options, other: &Options) -> bool {
    let are_settings_same =
        |role| NetworkSettings::of(one, role) == NetworkSettings::of(other, role);
    one.invalidated_since(other) < Invalidates::OtherNetworks
        && Role::ALL.into_iter().all(are_settings_same)
}

impl Networks {
    /// One network for everything.
    pub fn alone(main: Arc<dyn Evaluator>) -> Networks {
        Networks {
            main,
            opponent: None,
            refiner: None,
        }
    }

    /// Loads what the options name: `load` makes the backend of a network, to which its settings are applied.
    ///
    /// # Errors
    /// When a network cannot be loaded. No network that the options name is left out.
    pub fn load<E: Into<anyhow::Error>>(
        options: &Options,
        load: impl Fn(Role) -> Result<Arc<dyn Evaluator>, E>,
    ) -> anyhow::Result<Networks> {
        let evaluator = |role| {
            let backend: anyhow::Result<_> = load(role).map_err(Into::into);
            Ok::<_, anyhow::Error>(NetworkSettings::of(options, role).over(backend?))
        };
        Networks::of(options, evaluator)
    }

    /// The same from evaluators to which their settings are applied already.
    ///
    /// # Errors
    /// What `evaluator` returns; for the opponent's network it says which.
    pub fn of(
        options: &Options,
        evaluator: impl Fn(Role) -> anyhow::Result<Arc<dyn Evaluator>>,
    ) -> anyhow::Result<Networks> {
        let other = |role: Role| {
            if role.is_wanted(options) {
                evaluator(role).context(role.option()).map(Some)
            } else {
                Ok(None)
            }
        };
        Ok(Networks {
            main: evaluator(Role::Main)?,
            opponent: other(Role::Opponent)?,
            refiner: other(Role::Refiner)?,
        })
    }

    /// The memory of full caches, in bytes.
    pub fn cache_bytes(&self) -> u64 {
        self.all().map(|network| network.info().cache.bytes).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Evaluator>> {
        let others = self.opponent.iter().chain(&self.refiner);
        std::iter::once(&self.main).chain(others)
    }

    /// Whether these are the same networks, not others of equal weights.
    pub fn same_as(&self, other: &Networks) -> bool {
        let pointers = |networks: &Networks| {
            let of = |network: &Arc<dyn Evaluator>| Arc::as_ptr(network).cast::<()>();
            (
                of(&networks.main),
                networks.opponent.as_ref().map(of),
                networks.refiner.as_ref().map(of),
            )
        };
        pointers(self) == pointers(other)
    }

    /// The evaluator for a search for `contempt_side`. A tree must not outlive it: with another [`side`] all priors
    /// differ.
    pub fn against(&self, options: &Options, contempt_side: Option<Color>) -> Arc<dyn Evaluator> {
        let main = Arc::clone(&self.main);
        let opponent = self.modelled_opponent(options, contempt_side);
        match (opponent, self.refiner.clone()) {
            (None, None) => main,
            (opponent, refiner) => Arc::new(SearchEvaluator::new(main, opponent, refiner)),
        }
    }

    /// The network of the opponent in a search for `contempt_side`.
    fn modelled_opponent(
        &self,
        options: &Options,
        contempt_side: Option<Color>,
    ) -> Option<ModelledOpponent> {
        let network = Arc::clone(self.opponent.as_ref()?);
        let side = side(options, contempt_side)?;
        let main = self.main.info();
        let threads = match options.threads {
            0 => main.advice.threads,
            threads => threads,
        };
        Some(ModelledOpponent {
            network,
            side,
            share: options.opponent_policy_mix,
            // What computes at once is done before another thread has begun.
            overlaps: threads < cores() && !main.computes_at_once,
        })
    }

    /// See [`Evaluator::warm_up`].
    ///
    /// # Errors
    /// When a backend fails.
    pub fn warm_up(&self, may_continue: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        self.all()
            .try_for_each(|network| network.warm_up(may_continue))
    }

    /// A description in one line, for people.
    pub fn describe(&self) -> String {
        let mut text = self.main.info().description;
        if let Some(opponent) = &self.opponent {
            text += &format!("; the opponent's priors: {}", opponent.info().description);
        }
        if let Some(refiner) = &self.refiner {
            text += &format!("; refined priors: {}", refiner.info().description);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use shakmaty::Position;

    use super::*;
    use crate::{
        chess::{History, moves::MAX_MOVES},
        network::{
            Added, Advice, Batch, EvalPosition, Info, Value,
            cached::CachedEvaluator,
            evaluator::{Evaluation, evaluate_all},
            prior,
            tests::game,
        },
    };

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
    const WL: f32 = 0.25;

    /// A network whose policy falls by `ratio` from each move to the next. Records what it evaluates.
    struct Fake {
        ratio: f32,
        wl: f32,
        evaluated: Mutex<Vec<u64>>,
        breaks: bool,
    }

    impl Fake {
        fn new(ratio: f32, wl: f32) -> Arc<Fake> {
            Arc::new(Fake {
                ratio,
                wl,
                evaluated: Mutex::default(),
                breaks: false,
            })
        }

        fn main() -> Arc<Fake> {
            Fake::new(1.0, WL)
        }

        fn opponent() -> Arc<Fake> {
            Fake::new(0.5, -0.9)
        }

        fn policy(&self, moves: usize) -> Vec<f32> {
            let weights: Vec<f32> = (0..moves).map(|i| self.ratio.powi(i as i32)).collect();
            let sum: f32 = weights.iter().sum();
            weights.iter().map(|weight| weight / sum).collect()
        }

        fn evaluated(&self) -> usize {
            std::mem::take(&mut *self.evaluated.lock()).len()
        }
    }

    impl Evaluator for Fake {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            for index in 0..batch.len() {
                self.evaluated.lock().push(batch.key(index));
                let value = Value {
                    wl: self.wl,
                    d: 0.5,
                    m: 10.0,
                };
                batch.set_value(index, value);
                let (moves, policy) = batch.policy_mut(index);
                policy.copy_from_slice(&self.policy(moves.len()));
            }
            if self.breaks {
                Err(EvaluateError::NotFinite {
                    network: format!("fake {}", self.ratio),
                    output: "policy".into(),
                })
            } else {
                Ok(())
            }
        }
        fn info(&self) -> Info {
            Info {
                description: format!("fake {}", self.ratio),
                advice: Advice {
                    threads: 1,
                    minibatch: 1,
                    min_batch: 1,
                },
                ..Info::default()
            }
        }
    }

    fn options(mix: &str) -> Options {
        let mut options = Options::default();
        options.set("OpponentWeights", "fake").unwrap();
        options.set("OpponentPolicyMix", mix).unwrap();
        options
    }

    fn against(
        main: &Arc<Fake>,
        opponent: &Arc<Fake>,
        mix: &str,
        contempt_side: Color,
    ) -> Arc<dyn Evaluator> {
        let networks = Networks {
            opponent: Some(opponent.clone()),
            ..Networks::alone(main.clone())
        };
        networks.against(&options(mix), Some(contempt_side))
    }

    /// Positions with White, Black, White, Black to move.
    fn games() -> Vec<History> {
        let lines = ["", "e2e4", "d2d4 d7d5", "g1f3 g8f6 b1c3"];
        lines.iter().map(|moves| game(START, moves)).collect()
    }

    fn evaluate(
        evaluator: &dyn Evaluator,
        games: &[History],
    ) -> Result<Vec<Evaluation>, EvaluateError> {
        evaluate_all(evaluator, games.iter().map(History::plies))
    }

    /// Adds the position at the end of a game to a batch; also the priors, if they are known at once.
    fn add(evaluator: &dyn Evaluator, game: &History, batch: &mut Batch) -> (Added, Vec<f32>) {
        let (mut moves, mut priors) = (Vec::new(), [0.0; MAX_MOVES]);
        let mut position = EvalPosition::new(game.plies(), &mut moves, &mut priors);
        let added = evaluator.add(&mut position, batch);
        (added, position.policy().1.to_vec())
    }

    /// What is known at once about the position at the end of a game.
    fn fetch(evaluator: &dyn Evaluator, game: &History) -> Option<(Value, Vec<f32>)> {
        match add(evaluator, game, &mut Batch::default()) {
            (Added::Fetched(value), priors) => Some((value, priors)),
            _ => None,
        }
    }

    fn assert_close(policy: &[f32], expected: impl IntoIterator<Item = f32>) {
        for (index, (p, expected)) in policy.iter().zip(expected).enumerate() {
            assert!(
                (p - expected).abs() < 1e-4,
                "move {index}: {p}, not {expected}"
            );
        }
    }

    #[test]
    fn priors_are_the_opponents_where_it_moves_and_values_always_our_own() {
        let (main, opponent) = (Fake::main(), Fake::opponent());
        for (contempt_side, theirs) in [(Color::White, Color::Black), (Color::Black, Color::White)]
        {
            let evaluator = against(&main, &opponent, "1", contempt_side);
            let evaluated = evaluate(&*evaluator, &games()).unwrap();
            for (game, Evaluation { value, priors, .. }) in games().iter().zip(&evaluated) {
                let expected = if game.position().turn() == theirs {
                    opponent.policy(priors.len())
                } else {
                    main.policy(priors.len())
                };
                assert_close(priors, expected);
                assert_eq!(value.wl, WL);
            }
            // One batch, of which the second network evaluated its half.
            assert_eq!((main.evaluated(), opponent.evaluated()), (4, 2));
        }
    }

    #[test]
    fn half_a_mixture_lies_half_way_and_sums_to_one() {
        let (main, opponent) = (Fake::main(), Fake::opponent());
        let evaluator = against(&main, &opponent, "0.5", Color::White);
        let evaluated = evaluate(&*evaluator, &games()).unwrap();
        let priors = &evaluated[1].priors;
        let both = main.policy(20).into_iter().zip(opponent.policy(20));
        assert_close(priors, both.map(|(a, b)| (a + b) / 2.0));
        assert!((priors.iter().sum::<f32>() - 1.0).abs() < 1e-3);
        assert_close(&evaluated[0].priors, main.policy(20));
    }

    #[test]
    fn running_both_at_once_changes_nothing_and_a_batch_can_be_evaluated_again() {
        let (main, opponent) = (Fake::main(), Fake::opponent());
        let both = |overlaps| {
            let opponent = ModelledOpponent {
                network: opponent.clone(),
                side: Color::Black,
                share: 0.3,
                overlaps,
            };
            SearchEvaluator::new(main.clone(), Some(opponent), None)
        };
        let (alone, overlapping) = (both(false), both(true));
        let expected = evaluate(&alone, &games()).unwrap();
        let mut batch = Batch::default();
        for (index, game) in games().iter().enumerate() {
            let added = add(&overlapping, game, &mut batch).0;
            assert_eq!(added, Added::Queued(index));
        }
        for _ in 0..2 {
            overlapping.evaluate(&mut batch).unwrap();
            for (index, expected) in expected.iter().enumerate() {
                assert_eq!(batch.policy(index), expected.priors);
            }
        }
        batch.clear();
        overlapping.evaluate(&mut batch).unwrap();
        assert!(batch.is_empty());
    }

    /// The two networks behind caches.
    fn cached(main: &Arc<Fake>, opponent: &Arc<Fake>) -> Networks {
        Networks {
            opponent: Some(Arc::new(CachedEvaluator::with_cache(opponent.clone(), 100))),
            ..Networks::alone(Arc::new(CachedEvaluator::with_cache(main.clone(), 100)))
        }
    }

    #[test]
    fn each_network_has_its_own_cache_and_neither_holds_a_mixture() {
        let (main, opponent) = (Fake::main(), Fake::opponent());
        let networks = cached(&main, &opponent);
        let evaluator = networks.against(&options("0.7"), Some(Color::White));
        let evaluated = evaluate(&*evaluator, &games()).unwrap();
        assert_eq!((main.evaluated(), opponent.evaluated()), (4, 2));
        for (game, missed) in games().iter().zip(&evaluated) {
            // A hit is what a miss would have stored, in the tree's own precision.
            let (value, priors) = fetch(&*evaluator, game).unwrap();
            assert_eq!(value, missed.value);
            for (hit, miss) in priors.iter().zip(&missed.priors) {
                assert_eq!(prior::encode(*hit), prior::encode(*miss));
            }
            // Without an opponent the main network's own answers are there.
            let alone = networks.against(&options("0.7"), None);
            let (_, priors) = fetch(&*alone, game).unwrap();
            assert_close(&priors, main.policy(priors.len()));
        }
        evaluate(&*evaluator, &games()).unwrap();
        assert_eq!((main.evaluated(), opponent.evaluated()), (0, 0));
        assert!(evaluator.info().cache.permille > 0);
    }

    #[test]
    fn a_network_evaluates_only_what_is_not_in_its_cache() {
        let (main, opponent) = (Fake::main(), Fake::opponent());
        let networks = cached(&main, &opponent);
        let white = networks.against(&options("1"), Some(Color::White));
        let black = networks.against(&options("1"), Some(Color::Black));
        evaluate(&*white, &games()[..2]).unwrap();
        assert_eq!((main.evaluated(), opponent.evaluated()), (2, 1));
        // The other colour: the main network's cache has both positions, the opponent's only the one that is not
        // needed.
        assert_eq!(fetch(&*black, &games()[0]), None);
        let evaluated = evaluate(&*black, &games()).unwrap();
        assert_eq!((main.evaluated(), opponent.evaluated()), (2, 2));
        assert_close(&evaluated[0].priors, opponent.policy(20));
        assert_close(&evaluated[1].priors, main.policy(20));
        assert_eq!(evaluated[0].value.wl, WL);
        // Another opponent beside the same main network.
        let other = Fake::new(0.9, 0.0);
        let networks = Networks {
            opponent: Some(other.clone()),
            ..networks
        };
        let other_white = networks.against(&options("1"), Some(Color::White));
        let evaluated = evaluate(&*other_white, &games()).unwrap();
        assert_eq!((main.evaluated(), other.evaluated()), (0, 2));
        assert_close(&evaluated[1].priors, other.policy(20));
    }

    #[test]
    fn an_error_of_either_network_is_the_batchs_error() {
        let broken = |ratio| {
            let mut fake = Fake::new(ratio, 0.0);
            Arc::get_mut(&mut fake).unwrap().breaks = true;
            fake
        };
        for (main, opponent, name) in [
            (broken(0.7), Fake::opponent(), "fake 0.7"),
            (Fake::main(), broken(0.6), "fake 0.6"),
        ] {
            let evaluator = against(&main, &opponent, "1", Color::White);
            let error = evaluate(&*evaluator, &games()).err().unwrap().to_string();
            assert!(error.contains(name), "{error}");
        }
        let evaluator = against(&Fake::main(), &Fake::opponent(), "1", Color::White);
        let mut pushed = Batch::default();
        pushed.push(1, &[]);
        assert!(evaluator.evaluate(&mut pushed).is_err());
    }

    #[test]
    fn without_an_opponent_there_is_one_network_and_the_reason_is_given() {
        let networks = cached(&Fake::main(), &Fake::opponent());
        let mut idle = options("1");
        assert_eq!(why_idle(&idle), None);
        assert_eq!(side(&idle, Some(Color::White)), Some(Color::Black));
        assert_eq!(side(&idle, None), None);
        for (option, value) in [
            ("ContemptMode", "disable"),
            ("Backend", "hash"),
            ("OpponentPolicyMix", "0"),
        ] {
            idle.set(option, value).unwrap();
            assert!(why_idle(&idle).unwrap().contains(option));
            assert_eq!(side(&idle, Some(Color::White)), None);
            let evaluator = networks.against(&idle, Some(Color::White));
            assert!(Arc::ptr_eq(&evaluator, &networks.main));
            idle = options("1");
        }
        idle.set("OpponentWeights", " ").unwrap();
        assert!(why_idle(&idle).is_none() && !Role::Opponent.is_wanted(&idle));
    }

    #[test]
    fn a_second_network_that_the_options_name_is_never_left_out() {
        let load = |role| match role {
            Role::Main => Ok(Fake::main() as Arc<dyn Evaluator>),
            _ => Err(anyhow::anyhow!("no such file")),
        };
        let error = Networks::load(&options("1"), load).err().unwrap();
        assert_eq!(format!("{error:#}"), "OpponentWeights: no such file");
        let one = Networks::load(&Options::default(), load).unwrap();
        assert_eq!(one.describe(), "fake 1");
        let both = cached(&Fake::main(), &Fake::opponent()).describe();
        assert_eq!(both, "fake 1; the opponent's priors: fake 0.5");
    }
}
