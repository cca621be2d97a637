//! What happens to the priors of a network before the tree gets them: a list of transforms, applied here and nowhere
//! else.
//!
//! The first one, the softmax temperature, is part of making probabilities of logits, and so is done by whoever has
//! the logits ([`Batch::policy_temperature`]). A transform that depends on the network and the position alone stands
//! below the cache, which keeps its result; one that depends on who plays stands above.

use crate::{
    chess::{PackedMove, Ply, checks::Checks},
    network::{Batch, prior},
};

/// One change of the priors of a position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PriorTransform {
    /// `CheckBonus`: moves that give check and have a prior below the bonus (more than 0) get it in addition,
    /// before the priors are made to sum to 1 again.
    ///
    /// A policy trained on games gives low priors to sacrifices, so that a search comes late to those that force
    /// mate. Checks leave few replies: searching them costs little.
    CheckBonus(f32),
    /// `OpponentPolicyMix`: the priors of the opponent's network have this share (0 to 1), those of the main network
    /// the rest. Both are rounded first as in a cache, so that the mixture does not depend on which of them came from
    /// there.
    OpponentMix(f32),
}

/// What transforms use besides the priors.
#[derive(Default)]
pub struct PriorContext<'a> {
    /// The moves that give check.
    pub checks: CheckingMoves<'a>,
    /// The priors of the opponent's network.
    pub opponents: &'a [f32],
}

/// Which moves of a position give check, by their index.
#[derive(Default)]
pub enum CheckingMoves<'a> {
    /// Not known: as if none did.
    #[default]
    Unknown,
    /// Marked in a batch.
    Marked(&'a [bool]),
    /// To be found where it matters.
    Of(Checks<'a>, &'a [PackedMove]),
}

impl<'a> CheckingMoves<'a> {
    /// Of the last position of a line, with its legal moves.
    pub fn of(line: &'a [Ply], moves: &'a [PackedMove]) -> CheckingMoves<'a> {
        let checks = Checks::after(line);
        checks.map_or(CheckingMoves::Unknown, |checks| {
            CheckingMoves::Of(checks, moves)
        })
    }

    fn contain(&self, index: usize) -> bool {
        match self {
            CheckingMoves::Unknown => false,
            CheckingMoves::Marked(marks) => marks[index],
            CheckingMoves::Of(checks, moves) => checks.gives_check(moves[index]),
        }
    }
}

impl PriorTransform {
    /// Notes in the batch what this transform will use of the queued position `index`, the last one of `line`.
    pub fn prepare(self, line: &[Ply], batch: &mut Batch, index: usize) {
        if let PriorTransform::CheckBonus(_) = self
            && let Some(checks) = Checks::after(line)
        {
            batch.mark_checks(index, |m| checks.gives_check(m));
        }
    }

    /// Changes the priors of a position.
    pub fn apply(self, priors: &mut [f32], context: &PriorContext<'_>) {
        match self {
            PriorTransform::CheckBonus(bonus) => add_check_bonus(priors, bonus, &context.checks),
            PriorTransform::OpponentMix(share) => mix(priors, context.opponents, share),
        }
    }
}

fn add_check_bonus(priors: &mut [f32], bonus: f32, checks: &CheckingMoves<'_>) {
    let mut sum = 1.0;
    for (index, p) in priors.iter_mut().enumerate() {
        if *p < bonus && checks.contain(index) {
            *p += bonus;
            sum += bonus;
        }
    }
    if sum > 1.0 {
        priors.iter_mut().for_each(|p| *p /= sum);
    }
}

fn mix(mains: &mut [f32], opponents: &[f32], share: f32) {
    let rounded = |p| prior::decode(prior::encode(p));
    for (&opponents, mains) in opponents.iter().zip(mains) {
        *mains = share * rounded(opponents) + (1.0 - share) * rounded(*mains);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        chess::moves::{MAX_MOVES, legal_moves},
        network::{
            Added, EvalPosition, EvaluateError, Evaluator, Info, Value,
            compose::cached::NetworkSettings, evaluator::evaluate_all, tests::game,
        },
    };

    /// A network whose prior of a move rises with its index, at once or in batches.
    struct Rising {
        at_once: bool,
    }

    fn rising(priors: &mut [f32]) {
        let sum = priors.len() * (priors.len() + 1) / 2;
        for (index, p) in priors.iter_mut().enumerate() {
            *p = (index + 1) as f32 / sum as f32;
        }
    }

    impl Evaluator for Rising {
        fn evaluate(&self, batch: &mut Batch) -> Result<(), EvaluateError> {
            for index in 0..batch.len() {
                rising(batch.policy_mut(index).1);
            }
            Ok(())
        }

        fn add(&self, position: &mut EvalPosition<'_>, batch: &mut Batch) -> Added {
            let line = position.line();
            if self.at_once {
                Added::Computed(Value::default())
            } else {
                Added::Queued(self.view().queue(line, position.moves(), batch))
            }
        }

        fn priors(&self, position: &mut EvalPosition<'_>, _: f32) {
            rising(position.policy().1);
        }

        fn info(&self) -> Info {
            Info {
                computes_at_once: self.at_once,
                ..Info::default()
            }
        }
    }

    const BONUS: f32 = 0.05;

    fn with_bonus(at_once: bool) -> Arc<dyn Evaluator> {
        let settings = NetworkSettings {
            check_bonus: BONUS,
            cache: 100,
            ..NetworkSettings::NONE
        };
        settings.over(Arc::new(Rising { at_once }))
    }

    #[test]
    fn unlikely_checks_get_the_bonus_and_all_else_keeps_its_proportions() {
        // Each move of the knight uncovers the rook; the rook's own moves give none.
        let game = game("4k3/8/8/4N3/8/8/4R3/K7 w - - 0 1", "");
        let moves: Vec<_> = legal_moves(game.position()).collect();
        let mut plain = vec![0.0; moves.len()];
        rising(&mut plain);
        let checks = Checks::of(game.position()).unwrap();
        let gets_bonus = |index: usize| plain[index] < BONUS && checks.gives_check(moves[index]);
        let raised = (0..moves.len()).filter(|&index| gets_bonus(index)).count();
        assert!(raised > 0 && raised < moves.len(), "{raised}");
        let sum = 1.0 + BONUS * raised as f32;

        let at_once = evaluate_all(&*with_bonus(true), [game.plies()]).unwrap();
        let at_once = &at_once[0].priors;
        for (index, &p) in at_once.iter().enumerate() {
            let bonus = if gets_bonus(index) { BONUS } else { 0.0 };
            assert!((p - (plain[index] + bonus) / sum).abs() < 1e-6, "{index}");
        }
        assert!((at_once.iter().sum::<f32>() - 1.0).abs() < 1e-5);

        // The same in batches, where positions whose checks are not marked stay as they are, and from the cache.
        let cached = with_bonus(false);
        let (mut batch, mut listed, mut kept) = (Batch::default(), Vec::new(), [0.0; MAX_MOVES]);
        batch.push(7, &moves);
        let mut position = EvalPosition::new(game.plies(), &mut listed, &mut kept);
        assert_eq!(cached.add(&mut position, &mut batch), Added::Queued(1));
        cached.evaluate(&mut batch).unwrap();
        assert_eq!(batch.policy(0), plain);
        assert_eq!(batch.policy(1), at_once);
        let added = cached.add(&mut position, &mut batch);
        assert_eq!(added, Added::Fetched(batch.value(1)));
        assert!(kept.iter().zip(at_once).all(|(a, b)| (a - b).abs() < 1e-3));
    }
}
