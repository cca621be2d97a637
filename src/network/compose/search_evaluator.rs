//! What one search evaluates positions with: the main network and, if the options name them, the network of a modelled
//! opponent and the network that refines priors.
//!
//! At the nodes where the opponent moves, the priors of its network are mixed into the main network's. The value of a
//! position is always the main network's. Each network has its own cache, and the mixture is in neither.
//!
//! A network that refines priors (`RefineWeights`) is better than the main one and slower. It is used for positions
//! with many visits: there a wrong prior costs most, and the evaluation costs little beside the visits that the
//! position has had. Values stay those of the main network, for a position with hundreds of visits has its value from
//! what lies below it.
//!
//! A batch is split into sub-batches, one for each network; what is in a network's cache is not evaluated again.

use std::{panic, sync::Arc, thread};

use parking_lot::Mutex;
use shakmaty::{Color, Position};

use super::prior_transforms::{PriorContext, PriorTransform};
use crate::{
    chess::{PackedMove, Ply, moves::MAX_MOVES},
    network::{
        Added, Batch, EvalPosition, EvaluateError, Evaluator, Info, batch::SubBatch,
        evaluator::add_with_priors, input::View,
    },
    threads,
};

/// The evaluator of one search.
pub struct SearchEvaluator {
    main: Arc<dyn Evaluator>,
    opponent: Option<ModelledOpponent>,
    refiner: Option<Arc<dyn Evaluator>>,
    /// Whether all priors can be computed when they are needed.
    computes_at_once: bool,
}

/// The network that gives the priors where the opponent moves.
pub struct ModelledOpponent {
    /// The network.
    pub network: Arc<dyn Evaluator>,
    /// The opponent's side.
    pub side: Color,
    /// The share of its priors, 0..=1.
    pub share: f32,
    /// Whether there are processors left for running both networks at the same time. Where search threads keep all of
    /// them busy, another thread per batch would only be in their way.
    pub overlaps: bool,
}

/// The sub-batches of a batch: for each network, the positions that wait for it and those that it has evaluated
/// already.
mod part {
    pub(super) const MAIN_QUEUED: usize = 0;
    pub(super) const MAIN_KNOWN: usize = 1;
    pub(super) const OPPONENT_QUEUED: usize = 2;
    pub(super) const OPPONENT_KNOWN: usize = 3;
}

/// Runs `work` on a thread that suits all of these networks.
fn run_on_worker_threads(networks: &[&Arc<dyn Evaluator>], work: &mut (dyn FnMut() + Send)) {
    match networks {
        [] => work(),
        [first, rest @ ..] => {
            first.run_on_worker_thread(&mut || run_on_worker_threads(rest, work));
        }
    }
}

/// Evaluates the positions of a sub-batch, if there are any.
fn evaluate_part(evaluator: &dyn Evaluator, part: &mut SubBatch) -> Result<(), EvaluateError> {
    if part.batch.is_empty() {
        Ok(())
    } else {
        evaluator.evaluate(&mut part.batch)
    }
}

/// Notes in the batch which of its positions (`index`) a network has been given, and the answer if there is one.
fn record(
    batch: &mut Batch,
    [queued, known]: [usize; 2],
    added: Added,
    index: usize,
    moves: &[PackedMove],
    priors: &[f32],
) {
    match added {
        Added::Queued(_) => batch.part(queued).indices.push(index),
        Added::Fetched(value) | Added::Computed(value) => {
            let known = batch.part(known);
            let place = known.batch.push(0, moves);
            known.batch.set_value(place, value);
            known.batch.policy_mut(place).1.copy_from_slice(priors);
            known.indices.push(index);
        }
    }
}

impl ModelledOpponent {
    /// Whether the opponent moves at the end of this line.
    fn moves_after(&self, line: &[Ply]) -> bool {
        line.last()
            .is_some_and(|ply| ply.position.turn() == self.side)
    }

    /// Makes priors of the main network those of a position in which the opponent moves.
    fn transform(&self, mains: &mut [f32], opponents: &[f32]) {
        let context = PriorContext {
            opponents,
            ..PriorContext::default()
        };
        PriorTransform::OpponentMix(self.share).apply(mains, &context);
    }
}

impl SearchEvaluator {
    /// The main network, with that of an opponent and one that refines priors.
    pub fn new(
        main: Arc<dyn Evaluator>,
        opponent: Option<ModelledOpponent>,
        refiner: Option<Arc<dyn Evaluator>>,
    ) -> SearchEvaluator {
        let at_once = |network: &Arc<dyn Evaluator>| network.info().computes_at_once;
        let mut others = opponent.iter().map(|opponent| &opponent.network);
        SearchEvaluator {
            computes_at_once: at_once(&main) && others.all(at_once),
            main,
            opponent,
            refiner,
        }
    }

    /// Adds a position to the batches of both networks, as far as they do not have it in their caches.
    fn add_to_both(
        &self,
        opponent: &ModelledOpponent,
        position: &mut EvalPosition<'_>,
        batch: &mut Batch,
    ) -> Added {
        let queued = &mut batch.part(part::MAIN_QUEUED).batch;
        let mains = add_with_priors(&*self.main, position, queued);
        let mut priors = [0.0; MAX_MOVES];
        let opponents = opponent.moves_after(position.line()).then(|| {
            let queued = &mut batch.part(part::OPPONENT_QUEUED).batch;
            let mut position = position.with_priors(&mut priors);
            add_with_priors(&*opponent.network, &mut position, queued)
        });
        let key = self.view().key(position.line());
        let (moves, main_priors) = position.policy();
        match (mains, opponents) {
            (Added::Fetched(_), None) => return mains,
            (Added::Fetched(_), Some(Added::Fetched(_))) => {
                opponent.transform(main_priors, &priors);
                return mains;
            }
            _ => {}
        }
        let index = batch.push(key, moves);
        let parts = [part::MAIN_QUEUED, part::MAIN_KNOWN];
        record(batch, parts, mains, index, moves, main_priors);
        if let Some(added) = opponents {
            let parts = [part::OPPONENT_QUEUED, part::OPPONENT_KNOWN];
            record(batch, parts, added, index, moves, &priors[..moves.len()]);
        }
        Added::Queued(index)
    }

    fn evaluate_parts(
        &self,
        opponent: &ModelledOpponent,
        mains: &mut SubBatch,
        opponents: &mut SubBatch,
    ) -> Result<(), EvaluateError> {
        let are_both_needed = !mains.batch.is_empty() && !opponents.batch.is_empty();
        if !(opponent.overlaps && are_both_needed) {
            evaluate_part(&*self.main, mains)?;
            return evaluate_part(&*opponent.network, opponents);
        }
        let opponents = Mutex::new(opponents);
        let evaluate = || evaluate_part(&*opponent.network, &mut opponents.lock());
        let (mains, opponents) = thread::scope(|scope| {
            let beside = threads::spawn_scoped(scope, "opponent", evaluate);
            let mains = evaluate_part(&*self.main, mains);
            let opponents = match beside {
                // A crash over there is a crash here, as it would be without a second thread.
                Ok(beside) => beside.join().unwrap_or_else(|it| panic::resume_unwind(it)),
                Err(_) => evaluate(),
            };
            (mains, opponents)
        });
        mains.and(opponents)
    }

    /// Combines the evaluations: the main network's, then the opponent's priors.
    fn merge(
        opponent: &ModelledOpponent,
        parts: &[SubBatch],
        batch: &mut Batch,
    ) -> Result<(), EvaluateError> {
        let (mains, opponents) = parts.split_at(part::OPPONENT_QUEUED);
        let evaluated: usize = mains.iter().map(|part| part.indices.len()).sum();
        if evaluated != batch.len() {
            return Err(EvaluateError::Backend {
                backend: "opponent",
                batch: batch.len(),
                message: format!("only {evaluated} positions were queued by this evaluator"),
            });
        }
        for (index, value, priors) in mains.iter().flat_map(SubBatch::evaluations) {
            batch.set_value(index, value);
            batch.policy_mut(index).1.copy_from_slice(priors);
        }
        for (index, _, priors) in opponents.iter().flat_map(SubBatch::evaluations) {
            opponent.transform(batch.policy_mut(index).1, priors);
        }
        Ok(())
    }
}

impl Evaluator for SearchEvaluator {
    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        let Some(opponent) = &self.opponent else {
            return self.main.evaluate(batch);
        };
        // The last one, so that all are there.
        batch.part(part::OPPONENT_KNOWN);
        let mut parts = batch.take_parts();
        let (mains, opponents) = parts.split_at_mut(part::OPPONENT_QUEUED);
        let result = self
            .evaluate_parts(opponent, &mut mains[0], &mut opponents[0])
            .and_then(|()| SearchEvaluator::merge(opponent, &parts, batch));
        batch.put_parts(parts);
        result
    }

    fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
        match &self.opponent {
            Some(opponent) if !self.computes_at_once => self.add_to_both(opponent, position, batch),
            // The value is the main network's; the opponent's priors are computed when they are needed.
            _ => self.main.add(position, batch),
        }
    }

    fn priors(&self, position: &mut EvalPosition<'_>, temperature: f32) {
        self.main.priors(position, temperature);
        if let Some(opponent) = &self.opponent
            && opponent.moves_after(position.line())
        {
            let mut priors = [0.0; MAX_MOVES];
            let mut opponents = position.with_priors(&mut priors);
            opponent.network.priors(&mut opponents, temperature);
            opponent.transform(position.policy().1, &priors);
        }
    }

    fn view(&self) -> &View {
        self.main.view()
    }

    fn info(&self) -> Info {
        let mut info = Info {
            computes_at_once: self.computes_at_once,
            ..self.main.info()
        };
        if let Some(ModelledOpponent { network, side, .. }) = &self.opponent {
            let opponents = network.info();
            info.description += &format!("; {side}'s priors from {}", opponents.description);
            info.cache.permille = info.cache.permille.max(opponents.cache.permille);
            info.cache.bytes += opponents.cache.bytes;
        }
        info
    }

    fn refiner(&self) -> Option<&dyn Evaluator> {
        self.refiner.as_deref()
    }

    fn modelled_side(&self) -> Option<Color> {
        self.opponent.as_ref().map(|opponent| opponent.side)
    }

    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        let opponent = self.opponent.iter().map(|opponent| &opponent.network);
        let networks = std::iter::once(&self.main).chain(opponent);
        let networks: Vec<_> = networks.chain(&self.refiner).collect();
        run_on_worker_threads(&networks, work);
    }
}
