//! WDL contempt (lc0's, by Naphthalin): values as they would be between players of other strengths.
//!
//! The model of W/D/L is a random walk: win and loss are the logistic tails of an advantage mu with a width s, see
//! [`LogisticWdl`]. Contempt shifts mu towards the stronger side, the more the sharper the position is, and another
//! level of play (or a target draw rate) changes the width s:
//!
//! ```text
//! mu' = mu +- shift * s^2      + where the value is seen by the contempt side
//! s'  = s * ratio
//! ```
//!
//! It is applied to the network's output only ([`WdlContempt::of_leaf`], by `leaf_values`); proven results, tablebases
//! and the evaluation cache are not affected. [`WdlContempt::reported`] removes it from reported values.

use shakmaty::{Color, Position};

use super::job::Job;
use crate::{
    chess::{turn_after, wdl::LogisticWdl},
    network::Value,
    options::{ContemptMode, SearchOptions},
};

/// The rescaling of the values of one tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WdlContempt {
    /// The width's factor and the advantage's change.
    scale: Scale,
    /// Maximum width: positions are assumed to be at least this sharp.
    max_s: f64,
    /// The side whose advantage is shifted; `None` if only the width changes.
    side: Option<Color>,
    root_turn: Color,
}

impl WdlContempt {
    /// The contempt that a job's options configure; `None` if values stay as they are.
    pub fn new(job: &Job) -> Option<WdlContempt> {
        let scale = Scale::new(&job.options);
        let side = job.contempt_side.filter(|_| !is_infinite_play(job));
        let contempt = WdlContempt {
            scale: match side {
                Some(_) => scale,
                None => Scale {
                    shift: 0.0,
                    ..scale
                },
            },
            max_s: job.options.wdl_max_s().into(),
            side,
            root_turn: job.history.position().turn(),
        };
        (contempt.scale != Scale::NONE).then_some(contempt)
    }

    /// Whether a tree with these values can be used for `other`: only the roots may differ.
    pub fn equals_except_root(&self, other: &WdlContempt) -> bool {
        *self
            == WdlContempt {
                root_turn: self.root_turn,
                ..*other
            }
    }

    /// The value of a leaf from the network's output for a position `depth` plies below the root; both are for its
    /// side to move.
    pub fn of_leaf(&self, value: Value, depth: usize) -> Value {
        let Some(tails) = tails(value) else {
            return value;
        };
        let s = tails.s.min(self.max_s);
        let turn = turn_after(self.root_turn, depth);
        let changed = LogisticWdl {
            mu: tails.mu + self.sign(turn) * s * s * self.scale.shift,
            s: s * self.scale.ratio,
        };
        with_tails(value, changed)
    }

    /// A value of the tree for reports, for the side to move at the root: without the shift (as much of it as
    /// `objectivity`, 0..=1, removes). The changed width stays: draws are as frequent as at that level of play.
    pub fn reported(&self, value: Value, objectivity: f32) -> Value {
        let Some(tails) = tails(value) else {
            return value;
        };
        let s = (tails.s / self.scale.ratio).min(self.max_s);
        let shift = self.sign(self.root_turn) * f64::from(objectivity) * self.scale.shift;
        let original = LogisticWdl {
            mu: tails.mu - s * s * shift,
            ..tails
        };
        with_tails(value, original)
    }

    fn sign(&self, turn: Color) -> f64 {
        match self.side {
            Some(side) if side == turn => 1.0,
            Some(_) => -1.0,
            None => 0.0,
        }
    }
}

/// In an infinite analysis nobody plays: `ContemptMode play` has no side then, as in lc0.
fn is_infinite_play(job: &Job) -> bool {
    let root_turn = job.history.position().turn();
    // While pondering, the engine's own side is not to move.
    let is_analysis = job.limits.infinite && job.contempt_side == Some(root_turn);
    is_analysis && job.options.contempt_mode() == ContemptMode::Play
}

/// Whether the options configure a contempt that an infinite analysis in `ContemptMode play` ignores.
pub fn is_ignored_in_analysis(options: &SearchOptions) -> bool {
    options.contempt_mode() == ContemptMode::Play && Scale::new(options).shift != 0.0
}

fn tails(value: Value) -> Option<LogisticWdl> {
    LogisticWdl::fit(value.wl.into(), value.d.into())
}

fn with_tails(value: Value, tails: LogisticWdl) -> Value {
    let (win, loss) = tails.chances();
    Value {
        wl: (win - loss) as f32,
        d: (1.0 - win - loss).max(0.0) as f32,
        ..value
    }
}

/// The rescaling computed from ratings and draw rates.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    ratio: f64,
    shift: f64,
}

/// Logits of the model per Elo: ln(10) / 200.
const LOGITS_PER_ELO: f64 = std::f64::consts::LN_10 / 200.0;

impl Scale {
    const NONE: Scale = Scale {
        ratio: 1.0,
        shift: 0.0,
    };

    fn new(options: &SearchOptions) -> Scale {
        let most = f64::from(options.contempt_max_value());
        let list = options.contempt();
        let contempt = f64::from(list.against(options.opponent(), options.rating_advantage()));
        let contempt = contempt.clamp(-most, most);
        let scale = match options.wdl_calibration_elo() {
            0.0 => Scale::by_draw_rate(options, contempt),
            elo => Scale::by_elo(options, elo.into(), contempt),
        };
        Scale {
            shift: scale.shift * f64::from(options.wdl_contempt_attenuation()),
            ..scale
        }
    }

    /// Without ratings: the width follows from the target draw rate, the shift from the value of an Elo point after a
    /// book whose exits are as biased as `WDLBookExitBias`.
    fn by_draw_rate(options: &SearchOptions, contempt: f64) -> Scale {
        let reference = width_of(options.wdl_draw_rate_reference());
        let target = match options.wdl_draw_rate_target() {
            0.0 => reference,
            rate => width_of(rate.max(0.001)),
        };
        let bias = f64::from(options.wdl_book_exit_bias());
        let slope = |x: f64| (0.5 * x / target).cosh().powi(-2);
        let slopes = slope(1.0 - bias) + slope(1.0 + bias);
        Scale {
            ratio: target / reference,
            shift: target / reference.powi(2) / slopes * LOGITS_PER_ELO * contempt,
        }
    }

    /// With the engine's own rating: the width and the shift follow from both players' ratings.
    fn by_elo(options: &SearchOptions, elo: f64, contempt: f64) -> Scale {
        let reference = width_of(options.wdl_draw_rate_reference());
        let (own, opponent) = (game_pair_elo(elo), game_pair_elo(elo - contempt));
        let mean_square = (width_at(own).powi(2) + width_at(opponent).powi(2)) / 2.0;
        Scale {
            ratio: mean_square.sqrt() / reference,
            shift: (advantage_at(own) - advantage_at(opponent)) / reference.powi(2),
        }
    }
}

/// The width at which equal players draw with this probability.
fn width_of(draw_rate: f32) -> f64 {
    let rate = f64::from(draw_rate);
    1.0 / ((1.0 + rate) / (1.0 - rate)).ln()
}

/// The Elo of game pairs from unbalanced openings that corresponds to a given Elo.
fn game_pair_elo(elo: f64) -> f64 {
    elo + 125.0 * ((2737.0 - elo) / 250.0).exp().ln_1p()
}

/// Maximum width, for weak players.
const MAX_WIDTH: f64 = 15.0;
/// Elo over which the width changes by a factor of e, and the offset (in those units).
const WIDTH_SLOPE: f64 = 425.0;
const WIDTH_OFFSET: f64 = 6.75;

/// The width between players of this strength.
fn width_at(elo: f64) -> f64 {
    1.0 / (1.0 / MAX_WIDTH + (elo / WIDTH_SLOPE - WIDTH_OFFSET).exp())
}

/// The integral of the width over the Elo: its differences are advantages.
fn advantage_at(elo: f64) -> f64 {
    let tail = (WIDTH_OFFSET - elo / WIDTH_SLOPE).exp() / MAX_WIDTH;
    -LOGITS_PER_ELO * MAX_WIDTH * WIDTH_SLOPE * tail.ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chess::History, options::Options, search::Limits};

    fn options(settings: &[(&str, &str)]) -> SearchOptions {
        let mut options = Options::default();
        for (name, value) in settings {
            options.set(name, value).unwrap();
        }
        options.search()
    }

    /// A search of the starting position, for White.
    fn job(settings: &[(&str, &str)]) -> Job {
        Job {
            contempt_side: Some(Color::White),
            ..Job::new(History::default(), Limits::default(), options(settings))
        }
    }

    fn value(win: f32, draw: f32) -> Value {
        Value {
            wl: 2.0 * win + draw - 1.0,
            d: draw,
            m: 40.0,
        }
    }

    fn chances(value: Value) -> (f32, f32) {
        let win = (1.0 + value.wl - value.d) / 2.0;
        (win, win - value.wl)
    }

    #[test]
    fn ratings_and_draw_rates_give_lc0s_numbers() {
        // Computed independently from the formulas.
        type Case = (&'static [(&'static str, &'static str)], f64, f64);
        let cases: [Case; 10] = [
            (&[], 1.0, 0.0),
            (&[("Contempt", "100")], 1.0, 0.874_449),
            (&[("UCI_RatingAdv", "-100")], 1.0, -0.874_449),
            // Clamped to 420.
            (&[("Contempt", "1000")], 1.0, 3.672_685),
            (
                &[("Contempt", "100"), ("WDLContemptAttenuation", "0.5")],
                1.0,
                0.437_224,
            ),
            (
                &[
                    ("Contempt", "100"),
                    ("WDLDrawRateTarget", "0.7"),
                    ("WDLDrawRateReference", "0.58"),
                    ("WDLBookExitBias", "0.2"),
                ],
                0.763_821,
                1.126_923,
            ),
            (&[("WDLDrawRateTarget", "0.3")], 1.774_706, 0.0),
            (&[("WDLCalibrationElo", "2800")], 1.022_854, 0.0),
            (
                &[("WDLCalibrationElo", "2800"), ("Contempt", "200")],
                1.230_262,
                2.231_978,
            ),
            (
                &[
                    ("WDLCalibrationElo", "3300"),
                    ("Contempt", "500"),
                    ("ContemptMaxValue", "1000"),
                    ("WDLDrawRateReference", "0.58"),
                ],
                0.929_870,
                5.267_441,
            ),
        ];
        for (settings, ratio, shift) in cases {
            let scale = Scale::new(&options(settings));
            assert!(
                (scale.ratio - ratio).abs() < 2e-6,
                "{settings:?}: {scale:?}"
            );
            assert!(
                (scale.shift - shift).abs() < 2e-6,
                "{settings:?}: {scale:?}"
            );
        }
    }

    #[test]
    fn values_are_those_of_lc0s_formula() {
        let contempt = WdlContempt::new(&job(&[("Contempt", "100")])).unwrap();
        // (win, draw, plies below the root, win and loss afterwards); at odd depths Black is to move.
        for (win, draw, depth, expected) in [
            (0.3, 0.5, 0, (0.483_931, 0.102_542)),
            (0.3, 0.5, 1, (0.163_790, 0.353_590)),
            (0.6, 0.3, 2, (0.799_239, 0.040_183)),
            (0.6, 0.3, 3, (0.361_095, 0.227_735)),
            // Sharper than WDLMaxS allows.
            (0.2, 0.2, 0, (0.311_117, 0.346_679)),
            (0.2, 0.2, 1, (0.037_566, 0.859_939)),
        ] {
            let changed = contempt.of_leaf(value(win, draw), depth);
            let (win, loss) = chances(changed);
            assert!((win - expected.0).abs() < 2e-5, "{depth}: {win}, {loss}");
            assert!((loss - expected.1).abs() < 2e-5, "{depth}: {win}, {loss}");
            assert_eq!(changed.m, 40.0);
        }
    }

    #[test]
    fn no_contempt_changes_nothing() {
        for settings in [
            &[][..],
            &[("Contempt", "0")],
            &[
                ("Contempt", "Stockfish=200"),
                ("UCI_Opponent", "GM 2500 human X"),
            ],
            &[("Contempt", "200"), ("WDLContemptAttenuation", "0")],
        ] {
            assert_eq!(WdlContempt::new(&job(settings)), None, "{settings:?}");
        }
        let nobody = Job {
            contempt_side: None,
            ..job(&[("Contempt", "200")])
        };
        assert_eq!(WdlContempt::new(&nobody), None);
        let calibrated = Job {
            contempt_side: None,
            ..job(&[("Contempt", "0"), ("WDLCalibrationElo", "2000")])
        };
        // The width applies to both sides, and keeps equal chances equal.
        let contempt = WdlContempt::new(&calibrated).unwrap();
        let changed = contempt.of_leaf(value(0.25, 0.5), 0);
        assert!(changed.wl.abs() < 1e-6 && changed.d < 0.2);
    }

    #[test]
    fn both_sides_see_the_same_thing() {
        for settings in [
            &[("Contempt", "150")][..],
            &[("Contempt", "-150"), ("WDLCalibrationElo", "2600")],
        ] {
            let contempt = WdlContempt::new(&job(settings)).unwrap();
            for (win, draw) in [(0.3, 0.5), (0.7, 0.25), (0.1, 0.2), (0.05, 0.9)] {
                let ours = contempt.of_leaf(value(win, draw), 0);
                let theirs = contempt.of_leaf(value(1.0 - win - draw, draw), 1);
                assert!((ours.wl + theirs.wl).abs() < 1e-5, "{ours:?} {theirs:?}");
                assert!((ours.d - theirs.d).abs() < 1e-5, "{ours:?} {theirs:?}");
            }
        }
    }

    #[test]
    fn reported_values_have_no_shift_and_the_configured_width() {
        let settings = [("Contempt", "120"), ("WDLDrawRateTarget", "0.6")];
        let contempt = WdlContempt::new(&job(&settings)).unwrap();
        let width = WdlContempt::new(&job(&settings[1..])).unwrap();
        for (win, draw) in [(0.3, 0.5), (0.5, 0.4), (0.2, 0.6)] {
            let original = value(win, draw);
            let changed = contempt.of_leaf(original, 0);
            assert!((changed.wl - original.wl).abs() > 0.05);
            let reported = contempt.reported(changed, 1.0);
            // As if there were no contempt, only another draw rate.
            let expected = width.of_leaf(original, 0);
            assert!((expected.d - original.d).abs() > 0.03);
            assert!((reported.wl - expected.wl).abs() < 1e-4, "{reported:?}");
            assert!((reported.d - expected.d).abs() < 1e-4, "{reported:?}");
            assert_eq!(width.reported(expected, 1.0), {
                let tails = tails(expected).unwrap();
                with_tails(expected, tails)
            });
            // With objectivity 0 nothing is removed.
            let subjective = contempt.reported(changed, 0.0);
            assert!((subjective.wl - changed.wl).abs() < 1e-5);
            assert!((subjective.d - changed.d).abs() < 1e-5);
        }
        // Proven results do not change.
        let won = Value {
            wl: 1.0,
            d: 0.0,
            m: 3.0,
        };
        assert_eq!(contempt.reported(won, 1.0), won);
        assert_eq!(contempt.of_leaf(won, 0), won);
    }

    /// lc0's `WDLRescale`, reimplemented from its formula: `invert` removes the shift with the width before the
    /// change, and keeps the width after it.
    #[test]
    fn reported_values_are_those_of_lc0s_formula() {
        for settings in [
            &[("WDLCalibrationElo", "2000")][..],
            &[("WDLDrawRateTarget", "0.2")],
            &[("Contempt", "200"), ("WDLCalibrationElo", "2400")],
        ] {
            let contempt = WdlContempt::new(&job(settings)).unwrap();
            let (ratio, shift) = (contempt.scale.ratio, contempt.scale.shift);
            for (win, draw) in [(0.3f64, 0.5f64), (0.6, 0.3), (0.1, 0.4)] {
                let loss = 1.0 - win - draw;
                let (a, b) = ((1.0 / loss - 1.0).ln(), (1.0 / win - 1.0).ln());
                let (s, mu) = (2.0 / (a + b), (a - b) / (a + b));
                let before = (s / ratio).min(1.4);
                let mu = mu - before * before * shift;
                let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
                let (w, l) = (logistic((mu - 1.0) / s), logistic((-mu - 1.0) / s));
                let reported = contempt.reported(value(win as f32, draw as f32), 1.0);
                assert!(
                    (f64::from(reported.wl) - (w - l)).abs() < 1e-4,
                    "{settings:?}"
                );
                assert!((f64::from(reported.d) - (1.0 - w - l)).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn contempt_has_a_side_in_play_and_none_in_infinite_analysis() {
        let playing = job(&[("Contempt", "100")]);
        let mut analysis = playing.clone();
        analysis.limits.infinite = true;
        assert!(WdlContempt::new(&playing).is_some());
        assert_eq!(WdlContempt::new(&analysis), None);
        // While pondering, the engine's side is not to move.
        let pondering = Job {
            contempt_side: Some(Color::Black),
            ..analysis.clone()
        };
        let contempt = WdlContempt::new(&pondering).unwrap();
        assert!(contempt.of_leaf(value(0.3, 0.5), 1).wl > value(0.3, 0.5).wl);
        let mut white = job(&[("Contempt", "100"), ("ContemptMode", "white_side_analysis")]);
        white.limits.infinite = true;
        assert!(WdlContempt::new(&white).is_some());
    }

    #[test]
    fn extreme_values_stay_in_range() {
        for settings in [
            &[("Contempt", "10000"), ("ContemptMaxValue", "10000")][..],
            &[("Contempt", "400"), ("WDLMaxS", "0")],
            &[("Contempt", "-400"), ("WDLCalibrationElo", "10000")],
            &[("Contempt", "-400"), ("WDLCalibrationElo", "1")],
            &[("WDLDrawRateTarget", "0.0001")],
            &[
                ("WDLDrawRateTarget", "0.999"),
                ("WDLDrawRateReference", "0.001"),
            ],
        ] {
            let contempt = WdlContempt::new(&job(settings)).unwrap();
            for (win, draw) in [(0.0, 1.0), (1.0, 0.0), (0.5, 0.0), (0.3, 0.5), (0.01, 0.98)] {
                for depth in 0..2 {
                    let changed = contempt.of_leaf(value(win, draw), depth);
                    let reported = contempt.reported(changed, 1.0);
                    for v in [changed, reported] {
                        assert!(v.wl.abs() <= 1.0 && (0.0..=1.0).contains(&v.d), "{v:?}");
                    }
                }
            }
        }
    }
}
