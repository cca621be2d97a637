//! Static exchange evaluation: the material balance of a move if both sides continue to capture on its square.
//!
//! [`at_least`] tests whether a move's balance reaches a threshold, which needs fewer steps than the balance itself;
//! [`loss`] computes what the owner of a piece would lose. The method is the usual one: the least valuable attacker
//! captures next, sliders behind it join in, and each side stops when continuing would lose material. Pins are ignored.

use shakmaty::{Bitboard, Board, Chess, Color, Move, Position, Role, Square, attacks};

/// Centipawns of a piece in an exchange. The king's is larger than all others together.
fn value(role: Role) -> i32 {
    match role {
        Role::Pawn => 100,
        Role::Knight => 320,
        Role::Bishop => 330,
        Role::Rook => 500,
        Role::Queen => 950,
        Role::King => 20_000,
    }
}

/// Whether the exchange that a move begins ends at `threshold` centipawns or better for the mover. Castling is 0.
pub fn at_least(position: &Chess, m: Move, threshold: i32) -> bool {
    let board = position.board();
    let (from, to, mut moved, won) = match m {
        Move::Normal {
            role,
            from,
            capture,
            to,
            promotion,
        } => {
            let gained = promotion.map_or(0, |to| value(to) - value(Role::Pawn));
            let won = capture.map_or(0, value) + gained;
            (from, to, promotion.unwrap_or(role), won)
        }
        Move::EnPassant { from, to } => (from, to, Role::Pawn, value(Role::Pawn)),
        Move::Castle { .. } | Move::Put { .. } => return threshold <= 0,
    };
    // What the mover has beyond the threshold if the other side stops now.
    let mut balance = won - threshold;
    if balance < 0 {
        return false;
    }
    // And if it loses the moved piece.
    balance -= value(moved);
    if balance >= 0 {
        return true;
    }
    let mut occupied = board.occupied();
    occupied.discard(from);
    if let Move::EnPassant { .. } = m {
        occupied.discard(Square::from_coords(to.file(), from.rank()));
    }
    occupied.add(to);
    let mut side = !position.turn();
    let mut attackers = attackers_of(board, to, occupied);
    // `balance` is now negative for the side that has just captured: the other one wins unless it has no capture.
    loop {
        attackers &= occupied;
        let Some((square, role)) = least(board, attackers & board.by_color(side)) else {
            break;
        };
        if role == Role::King && (attackers & board.by_color(!side)).any() {
            // A king cannot capture what is defended.
            break;
        }
        side = !side;
        balance = -balance - 1 - value(role);
        moved = role;
        if balance >= 0 {
            break;
        }
        occupied.discard(square);
        attackers |= sliders_behind(board, to, moved, occupied);
    }
    // Whoever cannot or need not capture any more has the worse of it.
    side != position.turn()
}

/// What the owner of a piece loses if the other side begins to capture on its square, or need not: 0 or more
/// centipawns, exactly.
pub fn loss(board: &Board, square: Square, owner: Color, role: Role) -> i32 {
    let mut occupied = board.occupied();
    let mut attackers = attackers_of(board, square, occupied);
    // What each capture wins, if the exchange goes as far.
    let mut won = [0; 32];
    let mut captures = 0;
    let (mut side, mut on_square) = (!owner, role);
    while captures < won.len() {
        let Some((from, by)) = least(board, attackers & board.by_color(side)) else {
            break;
        };
        if by == Role::King && (attackers & board.by_color(!side)).any() {
            // A king cannot capture what is defended.
            break;
        }
        won[captures] = value(on_square);
        captures += 1;
        on_square = by;
        occupied.discard(from);
        attackers = (attackers | sliders_behind(board, square, by, occupied)) & occupied;
        side = !side;
    }
    // From the last capture back: whoever would lose by capturing does not.
    let exchange = won[..captures].iter().rev();
    exchange.fold(0, |lost, won| (won - lost).max(0))
}

/// All pieces of both sides that attack a square.
fn attackers_of(board: &Board, to: Square, occupied: Bitboard) -> Bitboard {
    (attacks::rook_attacks(to, occupied) & board.rooks_and_queens())
        | (attacks::bishop_attacks(to, occupied) & board.bishops_and_queens())
        | (attacks::knight_attacks(to) & board.knights())
        | (attacks::king_attacks(to) & board.kings())
        | (attacks::pawn_attacks(Color::Black, to) & board.pawns() & board.white())
        | (attacks::pawn_attacks(Color::White, to) & board.pawns() & board.black())
}

/// Sliders that see the square now that a piece in front of them has left.
fn sliders_behind(board: &Board, to: Square, left: Role, occupied: Bitboard) -> Bitboard {
    let mut found = Bitboard::EMPTY;
    if matches!(left, Role::Pawn | Role::Bishop | Role::Queen) {
        found |= attacks::bishop_attacks(to, occupied) & board.bishops_and_queens();
    }
    if matches!(left, Role::Rook | Role::Queen) {
        found |= attacks::rook_attacks(to, occupied) & board.rooks_and_queens();
    }
    found
}

/// The least valuable of some pieces.
fn least(board: &Board, pieces: Bitboard) -> Option<(Square, Role)> {
    if pieces.is_empty() {
        return None;
    }
    Role::ALL
        .into_iter()
        .find_map(|role| Some(((pieces & board.by_role(role)).first()?, role)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shakmaty::{CastlingMode, fen::Fen, uci::UciMove};

    /// The exchange's exact balance, by trying all thresholds.
    fn balance(fen: &str, text: &str) -> i32 {
        let position: Chess = fen
            .parse::<Fen>()
            .unwrap()
            .into_position(CastlingMode::Standard)
            .unwrap();
        let uci: UciMove = text.parse().unwrap();
        let m = uci.to_move(&position).unwrap();
        (-2000..=2000)
            .rev()
            .find(|&threshold| at_least(&position, m, threshold))
            .unwrap()
    }

    #[test]
    fn known_exchanges() {
        for (fen, m, expected) in [
            // A free pawn; a defended one, by a rook.
            (
                "1k1r4/1pp4p/p7/4p3/8/P5P1/1PP4P/2K1R3 w - - 0 1",
                "e1e5",
                100,
            ),
            (
                "1k1r3q/1ppn3p/p4b2/4p3/8/P2N2P1/1PP1R1BP/2K1Q3 w - - 0 1",
                "d3e5",
                100 - 320,
            ),
            // X-rays on both sides.
            ("4k3/4r3/4r3/8/4p3/8/4R3/4RK2 w - - 0 1", "e2e4", 100 - 500),
            ("4k3/4r3/8/8/4p3/8/4R3/4RK2 w - - 0 1", "e2e4", 100),
            // The king may recapture only what is not defended.
            ("8/4k3/8/3p4/8/8/3R4/3RK3 w - - 0 1", "d2d5", 100),
            ("8/8/4k3/3p4/8/8/3R4/4K3 w - - 0 1", "d2d5", 100 - 500),
            ("8/8/4k3/3p4/8/8/3R4/3RK3 w - - 0 1", "d2d5", 100),
            // A quiet move onto an attacked square, and onto a safe one.
            ("4k3/8/3p4/8/8/3N4/8/4K3 w - - 0 1", "d3e5", -320),
            ("4k3/8/3p4/8/8/3N4/8/4K3 w - - 0 1", "d3f4", 0),
            // Promotions and en passant.
            ("6k1/3P4/8/8/8/8/8/4K3 w - - 0 1", "d7d8q", 850),
            ("5k2/3P4/8/8/8/1K6/8/3r4 w - - 0 1", "d7d8q", 850 - 950),
            ("8/3Pk3/8/8/8/8/8/4K3 w - - 0 1", "d7d8n", 220 - 320),
            ("4k3/2p5/8/3pP3/8/8/8/4K3 w - d6 0 1", "e5d6", 0),
            ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", "e5d6", 100),
            // Castling begins no exchange.
            ("4k3/8/8/8/8/8/8/4K2R w K - 0 1", "e1g1", 0),
        ] {
            assert_eq!(balance(fen, m), expected, "{fen} {m}");
        }
    }

    /// The definition: capture with the least valuable piece or stop, whichever is better.
    fn by_definition(board: &Board, to: Square, side: Color, on_square: Role) -> i32 {
        let attackers = board.attacks_to(to, side, board.occupied());
        let Some((square, role)) = least(board, attackers) else {
            return 0;
        };
        let mut after = board.clone();
        after.discard_piece_at(square);
        after.set_piece_at(to, role.of(side));
        if role == Role::King && after.attacks_to(to, !side, after.occupied()).any() {
            return 0;
        }
        (value(on_square) - by_definition(&after, to, !side, role)).max(0)
    }

    #[test]
    fn agrees_with_the_definition_on_every_move_of_many_positions() {
        let mut compared = 0;
        for fen in [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10",
            "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8",
            "r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1",
            "2rr2k1/1q2bppp/p2p1n2/1p1P4/1P2P3/P4N2/1B3PPP/R2QR1K1 b - - 0 1",
        ] {
            let position: Chess = fen
                .parse::<Fen>()
                .unwrap()
                .into_position(CastlingMode::Standard)
                .unwrap();
            let board = position.board();
            for (square, piece) in board {
                let exact = by_definition(board, square, !piece.color, piece.role);
                assert_eq!(
                    loss(board, square, piece.color, piece.role),
                    exact,
                    "{fen} {square}"
                );
            }
            for m in position.legal_moves() {
                if m.is_castle() {
                    continue;
                }
                let mut after = position.clone();
                after.play_unchecked(m);
                let won = m.capture().map_or(0, value)
                    + m.promotion().map_or(0, |to| value(to) - value(Role::Pawn));
                let moved = m.promotion().unwrap_or(m.role());
                let exact = won - by_definition(after.board(), m.to(), after.turn(), moved);
                for threshold in [exact - 1, exact, exact + 1, -108, 0] {
                    let expected = exact >= threshold;
                    assert_eq!(at_least(&position, m, threshold), expected, "{fen} {m:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 500);
    }
}
