//! The evaluation cache: the values and priors of positions, found by the key under which they were evaluated.
//!
//! The key is [the evaluator's view](crate::network::Evaluator::view): with `CacheHistoryLength` 7 everything that the
//! network sees. Priors are kept in the tree's own 16-bit code
//! (see [`prior`]), so a hit stores in the tree what a miss would have. The cache is split into shards with a lock
//! each; a shard is a queue of records of exactly the size that their moves need, about 100 bytes a position with the
//! index. The index holds a part of each key, so that a search for a position that is not there reads no record: these
//! lie anywhere in memory, and each would be waited for. Memory grows with use, up to the limit; then the oldest
//! entries leave, except that those used since they came in get another round (the CLOCK policy).

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use crate::network::{Value, evaluator::CacheUsage, prior};

/// Memory of a cached evaluation, in bytes.
pub const CACHE_ENTRY: u64 = 100;

/// Shards of a cache of normal size.
const SHARDS: usize = 64;
/// 16-bit words of a record before its priors: key, value, number of moves.
const HEADER: usize = 4 + 6 + 1;
/// Marks, in the word that counts the moves, a record that was used.
const USED: u16 = 1 << 15;
/// How many used records may be spared in a row.
const MAX_SPARED: usize = 16;

/// Evaluations by key. Threads share it.
pub struct Cache {
    shards: Vec<Mutex<CacheShard>>,
    limit: usize,
    entries: AtomicUsize,
}

impl Cache {
    /// Keeps up to `limit` evaluations (rounded up to a multiple of the number of shards); 0 keeps none.
    pub fn new(limit: usize) -> Cache {
        let shards = if limit >= SHARDS * 16 { SHARDS } else { 1 };
        let per_shard = limit.div_ceil(shards);
        Cache {
            shards: (0..shards)
                .map(|_| Mutex::new(CacheShard::new(per_shard)))
                .collect(),
            limit: per_shard * shards,
            entries: AtomicUsize::new(0),
        }
    }

    /// Evaluations kept at the moment.
    pub fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of the position with this key. Its priors are written to `priors`, in the order in which they were
    /// inserted; on a miss, the contents of `priors` mean nothing.
    pub fn look_up(&self, key: u64, priors: &mut [f32]) -> Option<Value> {
        self.shard(key).lock().probe(key, priors)
    }

    /// Keeps an evaluation, unless there is one with this key.
    pub fn insert(&self, key: u64, value: Value, priors: &[f32]) {
        if self.limit > 0 {
            let change = self.shard(key).lock().insert(key, value, priors);
            self.entries.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// How full it is and may become.
    pub fn usage(&self) -> CacheUsage {
        CacheUsage {
            permille: (self.len() as u64 * 1000 / (self.limit as u64).max(1)).min(1000) as u32,
            bytes: self.limit as u64 * CACHE_ENTRY,
        }
    }

    fn shard(&self, key: u64) -> &Mutex<CacheShard> {
        // The top bits; the index inside a shard uses the lower ones.
        &self.shards[(key >> 58) as usize % self.shards.len()]
    }
}

/// A place of the index: where the record of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// The lower half of the key, of which the lowest bits say where in the index it wants to be.
    tag: u32,
    /// The record's position, counted in words since the shard was empty; `u32::MAX` in an empty slot.
    position: u32,
}

impl Slot {
    const EMPTY: Slot = Slot {
        tag: 0,
        position: u32::MAX,
    };

    fn new(key: u64, position: usize) -> Slot {
        Slot {
            tag: key as u32,
            position: position as u32,
        }
    }

    fn is_empty(self) -> bool {
        self.position == u32::MAX
    }
}

/// A queue of records and an index into it (open addressing with linear probing).
struct CacheShard {
    records: VecDeque<u16>,
    /// Where the queue's front is, counted in words since the shard was empty.
    front: usize,
    /// The length is a power of two, at most 2^32.
    index: Vec<Slot>,
    /// The record that is being made.
    record: Vec<u16>,
    count: usize,
    limit: usize,
}

impl CacheShard {
    fn new(limit: usize) -> CacheShard {
        CacheShard {
            records: VecDeque::new(),
            front: 0,
            index: Vec::new(),
            record: Vec::new(),
            count: 0,
            limit,
        }
    }

    fn clear(&mut self) {
        *self = CacheShard::new(self.limit);
    }

    fn word(&self, position: usize) -> u16 {
        self.records[position - self.front]
    }

    fn key_at(&self, position: usize) -> u64 {
        (0..4).fold(0, |key, i| {
            key | u64::from(self.word(position + i)) << (16 * i)
        })
    }

    /// The slot of the index where `key` is, or where it would go.
    fn slot(&self, key: u64) -> usize {
        let mask = self.index.len() - 1;
        let mut place = key as usize & mask;
        loop {
            let slot = self.index[place];
            let may_be_it = slot.tag == key as u32;
            if slot.is_empty() || may_be_it && self.key_at(slot.position as usize) == key {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    fn probe(&mut self, key: u64, policy: &mut [f32]) -> Option<Value> {
        if self.index.is_empty() {
            return None;
        }
        let slot = self.index[self.slot(key)];
        if slot.is_empty() {
            return None;
        }
        let start = slot.position as usize - self.front;
        let moves = self.records[start + HEADER - 1] & !USED;
        if usize::from(moves) != policy.len() {
            // Another position with the same key, as good as impossible.
            return None;
        }
        self.records[start + HEADER - 1] |= USED;
        let codes = self
            .records
            .range(start + HEADER..start + HEADER + policy.len());
        for (p, code) in policy.iter_mut().zip(codes) {
            *p = prior::decode(*code);
        }
        let float = |i| {
            let (low, high) = (self.records[start + 4 + i], self.records[start + 5 + i]);
            f32::from_bits(u32::from(low) | u32::from(high) << 16)
        };
        Some(Value {
            wl: float(0),
            d: float(2),
            m: float(4),
        })
    }

    /// Adds an entry; returns by how many (0 or 1) the shard grew.
    fn insert(&mut self, key: u64, value: Value, policy: &[f32]) -> usize {
        if self.limit == 0 || policy.len() >= usize::from(USED) {
            return 0;
        }
        let before = self.count;
        // As far as the records may move on below: those that are spared, the one that is not, and the new one.
        const MARGIN: usize = (MAX_SPARED + 2) * (HEADER + USED as usize);
        if self.front + self.records.len() + MARGIN >= u32::MAX as usize {
            // Positions have 32 bits: after billions of records a shard starts anew. The total then counts its entries
            // twice.
            self.clear();
        }
        if 4 * (self.count + 1) > 3 * self.index.len() {
            self.grow_index();
        }
        let mut place = self.slot(key);
        if !self.index[place].is_empty() {
            return 0;
        }
        while self.count >= self.limit {
            self.evict();
            place = self.slot(key);
        }
        self.index[place] = Slot::new(key, self.front + self.records.len());
        self.append(key, value, policy);
        self.count += 1;
        self.count.saturating_sub(before)
    }

    /// Puts a record at the end of the queue.
    fn append(&mut self, key: u64, value: Value, policy: &[f32]) {
        self.reserve(HEADER + policy.len());
        let record = &mut self.record;
        record.clear();
        record.extend((0..4).map(|i| (key >> (16 * i)) as u16));
        for float in [value.wl, value.d, value.m] {
            let bits = float.to_bits();
            record.extend([bits as u16, (bits >> 16) as u16]);
        }
        record.push(policy.len() as u16);
        record.extend(policy.iter().map(|&p| prior::encode(p)));
        self.records.extend(record.iter());
    }

    /// Room for another record, growing by a quarter at a time rather than doubling.
    fn reserve(&mut self, words: usize) {
        if self.records.len() + words > self.records.capacity() {
            let more = (self.records.len() / 4).max(1024);
            self.records.reserve_exact(more.max(words));
        }
    }

    fn grow_index(&mut self) {
        let old = std::mem::take(&mut self.index);
        self.index = vec![Slot::EMPTY; (2 * old.len()).max(64)];
        let mask = self.index.len() - 1;
        for slot in old.into_iter().filter(|slot| !slot.is_empty()) {
            // All keys are different: the first empty place is its own.
            let mut place = slot.tag as usize & mask;
            while !self.index[place].is_empty() {
                place = (place + 1) & mask;
            }
            self.index[place] = slot;
        }
    }

    /// Drops the oldest record that was not used since it was queued.
    fn evict(&mut self) {
        for tries in 0..=MAX_SPARED {
            let position = self.front;
            let key = self.key_at(position);
            let slot = self.slot(key);
            let head = self.word(position + HEADER - 1);
            let words = HEADER + usize::from(head & !USED);
            if head & USED == 0 || tries == MAX_SPARED {
                self.records.drain(..words);
                self.front += words;
                self.unlink(slot);
                self.count -= 1;
                return;
            }
            self.records[HEADER - 1] &= !USED;
            self.index[slot] = Slot::new(key, self.front + self.records.len());
            self.records.rotate_left(words);
            self.front += words;
        }
    }

    /// Empties a slot and closes the gap that this leaves in the chain.
    fn unlink(&mut self, mut gap: usize) {
        let mask = self.index.len() - 1;
        let mut slot = gap;
        self.index[gap] = Slot::EMPTY;
        loop {
            slot = (slot + 1) & mask;
            if self.index[slot].is_empty() {
                return;
            }
            let home = self.index[slot].tag as usize & mask;
            // Movable unless its home lies behind the gap, seen around the ring.
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(gap) & mask {
                self.index[gap] = self.index[slot];
                self.index[slot] = Slot::EMPTY;
                gap = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::{History, PackedMove, moves::legal_moves},
        network::{Batch, Evaluator, hash::HashEvaluator},
    };

    fn moves() -> Vec<PackedMove> {
        legal_moves(History::default().position()).collect()
    }

    /// Positions with these keys, evaluated by the hash evaluator.
    fn evaluated(keys: impl IntoIterator<Item = u64>) -> Batch {
        let mut batch = Batch::default();
        let moves = moves();
        for key in keys {
            batch.push(key, &moves[..1 + key as usize % moves.len()]);
        }
        HashEvaluator.evaluate(&mut batch).unwrap();
        batch
    }

    /// Inserts such positions.
    fn insert(cache: &Cache, keys: impl IntoIterator<Item = u64>) -> Batch {
        let batch = evaluated(keys);
        for index in 0..batch.len() {
            cache.insert(batch.key(index), batch.value(index), batch.policy(index));
        }
        batch
    }

    fn mixed(i: u64) -> u64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_hit_is_what_a_miss_would_have_stored() {
        let cache = Cache::new(1000);
        let keys: Vec<u64> = (0..500).map(mixed).collect();
        let batch = insert(&cache, keys.iter().copied());
        assert_eq!((cache.len(), cache.usage().permille), (500, 500));
        for (index, &key) in keys.iter().enumerate() {
            let mut policy = vec![0.0; batch.moves(index).len()];
            assert_eq!(cache.look_up(key, &mut policy), Some(batch.value(index)));
            for (hit, miss) in policy.iter().zip(batch.policy(index)) {
                assert_eq!(prior::encode(*hit), prior::encode(*miss));
            }
        }
        assert_eq!(cache.look_up(12345, &mut [0.0; 3]), None);
    }

    #[test]
    fn the_limit_holds_and_used_entries_stay() {
        for limit in [1, 100, 2048] {
            let cache = Cache::new(limit);
            let favourite = mixed(1 << 40);
            insert(&cache, [favourite]);
            let mut policy = vec![0.0; 1 + favourite as usize % moves().len()];
            for round in 0..40u64 {
                let first = round * limit as u64 / 4;
                insert(&cache, (first..first + limit as u64 / 4).map(mixed));
                assert!(cache.len() <= limit.next_multiple_of(64));
                assert!(limit == 1 || cache.look_up(favourite, &mut policy).is_some());
            }
            // What is found is right.
            for i in 0..10 * limit as u64 {
                let mut policy = vec![0.0; 1 + mixed(i) as usize % moves().len()];
                if let Some(value) = cache.look_up(mixed(i), &mut policy) {
                    assert_eq!(value, evaluated([mixed(i)]).value(0));
                }
            }
        }
    }

    #[test]
    fn the_index_survives_any_order() {
        // Keys that all want the same few slots.
        let mut shard = CacheShard::new(50);
        for i in 0..5000u64 {
            let key = ((i * 7919 % 101) << 32) | (i % 3);
            shard.insert(
                key,
                Value {
                    wl: key as f32,
                    ..Value::default()
                },
                &[1.0],
            );
            if i % 5 == 0 {
                shard.probe(key, &mut [0.0]);
            }
            let used: Vec<Slot> = shard
                .index
                .iter()
                .copied()
                .filter(|slot| !slot.is_empty())
                .collect();
            assert_eq!(used.len(), shard.count);
            for slot in used {
                let key = shard.key_at(slot.position as usize);
                assert_eq!(shard.index[shard.slot(key)], slot);
                assert_eq!(slot.tag, key as u32);
            }
        }
    }

    #[test]
    fn a_position_takes_less_than_a_hundred_bytes() {
        let mut shard = CacheShard::new(100_000);
        for i in 0..100_000 {
            shard.insert(mixed(i), Value::default(), &[0.03; 30]);
        }
        let bytes = 2 * shard.records.capacity() + size_of::<Slot>() * shard.index.len();
        assert!(bytes <= 125 * shard.count, "{} bytes", bytes / shard.count);
    }
}
