//! Refined priors, from a better network (`RefineWeights`), for positions that have had `RefineVisits` visits.
//!
//! Such a network is slow, but takes less time for several positions together than for each alone: its weights are
//! loaded into the processor's cache only once. So these positions wait for each other, fewer of them in a small
//! tree, where each matters more ([`SearchParams::refined_together`]). Visits continue with the old priors meanwhile.

use super::{
    error::Failure,
    expand::{ExpandContext, Replay},
    params::SearchParams,
    state::SearchState,
    tree::{
        TreeFull,
        edges::{EdgeRange, EdgeWriter},
    },
    visits::RefinementPath,
};
use crate::network::{Added, Batch, evaluator::add_with_priors};

/// The positions that one worker refines.
#[derive(Default)]
pub(super) struct Refinement {
    positions: Vec<RefinedPosition>,
    batch: Batch,
}

/// A position whose priors are to be refined.
struct RefinedPosition {
    path: RefinementPath,
    /// Its index in the batch.
    queued: Option<usize>,
    /// Its moves with their new priors, once those are known.
    edges: Option<EdgeRange>,
}

impl Refinement {
    /// Takes the positions that are due, if there are enough of them, and reserves room for their moves beside that for
    /// `leaves` positions.
    ///
    /// # Errors
    /// When the tree has no room for more.
    pub fn take(
        &mut self,
        state: &mut SearchState,
        params: &SearchParams,
        writer: &mut EdgeWriter,
        leaves: usize,
    ) -> Result<(), TreeFull> {
        if state.due.is_empty() || state.due.len() < params.refined_together(state.root().n) {
            return Ok(());
        }
        let taken = state.due.drain(..).map(|path| RefinedPosition {
            path,
            queued: None,
            edges: None,
        });
        self.positions.extend(taken);
        let edges = &mut state.tree.edges;
        edges.reserve(writer, leaves + self.positions.len())
    }

    /// Whether no positions were taken.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Evaluates them by the refiner of the context's evaluator, if it has one, those aside where a side that is
    /// modelled moves. Needs no lock.
    ///
    /// # Errors
    /// When the tree has no room for the moves, or the network fails.
    pub fn evaluate(
        &mut self,
        context: &ExpandContext<'_>,
        replay: &mut Replay,
        writer: &mut EdgeWriter,
    ) -> Result<(), Failure> {
        let Some(refiner) = context.evaluator.refiner() else {
            return Ok(());
        };
        let modelled = context.evaluator.modelled_side();
        self.batch.clear();
        for refined in &mut self.positions {
            replay.go_to(refined.path.iter().map(|step| step.m));
            if modelled == Some(replay.turn()) {
                continue;
            }
            let position = &mut context.position(replay);
            match add_with_priors(refiner, position, &mut self.batch) {
                Added::Queued(index) => refined.queued = Some(index),
                Added::Fetched(_) | Added::Computed(_) => {
                    refined.edges = Some(replay.write_edges(writer)?);
                }
            }
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        refiner.evaluate(&mut self.batch)?;
        for refined in &mut self.positions {
            if let Some(index) = refined.queued {
                let (moves, policy) = (self.batch.moves(index), self.batch.policy(index));
                refined.edges = Some(writer.write_moves(moves, policy)?);
            }
        }
        Ok(())
    }

    /// Gives the positions their new priors.
    pub fn settle(&mut self, state: &mut SearchState) {
        for RefinedPosition { path, edges, .. } in self.positions.drain(..) {
            if let Some(edges) = edges {
                let id = state.tree.follow(path.iter().map(|step| step.slot));
                state.refine(id, edges);
            }
        }
    }

    /// Puts the positions back, for other workers.
    pub fn give_back(&mut self, state: &mut SearchState) {
        let positions = self.positions.drain(..);
        state.due.extend(positions.map(|position| position.path));
    }
}
