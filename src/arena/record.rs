//! The file of a match: its games as PGN, appended one by one, and beside it the settings, so that a stopped match is
//! resumed correctly and not mixed with another one.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};
use shakmaty::{Chess, KnownOutcome};

use super::{
    game::MatchGame,
    tally::{Round, Tally},
};
use crate::{
    files::{self, differences::differences, output},
    game::openings::Opening,
    pgn::{Game, Reader, write::GameText},
};

/// The settings that determine the games of a match, by name.
pub type MatchSettings = Map<String, Value>;

/// An open file of games.
#[derive(Debug)]
pub struct GameRecord {
    file: File,
    path: PathBuf,
    /// Length of the complete games in bytes.
    length: u64,
}

/// The tags of a game that are the same for the match.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The day, as in `2026.11.26`.
    pub date: &'a str,
    /// White's and Black's names, see [`distinct_names`].
    pub names: [&'a str; 2],
    /// White and Black as given in the arguments.
    pub players: [&'a str; 2],
    /// The names that the engines gave themselves.
    pub engines: [&'a str; 2],
    /// White's and Black's limits.
    pub limits: [&'a str; 2],
    /// Whether castling follows Chess960's rules.
    pub chess960: bool,
}

impl GameRecord {
    /// Opens or creates the file of a match; its games are added to the tally. `inputs` are never written.
    ///
    /// # Errors
    /// When it cannot be read or written, or belongs to another match; it is unchanged then.
    pub fn open(
        path: &Path,
        settings: &MatchSettings,
        openings: &[Opening],
        inputs: &[PathBuf],
        tally: &mut Tally,
    ) -> Result<GameRecord> {
        let name = path.display();
        let is_packed = path.extension().is_some_and(|e| e == "gz" || e == "zst");
        ensure!(
            !is_packed,
            "{name}: games are appended, so the file cannot be compressed"
        );
        ensure!(!path.is_dir(), "{name} is a folder: name a file");
        let is_begun = fs::metadata(path).is_ok_and(|file| file.len() > 0);
        check_settings(path, is_begun, settings)?;
        let mut file = output::open_to_continue(path, inputs)?;
        let mut bytes = Vec::new();
        let read = file.read_to_end(&mut bytes);
        read.with_context(|| format!("cannot read {name}"))?;
        let length = count_games(path, &bytes, openings, tally)?;
        let rest = &bytes[length..];
        check_rest(rest).with_context(|| format!("{name}, after its last complete game"))?;
        if !is_begun {
            let text = serde_json::to_string_pretty(settings)? + "\n";
            output::write(&settings_path(path), text.as_bytes(), true, inputs)?;
        }
        let mut record = GameRecord {
            file,
            path: path.to_owned(),
            length: length as u64,
        };
        let cut = record.cut(&bytes[..length]);
        cut.with_context(|| format!("cannot write {name}"))?;
        Ok(record)
    }

    /// Removes everything after the complete games, and ends the last one with an empty line.
    fn cut(&mut self, whole: &[u8]) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))?;
        let missing = match whole {
            [] | [.., b'\n', b'\n'] => "",
            [.., b'\n'] => "\n",
            _ => "\n\n",
        };
        self.file.write_all(missing.as_bytes())?;
        self.length = self.file.stream_position()?;
        Ok(())
    }

    /// Appends a game, see [`game_text`].
    ///
    /// # Errors
    /// When it cannot be written completely (a full disk); earlier games stay.
    pub fn write(&mut self, text: &str) -> Result<()> {
        self.append(text.as_bytes(), |file, bytes| file.write_all(bytes))
    }

    /// Appends the bytes that `write` writes, or nothing.
    fn append(
        &mut self,
        bytes: &[u8],
        write: impl FnOnce(&mut File, &[u8]) -> io::Result<()>,
    ) -> Result<()> {
        let written = write(&mut self.file, bytes).and_then(|()| self.file.flush());
        if let Err(error) = written {
            // Restores the file, if the disk allows it; otherwise the next run removes the incomplete game.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(error).with_context(|| format!("cannot write {}", self.path.display()));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// The names of the two players: those that their engines gave themselves, or if these are equal, the first that is not
/// of command lines, command lines with limits, and command lines with the number of the player.
pub fn distinct_names(engines: [&str; 2], commands: [&str; 2], limits: [&str; 2]) -> [String; 2] {
    let with_limits = [0, 1].map(|player| format!("{} ({})", commands[player], limits[player]));
    let candidates = [
        engines.map(str::to_owned),
        commands.map(str::to_owned),
        with_limits,
    ];
    let distinct = candidates
        .into_iter()
        .find(|[first, second]| first != second);
    distinct.unwrap_or_else(|| [0, 1].map(|player| format!("{} #{}", commands[player], player + 1)))
}

/// The game as PGN.
pub fn game_text(round: Round, start: &Chess, played: &MatchGame, labels: &Labels<'_>) -> String {
    let result = played.outcome.as_str();
    let commands = labels.players.map(str::to_owned);
    let engines = labels.engines.map(str::to_owned);
    let [white, black] = labels.names.map(str::to_owned);
    let ([white_command, black_command], [white_engine, black_engine]) = (commands, engines);
    let [white_limit, black_limit] = labels.limits.map(str::to_owned);
    let mut tags = vec![
        ("Event", "match".to_owned()),
        ("Site", "?".to_owned()),
        ("Date", labels.date.to_owned()),
        ("Round", round.text()),
        ("White", white),
        ("Black", black),
        ("Result", result.to_owned()),
        ("WhiteEngine", white_engine),
        ("BlackEngine", black_engine),
        ("WhiteCommand", white_command),
        ("BlackCommand", black_command),
        ("WhiteLimit", white_limit),
        ("BlackLimit", black_limit),
        ("Termination", played.termination.tag().to_owned()),
        ("TerminationDetails", played.termination.details()),
    ];
    if let Some(clock) = common_clock(labels.limits) {
        tags.push(("TimeControl", clock.to_owned()));
    }
    if labels.chess960 {
        tags.push(("Variant", "Chess960".to_owned()));
    }
    let game = GameText {
        tags,
        start,
        moves: &played.moves,
        nags: &[],
        result,
    };
    game.text()
}

/// The clock of both players as PGN writes it, such as `40/60+0.6`; `None` where they have different ones or none.
fn common_clock([white, black]: [&str; 2]) -> Option<&str> {
    white.strip_prefix("clock=").filter(|_| white == black)
}

/// The day in UTC as PGN writes it: `2026.11.26`. (The algorithm is Howard Hinnant's `civil_from_days`, which counts
/// years from March on.)
pub fn date_of(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + 400 * era + u64::from(month <= 2);
    format!("{year:04}.{month:02}.{day:02}")
}

/// The path of the settings, beside the games.
fn settings_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

/// Checks that the match in this file, if there is one, has these settings.
fn check_settings(path: &Path, is_begun: bool, settings: &MatchSettings) -> Result<()> {
    let (name, beside) = (path.display(), settings_path(path));
    if !is_begun && !beside.exists() {
        return Ok(());
    }
    let text = files::read_text(&beside).with_context(|| {
        format!("{name} contains games without the settings of their match: use another file")
    })?;
    let earlier: Option<MatchSettings> = serde_json::from_str(&text).ok();
    let earlier = earlier.filter(|earlier| earlier.contains_key("first"));
    let earlier = earlier.with_context(|| {
        format!(
            "{} does not hold the settings of a match: name another file",
            beside.display()
        )
    })?;
    let different = differences(&earlier, settings);
    // Without a game nothing can be mixed up.
    ensure!(
        different.is_empty() || !is_begun,
        "{name} belongs to another match: use its settings or another file ({})",
        different.join("; ")
    );
    Ok(())
}

/// Counts the games of a match; returns the length of the complete games in bytes.
fn count_games(
    path: &Path,
    bytes: &[u8],
    openings: &[Opening],
    tally: &mut Tally,
) -> Result<usize> {
    let name = path.display();
    let whole = whole_games(bytes);
    for (index, game) in Reader::new(&bytes[..whole]).enumerate() {
        let number = index + 1;
        let game = game.with_context(|| format!("{name} is damaged"))?;
        count(&game, openings, tally)
            .with_context(|| format!("{name}: game {number} is not of this match"))?;
    }
    Ok(whole)
}

/// The end of the last complete game; text after it was being written when the program was killed. Lines may end as in
/// Windows, and in spaces, because another program may have saved the file.
fn whole_games(bytes: &[u8]) -> usize {
    let ends_here = |end: usize| {
        let line = bytes[..end].trim_ascii_end();
        let results = [&b"1-0"[..], b"0-1", b"1/2-1/2"];
        let is_result = results.iter().any(|result| {
            let before = line.strip_suffix(*result);
            before.is_some_and(|text| text.ends_with(b" ") || text.ends_with(b"\n"))
        });
        is_result.then_some(line.len())
    };
    let is_line_end = |&end: &usize| end == bytes.len() || bytes[end] == b'\n';
    let ends = (1..=bytes.len()).rev().filter(is_line_end);
    ends.into_iter().find_map(ends_here).unwrap_or(0)
}

/// Checks that the text after the complete games is at most the beginning of one: only that may be removed.
fn check_rest(rest: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(rest);
    let events = text.matches("[Event ").count();
    let ends_without_result = text.trim_end().ends_with(" *");
    ensure!(
        events <= 1 && !ends_without_result && (events == 1 || text.trim().len() <= EVENT.len()),
        "is text that is no game of this match: remove it, or name another file"
    );
    Ok(())
}

/// How the text of a game begins.
const EVENT: &str = "[Event \"match\"]";

fn count(game: &Game, openings: &[Opening], tally: &mut Tally) -> Result<()> {
    let round = game.tag("Round").and_then(Round::parse);
    let round = round.context("it has no round")?;
    let outcome: KnownOutcome = game.outcome.context("it has no result")?;
    if let Some(opening) = openings.get(round.pair) {
        let is_same = game.start == opening.start && game.moves.starts_with(&opening.moves);
        ensure!(is_same, "round {} has another opening", round.text());
    } else {
        bail!(
            "round {} is beyond the requested number of pairs",
            round.text()
        );
    }
    let termination = game.tag("Termination").unwrap_or_default();
    let details = game.tag("TerminationDetails").unwrap_or_default();
    let is_forfeit = !matches!(termination, "normal" | "adjudication" | "");
    tally.add(round, outcome, details, is_forfeit);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{arena::game::Termination, chess::setup, game::adjudicate::Ending};
    use shakmaty::Color;

    fn played(start: &Chess) -> MatchGame {
        let m = setup::parse_move(start, "e2e4").unwrap();
        MatchGame {
            moves: vec![(m, "[%eval 0.10]".into())],
            outcome: KnownOutcome::Decisive {
                winner: Color::White,
            },
            termination: Termination::Ended(Ending::AgreedWin),
        }
    }

    const LABELS: Labels<'static> = Labels {
        date: "2026.11.26",
        names: ["Scorn 1", "Other 2"],
        players: ["a", "b"],
        engines: ["Scorn 1", "Other 2"],
        limits: ["nodes=1", "nodes=2"],
        chess960: false,
    };

    fn settings(seed: u64) -> MatchSettings {
        let mut settings = MatchSettings::new();
        settings.insert("first".into(), "a".into());
        settings.insert("seed".into(), seed.into());
        settings
    }

    #[test]
    fn an_incomplete_last_game_is_detected_at_every_length() {
        let start = Chess::default();
        let round = Round { pair: 0, half: 0 };
        let game = game_text(round, &start, &played(&start), &LABELS);
        let two = format!("{game}{game}");
        for end in 0..=two.len() {
            let whole = whole_games(&two.as_bytes()[..end]);
            let games = Reader::new(&two.as_bytes()[..whole]).map(Result::unwrap);
            // The result ends two bytes before the end of the text.
            let expected = (end + 2) / game.len();
            assert_eq!(games.count(), expected, "{end}");
            assert!(whole <= end);
        }
    }

    #[test]
    fn a_file_that_another_program_saved_keeps_its_games() {
        let start = Chess::default();
        let games: Vec<String> = (0..2)
            .map(|half| game_text(Round { pair: 0, half }, &start, &played(&start), &LABELS))
            .collect();
        let unix = games.concat();
        let counted = |text: &str| -> Result<(u64, String)> {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.pgn");
            let openings = vec![Opening::standard(); 2];
            let open = |tally: &mut Tally| {
                GameRecord::open(&path, &settings(1), &openings, &[], tally).map(drop)
            };
            // The settings are written with the first game.
            open(&mut Tally::new(true, None)).unwrap();
            fs::write(&path, text).unwrap();
            let mut tally = Tally::new(true, None);
            let opened = open(&mut tally);
            let after = fs::read_to_string(&path).unwrap();
            if opened.is_err() {
                assert_eq!(after, text, "a refused file has changed");
            }
            opened.map(|()| (tally.games().total(), after))
        };
        let windows = unix.replace('\n', "\r\n");
        assert_eq!(counted(&windows).unwrap().0, 2);
        assert_eq!(counted(&unix.replace(" 1-0\n", " 1-0 \n")).unwrap().0, 2);
        // An incomplete game is removed, ...
        let half = &games[1][..games[1].len() / 2];
        let (whole, after) = counted(&format!("{}{half}", games[0])).unwrap();
        assert_eq!((whole, after), (1, games[0].clone()));
        // ... and nothing else.
        let unfinished = games[1].replace("1-0", "*");
        for rest in [&unfinished[..], &half.repeat(2), "1. e4 e5 2. Nf3 Nc6"] {
            let error = counted(&format!("{}{rest}", games[0])).unwrap_err();
            let error = format!("{error:#}");
            assert!(
                error.contains("a.pgn, after its last complete game: is text"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_clock_that_both_have_is_in_the_usual_tag() {
        assert_eq!(common_clock(["clock=40/60+0.6"; 2]), Some("40/60+0.6"));
        assert_eq!(common_clock(["clock=2+0", "clock=1+0"]), None);
        assert_eq!(common_clock(["nodes=5"; 2]), None);
    }

    #[test]
    fn games_have_a_date_and_the_engines_names() {
        let start = Chess::default();
        let round = Round { pair: 0, half: 0 };
        let text = game_text(round, &start, &played(&start), &LABELS);
        for tag in [
            "[Date \"2026.11.26\"]",
            "[White \"Scorn 1\"]",
            "[Black \"Other 2\"]",
            "[WhiteCommand \"a\"]",
        ] {
            assert!(text.contains(tag), "{text}");
        }
        let twins = Labels {
            names: ["a", "b"],
            engines: ["Scorn 1"; 2],
            ..LABELS
        };
        let text = game_text(round, &start, &played(&start), &twins);
        assert!(text.contains("[White \"a\"]") && text.contains("[BlackEngine \"Scorn 1\"]"));
        let day = |days: u64| date_of(UNIX_EPOCH + std::time::Duration::from_secs(86_400 * days));
        for (days, expected) in [
            (0, "1970.01.01"),
            (59, "1970.03.01"),
            (11_016, "2000.02.29"),
            (20_783, "2026.11.26"),
            (47_540, "2100.02.28"),
            (47_541, "2100.03.01"),
        ] {
            assert_eq!(day(days), expected);
        }
    }

    #[test]
    fn players_are_told_apart() {
        let names = |engines, commands, limits| distinct_names(engines, commands, limits);
        let (commands, limits) = (["a", "b"], ["nodes=1", "nodes=2"]);
        let other_engines = names(["Scorn 1", "Other 2"], commands, limits);
        assert_eq!(other_engines, ["Scorn 1", "Other 2"]);
        assert_eq!(names(["Scorn 1"; 2], commands, limits), ["a", "b"]);
        let other_limits = names(["Scorn 1"; 2], ["a"; 2], limits);
        assert_eq!(other_limits, ["a (nodes=1)", "a (nodes=2)"]);
        let equal = names(["Scorn 1"; 2], ["a"; 2], ["nodes=1"; 2]);
        assert_eq!(equal, ["a #1", "a #2"]);
    }

    #[test]
    fn a_full_disk_leaves_earlier_games() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pgn");
        let openings = vec![Opening::standard(); 2];
        let mut tally = Tally::new(true, None);
        let mut record = GameRecord::open(&path, &settings(1), &openings, &[], &mut tally).unwrap();
        let start = Chess::default();
        let round = Round { pair: 0, half: 0 };
        let text = game_text(round, &start, &played(&start), &LABELS);
        record.write(&text).unwrap();
        let before = fs::read(&path).unwrap();
        drop(record);
        let mut record = GameRecord::open(&path, &settings(1), &openings, &[], &mut tally).unwrap();
        assert_eq!(tally.games().total(), 1);
        assert_eq!(record.length, before.len() as u64);
        // A disk that becomes full in the middle of a game.
        let fail = |file: &mut File, bytes: &[u8]| {
            file.write_all(&bytes[..bytes.len() / 2])?;
            Err(io::ErrorKind::StorageFull.into())
        };
        let error = record.append(text.as_bytes(), fail).unwrap_err();
        assert!(error.to_string().contains("a.pgn"));
        assert_eq!(fs::read(&path).unwrap(), before);
        // The next game follows the complete ones.
        record.write(&text).unwrap();
        let both = [&before[..], text.as_bytes()].concat();
        assert_eq!(fs::read(&path).unwrap(), both);
        drop(record);
        let other = GameRecord::open(&path, &settings(2), &openings, &[], &mut tally);
        assert!(
            other
                .unwrap_err()
                .to_string()
                .contains("(seed was 1, is 2)")
        );
        assert_eq!(fs::read(&path).unwrap(), both);
    }
}
