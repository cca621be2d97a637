//! Endgame tablebases: exact results in the tree (WDL), and at the root the moves that keep them (DTZ).
//!
//! WDL tables ignore how many moves have passed since the last capture, so the tree probes only right after captures
//! and pawn moves. At the root the 50-move counter is known, and DTZ tables show which moves still win in time;
//! without them, WDL tables show which moves keep the result.

use std::{
    collections::HashSet,
    fs::{self, DirEntry},
    path::Path,
};

use parking_lot::Mutex;
use shakmaty::{Chess, Position};
use shakmaty_syzygy::{Dtz, ProbeError, SyzygyError, Tablebase, Wdl};
use thiserror::Error;

use crate::chess::{History, PackedMove};

/// Separates folders in the `SyzygyPath` option.
const SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

/// Rank of a root move that the tables call a win; negative for a loss. It is certain where the move has a result: with
/// WDL tables alone the fifty-move rule may spoil it.
const TABLE_WIN: i32 = 1000;

/// The last ply at which a win is not a draw by the 50-move rule.
const LAST_PLY: u32 = 99;
/// Number of plies after [`LAST_PLY`] from which it is too late whatever the table's rounding.
const ROUNDING: i32 = 3;

/// Maximum number of reported faults, so that a damaged collection does not flood the output.
const MAX_REPORTED: usize = 8;

/// Open tablebases.
#[derive(Debug)]
pub struct Tables {
    tables: Tablebase<Chess>,
    files: usize,
    faults: Mutex<Faults>,
}

/// A move with its tablebase result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMove {
    /// The move.
    pub m: PackedMove,
    /// Larger is better; equal for moves that keep the same result.
    rank: i32,
    /// Plies to the next capture or pawn move, as far as they are known: positive if the mover wins, negative if it
    /// loses.
    pub distance: i32,
    /// The mover's certain result, including the 50-move rule: 1, 0 or -1 for a win, a draw or a loss.
    pub result: Option<i8>,
}

impl TableMove {
    /// Larger is better: certain wins, wins that the 50-move rule may spoil, draws, losses that it may save, certain
    /// losses.
    pub fn rank(&self) -> i32 {
        self.rank
    }

    /// Whether it depends on the 50-move rule who wins, and the tables do not tell, because they have no distances.
    pub fn is_open(&self) -> bool {
        self.rank.abs() == TABLE_WIN && self.result.is_none()
    }
}

struct TableResult {
    rank: i32,
    distance: i32,
    result: Option<i8>,
}

/// Faults of the tables.
#[derive(Debug, Default)]
struct Faults {
    /// Kinds and names of faulty tables.
    reported_keys: HashSet<String>,
    unreported: Vec<String>,
}

impl Faults {
    fn note(&mut self, error: &SyzygyError) {
        // Incomplete sets are the user's choice, so only one missing table of each kind is reported.
        let key = match error {
            SyzygyError::MissingTable { metric, .. } => format!("missing {metric}"),
            SyzygyError::ProbeFailed {
                metric, material, ..
            } => format!("{metric} {material}"),
            SyzygyError::Castling | SyzygyError::TooManyPieces => return,
        };
        self.add(&key, || text(error));
    }

    /// Adds a fault, unless one with this key was added before.
    fn add(&mut self, key: &str, text: impl Fn() -> String) {
        if self.reported_keys.len() < MAX_REPORTED && self.reported_keys.insert(key.to_owned()) {
            self.unreported.push(format!("SyzygyPath: {}", text()));
        }
    }
}

/// A fault in one line: the errors' own texts may hold a backtrace.
fn text(error: &SyzygyError) -> String {
    match error {
        SyzygyError::MissingTable { metric, material } => format!(
            "there is no {} table for {material}, and others may be missing: such positions are searched",
            metric.to_string().to_uppercase()
        ),
        SyzygyError::ProbeFailed {
            metric,
            material,
            error,
        } => {
            let table = format!("{} table of {material}", metric.to_string().to_uppercase());
            match &**error {
                ProbeError::Read { error } => {
                    format!("cannot read the {table}: {error}: it is ignored")
                }
                ProbeError::Magic { .. } | ProbeError::CorruptedTable { .. } => {
                    format!("the {table} is damaged: it is ignored")
                }
            }
        }
        SyzygyError::Castling | SyzygyError::TooManyPieces => error.to_string(),
    }
}

/// The moves that keep the best possible result, or `None` if the tables do not cover the position. With `fastest`
/// only the winning moves that are closest to the next capture or pawn move.
pub fn best_moves(mut moves: Vec<TableMove>, fastest: bool) -> Option<Vec<PackedMove>> {
    let best = moves.iter().map(|m| m.rank).max()?;
    moves.retain(|m| m.rank == best);
    if best > 0 && fastest {
        let nearest = moves.iter().map(|m| m.distance).min()?;
        moves.retain(|m| m.distance == nearest);
    }
    Some(moves.into_iter().map(|m| m.m).collect())
}

fn certain_result(wdl: Wdl) -> i8 {
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
        /// The folder as given in the option.
        folder: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The folders contain no tables.
    #[error("SyzygyPath: no tables (*.rtbw, *.rtbz) in '{0}'")]
    Empty(String),
    /// The folders contain no WDL tables, without which DTZ tables have no results.
    #[error(
        "SyzygyPath: no WDL tables (*.rtbw) in '{0}', without which its DTZ tables (*.rtbz) cannot be used"
    )]
    OnlyDtz(String),
}

impl Tables {
    /// Opens all tables in the folders of `path` (separated by `:`, on Windows by `;`). Unreadable folders are
    /// skipped.
    ///
    /// # Errors
    /// When no folder contains a WDL table.
    pub fn open(path: &str) -> Result<Tables, TablesError> {
        let mut tables = Tablebase::new();
        let mut faults = Faults::default();
        let (mut files, mut has_wdl) = (0, false);
        let mut unreadable = None;
        for folder in path.split(SEPARATOR).filter(|folder| !folder.is_empty()) {
            let entries = fs::read_dir(Path::new(folder)).and_then(Iterator::collect);
            let entries: Vec<DirEntry> = entries.unwrap_or_else(|error| {
                let left_out =
                    || format!("cannot read the folder '{folder}': {error}: it is ignored");
                faults.add(folder, left_out);
                let folder = folder.to_owned();
                unreadable.get_or_insert(TablesError::Folder { folder, error });
                Vec::new()
            });
            for entry in entries {
                let file = entry.path();
                let is = |kind: &str| file.extension().is_some_and(|extension| extension == kind);
                let is_table = is("rtbw") || is("rtbz");
                match is_table.then(|| tables.add_file(&file)) {
                    None => {}
                    Some(Ok(())) => {
                        files += 1;
                        has_wdl |= is("rtbw");
                    }
                    Some(Err(error)) => {
                        let file = file.display().to_string();
                        faults.add(&file, || format!("{file}: {error}: it is ignored"));
                    }
                }
            }
        }
        if files == 0 {
            return Err(unreadable.unwrap_or_else(|| TablesError::Empty(path.to_owned())));
        }
        if !has_wdl {
            return Err(TablesError::OnlyDtz(path.to_owned()));
        }
        Ok(Tables {
            tables,
            files,
            faults: Mutex::new(faults),
        })
    }

    /// The number of tables and of pieces.
    pub fn describe(&self) -> String {
        format!(
            "{} tablebase files for up to {} pieces",
            self.files,
            self.tables.max_pieces()
        )
    }

    /// The result for the side to move (-1, 0, 1; wins that the 50-move rule spoils are draws), if the tables cover
    /// the position: after a capture or pawn move, without castling rights.
    pub fn result(&self, position: &Chess) -> Option<i8> {
        if position.halfmoves() != 0 || !self.covers(position) {
            return None;
        }
        let probed = self.tables.probe_wdl_after_zeroing(position);
        Some(certain_result(self.checked(probed)?))
    }

    /// The result of any position, with the plies to the next capture or pawn move of the winning side: from DTZ
    /// tables, which include the 50-move rule, or, right after a capture or pawn move, from WDL tables alone (then 0
    /// plies).
    pub fn verdict(&self, position: &Chess) -> Option<(i8, u32)> {
        if !self.covers(position) {
            return None;
        }
        let Some(dtz) = self.checked(self.tables.probe_dtz(position)) else {
            return self.result(position).map(|result| (result, 0));
        };
        let dtz = dtz.ignore_rounding().0;
        let is_in_time = dtz.unsigned_abs() + position.halfmoves() <= LAST_PLY;
        let result = if is_in_time { dtz.signum() as i8 } else { 0 };
        Some((result, dtz.unsigned_abs()))
    }

    /// The results of all legal moves, or `None` if the tables do not cover all of them. Without DTZ tables the WDL
    /// tables show which moves keep the result, but neither progress nor the 50-move rule.
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
        table_result: impl Fn(&Tables, &Chess, bool, i32) -> Option<TableResult>,
    ) -> Option<Vec<TableMove>> {
        let position = history.position();
        let moves = position.legal_moves().into_iter().map(|m| {
            let mut after = position.clone();
            after.play_unchecked(m);
            let found = table_result(self, &after, m.is_zeroing(), position.halfmoves() as i32)?;
            Some(TableMove {
                m: PackedMove::pack(m),
                rank: found.rank,
                distance: found.distance,
                result: found.result,
            })
        });
        moves.collect()
    }

    fn by_dtz(&self, after: &Chess, is_zeroing: bool, rule50: i32) -> Option<TableResult> {
        let distance = self.checked(self.distance(after, is_zeroing))?;
        let won_or_lost = Some(distance.signum() as i8);
        let result = match (is_zeroing, distance.abs()) {
            // After a capture or pawn move it is 0 or ±1, or ±101 if the fifty-move rule spoils the result.
            (true, 0..=1) => won_or_lost,
            (true, _) => Some(0),
            (false, 0) => Some(0),
            (false, plies) => match plies + rule50 - LAST_PLY as i32 {
                ..=0 => won_or_lost,
                // A mate on the hundredth ply is in time.
                1..=ROUNDING if rule50 < LAST_PLY as i32 && can_mate(after) => Some(-1),
                1..=ROUNDING => None,
                _ => Some(0),
            },
        };
        let rank = match result {
            // The fifty-move rule does not save it, and the search knows better which defence is the longest.
            Some(-1) => -TABLE_WIN,
            _ => rank_by_distance(distance, rule50, is_zeroing),
        };
        Some(TableResult {
            rank,
            distance,
            result,
        })
    }

    fn by_wdl(&self, after: &Chess, is_zeroing: bool, rule50: i32) -> Option<TableResult> {
        if after.is_checkmate() {
            return Some(TableResult {
                rank: TABLE_WIN,
                distance: 1,
                result: Some(1),
            });
        }
        let wdl = -self.checked(self.tables.probe_wdl_after_zeroing(after))?;
        let (rank, sign) = match wdl {
            Wdl::Win => (TABLE_WIN, 1),
            Wdl::CursedWin => (1, 0),
            Wdl::Draw => (0, 0),
            Wdl::BlessedLoss => (-1, 0),
            Wdl::Loss => (-TABLE_WIN, -1),
        };
        // With some of the fifty moves used, a win may come too late. (So may one of exactly a hundred plies after a
        // move that begins to count, which only distances would tell.)
        let is_sure = sign == 0 || is_zeroing || rule50 == 0;
        Some(TableResult {
            rank,
            distance: sign,
            result: is_sure.then_some(sign as i8),
        })
    }

    /// Faults of the tables that were found since the last call.
    pub fn new_faults(&self) -> Vec<String> {
        std::mem::take(&mut self.faults.lock().unreported)
    }

    /// The result of a probe; a fault of a table is recorded once.
    fn checked<T>(&self, probed: Result<T, SyzygyError>) -> Option<T> {
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

/// Whether the side to move mates with its next move.
fn can_mate(position: &Chess) -> bool {
    position.legal_moves().into_iter().any(|m| {
        let mut after = position.clone();
        after.play_unchecked(m);
        after.is_checkmate()
    })
}

/// Larger is better: certain wins, wins the 50-move rule may spoil, draws, losses it may save. (Certain losses come
/// after these.)
fn rank_by_distance(distance: i32, rule50: i32, is_zeroing: bool) -> i32 {
    let plies = distance.abs() + rule50;
    match distance.signum() {
        1 if plies <= LAST_PLY as i32 || (is_zeroing && distance == 1) => TABLE_WIN,
        1 => (TABLE_WIN - plies).max(1),
        -1 => (plies - TABLE_WIN).min(-1),
        _ => 0,
    }
}
