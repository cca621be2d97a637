//! One training position: its fields, and their layout in 48 or 64 bytes. [`record_file`](super::record_file) is the
//! file that holds many of them.
//!
//! Everything is little-endian and seen from the side to move (ranks flipped for Black), as in the network's inputs;
//! `networks/training/scorn_training/records.py` reads the same layout.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..32 | board | 64 nibbles, a1 = low nibble of byte 0; 0 empty, 1-6 own P N B R Q K, 7-12 the opponent's |
//! | 32 | state | bits 0-3: may castle (own a side, own h side, opponent's a, h); 4: Black moves; 5: Chess960 |
//! | 33 | ep | file of the pawn that has just made a double step, 255 none |
//! | 34 | rule50 | plies since the last capture or pawn move |
//! | 35 | flags | bit 0: held out of training; bit 1: the result is exact, by tablebases; bits 4-7: [`Source`] |
//! | 36..38 | move | from, to (6 bits each), promotion (0 none, 1-4 N B R Q); castling is king takes rook; 0 unknown |
//! | 38..40 | score | centipawns for the side to move; ±(32000 - plies) mate; -32768 unknown |
//! | 40 | result | for the side to move: 0 lost, 1 drawn, 2 won; 255 unknown |
//! | 41 | reserved | 0 |
//! | 42..44 | plies left | to the end of the game; 65535 unknown |
//! | 44..48 | game | number of the game within its file |
//! | 48..64 | alternatives | only in files of the ranked layout: four moves with scores, best first; move 0: none |
//!
//! A right to castle means the outermost rook of its side, as in lc0's planes; in Chess960 a rook that has come to
//! stand beyond the one that may castle is taken for it.

use anyhow::{Context, Result, ensure};
use shakmaty::{
    Bitboard, Board, CastlingMode, CastlingSide, Chess, Color, FromSetup, Move, Piece, Position,
    PositionError, Role, Setup, Square,
};

/// Bytes of a record without its alternatives.
pub(super) const PLAIN_BYTES: usize = 48;
/// Bytes of a record with them.
pub(super) const RANKED_BYTES: usize = PLAIN_BYTES + 4 * ALTERNATIVES;

/// How many moves besides the best one a record has room for.
pub const ALTERNATIVES: usize = 4;

/// The score is unknown.
pub const NO_SCORE: i16 = i16::MIN;
/// A mate in `plies` has the score `MATE - plies`.
pub const MATE: i16 = 32000;
/// Maximum length of a mate that a score can represent, in plies.
const MAX_MATE_PLIES: i16 = 1000;
/// The score of a win of unknown length, and of the longest mates. Larger scores are mates, too.
pub const SURE_WIN: i16 = MATE - MAX_MATE_PLIES;
/// Number of plies left is unknown.
pub const NO_PLIES: u16 = u16::MAX;
/// The game's result is unknown.
pub const NO_RESULT: u8 = u8::MAX;

/// The score of a mate in this many moves by the side to move, or by the other side if negative.
pub fn mate_score(moves: i32) -> i16 {
    let longest = i32::from(MAX_MATE_PLIES);
    let moves = moves.clamp(-longest, longest);
    let plies = (2 * moves.abs() - i32::from(moves > 0)).min(longest) as i16;
    if moves > 0 {
        MATE - plies
    } else {
        plies - MATE
    }
}

/// Whether a score is that of a mate, for either side.
pub fn is_mate(score: i16) -> bool {
    score != NO_SCORE && score.unsigned_abs() >= SURE_WIN.unsigned_abs()
}

/// The plies to mate of a score, if it represents them.
pub fn plies_to_mate(score: i16) -> Option<u16> {
    let is_known = is_mate(score) && score.unsigned_abs() != SURE_WIN.unsigned_abs();
    is_known.then(|| MATE.unsigned_abs().saturating_sub(score.unsigned_abs()))
}

/// Where a position comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// A game without engine evaluations.
    Game = 0,
    /// A game with engine evaluations.
    EngineGame = 1,
    /// A Chess960 game with engine evaluations.
    Chess960EngineGame = 2,
    /// A position of a game, to be labelled by a teacher.
    Real = 3,
    /// A position of a game after a few random moves.
    RandomMoves = 4,
    /// A position of a game with the pieces of a usual odds missing.
    Odds = 5,
    /// A position of a game with pieces of both sides missing.
    Unbalanced = 6,
    /// A handful of pieces on random squares.
    Endgame = 7,
    /// A position that a search visited.
    Visited = 8,
    /// A Chess960 game without engine evaluations.
    Chess960Game = 9,
}

impl Source {
    /// Every source, in order of its number.
    pub const ALL: [Source; 10] = [
        Source::Game,
        Source::EngineGame,
        Source::Chess960EngineGame,
        Source::Real,
        Source::RandomMoves,
        Source::Odds,
        Source::Unbalanced,
        Source::Endgame,
        Source::Visited,
        Source::Chess960Game,
    ];

    /// The name used in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Source::Game => "game",
            Source::EngineGame => "engine game",
            Source::Chess960EngineGame => "chess960 engine game",
            Source::Real => "real",
            Source::RandomMoves => "random moves",
            Source::Odds => "odds",
            Source::Unbalanced => "unbalanced",
            Source::Endgame => "endgame",
            Source::Visited => "visited",
            Source::Chess960Game => "chess960 game",
        }
    }
}

/// A move that is not the best one, with the teacher's score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alternative {
    /// As [`Record::best`]; 0: none.
    pub m: u16,
    /// As [`Record::score`].
    pub score: i16,
}

/// A training position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nibbles of the 64 squares.
    pub board: [u8; 32],
    /// Castling rights, colour, variant.
    pub state: u8,
    /// File of a double step just made, or 255.
    pub ep: u8,
    /// Plies since the last capture or pawn move.
    pub rule50: u8,
    /// Held-out bit, bit of an exact result, and source.
    pub flags: u8,
    /// The best move, the policy target.
    pub best: u16,
    /// Score for the side to move.
    pub score: i16,
    /// Result for the side to move.
    pub result: u8,
    /// Plies to the end of the game.
    pub plies_left: u16,
    /// Number of the game.
    pub game: u32,
    /// The next best moves that the teacher scored.
    pub alternatives: [Alternative; ALTERNATIVES],
}

impl Record {
    /// Bit of `state`: Black is to move.
    pub const BLACK: u8 = 1 << 4;
    /// Bit of `state`: castling by Chess960 rules.
    pub const CHESS960: u8 = 1 << 5;
    /// Bit of `flags`: the position belongs to a held-out game.
    pub const HELD_OUT: u8 = 1;
    /// Bit of `flags`: the result is that of tablebases. Files made before 30 November 2026 do not have it.
    pub const EXACT: u8 = 1 << 1;

    /// The record of a position without labels. `black`: the real colour of the side to move is Black.
    pub fn new(pos: &Chess, black: bool, source: Source) -> Record {
        let us = pos.turn();
        let mut board = [0u8; 32];
        for (square, piece) in pos.board().clone() {
            let own = if piece.color == us { 0 } else { 6 };
            let at = usize::from(view(square, us));
            board[at / 2] |= (piece.role as u8 + own) << (4 * (at % 2));
        }
        let mut state = if black { Record::BLACK } else { 0 };
        if pos.castles().mode().is_chess960() {
            state |= Record::CHESS960;
        }
        for (bit, (color, side)) in castling_order(us).into_iter().enumerate() {
            if pos.castles().has(color, side) {
                state |= 1 << bit;
            }
        }
        Record {
            board,
            state,
            ep: pos
                .maybe_ep_square()
                .map_or(u8::MAX, |square| square.file() as u8),
            rule50: u8::try_from(pos.halfmoves()).unwrap_or(u8::MAX),
            flags: (source as u8) << 4,
            best: 0,
            score: NO_SCORE,
            result: NO_RESULT,
            plies_left: NO_PLIES,
            game: 0,
            alternatives: Default::default(),
        }
    }

    /// Where the position comes from.
    pub fn source(&self) -> Option<Source> {
        Source::ALL.get(usize::from(self.flags >> 4)).copied()
    }

    /// The real color of the side to move, which sees the board as White does.
    pub fn turn(&self) -> Color {
        Color::from_white(self.state & Record::BLACK == 0)
    }

    /// Does the position belong to a held-out game?
    pub fn held_out(&self) -> bool {
        self.flags & Record::HELD_OUT != 0
    }

    /// Is the result exact, and not that of a game between players who err?
    pub fn is_exact(&self) -> bool {
        self.flags & Record::EXACT != 0
    }

    /// Whether any side may still castle.
    pub fn has_castling_rights(&self) -> bool {
        self.state & 15 != 0
    }

    /// Mirrors the position and its moves left to right. The result is only equivalent without castling rights.
    pub fn mirror(&mut self) {
        for rank in self.board.as_chunks_mut::<4>().0 {
            rank.reverse();
            rank.iter_mut().for_each(|pair| *pair = pair.rotate_left(4));
        }
        if self.ep < 8 {
            self.ep = 7 - self.ep;
        }
        self.best = mirror_move(self.best);
        for alternative in &mut self.alternatives {
            alternative.m = mirror_move(alternative.m);
        }
    }

    /// The position as the side to move sees it: White to move, whatever the real colour. For features and labels,
    /// which that side sees; networks, searches and engines are given [`Record::game_position`].
    pub fn position(&self) -> Result<Chess> {
        self.chess_of(self.setup()?)
    }

    /// The position of the game, in its real colours and without its history. [`Record::pack_move`] gives its moves the
    /// codes of those of [`Record::position`].
    pub fn game_position(&self) -> Result<Chess> {
        let setup = self.setup()?;
        self.chess_of(match self.turn() {
            Color::White => setup,
            Color::Black => setup.into_mirrored(),
        })
    }

    /// The setup as the side to move sees it.
    fn setup(&self) -> Result<Setup> {
        let mut setup = Setup::empty();
        setup.board = self.pieces()?;
        setup.castling_rights = self.castling_rooks(&setup.board);
        if self.ep < 8 {
            setup.ep_square = Some(Square::new(u32::from(self.ep) + 40));
        }
        setup.halfmoves = u32::from(self.rule50);
        Ok(setup)
    }

    fn chess_of(&self, setup: Setup) -> Result<Chess> {
        let mode = CastlingMode::from_chess960(self.state & Record::CHESS960 != 0);
        Chess::from_setup(setup, mode)
            .or_else(PositionError::ignore_invalid_ep_square)
            .or_else(PositionError::ignore_impossible_check)
            .or_else(PositionError::ignore_too_much_material)
            .context("a record holds an impossible position")
    }

    fn pieces(&self) -> Result<Board> {
        let mut board = Board::empty();
        for square in Square::ALL {
            let at = usize::from(square);
            let code = self.board[at / 2] >> (4 * (at % 2)) & 15;
            if code == 0 {
                continue;
            }
            ensure!(code <= 12, "a record holds the piece code {code}");
            let (color, role) = if code > 6 {
                (Color::Black, code - 6)
            } else {
                (Color::White, code)
            };
            let role = Role::try_from(u32::from(role)).context("piece code")?;
            board.set_piece_at(square, Piece { color, role });
        }
        Ok(board)
    }

    /// The rooks that may castle: the outermost of the back rank on the named side of the king.
    fn castling_rooks(&self, board: &Board) -> Bitboard {
        let mut rooks = Bitboard::EMPTY;
        for (bit, (color, side)) in castling_order(Color::White).into_iter().enumerate() {
            if self.state & (1 << bit) == 0 {
                continue;
            }
            let back =
                board.by_color(color) & board.rooks() & Bitboard::from_rank(color.backrank());
            let outermost = if side.is_queen_side() {
                back.first()
            } else {
                back.last()
            };
            rooks.extend(outermost);
        }
        rooks
    }

    /// The move as it is stored: from, to and promotion seen by the mover; castling is king takes rook.
    pub fn pack_move(m: Move, us: Color) -> u16 {
        let from = m.from().map_or(0, |square| u16::from(view(square, us)));
        let promotion = match m.promotion() {
            Some(Role::Knight) => 1,
            Some(Role::Bishop) => 2,
            Some(Role::Rook) => 3,
            Some(Role::Queen) => 4,
            _ => 0,
        };
        // shakmaty's `to` of a castling move is the rook's square, as wanted here.
        from | u16::from(view(m.to(), us)) << 6 | promotion << 12
    }

    /// The bytes of the record; a plain file keeps the first 48.
    pub fn to_bytes(self) -> [u8; RANKED_BYTES] {
        let mut bytes = [0; RANKED_BYTES];
        bytes[..32].copy_from_slice(&self.board);
        bytes[32..36].copy_from_slice(&[self.state, self.ep, self.rule50, self.flags]);
        bytes[36..38].copy_from_slice(&self.best.to_le_bytes());
        bytes[38..40].copy_from_slice(&self.score.to_le_bytes());
        bytes[40] = self.result;
        bytes[42..44].copy_from_slice(&self.plies_left.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.game.to_le_bytes());
        let pairs = bytes[PLAIN_BYTES..].as_chunks_mut::<4>().0;
        for (pair, alternative) in pairs.iter_mut().zip(self.alternatives) {
            pair[..2].copy_from_slice(&alternative.m.to_le_bytes());
            pair[2..].copy_from_slice(&alternative.score.to_le_bytes());
        }
        bytes
    }

    /// The record of these bytes.
    pub fn from_bytes(bytes: &[u8; RANKED_BYTES]) -> Record {
        let mut board = [0; 32];
        board.copy_from_slice(&bytes[..32]);
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Record {
            board,
            state: bytes[32],
            ep: bytes[33],
            rule50: bytes[34],
            flags: bytes[35],
            best: u16_at(36),
            score: u16_at(38) as i16,
            result: bytes[40],
            plies_left: u16_at(42),
            game: u32::from_le_bytes([bytes[44], bytes[45], bytes[46], bytes[47]]),
            alternatives: std::array::from_fn(|index| Alternative {
                m: u16_at(PLAIN_BYTES + 4 * index),
                score: u16_at(PLAIN_BYTES + 4 * index + 2) as i16,
            }),
        }
    }
}

/// A square seen from a side.
fn view(square: Square, us: Color) -> u8 {
    let index = u8::from(square);
    if us == Color::Black {
        index ^ 56
    } else {
        index
    }
}

/// The castling rights in the order of the bits of `state`.
fn castling_order(us: Color) -> [(Color, CastlingSide); 4] {
    [
        (us, CastlingSide::QueenSide),
        (us, CastlingSide::KingSide),
        (!us, CastlingSide::QueenSide),
        (!us, CastlingSide::KingSide),
    ]
}

/// A packed move mirrored left to right; 0, no move, stays 0.
pub(super) fn mirror_move(m: u16) -> u16 {
    if m == 0 { 0 } else { m ^ (7 | 7 << 6) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shakmaty::fen::Fen;

    fn position(fen: &str) -> Chess {
        fen.parse::<Fen>()
            .unwrap()
            .into_position(CastlingMode::Standard)
            .unwrap()
    }

    #[test]
    fn a_record_survives_bytes_and_the_board() {
        let pos = position("r2qk2r/ppp2ppp/2n5/3pP3/8/2N5/PPP2PPP/R2QK2R w KQk d6 0 9");
        let mut record = Record::new(&pos, false, Source::Game);
        record.best = 77;
        record.score = -123;
        record.alternatives[1] = Alternative { m: 5, score: -7 };
        record.flags |= Record::EXACT;
        assert_eq!(Record::from_bytes(&record.to_bytes()), record);
        assert_eq!(
            (record.source(), record.held_out()),
            (Some(Source::Game), false)
        );
        assert!(record.is_exact());
        assert_eq!((record.state, record.ep), (0b1011, 3));
        let again = record.position().unwrap();
        assert_eq!(Record::new(&again, false, Source::Game).board, record.board);
        assert_eq!(again.legal_moves().len(), pos.legal_moves().len());
    }

    #[test]
    fn mates_begin_where_their_plies_are_not_known_any_more() {
        for (score, plies) in [
            (mate_score(1), Some(1)),
            (mate_score(-3), Some(6)),
            (SURE_WIN + 1, Some(999)),
            (SURE_WIN, None),
            (mate_score(-9999), None),
        ] {
            assert!(is_mate(score), "{score}");
            assert_eq!(plies_to_mate(score), plies, "{score}");
        }
        for score in [NO_SCORE, 0, SURE_WIN - 1, 1 - SURE_WIN] {
            assert!(!is_mate(score) && plies_to_mate(score).is_none(), "{score}");
        }
    }

    #[test]
    fn black_sees_the_board_flipped() {
        let white = position("4k3/1q6/8/8/8/8/PP6/4K2R w K - 0 1");
        let black = position("4k2r/pp6/8/8/8/8/1Q6/4K3 b k - 0 1");
        let (white, black) = (
            Record::new(&white, false, Source::Game),
            Record::new(&black, true, Source::Game),
        );
        assert_eq!(
            (white.board, white.state | Record::BLACK),
            (black.board, black.state)
        );
    }

    #[test]
    fn the_game_s_position_and_its_moves_are_recovered() {
        use CastlingMode::{Chess960, Standard};
        for (fen, mode) in [
            ("r3k2r/8/8/8/3Pp3/8/1p6/R3K2R b KQq d3 0 1", Standard),
            ("r3k2r/1P6/8/3pP3/8/8/8/R3K2R w Kkq d6 0 1", Standard),
            (
                "1rk2r2/pppppppp/8/8/8/8/PPPPPPPP/1RK2R2 b Bfb - 7 1",
                Chess960,
            ),
        ] {
            let setup = fen.parse::<Fen>().unwrap();
            let game: Chess = setup.into_position(mode).unwrap();
            let turn = game.turn();
            let record = Record::new(&game, turn.is_black(), Source::Game);
            let found = record.game_position().unwrap();
            assert_eq!(
                (&found, found.halfmoves()),
                (&game, game.halfmoves()),
                "{fen}"
            );
            let codes = |position: &Chess| {
                let moves = position.legal_moves().into_iter();
                let mut codes: Vec<u16> = moves
                    .map(|m| Record::pack_move(m, position.turn()))
                    .collect();
                codes.sort_unstable();
                codes
            };
            let seen = record.position().unwrap();
            assert_eq!(seen.turn(), Color::White);
            assert_eq!(codes(&found), codes(&seen), "{fen}");
        }
    }

    #[test]
    fn castling_is_king_takes_rook() {
        let pos = position("4k2r/8/8/8/8/8/8/4K3 b k - 0 1");
        let castle = pos
            .legal_moves()
            .into_iter()
            .find(|m| m.is_castle())
            .unwrap();
        assert_eq!(Record::pack_move(castle, Color::Black), 4 | 7 << 6);
    }
}
