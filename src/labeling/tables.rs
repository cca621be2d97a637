//! Labels by endgame tablebases: exact results, which training takes for certain, and against a bare king the shortest
//! mate.
//!
//! Games between strong players end long before a mate with bishop and knight, and an engine with a fraction of a
//! millisecond does not find it.

use shakmaty::{Board, Chess, Color, Position};

use crate::dataset::record::{MATE, NO_PLIES, Record, SURE_WIN};
use crate::{
    chess::History,
    syzygy::{TableMove, Tables},
};

/// Labels a record with its result, and with the best move if only one move keeps that result. Where the next zeroing
/// move can only be the mate, the distance to zeroing is the distance to mate: then the best move is that of a shortest
/// mate or of the longest defence, and the plies left are known. `position` is that of the record, in either view.
/// Returns whether the tables hold its result.
pub fn apply(record: &mut Record, position: &Chess, tables: &Tables) -> bool {
    let Some(moves) = tables.moves(&History::new(position.clone())) else {
        return false;
    };
    // Among the moves that keep the result: the fastest win, or the slowest loss.
    let worth = |it: &TableMove| (it.rank(), -it.distance);
    let best = moves.iter().rev().max_by_key(|it| worth(it));
    let Some(&best) = best.filter(|best| !best.is_open()) else {
        return false;
    };
    (record.best, record.score, record.plies_left) = (0, 0, NO_PLIES);
    record.alternatives = Default::default();
    let sign = i16::from(best.result.unwrap_or(0));
    record.result = (1 + sign) as u8;
    record.flags |= Record::EXACT;
    record.score = sign * SURE_WIN;
    // WDL tables without DTZ tables give the result, but no distance.
    let verdict = tables.verdict(position);
    let is_mate_known =
        sign != 0 && leads_to_mate(position.board()) && verdict.is_some_and(|(_, plies)| plies > 0);
    if is_mate_known {
        let plies = plies_to_mate(best.distance);
        record.score = sign * (MATE - plies as i16);
        record.plies_left = plies;
    }
    let equals = moves.iter().filter(|other| other.rank() == best.rank());
    if is_mate_known || equals.count() == 1 {
        record.best = Record::pack_move(best.m.unpack(position), position.turn());
    }
    true
}

/// The plies to the mate, given the distance of the best move, positive if it wins. Some tables (KBBvK, KBNvK) are
/// rounded: their distances may be one ply too small. The winner mates, so a win takes an odd number of plies, a loss
/// an even one.
fn plies_to_mate(distance: i32) -> u16 {
    let is_rounded = (distance > 0) == (distance % 2 == 0);
    distance.unsigned_abs() as u16 + u16::from(is_rounded)
}

/// Whether the next zeroing move of a won game can only be the mate: there are no pawns, one side has a bare king, and
/// the other has no piece to spare. (Otherwise, giving a piece away may be the fastest way to a capture.)
fn leads_to_mate(board: &Board) -> bool {
    let has_bare_king = Color::ALL
        .into_iter()
        .any(|color| board.by_color(color).count() == 1);
    let majors = board.rooks_and_queens().count();
    let minors = (board.bishops() | board.knights()).count();
    has_bare_king && board.pawns().is_empty() && matches!((majors, minors), (1, 0) | (0, 2))
}
