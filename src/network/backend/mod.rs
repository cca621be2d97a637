//! Who computes: a pool of sessions of one network on one device ([`pool`]), with ONNX Runtime ([`ort`]) or in pure Rust
//! ([`rten`]) underneath; for sparse networks, integers ([`sparse`]); or nobody ([`hash`]).

pub mod hash;
pub mod options;
pub mod ort;
pub mod pool;
pub mod rten;
pub mod sparse;
