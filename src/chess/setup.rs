//! Parses and validates positions and moves from GUIs, files and users.
//!
//! No input is trusted. A position that cannot arise in a game is refused with the reason, because an engine that
//! guesses what was meant loses games in ways that are hard to find.

use shakmaty::{
    CastlingMode, Chess, Color, EnPassantMode, File, Position, PositionError, PositionErrorKinds,
    Rank, Setup, Square,
    fen::{Fen, ParseFenError},
    uci::UciMove,
};
use thiserror::Error;

use super::{History, PackedMove};

/// The normal starting position.
pub const START_FEN: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

/// Why text is not a valid position or move.
#[derive(Debug, Error, PartialEq)]
pub enum SetupError {
    /// Not a FEN.
    #[error("not a FEN ({0}): {1}")]
    Fen(String, String),
    /// A line of EPD with fewer fields than a position has.
    #[error(
        "a position has four fields (board, side to move, castling, en passant), this line has {0}: {1}"
    )]
    Fields(usize, String),
    /// A position that is not possible in chess.
    #[error("illegal position ({0}): {1}")]
    Position(String, String),
    /// Castling rights that exist only in Chess960, while Chess960 is off: castling could not be distinguished from a
    /// king's move.
    #[error("a Chess960 position ({0}): set UCI_Chess960 to true first")]
    Chess960(String),
    /// Not a move in UCI's notation.
    #[error("not a move: {0}")]
    MoveText(String),
    /// Not allowed in the position.
    #[error("illegal move: {0}")]
    IllegalMove(String),
}

/// Parses a FEN with standard or Chess960 castling rights. As in UCI, the last fields may be missing: then White
/// moves, there is no castling or en passant, and the game has just begun.
///
/// # Errors
/// When it is not a FEN, or the position is not one that can arise in a game.
pub fn position_from_fen(text: &str) -> Result<Chess, SetupError> {
    let text = text.trim();
    let fen: Fen = text
        .parse()
        .map_err(|e: ParseFenError| SetupError::Fen(fen_problem(e).into(), shorten(text)))?;
    let setup: Setup = fen.into_setup();
    let mode = CastlingMode::detect(&setup);
    setup.position(mode).map_err(|e: PositionError<Chess>| {
        let mut problems = position_problems(e.kinds());
        // As after a rook was taken off the board by hand.
        if e.kinds() == PositionErrorKinds::INVALID_CASTLING_RIGHTS
            && let Ok(position) = e.ignore_invalid_castling_rights()
        {
            let right = Fen::from_position(&position, EnPassantMode::Legal).to_string();
            let rights = right.split(' ').nth(2).unwrap_or("-").to_owned();
            problems += &format!("; possible here: {rights}");
        }
        SetupError::Position(problems, shorten(text))
    })
}

/// Whether this is the first position of a normal game, with the counters of one: positions are equal whatever theirs
/// are.
pub fn is_start(position: &Chess) -> bool {
    let counters = (position.halfmoves(), position.fullmoves().get());
    *position == Chess::default() && counters == (0, 1)
}

/// Parses a move in UCI's notation. Castling may be written as the king's move (`e1g1`) or as king takes rook.
///
/// # Errors
/// When it is not a move or not legal in `position`.
pub fn parse_move(position: &Chess, text: &str) -> Result<PackedMove, SetupError> {
    let lower = text.to_ascii_lowercase();
    let uci: UciMove = lower
        .parse()
        .map_err(|_| SetupError::MoveText(shorten(text)))?;
    uci.to_move(position)
        .map(PackedMove::pack)
        .map_err(|_| SetupError::IllegalMove(shorten(text)))
}

/// A game from a FEN (the starting position if `None`) and the moves played from there.
///
/// # Errors
/// At the first invalid part; the error of a move contains its number in the list.
pub fn history_from(fen: Option<&str>, moves: &[String]) -> Result<History, SetupError> {
    let start = match fen {
        Some(fen) => position_from_fen(fen)?,
        None => Chess::default(),
    };
    let mut history = History::new(start);
    for (index, text) in moves.iter().enumerate() {
        let m = parse_move(history.position(), text).map_err(|error| {
            let place = format!("{} (number {} of the list)", shorten(text), index + 1);
            match error {
                SetupError::MoveText(_) => SetupError::MoveText(place),
                _ => SetupError::IllegalMove(place),
            }
        })?;
        history.push(m);
    }
    Ok(history)
}

/// Parses a game: a FEN or `startpos`, optionally with ` moves ` and moves in UCI's notation after it.
///
/// # Errors
/// When the FEN, the position or a move is not legal.
pub fn history_from_text(text: &str) -> Result<History, SetupError> {
    let without = text.trim_end().strip_suffix(" moves").unwrap_or(text);
    let (start, moves) = text.split_once(" moves ").unwrap_or((without, ""));
    let fen = Some(start.trim()).filter(|fen| *fen != "startpos");
    let moves: Vec<String> = moves.split_whitespace().map(str::to_owned).collect();
    history_from(fen, &moves)
}

/// Whether castling is possible only from the e file with rooks from the corners, as in all games but Chess960.
pub fn has_standard_castling(game: &History) -> bool {
    let start = &game.plies()[0].position;
    let is_standard = |color: Color| {
        let rank = color.fold_wb(Rank::First, Rank::Eighth);
        let corners = [File::A, File::H].map(|file| Square::from_coords(file, rank));
        let rooks = start.castles().castling_rights() & rank;
        let king = start.board().king_of(color);
        rooks.is_empty()
            || (king == Some(Square::from_coords(File::E, rank))
                && rooks.into_iter().all(|rook| corners.contains(&rook)))
    };
    Color::ALL.into_iter().all(is_standard)
}

/// Checks that castling in the game can be written in the mode that the GUI has chosen.
///
/// # Errors
/// When the game began with Chess960's castling rights and `chess960` is off.
pub fn check_castling(game: History, chess960: bool) -> Result<History, SetupError> {
    if chess960 || has_standard_castling(&game) {
        return Ok(game);
    }
    let start = &game.plies()[0].position;
    let fen = Fen::from_position(start, EnPassantMode::Legal);
    Err(SetupError::Chess960(fen.to_string()))
}

/// A move as UCI text in the GUI's castling mode.
pub fn move_text(position: &Chess, m: PackedMove, chess960: bool) -> String {
    m.to_uci(position, CastlingMode::from_chess960(chess960))
        .to_string()
}

/// Quotes input in error messages: shortened and without control characters.
pub(super) fn shorten(text: &str) -> String {
    shorten_to(text, 100)
}

/// A text of at most this many characters, without control characters; dots stand for the rest.
pub fn shorten_to(text: &str, most: usize) -> String {
    let mut short: String = text
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .take(most)
        .collect();
    if text.chars().nth(most).is_some() {
        short.push_str("...");
    }
    short
}

fn fen_problem(error: ParseFenError) -> &'static str {
    match error {
        ParseFenError::InvalidBoard => "the board is not eight ranks of eight squares",
        ParseFenError::InvalidTurn => "the side to move is neither w nor b",
        ParseFenError::InvalidCastling => "the castling rights are not understood",
        ParseFenError::InvalidEpSquare => "the en passant square is not a square",
        ParseFenError::InvalidHalfmoveClock => "the halfmove clock is not a number",
        ParseFenError::InvalidFullmoves => "the move number is not a number",
        _ => "its fields are not understood",
    }
}

fn position_problems(kinds: PositionErrorKinds) -> String {
    const WORDS: [(PositionErrorKinds, &str); 9] = [
        (PositionErrorKinds::EMPTY_BOARD, "the board is empty"),
        (PositionErrorKinds::MISSING_KING, "a king is missing"),
        (
            PositionErrorKinds::TOO_MANY_KINGS,
            "a side has several kings",
        ),
        (
            PositionErrorKinds::PAWNS_ON_BACKRANK,
            "a pawn stands on the first or last rank",
        ),
        (
            PositionErrorKinds::INVALID_CASTLING_RIGHTS,
            "castling rights without king and rook in place",
        ),
        (
            PositionErrorKinds::INVALID_EP_SQUARE,
            "no pawn can have passed the en passant square",
        ),
        (
            PositionErrorKinds::OPPOSITE_CHECK,
            "the side that is not to move is in check",
        ),
        (
            PositionErrorKinds::IMPOSSIBLE_CHECK,
            "no move can have given these checks",
        ),
        (
            PositionErrorKinds::TOO_MUCH_MATERIAL,
            "more pieces than promotions allow",
        ),
    ];
    let found: Vec<_> = WORDS
        .iter()
        .filter(|(kind, _)| kinds.contains(*kind))
        .map(|(_, words)| *words)
        .collect();
    if found.is_empty() {
        return "not possible in chess".into();
    }
    found.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn illegal_positions_are_refused_with_the_reason() {
        for (fen, reason) in [
            ("", "fields are not understood"),
            ("8/8/8/8 w - - 0 1", "eight ranks"),
            ("8/8/8/8/8/8/8/8 w - - 0 1", "empty"),
            ("4k3/8/8/8/8/8/8/8 w - - 0 1", "king is missing"),
            ("4k3/8/8/8/8/8/8/2K1K3 w - - 0 1", "several kings"),
            ("P3k3/8/8/8/8/8/8/4K3 w - - 0 1", "first or last rank"),
            ("4k3/8/8/8/8/8/8/4K2p w - - 0 1", "first or last rank"),
            ("4k3/4R3/8/8/8/8/8/4K3 w - - 0 1", "not to move is in check"),
            (
                "4k3/8/8/8/8/8/8/4K3 w KQkq - 0 1",
                "castling rights without king and rook in place; possible here: -)",
            ),
            // Without the queen's rook.
            (
                "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/1NBQKBNR w KQkq - 0 1",
                "possible here: Kkq)",
            ),
            ("4k3/8/8/8/8/8/8/4K3 w - e6 0 1", "en passant"),
            ("4k3/8/8/8/8/8/8/4K3 x - - 0 1", "neither w nor b"),
            (
                "qqqqkqqq/qqqqqqqq/8/8/8/8/8/4K3 w - - 0 1",
                "promotions allow",
            ),
        ] {
            let error = position_from_fen(fen).unwrap_err().to_string();
            assert!(error.contains(reason), "{fen}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn castling_is_accepted_in_both_notations_and_printed_in_the_mode() {
        let standard = position_from_fen("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1").unwrap();
        let short = parse_move(&standard, "e1g1").unwrap();
        assert_eq!(parse_move(&standard, "e1h1").unwrap(), short);
        assert_eq!(move_text(&standard, short, false), "e1g1");
        assert_eq!(move_text(&standard, short, true), "e1h1");
        let chess960 =
            position_from_fen("1r2kr2/pppppppp/8/8/8/8/PPPPPPPP/1R2KR2 w FBfb - 0 1").unwrap();
        for (text, written) in [("e1f1", "e1f1"), ("e1b1", "e1b1")] {
            let m = parse_move(&chess960, text).unwrap();
            assert_eq!(move_text(&chess960, m, true), written);
        }
        assert!(parse_move(&chess960, "e1c1").is_err());
    }

    #[test]
    fn a_game_is_refused_as_a_whole() {
        let moves = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let history = history_from(None, &moves("e2e4 e7e5 G1F3")).unwrap();
        assert_eq!(history.len(), 4);
        let error = history_from(None, &moves("e2e4 e2e4")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "illegal move: e2e4 (number 2 of the list)"
        );
        for bad in ["0000", "e2", "P@e4", "e7e8k", "e2e4q", "ß"] {
            assert!(history_from(None, &moves(bad)).is_err(), "{bad}");
        }
    }
}
