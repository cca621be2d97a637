//! Traps, as statements with evidence: *this* reply, which looks natural and which people play in a stated share of
//! such positions, loses a stated amount against best play, and the move that sets the trap costs a stated amount.
//!
//! A *likely mistake* is a property of a position: a move that the model of the player, which does not calculate,
//! expects, and that loses. The loss is the difference between the plain search of the position and a plain search of
//! that move alone. People do calculate, so they play such a move less often than the model says, and the less often,
//! the more it loses ([`share_of_players`]). A move sets a trap if it leads to a position with a likely mistake, costs
//! little itself, is not the move that everybody would play, and if its alternatives would not have offered as much.
//! The numbers of a trap are those of longer searches than the ones that found it.

use serde::{Deserialize, Serialize};

/// Minimum probability of a likely mistake by the model.
pub const MIN_POLICY: f32 = 0.2;
/// Minimum loss of a likely mistake in W-L (0 to 2).
pub const MIN_LOSS: f32 = 0.3;
/// Minimum of the share of players times the loss for a trap.
pub const MIN_WORTH: f32 = 0.02;
/// Maximum cost of a move that sets a trap, in W-L.
pub const MAX_COST: f32 = 0.1;
/// A reply to a trap that loses less W-L than this meets it.
pub const MAX_MET_LOSS: f32 = 0.1;
/// A move that the model of its player plays with more than this probability is obvious, and sets no trap.
pub const MAX_OBVIOUS: f32 = 0.6;
/// The largest part of a trap's worth that another good move may offer.
pub const MAX_USUAL: f32 = 0.5;

/// The share (0 to 1) of players of this rating who play a move that the model expects with the probability `policy`
/// and that loses this much W-L. A logistic regression on what players did in tournament games (docs/analysis.md),
/// among them few that were rated below 1700.
pub fn share_of_players(policy: f32, loss: f32, rating: u32) -> f32 {
    let policy = policy.clamp(0.001, 0.999);
    let by_policy = 0.80 * (policy / (1.0 - policy)).ln();
    let by_loss = -1.61 * loss.clamp(0.01, 2.0).ln();
    let by_rating = -0.37 * (rating as f32 - 2000.0) / 400.0;
    let logit = -3.88 + by_policy + by_loss + by_rating;
    1.0 / (1.0 + (-logit).exp())
}

/// A likely mistake in a position. Moves are in UCI's notation, and in standard algebraic notation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MistakeRecord {
    /// The reply.
    #[serde(rename = "move")]
    pub m: String,
    /// In standard algebraic notation.
    pub san: String,
    /// The probability with which the model expects it, 0 to 1.
    pub policy: f32,
    /// The share of players of this rating who play such a move, 0 to 1: [`share_of_players`].
    pub p: f32,
    /// The loss of W-L against best play, 0 to 2.
    pub loss: f32,
    /// The best reply, in standard algebraic notation.
    pub better: String,
    /// Who is modelled, in words: `a player rated 1500`, or the name of a network's file.
    pub model: String,
    /// The player's rating, or what is assumed.
    pub rating: u32,
}

impl MistakeRecord {
    /// The loss of W-L that is to be expected from this mistake: the share of players times the loss.
    pub fn worth(&self) -> f32 {
        self.p * self.loss
    }

    /// The same mistake with another loss.
    pub fn with_loss(self, loss: f32) -> MistakeRecord {
        MistakeRecord {
            p: share_of_players(self.policy, loss, self.rating),
            loss,
            ..self
        }
    }
}

/// A move that sets a trap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrapRecord {
    /// The move.
    #[serde(rename = "move")]
    pub m: String,
    /// In standard algebraic notation.
    pub san: String,
    /// What it costs against best play, in W-L.
    pub cost: f32,
    /// The reply that falls into it.
    pub mistake: MistakeRecord,
}

impl TrapRecord {
    /// Whether the numbers are those of a trap: the move costs little, and the reply loses enough.
    pub fn is_one(&self) -> bool {
        let MistakeRecord { loss, .. } = self.mistake;
        self.cost <= MAX_COST && loss >= MIN_LOSS && self.mistake.worth() >= MIN_WORTH
    }

    /// The evidence in words, in per cent of a point: `the reply Nxe4 looks natural (38 % by the model of a player
    /// rated 1900), but loses 27 % of a point (Be7 is best); such moves are played in 6 % of cases; setting the trap
    /// costs 1 %`.
    pub fn text(&self) -> String {
        let mistake = &self.mistake;
        let [policy, share] = [mistake.policy, mistake.p].map(|part| 100.0 * part);
        let [loss, cost] = [mistake.loss, self.cost].map(|wl| 50.0 * wl);
        format!(
            "the reply {} looks natural ({policy:.0} % by the model of {}), but loses {loss:.0} % of a point ({} is \
             best); such moves are played in {share:.0} % of cases; setting the trap costs {cost:.0} %",
            mistake.san, mistake.model, mistake.better
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_play_a_mistake_less_often_the_more_it_loses_and_the_better_they_are() {
        let share = share_of_players;
        // exp(-3.88 + 0.80 ln(0.25) - 1.61 ln(0.3)) = 0.0473.
        assert!((share(0.2, 0.3, 2000) - 0.0452).abs() < 1e-3);
        assert!(share(0.4, 0.3, 2000) > 1.8 * share(0.2, 0.3, 2000));
        assert!(share(0.4, 0.6, 2000) < 0.5 * share(0.4, 0.3, 2000));
        assert!(share(0.4, 0.3, 1600) > 1.3 * share(0.4, 0.3, 2000));
        for (policy, loss) in [(0.0, 2.0), (1.0, 0.0)] {
            let share = share(policy, loss, 2600);
            assert!(share > 0.0 && share < 1.0, "{share}");
        }
    }

    #[test]
    fn the_evidence_is_reply_share_loss_and_cost() {
        let mistake = |policy, loss| {
            MistakeRecord {
                m: "f6e4".into(),
                san: "Nxe4".into(),
                policy,
                p: 0.0,
                loss: 0.0,
                better: "Be7".into(),
                model: "a player rated 1500".into(),
                rating: 1500,
            }
            .with_loss(loss)
        };
        let trap = TrapRecord {
            m: "c3d5".into(),
            san: "Nd5".into(),
            cost: 0.02,
            mistake: mistake(0.384, 0.54),
        };
        assert!((trap.mistake.worth() - 0.0310).abs() < 1e-3, "{trap:?}");
        assert!(trap.is_one());
        let changed = |cost, policy, loss| {
            let mistake = mistake(policy, loss);
            let trap = trap.clone();
            TrapRecord {
                cost,
                mistake,
                ..trap
            }
            .is_one()
        };
        assert!(changed(MAX_COST, 0.25, 0.35));
        assert!(!changed(0.11, 0.25, 0.35), "too dear");
        assert!(!changed(0.02, 0.9, 0.29), "loses too little");
        assert!(!changed(0.02, 0.2, 0.8), "hardly anybody falls for it");
        let expected = "the reply Nxe4 looks natural (38 % by the model of a player rated 1500), but loses 27 % of a \
                        point (Be7 is best); such moves are played in 6 % of cases; setting the trap costs 1 %";
        assert_eq!(trap.text(), expected);
    }
}
