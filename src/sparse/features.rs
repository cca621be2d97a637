//! What a sparse network sees: which of its inputs are 1 in a position.
//!
//! Everything is seen by the side to move (ranks flipped for Black) and mirrored so that its king stands on files e to h:
//! left and right need not be learned twice. An input stands for a piece on a square, with whether it is attacked by the other side and
//! whether its own side defends it (12 kinds of pieces x 64 squares x 4); a few more for castling rights, en passant and the
//! 50-move rule. Of history nothing is seen, so positions with equal keys and equal rule-50 counters are equal here.

use shakmaty::{Bitboard, CastlingSide, Chess, Color, File, Position, Square};

/// Inputs that stand for pieces: (attacked, defended) x own P N B R Q K, the opponent's x square.
pub const PIECE_INPUTS: usize = 4 * 12 * 64;
/// Own right to castle towards the a file as seen, towards the h file, then the opponent's.
const CASTLING: usize = PIECE_INPUTS;
/// The file on which a pawn can be captured in passing.
const EN_PASSANT: usize = CASTLING + 4;
/// One for each of [`RULE50_STEPS`].
const RULE50: usize = EN_PASSANT + 8;
/// All inputs.
pub const INPUTS: usize = RULE50 + RULE50_STEPS.len();
/// Masks of 64 bits that all inputs take.
pub const PLANES: usize = INPUTS.div_ceil(64);

/// The least plies without capture or pawn move for each of the rule-50 inputs; below the first none is 1.
pub const RULE50_STEPS: [u32; 8] = [8, 16, 24, 32, 48, 64, 80, 90];

/// More inputs than these cannot be 1: every square occupied, and the others.
pub const MOST_ACTIVE: usize = 64 + 4 + 1 + 1;

/// How squares are seen: by the side to move, its king on files e to h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SquareView {
    flip: u8,
}

impl SquareView {
    /// The view of the side to move.
    pub fn of(position: &Chess) -> SquareView {
        let us = position.turn();
        let king = position.board().king_of(us).unwrap_or(Square::E1);
        let ranks = if us == Color::Black { 56 } else { 0 };
        let files = if king.file() < File::E { 7 } else { 0 };
        SquareView {
            flip: ranks | files,
        }
    }

    /// A square as seen, 0 (a1) to 63.
    #[inline(always)]
    pub fn square(self, square: Square) -> usize {
        usize::from(u8::from(square) ^ self.flip)
    }

    /// A file as seen, 0 to 7.
    fn file(self, file: File) -> usize {
        usize::from(u8::from(file) ^ self.flip & 7)
    }

    /// Whether left and right are exchanged.
    pub fn is_mirrored(self) -> bool {
        self.flip & 7 != 0
    }
}

/// The squares that each side attacks, and sliders' lines seen from a square.
#[derive(Clone, Copy, Debug)]
pub struct Attacks {
    /// By the side to move.
    pub ours: Bitboard,
    /// By the other side.
    pub theirs: Bitboard,
}

impl Attacks {
    /// All attacks on the board, pinned pieces' included.
    pub fn of(position: &Chess) -> Attacks {
        let us = position.turn();
        Attacks {
            ours: by(position, us),
            theirs: by(position, !us),
        }
    }
}

fn by(position: &Chess, color: Color) -> Bitboard {
    let board = position.board();
    let occupied = board.occupied();
    let side = board.by_color(color);
    let pawns = side & board.pawns();
    let mut attacked = pawn_attacks(pawns, color);
    for square in side & board.knights() {
        attacked |= shakmaty::attacks::knight_attacks(square);
    }
    for square in side & board.bishops_and_queens() {
        attacked |= shakmaty::attacks::bishop_attacks(square, occupied);
    }
    for square in side & board.rooks_and_queens() {
        attacked |= shakmaty::attacks::rook_attacks(square, occupied);
    }
    for square in side & board.kings() {
        attacked |= shakmaty::attacks::king_attacks(square);
    }
    attacked
}

/// The squares that pawns of a colour attack, all at once.
fn pawn_attacks(pawns: Bitboard, color: Color) -> Bitboard {
    let west = pawns.without_const(Bitboard::from_file(File::A));
    let east = pawns.without_const(Bitboard::from_file(File::H));
    match color {
        Color::White => Bitboard(west.0 << 7 | east.0 << 9),
        Color::Black => Bitboard(west.0 >> 9 | east.0 >> 7),
    }
}

/// The inputs that are 1, in a fixed order.
#[derive(Clone, Copy, Debug)]
pub struct ActiveFeatures {
    len: u8,
    list: [u16; MOST_ACTIVE],
}

impl ActiveFeatures {
    /// Those of a position.
    pub fn of(position: &Chess) -> ActiveFeatures {
        ActiveFeatures::with(position, SquareView::of(position), &Attacks::of(position))
    }

    /// Those of a position whose view and attacks are known.
    pub fn with(position: &Chess, view: SquareView, attacks: &Attacks) -> ActiveFeatures {
        let mut features = ActiveFeatures {
            len: 0,
            list: [0; MOST_ACTIVE],
        };
        let (board, us) = (position.board(), position.turn());
        for (base, color, attacked, defended) in [
            (0, us, attacks.theirs, attacks.ours),
            (6, !us, attacks.ours, attacks.theirs),
        ] {
            let (roles, _) = board.clone().into_bitboards();
            let side = board.by_color(color);
            for (kind, pieces) in [
                roles.pawn,
                roles.knight,
                roles.bishop,
                roles.rook,
                roles.queen,
                roles.king,
            ]
            .into_iter()
            .enumerate()
            {
                for square in pieces & side {
                    let state = usize::from(attacked.contains(square))
                        + 2 * usize::from(defended.contains(square));
                    features.push((state * 12 + base + kind) * 64 + view.square(square));
                }
            }
        }
        features.push_others(position, view);
        features
    }

    fn push_others(&mut self, position: &Chess, view: SquareView) {
        let us = position.turn();
        if position.castles().any() {
            for (base, color) in [(CASTLING, us), (CASTLING + 2, !us)] {
                for (at, side) in [CastlingSide::QueenSide, CastlingSide::KingSide]
                    .into_iter()
                    .enumerate()
                {
                    if position.castles().has(color, side) {
                        self.push(base + (at ^ usize::from(view.is_mirrored())));
                    }
                }
            }
        }
        if let Some(square) = position.legal_ep_square() {
            self.push(EN_PASSANT + view.file(square.file()));
        }
        let plies = position.halfmoves();
        if let Some(step) = RULE50_STEPS.iter().rposition(|&least| plies >= least) {
            self.push(RULE50 + step);
        }
    }

    #[inline(always)]
    fn push(&mut self, input: usize) {
        if let Some(place) = self.list.get_mut(usize::from(self.len)) {
            *place = input as u16;
            self.len += 1;
        }
    }

    /// The inputs as bits: input `i` is bit `i % 64` of mask `i / 64`.
    pub fn masks(&self) -> [u64; PLANES] {
        let mut masks = [0; PLANES];
        for &input in self.as_slice() {
            masks[usize::from(input) / 64] |= 1 << (input % 64);
        }
        masks
    }

    /// The inputs of masks, in order. What is no input is left out.
    pub fn of_masks(masks: &[u64]) -> ActiveFeatures {
        let mut features = ActiveFeatures {
            len: 0,
            list: [0; MOST_ACTIVE],
        };
        for (at, mut mask) in masks.iter().copied().enumerate() {
            while mask != 0 {
                let input = 64 * at + mask.trailing_zeros() as usize;
                if input < INPUTS {
                    features.push(input);
                }
                mask &= mask - 1;
            }
        }
        features
    }

    /// The same in the order of their numbers, in which masks have them: sums of floats depend on the order.
    pub fn sorted(mut self) -> ActiveFeatures {
        self.list[..usize::from(self.len)].sort_unstable();
        self
    }

    /// The numbers of the inputs, each below [`INPUTS`].
    #[inline(always)]
    pub fn as_slice(&self) -> &[u16] {
        &self.list[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shakmaty::{CastlingMode, fen::Fen};

    fn position(fen: &str) -> Chess {
        let fen: Fen = fen.parse().unwrap();
        fen.into_position(CastlingMode::Chess960).unwrap()
    }

    fn sorted(fen: &str) -> Vec<u16> {
        let mut list = ActiveFeatures::of(&position(fen)).as_slice().to_vec();
        list.sort_unstable();
        list
    }

    #[test]
    fn a_position_and_its_mirror_images_look_the_same() {
        let fens = [
            // White to move, king on e to h; colours exchanged; left and right exchanged; both.
            "3r2k1/p4ppp/2n5/8/3P4/5N2/5PPP/3R2K1 w - - 20 1",
            "3r2k1/5ppp/5n2/3p4/8/2N5/P4PPP/3R2K1 b - - 20 1",
            "1k2r3/ppp4p/5n2/8/4P3/2N5/PPP5/1K2R3 w - - 20 1",
            "1k2r3/ppp5/2n5/4p3/8/5N2/PPP4P/1K2R3 b - - 20 1",
        ];
        let first = sorted(fens[0]);
        assert_eq!(first.len(), 14 + 1);
        for fen in fens {
            assert_eq!(sorted(fen), first, "{fen}");
        }
    }

    #[test]
    fn masks_hold_the_same_inputs() {
        for fen in [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 95 80",
            "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
        ] {
            let features = ActiveFeatures::of(&position(fen));
            let again = ActiveFeatures::of_masks(&features.masks());
            assert_eq!(again.as_slice(), sorted(fen));
        }
        // What is beyond the last input is none.
        let none = ActiveFeatures::of_masks(&[[0; PLANES - 1].as_slice(), &[1 << 63]].concat());
        assert!(none.as_slice().is_empty());
    }

    #[test]
    fn attack_and_defence_are_seen() {
        // The white knight on f3 is attacked by the bishop on g4 and defended by the pawn on g2; it defends the king.
        let list = sorted("4k3/8/8/8/6b1/5N2/6P1/4K3 w - - 0 1");
        let at = |state: usize, piece: usize, square: Square| {
            ((state * 12 + piece) * 64 + usize::from(square)) as u16
        };
        let mut expected = vec![
            at(1 + 2, 1, Square::F3),
            at(0, 0, Square::G2),
            at(2, 5, Square::E1),
            at(0, 6 + 2, Square::G4),
            at(0, 6 + 5, Square::E8),
        ];
        expected.sort_unstable();
        assert_eq!(list, expected);
    }

    #[test]
    fn castling_en_passant_and_rule_50_have_inputs_of_their_own() {
        let others = |fen: &str| -> Vec<usize> {
            let list = sorted(fen).into_iter().map(usize::from);
            list.filter(|&input| input >= PIECE_INPUTS).collect()
        };
        assert_eq!(
            others("r3k3/8/8/8/8/8/8/R3K2R w KQq - 90 80"),
            [CASTLING, CASTLING + 1, CASTLING + 2, RULE50 + 7]
        );
        // The king on c1: mirrored, its rook on h1 is on the side of the a file.
        assert_eq!(
            others("4k3/8/8/8/8/8/8/2K4R w H - 8 80"),
            [CASTLING, RULE50]
        );
        assert_eq!(
            others("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 9"),
            [EN_PASSANT + 3]
        );
        // Nothing can capture there.
        assert!(others("4k3/8/8/3p4/8/8/8/4K3 w - d6 0 9").is_empty());
    }

    #[test]
    fn pawns_attack_as_shakmaty_says() {
        for color in Color::ALL {
            for square in Square::ALL {
                assert_eq!(
                    pawn_attacks(Bitboard::from(square), color),
                    shakmaty::attacks::pawn_attacks(color, square)
                );
            }
        }
    }
}
