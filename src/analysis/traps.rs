//! Traps, as statements with evidence: *this* reply, which the modelled opponent plays with a stated probability, loses
//! a stated amount against best play, and the move that sets the trap costs a stated amount.
//!
//! A *likely mistake* is a property of a position: the probability is the model's, the loss is the difference between
//! the plain search of the position and a plain search of that move alone. A move sets a trap if it leads to a
//! position with a likely mistake, costs little itself, is not the move that everybody would play, and if its
//! alternatives would not have offered as much. The numbers of a trap are those of longer searches than the ones that
//! found it.

use serde::{Deserialize, Serialize};

/// Minimum probability of a likely mistake.
pub const MIN_PROBABILITY: f32 = 0.2;
/// Minimum loss of a likely mistake in W-L (0 to 2): that of a blunder on lichess.
pub const MIN_LOSS: f32 = 0.3;
/// Minimum of probability times loss for a trap.
pub const MIN_WORTH: f32 = 0.1;
/// Maximum cost of a move that sets a trap, in W-L.
pub const MAX_COST: f32 = 0.1;
/// A move that the model of its player plays with more than this probability is obvious, and sets no trap.
pub const MAX_OBVIOUS: f32 = 0.6;
/// The largest part of a trap's worth that another good move may offer.
pub const MAX_USUAL: f32 = 0.5;

/// A likely mistake in a position. Moves are in UCI's notation, and in standard algebraic notation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MistakeRecord {
    /// The reply.
    #[serde(rename = "move")]
    pub m: String,
    /// In standard algebraic notation.
    pub san: String,
    /// The probability with which the model plays it, 0 to 1.
    pub p: f32,
    /// The loss of W-L against best play, 0 to 2.
    pub loss: f32,
    /// The best reply, in standard algebraic notation.
    pub better: String,
    /// Who the model is, in words.
    pub model: String,
}

impl MistakeRecord {
    /// The loss of W-L that is to be expected from this mistake: probability times loss.
    pub fn worth(&self) -> f32 {
        self.p * self.loss
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

    /// The evidence in words, in per cent of a point: `a player rated 1900 replies Nxe4 with probability 38 %, which
    /// loses 27 % of a point (Be7 is best); Nd5 costs 1 %`.
    pub fn text(&self) -> String {
        let MistakeRecord { san, better, .. } = &self.mistake;
        let [p, loss, cost] = [
            100.0 * self.mistake.p,
            50.0 * self.mistake.loss,
            50.0 * self.cost,
        ];
        format!(
            "{} replies {san} with probability {p:.0} %, which loses {loss:.0} % of a point ({better} is best); {} costs \
             {cost:.0} %",
            self.mistake.model, self.san
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evidence_is_reply_probability_loss_and_cost() {
        let mistake = MistakeRecord {
            m: "f6e4".into(),
            san: "Nxe4".into(),
            p: 0.384,
            loss: 0.54,
            better: "Be7".into(),
            model: "a player rated 1500".into(),
        };
        assert!((mistake.worth() - 0.207).abs() < 1e-3);
        let trap = TrapRecord {
            m: "c3d5".into(),
            san: "Nd5".into(),
            cost: 0.02,
            mistake,
        };
        assert!(trap.is_one());
        let changed = |cost, p, loss| {
            let mistake = MistakeRecord {
                p,
                loss,
                ..trap.mistake.clone()
            };
            let changed = TrapRecord {
                cost,
                mistake,
                ..trap.clone()
            };
            changed.is_one()
        };
        assert!(changed(MAX_COST, 0.25, 0.41));
        assert!(!changed(0.11, 0.25, 0.41), "too dear");
        assert!(!changed(0.02, 0.9, 0.29), "loses too little");
        assert!(!changed(0.02, 0.25, 0.39), "worth too little");
        let expected = "a player rated 1500 replies Nxe4 with probability 38 %, which loses 27 % of a point \
                        (Be7 is best); Nd5 costs 1 %";
        assert_eq!(trap.text(), expected);
    }
}
