//! Errors of a search.

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
        /// The result so far, if at least the root was evaluated.
        found: Option<Box<Outcome>>,
    },
}

impl SearchError {
    /// The result that the search had before it failed.
    pub fn found(self) -> Option<Outcome> {
        match self {
            SearchError::Evaluate { found, .. } => found.map(|outcome| *outcome),
        }
    }
}

/// Why a worker's batch failed.
pub(super) enum Failure {
    /// The network could not evaluate the positions.
    Evaluate(EvaluateError),
    /// The tree is full.
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
