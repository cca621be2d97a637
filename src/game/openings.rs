//! Start positions of games: books of positions (EPD, or one FEN per line) and of games (PGN), and their order by a
//! seed.

use std::path::{Path, PathBuf};

use shakmaty::{CastlingMode, Chess, Position};
use thiserror::Error;

use crate::{
    chess::{History, PackedMove, epd::EpdLine, setup},
    files,
    game::adjudicate,
    hashing::mix,
    pgn::Reader,
};

/// An opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The position that engines and PGN start from.
    pub start: Chess,
    /// The moves from there to the first searched move.
    pub moves: Vec<PackedMove>,
}

impl Opening {
    /// The normal starting position.
    pub fn standard() -> Opening {
        Opening {
            start: Chess::default(),
            moves: Vec::new(),
        }
    }

    /// The game so far.
    pub fn history(&self) -> History {
        let mut history = History::new(self.start.clone());
        for &m in &self.moves {
            history.push(m);
        }
        history
    }

    /// Whether the game is over after it by the rules, repetition and fifty moves included.
    fn is_over(&self) -> bool {
        adjudicate::by_rules(&self.history()).is_some()
    }

    /// Whether it has castling rights that exist only in Chess960.
    pub fn needs_chess960(&self) -> bool {
        let position = &self.start;
        position.castles().mode() == CastlingMode::Chess960 && position.castles().any()
    }
}

/// Why a book cannot be used.
#[derive(Debug, Error)]
pub enum BookError {
    /// The file cannot be read.
    #[error("{0:#}")]
    File(anyhow::Error),
    /// One of its positions or games is invalid.
    #[error("{file}, {place}: {reason}")]
    Entry {
        /// The file name.
        file: String,
        /// Line number, number of the game or byte offset.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The book is empty.
    #[error("{0}: it contains no position")]
    Empty(String),
}

/// Openings in the order of their file.
#[derive(Clone, Debug)]
pub struct Book {
    /// Never empty.
    openings: Vec<Opening>,
}

impl Book {
    /// A book with only the normal start position.
    pub fn standard() -> Book {
        Book {
            openings: vec![Opening::standard()],
        }
    }

    /// Reads a whole file, which may be compressed (`.gz` or `.zst`). A `.pgn` file holds games, all others
    /// positions.
    ///
    /// # Errors
    /// When it cannot be read, when one of its positions or games is invalid or over, or when it is empty: a match
    /// must not start with a damaged book.
    pub fn open(path: &Path) -> Result<Book, BookError> {
        let openings = if is_pgn(path) {
            from_pgn(path)?
        } else {
            from_epd(path)?
        };
        if openings.is_empty() {
            return Err(BookError::Empty(path.display().to_string()));
        }
        Ok(Book { openings })
    }

    /// How many openings there are.
    #[expect(clippy::len_without_is_empty, reason = "a book is never empty")]
    pub fn len(&self) -> usize {
        self.openings.len()
    }

    /// The openings in the order of the file.
    pub fn openings(&self) -> &[Opening] {
        &self.openings
    }

    /// `count` openings in an order that depends only on the seed, in all versions; without a seed in the file's
    /// order. After the last one they repeat.
    pub fn ordered(&self, seed: Option<u64>, count: usize) -> impl Iterator<Item = &Opening> {
        let mut order: Vec<usize> = (0..self.openings.len()).collect();
        if let Some(seed) = seed {
            order.sort_by_cached_key(|&index| (splitmix64(seed ^ splitmix64(index as u64)), index));
        }
        let openings = (0..count).map(move |index| order[index % order.len()]);
        openings.map(|index| &self.openings[index])
    }
}

/// The output of SplitMix64 (G. Steele, D. Lea, C. Flood, 2014) in this state, which mixes the bits of a number.
fn splitmix64(x: u64) -> u64 {
    mix(x.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

fn is_pgn(path: &Path) -> bool {
    let is = |path: &Path, name: &str| {
        path.extension()
            .is_some_and(|ext| ext.eq_ignore_ascii_case(name))
    };
    let mut path = PathBuf::from(path);
    if is(&path, "gz") || is(&path, "zst") {
        path.set_extension("");
    }
    is(&path, "pgn")
}

fn from_epd(path: &Path) -> Result<Vec<Opening>, BookError> {
    let file = path.display().to_string();
    let mut openings = Vec::new();
    let lines = files::lines(files::open(path).map_err(BookError::File)?);
    for (number, line) in (1..).zip(lines) {
        let entry = |reason: String| BookError::Entry {
            file: file.clone(),
            place: format!("line {number}"),
            reason,
        };
        let line = line.map_err(|error| entry(error.to_string()))?;
        let text = line.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let start = EpdLine::parse(text)
            .and_then(|line| setup::position_from_fen(&line.fen))
            .map_err(|e| entry(e.to_string()))?;
        let opening = Opening {
            start,
            moves: Vec::new(),
        };
        if opening.is_over() {
            return Err(entry("the game is over there".into()));
        }
        openings.push(opening);
    }
    Ok(openings)
}

fn from_pgn(path: &Path) -> Result<Vec<Opening>, BookError> {
    let mut openings = Vec::new();
    for game in Reader::open(path).map_err(BookError::File)? {
        let entry = |place: String, reason: String| BookError::Entry {
            file: path.display().to_string(),
            place,
            reason,
        };
        let number = openings.len() + 1;
        let game = game.map_err(|error| entry(format!("game {number}"), error.to_string()))?;
        let opening = Opening {
            start: game.start,
            moves: game.moves,
        };
        if opening.is_over() {
            return Err(entry(
                format!("game {number}"),
                "it is played to its end".into(),
            ));
        }
        openings.push(opening);
    }
    Ok(openings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn book(name: &str, text: &str) -> Result<Book, BookError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        Book::open(&path)
    }

    const EPD: &str = "\u{feff}rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1 ; v=12\n\n# comment\n\
                       rnbqkbnr/pppppppp/8/8/3P4/8/PPPP1PPP/RNBQKBNR b KQkq -; id \"x\";\n\
                       4k3/8/8/8/8/8/4P3/4K3 w - - bm e4;\n";

    #[test]
    fn positions_with_and_without_counters_and_operations() {
        let epd = book("a.epd", EPD).unwrap();
        assert_eq!(epd.len(), 3);
        assert_eq!(epd.openings()[0].start.fullmoves().get(), 1);
        assert!(epd.openings()[2].start.castles().is_empty());
        let pgn = book(
            "a.pgn",
            "1. e4 e5 *\n\n[White \"x\"]\n\n1. d4 {x} d5 2. c4 1/2-1/2\n",
        )
        .unwrap();
        let plies: Vec<_> = pgn.openings().iter().map(|o| o.moves.len()).collect();
        assert_eq!(plies, [2, 3]);
        assert_eq!(pgn.openings()[1].history().len(), 4);
    }

    #[test]
    fn a_seed_determines_the_order_of_all_openings() {
        let epd = book("a.epd", EPD).unwrap();
        let order = |seed| -> Vec<Opening> { epd.ordered(seed, 6).cloned().collect() };
        assert_eq!(order(None), [epd.openings(), epd.openings()].concat());
        assert_eq!(order(Some(7)), order(Some(7)));
        let orders: Vec<_> = (0..20).map(|seed| order(Some(seed))).collect();
        assert!(orders.iter().any(|other| *other != orders[0]));
        for order in orders {
            assert!(epd.openings().iter().all(|o| order[..3].contains(o)));
            assert_eq!(order[..3], order[3..]);
        }
    }

    #[test]
    fn bad_books_are_refused_with_their_location() {
        for (name, text, message) in [
            ("a.epd", "", "no position"),
            ("a.pgn", "\n", "no position"),
            (
                "a.epd",
                "4k3/8/8/8/8/8/4P3/4K3 w - -\n4k3/8/8/8/8/8",
                "line 2",
            ),
            ("a.epd", "4k3/8/8/8/8/8/4P3/4K3", "four fields"),
            ("a.epd", "4k3/8/8/8/8/8/4P3/4K3 b", "this line has 2"),
            ("a.epd", "4k3/8/8/8/8/8/4P3/4K3 b -", "this line has 3"),
            ("a.epd", "R5k1/5ppp/8/8/8/8/8/6K1 b - -", "over there"),
            ("a.epd", "4k3/8/8/8/8/8/8/R3K3 w - - 100 90", "over there"),
            (
                "a.PGN",
                "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 *",
                "played to its end",
            ),
            (
                "a.pgn",
                "1. e4 e5 *\n\n[White \"x\"]\n\n1. e4 Ke5 *\n",
                "game 2",
            ),
            ("a.pgn", "1. e4 e5 2. N", "breaks off"),
            ("a.pgn", "1. f3 e5 2. g4 Qh4# 0-1", "played to its end"),
            ("a.epd.gz", "\u{1f}\u{8b}", "a.epd.gz"),
        ] {
            let error = book(name, text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
        assert!(Book::open(Path::new("/no/such.epd")).is_err());
    }

    #[test]
    fn any_encoding_of_names_is_accepted_and_endless_lines_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.epd");
        fs::write(&path, b"4k3/8/8/8/8/8/4P3/4K3 w - - id \"R\xe9ti\";\n").unwrap();
        assert_eq!(Book::open(&path).unwrap().len(), 1);
        let endless = format!("{}\n4k3/8/8/8/8/8/4P3/4K3 w - -", "8".repeat(1 << 17));
        let error = book("a.epd", &endless).unwrap_err().to_string();
        assert!(error.contains("line 1: it is longer than"), "{error}");
    }
}
