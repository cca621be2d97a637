//! The file that holds many [`Record`]s.
//!
//! It is a header as long as a record, then records, so it can be memory-mapped, indexed at random, split and appended
//! to. The header: `SCORNREC`, the version (1 plain, 2 ranked) and the bytes of a record as `u32`, the fingerprint of
//! the job that made a file which can be continued as `u64`, then zeros; all little-endian.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use shakmaty::Chess;

use super::record::{PLAIN_BYTES, RANKED_BYTES, Record};
use crate::{
    files::{
        self,
        output::{NewFile, open_to_continue},
    },
    hashing::Fnv1a,
    terminal::counted,
};

const MAGIC: &[u8; 8] = b"SCORNREC";
/// What such a file is called in errors.
const KIND: &str = "record file";

/// What a file keeps of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// 48 bytes: everything but the alternatives.
    Plain,
    /// 64 bytes: everything.
    Ranked,
}

impl Layout {
    /// Bytes of one record, and of the header.
    pub fn bytes(self) -> usize {
        match self {
            Layout::Plain => PLAIN_BYTES,
            Layout::Ranked => RANKED_BYTES,
        }
    }

    fn version(self) -> u32 {
        match self {
            Layout::Plain => 1,
            Layout::Ranked => 2,
        }
    }

    fn of_version(version: u32) -> Option<Layout> {
        [Layout::Plain, Layout::Ranked]
            .into_iter()
            .find(|layout| layout.version() == version)
    }

    fn header(self, fingerprint: u64) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend(self.version().to_le_bytes());
        header.extend((self.bytes() as u32).to_le_bytes());
        header.extend(fingerprint.to_le_bytes());
        header.resize(self.bytes(), 0);
        header
    }
}

/// Reads record files in order.
#[derive(Debug)]
pub struct RecordReader {
    file: io::BufReader<File>,
    path: PathBuf,
    layout: Layout,
    /// Number of records in the file.
    pub count: u64,
    /// How many of them were read or skipped.
    position: u64,
}

impl RecordReader {
    /// Opens a file and checks its header.
    pub fn open(path: &Path) -> Result<RecordReader> {
        let file =
            files::open_file(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut file = io::BufReader::with_capacity(1 << 20, file);
        let header = FileHeader::read(&mut file, path)?;
        Ok(RecordReader {
            file,
            path: path.into(),
            layout: header.layout,
            count: header.records,
            position: 0,
        })
    }

    /// The records from here on with their positions, as [`Record::game_position`] has them.
    ///
    /// Each is an error that names the file and the record where it cannot be read or holds no position.
    pub fn positions(mut self) -> impl Iterator<Item = Result<(Record, Chess)>> {
        std::iter::from_fn(move || {
            let number = self.position;
            let record = self.next()?;
            let with_position = |record: Record| {
                let position = record.game_position();
                let position = position
                    .with_context(|| format!("record {number} of {}", self.path.display()))?;
                Ok((record, position))
            };
            Some(record.and_then(with_position))
        })
    }

    /// Skips records.
    pub fn skip_records(&mut self, records: u64) -> Result<()> {
        let bytes = records * self.layout.bytes() as u64;
        self.file.seek_relative(i64::try_from(bytes)?)?;
        self.position += records;
        Ok(())
    }
}

impl Iterator for RecordReader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        if self.position >= self.count {
            return None;
        }
        let mut bytes = [0; RANKED_BYTES];
        let kept = &mut bytes[..self.layout.bytes()];
        let read = self.file.read_exact(kept).with_context(|| {
            let (path, position) = (self.path.display(), self.position);
            format!("cannot read record {position} of {path}")
        });
        // After an error there is nothing more.
        self.position = match read {
            Ok(()) => self.position + 1,
            Err(_) => self.count,
        };
        Some(read.map(|()| Record::from_bytes(&bytes)))
    }
}

/// A record file that is read in any order.
#[derive(Debug)]
pub struct RecordFile {
    file: File,
    path: PathBuf,
    layout: Layout,
    /// Number of records in the file when it was opened.
    pub count: u64,
}

impl RecordFile {
    /// Opens a file and checks its header.
    ///
    /// # Errors
    /// When it cannot be read or is no record file.
    pub fn open(path: &Path) -> Result<RecordFile> {
        let mut file =
            files::open_file(path).with_context(|| format!("cannot open {}", path.display()))?;
        let header = FileHeader::read(&mut file, path)?;
        Ok(RecordFile {
            file,
            path: path.into(),
            layout: header.layout,
            count: header.records,
        })
    }

    /// The record with this number, from 0.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn get(&mut self, index: u64) -> Result<Record> {
        ensure!(
            index < self.count,
            "{} has {}, and none of number {index}",
            self.path.display(),
            counted(self.count, "record")
        );
        let size = self.layout.bytes();
        let mut bytes = [0; RANKED_BYTES];
        self.file
            .seek(SeekFrom::Start((index + 1) * size as u64))
            .and_then(|_| self.file.read_exact(&mut bytes[..size]))
            .with_context(|| format!("cannot read record {index} of {}", self.path.display()))?;
        Ok(Record::from_bytes(&bytes))
    }
}

/// Reads a whole file into memory.
pub fn read_all(path: &Path) -> Result<Vec<Record>> {
    let reader = RecordReader::open(path)?;
    let mut records = Vec::with_capacity(usize::try_from(reader.count)?);
    for record in reader {
        records.push(record?);
    }
    Ok(records)
}

/// A file to write records to.
#[derive(Debug)]
enum RecordTarget {
    New(NewFile),
    Continued(File),
}

impl Write for RecordTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            RecordTarget::New(file) => file.write(bytes),
            RecordTarget::Continued(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            RecordTarget::New(file) => file.flush(),
            RecordTarget::Continued(file) => file.flush(),
        }
    }
}

/// Reads bytes at the start of a file of this kind.
///
/// # Errors
/// When it cannot be read, or ends before; both name the file.
pub(super) fn read_start(
    reader: &mut impl Read,
    bytes: &mut [u8],
    path: &Path,
    kind: &str,
) -> Result<()> {
    let name = path.display();
    match reader.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let is_empty = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0);
            ensure!(!is_empty, "{name} is empty, and not a {kind}");
            bail!("{name} is too short for a {kind}")
        }
        read => read.with_context(|| format!("cannot read {name}")),
    }
}

/// The header of a record file.
struct FileHeader {
    layout: Layout,
    fingerprint: u64,
    /// Number of whole records after it.
    records: u64,
}

impl FileHeader {
    fn read(reader: &mut impl Read, path: &Path) -> Result<FileHeader> {
        let length = std::fs::metadata(path)?.len();
        let mut start = [0; RANKED_BYTES];
        let (plain, rest) = start.split_at_mut(PLAIN_BYTES);
        read_start(reader, plain, path, KIND)?;
        let layout = FileHeader::parse(plain, length, path)?.layout;
        let rest = &mut rest[..layout.bytes() - PLAIN_BYTES];
        read_start(reader, rest, path, KIND)?;
        let header = FileHeader::parse(&start, length, path)?;
        // Files that are continued may just be growing, or have been left in the middle of a record; others are put
        // there whole.
        ensure!(
            header.fingerprint != 0 || length.is_multiple_of(layout.bytes() as u64),
            "{} is damaged: it ends within record {}",
            path.display(),
            header.records
        );
        Ok(header)
    }

    /// Whether a job began a file, which starts with these bytes and has this many, and completed no record.
    fn is_of_nothing(start: &[u8], length: u64, path: &Path) -> bool {
        FileHeader::parse(start, length, path)
            .is_ok_and(|header| header.fingerprint != 0 && header.records == 0)
    }

    /// Understands the first bytes of a file with this many.
    fn parse(start: &[u8], length: u64, path: &Path) -> Result<FileHeader> {
        let name = path.display();
        ensure!(
            start.len() >= PLAIN_BYTES,
            "{name} is too short for a {KIND}"
        );
        ensure!(
            &start[..8] != b"SCORNVIS",
            "{name} is not a {KIND}: it holds searched positions (.vis), for `scorn train` and `scorn stats`"
        );
        ensure!(&start[..8] == MAGIC, "{name} is not a {KIND}");
        let version = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        let Some(layout) = Layout::of_version(version) else {
            bail!("{name} has record format {version}, this program reads 1 and 2");
        };
        let mut fingerprint = [0; 8];
        fingerprint.copy_from_slice(&start[16..24]);
        Ok(FileHeader {
            layout,
            fingerprint: u64::from_le_bytes(fingerprint),
            records: (length / layout.bytes() as u64).saturating_sub(1),
        })
    }
}

/// A job whose output can be continued. Its fingerprint covers the settings that determine the output and the first
/// records of the inputs.
pub struct RecordJob {
    /// What its files keep of records.
    pub layout: Layout,
    /// Files are continued after their last complete group of this many records.
    pub group: u64,
    inputs: Vec<PathBuf>,
    fingerprint: u64,
}

impl RecordJob {
    /// The job with these settings on these inputs.
    ///
    /// # Errors
    /// When an input cannot be read.
    pub fn new(
        settings: &str,
        inputs: &[PathBuf],
        layout: Layout,
        group: u64,
    ) -> Result<RecordJob> {
        let mut fingerprint = Fnv1a::new().and(settings.as_bytes());
        for input in inputs {
            for record in RecordReader::open(input)?.take(64) {
                fingerprint = fingerprint.and(&record?.to_bytes());
            }
        }
        Ok(RecordJob {
            layout,
            group,
            inputs: inputs.to_vec(),
            fingerprint: fingerprint.value(),
        })
    }
}

/// Writes a record file. A new file appears under its name only when it is finished.
#[derive(Debug)]
pub struct RecordWriter {
    file: BufWriter<RecordTarget>,
    path: PathBuf,
    layout: Layout,
    /// Records written, those of an earlier run included.
    pub count: u64,
}

impl RecordWriter {
    /// Starts a new file.
    ///
    /// # Errors
    /// When there is one already or it cannot be written.
    pub fn create(path: &Path, layout: Layout) -> Result<RecordWriter> {
        RecordWriter::new(NewFile::create(path, false, &[])?, path, layout)
    }

    /// Writes to a new file that was begun under this name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(file: NewFile, path: &Path, layout: Layout) -> Result<RecordWriter> {
        let mut writer = RecordWriter {
            file: BufWriter::new(RecordTarget::New(file)),
            path: path.into(),
            layout,
            count: 0,
        };
        writer.write_bytes(&layout.header(0))?;
        Ok(writer)
    }

    /// Continues the file that an earlier run of the job left, after its last whole group; or starts it. A file that
    /// a job began without completing a record is started anew.
    ///
    /// # Errors
    /// When the file cannot be written, is one of the inputs, is another job's or is just being written by somebody
    /// else; then it stays as it is.
    pub fn append(path: &Path, job: &RecordJob) -> Result<RecordWriter> {
        let name = path.display();
        let context = || format!("cannot write {name}");
        let layout = job.layout;
        let mut file = open_to_continue(path, &job.inputs)?;
        let ours = layout.header(job.fingerprint);
        let mut start = Vec::with_capacity(RANKED_BYTES);
        let read = Read::take(&mut file, ours.len() as u64).read_to_end(&mut start);
        read.with_context(context)?;
        // A run that was interrupted at once leaves an incomplete header or an empty file.
        let mut count = 0;
        let is_begun = ours.starts_with(&start) && start.len() < ours.len();
        if is_begun || FileHeader::is_of_nothing(&start, file.metadata()?.len(), path) {
            file.set_len(0).with_context(context)?;
            file.rewind().with_context(context)?;
            file.write_all(&ours).with_context(context)?;
        } else {
            let header = FileHeader::parse(&start, file.metadata()?.len(), path)?;
            ensure!(
                (header.layout, header.fingerprint) == (layout, job.fingerprint),
                "{name} exists and was not begun with the same inputs and settings: go on as it was begun, or name \
                 another file"
            );
            count = header.records / job.group * job.group;
            let length = (count + 1) * layout.bytes() as u64;
            file.set_len(length).with_context(context)?;
            file.seek(io::SeekFrom::Start(length))
                .with_context(context)?;
        }
        Ok(RecordWriter {
            file: BufWriter::new(RecordTarget::Continued(file)),
            path: path.into(),
            layout,
            count,
        })
    }

    /// Writes one record.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        self.count += 1;
        self.write_bytes(&record.to_bytes()[..self.layout.bytes()])
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Hands everything to the operating system.
    pub fn flush(&mut self) -> Result<()> {
        self.file
            .flush()
            .with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Finishes the file.
    pub fn finish(mut self) -> Result<u64> {
        self.flush()?;
        let file = self.file.into_inner().map_err(|error| error.into_error());
        match file.with_context(|| format!("cannot write {}", self.path.display()))? {
            RecordTarget::New(file) => file.finish()?,
            RecordTarget::Continued(_) => {}
        }
        Ok(self.count)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, slice};

    use super::*;
    use crate::dataset::record::{Alternative, Source};

    #[test]
    fn an_interrupted_file_is_continued_after_its_last_whole_group() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.rec");
        let mut record = Record::new(&Chess::new(), false, Source::Game);
        record.alternatives[3] = Alternative { m: 9, score: 1 };
        let job =
            |settings: &str, layout, group| RecordJob::new(settings, &[], layout, group).unwrap();
        let ranked = |group| job("settings", Layout::Ranked, group);
        let mut writer = RecordWriter::append(&path, &ranked(1)).unwrap();
        for _ in 0..3 {
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"half a record").unwrap();
        assert_eq!(read_all(&path).unwrap(), vec![record; 3]);
        let writer = RecordWriter::append(&path, &ranked(1)).unwrap();
        assert_eq!(writer.count, 3);
        drop(writer);
        let mut writer = RecordWriter::append(&path, &ranked(2)).unwrap();
        assert_eq!(writer.count, 2);
        writer.write(&record).unwrap();
        writer.finish().unwrap();
        assert_eq!(read_all(&path).unwrap(), vec![record; 3]);
        let own_input = RecordJob::new("settings", slice::from_ref(&path), Layout::Ranked, 1);
        for (other, reason) in [
            (job("settings", Layout::Plain, 1), "was not begun"),
            (job("others", Layout::Ranked, 1), "was not begun"),
            (own_input.unwrap(), "is an input too"),
        ] {
            let error = RecordWriter::append(&path, &other).unwrap_err().to_string();
            assert!(error.contains("x.rec") && error.contains(reason), "{error}");
        }
        assert_eq!(read_all(&path).unwrap(), vec![record; 3]);
    }

    #[test]
    fn a_file_without_records_is_any_job_s() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.rec");
        let job = |settings: &str, layout| RecordJob::new(settings, &[], layout, 1).unwrap();
        let record = Record::new(&Chess::new(), false, Source::Game);
        let [failed, other] = ["failed", "other"].map(|settings| job(settings, Layout::Plain));
        drop(RecordWriter::append(&path, &job("wider", Layout::Ranked)).unwrap());
        drop(RecordWriter::append(&path, &failed).unwrap());
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"half a record").unwrap();
        drop(file);
        let mut writer = RecordWriter::append(&path, &other).unwrap();
        writer.write(&record).unwrap();
        writer.finish().unwrap();
        assert_eq!(read_all(&path).unwrap(), [record]);
        assert!(RecordWriter::append(&path, &failed).is_err());
        // Nor is a finished one.
        let path = dir.path().join("empty.rec");
        let finished = RecordWriter::create(&path, Layout::Plain).unwrap();
        finished.finish().unwrap();
        assert!(RecordWriter::append(&path, &other).is_err());
    }

    #[test]
    fn a_finished_file_is_not_continued() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("games.rec");
        let record = Record::new(&Chess::new(), false, Source::Game);
        let mut writer = RecordWriter::create(&path, Layout::Plain).unwrap();
        writer.write(&record).unwrap();
        writer.finish().unwrap();
        let job = RecordJob::new("settings", slice::from_ref(&path), Layout::Plain, 16).unwrap();
        assert!(RecordWriter::append(&path, &job).is_err());
        assert_eq!(read_all(&path).unwrap(), [record]);
    }

    #[test]
    fn plain_files_keep_all_but_the_alternatives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.rec");
        let plain = Record::new(&Chess::new(), false, Source::Game);
        let mut record = plain;
        record.alternatives[0] = Alternative { m: 9, score: 1 };
        let mut writer = RecordWriter::create(&path, Layout::Plain).unwrap();
        writer.write(&record).unwrap();
        writer.write(&record).unwrap();
        writer.finish().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 * 48);
        let mut reader = RecordReader::open(&path).unwrap();
        reader.skip_records(1).unwrap();
        assert_eq!(reader.collect::<Result<Vec<_>>>().unwrap(), [plain]);
    }

    #[test]
    fn a_finished_file_that_is_cut_and_a_record_without_a_position_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.rec");
        let mut writer = RecordWriter::create(&path, Layout::Ranked).unwrap();
        let record = Record::new(&Chess::new(), false, Source::Game);
        let mut bare = record;
        bare.board = [0; 32];
        for record in [record, record, bare] {
            writer.write(&record).unwrap();
        }
        writer.finish().unwrap();
        let mut file = RecordFile::open(&path).unwrap();
        assert_eq!(file.get(2).unwrap(), bare);
        for beyond in [3, u64::MAX] {
            let error = file.get(beyond).unwrap_err().to_string();
            let expected = format!("x.rec has 3 records, and none of number {beyond}");
            assert!(error.ends_with(&expected), "{error}");
        }
        let mut reader = RecordReader::open(&path).unwrap();
        reader.skip_records(1).unwrap();
        let mut positions = reader.positions();
        assert_eq!(positions.next().unwrap().unwrap(), (record, Chess::new()));
        let error = format!("{:#}", positions.next().unwrap().unwrap_err());
        assert!(
            error.contains("record 2 of") && error.contains("x.rec"),
            "{error}"
        );
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        for error in [
            RecordReader::open(&path).unwrap_err().to_string(),
            RecordFile::open(&path).unwrap_err().to_string(),
        ] {
            assert!(
                error.ends_with("x.rec is damaged: it ends within record 2"),
                "{error}"
            );
        }
    }

    #[test]
    fn other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.rec");
        std::fs::write(&path, [7; 96]).unwrap();
        assert!(
            read_all(&path)
                .unwrap_err()
                .to_string()
                .contains("not a record file")
        );
        for (bytes, expected) in [
            (vec![], "x.rec is empty, and not a record file"),
            (vec![7; 20], "x.rec is too short for a record file"),
            (
                Layout::Ranked.header(0)[..PLAIN_BYTES].to_vec(),
                "x.rec is too short for a record file",
            ),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = format!("{:#}", read_all(&path).unwrap_err());
            assert!(error.ends_with(expected), "{error}");
        }
    }
}
