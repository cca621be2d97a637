//! Why a search fails.

use thiserror::Error;

use super::tree::Full;
use crate::network::EvaluateError;

/// Why a search failed.
#[derive(Debug, Error)]
pub enum SearchError {
    /// The network could not evaluate a batch.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// The tree has no room for more.
    #[error(transparent)]
    Full(#[from] Full),
}
