//! A small network and files of positions for the tests.

use std::path::Path;

use shakmaty::{Chess, Color, Position};

use super::adam;
use super::checkpoint::Checkpoint;
use super::data::{MixPart, MixtureSettings, NetworkPart};
use super::run::CHECKPOINT;
use super::settings::TrainingSettings;
use super::start::Sizes;
use super::step::ValueLoss;
use super::targets::TargetSettings;
use crate::dataset::record::{Record, Source};
use crate::dataset::record_file::{Layout, RecordWriter};
use crate::sparse::features::InputSet;
use crate::sparse::network::Shape;

pub(super) const TINY: Shape = Shape {
    policy: 64,
    value: 64,
    hidden: 8,
    stages: 1,
    inputs: InputSet::Position,
};

/// Writes the first `count` positions of a game, each with a best move and a score; every eighth is held out.
pub(super) fn write(path: &Path, count: usize) {
    let mut writer = RecordWriter::create(path, Layout::Plain).unwrap();
    let mut position = Chess::default();
    for index in 0..count {
        let moves = position.legal_moves();
        let Some(&m) = moves.get(index * 7 % moves.len().max(1)) else {
            break;
        };
        let mut record = Record::new(&position, position.turn() == Color::Black, Source::Real);
        record.best = Record::pack_move(m, position.turn());
        record.score = (index as i16 * 137) % 500 - 250;
        record.plies_left = (count - index) as u16;
        if index % 8 == 7 {
            record.flags |= Record::HELD_OUT;
        }
        writer.write(&record).unwrap();
        position.play_unchecked(m);
    }
    assert_eq!(writer.finish().unwrap(), count as u64);
}

pub(super) fn settings(folder: &Path, data: &Path) -> TrainingSettings {
    TrainingSettings {
        folder: folder.into(),
        mixture: MixtureSettings {
            data: vec![MixPart {
                file: data.into(),
                share: 1.0,
            }],
            seed: 1,
            targets: TargetSettings::default(),
            trained_part: NetworkPart::Both,
        },
        test: vec![data.into()],
        test_positions: 100,
        sizes: Sizes::of(TINY),
        batch: 32,
        chunk: 16,
        rate: 5e-3,
        warmup: 10,
        weight_decay: adam::WEIGHT_DECAY,
        steps: Some(20),
        minutes: Some(10.0),
        decay: None,
        value_loss: ValueLoss::default(),
        plies_weight: 0.02,
        threads: 1,
        fixed_order: false,
        save_every: 1000,
        test_every: 1000,
        log_every: 10,
    }
}

pub(super) fn weights(folder: &Path) -> Checkpoint {
    let mut checkpoint = Checkpoint::load(&folder.join(CHECKPOINT)).unwrap();
    // The duration of a run is not reproducible.
    checkpoint.progress.seconds = 0.0;
    checkpoint
}
