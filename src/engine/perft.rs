//! `go perft`: counts the positions after each legal move, and reports them as they are counted.

use std::{cell::Cell, sync::Arc, time::Duration};

use shakmaty::Position;

use super::{
    SearchEnd,
    listener::{Listener, Subject},
};
use crate::{
    chess::{PackedMove, perft},
    search::{Clock, StopSignal},
};

/// Time between two messages of a long count.
const NOTE_INTERVAL: Duration = Duration::from_secs(10);

/// Everything that a count needs.
pub(super) struct PerftTask {
    /// The position, and the options for its moves.
    pub subject: Subject,
    /// How many plies ahead to count.
    pub depth: u32,
    /// Stops the count.
    pub stop: StopSignal,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Receives the counts.
    pub listener: Arc<dyn Listener>,
}

impl PerftTask {
    /// Counts, and returns the total unless it was stopped.
    pub fn run(&self) -> SearchEnd {
        let Some(after_move) = self.depth.checked_sub(1) else {
            return SearchEnd::Counted(1);
        };
        let noted = Cell::new(self.clock.now());
        let is_stopped = || {
            let now = self.clock.now();
            if now.saturating_sub(noted.get()) >= NOTE_INTERVAL {
                noted.set(now);
                // Only a line shows whether anybody still reads.
                self.listener.note("perft is counting; stop ends it");
            }
            self.stop.is_stopped() || self.listener.is_gone()
        };
        let mut total = 0;
        for m in self.subject.position.legal_moves() {
            let mut after = self.subject.position.clone();
            after.play_unchecked(m);
            let count = perft::count(&after, after_move, &is_stopped);
            if is_stopped() {
                self.listener
                    .note("perft was stopped before everything was counted");
                return SearchEnd::Silent;
            }
            self.listener
                .perft_move(&self.subject, PackedMove::pack(m), count);
            total += count;
        }
        SearchEnd::Counted(total)
    }
}
