//! Positions with all visits of their searches, as self-play writes them and training reads them.
//!
//! A file is a header, the positions, then the visits of their moves. Positions have a fixed size, so the file can be
//! memory-mapped and indexed at random. Everything is little-endian and seen from the side to move, as in
//! [`record`](super::record), whose first 48 bytes a position has:
//!
//! | bytes of the header | field |
//! |---|---|
//! | 0..8 | `SCORNVIS` |
//! | 8..12 | version, 1 |
//! | 12..16 | bytes of a position, 64 |
//! | 16..20 | bytes of a visit entry, 6 |
//! | 20..24 | 0 |
//! | 24..32 | number of positions |
//! | 32..40 | number of visit entries |
//! | 40..64 | 0 |
//!
//! | bytes of a position | field | meaning |
//! |---|---|---|
//! | 0..48 | | board, state, ... plies left as there; `move` was played, `score` is the search's, `game` its number |
//! | 48..52 | first | its first visit entry |
//! | 52..54 | moves | number of its entries: one per legal move, inside a tree one per visited move |
//! | 54..56 | best | the move that the search preferred |
//! | 56..60 | visits | of the root |
//! | 60..62 | q | W-L of the root times 32767, signed |
//! | 62..64 | d | draw probability of the root times 65535 |
//!
//! | bytes of an entry | field | meaning |
//! |---|---|---|
//! | 0..2 | move | as a position's move; bit 15: search-contempt had frozen the replies to it |
//! | 2..6 | visits | of the move |
//!
//! Positions of a game follow each other. Fast searches and random moves are no positions of such a file.
//! `networks/training/scorn_training/selfplay.py` reads and writes the same layout.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{
    record::{NO_PLIES, Record, mirror_move},
    record_file::read_start,
};
use crate::{chess::wdl::Value, files, terminal::counted};

/// The first bytes of a file.
pub const MAGIC: &[u8; 8] = b"SCORNVIS";
/// The version that is written.
pub const VERSION: u32 = 1;
/// Bytes of a position, and of the header.
pub const POSITION: usize = 64;
/// Bytes of a visit entry.
pub const ENTRY: usize = 6;
/// Bit of an entry's move: the reply to it is drawn from frozen counts.
pub const FROZEN: u16 = 1 << 15;
/// Bytes of a position that a [`Record`] has too.
pub const SHARED: usize = 48;
/// The byte of a position that has a record's flags.
const FLAGS: usize = 35;
/// The sum of a position's visit entries where only shares of the moves are known.
pub const WHOLE: f32 = 1_000_000.0;
/// More moves than this no position has.
const MAX_MOVES: u16 = 256;

/// A position that was searched.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// The position, the move played, result and plies left.
    pub record: Record,
    /// The move that the search preferred, as [`Record::best`].
    pub best: u16,
    /// Visits of the root.
    pub visits: u32,
    /// Win, draw and loss for the side to move: the mean over all visits. Sums to 1.
    pub wdl: [f32; 3],
    /// Moves (as [`Record::best`]) and their visits.
    pub moves: Vec<(u16, u32)>,
}

/// The header of a file with this many positions and entries.
fn header(positions: u64, entries: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((POSITION as u32).to_le_bytes());
    bytes.extend((ENTRY as u32).to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(positions.to_le_bytes());
    bytes.extend(entries.to_le_bytes());
    bytes.resize(POSITION, 0);
    bytes
}

/// The result of a search at its root.
#[derive(Clone, Copy, Debug)]
pub struct SearchedRoot {
    /// The move that it preferred, as [`Record::best`].
    pub best: u16,
    /// Visits.
    pub visits: u32,
    /// Its value, for the side to move.
    pub value: Value,
}

/// Positions in the layout of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// [`POSITION`] bytes each.
    pub positions: Vec<u8>,
    /// [`ENTRY`] bytes each.
    pub entries: Vec<u8>,
}

impl Samples {
    /// Number of positions.
    pub fn len(&self) -> usize {
        self.positions.len() / POSITION
    }

    /// Whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    fn entry_count(&self) -> u32 {
        (self.entries.len() / ENTRY) as u32
    }

    /// Checks that a file can hold this many more bytes of entries.
    ///
    /// # Errors
    /// When it cannot; the message names `flag`, the option that makes files smaller.
    pub fn ensure_room_for(&self, bytes: usize, flag: &str) -> Result<()> {
        ensure!(
            u32::try_from((self.entries.len() + bytes) / ENTRY).is_ok(),
            "too many positions for one file: lower {flag}"
        );
        Ok(())
    }

    /// Adds a position with its moves (as [`Record::best`], with [`FROZEN`] where that is so) and their visits.
    pub fn push(
        &mut self,
        record: &Record,
        root: &SearchedRoot,
        moves: impl Iterator<Item = (u16, u32)>,
    ) {
        let first = self.entry_count();
        for (m, visits) in moves {
            self.entries.extend(m.to_le_bytes());
            self.entries.extend(visits.to_le_bytes());
        }
        let count = (self.entry_count() - first) as u16;
        let q = (root.value.wl.clamp(-1.0, 1.0) * 32767.0).round() as i16;
        let d = (root.value.d.clamp(0.0, 1.0) * 65535.0).round() as u16;
        self.positions.extend(&record.to_bytes()[..SHARED]);
        self.positions.extend(first.to_le_bytes());
        self.positions.extend(count.to_le_bytes());
        self.positions.extend(root.best.to_le_bytes());
        self.positions.extend(root.visits.to_le_bytes());
        self.positions.extend(q.to_le_bytes());
        self.positions.extend(d.to_le_bytes());
    }

    /// Appends other positions, for which there must be room.
    pub fn append(&mut self, other: &Samples) {
        let shift = self.entry_count();
        for position in other.positions.chunks_exact(POSITION) {
            let first = u32::from_le_bytes(array(&position[SHARED..])) + shift;
            self.positions.extend(&position[..SHARED]);
            self.positions.extend(first.to_le_bytes());
            self.positions
                .extend(&position[SHARED + size_of::<u32>()..]);
        }
        self.entries.extend(&other.entries);
    }

    /// The bytes of a file.
    pub fn to_file(&self) -> Vec<u8> {
        let mut bytes = header(self.len() as u64, u64::from(self.entry_count()));
        bytes.extend(&self.positions);
        bytes.extend(&self.entries);
        bytes
    }
}

/// Whether a file begins as one of these.
///
/// # Errors
/// When it cannot be read.
pub fn is_searched(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    files::open_file(path)
        .and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start))
        .with_context(|| format!("cannot open {}", path.display()))?;
    Ok(start == MAGIC)
}

/// A file of searched positions that is read in any order.
#[derive(Debug)]
pub struct SearchedFile {
    file: File,
    path: PathBuf,
    /// How many positions it has.
    pub count: u64,
    entries: u64,
}

impl SearchedFile {
    /// Opens a file, and checks its header and its length.
    ///
    /// # Errors
    /// When it cannot be read, is no such file, or not whole.
    pub fn open(path: &Path) -> Result<SearchedFile> {
        let name = path.display();
        let mut file = files::open_file(path).with_context(|| format!("cannot open {name}"))?;
        let mut start = [0; POSITION];
        read_start(&mut file, &mut start, path, "file of visits")?;
        ensure!(start.starts_with(MAGIC), "{name} is no file of visits");
        let u32_at = |at: usize| u32::from_le_bytes(array(&start[at..]));
        ensure!(
            [u32_at(8), u32_at(12), u32_at(16)] == [VERSION, POSITION as u32, ENTRY as u32],
            "{name} has version {} of the format, this program reads {VERSION}",
            u32_at(8)
        );
        let (count, entries) = (
            u64::from_le_bytes(array(&start[24..])),
            u64::from_le_bytes(array(&start[32..])),
        );
        let expected = u128::from(count) * POSITION as u128 + u128::from(entries) * ENTRY as u128;
        let expected = expected + POSITION as u128;
        let found = file.metadata()?.len();
        ensure!(
            u128::from(found) == expected,
            "{name} is damaged: it has {found} bytes and should have {expected}"
        );
        Ok(SearchedFile {
            file,
            path: path.into(),
            count,
            entries,
        })
    }

    /// The position with this number, from 0.
    ///
    /// # Errors
    /// When there is none, it cannot be read, or names visits that the file does not have.
    pub fn get(&mut self, index: u64) -> Result<Searched> {
        let bytes = self.position(index)?;
        let first = u64::from(u32::from_le_bytes(array(&bytes[48..])));
        let count = u16::from_le_bytes(array(&bytes[52..]));
        ensure!(
            count <= MAX_MOVES && first + u64::from(count) <= self.entries,
            "{} is damaged: position {index} has visits that are not there",
            self.path.display()
        );
        let mut entries = vec![0; usize::from(count) * ENTRY];
        let start = (self.count + 1) * POSITION as u64 + first * ENTRY as u64;
        self.read(start, &mut entries)
            .with_context(|| format!("cannot read position {index} of {}", self.path.display()))?;
        Ok(Searched::from_bytes(&bytes, &entries))
    }

    /// The record of the position with this number, from 0, without its visits.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn record(&mut self, index: u64) -> Result<Record> {
        let mut record = self.position(index)?;
        record[SHARED..].fill(0);
        Ok(Record::from_bytes(&record))
    }

    /// The bytes of a position. Behind the last one there are visits.
    fn position(&mut self, index: u64) -> Result<[u8; POSITION]> {
        ensure!(
            index < self.count,
            "{} has {}, and none of number {index}",
            self.path.display(),
            counted(self.count, "position")
        );
        let mut bytes = [0; POSITION];
        self.read((index + 1) * POSITION as u64, &mut bytes)
            .with_context(|| format!("cannot read position {index} of {}", self.path.display()))?;
        Ok(bytes)
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(bytes)
    }

    /// How long each game is, in plies from its first position in the file to its end.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn lengths(&self) -> Result<HashMap<u32, u16>> {
        let mut lengths = HashMap::new();
        self.for_each_position(|_, bytes| {
            let plies = u16::from_le_bytes(array(&bytes[42..]));
            if plies != NO_PLIES {
                let game = u32::from_le_bytes(array(&bytes[44..]));
                let longest = lengths.entry(game).or_insert(plies);
                *longest = plies.max(*longest);
            }
        })?;
        Ok(lengths)
    }

    /// The numbers of the positions that are marked as held out, in order.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn held_out(&self) -> Result<Vec<u64>> {
        let mut marked = Vec::new();
        self.for_each_position(|index, bytes| {
            if bytes[FLAGS] & Record::HELD_OUT != 0 {
                marked.push(index);
            }
        })?;
        Ok(marked)
    }

    /// Visits the number and the bytes of every position, in order.
    fn for_each_position(&self, mut visit: impl FnMut(u64, &[u8; POSITION])) -> Result<()> {
        let mut file = BufReader::with_capacity(1 << 20, File::open(&self.path)?);
        let mut bytes = [0; POSITION];
        file.read_exact(&mut bytes)?;
        for index in 0..self.count {
            file.read_exact(&mut bytes)
                .with_context(|| format!("cannot read {}", self.path.display()))?;
            visit(index, &bytes);
        }
        Ok(())
    }
}

impl Searched {
    /// Mirrors the position and its moves left to right. The result is only equivalent without castling rights.
    pub fn mirror(&mut self) {
        self.record.mirror();
        self.best = mirror_move(self.best);
        for (m, _) in &mut self.moves {
            *m = mirror_move(*m);
        }
    }

    fn from_bytes(position: &[u8; POSITION], entries: &[u8]) -> Searched {
        let mut record = [0; POSITION];
        record[..SHARED].copy_from_slice(&position[..SHARED]);
        let q = f32::from(i16::from_le_bytes(array(&position[60..]))) / 32767.0;
        let d = f32::from(u16::from_le_bytes(array(&position[62..]))) / 65535.0;
        let moves = entries.as_chunks::<ENTRY>().0.iter().map(|entry| {
            let m = u16::from_le_bytes(array(entry)) & !FROZEN;
            (m, u32::from_le_bytes(array(&entry[2..])))
        });
        // Rounded numbers may add up to a little more than 1.
        let q = q.clamp(-1.0, 1.0);
        let d = d.min(1.0 - q.abs());
        Searched {
            record: Record::from_bytes(&record),
            best: u16::from_le_bytes(array(&position[54..])),
            visits: u32::from_le_bytes(array(&position[56..])),
            wdl: [(1.0 - d + q) / 2.0, d, (1.0 - d - q) / 2.0],
            moves: moves.collect(),
        }
    }
}

/// The first bytes of a slice that is long enough.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::record::Source;
    use shakmaty::Chess;

    /// A file of two games of two positions, with more bytes of visits than a position has.
    fn file() -> Vec<u8> {
        let (mut positions, mut entries) = (Vec::new(), Vec::new());
        for (game, plies) in [(0, 9), (0, 8), (1, 5), (1, 2)] {
            let mut record = Record::new(&Chess::new(), false, Source::EngineGame);
            (record.game, record.plies_left, record.result) = (game, plies, 2);
            positions.extend(&record.to_bytes()[..SHARED]);
            positions.extend(((entries.len() / ENTRY) as u32).to_le_bytes());
            positions.extend(5_u16.to_le_bytes());
            positions.extend(7_u16.to_le_bytes());
            positions.extend(100_u32.to_le_bytes());
            positions.extend(16383_i16.to_le_bytes());
            positions.extend((13107_u16).to_le_bytes());
            let visited = [(7 | FROZEN, 60_u32), (8, u32::from(plies))];
            for (m, visits) in visited.into_iter().chain([(9, 0), (10, 0), (11, 0)]) {
                entries.extend(m.to_le_bytes());
                entries.extend(visits.to_le_bytes());
            }
        }
        [header(4, 20), positions, entries].concat()
    }

    #[test]
    fn positions_and_lengths_of_games_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.vis");
        std::fs::write(&path, file()).unwrap();
        assert!(is_searched(&path).unwrap());
        let mut file = SearchedFile::open(&path).unwrap();
        assert_eq!(file.count, 4);
        let last = file.get(3).unwrap();
        assert_eq!(last.moves, [(7, 60), (8, 2), (9, 0), (10, 0), (11, 0)]);
        assert_eq!((last.best, last.visits, last.record.game), (7, 100, 1));
        for (got, expected) in last.wdl.iter().zip([0.65, 0.2, 0.15]) {
            assert!((got - expected).abs() < 1e-3, "{:?}", last.wdl);
        }
        for error in [file.get(4).unwrap_err(), file.record(4).unwrap_err()] {
            let error = error.to_string();
            assert!(
                error.ends_with("x.vis has 4 positions, and none of number 4"),
                "{error}"
            );
        }
        assert_eq!(file.lengths().unwrap(), HashMap::from([(0, 9), (1, 5)]));
    }

    #[test]
    fn damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.vis");
        let error = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let file = SearchedFile::open(&path);
            let error = file.and_then(|mut file| file.get(0)).unwrap_err();
            assert!(error.to_string().contains("x.vis"), "{error:#}");
            format!("{error:#}")
        };
        let whole = file();
        assert!(error(&[]).ends_with("x.vis is empty, and not a file of visits"));
        assert!(error(&whole[..whole.len() - 1]).contains("is damaged"));
        assert!(error(&whole[..40]).ends_with("x.vis is too short for a file of visits"));
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            bytes
        };
        assert!(error(&with(8, 2)).contains("version 2"));
        assert!(error(&with(30, 255)).contains("is damaged"));
        assert!(error(&with(POSITION + 51, 1)).contains("not there"));
        assert!(error(&with(0, b'x')).contains("no file of visits"));
    }
}
