//! Reads text files, compressed or not (`.gz` and `.zst` are recognised by their first bytes, `-` is standard input),
//! and whole files of any kind; [`output`] is the only module that writes.
//!
//! Input may be hostile or a mistake (a device, a few kilobytes that unpack to terabytes, an image), so every read
//! has a limit, and files that are not text are refused by name.

pub mod differences;
pub mod output;
mod zstd;

use std::{
    fs::{self, File, Metadata},
    io::{self, BufRead, BufReader, Cursor, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use flate2::read::MultiGzDecoder;

pub use self::zstd::ZstdReader;

/// Maximum number of bytes read from a device: `/dev/null` is a useful configuration, `/dev/zero` has no end.
const MAX_DEVICE_BYTES: u64 = 1 << 20;
/// Maximum size of a text that is read as a whole (configurations), in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;
/// Maximum length of a line of a file that is read by lines, in bytes.
const MAX_LINE_BYTES: usize = 1 << 16;

/// The number of bytes by which the kind of a file is recognised.
const START_BYTES: u64 = 8;

/// Opens a file for reading. A folder is an error here: some systems open it and fail later, others deny the access
/// without saying why.
///
/// # Errors
/// When it cannot be opened or is a folder.
pub fn open_file(path: &Path) -> io::Result<File> {
    refuse_folder(path, File::open(path))
}

fn refuse_folder(path: &Path, opened: io::Result<File>) -> io::Result<File> {
    let is_folder = match &opened {
        Ok(file) => file.metadata()?.is_dir(),
        Err(_) => path.is_dir(),
    };
    if is_folder {
        Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it is a folder",
        ))
    } else {
        opened
    }
}

/// Opens a text file for reading, decompressing it if necessary.
///
/// # Errors
/// When it cannot be opened, is a damaged compressed file, or is not text.
pub fn open(path: &Path) -> Result<Box<dyn BufRead + Send>> {
    open_with(path, |raw| raw)
}

/// As [`open`], with a wrapper between the file and the decompression, for example to count bytes.
///
/// # Errors
/// As [`open`].
pub fn open_with<F, R>(path: &Path, wrap: F) -> Result<Box<dyn BufRead + Send>>
where
    F: FnOnce(Box<dyn Read + Send>) -> R,
    R: Read + Send + 'static,
{
    let name = || format!("cannot read {}", path.display());
    let raw: Box<dyn Read + Send> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(open_file(path).with_context(name)?)
    };
    let mut raw = BufReader::with_capacity(1 << 17, wrap(raw));
    // A pipe may give one byte at first.
    let mut start = Vec::new();
    let read = raw.by_ref().take(START_BYTES).read_to_end(&mut start);
    read.with_context(name)?;
    let (is_gzip, is_zstd) = (start.starts_with(&[0x1f, 0x8b]), zstd::is_zstd(&start));
    if !is_gzip && !is_zstd {
        // More than what is there already is not waited for.
        refuse_binary(&[&start, raw.buffer()].concat()).with_context(name)?;
        return Ok(Box::new(Cursor::new(start).chain(raw)));
    }
    let packed = Cursor::new(start).chain(raw);
    let mut text: Box<dyn BufRead + Send> = if is_gzip {
        Box::new(BufReader::new(MultiGzDecoder::new(packed)))
    } else {
        Box::new(BufReader::new(ZstdReader::new(packed)))
    };
    refuse_binary(text.fill_buf().with_context(name)?).with_context(name)?;
    Ok(text)
}

/// Refuses UTF-16 and bytes of 0, which do not occur in ASCII, Latin-1 or UTF-8 text.
fn refuse_binary(start: &[u8]) -> Result<()> {
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        bail!("this is UTF-16 text: save it as UTF-8");
    }
    if start.starts_with(b"SCORNREC") {
        bail!("these are training records of single positions: `scorn dataset stats` counts them");
    }
    if start.contains(&0) {
        bail!("this is not text (or it is UTF-16: save it as UTF-8)");
    }
    Ok(())
}

/// The end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// A newline, or the end of the file.
    Whole,
    /// The line is longer than the limit; the rest of it follows.
    Cut,
    /// The input was at its end.
    Nothing,
}

/// Reads a line with its newline to the end of `line`, at most `max_bytes` of it, because a file without newlines may
/// have no end.
///
/// # Errors
/// When the input cannot be read.
pub fn read_line(
    from: &mut impl BufRead,
    line: &mut Vec<u8>,
    max_bytes: usize,
) -> io::Result<LineEnd> {
    let read = Read::take(&mut *from, max_bytes as u64).read_until(b'\n', line)?;
    Ok(match read {
        0 => LineEnd::Nothing,
        _ if read < max_bytes || line.ends_with(b"\n") => LineEnd::Whole,
        _ => LineEnd::Cut,
    })
}

/// Skips the rest of a line that was cut.
///
/// # Errors
/// When the input cannot be read.
pub fn skip_line(from: &mut impl BufRead) -> io::Result<()> {
    let mut rest = Vec::new();
    while read_line(from, &mut rest, 1 << 16)? == LineEnd::Cut {
        rest.clear();
    }
    Ok(())
}

/// The lines of a text, each at most 64 KiB long. Invalid UTF-8 is replaced.
pub fn lines(mut from: impl BufRead) -> impl Iterator<Item = Result<String>> {
    let mut failed = false;
    std::iter::from_fn(move || {
        // A file may repeat a read error for ever, so the first one ends the lines.
        if failed {
            return None;
        }
        let line = next_line(&mut from);
        failed = line.is_err();
        Some(match line.transpose()? {
            Err(error) => Err(error.into()),
            Ok(None) => Err(anyhow!("it is longer than {MAX_LINE_BYTES} bytes")),
            Ok(Some(line)) => Ok(line),
        })
    })
}

/// The next line; `None` at the end, `Some(None)` if it is too long.
fn next_line(from: &mut impl BufRead) -> io::Result<Option<Option<String>>> {
    let mut line = Vec::new();
    Ok(match read_line(from, &mut line, MAX_LINE_BYTES)? {
        LineEnd::Nothing => None,
        LineEnd::Whole => Some(Some(String::from_utf8_lossy(&line).into_owned())),
        LineEnd::Cut => {
            skip_line(from)?;
            Some(None)
        }
    })
}

/// Reads a whole file of at most `max_bytes` bytes; from a device at most a mebibyte.
///
/// # Errors
/// When it cannot be read or is larger.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    read_open(open_file(path)?, max_bytes)
}

fn read_open(file: File, max_bytes: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    let max_bytes = if is_device(&metadata) {
        max_bytes.min(MAX_DEVICE_BYTES)
    } else {
        max_bytes
    };
    let too_large = || {
        let text = format!("it is larger than {max_bytes} bytes");
        io::Error::new(io::ErrorKind::FileTooLarge, text)
    };
    if metadata.is_file() && metadata.len() > max_bytes {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(metadata.len().min(max_bytes) as usize);
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        Err(too_large())
    } else {
        Ok(bytes)
    }
}

/// As [`read_text`], for a thread that must not wait: pipes and terminals, whose contents may never come, are refused.
///
/// # Errors
/// As [`read_text`], and when it is neither a file nor a device that is read at once (`/dev/null`).
pub fn read_text_at_once(path: &Path) -> Result<String> {
    let name = || format!("cannot read {}", path.display());
    let bytes = read_at_once(path, MAX_TEXT_BYTES).with_context(name)?;
    text_of(bytes).with_context(name)
}

/// As [`read`], for a thread that must not wait: pipes are refused.
///
/// # Errors
/// As [`read`], and when it is a pipe.
pub fn read_at_once(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = refuse_folder(path, options.open(path))?;
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_fifo(&file.metadata()?.file_type()) {
        let text = "it is a pipe; name a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    read_open(file, max_bytes)
}

/// Reads a whole text file of at most a mebibyte. A byte order mark is removed.
///
/// # Errors
/// When it cannot be read, is larger, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let name = || format!("cannot read {}", path.display());
    let bytes = read(path, MAX_TEXT_BYTES).with_context(name)?;
    text_of(bytes).with_context(name)
}

fn text_of(bytes: Vec<u8>) -> Result<String> {
    refuse_binary(&bytes)?;
    let mut text = String::from_utf8(bytes)?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

/// The files of a folder whose names end in one of `endings`, sorted by name, those of the first ending first.
///
/// # Errors
/// When the folder cannot be read, or has no such file.
pub fn of_folder(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let name = || format!("cannot read the folder {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(name)? {
        let path = entry.with_context(name)?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let ending = endings.iter().position(|&ending| file.ends_with(ending));
        files.extend(
            ending
                .filter(|_| path.is_file())
                .map(|ending| (ending, path)),
        );
    }
    if files.is_empty() {
        let endings = endings.join(", ");
        bail!(
            "{}: this folder has no file that ends in {endings}",
            folder.display()
        );
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

#[cfg(unix)]
fn is_device(metadata: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    kind.is_char_device() || kind.is_block_device()
}

#[cfg(not(unix))]
fn is_device(metadata: &Metadata) -> bool {
    !metadata.is_file() && !metadata.is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::{Seek, Write};

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn unpacked(bytes: &[u8]) -> String {
        let mut text = String::new();
        let file = file(bytes);
        open(file.path())
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    /// As a pipe may do it.
    struct ByteByByte<R>(R);

    impl<R: Read> Read for ByteByByte<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn folders_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let errors = [
            open_file(folder.path()).unwrap_err(),
            read(folder.path(), 1).unwrap_err(),
            read_at_once(folder.path(), 1).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.to_string(), "it is a folder");
        }
    }

    #[test]
    fn a_slow_pipe_is_recognised() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(b"1. e4 *\n").unwrap();
        let gzip = packer.finish().unwrap();
        let zstd = compress_to_vec(&b"1. e4 *\n"[..], CompressionLevel::Fastest);
        for bytes in [&b"1. e4 *\n"[..], &gzip, &zstd] {
            let mut text = String::new();
            let mut slow = open_with(file(bytes).path(), ByteByByte).unwrap();
            slow.read_to_string(&mut text).unwrap();
            assert_eq!(text, "1. e4 *\n");
        }
        for (bytes, reason) in [
            (&b"SCORNREC0123"[..], "records"),
            (b"\xff\xfe1\0.\0", "UTF-16"),
        ] {
            let error = open_with(file(bytes).path(), ByteByByte).err().unwrap();
            assert!(format!("{error:#}").contains(reason), "{error:#}");
        }
        assert_eq!(unpacked(b"4k3"), "4k3");
    }

    #[test]
    fn plain_gzip_and_zstd_files_read_the_same() {
        let text = "one\ntwo\n";
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        assert_eq!(unpacked(text.as_bytes()), text);
        assert_eq!(unpacked(&gz.finish().unwrap()), text);
        let zst = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        assert_eq!(unpacked(&zst), text);
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(unpacked(&[&skipped, &zst[..]].concat()), text);
        assert_eq!(unpacked(b""), "");
    }

    #[test]
    fn files_that_are_not_text_are_refused_by_name() {
        let utf16: Vec<u8> = "1. e4 *\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let marked = [&[0xff, 0xfe], &utf16[..]].concat();
        let packed = compress_to_vec(&marked[..], CompressionLevel::Fastest);
        for bytes in [&utf16, &marked, &packed, &b"PK\x03\x04\x00".to_vec()] {
            let file = file(bytes);
            let error = format!("{:#}", open(file.path()).err().unwrap());
            assert!(error.contains("UTF-16") && error.contains(&*file.path().to_string_lossy()));
        }
        let file = file(&marked);
        assert!(format!("{:#}", read_text(file.path()).unwrap_err()).contains("UTF-16 text"));
    }

    #[test]
    fn a_byte_order_mark_is_removed() {
        let file = file("\u{feff}--threads=1\n".as_bytes());
        assert_eq!(read_text(file.path()).unwrap(), "--threads=1\n");
    }

    #[test]
    fn a_folder_gives_its_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let error = of_folder(folder.path(), &[".pgn", ".vis"]).unwrap_err();
        assert!(error.to_string().ends_with("ends in .pgn, .vis"), "{error}");
        for name in ["b.pgn", "a.vis", "a.pgn", "manifest.json"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::fs::create_dir(at("c.pgn")).unwrap();
        let found = of_folder(folder.path(), &[".pgn", ".vis"]).unwrap();
        assert_eq!(found, ["a.pgn", "b.pgn", "a.vis"].map(at));
        assert!(of_folder(&at("missing"), &[".pgn"]).is_err());
    }

    #[test]
    fn reads_have_limits() {
        let small = file(b"12345678");
        assert_eq!(read(small.path(), 8).unwrap().len(), 8);
        assert_eq!(
            read(small.path(), 7).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        // It is refused before it is read. The clones share their place in the file.
        let mut large = File::open(small.path()).unwrap();
        assert!(read_open(large.try_clone().unwrap(), 7).is_err());
        assert_eq!(large.stream_position().unwrap(), 0);
        let (mut text, mut line) = (&b"long line\nnext\nlast"[..], Vec::new());
        assert_eq!(read_line(&mut text, &mut line, 4).unwrap(), LineEnd::Cut);
        skip_line(&mut text).unwrap();
        for (expected, end) in [
            (&b"next\n"[..], LineEnd::Whole),
            (b"last", LineEnd::Whole),
            (b"", LineEnd::Nothing),
        ] {
            line.clear();
            assert_eq!(read_line(&mut text, &mut line, 5).unwrap(), end);
            assert_eq!(line, expected);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_end_soon() {
        assert_eq!(read(Path::new("/dev/null"), u64::MAX - 1).unwrap(), b"");
        assert!(read(Path::new("/dev/zero"), u64::MAX - 1).is_err());
        assert!(open(Path::new("/dev/zero")).is_err());
    }
}
