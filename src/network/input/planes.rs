//! The input planes of a position, still packed as bit masks.

/// Number of input planes of an lc0 network.
pub const PLANES: usize = 112;

/// Planes of one history step.
pub(super) const PLANES_PER_STEP: usize = 13;

/// Positions of the past, with the current one, that a network sees.
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
    /// Planes on which nothing is set, White to move.
    pub fn empty() -> Planes {
        Planes {
            masks: [0; PLANES],
            rule50: 0.0,
            black_to_move: false,
            transform: 0,
        }
    }
}
