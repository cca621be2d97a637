//! Network files: gzip or raw protobuf bytes, validated completely when they are read.

use std::{fs::File, io::Read, path::Path};

use flate2::{bufread::GzDecoder, read::MultiGzDecoder};
use prost::{Message, bytes::Bytes};

use super::{
    architecture::Architecture,
    error::NetError,
    format::{Format, Structure},
    proto, wire,
};
use crate::{files, hashing::sha256};

/// The value of the first field of every lc0 network.
pub(super) const MAGIC: u32 = 0x1c0;
/// The first bytes of an uncompressed network: field 1, 32 bits, [`MAGIC`].
pub(super) const RAW_PREFIX: [u8; 5] = [0x0d, 0xc0, 0x01, 0x00, 0x00];
/// The first bytes of a gzip file.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The first byte of an ONNX model: field 1, a number.
const ONNX_START: u8 = 0x08;
/// The first bytes of a file, by which its kind is recognised and which errors show.
const START: u64 = 8;
/// The newest lc0 whose networks are known here. Their fields that are newer would be skipped without a word.
const NEWEST_LC0: (u32, u32) = (0, 33);
/// A version that some files have as a mark; lc0 accepts it, too.
const MARK_OF_OLD_FILES: (u32, u32, u32) = (97, 98, 99);
/// Maximum size of an uncompressed network, which is protobuf's; it stops decompression bombs.
const MAX_BYTES: u64 = i32::MAX as u64;

/// A parsed and validated network file: formats are supported, and every layer of the default heads is present with a
/// consistent size.
pub struct Net {
    proto: proto::ProtoNet,
    format: Format,
    name: Option<String>,
    sha256: String,
    ignored_bytes: usize,
}

impl Net {
    /// Reads a network from the bytes of a file, compressed or not.
    pub fn parse(bytes: &[u8]) -> Result<Net, NetError> {
        let (raw, ignored_bytes) = unpack(bytes)?;
        wire::check_network(&raw)?;
        let decoded = proto::ProtoNet::decode(raw.clone());
        let message = decoded.map_err(|error| NetError::Protobuf {
            what: "network",
            error,
        })?;
        if message.magic() != MAGIC {
            return Err(not_a_network(&raw));
        }
        let format = Format::of(&message)?;
        check_version(message.min_version.as_ref())?;
        let net = Net {
            proto: message,
            format,
            name: None,
            sha256: sha256(bytes),
            ignored_bytes,
        };
        match format.structure {
            Structure::Onnx => net.embedded_onnx().map(|_| ())?,
            _ => Architecture::read(&net.proto, format, None, None).map(|_| ())?,
        }
        Ok(net)
    }

    /// Whether a file is there and begins, unpacked, like a network.
    pub fn begins_like_one(path: &Path) -> bool {
        let start = start_of(path, 1 << 10);
        if start.starts_with(&GZIP) {
            let mut raw = Vec::new();
            // The start of the file may not suffice for more.
            let _ = MultiGzDecoder::new(&start[..])
                .take(START)
                .read_to_end(&mut raw);
            raw.starts_with(&RAW_PREFIX)
        } else {
            start.starts_with(&RAW_PREFIX)
        }
    }

    /// Reads a network file. Errors contain its name.
    pub fn load(path: &Path) -> Result<Net, NetError> {
        let read = || Net::parse(&read_file(path)?);
        let mut net = read().map_err(|error| error.in_file(path))?;
        net.name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        Ok(net)
    }

    /// The file's name, if it came from a file.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The SHA-256 of the file as it was read, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Bytes of the file after the complete network, which gzip and lc0 ignore, too.
    pub fn ignored_bytes(&self) -> usize {
        self.ignored_bytes
    }

    /// Structure, heads, planes and activations.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The file's message.
    pub(crate) fn proto(&self) -> &proto::ProtoNet {
        &self.proto
    }

    /// The model of a `NETWORK_ONNX` file.
    pub(crate) fn embedded_onnx(&self) -> Result<&proto::ProtoOnnxModel, NetError> {
        let model = self.proto.onnx_model.as_ref();
        model
            .filter(|model| !model.model().is_empty())
            .ok_or_else(|| NetError::missing("onnx_model.model"))
    }
}

/// Refuses networks for newer versions of lc0 than the known ones.
fn check_version(needed: Option<&proto::EngineVersion>) -> Result<(), NetError> {
    let Some(version) = needed else {
        return Ok(());
    };
    let (major, minor, patch) = (version.major(), version.minor(), version.patch());
    if (major, minor) <= NEWEST_LC0 || (major, minor, patch) == MARK_OF_OLD_FILES {
        return Ok(());
    }
    Err(NetError::TooNew {
        needed: version.to_string(),
        known: format!("{}.{}", NEWEST_LC0.0, NEWEST_LC0.1),
    })
}

/// The first bytes of a regular file; none if it cannot be read.
fn start_of(path: &Path, most: u64) -> Vec<u8> {
    let mut start = Vec::new();
    // What is no file, such as a pipe, may have no end, or never begin.
    if path.is_file()
        && let Ok(file) = File::open(path)
    {
        let _ = file.take(most).read_to_end(&mut start);
    }
    start
}

/// Whether a file is there and begins like an ONNX model: all exporters write the version of the format first.
pub fn begins_like_onnx(path: &Path) -> bool {
    start_of(path, 1) == [ONNX_START]
}

/// The bytes of a network file of any kind, which is not a pipe: nothing might ever come from it. Errors contain its
/// name.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, NetError> {
    files::read_at_once(path, MAX_BYTES).map_err(|error| NetError::from(error).in_file(path))
}

/// The protobuf bytes of a file, and how many other bytes follow them.
fn unpack(bytes: &[u8]) -> Result<(Bytes, usize), NetError> {
    let (raw, ignored) = if bytes.starts_with(&GZIP) {
        unpack_gzip(bytes)?
    } else {
        (bytes.to_vec(), 0)
    };
    if raw.len() as u64 > MAX_BYTES {
        return Err(NetError::TooLarge {
            what: "the network",
            limit: MAX_BYTES,
        });
    }
    match raw.starts_with(&RAW_PREFIX) {
        true => Ok((raw.into(), ignored)),
        false if raw.starts_with(&GZIP) => Err(NetError::PackedTwice),
        false => Err(not_a_network(&raw)),
    }
}

/// Unpacks a gzip file of one or more parts; returns also the number of bytes after the last one, such as the padding
/// of an archive. Of what does not begin like a network, only the start is unpacked, and of what is too large, one byte
/// too many.
fn unpack_gzip(bytes: &[u8]) -> Result<(Vec<u8>, usize), NetError> {
    let (mut raw, mut rest) = (Vec::new(), bytes);
    while rest.starts_with(&GZIP) {
        let mut part = GzDecoder::new(rest);
        for most in [START, MAX_BYTES + 1] {
            let missing = most.saturating_sub(raw.len() as u64);
            let read = part.by_ref().take(missing).read_to_end(&mut raw);
            read.map_err(NetError::Gzip)?;
            let is_begun = raw.len() as u64 >= START;
            if is_begun && !raw.starts_with(&RAW_PREFIX) || raw.len() as u64 > MAX_BYTES {
                return Ok((raw, 0));
            }
        }
        rest = part.into_inner();
    }
    Ok((raw, rest.len()))
}

fn not_a_network(bytes: &[u8]) -> NetError {
    let hint = match bytes {
        [b'1' | b'2', b'\n', ..] => {
            Some("it is a network in the old text format: convert it with lc0's tools")
        }
        [ONNX_START, ..] => {
            Some("it may be an ONNX model: those are used as they are, by names that end in .onnx")
        }
        _ => failed_download(bytes),
    };
    let found = bytes.iter().take(8).map(|byte| format!("{byte:02x}"));
    NetError::NotANetwork {
        found: found.collect::<Vec<_>>().join(" "),
        hint: hint.map_or_else(String::new, |hint| format!("; {hint}")),
    }
}

/// What came in the place of a network of any kind, if that is recognised. No network and no ONNX model begins like
/// this.
pub(super) fn failed_download(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [] => Some("the file is empty"),
        _ if bytes.starts_with(b"version") => {
            Some("it is a Git LFS pointer: fetch the file itself")
        }
        _ if bytes.trim_ascii_start().starts_with(b"<") => {
            Some("it is a web page: the download failed")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn error(bytes: &[u8]) -> String {
        Net::parse(bytes).err().unwrap().to_string()
    }

    #[test]
    fn other_files_are_refused_with_a_hint() {
        assert!(error(b"").contains("the file is empty"));
        assert!(error(b"2\n0.1 0.2").contains("old text format"));
        assert!(error(b"version https://git-lfs").contains("Git LFS"));
        assert!(error(b"\n\n<!DOCTYPE html>").contains("a web page"));
        assert!(error(&[0x1f, 0x8b, 8, 0, 0]).contains("gzip"));
        assert!(error(&[0x0d, 0xc0, 0x01, 0, 0, 0xff]).contains("damaged network"));
        assert!(
            error(&RAW_PREFIX).contains("is missing"),
            "{}",
            error(&RAW_PREFIX)
        );
    }

    /// What they have more than older ones would be skipped.
    #[test]
    fn networks_for_newer_versions_of_lc0_are_refused() {
        let version = |major, minor, patch| proto::EngineVersion {
            major: Some(major),
            minor: Some(minor),
            patch: Some(patch),
        };
        for known in [(0, 21, 0), (0, 33, 9), (97, 98, 99)] {
            let (major, minor, patch) = known;
            check_version(Some(&version(major, minor, patch))).unwrap();
        }
        check_version(None).unwrap();
        let newer = proto::ProtoNet {
            magic: Some(MAGIC),
            min_version: Some(version(0, 34, 2)),
            weights: Some(proto::Weights::default()),
            ..proto::ProtoNet::default()
        };
        let error = error(&newer.encode_to_vec());
        assert!(error.contains("needs lc0 0.34.2"), "{error}");
        assert!(check_version(Some(&version(1, 0, 0))).is_err());
    }

    fn pack(bytes: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Programs that copy files from tapes and archives pad them.
    #[test]
    fn bytes_after_a_complete_gzip_file_are_ignored_and_counted() {
        let raw = [&RAW_PREFIX[..], b"\x12\x03GPL"].concat();
        let packed = pack(&raw);
        let unpacked = |bytes: &[u8]| unpack(bytes).map(|(raw, ignored)| (raw.to_vec(), ignored));
        assert_eq!(unpacked(&packed).unwrap(), (raw.clone(), 0));
        for rest in [&[0; 512][..], b"x"] {
            let followed = [&packed[..], rest].concat();
            assert_eq!(unpacked(&followed).unwrap(), (raw.clone(), rest.len()));
        }
        // What begins like another part has to be one, and a damaged part is no rest.
        assert!(unpacked(&[&packed[..], &GZIP].concat()).is_err());
        for end in 2..packed.len() {
            assert!(unpacked(&packed[..end]).is_err(), "{end}");
        }
        assert!(error(&pack(b"other bytes")).contains("6f 74 68 65 72"));
    }

    #[test]
    fn a_network_that_was_packed_twice_is_recognised() {
        let twice = pack(&pack(&[&RAW_PREFIX[..], b"\x12\x03GPL"].concat()));
        assert_eq!(error(&twice), "it was packed by gzip twice: unpack it once");
    }

    /// bgzip and others write a file in parts.
    #[test]
    fn a_gzip_file_may_have_several_parts() {
        let raw = [&RAW_PREFIX[..], b"\x12\x03GPL"].concat();
        let whole = error(&pack(&raw));
        assert!(whole.contains("is missing"), "{whole}");
        for at in [3, RAW_PREFIX.len(), RAW_PREFIX.len() + 2] {
            let (start, rest) = raw.split_at(at);
            assert_eq!(error(&[pack(start), pack(rest)].concat()), whole);
        }
    }

    /// Nothing might ever come from it.
    #[cfg(unix)]
    #[test]
    fn a_pipe_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("x.pb.gz");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let error = Net::load(&pipe).err().unwrap().to_string();
        assert!(
            error.contains("x.pb.gz") && error.contains("it is a pipe"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Net::load(Path::new("/nowhere/net.pb.gz")).err().unwrap();
        assert!(error.to_string().contains("/nowhere/net.pb.gz"));
    }
}
