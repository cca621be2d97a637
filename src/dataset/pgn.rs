//! PGN games to records: one record per move played, streaming, with corrupt games skipped and counted. A game needs a
//! result behind its moves; elsewhere, where nothing is learned from it, the tag `Result` is enough.

use std::ops::ControlFlow;

use clap::ValueEnum;
use pgn_reader::{Outcome, RawComment, RawTag, Reader, SanPlus, Skip, Visitor};
use shakmaty::{Chess, Color, KnownOutcome, Position};

use super::record::{NO_RESULT, NO_SCORE, Record, Source, mate_score};
use crate::hashing::Fnv1a;
use crate::pgn::read::{GameTags, max_tag_bytes, move_of, without_result};

/// The position that the evaluation after a move, `[%eval 0.31]`, is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Evals {
    /// That after the move in games annotated by Scorn (tag Annotator) or from lichess.org (tag Site), otherwise that
    /// before the move.
    #[default]
    Auto,
    /// The position before the move: the engine that made the move reports its search, as in matches.
    Before,
    /// The position after the move, as in games that were annotated later.
    After,
}

/// A legal game.
pub struct GameRecords {
    /// One record a move; [`GameRecords::finish`] completes them.
    pub records: Vec<Record>,
    outcome: Option<KnownOutcome>,
    chess960: bool,
    /// Decided by the start position and the moves.
    pub hash: Fnv1a,
    /// Whether the moves end with a result, as they must: without one something may be missing.
    is_whole: bool,
}

impl GameRecords {
    /// Sets the fields that are known only at the end of a game: number, source, result, and whether it is held out.
    pub fn finish(&mut self, number: u32, held_out: bool) {
        let plies = self.records.len();
        let with_scores = self.records.iter().any(|record| record.score != NO_SCORE);
        let source = match (self.chess960, with_scores) {
            (true, true) => Source::Chess960EngineGame,
            (true, false) => Source::Chess960Game,
            (false, true) => Source::EngineGame,
            (false, false) => Source::Game,
        };
        for (ply, record) in self.records.iter_mut().enumerate() {
            record.flags = (source as u8) << 4 | u8::from(held_out);
            record.game = number;
            if let Some(outcome) = self.outcome {
                let black = record.state & Record::BLACK != 0;
                record.result = match outcome.winner() {
                    None => 1,
                    Some(winner) => 2 * u8::from((winner == Color::Black) == black),
                };
                record.plies_left = u16::try_from(plies - ply).unwrap_or(u16::MAX - 1);
            }
        }
    }
}

/// Reads the games of a text from [`Texts`](crate::pgn::text::Texts); a corrupt game is an error message.
pub fn read_games(text: &[u8], evals: Evals) -> impl Iterator<Item = Result<GameRecords, String>> {
    let mut reader = Reader::build(text)
        .set_supported_tag_line_length(max_tag_bytes(text.len()))
        .finish();
    let mut is_readable = true;
    std::iter::from_fn(move || {
        if !is_readable {
            return None;
        }
        match reader.read_game(&mut RecordVisitor(evals)) {
            Ok(game) => game,
            Err(error) => {
                is_readable = false;
                Some(Err(error.to_string()))
            }
        }
    })
}

struct RecordVisitor(Evals);

/// The tags of a game that records need.
#[derive(Default)]
struct Tags {
    of_game: GameTags,
    /// Whether the tags are those of games with evaluations of the positions after the moves.
    has_evals_after: bool,
}

struct Movetext {
    pos: Chess,
    game: GameRecords,
    /// Whether evaluations are of the position after the move.
    evals_after: bool,
    /// The evaluation of the current position by the comments after the last move, for the side to move.
    score: Option<i16>,
}

impl Visitor for RecordVisitor {
    type Tags = Tags;
    type Movetext = Movetext;
    type Output = Result<GameRecords, String>;

    fn begin_tags(&mut self) -> ControlFlow<Self::Output, Tags> {
        ControlFlow::Continue(Tags::default())
    }

    fn tag(
        &mut self,
        tags: &mut Tags,
        name: &[u8],
        value: RawTag<'_>,
    ) -> ControlFlow<Self::Output> {
        let value = value.decode();
        match name {
            b"Annotator" => tags.has_evals_after |= value.starts_with(b"Scorn"),
            b"Site" => {
                let site = String::from_utf8_lossy(&value).to_ascii_lowercase();
                tags.has_evals_after |= site.contains("lichess.org");
            }
            _ => tags.of_game.add(name, &value),
        }
        ControlFlow::Continue(())
    }

    fn begin_movetext(&mut self, tags: Tags) -> ControlFlow<Self::Output, Movetext> {
        let of_game = tags.of_game;
        let (pos, mode) = match of_game.start() {
            Ok(start) => start,
            Err(reason) => return ControlFlow::Break(Err(reason)),
        };
        let start = Fnv1a::new().and(of_game.fen().unwrap_or_default());
        let game = GameRecords {
            records: Vec::with_capacity(120),
            outcome: of_game.outcome(),
            chess960: mode.is_chess960(),
            hash: start.and(b"|"),
            is_whole: false,
        };
        ControlFlow::Continue(Movetext {
            pos,
            game,
            evals_after: match self.0 {
                Evals::Auto => tags.has_evals_after,
                Evals::Before => false,
                Evals::After => true,
            },
            score: None,
        })
    }

    fn san(&mut self, text: &mut Movetext, san: SanPlus) -> ControlFlow<Self::Output> {
        let m = match move_of(&san, &text.pos, text.game.records.len()) {
            Ok(m) => m,
            Err(reason) => return ControlFlow::Break(Err(reason)),
        };
        let us = text.pos.turn();
        let mut record = Record::new(&text.pos, us == Color::Black, Source::Game);
        record.best = Record::pack_move(m, us);
        record.score = text.score.take().unwrap_or(NO_SCORE);
        text.game.hash = text.game.hash.and(&record.best.to_le_bytes());
        text.game.records.push(record);
        text.pos.play_unchecked(m);
        ControlFlow::Continue(())
    }

    fn comment(
        &mut self,
        text: &mut Movetext,
        comment: RawComment<'_>,
    ) -> ControlFlow<Self::Output> {
        let comment = comment.as_bytes();
        if text.evals_after {
            text.score = eval(comment, text.pos.turn(), true).or(text.score);
        } else if let Some(record) = text.game.records.last_mut() {
            let side = Color::from_white(record.state & Record::BLACK == 0);
            record.score = eval(comment, side, false).unwrap_or(record.score);
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
            Err(without_result(text.game.records.len()))
        }
    }
}

/// The score of `[%eval 0.31]` or `[%eval #-4]`, which are White's, for this side: the one that has moved, or with
/// `is_after` the one to move.
fn eval(comment: &[u8], side: Color, is_after: bool) -> Option<i16> {
    const COMMAND: &[u8] = b"[%eval ";
    // The rest of the comment may be Latin-1.
    let is_command = |part: &[u8]| part == COMMAND;
    let start = comment.windows(COMMAND.len()).position(is_command)? + COMMAND.len();
    let mut parts = comment[start..].split(|byte| b"], ".contains(byte));
    let value = std::str::from_utf8(parts.next()?).ok()?;
    if let Some(mate) = value.strip_prefix('#') {
        let moves: i32 = mate.parse().ok()?;
        return match moves {
            // There is no position after mate.
            0 if is_after => None,
            // The move was mate, which is one ply away before it.
            0 => Some(mate_score(1)),
            _ => Some(mate_score(side.fold_wb(moves, moves.saturating_neg()))),
        };
    }
    let pawns: f64 = value.parse().ok()?;
    let pawns = side.fold_wb(pawns, -pawns);
    pawns
        .is_finite()
        .then(|| (100.0 * pawns).round().clamp(-20000.0, 20000.0) as i16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::record::MATE;

    fn read_one(text: &str) -> GameRecords {
        read_with(text, Evals::default())
    }

    fn read_with(text: &str, evals: Evals) -> GameRecords {
        read_games(text.as_bytes(), evals).next().unwrap().unwrap()
    }

    #[test]
    fn annotated_games_have_evaluations_of_the_next_position() {
        let moves = "{ [%eval 0.2] } 1. e4 { [%eval 0.31] } e5 { [%eval 0.5] } 2. Qh5 { [%eval #-3] } Nc6 \
                     { [%eval #1] } { good } 3. Bc4 Nf6 4. Qxf7# { [%eval #0] } 1-0";
        let before = [
            31,
            -50,
            2 * 3 - MATE,
            1 - MATE + 1,
            NO_SCORE,
            NO_SCORE,
            MATE - 1,
        ];
        let after = [20, -31, 50, MATE - 5, MATE - 1, NO_SCORE, NO_SCORE];
        let lichess = "[Site \"https://lichess.org/abcdefgh\"]";
        for (tags, evals, expected) in [
            (lichess, Evals::Auto, after),
            ("[Annotator \"Scorn 0.1.0\"]", Evals::Auto, after),
            ("[Annotator \"Somebody\"]", Evals::Auto, before),
            ("[Site \"London\"]", Evals::Auto, before),
            (lichess, Evals::Before, before),
            ("[Site \"London\"]", Evals::After, after),
        ] {
            let game = read_with(&format!("{tags}\n\n{moves}\n"), evals);
            let scores: Vec<i16> = game.records.iter().map(|record| record.score).collect();
            assert_eq!(scores, expected, "{tags} {evals:?}");
        }
    }

    #[test]
    fn tags_mean_what_they_do_elsewhere() {
        let twice = "[Result \"1-0\"]\n[Result \"0-1\"]\n\n1. e4 *\n";
        let read = crate::pgn::Reader::new(twice.as_bytes()).next();
        let outcome = read.unwrap().unwrap().outcome;
        assert_eq!(outcome.unwrap().winner(), Some(Color::White));
        assert_eq!(read_one(twice).outcome, outcome);
        let variant = b"[Variant \"M\xfchle\"]\n\n1. e4 *\n";
        let other = read_games(variant, Evals::default()).next().unwrap();
        assert_eq!(
            other.err().unwrap(),
            "M\u{fc}hle is another game than chess"
        );
    }

    #[test]
    fn comments_may_be_latin1() {
        let comment = b"{\xfc\xfc\xfc[%eval 0.31]\xfc} ";
        for text in [
            [b"1. e4 ", &comment[..], b"e5 *"].concat(),
            "1. e4 {ü[%eval 0.31,12] [%clk 0:01:00]} e5 *".into(),
        ] {
            let mut games = read_games(&text, Evals::default());
            let game = games.next().unwrap().unwrap();
            assert_eq!(game.records[0].score, 31);
        }
    }

    #[test]
    fn castling_rights_of_chess960_need_no_tag() {
        let fen = "nrkbbqrn/pppppppp/8/8/8/8/PPPPPPPP/NRKBBQRN w KQkq - 0 1";
        let game = read_one(&format!(
            "[FEN \"{fen}\"]\n\n1. c3 c6 2. Bc2 Bc7 3. O-O-O *\n"
        ));
        assert!(game.chess960 && game.records.len() == 5);
    }

    #[test]
    fn evaluations_turn_to_the_side_to_move() {
        let game = read_one(
            "1. e4 { [%eval 0.31] } e5 { [%eval 0.5] } 2. Nf3 { [%eval #3] } Nc6 { [%eval #-2] } *",
        );
        let scores: Vec<i16> = game.records.iter().map(|record| record.score).collect();
        assert_eq!(scores, [31, -50, MATE - 5, MATE - 3]);
        let game = read_one(
            "1. e4 { [%eval #-2] } e5 { [%eval #2] } 2. Nf3 { [%eval #2000000000] } \
             Nc6 { [%eval #-2147483648] } *",
        );
        let scores: Vec<i16> = game.records.iter().map(|record| record.score).collect();
        assert_eq!(scores, [4 - MATE, 4 - MATE, MATE - 1000, MATE - 1000]);
        let game = read_one("1. f3 e5 2. g4 {[%eval #-1]} Qh4# {[%eval #0]} 0-1");
        let scores: Vec<i16> = game.records.iter().map(|record| record.score).collect();
        assert_eq!(scores, [NO_SCORE, NO_SCORE, 2 - MATE, MATE - 1]);
    }
}
