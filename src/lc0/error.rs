//! Errors of network files. Every variant names the place (field, layer, tensor), what was found there and what was
//! expected, so that the message is sufficient to act on. Messages contain those of their causes, which are therefore
//! not returned as sources.

use std::{io, path::PathBuf};

use thiserror::Error;

/// Why a network could not be read or converted.
#[derive(Debug, Error)]
pub enum NetError {
    /// The contents of this file are invalid.
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
    /// The bytes are not an lc0 network.
    #[error(
        "not an lc0 network: it begins with [{found}], expected gzip (1f 8b) or lc0's mark (0d c0 01 00 00){hint}"
    )]
    NotANetwork {
        /// The first bytes, in hexadecimal.
        found: String,
        /// What the file may be instead; empty or beginning with a semicolon.
        hint: String,
    },
    /// What was unpacked is a gzip file again.
    #[error("it was packed by gzip twice: unpack it once")]
    PackedTwice,
    /// The gzip stream is damaged or cut short.
    #[error("damaged gzip data: {0}")]
    Gzip(io::Error),
    /// More data than any network has.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// The object that is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The protobuf message is damaged or cut short.
    #[error("damaged {what}: {error}")]
    Protobuf {
        /// The message.
        what: &'static str,
        /// The decoder's error.
        error: prost::DecodeError,
    },
    /// A part of an ONNX model is no message of its kind.
    #[error("damaged ONNX model: a {part} of its graph cannot be decoded")]
    Undecodable {
        /// The part.
        part: &'static str,
    },
    /// A file that is another thing than the ONNX model that its name promises.
    #[error("not an ONNX model: {hint}")]
    NotAModel {
        /// What it is.
        hint: &'static str,
    },
    /// Bytes that no decoder should read.
    #[error("damaged {what}: the {message} at byte {at} has {found}")]
    Wire {
        /// Network or ONNX model.
        what: &'static str,
        /// Where in the file.
        at: usize,
        /// The message of the format.
        message: &'static str,
        /// What is wrong.
        found: String,
    },
    /// A part that this kind of network needs is missing.
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
        /// Its value.
        found: String,
        /// The supported values.
        expected: String,
    },
    /// The input planes that a model names are not the requested ones.
    #[error("its metadata entry {entry} names the input planes {stated}, not {requested}")]
    OtherPlanes {
        /// The entry.
        entry: &'static str,
        /// Those that it names.
        stated: String,
        /// The requested ones.
        requested: String,
    },
    /// The file needs a newer lc0 than the one whose formats are known here.
    #[error(
        "it needs lc0 {needed}, and this version of Scorn supports formats up to lc0 {known}: a newer Scorn may read it"
    )]
    TooNew {
        /// The version that the file names.
        needed: String,
        /// The newest one that is known.
        known: String,
    },
    /// A layer has a size that does not fit its neighbours.
    #[error("layer {layer} has {found} values, expected {expected}")]
    LayerSize {
        /// The layer.
        layer: String,
        /// Its number of values.
        found: usize,
        /// The expected number, with the reason.
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
        /// The requested head.
        name: String,
        /// The available heads.
        available: String,
    },
    /// An ONNX model does not have the requested head.
    #[error(
        "{option} {requested}: this is an ONNX model, which has one head of each kind{own}; clear {option}"
    )]
    OneHead {
        /// The option that names the head.
        option: &'static str,
        /// The requested head.
        requested: String,
        /// Its head; empty or beginning with a comma.
        own: String,
    },
    /// A constant of an ONNX model has a value that no weight may have.
    #[error(
        "value {index} of the constant '{tensor}' of the ONNX model is {value}, expected a finite number"
    )]
    NotFinite {
        /// The constant.
        tensor: String,
        /// The place of the value.
        index: usize,
        /// The value.
        value: f64,
    },
    /// An ONNX model lacks an input or output.
    #[error("the ONNX model has no {role} named '{expected}'; it has: {found}{hint}")]
    NoTensor {
        /// `input` or `output`.
        role: &'static str,
        /// The expected name.
        expected: String,
        /// The available names.
        found: String,
        /// The metadata entry that can name another; empty or beginning with a semicolon.
        hint: String,
    },
    /// An ONNX model's input or output has another type or shape.
    #[error("tensor '{tensor}' of the ONNX model is {found}, expected {expected}")]
    TensorShape {
        /// The tensor.
        tensor: String,
        /// Its type and shape.
        found: String,
        /// The expected type and shape.
        expected: String,
    },
}

impl From<io::Error> for NetError {
    fn from(error: io::Error) -> NetError {
        NetError::Io(error)
    }
}

impl NetError {
    /// Adds the file to the error.
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
