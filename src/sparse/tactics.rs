//! What each side threatens: signs that a search would need a few moves to see, found from attacks alone.
//!
//! All of them are seen as if pins and checks did not keep anybody from moving, and each side's as if it were to move.

use shakmaty::{Bitboard, Board, Chess, Color, Position, Rank, Role, Square, attacks};

use super::attacks::{
    Attacks, MOVERS, SideAttacks, fill_forward, forward, pawn_attacks, twice_by_pawns,
};
use crate::chess::see;

/// What one side has to fear and to hope for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TacticalFeatures {
    /// Its pieces that would be lost, or exchanged at a loss, if the other side captured now.
    pub hanging: Bitboard,
    /// The largest of these losses in centipawns, the largest first; 0: no more.
    pub losses: [i32; 3],
    /// Its pieces that stand before its king in the line of an enemy slider.
    pub pinned: Bitboard,
    /// How many of its pieces stand so before its queen, in the line of a bishop or a rook.
    pub before_queen: u32,
    /// Its pieces that uncover a slider's attack on the enemy king when they move.
    pub unmasking: Bitboard,
    /// Its pawns that no enemy pawn can stop: not on their file, nor on those beside it.
    pub passed: Bitboard,
    /// Those of them that are not blocked.
    pub unblocked: Bitboard,
    /// Where its king can go.
    pub flights: Bitboard,
    /// Squares next to its king that the other side attacks.
    pub besieged: Bitboard,
    /// Those of them that only the king defends.
    pub weak: Bitboard,
    /// Number of squares from which a knight, bishop, rook or queen can give check without being lost for nothing.
    pub safe_checks: [u32; MOVERS],
    /// Whether one of these can give check at the price of itself.
    pub unsafe_checks: [bool; MOVERS],
    /// Squares from which a pawn would attack two pieces.
    pub pawn_forks: u32,
    /// Squares from which a knight would attack two pieces that are worth more or not defended, the king included.
    pub knight_forks: u32,
    /// Enemy pieces that a piece worth less attacks.
    pub threats: u32,
    /// Whether a pawn can promote with its next move: by a step to a safe square, by a step to an attacked one, by a
    /// capture.
    pub promotions: [bool; 3],
}

impl TacticalFeatures {
    /// Those of the side to move, and of the other one.
    pub fn of(position: &Chess, attacks: &Attacks) -> [TacticalFeatures; 2] {
        let (board, us) = (position.board(), position.turn());
        let mut ours = TacticalFeatures::of_side(board, us, &attacks.ours, &attacks.theirs);
        let mut theirs = TacticalFeatures::of_side(board, !us, &attacks.theirs, &attacks.ours);
        (ours.pinned, theirs.unmasking) = before_king(board, us);
        (theirs.pinned, ours.unmasking) = before_king(board, !us);
        [ours, theirs]
    }

    fn of_side(
        board: &Board,
        color: Color,
        own: &SideAttacks,
        enemy: &SideAttacks,
    ) -> TacticalFeatures {
        let mut signs = TacticalFeatures {
            before_queen: before_queens(board, color),
            threats: threats(board, color, own),
            pawn_forks: pawn_forks(board, color, own, enemy),
            knight_forks: knight_forks(board, color, own, enemy),
            promotions: promotions(board, color, enemy),
            ..TacticalFeatures::default()
        };
        signs.find_losses(board, color, enemy);
        signs.find_passed(board, color);
        signs.find_checks(board, color, own, enemy);
        signs.look_around_king(board, color, own, enemy);
        signs
    }

    fn find_losses(&mut self, board: &Board, color: Color, enemy: &SideAttacks) {
        let attacked = board.by_color(color) & enemy.all & !board.kings();
        for square in attacked {
            let Some(role) = board.role_at(square) else {
                continue;
            };
            let mut loss = see::loss(board, square, color, role);
            if loss > 0 {
                self.hanging.add(square);
            }
            for place in &mut self.losses {
                if loss > *place {
                    std::mem::swap(&mut loss, place);
                }
            }
        }
    }

    fn find_passed(&mut self, board: &Board, color: Color) {
        let enemies = board.pawns() & board.by_color(!color);
        // Where an enemy pawn stands, what it attacks, and all that it can come to from there.
        let held = enemies | pawn_attacks(enemies, !color);
        self.passed = board.pawns() & board.by_color(color) & !fill_forward(held, !color);
        let in_the_way = fill_forward(board.occupied(), !color);
        self.unblocked = self.passed & !forward(in_the_way, !color);
    }

    fn find_checks(&mut self, board: &Board, color: Color, own: &SideAttacks, enemy: &SideAttacks) {
        let Some(king) = board.king_of(!color) else {
            return;
        };
        let occupied = board.occupied();
        let (knight, bishop, rook) = (
            attacks::knight_attacks(king),
            attacks::bishop_attacks(king, occupied),
            attacks::rook_attacks(king, occupied),
        );
        let free = !board.by_color(color);
        // Nobody captures there, or only the king could and may not.
        let safe = !enemy.all | (own.twice & !enemy.without_king);
        for (at, checks) in [knight, bishop, rook, bishop | rook]
            .into_iter()
            .enumerate()
        {
            let checks = checks & free & own.by_role[at + 1];
            self.safe_checks[at] = (checks & safe).count() as u32;
            self.unsafe_checks[at] = !(checks & !safe).is_empty();
        }
    }

    fn look_around_king(
        &mut self,
        board: &Board,
        color: Color,
        own: &SideAttacks,
        enemy: &SideAttacks,
    ) {
        let Some(king) = board.king_of(color) else {
            return;
        };
        let ring = attacks::king_attacks(king);
        self.besieged = ring & enemy.all;
        self.weak = self.besieged & !own.without_king;
        self.flights = ring & !board.by_color(color) & !enemy.all;
        if enemy.all.contains(king) {
            // A slider that gives check sees the square behind the king as well.
            let occupied = board.occupied();
            let sliders = attacks::bishop_attacks(king, occupied) & board.bishops_and_queens()
                | attacks::rook_attacks(king, occupied) & board.rooks_and_queens();
            for checker in sliders & board.by_color(!color) {
                self.flights &= !attacks::ray(king, checker) | Bitboard::from(checker);
            }
        }
    }
}

/// Pieces that stand alone between some sliders of a colour and a square.
fn alone_before(
    board: &Board,
    square: Square,
    color: Color,
    rooks: Bitboard,
    bishops: Bitboard,
) -> Bitboard {
    let sliders = board.by_color(color)
        & (attacks::rook_attacks(square, Bitboard::EMPTY) & rooks
            | attacks::bishop_attacks(square, Bitboard::EMPTY) & bishops);
    let mut found = Bitboard::EMPTY;
    for slider in sliders {
        let between = attacks::between(square, slider) & board.occupied();
        if between.count() == 1 {
            found |= between;
        }
    }
    found
}

/// What stands between a colour's king and enemy sliders: own pieces, which are pinned, and the enemy's, which unmask.
fn before_king(board: &Board, color: Color) -> (Bitboard, Bitboard) {
    let Some(king) = board.king_of(color) else {
        return Default::default();
    };
    let (rooks, bishops) = (board.rooks_and_queens(), board.bishops_and_queens());
    let found = alone_before(board, king, !color, rooks, bishops);
    (
        found & board.by_color(color),
        found & board.by_color(!color),
    )
}

/// How many of a colour's pieces stand between its queens and an enemy rook or bishop.
fn before_queens(board: &Board, color: Color) -> u32 {
    let side = board.by_color(color);
    let mut found = Bitboard::EMPTY;
    for queen in side & board.queens() {
        found |= alone_before(board, queen, !color, board.rooks(), board.bishops()) & side;
    }
    found.count() as u32
}

/// How many enemy pieces a piece worth less attacks.
fn threats(board: &Board, color: Color, own: &SideAttacks) -> u32 {
    let by_minors = own.by(Role::Knight) | own.by(Role::Bishop);
    let threatened = own.by(Role::Pawn) & !board.pawns()
        | by_minors & board.rooks_and_queens()
        | own.by(Role::Rook) & board.queens();
    (threatened & board.by_color(!color) & !board.kings()).count() as u32
}

/// From how many squares that it can go to a pawn attacks two pieces.
fn pawn_forks(board: &Board, color: Color, own: &SideAttacks, enemy: &SideAttacks) -> u32 {
    let enemies = board.by_color(!color);
    let pawns = board.pawns() & board.by_color(color);
    let empty = !board.occupied();
    let step = forward(pawns, color) & empty;
    let third = match color {
        Color::White => Rank::Third,
        Color::Black => Rank::Sixth,
    };
    let two_steps = forward(step & Bitboard::from_rank(third), color) & empty;
    let reached = step | two_steps | own.by(Role::Pawn) & enemies;
    let stays = !enemy.by(Role::Pawn) & (!enemy.all | own.all);
    // Seen from the victims: where two of them would be attacked from, as by pawns of theirs.
    let from = twice_by_pawns(enemies & !board.pawns(), !color);
    (from & reached & stays).count() as u32
}

/// From how many squares that it can go to, without being lost, a knight attacks two pieces that it would like to
/// capture.
fn knight_forks(board: &Board, color: Color, own: &SideAttacks, enemy: &SideAttacks) -> u32 {
    let (side, enemies) = (board.by_color(color), board.by_color(!color));
    let reached = own.by(Role::Knight) & !side;
    // Defended by more than the knight that leaves, or not attacked.
    let stays = !enemy.all | (own.twice & !enemy.by(Role::Pawn) & !enemy.by(Role::King));
    let worth_more = board.rooks_and_queens() | board.kings();
    let loose = (board.bishops() | board.knights()) & !enemy.all;
    let victims = enemies & (worth_more | loose);
    let forks = |square: &Square| (attacks::knight_attacks(*square) & victims).more_than_one();
    (reached & stays).into_iter().filter(forks).count() as u32
}

/// See [`TacticalFeatures::promotions`].
fn promotions(board: &Board, color: Color, enemy: &SideAttacks) -> [bool; 3] {
    let seventh = match color {
        Color::White => Rank::Seventh,
        Color::Black => Rank::Second,
    };
    let pawns = board.pawns() & board.by_color(color) & Bitboard::from_rank(seventh);
    if pawns.is_empty() {
        return [false; 3];
    }
    let steps = forward(pawns, color) & !board.occupied();
    let captures = pawn_attacks(pawns, color) & board.by_color(!color);
    [steps & !enemy.all, steps & enemy.all, captures].map(|squares| !squares.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shakmaty::{CastlingMode, fen::Fen};

    /// Of the side to move, and of the other one.
    fn signs(fen: &str) -> [TacticalFeatures; 2] {
        let fen: Fen = fen.parse().unwrap();
        let position: Chess = fen.into_position(CastlingMode::Chess960).unwrap();
        TacticalFeatures::of(&position, &Attacks::of(&position))
    }

    fn squares<const N: usize>(list: [Square; N]) -> Bitboard {
        list.into_iter().collect()
    }

    #[test]
    fn hanging_pieces_and_what_they_cost() {
        // The rook on a8 is attacked by the bishop and defended by the knight; the knight on c4 by nobody; the pawn on
        // d5 is safe.
        let [ours, theirs] = signs("r5k1/2n5/8/3p4/2n1N3/8/1Q4B1/6K1 w - - 0 1");
        assert_eq!(ours.hanging, squares([Square::E4, Square::B2]));
        assert_eq!(ours.losses, [950, 320 - 100, 0]);
        assert_eq!(theirs.hanging, Bitboard::EMPTY);
        let [_, theirs] = signs("6k1/8/8/3r4/8/1n6/1P4B1/6K1 w - - 0 1");
        assert_eq!(theirs.hanging, squares([Square::D5]));
        assert_eq!(theirs.losses, [500, 0, 0]);
    }

    #[test]
    fn pins_and_pieces_that_unmask() {
        let [ours, theirs] = signs("4r1k1/8/2q5/1B2N3/8/8/8/q2QK3 w - - 0 1");
        assert_eq!(ours.pinned, squares([Square::E5, Square::D1]));
        assert_eq!(ours.unmasking, Bitboard::EMPTY);
        assert_eq!(theirs.unmasking, Bitboard::EMPTY);
        let [ours, theirs] = signs("6k1/8/4N3/8/8/1B6/8/R3n2K w - - 0 1");
        assert_eq!(ours.unmasking, squares([Square::E6]));
        assert_eq!((ours.pinned, theirs.pinned), Default::default());
        // Before the queen; not by a queen, not where two stand in the line.
        let [ours, _] = signs("3r2k1/8/8/b7/8/2N5/3Q4/3K3q w - - 0 1");
        assert_eq!(ours.before_queen, 1);
        let [ours, _] = signs("3r2k1/8/8/b7/1P6/2N5/3Q4/3K3q w - - 0 1");
        assert_eq!(ours.before_queen, 0);
    }

    #[test]
    fn passed_pawns_with_a_free_way_and_without() {
        let [ours, theirs] = signs("4k3/p7/8/2P1n3/4P1p1/8/6P1/4K3 w - - 0 1");
        assert_eq!(ours.passed, squares([Square::C5, Square::E4]));
        assert_eq!(ours.unblocked, squares([Square::C5]));
        assert_eq!(theirs.passed, squares([Square::A7]));
        assert_eq!(theirs.unblocked, theirs.passed);
        // A pawn beside it does not hold it any more; before it one does.
        let [ours, _] = signs("4k3/8/2P5/1p6/8/3p4/2P5/4K3 w - - 0 1");
        assert_eq!(ours.passed, squares([Square::C6]));
    }

    #[test]
    fn around_the_king() {
        // Black's rook attacks the back rank: from g1, f1 and h1; the pawns hold the rest.
        let [ours, theirs] = signs("6k1/8/8/8/8/8/r4PPP/6K1 w - - 0 1");
        assert_eq!(ours.flights, squares([Square::F1, Square::H1]));
        assert_eq!(ours.besieged, squares([Square::F2]));
        assert_eq!(ours.weak, squares([Square::F2]));
        assert_eq!(theirs.flights.count(), 5);
        // The square behind the king, as a checking rook sees it; the rook itself may be captured.
        let [ours, _] = signs("6k1/8/8/8/8/8/5PPP/3r2K1 w - - 0 1");
        assert_eq!(ours.flights, Bitboard::EMPTY);
        let [ours, _] = signs("6k1/8/8/8/8/8/5PPP/5rK1 w - - 0 1");
        assert_eq!(ours.flights, squares([Square::F1]));
    }

    #[test]
    fn checks_with_and_without_loss() {
        // The rook checks on e3, and on b1, where a pawn captures it.
        let [ours, _] = signs("8/8/8/8/8/1k6/p6P/4R1K1 w - - 0 1");
        assert_eq!(
            (ours.safe_checks, ours.unsafe_checks[2]),
            ([0, 0, 1, 0], true)
        );
        // The queen on the last rank, and on a pawn that the king defends; with a bishop behind it that does not help.
        let [ours, _] = signs("6k1/5ppp/8/8/8/8/6K1/Q5B1 w - - 0 1");
        assert_eq!(
            (ours.safe_checks, ours.unsafe_checks[3]),
            ([0, 0, 0, 1], true)
        );
        let [ours, _] = signs("6k1/5p1p/8/3Q4/8/1B6/6K1/8 w - - 0 1");
        assert_eq!((ours.safe_checks[3], ours.unsafe_checks[3]), (3, true));
    }

    #[test]
    fn forks_threats_and_promotions() {
        // The pawn forks the knights from e4; the knight would fork king and rook from c7, where it is captured.
        let [ours, theirs] = signs("r3k3/8/8/1N1n1n2/8/4P3/8/4K3 w - - 0 1");
        assert_eq!((ours.knight_forks, ours.pawn_forks), (0, 1));
        assert_eq!((theirs.knight_forks, theirs.threats), (0, 0));
        let [ours, _] = signs("r3k3/8/8/1N6/8/4P3/8/4K3 w - - 0 1");
        assert_eq!((ours.knight_forks, ours.pawn_forks), (1, 0));
        let [ours, theirs] = signs("4k3/8/8/8/3n4/2P5/8/R2QKb2 w - - 0 1");
        assert_eq!((ours.threats, theirs.threats), (1, 0));
        let [ours, _] = signs("1n2k3/P1P5/8/8/8/8/7p/4K1N1 w - - 0 1");
        assert_eq!(ours.promotions, [true, false, true]);
        let [_, theirs] = signs("4k3/8/8/8/8/8/7p/4K1N1 w - - 0 1");
        assert_eq!(theirs.promotions, [true, false, true]);
        let [_, theirs] = signs("4k3/8/8/8/8/5N2/6p1/4K3 w - - 0 1");
        assert_eq!(theirs.promotions, [false, true, false]);
    }
}
