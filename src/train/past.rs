//! What was before a position of a file of games, found in the positions before it.
//!
//! Such a file has the positions of a game one after the other, with the moves that were played, but need not have all
//! of them: in self-play fast searches and random moves are left out, and with `--record-side` the moves of the other
//! side. A position before is used if the move played there, or that and one move of the other side, lead to what
//! follows. So nothing is found where a label has taken the played move's place.

use anyhow::Result;
use shakmaty::{Board, Chess, Color, Position};

use crate::dataset::record::{NO_PLIES, Record};
use crate::sparse::features::{InputSet, PAST_MOVES};
use crate::sparse::history::Past;

/// What was before position `index` of a file, which has this record; `read` reads the record of a position. The rating
/// is left open. Nothing is read for `inputs` without a past.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn before(
    inputs: InputSet,
    mut read: impl FnMut(u64) -> Result<Record>,
    index: u64,
    record: &Record,
) -> Result<Past> {
    if !inputs.has_history() {
        return Ok(Past::default());
    }
    let Ok(now) = record.position() else {
        return Ok(Past::default());
    };
    let mut boards = Vec::with_capacity(PAST_MOVES);
    for at in (0..index).rev().take(PAST_MOVES) {
        let before = read(at)?;
        if !add_boards(&mut boards, &before, (record, now.board())) || boards.len() == PAST_MOVES {
            break;
        }
    }
    Ok(Past::of_boards(&now, &boards))
}

/// Adds the board of an earlier record to the boards before `now`, the latest first and all seen by the side to move
/// now. Returns false if it does not come just before them.
fn add_boards(boards: &mut Vec<Board>, before: &Record, (record, now): (&Record, &Board)) -> bool {
    let is_known = before.plies_left != NO_PLIES && record.plies_left != NO_PLIES;
    if before.game != record.game || !is_known {
        return false;
    }
    let Some(plies) = before.plies_left.checked_sub(record.plies_left) else {
        return false;
    };
    let Some((board, after)) = played(before) else {
        return false;
    };
    let is_other_side = plies % 2 == 1;
    let seen = |board: Board| if is_other_side { turned(board) } else { board };
    let (board, after) = (seen(board), seen(after));
    if usize::from(plies) == boards.len() + 1 && after == *boards.last().unwrap_or(now) {
        boards.push(board);
        return true;
    }
    // The other side's move is not in the file.
    let is_gap = plies == 2 && boards.is_empty();
    if is_gap {
        boards.extend([after, board]);
    }
    is_gap
}

/// The board of a record, and the one after the move played there.
fn played(record: &Record) -> Option<(Board, Board)> {
    let position: Chess = record.position().ok()?;
    let moves = position.legal_moves();
    let mut moves = moves.into_iter();
    let m = moves.find(|m| Record::pack_move(*m, Color::White) == record.best)?;
    let mut after = position.clone();
    after.play_unchecked(m);
    Some((position.board().clone(), after.board().clone()))
}

/// The board as the other side sees it.
fn turned(mut board: Board) -> Board {
    board.flip_vertical();
    board.swap_colors();
    board
}

#[cfg(test)]
mod tests {
    use shakmaty::uci::UciMove;

    use super::*;
    use crate::chess::wdl::Value;
    use crate::dataset::record::Source;
    use crate::dataset::searched::{Samples, SearchedFile, SearchedRoot};

    /// The positions of a game, each with the move played in it, and what was before them.
    fn game(moves: &str) -> Vec<(Record, Past)> {
        let mut line = vec![Chess::default()];
        let moves: Vec<&str> = moves.split(' ').collect();
        let mut game = Vec::new();
        for (at, text) in moves.iter().enumerate() {
            let position = line.last().unwrap().clone();
            let m = text.parse::<UciMove>().unwrap().to_move(&position).unwrap();
            let us = position.turn();
            let mut record = Record::new(&position, us.is_black(), Source::Game);
            record.best = Record::pack_move(m, us);
            record.plies_left = (moves.len() - at) as u16;
            record.game = 7;
            let before = line.iter().rev().skip(1).map(Position::board);
            // Seen by the side to move.
            let seen = |board: &Board| match us {
                Color::White => board.clone(),
                Color::Black => turned(board.clone()),
            };
            let before: Vec<Board> = before.map(seen).collect();
            game.push((
                record,
                Past::of_boards(&record.position().unwrap(), &before),
            ));
            line.push(position.play(m).unwrap());
        }
        game
    }

    /// What is found in a file that has these positions.
    fn found(records: &[Record]) -> Vec<Past> {
        let mut samples = Samples::default();
        let root = SearchedRoot {
            best: 0,
            visits: 1,
            value: Value::default(),
        };
        for record in records {
            samples.push(record, &root, [(record.best, 1)].into_iter());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.vis");
        std::fs::write(&path, samples.to_file()).unwrap();
        let mut file = SearchedFile::open(&path).unwrap();
        let records = (0..).zip(records);
        records
            .map(|(at, record)| {
                before(InputSet::History, |at| file.record(at), at, record).unwrap()
            })
            .collect()
    }

    const MOVES: &str = "e2e4 d7d5 e4d5 d8d5 b1c3 d5a5 g1f3 g8f6 f1e2 c8g4 e1g1 b8c6";

    #[test]
    fn the_moves_before_are_found() {
        let game = game(MOVES);
        let records: Vec<Record> = game.iter().map(|(record, _)| *record).collect();
        let expected: Vec<Past> = game.iter().map(|(_, past)| *past).collect();
        assert_eq!(expected[0], Past::default());
        assert!(
            expected[2..]
                .iter()
                .all(|past| past.moves.iter().all(Option::is_some))
        );
        assert_eq!(found(&records), expected);
        // The moves of one side only.
        let own: Vec<Record> = records.iter().copied().step_by(2).collect();
        let expected: Vec<Past> = expected.into_iter().step_by(2).collect();
        assert_eq!(found(&own), expected);
    }

    #[test]
    fn what_does_not_come_before_is_not_used() {
        let game = game(MOVES);
        let record = |at: usize| game[at].0;
        let nothing = Past::default();
        // Too far back, another game, another move than the one played, an unknown ply.
        assert_eq!(found(&[record(2), record(6)])[1], nothing);
        let mut other = record(5);
        other.game = 8;
        assert_eq!(found(&[other, record(6)])[1], nothing);
        let mut other = record(5);
        other.best = record(9).best;
        assert_eq!(found(&[other, record(6)])[1], nothing);
        let mut other = record(5);
        other.plies_left = NO_PLIES;
        assert_eq!(found(&[other, record(6)])[1], nothing);
        // One of two.
        let past = found(&[record(3), record(5), record(6)])[2];
        assert_eq!(past.moves, [game[6].1.moves[0], None]);
    }
}
