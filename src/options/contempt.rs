//! The value of the option `Contempt`: the assumed advantage over opponents in Elo, `[name=]elo,...`.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// Elo advantages, for all opponents or for those whose name contains a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContemptList {
    entries: Vec<(Option<String>, f32)>,
}

/// A text is not a list of advantages.
#[derive(Debug, Error, PartialEq)]
#[error("'{0}' is not of the form elo or name=elo")]
pub struct ContemptError(String);

impl ContemptList {
    /// The advantage over the opponent that `UCI_Opponent` describes: that of the first name which the description
    /// contains (in any case), otherwise the last one without a name, otherwise `default`.
    pub fn against(&self, opponent: &str, default: f32) -> f32 {
        let opponent = opponent.to_lowercase();
        let mut advantage = default;
        for (name, elo) in &self.entries {
            match name {
                None => advantage = *elo,
                Some(name) if opponent.contains(&name.to_lowercase()) => return *elo,
                Some(_) => {}
            }
        }
        advantage
    }
}

impl FromStr for ContemptList {
    type Err = ContemptError;

    fn from_str(text: &str) -> Result<ContemptList, ContemptError> {
        let entries = text.split(',').filter(|entry| !entry.trim().is_empty());
        let entry = |entry: &str| {
            let (name, elo) = match entry.split_once('=') {
                Some((name, elo)) => (Some(name.trim()), elo),
                None => (None, entry),
            };
            let elo: Option<f32> = elo.trim().parse().ok().filter(|elo: &f32| elo.is_finite());
            match (name, elo) {
                (Some(""), _) | (_, None) => Err(ContemptError(entry.to_owned())),
                (name, Some(elo)) => Ok((name.map(str::to_owned), elo)),
            }
        };
        Ok(ContemptList {
            entries: entries.map(entry).collect::<Result<_, _>>()?,
        })
    }
}

impl fmt::Display for ContemptList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, elo)) in self.entries.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            if let Some(name) = name {
                write!(f, "{name}=")?;
            }
            write!(f, "{elo}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> ContemptList {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_name_that_fits_counts_then_the_default() {
        let contempt = list("50,Stockfish=-80, maia = 300 ,maia-1900=200");
        for (opponent, expected) in [
            ("none none computer stockfish 17", -80.0),
            ("none 1900 computer Maia-1900", 300.0),
            ("GM 2800 human Gary Kasparov", 50.0),
            ("", 50.0),
        ] {
            assert_eq!(contempt.against(opponent, 7.0), expected, "{opponent}");
        }
        assert_eq!(list("Stockfish=-80").against("human X", 7.0), 7.0);
        assert_eq!(list("").against("human X", 7.0), 7.0);
    }

    #[test]
    fn text_goes_there_and_back() {
        for text in ["", "50", "-12.5,Stockfish=-80,maia=300"] {
            assert_eq!(list(text).to_string(), text);
            assert_eq!(list(&list(text).to_string()), list(text));
        }
        for text in ["a", "a=", "=5", "5,b=c", "nan", "inf", "a=b=3"] {
            assert!(text.parse::<ContemptList>().is_err(), "{text}");
        }
    }
}
