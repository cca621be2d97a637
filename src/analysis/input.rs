//! The positions to analyse, from the command line, EPD files or games.

use std::{iter, path::Path, sync::Arc};

use anyhow::{Context, Error, Result};
use shakmaty::{Chess, EnPassantMode, Position, fen::Fen};

use crate::{
    chess::{
        History, PackedMove,
        epd::{self, EpdLine},
        setup,
    },
    files,
    game::adjudicate,
    pgn::{Game, Reader, read::tag},
};

/// The game of a position.
#[derive(Clone, Debug)]
pub struct PgnGame {
    /// Its number in the input, from 1.
    pub number: usize,
    /// Its tags.
    pub tags: Vec<(String, String)>,
    /// The start position.
    pub start: Chess,
    /// The moves of the main line.
    pub moves: Vec<PackedMove>,
    /// `1-0`, `0-1`, `1/2-1/2` or `*`.
    pub result: String,
    /// As [`Game::times`].
    pub times: Vec<String>,
}

impl PgnGame {
    /// The value of a tag.
    pub fn tag(&self, name: &str) -> Option<&str> {
        tag(&self.tags, name)
    }

    /// `Carlsen, Magnus - Anand, Viswanathan`, without control characters, which could change a terminal's state;
    /// `None` if the tags name no player.
    pub fn players(&self) -> Option<String> {
        let name = |tag| self.tag(tag).unwrap_or("?");
        let (white, black) = (name("White"), name("Black"));
        let names = format!("{white} - {black}").replace(char::is_control, " ");
        (white != "?" || black != "?").then_some(names)
    }
}

/// One position to analyse.
#[derive(Clone, Debug)]
pub struct Item {
    /// The game up to the position.
    pub history: History,
    /// Unique name within the input, for messages and for resuming.
    pub name: String,
    /// The solutions (EPD's `bm`).
    pub best: Vec<PackedMove>,
    /// The moves to avoid (EPD's `am`).
    pub avoid: Vec<PackedMove>,
    /// The move played in the game.
    pub played: Option<PackedMove>,
    /// The game, if the position is from one.
    pub game: Option<Arc<PgnGame>>,
}

impl Item {
    fn new(history: History, name: String) -> Item {
        Item {
            history,
            name,
            best: Vec::new(),
            avoid: Vec::new(),
            played: None,
            game: None,
        }
    }

    /// The positions that follow in the game, at most `count`: each as the game up to it.
    pub fn following(&self, count: usize) -> impl Iterator<Item = History> + use<> {
        let mut history = self.history.clone();
        let moves = self.game.as_ref().map(|game| game.moves.iter());
        let moves = moves.into_iter().flatten().skip(history.len() - 1);
        let moves: Vec<PackedMove> = moves.take(count).copied().collect();
        moves.into_iter().map(move |m| {
            history.push(m);
            history.clone()
        })
    }

    /// The position as a FEN.
    pub fn fen(&self) -> String {
        Fen::from_position(self.history.position(), EnPassantMode::Legal).to_string()
    }

    /// Whether `m` solves the position; `None` without a known solution.
    pub fn is_solved_by(&self, m: PackedMove) -> Option<bool> {
        match (self.best.is_empty(), self.avoid.is_empty()) {
            (true, true) => None,
            (is_any_best, _) => {
                Some((is_any_best || self.best.contains(&m)) && !self.avoid.contains(&m))
            }
        }
    }

    /// Whether a solution is known.
    pub fn has_solution(&self) -> bool {
        !(self.best.is_empty() && self.avoid.is_empty())
    }
}

/// A stream of positions; what cannot be read is an error with its location.
pub type Items = Box<dyn Iterator<Item = Result<Item>>>;

/// A position from the command line, with the moves that led to it if they follow as in UCI: networks use them, and
/// repetitions count.
///
/// # Errors
/// When the FEN is invalid, or a move is not legal.
pub fn from_fen(text: &str) -> Result<Item> {
    let history = setup::history_from_text(text)?;
    Ok(Item::new(history, text.to_owned()))
}

/// The positions of EPD files, one after the other, whose lines are numbered as if they were one file.
///
/// # Errors
/// When a file cannot be opened; bad lines are errors of the stream.
pub fn from_epd(paths: &[impl AsRef<Path>]) -> Result<Items> {
    let all = opened(paths, |path| Ok(Box::new(files::lines(files::open(path)?))))?;
    let items = all.filter_map(|read| {
        let place = || format!("{}, line {}", read.place.file, read.place.number);
        let line = match read.from {
            Ok(line) => line,
            Err(error) => return Some(Err(error.context(place()))),
        };
        let text = line.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || text.starts_with('#') {
            return None;
        }
        Some(parse_epd(text, read.number).with_context(place))
    });
    Ok(Box::new(items))
}

/// A line or game of several files.
struct Numbered<T> {
    /// Where it is.
    place: FilePlace,
    /// Its number among those of all files, from 1.
    number: usize,
    /// What was read.
    from: T,
}

/// A place in a file.
struct FilePlace {
    file: Arc<str>,
    /// The number of the line or game in it, from 1.
    number: usize,
}

/// What `open` reads from each of the files, one after the other. All are looked at before the first is read, but those
/// that can be opened again are opened only when it is their turn: there may be thousands.
fn opened<T: 'static>(
    paths: &[impl AsRef<Path>],
    open: impl Fn(&Path) -> Result<Box<dyn Iterator<Item = Result<T>>>> + 'static,
) -> Result<impl Iterator<Item = Numbered<Result<T>>> + 'static> {
    let paths = paths.iter().map(AsRef::as_ref);
    let files: Result<Vec<_>> = paths
        .map(|path| {
            let opened = open(path)?;
            let is_read_once = !path.is_file();
            Ok((path.to_owned(), is_read_once.then_some(opened)))
        })
        .collect();
    let all = files?.into_iter().flat_map(move |(path, opened)| {
        let from = match opened {
            Some(opened) => Ok(opened),
            None => open(&path),
        };
        let from = from.unwrap_or_else(|error| Box::new(iter::once(Err(error))));
        let file: Arc<str> = path.display().to_string().into();
        let place = move |number| FilePlace {
            file: Arc::clone(&file),
            number,
        };
        (1..).map(place).zip(from)
    });
    let numbered = |(number, (place, from))| Numbered {
        place,
        number,
        from,
    };
    Ok((1..).zip(all).map(numbered))
}

/// One line of an EPD file.
fn parse_epd(line: &str, number: usize) -> Result<Item> {
    let EpdLine { fen, operations } = EpdLine::parse(line)?;
    let history = setup::history_from(Some(&fen), &[])?;
    let mut item = Item::new(history, format!("#{number}"));
    for operation in operations {
        let (name, value) = operation.split_once(' ').unwrap_or((&operation, ""));
        match name {
            "id" => item.name = format!("#{number} {}", value.trim().trim_matches('"')),
            "bm" => item.best = epd::moves(item.history.position(), value)?,
            "am" => item.avoid = epd::moves(item.history.position(), value)?,
            _ => {}
        }
    }
    Ok(item)
}

/// Every position of the main lines of PGN files, whose games are numbered as if they were one file: those in which a
/// move was played, and the last one, unless the game is over there by the rules. An unclaimed repetition does not end
/// a game. A game without moves has no positions.
///
/// # Errors
/// When a file cannot be opened; bad games are errors of the stream.
pub fn from_pgn(paths: &[impl AsRef<Path>]) -> Result<Items> {
    let all = opened(paths, |path| {
        let games = Reader::open(path)?.accept_unfinished().keep_times();
        Ok(Box::new(games.map(|game| game.map_err(Error::new))))
    })?;
    let items = all.flat_map(|read| -> Items {
        match read.from {
            Ok(game) => Box::new(items_of(game, read.number).map(Ok)),
            Err(error) => {
                let place = format!("{}, game {}", read.place.file, read.place.number);
                Box::new(iter::once(Err(error.context(place))))
            }
        }
    });
    Ok(Box::new(items))
}

/// The positions of a game, one at a time: each contains the game so far, so all together would need quadratic
/// memory.
fn items_of(game: Game, number: usize) -> impl Iterator<Item = Item> {
    let result = game
        .outcome
        .map_or("*".to_owned(), |outcome| outcome.to_string());
    let head = Arc::new(PgnGame {
        number,
        tags: game.tags,
        start: game.start.clone(),
        moves: game.moves,
        result,
        times: game.times,
    });
    let mut history = History::new(game.start);
    (0..=head.moves.len()).filter_map(move |index| {
        let played = head.moves.get(index).copied();
        let position = history.position();
        let goes_on = || history.len() > 1 && adjudicate::by_rules(&history).is_none();
        if played.is_none() && !goes_on() {
            return None;
        }
        let place = format!(
            "game {number}, move {}{}",
            position.fullmoves(),
            position.turn().fold_wb(".", "...")
        );
        let mut item = Item::new(history.clone(), place);
        item.played = played;
        item.game = Some(Arc::clone(&head));
        if let Some(m) = played {
            history.push(m);
        }
        Some(item)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;

    /// A file with this text, which lasts as long as the value.
    pub(in crate::analysis) fn file(text: impl AsRef<[u8]>) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_ref()).unwrap();
        file
    }

    #[test]
    fn the_positions_that_follow_in_a_game_are_known() {
        let game = file("[White \"x\"]\n\n1. e4 e5 2. Nf3 Nc6 *\n");
        let items: Vec<Item> = from_pgn(&[game.path()])
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let count = |index: usize, most| items[index].following(most).count();
        assert_eq!((count(0, 3), count(0, 9), count(2, 3)), (3, 4, 2));
        assert_eq!((count(3, 3), count(4, 3)), (1, 0));
        for (after, item) in items[1].following(3).zip(&items[2..]) {
            assert_eq!(after.last().key, item.history.last().key);
        }
        let alone = Item::new(items[1].history.clone(), "alone".to_owned());
        assert_eq!(alone.following(3).count(), 0);
    }

    #[test]
    fn moves_may_follow_a_position() {
        let there_and_back = "startpos moves g1f3 g8f6 f3g1 f6g8";
        let item = from_fen(there_and_back).unwrap();
        assert_eq!(item.name, there_and_back);
        assert_eq!(item.history.last().repetitions, 1);
        assert_eq!(from_fen("startpos moves").unwrap().history.len(), 1);
        let fen = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1 moves e2e4";
        assert_eq!(
            from_fen(fen).unwrap().fen(),
            "4k3/8/8/8/4P3/8/8/4K3 b - - 0 1"
        );
        let error = from_fen("startpos moves e2e4 e2e4").unwrap_err();
        assert!(error.to_string().contains("number 2"), "{error}");
    }

    #[test]
    fn unusual_text_does_not_end_a_file() {
        let latin1 = b"4k3/8/8/8/8/8/8/4K2R w K - id \"M\xfcller\";\n4k3/8/8/8/8/8/8/4K2R w - -";
        let items: Vec<_> = from_epd(&[file(latin1).path()]).unwrap().collect();
        assert_eq!(items.len(), 2);
        assert_eq!(items[0].as_ref().unwrap().name, "#1 M\u{fffd}ller");
        assert!(items[1].is_ok());
        let long = "x".repeat(5000);
        let games = file(format!(
            "[Event \"{long}\"]\n\n1. e4 *\n\n[White \"b\"]\n\n1. d4 *\n"
        ));
        let items: Vec<_> = from_pgn(&[games.path()]).unwrap().collect();
        // Two positions of each game.
        assert_eq!(items.iter().filter(|item| item.is_ok()).count(), 4);
        let lines = format!("{}\n4k3/8/8/8/8/8/8/4K2R w - -\n", "x".repeat(1 << 20));
        let items: Vec<_> = from_epd(&[file(lines).path()]).unwrap().collect();
        assert_eq!(items.len(), 2);
        assert!(format!("{:#}", items[0].as_ref().unwrap_err()).contains("line 1: it is longer"));
        assert_eq!(items[1].as_ref().unwrap().name, "#2");
    }

    #[test]
    fn an_unreadable_move_is_reported_with_game_and_ply() {
        let games = file("1. e4 *\n\n[White \"b\"]\n\n1. e4 e5 2. Sf3 Nc6 *\n\n1. d4 *\n");
        let items: Vec<_> = from_pgn(&[games.path()]).unwrap().collect();
        assert_eq!(items.len(), 5);
        let error = format!("{:#}", items[2].as_ref().unwrap_err());
        assert!(
            error.contains("game 2") && error.contains("'Sf3' at ply 3"),
            "{error}"
        );
    }

    #[test]
    fn several_files_are_numbered_as_one_and_errors_name_the_place_in_each() {
        let games = [
            "1. e4 *\n\n[White \"b\"]\n\n1. d4 *\n",
            "1. c4 *\n\n1. Sf3 *\n",
        ]
        .map(file);
        let paths = games.each_ref().map(|game| game.path());
        let items: Vec<_> = from_pgn(&paths).unwrap().collect();
        let names = items.iter().flatten().map(|item| &*item.name);
        let expected = ["game 1, move 1.", "game 2, move 1.", "game 3, move 1."];
        assert_eq!(names.step_by(2).collect::<Vec<_>>(), expected);
        let error = format!("{:#}", items[6].as_ref().unwrap_err());
        let place = format!("{}, game 2", paths[1].display());
        assert!(error.contains(&place), "{error}");

        let line = "4k3/8/8/8/8/8/8/4K2R w K -\n";
        let positions = [format!("{line}{line}"), format!("# one\n{line}nonsense\n")].map(file);
        let paths = positions.each_ref().map(|file| file.path());
        let items: Vec<_> = from_epd(&paths).unwrap().collect();
        let names = items.iter().flatten().map(|item| &*item.name);
        assert_eq!(names.collect::<Vec<_>>(), ["#1", "#2", "#4"]);
        let error = format!("{:#}", items[3].as_ref().unwrap_err());
        let place = format!("{}, line 3", paths[1].display());
        assert!(error.contains(&place), "{error}");

        // No file is read if one of them is missing, and a thousand are not open at once.
        let many = vec![paths[0]; 3000];
        assert_eq!(from_epd(&many).unwrap().flatten().count(), 6000);
        let missing = [paths[0], Path::new("no such file")];
        assert!(from_epd(&missing).is_err() && from_pgn(&missing).is_err());
    }

    #[test]
    fn epd_operations_give_counters_and_moves_to_avoid() {
        let file = file("4k3/8/8/8/8/8/8/4K2R w K - bm O-O Kd2; am Kd2; hmvc 50; fmvn 80;\n");
        let item = from_epd(&[file.path()]).unwrap().next().unwrap().unwrap();
        assert_eq!(item.fen(), "4k3/8/8/8/8/8/8/4K2R w K - 50 80");
        let [castling, king] = item.best[..] else {
            panic!("{:?}", item.best)
        };
        assert_eq!(item.is_solved_by(castling), Some(true));
        assert_eq!(item.is_solved_by(king), Some(false));
    }

    #[test]
    fn epd_with_operations_comments_and_errors() {
        let file = file(
            "# a comment\n\
             4k3/8/8/8/8/8/8/4K2R w K - bm O-O Kd2; id \"castle; or not\";\n\
             4k3/8/8/8/8/8/8/4K2R w K - 3 40 am Kd1+!;\n\
             nonsense\n\
             4k3/8/8/8/8/8/8/4K2R w K - bm Qxh8;\n",
        );
        let items: Vec<_> = from_epd(&[file.path()]).unwrap().collect();
        assert_eq!(items.len(), 4);
        let first = items[0].as_ref().unwrap();
        assert_eq!(first.name, "#2 castle; or not");
        assert_eq!(first.best.len(), 2);
        assert_eq!(first.is_solved_by(first.best[0]), Some(true));
        let second = items[1].as_ref().unwrap();
        assert_eq!(second.history.last().rule50(), 3);
        assert_eq!(second.is_solved_by(second.avoid[0]), Some(false));
        for (item, place) in [(&items[2], "line 4"), (&items[3], "line 5")] {
            let error = format!("{:#}", item.as_ref().unwrap_err());
            assert!(error.contains(place), "{error}");
        }
    }

    #[test]
    fn positions_after_the_end_by_rules_are_ignored() {
        let items = |text: &str| from_pgn(&[file(text).path()]).unwrap().count();
        let thrice = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8";
        assert_eq!(items(&format!("{thrice} 1/2-1/2\n")), 8);
        // The draw was not claimed.
        assert_eq!(items(&format!("{thrice} 5. e4 *\n")), 10);
        for (fen, m, count) in [
            ("4k3/8/8/8/8/8/8/R3K3 w - - 98 90", "Kf1", 2),
            ("4k3/8/8/8/8/8/8/R3K3 w - - 99 90", "Kf1", 1),
            ("4k3/8/8/8/8/8/3p4/4K3 w - - 0 90", "Kxd2", 1),
        ] {
            let game = format!("[FEN \"{fen}\"]\n\n1. {m} 1/2-1/2\n");
            assert_eq!(items(&game), count, "{fen}");
        }
    }

    #[test]
    fn games_give_a_position_per_move_and_the_last() {
        let file = file(
            "[White \"a\"]\n\n1. e4 {good} e5 (1... c5 2. Nf3) 2. Nf3 *\n\n\
             [FEN \"7k/Q7/6K1/8/8/8/8/8 w - - 0 30\"]\n\n30. Qa8# 1-0\n\n[White \"c\"]\n\n*\n\n\
             [White \"bad\"]\n\n1. e5 *\n\n",
        );
        let items: Vec<_> = from_pgn(&[file.path()]).unwrap().collect();
        assert_eq!(items.len(), 6);
        let names: Vec<_> = items[..5]
            .iter()
            .map(|item| item.as_ref().unwrap().name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "game 1, move 1.",
                "game 1, move 1...",
                "game 1, move 2.",
                "game 1, move 2...",
                "game 2, move 30."
            ]
        );
        assert_eq!(items[3].as_ref().unwrap().played, None);
        let players = |item: &Result<Item>| item.as_ref().unwrap().game.as_ref()?.players();
        assert_eq!(players(&items[0]).as_deref(), Some("a - ?"));
        assert_eq!(players(&items[4]), None);
        assert!(items[5].is_err());
    }
}
