//! Compatibility with configurations of lc0: options that only lc0 has are ignored, and its backends are replaced by
//! the nearest ones of Scorn.

use super::{OptionError, Options};

/// Options of lc0 that Scorn does not have: their names and flags.
const ONLY_IN_LC0: &[(&str, &str)] = &[
    ("SolidTreeThreshold", "solid-tree-threshold"),
    ("MaxPrefetch", "max-prefetch"),
    ("MaxConcurrentSearchers", "max-concurrent-searchers"),
    ("TaskWorkers", "task-workers"),
    ("MinimumProcessingWork", "minimum-processing-work"),
    ("MinimumPickingWork", "minimum-picking-work"),
    (
        "MinimumRemainingPickingWork",
        "minimum-remaining-picking-work",
    ),
    ("MinimumPerTaskProcessing", "minimum-per-task-processing"),
    ("IdlingMinimumWork", "idling-minimum-work"),
    ("ThreadIdlingThreshold", "thread-idling-threshold"),
    ("SearchSpinBackoff", "search-spin-backoff"),
    ("SearchSpinBackoff", "no-search-spin-backoff"),
    ("GarbageCollectionDelay", "garbage-collection-delay"),
    // Of the hybrid search-contempt (lc0's pull request 2371); HybridRatioSchedule can express these functions.
    ("HybridRatioMode", "hybrid-ratio-mode"),
    ("HybridMinRatio", "hybrid-min-ratio"),
    ("HybridMaxRatio", "hybrid-max-ratio"),
    ("HybridScalingFactor", "hybrid-scaling-factor"),
    ("HybridShapeParam1", "hybrid-shape-param1"),
    ("HybridShapeParam2", "hybrid-shape-param2"),
];

/// Flags that lc0 has renamed: the old and the new name.
pub const RENAMED_IN_LC0: &[(&str, &str)] = &[("history-fill-new", "history-fill")];

impl Options {
    /// Sets an option as [`Options::set`] does, but accepts options that only lc0 has. Returns the message about these.
    /// (lc0's names of backends are translated by [`from_lc0`](crate::network::backend::from_lc0).)
    ///
    /// # Errors
    /// When neither Scorn nor lc0 has such an option, or the value does not fit.
    pub fn set_as_in_lc0(
        &mut self,
        name: &str,
        value: &str,
    ) -> Result<Option<String>, OptionError> {
        match self.set(name, value) {
            Err(OptionError::Unknown(_)) if is_only_in_lc0(name) => Ok(Some(format!(
                "option {name} exists in lc0 only and is ignored"
            ))),
            result => result.map(|()| None),
        }
    }
}

/// UCI names and flags of the options that only lc0 has.
pub fn only_in_lc0() -> impl Iterator<Item = (&'static str, &'static str)> {
    ONLY_IN_LC0.iter().copied()
}

/// Whether an option of this name or flag exists in lc0 only.
pub fn is_only_in_lc0(name: &str) -> bool {
    let mut names = ONLY_IN_LC0.iter().flat_map(|(name, flag)| [*name, *flag]);
    names.any(|known| known.eq_ignore_ascii_case(name))
}
