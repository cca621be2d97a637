//! Parses lines of EPD: a FEN's first four fields, then operations such as `bm Nf3; id "test 1";`. The two counters
//! of a FEN may stand between them.

use shakmaty::{Chess, san::SanPlus};

use super::{
    PackedMove,
    setup::{self, SetupError, shorten},
};

/// The number of fields at the start of every line: board, side to move, castling, en passant.
const FIELDS: usize = 4;

/// A parsed line of EPD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpdLine {
    /// The position as a FEN of six fields. The counters are those after the four fields, or those of the operations
    /// `hmvc` and `fmvn`, or 0 and 1.
    pub fen: String,
    /// The operations, without the semicolons at their ends.
    pub operations: Vec<String>,
}

impl EpdLine {
    /// Parses a line.
    ///
    /// # Errors
    /// When it has fewer than four fields: a truncated line would be another position, with White to move and without
    /// castling.
    pub fn parse(line: &str) -> Result<EpdLine, SetupError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < FIELDS {
            return Err(SetupError::Fields(words.len(), shorten(line)));
        }
        let (fields, rest) = words.split_at(FIELDS);
        let fields: Vec<&str> = fields.iter().map(|word| without_semicolon(word)).collect();
        let is_counter =
            |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let counters = rest.iter().map(|word| without_semicolon(word));
        let counters: Vec<&str> = counters.take(2).take_while(is_counter).collect();
        let operations = operations(&rest[counters.len()..].join(" "));
        let counter = |at: usize, name: &str, usual: &'static str| {
            let mut found = operations.iter().filter_map(|text| text.split_once(' '));
            let value = found.find(|(operation, _)| *operation == name);
            let value = value.map_or(usual, |(_, value)| value.trim());
            counters.get(at).copied().unwrap_or(value).to_owned()
        };
        let counters = [counter(0, "hmvc", "0"), counter(1, "fmvn", "1")];
        Ok(EpdLine {
            fen: [fields.join(" "), counters.join(" ")].join(" "),
            operations,
        })
    }
}

/// Parses the moves of an operation such as `bm Nf3 e4`, in SAN or in UCI's notation.
///
/// # Errors
/// When one of them is not a legal move.
pub fn moves(position: &Chess, text: &str) -> Result<Vec<PackedMove>, SetupError> {
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let san: Option<SanPlus> = word.trim_end_matches(['!', '?']).parse().ok();
            san.and_then(|san| san.san.to_move(position).ok())
                .map(PackedMove::pack)
                .or_else(|| setup::parse_move(position, word).ok())
                .ok_or_else(|| SetupError::IllegalMove(shorten(word)))
        })
        .collect()
}

fn without_semicolon(word: &str) -> &str {
    word.trim_end_matches(';')
}

/// Splits at semicolons outside quotation marks.
fn operations(text: &str) -> Vec<String> {
    let mut quoted = false;
    text.split(|c| {
        quoted ^= c == '"';
        c == ';' && !quoted
    })
    .map(|operation| operation.trim().to_owned())
    .filter(|operation| !operation.is_empty())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KING_AND_ROOK: &str = "4k3/8/8/8/8/8/8/4K2R w K -";

    #[test]
    fn counters_follow_the_fields_or_are_operations() {
        let fen = |rest: &str| {
            EpdLine::parse(&format!("{KING_AND_ROOK}{rest}"))
                .unwrap()
                .fen
        };
        for (rest, counters) in [
            ("", "0 1"),
            (";", "0 1"),
            (" 7 30", "7 30"),
            (" 7 30; bm O-O;", "7 30"),
            (" 7", "7 1"),
            (" bm O-O; hmvc 50; fmvn 80;", "50 80"),
            (" 7 30 hmvc 50;", "7 30"),
        ] {
            assert_eq!(fen(rest), format!("{KING_AND_ROOK} {counters}"), "{rest}");
        }
    }

    #[test]
    fn operations_end_with_semicolons_outside_of_quotation_marks() {
        let line = EpdLine::parse(&format!("{KING_AND_ROOK} bm O-O; id \"a; b\"; c0 \"x\""));
        assert_eq!(
            line.unwrap().operations,
            ["bm O-O", "id \"a; b\"", "c0 \"x\""]
        );
    }

    #[test]
    fn a_truncated_line_is_not_a_position() {
        let error = EpdLine::parse("4k3/8/8/8/8/8/8/4K2R b").unwrap_err();
        assert!(error.to_string().contains("four fields"), "{error}");
    }
}
