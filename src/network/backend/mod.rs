//! What computes: the list of backends ([`BACKENDS`]), one file each. Most evaluate with a pool of sessions of one network
//! on one device ([`pool`]), through ONNX Runtime ([`ort`]) or in pure Rust ([`rten`]); sparse networks are evaluated in
//! integers ([`sparse`]).
//!
//! A new backend is a file with a [`BackendFactory`](factory::BackendFactory), its `mod` line and its entry in the list.

pub mod auto;
pub mod combine;
pub mod error;
pub mod factory;
#[cfg(test)]
pub(crate) mod faulty;
pub mod hash;
pub mod options;
pub mod pool;
pub mod rten;
pub mod sparse;

/// ONNX Runtime: finding and loading the library ([`runtime`]), the way from a request to an evaluator ([`create`]), the plan
/// of the sessions ([`plan`]) and the sessions themselves ([`session`]); what the backends for GPUs share ([`gpu`]),
/// NVIDIA's libraries ([`nvidia`], [`preload`]), the engines of TensorRT ([`engine_cache`]); and one file for each backend.
pub mod ort {
    pub mod coreml;
    pub mod cpu;
    pub mod create;
    pub mod cuda;
    pub mod directml;
    pub mod engine_cache;
    pub mod gpu;
    pub mod nvidia;
    pub mod openvino;
    pub mod plan;
    pub mod preload;
    pub mod runtime;
    pub mod session;
    pub mod tensorrt;
}

use self::{
    combine::Distribution,
    error::LoadError,
    factory::{BackendFactory, BackendInfo, unknown_backend},
};

/// All backends. `auto` tries the automatic ones in this order, from fast to slow; listings and documentation follow it, too.
pub static BACKENDS: [&dyn BackendFactory; 13] = [
    &auto::Auto,
    &sparse::Sparse,
    &ort::tensorrt::TensorRt,
    &ort::cuda::Cuda,
    &ort::openvino::OpenVino,
    &ort::cpu::OnnxCpu,
    &rten::Rten,
    &ort::directml::DirectMl,
    &ort::coreml::CoreMl,
    &hash::Hash,
    &combine::Multiplexing(Distribution::LeastBusy),
    &combine::Multiplexing(Distribution::RoundRobin),
    &combine::Check,
];

/// The backend that the option `Backend` calls `name`; empty means `auto`.
///
/// # Errors
/// Lists the backends if there is none of this name.
pub fn find(name: &str) -> Result<&'static dyn BackendFactory, LoadError> {
    let name = match name.trim() {
        "" => auto::INFO.name,
        name => name,
    };
    let mut backends = BACKENDS.into_iter();
    let found = backends.find(|factory| factory.info().is_named(name));
    found.ok_or_else(|| unknown_backend(name, BACKENDS))
}

/// The backends that `auto` tries, in its order.
pub fn automatic() -> impl DoubleEndedIterator<Item = &'static dyn BackendFactory> {
    BACKENDS
        .into_iter()
        .filter(|factory| factory.info().is_automatic())
}

/// The value for an option that a user or a configuration sets to `value`: where that is lc0's name of a backend, the name of
/// the nearest one here, and the message about it.
pub fn from_lc0<'a>(option: &str, value: &'a str) -> (&'a str, Option<String>) {
    let is_nearest = |info: &&BackendInfo| info.is_named_by_lc0(value);
    let mut infos = BACKENDS.into_iter().map(BackendFactory::info);
    match infos.find(is_nearest) {
        Some(info) if option.eq_ignore_ascii_case("Backend") => {
            (info.name, Some(info.replaces_lc0(value)))
        }
        _ => (value, None),
    }
}
