//! A second network for the opponent: at the nodes where the opponent moves, the priors come from it, wholly or mixed.
//!
//! Search-contempt models an opponent who stops looking; this says what such an opponent looks at in the first place: a
//! network trained on the games of players of some rating (a Maia, say) gives the replies that they would consider. The
//! value of a position is always the main network's, so the engine still knows what a reply is worth.
//!
//! [`Networks`] are the one or two networks that the options ask for. [`Networks::against`] makes of them the evaluator
//! of one search, which knows the opponent's colour: an [`OpponentPriors`], if there is a second network to be asked, over
//! the two evaluators with their caches. Neither cache ever holds a mixture, so both stay valid whatever the
//! opponent's colour and share are, and a position that only one of them knows is put to the other network only.

use std::{panic, sync::Arc, thread};

use anyhow::Context;
use shakmaty::{Color, Position};

use crate::{
    chess::{PackedMove, Ply},
    network::{
        Advice, Batch, EvaluateError, Evaluator, Value, backend::hash::is_hash, cores, prior,
    },
    options::{ContemptMode, Options},
};

/// More moves than any position has (218): room for a policy that needs no memory of its own.
const MAX_MOVES: usize = 256;

/// Which of the two networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// That of `WeightsFile`.
    Main,
    /// That of `OpponentWeights`.
    Opponent,
}

/// Whether the options name a second network that can be loaded.
pub fn is_wanted(options: &Options) -> bool {
    !options.opponent_weights.trim().is_empty() && !is_hash(&options.backend)
}

/// Why a second network is named but plays no part, if that is so: something that its user should be told.
pub fn why_idle(options: &Options) -> Option<&'static str> {
    if options.opponent_weights.trim().is_empty() {
        None
    } else if is_hash(&options.backend) {
        Some("OpponentWeights has no effect: Backend hash evaluates no networks")
    } else if options.contempt_mode == ContemptMode::Disable {
        Some("OpponentWeights has no effect: with ContemptMode disable nobody is the opponent")
    } else if options.opponent_policy_mix <= 0.0 {
        Some("OpponentWeights has no effect: OpponentPolicyMix is 0")
    } else {
        None
    }
}

/// The side at whose nodes the second network is asked, in a search for `contempt_side`; `None` if it is not asked at all.
pub fn side(options: &Options, contempt_side: Option<Color>) -> Option<Color> {
    let is_asked = is_wanted(options) && why_idle(options).is_none();
    contempt_side.filter(|_| is_asked).map(Color::other)
}

/// The networks that the options ask for.
#[derive(Clone)]
pub struct Networks {
    /// The engine's own.
    pub main: Arc<dyn Evaluator>,
    /// The opponent's, if it has one of its own.
    pub opponent: Option<Arc<dyn Evaluator>>,
}

impl Networks {
    /// Puts beside the main network the opponent's, made by `load`, if the options ask for one.
    ///
    /// # Errors
    /// When it cannot be loaded. It was asked for, so there is no going on without it.
    pub fn with_main<E: Into<anyhow::Error>>(
        main: Arc<dyn Evaluator>,
        options: &Options,
        load: impl FnOnce(Role) -> Result<Arc<dyn Evaluator>, E>,
    ) -> anyhow::Result<Networks> {
        let opponent = match is_wanted(options) {
            true => Some(
                load(Role::Opponent)
                    .map_err(Into::into)
                    .context("OpponentWeights")?,
            ),
            false => None,
        };
        Ok(Networks { main, opponent })
    }

    /// Loads what the options ask for.
    ///
    /// # Errors
    /// When a network cannot be loaded.
    pub fn load<E: Into<anyhow::Error>>(
        options: &Options,
        load: impl Fn(Role) -> Result<Arc<dyn Evaluator>, E>,
    ) -> anyhow::Result<Networks> {
        let main = load(Role::Main).map_err(Into::into)?;
        Networks::with_main(main, options, load)
    }

    /// The evaluator for a search for `contempt_side`. A tree must not outlive it: with another [`side`] the priors of all
    /// nodes are others.
    pub fn against(&self, options: &Options, contempt_side: Option<Color>) -> Arc<dyn Evaluator> {
        let (Some(opponent), Some(side)) = (&self.opponent, side(options, contempt_side)) else {
            return Arc::clone(&self.main);
        };
        let threads = match options.threads {
            0 => self.main.advice().threads,
            threads => threads,
        };
        Arc::new(OpponentPriors {
            main: Arc::clone(&self.main),
            opponent: Arc::clone(opponent),
            side,
            share: options.opponent_policy_mix,
            overlaps: threads < cores(),
        })
    }

    /// See [`Evaluator::warm_up`].
    ///
    /// # Errors
    /// When a backend fails.
    pub fn warm_up(&self, go_on: &dyn Fn() -> bool) -> Result<(), EvaluateError> {
        let mut all = [Some(&self.main), self.opponent.as_ref()].into_iter();
        all.try_for_each(|network| network.map_or(Ok(()), |network| network.warm_up(go_on)))
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let main = self.main.describe();
        match &self.opponent {
            Some(opponent) => format!("{main}; the opponent's priors: {}", opponent.describe()),
            None => main,
        }
    }
}

/// The evaluator of a search against `side`, with a network of the engine's own and one of the opponent's.
///
/// Both evaluators may be caches; a cache *over* this one would mistake one side's priors for the other's.
pub struct OpponentPriors {
    main: Arc<dyn Evaluator>,
    opponent: Arc<dyn Evaluator>,
    /// At this side's nodes the opponent's network is asked.
    side: Color,
    /// Its share in their priors, 0..=1.
    share: f32,
    /// Whether there are processors left for running both networks at the same time. Where search threads keep all of
    /// them busy, another thread per batch would only be in their way.
    overlaps: bool,
}

/// What the two networks are asked about the positions of a batch.
#[derive(Default)]
pub(in crate::network) struct Parts {
    main: Part,
    opponent: Part,
    /// For each position of the whole batch, whether the opponent's network is asked too.
    is_opponents: Vec<bool>,
}

/// What one network is asked, and what its cache has answered already.
#[derive(Default)]
struct Part {
    asked: Subset,
    known: Subset,
}

/// Some positions of a batch.
#[derive(Default)]
struct Subset {
    batch: Batch,
    /// Their indices in the whole batch.
    of: Vec<usize>,
}

impl Parts {
    pub(in crate::network) fn clear(&mut self) {
        self.is_opponents.clear();
        for part in [&mut self.main, &mut self.opponent] {
            for subset in [&mut part.asked, &mut part.known] {
                subset.batch.clear();
                subset.of.clear();
            }
        }
    }
}

impl Part {
    /// Has a position, number `index` of the whole batch, answered from the evaluator's cache or queues it.
    fn queue(
        &mut self,
        evaluator: &dyn Evaluator,
        index: usize,
        line: &[Ply],
        moves: &[PackedMove],
    ) {
        let mut buffer = [0.0; MAX_MOVES];
        let policy = &mut buffer[..moves.len().min(MAX_MOVES)];
        match evaluator.probe(line, policy) {
            Some(value) => {
                let place = self.known.batch.push(0, None, moves);
                self.known.batch.set_value(place, value);
                self.known.batch.policy_mut(place).1.copy_from_slice(policy);
                self.known.of.push(index);
            }
            None => {
                evaluator.queue(line, moves, &mut self.asked.batch);
                self.asked.of.push(index);
            }
        }
    }

    fn evaluate(&mut self, evaluator: &dyn Evaluator) -> Result<(), EvaluateError> {
        match self.asked.batch.is_empty() {
            true => Ok(()),
            false => evaluator.evaluate(&mut self.asked.batch),
        }
    }

    /// Every answer: the position's index in the whole batch, its value and its policy.
    fn answers(&self) -> impl Iterator<Item = (usize, Value, &[f32])> {
        [&self.asked, &self.known].into_iter().flat_map(|subset| {
            let places = subset.of.iter().enumerate();
            places.map(|(place, &index)| {
                let batch = &subset.batch;
                (index, batch.value(place), batch.policy(place))
            })
        })
    }
}

impl OpponentPriors {
    /// Whether the opponent moves at the end of this line.
    fn is_opponents(&self, line: &[Ply]) -> bool {
        line.last()
            .is_some_and(|ply| ply.position.turn() == self.side)
    }

    /// Mixes the main network's policy into the opponent's. Both are rounded first as a cache would, so that the mixture
    /// does not depend on who answered.
    fn mix(&self, opponents: &mut [f32], mains: &[f32]) {
        let rounded = |p| prior::decode(prior::encode(p));
        for (opponents, &mains) in opponents.iter_mut().zip(mains) {
            *opponents = self.share * rounded(*opponents) + (1.0 - self.share) * rounded(mains);
        }
    }

    fn evaluate_parts(&self, parts: &mut Parts) -> Result<(), EvaluateError> {
        let Parts { main, opponent, .. } = parts;
        let is_needed = !main.asked.of.is_empty() && !opponent.asked.of.is_empty();
        if !(self.overlaps && is_needed) {
            main.evaluate(&*self.main)?;
            return opponent.evaluate(&*self.opponent);
        }
        let (mains, opponents) = thread::scope(|scope| {
            let beside = scope.spawn(|| opponent.evaluate(&*self.opponent));
            let mains = main.evaluate(&*self.main);
            // A crash over there is a crash here, as it would be without a second thread.
            let opponents = beside.join().unwrap_or_else(|it| panic::resume_unwind(it));
            (mains, opponents)
        });
        mains.and(opponents)
    }

    /// Puts the answers together.
    fn merge(&self, parts: &Parts, batch: &mut Batch) -> Result<(), EvaluateError> {
        let answered = parts.main.asked.of.len() + parts.main.known.of.len();
        if answered != batch.len() {
            return Err(EvaluateError::Backend {
                backend: "opponent",
                batch: batch.len(),
                message: format!("only {answered} positions were queued by this evaluator"),
            });
        }
        for (index, _, policy) in parts.opponent.answers() {
            batch.policy_mut(index).1.copy_from_slice(policy);
        }
        for (index, value, policy) in parts.main.answers() {
            batch.set_value(index, value);
            let place = batch.policy_mut(index).1;
            match parts.is_opponents[index] {
                true => self.mix(place, policy),
                false => place.copy_from_slice(policy),
            }
        }
        Ok(())
    }
}

impl Evaluator for OpponentPriors {
    fn inner(&self) -> Option<&dyn Evaluator> {
        Some(&*self.main)
    }

    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        let mut parts = batch.parts.take().unwrap_or_default();
        let result = self
            .evaluate_parts(&mut parts)
            .and_then(|()| self.merge(&parts, batch));
        batch.parts = Some(parts);
        result
    }

    fn probe(&self, line: &[Ply], policy: &mut [f32]) -> Option<Value> {
        let value = self.main.probe(line, policy)?;
        if self.is_opponents(line) {
            let mut buffer = [0.0; MAX_MOVES];
            let mixed = buffer.get_mut(..policy.len())?;
            self.opponent.probe(line, mixed)?;
            self.mix(mixed, policy);
            policy.copy_from_slice(mixed);
        }
        Some(value)
    }

    fn queue(&self, line: &[Ply], moves: &[PackedMove], batch: &mut Batch) -> usize {
        let index = batch.push(self.key(line), None, moves);
        let parts = batch.parts.get_or_insert_default();
        parts.main.queue(&*self.main, index, line, moves);
        let is_opponents = self.is_opponents(line);
        parts.is_opponents.push(is_opponents);
        if is_opponents {
            parts.opponent.queue(&*self.opponent, index, line, moves);
        }
        index
    }

    fn advice(&self) -> Advice {
        self.main.advice()
    }

    fn describe(&self) -> String {
        format!(
            "{}; {}'s priors from {}",
            self.main.describe(),
            self.side,
            self.opponent.describe()
        )
    }

    fn cache_permille(&self) -> u32 {
        self.main
            .cache_permille()
            .max(self.opponent.cache_permille())
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        network::{cache::Cached, tests::game},
    };

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
    const WL: f32 = 0.25;

    /// A network whose policy falls by `ratio` from each move to the next. Notes what it is asked.
    struct Fake {
        ratio: f32,
        wl: f32,
        asked: Mutex<Vec<u64>>,
        breaks: bool,
    }

    impl Fake {
        fn new(ratio: f32, wl: f32) -> Arc<Fake> {
            Arc::new(Fake {
                ratio,
                wl,
                asked: Mutex::default(),
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

        fn asked(&self) -> usize {
            std::mem::take(&mut *self.asked.lock()).len()
        }
    }

    impl Evaluator for Fake {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            for index in 0..batch.len() {
                self.asked.lock().push(batch.key(index));
                let value = Value {
                    wl: self.wl,
                    d: 0.5,
                    m: 10.0,
                };
                batch.set_value(index, value);
                let (moves, policy) = batch.policy_mut(index);
                policy.copy_from_slice(&self.policy(moves.len()));
            }
            match self.breaks {
                true => Err(EvaluateError::NotFinite {
                    network: format!("fake {}", self.ratio),
                    output: "policy".into(),
                }),
                false => Ok(()),
            }
        }
        fn advice(&self) -> Advice {
            Advice {
                threads: 1,
                minibatch: 1,
            }
        }
        fn describe(&self) -> String {
            format!("fake {}", self.ratio)
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
            main: main.clone(),
            opponent: Some(opponent.clone()),
        };
        networks.against(&options(mix), Some(contempt_side))
    }

    /// Positions with White, Black, White, Black to move.
    fn games() -> Vec<History> {
        let lines = ["", "e2e4", "d2d4 d7d5", "g1f3 g8f6 b1c3"];
        lines.iter().map(|moves| game(START, moves)).collect()
    }

    fn moves(game: &History) -> Vec<PackedMove> {
        legal_moves(game.position()).collect()
    }

    fn evaluate(evaluator: &dyn Evaluator, games: &[History]) -> Result<Batch, EvaluateError> {
        let mut batch = Batch::default();
        for game in games {
            evaluator.queue(game.plies(), &moves(game), &mut batch);
        }
        evaluator.evaluate(&mut batch)?;
        Ok(batch)
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
            let batch = evaluate(&*evaluator, &games()).unwrap();
            for (index, game) in games().iter().enumerate() {
                let policy = batch.policy(index);
                let expected = match game.position().turn() == theirs {
                    true => opponent.policy(policy.len()),
                    false => main.policy(policy.len()),
                };
                assert_close(policy, expected);
                assert_eq!(batch.value(index).wl, WL);
            }
            // One batch, and the second network saw its half of it.
            assert_eq!((main.asked(), opponent.asked()), (4, 2));
        }
    }

    #[test]
    fn half_a_mixture_lies_half_way_and_sums_to_one() {
        let (main, opponent) = (Fake::main(), Fake::opponent());
        let evaluator = against(&main, &opponent, "0.5", Color::White);
        let batch = evaluate(&*evaluator, &games()).unwrap();
        let policy = batch.policy(1);
        let both = main.policy(20).into_iter().zip(opponent.policy(20));
        assert_close(policy, both.map(|(a, b)| (a + b) / 2.0));
        assert!((policy.iter().sum::<f32>() - 1.0).abs() < 1e-3);
        assert_close(batch.policy(0), main.policy(20));
    }

    #[test]
    fn running_both_at_once_changes_nothing_and_a_batch_can_be_evaluated_again() {
        let (main, opponent) = (Fake::main(), Fake::opponent());
        let both = |overlaps| OpponentPriors {
            main: main.clone(),
            opponent: opponent.clone(),
            side: Color::Black,
            share: 0.3,
            overlaps,
        };
        let (alone, overlapping) = (both(false), both(true));
        let expected = evaluate(&alone, &games()).unwrap();
        let mut batch = evaluate(&overlapping, &games()).unwrap();
        for _ in 0..2 {
            for index in 0..4 {
                assert_eq!(batch.policy(index), expected.policy(index));
            }
            overlapping.evaluate(&mut batch).unwrap();
        }
        batch.clear();
        overlapping.evaluate(&mut batch).unwrap();
        assert!(batch.is_empty());
    }

    /// The two networks behind caches.
    fn cached(main: &Arc<Fake>, opponent: &Arc<Fake>) -> Networks {
        Networks {
            main: Arc::new(Cached::new(main.clone(), 100)),
            opponent: Some(Arc::new(Cached::new(opponent.clone(), 100))),
        }
    }

    #[test]
    fn each_network_has_its_own_cache_and_neither_holds_a_mixture() {
        let (main, opponent) = (Fake::main(), Fake::opponent());
        let networks = cached(&main, &opponent);
        let evaluator = networks.against(&options("0.7"), Some(Color::White));
        let batch = evaluate(&*evaluator, &games()).unwrap();
        assert_eq!((main.asked(), opponent.asked()), (4, 2));
        for (index, game) in games().iter().enumerate() {
            let mut policy = vec![0.0; moves(game).len()];
            // A hit is what a miss would have stored, in the tree's own precision.
            let hit = evaluator.probe(game.plies(), &mut policy);
            assert_eq!(hit, Some(batch.value(index)));
            for (hit, miss) in policy.iter().zip(batch.policy(index)) {
                assert_eq!(prior::encode(*hit), prior::encode(*miss));
            }
            // Without an opponent the main network's own answers are there.
            let alone = networks.against(&options("0.7"), None);
            assert!(alone.probe(game.plies(), &mut policy).is_some());
            assert_close(&policy, main.policy(policy.len()));
        }
        evaluate(&*evaluator, &games()).unwrap();
        assert_eq!((main.asked(), opponent.asked()), (0, 0));
        assert!(evaluator.cache_permille() > 0);
    }

    #[test]
    fn a_network_is_asked_only_for_what_it_has_not_said_yet() {
        let (main, opponent) = (Fake::main(), Fake::opponent());
        let networks = cached(&main, &opponent);
        let white = networks.against(&options("1"), Some(Color::White));
        let black = networks.against(&options("1"), Some(Color::Black));
        evaluate(&*white, &games()[..2]).unwrap();
        assert_eq!((main.asked(), opponent.asked()), (2, 1));
        // The other colour: the main network knows both positions, the opponent's only one that it is not asked about.
        let mut policy = vec![0.0; 20];
        let start = &games()[0];
        assert_eq!(black.probe(start.plies(), &mut policy), None);
        let batch = evaluate(&*black, &games()).unwrap();
        assert_eq!((main.asked(), opponent.asked()), (2, 2));
        assert_close(batch.policy(0), opponent.policy(20));
        assert_close(batch.policy(1), main.policy(20));
        assert_eq!(batch.value(0).wl, WL);
        // Another opponent beside the same main network.
        let other = Fake::new(0.9, 0.0);
        let networks = Networks {
            opponent: Some(other.clone()),
            ..networks
        };
        let other_white = networks.against(&options("1"), Some(Color::White));
        let batch = evaluate(&*other_white, &games()).unwrap();
        assert_eq!((main.asked(), other.asked()), (0, 2));
        assert_close(batch.policy(1), other.policy(20));
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
        pushed.push(1, None, &moves(&games()[0]));
        assert!(evaluator.evaluate(&mut pushed).is_err());
    }

    #[test]
    fn without_an_opponent_there_is_one_network_and_the_user_is_told() {
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
        assert!(why_idle(&idle).is_none() && !is_wanted(&idle));
    }

    #[test]
    fn a_second_network_that_is_asked_for_is_never_dropped() {
        let load = |role| match role {
            Role::Main => Ok(Fake::main() as Arc<dyn Evaluator>),
            Role::Opponent => Err(anyhow::anyhow!("no such file")),
        };
        let error = Networks::load(&options("1"), load).err().unwrap();
        assert_eq!(format!("{error:#}"), "OpponentWeights: no such file");
        let one = Networks::load(&Options::default(), load).unwrap();
        assert_eq!(one.describe(), "fake 1");
        let both = cached(&Fake::main(), &Fake::opponent()).describe();
        assert_eq!(both, "fake 1; the opponent's priors: fake 0.5");
    }
}
