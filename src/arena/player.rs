//! The engines of a match: command line, options and limits.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use thiserror::Error;

use crate::uci_client::{Client, ClientError, name_and_value, program_path};

/// The name of this program as an engine.
pub const SELF: &str = "self";

/// Errors in the text of an engine or limit.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlayerError {
    /// Not a valid command line.
    #[error("'{0}' is not a command line: it is empty, or a quotation mark is not closed")]
    Command(String),
    /// Not a valid limit.
    #[error(
        "limit '{0}' is not of the form nodes=800, time=0.5 (seconds per move), clock=60+0.6 or clock=40/60+0.6 \
         (for 40 moves), with at most 1000000 seconds"
    )]
    Limit(String),
}

/// The limit of an engine's moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nodes.
    Nodes(u64),
    /// Time for each move.
    Time(Duration),
    /// Time for the game.
    Clock {
        /// At the start, and again at each time control.
        base: Duration,
        /// After each move.
        increment: Duration,
        /// Moves per time control; `None` if `base` is for the whole game.
        moves: Option<u32>,
    },
}

impl FromStr for Limit {
    type Err = PlayerError;

    fn from_str(text: &str) -> Result<Limit, PlayerError> {
        let error = || PlayerError::Limit(text.to_owned());
        let number =
            |text: &str| -> Result<f64, PlayerError> { text.trim().parse().map_err(|_| error()) };
        // Minutes before a colon, as fastchess and Cute Chess have them.
        let seconds = |text: &str| {
            let (minutes, rest) = text.split_once(':').unwrap_or(("0", text));
            let (minutes, rest) = (number(minutes)?, number(rest)?);
            if minutes < 0.0 || rest < 0.0 {
                return Err(error());
            }
            let seconds = minutes * 60.0 + rest;
            let time = Duration::try_from_secs_f64(seconds).map_err(|_| error())?;
            (time <= MAX_TIME).then_some(time).ok_or_else(error)
        };
        let positive = |time: Duration| (time >= MILLISECOND).then_some(time).ok_or_else(error);
        match text.split_once('=').ok_or_else(error)? {
            ("nodes", value) => {
                let nodes = value.trim().parse().ok().filter(|&nodes| nodes > 0);
                nodes.map(Limit::Nodes).ok_or_else(error)
            }
            ("time", value) => Ok(Limit::Time(positive(seconds(value)?)?)),
            ("clock", value) => {
                let (moves, value) = match value.split_once('/') {
                    Some((moves, rest)) => (Some(moves), rest),
                    None => (None, value),
                };
                let (base, increment) = value.split_once('+').unwrap_or((value, "0"));
                let moves: Option<u32> = match moves {
                    Some(moves) => Some(moves.trim().parse().map_err(|_| error())?),
                    None => None,
                };
                if moves == Some(0) {
                    return Err(error());
                }
                Ok(Limit::Clock {
                    base: positive(seconds(base)?)?,
                    increment: seconds(increment)?,
                    moves,
                })
            }
            _ => Err(error()),
        }
    }
}

/// Maximum time.
const MAX_TIME: Duration = Duration::from_secs(1_000_000);

/// Minimum time.
const MILLISECOND: Duration = Duration::from_millis(1);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Nodes(nodes) => write!(f, "nodes={nodes}"),
            Limit::Time(time) => write!(f, "time={}", time.as_secs_f64()),
            Limit::Clock {
                base,
                increment,
                moves,
            } => {
                let moves = moves.map_or(String::new(), |moves| format!("{moves}/"));
                let (base, increment) = (base.as_secs_f64(), increment.as_secs_f64());
                write!(f, "clock={moves}{base}+{increment}")
            }
        }
    }
}

/// An engine with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Competitor {
    /// The text of the argument, which is its name in games and reports.
    pub text: String,
    /// The program; `None` is this one.
    pub program: Option<PathBuf>,
    /// The program's arguments.
    pub arguments: Vec<String>,
    /// Names and values; a button has no value.
    pub options: Vec<(String, Option<String>)>,
    /// The limit of a move.
    pub limit: Limit,
}

impl Competitor {
    /// Parses `command;Option=value;...`. The command may have arguments, in a shell's quotation marks if needed;
    /// `self` is this program.
    ///
    /// # Errors
    /// When there is no command.
    pub fn new(text: &str, limit: Limit) -> Result<Competitor, PlayerError> {
        let mut parts = text.split(';').map(str::trim);
        let command = parts.next().unwrap_or_default();
        let error = || PlayerError::Command(text.to_owned());
        // Paths with spaces or backslashes need no quotation marks.
        let words = if Path::new(command).is_file() {
            vec![command.to_owned()]
        } else {
            shlex::split(command).ok_or_else(error)?
        };
        let (program, arguments) = words.split_first().ok_or_else(error)?;
        let options = parts.filter(|part| !part.is_empty());
        let options = options.map(|part| {
            let (name, value) = name_and_value(part);
            (name.to_owned(), value.map(str::to_owned))
        });
        Ok(Competitor {
            text: text.to_owned(),
            program: (program != SELF).then(|| program_path(Path::new(program))),
            arguments: arguments.to_vec(),
            options: options.collect(),
            limit,
        })
    }

    /// Starts the engine with its options, ready for a game.
    ///
    /// # Errors
    /// When the engine cannot be started or configured.
    pub fn start(&self, chess960: bool, ponder: bool) -> Result<Client, ClientError> {
        let this;
        let program = match &self.program {
            Some(program) => program,
            None => {
                this = std::env::current_exe().map_err(|error| ClientError::Start {
                    program: SELF.to_owned(),
                    reason: error.to_string(),
                })?;
                &this
            }
        };
        let mut client = Client::start(program, &self.arguments)?;
        if chess960 {
            client.set_option("UCI_Chess960", Some("true"))?;
        }
        if ponder && client.can_ponder() {
            client.set_option("Ponder", Some("true"))?;
        }
        for (name, value) in &self.options {
            client.set_option(name, value.as_deref())?;
        }
        client.wait_for_start()?;
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_back_as_they_are_written() {
        for text in ["nodes=800", "time=0.5", "clock=60+0.6", "clock=40/60+0"] {
            assert_eq!(text.parse::<Limit>().unwrap().to_string(), text);
        }
        for (text, shown) in [
            ("clock=2", "clock=2+0"),
            ("clock=1:30+1", "clock=90+1"),
            ("clock=40/2:0", "clock=40/120+0"),
        ] {
            assert_eq!(text.parse::<Limit>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "nodes",
            "nodes=0",
            "nodes=x",
            "1s",
            "time=0",
            "time=-1",
            "time=nan",
            "time=1e300",
            "time=1e19",
            "clock=2e6",
            "clock=1+1e7",
            "clock=0+1",
            "clock=0/60",
            "clock=x/60",
            "clock=1+-1",
            "clock=1:x",
            "clock=1:2:3",
            "clock=-1:61",
            "clock=1:-30",
            "depth=3",
        ] {
            assert!(text.parse::<Limit>().is_err(), "{text}");
        }
    }

    #[test]
    fn commands_have_arguments_and_options() {
        let limit = Limit::Nodes(1);
        let player =
            Competitor::new("'my engine' -x \"a b\"; Skill Level = 3;Clear Hash;", limit).unwrap();
        assert_eq!(player.program, Some("my engine".into()));
        assert_eq!(player.arguments, ["-x", "a b"]);
        let options = [
            ("Skill Level".to_owned(), Some("3".to_owned())),
            ("Clear Hash".to_owned(), None),
        ];
        assert_eq!(player.options, options);
        assert_eq!(Competitor::new("self", limit).unwrap().program, None);
        // Tests run in the package's folder.
        let here = Competitor::new("build.rs", limit).unwrap();
        assert_eq!(here.program.unwrap().to_str(), Some("./build.rs"));
        for text in ["", ";Hash=1", "'open"] {
            assert!(Competitor::new(text, limit).is_err(), "{text}");
        }
    }
}
