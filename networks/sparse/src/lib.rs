//! The default network of the chess engine Scorn, in a crate of its own because of its size. It changes rarely, and
//! the engine is compiled without reading it.

/// scorn-sparse, an ONNX file.
pub static SPARSE: &[u8] = include_bytes!("../scorn-sparse.onnx");
