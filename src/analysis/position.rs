//! The search of one position.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{
    input::Item,
    record::{PositionRecord, SolutionRecord},
};
use crate::{
    player::Player,
    search::{Limits, MoveStat, REPORT_INTERVAL, Report, Reporter, StopSignal, SystemClock, Tree},
    terminal::eprint_line,
};

/// Searches one position with a new tree. `moves` keeps the statistics of every move.
///
/// # Errors
/// When the evaluator fails.
pub fn analyze(
    item: &Item,
    player: &Player,
    limits: &Limits,
    moves: bool,
) -> Result<PositionRecord> {
    let job = player.job(item.history.clone(), limits.clone());
    let mut tree = Tree::default();
    let clock = SystemClock::default();
    let mut collector = Collector {
        item,
        stats: Vec::new(),
        solution: None,
    };
    let stop = StopSignal::default();
    let outcome = player
        .search(&mut tree, &job, &stop, &clock, &mut collector)
        .with_context(|| format!("analysing {}", item.name))?;
    let stats = moves.then_some(&collector.stats[..]);
    let mut record = PositionRecord::new(item, &outcome, &player.options, stats);
    if record.solved == Some(true) {
        record.solution = collector.solution;
    }
    Ok(record)
}

/// Collects the statistics of the moves, and the time of the solution.
struct Collector<'a> {
    item: &'a Item,
    stats: Vec<MoveStat>,
    /// The time from which on the first line was a solution.
    solution: Option<SolutionRecord>,
}

impl Reporter for Collector<'_> {
    fn report(&mut self, report: &Report) {
        let first = report.lines.first().and_then(|line| line.pv.first());
        let is_solved = first.and_then(|&m| self.item.is_solved_by(m)) == Some(true);
        if !is_solved {
            self.solution = None;
        } else if self.solution.is_none() {
            self.solution = Some(SolutionRecord {
                nodes: report.nodes,
                time_ms: report.elapsed.as_millis() as u64,
            });
        }
    }

    fn move_stats(&mut self, stats: &[MoveStat]) {
        self.stats = stats.to_vec();
    }

    fn note(&mut self, text: &str) {
        eprint_line(format_args!("scorn: {text}"));
    }

    fn interval(&self) -> Duration {
        // Every batch is reported, so that the nodes to the solution are exact to a batch.
        match self.item.has_solution() {
            true => Duration::ZERO,
            false => REPORT_INTERVAL,
        }
    }
}
