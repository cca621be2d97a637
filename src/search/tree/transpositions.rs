//! Transpositions: positions reached by several paths share their statistics.
//!
//! A table beside the tree maps positions to the statistics of their most visited node. A new node whose position is
//! in the table starts with that mean of many visits instead of the network's value. So equal positions benefit from
//! each other with their next leaves, but every node has visits of its own and all invariants hold: N is 1 plus the
//! children's visits, search-contempt's counts are those of the node where the opponent moves, and re-rooting copies
//! a tree. Monty shares values in this way; Monte-Carlo graph search (as described for KataGo) goes further and
//! merges the nodes, which then have no unique path.
//!
//! Not shared are positions that occurred before (their value is that of a repetition on one path), proofs (a proof
//! may rest on a repetition) and the root. Positions with different rule-50 counters are different once that matters.
//! The influence of earlier positions on the network is neglected.

use super::node::Node;
use crate::{chess::Ply, hashing::mix, network::Value};

/// Up to this rule-50 counter, positions that differ only in it are equal.
const MAX_SHARED_RULE50: u32 = 40;

/// Minimum visits to be shared: a single visit is just the network's value.
const MIN_SHARED_VISITS: u32 = 2;

/// Number of neighbouring places that a position may have. A table that may still grow loses nothing: which of two
/// positions stays must not depend on their keys, or the result of a search would change with the colours of a
/// position.
const PLACES: usize = 16;

/// Maximum number of entries: 384 MB.
const MAX_ENTRIES: usize = 1 << 24;

/// The key of a position as far as its value depends on it; 0 means that it is not shared.
pub fn key(ply: &Ply) -> u64 {
    if ply.repetitions > 0 {
        return 0;
    }
    let rule50 = ply.rule50().max(MAX_SHARED_RULE50) - MAX_SHARED_RULE50;
    mix(ply.key ^ u64::from(rule50)) | 1
}

/// The statistics of a node, from the point of view of the side that moved into it.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: u64,
    n: u32,
    wl: f32,
    d: f32,
    m: f32,
}

/// The table. Each position has one of a few neighbouring places; when those are full, which happens only at the
/// table's maximum size, the one with the fewest visits gives way.
#[derive(Clone, Debug)]
pub struct SharedValues {
    entries: Vec<Entry>,
    used: usize,
    /// Maximum number of entries.
    max_entries: usize,
}

impl Default for SharedValues {
    fn default() -> SharedValues {
        SharedValues {
            entries: Vec::new(),
            used: 0,
            max_entries: MAX_ENTRIES,
        }
    }
}

impl SharedValues {
    /// Sets the memory limit at the beginning of a search. A full table is cleared, because much of it is about
    /// positions that the game has left behind, whose many visits keep others out.
    pub fn limit(&mut self, bytes: usize) {
        let entries = (bytes / size_of::<Entry>()).max(1);
        self.max_entries = MAX_ENTRIES.min(1 << entries.ilog2());
        if self.used * 2 >= self.max_entries {
            (self.entries, self.used) = (Vec::new(), 0);
        }
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }

    /// The place with this key; or else an empty one, if there is one among the key's places; or else the one with the
    /// fewest visits.
    fn place(&self, key: u64) -> usize {
        let mask = self.entries.len() - 1;
        let mut fewest = None;
        for step in 0..PLACES.min(self.entries.len()) {
            // The lowest bit is always set.
            let place = ((key >> 1) as usize + step) & mask;
            let entry = &self.entries[place];
            // Entries are never removed, so the key is not behind an empty place.
            if entry.key == key || entry.n == 0 {
                return place;
            }
            if fewest.is_none_or(|(_, n)| entry.n < n) {
                fewest = Some((place, entry.n));
            }
        }
        fewest.map_or(0, |(place, _)| place)
    }

    /// Whether other positions have all places of this key.
    fn has_no_place(&self, key: u64) -> bool {
        let entry = &self.entries[self.place(key)];
        entry.n > 0 && entry.key != key
    }

    /// The value of a position for its side to move, if a node has searched it.
    pub fn value(&self, key: u64) -> Option<Value> {
        if key == 0 || self.entries.is_empty() {
            return None;
        }
        let entry = &self.entries[self.place(key)];
        (entry.key == key).then_some(Value {
            wl: -entry.wl,
            d: entry.d,
            m: entry.m,
        })
    }

    /// Stores a node's statistics, unless there is an entry with more visits.
    pub fn store(&mut self, key: u64, node: &Node) {
        if key == 0 || node.n < MIN_SHARED_VISITS || node.is_proven() {
            return;
        }
        let is_full =
            |table: &SharedValues| table.used * 2 >= table.entries.len() || table.has_no_place(key);
        while self.entries.len() < self.max_entries && is_full(self) {
            self.grow();
        }
        let place = self.place(key);
        let entry = &mut self.entries[place];
        if entry.n > node.n {
            return;
        }
        self.used += usize::from(entry.n == 0);
        *entry = Entry {
            key,
            n: node.n,
            wl: node.wl as f32,
            d: node.d,
            m: node.m,
        };
    }

    fn grow(&mut self) {
        let size = (self.entries.len() * 2).max(1 << 8);
        let old = std::mem::replace(&mut self.entries, vec![Entry::default(); size]);
        self.used = 0;
        for entry in old.into_iter().filter(|entry| entry.n > 0) {
            let place = self.place(entry.key);
            if self.entries[place].n <= entry.n {
                self.used += usize::from(self.entries[place].n == 0);
                self.entries[place] = entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        network::tests::game,
        search::tree::node::{Bounds, Origin, tests},
    };

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    fn key_after(fen: &str, moves: &str) -> u64 {
        key(game(fen, moves).last())
    }

    fn node(n: u32, wl: f64) -> Node {
        tests::node(n, wl, 0.25, 30.0)
    }

    #[test]
    fn positions_are_the_same_by_any_way_but_not_when_they_were_there_before() {
        let one = key_after(START, "g1f3 g8f6 b1c3");
        assert_eq!(one, key_after(START, "b1c3 g8f6 g1f3"));
        assert_ne!(one, key_after(START, "b1c3 b8c6 g1f3"));
        assert_ne!(key_after(START, ""), 0);
        assert_eq!(key_after(START, "g1f3 g8f6 f3g1 f6g8"), 0);
        // Castling rights are part of a position, and so is the rule-50 counter above 40.
        let rooks = |rights: &str, rule50: u32| {
            key_after(
                &format!("r3k3/8/8/8/8/8/8/R3K3 w {rights} - {rule50} 80"),
                "",
            )
        };
        assert_ne!(rooks("Qq", 0), rooks("Q", 0));
        assert_eq!(rooks("Q", 0), rooks("Q", 40));
        assert_ne!(rooks("Q", 40), rooks("Q", 41));
    }

    #[test]
    fn the_most_visited_node_is_shared_and_proven_ones_are_not() {
        let mut shared = SharedValues::default();
        assert_eq!(shared.value(3), None);
        shared.store(3, &node(1, 0.9));
        assert_eq!(shared.value(3), None);
        shared.store(3, &node(10, 0.5));
        shared.store(3, &node(9, -0.5));
        let value = Value {
            wl: -0.5,
            d: 0.25,
            m: 30.0,
        };
        assert_eq!(shared.value(3), Some(value));
        shared.store(3, &node(11, 0.25));
        assert_eq!(shared.value(3).map(|value| value.wl), Some(-0.25));
        let mut won = node(20, 1.0);
        won.set_bounds(Bounds::exact(1), Origin::Children);
        shared.store(3, &won);
        assert_eq!(shared.value(3).map(|value| value.wl), Some(-0.25));
        shared.store(0, &node(50, 0.1));
        assert_eq!(shared.value(0), None);
    }

    #[test]
    fn a_table_respects_its_limit_and_is_cleared_when_full() {
        let mut shared = SharedValues::default();
        let room = 1024 * size_of::<Entry>();
        let fill = |shared: &mut SharedValues| {
            for at in 1..10_000_u64 {
                shared.store(mix(at) | 1, &node(5, 0.5));
            }
        };
        shared.limit(room + 1);
        fill(&mut shared);
        assert_eq!(shared.memory(), room);
        assert!(shared.value(mix(9_999) | 1).is_some());
        // A larger limit, then none left.
        shared.limit(100 * room);
        assert_eq!(shared.memory(), room);
        shared.limit(room);
        assert_eq!(shared.memory(), 0);
        fill(&mut shared);
        assert_eq!(shared.memory(), room);
    }

    #[test]
    fn a_table_that_grows_keeps_its_entries() {
        let mut shared = SharedValues::default();
        let keys = (1..10_000_u64).map(|at| mix(at) | 1);
        for key in keys.clone() {
            shared.store(key, &node(5, 0.5));
        }
        let known = keys.filter(|&key| shared.value(key).is_some()).count();
        assert_eq!(known, 9_999);
        assert_eq!(shared.memory(), (1 << 15) * size_of::<Entry>());
        assert_eq!(size_of::<Entry>(), 24);
    }
}
