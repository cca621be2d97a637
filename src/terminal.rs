//! Output to a terminal: lines without control sequences, and no panic when the reader is gone.
//!
//! Names of files, ids of positions, configurations and models are untrusted text that may contain sequences which
//! move the cursor, set the window's title or reverse the direction of writing. All output for the user goes through
//! here: `print_line!` to standard output, [`eprint_line`] to standard error.

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether the reader of standard output is known to be gone.
static IS_UNREAD: AtomicBool = AtomicBool::new(false);

/// Writes a line to standard error. Errors are ignored: `eprintln!` would panic when the reader is gone.
pub fn eprint_line(text: impl Display) {
    let line = format!("{text}\n");
    let _ = io::stderr().write_all(printable(&line).as_bytes());
}

/// Writes to standard output.
///
/// # Errors
/// When the reader is gone.
pub fn print(text: impl Display) -> io::Result<()> {
    let text = text.to_string();
    io::stdout().write_all(printable(&text).as_bytes())
}

/// Writes to standard output. Its reader may stop before the end, as `head` does; see [`is_unread`].
///
/// # Errors
/// When it cannot be written for another reason.
pub fn print_text(text: impl Display) -> io::Result<()> {
    match print(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            IS_UNREAD.store(true, Ordering::Relaxed);
            Ok(())
        }
        printed => printed,
    }
}

/// Whether [`print_text`] found the reader of standard output gone: what would only be printed need not be computed.
pub fn is_unread() -> bool {
    IS_UNREAD.load(Ordering::Relaxed)
}

/// A number with a noun: `1 game`, `2 games`.
pub fn counted(number: u64, one: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {one}{ending}")
}

/// The text with control characters escaped as `\u001b`; line ends and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_control(c) {
            // Each has four digits, so in JSON this is the same character.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Control characters of both sets, and those that change the direction of writing (Unicode Standard Annex 9).
fn is_control(c: char) -> bool {
    let turns = matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let texts = [0, 1, 2].map(|number| counted(number, "game"));
        assert_eq!(texts, ["0 games", "1 game", "2 games"]);
    }

    #[test]
    fn control_characters_are_escaped() {
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
