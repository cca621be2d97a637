//! Positions for a teacher to label: those of games, and kinds that are rare in games of strong players.
//!
//! A value head trained only on strong games never sees a hanging queen. Most positions here are therefore unbalanced
//! on purpose: random moves (captures preferred), the usual odds for either side, pieces of both sides removed,
//! endgames with few pieces. Strong players resign before they have a bare king, so such endgames are generated, too.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use shakmaty::{
    Bitboard, Board, CastlingMode, Chess, Color, EnPassantMode, FromSetup, Piece, Position, Rank,
    Role, Setup, Square,
};

use crate::dataset::record::{Record, Source};
use crate::dataset::record_file::RecordReader;
use crate::random::weighted_index;

/// Maximum number of failed attempts in a row.
const MAX_FAILED_ATTEMPTS: u32 = 100_000;

/// Generates positions from those of games; the seed and the games determine them.
#[derive(Debug)]
pub struct Sampler {
    games: Vec<Record>,
    shares: [f64; KINDS.len()],
    rng: SmallRng,
}

/// Generates a position from one of a game; `None` if that is impossible.
type Maker = fn(Chess, &mut SmallRng) -> Option<Chess>;

/// The kinds of positions, in the order of their shares: the source in the record, and the function that generates one.
const KINDS: [(Source, Maker); 6] = [
    (Source::Real, |start, _| Some(start)),
    (Source::RandomMoves, |start, rng| {
        random_moves(start, 1..=4, rng)
    }),
    (Source::Odds, |start, rng| {
        odds(start, rng).and_then(|pos| random_moves(pos, 0..=3, rng))
    }),
    (Source::Unbalanced, |start, rng| {
        unbalanced(start, rng).and_then(|pos| random_moves(pos, 0..=2, rng))
    }),
    (Source::Endgame, |_, rng| endgame(rng)),
    (Source::Endgame, |_, rng| bare_king(rng)),
];

impl Sampler {
    /// Generates from these positions, with a share for each kind: unchanged, after random moves, with odds, with
    /// pieces of both sides missing, random endgames, random endgames against a bare king.
    ///
    /// # Errors
    /// When a share is negative or all of them are zero.
    pub fn new(games: Vec<Record>, shares: [f64; KINDS.len()], seed: u64) -> Result<Sampler> {
        ensure!(
            shares
                .iter()
                .all(|share| share.is_finite() && *share >= 0.0)
                && shares.iter().sum::<f64>() > 0.0,
            "shares must be at least 0, and one of them positive: {shares:?}"
        );
        Ok(Sampler {
            games,
            shares,
            rng: SmallRng::seed_from_u64(seed),
        })
    }

    /// The next position.
    ///
    /// # Errors
    /// When too many attempts in a row fail.
    pub fn next_position(&mut self) -> Result<Record> {
        for _ in 0..MAX_FAILED_ATTEMPTS {
            let kind =
                KINDS[weighted_index(self.shares.iter().copied(), &mut self.rng).unwrap_or(0)];
            let base = self.games.choose(&mut self.rng).context("no positions")?;
            if let Some(record) = make(base, kind, &mut self.rng) {
                return Ok(record);
            }
        }
        bail!(
            "{MAX_FAILED_ATTEMPTS} attempts in a row failed: the input files hold no positions from which the \
             requested kinds can be generated"
        )
    }
}

/// All positions of standard chess in the files: those of Chess960 would need the teacher's Chess960 switch.
///
/// # Errors
/// When a file cannot be read, holds a record without a position, or none holds such positions.
pub fn read_games(inputs: &[PathBuf]) -> Result<Vec<Record>> {
    let mut games = Vec::new();
    for input in inputs {
        for next in RecordReader::open(input)?.positions() {
            let (record, _) = next?;
            if record.state & Record::CHESS960 == 0 {
                games.push(record);
            }
        }
    }
    ensure!(
        !games.is_empty(),
        "the input files hold no positions of standard chess"
    );
    Ok(games)
}

/// A position generated from `base`; `None` if it is illegal or the game is over.
fn make(base: &Record, (source, position): (Source, Maker), rng: &mut SmallRng) -> Option<Record> {
    let pos = position(base.position().ok()?, rng)?;
    if pos.legal_moves().is_empty() || pos.is_insufficient_material() {
        return None;
    }
    // Positions of records are White's to move; the real colour follows from the number of plies played since.
    let black = (base.state & Record::BLACK != 0) != (pos.turn() == Color::Black);
    let mut record = Record::new(&pos, black, source);
    record.flags |= base.flags & Record::HELD_OUT;
    record.game = base.game;
    if source == Source::Real {
        (record.result, record.plies_left) = (base.result, base.plies_left);
    }
    Some(record)
}

/// Plays random moves, preferring captures, because a search examines many exchanges.
fn random_moves(
    mut pos: Chess,
    plies: std::ops::RangeInclusive<u32>,
    rng: &mut SmallRng,
) -> Option<Chess> {
    for _ in 0..rng.random_range(plies) {
        let captures = pos.capture_moves();
        let moves = if !captures.is_empty() && rng.random_bool(0.3) {
            captures
        } else {
            pos.legal_moves()
        };
        let m = *moves.choose(rng)?;
        pos.play_unchecked(m);
    }
    Some(pos)
}

/// The pieces removed in odds games, the usual odds most often.
const ODDS: [&[Role]; 16] = [
    &[Role::Queen],
    &[Role::Queen],
    &[Role::Rook],
    &[Role::Rook],
    &[Role::Knight],
    &[Role::Knight],
    &[Role::Bishop],
    &[Role::Bishop],
    &[Role::Pawn],
    &[Role::Knight, Role::Knight],
    &[Role::Bishop, Role::Knight],
    &[Role::Rook, Role::Knight],
    &[Role::Rook, Role::Rook],
    &[Role::Bishop, Role::Bishop],
    &[Role::Queen, Role::Knight],
    &[Role::Queen, Role::Rook],
];

fn odds(pos: Chess, rng: &mut SmallRng) -> Option<Chess> {
    let giver = if rng.random_bool(0.5) {
        Color::White
    } else {
        Color::Black
    };
    let mut board = pos.board().clone();
    for role in *ODDS.choose(rng)? {
        let pieces: Vec<Square> = board
            .by_piece(Piece {
                color: giver,
                role: *role,
            })
            .into_iter()
            .collect();
        board.discard_piece_at(*pieces.choose(rng)?);
    }
    with_board(&pos, board)
}

fn unbalanced(pos: Chess, rng: &mut SmallRng) -> Option<Chess> {
    let mut board = pos.board().clone();
    for color in Color::ALL {
        let loss = rng.random_range(0.0..0.5);
        for square in pos.board().by_color(color) {
            if pos.board().role_at(square) != Some(Role::King) && rng.random_bool(loss) {
                board.discard_piece_at(square);
            }
        }
    }
    with_board(&pos, board)
}

/// The position with another board.
fn with_board(pos: &Chess, board: Board) -> Option<Chess> {
    let mut setup = pos.to_setup(EnPassantMode::Legal);
    setup.castling_rights &= board.rooks();
    setup.ep_square = None;
    setup.board = board;
    Chess::from_setup(setup, CastlingMode::Standard).ok()
}

/// Two kings and up to three pieces and three pawns a side, anywhere.
fn endgame(rng: &mut SmallRng) -> Option<Chess> {
    const PIECES: [Role; 5] = [
        Role::Queen,
        Role::Rook,
        Role::Rook,
        Role::Bishop,
        Role::Knight,
    ];
    let mut board = Board::empty();
    for color in Color::ALL {
        let pieces = rng.random_range(0..=3_u32).min(rng.random_range(0..=3));
        let pawns = rng.random_range(0..=3_u32).min(rng.random_range(0..=4));
        let roles = (0..pieces)
            .filter_map(|_| PIECES.choose(rng).copied())
            .collect::<Vec<_>>();
        let pawns = (0..pawns).map(|_| Role::Pawn);
        for role in [Role::King].into_iter().chain(roles).chain(pawns) {
            put(&mut board, Piece { color, role }, rng)?;
        }
    }
    without_history(board)
}

/// The pieces that have to win against a bare king; difficult endgames are as frequent as easy ones.
const MATING: [&[Role]; 14] = [
    &[Role::Rook],
    &[Role::Rook],
    &[Role::Queen],
    &[Role::Bishop, Role::Bishop],
    &[Role::Bishop, Role::Bishop],
    &[Role::Bishop, Role::Knight],
    &[Role::Bishop, Role::Knight],
    &[Role::Pawn],
    &[Role::Rook, Role::Rook],
    &[Role::Rook, Role::Bishop],
    &[Role::Rook, Role::Knight],
    &[Role::Rook, Role::Pawn],
    &[Role::Queen, Role::Pawn],
    &[Role::Pawn, Role::Pawn],
];

/// A king and winning material against a bare king on random squares; either side may be to move.
fn bare_king(rng: &mut SmallRng) -> Option<Chess> {
    let color = *Color::ALL.choose(rng)?;
    let mut board = Board::empty();
    for color in Color::ALL {
        let role = Role::King;
        put(&mut board, Piece { color, role }, rng)?;
    }
    for &role in *MATING.choose(rng)? {
        put(&mut board, Piece { color, role }, rng)?;
    }
    without_history(board)
}

/// Puts a piece on a random empty square that is possible for it.
fn put(board: &mut Board, piece: Piece, rng: &mut SmallRng) -> Option<()> {
    let mut free = !board.occupied();
    if piece.role == Role::Pawn {
        free &= !(Bitboard::from_rank(Rank::First) | Bitboard::from_rank(Rank::Eighth));
    }
    let squares: Vec<Square> = free.into_iter().collect();
    board.set_piece_at(*squares.choose(rng)?, piece);
    Some(())
}

/// This board with White to move, if it is a legal position.
fn without_history(board: Board) -> Option<Chess> {
    let mut setup = Setup::empty();
    setup.board = board;
    Chess::from_setup(setup, CastlingMode::Standard).ok()
}
