//! Training data: games to packed records, positions to label, labels from a UCI engine, statistics.
//!
//! `scorn dataset pgn` turns games into records, `sample` makes positions that games lack, `visit` takes those that our
//! own search visits, `label` asks a teacher about them, `stats` counts. `networks/training` reads the records.
//! Everything but a label is decided by seed and inputs. What was begun is only continued with the same ones, and bad games
//! and records are named.

pub mod label;
pub mod pgn;
pub mod record;
pub mod sample;
pub mod stats;
pub mod visit;

/// FNV-1a, continued from `hash` (0 to start): stable over versions and machines, unlike the standard library's.
pub fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    let start = if hash == 0 {
        0xcbf2_9ce4_8422_2325
    } else {
        hash
    };
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
