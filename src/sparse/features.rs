//! The input features of sparse networks: the inputs that are 1 in a position.
//!
//! Features are relative to the side to move (ranks flipped for Black) and mirrored so that its king is on files e to
//! h, which halves what the network has to learn. There is an input for each piece on each square, combined with
//! whether it is attacked and whether it is defended (12 kinds of pieces x 64 squares x 4), and inputs for castling
//! rights, en passant and the 50-move rule. Tactical features follow ([`tactics`](super::tactics)): hanging, pinned and
//! unmasking pieces, passed pawns, and for each side king safety, checks, threats, mobility and losses. Networks of the
//! first version lack them. History is not encoded, so positions with equal keys and rule-50 counters have equal
//! features; networks that model human players have further inputs, for the last moves and the players' rating
//! ([`history`](super::history)).

use shakmaty::{Bitboard, Board, CastlingSide, Chess, Color, File, Position, Square};

use super::attacks::{Attacks, MOVERS, SideAttacks};
use super::classes::MoveClasses;
use super::tactics::TacticalFeatures;

/// Inputs that stand for pieces: (attacked, defended) x own P N B R Q K, the opponent's x square.
pub const PIECE_INPUTS: usize = 4 * 12 * 64;
/// Own right to castle towards the a file as seen, towards the h file, then the opponent's.
const CASTLING: usize = PIECE_INPUTS;
/// The file on which a pawn can be captured in passing.
const EN_PASSANT: usize = CASTLING + 4;
/// One for each of [`RULE50_STEPS`].
const RULE50: usize = EN_PASSANT + 8;
/// Number of inputs of the first version of sparse networks, which lacks those that follow.
pub const FIRST_INPUTS: usize = RULE50 + RULE50_STEPS.len();
/// Pieces that would be lost now: own P N B R Q, the opponent's x square.
const HANGING: usize = FIRST_INPUTS;
/// Pieces that stand before their king in a slider's line, likewise.
const PINNED: usize = HANGING + 2 * 5 * 64;
/// Pieces that uncover an attack on the enemy king: own, the opponent's x square.
const UNMASKING: usize = PINNED + 2 * 5 * 64;
/// Passed pawns: own, the opponent's x blocked, free x square.
const PASSED: usize = UNMASKING + 2 * 64;
/// What there is of each side, own first: see [`ActiveFeatures::push_side`].
const SIDES: usize = PASSED + 2 * 2 * 64;

/// Of a side: how many squares its king can go to, 1 to 8.
const FLIGHTS: usize = 0;
/// Which squares next to its king are attacked: down (seen) from the left, on its rank, up.
const RING: usize = FLIGHTS + 8;
/// How many of them only the king defends, 1 to 8.
const WEAK: usize = RING + 8;
/// How many pieces attack such squares, 1 to 8.
const BESIEGERS: usize = WEAK + 8;
/// How many safe checks its knights, bishops, rooks, queens have: 1, 2, more.
const SAFE_CHECKS: usize = BESIEGERS + 8;
/// Whether these have others.
const UNSAFE_CHECKS: usize = SAFE_CHECKS + 3 * MOVERS;
/// How many forks by pawns there are, forks by knights, threats, pieces before the queen: 1, 2, more.
const THREATS: usize = UNSAFE_CHECKS + MOVERS;
/// Ways to promote: a free one, a guarded one, by a capture.
const PROMOTIONS: usize = THREATS + 3 * 4;
/// Freedom of knights, bishops, rooks, queens, in steps.
const FREEDOM: usize = PROMOTIONS + 3;
/// Steps of mobility; a side without such a piece has none of these inputs.
const FREEDOM_STEPS: usize = 12;
/// The largest loss, the second and the third, by size.
const LOSSES: usize = FREEDOM + MOVERS * FREEDOM_STEPS;
/// Sizes of losses, in centipawns: these and more.
const LOSS_STEPS: [i32; 8] = [1, 150, 250, 325, 450, 600, 800, 950];
/// Inputs of a side.
const SIDE: usize = LOSSES + 3 * LOSS_STEPS.len();

/// All inputs of a position.
pub const INPUTS: usize = SIDES + 2 * SIDE;

/// How many moves of the past [`InputSet::History`] has inputs of.
pub const PAST_MOVES: usize = 2;
/// Their inputs: the piece x square, the square it left, the kind of a captured piece (P N B R Q).
pub const MOVE_INPUTS: usize = 6 * 64 + 64 + 5;
/// The ratings that have an input of their own, ascending: those of the Maia networks on lichess's scale, and that of
/// grandmasters on FIDE's.
pub const RATINGS: [u32; 4] = [1100, 1500, 1900, 2600];
/// How many of them networks have had from the beginning.
pub const FIRST_RATINGS: usize = 3;

/// Who is to move in a game against a fallible opponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideRole {
    /// The engine.
    Engine,
    /// Its opponent.
    Opponent,
}

impl SideRole {
    /// Who is to move when it is this side's turn, if the engine plays `engine`.
    pub fn of(engine: Color, turn: Color) -> SideRole {
        if engine == turn {
            SideRole::Engine
        } else {
            SideRole::Opponent
        }
    }
}

/// The inputs that a network has.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum InputSet {
    /// Inputs of the position only.
    #[default]
    Position,
    /// Inputs of the position, with rows for tactical classes of moves in the policy.
    Classes,
    /// Inputs of the position, the last two moves and the players' rating, with rows for tactical classes of moves.
    History,
    /// Inputs of the position, and whether the engine or its fallible opponent is to move.
    Opponent,
    /// Those of `opponent`, with the policy of `classes`.
    #[value(skip)]
    OpponentClasses,
}

impl InputSet {
    /// How many inputs there are.
    #[expect(clippy::len_without_is_empty, reason = "no set is empty")]
    pub const fn len(self) -> usize {
        match self {
            InputSet::Position | InputSet::Classes => INPUTS,
            InputSet::History => INPUTS + PAST_MOVES * MOVE_INPUTS + RATINGS.len(),
            InputSet::Opponent | InputSet::OpponentClasses => INPUTS + 2,
        }
    }

    /// Masks of 64 bits that all inputs take.
    pub const fn planes(self) -> usize {
        self.len().div_ceil(64)
    }

    /// Whether there are inputs of the last moves and the rating.
    pub fn has_history(self) -> bool {
        self == InputSet::History
    }

    /// Whether there are inputs of who is to move.
    pub fn has_mover(self) -> bool {
        matches!(self, InputSet::Opponent | InputSet::OpponentClasses)
    }

    /// The classes of moves that the policy tells apart.
    pub const fn classes(self) -> MoveClasses {
        match self {
            InputSet::Position | InputSet::Opponent => MoveClasses::None,
            InputSet::History => MoveClasses::Human,
            InputSet::Classes | InputSet::OpponentClasses => MoveClasses::Tactical,
        }
    }

    /// The set of a network with these inputs whose policy is that of a network with the inputs of `policy`; `None` if
    /// it does not fit.
    pub fn with_policy_of(self, policy: InputSet) -> Option<InputSet> {
        match (self.has_history(), policy) {
            (false, InputSet::Position) if self.has_mover() => Some(InputSet::Opponent),
            (false, InputSet::Classes) if self.has_mover() => Some(InputSet::OpponentClasses),
            (false, InputSet::Position | InputSet::Classes) => Some(policy),
            _ => None,
        }
    }
}

/// Minimum plies without capture or pawn move for each of the rule-50 inputs; below the first none is 1.
pub const RULE50_STEPS: [u32; 8] = [8, 16, 24, 32, 48, 64, 80, 90];

/// Maximum number of inputs that can be 1: every square occupied, and the others; for each side's pieces three signs at
/// most, and of itself those listed above; and those of the last moves.
pub const MAX_ACTIVE: usize = 64
    + 4
    + 1
    + 1
    + 2 * 3 * 16
    + 2 * (1 + 8 + 1 + 1 + 2 * MOVERS + 4 + 3 + MOVERS + 3)
    + 3 * PAST_MOVES
    + 1;

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

/// The inputs that are 1, in any order.
#[derive(Clone, Copy, Debug)]
pub struct ActiveFeatures {
    len: u8,
    list: [u16; MAX_ACTIVE],
}

impl ActiveFeatures {
    /// Those of a position.
    pub fn of(position: &Chess) -> ActiveFeatures {
        ActiveFeatures::with(position, SquareView::of(position), &Attacks::of(position))
    }

    /// The active features of a position, given its view and attacks.
    pub fn with(position: &Chess, view: SquareView, attacks: &Attacks) -> ActiveFeatures {
        let mut features = ActiveFeatures {
            len: 0,
            list: [0; MAX_ACTIVE],
        };
        let (board, us) = (position.board(), position.turn());
        for (base, color, attacked, defended) in [
            (0, us, attacks.theirs.all, attacks.ours.all),
            (6, !us, attacks.ours.all, attacks.theirs.all),
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
        let [ours, theirs] = TacticalFeatures::of(position, attacks);
        for (number, color, signs, own, enemy) in [
            (0, us, &ours, &attacks.ours, &attacks.theirs),
            (1, !us, &theirs, &attacks.theirs, &attacks.ours),
        ] {
            features.push_pieces(number, board, view, signs);
            let king = board.king_of(color);
            features.push_side(SIDES + SIDE * number, king, view, signs);
            features.push_freedom(SIDES + SIDE * number, board.by_color(color), board, own);
            features.push_count(SIDES + SIDE * number + BESIEGERS, 8, enemy.besiegers.into());
        }
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

    /// Signs of single pieces of a side: 0 the own, 1 the opponent's.
    fn push_pieces(
        &mut self,
        number: usize,
        board: &Board,
        view: SquareView,
        signs: &TacticalFeatures,
    ) {
        for (base, pieces) in [(HANGING, signs.hanging), (PINNED, signs.pinned)] {
            for square in pieces {
                let Some(role) = board.role_at(square) else {
                    continue;
                };
                let kind = (role as usize - 1).min(4);
                self.push(base + (5 * number + kind) * 64 + view.square(square));
            }
        }
        for square in signs.unmasking {
            self.push(UNMASKING + 64 * number + view.square(square));
        }
        for square in signs.passed {
            let kind = 2 * number + usize::from(signs.unblocked.contains(square));
            self.push(PASSED + 64 * kind + view.square(square));
        }
    }

    /// Signs of a side as a whole, from its first input on.
    fn push_side(
        &mut self,
        base: usize,
        king: Option<Square>,
        view: SquareView,
        signs: &TacticalFeatures,
    ) {
        self.push_count(base + FLIGHTS, 8, signs.flights.count() as u32);
        self.push_count(base + WEAK, 8, signs.weak.count() as u32);
        if let Some(king) = king {
            let king = view.square(king);
            for square in signs.besieged {
                let square = view.square(square);
                // 0 to 8 without the 4 of the king itself.
                let place = (square / 8 + 1 - king / 8) * 3 + (square % 8 + 1 - king % 8);
                self.push(base + RING + place - usize::from(place > 4));
            }
        }
        for (at, &checks) in signs.safe_checks.iter().enumerate() {
            self.push_count(base + SAFE_CHECKS + 3 * at, 3, checks);
            if signs.unsafe_checks[at] {
                self.push(base + UNSAFE_CHECKS + at);
            }
        }
        let threats = [
            signs.pawn_forks,
            signs.knight_forks,
            signs.threats,
            signs.before_queen,
        ];
        for (at, count) in threats.into_iter().enumerate() {
            self.push_count(base + THREATS + 3 * at, 3, count);
        }
        for (at, is_there) in signs.promotions.into_iter().enumerate() {
            if is_there {
                self.push(base + PROMOTIONS + at);
            }
        }
        for (at, loss) in signs.losses.into_iter().enumerate() {
            if let Some(step) = LOSS_STEPS.iter().rposition(|&least| loss >= least) {
                self.push(base + LOSSES + LOSS_STEPS.len() * at + step);
            }
        }
    }

    /// How free the pieces of a side are, by role.
    fn push_freedom(&mut self, base: usize, side: Bitboard, board: &Board, own: &SideAttacks) {
        let roles = [
            (board.knights(), 1),
            (board.bishops(), 2),
            (board.rooks(), 2),
            (board.queens(), 2),
        ];
        for (at, (pieces, squares_a_step)) in roles.into_iter().enumerate() {
            if (pieces & side).any() {
                let step = usize::from(own.freedom[at]) / squares_a_step;
                self.push(base + FREEDOM + FREEDOM_STEPS * at + step.min(FREEDOM_STEPS - 1));
            }
        }
    }

    /// One of some inputs for a count from 1 on, the last one also for more; none for 0.
    #[inline(always)]
    fn push_count(&mut self, base: usize, most: u32, count: u32) {
        if count > 0 {
            self.push(base + count.min(most) as usize - 1);
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, input: usize) {
        if let Some(place) = self.list.get_mut(usize::from(self.len)) {
            *place = input as u16;
            self.len += 1;
        }
    }

    /// The inputs as bits, in as many masks as the set takes: input `i` is bit `i % 64` of mask `i / 64`.
    pub fn masks(&self, set: InputSet) -> Vec<u64> {
        let mut masks = vec![0; set.planes()];
        for &input in self.as_slice() {
            masks[usize::from(input) / 64] |= 1 << (input % 64);
        }
        masks
    }

    /// The inputs of masks, in order. What is no input of the set is left out.
    pub fn of_masks(set: InputSet, masks: &[u64]) -> ActiveFeatures {
        let mut features = ActiveFeatures {
            len: 0,
            list: [0; MAX_ACTIVE],
        };
        for (at, mut mask) in masks.iter().copied().enumerate() {
            while mask != 0 {
                let input = 64 * at + mask.trailing_zeros() as usize;
                if input < set.len() {
                    features.push(input);
                }
                mask &= mask - 1;
            }
        }
        features
    }

    /// The numbers of the inputs, each below the number of inputs of its set.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u16] {
        &self.list[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shakmaty::{CastlingMode, FromSetup, PositionError, fen::Fen};

    fn position(fen: &str) -> Chess {
        let fen: Fen = fen.parse().unwrap();
        fen.into_position(CastlingMode::Chess960).unwrap()
    }

    fn sorted(fen: &str) -> Vec<u16> {
        let mut list = ActiveFeatures::of(&position(fen)).as_slice().to_vec();
        list.sort_unstable();
        list
    }

    /// Those that the first version has, too.
    fn first(fen: &str) -> Vec<u16> {
        let is_first = |input: &u16| usize::from(*input) < FIRST_INPUTS;
        sorted(fen).into_iter().filter(is_first).collect()
    }

    /// The others, by number from the first of them on.
    fn later(fen: &str) -> Vec<usize> {
        let later = |input| usize::from(input).checked_sub(FIRST_INPUTS);
        sorted(fen).into_iter().filter_map(later).collect()
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
        let is_old = |input: &&u16| usize::from(**input) < FIRST_INPUTS;
        assert_eq!(first.iter().filter(is_old).count(), 14 + 1);
        assert!(first.len() > 14 + 1 + 4);
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
            let set = InputSet::Position;
            let again = ActiveFeatures::of_masks(set, &features.masks(set));
            assert_eq!(again.as_slice(), sorted(fen));
        }
        // What is beyond the last input is none.
        for set in [InputSet::Position, InputSet::History] {
            let mut masks = vec![0; set.planes()];
            masks[set.planes() - 1] = 1 << 63;
            assert!(ActiveFeatures::of_masks(set, &masks).as_slice().is_empty());
        }
    }

    #[test]
    fn attack_and_defence_are_seen() {
        // The white knight on f3 is attacked by the bishop on g4 and defended by the pawn on g2; it defends the king.
        let list = first("4k3/8/8/8/6b1/5N2/6P1/4K3 w - - 0 1");
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
            let list = first(fen).into_iter().map(usize::from);
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
    fn signs_have_inputs_of_their_own() {
        let of_side = |number: usize, input: usize| SIDES - FIRST_INPUTS + SIDE * number + input;
        let piece = |base: usize, kind: usize, square: Square| {
            base - FIRST_INPUTS + 64 * kind + usize::from(square)
        };
        // A bare king each: five and eight squares to go to.
        let bare = [of_side(0, FLIGHTS + 4), of_side(1, FLIGHTS + 4)];
        assert_eq!(later("4k3/8/8/8/8/8/8/4K3 w - - 0 1"), bare);
        // A passed pawn with the enemy king in its way; that king has three squares on its rank's ends.
        let found = later("4k3/8/4P3/8/8/8/8/4K3 w - - 0 1");
        assert!(found.contains(&piece(PASSED, 0, Square::E6)), "{found:?}");
        let found = later("3k4/8/4P3/8/8/8/8/4K3 w - - 0 1");
        assert!(found.contains(&piece(PASSED, 1, Square::E6)), "{found:?}");
        // The squares that it attacks next to the king: below it on both sides (d7 and f7 of e8).
        let found = later("4k3/8/4P3/8/8/8/8/4K3 b - - 0 1");
        assert!(found.contains(&piece(PASSED, 2, Square::E3)));
        let [left, right] = [of_side(0, RING + 5), of_side(0, RING + 7)];
        assert!(found.contains(&left) && found.contains(&right), "{found:?}");
        assert!(found.contains(&of_side(0, WEAK + 1)));
        // A rook hangs and is attacked by a piece worth less; the bishop's freedom is 13 squares, less the own king's.
        let found = later("4k3/8/8/4b3/8/8/8/R3K3 w - - 0 1");
        assert!(found.contains(&piece(HANGING, 3, Square::A1)), "{found:?}");
        assert!(found.contains(&of_side(0, LOSSES + 4)));
        assert!(found.contains(&of_side(1, THREATS + 6)));
        assert!(found.contains(&of_side(1, FREEDOM + FREEDOM_STEPS + 6)));
        // Pinned by the bishop (which could be captured), and unmasking a rook.
        let found = later("4k3/4N3/8/8/1b6/2P5/3R4/4R1K1 w - - 0 1");
        assert!(
            found.contains(&piece(UNMASKING, 0, Square::E7)),
            "{found:?}"
        );
        let found = later("4k3/8/8/8/1b6/8/3R4/4K3 w - - 0 1");
        assert!(found.contains(&piece(PINNED, 3, Square::D2)), "{found:?}");
    }

    #[test]
    fn no_position_has_more_inputs_than_there_is_room_for() {
        // Many pieces, all of them in each other's way.
        for fen in [
            "qrbnkbrq/qqqqpppp/RRRRRRRR/nnnnnnnn/NNNNNNNN/rrrrrrrr/PPPPQQQQ/QRBNKBRQ w - - 99 90",
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 95 80",
        ] {
            let fen: Fen = fen.parse().unwrap();
            let setup = fen.into_setup();
            let position = Chess::from_setup(setup, CastlingMode::Chess960)
                .or_else(PositionError::ignore_too_much_material)
                .unwrap();
            let count = ActiveFeatures::of(&position).as_slice().len();
            assert!(count < MAX_ACTIVE, "{count}");
        }
    }
}
