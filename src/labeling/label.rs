//! Labels by a UCI engine: best move and score of every record, and with `--multipv` the next best moves and their
//! scores, from which training derives a soft policy.
//!
//! Stockfish answers queued `position`/`go` pairs in order, which saves a process switch per position.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use shakmaty::fen::Fen;
use shakmaty::uci::UciMove;
use shakmaty::{Chess, EnPassantMode, Position};

use crate::dataset::record::{
    ALTERNATIVES, Alternative, NO_SCORE, Record, mate_score, plies_to_mate,
};
use crate::uci_client::{Client, EngineScore, GoLimits, InfoLine, name_and_value, program_path};

/// What an engine's answer was to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// A legal move: the record's label.
    Label,
    /// No move, as `bestmove (none)`, although there are legal ones.
    NoMove,
    /// A move that is not legal there.
    Illegal,
    /// Any answer where no move is legal.
    GameOver,
}

/// Sets the label of a record and replaces an existing one. Without a legal move in the answer the record has no
/// label afterwards, because an earlier one is not the engine's. `pos` is the record's
/// [position of the game](Record::game_position).
pub fn apply(record: &mut Record, pos: &Chess, answer: &TeacherReply) -> AnswerKind {
    record.best = 0;
    record.score = NO_SCORE;
    record.alternatives = Default::default();
    let Some(best) = pack(&answer.best, pos) else {
        return match &*answer.best {
            _ if pos.legal_moves().is_empty() => AnswerKind::GameOver,
            "" | "(none)" | "0000" | "none" | "NULL" => AnswerKind::NoMove,
            _ => AnswerKind::Illegal,
        };
    };
    // A line without moves evaluates the position, and so its best move.
    let of = |line: &ScoredLine| (pack(&line.m, pos).unwrap_or(best), line.score);
    let lines: Vec<(u16, i16)> = answer.lines.iter().map(of).collect();
    let of_best = lines.iter().find(|(m, _)| *m == best).or(lines.first());
    record.best = best;
    record.score = of_best.map_or(NO_SCORE, |&(_, score)| score);
    // With a single line, its last move may differ from the best move; it is not an alternative.
    if lines.len() > 1 {
        let mut known = vec![best];
        for &(m, score) in &lines {
            let index = known.len() - 1;
            if known.contains(&m) || index >= ALTERNATIVES {
                continue;
            }
            record.alternatives[index] = Alternative { m, score };
            known.push(m);
        }
    }
    if let Some(plies) = plies_to_mate(record.score) {
        record.plies_left = plies;
    }
    AnswerKind::Label
}

/// The packed form of a UCI move, if it is legal.
fn pack(text: &str, pos: &Chess) -> Option<u16> {
    let m = text.parse::<UciMove>().ok()?.to_move(pos).ok()?;
    Some(Record::pack_move(m, pos.turn()))
}

/// The engine's last output on a position.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TeacherReply {
    best: String,
    /// Lines in the order of their ranks.
    lines: Vec<ScoredLine>,
}

impl TeacherReply {
    /// Adds a line. A search that ends while it widens its window reports a bound: then the move gets its rank, but
    /// keeps its last exact score, if it had one. A bound without a move is dropped where an exact score is known.
    fn add(&mut self, mut line: ScoredLine) {
        if line.is_bound {
            let of_rank = self.lines.get(line.rank - 1);
            if line.m.is_empty() && of_rank.is_some_and(|known| !known.is_bound) {
                return;
            }
            let mut exact = self.lines.iter().filter(|known| !known.is_bound);
            if let Some(exact) = exact.find(|known| known.m == line.m) {
                (line.score, line.is_bound) = (exact.score, false);
            }
        }
        // Ranks are reported in order, so a new rank is the next one.
        match self.lines.get_mut(line.rank - 1) {
            Some(known) => *known = line,
            None => self.lines.push(line),
        }
    }
}

/// An `info` line of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ScoredLine {
    /// Counted from 1.
    rank: usize,
    score: i16,
    /// Whether the score is a bound.
    is_bound: bool,
    /// The first move of `pv`; empty if there is none.
    m: String,
}

impl ScoredLine {
    /// Parses a line; `None` if it has no score.
    fn of(line: &str) -> Option<ScoredLine> {
        let info = InfoLine::parse(line)?;
        Some(ScoredLine {
            rank: info.rank,
            score: record_score(info.score?),
            is_bound: info.is_bound,
            m: info.first.unwrap_or_default(),
        })
    }
}

/// A score as in [`Record::score`].
fn record_score(score: EngineScore) -> i16 {
    const LARGEST: i32 = 20_000;
    match score {
        EngineScore::Centipawns(value) => value.clamp(-LARGEST, LARGEST) as i16,
        EngineScore::Mate(moves) => mate_score(moves),
    }
}

/// Time limit of an engine for a position; an engine that exceeds it is considered hung.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);

/// The option of engines that play Chess960.
pub const CHESS960: &str = "UCI_Chess960";

/// A UCI engine that labels positions.
pub struct Teacher(Client);

impl Teacher {
    /// Starts the program and sets its options, each `NAME=VALUE`. With `chess960` it has to play that: such engines
    /// understand positions of normal chess, too.
    ///
    /// # Errors
    /// When it cannot be started, is not a UCI engine, rejects an option or its value, or does not play Chess960.
    pub fn start(engine: &Path, options: &[String], chess960: bool) -> Result<Teacher> {
        let client = Client::start(&program_path(engine), &[]);
        let mut client =
            client.with_context(|| format!("is {} a UCI engine?", engine.display()))?;
        ensure!(
            !chess960 || client.has_option(CHESS960),
            "{} has no option {CHESS960}, and some of the positions are of Chess960: use an engine that plays it, or \
             label a file of normal chess",
            engine.display()
        );
        for option in options {
            let (name, value) = name_and_value(option);
            let value = value.with_context(|| format!("{option} is not NAME=VALUE"))?;
            client.set_option(name, Some(value))?;
        }
        if chess960 {
            client.set_option(CHESS960, Some("true"))?;
        }
        client.wait_for_start()?;
        client.new_game()?;
        Ok(Teacher(client))
    }

    /// The name that the engine reports.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Sends a position to search. Answers arrive in the same order.
    ///
    /// # Errors
    /// When the program has ended.
    pub fn request(&mut self, pos: &Chess, limits: &GoLimits) -> Result<()> {
        let fen = Fen::from_position(pos, EnPassantMode::Legal);
        Ok(self.0.request_move(&format!("fen {fen}"), limits)?)
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// When the program has ended or does not answer in time.
    pub fn answer(&mut self) -> Result<TeacherReply> {
        let mut reply = TeacherReply::default();
        let mut add = |line: &str| {
            if let Some(line) = ScoredLine::of(line) {
                reply.add(line);
            }
        };
        let answer = self
            .0
            .wait_for_move(Instant::now() + ANSWER_TIMEOUT, &mut add)?;
        reply.best = answer.best;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use shakmaty::CastlingMode;

    use super::*;
    use crate::dataset::record::{MATE, Source};

    #[test]
    fn scores_are_packed_as_in_records() {
        for (info, held) in [
            (EngineScore::Centipawns(51), 51),
            (EngineScore::Centipawns(i32::MIN), -20_000),
            (EngineScore::Mate(2), MATE - 3),
            (EngineScore::Mate(-1), 2 - MATE),
            (EngineScore::Mate(i32::MAX), MATE - 1000),
            (EngineScore::Mate(i32::MIN), 1000 - MATE),
        ] {
            assert_eq!(record_score(info), held, "{info:?}");
        }
    }

    fn answer(lines: &[&str], best: &str) -> Record {
        let mut answer = TeacherReply {
            best: best.into(),
            lines: Vec::new(),
        };
        for line in lines {
            answer.add(ScoredLine::of(line).unwrap());
        }
        let pos = Chess::new();
        let mut record = Record::new(&pos, false, Source::Real);
        record.alternatives = [Alternative { m: 1, score: 1 }; ALTERNATIVES];
        apply(&mut record, &pos, &answer);
        record
    }

    const E4: u16 = 12 | 28 << 6;
    const D4: u16 = 11 | 27 << 6;

    #[test]
    fn a_move_that_changes_rank_as_the_search_ends_duplicates_no_other_move() {
        let known = [
            "info depth 1 multipv 1 score cp 50 pv d2d4",
            "info depth 1 multipv 2 score cp 20 pv e2e4",
            "info depth 1 multipv 3 score cp 10 pv g1f3",
            "info depth 2 multipv 1 score cp 70 lowerbound pv e2e4",
        ];
        let rest = [
            "info depth 1 multipv 2 score cp 50 pv d2d4",
            "info depth 1 multipv 3 score cp 10 pv g1f3",
        ];
        let record = answer(&[&known[..], &rest[..]].concat(), "e2e4");
        let alternatives = record.alternatives.map(|other| (other.m, other.score));
        let nf3 = 6 | 21 << 6;
        assert_eq!((record.best, record.score), (E4, 20));
        assert_eq!(alternatives, [(D4, 50), (nf3, 10), (0, 0), (0, 0)]);
        // An engine that reports no other ranks afterwards.
        let record = answer(&known, "e2e4");
        let alternatives = record.alternatives.map(|other| (other.m, other.score));
        assert_eq!((record.best, record.score), (E4, 20));
        assert_eq!(alternatives, [(nf3, 10), (0, 0), (0, 0), (0, 0)]);
    }

    #[test]
    fn black_s_moves_are_seen_by_black() {
        let fen: Fen = "4k3/pppppppp/8/8/8/8/PPPPPPPP/4K3 b - - 0 1"
            .parse()
            .unwrap();
        let pos: Chess = fen.into_position(CastlingMode::Standard).unwrap();
        let mut record = Record::new(&pos, true, Source::Game);
        let reply = TeacherReply {
            best: "e7e5".into(),
            lines: vec![ScoredLine::of("info depth 1 score cp 50 pv e7e5").unwrap()],
        };
        assert_eq!(apply(&mut record, &pos, &reply), AnswerKind::Label);
        assert_eq!((record.best, record.score), (E4, 50));
    }

    #[test]
    fn a_record_keeps_no_label_that_is_not_the_engine_s() {
        let reply = |best: &str| TeacherReply {
            best: best.into(),
            lines: vec![ScoredLine::of("info depth 1 score cp 50").unwrap()],
        };
        let start = Chess::new();
        let mate = "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1".parse::<Fen>().unwrap();
        let mate: Chess = mate.into_position(CastlingMode::Standard).unwrap();
        for (pos, best, expected) in [
            (&start, "e2e4", AnswerKind::Label),
            (&start, "(none)", AnswerKind::NoMove),
            (&start, "0000", AnswerKind::NoMove),
            (&start, "", AnswerKind::NoMove),
            (&start, "e7e5", AnswerKind::Illegal),
            (&mate, "(none)", AnswerKind::GameOver),
        ] {
            let mut record = Record::new(pos, false, Source::Game);
            (record.best, record.score) = (7, 77);
            assert_eq!(apply(&mut record, pos, &reply(best)), expected, "{best}");
            let label = match expected {
                AnswerKind::Label => (E4, 50),
                _ => (0, NO_SCORE),
            };
            assert_eq!((record.best, record.score), label, "{best}");
        }
    }

    #[test]
    fn a_bound_without_a_move_replaces_no_exact_score() {
        let exact = "info depth 1 score cp 50 pv e2e4";
        let bound = "info depth 2 score cp 700 lowerbound nodes 30";
        let of_move = "info depth 2 score cp 600 lowerbound pv e2e4";
        for lines in [&[exact, bound][..], &[exact, of_move, bound]] {
            let record = answer(lines, "e2e4");
            assert_eq!((record.best, record.score), (E4, 50), "{lines:?}");
        }
        // Where nothing else is known, it is used, and the last one counts.
        let later = "info depth 2 score cp 800 lowerbound nodes 40";
        assert_eq!(answer(&[bound, later], "e2e4").score, 800);
        let later = "info depth 2 score cp 650 lowerbound pv e2e4";
        assert_eq!(answer(&[of_move, later], "e2e4").score, 650);
    }

    #[test]
    fn a_bound_is_used_if_there_is_no_exact_score() {
        let record = answer(
            &[
                "info depth 1 score cp 50 pv d2d4",
                "info depth 2 score cp 70 lowerbound pv e2e4",
            ],
            "e2e4",
        );
        assert_eq!((record.best, record.score), (E4, 70));
        assert_eq!(record.alternatives[0].m, 0);
    }
}
