//! The names of training files on the command line: who played, and shares of a mixture.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use shakmaty::Color;

use crate::dataset::record::Record;
use crate::sparse::features::{InputSet, RATINGS, SideRole};
use crate::sparse::history::Past;

/// A record file, and who played the games in it, as far as a network has inputs for that.
#[derive(Clone, Debug, PartialEq)]
pub struct GamesFile {
    /// The file.
    pub path: PathBuf,
    /// The players' rating, one of [`RATINGS`].
    pub rating: Option<u32>,
    /// The engine's colour, if the other side is its fallible opponent.
    pub engine: Option<Color>,
}

impl<P: Into<PathBuf>> From<P> for GamesFile {
    fn from(path: P) -> GamesFile {
        GamesFile {
            path: path.into(),
            rating: None,
            engine: None,
        }
    }
}

impl GamesFile {
    /// A text of the form FILE, FILE@RATING or FILE@COLOR, the color being the engine's.
    ///
    /// # Errors
    /// When the rating has no input.
    pub fn parse(text: &str) -> Result<GamesFile> {
        for (end, color) in [("@white", Color::White), ("@black", Color::Black)] {
            if let Some(path) = text.strip_suffix(end) {
                return Ok(GamesFile {
                    engine: Some(color),
                    ..GamesFile::from(path)
                });
            }
        }
        let rated = text.rsplit_once('@');
        let rated = rated.and_then(|(path, rating)| Some((path, rating.parse::<u32>().ok()?)));
        let Some((path, rating)) = rated else {
            return Ok(GamesFile::from(text));
        };
        ensure!(
            RATINGS.contains(&rating),
            "{text}: networks have inputs of the ratings {RATINGS:?} only, not of {rating}"
        );
        Ok(GamesFile {
            rating: Some(rating),
            ..GamesFile::from(path)
        })
    }

    /// Checks that a network with these inputs has those of what is said of the players.
    ///
    /// # Errors
    /// When it has none: what is said would have no effect.
    pub fn check_players(&self, inputs: InputSet) -> Result<()> {
        let path = self.path.display();
        if let Some(rating) = self.rating {
            ensure!(
                inputs.has_history(),
                "{path}@{rating}: the network has no input of the players' rating; leave out @{rating}, or start one \
                 with --inputs history"
            );
        }
        if let Some(color) = self.engine {
            ensure!(
                inputs.has_mover(),
                "{path}@{color}: the network has no input of who is the engine; leave out @{color}, or start one \
                 with --inputs opponent"
            );
        }
        Ok(())
    }

    /// What was before a position of the file, with what is known of its players.
    pub(super) fn with_players(&self, record: &Record, past: Past) -> Past {
        Past {
            rating: self.rating,
            mover: self
                .engine
                .map(|engine| SideRole::of(engine, record.turn())),
            ..past
        }
    }
}

/// A record file and its share of every batch.
#[derive(Clone, Debug, PartialEq)]
pub struct MixPart {
    /// The file.
    pub file: GamesFile,
    /// Its share, relative to those of the other files.
    pub share: f64,
}

impl FromStr for MixPart {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<MixPart> {
        let (file, share) = text
            .rsplit_once(':')
            .with_context(|| format!("'{text}' is not of the form FILE:SHARE"))?;
        let share: f64 = share
            .parse()
            .with_context(|| format!("{text}: the share '{share}' is not a number"))?;
        ensure!(
            share > 0.0 && share.is_finite(),
            "{text}: the share must be positive"
        );
        Ok(MixPart {
            file: GamesFile::parse(file)?,
            share,
        })
    }
}

#[cfg(test)]
mod tests {
    use shakmaty::Chess;

    use super::*;
    use crate::dataset::record::Source;
    use crate::sparse::features::{ActiveFeatures, SquareView};

    #[test]
    fn files_name_their_players() {
        let file = |text: &str| GamesFile::parse(text).unwrap();
        assert_eq!(file("a.vis"), GamesFile::from("a.vis"));
        assert_eq!(file("a@b.vis"), GamesFile::from("a@b.vis"));
        assert_eq!(file("a.vis@1500").rating, Some(1500));
        assert_eq!(file("a.vis@black").engine, Some(Color::Black));
        assert_eq!(file("a.vis@black").path, PathBuf::from("a.vis"));
        let error = GamesFile::parse("a.vis@1400").unwrap_err();
        assert!(error.to_string().contains("1400"), "{error}");
    }

    #[test]
    fn players_need_inputs() {
        use InputSet::{Classes, History, Opponent, OpponentClasses, Position};
        for (file, inputs) in [
            (
                "a",
                &[Position, Classes, History, Opponent, OpponentClasses][..],
            ),
            ("a@1500", &[History]),
            ("a@white", &[Opponent, OpponentClasses]),
        ] {
            let file = GamesFile::parse(file).unwrap();
            for set in [Position, Classes, History, Opponent, OpponentClasses] {
                assert_eq!(
                    file.check_players(set).is_ok(),
                    inputs.contains(&set),
                    "{set:?}"
                );
            }
        }
        let error = GamesFile::parse("a@white").unwrap().check_players(History);
        assert!(error.unwrap_err().to_string().starts_with("a@white: "));
    }

    #[test]
    fn the_engine_s_color_says_who_is_to_move() {
        let start = Chess::default();
        let inputs = |file: &str, is_black: bool| {
            let record = Record::new(&start, is_black, Source::Game);
            let past = GamesFile::parse(file).unwrap();
            let past = past.with_players(&record, Past::default());
            let mut features = ActiveFeatures::of(&start);
            let count = features.as_slice().len();
            features.push_past(InputSet::Opponent, SquareView::of(&start), &past);
            features.as_slice()[count..].to_vec()
        };
        let last = InputSet::Opponent.len() as u16 - 1;
        for (file, is_black, expected) in [
            ("a", false, vec![]),
            ("a@white", false, vec![last - 1]),
            ("a@white", true, vec![last]),
            ("a@black", false, vec![last]),
            ("a@black", true, vec![last - 1]),
        ] {
            assert_eq!(inputs(file, is_black), expected, "{file} {is_black}");
        }
    }
}
