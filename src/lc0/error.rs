//! What can be wrong with a network file. Every variant names the place (field, layer, tensor) and says what was found
//! there and what belongs there, so that the message alone is enough to act on: it contains the messages of its causes,
//! which are therefore not given as sources once more.

use std::{io, path::PathBuf};

use thiserror::Error;

/// Why a network could not be read or converted.
#[derive(Debug, Error)]
pub enum NetError {
    /// Something is wrong with the contents of this file.
    #[error("network {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: Box<NetError>,
    },
    /// The file could not be read or written.
    #[error("{0}")]
    Io(io::Error),
    /// The bytes are no lc0 network at all.
    #[error(
        "not an lc0 network: it begins with [{found}], expected gzip (1f 8b) or lc0's mark (0d c0 01 00 00){hint}"
    )]
    NotANetwork {
        /// The first bytes, in hexadecimal.
        found: String,
        /// What it may be instead; empty or beginning with a semicolon.
        hint: &'static str,
    },
    /// The gzip stream is damaged or cut short.
    #[error("damaged gzip data: {0}")]
    Gzip(io::Error),
    /// More data than any network has.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The protobuf message is damaged or cut short.
    #[error("damaged {what}: {error}")]
    Protobuf {
        /// Which message.
        what: &'static str,
        /// What the decoder says.
        error: prost::DecodeError,
    },
    /// A part that this kind of network needs is not there.
    #[error("{what} is missing")]
    Missing {
        /// The field or layer.
        what: String,
    },
    /// A format, activation or structure that this version cannot convert.
    #[error("{field} is {found}, which is not supported; supported: {expected}")]
    Unsupported {
        /// The field.
        field: String,
        /// What it says.
        found: String,
        /// What it could say.
        expected: String,
    },
    /// A layer has a size that does not fit its neighbours.
    #[error("layer {layer} has {found} values, expected {expected}")]
    LayerSize {
        /// The layer.
        layer: String,
        /// How many values it has.
        found: usize,
        /// How many it should have, and why.
        expected: String,
    },
    /// A layer's bytes do not fit its encoding.
    #[error("layer {layer}: {problem}")]
    LayerData {
        /// The layer.
        layer: String,
        /// What is wrong.
        problem: String,
    },
    /// There is no such policy or value head.
    #[error("no {kind} head '{name}' in this network; it has: {available}")]
    NoSuchHead {
        /// `policy` or `value`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// An ONNX model lacks an input or output.
    #[error("the ONNX model has no {role} named '{expected}'; it has: {found}")]
    NoTensor {
        /// `input` or `output`.
        role: &'static str,
        /// The name looked for.
        expected: String,
        /// The names there are.
        found: String,
    },
    /// An ONNX model's input or output has another type or shape.
    #[error("tensor '{tensor}' of the ONNX model is {found}, expected {expected}")]
    TensorShape {
        /// The tensor.
        tensor: String,
        /// Its type and shape.
        found: String,
        /// What they should be.
        expected: String,
    },
}

impl From<io::Error> for NetError {
    fn from(error: io::Error) -> NetError {
        NetError::Io(error)
    }
}

impl NetError {
    /// The same error, saying in which file it happened.
    pub fn in_file(self, path: &std::path::Path) -> NetError {
        match self {
            NetError::File { .. } => self,
            error => NetError::File {
                path: path.to_owned(),
                error: Box::new(error),
            },
        }
    }

    /// Shorthand for [`NetError::Missing`].
    pub(crate) fn missing(what: impl Into<String>) -> NetError {
        NetError::Missing { what: what.into() }
    }
}
