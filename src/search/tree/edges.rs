//! Storage of legal moves and their priors: segments that workers fill without the tree's lock.
//!
//! Edges are most of the tree's memory and are written once. Each worker has a segment of its own and writes the
//! edges of its leaves there while other threads use the tree. Written edges become visible when a node refers to
//! them, which happens under the lock. The words are atomic (with relaxed order, which costs no more than plain
//! words) only because readers and a writer share a segment.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{TreeFull, node::Edge};
use crate::chess::PackedMove;

/// Indices per segment: a power of two. The first segments of a tree are shorter, so that a tree of ten nodes takes
/// kilobytes.
const SEGMENT: u32 = 1 << 14;

/// Edges of a tree's first segment, enough for the moves of any position; each further one is twice as long, up to
/// [`SEGMENT`].
const FIRST_SEGMENT: u32 = 1 << 8;

/// Number of segments that 32-bit indices can address.
const MAX_SEGMENTS: usize = 1 << 18;

/// Maximum number of edges of a position: no legal position has more than 218 moves, and an `EdgeRange` at most 255.
const MAX_EDGES: usize = 255;

type Segment = Arc<[AtomicU32]>;

/// Where the edges of one node are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::search) struct EdgeRange {
    pub start: u32,
    pub len: u8,
}

/// The edges of one node, largest prior first; after a refinement, visited edges come first.
#[derive(Clone, Copy, Debug)]
pub struct Edges<'a>(&'a [AtomicU32]);

impl<'a> Edges<'a> {
    /// All of them.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = Edge> + Clone + use<'a> {
        self.0
            .iter()
            .map(|word| Edge::from_bits(word.load(Ordering::Relaxed)))
    }

    /// The edge at `index`, if there is one.
    #[inline]
    pub fn get(self, index: usize) -> Option<Edge> {
        let word = self.0.get(index)?;
        Some(Edge::from_bits(word.load(Ordering::Relaxed)))
    }

    /// The edge at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn at(self, index: u8) -> Edge {
        Edge::from_bits(self.0[usize::from(index)].load(Ordering::Relaxed))
    }
}

/// All edges of a tree.
#[derive(Debug, Default)]
pub(in crate::search) struct EdgeArena {
    /// Empty where a number is reserved but the segment is not installed.
    segments: Vec<Segment>,
    /// Capacity of the installed segments, in edges.
    installed: usize,
    /// Number of leading segments that were handed over.
    handed_over: usize,
    /// Writers of earlier searches, with their remaining room.
    idle: Vec<EdgeWriter>,
}

impl EdgeArena {
    /// The edges in `range`.
    #[inline]
    pub fn get(&self, range: EdgeRange) -> Edges<'_> {
        if range.len == 0 {
            return Edges(&[]);
        }
        let segment = &self.segments[(range.start / SEGMENT) as usize];
        let offset = (range.start % SEGMENT) as usize;
        Edges(&segment[offset..offset + usize::from(range.len)])
    }

    /// Reorders the edges in `range`, which no node refers to yet.
    pub fn reorder(&self, range: EdgeRange, edges: &[Edge]) {
        for (word, edge) in self.get(range).0.iter().zip(edges) {
            word.store(edge.bits(), Ordering::Relaxed);
        }
    }

    /// Gives the segments that end before the edge at `start` to the writer of another arena; they must not be read
    /// any more.
    pub fn hand_over_before(&mut self, start: u32, writer: &mut EdgeWriter) {
        let end = (start / SEGMENT) as usize;
        for segment in self.segments.iter_mut().take(end).skip(self.handed_over) {
            let segment = std::mem::take(segment);
            if !segment.is_empty() {
                self.installed -= segment.len();
                writer.spare.push_back(segment);
            }
        }
        self.handed_over = self.handed_over.max(end);
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.installed * size_of::<Edge>()
    }

    /// Lends a writer; return it with [`EdgeArena::put_back`].
    pub fn take_writer(&mut self) -> EdgeWriter {
        self.idle.pop().unwrap_or_default()
    }

    /// Takes back a writer with its remaining room.
    pub fn put_back(&mut self, mut writer: EdgeWriter) {
        self.install(&mut writer);
        writer.spare = VecDeque::new();
        self.idle.push(writer);
    }

    /// Makes sure that `writer` can write the edges of `leaves` positions without another reservation.
    ///
    /// # Errors
    /// When the indices are used up.
    pub fn reserve(&mut self, writer: &mut EdgeWriter, leaves: usize) -> Result<(), TreeFull> {
        let mut room = writer.reserved_leaves();
        while room < leaves {
            let number = self.segments.len() as u32;
            if number as usize == MAX_SEGMENTS {
                return Err(TreeFull);
            }
            let len = SEGMENT.min(FIRST_SEGMENT << number.min(16)) as usize;
            writer.reserved.push_back(Reserved { number, len });
            room += len / MAX_EDGES;
            self.segments.push(Segment::default());
        }
        Ok(())
    }

    /// Installs the segments that `writer` has filled.
    pub fn install(&mut self, writer: &mut EdgeWriter) {
        for (number, segment) in writer.fresh.drain(..) {
            self.installed += segment.len();
            self.segments[number as usize] = segment;
        }
    }
}

/// A segment that a writer may create: its number and its length.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    number: u32,
    len: usize,
}

/// Writes edges into segments that belong to one worker at a time.
#[derive(Debug, Default)]
pub(in crate::search) struct EdgeWriter {
    /// The segment being filled, its number and its used length.
    segment: Segment,
    number: u32,
    used: usize,
    /// The next segments, created when they are needed.
    reserved: VecDeque<Reserved>,
    /// Segments that are not installed in the arena yet.
    fresh: Vec<(u32, Segment)>,
    /// Segments to use before new ones are created, oldest first, so that the unused ones are contiguous and their
    /// memory returns to the system.
    spare: VecDeque<Segment>,
    /// Scratch for sorting: before and after.
    given: Vec<Edge>,
    sorted: Vec<Edge>,
}

impl EdgeWriter {
    /// Writes the edges of one position (at most 255). Needs no lock, but reserved room.
    ///
    /// # Errors
    /// When there is no reserved room.
    pub fn write(&mut self, edges: &[Edge]) -> Result<EdgeRange, TreeFull> {
        if self.used + edges.len() > self.segment.len() {
            self.begin_segment()?;
        }
        let words = &self.segment[self.used..self.used + edges.len()];
        for (word, edge) in words.iter().zip(edges) {
            word.store(edge.bits(), Ordering::Relaxed);
        }
        let range = EdgeRange {
            start: self.number * SEGMENT + self.used as u32,
            len: edges.len() as u8,
        };
        self.used += edges.len();
        Ok(range)
    }

    /// Writes the moves of a position with their priors (0..=1), largest first.
    ///
    /// # Errors
    /// When there is no reserved room.
    pub fn write_moves(
        &mut self,
        moves: &[PackedMove],
        policy: &[f32],
    ) -> Result<EdgeRange, TreeFull> {
        self.given.clear();
        let edges = moves.iter().zip(policy).map(|(&m, &p)| Edge::new(m, p));
        self.given.extend(edges);
        let mut sorted = std::mem::take(&mut self.sorted);
        sort_largest_first(&self.given, &mut sorted);
        let range = self.write(&sorted);
        self.sorted = sorted;
        range
    }

    /// The edges that [`EdgeWriter::write_moves`] wrote last, largest prior first.
    pub fn last_written(&self) -> &[Edge] {
        &self.sorted
    }

    /// Minimum number of positions that fit into the reserved segments.
    fn reserved_leaves(&self) -> usize {
        let leaves = |reserved: &Reserved| reserved.len / MAX_EDGES;
        self.reserved.iter().map(leaves).sum()
    }

    fn begin_segment(&mut self) -> Result<(), TreeFull> {
        let Reserved { number, len } = self.reserved.pop_front().ok_or(TreeFull)?;
        self.number = number;
        let make = || (0..len).map(|_| AtomicU32::new(0)).collect();
        let spare = self.spare.pop_front().filter(|spare| spare.len() >= len);
        self.segment = spare.unwrap_or_else(make);
        self.used = 0;
        self.fresh.push((self.number, Arc::clone(&self.segment)));
        Ok(())
    }
}

/// Up to this number of edges, an edge's place is found by counting the larger ones, which needs no branches and is
/// vectorised: for thirty edges, a third of the time of a sort.
const MAX_COUNTED: usize = 64;

/// Edges that are compared side by side.
const SIDE_BY_SIDE: usize = 8;

/// Sorts the edges of a position, no two of which are equal.
fn sort_largest_first(given: &[Edge], sorted: &mut Vec<Edge>) {
    sorted.clear();
    sorted.extend_from_slice(given);
    if given.len() > MAX_COUNTED {
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        return;
    }
    // As signed numbers, which every processor compares in vectors; the places that are left are never larger.
    let signed = |edge: &Edge| (edge.bits() ^ 1 << 31) as i32;
    let mut keys = [i32::MIN; MAX_COUNTED];
    for (key, edge) in keys.iter_mut().zip(given) {
        *key = signed(edge);
    }
    let keys = &keys.as_chunks::<SIDE_BY_SIDE>().0[..given.len().div_ceil(SIDE_BY_SIDE)];
    for edge in given {
        let key = signed(edge);
        let mut larger = [0; SIDE_BY_SIDE];
        for others in keys {
            for (larger, other) in larger.iter_mut().zip(others) {
                *larger += i32::from(*other > key);
            }
        }
        sorted[larger.iter().sum::<i32>() as usize] = *edge;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(count: usize, seed: u16) -> Vec<Edge> {
        (0..count)
            .map(|i| Edge::new(PackedMove::from_bits(seed.wrapping_add(i as u16)), 0.5))
            .collect()
    }

    #[test]
    fn edges_are_in_order_however_many_there_are() {
        let mut sorted = Vec::new();
        for count in [0, 1, 2, 30, MAX_COUNTED, MAX_COUNTED + 1, 218] {
            // Priors in no order, many of them equal: then the move decides.
            let given: Vec<Edge> = (0..count)
                .map(|index| {
                    let prior = (index * 37 % 101 / 7) as f32 / 16.0;
                    Edge::new(PackedMove::from_bits((index * 61 % 509) as u16), prior)
                })
                .collect();
            sort_largest_first(&given, &mut sorted);
            let mut expected = given.clone();
            expected.sort_by(|a, b| b.cmp(a));
            assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn two_writers_do_not_disturb_each_other_and_nothing_is_lost() {
        let mut arena = EdgeArena::default();
        let mut writers = [arena.take_writer(), arena.take_writer()];
        let mut written = Vec::new();
        for round in 0..2000u16 {
            let writer = &mut writers[usize::from(round % 2)];
            arena.reserve(writer, 1).unwrap();
            let list = edges(usize::from(round % 219), round);
            let range = writer.write(&list).unwrap();
            arena.install(writer);
            written.push((range, list));
        }
        for (range, list) in &written {
            assert!(arena.get(*range).iter().eq(list.iter().copied()));
        }
        let words: usize = written.iter().map(|(_, list)| list.len()).sum();
        assert!(
            arena.memory() >= 4 * words && arena.memory() < 4 * words + 5 * 4 * SEGMENT as usize
        );
    }

    #[test]
    fn read_segments_are_handed_over_and_the_rest_stays() {
        let mut arena = EdgeArena::default();
        let mut writer = arena.take_writer();
        let ranges: Vec<EdgeRange> = (0..3000)
            .map(|round| {
                arena.reserve(&mut writer, 1).unwrap();
                writer.write(&edges(40, round)).unwrap()
            })
            .collect();
        arena.put_back(writer);
        let before = arena.memory();
        let mut other = EdgeArena::default();
        let mut writer = other.take_writer();
        for (round, range) in (0..).zip(&ranges) {
            arena.hand_over_before(range.start, &mut writer);
            assert!(arena.get(*range).iter().eq(edges(40, round)));
        }
        // The last segment stays.
        let spare: usize = writer.spare.iter().map(|spare| spare.len()).sum();
        assert_eq!(arena.memory(), 4 * SEGMENT as usize);
        assert_eq!(arena.memory() + 4 * spare, before);
        let spares = writer.spare.len();
        assert!(spares > 7);
        other.reserve(&mut writer, 1).unwrap();
        let range = writer.write(&edges(7, 9)).unwrap();
        assert_eq!(writer.spare.len(), spares - 1);
        other.put_back(writer);
        assert!(other.get(range).iter().eq(edges(7, 9)));
    }

    #[test]
    fn a_returned_writer_continues_its_segment() {
        let mut arena = EdgeArena::default();
        for round in 0..100 {
            let mut writer = arena.take_writer();
            arena.reserve(&mut writer, 256).unwrap();
            writer.write(&edges(30, round)).unwrap();
            arena.put_back(writer);
        }
        // 3000 edges in segments of 256, 512, 1024 and 2048.
        assert_eq!(arena.memory(), 4 * 15 * 256);
    }

    #[test]
    fn a_tree_of_a_few_nodes_takes_kilobytes() {
        let mut arena = EdgeArena::default();
        let mut writer = arena.take_writer();
        for round in 0..10 {
            arena.reserve(&mut writer, 1).unwrap();
            writer.write(&edges(30, round)).unwrap();
        }
        arena.put_back(writer);
        assert!(arena.memory() <= 4096, "{}", arena.memory());
    }

    #[test]
    fn writing_without_room_is_an_error() {
        assert_eq!(EdgeWriter::default().write(&edges(1, 0)), Err(TreeFull));
        let mut arena = EdgeArena::default();
        let mut writer = arena.take_writer();
        assert_eq!(arena.reserve(&mut writer, 1 << 30), Err(TreeFull));
    }
}
