//! What computes: the list of backends ([`BACKENDS`]), one file each. Most evaluate with a pool of sessions of one
//! network on one device ([`pool`]), through ONNX Runtime ([`ort`]) or in pure Rust ([`rten`]); sparse networks are
//! evaluated in integers ([`sparse`]). Batches that wait for a device are evaluated as one ([`merged`]).
//!
//! A new backend is a file with a [`BackendFactory`], its `mod` line and its entry in the
//! list.

pub mod auto;
pub mod combine;
pub mod error;
pub mod factory;
#[cfg(test)]
pub(crate) mod faulty;
pub mod hash;
pub mod merged;
pub mod options;
pub mod pool;
pub mod rten;
pub mod simulated;
pub mod sparse;

pub mod ort {
    //! ONNX Runtime: finding and loading the library ([`runtime`]), where it is installed ([`install`]), the steps
    //! from a request to an evaluator ([`create`]), the plan of the sessions ([`plan`]) and the sessions themselves
    //! ([`session`]); 8-bit integers on processors ([`int8`]); what the backends for GPUs share ([`gpu`]), batches as
    //! captured graphs ([`capture`]) with kernels of our own ([`kernels`]),
    //! NVIDIA's libraries ([`nvidia`], [`preload`]), failures ([`cuda_failure`]) and provider ([`cuda_provider`]), the
    //! engines of TensorRT
    //! ([`engine_cache`]) and the times of batches ([`times_cache`]); and one file for each backend.

    pub mod capture;
    pub mod coreml;
    pub mod cpu;
    pub mod create;
    pub mod cuda;
    pub mod cuda_failure;
    pub mod cuda_provider;
    pub mod directml;
    pub mod engine_cache;
    pub mod gpu;
    pub mod install;
    pub mod int8;
    pub mod kernels;
    pub mod nvidia;
    pub mod openvino;
    pub mod plan;
    pub mod preload;
    pub mod runtime;
    pub mod session;
    pub mod tensorrt;
    pub mod times_cache;
}

use self::{
    combine::Distribution,
    error::LoadError,
    factory::{BackendFactory, BackendInfo, unknown_backend},
};
use crate::{network::source::NetworkSource, options::OptionRow};

/// All backends. `auto` tries the automatic ones in this order, from fast to slow; listings and documentation follow
/// it, too.
pub static BACKENDS: &[&dyn BackendFactory] = &[
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
    let mut backends = BACKENDS.iter().copied();
    let found = backends.find(|factory| factory.info().is_named(name));
    found.ok_or_else(|| unknown_backend(name, BACKENDS.iter().copied()))
}

/// Whether the backend that the option `Backend` calls `name` evaluates a network. A name that does not exist counts as
/// one that does: loading it reports the error.
pub fn needs_network(name: &str) -> bool {
    find(name).map_or(true, |factory| factory.info().needs_network())
}

/// The backends that `auto` tries, in its order.
pub fn automatic() -> impl DoubleEndedIterator<Item = &'static dyn BackendFactory> {
    let backends = BACKENDS.iter().copied();
    backends.filter(|factory| factory.info().is_automatic())
}

/// The first automatic backend for this network that needs no library, and so works on every machine.
pub fn without_library(network: &NetworkSource) -> Option<&'static BackendInfo> {
    let suits = |factory: &&dyn BackendFactory| {
        factory.info().install_command.is_none() && factory.is_meant_for(network)
    };
    automatic().find(suits).map(|factory| factory.info())
}

/// The help of an option, with the list of backends in the place of `{backends}`.
pub fn help_of(row: &OptionRow) -> String {
    let choice = |info: &BackendInfo| format!("{} ({})", info.name, info.summary);
    let choices = BACKENDS.iter().map(|factory| choice(factory.info()));
    let choices: Vec<String> = choices.collect();
    row.help.replace("{backends}", &choices.join(", "))
}

/// The value for an option that a user or a configuration sets to `value`: where that is lc0's name of a backend, the
/// name of the nearest one here, and the message about it.
pub fn from_lc0<'a>(option: &str, value: &'a str) -> (&'a str, Option<String>) {
    let is_nearest = |info: &&BackendInfo| info.is_named_by_lc0(value);
    let mut infos = BACKENDS.iter().map(|factory| factory.info());
    match infos.find(is_nearest) {
        Some(info) if option.eq_ignore_ascii_case("Backend") => {
            (info.name, Some(info.replaces_lc0(value)))
        }
        _ => (value, None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::options::Options;

    #[test]
    fn names_are_unique_and_everything_is_described() {
        let mut names = HashSet::new();
        for factory in BACKENDS {
            let info = factory.info();
            for name in std::iter::once(&info.name).chain(info.lc0_names) {
                assert!(names.insert(name.to_ascii_lowercase()), "{name}");
            }
            assert!(!info.summary.is_empty() && !info.documentation.is_empty());
            assert_eq!(
                find(&info.name.to_uppercase()).unwrap().info().name,
                info.name
            );
            let mut keys = HashSet::new();
            for setting in info.settings {
                assert!(keys.insert(setting.key), "{}: {}", info.name, setting.key);
                assert_eq!(setting.key, setting.key.to_ascii_lowercase());
            }
        }
        assert_eq!(find("").unwrap().info().name, "auto");
        let Err(error) = find("cudnn") else {
            panic!("only users' values are translated");
        };
        assert!(
            error.to_string().contains("choose one of: auto, sparse, "),
            "{error}"
        );
    }

    #[test]
    fn auto_goes_from_fast_to_slow() {
        let names: Vec<&str> = automatic().map(|factory| factory.info().name).collect();
        let expected = ["sparse", "tensorrt", "cuda", "openvino", "onnx-cpu", "rten"];
        assert_eq!(names, expected);
    }

    #[test]
    fn every_network_has_a_backend_that_needs_no_library() {
        for (weights, expected) in [("<built in sparse>", "sparse"), ("/no/such/file", "rten")] {
            let backend = without_library(&NetworkSource::new(weights)).unwrap();
            assert_eq!(backend.name, expected);
        }
    }

    #[test]
    fn the_help_of_the_option_lists_all_backends() {
        let options = Options::default();
        for row in options.rows() {
            let help = help_of(&row);
            assert!(!help.contains("{backends}"), "{help}");
            let is_list = BACKENDS
                .iter()
                .all(|factory| help.contains(factory.info().name));
            assert_eq!(is_list, row.name == "Backend", "{help}");
        }
    }

    /// The message about a missing library contains the command that installs it.
    #[test]
    fn each_backend_installs_the_library_that_it_needs() {
        for (backend, package) in [
            ("onnx-cpu", "runtime onnxruntime"),
            ("openvino", "onnxruntime-ep-openvino"),
            ("cuda", "onnxruntime-gpu"),
            ("tensorrt", "tensorrt-cu13"),
            ("directml", "onnxruntime-directml"),
        ] {
            let info = find(backend).unwrap().info();
            let error = ort::runtime::RuntimeError::NotFound {
                searched: "nowhere".to_owned(),
            };
            let error = LoadError::Runtime {
                backend: info.name,
                error,
                install_command: info.install_command.unwrap(),
            };
            assert!(error.to_string().contains(package), "{error}");
        }
    }
}
