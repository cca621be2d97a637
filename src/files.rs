//! Text files, compressed or not: `.gz` and `.zst` are recognised by their first bytes, `-` is standard input.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
};

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;

mod zstd;

pub use zstd::ZstdReader;

/// Opens a file for reading and unpacks it on the way.
///
/// # Errors
/// When it cannot be opened or begins like a compressed file and is none.
pub fn open(path: &Path) -> Result<Box<dyn BufRead + Send>> {
    let name = || format!("cannot read {}", path.display());
    let raw: Box<dyn Read + Send> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).with_context(name)?)
    };
    let mut raw = BufReader::new(raw);
    let start = raw.fill_buf().with_context(name)?;
    if start.starts_with(&[0x1f, 0x8b]) {
        Ok(Box::new(BufReader::new(MultiGzDecoder::new(raw))))
    } else if zstd::is_zstd(start) {
        Ok(Box::new(BufReader::new(ZstdReader::new(raw))))
    } else {
        Ok(Box::new(raw))
    }
}

/// Writes a file that is whole or not there: an older one of the name stays until the new one is on the disk.
///
/// # Errors
/// When it cannot be written, or not put in its place.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let written = File::create(partial)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(partial, path));
    if written.is_err() {
        // Not more than a leftover: the error is told anyway.
        let _ = fs::remove_file(partial);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    fn read(bytes: &[u8]) -> String {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut text = String::new();
        open(file.path())
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }

    #[test]
    fn plain_gzip_and_zstd_read_alike() {
        let text = "one\ntwo\n";
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        assert_eq!(read(text.as_bytes()), text);
        assert_eq!(read(&gz.finish().unwrap()), text);
        let zst = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        assert_eq!(read(&zst), text);
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(read(&[&skipped, &zst[..]].concat()), text);
        assert_eq!(read(b""), "");
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        write_whole(&path, b"old").unwrap();
        fs::create_dir(folder.path().join("page.html.partial")).unwrap();
        let error = write_whole(&path, b"new").unwrap_err().to_string();
        assert!(error.contains("page.html"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert!(write_whole(&folder.path().join("no/such"), b"").is_err());
    }
}
