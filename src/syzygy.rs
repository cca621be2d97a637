//! Endgame tablebases: exact results in the tree (WDL), and at the root the moves that keep them (DTZ).
//!
//! WDL tables ignore how many moves have passed since the last capture, so the tree asks only right after captures and
//! pawn moves. At the root the 50-move counter is known, and DTZ tables tell which moves still win in time; where there are
//! none, WDL tables at least tell which moves keep the result.

use std::{
    collections::HashSet,
    fs::{self, DirEntry},
    path::Path,
};

use parking_lot::Mutex;
use shakmaty::{Chess, Position};
use shakmaty_syzygy::{Dtz, SyzygyError, Tablebase, Wdl};
use thiserror::Error;

use crate::chess::{History, PackedMove};

/// Separates folders in the `SyzygyPath` option.
const SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

/// Rank of a root move that keeps a sure win; of one that surely loses, the negative.
const SURE: i32 = 1000;

/// The last ply at which a win is no draw by the 50-move rule.
const LAST_PLY: u32 = 99;

/// Tables of which it is said that they are not right. The rest of a damaged collection is not worth a line each.
const MOST_NAMED: usize = 8;

/// Open tables.
#[derive(Debug)]
pub struct Tables {
    tables: Tablebase<Chess>,
    files: usize,
    faults: Mutex<Faults>,
}

/// A move, as the tables see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMove {
    /// The move.
    pub m: PackedMove,
    /// Larger is better; equal for moves that keep the same result.
    rank: i32,
    /// Plies to the next capture or pawn move, as far as they are known: positive if the mover wins, negative if it loses.
    pub distance: i32,
    /// 1 or -1 if the mover is sure to win or to lose, the 50-move rule included.
    pub result: Option<i8>,
}

impl TableMove {
    /// Larger is better: sure wins, wins that the 50-move rule may spoil, draws, losses that it may save, sure losses.
    pub fn rank(&self) -> i32 {
        self.rank
    }
}

struct Judged {
    rank: i32,
    distance: i32,
    result: Option<i8>,
}

/// What was found to be wrong.
#[derive(Debug, Default)]
struct Faults {
    /// Kinds and names of tables.
    known: HashSet<String>,
    untold: Vec<String>,
}

impl Faults {
    fn note(&mut self, error: &SyzygyError) {
        // Which tables are missing is the user's choice: one of each kind is named.
        let key = match error {
            SyzygyError::MissingTable { metric, .. } => format!("missing {metric}"),
            SyzygyError::ProbeFailed {
                metric, material, ..
            } => format!("{metric} {material}"),
            SyzygyError::Castling | SyzygyError::TooManyPieces => return,
        };
        self.add(&key, || match error {
            SyzygyError::MissingTable { metric, material } => format!(
                "there is no {} table for {material}, and others may be missing: such positions are searched",
                metric.to_string().to_uppercase()
            ),
            _ => format!("{error}: it is left out"),
        });
    }

    /// Adds what is to be told, if it was not told under this name.
    fn add(&mut self, key: &str, text: impl Fn() -> String) {
        if self.known.len() < MOST_NAMED && self.known.insert(key.to_owned()) {
            self.untold.push(format!("SyzygyPath: {}", text()));
        }
    }
}

/// The moves that keep the best result which is still possible, or `None` if the tables do not know. With `fastest` only
/// those winning moves that get nearest to the next capture or pawn move.
pub fn best_moves(mut moves: Vec<TableMove>, fastest: bool) -> Option<Vec<PackedMove>> {
    let best = moves.iter().map(|m| m.rank).max()?;
    moves.retain(|m| m.rank == best);
    if best > 0 && fastest {
        let nearest = moves.iter().map(|m| m.distance).min()?;
        moves.retain(|m| m.distance == nearest);
    }
    Some(moves.into_iter().map(|m| m.m).collect())
}

fn sure_result(wdl: Wdl) -> i8 {
    match wdl {
        Wdl::Win => 1,
        Wdl::Loss => -1,
        Wdl::Draw | Wdl::CursedWin | Wdl::BlessedLoss => 0,
    }
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
    /// Opens all tables in the folders of `path` (separated by `:`, on Windows by `;`). A folder that cannot be read is left
    /// out.
    ///
    /// # Errors
    /// When no folder holds a table.
    pub fn open(path: &str) -> Result<Tables, TablesError> {
        let mut tables = Tablebase::new();
        let mut faults = Faults::default();
        let mut files = 0;
        let mut unreadable = None;
        for folder in path.split(SEPARATOR).filter(|folder| !folder.is_empty()) {
            let entries = fs::read_dir(Path::new(folder)).and_then(Iterator::collect);
            let entries: Vec<DirEntry> = entries.unwrap_or_else(|error| {
                let left_out =
                    || format!("cannot read the folder '{folder}': {error}: it is left out");
                faults.add(folder, left_out);
                let folder = folder.to_owned();
                unreadable.get_or_insert(TablesError::Folder { folder, error });
                Vec::new()
            });
            for entry in entries {
                let file = entry.path();
                let is_table = file
                    .extension()
                    .is_some_and(|extension| extension == "rtbw" || extension == "rtbz");
                match is_table.then(|| tables.add_file(&file)) {
                    None => {}
                    Some(Ok(())) => files += 1,
                    Some(Err(error)) => {
                        let file = file.display().to_string();
                        faults.add(&file, || format!("{file}: {error}: it is left out"));
                    }
                }
            }
        }
        if files == 0 {
            return Err(unreadable.unwrap_or_else(|| TablesError::Empty(path.to_owned())));
        }
        Ok(Tables {
            tables,
            files,
            faults: Mutex::new(faults),
        })
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
        let probed = self.tables.probe_wdl_after_zeroing(position);
        Some(sure_result(self.noted(probed)?))
    }

    /// The same for any position, with the plies to the next capture or pawn move of the side that wins: from DTZ tables,
    /// which know the 50-move rule, or, right after a capture or pawn move, from WDL tables alone (then 0 plies).
    pub fn verdict(&self, position: &Chess) -> Option<(i8, u32)> {
        if !self.covers(position) {
            return None;
        }
        let Some(dtz) = self.noted(self.tables.probe_dtz(position)) else {
            return self.result(position).map(|result| (result, 0));
        };
        let dtz = dtz.ignore_rounding().0;
        let is_in_time = dtz.unsigned_abs() + position.halfmoves() <= LAST_PLY;
        let result = if is_in_time { dtz.signum() as i8 } else { 0 };
        Some((result, dtz.unsigned_abs()))
    }

    /// What the tables say about each legal move, or `None` if they do not know all of them. Without DTZ tables the WDL tables
    /// tell which moves keep the result, but not how to get on, and nothing of the 50-move rule.
    pub fn moves(&self, history: &History) -> Option<Vec<TableMove>> {
        if !self.covers(history.position()) {
            return None;
        }
        self.moves_by(history, Tables::by_dtz)
            .or_else(|| self.moves_by(history, Tables::by_wdl))
    }

    fn moves_by(
        &self,
        history: &History,
        judge: impl Fn(&Tables, &Chess, bool, i32) -> Option<Judged>,
    ) -> Option<Vec<TableMove>> {
        let position = history.position();
        let judged = position.legal_moves().into_iter().map(|m| {
            let mut after = position.clone();
            after.play_unchecked(m);
            let judged = judge(self, &after, m.is_zeroing(), position.halfmoves() as i32)?;
            Some(TableMove {
                m: PackedMove::pack(m),
                rank: judged.rank,
                distance: judged.distance,
                result: judged.result,
            })
        });
        judged.collect()
    }

    fn by_dtz(&self, after: &Chess, is_zeroing: bool, rule50: i32) -> Option<Judged> {
        let distance = self.noted(self.distance(after, is_zeroing))?;
        let is_sure = match is_zeroing {
            // One ply, or more than a hundred where the fifty moves after it do not suffice.
            true => distance.abs() == 1,
            false => distance != 0 && distance.abs() + rule50 <= LAST_PLY as i32,
        };
        Some(Judged {
            rank: rank(distance, rule50, is_zeroing),
            distance,
            result: is_sure.then_some(distance.signum() as i8),
        })
    }

    fn by_wdl(&self, after: &Chess, is_zeroing: bool, rule50: i32) -> Option<Judged> {
        if after.is_checkmate() {
            return Some(Judged {
                rank: SURE,
                distance: 1,
                result: Some(1),
            });
        }
        let wdl = -self.noted(self.tables.probe_wdl_after_zeroing(after))?;
        let (rank, sign) = match wdl {
            Wdl::Win => (SURE, 1),
            Wdl::CursedWin => (1, 0),
            Wdl::Draw => (0, 0),
            Wdl::BlessedLoss => (-1, 0),
            Wdl::Loss => (-SURE, -1),
        };
        // With some of the fifty moves gone, a win may come too late.
        let is_sure = sign != 0 && (is_zeroing || rule50 == 0);
        Some(Judged {
            rank,
            distance: sign,
            result: is_sure.then_some(sign as i8),
        })
    }

    /// What is wrong with the tables, as far as it has shown and was not told before.
    pub fn new_faults(&self) -> Vec<String> {
        std::mem::take(&mut self.faults.lock().untold)
    }

    /// The answer of a probe; what is wrong with a table is noted once.
    fn noted<T>(&self, probed: Result<T, SyzygyError>) -> Option<T> {
        match probed {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.faults.lock().note(&error);
                None
            }
        }
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
