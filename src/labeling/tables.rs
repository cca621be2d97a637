//! Endgame tablebases as teacher: exact results, and against a bare king the way to the mate.
//!
//! Games between strong players end long before a king is mated by bishop and knight, and a teacher that may think for
//! a fraction of a millisecond does not see that far. The tables know it.

use shakmaty::{Board, Chess, Color, Position};

use crate::dataset::record::{MATE, NO_PLIES, Record, SURE_WIN};
use crate::{
    chess::History,
    syzygy::{TableMove, Tables},
};

/// Labels a record with its result, and with the move that keeps it if only one does. Where nothing but the mate can be
/// the next capture or pawn move, the tables' way there is the way to the mate: then the move is that of a shortest
/// one, or of the longest defence, and the plies left are known. `position` is the record's. Whether the tables know
/// it.
pub fn apply(record: &mut Record, position: &Chess, tables: &Tables) -> bool {
    let Some(moves) = tables.moves(&History::new(position.clone())) else {
        return false;
    };
    // Of moves that keep the result the fastest win, or the slowest loss.
    let worth = |it: &TableMove| (it.rank(), -it.distance);
    let Some(&best) = moves.iter().rev().max_by_key(|it| worth(it)) else {
        return false;
    };
    (record.best, record.score, record.plies_left) = (0, 0, NO_PLIES);
    record.alternatives = Default::default();
    let sign = i16::from(best.result.unwrap_or(0));
    record.result = (1 + sign) as u8;
    record.score = sign * SURE_WIN;
    // WDL tables alone know the result, but no distance.
    let verdict = tables.verdict(position);
    let is_mate_known =
        sign != 0 && leads_to_mate(position.board()) && verdict.is_some_and(|(_, plies)| plies > 0);
    if is_mate_known {
        let plies = best.distance.unsigned_abs() as u16;
        record.score = sign * (MATE - plies as i16);
        record.plies_left = plies;
    }
    let equals = moves.iter().filter(|other| other.rank() == best.rank());
    if is_mate_known || equals.count() == 1 {
        record.best = Record::pack_move(best.m.unpack(position), position.turn());
    }
    true
}

/// Whether nothing but the mate can be the next capture or pawn move of a won game: there are no pawns, one side has
/// nothing but its king, and the other nothing that it could lose and still win. (With more, giving a piece away may be
/// the fastest way to a capture.)
fn leads_to_mate(board: &Board) -> bool {
    let has_bare_king = Color::ALL
        .into_iter()
        .any(|color| board.by_color(color).count() == 1);
    let majors = board.rooks_and_queens().count();
    let minors = (board.bishops() | board.knights()).count();
    has_bare_king && board.pawns().is_empty() && matches!((majors, minors), (1, 0) | (0, 2))
}
