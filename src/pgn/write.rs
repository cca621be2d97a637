//! Writes games for all readers of PGN: tags, moves in standard algebraic notation, one comment per move, lines of at
//! most 100 characters unless a comment is longer.

use shakmaty::{Chess, Color, EnPassantMode, Position, fen::Fen, san::SanPlus};

use crate::chess::{PackedMove, setup, wdl};

/// Maximum line length, unless a comment is longer.
const LINE: usize = 100;

/// A game to write.
#[derive(Clone, Debug)]
pub struct GameText<'a> {
    /// Names and values; those of the start position are added.
    pub tags: Vec<(&'a str, String)>,
    /// The start position.
    pub start: &'a Chess,
    /// A sequence of legal moves, with a comment for each, which may be empty.
    pub moves: &'a [(PackedMove, String)],
    /// Numeric annotation glyphs of the moves, 0 for none; may be shorter than the moves.
    pub nags: &'a [u8],
    /// `1-0`, `0-1`, `1/2-1/2` or `*`; the tag `Result` is the caller's.
    pub result: &'a str,
}

impl GameText<'_> {
    /// The PGN text, with an empty line at its end.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut tag = |name: &str, value: &str| {
            text += &format!("[{name} \"{}\"]\n", tag_value(value));
        };
        for (name, value) in &self.tags {
            tag(name, value);
        }
        if !setup::is_start(self.start) {
            let fen = Fen::from_position(self.start, EnPassantMode::Legal);
            tag("SetUp", "1");
            tag("FEN", &fen.to_string());
        }
        text += "\n";
        let mut column = 0;
        for token in self.tokens() {
            let length = token.chars().count();
            if column > 0 && column + 1 + length > LINE {
                text += "\n";
                column = 0;
            } else if column > 0 {
                text += " ";
                column += 1;
            }
            text += &token;
            column += length;
        }
        text + "\n\n"
    }

    /// Move numbers, moves, comments and the result.
    fn tokens(&self) -> Vec<String> {
        let mut tokens = Vec::with_capacity(2 * self.moves.len() + 1);
        let mut position = self.start.clone();
        // Black's move needs a number at the start and after a comment.
        let mut is_open = false;
        for (index, (m, comment)) in self.moves.iter().enumerate() {
            let number = position.fullmoves();
            if position.turn().is_white() {
                tokens.push(format!("{number}."));
            } else if !is_open {
                tokens.push(format!("{number}..."));
            }
            let m = m.unpack(&position);
            let san = SanPlus::from_move_and_play_unchecked(&mut position, m);
            tokens.push(san.to_string());
            if let Some(nag) = self.nags.get(index).filter(|&&nag| nag > 0) {
                tokens.push(format!("${nag}"));
            }
            is_open = comment.is_empty();
            if !is_open {
                tokens.push(format!("{{{}}}", comment_text(comment)));
            }
        }
        tokens.push(self.result.to_owned());
        tokens
    }
}

/// White's evaluation for a mark `[%eval 0.31]` or `[%eval #-4]`, of a W-L (-1 to 1) and perhaps a mate that are
/// `side`'s.
pub fn white_eval(wl: f32, mate: Option<i32>, side: Color) -> String {
    if let Some(moves) = mate {
        return format!("#{}", side.fold_wb(moves, -moves));
    }
    let pawns = wdl::pawns(wl);
    // No "-0.00".
    format!("{:.2}", side.fold_wb(pawns, -pawns) + 0.0)
}

/// White's wins, draws and losses for a mark `[%wdl 402,420,178]`, of those of `side`, in per mille.
pub fn white_wdl([win, draw, loss]: [u32; 3], side: Color) -> String {
    let (white, black) = side.fold_wb((win, loss), (loss, win));
    format!("{white},{draw},{black}")
}

/// A tag's value on one line. Quotation marks are replaced, because some readers do not support escapes.
fn tag_value(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '"' => text.push('\''),
            '\\' => text.push_str("\\\\"),
            c if c.is_control() => text.push(' '),
            c => text.push(c),
        }
    }
    text
}

/// A comment cannot contain a closing brace.
fn comment_text(comment: &str) -> String {
    let replaced = |c: char| match c {
        '{' => '(',
        '}' => ')',
        c if c.is_control() => ' ',
        c => c,
    };
    comment.chars().map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chess::{History, setup},
        pgn::Reader,
    };

    fn moves(fen: Option<&str>, text: &str) -> (Chess, Vec<PackedMove>) {
        let moves: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let history: History = setup::history_from(fen, &moves).unwrap();
        let packed = (0..moves.len()).map(|index| history.move_after(index).unwrap());
        (history.plies()[0].position.clone(), packed.collect())
    }

    #[test]
    fn written_games_read_back() {
        for (fen, text) in [
            (None, "e2e4 e7e5 e1e2 d8h4"),
            (Some("4k3/8/8/8/8/8/8/4K2R b K - 3 40"), "e8d8 e1g1 d8e8"),
            // The usual position with other counters.
            (
                Some("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 96 60"),
                "g1f3 g8f6",
            ),
            (
                Some("nrkbbqrn/pppppppp/8/8/8/8/PPPPPPPP/NRKBBQRN w KQkq - 0 1"),
                "c2c3 c7c6 d1c2 d8c7 c1b1",
            ),
        ] {
            let (start, moves) = moves(fen, text);
            let commented: Vec<_> = moves
                .iter()
                .enumerate()
                .map(|(index, &m)| {
                    let comment = if index % 2 == 1 {
                        "[%eval 0.31,12] {odd} text"
                    } else {
                        ""
                    };
                    (m, comment.to_owned())
                })
                .collect();
            let variant = if fen.is_some_and(|fen| fen.starts_with("nrk")) {
                "Chess960"
            } else {
                "Standard"
            };
            let game = GameText {
                tags: vec![
                    ("White", "a \"quoted\" c:\\engine\n".into()),
                    ("Variant", variant.into()),
                    ("Result", "0-1".into()),
                ],
                start: &start,
                moves: &commented,
                nags: &[0, 4],
                result: "0-1",
            };
            let text = game.text();
            assert!(text.ends_with(" 0-1\n\n"), "{text}");
            let read: Vec<_> = Reader::new(text.as_bytes()).collect();
            assert_eq!(read.len(), 1);
            let game = read[0].as_ref().unwrap();
            assert_eq!(game.moves, moves, "{text}");
            assert_eq!(game.start, start);
            let counters = |start: &Chess| (start.halfmoves(), start.fullmoves());
            assert_eq!(counters(&game.start), counters(&start));
            assert_eq!(game.tag("White"), Some("a 'quoted' c:\\engine "));
        }
    }

    #[test]
    fn lines_are_short_and_black_has_its_numbers() {
        let (start, moves) = moves(None, "g1f3 g8f6 f3g1 f6g8");
        let many: Vec<_> = moves
            .iter()
            .cycle()
            .take(400)
            .map(|&m| (m, String::new()))
            .collect();
        let game = GameText {
            tags: Vec::new(),
            start: &start,
            moves: &many,
            nags: &[],
            result: "*",
        };
        assert!(game.text().lines().all(|line| line.len() <= LINE));
        let commented = [(moves[0], "x".to_owned()), (moves[1], String::new())];
        let game = GameText {
            moves: &commented,
            nags: &[2],
            ..game
        };
        assert_eq!(game.text(), "\n1. Nf3 $2 {x} 1... Nf6 *\n\n");
    }
}
