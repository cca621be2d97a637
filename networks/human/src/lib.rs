//! The networks of the chess engine Scorn that predict the moves of people, in a crate of their own because of their
//! size. They were distilled from the networks of the Maia project (McIlroy-Young et al., KDD 2020).

/// scorn-human for people rated 1100 on lichess, an ONNX file.
pub static HUMAN_1100: &[u8] = include_bytes!("../scorn-human-1100.onnx");
/// scorn-human for people rated 1500.
pub static HUMAN_1500: &[u8] = include_bytes!("../scorn-human-1500.onnx");
/// scorn-human for people rated 1900.
pub static HUMAN_1900: &[u8] = include_bytes!("../scorn-human-1900.onnx");
