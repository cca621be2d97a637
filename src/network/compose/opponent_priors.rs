//! The priors of the opponent's network at the nodes where the opponent moves, wholly or mixed into the main network's.
//! The value of a position is always the main network's.
//!
//! A batch is split into sub-batches, one for each network; what a network's cache knows already is not asked again.

use std::{panic, sync::Arc, thread};

use shakmaty::{Color, Position};

use crate::{
    chess::{PackedMove, Ply, moves::MOST_MOVES},
    network::{Batch, EvaluateError, Evaluator, Immediate, Value, batch::SubBatch, prior},
};

/// The evaluator of a search against `side`, with a network of the engine's own and one of the opponent's.
///
/// Both evaluators may be caches; a cache *over* this one would mistake one side's priors for the other's.
pub struct OpponentPriors {
    /// The engine's own network.
    pub main: Arc<dyn Evaluator>,
    /// The opponent's.
    pub opponent: Arc<dyn Evaluator>,
    /// At this side's nodes the opponent's network is asked.
    pub side: Color,
    /// Its share in their priors, 0..=1.
    pub share: f32,
    /// Whether there are processors left for running both networks at the same time. Where search threads keep all of
    /// them busy, another thread per batch would only be in their way.
    pub overlaps: bool,
}

/// The sub-batches of a batch: for each network, what it is asked and what its cache has answered already.
mod part {
    pub(super) const MAIN_ASKED: usize = 0;
    pub(super) const MAIN_KNOWN: usize = 1;
    pub(super) const OPPONENT_ASKED: usize = 2;
    pub(super) const OPPONENT_KNOWN: usize = 3;
}

/// A position for one of the networks.
struct Question<'a> {
    /// Its index in the whole batch.
    index: usize,
    line: &'a [Ply],
    moves: &'a [PackedMove],
}

impl Question<'_> {
    /// Has it answered from the evaluator's cache, or queues it in the sub-batch of what is asked.
    fn queue(&self, evaluator: &dyn Evaluator, batch: &mut Batch, asked: usize, known: usize) {
        let mut buffer = [0.0; MOST_MOVES];
        let policy = &mut buffer[..self.moves.len().min(MOST_MOVES)];
        match evaluator.probe(self.line, policy) {
            Some(value) => {
                let known = batch.part(known);
                let place = known.batch.push(0, self.moves);
                known.batch.set_value(place, value);
                known.batch.policy_mut(place).1.copy_from_slice(policy);
                known.of.push(self.index);
            }
            None => {
                let asked = batch.part(asked);
                evaluator.queue(self.line, self.moves, &mut asked.batch);
                asked.of.push(self.index);
            }
        }
    }
}

/// Has a network evaluate what it is asked, if that is anything.
fn evaluate_part(evaluator: &dyn Evaluator, asked: &mut SubBatch) -> Result<(), EvaluateError> {
    match asked.batch.is_empty() {
        true => Ok(()),
        false => evaluator.evaluate(&mut asked.batch),
    }
}

impl OpponentPriors {
    /// Whether the opponent moves at the end of this line.
    fn is_opponents(&self, line: &[Ply]) -> bool {
        line.last()
            .is_some_and(|ply| ply.position.turn() == self.side)
    }

    /// Mixes the opponent's policy into the main network's. Both are rounded first as a cache would, so that the mixture
    /// does not depend on who answered.
    fn mix(&self, opponents: &[f32], mains: &mut [f32]) {
        let rounded = |p| prior::decode(prior::encode(p));
        for (&opponents, mains) in opponents.iter().zip(mains) {
            *mains = self.share * rounded(opponents) + (1.0 - self.share) * rounded(*mains);
        }
    }

    fn evaluate_parts(
        &self,
        main: &mut SubBatch,
        opponent: &mut SubBatch,
    ) -> Result<(), EvaluateError> {
        let is_needed = !main.batch.is_empty() && !opponent.batch.is_empty();
        if !(self.overlaps && is_needed) {
            evaluate_part(&*self.main, main)?;
            return evaluate_part(&*self.opponent, opponent);
        }
        let (mains, opponents) = thread::scope(|scope| {
            let beside = scope.spawn(|| evaluate_part(&*self.opponent, opponent));
            let mains = evaluate_part(&*self.main, main);
            // A crash over there is a crash here, as it would be without a second thread.
            let opponents = beside.join().unwrap_or_else(|it| panic::resume_unwind(it));
            (mains, opponents)
        });
        mains.and(opponents)
    }

    /// Puts the answers together: the main network's, then the opponent's priors over or into them.
    fn merge(&self, parts: &[SubBatch], batch: &mut Batch) -> Result<(), EvaluateError> {
        let (mains, opponents) = parts.split_at(part::OPPONENT_ASKED);
        let answered: usize = mains.iter().map(|part| part.of.len()).sum();
        if answered != batch.len() {
            return Err(EvaluateError::Backend {
                backend: "opponent",
                batch: batch.len(),
                message: format!("only {answered} positions were queued by this evaluator"),
            });
        }
        for (index, value, policy) in mains.iter().flat_map(SubBatch::answers) {
            batch.set_value(index, value);
            batch.policy_mut(index).1.copy_from_slice(policy);
        }
        for (index, _, policy) in opponents.iter().flat_map(SubBatch::answers) {
            self.mix(policy, batch.policy_mut(index).1);
        }
        Ok(())
    }
}

impl Evaluator for OpponentPriors {
    fn inner(&self) -> Option<&dyn Evaluator> {
        Some(&*self.main)
    }

    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        // The last one, so that all are there.
        batch.part(part::OPPONENT_KNOWN);
        let mut parts = batch.take_parts();
        let (mains, opponents) = parts.split_at_mut(part::OPPONENT_ASKED);
        let result = self
            .evaluate_parts(&mut mains[0], &mut opponents[0])
            .and_then(|()| self.merge(&parts, batch));
        batch.put_parts(parts);
        result
    }

    fn immediate(&self) -> Option<&dyn Immediate> {
        let both = self.main.immediate().and(self.opponent.immediate());
        both.map(|_| self as &dyn Immediate)
    }

    fn run_on_worker_thread(&self, work: &mut (dyn FnMut() + Send)) {
        self.main
            .run_on_worker_thread(&mut || self.opponent.run_on_worker_thread(work));
    }

    fn probe(&self, line: &[Ply], policy: &mut [f32]) -> Option<Value> {
        let value = self.main.probe(line, policy)?;
        if self.is_opponents(line) {
            let mut buffer = [0.0; MOST_MOVES];
            let opponents = buffer.get_mut(..policy.len())?;
            self.opponent.probe(line, opponents)?;
            self.mix(opponents, policy);
        }
        Some(value)
    }

    fn queue(&self, line: &[Ply], moves: &[PackedMove], batch: &mut Batch) -> usize {
        let index = batch.push(self.view().key(line), moves);
        let question = Question { index, line, moves };
        question.queue(&*self.main, batch, part::MAIN_ASKED, part::MAIN_KNOWN);
        if self.is_opponents(line) {
            question.queue(
                &*self.opponent,
                batch,
                part::OPPONENT_ASKED,
                part::OPPONENT_KNOWN,
            );
        }
        index
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

impl Immediate for OpponentPriors {
    fn value(&self, line: &[Ply]) -> Value {
        let main = self.main.immediate();
        main.map_or(Value::default(), |main| main.value(line))
    }

    fn policy(&self, line: &[Ply], moves: &[PackedMove], temperature: f32, policy: &mut [f32]) {
        let (Some(main), Some(opponent)) = (self.main.immediate(), self.opponent.immediate())
        else {
            return;
        };
        main.policy(line, moves, temperature, policy);
        if self.is_opponents(line) {
            let mut buffer = [0.0; MOST_MOVES];
            let opponents = &mut buffer[..policy.len().min(MOST_MOVES)];
            opponent.policy(line, moves, temperature, opponents);
            self.mix(opponents, policy);
        }
    }
}
