//! Reads games, each from its own text.

use std::{
    collections::VecDeque,
    io::{self, BufRead},
    ops::ControlFlow,
    path::Path,
};

use pgn_reader::{Outcome, RawComment, RawTag, SanPlus, Skip, Visitor};
use shakmaty::{CastlingMode, Chess, KnownOutcome, Move, Position, fen::Fen};
use thiserror::Error;

use super::text::Texts;
use crate::{
    chess::{PackedMove, setup},
    files,
};

/// Maximum length in bytes of a tag line, for a text of this length; the parser allocates a buffer of that size per
/// game.
pub(crate) fn max_tag_bytes(text: usize) -> usize {
    text.clamp(1 << 12, 1 << 16)
}

/// A legal game, without comments and variations.
#[derive(Clone, Debug)]
pub struct Game {
    /// Names and values, in order.
    pub tags: Vec<(String, String)>,
    /// The start position.
    pub start: Chess,
    /// The moves played.
    pub moves: Vec<PackedMove>,
    /// For each move the times in its comments, as `[%clk 0:02:59] [%emt 0:00:01]`; may be shorter than the moves,
    /// and is empty unless [`Reader::keep_times`] is set.
    pub times: Vec<String>,
    /// The position after the last move.
    pub end: Chess,
    /// The result, if it is known.
    pub outcome: Option<KnownOutcome>,
    /// Whether the moves end with a result or `*`, as they must: otherwise the game may be incomplete.
    is_whole: bool,
}

impl Game {
    /// The value of a tag.
    pub fn tag(&self, name: &str) -> Option<&str> {
        tag(&self.tags, name)
    }
}

/// The value of the tag of this name.
pub fn tag<'a>(tags: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = tags.iter().find(|(tag, _)| tag == name);
    found.map(|(_, value)| &**value)
}

/// Errors of reading.
#[derive(Debug, Error)]
pub enum ReadError {
    /// One game; other games are not affected.
    #[error("the game at byte {offset}: {reason}")]
    Game {
        /// The uncompressed byte offset of its text.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file; nothing more can be read.
    #[error("the rest of the file cannot be read")]
    File(#[from] io::Error),
}

/// Reads games one after another.
pub struct Reader<R> {
    texts: Texts<R>,
    /// Games of the last text: texts without tags may contain several.
    read: VecDeque<Result<Game, ReadError>>,
    is_over: bool,
    needs_result: bool,
    keeps_times: bool,
}

impl Reader<Box<dyn BufRead + Send>> {
    /// Opens a file, which may be `.gz` or `.zst`; `-` is standard input.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Reader::new(files::open(path)?))
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads from text.
    pub fn new(input: R) -> Reader<R> {
        Reader {
            texts: Texts::new(input),
            read: VecDeque::new(),
            is_over: false,
            needs_result: true,
            keeps_times: false,
        }
    }

    /// Keeps the times that the players had left or took for their moves.
    pub fn keep_times(mut self) -> Self {
        self.keeps_times = true;
        self
    }

    /// Accepts a game without a result at the end of the file, which is otherwise an error.
    pub fn accept_unfinished(mut self) -> Self {
        self.needs_result = false;
        self
    }

    /// Reads the games of the next text; `None` at the end.
    fn read_text(&mut self) -> io::Result<Option<()>> {
        let Some(text) = self.texts.next_text()? else {
            return Ok(None);
        };
        let offset = text.offset;
        if let Some(reason) = text.error {
            self.read = VecDeque::from([Err(ReadError::Game { offset, reason })]);
            return Ok(Some(()));
        }
        let mut builder = pgn_reader::Reader::build(text.bytes)
            .set_supported_tag_line_length(max_tag_bytes(text.bytes.len()));
        if self.keeps_times {
            // A longer comment would come in parts.
            builder = builder.set_supported_comment_length(max_tag_bytes(text.bytes.len()));
        }
        let mut reader = builder.finish();
        let mut visitor = GameVisitor {
            keeps_times: self.keeps_times,
        };
        let mut games = VecDeque::new();
        loop {
            let game = match reader.read_game(&mut visitor) {
                Ok(None) => break,
                Ok(Some(game)) => game,
                Err(error) => Err(error.to_string()),
            };
            let is_readable = game.is_ok();
            games.push_back(game.map_err(|reason| ReadError::Game { offset, reason }));
            if !is_readable {
                break;
            }
        }
        // A missing result at the end of the file means that the file was truncated; elsewhere the result tag is
        // used.
        if self.needs_result
            && self.texts.is_at_end()
            && let Some(Ok(game)) = games.back()
            && !game.is_whole
        {
            let reason = without_result(game.moves.len());
            games.pop_back();
            games.push_back(Err(ReadError::Game { offset, reason }));
        }
        self.read = games;
        Ok(Some(()))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Game, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.read.is_empty() {
            if self.is_over {
                return None;
            }
            match self.read_text() {
                Ok(Some(())) => {}
                Ok(None) => self.is_over = true,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error.into()));
                }
            }
        }
        self.read.pop_front()
    }
}

struct GameVisitor {
    keeps_times: bool,
}

impl Visitor for GameVisitor {
    type Tags = (Vec<(String, String)>, GameTags);
    type Movetext = Game;
    type Output = Result<Game, String>;

    fn begin_tags(&mut self) -> ControlFlow<Self::Output, Self::Tags> {
        ControlFlow::Continue(Default::default())
    }

    fn tag(
        &mut self,
        tags: &mut Self::Tags,
        name: &[u8],
        value: RawTag<'_>,
    ) -> ControlFlow<Self::Output> {
        let value = value.decode();
        tags.0.push((text_of(name), text_of(&value)));
        tags.1.add(name, &value);
        ControlFlow::Continue(())
    }

    fn begin_movetext(&mut self, (tags, of_game): Self::Tags) -> ControlFlow<Self::Output, Game> {
        let start = match of_game.start() {
            Ok((start, _)) => start,
            Err(reason) => return ControlFlow::Break(Err(reason)),
        };
        ControlFlow::Continue(Game {
            end: start.clone(),
            moves: Vec::new(),
            times: Vec::new(),
            is_whole: false,
            start,
            outcome: of_game.outcome(),
            tags,
        })
    }

    fn san(&mut self, game: &mut Game, san: SanPlus) -> ControlFlow<Self::Output> {
        match move_of(&san, &game.end, game.moves.len()) {
            Ok(m) => {
                game.moves.push(PackedMove::pack(m));
                game.end.play_unchecked(m);
                ControlFlow::Continue(())
            }
            Err(reason) => ControlFlow::Break(Err(reason)),
        }
    }

    fn comment(&mut self, game: &mut Game, comment: RawComment<'_>) -> ControlFlow<Self::Output> {
        if self.keeps_times && !game.moves.is_empty() {
            game.times.resize(game.moves.len(), String::new());
            if let Some(times) = game.times.last_mut() {
                add_times(times, &String::from_utf8_lossy(comment.0));
            }
        }
        ControlFlow::Continue(())
    }

    fn begin_variation(&mut self, _: &mut Game) -> ControlFlow<Self::Output, Skip> {
        ControlFlow::Continue(Skip(true))
    }

    fn outcome(&mut self, game: &mut Game, outcome: Outcome) -> ControlFlow<Self::Output> {
        game.outcome = outcome.known().or(game.outcome);
        game.is_whole = true;
        ControlFlow::Continue(())
    }

    fn end_game(&mut self, game: Game) -> Self::Output {
        Ok(game)
    }
}

/// Adds the times in a comment: commands such as `[%clk 0:02:59]`.
fn add_times(times: &mut String, comment: &str) {
    let is_time = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || b":.".contains(&byte))
    };
    for part in comment.split("[%").skip(1) {
        let command = part
            .split_once(']')
            .and_then(|(command, _)| command.split_once(' '));
        if let Some((name @ ("clk" | "emt"), time)) = command
            && is_time(time.trim())
        {
            let gap = if times.is_empty() { "" } else { " " };
            *times += &format!("{gap}[%{name} {}]", time.trim());
        }
    }
}

/// The characters of the bytes 0x80 to 0x9F in Windows-1252; five of them have none, and stay control characters.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The text of a tag: UTF-8, or, if it is not, Windows-1252, which older programs write: Latin-1, which the PGN
/// standard names, with letters in place of its second set of control characters.
fn text_of(bytes: &[u8]) -> String {
    let character = |&byte: &u8| match byte {
        0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
        _ => char::from(byte),
    };
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(character).collect(),
    }
}

/// The tags of a game that say where it starts and how it ended. Of several with one name the first counts.
#[derive(Debug, Default)]
pub(crate) struct GameTags {
    fen: Option<Vec<u8>>,
    variant: Option<Vec<u8>>,
    result: Option<Vec<u8>>,
}

impl GameTags {
    /// Adds a tag with its decoded value; others than these have no effect.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        let place = match name {
            b"FEN" => &mut self.fen,
            b"Variant" => &mut self.variant,
            b"Result" => &mut self.result,
            _ => return,
        };
        place.get_or_insert_with(|| value.to_vec());
    }

    /// The text of the start position; `None` is the usual one.
    pub fn fen(&self) -> Option<&[u8]> {
        self.fen.as_deref()
    }

    /// The start position, and how castling is done: as the variant says, or as the rights to castle need.
    ///
    /// # Errors
    /// When it is not one of chess.
    pub fn start(&self) -> Result<(Chess, CastlingMode), String> {
        let variant = self.variant.as_deref().unwrap_or_default();
        let mode = castling_of_variant(variant);
        let mode =
            mode.ok_or_else(|| format!("{} is another game than chess", text_of(variant)))?;
        let start = match self.fen() {
            None => Chess::new(),
            Some(fen) => start_position(fen, mode)?,
        };
        let chess960 = mode.is_chess960() || start.castles().mode().is_chess960();
        Ok((start, CastlingMode::from_chess960(chess960)))
    }

    /// The result, if it is known.
    pub fn outcome(&self) -> Option<KnownOutcome> {
        KnownOutcome::from_ascii(self.result.as_deref()?).ok()
    }
}

/// The move of a game after this many plies.
///
/// # Errors
/// When it is not legal there.
pub(crate) fn move_of(san: &SanPlus, position: &Chess, plies: usize) -> Result<Move, String> {
    let m = san.san.to_move(position);
    m.map_err(|error| format!("{san} at ply {}: {error}", plies + 1))
}

/// What is wrong with a game that ends after this many plies without a result.
pub(crate) fn without_result(plies: usize) -> String {
    format!("it breaks off after {plies} plies, without a result")
}

/// The castling mode of a variant; `None` if it is not chess.
fn castling_of_variant(name: &[u8]) -> Option<CastlingMode> {
    let name = name.to_ascii_lowercase();
    let has = |word: &&[u8]| name.windows(word.len()).any(|part| part == *word);
    if [&b"960"[..], b"fischer", b"freestyle"].iter().any(has) {
        return Some(CastlingMode::Chess960);
    }
    let chess = [
        &b""[..],
        b"?",
        b"-",
        b"standard",
        b"normal",
        b"chess",
        b"from position",
    ];
    chess
        .contains(&name.as_slice())
        .then_some(CastlingMode::Standard)
}

/// Parses the FEN of a start position. One whose castling rights are those of Chess960 only is one of Chess960 whatever
/// the tag `Variant` says.
fn start_position(fen: &[u8], mode: CastlingMode) -> Result<Chess, String> {
    if !mode.is_chess960() {
        let fen = String::from_utf8_lossy(fen);
        return setup::position_from_fen(&fen).map_err(|error| error.to_string());
    }
    let fen = Fen::from_ascii(fen).map_err(|error| format!("FEN: {error}"))?;
    fen.into_position(mode)
        .map_err(|error| format!("FEN: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shakmaty::Color;

    fn read(text: &str) -> Vec<Result<Game, String>> {
        Reader::new(text.as_bytes())
            .map(|game| game.map_err(|error| error.to_string()))
            .collect()
    }

    #[test]
    fn broken_games_are_reported_and_do_not_affect_others() {
        let text = "[Result \"1-0\"]\n\n1. e4 { open\n\n[White \"x\"]\n\n1. e4 Ke5 0-1\n\n\
                    [Result \"0-1\"]\n\n1. f3 e5 (1... d5) 2. g4 {[%eval #-1]} Qh4# 0-1\n\n\
                    [Variant \"Atomic\"]\n\n1. e4 *\n\n[Result \"1/2-1/2\"]\n\n1. d4 d5\n\n\
                    [White \"cut\"]\n[Result \"1-0\"]\n\n1. e4 e5 2. N";
        let games = read(text);
        assert_eq!(games.len(), 6);
        assert!(games[1].as_ref().unwrap_err().contains("Ke5 at ply 2"));
        let mate = games[2].as_ref().unwrap();
        assert!(mate.moves.len() == 4 && mate.end.is_checkmate());
        assert_eq!(
            mate.outcome,
            Some(KnownOutcome::Decisive {
                winner: Color::Black
            })
        );
        assert!(games[3].as_ref().unwrap_err().contains("Atomic"));
        // Only the tag gives the result of this game.
        assert_eq!(games[4].as_ref().unwrap().outcome, Some(KnownOutcome::Draw));
        let cut = games[5].as_ref().unwrap_err();
        let at = text.find("[White \"cut\"]").unwrap();
        assert!(
            cut.contains(&format!("byte {at}")) && cut.contains("breaks off"),
            "{cut}"
        );
    }

    #[test]
    fn games_may_have_no_tags_and_start_anywhere() {
        let games = read("1. e4 e5 1-0\n\n1. d4 d5 0-1\n");
        assert_eq!(games.len(), 2);
        assert!(games.iter().all(Result::is_ok));
        let fen = "nrkbbqrn/pppppppp/8/8/8/8/PPPPPPPP/NRKBBQRN w KQkq - 0 1";
        let games = read(&format!(
            "[Variant \"Chess960\"]\n[FEN \"{fen}\"]\n\n1. c3 c6 2. Bc2 Bc7 3. O-O-O *\n"
        ));
        let game = games[0].as_ref().unwrap();
        assert_eq!((game.moves.len(), game.tag("FEN")), (5, Some(fen)));
        assert!(read("").is_empty());
    }

    #[test]
    fn games_are_not_merged_past_a_result_or_a_carriage_return() {
        let tagged = "[White \"a\"]\n\n1. e4 {1-0} e5 (1... c5 *) 2. Nf3 *\n";
        let text = format!("1. e4 e5 *\n1. d4 d5 0-1 1. c4 c5 *\n{tagged}1. f4 *\n");
        for text in [
            &text,
            &text.replace('\n', "\r"),
            &text.replace('\n', "\r\n"),
        ] {
            let games: Vec<Game> = read(text).into_iter().map(Result::unwrap).collect();
            let plies: Vec<usize> = games.iter().map(|game| game.moves.len()).collect();
            assert_eq!(plies, [2, 2, 2, 3, 1]);
            assert_eq!(games[1].outcome.map(|o| o.to_string()), Some("0-1".into()));
            assert_eq!(games[3].tag("White"), Some("a"));
        }
    }

    #[test]
    fn a_quotation_mark_in_a_tag_starts_no_game() {
        let fen = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1";
        let games = read(&format!(
            "[FEN \"{fen}\"]\n[White \"A \"x\" B\"]\n[Result \"1-0\"]\n\n1. e4 1-0\n\n1. d4 *\n"
        ));
        assert_eq!(games.len(), 2);
        let game = games[0].as_ref().unwrap();
        let tags = ["FEN", "White", "Result"].map(|name| game.tag(name));
        assert_eq!(tags, [Some(fen), Some("A \"x\" B"), Some("1-0")]);
        assert_eq!(game.start, setup::position_from_fen(fen).unwrap());
    }

    #[test]
    fn times_are_kept_if_that_is_requested() {
        let long = "x".repeat(3000);
        let text = format!(
            "{{[%clk 1:00:00]}} 1. e4 {{ [%eval 0.18] [%clk 0:03:00] }} e5 (1... c5 {{[%clk 0:01:00]}}) 2. Nf3 \
             {{[%cal Gg1f3] {long} [%emt 0:00:01.5]}} {{[%clk 0:02:59]}} Nc6 {{[%clk soon] [%clk 1}} 3. Bb5 *"
        );
        let game = |reader: Reader<&[u8]>| reader.map(Result::unwrap).next().unwrap();
        let times = game(Reader::new(text.as_bytes()).keep_times()).times;
        assert_eq!(
            times,
            ["[%clk 0:03:00]", "", "[%emt 0:00:01.5] [%clk 0:02:59]", ""]
        );
        assert!(game(Reader::new(text.as_bytes())).times.is_empty());
    }

    #[test]
    fn tags_are_utf8_or_windows_1252() {
        for (name, expected) in [
            (&b"M\xfcller, G\xe9rard"[..], "Müller, Gérard"),
            ("Müller, Gérard".as_bytes(), "Müller, Gérard"),
            (b"\x8ea\x9a, \x8awierz\x85", "Žaš, Šwierz…"),
            (
                b"O\x92Kelly \x97 \x93\x8cuvre\x94 \x80\x9f",
                "O’Kelly — “Œuvre” €Ÿ",
            ),
        ] {
            let text = [b"[White \"", name, b"\"]\n\n1. e4 *\n"].concat();
            let game = Reader::new(&text[..]).next().unwrap().unwrap();
            assert_eq!(game.tag("White"), Some(expected));
        }
    }

    #[test]
    fn a_truncated_file_ends_with_one_error() {
        let text = "1. e4 e5 *\n".repeat(1000);
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut packer, text.as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        let cut = flate2::read::GzDecoder::new(&packed[..packed.len() - 12]);
        let games: Vec<_> = Reader::new(io::BufReader::new(cut)).collect();
        assert!(matches!(games.last(), Some(Err(ReadError::File(_)))));
    }
}
