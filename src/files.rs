//! Text files, compressed or not: `.gz` and `.zst` are recognised by their first bytes, `-` is standard input.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;

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
    } else if is_zstd(start) {
        let unpacked = zstd::Decoder::with_buffer(raw).with_context(name)?;
        Ok(Box::new(BufReader::new(unpacked)))
    } else {
        Ok(Box::new(raw))
    }
}

/// Whether a file begins with a frame of Zstandard, or with one to be skipped, as those of pzstd do (RFC 8878, 3.1).
fn is_zstd(start: &[u8]) -> bool {
    matches!(
        start,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
        let zst = zstd::encode_all(text.as_bytes(), 1).unwrap();
        assert_eq!(read(&zst), text);
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(read(&[&skipped, &zst[..]].concat()), text);
        assert_eq!(read(b""), "");
    }
}
