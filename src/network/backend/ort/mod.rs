//! ONNX Runtime: finding and loading the library ([`runtime`]), how each execution provider is set up ([`targets`],
//! [`gpu`], [`plan`]), the libraries of NVIDIA ([`nvidia`], [`preload`]), the engines of TensorRT ([`engine_cache`]), and
//! sessions ([`session`]).

pub mod engine_cache;
pub mod errors;
pub mod gpu;
pub mod nvidia;
pub mod plan;
pub mod preload;
pub mod runtime;
pub mod session;
pub mod targets;
