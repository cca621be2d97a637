//! The priors of a leaf from the network's: the one place where a search changes priors before they are written into
//! the tree. Neither the evaluation cache nor refined priors are affected.

use std::sync::Arc;

use shakmaty::{Color, Position};

use super::{butterfly::Butterfly, job::Job};
use crate::chess::{PackedMove, turn_after};

/// The changes of priors in one search.
#[derive(Clone, Debug, Default)]
pub(super) struct LeafPriors {
    butterfly: Option<WeightedButterfly>,
    /// Priors of this side's moves stay as they are: they are a model of the opponent's.
    pub modelled: Option<Color>,
}

#[derive(Clone, Debug)]
struct WeightedButterfly {
    means: Arc<Butterfly>,
    /// By how much a change of the value by 1 changes the logit of a move.
    weight: f32,
    /// The side to move at the root.
    root_turn: Color,
}

impl LeafPriors {
    /// The changes that a job's options configure.
    pub fn new(job: &Job, butterfly: Option<&Arc<Butterfly>>) -> LeafPriors {
        let butterfly = butterfly.map(|means| WeightedButterfly {
            means: Arc::clone(means),
            weight: job.options.butterfly_history(),
            root_turn: job.history.position().turn(),
        });
        LeafPriors {
            butterfly,
            modelled: None,
        }
    }

    /// The priors of a leaf as [`LeafPriors::change`] makes them, in `room` if there is anything to change.
    pub fn changed<'p>(
        &self,
        (depth, moves): (usize, &[PackedMove]),
        priors: &'p [f32],
        room: &'p mut Vec<f32>,
    ) -> &'p [f32] {
        if self.butterfly.is_none() {
            return priors;
        }
        room.clear();
        room.extend_from_slice(priors);
        self.change(depth, moves, room);
        room
    }

    /// Changes the priors (which add up to 1 before and after) of the moves of a leaf `depth` plies below the root.
    pub fn change(&self, depth: usize, moves: &[PackedMove], priors: &mut [f32]) {
        let Some(butterfly) = &self.butterfly else {
            return;
        };
        let turn = turn_after(butterfly.root_turn, depth);
        if self.modelled == Some(turn) {
            return;
        }
        let mut sum = 0.0;
        for (prior, &m) in priors.iter_mut().zip(moves) {
            *prior *= (butterfly.weight * butterfly.means.of(turn, m)).exp();
            sum += *prior;
        }
        if sum > 0.0 {
            priors.iter_mut().for_each(|prior| *prior /= sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::{History, moves::legal_moves},
        options::Options,
        search::Limits,
    };

    /// The changes with this weight at the start position, where the first move of White has gained 0.4 again and
    /// again.
    fn changes(weight: f32) -> (LeafPriors, Vec<PackedMove>) {
        let options = Options {
            butterfly_history: weight,
            ..Options::default()
        };
        let game = History::default();
        let moves: Vec<PackedMove> = legal_moves(game.position()).collect();
        let butterfly = Arc::new(Butterfly::default());
        for _ in 0..1000 {
            butterfly.record(Color::White, moves[0], 0.4);
        }
        let job = Job::new(game, Limits::default(), options.search());
        (LeafPriors::new(&job, Some(&butterfly)), moves)
    }

    #[test]
    fn the_logit_of_a_move_grows_by_its_mean_times_the_weight() {
        let (changes, moves) = changes(5.0);
        let before = [0.1, 0.2, 0.7];
        let mut priors = before;
        changes.change(2, &moves[..3], &mut priors);
        assert!((priors.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!((priors[1] / priors[2] - before[1] / before[2]).abs() < 1e-6);
        let ratio = (priors[0] / priors[1]) / (before[0] / before[1]);
        assert!((ratio.ln() - 2.0).abs() < 1e-3, "{ratio}");
    }

    #[test]
    fn the_other_sides_moves_and_a_modelled_sides_stay_as_they_are() {
        let (mut changes, moves) = changes(5.0);
        let before = [0.1, 0.2, 0.7];
        let mut priors = before;
        changes.change(1, &moves[..3], &mut priors);
        assert_eq!(priors, before);
        changes.modelled = Some(Color::White);
        changes.change(0, &moves[..3], &mut priors);
        assert_eq!(priors, before);
        changes.modelled = Some(Color::Black);
        changes.change(0, &moves[..3], &mut priors);
        assert_ne!(priors, before);
    }
}
