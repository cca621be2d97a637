//! Priors from a network that knows more (`RefineWeights`): positions that have had `RefineVisits` visits are due for them.
//!
//! Such a network takes long, but for several positions together less than for each alone: its weights have to come into
//! the processor's cache once only. So due positions wait for each other, a few in a small tree, where they matter more
//! ([`SearchParams::refined_together`]). Visits go on with the old priors meanwhile.

use shakmaty::Position;

use super::{
    error::Failure,
    expand::Replay,
    params::SearchParams,
    state::SearchState,
    tree::{
        Full,
        edges::{EdgeRange, EdgeWriter},
    },
    visits::RefinementPath,
};
use crate::network::{Batch, Refiner};

/// Positions that one worker asks about.
#[derive(Default)]
pub(super) struct Refinement {
    asked: Vec<RefinedPosition>,
    batch: Batch,
}

/// A position and what is known about it.
struct RefinedPosition {
    path: RefinementPath,
    /// Its place in the batch.
    queued: Option<usize>,
    /// Its moves with their new priors, if there are any.
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
    ) -> Result<(), Full> {
        if state.due.is_empty() || state.due.len() < params.refined_together(state.root().n) {
            return Ok(());
        }
        let asked = state.due.drain(..).map(|path| RefinedPosition {
            path,
            queued: None,
            edges: None,
        });
        self.asked.extend(asked);
        let edges = &mut state.tree.edges;
        edges.reserve(writer, leaves + self.asked.len())
    }

    /// Asks the network about them. Needs no lock.
    ///
    /// # Errors
    /// When the tree has no room for the moves, or the network fails.
    pub fn ask(
        &mut self,
        refiner: Refiner<'_>,
        replay: &mut Replay,
        writer: &mut EdgeWriter,
    ) -> Result<(), Failure> {
        self.batch.clear();
        for asked in &mut self.asked {
            replay.go_to(asked.path.iter().map(|step| step.m));
            let (line, moves, policy) = replay.policy_buffers();
            if refiner.modelled == Some(line.position().turn()) {
                continue;
            }
            if refiner.network.probe(line.plies(), policy).is_some() {
                asked.edges = Some(writer.write_moves(moves, policy)?);
            } else {
                let index = refiner.network.queue(line.plies(), moves, &mut self.batch);
                asked.queued = Some(index);
            }
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        refiner.network.evaluate(&mut self.batch)?;
        for asked in &mut self.asked {
            if let Some(index) = asked.queued {
                let (moves, policy) = (self.batch.moves(index), self.batch.policy(index));
                asked.edges = Some(writer.write_moves(moves, policy)?);
            }
        }
        Ok(())
    }

    /// Gives the positions the priors that were found.
    pub fn settle(&mut self, state: &mut SearchState) {
        for RefinedPosition { path, edges, .. } in self.asked.drain(..) {
            if let Some(edges) = edges {
                let id = state.tree.follow(path.iter().map(|step| step.slot));
                state.refine(id, edges);
            }
        }
    }

    /// Leaves the positions to others.
    pub fn give_back(&mut self, state: &mut SearchState) {
        let asked = self.asked.drain(..);
        state.due.extend(asked.map(|asked| asked.path));
    }
}
