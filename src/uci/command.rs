//! Parses the lines that GUIs send into [`Command`]s. Nothing here has a position, so moves and FENs stay text until
//! the engine checks them.

use std::time::Duration;

use thiserror::Error;

use crate::{
    chess::setup,
    engine::{Go, IgnoredWord},
};

/// One line from the GUI.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// `uci`: print name, author and options.
    Uci,
    /// `isready`: print `readyok` when everything before is done.
    IsReady,
    /// `ucinewgame`: the next position belongs to another game.
    NewGame,
    /// `setoption name ... [value ...]`.
    SetOption {
        /// The option's name, with its spaces.
        name: String,
        /// The value; `None` for buttons.
        value: Option<String>,
    },
    /// `position startpos|fen ... [moves ...]`.
    Position {
        /// The start position; `None` is the normal one.
        fen: Option<String>,
        /// The moves played from there.
        moves: Vec<String>,
    },
    /// `go ...`.
    Go(Go),
    /// `ponderhit`: the expected reply was played.
    PonderHit,
    /// `stop`: end the search and print the result.
    Stop,
    /// `quit`.
    Quit,
    /// `wait`: do not process further commands before the search has ended.
    Wait,
    /// `d`: print the position.
    Display,
    /// `help`: print a short help.
    Help,
    /// A command without effect (`debug`, `register`), or an empty line.
    Nothing,
}

/// Why a line was not parsed.
#[derive(Debug, Error, PartialEq)]
pub enum CommandError {
    /// There is no such command.
    #[error("unknown command '{0}'")]
    Unknown(String),
    /// A part of the command is missing.
    #[error("{command}: {missing} is missing")]
    Missing {
        /// The command's name.
        command: &'static str,
        /// What is missing.
        missing: &'static str,
    },
    /// An unknown word.
    #[error("{command}: '{word}' is invalid here: moves follow the word 'moves'")]
    UnknownWord {
        /// The command's name.
        command: &'static str,
        /// The unknown word.
        word: String,
    },
}

/// Parses one line.
///
/// # Errors
/// When it is not a command, or an incomplete one.
pub fn parse(line: &str) -> Result<Command, CommandError> {
    let Some((first, after)) = next_word(line) else {
        return Ok(Command::Nothing);
    };
    let rest: Vec<&str> = after.split_whitespace().collect();
    match first {
        "uci" => Ok(Command::Uci),
        "isready" => Ok(Command::IsReady),
        "ucinewgame" => Ok(Command::NewGame),
        "setoption" => set_option(after),
        "position" => position(&rest),
        "go" => Ok(Command::Go(go(&rest))),
        "ponderhit" => Ok(Command::PonderHit),
        "stop" => Ok(Command::Stop),
        "quit" | "exit" => Ok(Command::Quit),
        "wait" => Ok(Command::Wait),
        "d" => Ok(Command::Display),
        "help" | "?" => Ok(Command::Help),
        "debug" | "register" => Ok(Command::Nothing),
        other => match known_command(after) {
            Some(line) => parse(line),
            None => Err(CommandError::Unknown(shorten(other))),
        },
    }
}

/// The rest of a line from the first word on that is a command of the protocol, which says that words before it that
/// are unknown have to be ignored.
fn known_command(mut text: &str) -> Option<&str> {
    const COMMANDS: [&str; 10] = [
        "uci",
        "debug",
        "isready",
        "setoption",
        "register",
        "ucinewgame",
        "position",
        "go",
        "stop",
        "quit",
    ];
    while let Some((word, after)) = next_word(text) {
        if COMMANDS.contains(&word) {
            return Some(text);
        }
        text = after;
    }
    None
}

/// The first word of a text, and what follows it.
fn next_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Only `name` and `value` have a meaning; everything between and after them belongs to the texts. Spaces within a
/// value stay as they are, because names of files have some.
fn set_option(text: &str) -> Result<Command, CommandError> {
    let missing = CommandError::Missing {
        command: "setoption",
        missing: "name",
    };
    let mut rest = match next_word(text) {
        Some((first, after)) if first.eq_ignore_ascii_case("name") => after,
        _ => return Err(missing),
    };
    let (mut name, mut value) = (Vec::new(), None);
    while let Some((word, after)) = next_word(rest) {
        if word.eq_ignore_ascii_case("value") {
            value = Some(after.trim().to_owned());
            break;
        }
        name.push(word);
        rest = after;
    }
    if name.is_empty() {
        return Err(missing);
    }
    Ok(Command::SetOption {
        name: name.join(" "),
        value,
    })
}

fn position(words: &[&str]) -> Result<Command, CommandError> {
    let split = words.iter().position(|w| *w == "moves");
    let (place, moves) = match split {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &words[words.len()..]),
    };
    let fen = match place {
        ["startpos"] => None,
        ["fen", fields @ ..] if !fields.is_empty() => Some(fields.join(" ")),
        ["startpos", word, ..] => {
            return Err(CommandError::UnknownWord {
                command: "position",
                word: shorten(word),
            });
        }
        _ => {
            return Err(CommandError::Missing {
                command: "position",
                missing: "startpos or fen",
            });
        }
    };
    Ok(Command::Position {
        fen,
        moves: moves.iter().map(|m| (*m).to_owned()).collect(),
    })
}

/// The keywords of `go`; every word after `searchmoves` up to the next keyword is taken as a move, legal or not.
const GO_KEYWORDS: [&str; 13] = [
    "wtime",
    "btime",
    "winc",
    "binc",
    "movestogo",
    "depth",
    "nodes",
    "mate",
    "movetime",
    "perft",
    "infinite",
    "ponder",
    "searchmoves",
];

/// The most plies that `go perft` takes: nobody can wait for more, and the count calls itself for each.
const MAX_PERFT: u32 = 30;

/// Keywords whose value is never negative; clocks may be negative.
const COUNTS: [&str; 4] = ["depth", "nodes", "mate", "perft"];

/// Parses `go`. Unknown words are ignored, because the GUI waits for an answer in any case.
fn go(words: &[&str]) -> Go {
    let mut go = Go::default();
    let mut ignored_words = Vec::new();
    let mut rest = words;
    while let Some((&word, after)) = rest.split_first() {
        rest = after;
        let mut number = || {
            let is_value = |next: &&str| !GO_KEYWORDS.contains(next);
            let count = usize::from(after.first().is_some_and(is_value));
            let (value, after) = after.split_at(count);
            rest = after;
            let number = value.first().and_then(|value| parse_number(value));
            let number = number.filter(|&number| number >= 0 || !COUNTS.contains(&word));
            if number.is_none() {
                let text = shorten(&[&[word], value].concat().join(" "));
                ignored_words.push(match value {
                    [] => IgnoredWord::NoNumber(text),
                    _ => IgnoredWord::BadNumber(text),
                });
            }
            number
        };
        match word {
            "wtime" => go.wtime = number().map(millis),
            "btime" => go.btime = number().map(millis),
            "winc" => go.winc = number().map(millis).unwrap_or_default(),
            "binc" => go.binc = number().map(millis).unwrap_or_default(),
            // Some GUIs send 0 for "none".
            "movestogo" => go.moves_to_go = number().map(saturating_u32).filter(|&n| n > 0),
            "depth" => go.depth = number().map(saturating_u32),
            "nodes" => go.nodes = number().map(|n| n as u64),
            "mate" => go.mate = number().map(saturating_u32),
            "movetime" => go.movetime = number().map(millis),
            "perft" => match number().map(saturating_u32) {
                Some(plies) if plies > MAX_PERFT => ignored_words.push(IgnoredWord::TooDeep {
                    plies,
                    most: MAX_PERFT,
                }),
                depth => go.perft = depth,
            },
            "infinite" => go.infinite = true,
            "ponder" => go.ponder = true,
            "searchmoves" => {
                let count = rest.iter().take_while(|w| !GO_KEYWORDS.contains(w)).count();
                let (moves, after) = rest.split_at(count);
                go.search_moves
                    .extend(moves.iter().map(|m| (*m).to_owned()));
                rest = after;
            }
            _ => ignored_words.push(IgnoredWord::Unknown(shorten(word))),
        }
    }
    // Such words without a valid limit are a mistake rather than an infinite search.
    let is_timed = go.winc > Duration::ZERO || go.binc > Duration::ZERO || go.moves_to_go.is_some();
    if (!ignored_words.is_empty() || is_timed) && !go.has_limit() {
        (go.nodes, go.lacks_limit) = (Some(1), true);
    }
    Go {
        ignored_words,
        ..go
    }
}

/// Parses a number. Some GUIs send decimals or more digits than fit; the value is truncated or clamped.
fn parse_number(value: &str) -> Option<i64> {
    value.parse::<i64>().ok().or_else(|| {
        let number: f64 = value.parse().ok()?;
        // A cast from float saturates.
        number.is_finite().then_some(number as i64)
    })
}

/// A negative clock counts as zero.
fn millis(number: i64) -> Duration {
    Duration::from_millis(number.max(0) as u64)
}

fn saturating_u32(number: i64) -> u32 {
    number.clamp(0, i64::from(u32::MAX)) as u32
}

/// Shortens a word for an error message.
fn shorten(word: &str) -> String {
    setup::shorten_to(word, 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn options_with_spaces_and_odd_case() {
        let set = |name: &str, value: Option<&str>| Command::SetOption {
            name: name.into(),
            value: value.map(str::to_owned),
        };
        for (line, command) in [
            ("setoption name Hash value 16", set("Hash", Some("16"))),
            (
                "setoption  name  Move   Overhead  value  50 ",
                set("Move Overhead", Some("50")),
            ),
            (
                "setoption NAME WeightsFile VALUE /a b/c.pb.gz",
                set("WeightsFile", Some("/a b/c.pb.gz")),
            ),
            ("setoption name ClearTree", set("ClearTree", None)),
            ("setoption name LogFile value", set("LogFile", Some(""))),
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
        assert!(parse("setoption").is_err());
        assert!(parse("setoption name").is_err());
        assert!(parse("setoption name value 3").is_err());
        assert!(parse("setoption Hash 3").is_err());
    }

    #[test]
    fn a_long_word_is_shortened_with_dots() {
        let error = |line: &str| parse(line).unwrap_err();
        let word = "x".repeat(40);
        assert_eq!(error(&word), CommandError::Unknown(word.clone()));
        let shortened = CommandError::Unknown(format!("{word}..."));
        assert_eq!(error(&format!("{word}y")), shortened);
    }

    #[test]
    fn positions() {
        let moves = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        for (line, fen, list) in [
            ("position startpos", None, ""),
            ("position startpos moves", None, ""),
            ("position startpos moves e2e4 e7e5", None, "e2e4 e7e5"),
            (
                "position fen 8/8/8/8/8/8/8/8  w - - 0 1 moves a1a2",
                Some("8/8/8/8/8/8/8/8 w - - 0 1"),
                "a1a2",
            ),
        ] {
            let expected = Command::Position {
                fen: fen.map(str::to_owned),
                moves: moves(list),
            };
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
        for bad in [
            "position",
            "position fen",
            "position e2e4",
            "position startpos e2e4",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn go_with_everything() {
        let go = Go {
            wtime: Some(ms(1000)),
            btime: Some(ms(0)),
            winc: ms(10),
            binc: ms(20),
            moves_to_go: Some(5),
            depth: Some(3),
            nodes: Some(4_000_000_000),
            mate: Some(2),
            movetime: Some(ms(7)),
            infinite: true,
            ponder: true,
            search_moves: vec!["e2e4".into(), "E7E8q".into()],
            perft: None,
            lacks_limit: false,
            ignored_words: Vec::new(),
            received: None,
        };
        let line = "go wtime 1000 btime -5 winc 10 binc 20 movestogo 5 depth 3 nodes 4000000000 mate 2 \
                    movetime 7.9 infinite searchmoves e2e4 E7E8q ponder";
        assert_eq!(parse(line), Ok(Command::Go(go)));
        assert_eq!(parse("go"), Ok(Command::Go(Go::default())));
        assert_eq!(
            parse("go movestogo 0 wtime 99999999999999999999"),
            Ok(Command::Go(Go {
                wtime: Some(ms(i64::MAX as u64)),
                ..Go::default()
            }))
        );
        assert_eq!(
            parse("go searchmoves O-O wtime 7 sideways"),
            Ok(Command::Go(Go {
                wtime: Some(ms(7)),
                search_moves: vec!["O-O".into()],
                ignored_words: vec![IgnoredWord::Unknown("sideways".into())],
                ..Go::default()
            }))
        );
    }

    /// What is searched without a valid limit.
    fn one() -> Go {
        Go {
            nodes: Some(1),
            lacks_limit: true,
            ..Go::default()
        }
    }

    #[test]
    fn details_without_a_limit_are_no_endless_search() {
        let timed = Go {
            winc: ms(100),
            moves_to_go: Some(5),
            ..one()
        };
        assert_eq!(parse("go winc 100 movestogo 5"), Ok(Command::Go(timed)));
        let cut = Go {
            search_moves: vec!["e2e4".into()],
            ignored_words: vec![IgnoredWord::NoNumber("depth".into())],
            ..one()
        };
        assert_eq!(parse("go searchmoves e2e4 depth"), Ok(Command::Go(cut)));
        let endless = Go {
            search_moves: vec!["e2e4".into()],
            ..Go::default()
        };
        assert_eq!(parse("go searchmoves e2e4"), Ok(Command::Go(endless)));
    }

    #[test]
    fn an_invalid_go_is_still_a_search() {
        let clock = |white, black| Go {
            wtime: white,
            btime: black,
            ..Go::default()
        };
        let none = |text: &str| IgnoredWord::NoNumber(text.to_owned());
        let bad = |text: &str| IgnoredWord::BadNumber(text.to_owned());
        let too_deep = IgnoredWord::TooDeep {
            plies: 99,
            most: MAX_PERFT,
        };
        for (line, ignored_words, go) in [
            ("go wtime", &[none("wtime")][..], one()),
            ("go depth x", &[bad("depth x")], one()),
            ("go nodes nan", &[bad("nodes nan")], one()),
            ("go nodes -5", &[bad("nodes -5")], one()),
            ("go depth -1", &[bad("depth -1")], one()),
            (
                "go sideways",
                &[IgnoredWord::Unknown("sideways".into())],
                one(),
            ),
            ("go wtime wtime", &[none("wtime"), none("wtime")], one()),
            (
                "go wtime 60000 btime",
                &[none("btime")],
                clock(Some(ms(60_000)), None),
            ),
            (
                "go wtime 60,000 btime 60000",
                &[bad("wtime 60,000")],
                clock(None, Some(ms(60_000))),
            ),
            ("go perft 99", &[too_deep], one()),
            (
                "go depth infinite",
                &[none("depth")],
                Go {
                    infinite: true,
                    ..Go::default()
                },
            ),
        ] {
            let ignored_words = ignored_words.to_vec();
            assert_eq!(
                parse(line),
                Ok(Command::Go(Go {
                    ignored_words,
                    ..go
                })),
                "{line}"
            );
        }
    }

    #[test]
    fn other_lines() {
        assert_eq!(parse("  \t "), Ok(Command::Nothing));
        assert_eq!(parse("uci\r"), Ok(Command::Uci));
        assert_eq!(
            parse("xyzzy 1 2").unwrap_err().to_string(),
            "unknown command 'xyzzy'"
        );
        // The protocol's own example, and words that are no commands of the protocol.
        assert_eq!(parse("joho debug on"), Ok(Command::Nothing));
        assert_eq!(parse("hello isready"), Ok(Command::IsReady));
        assert_eq!(parse("joho go nodes 5"), parse("go nodes 5"));
        assert!(parse("what is d ?").is_err());
    }
}
