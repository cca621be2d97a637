//! The lines of a PGN file, which end in `\n`, in `\r\n`, or, as older programs wrote them, in `\r` alone.

use std::io::{self, BufRead};

use crate::files::{LineEnd, read_line};

/// Maximum length of a line that is read at once, in bytes.
const MAX_LINE_BYTES: usize = 1 << 16;

/// This many bytes are read after a carriage return at the maximum length, to know what it is; and this often, if the
/// last of them is one again.
const MAX_AFTER_RETURN: usize = 16;
const MAX_EXTENSIONS: usize = 64;
/// Maximum number of carriage returns before a `\n` that are part of the line's end, plus one.
const MAX_RETURNS: usize = 4;

/// Reads lines one after the other.
pub(super) struct Lines<R> {
    input: R,
    /// What was read and not yet given out: lines that end in `\r`.
    ahead: Vec<u8>,
    /// How much of it was given out.
    given: usize,
    /// Whether the rest of what is ahead is only a part of a line.
    ahead_is_cut: bool,
    /// Whether the last line was cut, and its rest follows.
    is_cut: bool,
}

impl<R: BufRead> Lines<R> {
    pub fn new(input: R) -> Lines<R> {
        Lines {
            input,
            ahead: Vec::new(),
            given: 0,
            ahead_is_cut: false,
            is_cut: false,
        }
    }

    /// Whether the last line was cut, and its rest follows.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Reads the next line with its end, of which a lone `\r` becomes a `\n`; nothing at the end of the file.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub fn read(&mut self, line: &mut Vec<u8>) -> io::Result<()> {
        let rest = &self.ahead[self.given..];
        let is_partial = rest.is_empty() || (self.ahead_is_cut && lone_return(rest).is_none());
        if is_partial && (self.given > 0 || self.ahead.is_empty()) {
            self.read_ahead()?;
        }
        let rest = &self.ahead[self.given..];
        let lone = lone_return(rest);
        let count = lone.map_or(rest.len(), |at| at + 1);
        line.extend_from_slice(&rest[..count]);
        if let (Some(_), Some(last)) = (lone, line.last_mut()) {
            *last = b'\n';
        }
        self.given += count;
        self.is_cut = lone.is_none() && self.ahead_is_cut;
        Ok(())
    }

    /// Drops what was given out, and reads on to a `\n` or up to the maximum length.
    fn read_ahead(&mut self) -> io::Result<()> {
        self.ahead.drain(..self.given);
        self.given = 0;
        let mut most = MAX_LINE_BYTES.saturating_sub(self.ahead.len()).max(1);
        for _ in 0..MAX_EXTENSIONS {
            let end = read_line(&mut self.input, &mut self.ahead, most)?;
            self.ahead_is_cut = end == LineEnd::Cut;
            // The next bytes show whether a carriage return is a line end of its own.
            if !(self.ahead_is_cut && self.ahead.ends_with(b"\r")) {
                break;
            }
            most = MAX_AFTER_RETURN;
        }
        Ok(())
    }
}

/// The first lone carriage return: one that is not part of a line end with `\n`, before which some programs put
/// several.
fn lone_return(text: &[u8]) -> Option<usize> {
    // Much faster than the search for its place, and nearly always false.
    if !text.contains(&b'\r') {
        return None;
    }
    let at = text.iter().position(|&byte| byte == b'\r')?;
    let mut after = text[at..].iter().take(MAX_RETURNS);
    let after = after.find(|&&byte| byte != b'\r');
    (after != Some(&b'\n')).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        loop {
            let mut line = Vec::new();
            lines.read(&mut line).unwrap();
            if line.is_empty() {
                return found;
            }
            found.push((line, lines.is_cut()));
        }
    }

    #[test]
    fn lines_end_in_three_ways() {
        let whole = |texts: &[&[u8]]| -> Vec<(Vec<u8>, bool)> {
            texts.iter().map(|text| (text.to_vec(), false)).collect()
        };
        assert_eq!(lines(b"a\r\rb\r"), whole(&[b"a\n", b"\n", b"b\n"]));
        assert_eq!(
            lines(b"a\rb\r\nc\nd"),
            whole(&[b"a\n", b"b\r\n", b"c\n", b"d"])
        );
        // Damaged by two conversions.
        assert_eq!(lines(b"a\r\r\nb\r\r\n"), whole(&[b"a\r\r\n", b"b\r\r\n"]));
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn short_lines_are_never_cut() {
        let text: Vec<u8> = (0..20_000)
            .flat_map(|n| format!("{n}\r").into_bytes())
            .collect();
        let found = lines(&text);
        assert_eq!(found.len(), 20_000);
        for (number, (line, is_cut)) in found.iter().enumerate() {
            assert!(!is_cut && *line == format!("{number}\n").into_bytes());
        }
        assert_eq!(lines(&[b'\r'; 1 << 18]).len(), 1 << 18);
    }

    #[test]
    fn long_lines_are_cut() {
        let long = [b'x'; MAX_LINE_BYTES + 1];
        for end in [&b"\r"[..], b"\n", b"\r\n"] {
            let found = lines(&[&long[..], end, b"y", end].concat());
            let cut: Vec<bool> = found.iter().map(|(_, is_cut)| *is_cut).collect();
            assert_eq!(cut, [true, false, false]);
        }
        // Cut between the two bytes of a line end.
        let found = lines(&[&long[..MAX_LINE_BYTES - 1], b"\r\ny\r\n"].concat());
        assert_eq!(found.len(), 2);
        assert!(found[0].0.ends_with(b"x\r\n") && found[1].0 == b"y\r\n");
        let found = lines(&[&long[..MAX_LINE_BYTES - 1], b"\ry\r"].concat());
        assert!(found[0].0.ends_with(b"x\n") && found[1].0 == b"y\n");
    }
}
