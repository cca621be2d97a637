//! Sparse networks: made for a CPU, fast because most of their inputs are 0.
//!
//! About 40 of 5026 inputs are 1 in a position ([`features`]), so the first layer is a sum of 40 rows; of the policy
//! only the rows of legal moves are computed ([`moves`]), and the weights are small integers. What is read and how the
//! numbers are combined is said in [`network`], how it is learned in [`train`]. This is the kind of network that
//! engines on CPUs use (NNUE: Y. Nasu 2018; for policy and value in a PUCT search: Monty).
//!
//! Nothing here knows the search or ONNX Runtime.

pub mod attacks;
pub mod features;
pub mod file;
pub mod infer;
pub mod moves;
pub mod network;
pub mod see;
pub mod simd;
pub mod tactics;
