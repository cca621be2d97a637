//! Moves in two bytes.
//!
//! The tree stores millions of moves, so an edge keeps only the squares and the promotion; what was captured or whether
//! it is castling follows from the board. Castling is always "king takes own rook", in standard chess too, which is
//! also how lc0's policy vector names it.

use shakmaty::{
    Bitboard, CastlingMode, Chess, Move, Position, Role, Square, attacks, uci::UciMove,
};

/// Size of fixed buffers for the moves of a position, which has at most 218.
pub const MAX_MOVES: usize = 256;

/// A legal move of a known position: bits 0-5 from, 6-11 to, 12-14 promotion (0 none, 2 knight, 3 bishop, 4 rook,
/// 5 queen).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PackedMove(u16);

impl PackedMove {
    /// Packs a move of standard chess or Chess960.
    pub fn pack(m: Move) -> PackedMove {
        // A drop (`Move::Put`) cannot occur in `Chess`; it would pack as a move in place.
        let from = m.from().unwrap_or(m.to());
        PackedMove::new(from, m.to(), m.promotion())
    }

    /// Packs squares and promotion; castling must be given as king takes rook.
    pub fn new(from: Square, to: Square, promotion: Option<Role>) -> PackedMove {
        let promotion = promotion.map_or(0, u16::from);
        PackedMove(u16::from(from) | (u16::from(to) << 6) | (promotion << 12))
    }

    /// The square the piece leaves (the king's, when castling).
    pub fn from(self) -> Square {
        Square::new(u32::from(self.0 & 63))
    }

    /// The square the piece goes to (the rook's, when castling).
    pub fn to(self) -> Square {
        Square::new(u32::from(self.0 >> 6 & 63))
    }

    /// The promotion piece.
    pub fn promotion(self) -> Option<Role> {
        match self.0 >> 12 {
            2 => Some(Role::Knight),
            3 => Some(Role::Bishop),
            4 => Some(Role::Rook),
            5 => Some(Role::Queen),
            _ => None,
        }
    }

    /// The two bytes, as an integer.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// A move from the two bytes. Any value is accepted, but only those of [`PackedMove::bits`] are meaningful.
    pub fn from_bits(bits: u16) -> PackedMove {
        PackedMove(bits)
    }

    /// The full move in `position`, in which it must be legal (unchecked).
    pub fn unpack(self, position: &Chess) -> Move {
        let (from, to) = (self.from(), self.to());
        let board = position.board();
        let role = board.role_at(from).unwrap_or(Role::Pawn);
        let capture = board.role_at(to);
        if role == Role::King && capture == Some(Role::Rook) && position.us().contains(to) {
            Move::Castle {
                king: from,
                rook: to,
            }
        } else if role == Role::Pawn && capture.is_none() && from.file() != to.file() {
            Move::EnPassant { from, to }
        } else {
            Move::Normal {
                role,
                from,
                capture,
                to,
                promotion: self.promotion(),
            }
        }
    }

    /// The move in UCI notation: king takes rook in Chess960, `e1g1` in standard chess.
    pub fn to_uci(self, position: &Chess, mode: CastlingMode) -> UciMove {
        UciMove::from_move(self.unpack(position), mode)
    }
}

/// Adds all legal moves, packed, in `shakmaty`'s order. For code that runs once per node: it avoids copying the list
/// (two kilobytes).
pub fn add_legal_moves(position: &Chess, moves: &mut Vec<PackedMove>) {
    let legal = position.legal_moves();
    moves.extend(legal.iter().map(|&m| PackedMove::pack(m)));
}

/// All legal moves, packed, in `shakmaty`'s order.
pub fn legal_moves(position: &Chess) -> impl Iterator<Item = PackedMove> {
    position.legal_moves().into_iter().map(PackedMove::pack)
}

/// Whether there is a legal move. Obvious moves are tried first, so the full list is rarely generated.
pub fn has_legal_move(position: &Chess) -> bool {
    obvious_moves(position).next().is_some() || !position.legal_moves().is_empty()
}

/// The only legal move, if there is exactly one.
pub fn only_move(position: &Chess) -> Option<PackedMove> {
    if obvious_moves(position).nth(1).is_some() {
        return None;
    }
    match *position.legal_moves() {
        [m] => Some(PackedMove::pack(m)),
        _ => None,
    }
}

/// Some of the legal moves, found without generating all: king moves and, out of check, moves of pieces that cannot
/// be pinned because they are on no line with their king.
pub fn obvious_moves(position: &Chess) -> impl Iterator<Item = PackedMove> {
    let board = position.board();
    let (us, occupied) = (position.us(), board.occupied());
    let king = board.king_of(position.turn());
    let free = match king {
        Some(king) if !position.is_check() => {
            us & !attacks::queen_attacks(king, Bitboard::EMPTY) & !Bitboard::from(king)
        }
        _ => Bitboard::EMPTY,
    };
    let forward = position.turn().fold_wb(8, -8);
    let steps = (free & board.pawns()).shift(forward) & !occupied & !Bitboard::BACKRANKS;
    let of_pawns = steps
        .into_iter()
        .filter_map(move |to| Some(PackedMove::new(to.offset(-forward)?, to, None)));
    let to_moves = move |from: Square, targets: Bitboard| {
        let targets = (targets & !us).into_iter();
        targets.map(move |to| PackedMove::new(from, to, None))
    };
    let of_pieces = (free & !board.pawns())
        .into_iter()
        .flat_map(move |from| to_moves(from, board.attacks_from(from)));
    let of_king = king.into_iter().flat_map(move |from| {
        let behind = occupied & !Bitboard::from(from);
        let is_safe = move |m: &PackedMove| {
            let attackers = board.attacks_to(m.to(), position.turn().other(), behind);
            attackers.is_empty()
        };
        to_moves(from, attacks::king_attacks(from)).filter(is_safe)
    });
    of_pawns.chain(of_pieces).chain(of_king)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
    use shakmaty::fen::Fen;

    fn position(fen: &str) -> Chess {
        let fen = fen.parse::<Fen>().unwrap();
        fen.into_position(CastlingMode::Chess960).unwrap()
    }

    #[test]
    fn a_position_has_a_move_if_its_list_of_moves_is_not_empty() {
        let stuck = [
            // Mate, smothered mate, stalemates: alone, behind a blocked pawn, with a pinned knight.
            "R5k1/5ppp/8/8/8/8/8/4K3 b - - 0 1",
            "6rk/5Npp/8/8/8/8/8/4K3 b - - 0 1",
            "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1",
            "k1K5/p7/P7/8/8/8/8/8 b - - 0 1",
            "kn1R4/8/1K6/8/8/8/8/8 b - - 0 1",
            "7k/7p/7P/5K2/6Q1/8/8/8 b - - 0 1",
        ];
        for fen in stuck {
            let position = position(fen);
            assert!(position.legal_moves().is_empty(), "{fen}");
            assert!(!has_legal_move(&position), "{fen}");
        }
        let open = [
            // Only a pawn that takes, a pinned piece along its line, a piece that comes between.
            "7k/7p/6pP/5NP1/2B5/8/8/K7 b - - 0 1",
            "k7/r7/8/8/8/8/8/RRK5 b - - 0 1",
            "R5k1/5ppp/3r4/8/8/8/8/4K3 b - - 0 1",
        ];
        for fen in open {
            assert!(has_legal_move(&position(fen)), "{fen}");
        }
    }

    #[test]
    fn random_games_end_only_without_moves() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let (mut ends, mut fallbacks, mut alone) = (0, 0, 0);
        for game in 0..300 {
            // Half of the games begin with few pieces, where mates and stalemates are common.
            let mut position = position(match game % 2 {
                0 => "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w HAha - 0 1",
                _ => "k7/p7/8/3q4/8/6p1/6P1/7K b - - 0 1",
            });
            for _ in 0..400 {
                let moves = position.legal_moves();
                let board = position.board();
                assert_eq!(has_legal_move(&position), !moves.is_empty(), "{board:?}");
                let is_legal = |m: PackedMove| moves.contains(&m.unpack(&position));
                assert!(obvious_moves(&position).all(is_legal), "{board:?}");
                let only = (moves.len() == 1).then(|| PackedMove::pack(moves[0]));
                assert_eq!(only_move(&position), only, "{board:?}");
                alone += usize::from(only.is_some());
                fallbacks += usize::from(obvious_moves(&position).next().is_none());
                if moves.is_empty() {
                    ends += 1;
                    break;
                }
                position.play_unchecked(moves[rng.random_range(0..moves.len())]);
            }
        }
        assert!(
            ends > 20 && fallbacks > ends && alone > 20,
            "{ends} ends, {fallbacks} not obvious, {alone} alone"
        );
    }

    #[test]
    fn unpacking_restores_every_legal_move() {
        let fens = [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
            "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
            "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
        ];
        for fen in fens {
            let position = position(fen);
            for m in position.legal_moves() {
                let packed = PackedMove::pack(m);
                assert_eq!(packed.unpack(&position), m, "{fen}");
                assert_eq!(PackedMove::from_bits(packed.bits()), packed);
            }
        }
    }
}
