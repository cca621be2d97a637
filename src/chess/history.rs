//! The game so far: positions, keys, repetitions.
//!
//! A network sees the last eight positions, draws need all since the last irreversible move, and a search replays
//! thousands of lines from the same root: so a [`History`] is a stack that grows and shrinks cheaply.

use shakmaty::{
    CastlingSide, Chess, Color, EnPassantMode, File, Move, Piece, Position, Role, Square,
    zobrist::{Zobrist64, ZobristValue},
};

use super::moves::PackedMove;

/// Plies that may be taken back, or were only expected, in what is still the same game.
const TAKEN_BACK: usize = 2;

/// One position of a game, with the required data about its past.
#[derive(Clone, Debug)]
pub struct Ply {
    /// The position itself.
    pub position: Chess,
    /// Zobrist key of board, side to move, castling rights and (if a capture is legal) en passant file: equal keys
    /// mean "the same position" in the sense of the repetition rule.
    pub key: u64,
    /// The key without the en passant file, from which the next one is derived.
    board_key: u64,
    /// How often this position occurred before in the game (0, 1, 2...; counted up to 255).
    pub repetitions: u8,
    /// Plies since the previous occurrence; 0 if there is none.
    pub plies_since_repetition: u16,
}

impl Ply {
    /// Plies since the last capture or pawn move (the rule-50 counter).
    pub fn rule50(&self) -> u32 {
        self.position.halfmoves()
    }
}

/// The length of a game and its last position, for comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    len: usize,
    key: u64,
}

impl Place {
    /// Whether the game has no moves yet.
    pub fn is_start(self) -> bool {
        self.len == 1
    }
}

/// The positions of a game in order, never empty.
#[derive(Clone, Debug)]
pub struct History {
    plies: Vec<Ply>,
}

impl Default for History {
    fn default() -> History {
        History::new(Chess::default())
    }
}

impl History {
    /// A game that starts in `position`.
    pub fn new(position: Chess) -> History {
        let board_key = key_without_en_passant(&position);
        let key = board_key ^ en_passant_key(&position);
        let first = Ply {
            position,
            key,
            board_key,
            repetitions: 0,
            plies_since_repetition: 0,
        };
        History { plies: vec![first] }
    }

    /// All positions, oldest first.
    pub fn plies(&self) -> &[Ply] {
        &self.plies
    }

    /// The number of positions: one more than the moves played.
    #[expect(clippy::len_without_is_empty, reason = "a history is never empty")]
    pub fn len(&self) -> usize {
        self.plies.len()
    }

    /// The current position with its past.
    pub fn last(&self) -> &Ply {
        &self.plies[self.plies.len() - 1]
    }

    /// The current position.
    pub fn position(&self) -> &Chess {
        &self.last().position
    }

    /// The present place of the game.
    pub fn place(&self) -> Place {
        self.place_after(self.len())
    }

    /// The place of the game `plies` earlier, if it is that long.
    pub fn place_before(&self, plies: usize) -> Option<Place> {
        let len = self.len().checked_sub(plies).filter(|&len| len > 0)?;
        Some(self.place_after(len))
    }

    /// Whether the game was, or is, at this place.
    pub fn passes(&self, place: Place) -> bool {
        place.len <= self.len() && self.place_after(place.len) == place
    }

    fn place_after(&self, len: usize) -> Place {
        Place {
            len,
            key: self.plies[len - 1].key,
        }
    }

    /// Plays a move that is legal in the current position (unchecked).
    pub fn push(&mut self, m: PackedMove) {
        self.push_move(m.unpack(self.position()));
    }

    /// Plays a move that is legal in the current position (unchecked).
    pub fn push_move(&mut self, m: Move) {
        let len = self.plies.len();
        // The copy becomes the new position where it is.
        self.plies.extend_from_within(len - 1..);
        let [.., before, next] = &mut *self.plies else {
            return;
        };
        next.position.play_unchecked(m);
        next.board_key ^= key_change(&before.position, &next.position, m);
        next.key = next.board_key ^ en_passant_key(&next.position);
        let (repetitions, plies_since) = find_repetition(&self.plies);
        self.plies[len].repetitions = repetitions;
        self.plies[len].plies_since_repetition = plies_since;
    }

    /// Takes back moves until `len` positions are left (at least one stays).
    pub fn truncate(&mut self, len: usize) {
        self.plies.truncate(len.max(1));
    }

    /// Whether this game continues `earlier`, of which the last plies (at most two) may be missing or others here.
    pub fn continues(&self, earlier: &History) -> bool {
        let both = earlier.plies().iter().zip(self.plies());
        let common = both.take_while(|(old, new)| old.key == new.key).count();
        common > 0 && common + TAKEN_BACK >= earlier.len()
    }

    /// Whether `earlier` is a prefix of this game (same start, same positions); the number of plies since then.
    pub fn plies_since(&self, earlier: &History) -> Option<usize> {
        let start_equal = self.plies[0].position == earlier.plies[0].position
            && self.plies[0].rule50() == earlier.plies[0].rule50();
        let prefix = self.plies.get(..earlier.len())?;
        let equal = prefix
            .iter()
            .zip(&earlier.plies)
            .all(|(a, b)| a.key == b.key);
        (start_equal && equal).then(|| self.len() - earlier.len())
    }

    /// The legal move from the `index`-th position to the next.
    pub fn move_after(&self, index: usize) -> Option<PackedMove> {
        let next = self.plies.get(index + 1)?;
        let position = &self.plies[index].position;
        position.legal_moves().into_iter().find_map(|m| {
            let mut after = position.clone();
            after.play_unchecked(m);
            (after == next.position).then(|| PackedMove::pack(m))
        })
    }
}

/// How often the last of these positions occurred before, and the plies since then.
fn find_repetition(plies: &[Ply]) -> (u8, u16) {
    let [before @ .., last] = plies else {
        return (0, 0);
    };
    let reach = before.len().min(last.rule50() as usize);
    for distance in (4..=reach).step_by(2) {
        let earlier = &before[before.len() - distance];
        if earlier.key == last.key {
            return (earlier.repetitions.saturating_add(1), distance as u16);
        }
    }
    (0, 0)
}

fn key_without_en_passant(position: &Chess) -> u64 {
    position.zobrist_hash::<Zobrist64>(EnPassantMode::Legal).0 ^ en_passant_key(position)
}

fn en_passant_key(position: &Chess) -> u64 {
    // `maybe_ep_square` is cheap and usually empty; testing whether the capture is legal is not.
    if position.maybe_ep_square().is_none() {
        return 0;
    }
    position
        .legal_ep_square()
        .map_or(0, |square| file_key(square.file()))
}

fn file_key(file: File) -> u64 {
    Zobrist64::zobrist_for_en_passant_file(file).0
}

fn piece_key(square: Square, color: Color, role: Role) -> u64 {
    Zobrist64::zobrist_for_piece(square, Piece { color, role }).0
}

/// The change of the key by playing `m`: pieces, side to move, castling rights.
fn key_change(before: &Chess, after: &Chess, m: Move) -> u64 {
    let us = before.turn();
    let mut change = Zobrist64::zobrist_for_white_turn().0;
    match m {
        Move::Normal {
            role,
            from,
            capture,
            to,
            promotion,
        } => {
            change ^= piece_key(from, us, role) ^ piece_key(to, us, promotion.unwrap_or(role));
            if let Some(captured) = capture {
                change ^= piece_key(to, us.other(), captured);
            }
        }
        Move::EnPassant { from, to } => {
            let captured = Square::from_coords(to.file(), from.rank());
            change ^= piece_key(from, us, Role::Pawn) ^ piece_key(to, us, Role::Pawn);
            change ^= piece_key(captured, us.other(), Role::Pawn);
        }
        Move::Castle { king, rook } => {
            let side = CastlingSide::from_king_side(king < rook);
            change ^= piece_key(king, us, Role::King) ^ piece_key(rook, us, Role::Rook);
            change ^= piece_key(side.king_to(us), us, Role::King);
            change ^= piece_key(side.rook_to(us), us, Role::Rook);
        }
        Move::Put { .. } => {}
    }
    if before.castles().castling_rights() != after.castles().castling_rights() {
        for color in Color::ALL {
            for side in CastlingSide::ALL {
                if before.castles().has(color, side) != after.castles().has(color, side) {
                    change ^= Zobrist64::zobrist_for_castling_right(color, side).0;
                }
            }
        }
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;
    use shakmaty::{CastlingMode, fen::Fen, uci::UciMove};

    fn history(fen: &str) -> History {
        History::new(
            fen.parse::<Fen>()
                .unwrap()
                .into_position(CastlingMode::Chess960)
                .unwrap(),
        )
    }

    fn play(history: &mut History, uci: &str) {
        let m = uci
            .parse::<UciMove>()
            .unwrap()
            .to_move(history.position())
            .unwrap();
        history.push_move(m);
    }

    #[test]
    fn a_place_identifies_an_earlier_position() {
        let mut game = History::default();
        let start = game.place();
        assert_eq!(
            (game.place_before(0), game.place_before(1)),
            (Some(start), None)
        );
        for uci in ["g1f3", "g8f6", "f3g1", "f6g8"] {
            play(&mut game, uci);
        }
        assert_eq!(game.place_before(4), Some(start));
        assert_ne!(game.place(), start, "the same position, later");
    }

    #[test]
    fn incremental_keys_equal_keys_from_scratch() {
        let fens = [
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
            "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
            "1rqbkrbn/1ppppp1p/1n6/p1N3p1/8/2P4P/PP1PPPP1/1RQBKRBN w FBfb - 0 9",
        ];
        for fen in fens {
            let mut game = history(fen);
            for m in game.position().legal_moves() {
                game.push_move(m);
                for reply in game.position().legal_moves() {
                    game.push_move(reply);
                    let scratch = game
                        .position()
                        .zobrist_hash::<Zobrist64>(EnPassantMode::Legal);
                    assert_eq!(game.last().key, scratch.0, "{fen} {m:?} {reply:?}");
                    game.truncate(2);
                }
                game.truncate(1);
            }
        }
    }

    #[test]
    fn repetitions_count_up_and_end_at_irreversible_moves() {
        let mut game = History::default();
        for _ in 0..2 {
            for uci in ["g1f3", "g8f6", "f3g1", "f6g8"] {
                play(&mut game, uci);
            }
        }
        assert_eq!(game.last().repetitions, 2);
        assert_eq!(game.last().plies_since_repetition, 4);
        play(&mut game, "e2e4");
        assert_eq!(game.last().repetitions, 0);
    }

    #[test]
    fn a_prefix_is_recognised_and_moves_are_recovered() {
        let mut game = History::default();
        play(&mut game, "e2e4");
        let earlier = game.clone();
        play(&mut game, "e7e5");
        play(&mut game, "g1f3");
        assert_eq!(game.plies_since(&earlier), Some(2));
        assert_eq!(earlier.plies_since(&game), None);
        assert_eq!(
            game.move_after(1)
                .unwrap()
                .to_uci(&game.plies()[1].position, CastlingMode::Standard)
                .to_string(),
            "e7e5"
        );
    }
}
