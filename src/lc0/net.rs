//! Network files: gzip or raw protobuf bytes, validated completely when they are read.

use std::{io::Read, path::Path};

use flate2::read::GzDecoder;
use prost::{Message, bytes::Bytes};

use super::{
    architecture::Architecture,
    error::NetError,
    format::{Format, Structure},
    proto,
};
use crate::{files, hashing::sha256};

/// The value of the first field of every lc0 network.
pub(super) const MAGIC: u32 = 0x1c0;
/// The first bytes of an uncompressed network: field 1, 32 bits, [`MAGIC`].
const RAW_PREFIX: [u8; 5] = [0x0d, 0xc0, 0x01, 0x00, 0x00];
/// The first bytes of a file, by which its kind is recognised and which errors show.
const START: u64 = 8;
/// Maximum size of an uncompressed network, which is protobuf's; it stops decompression bombs.
const MAX_BYTES: u64 = i32::MAX as u64;

/// A parsed and validated network file: formats are supported, and every layer of the default heads is present with a
/// consistent size.
pub struct Net {
    proto: proto::ProtoNet,
    format: Format,
    name: Option<String>,
    sha256: String,
}

impl Net {
    /// Reads a network from the bytes of a file, compressed or not.
    pub fn parse(bytes: &[u8]) -> Result<Net, NetError> {
        let message =
            proto::ProtoNet::decode(unpack(bytes)?).map_err(|error| NetError::Protobuf {
                what: "network",
                error,
            })?;
        if message.magic() != MAGIC {
            return Err(not_a_network(bytes));
        }
        let format = Format::of(&message)?;
        let net = Net {
            proto: message,
            format,
            name: None,
            sha256: sha256(bytes),
        };
        match format.structure {
            Structure::Onnx => net.embedded_onnx().map(|_| ())?,
            _ => Architecture::read(&net.proto, format, None, None).map(|_| ())?,
        }
        Ok(net)
    }

    /// Whether uncompressed bytes begin like a network.
    pub fn is_network(bytes: &[u8]) -> bool {
        bytes.starts_with(&RAW_PREFIX)
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

/// The bytes of a network file of any kind. Errors contain its name.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, NetError> {
    files::read(path, MAX_BYTES).map_err(|error| NetError::from(error).in_file(path))
}

/// The protobuf bytes of a file.
fn unpack(bytes: &[u8]) -> Result<Bytes, NetError> {
    let raw = match bytes.starts_with(&[0x1f, 0x8b]) {
        false => bytes.to_vec(),
        true => {
            let (mut raw, mut decoder) = (Vec::new(), GzDecoder::new(bytes));
            // The rest is unpacked only if this begins like a network.
            let mut read = |most: u64, raw: &mut Vec<u8>| {
                let part = decoder.by_ref().take(most).read_to_end(raw);
                part.map_err(NetError::Gzip)
            };
            read(START, &mut raw)?;
            if raw.starts_with(&RAW_PREFIX) {
                read(MAX_BYTES + 1 - START, &mut raw)?;
            }
            raw
        }
    };
    if raw.len() as u64 > MAX_BYTES {
        return Err(NetError::TooLarge {
            what: "the network",
            limit: MAX_BYTES,
        });
    }
    match raw.starts_with(&RAW_PREFIX) {
        true => Ok(raw.into()),
        false => Err(not_a_network(&raw)),
    }
}

fn not_a_network(bytes: &[u8]) -> NetError {
    let hint = match bytes {
        [b'1' | b'2', b'\n', ..] => {
            "; it is a network in the old text format: convert it with lc0's tools"
        }
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', ..] => {
            "; it is a Git LFS pointer: fetch the file itself"
        }
        [b'<', ..] => "; it is a web page: the download failed",
        [0x08, ..] => {
            "; it may be an ONNX model: those are used as they are, by names that end in .onnx"
        }
        _ => "",
    };
    let found = bytes.iter().take(8).map(|byte| format!("{byte:02x}"));
    NetError::NotANetwork {
        found: found.collect::<Vec<_>>().join(" "),
        hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(bytes: &[u8]) -> String {
        Net::parse(bytes).err().unwrap().to_string()
    }

    #[test]
    fn other_files_are_refused_with_a_hint() {
        assert!(error(b"").contains("not an lc0 network"));
        assert!(error(b"2\n0.1 0.2").contains("old text format"));
        assert!(error(b"version https://git-lfs").contains("Git LFS"));
        assert!(error(&[0x1f, 0x8b, 8, 0, 0]).contains("gzip"));
        assert!(error(&[0x0d, 0xc0, 0x01, 0, 0, 0xff]).contains("damaged network"));
        assert!(
            error(&RAW_PREFIX).contains("is missing"),
            "{}",
            error(&RAW_PREFIX)
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Net::load(Path::new("/nowhere/net.pb.gz")).err().unwrap();
        assert!(error.to_string().contains("/nowhere/net.pb.gz"));
    }
}
