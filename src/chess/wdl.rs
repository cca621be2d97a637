//! The arithmetic of scores: from win, draw and loss probabilities to the scores that chess programs print.
//!
//! Pure functions. Everything is from the point of view of the side whose score it is.

use crate::options::ScoreType;

/// Smaller probabilities give no information about the tails of the logistic model.
const MIN_PROBABILITY: f64 = 1e-4;
/// The width of the logistic model in most positions: the median of 7600 positions of masters' games is 0.92 by the
/// built-in network, and nine tenths of them have 0.82 to 1.35.
const USUAL_WIDTH: f64 = 0.9;
/// The steepness of the formula that replaces the logistic model where that is undefined.
const STEEPNESS: f64 = 1.567_280_716_28;

/// The network's evaluation of one position, from the point of view of its side to move.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Value {
    /// Probability of a win minus that of a loss, -1..=1.
    pub wl: f32,
    /// Probability of a draw, 0..=1; 0 for networks without it.
    pub d: f32,
    /// Expected number of plies until the game ends; 0 for networks without it.
    pub m: f32,
}

impl Value {
    /// The value of a certain result (1, 0 or -1 for the side to move) that ends the game in `m` plies.
    pub fn of_result(result: i8, m: f32) -> Value {
        Value {
            wl: f32::from(result),
            d: f32::from(u8::from(result == 0)),
            m,
        }
    }
}

/// The score in `score_type`'s unit, as the integer after `cp` in UCI. `draw_score` is the value of a draw for this
/// side.
pub fn score(value: Value, draw_score: f32, score_type: ScoreType) -> i32 {
    let wl = f64::from(value.wl).clamp(-1.0, 1.0);
    let d = f64::from(value.d).clamp(0.0, 1.0);
    let q = (wl + f64::from(draw_score) * d).clamp(-1.0, 1.0);
    let score = match score_type {
        ScoreType::Centipawn => tangent(90.0, 1.563_754_189_7, wl),
        ScoreType::CentipawnWithDrawscore => tangent(90.0, 1.563_754_189_7, q),
        ScoreType::Centipawn2020 => tangent(111.714_640_912, 1.562_068_842_1, wl),
        ScoreType::Centipawn2019 => 295.0 * wl / (1.0 - 0.976_953_125 * wl.powi(14)),
        ScoreType::Centipawn2018 => tangent(290.680_623_072, 1.548_090_806, wl),
        ScoreType::WinPercentage => 5000.0 + 5000.0 * wl,
        ScoreType::Q => 10000.0 * q,
        ScoreType::WMinusL => 10000.0 * wl,
        ScoreType::WdlMu => wdl_mu(wl, d),
    };
    // A cast from float saturates and turns NaN into 0.
    score.round() as i32
}

/// The probabilities to win, draw and lose in per mille; they sum to 1000.
pub fn per_mille(value: Value) -> [u32; 3] {
    let win = (500.0 * (1.0 + value.wl - value.d)).round();
    let loss = (500.0 * (1.0 - value.wl - value.d)).round();
    let win = (win.max(0.0) as u32).min(1000);
    let loss = (loss.max(0.0) as u32).min(1000 - win);
    [win, 1000 - win - loss, loss]
}

/// W-L (-1 to 1) in pawns, as readers of `[%eval]` in PGN comments expect it: as in Stockfish, with an advantage of one
/// pawn a win has a probability of one half. Draws are taken to be as frequent as usual, because otherwise an advantage
/// could grow while the expected score falls. At most 99.99, beyond which readers expect a mate.
pub fn pawns(wl: f32) -> f64 {
    let wl = f64::from(wl).clamp(-1.0, 1.0);
    let winning = wl.abs();
    // Near certainty the logarithm grows too slowly for what readers call winning.
    let pawns = advantage_at(winning, USUAL_WIDTH).max(tangent(0.45, STEEPNESS, winning));
    ((100.0 * pawns).round() / 100.0).min(99.99).copysign(wl)
}

/// The advantage at which the model of this width gives this W-L (0 to 1). With x = e^(mu/s) and k = e^(1/s) it is the
/// solution of k (1 - wl) x^2 - wl (1 + k^2) x - k (1 + wl) = 0.
fn advantage_at(wl: f64, width: f64) -> f64 {
    let k = (1.0 / width).exp();
    let middle = wl * (1.0 + k * k);
    let root = (middle * middle + 4.0 * k * k * (1.0 - wl * wl)).sqrt();
    width * ((middle + root) / (2.0 * k * (1.0 - wl))).ln()
}

/// A moves-left estimate, which networks give in plies, as full moves.
pub fn moves_left(value: Value) -> u32 {
    ((value.m.max(0.0) + 1.0) / 2.0) as u32
}

/// The model in which win and loss are the logistic tails of one random walk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogisticWdl {
    /// The advantage: at 1 the probability of a win is one half.
    pub mu: f64,
    /// The width: the larger it is, the fewer draws there are.
    pub s: f64,
}

impl LogisticWdl {
    /// The model of these probabilities; `None` if one of the three is too small.
    pub fn fit(wl: f64, d: f64) -> Option<LogisticWdl> {
        let (w, l) = ((1.0 + wl - d) / 2.0, (1.0 - wl - d) / 2.0);
        if w.min(d).min(l) < MIN_PROBABILITY {
            return None;
        }
        let (a, b) = ((1.0 / l - 1.0).ln(), (1.0 / w - 1.0).ln());
        Some(LogisticWdl {
            mu: (a - b) / (a + b),
            s: 2.0 / (a + b),
        })
    }

    /// The probabilities to win and to lose.
    pub fn chances(self) -> (f64, f64) {
        let s = self.s.max(f64::MIN_POSITIVE);
        let tail = |x: f64| 1.0 / (1.0 + (-x / s).exp());
        (tail(self.mu - 1.0), tail(-self.mu - 1.0))
    }
}

/// The advantage in that model, if it is defined.
pub fn advantage(wl: f64, d: f64) -> Option<f64> {
    LogisticWdl::fit(wl, d).map(|tails| tails.mu)
}

fn tangent(scale: f64, steepness: f64, x: f64) -> f64 {
    scale * (steepness * x).tan()
}

/// 100 times the advantage (at 100 the probability of a win is one half), and a centipawn formula where the model is
/// undefined or beyond its range: without draw probabilities, near certainty, and beyond an advantage of 1 if that
/// formula gives more.
fn wdl_mu(wl: f64, d: f64) -> f64 {
    let fallback = tangent(45.0, STEEPNESS, wl);
    match advantage(wl, d) {
        Some(mu)
            if wl.abs() + d < 0.996 && (mu.abs() < 1.0 || fallback.abs() < (100.0 * mu).abs()) =>
        {
            100.0 * mu
        }
        _ => fallback,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ScoreType::*;

    fn value(wl: f32, d: f32) -> Value {
        Value { wl, d, m: 0.0 }
    }

    #[test]
    fn scores_follow_their_formulas() {
        // Computed with a calculator from the formulas of the module.
        for (wl, d, score_type, expected) in [
            (0.0, 0.5, Centipawn, 0),
            (0.5, 0.3, Centipawn, 89),
            (-0.5, 0.3, Centipawn, -89),
            (1.0, 0.0, Centipawn, 12781),
            // The table in lc0's wiki: expected scores of 0.55, 0.75 and 0.95, and a certain win.
            (0.1, 0.0, Centipawn2020, 18),
            (0.5, 0.3, Centipawn2020, 111),
            (0.9, 0.0, Centipawn2020, 671),
            (1.0, 0.0, Centipawn2020, 12800),
            (0.5, 0.3, Centipawn2018, 284),
            (0.5, 0.3, Centipawn2019, 148),
            (1.0, 0.0, Centipawn2019, 12800),
            (0.5, 0.3, WinPercentage, 7500),
            (-1.0, 0.0, WinPercentage, 0),
            (0.1234, 0.3, WMinusL, 1234),
            (0.1234, 0.3, Q, 1234),
            // W = 50 %: an advantage of exactly 1.
            (0.4, 0.4, WdlMu, 100),
            (-0.4, 0.4, WdlMu, -100),
            (0.0, 0.9, WdlMu, 0),
            // No draw head, near certainty, and a certain draw: the fallback.
            (0.5, 0.0, WdlMu, 45),
            (0.99, 0.009, WdlMu, 2345),
            (0.0, 1.0, WdlMu, 0),
        ] {
            let got = score(value(wl, d), 0.0, score_type);
            assert!(
                (got - expected).abs() <= 1,
                "{wl} {d} {score_type:?}: {got}"
            );
        }
    }

    #[test]
    fn pawns_follow_from_w_minus_l_alone() {
        // At one pawn: W = 0.5 and L = 1 / (1 + e^(2 / 0.9)) = 0.0978.
        for (wl, expected) in [(0.0, 0.0), (0.4022, 1.0), (0.95, 5.5), (1.0, 99.99)] {
            assert!((pawns(wl) - expected).abs() < 0.02, "{wl}: {}", pawns(wl));
            assert!((pawns(-wl) + expected).abs() < 0.02, "{wl}: {}", pawns(-wl));
        }
        let steps = (-1000..=1000).map(|wl| pawns(wl as f32 / 1000.0));
        assert!(steps.is_sorted());
    }

    #[test]
    fn the_draw_score_affects_only_its_score_types() {
        let v = value(0.0, 0.5);
        assert_eq!(score(v, -0.4, Q), -2000);
        assert_eq!(score(v, -0.4, WMinusL), 0);
        assert_eq!(
            score(v, -0.4, CentipawnWithDrawscore),
            score(value(-0.2, 0.0), 0.0, Centipawn)
        );
    }

    #[test]
    fn nothing_overflows() {
        for wl in [-1.0, -0.999_999, 0.0, 1.0, 2.0, f32::NAN] {
            for d in [0.0, 1.0, -1.0, f32::NAN] {
                for t in [Centipawn, Centipawn2018, Centipawn2019, WdlMu, Q] {
                    assert!(score(value(wl, d), 0.0, t).abs() <= 30000, "{wl} {d} {t:?}");
                }
                assert_eq!(per_mille(value(wl, d)).iter().sum::<u32>(), 1000);
            }
        }
    }

    #[test]
    fn per_mille_always_sums_to_1000() {
        assert_eq!(per_mille(value(0.2, 0.5)), [350, 500, 150]);
        assert_eq!(per_mille(value(1.0, 0.0)), [1000, 0, 0]);
        assert_eq!(per_mille(value(-1.0, 0.0)), [0, 0, 1000]);
        for wl in -100..=100 {
            let wl = wl as f32 / 100.0;
            let d = (1.0 - wl.abs()) * 0.37;
            assert_eq!(per_mille(value(wl, d)).iter().sum::<u32>(), 1000);
        }
    }
}
