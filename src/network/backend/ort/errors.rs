//! Why a backend of ONNX Runtime cannot be set up.

use thiserror::Error;

use crate::network::backend::options::OptionsError;

/// What keeps a backend from being set up.
#[derive(Debug, Error, PartialEq)]
pub enum BackendSetupError {
    /// Its settings are wrong.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The device, or a library that it needs, is missing: what, and how to get it.
    #[error("{0}")]
    Unavailable(String),
}
