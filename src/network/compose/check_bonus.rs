//! More of a prior for moves that give check (`CheckBonus`).
//!
//! A policy that learnt from games thinks little of moves that give material away, so a search comes too late to those that
//! force mate. Checks leave few replies, so to look at them costs little.

use std::sync::Arc;

use crate::{
    chess::{PackedMove, Ply, checks::Checks},
    network::{Batch, EvaluateError, Evaluator, Immediate, Value},
};

/// Raises the priors of moves that give check. Stands behind the cache, which keeps what comes out.
pub struct Raised {
    inner: Arc<dyn Evaluator>,
    bonus: f32,
}

impl Raised {
    /// In front of another evaluator. Of the moves that give check, those with a prior below `bonus` (more than 0) get so much more, before the
    /// priors are made to sum to 1 again.
    pub fn new(inner: Arc<dyn Evaluator>, bonus: f32) -> Raised {
        Raised { inner, bonus }
    }
}

/// Raises those of the priors whose moves give check.
fn raise(policy: &mut [f32], bonus: f32, gives_check: impl Fn(usize) -> bool) {
    let mut sum = 1.0;
    for (index, p) in policy.iter_mut().enumerate() {
        if *p < bonus && gives_check(index) {
            *p += bonus;
            sum += bonus;
        }
    }
    if sum > 1.0 {
        policy.iter_mut().for_each(|p| *p /= sum);
    }
}

impl Evaluator for Raised {
    fn inner(&self) -> Option<&dyn Evaluator> {
        Some(&*self.inner)
    }

    fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
        self.inner.evaluate(batch)?;
        for index in 0..batch.len() {
            let (checks, policy) = batch.checks_mut(index);
            raise(policy, self.bonus, |index| checks[index]);
        }
        Ok(())
    }

    fn queue(&self, line: &[Ply], moves: &[PackedMove], batch: &mut Batch) -> usize {
        let index = self.inner.queue(line, moves, batch);
        if let Some(checks) = Checks::after(line) {
            batch.mark_checks(index, |m| checks.are_given_by(m));
        }
        index
    }

    fn immediate(&self) -> Option<&dyn Immediate> {
        self.inner.immediate().map(|_| self as &dyn Immediate)
    }
}

impl Immediate for Raised {
    fn value(&self, line: &[Ply]) -> Value {
        let inner = self.inner.immediate();
        inner.map_or(Value::default(), |inner| inner.value(line))
    }

    fn policy(&self, line: &[Ply], moves: &[PackedMove], temperature: f32, policy: &mut [f32]) {
        let Some(inner) = self.inner.immediate() else {
            return;
        };
        inner.policy(line, moves, temperature, policy);
        if let Some(checks) = Checks::after(line) {
            raise(policy, self.bonus, |index| {
                checks.are_given_by(moves[index])
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::moves::legal_moves,
        network::{cache::Cached, tests::game},
    };

    /// Thinks more of a move the later it comes; at once or in batches.
    struct Rising;

    impl Evaluator for Rising {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            for index in 0..batch.len() {
                let (_, policy) = batch.policy_mut(index);
                Rising.policy(&[], &[], 1.0, policy);
            }
            Ok(())
        }

        fn immediate(&self) -> Option<&dyn Immediate> {
            Some(self)
        }
    }

    impl Immediate for Rising {
        fn value(&self, _: &[Ply]) -> Value {
            Value::default()
        }

        fn policy(&self, _: &[Ply], _: &[PackedMove], _: f32, policy: &mut [f32]) {
            let sum = policy.len() * (policy.len() + 1) / 2;
            for (index, p) in policy.iter_mut().enumerate() {
                *p = (index + 1) as f32 / sum as f32;
            }
        }
    }

    #[test]
    fn unlikely_checks_get_the_bonus_and_all_else_keeps_its_proportions() {
        const BONUS: f32 = 0.05;
        // Each move of the knight uncovers the rook; the rook's own moves give none.
        let game = game("4k3/8/8/4N3/8/8/4R3/K7 w - - 0 1", "");
        let moves: Vec<_> = legal_moves(game.position()).collect();
        let (mut plain, mut at_once) = (vec![0.0; moves.len()], vec![0.0; moves.len()]);
        Rising.policy(&[], &[], 1.0, &mut plain);
        let checks = Checks::of(game.position()).unwrap();
        let gets_bonus = |index: usize| plain[index] < BONUS && checks.are_given_by(moves[index]);
        let raised = (0..moves.len()).filter(|&index| gets_bonus(index)).count();
        assert!(raised > 0 && raised < moves.len(), "{raised}");
        let sum = 1.0 + BONUS * raised as f32;

        let evaluator = Arc::new(Raised::new(Arc::new(Rising), BONUS));
        let immediate = evaluator.immediate().unwrap();
        immediate.policy(game.plies(), &moves, 1.0, &mut at_once);
        for (index, &p) in at_once.iter().enumerate() {
            let bonus = if gets_bonus(index) { BONUS } else { 0.0 };
            assert!((p - (plain[index] + bonus) / sum).abs() < 1e-6, "{index}");
        }
        assert!((at_once.iter().sum::<f32>() - 1.0).abs() < 1e-5);

        // The same in batches, of which positions nobody asked about the checks stay as they are, and from the cache.
        let cached = Cached::new(evaluator, 100);
        let mut batch = Batch::default();
        batch.push(7, &moves);
        let index = cached.queue(game.plies(), &moves, &mut batch);
        cached.evaluate(&mut batch).unwrap();
        assert_eq!(batch.policy(0), plain);
        assert_eq!(batch.policy(index), at_once);
        let mut kept = vec![0.0; moves.len()];
        assert!(cached.probe(game.plies(), &mut kept).is_some());
        assert!(kept.iter().zip(&at_once).all(|(a, b)| (a - b).abs() < 1e-3));
    }
}
