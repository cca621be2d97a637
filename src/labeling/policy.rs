//! Distillation: a teacher network's outputs on recorded positions, as training data for another network. The policy
//! takes the place of visits, the value that of a search's value. This trains a small student after a large network, or
//! after one that predicts human moves.

use anyhow::{Result, ensure};
use shakmaty::{Chess, Position};

use crate::{
    chess::{History, PackedMove},
    dataset::{
        record::Record,
        searched::{ENTRY, Samples, SearchedRoot, WHOLE},
    },
    network::{
        Evaluator, Value,
        evaluator::{Evaluation, evaluate_all},
    },
};

/// A network's outputs for a position.
pub struct NetworkAnswer {
    /// Its value, for the side to move.
    pub value: Value,
    /// Its legal moves (as [`Record::best`]) and their probabilities.
    pub policy: Vec<(u16, f32)>,
}

/// Evaluates positions in one batch. Each must have a legal move.
///
/// # Errors
/// When the network fails.
pub fn evaluate(positions: &[History], evaluator: &dyn Evaluator) -> Result<Vec<NetworkAnswer>> {
    let evaluations = evaluate_all(evaluator, positions.iter().map(History::plies))?;
    let output = |(history, evaluation): (&History, Evaluation)| {
        let (position, turn) = (history.position(), history.position().turn());
        let code = |m: &PackedMove| Record::pack_move(m.unpack(position), turn);
        let codes = evaluation.moves.iter().map(code);
        NetworkAnswer {
            value: evaluation.value,
            policy: codes.zip(evaluation.priors).collect(),
        }
    };
    Ok(positions.iter().zip(evaluations).map(output).collect())
}

/// Positions with a network's outputs, in the layout of a file (see [`searched`](crate::dataset::searched)).
#[derive(Default)]
pub struct Answers {
    samples: Samples,
    /// Number of skipped records, whose games are over.
    pub skipped: u64,
}

impl Answers {
    /// Number of positions.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Evaluates records in one batch, each with its [position of the game](Record::game_position).
    ///
    /// # Errors
    /// When the network fails, or there are too many positions for one file.
    pub fn evaluate(
        &mut self,
        records: &[(Record, Chess)],
        evaluator: &dyn Evaluator,
    ) -> Result<()> {
        let (mut evaluated, mut positions) = (Vec::new(), Vec::new());
        for (record, position) in records {
            if position.legal_moves().is_empty() {
                self.skipped += 1;
                continue;
            }
            evaluated.push(record);
            positions.push(History::new(position.clone()));
        }
        for (record, output) in evaluated.into_iter().zip(evaluate(&positions, evaluator)?) {
            self.push(record, &output)?;
        }
        Ok(())
    }

    /// Appends positions with their outputs.
    ///
    /// # Errors
    /// When there are too many positions for one file.
    pub fn append(&mut self, other: &Answers) -> Result<()> {
        let bytes = other.samples.entries.len();
        self.samples.ensure_room_for(bytes, "--count")?;
        self.samples.append(&other.samples);
        self.skipped += other.skipped;
        Ok(())
    }

    fn push(&mut self, record: &Record, output: &NetworkAnswer) -> Result<()> {
        let moves = output.policy.iter();
        let moves = moves.map(|&(m, p)| (m, (p * WHOLE).round() as u32));
        let sum: u32 = moves.clone().map(|(_, visits)| visits).sum();
        ensure!(
            sum > 0,
            "the network's policy assigns zero probability to every legal move"
        );
        let bytes = output.policy.len() * ENTRY;
        self.samples.ensure_room_for(bytes, "--count")?;
        let best = moves.clone().map(|(m, visits)| (visits, m)).max();
        let best = best.map_or(0, |(_, m)| m);
        let root = SearchedRoot {
            best,
            visits: sum,
            value: output.value,
        };
        self.samples.push(&Record { best, ..*record }, &root, moves);
        Ok(())
    }

    /// The bytes of a file.
    pub fn to_file(&self) -> Vec<u8> {
        self.samples.to_file()
    }
}
