//! The value of a leaf from the network's output, rescaled by WDL contempt. Proven results, tablebases and the
//! evaluation cache are not affected. Afterwards a value may be raised to a draw (`ContemptModeTB`, `visits.rs`), and
//! the mean of a transposition may replace it (`backup.rs`).

use super::{job::Job, wdl_contempt::WdlContempt};
use crate::network::Value;

/// The changes of the network's values in one search.
#[derive(Clone, Debug, Default)]
pub(super) struct LeafValues {
    /// lc0's WDL contempt.
    contempt: Option<WdlContempt>,
}

impl LeafValues {
    /// The changes that a job's options configure.
    pub fn new(job: &Job) -> LeafValues {
        LeafValues {
            contempt: WdlContempt::new(job),
        }
    }

    /// The value of a leaf `depth` plies below the root; the network's output and the result are for its side to move.
    #[inline]
    pub fn of(&self, output: Value, depth: usize) -> Value {
        match &self.contempt {
            Some(contempt) => contempt.of_leaf(output, depth),
            None => output,
        }
    }
}
