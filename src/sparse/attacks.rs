//! The squares that each side attacks, by role.

use shakmaty::{Bitboard, Board, Chess, Color, File, Position, Role, attacks};

/// Roles whose freedom to move is counted: knight, bishop, rook, queen.
pub const MOVERS: usize = 4;

/// What both sides attack.
#[derive(Clone, Copy, Debug)]
pub struct Attacks {
    /// The side to move.
    pub ours: SideAttacks,
    /// The other side.
    pub theirs: SideAttacks,
}

/// What one side attacks, pinned pieces' attacks included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideAttacks {
    /// All attacked squares.
    pub all: Bitboard,
    /// Squares attacked by two or more pieces. A queen behind a bishop is not counted.
    pub twice: Bitboard,
    /// What is attacked by pieces other than the king.
    pub without_king: Bitboard,
    /// By role, pawns first.
    pub by_role: [Bitboard; 6],
    /// How many squares knights, bishops, rooks and queens attack that hold no piece of their side and that no enemy
    /// pawn attacks.
    pub freedom: [u8; MOVERS],
    /// How many pieces but pawns and king attack squares next to the enemy king.
    pub besiegers: u8,
}

impl Attacks {
    /// All attacks on the board.
    pub fn of(position: &Chess) -> Attacks {
        let (board, us) = (position.board(), position.turn());
        let [ours, theirs] =
            [us, !us].map(|color| pawn_attacks(board.pawns() & board.by_color(color), color));
        Attacks {
            ours: SideAttacks::of(board, us, ours, theirs),
            theirs: SideAttacks::of(board, !us, theirs, ours),
        }
    }
}

impl SideAttacks {
    fn of(board: &Board, color: Color, pawns: Bitboard, enemy_pawns: Bitboard) -> SideAttacks {
        let (side, occupied) = (board.by_color(color), board.occupied());
        let enemy_king = board.king_of(!color);
        let ring = enemy_king.map_or(Bitboard::EMPTY, attacks::king_attacks);
        let open = !(side | enemy_pawns);
        let mut found = SideAttacks {
            // Two pawns attack what is attacked from the left and from the right.
            twice: twice_by_pawns(board.pawns() & side, color),
            ..SideAttacks::default()
        };
        found.by_role[0] = pawns;
        found.all = pawns;
        for role in [Role::Knight, Role::Bishop, Role::Rook, Role::Queen] {
            let at = role as usize - 1;
            for square in side & board.by_role(role) {
                let attacked = match role {
                    Role::Knight => attacks::knight_attacks(square),
                    Role::Bishop => attacks::bishop_attacks(square, occupied),
                    Role::Rook => attacks::rook_attacks(square, occupied),
                    _ => attacks::queen_attacks(square, occupied),
                };
                found.twice |= found.all & attacked;
                found.all |= attacked;
                found.by_role[at] |= attacked;
                found.freedom[at - 1] += (attacked & open).count() as u8;
                found.besiegers += u8::from((attacked & ring).any());
            }
        }
        found.without_king = found.all;
        if let Some(king) = board.king_of(color) {
            let attacked = attacks::king_attacks(king);
            found.twice |= found.all & attacked;
            found.all |= attacked;
            found.by_role[5] = attacked;
        }
        found
    }

    /// What the side's pieces of a role attack.
    pub fn by(&self, role: Role) -> Bitboard {
        self.by_role[role as usize - 1]
    }
}

/// The squares that pawns of a colour attack towards the a file and towards the h file.
fn pawn_sides(pawns: Bitboard, color: Color) -> (Bitboard, Bitboard) {
    let west = pawns.without_const(Bitboard::from_file(File::A));
    let east = pawns.without_const(Bitboard::from_file(File::H));
    match color {
        Color::White => (Bitboard(west.0 << 7), Bitboard(east.0 << 9)),
        Color::Black => (Bitboard(west.0 >> 9), Bitboard(east.0 >> 7)),
    }
}

/// The squares that pawns of a colour attack, all at once.
pub fn pawn_attacks(pawns: Bitboard, color: Color) -> Bitboard {
    let (west, east) = pawn_sides(pawns, color);
    west | east
}

/// The squares that two pawns of a colour attack.
pub fn twice_by_pawns(pawns: Bitboard, color: Color) -> Bitboard {
    let (west, east) = pawn_sides(pawns, color);
    west & east
}

/// Squares a rank further on, as a colour's pawns go.
pub fn forward(squares: Bitboard, color: Color) -> Bitboard {
    match color {
        Color::White => Bitboard(squares.0 << 8),
        Color::Black => Bitboard(squares.0 >> 8),
    }
}

/// The squares themselves and all before them on their files, as a colour's pawns go.
pub fn fill_forward(squares: Bitboard, color: Color) -> Bitboard {
    let mut filled = squares.0;
    for ranks in [8, 16, 32] {
        filled |= match color {
            Color::White => filled << ranks,
            Color::Black => filled >> ranks,
        };
    }
    Bitboard(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shakmaty::{CastlingMode, Square, fen::Fen};

    fn position(fen: &str) -> Chess {
        let fen: Fen = fen.parse().unwrap();
        fen.into_position(CastlingMode::Chess960).unwrap()
    }

    const FENS: [&str; 3] = [
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 95 80",
        "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 b - - 0 10",
        "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    ];

    #[test]
    fn pawns_attack_as_shakmaty_says() {
        for color in Color::ALL {
            for square in Square::ALL {
                assert_eq!(
                    pawn_attacks(Bitboard::from(square), color),
                    attacks::pawn_attacks(color, square)
                );
            }
        }
    }

    #[test]
    fn squares_are_attacked_once_or_twice_as_counted_one_by_one() {
        for fen in FENS {
            let position = position(fen);
            let (board, us) = (position.board(), position.turn());
            let Attacks { ours, theirs } = Attacks::of(&position);
            for (color, found) in [(us, ours), (!us, theirs)] {
                for square in Square::ALL {
                    let attackers = board.attacks_to(square, color, board.occupied());
                    assert_eq!(found.all.contains(square), attackers.any());
                    assert_eq!(found.twice.contains(square), attackers.count() > 1);
                    let others = attackers & !board.kings();
                    assert_eq!(found.without_king.contains(square), others.any());
                    for role in Role::ALL {
                        let of_role = attackers & board.by_role(role);
                        assert_eq!(found.by(role).contains(square), of_role.any());
                    }
                }
            }
        }
    }

    #[test]
    fn freedom_and_siege_are_counted() {
        // The knight has f3 (its own pawn) and g4 (a pawn attacks it) against it; the rook sees f2, f1 (not f3); the
        // queen bears on the king.
        let position = position("6k1/8/8/5p2/8/5P1Q/5R1N/6K1 w - - 0 1");
        let ours = Attacks::of(&position).ours;
        // Knight: f1. Bishops none. Rook: f1, e2, d2, c2, b2, a2, g2.
        assert_eq!(ours.freedom[..3], [1, 0, 7]);
        assert_eq!(ours.besiegers, 1);
        assert_eq!(Attacks::of(&position).theirs.besiegers, 0);
    }

    #[test]
    fn files_are_filled_forward() {
        let from = Bitboard::from(Square::C3);
        assert_eq!(fill_forward(from, Color::White).count(), 6);
        assert_eq!(fill_forward(from, Color::Black).count(), 3);
        assert_eq!(forward(from, Color::Black), Bitboard::from(Square::C2));
        let two = Bitboard::from(Square::B3) | Bitboard::from(Square::D3);
        assert_eq!(
            twice_by_pawns(two, Color::White),
            Bitboard::from(Square::C4)
        );
    }
}
