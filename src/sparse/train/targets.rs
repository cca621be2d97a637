//! What is to be learned from a record: shares of the moves, win/draw/loss, plies left.
//!
//! The same rules as those of the dense networks (`networks/training/README.md`, "What is learned, and from what").

use crate::dataset::record::{MATE, NO_PLIES, NO_RESULT, NO_SCORE, Record, Source};
use crate::sparse::network::PLIES_UNIT;

use super::step::ValueTarget;

/// W = sigmoid((c - MIDDLE) / SPREAD), L = sigmoid((-c - MIDDLE) / SPREAD) for c softened centipawns.
const MIDDLE: f32 = 140.0;
const SPREAD: f32 = 110.0;
/// Up to here softened centipawns are centipawns, from here on they grow with the logarithm.
const KNEE: f32 = 200.0;
/// Beyond this evaluation half of what is added comes from the count of the pieces.
const DECIDED: f32 = 400.0;
/// Scores at least so large are mates.
const SHORTEST_MATE: i16 = MATE - 1000;
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
    let decided = score.abs() > DECIDED && score.abs() < f32::from(SHORTEST_MATE);
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
