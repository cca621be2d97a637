//! Sparse networks: made for a CPU, fast because most of their inputs are 0.
//!
//! About 40 of 5026 inputs are 1 in a position ([`features`]), so the first layer is a sum of 40 rows; of the policy
//! only the rows of legal moves are computed ([`moves`]), and the weights are small integers. [`network`] describes the
//! architecture; [`train`](crate::train) trains it. Engines on CPUs use this kind of network (NNUE: Y. Nasu 2018; for
//! policy and value in a PUCT search: Monty).
//!
//! This module depends neither on the search nor on ONNX Runtime.

pub mod attacks;
pub mod classes;
pub mod features;
pub mod file;
pub mod history;
pub mod infer;
pub mod moves;
pub mod network;
pub mod simd;
pub mod tactics;
