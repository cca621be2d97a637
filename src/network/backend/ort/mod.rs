//! ONNX Runtime: finding and loading the library ([`runtime`]), what each execution provider needs ([`targets`],
//! [`nvidia`]), and sessions ([`session`]).

pub mod errors;
pub mod nvidia;
pub mod runtime;
pub mod session;
pub mod targets;
