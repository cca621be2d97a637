//! Batches of the dense networks, which `networks/training` trains with PyTorch: positions with the targets of policy
//! and value.
//!
//! A position is sent as the first [`POSITION_BYTES`] bytes of its record; the trainer makes input planes of them on
//! its device. Half of the positions without castling rights are mirrored left to right.

use shakmaty::{Color, Position};

use crate::chess::PackedMove;
use crate::dataset::record::{ALTERNATIVES, Record};
use crate::network::input::policy_map;
use crate::sparse::history::Past;

use super::data::{SampleBatch, SkipReason};
use super::targets::Targets;
use super::targets::ValueTarget;

/// Bytes of a position: board, castling rights and colour, en passant file, rule 50, flags.
pub const POSITION_BYTES: usize = 36;
/// A batch has at least this many moves per position, so that batches of records all have the same shape.
const MIN_MOVES: usize = 1 + ALTERNATIVES;

/// Positions for a dense network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DenseBatch {
    /// The positions, [`POSITION_BYTES`] each.
    pub positions: Vec<u8>,
    /// Policy target of each position: indices of lc0's policy vector and their shares, the largest first. Shares sum
    /// to 1; empty if unknown.
    pub policy: Vec<Vec<(u16, f32)>>,
    /// Value target of each position; weights of 0 if unknown.
    pub values: Vec<ValueTarget>,
}

impl DenseBatch {
    /// Moves per position: those of the position with the most policy targets.
    pub fn moves_per_position(&self) -> usize {
        let most = self.policy.iter().map(Vec::len).max();
        most.unwrap_or(0).max(MIN_MOVES)
    }

    /// The policy targets as a table with [`DenseBatch::moves_per_position`] columns. Unused columns repeat the first
    /// move with a share of 0.
    pub fn policy_table(&self) -> impl Iterator<Item = (u16, f32)> {
        let columns = self.moves_per_position();
        self.policy.iter().flat_map(move |moves| {
            let padding = (moves.first().map_or(0, |(index, _)| *index), 0.0);
            (0..columns).map(move |column| moves.get(column).copied().unwrap_or(padding))
        })
    }
}

impl SampleBatch for DenseBatch {
    const SAMPLES_RESULTS: bool = false;
    const MIRRORS: bool = true;

    fn clear(&mut self) {
        self.positions.clear();
        self.policy.clear();
        self.values.clear();
    }

    fn add(&mut self, record: &Record, _: &Past, targets: &Targets) -> Result<(), SkipReason> {
        let position = record.position().map_err(|_| SkipReason::Impossible)?;
        let legal = position.legal_moves();
        let index = |packed: u16| {
            let mut moves = legal.iter();
            let m = moves.find(|m| Record::pack_move(**m, Color::White) == packed)?;
            Some(policy_map::index(PackedMove::pack(*m), false, 0) as u16)
        };
        let moves = targets.policy.iter().filter(|(_, share)| *share > 0.0);
        let mut policy: Vec<(u16, f32)> = moves
            .filter_map(|&(m, share)| Some((index(m)?, share)))
            .collect();
        if policy.is_empty() && targets.value.is_none() {
            return Err(SkipReason::Unlabelled);
        }
        let sum: f32 = policy.iter().map(|(_, share)| share).sum();
        policy.iter_mut().for_each(|(_, share)| *share /= sum);
        // The best move of a record is the first one already; of equal shares the first stays in front.
        let shares = policy.iter().map(|(_, share)| *share).enumerate().rev();
        if let Some((best, _)) = shares.max_by(|a, b| a.1.total_cmp(&b.1)) {
            policy[..=best].rotate_right(1);
        }
        self.positions
            .extend_from_slice(&record.to_bytes()[..POSITION_BYTES]);
        self.policy.push(policy);
        self.values.push(targets.value.unwrap_or_default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::targets::{self, ResultShare, TargetSettings};
    use super::*;
    use crate::dataset::record::Source;
    use crate::sparse::network::PLIES_UNIT;

    /// What the Python implementation that this one replaced computed for a record, with default settings.
    #[derive(Deserialize)]
    struct Expected {
        /// 64 bytes in hexadecimal.
        record: String,
        moves: Vec<u16>,
        shares: Vec<f32>,
        wdl: [f32; 3],
        weight: f32,
        plies: f32,
        plies_weight: f32,
        /// W/D/L without the result where there is a score.
        score_alone: [f32; 3],
        mirrored_moves: Vec<u16>,
        mirrored_board: String,
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
        digits
            .map(|digits| u8::from_str_radix(digits, 16).unwrap())
            .collect()
    }

    fn is_near(found: &[f32], expected: &[f32]) -> bool {
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 2e-6 * b.abs().max(1.0);
        found.len() == expected.len() && found.iter().zip(expected).all(near)
    }

    fn batch_of(record: &Record, settings: &TargetSettings) -> DenseBatch {
        let mut batch = DenseBatch::default();
        let targets = targets::of_record(record, settings);
        batch.add(record, &Past::default(), &targets).unwrap();
        batch
    }

    #[test]
    fn targets_are_those_of_the_former_python_implementation() {
        let lines = include_str!("../../tests/data/training-targets.jsonl").lines();
        let mut shared = 0;
        for line in lines {
            let expected: Expected = serde_json::from_str(line).unwrap();
            let raw = bytes(&expected.record);
            let record = Record::from_bytes(raw.as_slice().try_into().unwrap());
            let batch = batch_of(&record, &TargetSettings::default());
            assert_eq!(batch.positions, raw[..POSITION_BYTES]);
            let (moves, shares): (Vec<u16>, Vec<f32>) = batch.policy[0].iter().copied().unzip();
            assert_eq!(moves, expected.moves, "{line}");
            assert!(is_near(&shares, &expected.shares), "{shares:?} {line}");
            shared += usize::from(moves.len() > 1);
            let value = batch.values[0];
            assert!(is_near(&value.wdl, &expected.wdl), "{value:?} {line}");
            assert_eq!(
                (value.weight, value.plies_weight),
                (expected.weight, expected.plies_weight)
            );
            let plies = [value.plies * PLIES_UNIT];
            assert!(is_near(&plies, &[expected.plies]), "{plies:?} {line}");
            let settings = TargetSettings::for_tests(ResultShare::default());
            let tested = batch_of(&record, &settings).values[0].wdl;
            assert!(is_near(&tested, &expected.score_alone), "{tested:?} {line}");
            let mut mirrored = record;
            if !record.has_castling_rights() {
                mirrored.mirror();
            }
            let batch = batch_of(&mirrored, &TargetSettings::default());
            assert_eq!(
                batch.positions[..32],
                bytes(&expected.mirrored_board),
                "{line}"
            );
            let moves = batch.policy[0].iter().map(|(index, _)| *index);
            assert!(moves.eq(expected.mirrored_moves), "{line}");
        }
        assert!(shared > 20, "{shared} records have several moves");
    }

    #[test]
    fn the_best_move_comes_first() {
        let record = Record::new(&shakmaty::Chess::default(), false, Source::Real);
        let [a2a3, d2d4, e2e4] = [8 | 16 << 6, 11 | 27 << 6, 12 | 28 << 6];
        let first = |policy: &[(u16, f32)]| {
            let mut batch = DenseBatch::default();
            let targets = Targets {
                policy: policy.to_vec(),
                value: None,
            };
            batch.add(&record, &Past::default(), &targets).unwrap();
            batch.policy.remove(0)
        };
        let shares = first(&[(a2a3, 0.25), (d2d4, 0.5), (e2e4, 0.25)]);
        assert_eq!(
            shares.iter().map(|(_, share)| *share).collect::<Vec<_>>(),
            [0.5, 0.25, 0.25]
        );
        let equal = [(e2e4, 0.5), (d2d4, 0.5)];
        assert_eq!(
            first(&equal)[0],
            first(&equal[..1]).first().map(|(m, _)| (*m, 0.5)).unwrap()
        );
        // A move that is illegal in the position is dropped, and the others share what it had.
        assert_eq!(first(&[(0o7700, 0.5), (e2e4, 0.5)]), first(&[(e2e4, 1.0)]));
    }

    #[test]
    fn unused_columns_of_the_policy_repeat_the_first_move_without_a_share() {
        let batch = DenseBatch {
            policy: vec![vec![(9, 0.75), (4, 0.25)], Vec::new()],
            ..DenseBatch::default()
        };
        let table: Vec<_> = batch.policy_table().collect();
        let first = [(9, 0.75), (4, 0.25), (9, 0.0), (9, 0.0), (9, 0.0)];
        assert_eq!(table[..5], first);
        assert_eq!(table[5..], [(0, 0.0); 5]);
    }
}
