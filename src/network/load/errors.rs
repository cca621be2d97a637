//! Why there is no evaluator.

use thiserror::Error;

use super::weights::WeightsError;
use crate::network::{
    EvaluateError,
    backend::{
        options::OptionsError,
        ort::{
            errors::BackendSetupError,
            runtime::{RuntimeError, install_folder},
            targets,
        },
    },
};

/// Why there is no evaluator.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The network's file is unusable.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// There is no such backend.
    #[error("no backend '{name}'; there are: {known}")]
    UnknownBackend {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The backend's settings are wrong.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// ONNX Runtime is missing or unusable.
    #[error("backend {backend}: {error}{}", how_to_install(backend, error))]
    Runtime {
        /// The backend.
        backend: &'static str,
        /// What is wrong.
        error: RuntimeError,
    },
    /// The device or what it needs is missing.
    #[error("backend {backend} is not available: {reason}")]
    Unavailable {
        /// The backend.
        backend: &'static str,
        /// What is missing, and how to get it.
        reason: String,
    },
    /// The backend refuses the network.
    #[error("backend {backend} cannot run {network}: {message}")]
    Refused {
        /// The backend.
        backend: &'static str,
        /// The network's name.
        network: String,
        /// What the library said.
        message: String,
    },
    /// The network yields nonsense, or fails at its first position.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// A backend that combines others was not told which.
    #[error("backend {backend} needs to know what it combines, such as BackendOptions {example}")]
    GroupsNeeded {
        /// The backend.
        backend: String,
        /// What could be given.
        example: &'static str,
    },
    /// `auto` found nothing.
    #[error("no backend works: {0}")]
    NothingWorks(String),
}

impl LoadError {
    /// What a backend says that cannot be set up.
    pub(super) fn of_setup(backend: &'static str, error: BackendSetupError) -> LoadError {
        match error {
            BackendSetupError::Options(error) => LoadError::Options(error),
            BackendSetupError::Unavailable(reason) => LoadError::Unavailable { backend, reason },
        }
    }

    /// What is wrong, for a list in which the backend is named anyway.
    pub fn reason(&self) -> String {
        match self {
            LoadError::Runtime { error, .. } => error.to_string(),
            LoadError::Unavailable { reason, .. } => reason.clone(),
            error => error.to_string(),
        }
    }
}

/// What to do about a library that is missing or too old.
fn how_to_install(backend: &str, error: &RuntimeError) -> String {
    if !matches!(error, RuntimeError::NotFound { .. } | RuntimeError::Load(_)) {
        return String::new();
    }
    let command = targets::install_command(backend);
    let place =
        install_folder().map_or(String::new(), |folder| format!(" in {}", folder.display()));
    format!("; install it{place} with: {command}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_backend_has_the_library_that_it_needs() {
        for (backend, package) in [
            ("onnx-cpu", "runtime onnxruntime"),
            ("openvino", "onnxruntime-ep-openvino"),
            ("cuda", "onnxruntime-gpu"),
            ("tensorrt", "tensorrt-cu13"),
            ("directml", "onnxruntime-directml"),
        ] {
            let searched = "nowhere".to_owned();
            let error = RuntimeError::NotFound { searched };
            let text = LoadError::Runtime { backend, error }.to_string();
            assert!(text.contains(package), "{text}");
        }
    }
}
