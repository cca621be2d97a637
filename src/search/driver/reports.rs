//! What a search reports: progress while it runs, the result and the move at its end.

use std::{sync::atomic::Ordering, time::Duration};

use super::Search;
use crate::{
    chess::PackedMove,
    search::{
        job::stream,
        report::{Outcome, Reporter},
        root,
        tree::TreeFull,
        tree_search::Shared,
    },
};

/// Maximum time between two reports.
const MAX_REPORT_GAP: Duration = Duration::from_secs(2);

/// Sends reports to the reporter when something has changed.
pub(super) struct ProgressReporter<'a, 'b> {
    search: &'a Search<'b>,
    reporter: &'a mut dyn Reporter,
    /// Depth, seldepth, first move and time of the last report.
    last: Option<(u32, u32, Option<PackedMove>, Duration)>,
    /// Whether the reporter was notified that the memory limit is reached.
    has_noted_memory_limit: bool,
    /// Whether the reporter was notified that threads could not be started.
    has_noted_missing_threads: bool,
}

impl<'a, 'b> ProgressReporter<'a, 'b> {
    /// Nothing was reported yet.
    pub fn new(search: &'a Search<'b>, reporter: &'a mut dyn Reporter) -> ProgressReporter<'a, 'b> {
        ProgressReporter {
            search,
            reporter,
            last: None,
            has_noted_memory_limit: false,
            has_noted_missing_threads: false,
        }
    }

    /// Time between two reports that the reporter wishes.
    pub fn interval(&self) -> Duration {
        self.reporter.interval()
    }

    /// Sends a report if something has changed.
    pub fn report_progress(&mut self) {
        self.note_missing_threads();
        let (report, stats) = {
            let shared = self.search.shared.lock();
            // Only the root has been evaluated: there is no line to report yet.
            if shared.state.progress.playouts < 2 {
                return;
            }
            self.note_memory_limit(&shared);
            let view = self.search.view(&shared);
            let shows_live_stats = self.search.job.options.log_live_stats();
            let stats = shows_live_stats.then(|| view.remove_contempt(view.move_stats()));
            (view.report(None), stats)
        };
        let first = report
            .lines
            .first()
            .and_then(|line| line.pv.first().copied());
        let has_changed = self.last.is_none_or(|(depth, seldepth, best, at)| {
            report.depth > depth
                || report.seldepth > seldepth
                || best != first
                || report.elapsed.saturating_sub(at) >= MAX_REPORT_GAP
        });
        if has_changed {
            self.last = Some((report.depth, report.seldepth, first, report.elapsed));
            if let Some(stats) = stats {
                self.reporter.move_stats(&stats);
            }
            self.reporter.report(&report);
        }
    }

    /// Notes once that threads could not be started.
    fn note_missing_threads(&mut self) {
        if !self.has_noted_missing_threads
            && let Some(text) = &*self.search.missing_threads.lock()
        {
            self.reporter.note_missing_threads(text);
            self.has_noted_missing_threads = true;
        }
    }

    /// Notes once that the tree has stopped growing.
    fn note_memory_limit(&mut self, shared: &Shared) {
        let limit = self.search.job.limits.tree_bytes;
        if let Some(bytes) = limit.filter(|_| shared.state.is_at_memory_limit)
            && !std::mem::replace(&mut self.has_noted_memory_limit, true)
        {
            self.reporter.note_memory_limit(&format!(
                "the tree has reached its limit of {:.1} MB (set by RamLimitMb): the search continues without new positions",
                bytes as f64 / f64::from(1 << 20)
            ));
        }
    }

    /// Chooses the move to play. A mate in one is played even if no visit has reached it, and a move that allows a mate
    /// in one is avoided if there is another (unless moves are drawn by a temperature, which may draw it). If no visit
    /// has reached any move and the root's value is lower than that of a draw, a move that draws by rule is played.
    fn choose(&self, shared: &mut Shared) -> Option<u8> {
        let (job, params) = (self.search.job, &self.search.params);
        let choice = |shared: &Shared| {
            let mut rng = job.rng(stream::CHOICE);
            self.search.view(shared).choice(&mut rng)
        };
        if !params.propagates_proofs() {
            return choice(shared);
        }
        shared.state.prove_mates_at_root(job);
        let chosen = loop {
            let chosen = choice(shared)?;
            // Each iteration proves another move, so the loop ends.
            if !shared.state.prove_end_after(chosen, job) {
                break chosen;
            }
        };
        let is_worse = root::is_unvisited_and_below_draw(&shared.state, params, chosen);
        let draw = is_worse.then(|| shared.state.prove_unvisited_draw(job));
        Some(draw.flatten().unwrap_or(chosen))
    }

    /// Sends the final report and chooses the move. `None` if the root was not expanded although the game is not over.
    pub fn conclude(mut self) -> Option<Outcome> {
        self.note_missing_threads();
        let (is_full, (outcome, stats)) = {
            let mut shared = self.search.shared.lock();
            // The worker that expanded the root may have panicked before its moves were chosen.
            shared.state.choose_root_moves(self.search.job);
            if !(self.search.job.is_game_over() || shared.state.is_root_expanded()) {
                return None;
            }
            self.note_memory_limit(&shared);
            let is_damaged = self.search.is_damaged.load(Ordering::Relaxed);
            debug_assert!(is_damaged || shared.state.progress.claimed == 0);
            // A thread that has panicked may have left visits in flight.
            shared.state.progress.claimed = 0;
            let best = self.choose(&mut shared);
            let view = self.search.view(&shared);
            let (outcome, stats) = view.outcome(best);
            (shared.is_full, (outcome, view.remove_contempt(stats)))
        };
        let tables = self.search.job.tables.iter();
        for fault in tables.flat_map(|tables| tables.new_faults()) {
            self.reporter.note(&fault);
        }
        if is_full {
            let text = format!("{TreeFull}: the search ends here");
            self.reporter.note(&text);
        }
        if !stats.is_empty() {
            self.reporter.move_stats(&stats);
        }
        self.reporter.report(&outcome.report);
        Some(outcome)
    }
}
