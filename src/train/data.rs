//! The training data: a mixture of record files from which positions are drawn at random, the same for the same seed,
//! step and files.
//!
//! A file holds records of `scorn dataset`, or positions of `scorn selfplay` with the visits of their searches
//! ([`searched`](crate::dataset::searched)). The latter have held-out positions only where `scorn dataset search` or
//! `scorn dataset policy` took them from records that have; without any, all of a file are trained on, and tests need
//! another file.
//!
//! Records are drawn one by one, with replacement, because neighbours in a file come from the same game. Files may grow
//! while they are read, or be replaced; [`Mixture::reopen`] opens them again. Held-out positions are used for
//! tests only, never for training.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use shakmaty::{Chess, Color, Position};

use crate::dataset::record::{NO_RESULT, NO_SCORE, Record};
use crate::dataset::record_file::RecordFile;
use crate::dataset::searched::{Searched, SearchedFile, is_searched};
use crate::sparse::attacks::Attacks;
use crate::sparse::features::{ActiveFeatures, InputSet, RATINGS, SideRole, SquareView};
use crate::sparse::history::Past;
use crate::sparse::moves::{RowBuffer, Rows};

use super::past;
use super::step::Chunk;
use super::targets::{self, ResultShare, TargetSettings, Targets};

/// The networks to train. Policy and value of a sparse network are separate networks, so one of them can stay
/// unchanged.
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

/// A record file, and who played the games in it, as far as a network has inputs for that.
#[derive(Clone, Debug, PartialEq)]
pub struct GamesFile {
    /// The file.
    pub path: PathBuf,
    /// The players' rating, one of [`RATINGS`].
    pub rating: Option<u32>,
    /// The engine's colour, if the other side is its fallible opponent.
    pub engine: Option<Color>,
}

impl<P: Into<PathBuf>> From<P> for GamesFile {
    fn from(path: P) -> GamesFile {
        GamesFile {
            path: path.into(),
            rating: None,
            engine: None,
        }
    }
}

impl GamesFile {
    /// A text of the form FILE, FILE@RATING or FILE@COLOR, the color being the engine's.
    ///
    /// # Errors
    /// When the rating has no input.
    pub fn parse(text: &str) -> Result<GamesFile> {
        for (end, color) in [("@white", Color::White), ("@black", Color::Black)] {
            if let Some(path) = text.strip_suffix(end) {
                return Ok(GamesFile {
                    engine: Some(color),
                    ..GamesFile::from(path)
                });
            }
        }
        let rated = text.rsplit_once('@');
        let rated = rated.and_then(|(path, rating)| Some((path, rating.parse::<u32>().ok()?)));
        let Some((path, rating)) = rated else {
            return Ok(GamesFile::from(text));
        };
        ensure!(
            RATINGS.contains(&rating),
            "{text}: networks have inputs of the ratings {RATINGS:?} only, not of {rating}"
        );
        Ok(GamesFile {
            rating: Some(rating),
            ..GamesFile::from(path)
        })
    }

    /// Checks that a network with these inputs has those of what is said of the players.
    ///
    /// # Errors
    /// When it has none: what is said would have no effect.
    pub fn check_players(&self, inputs: InputSet) -> Result<()> {
        let path = self.path.display();
        if let Some(rating) = self.rating {
            ensure!(
                inputs.has_history(),
                "{path}@{rating}: the network has no input of the players' rating; leave out @{rating}, or start one \
                 with --inputs history"
            );
        }
        if let Some(color) = self.engine {
            ensure!(
                inputs.has_mover(),
                "{path}@{color}: the network has no input of who is the engine; leave out @{color}, or start one \
                 with --inputs opponent"
            );
        }
        Ok(())
    }

    /// What was before a position of the file, with what is known of its players.
    fn with_players(&self, record: &Record, past: Past) -> Past {
        Past {
            rating: self.rating,
            mover: self
                .engine
                .map(|engine| SideRole::of(engine, record.turn())),
            ..past
        }
    }
}

/// A record file and its share of every batch.
#[derive(Clone, Debug, PartialEq)]
pub struct MixPart {
    /// The file.
    pub file: GamesFile,
    /// Its share, relative to those of the other files.
    pub share: f64,
}

impl FromStr for MixPart {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<MixPart> {
        let (file, share) = text
            .rsplit_once(':')
            .with_context(|| format!("'{text}' is not of the form FILE:SHARE"))?;
        let share: f64 = share
            .parse()
            .with_context(|| format!("{text}: the share '{share}' is not a number"))?;
        ensure!(
            share > 0.0 && share.is_finite(),
            "{text}: the share must be positive"
        );
        Ok(MixPart {
            file: GamesFile::parse(file)?,
            share,
        })
    }
}

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

/// Training positions in the form that a trainer takes.
pub trait SampleBatch: Default {
    /// What a value target with a weight below 1, a result without a score, means: true, the target is used with this
    /// probability and full weight, and otherwise the position counts as drawn without it; false, it is always used,
    /// with this weight.
    const SAMPLES_RESULTS: bool;
    /// Whether half of the positions without castling rights are mirrored left to right.
    const MIRRORS: bool;

    /// Removes all positions and keeps the allocated memory.
    fn clear(&mut self);

    /// The network's inputs, if it is a sparse one.
    fn inputs(&self) -> InputSet {
        InputSet::Position
    }

    /// Adds a position with its targets.
    ///
    /// # Errors
    /// When the position cannot be trained on; the batch is unchanged.
    fn add(&mut self, record: &Record, past: &Past, targets: &Targets) -> Result<(), SkipReason>;
}

/// Why a drawn position is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// It is reserved for tests.
    HeldOut,
    /// It comes from an opening book.
    Book,
    /// It has no target for the trained networks.
    Unlabelled,
    /// It has only a result, which is not used, by its weight.
    ResultOnly,
    /// It is not a possible chess position.
    Impossible,
}

impl SkipReason {
    fn description(self) -> &'static str {
        match self {
            SkipReason::HeldOut => "held out",
            SkipReason::Book => "book moves without evaluations",
            SkipReason::Unlabelled => {
                "without a best move or score (add them with scorn dataset label)"
            }
            SkipReason::ResultOnly => {
                "with a result only, which has a low weight (--result-weight)"
            }
            SkipReason::Impossible => "impossible positions (the file is damaged)",
        }
    }
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

/// A file, as it was when it was last opened.
#[derive(Debug)]
struct CountedFile {
    /// Number of its positions.
    count: u64,
    /// When it was written, as far as the system says.
    written: Option<SystemTime>,
    /// Lengths of the games of a self-play file, if the share of the result depends on the ply.
    lengths: HashMap<u32, u16>,
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

    /// Opens a file to draw from, which must hold positions.
    fn open_filled(path: &Path) -> Result<PositionFile> {
        let file = PositionFile::open(path)?;
        ensure!(file.count() > 0, "{} holds no records", path.display());
        Ok(file)
    }

    fn count(&self) -> u64 {
        match self {
            PositionFile::Records(file) => file.count,
            PositionFile::Searched(file) => file.count,
        }
    }

    /// What was before a position of the file, as far as the positions before it tell and `inputs` ask for it.
    fn past(&mut self, inputs: InputSet, index: u64, record: &Record) -> Result<Past> {
        match self {
            PositionFile::Records(file) => past::before(inputs, |at| file.get(at), index, record),
            PositionFile::Searched(file) => {
                past::before(inputs, |at| file.record(at), index, record)
            }
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

    /// Mirrors the position and its moves left to right. Only valid without castling rights.
    fn mirror(&mut self) {
        match self {
            DrawnPosition::Record(record) => record.mirror(),
            DrawnPosition::Searched(searched) => searched.mirror(),
        }
    }
}

impl CountedFile {
    /// Counts the positions of a file. The lengths of its games, if `share` needs them, are read unless the file is as
    /// it was `before`.
    fn read(path: &Path, before: Option<CountedFile>, share: ResultShare) -> Result<CountedFile> {
        let file = PositionFile::open_filled(path)?;
        let count = file.count();
        let written = fs::metadata(path).and_then(|file| file.modified()).ok();
        // A file that was replaced may have as many positions as the one before.
        if let Some(before) = before
            && before.count == count
            && before.written == written
            && written.is_some()
        {
            return Ok(before);
        }
        let lengths = match file {
            PositionFile::Searched(file) if share.depends_on_ply() => file.lengths()?,
            _ => HashMap::new(),
        };
        Ok(CountedFile {
            count,
            written,
            lengths,
        })
    }
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

impl Targets {
    /// The targets of these networks.
    fn only(mut self, trained_part: NetworkPart) -> Targets {
        match trained_part {
            NetworkPart::Both => {}
            NetworkPart::Policy => self.value = None,
            NetworkPart::Value => self.policy.clear(),
        }
        self
    }
}

/// Adds a self-play position with its targets. Without visits there is no policy target, and the position is skipped
/// unless only the value is trained.
fn add_searched<B: SampleBatch>(
    searched: &Searched,
    past: &Past,
    targets: Targets,
    trained_part: NetworkPart,
    batch: &mut B,
) -> Result<(), SkipReason> {
    if targets.policy.is_empty() && trained_part != NetworkPart::Value {
        return Err(SkipReason::Unlabelled);
    }
    batch.add(&searched.record, past, &targets.only(trained_part))
}

impl SampleBatch for Chunk {
    const SAMPLES_RESULTS: bool = true;
    const MIRRORS: bool = false;

    fn clear(&mut self) {
        self.policy_inputs.clear();
        self.rows.clear();
        self.classes.clear();
        self.shares.clear();
        self.value_inputs.clear();
        self.values.clear();
    }

    fn inputs(&self) -> InputSet {
        self.set
    }

    fn add(&mut self, record: &Record, past: &Past, targets: &Targets) -> Result<(), SkipReason> {
        if targets.policy.is_empty() && targets.value.is_none() {
            return Err(SkipReason::Unlabelled);
        }
        let position = record.position().map_err(|_| SkipReason::Impossible)?;
        let view = SquareView::of(&position);
        let attacks = Attacks::of(&position);
        let mut features = ActiveFeatures::with(&position, view, &attacks);
        features.push_past(self.set, view, past);
        let rows = Rows::new(self.set, &position, view, &attacks, past);
        let has_policy = add_policy(&targets.policy, &position, rows, self);
        if has_policy {
            self.policy_inputs.push(features.as_slice());
        }
        if let Some(value) = targets.value {
            self.value_inputs.push(features.as_slice());
            self.values.push(value);
        }
        match has_policy || targets.value.is_some() {
            true => Ok(()),
            false => Err(SkipReason::Unlabelled),
        }
    }
}

/// Adds the rows and shares of the legal moves, unless none of them has a share.
fn add_policy(policy: &[(u16, f32)], position: &Chess, rows: Rows<'_>, chunk: &mut Chunk) -> bool {
    if policy.is_empty() {
        return false;
    }
    let moves = position.legal_moves();
    let start = chunk.shares.len();
    for &m in &moves {
        let packed = Record::pack_move(m, Color::White);
        let share = policy.iter().find(|(m, _)| *m == packed);
        chunk.shares.push(share.map_or(0.0, |(_, share)| *share));
    }
    let sum: f32 = chunk.shares[start..].iter().sum();
    if sum <= 0.0 {
        chunk.shares.truncate(start);
        return false;
    }
    chunk.shares[start..]
        .iter_mut()
        .for_each(|share| *share /= sum);
    let mut buffer = RowBuffer::default();
    chunk.push_rows(rows.of_moves(moves.iter().copied(), &mut buffer));
    true
}

/// The random number generator of a draw.
fn generator(seed: u64, number: DrawNumber) -> SmallRng {
    // Different steps and chunks must not share a seed: constants of splitmix64.
    let mixed = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(number.step)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .wrapping_add(number.chunk)
        .wrapping_mul(0x94d0_49bb_1331_11eb);
    SmallRng::seed_from_u64(mixed ^ mixed >> 31)
}

/// Seed of the choice of test positions, the same in all runs so that their tests can be compared.
const TEST_SEED: u64 = 1;
/// Most records that are read for each test position, as few of a file may be held out.
const DRAWS_PER_TEST_POSITION: u64 = 200;
/// Positions of a test batch.
pub(super) const TEST_BATCH: usize = 512;

/// The test positions of a file.
#[derive(Clone, Debug)]
pub struct TestSet<B> {
    /// The positions.
    pub batches: Vec<B>,
    /// Whether they are marked as held out: training never uses them, even if it is given the same file.
    pub is_held_out: bool,
}

/// The test positions of a file: the held-out ones, or any of a file of searched positions without such. At most
/// `count`, at random, in batches that begin as `empty` ones. The value target is an exact result, or the score alone
/// where there is one.
///
/// # Errors
/// When the file cannot be read.
pub fn test_set<B: SampleBatch>(
    file: &GamesFile,
    count: usize,
    share: ResultShare,
    empty: impl Fn() -> B,
) -> Result<TestSet<B>> {
    let mut positions = PositionFile::open(&file.path)?;
    let searched = match &mut positions {
        PositionFile::Records(records) => {
            let records = held_out_records(records, count, empty().inputs())?;
            return Ok(TestSet {
                batches: chunks(&records, file, empty),
                is_held_out: true,
            });
        }
        PositionFile::Searched(searched) => searched,
    };
    let (lengths, settings) = (searched.lengths()?, TargetSettings::for_tests(share));
    let marked = searched.held_out()?;
    let is_held_out = !marked.is_empty();
    let tested: Vec<u64> = match is_held_out {
        true => places(marked.len() as u64, count)
            .into_iter()
            .map(|at| marked[at as usize])
            .collect(),
        false => places(searched.count, count),
    };
    let mut batches = Vec::new();
    for some in tested.chunks(TEST_BATCH) {
        let mut batch = empty();
        for &at in some {
            let position = searched.get(at)?;
            let read = |at| searched.record(at);
            let past = past::before(batch.inputs(), read, at, &position.record)?;
            let past = file.with_players(&position.record, past);
            let targets = targets::of_searched(&position, &settings, &lengths);
            // Positions without targets are not tested.
            let _ = add_searched(&position, &past, targets, NetworkPart::Both, &mut batch);
        }
        batches.push(batch);
    }
    Ok(TestSet {
        batches,
        is_held_out,
    })
}

/// `most` different numbers below `count` at random, or all of them in order.
fn places(count: u64, most: usize) -> Vec<u64> {
    if count <= most as u64 {
        return (0..count).collect();
    }
    let mut rng = generator(TEST_SEED, DrawNumber::default());
    let mut seen = HashSet::new();
    let mut places = Vec::with_capacity(most);
    while places.len() < most {
        let at = rng.random_range(0..count);
        if seen.insert(at) {
            places.push(at);
        }
    }
    places
}

/// Held-out records of a file, at random: at most `count`. With what was before them, where there are inputs for that.
fn held_out_records(
    file: &mut RecordFile,
    count: usize,
    inputs: InputSet,
) -> Result<Vec<(Record, Past)>> {
    let mut rng = generator(TEST_SEED, DrawNumber::default());
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let most = DRAWS_PER_TEST_POSITION * count as u64;
    // All of a small file, in random order.
    let mut order: Vec<u64>;
    if file.count <= most {
        order = (0..file.count).collect();
        order.shuffle(&mut rng);
    } else {
        order = (0..most).map(|_| rng.random_range(0..file.count)).collect();
    }
    for at in order {
        if found.len() == count {
            break;
        }
        let record = file.get(at)?;
        if record.held_out() && targets::is_useful(&record) && seen.insert(at) {
            let past = past::before(inputs, |at| file.get(at), at, &record)?;
            found.push((record, past));
        }
    }
    Ok(found)
}

/// Records, and what was before them, as test batches.
pub(super) fn chunks<B: SampleBatch>(
    records: &[(Record, Past)],
    file: &GamesFile,
    empty: impl Fn() -> B,
) -> Vec<B> {
    let settings = TargetSettings::for_tests(ResultShare::default());
    let batches = records.chunks(TEST_BATCH).map(|records| {
        let mut batch = empty();
        for (record, past) in records {
            // Positions without targets are not tested.
            if targets::is_useful(record) {
                let past = file.with_players(record, *past);
                let _ = batch.add(record, &past, &targets::of_record(record, &settings));
            }
        }
        batch
    });
    batches.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::wdl::Value;
    use crate::dataset::record::Source;
    use crate::dataset::record_file::{Layout, RecordWriter};
    use crate::dataset::searched::{Samples, SearchedRoot};
    use crate::train::step::ValueTarget;
    use crate::train::testing;

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

    #[test]
    fn all_held_out_positions_of_a_small_file_are_tested() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.rec");
        testing::write(&path, 64);
        let file = path.into();
        let tested = |most: usize| {
            let empty = || Chunk::of(InputSet::Position);
            let set = test_set(&file, most, ResultShare::default(), empty).unwrap();
            assert!(set.is_held_out);
            set.batches
                .iter()
                .map(|chunk| chunk.values.len())
                .sum::<usize>()
        };
        assert_eq!([100, 8, 3].map(tested), [8, 8, 3]);
    }

    #[test]
    fn of_searched_positions_the_marked_ones_are_tested_or_any() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.vis");
        let start = Chess::default();
        let m = Record::pack_move(start.legal_moves()[0], Color::White);
        // The marked ones are won, the others lost.
        let write = |is_marked: fn(usize) -> bool| {
            let mut samples = Samples::default();
            for index in 0..20 {
                let mut record = Record::new(&start, false, Source::Game);
                record.flags |= u8::from(is_marked(index)) * Record::HELD_OUT;
                record.result = if is_marked(index) { 2 } else { 0 };
                let root = SearchedRoot {
                    best: m,
                    visits: 9,
                    value: Value::default(),
                };
                samples.push(&record, &root, [(m, 8)].into_iter());
            }
            fs::write(&path, samples.to_file()).unwrap();
        };
        // Won and lost positions of a test.
        let tested = |most: usize| {
            let file = GamesFile::from(&*path);
            let set = test_set(&file, most, ResultShare::default(), Chunk::default).unwrap();
            let values = set.batches.iter().flat_map(|chunk| &chunk.values);
            let is_won: Vec<bool> = values.map(|target| target.wdl[0] == 1.0).collect();
            let won = is_won.iter().filter(|&&is_won| is_won).count();
            (set.is_held_out, won, is_won.len() - won)
        };
        write(|index| index % 4 == 3);
        assert_eq!([100, 5, 3].map(tested), [5, 5, 3].map(|won| (true, won, 0)));
        write(|_| false);
        assert_eq!(
            [100, 20, 3].map(tested),
            [20, 20, 3].map(|lost| (false, 0, lost))
        );
    }

    #[test]
    fn files_name_their_players() {
        let file = |text: &str| GamesFile::parse(text).unwrap();
        assert_eq!(file("a.vis"), GamesFile::from("a.vis"));
        assert_eq!(file("a@b.vis"), GamesFile::from("a@b.vis"));
        assert_eq!(file("a.vis@1500").rating, Some(1500));
        assert_eq!(file("a.vis@black").engine, Some(Color::Black));
        assert_eq!(file("a.vis@black").path, PathBuf::from("a.vis"));
        let error = GamesFile::parse("a.vis@1400").unwrap_err();
        assert!(error.to_string().contains("1400"), "{error}");
    }

    #[test]
    fn players_need_inputs() {
        use InputSet::{Classes, History, Opponent, OpponentClasses, Position};
        for (file, inputs) in [
            (
                "a",
                &[Position, Classes, History, Opponent, OpponentClasses][..],
            ),
            ("a@1500", &[History]),
            ("a@white", &[Opponent, OpponentClasses]),
        ] {
            let file = GamesFile::parse(file).unwrap();
            for set in [Position, Classes, History, Opponent, OpponentClasses] {
                assert_eq!(
                    file.check_players(set).is_ok(),
                    inputs.contains(&set),
                    "{set:?}"
                );
            }
        }
        let error = GamesFile::parse("a@white").unwrap().check_players(History);
        assert!(error.unwrap_err().to_string().starts_with("a@white: "));
    }

    #[test]
    fn the_engine_s_color_says_who_is_to_move() {
        let start = Chess::default();
        let inputs = |file: &str, is_black: bool| {
            let record = Record::new(&start, is_black, Source::Game);
            let past = GamesFile::parse(file).unwrap();
            let past = past.with_players(&record, Past::default());
            let mut features = ActiveFeatures::of(&start);
            let count = features.as_slice().len();
            features.push_past(InputSet::Opponent, SquareView::of(&start), &past);
            features.as_slice()[count..].to_vec()
        };
        let last = InputSet::Opponent.len() as u16 - 1;
        for (file, is_black, expected) in [
            ("a", false, vec![]),
            ("a@white", false, vec![last - 1]),
            ("a@white", true, vec![last]),
            ("a@black", false, vec![last]),
            ("a@black", true, vec![last - 1]),
        ] {
            assert_eq!(inputs(file, is_black), expected, "{file} {is_black}");
        }
    }
}
