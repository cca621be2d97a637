//! Endgame tablebases: exact results in the tree (WDL), and at the root the moves that keep them (DTZ).
//!
//! WDL tables ignore how many moves have passed since the last capture, so the tree asks only right after captures and
//! pawn moves. At the root the 50-move counter is known, and DTZ tables tell which moves still win in time.

use std::path::Path;

use shakmaty::{Chess, Position};
use shakmaty_syzygy::{Dtz, SyzygyError, Tablebase, Wdl};
use thiserror::Error;

use crate::chess::{History, PackedMove};

/// Separates folders in the `SyzygyPath` option.
const SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

/// Rank of a root move that keeps a sure win; of one that surely loses, the negative.
const SURE: i32 = 1000;

/// Open tables.
#[derive(Debug)]
pub struct Tables {
    tables: Tablebase<Chess>,
    files: usize,
}

/// Why no tables could be opened.
#[derive(Debug, Error)]
pub enum TablesError {
    /// A folder cannot be read.
    #[error("SyzygyPath: cannot read the folder '{folder}': {error}")]
    Folder {
        /// As given in the option.
        folder: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The folders hold no tables.
    #[error("SyzygyPath: no tables (*.rtbw, *.rtbz) in '{0}'")]
    Empty(String),
}

impl Tables {
    /// Opens all tables in the folders of `path` (separated by `:`, on Windows by `;`).
    ///
    /// # Errors
    /// When a folder cannot be read or none holds a table.
    pub fn open(path: &str) -> Result<Tables, TablesError> {
        let mut tables = Tablebase::new();
        let mut files = 0;
        for folder in path.split(SEPARATOR).filter(|folder| !folder.is_empty()) {
            files +=
                tables
                    .add_directory(Path::new(folder))
                    .map_err(|error| TablesError::Folder {
                        folder: folder.to_owned(),
                        error,
                    })?;
        }
        if files == 0 {
            return Err(TablesError::Empty(path.to_owned()));
        }
        Ok(Tables { tables, files })
    }

    /// How many tables there are, and for how many pieces.
    pub fn describe(&self) -> String {
        format!(
            "{} tablebase files for up to {} pieces",
            self.files,
            self.tables.max_pieces()
        )
    }

    /// The result for the side to move (-1, 0, 1; wins that the 50-move rule spoils are draws), if the tables know it:
    /// after a capture or pawn move, without castling rights.
    pub fn result(&self, position: &Chess) -> Option<i8> {
        if position.halfmoves() != 0 || !self.covers(position) {
            return None;
        }
        match self.tables.probe_wdl_after_zeroing(position).ok()? {
            Wdl::Win => Some(1),
            Wdl::Loss => Some(-1),
            Wdl::Draw | Wdl::CursedWin | Wdl::BlessedLoss => Some(0),
        }
    }

    /// The root moves that keep the best result which is still possible, or `None` if the tables do not know. With
    /// `fastest`, or once the game repeats itself, only those winning moves that get nearest to the next capture or
    /// pawn move.
    pub fn root_moves(&self, history: &History, fastest: bool) -> Option<Vec<PackedMove>> {
        let position = history.position();
        if !self.covers(position) {
            return None;
        }
        let mut moves = Vec::new();
        for m in position.legal_moves() {
            let mut after = position.clone();
            after.play_unchecked(m);
            let distance = self.distance(&after, m.is_zeroing()).ok()?;
            let rank = rank(distance, position.halfmoves() as i32, m.is_zeroing());
            moves.push((PackedMove::pack(m), rank, distance));
        }
        let best = moves.iter().map(|&(_, rank, _)| rank).max()?;
        moves.retain(|&(_, rank, _)| rank == best);
        if best > 0 && (fastest || history.last().repetitions > 0) {
            let nearest = moves.iter().map(|&(.., distance)| distance).min()?;
            moves.retain(|&(.., distance)| distance == nearest);
        }
        Some(moves.into_iter().map(|(m, ..)| m).collect())
    }

    fn covers(&self, position: &Chess) -> bool {
        position.board().occupied().count() <= self.tables.max_pieces()
            && position.castles().is_empty()
    }

    /// Plies until the next capture or pawn move, positive if the side that has just moved wins, negative if it loses.
    fn distance(&self, after: &Chess, was_zeroing: bool) -> Result<i32, SyzygyError> {
        if after.is_checkmate() {
            return Ok(1);
        }
        if was_zeroing {
            return Ok(Dtz::before_zeroing(-self.tables.probe_wdl_after_zeroing(after)?).0);
        }
        let reply = self.tables.probe_dtz(after)?.ignore_rounding();
        Ok(-reply.0 - reply.signum())
    }
}

/// Larger is better: sure wins, wins the 50-move rule may spoil, draws, losses it may save, sure losses.
fn rank(distance: i32, rule50: i32, is_zeroing: bool) -> i32 {
    let plies = distance.abs() + rule50;
    match distance.signum() {
        1 if plies <= 99 || (is_zeroing && distance == 1) => SURE,
        1 => (SURE - plies).max(1),
        -1 if 2 * distance.abs() + rule50 < 100 => -SURE,
        -1 => (plies - SURE).min(-1),
        _ => 0,
    }
}
