//! Search-contempt: opponent nodes that stop searching for the best reply and continue to reply as before.
//!
//! After `ScLimit` visits to its children a node's visit counts are frozen, and every later visit draws a child in
//! proportion to them, whatever is found afterwards (Joshi, "Search-contempt: a hybrid MCTS algorithm", equations
//! 5-7). A [`Rule`] defines which nodes freeze and when, a [`ReplyRecord`] holds one node's counts (both are stored
//! with the tree), and this module implements the draws.
//!
//! # Batches
//! The paper's condition "when the sum of the children's visits is N" needs care with visits in flight. The record is
//! made as soon as completed visits plus visits in flight reach the limit. From then on replies are drawn from it, so
//! that no further PUCT visit is started and gathering continues. It is *final* once the last of those visits is
//! backed up. If one of them turns out to be a collision and is cancelled, it leaves the counts again and PUCT may
//! replace it. So the final counts sum to the limit exactly, at every batch size, and with batches of one this is the
//! paper's algorithm to the letter.
//!
//! ```text
//!               the sum of visits,             a counted visit
//!               also in flight, is N           is cancelled
//!   no record ----------------------> full ----------------------> open
//!   (searches)                       (draws) <------------------- (searches)
//!                                       |      PUCT replaces it
//!                                       | the last counted visit is backed up
//!                                       v
//!                                     final
//!                                    (draws)
//! ```
//!
//! | A visit to a node with a record | starts | is backed up | is cancelled |
//! |---|---|---|---|
//! | searched while the record is open | count, total and pending + 1 | pending - 1 | count, total and pending - 1 |
//! | drawn | | | deferred + 1 (Thompson sampling only) |
//! | searched although it is full (hybrid) | searched + 1 | | searched - 1 |
//!
//! A drawn visit that ends in a collision is deferred: the same reply is drawn again in a later gathering. Otherwise
//! replies with small subtrees, where collisions are frequent, would be visited too rarely. Draws of a reply that has
//! collided in the same gathering are deferred at once, without a visit. If a node has too many deferred draws,
//! further visits to it are collisions until some have been carried out.
//!
//! # Hybrid
//! With a `HybridSamplingRatio` below 1 some visits to a frozen node search as at any other node (PUCT over all of its
//! visits), so that a reply which was overlooked before the freeze is found after all. Each visit is sampled or
//! searched at random. Searched visits do not change the frozen counts, and stratified sampling does not count them.

use rand::{RngExt, rngs::Xoshiro256PlusPlus};
use shakmaty::Color;

pub use super::tree::records::{DrawRatio, ReplyRecord, ReplyRecords, Rule};
use super::tree::{
    Tree,
    node::{Node, NodeId},
    records::ReplyShare,
};
use crate::{chess::turn_after, options::ScSampling, random::weighted_index};

/// The action of a node on a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Search for the best move; the visit is to be marked in this way.
    Search(ChosenBy),
    /// Reply with the child in this slot.
    Draw(u8),
    /// Too many draws are deferred because their children are busy: the visit is a collision.
    Blocked,
}

/// How many draws may be deferred: one of so many draws, so that the visits stay close to the shares, and so many where
/// few were drawn, so that a batch finds other replies than the busy ones.
const DRAWS_PER_DEFERRED: u32 = 32;
const LEAST_DEFERRED: u32 = 4;

impl ReplyRecord {
    /// Draws a child by the shares, unless a deferred draw can be carried out. `drawn` visits have been drawn before.
    fn reply(&mut self, gathering: u32, drawn: u32, rng: &mut Xoshiro256PlusPlus) -> Reply {
        if self.deferred_draws > 0 {
            let is_deferred =
                |share: &ReplyShare| share.deferred_draws > 0 && share.blocked_in != gathering;
            if let Some(slot) = self.shares.iter().position(is_deferred) {
                self.shares[slot].deferred_draws -= 1;
                self.deferred_draws -= 1;
                return Reply::Draw(slot as u8);
            }
        }
        let allowance = (drawn / DRAWS_PER_DEFERRED).max(LEAST_DEFERRED);
        while self.deferred_draws <= allowance {
            let slot = self.draw_thompson(rng);
            let share = &mut self.shares[usize::from(slot)];
            if share.blocked_in != gathering {
                return Reply::Draw(slot);
            }
            share.deferred_draws += 1;
            self.deferred_draws += 1;
        }
        Reply::Blocked
    }

    fn draw_thompson(&self, rng: &mut Xoshiro256PlusPlus) -> u8 {
        weighted_index(self.shares.iter().map(|share| share.weight), rng).unwrap_or(0) as u8
    }

    /// The child whose visits since the freeze are furthest behind its share of them.
    fn draw_stratified(&self, children: &[Node]) -> u8 {
        let drawn = |slot: usize| {
            let child = &children[slot];
            let share = &self.shares[slot];
            f64::from(child.n + child.in_flight) - f64::from(share.count + share.searched)
        };
        let all: f64 = (0..self.shares.len()).map(drawn).sum::<f64>() + 1.0;
        let mut best = (f64::NEG_INFINITY, 0);
        for (slot, probability) in self.probabilities().enumerate() {
            let behind = probability * all - drawn(slot);
            if probability > 0.0 && behind > best.0 {
                best = (behind, slot as u8);
            }
        }
        best.1
    }
}

/// How the child of a visit was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChosenBy {
    /// PUCT.
    Search,
    /// PUCT, at a frozen node.
    SearchFrozen,
    /// A draw by the frozen counts.
    Draw,
}

/// How a visit from a node to a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisitEnd {
    /// It was backed up.
    Completed,
    /// It was a collision and is undone.
    Cancelled,
}

impl Tree {
    /// The action of a node at which `turn` moves on a visit (which is already in the node's `in_flight`).
    #[inline]
    pub(super) fn reply(&mut self, id: NodeId, turn: Color, rng: &mut Xoshiro256PlusPlus) -> Reply {
        match &self.rule {
            Some(rule) if turn == rule.side && id != self.root => self.opponent_reply(id, rng),
            _ => Reply::Search(ChosenBy::Search),
        }
    }

    /// Whether a visit that is in flight at this node, whoever moves there, chooses by PUCT because of the visits so
    /// far.
    pub(super) fn is_below_limit(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let has_room = |limit| node.n + node.in_flight - 1 < limit;
        !node.has_record() && self.rule.as_ref().is_none_or(|rule| has_room(rule.limit))
    }

    fn opponent_reply(&mut self, id: NodeId, rng: &mut Xoshiro256PlusPlus) -> Reply {
        let Some(rule) = &self.rule else {
            return Reply::Search(ChosenBy::Search);
        };
        let (limit, sampling) = (rule.limit, rule.sampling);
        // No child has visits that did not pass through here, and this visit has not reached a child yet: the exact sum
        // need not be computed below the limit.
        if self.is_below_limit(id) {
            return Reply::Search(ChosenBy::Search);
        }
        let node = self.node(id);
        if !node.has_record() {
            let started: u32 = self
                .children(node)
                .iter()
                .map(|child| child.n + child.in_flight)
                .sum();
            if started < limit {
                return Reply::Search(ChosenBy::Search);
            }
            self.make_record(id);
        }
        let node = *self.node(id);
        let gathering = self.records.gathering();
        if !self.records.get(node.edges).is_full() {
            return Reply::Search(ChosenBy::Search);
        }
        let ratio = self.rule.as_ref().map_or(1.0, |rule| rule.draws.at(node.n));
        if ratio < 1.0 && rng.random::<f32>() >= ratio {
            return Reply::Search(ChosenBy::SearchFrozen);
        }
        match sampling {
            ScSampling::Thompson => {
                let drawn = (node.n + node.in_flight).saturating_sub(limit);
                self.records
                    .get_mut(node.edges)
                    .reply(gathering, drawn, rng)
            }
            ScSampling::Stratified => {
                let record = self.records.get(node.edges);
                let slot = record.draw_stratified(self.children(&node));
                let is_blocked = record.shares[usize::from(slot)].blocked_in == gathering;
                if is_blocked {
                    Reply::Blocked
                } else {
                    Reply::Draw(slot)
                }
            }
        }
    }

    /// Counts a PUCT visit to `slot` of a node with a record: one that is open again after a collision, or frozen.
    #[inline]
    pub(super) fn count_reply(&mut self, id: NodeId, slot: u8, chosen: ChosenBy) {
        if self.rule.is_some() && self.node(id).has_record() {
            match chosen {
                ChosenBy::Draw => {}
                ChosenBy::Search => self.count_recorded_reply(id, slot),
                ChosenBy::SearchFrozen => self.count_searched(id, slot, 1),
            }
        }
    }

    /// Changes the number of visits to `slot` that searched after the freeze. A child that came later has no share.
    fn count_searched(&mut self, id: NodeId, slot: u8, change: i32) {
        let node = *self.node(id);
        let record = self.records.get_mut(node.edges);
        if let Some(share) = record.shares.get_mut(usize::from(slot)) {
            share.searched = share.searched.saturating_add_signed(change);
        }
    }

    fn count_recorded_reply(&mut self, id: NodeId, slot: u8) {
        let node = *self.node(id);
        let temperature = self.rule.as_ref().map_or(1.0, |rule| rule.temperature);
        self.records.make_room(node.edges, node.n_children);
        let record = self.records.get_mut(node.edges);
        record.shares[usize::from(slot)].count += 1;
        record.total += 1;
        record.pending += 1;
        record.update_weights(temperature);
    }

    /// Notes that a visit drawn to the child in `slot` collided, so that no more are sent there in this gathering.
    pub(super) fn note_collision(&mut self, id: NodeId, slot: u8) {
        let node = *self.node(id);
        if node.has_record() {
            let gathering = self.records.gathering();
            self.records.get_mut(node.edges).shares[usize::from(slot)].blocked_in = gathering;
        }
    }

    /// Completes or cancels a visit from node `id` to the child in `slot`.
    #[inline]
    pub(super) fn settle_reply(&mut self, id: NodeId, slot: u8, chosen: ChosenBy, end: VisitEnd) {
        if self.rule.is_some() && self.node(id).has_record() {
            self.settle_recorded_reply(id, slot, chosen, end);
        }
    }

    fn settle_recorded_reply(&mut self, id: NodeId, slot: u8, chosen: ChosenBy, end: VisitEnd) {
        if chosen == ChosenBy::SearchFrozen {
            if end == VisitEnd::Cancelled {
                self.count_searched(id, slot, -1);
            }
            return;
        }
        let node = *self.node(id);
        let is_thompson = self
            .rule
            .as_ref()
            .is_some_and(|rule| rule.sampling == ScSampling::Thompson);
        let temperature = self.rule.as_ref().map_or(1.0, |rule| rule.temperature);
        let record = self.records.get_mut(node.edges);
        let share = &mut record.shares[usize::from(slot)];
        match (chosen == ChosenBy::Draw, end) {
            (true, VisitEnd::Completed) => {}
            (true, VisitEnd::Cancelled) if is_thompson => {
                share.deferred_draws += 1;
                record.deferred_draws += 1;
            }
            (true, VisitEnd::Cancelled) => {}
            (false, VisitEnd::Completed) => record.pending -= 1,
            (false, VisitEnd::Cancelled) => {
                share.count -= 1;
                record.total -= 1;
                record.pending -= 1;
                record.update_weights(temperature);
            }
        }
    }

    /// Freezes a node, `depth` plies below the root, whose last PUCT visit was just backed up and that has nothing in
    /// flight.
    #[inline]
    pub(super) fn freeze_if_due(&mut self, id: NodeId, depth: usize) {
        let Some(rule) = &self.rule else { return };
        let turn = turn_after(self.root_turn, depth);
        let node = self.node(id);
        let is_due = node.n == rule.limit + 1 && node.in_flight == 0 && !node.has_record();
        if is_due
            && turn == rule.side
            && id != self.root
            && node.n_children > 0
            && !node.is_proven()
            // Visits that ended here because of the memory limit have no child.
            && self.children(node).iter().map(|child| child.n).sum::<u32>() == rule.limit
        {
            self.make_record(id);
        }
    }

    fn make_record(&mut self, id: NodeId) {
        let Some(rule) = &self.rule else { return };
        let (limit, side, temperature) = (rule.limit, rule.side, rule.temperature);
        let node = *self.node(id);
        let children = self.children(&node);
        let shares: Vec<ReplyShare> = children
            .iter()
            .map(|child| ReplyShare {
                count: child.n + child.in_flight,
                ..ReplyShare::default()
            })
            .collect();
        let mut record = ReplyRecord {
            edges: node.edges,
            limit,
            side,
            total: shares.iter().map(|share| share.count).sum(),
            pending: children.iter().map(|child| child.in_flight).sum(),
            shares,
            deferred_draws: 0,
        };
        debug_assert_eq!(record.total, limit);
        record.update_weights(temperature);
        let index = self.records.push(record);
        let node = self.node_mut(id);
        node.edges = index;
        node.set_has_record(true);
    }
}
