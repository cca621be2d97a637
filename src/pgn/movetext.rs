//! The words of a game's moves, and where they end: found line by line, before they are parsed.

use shakmaty::san::SanPlus;

/// What a word is.
#[derive(PartialEq)]
pub(super) enum TokenKind {
    Move,
    /// Move numbers, results, signs.
    Other,
    Unreadable,
}

/// What this word is.
pub(super) fn kind(word: &[u8]) -> TokenKind {
    if word.starts_with(b"0-0") {
        return TokenKind::Move;
    }
    // Move numbers may precede a move without a space; results begin with digits too.
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let word = &word[digits..];
    if SanPlus::from_ascii(word).is_ok() {
        return TokenKind::Move;
    }
    let first = String::from_utf8_lossy(word).chars().next();
    let is_figurine = |c: char| ('\u{2654}'..='\u{265f}').contains(&c);
    match first {
        _ if word == b"ep" => TokenKind::Other,
        Some(c) if c.is_alphabetic() || is_figurine(c) => TokenKind::Unreadable,
        _ => TokenKind::Other,
    }
}

/// Whether a word ends before this byte.
pub(super) fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"{}()[];!?$.".contains(&byte)
}

/// The state between two lines of moves.
#[derive(Default)]
pub(super) struct MoveScan {
    /// Whether there were words outside of comments.
    pub has_words: bool,
    /// Whether a comment is open.
    pub in_comment: bool,
    /// Nesting depth of variations.
    depth: usize,
    /// Whether there was a result in the main line.
    has_result: bool,
}

impl MoveScan {
    /// Reads a line; `is_rest` says that it does not begin at its start. Returns where the next game begins in it:
    /// with a move after a result, and the number before that move.
    pub fn scan_line(&mut self, line: &[u8], is_rest: bool) -> Option<usize> {
        if !self.in_comment && !is_rest && line.starts_with(b"%") {
            return None;
        }
        let (mut at, mut number, mut is_bracket) = (0, None, false);
        while let Some(&byte) = line.get(at) {
            match byte {
                b'}' => self.in_comment = false,
                _ if self.in_comment => {}
                b'{' => (self.in_comment, number) = (true, None),
                b';' => return None,
                // The rest of the line may be a broken tag.
                b'[' => is_bracket = true,
                _ if is_bracket => {}
                b'(' => self.depth += 1,
                b')' => self.depth = self.depth.saturating_sub(1),
                _ if !ends_word(byte) => {
                    let rest = &line[at..];
                    let length = rest
                        .iter()
                        .position(|&byte| ends_word(byte) || byte == b'*');
                    // A star is a word of its own.
                    let length = length.unwrap_or(rest.len()).max(1);
                    if self.depth == 0 && self.is_next_game(&rest[..length]) {
                        return Some(number.unwrap_or(at));
                    }
                    let is_number = byte.is_ascii_digit() && !line[..at].ends_with(b"$");
                    if is_number && self.has_result && self.depth == 0 {
                        number = number.or(Some(at));
                    }
                    if self.depth == 0 && is_result(&rest[..length]) {
                        (self.has_result, number) = (true, None);
                    }
                    self.has_words = true;
                    at += length;
                    continue;
                }
                _ => {}
            }
            self.has_words |= !self.in_comment && byte != b'}' && !byte.is_ascii_whitespace();
            at += 1;
        }
        None
    }

    fn is_next_game(&self, word: &[u8]) -> bool {
        self.has_result && kind(word) == TokenKind::Move
    }
}

/// Whether a word ends a game.
fn is_result(word: &[u8]) -> bool {
    [&b"1-0"[..], b"0-1", b"1/2-1/2", b"*", "½-½".as_bytes()].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a text that are games of their own.
    fn games(text: &str) -> Vec<&str> {
        let (mut games, mut scan, mut start) = (Vec::new(), MoveScan::default(), 0);
        let mut at = 0;
        while at < text.len() {
            let end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
            let is_rest = at > 0 && !text[..at].ends_with('\n');
            match scan.scan_line(&text.as_bytes()[at..end], is_rest) {
                None => at = end,
                Some(next) => {
                    games.push(&text[start..at + next]);
                    (scan, start, at) = (MoveScan::default(), at + next, at + next);
                }
            }
        }
        games.push(&text[start..]);
        games
    }

    #[test]
    fn a_move_after_a_result_begins_a_game() {
        for text in [
            "1. e4 e5 *\n|1. d4 d5 *\n",
            "1. e4 e5 1-0 |1.d4 d5 0-1 |1... c5 2. c4 1/2-1/2 |e4 *",
            "1. e4 e5* |1. d4 \u{bd}-\u{bd}\n|Nf3",
            "1. e4 e5 * {drawn\nlater} $1 ; 1. c4\n|0-0 1-0",
            "1. e4 * (1. c4 *) |1. d4 *",
        ] {
            let expected: Vec<&str> = text.split('|').collect();
            assert_eq!(games(&expected.concat()), expected);
        }
    }

    #[test]
    fn results_in_comments_and_variations_end_no_game() {
        for text in [
            "1. e4 {1-0} e5 {* 1. d4 *}\n2. Nf3 *\n",
            "1. e4 (1. d4 *) e5 (1... c5 1-0\n(1... e6 1/2-1/2) 2. c4) 2. Nf3 *\n",
            "1. e4 e5 ; 1-0\n2. Nf3 0-1 0-1 *\n{1. e4}\n",
            "1. e4 e5 1-0 Smith resigned 2 +-\n% 1. e4\n",
            "30. O-O 0-0-0 31. a8=Q# 1-0\n",
        ] {
            assert_eq!(games(text), [text]);
        }
    }
}
