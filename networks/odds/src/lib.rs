//! The network of the chess engine Scorn for games in which it gives odds, in a crate of its own because of its size.

/// The value of scorn-odds, an ONNX file. Its policy is that of the sparse network.
pub const ODDS: &[u8] = include_bytes!("../scorn-odds.onnx");
