//! The test positions of a file.

use std::collections::HashSet;

use anyhow::Result;
use rand::RngExt;
use rand::seq::SliceRandom;

use super::games_file::GamesFile;
use super::mixture::{DrawNumber, generator};
use super::part::NetworkPart;
use super::position_file::{PositionFile, add_searched};
use super::sample_batch::SampleBatch;
use crate::dataset::record::Record;
use crate::dataset::record_file::RecordFile;
use crate::sparse::features::InputSet;
use crate::sparse::history::Past;
use crate::train::past;
use crate::train::targets::{self, ResultShare, TargetSettings};

/// Seed of the choice of test positions, the same in all runs so that their tests can be compared.
const TEST_SEED: u64 = 1;
/// Most records that are read for each test position, as few of a file may be held out.
const DRAWS_PER_TEST_POSITION: u64 = 200;
/// Positions of a test batch.
pub(in crate::train) const TEST_BATCH: usize = 512;

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
    let tested: Vec<u64> = if is_held_out {
        places(marked.len() as u64, count)
            .into_iter()
            .map(|at| marked[at as usize])
            .collect()
    } else {
        places(searched.count, count)
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
pub(in crate::train) fn chunks<B: SampleBatch>(
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
    use std::fs;

    use shakmaty::{Chess, Color, Position};

    use super::*;
    use crate::chess::wdl::Value;
    use crate::dataset::record::Source;
    use crate::dataset::searched::{Samples, SearchedRoot};
    use crate::train::chunk::Chunk;
    use crate::train::testing;

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
}
