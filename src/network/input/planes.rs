//! Input planes, still packed as bit masks: those of one position in lc0's formats ([`Planes`]), and those of all
//! positions of a batch in any encoding ([`Inputs`]). They become floats in a backend's input buffer only.

use std::ops::Range;

pub use crate::lc0::format::PLANES;

/// Planes of one history step.
pub(super) const PLANES_PER_STEP: usize = 13;

/// Positions that a network sees: the current one and those before it.
pub const HISTORY: usize = 8;

/// The input of one position, still packed: 112 bit masks and the one plane that is not binary.
///
/// Bit 0 is a1, bit 63 is h8, seen from the side to move (ranks flipped for Black), after the board
/// transform of the canonical formats.
#[derive(Clone, Debug, PartialEq)]
pub struct Planes {
    /// Squares on which each plane is set.
    pub masks: [u64; PLANES],
    /// The value that the set squares of the rule-50 plane (109) hold; 1 on all other planes.
    pub rule50: f32,
    /// Whether Black is to move, so that moves map to policy indices with ranks flipped.
    pub black_to_move: bool,
    /// The board transform of canonical formats: bit 0 flip files, bit 1 mirror ranks, bit 2 transpose.
    pub transform: u8,
}

impl Planes {
    /// Empty planes, White to move.
    pub fn empty() -> Planes {
        Planes {
            masks: [0; PLANES],
            rule50: 0.0,
            black_to_move: false,
            transform: 0,
        }
    }
}

/// The size and kind of an encoding's planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneLayout {
    /// Planes of a position.
    pub planes: usize,
    /// Those of them whose set squares hold a number instead of 1, the same on the whole plane; ascending.
    pub scalar_planes: &'static [usize],
}

impl PlaneLayout {
    /// Floats that a position takes in the input tensor.
    pub fn floats(&self) -> usize {
        self.planes * 64
    }
}

/// How the board was turned for a network, so that moves are turned the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orientation {
    /// Whether Black is to move and ranks are flipped.
    pub black_to_move: bool,
    /// The board transform of canonical formats: bit 0 flip files, bit 1 mirror ranks, bit 2 transpose.
    pub transform: u8,
}

/// The planes of several positions, one behind the other, in one encoding.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    masks: Vec<u64>,
    scalars: Vec<f32>,
    orientations: Vec<Orientation>,
    /// Policy rows of the moves, one position after the other.
    rows: Vec<u16>,
    /// Where the rows of each position end.
    row_ends: Vec<usize>,
}

impl Inputs {
    /// This number of positions of this layout, all planes empty.
    pub fn empty(layout: PlaneLayout, positions: usize) -> Inputs {
        Inputs {
            masks: vec![0; positions * layout.planes],
            scalars: vec![0.0; positions * layout.scalar_planes.len()],
            orientations: vec![Orientation::default(); positions],
            rows: Vec::new(),
            row_ends: Vec::new(),
        }
    }

    /// Removes all positions, keeps the memory.
    pub fn clear(&mut self) {
        self.masks.clear();
        self.scalars.clear();
        self.orientations.clear();
        self.rows.clear();
        self.row_ends.clear();
    }

    /// Adds a position: all its planes, the numbers of its scalar planes, and how its board was turned.
    pub fn push(&mut self, masks: &[u64], scalars: &[f32], orientation: Orientation) {
        self.masks.extend_from_slice(masks);
        self.scalars.extend_from_slice(scalars);
        self.orientations.push(orientation);
    }

    /// Adds the positions of other inputs.
    pub fn append(&mut self, other: &Inputs) {
        self.masks.extend_from_slice(&other.masks);
        self.scalars.extend_from_slice(&other.scalars);
        self.orientations.extend_from_slice(&other.orientations);
        let rows = self.rows.len();
        self.rows.extend_from_slice(&other.rows);
        self.row_ends
            .extend(other.row_ends.iter().map(|end| end + rows));
    }

    /// Adds the policy rows of the moves of the position that was added last, then those of the moves' classes, if the
    /// network has any.
    pub fn push_rows(&mut self, rows: impl Iterator<Item = u16>) {
        self.rows.extend(rows);
        self.row_ends.push(self.rows.len());
    }

    /// The policy rows of a position's moves, and of their classes; none if they were not added.
    pub fn move_rows(&self, index: usize) -> &[u16] {
        let end = |index: usize| self.row_ends.get(index).copied().unwrap_or(0);
        let start = index.checked_sub(1).map_or(0, end);
        self.rows.get(start..end(index)).unwrap_or_default()
    }

    /// The masks of a position, whose encoding has this layout.
    pub fn masks(&self, layout: PlaneLayout, index: usize) -> &[u64] {
        &self.masks[index * layout.planes..(index + 1) * layout.planes]
    }

    /// The numbers on the scalar planes of a position, whose encoding has this layout.
    pub fn scalars(&self, layout: PlaneLayout, index: usize) -> &[f32] {
        let count = layout.scalar_planes.len();
        &self.scalars[index * count..(index + 1) * count]
    }

    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.orientations.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.orientations.is_empty()
    }

    /// How the board of a position was turned.
    pub fn orientation(&self, index: usize) -> Orientation {
        self.orientations[index]
    }

    /// Some of the positions, whose encoding has this layout.
    pub fn rows(&self, layout: PlaneLayout, range: Range<usize>) -> InputRows<'_> {
        let (planes, scalars) = (layout.planes, layout.scalar_planes.len());
        InputRows {
            layout,
            masks: &self.masks[range.start * planes..range.end * planes],
            scalars: &self.scalars[range.start * scalars..range.end * scalars],
            inputs: self,
            start: range.start,
            count: range.len(),
            temperature: 1.0,
        }
    }
}

/// Consecutive positions of [`Inputs`].
#[derive(Clone, Copy, Debug)]
pub struct InputRows<'a> {
    layout: PlaneLayout,
    masks: &'a [u64],
    scalars: &'a [f32],
    inputs: &'a Inputs,
    /// The first of them.
    start: usize,
    count: usize,
    temperature: f32,
}

impl InputRows<'_> {
    /// The same positions, whose policy is wanted at this softmax temperature (> 0); otherwise it is 1.
    pub fn at_temperature(self, temperature: f32) -> Self {
        InputRows {
            temperature,
            ..self
        }
    }

    /// The softmax temperature at which logits become probabilities.
    pub fn temperature(&self) -> f32 {
        self.temperature
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Writes them as they are: for each position a byte for each rank of each plane, and the numbers of its scalar
    /// planes. The rest of `masks` and `scalars` stays as it is.
    pub fn write_packed(&self, masks: &mut [u8], scalars: &mut [f32]) {
        let (bytes, _) = masks.as_chunks_mut::<8>();
        for (mask, bytes) in self.masks.iter().zip(bytes) {
            *bytes = mask.to_le_bytes();
        }
        for (scalar, out) in self.scalars.iter().zip(scalars) {
            *out = *scalar;
        }
    }

    /// Writes the policy rows of their moves, `slots` places a position, with -1 behind its moves; the rest of `out`
    /// stays as it is.
    ///
    /// # Errors
    /// When a position has more moves than that.
    pub fn write_moves(&self, slots: usize, out: &mut [i16]) -> Result<(), String> {
        let places = out.chunks_exact_mut(slots).take(self.count);
        let mut fits = true;
        for (index, places) in places.enumerate() {
            let rows = self.inputs.move_rows(self.start + index);
            fits &= rows.len() <= slots;
            places.fill(-1);
            for (place, &row) in places.iter_mut().zip(rows) {
                // Policy vectors have far fewer entries than this type has numbers.
                *place = row.cast_signed();
            }
        }
        if fits {
            Ok(())
        } else {
            Err(format!("a position has more than {slots} legal moves"))
        }
    }

    /// Writes them as floats, position by position; the rest of `floats` stays as it is.
    pub fn write(&self, floats: &mut [f32]) {
        let (planes, scalars) = (self.layout.planes, self.layout.scalar_planes.len());
        let rows = floats.chunks_exact_mut(self.layout.floats());
        for (index, out) in rows.take(self.count).enumerate() {
            write_planes(
                &self.masks[index * planes..][..planes],
                self.layout.scalar_planes,
                &self.scalars[index * scalars..][..scalars],
                out,
            );
        }
    }
}

/// Writes the planes of one position as floats, 64 a plane, a1 first, h8 last. Set squares hold 1, except on the planes
/// that are listed, where they hold the scalar in the same place.
pub(super) fn write_planes(
    masks: &[u64],
    scalar_planes: &[usize],
    scalars: &[f32],
    out: &mut [f32],
) {
    let (squares, _) = out.as_chunks_mut::<64>();
    for (index, (mask, squares)) in masks.iter().zip(squares).enumerate() {
        let scalar = scalar_planes.iter().position(|&plane| plane == index);
        let value = scalar.map_or(1.0, |place| scalars[place]);
        match *mask {
            u64::MAX => squares.fill(value),
            mut rest => {
                squares.fill(0.0);
                while rest != 0 {
                    squares[rest.trailing_zeros() as usize] = value;
                    rest &= rest - 1;
                }
            }
        }
    }
}
