//! A subset of ONNX: its protobuf messages, a typed graph builder, and a reader for models made elsewhere.

mod bounds;
mod extension;
pub(crate) mod graph;
pub(crate) mod inspect;
pub(crate) mod legal_moves;
pub(crate) mod pack;
pub(crate) mod proto;
pub(crate) mod read;

pub(crate) use bounds::check_converted;
pub use inspect::PlaneSet;
