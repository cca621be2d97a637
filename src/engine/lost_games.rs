//! No repetition of lost games: a file of moves that led into them, which many engines share, one after the other or at
//! the same time (a bot starts one for each game).
//!
//! UCI does not tell an engine the result of a game. It counts as lost if the engine's last search found that it is
//! mated or loses by the tablebases, or that next to nothing is left of its chances at the start. Then one move of the
//! game is written to the file: the last one that had an alternative nearly as good, of those that were played while
//! the engine still had most of its chances. If the game is repeated, another move is played there; if that loses,
//! too, the next loss names a move before that one. Otherwise the moves to avoid would follow the repeated game, each
//! later than the one before. Moves in the file are no alternatives; where no earlier move has one, later ones are
//! named again.
//!
//! The file is EPD, a position and the moves to avoid (`am`) a line, so that people can read and change it. Lines that
//! are no such thing are left out and kept. What cannot be read or written is reported and changes nothing else.

use std::{collections::HashMap, path::Path};

use anyhow::{Context, Result, bail};
use shakmaty::{Chess, Color, EnPassantMode, Position, fen::Epd, san::SanPlus};

use crate::{
    chess::{
        History, PackedMove,
        epd::{self, EpdLine},
        setup,
    },
    files::{self, output},
    search::{Outcome, Score},
    terminal,
};

/// Most lines of the file; the oldest ones are dropped beyond.
const MAX_LINES: usize = 5000;

/// A game is lost if less than this part of the chances at its start is left at its end.
const LOST: f32 = 0.25;
/// And if the value (W-L) is less than this.
const LOST_VALUE: f32 = -0.95;
/// A move was played in good time if more than this part of the chances was left.
const IN_GOOD_TIME: f32 = 2.0 / 3.0;

/// What a search found out about the move that it plays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assessment {
    /// The value of the position (W-L).
    wl: f32,
    /// Whether the engine is mated or loses by the tablebases.
    is_lost: bool,
    /// Whether another move, none of those to avoid, is nearly as good.
    has_alternative: bool,
}

impl Assessment {
    /// The assessment by a search; `None` without a line.
    pub fn of(outcome: &Outcome) -> Option<Assessment> {
        let line = outcome.report.lines.first()?;
        Some(Assessment {
            wl: line.value.wl,
            is_lost: matches!(line.score, Score::Mate(plies) | Score::Tablebase(plies) if plies < 0),
            has_alternative: outcome.has_alternative,
        })
    }

    /// The expected score, 0 to 1.
    fn chances(&self) -> f32 {
        (1.0 + self.wl) / 2.0
    }
}

/// A move that the engine has played.
#[derive(Clone, Copy, Debug)]
struct OwnMove {
    /// How many positions the game had before it.
    positions: usize,
    m: PackedMove,
    assessment: Assessment,
    /// Whether the file has moves to avoid in its position: a game that was lost came through it.
    is_known: bool,
}

/// The game that is being played, and the moves of lost games.
#[derive(Default)]
pub(super) struct LostGames {
    /// The file; empty if none is named.
    path: String,
    /// The moves to avoid, by the keys of positions. `None` before the file was read in this game.
    avoided: Option<HashMap<u64, Vec<PackedMove>>>,
    /// The game as the last search saw it.
    game: Option<History>,
    /// Whether the last search belongs to it.
    is_searched: bool,
    /// Whether the file has moves to avoid in the position of that search.
    is_known: bool,
    /// The engine's moves in it.
    played: Vec<OwnMove>,
    /// Lines of lost games that could not be written to the file yet.
    unwritten: Vec<String>,
}

impl LostGames {
    /// A search of the game begins: the moves to avoid there. `path` is the file, empty for none.
    pub fn begin(&mut self, path: &str, game: &History, note: &dyn Fn(&str)) -> Vec<PackedMove> {
        if self.is_left_for(game) {
            self.end(note);
        }
        if self.path != path {
            self.path = path.to_owned();
            self.avoided = None;
            // They belong to the other file.
            self.unwritten.clear();
        }
        if path.is_empty() {
            (self.game, self.is_searched) = (None, false);
            self.played.clear();
            self.unwritten.clear();
            return Vec::new();
        }
        (self.game, self.is_searched) = (Some(game.clone()), true);
        let path = Path::new(path);
        let avoided = self.avoided.get_or_insert_with(|| {
            let text = read(path).unwrap_or_else(|error| {
                note(&format!("error: LostGamesFile: {error:#}"));
                String::new()
            });
            let lines = text
                .lines()
                .chain(self.unwritten.iter().map(String::as_str));
            parse(lines, path, note)
        });
        let avoided = avoided.get(&game.last().key).cloned().unwrap_or_default();
        self.is_known = !avoided.is_empty();
        avoided
    }

    /// The file is read anew for the next search: it may have been changed.
    pub fn forget_file(&mut self) {
        self.avoided = None;
    }

    /// A search begins that is an analysis.
    pub fn begin_analysis(&mut self) {
        self.is_searched = false;
    }

    /// The search has chosen a move.
    pub fn answer(&mut self, best: Option<PackedMove>, assessment: Option<Assessment>) {
        let game = self.game.as_ref().filter(|_| self.is_searched);
        let (Some(game), Some(m), Some(assessment)) = (game, best, assessment) else {
            return;
        };
        // Moves that were taken back.
        self.played.retain(|played| played.positions < game.len());
        self.played.push(OwnMove {
            positions: game.len(),
            m,
            assessment,
            is_known: self.is_known,
        });
    }

    /// Whether a position that was set is no continuation of the last game, which has ended then.
    pub fn is_left_for(&self, game: &History) -> bool {
        self.game.as_ref().is_some_and(|old| !game.continues(old))
    }

    /// The game has ended: writes the move to avoid if it was lost, and those of earlier games that could not be
    /// written.
    pub fn end(&mut self, note: &dyn Fn(&str)) {
        let (game, played) = (self.game.take(), std::mem::take(&mut self.played));
        self.avoided = None;
        let blamed = game.and_then(|game| blame(&game, &played));
        if blamed == Some(Blamed::Nothing) {
            note("LostGamesFile: the game was lost, and no move had an alternative");
        }
        let mut added = "added";
        if let Some(Blamed::Move(position, m)) = blamed {
            let line = epd_line(&position, m);
            if !self.unwritten.contains(&line) {
                self.unwritten.push(line);
            }
            added = "the game was lost, added";
        }
        if self.unwritten.is_empty() {
            return;
        }
        match add(Path::new(&self.path), &self.unwritten) {
            Ok(()) => {
                let lines = std::mem::take(&mut self.unwritten).join(" ");
                note(&format!("LostGamesFile: {added} {lines}"));
            }
            Err(error) => note(&format!("error: LostGamesFile: {error:#}")),
        }
    }
}

/// What is to be avoided after a lost game.
#[derive(Debug, PartialEq)]
enum Blamed {
    /// A move in a position.
    Move(Chess, PackedMove),
    /// Every move was the only good one.
    Nothing,
}

/// What led into the loss of a game; `None` if it was not lost, or if of its moves only the last one is known, which
/// had no alternative: that is rather a position that a GUI shows than a game.
fn blame(game: &History, played: &[OwnMove]) -> Option<Blamed> {
    let side = side_of(game, played.last()?);
    // An engine that plays both sides, and moves that were not played after all.
    let is_played = |played: &&OwnMove| {
        let own = side_of(game, played) == side;
        own && (played.positions == game.len()
            || game.move_after(played.positions - 1) == Some(played.m))
    };
    let played: Vec<&OwnMove> = played.iter().filter(is_played).collect();
    let (first, last) = (played.first()?.assessment, played.last()?.assessment);
    let has_left =
        |part: f32, assessment: Assessment| assessment.chances() > part * first.chances();
    let is_hopeless = last.wl <= LOST_VALUE && !has_left(LOST, last);
    if !last.is_lost && !is_hopeless {
        return None;
    }
    // The last one in good time; without one the first move is the last chance.
    let blamed_among = |moves: &[&OwnMove]| -> Option<OwnMove> {
        let assessed = moves.iter().filter(|played| !played.assessment.is_lost);
        let mut candidates = assessed.filter(|played| played.assessment.has_alternative);
        let in_good_time = |played: &&&OwnMove| has_left(IN_GOOD_TIME, played.assessment);
        let last = candidates.clone().rfind(in_good_time);
        last.or_else(|| candidates.next()).map(|played| **played)
    };
    // What was played where a lost game was left did not help.
    let left_at = played.iter().rposition(|played| played.is_known);
    let earlier = blamed_among(&played[..left_at.unwrap_or(0)]);
    match earlier.or_else(|| blamed_among(&played)) {
        Some(blamed) => {
            let position = game.plies()[blamed.positions - 1].position.clone();
            Some(Blamed::Move(position, blamed.m))
        }
        None => (played.len() > 1).then_some(Blamed::Nothing),
    }
}

/// Who has played a move.
fn side_of(game: &History, played: &OwnMove) -> Option<Color> {
    let ply = game.plies().get(played.positions - 1);
    ply.map(|ply| ply.position.turn())
}

/// The text of the file; empty if there is none yet.
fn read(path: &Path) -> Result<String> {
    match path.try_exists() {
        Ok(false) => {
            // It is written at the end of a lost game, which is too late to find that out.
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                bail!(
                    "{}: there is no folder {}",
                    path.display(),
                    folder.display()
                );
            }
            Ok(String::new())
        }
        _ => files::read_text_at_once(path),
    }
}

/// The moves to avoid in the lines of a file. Those that are not understood are counted in a note.
fn parse<'a>(
    lines: impl Iterator<Item = &'a str>,
    path: &Path,
    note: &dyn Fn(&str),
) -> HashMap<u64, Vec<PackedMove>> {
    let mut avoided: HashMap<u64, Vec<PackedMove>> = HashMap::new();
    let mut failed = None;
    let lines = (1..).zip(lines.map(str::trim));
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        match parse_line(line) {
            Ok((key, moves)) => avoided.entry(key).or_default().extend(moves),
            Err(error) => {
                let (count, _) = failed.get_or_insert((0, format!("line {number}: {error:#}")));
                *count += 1;
            }
        }
    }
    if let Some((count, first)) = failed {
        let name = path.display();
        note(&format!(
            "LostGamesFile: {} of {name} left out, the first is {first}",
            terminal::counted(count, "line")
        ));
    }
    avoided
}

/// The key of a line's position, and the moves to avoid there.
fn parse_line(line: &str) -> Result<(u64, Vec<PackedMove>)> {
    let EpdLine { fen, operations } = EpdLine::parse(line)?;
    let history = History::new(setup::position_from_fen(&fen)?);
    let mut found = operations
        .iter()
        .filter_map(|text| text.strip_prefix("am "));
    let moves = found.next().context("no moves to avoid (am)")?;
    Ok((history.last().key, epd::moves(history.position(), moves)?))
}

/// The line of a move to avoid.
fn epd_line(position: &Chess, m: PackedMove) -> String {
    let epd = Epd::from_position(position, EnPassantMode::Legal);
    let san = SanPlus::from_move(position.clone(), m.unpack(position));
    format!("{epd} am {san};")
}

/// Adds lines to the file.
fn add(path: &Path, added: &[String]) -> Result<()> {
    output::update(path, || {
        let text = read(path)?;
        let is_other = |old: &&str| added.iter().all(|line| line != old);
        let mut lines: Vec<&str> = text.lines().filter(is_other).collect();
        lines.extend(added.iter().map(String::as_str));
        let kept = &lines[lines.len().saturating_sub(MAX_LINES)..];
        Ok(kept.iter().flat_map(|line| [line, "\n"]).collect())
    })
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, fs};

    use super::*;
    use crate::chess::setup::history_from_text;

    const OPENING: &str = "startpos moves e2e4 e7e5 g1f3 b8c6 f1c4 g8f6";

    fn assessed(wl: f32, has_alternative: bool) -> Assessment {
        Assessment {
            wl,
            is_lost: wl == -1.0,
            has_alternative,
        }
    }

    /// White's moves of the opening, with these assessments.
    fn played(game: &History, assessments: &[Assessment]) -> Vec<OwnMove> {
        let moves = (0..assessments.len()).map(|index| OwnMove {
            positions: 2 * index + 1,
            m: game.move_after(2 * index).unwrap(),
            assessment: assessments[index],
            is_known: false,
        });
        moves.collect()
    }

    /// The move that is blamed, in UCI's notation; `Some("")` if there is none although the game was lost.
    fn blamed(assessments: &[(f32, bool)]) -> Option<String> {
        let game = history_from_text(OPENING).unwrap();
        let assessments: Vec<Assessment> = assessments
            .iter()
            .map(|&(wl, has_alternative)| assessed(wl, has_alternative))
            .collect();
        blame(&game, &played(&game, &assessments)).map(|blamed| match blamed {
            Blamed::Nothing => String::new(),
            Blamed::Move(position, m) => setup::move_text(&position, m, false),
        })
    }

    #[test]
    fn the_last_move_with_an_alternative_in_good_time_is_blamed() {
        assert_eq!(
            blamed(&[(0.1, true), (0.0, true), (-0.9, true)]),
            None,
            "not lost"
        );
        let lost = [(0.1, true), (0.0, true), (-1.0, true)];
        assert_eq!(blamed(&lost).unwrap(), "g1f3");
        assert_eq!(
            blamed(&[(0.1, true), (0.0, false), (-1.0, true)]).unwrap(),
            "e2e4"
        );
        // It was too late for the second move; without any move in good time the first one is the last chance.
        assert_eq!(
            blamed(&[(0.1, true), (-0.6, true), (-0.97, true)]).unwrap(),
            "e2e4"
        );
        assert_eq!(
            blamed(&[(0.1, false), (-0.6, true), (-0.97, false)]).unwrap(),
            "g1f3"
        );
        assert_eq!(
            blamed(&[(0.1, false), (0.0, false), (-1.0, true)]).unwrap(),
            ""
        );
        assert_eq!(blamed(&[(-1.0, true)]), None, "a position and no game");
        // At queen odds the values are low from the first move on.
        assert_eq!(blamed(&[(-0.9, true), (-0.92, true), (-0.96, true)]), None);
        assert_eq!(
            blamed(&[(-0.9, true), (-0.92, true), (-0.98, true)]).unwrap(),
            "g1f3"
        );
    }

    #[test]
    fn a_game_that_left_a_lost_one_and_is_lost_too_is_blamed_on_a_move_before_that() {
        let game = history_from_text(OPENING).unwrap();
        let blamed = |assessments: &[(f32, bool)], known: &[usize]| {
            let assessments: Vec<Assessment> = assessments
                .iter()
                .map(|&(wl, has_alternative)| assessed(wl, has_alternative))
                .collect();
            let mut moves = played(&game, &assessments);
            for &index in known {
                moves[index].is_known = true;
            }
            let Some(Blamed::Move(_, m)) = blame(&game, &moves) else {
                panic!("no move is blamed");
            };
            moves.iter().position(|played| played.m == m).unwrap()
        };
        let lost = [(0.1, true), (0.0, true), (-1.0, false)];
        assert_eq!(blamed(&lost, &[]), 1);
        assert_eq!(blamed(&lost, &[1]), 0);
        // Of several places the last one counts: what lies between is tried before anything later.
        assert_eq!(blamed(&lost, &[0, 1]), 0);
        assert_eq!(blamed(&lost, &[0, 2]), 1);
        // Nothing before it has an alternative.
        assert_eq!(blamed(&lost, &[0]), 1);
        assert_eq!(blamed(&[(0.1, false), (0.0, true), (-1.0, false)], &[1]), 1);
    }

    #[test]
    fn a_file_that_is_taken_away_during_a_game_forgets_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lost.epd");
        let file = path.to_string_lossy();
        let said = RefCell::new(Vec::new());
        let note = |text: &str| said.borrow_mut().push(text.to_owned());
        let mut games = LostGames::default();
        let game = history_from_text(OPENING).unwrap();
        let answer = |games: &mut LostGames, file: &str, wl| {
            games.begin(file, &game, &note);
            games.answer(game.move_after(0), Some(assessed(wl, true)));
        };
        answer(&mut games, &file, 0.1);
        answer(&mut games, "", -1.0);
        games.end(&note);
        answer(&mut games, "", 0.1);
        games.end(&note);
        assert!(said.borrow().is_empty() && !path.exists(), "{said:?}");
        assert!(games.played.is_empty() && games.game.is_none());
    }

    #[test]
    fn only_moves_of_the_game_and_of_one_side_count() {
        let game = history_from_text(OPENING).unwrap();
        let mut moves = played(&game, &[assessed(0.1, true), assessed(0.0, true)]);
        // Not played in the end, and a move of the other side.
        let other = history_from_text("startpos moves e2e4 e7e5 d2d4").unwrap();
        moves[1].m = other.move_after(2).unwrap();
        moves.insert(
            1,
            OwnMove {
                positions: 2,
                m: game.move_after(1).unwrap(),
                assessment: assessed(0.5, true),
                is_known: false,
            },
        );
        let last = OwnMove {
            positions: 7,
            m: moves[0].m,
            assessment: assessed(-1.0, false),
            is_known: false,
        };
        moves.push(last);
        let Some(Blamed::Move(position, m)) = blame(&game, &moves) else {
            panic!("no move is blamed");
        };
        assert_eq!((position.fullmoves().get(), m), (1, moves[0].m));
        assert_eq!(blame(&game, &[]), None);
    }

    #[test]
    fn lines_are_added_once_and_the_oldest_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lost.epd");
        let start = History::default();
        let e4 = epd::moves(start.position(), "e4").unwrap()[0];
        let old = "# by hand\nnot a position\n";
        fs::write(&path, old).unwrap();
        for _ in 0..2 {
            add(&path, &[epd_line(start.position(), e4)]).unwrap();
        }
        let line = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - am e4;";
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{old}{line}\n"));
        let many: String = (0..MAX_LINES)
            .map(|number| format!("# {number}\n"))
            .collect();
        fs::write(&path, many).unwrap();
        add(&path, &[epd_line(start.position(), e4)]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), MAX_LINES);
        assert!(
            text.starts_with("# 1\n") && text.ends_with(&format!("# {}\n{line}\n", MAX_LINES - 1))
        );
    }

    #[test]
    fn a_line_that_cannot_be_written_is_kept_and_written_after_the_next_game() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lost.epd");
        let notes = RefCell::new(Vec::new());
        let note = |text: &str| notes.borrow_mut().push(text.to_owned());
        let mut games = LostGames::default();
        let search = |games: &mut LostGames, text: &str, m: &str, assessment: Assessment| {
            let game = history_from_text(text).unwrap();
            let m = setup::parse_move(game.position(), m).unwrap();
            let avoided = games.begin(&path.to_string_lossy(), &game, &note);
            games.answer(Some(m), Some(assessment));
            avoided.len()
        };
        fs::create_dir(&path).unwrap();
        let reply = "startpos moves e2e4 e7e5";
        search(&mut games, "startpos", "e2e4", assessed(0.1, true));
        search(&mut games, reply, "g1f3", assessed(-1.0, false));
        games.end(&note);
        let said = notes.take();
        let is_error = |text: &String| text.starts_with("error: LostGamesFile: ");
        assert!(said.len() == 2 && said.iter().all(is_error), "{said:?}");
        fs::remove_dir(&path).unwrap();
        let avoided = search(&mut games, "startpos", "d2d4", assessed(0.1, true));
        assert_eq!(avoided, 1, "the session avoids the move meanwhile");
        games.end(&note);
        let line = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - am e4;";
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{line}\n"));
        assert_eq!(notes.take(), [format!("LostGamesFile: added {line}")]);
        games.end(&note);
        assert!(notes.take().is_empty());
    }

    #[test]
    fn what_cannot_be_understood_is_left_out_and_what_cannot_be_read_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lost.epd");
        let notes = RefCell::new(Vec::new());
        let note = |text: &str| notes.borrow_mut().push(text.to_owned());
        let game = History::default();
        let begin = |path: &Path| {
            let mut games = LostGames::default();
            games.begin(&path.to_string_lossy(), &game, &note).len()
        };
        assert_eq!(begin(&path), 0);
        assert!(notes.borrow().is_empty(), "a missing file is an empty one");
        let position = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq -";
        let text = format!(
            "\n{position} am e4 Nf3;\n{position} bm d4;\n{position} am e5;\nx\n{position} am d2d4;\n"
        );
        fs::write(&path, text).unwrap();
        assert_eq!(begin(&path), 3);
        let said = notes.take();
        assert!(
            said.len() == 1 && said[0].contains(": 3 lines of ") && said[0].contains("line 3"),
            "{said:?}"
        );
        fs::write(&path, "x\n").unwrap();
        assert_eq!(begin(&path), 0);
        assert!(notes.take()[0].contains(": 1 line of "));
        for bytes in [&b"\xff\xfe\x00"[..], b"\0\0", &vec![b'a'; 2 << 20]] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(begin(&path), 0);
            let said = notes.take();
            assert!(
                said.len() == 1 && said[0].starts_with("error: LostGamesFile"),
                "{said:?}"
            );
            let e4 = epd::moves(game.position(), "e4").unwrap()[0];
            assert!(add(&path, &[epd_line(game.position(), e4)]).is_err());
            assert_eq!(
                fs::read(&path).unwrap(),
                bytes,
                "what is no such file stays as it is"
            );
        }
        assert_eq!(begin(folder.path()), 0);
        assert_eq!(notes.take().len(), 1);
    }

    #[test]
    fn a_game_ends_with_another_one_and_not_with_moves_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder
            .path()
            .join("lost.epd")
            .to_string_lossy()
            .into_owned();
        let notes = RefCell::new(Vec::new());
        let note = |text: &str| notes.borrow_mut().push(text.to_owned());
        let mut games = LostGames::default();
        let mut search = |text: &str, m: &str, assessment: Assessment| {
            let game = history_from_text(text).unwrap();
            let m = setup::parse_move(game.position(), m).unwrap();
            let avoided = games.begin(&path, &game, &note);
            games.answer(Some(m), Some(assessment));
            (avoided.len(), notes.borrow().len())
        };
        let moves = "startpos moves e2e4 e7e5 g1f3 b8c6";
        assert_eq!(search("startpos", "e2e4", assessed(0.1, true)), (0, 0));
        assert_eq!(
            search("startpos moves e2e4 e7e5", "g1f3", assessed(0.1, true)),
            (0, 0)
        );
        // The expected reply is another one than the opponent's.
        assert_eq!(
            search(
                "startpos moves e2e4 e7e5 g1f3 d7d6",
                "d2d4",
                assessed(0.1, true)
            ),
            (0, 0)
        );
        assert_eq!(search(moves, "f1c4", assessed(-1.0, false)), (0, 0));
        // The same game again: it was lost, and the second move is blamed.
        assert_eq!(search("startpos", "e2e4", assessed(0.1, true)), (0, 1));
        assert_eq!(
            search("startpos moves e2e4 e7e5", "d2d4", assessed(0.1, true)),
            (1, 1)
        );
        assert!(fs::read_to_string(&path).unwrap().ends_with("am Nf3;\n"));
        // The other move loses, too, although each of the later ones had an alternative: an earlier one is blamed.
        let other = "startpos moves e2e4 e7e5 d2d4 e5d4";
        assert_eq!(search(other, "d1d4", assessed(0.1, true)), (0, 1));
        let last = format!("{other} d1d4 b8c6");
        assert_eq!(search(&last, "d4e3", assessed(-1.0, false)), (0, 1));
        assert_eq!(search("startpos", "d2d4", assessed(0.1, true)), (1, 2));
        assert!(fs::read_to_string(&path).unwrap().ends_with("am e4;\n"));
        // Another opening without ucinewgame; the last game was not lost.
        assert_eq!(
            search(
                "startpos moves d2d4 d7d5 c2c4 e7e6 b1c3",
                "g8f6",
                assessed(0.0, true)
            ),
            (0, 2)
        );
        assert!(notes.borrow()[0].contains("added"), "{notes:?}");
    }
}
