//! What people read on a terminal: lines that cannot steer it, and that end nothing when nobody reads any more.
//!
//! Names of files, ids of positions, configurations and models come from anywhere, and may hold the sequences with which
//! programs move the cursor, set the window's title or write text backwards. Everything for people goes through here:
//! `say!` to standard output, [`tell`] to standard error.

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
    io::{self, Write},
};

/// Writes a line to standard error. That nobody reads it is no reason to stop, as `eprintln!` would by a panic.
pub fn tell(text: impl Display) {
    let line = format!("{text}\n");
    let _ = io::stderr().write_all(printable(&line).as_bytes());
}

/// Writes to standard output.
///
/// # Errors
/// When nobody reads any more.
pub fn say(text: impl Display) -> io::Result<()> {
    let text = text.to_string();
    io::stdout().write_all(printable(&text).as_bytes())
}

/// How many of something there are: `1 game`, `2 games`.
pub fn counted(number: u64, one: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {one}{ending}")
}

/// The text with everything that steers a terminal shown as `\u001b` and the like; ends of lines and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if steers(c) {
            // All of them have four digits. In JSON this is the same character.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Control characters of both sets, and those that turn the direction of writing (Unicode Standard Annex 9).
fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one() {
        let texts = [0, 1, 2].map(|number| counted(number, "game"));
        assert_eq!(texts, ["0 games", "1 game", "2 games"]);
    }

    #[test]
    fn what_steers_a_terminal_is_shown() {
        for (text, shown) in [
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("\u{9b}2J", "\\u009b2J"),
            ("a\u{202e}b\r", "a\\u202eb\\u000d"),
            ("a\u{61c}b", "a\\u061cb"),
        ] {
            assert_eq!(printable(text), shown);
        }
        let plain = "Müller–Шахов 1-0\tO-O\nnext";
        assert!(matches!(printable(plain), Cow::Borrowed(_)));
        assert_eq!(printable(plain), plain);
    }
}
