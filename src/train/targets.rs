//! Training targets: the policy, the win/draw/loss probabilities and the plies left that a network should output for a
//! position. They are computed here for all trainers, sparse and dense, in Rust and in PyTorch
//! (`networks/training/README.md`, "Targets").

use std::{collections::HashMap, str::FromStr};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::dataset::record::{NO_PLIES, NO_RESULT, NO_SCORE, Record, Source, is_mate};
use crate::dataset::searched::Searched;
use crate::sparse::network::PLIES_UNIT;

/// W = sigmoid((c - MIDDLE) / SPREAD), L = sigmoid((-c - MIDDLE) / SPREAD) for c compressed centipawns.
///
/// A fit to the results of 60 000 grandmaster positions against Stockfish 15.1 at 200 nodes gave 144 and 155. The
/// spread is narrower because games that were resigned, lost on time or misrecorded flatten the tails of the fit.
const MIDDLE: f32 = 140.0;
const SPREAD: f32 = 110.0;
/// Up to this evaluation, compressed centipawns equal centipawns; beyond it they grow logarithmically.
const KNEE: f32 = 200.0;
/// Beyond this evaluation, in centipawns, the material count supplies half of the excess.
///
/// Stockfish 15.1 evaluates the start position without a knight as -500, without a rook as -600, without a queen as
/// -660: its scale saturates there.
const DECIDED: f32 = 400.0;
/// More plies left than this count as this.
const MAX_PLIES: u16 = 300;
/// Conventional piece values in centipawns, by the piece codes of a record; the opponent's are negative.
const PIECE_VALUES: [f32; 13] = [
    0.0, 100.0, 320.0, 330.0, 490.0, 1000.0, 0.0, -100.0, -320.0, -330.0, -490.0, -1000.0, 0.0,
];

/// Default of [`TargetSettings::result_weight`].
const RESULT_WEIGHT: f64 = 0.1;
/// Default of [`TargetSettings::result_mix`].
const RESULT_MIX: f32 = 0.2;
/// Default of [`TargetSettings::policy_temperature`].
const POLICY_TEMPERATURE: f32 = 0.04;

/// Options of the targets, shared by all trainers.
#[derive(Args, Clone, Copy, Debug, PartialEq)]
pub struct TargetSettings {
    /// Weight of the game's result as value target of a position without a score, 0 to 1.
    #[arg(long, default_value_t = RESULT_WEIGHT, value_name = "X", value_parser = fraction::<f64>)]
    pub result_weight: f64,
    /// Share of the game's result in the value target of a position that has a score, 0 to 1.
    #[arg(long, default_value_t = RESULT_MIX, value_name = "X", value_parser = fraction::<f32>)]
    pub result_mix: f32,
    /// Temperature of the policy target where a teacher scored several moves, in expected score (0 to 1): a move that
    /// loses this much has 1/e of the best move's share; 0 gives the best move everything.
    #[arg(long, default_value_t = POLICY_TEMPERATURE, value_name = "X", value_parser = fraction::<f32>)]
    pub policy_temperature: f32,
    /// Share of the game's result in the value target of self-play positions; the rest is the value of the search. Two
    /// numbers are the shares at the first and at the last position of a game, linear in between.
    #[arg(long, default_value = "1", value_name = "X[,Y]")]
    pub result_share: ResultShare,
}

impl Default for TargetSettings {
    fn default() -> TargetSettings {
        TargetSettings {
            result_weight: RESULT_WEIGHT,
            result_mix: RESULT_MIX,
            policy_temperature: POLICY_TEMPERATURE,
            result_share: ResultShare::default(),
        }
    }
}

impl TargetSettings {
    /// Settings for tests on held-out positions: the score alone where there is one and the result is not exact, the
    /// result otherwise, fully weighted.
    pub fn for_tests(result_share: ResultShare) -> TargetSettings {
        TargetSettings {
            result_weight: 1.0,
            result_mix: 0.0,
            result_share,
            ..TargetSettings::default()
        }
    }
}

/// The value target of a position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ValueTarget {
    /// Win, draw, loss; sums to 1, or to 0 where only the plies left are known.
    pub wdl: [f32; 3],
    /// Weight of the value loss.
    pub weight: f32,
    /// Plies left, in units of [`PLIES_UNIT`].
    pub plies: f32,
    /// Weight of the plies-left loss; 0 if the plies left are unknown.
    pub plies_weight: f32,
}

/// The targets of a position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// Moves as in [`Record::best`] with their shares of the policy, the best first; shares sum to 1. Empty if unknown.
    pub policy: Vec<(u16, f32)>,
    /// Value and plies left; `None` if neither is known.
    pub value: Option<ValueTarget>,
}

/// The targets of a record.
pub fn of_record(record: &Record, settings: &TargetSettings) -> Targets {
    Targets {
        policy: record_policy(record, settings.policy_temperature),
        value: record_value(record, settings),
    }
}

/// The targets of a self-play position. `lengths` holds the lengths of its file's games in plies; it is only used when
/// the result's share changes during a game.
pub fn of_searched(
    searched: &Searched,
    settings: &TargetSettings,
    lengths: &HashMap<u32, u16>,
) -> Targets {
    let share = settings.result_share.at(&searched.record, lengths);
    Targets {
        policy: visit_shares(searched),
        value: Some(searched_value(searched, share)),
    }
}

/// Whether a record has targets: in games with evaluations, moves without one come from the opening book.
pub fn is_useful(record: &Record) -> bool {
    let evaluated = matches!(
        record.source(),
        Some(Source::EngineGame | Source::Chess960EngineGame)
    );
    !evaluated || record.score != NO_SCORE
}

/// Win, draw and loss probabilities for an evaluation in centipawns.
fn wdl(centipawns: f32) -> [f32; 3] {
    let beyond = (centipawns.abs() / KNEE - 1.0).max(0.0);
    let compressed = centipawns.clamp(-KNEE, KNEE) + (KNEE * beyond.ln_1p()).copysign(centipawns);
    let win = 1.0 / (1.0 + ((MIDDLE - compressed) / SPREAD).exp());
    let loss = 1.0 / (1.0 + ((MIDDLE + compressed) / SPREAD).exp());
    [win, (1.0 - win - loss).max(0.0), loss]
}

/// The evaluation of a record in centipawns. In decided positions half of the excess over [`DECIDED`] comes from the
/// material of the side that the evaluation favours.
fn with_material(record: &Record) -> f32 {
    let score = f32::from(record.score);
    let decided = score.abs() > DECIDED && !is_mate(record.score);
    if !decided {
        return score;
    }
    let codes = record.board.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    let count: f32 = codes
        .filter_map(|code| PIECE_VALUES.get(usize::from(code)))
        .sum();
    let material = count * score.signum();
    let beyond = ((score.abs() - DECIDED) + (material - DECIDED).max(0.0)) / 2.0;
    (DECIDED + beyond).copysign(score)
}

/// The value target of a record: an exact result, or a mixture of score and result, or the one of them that is known.
fn record_value(record: &Record, settings: &TargetSettings) -> Option<ValueTarget> {
    let has_score = record.score != NO_SCORE;
    let has_result = record.result <= 2;
    let has_plies = record.plies_left != NO_PLIES;
    debug_assert!(has_result || record.result == NO_RESULT);
    if !has_score && !has_result && !has_plies {
        return None;
    }
    let mut outcome = [0.0; 3];
    if has_result {
        outcome[usize::from(2 - record.result)] = 1.0;
    }
    let (mix, weight) = match (has_score, has_result) {
        (_, true) if record.is_exact() => (1.0, 1.0),
        (true, true) => (settings.result_mix, 1.0),
        (true, false) => (0.0, 1.0),
        (false, true) => (1.0, settings.result_weight as f32),
        (false, false) => (1.0, 0.0),
    };
    let score = if has_score {
        wdl(with_material(record))
    } else {
        [0.0; 3]
    };
    Some(ValueTarget {
        wdl: std::array::from_fn(|at| (1.0 - mix) * score[at] + mix * outcome[at]),
        weight,
        plies: f32::from(record.plies_left.min(MAX_PLIES)) / PLIES_UNIT,
        plies_weight: if has_plies { 1.0 } else { 0.0 },
    })
}

/// The policy target of a record: the best move, and the moves that a teacher scored besides, each in proportion to
/// exp(-loss of expected score / temperature).
fn record_policy(record: &Record, temperature: f32) -> Vec<(u16, f32)> {
    if record.best == 0 {
        return Vec::new();
    }
    let mut shares = vec![(record.best, 1.0)];
    if temperature <= 0.0 {
        return shares;
    }
    let expected = |score: i16| {
        let [win, draw, _] = wdl(f32::from(score));
        win + draw / 2.0
    };
    let best = expected(record.score);
    let others = record.alternatives.iter().filter(|other| other.m != 0);
    shares.extend(others.map(|other| {
        // An interrupted teacher may have searched the first moves deeper: no other move counts as better than the
        // best.
        let loss = (best - expected(other.score)).max(0.0);
        (other.m, (-loss / temperature).exp())
    }));
    let sum: f32 = shares.iter().map(|(_, share)| share).sum();
    shares.iter_mut().for_each(|(_, share)| *share /= sum);
    shares
}

/// The share k of the game's result z in the value target k z + (1 - k) q of a self-play position, where q is the value
/// of its search. It changes linearly over the plies of a game (z and q: V. Prasad, "Lessons from AlphaZero", part 4;
/// growing k: CGZero).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResultShare {
    /// At the first position of a game, 0..=1.
    pub first: f32,
    /// At its end, 0..=1.
    pub last: f32,
}

impl Default for ResultShare {
    /// The result alone, as in AlphaZero.
    fn default() -> ResultShare {
        ResultShare {
            first: 1.0,
            last: 1.0,
        }
    }
}

impl FromStr for ResultShare {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<ResultShare> {
        let (first, last) = text.split_once(',').unwrap_or((text, text));
        Ok(ResultShare {
            first: fraction(first)?,
            last: fraction(last)?,
        })
    }
}

/// Parses a number from 0 to 1.
fn fraction<N>(text: &str) -> Result<N>
where
    N: FromStr<Err = std::num::ParseFloatError> + Into<f64> + Copy,
{
    let number = text.trim().parse::<N>();
    let number = number.with_context(|| format!("'{text}' is not a number"))?;
    ensure!(
        (0.0..=1.0).contains(&number.into()),
        "'{text}' is not a number from 0 to 1"
    );
    Ok(number)
}

impl ResultShare {
    /// Whether the share depends on the ply, so that the lengths of games are needed.
    pub fn depends_on_ply(self) -> bool {
        self.first != self.last
    }

    /// The share at a position. `lengths` holds the plies left at the first position of each game.
    fn at(self, record: &Record, lengths: &HashMap<u32, u16>) -> f32 {
        let length = lengths.get(&record.game).copied().unwrap_or(0);
        let left = f32::from(record.plies_left.min(length)) / f32::from(length.max(1));
        self.last + (self.first - self.last) * left
    }
}

/// The value target of a self-play position: the value of its search, mixed with the game's result if that is known.
fn searched_value(searched: &Searched, result_share: f32) -> ValueTarget {
    let record = &searched.record;
    let has_result = record.result <= 2;
    let has_plies = record.plies_left != NO_PLIES;
    let share = if has_result { result_share } else { 0.0 };
    let mut wdl = searched.wdl.map(|p| (1.0 - share) * p);
    if has_result {
        wdl[usize::from(2 - record.result)] += share;
    }
    ValueTarget {
        wdl,
        weight: 1.0,
        plies: f32::from(record.plies_left.min(MAX_PLIES)) / PLIES_UNIT,
        plies_weight: if has_plies { 1.0 } else { 0.0 },
    }
}

/// The policy target of a self-play position: moves with their shares of the visits. Empty if there were no visits.
fn visit_shares(searched: &Searched) -> Vec<(u16, f32)> {
    let sum: u64 = searched.moves.iter().map(|(_, n)| u64::from(*n)).sum();
    if sum == 0 {
        return Vec::new();
    }
    let share = |n: u32| (f64::from(n) / sum as f64) as f32;
    let moves = searched.moves.iter();
    moves.map(|&(m, n)| (m, share(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::record::{Alternative, SURE_WIN};
    use shakmaty::{CastlingMode, Chess, fen::Fen};

    const DEFAULT: TargetSettings = TargetSettings {
        result_weight: 0.1,
        result_mix: 0.2,
        policy_temperature: 0.04,
        result_share: ResultShare {
            first: 1.0,
            last: 1.0,
        },
    };

    fn record(fen: &str, score: i16) -> Record {
        let fen: Fen = fen.parse().unwrap();
        let position: Chess = fen.into_position(CastlingMode::Standard).unwrap();
        let mut record = Record::new(&position, false, Source::Real);
        record.score = score;
        record
    }

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    #[test]
    fn evaluations_become_probabilities() {
        for (score, expected) in [
            (0, [0.2188, 0.5624, 0.2188]),
            (140, [0.5, 0.4273, 0.0727]),
            // Half of the excess over 400 is material, which is balanced: 450, compressed to 200 + 200 ln 2.25 = 362.2.
            (500, [0.8829, 0.1068, 0.0103]),
        ] {
            let target = record_value(&record(START, score), &DEFAULT).unwrap();
            for (got, expected) in target.wdl.iter().zip(expected) {
                assert!((got - expected).abs() < 2e-3, "{score}: {:?}", target.wdl);
            }
            assert_eq!((target.weight, target.plies_weight), (1.0, 0.0));
        }
    }

    #[test]
    fn material_distinguishes_odds_with_equal_scores() {
        let win = |fen: &str, score| record_value(&record(fen, score), &DEFAULT).unwrap().wdl[0];
        let queen = win(
            "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            660,
        );
        let rook = win(
            "rnbqkbn1/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQq - 0 1",
            660,
        );
        assert!(queen > rook);
    }

    #[test]
    fn results_have_a_low_weight_where_there_is_no_score() {
        let mut record = record(START, NO_SCORE);
        assert_eq!(record_value(&record, &DEFAULT), None);
        record.result = 2;
        record.plies_left = 400;
        let target = record_value(&record, &DEFAULT).unwrap();
        assert_eq!((target.wdl, target.weight), ([1.0, 0.0, 0.0], 0.1));
        assert_eq!(
            (target.plies, target.plies_weight),
            (300.0 / PLIES_UNIT, 1.0)
        );
        record.score = 0;
        let mixed = record_value(&record, &DEFAULT).unwrap();
        assert!((mixed.wdl[0] - (0.8 * 0.2188 + 0.2)).abs() < 1e-3);
        let settings = TargetSettings::for_tests(ResultShare::default());
        assert_eq!(record_value(&record, &settings).unwrap().wdl, wdl(0.0));
    }

    #[test]
    fn an_exact_result_is_the_whole_target() {
        for settings in [DEFAULT, TargetSettings::for_tests(ResultShare::default())] {
            for (result, score, expected) in [
                (1, 0, [0.0, 1.0, 0.0]),
                (2, SURE_WIN, [1.0, 0.0, 0.0]),
                (0, NO_SCORE, [0.0, 0.0, 1.0]),
            ] {
                let mut record = record(START, score);
                record.result = result;
                record.flags |= Record::EXACT;
                let target = record_value(&record, &settings).unwrap();
                assert_eq!((target.wdl, target.weight), (expected, 1.0));
            }
        }
        // Files of older versions do not mark exact results.
        let mut unmarked = record(START, 0);
        unmarked.result = 1;
        let draw = record_value(&unmarked, &DEFAULT).unwrap().wdl[1];
        assert!((draw - 0.65).abs() < 1e-2, "{draw}");
    }

    #[test]
    fn self_play_targets_are_visit_shares_and_a_mixture_of_result_and_search_value() {
        let mut searched = Searched {
            record: record(START, 30),
            best: 7,
            visits: 100,
            wdl: [0.5, 0.3, 0.2],
            moves: vec![(7, 60), (8, 20), (9, 0)],
        };
        assert_eq!(visit_shares(&searched), [(7, 0.75), (8, 0.25), (9, 0.0)]);
        assert_eq!(searched_value(&searched, 1.0).wdl, [0.5, 0.3, 0.2]);
        (searched.record.result, searched.record.plies_left) = (0, 30);
        let target = searched_value(&searched, 0.5);
        assert_eq!((target.wdl, target.weight), ([0.25, 0.15, 0.6], 1.0));
        assert_eq!(target.plies, 30.0 / PLIES_UNIT);
        let share: ResultShare = "0.2, 0.8".parse().unwrap();
        let lengths = HashMap::from([(0, 40)]);
        assert!(share.depends_on_ply());
        for (plies, expected) in [(40, 0.2), (30, 0.35), (0, 0.8)] {
            searched.record.plies_left = plies;
            assert!((share.at(&searched.record, &lengths) - expected).abs() < 1e-6);
        }
        let constant: ResultShare = "0.3".parse().unwrap();
        assert!(!constant.depends_on_ply());
        assert_eq!(constant.at(&searched.record, &HashMap::new()), 0.3);
        for wrong in ["", "1.5", "0.1,x", "-1,1"] {
            assert!(wrong.parse::<ResultShare>().is_err(), "{wrong}");
        }
        searched.moves.clear();
        assert!(visit_shares(&searched).is_empty());
    }

    #[test]
    fn scored_alternatives_share_the_policy() {
        let mut record = record(START, 30);
        assert!(record_policy(&record, 0.04).is_empty());
        record.best = 7;
        assert_eq!(record_policy(&record, 0.04), [(7, 1.0)]);
        record.alternatives[0] = Alternative { m: 8, score: 0 };
        assert_eq!(record_policy(&record, 0.0), [(7, 1.0)]);
        let shares = record_policy(&record, 0.04);
        assert_eq!(shares.len(), 2);
        assert!((shares[0].1 + shares[1].1 - 1.0).abs() < 1e-6);
        assert!((0.2..0.45).contains(&(shares[1].1 / shares[0].1)));
    }
}
