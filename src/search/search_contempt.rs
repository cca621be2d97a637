//! Search-contempt: opponent nodes that stop searching for the best reply and keep replying as they did.
//!
//! After `ScLimit` visits to its children a node's visit counts are frozen, and every later visit draws a child in
//! proportion to them, whatever is found afterwards (Joshi, "Search-contempt: a hybrid MCTS algorithm", equations 5-7).
//! This module is all of it: the [`Rule`] says whose nodes freeze and when, a [`Record`] holds one node's counts.
//!
//! # Batches
//! With visits in flight the paper's "when the sum of the children's visits is N" needs care. The record is made as soon
//! as completed visits plus visits in flight reach the limit; from then on replies are drawn from it, so that no further
//! PUCT visit is started and gathering goes on. It is *final* once the last of those visits is backed up. Should one of
//! them turn out to be a collision and be cancelled, it leaves the counts again and PUCT may replace it. So the final counts
//! sum to the limit exactly, at every batch size, and with batches of one this is the paper's algorithm to the letter.
//!
//! A drawn visit that ends in a collision is owed: the same reply is due again in a later gathering, for otherwise
//! replies with small subtrees, where collisions are frequent, would be visited too rarely. Draws of a reply that has
//! collided in the same gathering are owed at once, without going there; and when a node owes too much, visits to it
//! are collisions themselves until it has paid.

use rand::{RngExt, rngs::Xoshiro256PlusPlus};
use shakmaty::Color;

use super::{
    node::{Node, NodeId},
    tree::Tree,
};
use crate::options::{Options, ScSampling};

/// `ScLimit` at this value (its default) or above means plain PUCT.
pub const PLAIN_PUCT: u32 = 1_000_000_000;

/// Whose nodes freeze, when, and how replies are drawn afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Nodes at which this side moves freeze (the root excepted).
    pub side: Color,
    /// The number of completed child visits at which they do, at least 1.
    pub limit: u32,
    /// Draws are in proportion to count^(1/temperature); 0 draws the most visited child only.
    pub temperature: f32,
    /// How draws are made.
    pub sampling: ScSampling,
}

impl Rule {
    /// The rule that `ScLimit`, `ScTemperature` and `ScSampling` make for a contempt side; `None` for plain PUCT.
    pub fn new(options: &Options, contempt_side: Option<Color>) -> Option<Rule> {
        let contempt_side = contempt_side?;
        let limit = options.sc_limit.unsigned_abs().max(1);
        if limit >= PLAIN_PUCT {
            return None;
        }
        let side = if options.sc_limit < 0 {
            contempt_side
        } else {
            contempt_side.other()
        };
        Some(Rule {
            side,
            limit,
            temperature: options.sc_temperature,
            sampling: options.sc_sampling,
        })
    }
}

/// One child's part in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Visits it had when the node froze.
    pub count: u32,
    /// Draws that could not be carried out yet.
    pub owed: u32,
    /// The gathering in which a visit to this child was last found to collide.
    blocked_in: u32,
    /// count^(1/temperature), scaled so that the largest is 1.
    weight: f64,
}

/// The frozen visit counts of one node.
#[derive(Clone, Debug)]
pub struct Record {
    /// Where the node's edges are (the node itself points here).
    pub(super) edges: u32,
    /// The limit that the counts sum to, once final.
    pub limit: u32,
    /// The side to move at the node.
    pub side: Color,
    /// Per child slot.
    pub shares: Vec<Share>,
    /// Sum of the counts.
    total: u32,
    /// How many of the counted visits are not backed up yet.
    pending: u32,
    /// Sum of what the shares owe.
    owed: u32,
}

/// What a node does with a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It searches for the best move.
    Search,
    /// It replies with the child in this slot.
    Draw(u8),
    /// It owes too many visits to children that are busy: the visit is a collision.
    Blocked,
}

impl Record {
    /// Whether the counts can change no more.
    pub fn is_final(&self) -> bool {
        self.pending == 0 && self.total == self.limit
    }

    /// Whether replies are drawn rather than searched.
    fn is_full(&self) -> bool {
        self.total == self.limit
    }

    fn update_weights(&mut self, temperature: f32) {
        let largest = self
            .shares
            .iter()
            .map(|share| share.count)
            .max()
            .unwrap_or(0);
        let mut largest_seen = false;
        for share in &mut self.shares {
            let relative = f64::from(share.count) / f64::from(largest.max(1));
            share.weight = if temperature > 0.0 {
                relative.powf(1.0 / f64::from(temperature))
            } else if share.count == largest && !largest_seen {
                largest_seen = true;
                1.0
            } else {
                0.0
            };
        }
    }

    /// Probability with which the child in each slot is drawn.
    pub fn probabilities(&self) -> impl Iterator<Item = f64> {
        let sum: f64 = self.shares.iter().map(|share| share.weight).sum();
        self.shares.iter().map(move |share| share.weight / sum)
    }

    /// Draws a child by the shares, unless owed visits come first. `drawn` visits have been drawn before.
    fn reply(&mut self, gathering: u32, drawn: u32, rng: &mut Xoshiro256PlusPlus) -> Reply {
        if self.owed > 0 {
            let is_payable = |share: &Share| share.owed > 0 && share.blocked_in != gathering;
            if let Some(slot) = self.shares.iter().position(is_payable) {
                self.shares[slot].owed -= 1;
                self.owed -= 1;
                return Reply::Draw(slot as u8);
            }
        }
        let allowance = (drawn / 32).max(4);
        while self.owed <= allowance {
            let slot = self.draw_thompson(rng);
            let share = &mut self.shares[usize::from(slot)];
            if share.blocked_in != gathering {
                return Reply::Draw(slot);
            }
            share.owed += 1;
            self.owed += 1;
        }
        Reply::Blocked
    }

    fn draw_thompson(&self, rng: &mut Xoshiro256PlusPlus) -> u8 {
        let sum: f64 = self.shares.iter().map(|share| share.weight).sum();
        let mut rest = rng.random::<f64>() * sum;
        let mut last = 0;
        for (slot, share) in self.shares.iter().enumerate() {
            if share.weight > 0.0 {
                last = slot as u8;
                rest -= share.weight;
                if rest < 0.0 {
                    break;
                }
            }
        }
        last
    }

    /// The child whose visits since the freeze are furthest behind its share of them.
    fn draw_stratified(&self, children: &[Node]) -> u8 {
        let drawn = |slot: usize| {
            let child = &children[slot];
            f64::from(child.n + child.in_flight) - f64::from(self.shares[slot].count)
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

/// All records of a tree.
#[derive(Clone, Debug, Default)]
pub struct Records {
    list: Vec<Record>,
    /// Shares of all of them together.
    shares: usize,
}

impl Records {
    pub(super) fn get(&self, index: u32) -> &Record {
        &self.list[index as usize]
    }

    pub(super) fn push(&mut self, record: Record) -> u32 {
        self.shares += record.shares.len();
        self.list.push(record);
        (self.list.len() - 1) as u32
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.list.len() * size_of::<Record>() + self.shares * size_of::<Share>()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Record {
        &mut self.list[index as usize]
    }

    /// Gives a record shares for all of its node's children.
    fn make_room(&mut self, index: u32, children: u8) {
        let shares = &mut self.list[index as usize].shares;
        let missing = usize::from(children).saturating_sub(shares.len());
        shares.resize(shares.len() + missing, Share::default());
        self.shares += missing;
    }
}

/// What becomes of a visit that went from a node to the child in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was backed up.
    Completed,
    /// It was a collision and is undone.
    Cancelled,
}

impl Tree {
    /// What a node at which `turn` moves does with a visit (which is already in the node's `in_flight`).
    #[inline]
    pub(super) fn reply(&mut self, id: NodeId, turn: Color, rng: &mut Xoshiro256PlusPlus) -> Reply {
        match &self.rule {
            Some(rule) if turn == rule.side && id != self.root => self.opponent_reply(id, rng),
            _ => Reply::Search,
        }
    }

    fn opponent_reply(&mut self, id: NodeId, rng: &mut Xoshiro256PlusPlus) -> Reply {
        let Some(rule) = &self.rule else {
            return Reply::Search;
        };
        let (limit, sampling) = (rule.limit, rule.sampling);
        let node = self.node(id);
        if !node.has_record() {
            // No child has visits that did not pass through here: the exact sum is worth computing only from here on.
            if node.n - 1 + node.in_flight - 1 < limit {
                return Reply::Search;
            }
            let started: u32 = self
                .children(node)
                .iter()
                .map(|child| child.n + child.in_flight)
                .sum();
            if started < limit {
                return Reply::Search;
            }
            self.make_record(id);
        }
        let node = *self.node(id);
        let gathering = self.gathering;
        if !self.records.get(node.edges).is_full() {
            return Reply::Search;
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

    /// Counts a PUCT visit to `slot`, chosen while a record is open again after a collision.
    #[inline]
    pub(super) fn count_reply(&mut self, id: NodeId, slot: u8) {
        if self.rule.is_some() && self.node(id).has_record() {
            self.count_recorded_reply(id, slot);
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
            let gathering = self.gathering;
            self.records.get_mut(node.edges).shares[usize::from(slot)].blocked_in = gathering;
        }
    }

    /// Settles a visit from node `id` to the child in `slot`; `drawn` says how the child was chosen.
    #[inline]
    pub(super) fn settle_reply(&mut self, id: NodeId, slot: u8, drawn: bool, fate: Fate) {
        if self.rule.is_some() && self.node(id).has_record() {
            self.settle_recorded_reply(id, slot, drawn, fate);
        }
    }

    fn settle_recorded_reply(&mut self, id: NodeId, slot: u8, drawn: bool, fate: Fate) {
        let node = *self.node(id);
        let is_thompson = self
            .rule
            .as_ref()
            .is_some_and(|rule| rule.sampling == ScSampling::Thompson);
        let temperature = self.rule.as_ref().map_or(1.0, |rule| rule.temperature);
        let record = self.records.get_mut(node.edges);
        let share = &mut record.shares[usize::from(slot)];
        match (drawn, fate) {
            (true, Fate::Completed) => {}
            (true, Fate::Cancelled) if is_thompson => {
                share.owed += 1;
                record.owed += 1;
            }
            (true, Fate::Cancelled) => {}
            (false, Fate::Completed) => record.pending -= 1,
            (false, Fate::Cancelled) => {
                share.count -= 1;
                record.total -= 1;
                record.pending -= 1;
                record.update_weights(temperature);
            }
        }
    }

    /// Freezes a node, `depth` plies below the root, whose last PUCT visit was just backed up, with nothing in flight.
    #[inline]
    pub(super) fn freeze_if_due(&mut self, id: NodeId, depth: usize) {
        let Some(rule) = &self.rule else { return };
        let turn = if depth.is_multiple_of(2) {
            self.root_turn
        } else {
            self.root_turn.other()
        };
        let node = self.node(id);
        let is_due = node.n == rule.limit + 1 && node.in_flight == 0 && !node.has_record();
        if is_due
            && turn == rule.side
            && id != self.root
            && node.n_children > 0
            && !node.is_proven()
        {
            self.make_record(id);
        }
    }

    fn make_record(&mut self, id: NodeId) {
        let Some(rule) = self.rule.clone() else {
            return;
        };
        let node = *self.node(id);
        let children = self.children(&node);
        let shares: Vec<Share> = children
            .iter()
            .map(|child| Share {
                count: child.n + child.in_flight,
                ..Share::default()
            })
            .collect();
        let mut record = Record {
            edges: node.edges,
            limit: rule.limit,
            side: rule.side,
            total: shares.iter().map(|share| share.count).sum(),
            pending: children.iter().map(|child| child.in_flight).sum(),
            shares,
            owed: 0,
        };
        debug_assert_eq!(record.total, rule.limit);
        record.update_weights(rule.temperature);
        let index = self.records.push(record);
        let node = self.node_mut(id);
        node.edges = index;
        node.set_has_record(true);
    }
}
