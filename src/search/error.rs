//! Errors of a search.

use thiserror::Error;

use super::{report::Outcome, tree::TreeFull};
use crate::network::EvaluateError;

/// A search failed, because the network could not evaluate a batch.
#[derive(Debug, Error)]
#[error("{error}")]
pub struct SearchError {
    /// What went wrong.
    #[source]
    pub error: EvaluateError,
    /// The result so far, if at least the root was evaluated.
    pub found: Option<Box<Outcome>>,
}

impl SearchError {
    /// The result that the search had before it failed.
    pub fn found(self) -> Option<Outcome> {
        self.found.map(|outcome| *outcome)
    }
}

/// Why a worker's batch failed.
pub(super) enum Failure {
    /// The network could not evaluate the positions.
    Evaluate(EvaluateError),
    /// The tree is full.
    Full(TreeFull),
}

impl From<EvaluateError> for Failure {
    fn from(error: EvaluateError) -> Failure {
        Failure::Evaluate(error)
    }
}

impl From<TreeFull> for Failure {
    fn from(full: TreeFull) -> Failure {
        Failure::Full(full)
    }
}
