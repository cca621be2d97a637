//! The policy rows of moves.
//!
//! There is a row for each role and pair of squares, as seen by the side to move ([`SquareView`]), once for moves that
//! keep their material and once for moves that lose more than a pawn in the exchange they start ([`see`]), so that the
//! network need not learn to count exchanges. Promotions and castling have their own rows. The policy of a position is
//! the softmax over the rows of its legal moves.
//!
//! Some networks also have a row for each class of moves ([`classes`](super::classes)), which is added to the row of
//! the move itself.

use shakmaty::{Bitboard, Chess, Move, Position, Role, Square};

use super::attacks::Attacks;
use super::classes::Classifier;
use super::features::{InputSet, SquareView};
use super::history::Past;
use crate::chess::{moves::MAX_MOVES, see};

/// Exchanges that end below this many centipawns belong to the second half of the rows (Monty's threshold).
pub const EXCHANGE: i32 = -108;

/// Rows of one half.
pub const KINDS: usize = CASTLING as usize + 2;
/// All rows: those of moves that keep their material, then those of the others.
pub const ROWS: usize = 2 * KINDS;

/// How many rows the policy of a network with these inputs has: those of moves, then those of its classes.
pub const fn row_count(set: InputSet) -> usize {
    ROWS + set.classes().count()
}

/// The policy rows of a position's moves.
#[derive(Clone, Copy, Debug)]
pub struct MoveRows<'a> {
    /// Of each move, below [`ROWS`].
    pub rows: &'a [u16],
    /// Of each move's class, from [`ROWS`] on; empty where the network has no classes.
    pub classes: &'a [u16],
}

/// Memory for the rows of a position's moves, and of their classes.
pub struct RowBuffer([u16; 2 * MAX_MOVES]);

impl Default for RowBuffer {
    fn default() -> RowBuffer {
        RowBuffer([0; 2 * MAX_MOVES])
    }
}

impl<'a> MoveRows<'a> {
    /// Divides the rows of this many moves from those of their classes, which follow them.
    pub fn of(entries: &'a [u16], moves: usize) -> MoveRows<'a> {
        let (rows, classes) = entries.split_at(moves.min(entries.len()));
        MoveRows { rows, classes }
    }

    /// The rows of the moves, then those of their classes.
    pub fn entries(self) -> impl Iterator<Item = u16> {
        self.rows.iter().chain(self.classes).copied()
    }

    /// The logits of the moves, given those of all rows.
    pub fn logits(self, logits: &[f32]) -> impl Iterator<Item = f32> {
        let classes = self.classes.iter().map(|&class| logits[usize::from(class)]);
        let classes = classes.chain(std::iter::repeat(0.0));
        let rows = self.rows.iter().map(|&row| logits[usize::from(row)]);
        rows.zip(classes).map(|(row, class)| row + class)
    }
}

/// No move of a piece goes there.
const NONE: u16 = u16::MAX;

type Table = [[[u16; 64]; 64]; 6];

/// The row of a piece's move from one square to another (promotions excepted), and how many there are.
const fn table() -> (Table, u16) {
    let mut table = [[[NONE; 64]; 64]; 6];
    let mut next = 0;
    let mut role = 0;
    while role < 6 {
        let mut from = 0;
        while from < 64 {
            let mut to = 0;
            while to < 64 {
                if goes(role, from, to) {
                    table[role][from][to] = next;
                    next += 1;
                }
                to += 1;
            }
            from += 1;
        }
        role += 1;
    }
    (table, next)
}

/// Whether a piece (0 pawn ... 5 king) can move so on some board, without promoting.
const fn goes(role: usize, from: usize, to: usize) -> bool {
    let files = (to % 8).abs_diff(from % 8);
    let ranks = (to / 8).abs_diff(from / 8);
    match role {
        0 => {
            let rank = from / 8;
            let forward = to > from && rank > 0 && rank < 6;
            forward && (ranks == 1 && files < 2 || ranks == 2 && files == 0 && rank == 1)
        }
        1 => files * ranks == 2,
        2 => files == ranks && files > 0,
        3 => (files == 0) != (ranks == 0),
        4 => (files == ranks && files > 0) || (files == 0) != (ranks == 0),
        _ => files < 2 && ranks < 2 && files + ranks > 0,
    }
}

static TABLE: Table = table().0;
/// Then promotions: the file the pawn leaves x to the left, straight on, to the right x N B R Q.
const PROMOTIONS: u16 = table().1;
/// Then castling towards the a file as seen, and towards the h file.
const CASTLING: u16 = PROMOTIONS + 8 * 3 * 4;

/// The row of a legal move, without regard to exchanges: below [`KINDS`].
#[inline(always)]
fn kind(view: SquareView, m: Move) -> u16 {
    let (from, to) = match m {
        Move::Castle { king, rook } => {
            let right = view.square(rook) % 8 > view.square(king) % 8;
            return CASTLING + u16::from(right);
        }
        Move::Normal { from, to, .. } | Move::EnPassant { from, to } => (from, to),
        Move::Put { to, .. } => (to, to),
    };
    let (from, to) = (view.square(from), view.square(to));
    if let Some(promotion) = m.promotion() {
        let direction = (to % 8 + 1).saturating_sub(from % 8).min(2);
        let piece = (promotion as usize).saturating_sub(Role::Knight as usize) & 3;
        return PROMOTIONS + ((from % 8 * 3 + direction) * 4 + piece) as u16;
    }
    let kind = TABLE[m.role() as usize - 1][from][to];
    debug_assert_ne!(kind, NONE, "{m:?} is no legal move");
    if kind == NONE { 0 } else { kind }
}

/// Rows of the moves of one position.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    position: &'a Chess,
    view: SquareView,
    /// Squares that the other side attacks.
    attacked: Bitboard,
    /// Only for networks with classes.
    classifier: Option<Classifier<'a>>,
}

impl<'a> Rows<'a> {
    /// The rows of a position's moves for a network with these inputs, given the position's view and attacks and what
    /// was before.
    pub fn new(
        set: InputSet,
        position: &'a Chess,
        view: SquareView,
        attacks: &Attacks,
        past: &Past,
    ) -> Rows<'a> {
        Rows {
            position,
            view,
            attacked: attacks.theirs.all,
            classifier: Classifier::new(set.classes(), position, attacks, past.last_target()),
        }
    }

    /// The rows of legal moves, and those of their classes if the network has any.
    #[inline(always)]
    pub fn of_moves<'b>(
        &self,
        moves: impl ExactSizeIterator<Item = Move>,
        buffer: &'b mut RowBuffer,
    ) -> MoveRows<'b> {
        let count = moves.len();
        let (rows, classes) = buffer.0.split_at_mut(count);
        for (at, (m, row)) in moves.zip(&mut *rows).enumerate() {
            let keeps = self.keeps_material(m);
            let kind = kind(self.view, m);
            *row = if keeps { kind } else { kind + KINDS as u16 };
            if let Some(classifier) = &self.classifier {
                classes[at] = (ROWS + classifier.class(m, keeps)) as u16;
            }
        }
        let classed = if self.classifier.is_some() { count } else { 0 };
        MoveRows {
            rows,
            classes: &classes[..classed],
        }
    }

    #[inline(always)]
    fn keeps_material(&self, m: Move) -> bool {
        let from = m.from().unwrap_or(m.to());
        // Nobody can capture there, not even a slider whose line the moving piece opens.
        let is_safe = !self.attacked.contains(m.to()) && !self.attacked.contains(from);
        is_safe || see::at_least(self.position, m, EXCHANGE)
    }
}

/// The rows of all legal moves of a position, in `shakmaty`'s order, and the moves.
pub fn of(position: &Chess) -> Vec<(Move, u16)> {
    let (view, attacks) = (SquareView::of(position), Attacks::of(position));
    let rows = Rows::new(
        InputSet::Position,
        position,
        view,
        &attacks,
        &Past::default(),
    );
    let moves = position.legal_moves();
    let mut buffer = RowBuffer::default();
    let of_moves = rows.of_moves(moves.iter().copied(), &mut buffer);
    moves.into_iter().zip(of_moves.entries()).collect()
}

/// What a row stands for, for tests and tables: role, from and to as seen; `None` for promotions and castling.
pub fn meaning(row: usize) -> Option<(Role, Square, Square)> {
    let kind = (row % KINDS) as u16;
    for (role, squares) in Role::ALL.into_iter().zip(&TABLE) {
        for (from, targets) in squares.iter().enumerate() {
            if let Some(to) = targets.iter().position(|&row| row == kind) {
                return Some((role, Square::new(from as u32), Square::new(to as u32)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use shakmaty::{CastlingMode, fen::Fen};

    fn position(fen: &str) -> Chess {
        let fen: Fen = fen.parse().unwrap();
        fen.into_position(CastlingMode::Chess960).unwrap()
    }

    const FENS: [&str; 7] = [
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 0 1",
        "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10",
        "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
        "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
        "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N w - - 0 1",
        "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
    ];

    #[test]
    fn the_moves_of_a_position_have_rows_of_their_own() {
        assert_eq!((PROMOTIONS, ROWS), (3786, 7768));
        for fen in FENS {
            let rows = of(&position(fen));
            let different: HashSet<u16> = rows.iter().map(|(_, row)| *row).collect();
            assert_eq!(different.len(), rows.len(), "{fen}");
            assert!(rows.iter().all(|(_, row)| usize::from(*row) < ROWS));
        }
    }

    #[test]
    fn rows_mean_what_the_moves_do() {
        for fen in FENS {
            let position = position(fen);
            let view = SquareView::of(&position);
            for (m, row) in of(&position) {
                let seen = |square| Square::new(view.square(square) as u32);
                let expected = (!m.is_promotion() && !m.is_castle())
                    .then(|| (m.role(), seen(m.from().unwrap()), seen(m.to())));
                assert_eq!(meaning(row.into()), expected, "{fen} {m:?}");
            }
        }
    }

    #[test]
    fn the_shortcut_for_safe_squares_agrees_with_the_exchange() {
        for fen in FENS {
            let position = position(fen);
            for (m, row) in of(&position) {
                let keeps = see::at_least(&position, m, EXCHANGE);
                assert_eq!(usize::from(row) < KINDS, keeps, "{fen} {m:?}");
            }
        }
    }

    #[test]
    fn castling_and_promotions_are_told_apart() {
        let rows = of(&position("4k3/P7/8/8/8/8/8/R3K2R w KQ - 0 1"));
        let special: HashSet<u16> = rows
            .iter()
            .filter(|(m, _)| m.is_castle() || m.is_promotion())
            .map(|(_, row)| *row % KINDS as u16)
            .collect();
        let expected: HashSet<u16> = (0..4)
            .map(|piece| PROMOTIONS + 4 + piece)
            .chain([CASTLING, CASTLING + 1])
            .collect();
        assert_eq!(special, expected);
    }
}
