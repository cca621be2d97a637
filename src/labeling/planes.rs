//! Games as network inputs: each position before a move as input planes with history and an index of the policy vector,
//! in lc0's or AlphaZero's encoding. Self-play writes lc0's chunks itself; this is for other training programs and for
//! games from other sources.
//!
//! A position is a record of fixed size, little-endian and packed: the planes as masks (u64 each, bit 0 is a1, seen
//! from the side to move), the numbers of the scalar planes (f32 each), the entry of the move played (u16), the result
//! for the side to move (i8: -1, 0, 1, or 2 if nobody knows it), a zero byte, and the plies to the end of the game
//! (u16). In Python:
//!
//! ```text
//! np.dtype([("masks", "<u8", PLANES), ("scalars", "<f4", SCALARS), ("move", "<u2"), ("result", "i1"), ("zero", "i1"),
//!           ("plies_left", "<u2")])
//! ```
//!
//! with 119 planes and 2 scalars (planes 113 and 118) for AlphaZero's encoding, 112 and 1 (plane 109) for lc0's.

use std::io::{self, Write};

use shakmaty::{KnownOutcome, Position};

use crate::{
    chess::History,
    lc0::{AlphaZeroMoves, InputFormat},
    network::input::{Encoding, Inputs},
    options::HistoryFill,
    pgn::Game,
};

/// The result of a game without a known outcome.
const NO_RESULT: i8 = 2;

/// The encodings that games can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PlanesEncoding {
    /// AlphaZero's 119 planes and 8 x 8 x 73 moves.
    #[value(name = "alphazero")]
    AlphaZero,
    /// lc0's 112 classical planes and 1858 moves.
    #[value(name = "lc0")]
    Lc0,
}

impl From<PlanesEncoding> for Encoding {
    fn from(encoding: PlanesEncoding) -> Encoding {
        match encoding {
            PlanesEncoding::AlphaZero => Encoding::AlphaZero(AlphaZeroMoves::SquareMajor),
            PlanesEncoding::Lc0 => Encoding::Lc0(InputFormat::Classical112),
        }
    }
}

/// Bytes of a position.
pub fn record_size(encoding: Encoding) -> usize {
    let layout = encoding.layout();
    layout.planes * 8 + layout.scalar_planes.len() * 4 + 6
}

/// Writes the positions of a game and returns their number.
///
/// # Errors
/// When the output cannot be written.
pub fn write_game(
    game: &Game,
    encoding: Encoding,
    fill: HistoryFill,
    out: &mut impl Write,
) -> io::Result<u64> {
    let mut history = History::new(game.start.clone());
    let layout = encoding.layout();
    let mut inputs = Inputs::default();
    for (ply, &m) in game.moves.iter().enumerate() {
        inputs.clear();
        encoding.encode(history.plies(), &[m], (fill, false), &mut inputs);
        for mask in inputs.masks(layout, 0) {
            out.write_all(&mask.to_le_bytes())?;
        }
        for scalar in inputs.scalars(layout, 0) {
            out.write_all(&scalar.to_le_bytes())?;
        }
        let entry = inputs.move_rows(0).first().copied().unwrap_or_default();
        let turn = history.position().turn();
        let result = match game.outcome {
            None => NO_RESULT,
            Some(KnownOutcome::Draw) => 0,
            Some(KnownOutcome::Decisive { winner }) if winner == turn => 1,
            Some(KnownOutcome::Decisive { .. }) => -1,
        };
        let plies_left = u16::try_from(game.moves.len() - ply).unwrap_or(u16::MAX);
        out.write_all(&entry.to_le_bytes())?;
        out.write_all(&[result.to_le_bytes()[0], 0])?;
        out.write_all(&plies_left.to_le_bytes())?;
        history.push(m);
    }
    Ok(game.moves.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        network::input::{alphazero, encoder, policy_map},
        pgn::Reader,
    };

    const GAME: &[u8] = b"[Result \"0-1\"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n";

    fn records(encoding: PlanesEncoding) -> (Game, Vec<Vec<u8>>) {
        let game = Reader::new(GAME).next().unwrap().unwrap();
        let encoding = Encoding::from(encoding);
        let mut bytes = Vec::new();
        let count = write_game(&game, encoding, HistoryFill::No, &mut bytes).unwrap();
        assert_eq!(bytes.len(), count as usize * record_size(encoding));
        let records = bytes.chunks(record_size(encoding));
        let records = records.map(<[u8]>::to_vec).collect();
        (game, records)
    }

    #[test]
    fn records_hold_planes_moves_and_results() {
        let (game, records) = records(PlanesEncoding::AlphaZero);
        assert_eq!(records.len(), 4);
        let mut history = History::new(game.start.clone());
        for (ply, (record, &m)) in records.iter().zip(&game.moves).enumerate() {
            let planes = alphazero::encode(history.plies(), HistoryFill::No);
            let masks: Vec<u8> = planes.masks.iter().flat_map(|m| m.to_le_bytes()).collect();
            let rest = record.strip_prefix(&masks[..]).unwrap();
            assert_eq!(rest[..4], (ply as f32).to_le_bytes());
            let order = AlphaZeroMoves::SquareMajor;
            let position = history.position();
            let row = alphazero::row(position, m.unpack(position), order);
            assert_eq!(rest[8..10], row.to_le_bytes());
            let result = if ply % 2 == 1 { 1 } else { 0xff };
            assert_eq!(rest[10..], [result, 0, 4 - ply as u8, 0]);
            history.push(m);
        }
    }

    #[test]
    fn lc0s_planes_are_those_of_its_networks() {
        let (game, records) = records(PlanesEncoding::Lc0);
        let mut history = History::new(game.start);
        history.push(game.moves[0]);
        let format = InputFormat::Classical112;
        let planes = encoder::encode(history.plies(), format, HistoryFill::No);
        let masks: Vec<u8> = planes.masks.iter().flat_map(|m| m.to_le_bytes()).collect();
        assert!(records[1].starts_with(&masks));
        let index = policy_map::index(game.moves[1], true, 0) as u16;
        assert_eq!(records[1][112 * 8 + 4..][..2], index.to_le_bytes());
    }
}
