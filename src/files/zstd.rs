//! Decompresses Zstandard (RFC 8878): any number of consecutive frames, as `zstd` appends and `pzstd` writes them,
//! with skippable frames in between. The decoder of a frame is ruzstd's, in Rust, so that no C library has to be
//! built.

use std::io::{self, BufRead, Error, ErrorKind, Read};

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

/// Maximum window size, and with it the memory for reading: that of `zstd` without `--long=28` or more, 128 MiB.
const MAX_WINDOW_SIZE: u64 = 1 << 27;

/// Whether a file begins with a Zstandard frame, or with a skippable one as those of pzstd do (RFC 8878, 3.1).
pub fn is_zstd(start: &[u8]) -> bool {
    matches!(
        start,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]
    )
}

/// The contents of all frames of `source`.
pub struct ZstdReader<R> {
    source: R,
    frame: FrameDecoder,
    /// Whether the frame has been read to its end, or none has been started.
    is_between_frames: bool,
}

impl<R: BufRead> ZstdReader<R> {
    /// A reader that has not read anything.
    pub fn new(source: R) -> ZstdReader<R> {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(MAX_WINDOW_SIZE);
        ZstdReader {
            source,
            frame,
            is_between_frames: true,
        }
    }

    /// Starts the next frame with content; false at the end of the source.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.frame.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => self.skip(u64::from(length))?,
                Err(error) => return Err(bad(&error.to_string())),
            }
        }
        Ok(false)
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        match io::copy(&mut self.source.by_ref().take(length), &mut io::sink())? {
            skipped if skipped < length => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Ends the frame and verifies its checksum, if it has one.
    fn end_frame(&mut self) -> io::Result<()> {
        self.is_between_frames = true;
        let expected = self.frame.get_checksum_from_data();
        if expected.is_some() && expected != self.frame.get_calculated_checksum() {
            return Err(bad("the checksum is wrong"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if self.is_between_frames {
                if !self.next_frame()? {
                    return Ok(0);
                }
                self.is_between_frames = false;
            }
            // Before the end of a frame a window of bytes is held back, because later blocks may repeat parts of it.
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                self.frame
                    .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| bad(&error.to_string()))?;
            }
            match self.frame.read(out)? {
                0 => self.end_frame()?,
                count => return Ok(count),
            }
        }
    }
}

fn bad(why: &str) -> Error {
    Error::new(
        ErrorKind::InvalidData,
        format!("broken Zstandard data: {why}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(packed: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        ZstdReader::new(packed).read_to_string(&mut text)?;
        Ok(text)
    }

    /// The uncompressed text of: `pzstd -p 2 -1`, and the first million bytes by `zstd -19`, the rest by `zstd -1
    /// --no-check`.
    fn lines() -> String {
        (0..200_000)
            .map(|i| format!("{} knights\n", i % 1000))
            .collect()
    }

    /// The offsets of the frames, including skippable ones.
    fn frames(packed: &[u8]) -> Vec<usize> {
        (0..packed.len())
            .filter(|&at| is_zstd(&packed[at..]))
            .collect()
    }

    const PZSTD: &[u8] = include_bytes!("../../tests/data/zstd/pzstd.zst");
    const APPENDED: &[u8] = include_bytes!("../../tests/data/zstd/appended.zst");

    #[test]
    fn all_frames_are_read() {
        assert!(is_zstd(PZSTD) && is_zstd(APPENDED));
        assert!(read(PZSTD).unwrap() == lines());
        assert!(read(APPENDED).unwrap() == lines());
        assert!(read(&[PZSTD, APPENDED].concat()).unwrap() == lines().repeat(2));
    }

    #[test]
    fn reading_single_bytes_gives_the_same() {
        let mut reader = io::BufReader::with_capacity(1, ZstdReader::new(APPENDED));
        let mut text = String::new();
        reader.read_line(&mut text).unwrap();
        assert_eq!(text, "0 knights\n");
    }

    #[test]
    fn truncated_data_are_an_error_wherever_they_end() {
        for packed in [PZSTD, APPENDED] {
            // Between frames a file may end.
            let whole = frames(packed);
            for end in (0..packed.len()).filter(|end| !whole.contains(end)) {
                assert!(read(&packed[..end]).is_err(), "{end}");
            }
        }
    }

    #[test]
    fn trailing_data_and_wrong_checksums_are_errors() {
        let error = read(&[APPENDED, b"more"].concat()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        // The last four bytes of the first frame of pzstd's file are its checksum.
        let mut wrong = PZSTD.to_vec();
        wrong[frames(PZSTD)[2] - 1] ^= 1;
        let error = read(&wrong).unwrap_err().to_string();
        assert!(error.contains("checksum"), "{error}");
    }

    #[test]
    fn a_window_of_more_than_128_mebibytes_is_refused() {
        // A frame header with that window and a last block of the one byte "x", uncompressed.
        let frame = |exponent: u8| [0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3, 9, 0, 0, b'x'];
        assert_eq!(read(&frame(17)).unwrap(), "x");
        let error = read(&frame(18)).unwrap_err().to_string();
        assert!(error.contains("window"), "{error}");
    }
}
