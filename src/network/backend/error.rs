//! Why there is no evaluator.

use thiserror::Error;

use super::{options::BackendOptionsError, ort::runtime::RuntimeError};
use crate::network::{EvaluateError, source::WeightsError};

/// Why there is no evaluator.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The network's file is unusable.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// There is no such backend.
    #[error("no backend '{name}'; choose one of: {known}")]
    UnknownBackend {
        /// The name that was given.
        name: String,
        /// Those that exist.
        known: String,
    },
    /// The backend's settings are wrong.
    #[error(transparent)]
    Options(#[from] BackendOptionsError),
    /// ONNX Runtime is missing or unusable.
    #[error("backend {backend}: {error}{}", how_to_install(install_command, error))]
    Runtime {
        /// The backend.
        backend: &'static str,
        /// What is wrong.
        error: RuntimeError,
        /// The command that installs ONNX Runtime with what the backend needs of it.
        install_command: &'static str,
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
        /// The library's message.
        message: String,
    },
    /// The network's output is not finite, or its first evaluation fails.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// A backend that is no device cannot be one of several.
    #[error("backend {name} cannot be combined with others; choose among: {combinable}")]
    NotCombinable {
        /// The backend.
        name: &'static str,
        /// Those that can be.
        combinable: String,
    },
    /// A backend that combines others was not given as many as it needs.
    #[error(
        "backend {backend} needs {needed}, each with a group in BackendOptions, for example {example}"
    )]
    GroupsNeeded {
        /// The backend.
        backend: &'static str,
        /// The backends that it needs.
        needed: &'static str,
        /// What could be given.
        example: &'static str,
    },
    /// `auto` found no backend that works.
    #[error("no backend works: {0}")]
    NothingWorks(String),
}

impl LoadError {
    /// The reason, for a list in which the backend is named already.
    pub fn reason(&self) -> String {
        match self {
            LoadError::Runtime { error, .. } => error.to_string(),
            LoadError::Unavailable { reason, .. } => reason.clone(),
            error => error.to_string(),
        }
    }

    /// Whether an option or variable names a library that cannot be used.
    pub fn is_about_a_named_library(&self) -> bool {
        matches!(self, LoadError::Runtime { error, .. } if error.named_by().is_some())
    }

    /// Whether the network itself is unusable, so that no other backend could run it either.
    pub fn is_about_the_network(&self) -> bool {
        match self {
            LoadError::Weights(error) => !matches!(error, WeightsError::Calibration { .. }),
            LoadError::Evaluate(error) => matches!(
                error,
                EvaluateError::NotFinite { .. } | EvaluateError::NotAValue { .. }
            ),
            _ => false,
        }
    }
}

/// What to do about a library that is missing or unusable, unless it was named: then its name is what is wrong.
fn how_to_install(command: &str, error: &RuntimeError) -> String {
    let command = error.install_place().command(command);
    match error {
        RuntimeError::NotFound { .. } => format!("; install it with: {command}"),
        RuntimeError::Load { named_by: None, .. } => {
            format!("; remove it or replace it by: {command}")
        }
        _ => String::new(),
    }
}
