//! A UCI engine as teacher: best move and score for every record, and with `--multipv` the next best moves with theirs,
//! from which training makes a soft policy.
//!
//! Stockfish answers queued `position`/`go` pairs in order, which saves a process switch per position.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use shakmaty::fen::Fen;
use shakmaty::uci::UciMove;
use shakmaty::{Chess, Color, EnPassantMode, Position};

use crate::dataset::record::{
    ALTERNATIVES, Alternative, NO_SCORE, Record, mate_score, plies_to_mate,
};
use crate::uci_client::{Client, EngineScore, GoLimits, InfoLine};

/// Puts a label on a record, in place of one that it may have; a mated or otherwise unanswerable position keeps what it
/// has. Whether the answer could be one to this position: one without legal moves may be answered by anything.
pub fn apply(record: &mut Record, pos: &Chess, answer: &TeacherReply) -> bool {
    let Some(best) = pack(&answer.best, pos) else {
        return pos.legal_moves().is_empty();
    };
    // A line without moves is about the position, so about the best move.
    let of = |line: &ScoredLine| (pack(&line.m, pos).unwrap_or(best), line.score);
    let lines: Vec<(u16, i16)> = answer.lines.iter().map(of).collect();
    let of_best = lines.iter().find(|(m, _)| *m == best).or(lines.first());
    record.best = best;
    record.score = of_best.map_or(NO_SCORE, |&(_, score)| score);
    record.alternatives = Default::default();
    // Of a single line the last move may be another than the one played: that is no second opinion.
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
    true
}

/// A move in UCI as records hold it, if it can be played.
fn pack(text: &str, pos: &Chess) -> Option<u16> {
    let m = text.parse::<UciMove>().ok()?.to_move(pos).ok()?;
    Some(Record::pack_move(m, Color::White))
}

/// What the engine said last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TeacherReply {
    best: String,
    /// By rank.
    lines: Vec<ScoredLine>,
}

impl TeacherReply {
    /// Takes a line into account. A search that ends while it widens its window tells a bound: then the move has its
    /// rank, but the score that was exact before is nearer to the truth, if there was one.
    fn hear(&mut self, mut line: ScoredLine) {
        if line.is_bound
            && let Some(exact) = self.lines.iter().find(|known| known.m == line.m)
        {
            line.score = exact.score;
        }
        // Ranks are told in order, so a new one is the next.
        match self.lines.get_mut(line.rank - 1) {
            Some(known) => *known = line,
            None => self.lines.push(line),
        }
    }
}

/// What an engine says about one of its lines of play.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ScoredLine {
    /// Counted from 1.
    rank: usize,
    score: i16,
    /// Whether the score is only a bound of the true one.
    is_bound: bool,
    /// The first move of `pv`; empty if there is none.
    m: String,
}

impl ScoredLine {
    /// What a line says, if there is a score in it.
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

/// A score as records hold it.
fn record_score(score: EngineScore) -> i16 {
    const LARGEST: i32 = 20_000;
    match score {
        EngineScore::Centipawns(value) => value.clamp(-LARGEST, LARGEST) as i16,
        EngineScore::Mate(moves) => mate_score(moves),
    }
}

/// How long an engine may think about a position: nobody waits for ever for one that hangs.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A UCI engine that is asked for labels.
pub struct Teacher(Client);

impl Teacher {
    /// Starts the program and sets its options, each `NAME=VALUE`.
    ///
    /// # Errors
    /// When it cannot be started, is no UCI engine, or has no such option or not with this value.
    pub fn start(engine: &Path, options: &[String]) -> Result<Teacher> {
        let client = Client::start(engine, &[]);
        let mut client =
            client.with_context(|| format!("is {} a UCI engine?", engine.display()))?;
        for option in options {
            let (name, value) = option
                .split_once('=')
                .with_context(|| format!("{option} is not NAME=VALUE"))?;
            client.set_option(name, Some(value))?;
        }
        client.wait_for_start()?;
        client.new_game()?;
        Ok(Teacher(client))
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Sends a position to search. Answers come in the same order.
    ///
    /// # Errors
    /// When the program does not listen any more.
    pub fn ask(&mut self, pos: &Chess, limits: &GoLimits) -> Result<()> {
        let fen = Fen::from_position(pos, EnPassantMode::Legal);
        Ok(self.0.request_move(&format!("fen {fen}"), limits)?)
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// When the program ended, or does not answer.
    pub fn answer(&mut self) -> Result<TeacherReply> {
        let mut reply = TeacherReply::default();
        let mut hear = |line: &str| {
            if let Some(line) = ScoredLine::of(line) {
                reply.hear(line);
            }
        };
        let answer = self.0.wait_for_move(Instant::now() + PATIENCE, &mut hear)?;
        reply.best = answer.best;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::record::{MATE, Source};

    #[test]
    fn scores_are_as_records_hold_them() {
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
            answer.hear(ScoredLine::of(line).unwrap());
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
    fn a_move_that_overtakes_while_the_search_ends_does_not_leave_its_rival_twice() {
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
        // An engine that tells no other ranks then.
        let record = answer(&known, "e2e4");
        let alternatives = record.alternatives.map(|other| (other.m, other.score));
        assert_eq!((record.best, record.score), (E4, 20));
        assert_eq!(alternatives, [(nf3, 10), (0, 0), (0, 0), (0, 0)]);
    }

    #[test]
    fn a_bound_is_better_than_nothing() {
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
