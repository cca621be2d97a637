//! Why a search fails.

use thiserror::Error;

use super::{report::Outcome, tree::Full};
use crate::network::EvaluateError;

/// Why a search failed.
#[derive(Debug, Error)]
pub enum SearchError {
    /// The network could not evaluate a batch.
    #[error("{error}")]
    Evaluate {
        /// What went wrong.
        #[source]
        error: EvaluateError,
        /// What had been found by then, unless the root itself was not evaluated.
        found: Option<Box<Outcome>>,
    },
}

impl SearchError {
    /// What had been found before the search failed.
    pub fn found(self) -> Option<Outcome> {
        match self {
            SearchError::Evaluate { found, .. } => found.map(|outcome| *outcome),
        }
    }
}

/// Why a worker's batch came to nothing.
pub(super) enum Failure {
    /// A network could not evaluate positions.
    Evaluate(EvaluateError),
    /// The tree has no room for more.
    Full(Full),
}

impl From<EvaluateError> for Failure {
    fn from(error: EvaluateError) -> Failure {
        Failure::Evaluate(error)
    }
}

impl From<Full> for Failure {
    fn from(full: Full) -> Failure {
        Failure::Full(full)
    }
}
