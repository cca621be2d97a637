//! What a trainer takes positions in, and why some are skipped.

use crate::dataset::record::Record;
use crate::sparse::features::InputSet;
use crate::sparse::history::Past;
use crate::train::targets::Targets;

/// Training positions in the form that a trainer takes.
pub trait SampleBatch: Default {
    /// What a value target with a weight below 1, a result without a score, means: true, the target is used with this
    /// probability and full weight, and otherwise the position counts as drawn without it; false, it is always used,
    /// with this weight.
    const SAMPLES_RESULTS: bool;
    /// Whether half of the positions without castling rights are mirrored left to right.
    const MIRRORS: bool;

    /// Removes all positions and keeps the allocated memory.
    fn clear(&mut self);

    /// The network's inputs, if it is a sparse one.
    fn inputs(&self) -> InputSet {
        InputSet::Position
    }

    /// Adds a position with its targets.
    ///
    /// # Errors
    /// When the position cannot be trained on; the batch is unchanged.
    fn add(&mut self, record: &Record, past: &Past, targets: &Targets) -> Result<(), SkipReason>;
}

/// Why a drawn position is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// It is reserved for tests.
    HeldOut,
    /// It comes from an opening book.
    Book,
    /// It has no target for the trained networks.
    Unlabelled,
    /// It has only a result, which is not used, by its weight.
    ResultOnly,
    /// It is not a possible chess position.
    Impossible,
}

impl SkipReason {
    pub(super) fn description(self) -> &'static str {
        match self {
            SkipReason::HeldOut => "held out",
            SkipReason::Book => "from the opening book without an evaluation",
            SkipReason::Unlabelled => {
                "without a best move or score (add them with scorn dataset label)"
            }
            SkipReason::ResultOnly => {
                "with a result only, which has a low weight (--result-weight)"
            }
            SkipReason::Impossible => "impossible (the file is damaged)",
        }
    }
}
