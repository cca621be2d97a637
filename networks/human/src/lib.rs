//! The network of the chess engine Scorn that predicts the moves of people, in a crate of its own because of its size.
//! It was distilled from the networks of the Maia project (McIlroy-Young et al., KDD 2020).

/// scorn-human for people rated 1100 to 1900 on lichess and for grandmasters (2600), an ONNX file.
pub const HUMAN: &[u8] = include_bytes!("../scorn-human.onnx");
