//! What is to be learned from a record: shares of the moves, win/draw/loss, plies left.
//!
//! The same rules as those of the dense networks (`networks/training/README.md`, "Targets").

use std::{collections::HashMap, str::FromStr};

use anyhow::{Context, Result, ensure};

use crate::dataset::record::{NO_PLIES, NO_RESULT, NO_SCORE, Record, Source, is_mate};
use crate::dataset::searched::Searched;
use crate::sparse::network::PLIES_UNIT;

use super::step::ValueTarget;

/// W = sigmoid((c - MIDDLE) / SPREAD), L = sigmoid((-c - MIDDLE) / SPREAD) for c softened centipawns.
const MIDDLE: f32 = 140.0;
const SPREAD: f32 = 110.0;
/// Up to here softened centipawns are centipawns, from here on they grow with the logarithm.
const KNEE: f32 = 200.0;
/// Beyond this evaluation half of what is added comes from the count of the pieces.
const DECIDED: f32 = 400.0;
/// Share of the result where there is an evaluation.
const RESULT_MIX: f32 = 0.2;
/// Second moves share the policy by exp(-loss of expected score / this).
const POLICY_TEMPERATURE: f32 = 0.04;
/// More plies left than these are these.
const MOST_PLIES: u16 = 300;
/// Centipawns of the pieces as people count them, by piece code.
const PIECES: [f32; 13] = [
    0.0, 100.0, 320.0, 330.0, 490.0, 1000.0, 0.0, -100.0, -320.0, -330.0, -490.0, -1000.0, 0.0,
];

/// Win, draw and loss for an evaluation in centipawns.
fn wdl(centipawns: f32) -> [f32; 3] {
    let beyond = (centipawns.abs() / KNEE - 1.0).max(0.0);
    let soft = centipawns.clamp(-KNEE, KNEE) + (KNEE * beyond.ln_1p()).copysign(centipawns);
    let win = 1.0 / (1.0 + ((MIDDLE - soft) / SPREAD).exp());
    let loss = 1.0 / (1.0 + ((MIDDLE + soft) / SPREAD).exp());
    [win, (1.0 - win - loss).max(0.0), loss]
}

/// The evaluation, with decided positions told apart by their material.
fn with_material(record: &Record) -> f32 {
    let score = f32::from(record.score);
    let decided = score.abs() > DECIDED && !is_mate(record.score);
    if !decided {
        return score;
    }
    let codes = record.board.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    let count: f32 = codes.filter_map(|code| PIECES.get(usize::from(code))).sum();
    let material = count * score.signum();
    let beyond = ((score.abs() - DECIDED) + (material - DECIDED).max(0.0)) / 2.0;
    (DECIDED + beyond).copysign(score)
}

/// Whether anything can be learned: in games with evaluations, moves without one are the opening book's.
pub fn is_useful(record: &Record) -> bool {
    let evaluated = matches!(
        record.source(),
        Some(Source::EngineGame | Source::Chess960EngineGame)
    );
    !evaluated || record.score != NO_SCORE
}

/// The value of a record's position. Where there is a result and no score, it counts `result_weight`; where there are
/// both, the result is a fifth of the target, unless only the score is wanted.
pub fn value(record: &Record, result_weight: f32, score_alone: bool) -> Option<ValueTarget> {
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
    let mix = match (has_score, has_result) {
        (true, true) if !score_alone => RESULT_MIX,
        (true, _) => 0.0,
        (false, _) => 1.0,
    };
    let score = if has_score {
        wdl(with_material(record))
    } else {
        [0.0; 3]
    };
    let weight = match (has_score, has_result) {
        (true, _) => 1.0,
        (false, true) => result_weight,
        (false, false) => 0.0,
    };
    Some(ValueTarget {
        wdl: std::array::from_fn(|at| (1.0 - mix) * score[at] + mix * outcome[at]),
        weight,
        plies: f32::from(record.plies_left.min(MOST_PLIES)) / PLIES_UNIT,
        plies_weight: if has_plies { 1.0 } else { 0.0 },
    })
}

/// The share k of a game's result z in the value target k z + (1 - k) q of a position that was searched, q being what the
/// search found. It goes in a straight line over the plies of a game (V. Prasad, "Lessons from AlphaZero", part 4, has z and
/// q; CGZero has k grow).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResultShare {
    /// At the first position of a game, 0..=1.
    pub first: f32,
    /// At its end, 0..=1.
    pub last: f32,
}

impl Default for ResultShare {
    /// AlphaZero's: the result alone.
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
        let number = |text: &str| -> Result<f32> {
            let share = text.trim().parse::<f32>();
            let share = share.with_context(|| format!("'{text}' is not a number"))?;
            ensure!((0.0..=1.0).contains(&share), "{share} is not from 0 to 1");
            Ok(share)
        };
        let (first, last) = text.split_once(',').unwrap_or((text, text));
        Ok(ResultShare {
            first: number(first)?,
            last: number(last)?,
        })
    }
}

impl ResultShare {
    /// Whether it is not the same all the time, so that the lengths of games matter.
    pub fn grows(self) -> bool {
        self.first != self.last
    }

    /// The share in a position of a game whose first position has so many plies left.
    pub fn of(self, record: &Record, lengths: &HashMap<u32, u16>) -> f32 {
        let length = lengths.get(&record.game).copied().unwrap_or(0);
        let left = f32::from(record.plies_left.min(length)) / f32::from(length.max(1));
        self.last + (self.first - self.last) * left
    }
}

/// The value of a position that was searched, in which its result has this share (0 where it is not known).
pub fn searched_value(searched: &Searched, result_share: f32) -> ValueTarget {
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
        plies: f32::from(record.plies_left.min(MOST_PLIES)) / PLIES_UNIT,
        plies_weight: if has_plies { 1.0 } else { 0.0 },
    }
}

/// Moves and their shares of the policy: as they were visited. Empty: none was.
pub fn visits(searched: &Searched) -> Vec<(u16, f32)> {
    let sum: u64 = searched.moves.iter().map(|(_, n)| u64::from(*n)).sum();
    if sum == 0 {
        return Vec::new();
    }
    let share = |n: u32| (f64::from(n) / sum as f64) as f32;
    let moves = searched.moves.iter();
    moves.map(|&(m, n)| (m, share(n))).collect()
}

/// Moves and their shares of the policy: the best one, and where a teacher has scored others, those too. Empty: unknown.
pub fn policy(record: &Record) -> Vec<(u16, f32)> {
    if record.best == 0 {
        return Vec::new();
    }
    let expected = |score: i16| {
        let [win, draw, _] = wdl(f32::from(score));
        win + draw / 2.0
    };
    let best = expected(record.score);
    let others = record.alternatives.iter().filter(|other| other.m != 0);
    let mut shares = vec![(record.best, 1.0)];
    shares.extend(others.map(|other| {
        let loss = (best - expected(other.score)).max(0.0);
        (other.m, (-loss / POLICY_TEMPERATURE).exp())
    }));
    let sum: f32 = shares.iter().map(|(_, share)| share).sum();
    shares.iter_mut().for_each(|(_, share)| *share /= sum);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::record::Alternative;
    use shakmaty::{CastlingMode, Chess, fen::Fen};

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
            // Half of what is beyond 400 is material, of which there is none: 450, which count as 200 + 200 ln 2.25 = 362.2.
            (500, [0.8829, 0.1068, 0.0103]),
        ] {
            let target = value(&record(START, score), 0.1, false).unwrap();
            for (got, expected) in target.wdl.iter().zip(expected) {
                assert!((got - expected).abs() < 2e-3, "{score}: {:?}", target.wdl);
            }
            assert_eq!((target.weight, target.plies_weight), (1.0, 0.0));
        }
    }

    #[test]
    fn odds_are_told_apart_by_their_material() {
        let win = |fen: &str, score| value(&record(fen, score), 0.1, false).unwrap().wdl[0];
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
    fn results_count_little_where_there_is_no_score() {
        let mut record = record(START, NO_SCORE);
        assert_eq!(value(&record, 0.1, false), None);
        record.result = 2;
        record.plies_left = 400;
        let target = value(&record, 0.1, false).unwrap();
        assert_eq!((target.wdl, target.weight), ([1.0, 0.0, 0.0], 0.1));
        assert_eq!(
            (target.plies, target.plies_weight),
            (300.0 / PLIES_UNIT, 1.0)
        );
        record.score = 0;
        let mixed = value(&record, 0.1, false).unwrap();
        assert!((mixed.wdl[0] - (0.8 * 0.2188 + 0.2)).abs() < 1e-3);
        assert_eq!(value(&record, 0.1, true).unwrap().wdl[0], wdl(0.0)[0]);
    }

    #[test]
    fn what_was_searched_is_learned_as_visits_and_a_mixture_of_result_and_value() {
        let mut searched = Searched {
            record: record(START, 30),
            best: 7,
            visits: 100,
            wdl: [0.5, 0.3, 0.2],
            moves: vec![(7, 60), (8, 20), (9, 0)],
        };
        assert_eq!(visits(&searched), [(7, 0.75), (8, 0.25), (9, 0.0)]);
        assert_eq!(searched_value(&searched, 1.0).wdl, [0.5, 0.3, 0.2]);
        (searched.record.result, searched.record.plies_left) = (0, 30);
        let target = searched_value(&searched, 0.5);
        assert_eq!((target.wdl, target.weight), ([0.25, 0.15, 0.6], 1.0));
        assert_eq!(target.plies, 30.0 / PLIES_UNIT);
        let share: ResultShare = "0.2, 0.8".parse().unwrap();
        let lengths = HashMap::from([(0, 40)]);
        assert!(share.grows());
        for (plies, expected) in [(40, 0.2), (30, 0.35), (0, 0.8)] {
            searched.record.plies_left = plies;
            assert!((share.of(&searched.record, &lengths) - expected).abs() < 1e-6);
        }
        let constant: ResultShare = "0.3".parse().unwrap();
        assert!(!constant.grows());
        assert_eq!(constant.of(&searched.record, &HashMap::new()), 0.3);
        for wrong in ["", "1.5", "0.1,x", "-1,1"] {
            assert!(wrong.parse::<ResultShare>().is_err(), "{wrong}");
        }
        searched.moves.clear();
        assert!(visits(&searched).is_empty());
    }

    #[test]
    fn second_moves_have_a_part_of_the_policy() {
        let mut record = record(START, 30);
        assert!(policy(&record).is_empty());
        record.best = 7;
        assert_eq!(policy(&record), [(7, 1.0)]);
        record.alternatives[0] = Alternative { m: 8, score: 0 };
        let shares = policy(&record);
        assert_eq!(shares.len(), 2);
        assert!((shares[0].1 + shares[1].1 - 1.0).abs() < 1e-6);
        assert!((0.2..0.45).contains(&(shares[1].1 / shares[0].1)));
    }
}
