//! lc0's networks: from the bytes of a `.pb.gz` file through typed, checked layers to an ONNX model.
//!
//! ```text
//! bytes --proto--> messages --format--> what they mean --architecture, weights--> checked layers --to_onnx--> ONNX
//! ```
//!
//! * [`Net`] reads and validates a file; [`Net::describe`] summarises it.
//! * [`to_onnx`] converts it; [`read_onnx`] takes models that are ONNX already; [`from_onnx`] makes a network file of
//!   one.
//! * [`policy_list`] generates lc0's list of 1858 moves.
//!
//! This module depends neither on the search nor on a runtime: it ends with the bytes of an ONNX model. The facts
//! about lc0's formats are from its published protobuf schema and its behaviour. Unsupported contents of a file are
//! refused by name, and no file can cause a panic.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod describe;
pub mod error;
pub mod format;
pub mod policy_list;
#[doc(hidden)]
pub mod proto;

mod architecture;
mod from_onnx;
mod model;
mod net;
pub(crate) mod onnx;
mod to_onnx;
mod weights;
mod wire;

pub use describe::{Description, OnnxDescription};
pub use error::NetError;
pub use format::InputFormat;
pub use from_onnx::from_onnx;
pub use model::{
    ALPHAZERO_PLANES, ALPHAZERO_POLICY, AlphaZeroMoves, Calibration, ConvertOptions, DataType,
    KernelModel, LegalMoves, OnnxEncoding, OnnxModel, PackedInput, SparseModel, metadata_key,
};
pub(crate) use net::read_file;
pub use net::{Net, begins_like_onnx};
pub use onnx::{
    PlaneSet,
    graph::{BATCH_DIMENSION, KERNEL_DOMAIN, Operators},
    legal_moves::gather_legal_moves,
    pack::pack_input,
    read::{check_heads, metadata as onnx_metadata, read_onnx, read_onnx_as},
};
pub use to_onnx::{calibration_model, to_onnx};
