//! Positions to learn from: a mixture of record files, drawn at random, the same for the same seed, step and files.
//!
//! A file has records of `scorn dataset`, or positions with all visits of `scorn selfplay`
//! ([`searched`](crate::dataset::searched)). Of the latter nothing is held out but what is marked: to measure, take a file that
//! is not learned from.
//!
//! Records are drawn with replacement and one by one: neighbours in a file come from the same game. Files may grow while they are
//! read; [`Mixture::reopen`] looks how long they are now. Held-out positions are never drawn for training, and only they for
//! measuring.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use shakmaty::{Chess, Color, Position};

use crate::dataset::record::{NO_RESULT, NO_SCORE, Record};
use crate::dataset::record_file::RecordFile;
use crate::dataset::searched::{Searched, SearchedFile, is_searched};
use crate::sparse::attacks::Attacks;
use crate::sparse::features::{ActiveFeatures, SquareView};
use crate::sparse::moves::Rows;

use super::step::Chunk;
use super::targets::{self, ResultShare};

/// What is learned: the policy and the value are networks of their own, so one of them can stay as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum NetworkPart {
    /// Policy and value.
    #[default]
    Both,
    /// The policy alone.
    Policy,
    /// The value alone.
    Value,
}

/// A record file and its share of every batch.
#[derive(Clone, Debug, PartialEq)]
pub struct MixPart {
    /// The file.
    pub path: PathBuf,
    /// Its share, in proportion to those of the others.
    pub share: f64,
}

impl FromStr for MixPart {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<MixPart> {
        let (path, share) = text
            .rsplit_once(':')
            .with_context(|| format!("{text}: FILE:SHARE expected"))?;
        let share: f64 = share
            .parse()
            .with_context(|| format!("{text}: the share is not a number"))?;
        ensure!(
            share > 0.0 && share.is_finite(),
            "{text}: the share is not positive"
        );
        Ok(MixPart {
            path: path.into(),
            share,
        })
    }
}

/// What is drawn, and what of it is learned.
#[derive(Clone, Debug)]
pub struct MixtureSettings {
    /// Files to learn from.
    pub data: Vec<MixPart>,
    /// Seed of what is drawn.
    pub seed: u64,
    /// Weight of the result as the value of a position without a score.
    pub result_weight: f64,
    /// Share of the result beside what the search found, for positions of self-play.
    pub result_share: ResultShare,
    /// What is learned; the other network stays as it is.
    pub trained_part: NetworkPart,
}

/// Why a position that was drawn is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SkipReason {
    HeldOut,
    Book,
    Unlabelled,
    ResultAlone,
    Impossible,
}

impl SkipReason {
    fn description(self) -> &'static str {
        match self {
            SkipReason::HeldOut => "held out",
            SkipReason::Book => "a book's, without evaluations",
            SkipReason::Unlabelled => {
                "without the moves or scores to learn (scorn dataset label finds them)"
            }
            SkipReason::ResultAlone => "with a result alone, which counts little (--result-weight)",
            SkipReason::Impossible => "impossible, so the file is damaged",
        }
    }
}

/// Record files as a stream of chunks.
#[derive(Debug)]
pub struct Mixture {
    settings: MixtureSettings,
    /// Records without a possible position that were drawn.
    impossible: AtomicU64,
    /// How long each file was when it was looked at last.
    counts: Vec<u64>,
    /// How long the games of each file are; only for files of visits, and where the share grows with the plies.
    lengths: Vec<HashMap<u32, u16>>,
}

/// What a thread needs to draw from a mixture: its own file handles.
#[derive(Debug)]
pub struct Sampler {
    files: Vec<PositionFile>,
}

/// A file of either kind.
#[derive(Debug)]
enum PositionFile {
    Records(RecordFile),
    Searched(SearchedFile),
}

/// A position of either kind.
#[derive(Debug)]
enum DrawnPosition {
    Record(Record),
    Searched(Searched),
}

impl PositionFile {
    fn open(path: &Path) -> Result<PositionFile> {
        Ok(match is_searched(path)? {
            true => PositionFile::Searched(SearchedFile::open(path)?),
            false => PositionFile::Records(RecordFile::open(path)?),
        })
    }

    fn count(&self) -> u64 {
        match self {
            PositionFile::Records(file) => file.count,
            PositionFile::Searched(file) => file.count,
        }
    }

    fn get(&mut self, index: u64) -> Result<DrawnPosition> {
        Ok(match self {
            PositionFile::Records(file) => DrawnPosition::Record(file.get(index)?),
            PositionFile::Searched(file) => DrawnPosition::Searched(file.get(index)?),
        })
    }
}

impl DrawnPosition {
    fn record(&self) -> &Record {
        match self {
            DrawnPosition::Record(record) => record,
            DrawnPosition::Searched(searched) => &searched.record,
        }
    }
}

impl Mixture {
    /// The mixture of these files.
    ///
    /// # Errors
    /// When one is missing, empty or no record file.
    pub fn new(settings: MixtureSettings) -> Result<Mixture> {
        ensure!(
            !settings.data.is_empty(),
            "there is nothing to learn from: name --data"
        );
        let mut mixture = Mixture {
            settings,
            impossible: AtomicU64::new(0),
            counts: Vec::new(),
            lengths: Vec::new(),
        };
        mixture.reopen()?;
        Ok(mixture)
    }

    /// Looks at the files again.
    ///
    /// # Errors
    /// When one is missing, empty or no record file.
    pub fn reopen(&mut self) -> Result<()> {
        self.counts.clear();
        for part in &self.settings.data {
            let file = PositionFile::open(&part.path)?;
            ensure!(file.count() > 0, "{} holds no records", part.path.display());
            self.counts.push(file.count());
            // Files of visits do not grow.
            if self.lengths.len() < self.counts.len() {
                self.lengths.push(match file {
                    PositionFile::Searched(file) if self.settings.result_share.grows() => {
                        file.lengths()?
                    }
                    _ => HashMap::new(),
                });
            }
        }
        Ok(())
    }

    /// The files' lengths, for the log.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// How many records without a possible position were drawn so far, and left out: some file is damaged.
    pub fn impossible(&self) -> u64 {
        self.impossible.load(Ordering::Relaxed)
    }

    /// File handles for a thread.
    ///
    /// # Errors
    /// When a file cannot be opened.
    pub fn sampler(&self) -> Result<Sampler> {
        let files = self
            .settings
            .data
            .iter()
            .map(|part| PositionFile::open(&part.path));
        Ok(Sampler {
            files: files.collect::<Result<_>>()?,
        })
    }

    /// Draws `size` positions: chunk `index` of a step.
    ///
    /// # Errors
    /// When a file cannot be read, or nearly nothing in it is fit to learn from.
    pub fn draw(
        &self,
        sampler: &mut Sampler,
        (step, index): (u64, u64),
        size: usize,
        chunk: &mut Chunk,
    ) -> Result<()> {
        let mut rng = generator(self.settings.seed, step, index);
        chunk.clear();
        for (part, wanted) in self.sizes(size, &mut rng).into_iter().enumerate() {
            let (mut left, mut skipped) = (wanted, BTreeMap::new());
            for _ in 0..1000 + 100 * wanted {
                if left == 0 {
                    break;
                }
                match self.draw_one(sampler, part, &mut rng, chunk)? {
                    Ok(()) => left -= 1,
                    Err(reason) => *skipped.entry(reason).or_insert(0_u64) += 1,
                }
            }
            if left > 0 {
                let path = self.settings.data[part].path.display();
                let reasons = skipped
                    .iter()
                    .map(|(reason, n)| format!("{n} {}", reason.description()));
                let reasons = reasons.collect::<Vec<_>>().join(", ");
                bail!("{path}: nothing to train on; of the positions drawn were {reasons}");
            }
        }
        Ok(())
    }

    /// Draws one position from a file and adds it, if it is fit to learn from.
    fn draw_one(
        &self,
        sampler: &mut Sampler,
        part: usize,
        rng: &mut SmallRng,
        chunk: &mut Chunk,
    ) -> Result<Result<(), SkipReason>> {
        let at = rng.random_range(0..self.counts[part]);
        let drawn = sampler.files[part].get(at)?;
        if drawn.record().held_out() {
            return Ok(Err(SkipReason::HeldOut));
        }
        let added = match &drawn {
            DrawnPosition::Record(record) => self.add(record, rng, chunk),
            DrawnPosition::Searched(searched) => {
                let share = self.settings.result_share;
                let share = share.of(&searched.record, &self.lengths[part]);
                add_searched(searched, share, self.settings.trained_part, chunk)
            }
        };
        if added == Err(SkipReason::Impossible) {
            self.impossible.fetch_add(1, Ordering::Relaxed);
        }
        Ok(added)
    }

    /// How many positions each file gives; fractions by lot.
    fn sizes(&self, size: usize, rng: &mut SmallRng) -> Vec<usize> {
        let total: f64 = self.settings.data.iter().map(|part| part.share).sum();
        let mut sizes = Vec::with_capacity(self.settings.data.len());
        let (mut sum, mut given) = (0.0, 0);
        let lot = rng.random_range(0.0..1.0);
        for part in &self.settings.data {
            sum += part.share / total * size as f64;
            let until = ((sum + lot) as usize).min(size);
            sizes.push(until - given);
            given = until;
        }
        sizes[0] += size - given;
        sizes
    }

    /// Adds a record to a chunk, if it is good for something.
    fn add(
        &self,
        record: &Record,
        rng: &mut SmallRng,
        chunk: &mut Chunk,
    ) -> Result<(), SkipReason> {
        let trained_part = self.settings.trained_part;
        // A result alone is a noisy target: instead of counting each a little, few of them are taken.
        let with_value = record.score != NO_SCORE || rng.random_bool(self.settings.result_weight);
        let value = (with_value && trained_part != NetworkPart::Policy)
            .then(|| targets::value(record, 1.0, false))
            .flatten();
        let added = add(record, value, trained_part != NetworkPart::Value, chunk);
        let is_lot =
            !with_value && trained_part != NetworkPart::Policy && record.result != NO_RESULT;
        match added {
            Err(SkipReason::Unlabelled) if is_lot => Err(SkipReason::ResultAlone),
            other => other,
        }
    }
}

/// Adds a record with its policy target, if that is wanted, and the value target given, if it is good for something.
fn add(
    record: &Record,
    value: Option<super::step::ValueTarget>,
    with_policy: bool,
    chunk: &mut Chunk,
) -> Result<(), SkipReason> {
    if !targets::is_useful(record) {
        return Err(SkipReason::Book);
    }
    if !with_policy && value.is_none() {
        return Err(SkipReason::Unlabelled);
    }
    let position = record.position().map_err(|_| SkipReason::Impossible)?;
    let view = SquareView::of(&position);
    let attacks = Attacks::of(&position);
    let features = ActiveFeatures::with(&position, view, &attacks);
    let rows = Rows::new(&position, view, &attacks);
    let with_policy = with_policy && add_policy(&targets::policy(record), &position, rows, chunk);
    if with_policy {
        chunk.policy_inputs.push(features.as_slice());
    }
    if let Some(value) = value {
        chunk.value_inputs.push(features.as_slice());
        chunk.values.push(value);
    }
    match with_policy || value.is_some() {
        true => Ok(()),
        false => Err(SkipReason::Unlabelled),
    }
}

/// Adds a position that was searched, in whose value target the result has this share, if it is good for something.
fn add_searched(
    searched: &Searched,
    result_share: f32,
    trained_part: NetworkPart,
    chunk: &mut Chunk,
) -> Result<(), SkipReason> {
    let position = searched
        .record
        .position()
        .map_err(|_| SkipReason::Impossible)?;
    let view = SquareView::of(&position);
    let attacks = Attacks::of(&position);
    let features = ActiveFeatures::with(&position, view, &attacks);
    if trained_part != NetworkPart::Value {
        let rows = Rows::new(&position, view, &attacks);
        if !add_policy(&targets::visits(searched), &position, rows, chunk) {
            return Err(SkipReason::Unlabelled);
        }
        chunk.policy_inputs.push(features.as_slice());
    }
    if trained_part != NetworkPart::Policy {
        chunk.value_inputs.push(features.as_slice());
        chunk
            .values
            .push(targets::searched_value(searched, result_share));
    }
    Ok(())
}

/// Adds rows and shares of the legal moves, if one of them is wanted.
fn add_policy(wanted: &[(u16, f32)], position: &Chess, rows: Rows<'_>, chunk: &mut Chunk) -> bool {
    if wanted.is_empty() {
        return false;
    }
    let moves = position.legal_moves();
    let start = chunk.shares.len();
    let mut list = Vec::with_capacity(moves.len());
    for &m in &moves {
        let packed = Record::pack_move(m, Color::White);
        let share = wanted.iter().find(|(m, _)| *m == packed);
        chunk.shares.push(share.map_or(0.0, |(_, share)| *share));
        list.push(rows.row(m));
    }
    let sum: f32 = chunk.shares[start..].iter().sum();
    if sum <= 0.0 {
        chunk.shares.truncate(start);
        return false;
    }
    chunk.shares[start..]
        .iter_mut()
        .for_each(|share| *share /= sum);
    chunk.rows.push(&list);
    true
}

/// Random numbers of a chunk.
fn generator(seed: u64, step: u64, index: u64) -> SmallRng {
    // Different steps and chunks must not share a seed: constants of splitmix64.
    let mixed = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(step)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .wrapping_add(index)
        .wrapping_mul(0x94d0_49bb_1331_11eb);
    SmallRng::seed_from_u64(mixed ^ mixed >> 31)
}

/// Positions to measure on as chunks: held-out records with scores without results where there are scores, or any
/// positions of a file of visits. At most `count`, at random; fewer if there are not so many.
///
/// # Errors
/// When the file cannot be read.
pub fn held_out(path: &Path, count: usize, share: ResultShare) -> Result<Vec<Chunk>> {
    match PositionFile::open(path)? {
        PositionFile::Records(mut file) => Ok(chunks(&held_out_records(&mut file, count)?)),
        PositionFile::Searched(mut file) => {
            let lengths = file.lengths()?;
            let mut chunks = Vec::new();
            for some in places(file.count, count).chunks(512) {
                let mut chunk = Chunk::default();
                for &at in some {
                    let searched = file.get(at)?;
                    let share = share.of(&searched.record, &lengths);
                    // What is good for nothing is not measured.
                    let _ = add_searched(&searched, share, NetworkPart::Both, &mut chunk);
                }
                chunks.push(chunk);
            }
            Ok(chunks)
        }
    }
}

/// `wanted` different places of `count` at random, or all of them in order.
fn places(count: u64, wanted: usize) -> Vec<u64> {
    if count <= wanted as u64 {
        return (0..count).collect();
    }
    let mut rng = generator(1, 0, 0);
    let mut seen = HashSet::new();
    let mut places = Vec::with_capacity(wanted);
    while places.len() < wanted {
        let at = rng.random_range(0..count);
        if seen.insert(at) {
            places.push(at);
        }
    }
    places
}

/// Held-out records of a file, at random: at most `count`, fewer if there are not so many.
fn held_out_records(file: &mut RecordFile, count: usize) -> Result<Vec<Record>> {
    let mut rng = generator(1, 0, 0);
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let most = file.count.min(200 * count as u64);
    for _ in 0..most {
        if found.len() == count {
            break;
        }
        let at = rng.random_range(0..file.count);
        let record = file.get(at)?;
        if record.held_out() && targets::is_useful(&record) && seen.insert(at) {
            found.push(record);
        }
    }
    Ok(found)
}

/// Records as chunks to be measured: scores without results where there are scores, results otherwise, nothing left out.
pub(super) fn chunks(records: &[Record]) -> Vec<Chunk> {
    let chunks = records.chunks(512).map(|records| {
        let mut chunk = Chunk::default();
        for record in records {
            // What is good for nothing is not measured.
            let _ = add(record, targets::value(record, 1.0, true), true, &mut chunk);
        }
        chunk
    });
    chunks.collect()
}
