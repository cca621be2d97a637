//! Classes of moves: rows of the policy that are added to a move's own.
//!
//! A row for each piece and pair of squares has to learn anew for each pair of squares that people take back, that a
//! check is worth a look, or that an attacked piece had better go. What all such moves have in common is in the row of
//! their class, which sees the same products of the first layer. A move belongs to one class.
//!
//! Networks that predict human moves have further classes for moves that take back ([`MoveClasses::Human`]).

use shakmaty::{Bitboard, Chess, Move, Piece, Position, Role, Square, attacks};

use super::attacks::Attacks;
use crate::chess::{checks::Checks, see};

/// The classes that a network's policy tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveClasses {
    /// None: a move has its own row only.
    None,
    /// Those of networks that play: what a move does tactically, see [`Classifier`].
    Tactical,
    /// Those of networks that predict human moves: the same, with classes of their own for captures of the piece that
    /// has just moved.
    Human,
}

impl MoveClasses {
    /// How many there are.
    pub const fn count(self) -> usize {
        match self {
            MoveClasses::None => 0,
            MoveClasses::Tactical => Classifier::TACTICAL,
            MoveClasses::Human => Classifier::TACTICAL + 6 * Classifier::OTHERS,
        }
    }

    /// The most that a network has.
    pub const MOST: usize = MoveClasses::Human.count();

    /// The class among [`MoveClasses::Tactical`] of moves that have this class among [`MoveClasses::Human`].
    pub fn without_recaptures(class: usize) -> usize {
        match class.checked_sub(Classifier::TACTICAL) {
            Some(recapture) => {
                let (piece, of_piece) = (
                    recapture / Classifier::OTHERS,
                    recapture % Classifier::OTHERS,
                );
                piece * Classifier::OF_A_PIECE + of_piece
            }
            None => class,
        }
    }
}

/// A capture that wins this many centipawns in the exchange wins a pawn, a piece, a rook.
const GAINS: [i32; 3] = [60, 250, 450];
/// A move that loses more than this many centipawns in the exchange loses a rook or a queen.
const LARGE_LOSS: i32 = -500;

/// Finds the class of each move of a position.
///
/// For each piece there is a class for mate, and one for each combination of these answers:
///
/// | Move | Check? | Does the piece hang where it stands? | Further |
/// |---|---|---|---|
/// | loses material | 2 | 2 | is it a capture? does it lose at most a rook? |
/// | capture | 2 | 2 | wins nothing, a pawn, a piece, a rook or more |
/// | other | 2 | 2 | attacks anew: nothing, a loose piece, a larger piece; does the other side attack its target? is an attacked piece left without its only defender? |
///
/// Captures of the piece that has just moved have further classes, mates, losing moves and captures as above, if the
/// network tells them apart.
#[derive(Clone, Debug)]
pub struct Classifier<'a> {
    position: &'a Chess,
    checks: Option<Checks<'a>>,
    /// Own pieces that are attacked by less than themselves, or attacked and not defended.
    hanging: Bitboard,
    /// Squares that the other side attacks.
    attacked: Bitboard,
    /// Enemy pieces, without pawns and king, that nobody defends.
    loose: Bitboard,
    /// Own pieces that are attacked and defended once.
    held: Bitboard,
    /// Where captures are recaptures.
    last: Option<Square>,
}

impl<'a> Classifier<'a> {
    const LOSING: usize = 1;
    const CAPTURES: usize = Self::LOSING + 4 * 2 * 2;
    const OTHERS: usize = Self::CAPTURES + 4 * (GAINS.len() + 1);
    const OF_A_PIECE: usize = Self::OTHERS + 4 * 3 * 2 * 2;
    /// All classes but those of recaptures.
    const TACTICAL: usize = 6 * Self::OF_A_PIECE;

    /// For a position with these attacks, in which the last move went to `last`; `None` if there are no classes.
    pub fn new(
        classes: MoveClasses,
        position: &'a Chess,
        found: &Attacks,
        last: Option<Square>,
    ) -> Option<Classifier<'a>> {
        let last = match classes {
            MoveClasses::None => return None,
            MoveClasses::Tactical => None,
            MoveClasses::Human => last,
        };
        let (board, us) = (position.board(), position.turn());
        let (own, enemies) = (board.by_color(us), board.by_color(!us));
        let mut hanging = Bitboard::EMPTY;
        // What enemy pieces worth less attack.
        let mut by_less = Bitboard::EMPTY;
        for role in Role::ALL {
            let hangs = by_less | found.theirs.all & !found.ours.all;
            hanging |= own & board.by_role(role) & hangs;
            by_less |= found.theirs.by(role);
        }
        Some(Classifier {
            position,
            checks: Checks::of(position),
            hanging,
            attacked: found.theirs.all,
            loose: enemies & !found.theirs.all & !board.pawns() & !board.kings(),
            held: own & found.theirs.all & !found.ours.twice & !board.kings(),
            last,
        })
    }

    /// The class of a legal move, below [`MoveClasses::count`]; `keeps` says whether it keeps its material.
    pub fn class(&self, m: Move, keeps: bool) -> usize {
        let gives_check = gives_check(self.checks.as_ref(), m);
        let of_piece = if gives_check && has_no_reply(self.position, m) {
            0
        } else {
            let from = m.from().unwrap_or(m.to());
            let base = usize::from(gives_check) + 2 * usize::from(self.hanging.contains(from));
            base + match (keeps, m) {
                (false, _) => Self::LOSING + 4 * self.loss(m),
                (true, Move::Castle { .. }) => Self::OTHERS,
                (true, _) if m.is_capture() => Self::CAPTURES + 4 * self.gain(m),
                (true, _) => Self::OTHERS + 4 * self.quiet(m, from),
            }
        };
        let piece = m.role() as usize - 1;
        if m.is_capture() && self.last == Some(m.to()) {
            Self::TACTICAL + piece * Self::OTHERS + of_piece
        } else {
            piece * Self::OF_A_PIECE + of_piece
        }
    }

    /// How a move that loses material does so, below 4.
    fn loss(&self, m: Move) -> usize {
        let is_small = see::at_least(self.position, m, LARGE_LOSS);
        usize::from(m.is_capture()) + 2 * usize::from(is_small)
    }

    /// What a capture wins, up to the length of [`GAINS`].
    fn gain(&self, m: Move) -> usize {
        let wins = |gain: &&i32| see::at_least(self.position, m, **gain);
        GAINS.iter().take_while(wins).count()
    }

    /// What a move that neither captures nor loses material does, below 12.
    fn quiet(&self, m: Move, from: Square) -> usize {
        let (board, us) = (self.position.board(), self.position.turn());
        let piece = Piece {
            color: us,
            role: m.role(),
        };
        let occupied = board.occupied().without(from).with(m.to());
        let after = attacks::attacks(m.to(), piece, occupied);
        let larger = match m.role() {
            Role::Pawn => !board.pawns(),
            Role::Knight | Role::Bishop => board.rooks_and_queens(),
            Role::Rook => board.queens(),
            Role::Queen | Role::King => Bitboard::EMPTY,
        };
        let victims = after & (larger & board.by_color(!us) & !board.kings() | self.loose);
        let (mut threat, mut abandons) = (0, false);
        if victims.any() || self.held.any() {
            let before = attacks::attacks(from, piece, board.occupied());
            threat = match victims & !before {
                new if (new & larger).any() => 2,
                new if new.any() => 1,
                _ => 0,
            };
            abandons = (before & !after & self.held).any();
        }
        threat + 3 * usize::from(self.attacked.contains(m.to())) + 6 * usize::from(abandons)
    }
}

fn gives_check(checks: Option<&Checks<'_>>, m: Move) -> bool {
    checks.is_some_and(|checks| checks.is_check(m))
}

/// Whether a legal move leaves the other side none: mate, if it gives check.
fn has_no_reply(position: &Chess, m: Move) -> bool {
    after(position, m).legal_moves().is_empty()
}

fn after(position: &Chess, m: Move) -> Chess {
    let mut after = position.clone();
    after.play_unchecked(m);
    after
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use shakmaty::{CastlingMode, fen::Fen};

    use super::*;
    use crate::sparse::moves::EXCHANGE;

    fn position(fen: &str) -> Chess {
        let fen: Fen = fen.parse().unwrap();
        fen.into_position(CastlingMode::Chess960).unwrap()
    }

    /// The class of a move; the last one went to `last`.
    fn class(classes: MoveClasses, fen: &str, wanted: &str, last: Option<Square>) -> usize {
        let position = position(fen);
        let classifier = Classifier::new(classes, &position, &Attacks::of(&position), last);
        let moves = position.legal_moves();
        let is_wanted = |m: &&Move| m.to_uci(CastlingMode::Standard).to_string() == wanted;
        let m = *moves.iter().find(is_wanted).unwrap();
        classifier
            .unwrap()
            .class(m, see::at_least(&position, m, EXCHANGE))
    }

    #[test]
    fn people_take_back() {
        let fen = "r5k1/5pp1/7p/3p4/8/2N5/8/R3K1Q1 w - - 0 1";
        let mut recaptures = HashSet::new();
        for (m, last) in [
            ("c3d5", Square::D5),
            ("a1a8", Square::A8),
            ("g1g7", Square::G7),
        ] {
            let of = |classes, last| class(classes, fen, m, last);
            let tactical = of(MoveClasses::Tactical, None);
            assert_eq!(of(MoveClasses::Tactical, Some(last)), tactical);
            assert_eq!(of(MoveClasses::Human, None), tactical);
            assert_eq!(of(MoveClasses::Human, Some(Square::H6)), tactical);
            let recapture = of(MoveClasses::Human, Some(last));
            assert!((MoveClasses::Tactical.count()..MoveClasses::MOST).contains(&recapture));
            assert_eq!(MoveClasses::without_recaptures(recapture), tactical);
            assert_eq!(MoveClasses::without_recaptures(tactical), tactical);
            assert!(recaptures.insert(recapture));
        }
        // To that square, but no capture.
        let quiet = class(MoveClasses::Human, fen, "c3b5", Some(Square::B5));
        assert!(quiet < MoveClasses::Tactical.count());
    }

    #[test]
    fn tactical_classes_of_moves() {
        const LOSING: usize = Classifier::LOSING;
        const CAPTURES: usize = Classifier::CAPTURES;
        const OTHERS: usize = Classifier::OTHERS;
        let (check, hangs) = (1, 2);
        let (capture, small, attacked, abandons) = (4, 8, 12, 24);
        let cases = [
            ("6k1/5ppp/8/8/8/8/8/R2QK3 w - - 0 1", "a1a8", 0),
            ("6k1/5ppp/8/8/8/8/8/R2QK3 w - - 0 1", "d1c2", OTHERS),
            ("4k3/8/8/8/8/8/8/R3K3 w Q - 0 1", "e1c1", OTHERS),
            // The queen is lost for a pawn; a knight for a pawn, with check.
            (
                "6k1/5pp1/7p/3p4/8/8/6Q1/4K3 w - - 0 1",
                "g2g7",
                LOSING + check + capture,
            ),
            (
                "6k1/5p2/8/4N3/8/8/8/4K3 w - - 0 1",
                "e5f7",
                LOSING + capture + small,
            ),
            ("6k1/6p1/8/8/8/4N3/8/4K3 w - - 0 1", "e3f5", OTHERS),
            (
                "6k1/6p1/8/8/6N1/8/8/4K3 w - - 0 1",
                "g4h6",
                LOSING + check + small,
            ),
            // What captures win.
            ("4k3/8/8/3p4/8/4N3/8/4K3 w - - 0 1", "e3d5", CAPTURES + 4),
            ("4k3/8/2p5/3b4/8/4N3/8/4K3 w - - 0 1", "e3d5", CAPTURES),
            ("4k3/8/8/3b4/8/4N3/8/4K3 w - - 0 1", "e3d5", CAPTURES + 8),
            ("4k3/8/8/3r4/8/4N3/8/4K3 w - - 0 1", "e3d5", CAPTURES + 12),
            // A rook that a bishop attacks goes; a knight that nobody defends.
            ("4k3/8/8/8/8/8/2b5/4K3 w - - 0 1", "e1f1", OTHERS),
            ("6k1/8/8/8/8/2b5/8/R5K1 w - - 0 1", "a1b1", OTHERS + hangs),
            ("6k1/8/8/8/8/2b5/3P4/R5K1 w - - 0 1", "a1d1", OTHERS + hangs),
            // Attacks a loose piece, and one that is larger.
            ("6k1/8/8/b7/8/8/8/1R4K1 w - - 0 1", "b1b5", OTHERS + 4),
            ("3r2k1/8/8/8/8/8/5N2/6K1 w - - 0 1", "f2e4", OTHERS),
            ("r5k1/8/8/8/2N5/8/8/6K1 w - - 0 1", "c4b6", OTHERS + 8),
            // To an attacked square where it is not lost.
            (
                "6k1/1n6/8/8/8/2N1P3/8/3R2K1 w - - 0 1",
                "d1d6",
                LOSING + small,
            ),
            (
                "3r2k1/8/8/8/8/4P3/8/3RR1K1 w - - 0 1",
                "d1d4",
                OTHERS + attacked,
            ),
            // The rook is the only defender of the attacked knight.
            (
                "6k1/8/8/1n6/3N4/8/8/3R2K1 w - - 0 1",
                "d1c1",
                OTHERS + abandons,
            ),
            ("6k1/8/8/1n6/3N4/4P3/8/3R2K1 w - - 0 1", "d1c1", OTHERS),
        ];
        for (fen, m, expected) in cases {
            let found = class(MoveClasses::Tactical, fen, m, None);
            let of_piece = found % Classifier::OF_A_PIECE;
            assert_eq!(of_piece, expected, "{fen} {m}");
        }
    }

    const FENS: [&str; 8] = [
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10",
        "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
        "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
        "6k1/8/4N3/3P4/2p5/1B6/8/R3K2R w KQ - 0 1",
        "4r3/8/8/2k5/3Pp3/8/1Q6/4K2B b - d3 0 1",
        "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
        "4k3/8/8/4N3/8/8/4R3/4K1Q1 w - - 0 1",
    ];

    #[test]
    fn checks_are_found_without_playing_the_move() {
        let mut found = HashSet::new();
        for fen in FENS {
            let position = position(fen);
            let attacks = Attacks::of(&position);
            let classes = Classifier::new(MoveClasses::Tactical, &position, &attacks, None);
            let classes = classes.unwrap();
            for m in position.legal_moves() {
                let expected = after(&position, m).is_check();
                assert_eq!(
                    gives_check(classes.checks.as_ref(), m),
                    expected,
                    "{fen} {m:?}"
                );
                let class = classes.class(m, see::at_least(&position, m, EXCHANGE));
                assert!(class < MoveClasses::Tactical.count());
                found.insert((class, expected));
            }
        }
        assert!(found.iter().any(|(_, is_check)| *is_check) && found.len() > 40);
    }
}
