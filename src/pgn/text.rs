//! Splits a file into the texts of games, before they are parsed.
//!
//! The text is split here rather than by the PGN parser, so that a broken game can be reported by its byte offset and
//! does not affect its neighbours. The parser also silently skips words that are not moves and continues with a move
//! missing; such words are detected here.

use std::io::{self, BufRead};

use super::{
    lines::Lines,
    movetext::{MoveScan, TokenKind, ends_word, kind},
};

/// Maximum size of the text of one game, in bytes; annotated games have some hundred thousand. It stops decompression
/// bombs.
const MAX_GAME_BYTES: usize = 1 << 22;
/// The byte order mark, which some editors write at the start of a file.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Maximum number of plies: with the 75-move rule the longest game has 11 798.
const MAX_PLIES: usize = 12_000;

/// The text of one game.
#[derive(Debug)]
pub struct Text<'a> {
    /// The uncompressed byte offset of its start.
    pub offset: u64,
    /// The text.
    pub bytes: &'a [u8],
    /// An error that was found without parsing.
    pub error: Option<String>,
}

/// Splits a stream into the texts of games. A game ends with a blank line after its moves, unless that is in a
/// comment, or where a tag follows moves or a comment, or before a move after its result. In a comment, which may
/// never be closed, it takes a blank line before the tag. Comments and escaped lines (`%`) before a game are skipped.
pub struct Texts<R> {
    input: Lines<R>,
    offset: u64,
    text: Vec<u8>,
    /// The last line; empty if none of it belongs to the next text.
    line: Vec<u8>,
    /// Where in the line the next text begins.
    start: usize,
    /// Whether it is only the rest of a line.
    is_rest: bool,
}

impl<R: BufRead> Texts<R> {
    /// Splits this text.
    pub fn new(input: R) -> Texts<R> {
        Texts {
            input: Lines::new(input),
            offset: 0,
            text: Vec::new(),
            line: Vec::new(),
            start: 0,
            is_rest: false,
        }
    }

    /// The next text.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub fn next_text(&mut self) -> io::Result<Option<Text<'_>>> {
        self.text.clear();
        self.skip_to_game()?;
        let offset = self.offset;
        let mut moves = MoveScan::default();
        let (mut is_too_long, mut has_comment, mut is_after_blank) = (false, false, false);
        loop {
            self.fill()?;
            let in_comment = moves.in_comment;
            let is_tag = !self.is_rest && (!in_comment || is_after_blank) && is_tag(self.rest());
            let is_blank = !self.is_rest && self.rest().trim_ascii().is_empty();
            let is_end = if is_tag {
                moves.has_words || has_comment
            } else {
                moves.has_words && is_blank && !in_comment
            };
            if self.rest().is_empty() || is_end {
                break;
            }
            let mut next_game = None;
            if !is_tag && !is_blank {
                next_game = moves.scan_line(self.rest(), self.is_rest);
                has_comment = true;
            }
            is_after_blank = is_blank;
            let count = next_game.unwrap_or(self.rest().len());
            is_too_long |= self.text.len() + count > MAX_GAME_BYTES;
            if !is_too_long {
                let rest = &self.line[self.start..];
                if is_tag {
                    push_tag(&mut self.text, rest);
                } else {
                    self.text.extend_from_slice(&rest[..count]);
                }
            }
            self.take(count);
            if next_game.is_some() {
                self.is_rest |= count > 0;
                break;
            }
        }
        // Shows whether another text follows.
        self.skip_to_game()?;
        let error = if is_too_long {
            Some(format!("it is longer than {MAX_GAME_BYTES} bytes"))
        } else {
            error_in_moves(&self.text)
        };
        Ok((!self.text.is_empty() || is_too_long).then_some(Text {
            offset,
            bytes: &self.text,
            error,
        }))
    }

    /// Whether the last text was the end of the file.
    pub fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// What is left of the line.
    fn rest(&self) -> &[u8] {
        &self.line[self.start..]
    }

    fn fill(&mut self) -> io::Result<()> {
        if self.rest().is_empty() {
            self.start = 0;
            self.line.clear();
            self.is_rest = self.input.is_cut();
            self.input.read(&mut self.line)?;
            if self.offset == 0 && self.line.starts_with(BYTE_ORDER_MARK) {
                self.take(BYTE_ORDER_MARK.len());
            }
        }
        Ok(())
    }

    /// Advances by `count` bytes of the line.
    fn take(&mut self, count: usize) {
        self.offset += count as u64;
        self.start += count;
    }

    /// Skips blank lines, comments and escaped lines.
    fn skip_to_game(&mut self) -> io::Result<()> {
        let (mut in_comment, mut is_after_blank) = (false, false);
        loop {
            self.fill()?;
            let line = self.rest();
            let is_blank = line.trim_ascii().is_empty();
            if line.is_empty() || (is_after_blank && is_tag(line)) {
                return Ok(());
            }
            let skipped = if in_comment {
                0
            } else {
                line.len() - line.trim_ascii_start().len()
            };
            let rest = &line[skipped..];
            let is_escaped = !self.is_rest && !in_comment && rest.starts_with(b"%");
            if is_blank || is_escaped || (!in_comment && rest.starts_with(b";")) {
                is_after_blank = is_blank;
                self.take(line.len());
            } else if in_comment || rest.starts_with(b"{") {
                let end = rest.iter().position(|&byte| byte == b'}');
                in_comment = end.is_none();
                self.take(end.map_or(line.len(), |end| skipped + end + 1));
                is_after_blank = false;
            } else {
                return Ok(());
            }
        }
    }
}

/// Whether a line is `[Name "value"]`, where the name begins with a letter, a digit or an underscore; a comment's
/// `[%eval 0.3]` at the start of a line is not.
fn is_tag(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.first() == Some(&b'[')
        && line
            .get(1)
            .is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && line.ends_with(b"\"]")
}

/// Adds a tag line to a text. Quotation marks inside a value, which some writers do not escape, are escaped: the
/// parser would end the value there and take the rest for moves.
fn push_tag(text: &mut Vec<u8>, line: &[u8]) {
    let (mut in_value, mut is_escaped) = (false, false);
    for (index, &byte) in line.iter().enumerate() {
        if byte == b'"' {
            let rest = &line[index + 1..];
            let ends_value = if is_escaped {
                rest.trim_ascii() == b"]"
            } else {
                in_value && ends_tag(rest)
            };
            if in_value && ends_value == is_escaped {
                text.push(b'\\');
            }
            in_value = !ends_value;
        }
        is_escaped = byte == b'\\' && in_value && !is_escaped;
        text.push(byte);
    }
}

/// Whether the text after a quotation mark ends a tag: a bracket, followed by nothing or by another tag.
fn ends_tag(rest: &[u8]) -> bool {
    let after = rest.trim_ascii_start().strip_prefix(b"]");
    after.is_some_and(|rest| matches!(rest.trim_ascii_start(), [] | [b'[', ..]))
}

/// Finds an error in the moves that shows without a board.
fn error_in_moves(text: &[u8]) -> Option<String> {
    let mut words = Words { text, depth: 0 };
    let mut plies = 0;
    while let Some(word) = words.next_word() {
        match kind(word) {
            TokenKind::Move => plies += 1,
            TokenKind::Other => {}
            TokenKind::Unreadable => {
                let is_last = words.text.trim_ascii().is_empty();
                let word = String::from_utf8_lossy(&word[..word.len().min(40)]);
                return Some(if is_last {
                    format!("it breaks off after {plies} plies with '{word}'")
                } else {
                    format!("'{word}' at ply {} is not a move", plies + 1)
                });
            }
        }
        if plies > MAX_PLIES {
            return Some(format!("it has more than {MAX_PLIES} plies"));
        }
    }
    // The rest of the game was not seen.
    (words.depth > 0).then(|| format!("a variation after {plies} plies is never closed"))
}

/// The words of the main line, without tags, comments and variations.
struct Words<'a> {
    text: &'a [u8],
    /// Nesting depth of variations.
    depth: usize,
}

impl<'a> Words<'a> {
    fn next_word(&mut self) -> Option<&'a [u8]> {
        loop {
            let (&first, rest) = self.text.split_first()?;
            match first {
                b'{' => self.advance_to(b'}'),
                b';' | b'[' => {
                    self.advance_to(b'\n');
                    continue;
                }
                b'\n' if rest.first() == Some(&b'%') => {
                    self.text = rest;
                    self.advance_to(b'\n');
                    continue;
                }
                b'(' => self.depth += 1,
                b')' => self.depth = self.depth.saturating_sub(1),
                _ if self.text.starts_with(b"e.p.") => self.text = &rest[2..],
                _ if ends_word(first) => {}
                _ => {
                    let length = self.text.iter().position(|&byte| ends_word(byte));
                    let (word, rest) = self.text.split_at(length.unwrap_or(self.text.len()));
                    self.text = rest;
                    if self.depth == 0 {
                        return Some(word);
                    }
                    continue;
                }
            }
            self.text = self.text.get(1..).unwrap_or_default();
        }
    }

    /// Advances to the next such byte, or to the end.
    fn advance_to(&mut self, byte: u8) {
        let at = self.text.iter().position(|&other| other == byte);
        self.text = &self.text[at.unwrap_or(self.text.len())..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(u64, String, Option<String>)> {
        let mut texts = Texts::new(text.as_bytes());
        let mut cut = Vec::new();
        while let Some(text) = texts.next_text().unwrap() {
            let bytes = String::from_utf8_lossy(text.bytes).into_owned();
            cut.push((text.offset, bytes, text.error));
        }
        cut
    }

    #[test]
    fn games_end_with_a_blank_line_outside_of_comments() {
        let text = "\n[White \"a\"]\n\n1. e4 {two\n\nparts} e5 ; {\n*\n\n\n1. d4 *\n[White \"b\"]\n\n1. c4 {open\n\n[White \"c\"]\n\n*\n";
        let games = cut(text);
        let begins = ["[White \"a\"]", "1. d4", "[White \"b\"]", "[White \"c\"]"];
        assert_eq!(games.len(), begins.len(), "{games:?}");
        for ((offset, game, error), begin) in games.iter().zip(begins) {
            assert!(game.starts_with(begin) && error.is_none());
            assert!(text[*offset as usize..].starts_with(&**game));
        }
        assert!(cut("\n \n").is_empty());
    }

    #[test]
    fn comments_and_escaped_lines_before_a_game_are_no_game() {
        let game = "[White \"a\"]\n\n1. e4 *\n";
        for before in [
            "; made by hand\n",
            "% escaped\n",
            "{ of a\n\ntournament }\n\n",
            "{one} {two}\n% three\n ; four\n{five\n}",
            "{never closed\n\n",
        ] {
            let text = format!("{before}{game}\n{before}{game}\n; the end\n");
            let games = cut(&text);
            assert_eq!(games.len(), 2, "{games:?}");
            for (offset, text_of_game, error) in &games {
                assert_eq!((&**text_of_game, error), (game, &None));
                assert!(text[*offset as usize..].starts_with(game));
            }
        }
        let moves = cut("{intro} 1. e4 *\n").remove(0);
        assert_eq!((moves.0, &*moves.1), (7, " 1. e4 *\n"));
        // Between tags and moves they belong to the game.
        let inside = "[White \"a\"]\n\n{intro\n\n}\n\n% escaped\n\n1. e4 *\n";
        assert_eq!(cut(inside).len(), 1);
        assert_eq!(cut(inside).remove(0).1, inside);
        // A game without moves ends with its comment.
        let without = format!("[White \"b\"]\n\n{{forfeited}}\n\n{game}");
        assert_eq!(cut(&without).len(), 2);
    }

    #[test]
    fn tags_may_begin_with_a_digit_and_comments_may_contain_lines_like_tags() {
        let start =
            "[FEN \"4k3/8/8/8/8/8/8/4K2R w K - 0 1\"]\n[960 \"no\"]\n[_x \"y\"]\n\n1. O-O *\n";
        let comment = "1. e4 {he wrote\n[White \"me\"]\nthere} e5 *\n";
        let games = cut(&format!("{start}\n{comment}\n1. c4 *\n"));
        let texts: Vec<&str> = games.iter().map(|(_, text, _)| &**text).collect();
        assert_eq!(texts, [start, comment, "1. c4 *\n"]);
        assert!(games.iter().all(|(_, _, error)| error.is_none()));
    }

    #[test]
    fn a_move_after_a_result_begins_a_text() {
        let parts = [
            "1. e4 e5 * ",
            "1. d4 d5 1-0\n",
            "[White \"a\"]\n\n1. c4 *\n",
            "1. f4 1-0\n",
        ];
        let text = parts.concat();
        let mut at = 0;
        for ((offset, game, error), part) in cut(&text).into_iter().zip(parts) {
            assert_eq!((offset, &*game, error), (at as u64, part, None));
            at += part.len();
        }
        assert_eq!(at, text.len());
        // A file of one game a line is not one long text.
        assert_eq!(cut(&"1. e4 e5 *\n".repeat(500_000)).len(), 500_000);
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_a_game() {
        let game = "[White \"a\"]\n\n1. e4 *\n";
        let marked = format!("\u{feff}{game}\n{game}");
        let offsets_and_games: Vec<_> = cut(&marked)
            .into_iter()
            .map(|(at, text, _)| (at, text))
            .collect();
        let second = 3 + game.len() as u64 + 1;
        assert_eq!(
            offsets_and_games,
            [(3, game.to_owned()), (second, game.to_owned())]
        );
    }

    #[test]
    fn quotation_marks_in_a_tag_are_escaped() {
        for (line, expected) in [
            (r#"[White "A "x" B"]"#, r#"[White "A \"x\" B"]"#),
            (r#"[White ""x""]"#, r#"[White "\"x\""]"#),
            (r#"[White "A \"x" B"]"#, r#"[White "A \"x\" B"]"#),
            (r#"[Event "a "b"] c"]  "#, r#"[Event "a \"b\"] c"]  "#),
            (r#"[Site "C:\"]"#, r#"[Site "C:\\"]"#),
            // Unchanged.
            (r#"[White "A \"x\" B"]"#, r#"[White "A \"x\" B"]"#),
            (r#"[White "a"] [Black "b"]"#, r#"[White "a"] [Black "b"]"#),
            (r#"[White "a" ][Black ""]"#, r#"[White "a" ][Black ""]"#),
            (r#"[Site "C:\\"]"#, r#"[Site "C:\\"]"#),
        ] {
            for end in ["\n", "\r\n"] {
                let game = cut(&format!("{line}{end}{end}1. e4 *{end}")).remove(0).1;
                assert_eq!(game, format!("{expected}{end}{end}1. e4 *{end}"));
            }
        }
    }

    #[test]
    fn words_that_are_not_moves_are_reported_with_their_ply() {
        let error = |moves: &str| cut(&format!("[White \"Xf3\"]\n\n{moves}\n")).remove(0).2;
        for readable in [
            "1.e4 e5 2.Nf3!? $14 Nc6 (2... Xx9 (3. zz) 3. d4) 3. Bb5+ {Xf3} a6 ; Xf3\n% Xf3\n1/2-1/2",
            "1. e4 d5 2. e5 f5 3. exf6 e.p. 0-1",
            "30. O-O O-O-O 31. 0-0 0-0-0 32. a8=Q# ½-½",
            "1. e4 +- 1... e5 = \u{b1} *",
        ] {
            assert_eq!(error(readable), None, "{readable}");
        }
        for (unreadable, word, ply) in [
            ("1. e4 Xf3 2. d4 *", "Xf3", 2),
            ("1. e4 e5 2. Sf3 *", "Sf3", 3),
            ("1. e4 e5 2. ♘f3 *", "♘f3", 3),
            ("1. e4 e5 (1... c5) 2. Nf3++ *", "Nf3++", 3),
        ] {
            assert_eq!(
                error(unreadable),
                Some(format!("'{word}' at ply {ply} is not a move"))
            );
        }
        let open = error("1. e4 e5 (1... c5 (1... e6) 2. Nf3 Nc6 1-0").unwrap();
        assert_eq!(open, "a variation after 2 plies is never closed");
        assert!(error(&"Nf3 ".repeat(12_001)).unwrap().contains("plies"));
    }

    #[test]
    fn an_endless_text_is_dropped_and_its_neighbours_are_kept() {
        let long = "x".repeat(MAX_GAME_BYTES + 1);
        let games = cut(&format!("1. e4 *\n\n1. d4 {{{long}}} *\n\n1. c4 *\n"));
        assert_eq!(games.len(), 3);
        assert!(games[1].2.as_ref().unwrap().contains("longer than"));
        assert!(games[1].1.len() <= MAX_GAME_BYTES);
        assert_eq!((&*games[2].1, &games[2].2), ("1. c4 *\n", &None));
    }
}
