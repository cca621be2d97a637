//! Odds positions: the normal start position without some of one side's pieces.

use shakmaty::{
    Bitboard, CastlingMode, Chess, Color, EnPassantMode, File, FromSetup, Position, Rank, Role,
    Setup, Square,
};
use thiserror::Error;

use super::openings::Opening;
use crate::{
    chess::setup::{self, SetupError},
    odds::Signature,
};

/// Errors in a specification of odds.
#[derive(Debug, Error)]
pub enum OddsError {
    /// A word that is not a piece.
    #[error(
        "odds '{0}' are neither pieces (queen, rook+knight, QRN) nor a FEN in which White gives odds"
    )]
    Word(String),
    /// More pieces of a kind than there are.
    #[error("odds '{0}': the start position has fewer of these pieces")]
    TooMany(String),
    /// The FEN is invalid.
    #[error(transparent)]
    Fen(#[from] SetupError),
    /// In the FEN White has as much material as Black, or more.
    #[error(
        "odds '{0}': White gives nothing in this position, as it has no less material than Black (queen 9, rook 5, \
         bishop and knight 3, pawn 1)"
    )]
    NotGiven(String),
    /// The remaining position is not legal.
    #[error("odds '{0}' leave no legal position")]
    Position(String),
}

/// The start position in which `giver` gives the odds of `text`: pieces (`queen`, `rook+knight`, `QRN`; the queen's
/// rook, knight and bishop are removed first, and of the pawns that on the f-file), or the FEN of a position in which
/// White gives them: it has less material than Black. For Black a FEN is mirrored, including the colours; after pieces
/// White moves first.
///
/// # Errors
/// When the text is not a valid specification of odds.
pub fn start(text: &str, giver: Color) -> Result<Opening, OddsError> {
    let text = text.trim();
    let mut setup = if text.contains('/') {
        setup::position_from_fen(text)?.to_setup(EnPassantMode::Legal)
    } else {
        start_without(&pieces(text)?, text)?
    };
    if Signature::of_board(&setup.board, Color::White).deficit() <= 0 {
        return Err(OddsError::NotGiven(text.to_owned()));
    }
    if giver.is_black() {
        setup.mirror();
    }
    if !text.contains('/') {
        setup.turn = Color::White;
    }
    let mode = CastlingMode::detect(&setup);
    let start = Chess::from_setup(setup, mode).map_err(|_| OddsError::Position(text.to_owned()))?;
    if start.is_game_over() {
        return Err(OddsError::Position(text.to_owned()));
    }
    Ok(Opening {
        start,
        moves: Vec::new(),
    })
}

/// Parses the pieces of a text that is not a FEN.
fn pieces(text: &str) -> Result<Vec<Role>, OddsError> {
    let mut roles = Vec::new();
    for word in text.split(['+', ',', ' ']).filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "queen" => roles.push(Role::Queen),
            "rook" => roles.push(Role::Rook),
            "bishop" => roles.push(Role::Bishop),
            "knight" => roles.push(Role::Knight),
            "pawn" => roles.push(Role::Pawn),
            letters => {
                for letter in letters.chars() {
                    let role = Role::from_char(letter).filter(|&role| role != Role::King);
                    roles.push(role.ok_or_else(|| OddsError::Word(word.to_owned()))?);
                }
            }
        }
    }
    if roles.is_empty() {
        return Err(OddsError::Word(text.to_owned()));
    }
    Ok(roles)
}

/// The normal start position without these pieces of White.
fn start_without(roles: &[Role], text: &str) -> Result<Setup, OddsError> {
    let mut setup = Setup::initial();
    for &role in roles {
        let file = if role == Role::Pawn { File::F } else { File::A };
        let preferred = Square::from_coords(file, Rank::Second);
        let own = setup.board.by_piece(role.of(Color::White));
        let square = Some(preferred)
            .filter(|&square| own.contains(square))
            .or(own.first())
            .ok_or_else(|| OddsError::TooMany(text.to_owned()))?;
        setup.board.discard_piece_at(square);
        setup.castling_rights &= !Bitboard::from_square(square);
    }
    Ok(setup)
}

#[cfg(test)]
mod tests {
    use shakmaty::fen::Fen;

    use super::*;

    fn fen(text: &str, giver: Color) -> String {
        let opening = start(text, giver).unwrap();
        Fen::from_position(&opening.start, EnPassantMode::Legal).to_string()
    }

    #[test]
    fn white_has_less_material_where_it_gives_odds() {
        for fen in [
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "rnbqkb1r/pppppppp/8/8/8/8/PPPPPPPP/RNBQK1NR w KQkq - 0 1",
        ] {
            let error = start(fen, Color::White).unwrap_err().to_string();
            assert!(error.contains("White gives nothing"), "{error}");
        }
    }

    #[test]
    fn pieces_go_and_castling_rights_with_them() {
        for (text, giver, expected) in [
            (
                "queen",
                Color::White,
                "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
            ),
            (
                "Queen",
                Color::Black,
                "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            ),
            (
                "rook+knight",
                Color::White,
                "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/2BQKBNR w Kkq - 0 1",
            ),
            (
                "rr",
                Color::Black,
                "1nbqkbn1/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQ - 0 1",
            ),
            (
                "pawn",
                Color::Black,
                "rnbqkbnr/ppppp1pp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            ),
            (
                "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNB1KBNR b KQkq - 0 1",
                Color::Black,
                "rnb1kbnr/pppp1ppp/8/4p3/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            ),
        ] {
            assert_eq!(fen(text, giver), expected, "{text}");
        }
        for bad in ["", "king", "horse", "qq", "8/8/8", "nnn"] {
            assert!(start(bad, Color::White).is_err(), "{bad}");
        }
    }
}
