//! A view of a search, and what is reported from it: its progress while it runs, and the outcome at its end.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;

use super::{
    alternatives,
    job::Job,
    objective,
    params::SearchParams,
    report::{MoveStat, Outcome, Report},
    root,
    state::SearchState,
    tree::{
        Tree,
        reroot::{find, find_for},
    },
};
use crate::{
    chess::{History, PackedMove},
    options::SearchOptions,
};

/// Read access to a search, for reports about it.
pub(super) struct SearchView<'a> {
    pub state: &'a SearchState,
    pub params: &'a SearchParams,
    pub job: &'a Job,
    /// Since the search began.
    pub elapsed: Duration,
    /// Share of the evaluation cache in use, 0..=1000.
    pub cache_permille: u32,
}

impl SearchView<'_> {
    /// The state of the search with `MultiPV` lines. `best`, the edge of the move that is going to be played, comes
    /// first.
    pub fn report(&self, best: Option<u8>) -> Report {
        self.report_without_contempt(self.report_of_tree(best))
    }

    /// The report with WDL contempt removed from its values.
    fn report_without_contempt(&self, mut report: Report) -> Report {
        let Some(contempt) = &self.state.tree.contempt else {
            return report;
        };
        for line in &mut report.lines {
            let values = line
                .objective
                .iter_mut()
                .map(|objective| &mut objective.value);
            for value in values.chain([&mut line.value]) {
                *value = contempt.reported(*value, self.params.options.wdl_eval_objectivity());
            }
        }
        report
    }

    /// The report with the tree's own values.
    fn report_of_tree(&self, best: Option<u8>) -> Report {
        let progress = &self.state.progress;
        let hashfull = match self.job.limits.tree_bytes {
            Some(limit) => {
                let used = self.state.tree.memory() as u64;
                (used * 1000 / (limit as u64).max(1)).min(1000) as u32
            }
            None => self.cache_permille,
        };
        let lines = root::lines(self.state, self.params, self.job.options.multi_pv(), best);
        Report {
            depth: progress.mean_depth(),
            seldepth: progress.seldepth.max(1),
            elapsed: self.elapsed,
            nodes: u64::from(self.state.root().n),
            playouts: progress.playouts,
            hashfull,
            tb_hits: progress.tb_hits,
            evaluations: progress.evaluations,
            lines,
        }
    }

    /// The final report, with `best` as the edge of the move that is played, and the statistics of all root moves.
    pub fn outcome(&self, best: Option<u8>) -> (Outcome, Vec<MoveStat>) {
        if self.job.is_game_over() {
            let report = Report {
                elapsed: self.elapsed,
                ..Report::of_finished_game(self.job.history.position())
            };
            return (Outcome::without_move(report), Vec::new());
        }
        let mut report = self.report_of_tree(best);
        let tree = &self.state.tree;
        if objective::time_needed(tree, &self.job.options, &self.job.limits).is_some() {
            tree.add_objectives(self.params, &mut report.lines);
        }
        let outcome = Outcome {
            has_alternative: best.is_some_and(|best| self.has_alternative(best)),
            ..Outcome::of(self.report_without_contempt(report))
        };
        (outcome, self.move_stats())
    }

    /// The edge of the move that is going to be played.
    pub fn choice(&self, rng: &mut Xoshiro256PlusPlus) -> Option<u8> {
        let chosen = root::choose(self.state, self.params, self.job, rng);
        chosen.map(|chosen| chosen.edge)
    }

    /// The move that would be played without temperature and `OpeningVariety`.
    pub fn preferred(&self, rng: &mut Xoshiro256PlusPlus) -> Option<PackedMove> {
        let preferred = root::preferred(self.state, self.params, self.job, rng);
        preferred.map(|preferred| preferred.m)
    }

    /// Whether a move other than the played one is nearly as good as the best.
    fn has_alternative(&self, played: u8) -> bool {
        let draw_score = self.params.draw_score(self.state.tree.root_turn);
        let moves = root::ranked(self.state, self.params);
        alternatives::has_alternative(&moves, played, &self.job.avoided, draw_score)
    }

    /// Statistics of all root moves, with the tree's own values.
    pub fn move_stats(&self) -> Vec<MoveStat> {
        root::move_stats(self.state, self.params)
    }

    /// The statistics with WDL contempt removed from their values.
    pub fn remove_contempt(&self, mut stats: Vec<MoveStat>) -> Vec<MoveStat> {
        let Some(contempt) = &self.state.tree.contempt else {
            return stats;
        };
        let draw_score = self.params.draw_score(self.state.tree.root_turn);
        for stat in &mut stats {
            if let Some(value) = &mut stat.value {
                *value = contempt.reported(*value, self.params.options.wdl_eval_objectivity());
                stat.q = value.wl + draw_score * value.d;
            }
        }
        stats
    }
}

/// The tree's principal variation from the end of `history`, which is one move after the position that the tree was
/// searched for. Empty if that position was not searched.
pub fn line_after(tree: &Tree, options: &SearchOptions, history: &History) -> Vec<PackedMove> {
    let known = tree.history();
    if known.and_then(|known| history.plies_since(known)) != Some(1) {
        return Vec::new();
    }
    let first = history.move_after(history.len() - 2);
    let (Some(first), Some(id)) = (first, find(tree, history)) else {
        return Vec::new();
    };
    let params = SearchParams::new(options, 1, true);
    let line = tree.principal_variation(first, *tree.node(id), &params);
    line.into_iter().skip(1).collect()
}

/// The tree's visits of the position at the end of `history`, which the next search there starts with if its options
/// are the same and it is restricted to these root moves (to none if there are none).
pub fn known_visits(tree: &Tree, history: &History, root_moves: &[PackedMove]) -> u64 {
    find_for(tree, history, root_moves).map_or(0, |id| u64::from(tree.node(id).n))
}
