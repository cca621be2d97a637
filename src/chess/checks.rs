//! Finds the moves that give check without playing them.

use shakmaty::{Bitboard, ByRole, Chess, Color, File, Move, Position, Rank, Role, Square, attacks};

use super::{PackedMove, Ply};

/// The squares and pieces that can give check in one position.
#[derive(Clone, Debug)]
pub struct Checks<'a> {
    position: &'a Chess,
    king: Square,
    /// The squares from which a piece of each role would attack the king.
    from: ByRole<Bitboard>,
    /// Own pieces between the king and an own rook, bishop or queen.
    blockers: Bitboard,
}

impl<'a> Checks<'a> {
    /// For the side to move; `None` if its opponent has no king.
    pub fn of(position: &'a Chess) -> Option<Checks<'a>> {
        let board = position.board();
        let (turn, occupied) = (position.turn(), board.occupied());
        let king = board.king_of(turn.other())?;
        let rook = attacks::rook_attacks(king, occupied);
        let bishop = attacks::bishop_attacks(king, occupied);
        Some(Checks {
            position,
            king,
            from: ByRole {
                pawn: attacks::pawn_attacks(turn.other(), king),
                knight: attacks::knight_attacks(king),
                bishop,
                rook,
                queen: bishop | rook,
                king: Bitboard::EMPTY,
            },
            blockers: blockers(position, king, turn),
        })
    }

    /// For the side to move at the end of a line.
    pub fn after(line: &'a [Ply]) -> Option<Checks<'a>> {
        Checks::of(&line.last()?.position)
    }

    /// Whether this legal move of the position gives check.
    pub fn gives_check(&self, m: PackedMove) -> bool {
        self.is_check(m.unpack(self.position))
    }

    /// The same for an unpacked move.
    pub fn is_check(&self, m: Move) -> bool {
        match m {
            Move::Normal {
                role,
                from,
                to,
                promotion: None,
                ..
            } => {
                let leaves = self.blockers.contains(from) && !attacks::aligned(self.king, from, to);
                leaves || self.from.get(role).contains(to)
            }
            m => {
                let mut after = self.position.clone();
                after.play_unchecked(m);
                after.is_check()
            }
        }
    }

    /// The first move that gives check and satisfies `is_wanted`, without [rare](Checks::may_be_rare) ones. Pins and
    /// evasions are ignored: `is_wanted` is also called with illegal moves, and with some moves twice.
    pub fn find(&self, mut is_wanted: impl FnMut(Move) -> bool) -> Option<Move> {
        let board = self.position.board();
        let (us, them) = (self.position.us(), self.position.them());
        let mut find = |role: Role, from: Square, reach: Bitboard| {
            let mut checks = self.from[role];
            if self.blockers.contains(from) {
                checks |= !attacks::ray(self.king, from);
            }
            (reach & checks & !us).into_iter().find_map(|to| {
                let m = Move::Normal {
                    role,
                    from,
                    capture: board.role_at(to),
                    to,
                    promotion: None,
                };
                is_wanted(m).then_some(m)
            })
        };
        for role in [Role::Queen, Role::Rook, Role::Bishop, Role::Knight] {
            for from in us & board.by_role(role) {
                let found = find(role, from, board.attacks_from(from));
                if found.is_some() {
                    return found;
                }
            }
        }
        for from in us & self.blockers & board.kings() {
            let found = find(Role::King, from, attacks::king_attacks(from));
            if found.is_some() {
                return found;
            }
        }
        let turn = self.position.turn();
        let (forward, third) = turn.fold_wb((8, Rank::Third), (-8, Rank::Sixth));
        let empty = !board.occupied();
        for from in us & board.pawns() & !self.about_to_promote() {
            let step = Bitboard::from(from).shift(forward) & empty;
            let second = (step & Bitboard::from(third)).shift(forward) & empty;
            let captures = attacks::pawn_attacks(turn, from) & them;
            let found = find(Role::Pawn, from, step | second | captures);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Whether a promotion, castling or a capture en passant might give check.
    pub fn may_be_rare(&self) -> bool {
        self.about_to_promote().any()
            || self.position.maybe_ep_square().is_some()
            || self.castling_may()
    }

    /// Pawns whose next move is a promotion.
    fn about_to_promote(&self) -> Bitboard {
        let last_but_one = self.position.turn().fold_wb(Rank::Seventh, Rank::Second);
        self.position.us() & self.position.board().pawns() & Bitboard::from(last_but_one)
    }

    /// Whether castling might give check: by the rook in its new place, by a line that king or rook blocked, or along
    /// the rank.
    fn castling_may(&self) -> bool {
        let turn = self.position.turn();
        if !self.position.castles().has_color(turn) {
            return false;
        }
        let board = self.position.board();
        let home = Bitboard::from(turn.fold_wb(Rank::First, Rank::Eighth));
        let rook_to = home & (Bitboard::from(File::D) | Bitboard::from(File::F));
        (self.from.rook & rook_to).any()
            || (self.blockers & (board.kings() | board.rooks())).any()
            || home.contains(self.king)
    }
}

/// The pieces of `turn` that are the only piece between `king` and an attacker of their side.
fn blockers(position: &Chess, king: Square, turn: Color) -> Bitboard {
    let board = position.board();
    let us = board.by_color(turn);
    let straight = attacks::rook_attacks(king, Bitboard::EMPTY) & (board.rooks() | board.queens());
    let diagonal =
        attacks::bishop_attacks(king, Bitboard::EMPTY) & (board.bishops() | board.queens());
    let mut blockers = Bitboard::EMPTY;
    for slider in (straight | diagonal) & us {
        let between = attacks::between(king, slider) & board.occupied();
        if between.count() == 1 {
            blockers |= between & us;
        }
    }
    blockers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chess::moves::legal_moves;
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
    use shakmaty::{CastlingMode, fen::Fen};

    fn position(fen: &str) -> Chess {
        let fen = fen.parse::<Fen>().unwrap();
        fen.into_position(CastlingMode::Chess960).unwrap()
    }

    /// Compares with playing each move; returns how many of them give check.
    fn compare(position: &Chess) -> usize {
        let checks = Checks::of(position).unwrap();
        let gives = |&m: &PackedMove| {
            let mut after = position.clone();
            after.play_unchecked(m.unpack(position));
            assert_eq!(
                checks.gives_check(m),
                after.is_check(),
                "{position:?} {m:?}"
            );
            after.is_check()
        };
        let given: Vec<PackedMove> = legal_moves(position).filter(gives).collect();
        let mut found = Vec::new();
        checks.find(|m| {
            found.push(m);
            false
        });
        for &m in &given {
            let is_found = found.contains(&m.unpack(position)) || checks.may_be_rare();
            assert!(is_found, "{position:?} {m:?}");
        }
        for m in position.legal_moves() {
            let is_rare = m.promotion().is_some() || m.is_castle() || m.is_en_passant();
            assert_eq!(
                found.contains(&m),
                !is_rare && given.contains(&PackedMove::pack(m)),
                "{position:?} {m:?}"
            );
        }
        given.len()
    }

    #[test]
    fn checks_of_every_kind_are_found() {
        let with_one = [
            // By castling, en passant (the captured pawn opens the rank), a promotion.
            "5k2/8/8/8/8/8/8/4K2R w H - 0 1",
            "8/8/8/R2pP2k/8/8/8/4K3 w - d6 0 1",
            "k7/4P3/8/8/8/8/8/4K3 w - - 0 1",
        ];
        for fen in with_one {
            assert!(compare(&position(fen)) >= 1, "{fen}");
        }
        for fen in [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w HAha - 0 1",
            "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
            "8/8/8/1k1pP2R/8/8/8/1B2K3 w - d6 0 1",
            "r1bq2rk/pp3pbp/2p1p1pQ/7P/3P4/2PB1N2/PP3PPR/2KR4 w - - 0 1",
            "8/2k5/8/4P3/3K4/8/1B6/8 w - - 0 1",
        ] {
            compare(&position(fen));
        }
        // A screen that stays on its line gives no check, one that leaves it does.
        let screen = position("4k3/8/8/4P3/8/8/4R3/K7 w - - 0 1");
        assert_eq!(compare(&screen), 0);
        let knight = position("4k3/8/8/4N3/8/8/4R3/K7 w - - 0 1");
        assert_eq!(compare(&knight), 8);
    }

    #[test]
    fn random_games_have_the_same_checks_as_played() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut found = 0;
        for game in 0..200 {
            let mut position = position(match game % 3 {
                0 => "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w HAha - 0 1",
                1 => "r3k2r/8/2q2b2/1B1Pp3/8/8/8/R3K2R w HAha e6 0 1",
                _ => "3q3k/P5p1/8/8/2B5/8/1p4P1/K2Q4 w - - 0 1",
            });
            for _ in 0..100 {
                found += compare(&position);
                let moves: Vec<PackedMove> = legal_moves(&position).collect();
                if moves.is_empty() {
                    break;
                }
                let m = moves[rng.random_range(0..moves.len())];
                position.play_unchecked(m.unpack(&position));
            }
        }
        assert!(found > 5000, "{found}");
    }
}
