//! Text files, compressed or not: `.gz` and `.zst` are recognised by their first bytes, `-` is standard input.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
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

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
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
        let zst = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
        assert_eq!(read(&zst), text);
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(read(&[&skipped, &zst[..]].concat()), text);
        assert_eq!(read(b""), "");
    }
}
