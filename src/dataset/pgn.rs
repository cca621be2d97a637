//! PGN games to records: one record per move played, streaming, with corrupt games skipped and counted.
//!
//! The text is cut into games here rather than by the PGN parser, so that a broken game can be named by its byte offset
//! and cannot take its neighbours with it.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;
use pgn_reader::{Outcome, RawComment, RawTag, Reader, SanPlus, Skip, Visitor};
use shakmaty::fen::Fen;
use shakmaty::{CastlingMode, Chess, Color, KnownOutcome, Position};

use super::record::{Layout, MATE, NO_RESULT, NO_SCORE, Record, RecordWriter, Source};
use super::{fnv1a, progress_bytes};

/// The longest line of a tag that is understood, in bytes; longer ones would need larger buffers, one for each game.
const LONGEST_TAG: usize = 1 << 12;

/// Options of `dataset pgn`.
#[derive(Args, Debug)]
pub struct PgnArgs {
    /// PGN files, plain or .zst
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// The record file to write
    #[arg(short, long)]
    pub out: PathBuf,
    /// Leave out games with fewer plies
    #[arg(long, default_value_t = 20)]
    pub min_plies: usize,
    /// Per cent of the games to hold out of training, chosen by a hash of their moves
    #[arg(long, default_value_t = 2.0)]
    pub held_out: f64,
    /// Stop after this many games
    #[arg(long)]
    pub limit: Option<u64>,
    /// Name at most this many corrupt games
    #[arg(long, default_value_t = 20)]
    pub report: u64,
}

impl PgnArgs {
    fn is_enough(&self, counts: &Counts) -> bool {
        self.limit.is_some_and(|limit| counts.games >= limit)
    }
}

/// What became of the games.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Games written.
    pub games: u64,
    /// Records written.
    pub records: u64,
    /// Games with an error, by file and offset in the report.
    pub corrupt: u64,
    /// Games with too few plies.
    pub short: u64,
}

/// Converts the files.
pub fn run(args: &PgnArgs) -> Result<Counts> {
    let mut writer = RecordWriter::create(&args.out, Layout::Plain)?;
    let mut counts = Counts::default();
    for path in &args.inputs {
        if args.is_enough(&counts) {
            break;
        }
        let done = convert(path, args, &mut writer, &mut counts);
        done.with_context(|| format!("{}: stopped after {} games", path.display(), counts.games))?;
    }
    writer.finish()?;
    Ok(counts)
}

fn convert(
    path: &Path,
    args: &PgnArgs,
    writer: &mut RecordWriter,
    counts: &mut Counts,
) -> Result<()> {
    let file = File::open(path).context("cannot open")?;
    let bar = progress_bytes(file.metadata()?.len(), &path.display().to_string());
    let mut games = Games::new(open(file, path, &bar)?);
    while let Some((offset, text)) = games.next_game().context("cannot read")? {
        let mut reader = Reader::build(text)
            .set_supported_tag_line_length(LONGEST_TAG)
            .finish();
        let mut is_readable = true;
        // Games without tags come together.
        while is_readable && !args.is_enough(counts) {
            let game = match reader.read_game(&mut GameVisitor) {
                Ok(None) => break,
                Ok(Some(game)) => game,
                Err(error) => {
                    is_readable = false;
                    Err(error.to_string())
                }
            };
            match game {
                Err(error) => {
                    counts.corrupt += 1;
                    if counts.corrupt <= args.report {
                        let path = path.display();
                        bar.suspend(|| {
                            eprintln!("{path}: skipped the game at byte {offset}: {error}");
                        });
                    }
                }
                Ok(game) if game.records.len() < args.min_plies => counts.short += 1,
                Ok(game) => write(game, args.held_out, writer, counts)?,
            }
        }
        if args.is_enough(counts) {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn open(file: File, path: &Path, bar: &ProgressBar) -> Result<Box<dyn BufRead>> {
    let file = bar.wrap_read(file);
    if path.extension().is_some_and(|extension| extension == "zst") {
        return Ok(Box::new(BufReader::with_capacity(
            1 << 17,
            zstd::Decoder::new(file)?,
        )));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 17, file)))
}

fn write(
    mut game: Game,
    held_out: f64,
    writer: &mut RecordWriter,
    counts: &mut Counts,
) -> Result<()> {
    let plies = game.records.len();
    let held_out = (game.hash % 100_000) as f64 / 1000.0 < held_out;
    let with_scores = game.records.iter().any(|record| record.score != NO_SCORE);
    let source = match (game.chess960, with_scores) {
        (true, true) => Source::Chess960EngineGame,
        (true, false) => Source::Chess960Game,
        (false, true) => Source::EngineGame,
        (false, false) => Source::Game,
    };
    for (ply, record) in game.records.iter_mut().enumerate() {
        record.flags = (source as u8) << 4 | u8::from(held_out);
        record.game = counts.games as u32;
        if let Some(outcome) = game.outcome {
            let black = record.state & Record::BLACK != 0;
            record.result = match outcome.winner() {
                None => 1,
                Some(winner) => 2 * u8::from((winner == Color::Black) == black),
            };
            record.plies_left = u16::try_from(plies - ply).unwrap_or(u16::MAX - 1);
        }
        writer.write(record)?;
    }
    counts.games += 1;
    counts.records += plies as u64;
    Ok(())
}

/// Cuts a stream into games: a game ends where a tag line follows movetext.
struct Games<R> {
    input: R,
    offset: u64,
    text: Vec<u8>,
    line: Vec<u8>,
}

impl<R: BufRead> Games<R> {
    fn new(input: R) -> Games<R> {
        Games {
            input,
            offset: 0,
            text: Vec::new(),
            line: Vec::new(),
        }
    }

    /// The next game's text and where it starts.
    fn next_game(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        self.text.clear();
        let mut movetext = false;
        let mut start = self.offset;
        loop {
            if self.line.is_empty() {
                self.input.read_until(b'\n', &mut self.line)?;
            }
            let tag = is_tag(&self.line);
            if self.line.is_empty() || (tag && movetext) {
                break;
            }
            let blank = self.line.trim_ascii().is_empty();
            if blank && self.text.is_empty() {
                start += self.line.len() as u64;
            } else {
                movetext |= !tag && !blank;
                self.text.extend_from_slice(&self.line);
            }
            self.offset += self.line.len() as u64;
            self.line.clear();
        }
        Ok((!self.text.is_empty()).then_some((start, self.text.as_slice())))
    }
}

/// `[Name "value"]`; a comment's `[%eval 0.3]` at the start of a line is none.
fn is_tag(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.first() == Some(&b'[')
        && line.get(1).is_some_and(u8::is_ascii_alphabetic)
        && line.ends_with(b"\"]")
}

/// A legal game.
struct Game {
    records: Vec<Record>,
    outcome: Option<KnownOutcome>,
    chess960: bool,
    hash: u64,
    /// Whether the moves end with a result, as they must: without one something may be missing.
    is_whole: bool,
}

struct GameVisitor;

#[derive(Default)]
struct Tags {
    fen: Option<Vec<u8>>,
    outcome: Option<KnownOutcome>,
    chess960: bool,
}

struct Movetext {
    pos: Chess,
    game: Game,
}

impl Visitor for GameVisitor {
    type Tags = Tags;
    type Movetext = Movetext;
    type Output = Result<Game, String>;

    fn begin_tags(&mut self) -> ControlFlow<Self::Output, Tags> {
        ControlFlow::Continue(Tags::default())
    }

    fn tag(
        &mut self,
        tags: &mut Tags,
        name: &[u8],
        value: RawTag<'_>,
    ) -> ControlFlow<Self::Output> {
        match name {
            b"FEN" => tags.fen = Some(value.as_bytes().to_vec()),
            b"Result" => tags.outcome = KnownOutcome::from_ascii(value.as_bytes()).ok(),
            b"Variant" => match castling_of_variant(value.as_bytes()) {
                Some(mode) => tags.chess960 = mode.is_chess960(),
                None => {
                    let name = String::from_utf8_lossy(value.as_bytes());
                    return ControlFlow::Break(Err(format!("{name} is another game than chess")));
                }
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn begin_movetext(&mut self, tags: Tags) -> ControlFlow<Self::Output, Movetext> {
        let mode = if tags.chess960 {
            CastlingMode::Chess960
        } else {
            CastlingMode::Standard
        };
        let mut hash = fnv1a(0, tags.fen.as_deref().unwrap_or_default());
        let pos = match tags.fen.as_deref().map(|fen| start_position(fen, mode)) {
            None => Chess::new(),
            Some(Ok(pos)) => pos,
            Some(Err(error)) => return ControlFlow::Break(Err(error)),
        };
        hash = fnv1a(hash, b"|");
        let game = Game {
            records: Vec::with_capacity(120),
            outcome: tags.outcome,
            chess960: tags.chess960,
            hash,
            is_whole: false,
        };
        ControlFlow::Continue(Movetext { pos, game })
    }

    fn san(&mut self, text: &mut Movetext, san: SanPlus) -> ControlFlow<Self::Output> {
        let m = match san.san.to_move(&text.pos) {
            Ok(m) => m,
            Err(error) => {
                return ControlFlow::Break(Err(format!(
                    "{san} at ply {}: {error}",
                    text.game.records.len() + 1
                )));
            }
        };
        let us = text.pos.turn();
        let mut record = Record::new(&text.pos, us == Color::Black, Source::Game);
        record.best = Record::pack_move(m, us);
        text.game.hash = fnv1a(text.game.hash, &record.best.to_le_bytes());
        text.game.records.push(record);
        text.pos.play_unchecked(m);
        ControlFlow::Continue(())
    }

    fn comment(
        &mut self,
        text: &mut Movetext,
        comment: RawComment<'_>,
    ) -> ControlFlow<Self::Output> {
        // The comment follows the move, but is the mover's view of the position before it.
        if let (Some(record), Some(score)) =
            (text.game.records.last_mut(), eval(comment.as_bytes()))
        {
            record.score = if record.state & Record::BLACK != 0 {
                -score
            } else {
                score
            };
        }
        ControlFlow::Continue(())
    }

    fn begin_variation(&mut self, _: &mut Movetext) -> ControlFlow<Self::Output, Skip> {
        ControlFlow::Continue(Skip(true))
    }

    fn outcome(&mut self, text: &mut Movetext, outcome: Outcome) -> ControlFlow<Self::Output> {
        text.game.outcome = outcome.known().or(text.game.outcome);
        text.game.is_whole = true;
        ControlFlow::Continue(())
    }

    fn end_game(&mut self, text: Movetext) -> Self::Output {
        debug_assert!(
            text.game
                .records
                .iter()
                .all(|record| record.result == NO_RESULT)
        );
        if text.game.is_whole {
            Ok(text.game)
        } else {
            let plies = text.game.records.len();
            Err(format!(
                "it breaks off after {plies} plies, without a result"
            ))
        }
    }
}

/// How pieces castle in a variant of this name; `None` if it is another game than chess.
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

fn start_position(fen: &[u8], mode: CastlingMode) -> Result<Chess, String> {
    let fen = Fen::from_ascii(fen).map_err(|error| format!("FEN: {error}"))?;
    fen.into_position(mode)
        .map_err(|error| format!("FEN: {error}"))
}

/// The score of `[%eval 0.31]` or `[%eval #-4]`, in centipawns for White.
fn eval(comment: &[u8]) -> Option<i16> {
    let text = std::str::from_utf8(comment).ok()?;
    let (_, rest) = text.split_once("[%eval ")?;
    let value = rest.split([']', ',', ' ']).next()?;
    if let Some(mate) = value.strip_prefix('#') {
        let moves: i32 = mate.parse().ok()?;
        let plies = (2 * moves.abs() - 1).clamp(0, 1000) as i16;
        return Some(if moves > 0 {
            MATE - plies
        } else {
            plies - MATE
        });
    }
    let pawns: f64 = value.parse().ok()?;
    pawns
        .is_finite()
        .then(|| (100.0 * pawns).round().clamp(-20000.0, 20000.0) as i16)
}

/// Reads the text of one game; for tests.
#[cfg(test)]
fn read_one(text: &str) -> Result<Game, String> {
    Reader::new(text.as_bytes())
        .read_game(&mut GameVisitor)
        .unwrap()
        .unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::record::read_all;

    fn args(input: &Path, out: &Path) -> PgnArgs {
        PgnArgs {
            inputs: vec![input.into()],
            out: out.into(),
            min_plies: 2,
            held_out: 2.0,
            limit: None,
            report: 0,
        }
    }

    #[test]
    fn corrupt_games_are_skipped_and_counted_and_do_not_hurt_their_neighbours() {
        let text = "[Result \"1-0\"]\n\n1. e4 { open\n\n[White \"x\"]\n[Result \"0-1\"]\n\n1. e4 Ke5 0-1\n\n\
                    [Result \"0-1\"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n\n[White \"y\"]\n\n1. d4 *\n\n\
                    [Variant \"Atomic\"]\n\n1. e4 e5 *\n\n[White \"z\"]\n\n1. e4 e5 2. Nf3 N\n";
        let mut games = Games::new(text.as_bytes());
        let mut offsets = Vec::new();
        while let Some((offset, game)) = games.next_game().unwrap() {
            assert!(text.as_bytes()[offset as usize..].starts_with(game));
            offsets.push(offset);
        }
        assert_eq!(offsets.len(), 6);
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("x.pgn"), dir.path().join("x.rec"));
        std::fs::write(&input, text).unwrap();
        let counts = run(&args(&input, &out)).unwrap();
        assert_eq!(
            counts,
            Counts {
                games: 1,
                records: 4,
                corrupt: 4,
                short: 1
            }
        );
        let records = read_all(&out).unwrap();
        assert_eq!(
            records.iter().map(|r| r.result).collect::<Vec<_>>(),
            [0, 2, 0, 2]
        );
        assert_eq!(
            records.iter().map(|r| r.plies_left).collect::<Vec<_>>(),
            [4, 3, 2, 1]
        );
    }

    #[test]
    fn games_without_tags_stand_alone_too_and_the_limit_counts_all_files() {
        let text = "1. e4 e5 1-0\n\n1. e4 Ke5 0-1\n\n1. d4 d5 0-1\n\n1. c4 c5 *\n";
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("x.pgn"), dir.path().join("x.rec"));
        std::fs::write(&input, text).unwrap();
        let mut args = args(&input, &out);
        args.inputs.push(input.clone());
        let counts = run(&args).unwrap();
        assert_eq!((counts.games, counts.corrupt), (6, 2));
        for limit in 0..=6 {
            args.limit = Some(limit);
            assert_eq!(run(&args).unwrap().games, limit);
        }
    }

    #[test]
    fn evaluations_turn_to_the_side_to_move() {
        let game = read_one(
            "1. e4 { [%eval 0.31] } e5 { [%eval 0.5] } 2. Nf3 { [%eval #3] } Nc6 { [%eval #-2] } *",
        )
        .unwrap();
        let scores: Vec<i16> = game.records.iter().map(|record| record.score).collect();
        assert_eq!(scores, [31, -50, MATE - 5, MATE - 3]);
    }

    #[test]
    fn chess960_castling_and_zst() {
        let fen = "nrkbbqrn/pppppppp/8/8/8/8/PPPPPPPP/NRKBBQRN w KQkq - 0 1";
        let text = format!(
            "[Variant \"Chess960\"]\n[SetUp \"1\"]\n[FEN \"{fen}\"]\n\n1. c3 c6 2. Bc2 Bc7 3. O-O-O *\n"
        );
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("x.pgn.zst"), dir.path().join("x.rec"));
        std::fs::write(&input, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
        assert_eq!(run(&args(&input, &out)).unwrap().records, 5);
        let castle = read_all(&out).unwrap()[4];
        assert_eq!(
            (castle.best, castle.source()),
            (2 | 1 << 6, Some(Source::Chess960Game))
        );
    }

    #[test]
    fn a_truncated_archive_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("x.pgn.zst"), dir.path().join("x.rec"));
        let packed = zstd::encode_all("[White \"a\"]\n\n1. e4 e5 *\n".as_bytes(), 1).unwrap();
        std::fs::write(&input, &packed[..packed.len() - 5]).unwrap();
        assert!(run(&args(&input, &out)).is_err());
        assert!(!out.exists());
    }
}
