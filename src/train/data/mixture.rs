//! Batches of training positions, drawn from a mixture of files.
//!
//! Records are drawn one by one, with replacement, because neighbours in a file come from the same game. Files may grow
//! while they are read, or be replaced; [`Mixture::reopen`] opens them again. Held-out positions are used for
//! tests only, never for training.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::games_file::MixPart;
use super::part::NetworkPart;
use super::position_file::{CountedFile, DrawnPosition, PositionFile, add_searched};
use super::sample_batch::{SampleBatch, SkipReason};
use crate::dataset::record::{NO_RESULT, NO_SCORE, Record};
use crate::sparse::history::Past;
use crate::train::targets::{self, TargetSettings};

/// The data of a training run, and the targets derived from it.
#[derive(Clone, Debug)]
pub struct MixtureSettings {
    /// Files to train on.
    pub data: Vec<MixPart>,
    /// Seed of the choice of positions.
    pub seed: u64,
    /// How targets are derived from the records.
    pub targets: TargetSettings,
    /// The networks that are trained; targets of the others are left out.
    pub trained_part: NetworkPart,
}

/// Most positions that are drawn for each one that a batch takes: a file of which fewer can be used has almost nothing
/// to train on.
const DRAWS_PER_POSITION: usize = 100;
/// Positions that are drawn besides, so that chance decides nothing in small batches.
const MORE_DRAWS: usize = 1000;

/// Record files as a stream of batches.
#[derive(Debug)]
pub struct Mixture {
    settings: MixtureSettings,
    /// Number of times that an impossible position was drawn.
    impossible: AtomicU64,
    /// The files, as they were when they were last opened.
    files: Vec<CountedFile>,
}

/// Number of a draw, which with the seed decides what is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawNumber {
    /// Step of the run.
    pub step: u64,
    /// Chunk of the step, counted from 0.
    pub chunk: u64,
}

/// The open files from which one thread draws.
#[derive(Debug)]
pub struct BatchSampler {
    files: Vec<PositionFile>,
}

impl Mixture {
    /// The mixture of these files.
    ///
    /// # Errors
    /// When a file is missing, empty or not a record file.
    pub fn new(settings: MixtureSettings) -> Result<Mixture> {
        ensure!(
            !settings.data.is_empty(),
            "no training data: name a record file with --data FILE:SHARE"
        );
        let mut mixture = Mixture {
            settings,
            impossible: AtomicU64::new(0),
            files: Vec::new(),
        };
        mixture.count_positions()?;
        Ok(mixture)
    }

    /// Opens the files again, also those of the samplers: they may have grown or been replaced.
    ///
    /// # Errors
    /// When a file is missing, empty or not a record file.
    pub fn reopen<'s>(
        &mut self,
        samplers: impl Iterator<Item = &'s mut BatchSampler>,
    ) -> Result<()> {
        self.count_positions()?;
        for sampler in samplers {
            *sampler = self.sampler()?;
        }
        Ok(())
    }

    /// Updates the numbers of positions, and the lengths of games in the files in which they have changed.
    fn count_positions(&mut self) -> Result<()> {
        let share = self.settings.targets.result_share;
        let mut before = std::mem::take(&mut self.files).into_iter();
        for part in &self.settings.data {
            let file = CountedFile::read(&part.file.path, before.next(), share)?;
            self.files.push(file);
        }
        Ok(())
    }

    /// Number of times that an impossible position was drawn and skipped, the same one perhaps; more than 0 means a
    /// damaged file.
    pub fn impossible(&self) -> u64 {
        self.impossible.load(Ordering::Relaxed)
    }

    /// Opens the files for a thread.
    ///
    /// # Errors
    /// When a file cannot be opened.
    pub fn sampler(&mut self) -> Result<BatchSampler> {
        let parts = self.settings.data.iter();
        let files = parts.map(|part| PositionFile::open_filled(&part.file.path));
        let files = files.collect::<Result<Vec<_>>>()?;
        // A file that is being replaced by a shorter one may just have been counted.
        for (counted, file) in self.files.iter_mut().zip(&files) {
            counted.count = file.count().min(counted.count);
        }
        Ok(BatchSampler { files })
    }

    /// Draws `size` positions. Those of which only the result is known and left out, by its weight, count as drawn, so
    /// that the others are not used more often in their place.
    ///
    /// # Errors
    /// When a file cannot be read, or almost none of its positions can be trained on.
    pub fn draw<B: SampleBatch>(
        &self,
        sampler: &mut BatchSampler,
        number: DrawNumber,
        size: usize,
        batch: &mut B,
    ) -> Result<()> {
        let mut rng = generator(self.settings.seed, number);
        batch.clear();
        let has_results = self.settings.targets.result_weight > 0.0;
        for (part, count) in self.sizes(size, &mut rng).into_iter().enumerate() {
            let (mut left, mut skipped) = (count, BTreeMap::new());
            for _ in 0..MORE_DRAWS + DRAWS_PER_POSITION * count {
                if left == 0 {
                    break;
                }
                match self.draw_one(sampler, part, &mut rng, batch)? {
                    Ok(()) => left -= 1,
                    Err(SkipReason::ResultOnly) if has_results => left -= 1,
                    Err(reason) => *skipped.entry(reason).or_insert(0_u64) += 1,
                }
            }
            if left > 0 {
                let path = self.settings.data[part].file.path.display();
                let reasons = skipped
                    .iter()
                    .map(|(reason, n)| format!("{n} {}", reason.description()));
                let reasons = reasons.collect::<Vec<_>>().join(", ");
                bail!("{path}: nothing to train on; skipped positions: {reasons}");
            }
        }
        Ok(())
    }

    /// Draws one position of a file and adds it to the batch, unless it has to be skipped.
    fn draw_one<B: SampleBatch>(
        &self,
        sampler: &mut BatchSampler,
        part: usize,
        rng: &mut SmallRng,
        batch: &mut B,
    ) -> Result<Result<(), SkipReason>> {
        let at = rng.random_range(0..self.files[part].count);
        let mut drawn = sampler.files[part].get(at)?;
        if drawn.record().held_out() {
            return Ok(Err(SkipReason::HeldOut));
        }
        if B::MIRRORS && !drawn.record().has_castling_rights() && rng.random_bool(0.5) {
            drawn.mirror();
        }
        let settings = &self.settings;
        let past = sampler.files[part].past(batch.inputs(), at, drawn.record())?;
        let past = settings.data[part].file.with_players(drawn.record(), past);
        let added = match &drawn {
            DrawnPosition::Record(record) => self.add_record(record, &past, rng, batch),
            DrawnPosition::Searched(searched) => {
                let lengths = &self.files[part].lengths;
                let targets = targets::of_searched(searched, &settings.targets, lengths);
                add_searched(searched, &past, targets, settings.trained_part, batch)
            }
        };
        if added == Err(SkipReason::Impossible) {
            self.impossible.fetch_add(1, Ordering::Relaxed);
        }
        Ok(added)
    }

    /// How many positions each file contributes; fractions are rounded at random.
    fn sizes(&self, size: usize, rng: &mut SmallRng) -> Vec<usize> {
        let total: f64 = self.settings.data.iter().map(|part| part.share).sum();
        let mut sizes = Vec::with_capacity(self.settings.data.len());
        let (mut sum, mut given) = (0.0, 0);
        let offset = rng.random_range(0.0..1.0);
        for part in &self.settings.data {
            sum += part.share / total * size as f64;
            let until = ((sum + offset) as usize).min(size);
            sizes.push(until - given);
            given = until;
        }
        sizes[0] += size - given;
        sizes
    }

    /// Adds a record to a batch, unless it has to be skipped.
    fn add_record<B: SampleBatch>(
        &self,
        record: &Record,
        past: &Past,
        rng: &mut SmallRng,
        batch: &mut B,
    ) -> Result<(), SkipReason> {
        let trained_part = self.settings.trained_part;
        let mut settings = self.settings.targets;
        // A game's result without a score is a noisy target. Some trainers use a part of them instead of weighting all
        // of them.
        let mut drops_value = false;
        if B::SAMPLES_RESULTS && record.score == NO_SCORE && !record.is_exact() {
            drops_value = !rng.random_bool(settings.result_weight);
            settings.result_weight = 1.0;
        }
        if !targets::is_useful(record) {
            return Err(SkipReason::Book);
        }
        let mut targets = targets::of_record(record, &settings).only(trained_part);
        let has_result = targets.value.is_some() && record.result != NO_RESULT;
        if drops_value {
            targets.value = None;
        }
        match batch.add(record, past, &targets) {
            Err(SkipReason::Unlabelled) if drops_value && has_result => Err(SkipReason::ResultOnly),
            other => other,
        }
    }
}

/// The random number generator of a draw.
pub(super) fn generator(seed: u64, number: DrawNumber) -> SmallRng {
    // Different steps and chunks must not share a seed: constants of splitmix64.
    let mixed = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(number.step)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .wrapping_add(number.chunk)
        .wrapping_mul(0x94d0_49bb_1331_11eb);
    SmallRng::seed_from_u64(mixed ^ mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use shakmaty::{Chess, Color, Position};

    use super::*;
    use crate::chess::wdl::Value;
    use crate::dataset::record::Source;
    use crate::dataset::record_file::{Layout, RecordWriter};
    use crate::dataset::searched::{Samples, SearchedRoot};
    use crate::train::chunk::Chunk;
    use crate::train::targets::ValueTarget;

    /// Writes a file of one position.
    fn write(path: &Path, change: impl Fn(&mut Record)) {
        let mut record = Record::new(&Chess::default(), false, Source::Real);
        change(&mut record);
        let mut writer = RecordWriter::create(path, Layout::Plain).unwrap();
        writer.write(&record).unwrap();
        writer.finish().unwrap();
    }

    #[test]
    fn results_without_a_score_are_value_targets_by_their_weight() {
        let folder = tempfile::tempdir().unwrap();
        let [results, scores, exact] =
            ["results.rec", "scores.rec", "exact.rec"].map(|name| folder.path().join(name));
        write(&results, |record| record.result = 2);
        write(&scores, |record| (record.result, record.score) = (1, 0));
        write(&exact, |record| {
            record.result = 1;
            record.flags |= Record::EXACT;
        });
        let part = |path: &Path| MixPart {
            file: path.into(),
            share: 0.5,
        };
        // Wins and draws among the value targets of 2000 positions.
        let targets = |data: &[&Path], trained_part, result_weight| -> Result<[usize; 2]> {
            let settings = MixtureSettings {
                data: data.iter().map(|path| part(path)).collect(),
                seed: 1,
                targets: TargetSettings {
                    result_weight,
                    result_mix: 1.0,
                    ..TargetSettings::default()
                },
                trained_part,
            };
            let mut mixture = Mixture::new(settings)?;
            let (mut sampler, mut chunk) = (mixture.sampler()?, Chunk::default());
            mixture.draw(&mut sampler, DrawNumber::default(), 2000, &mut chunk)?;
            let count = |at: usize| {
                let is_result = |target: &&ValueTarget| target.wdl[at] == 1.0;
                chunk.values.iter().filter(is_result).count()
            };
            Ok([count(0), count(1)])
        };
        for trained_part in [NetworkPart::Value, NetworkPart::Both] {
            let drawn = |data: &[&Path], weight| targets(data, trained_part, weight).unwrap();
            assert_eq!(drawn(&[&results], 1.0), [2000, 0]);
            let [wins, _] = drawn(&[&results], 0.1);
            assert!((150..250).contains(&wins), "{wins}");
            // Beside another file, whose share stays the same.
            let [wins, draws] = drawn(&[&results, &scores], 0.1);
            assert!((70..130).contains(&wins) && draws == 1000, "{wins} {draws}");
            assert_eq!(drawn(&[&results, &scores], 0.1), [wins, draws]);
            // Few are enough.
            let [wins, _] = drawn(&[&results], 0.005);
            assert!((1..25).contains(&wins), "{wins}");
            assert_eq!(drawn(&[&scores], 0.1), [0, 2000]);
            assert_eq!(drawn(&[&exact], 0.1), [0, 2000]);
            assert!(targets(&[&results], trained_part, 0.0).is_err());
        }
    }

    #[test]
    fn samplers_draw_from_a_file_that_was_replaced_by_a_shorter_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.vis");
        let write = |positions: usize| {
            let mut samples = Samples::default();
            let root = SearchedRoot {
                best: 0,
                visits: 20,
                value: Value::default(),
            };
            let start = Chess::default();
            let record = Record::new(&start, false, Source::Real);
            for _ in 0..positions {
                // Their visits take more bytes than a position.
                let moves = start.legal_moves().into_iter();
                let moves = moves.map(|m| (Record::pack_move(m, Color::White), 1));
                samples.push(&record, &root, moves);
            }
            fs::write(&path, samples.to_file()).unwrap();
        };
        write(9);
        let settings = MixtureSettings {
            data: vec![MixPart {
                file: path.clone().into(),
                share: 1.0,
            }],
            seed: 1,
            targets: TargetSettings::default(),
            trained_part: NetworkPart::Both,
        };
        let mut mixture = Mixture::new(settings).unwrap();
        write(2);
        let mut sampler = mixture.sampler().unwrap();
        assert_eq!(mixture.files[0].count, 2);
        let mut chunk = Chunk::default();
        mixture
            .draw(&mut sampler, DrawNumber::default(), 50, &mut chunk)
            .unwrap();
        assert_eq!(mixture.impossible(), 0);
    }
}
