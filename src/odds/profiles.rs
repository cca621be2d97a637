//! The file of profiles: TOML, one `[[profile]]` after the other, each with conditions and the options to set.
//! `docs/profiles.md` describes it, and `profiles.toml` beside this file is the one inside the program.

use std::{ops::Range, path::Path, time::Duration};

use shakmaty::Color;
use thiserror::Error;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::signature::Signature;
use crate::{
    chess::opponent::OpponentKind,
    files,
    options::{OptionError, OptionKind, Options},
};

/// The value of `Profiles` that means the file inside the program.
pub const BUILT_IN: &str = "<built in>";
/// The value of `Profiles` that means none.
pub const OFF: &str = "off";

static BUILT_IN_TEXT: &str = include_str!("profiles.toml");

/// The word that sets DrawScore from the engine's point of view instead of White's.
const OWN_DRAW_SCORE: &str = "OwnDrawScore";
/// What stands for the nearest of Maia's ratings in the name of a file.
const MAIA: &str = "{maia}";
/// The ratings that there are Maia networks for.
const MAIA_RATINGS: Range<u32> = 1100..1901;

/// Options that are no matter of a game: the autopilot depends on them, or they hold for a whole session.
const NOT_FOR_PROFILES: [&str; 4] = ["Profiles", "UCI_AnalyseMode", "UCI_Chess960", "LogFile"];

/// What a profile can depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OddsFacts {
    /// The odds; `None` if the game began in its middle.
    pub signature: Option<Signature>,
    /// The engine's side.
    pub side: Color,
    /// The opponent's rating, if it is known.
    pub rating: Option<u32>,
    /// Whether it is a person or a program, if that is known.
    pub opponent: Option<OpponentKind>,
    /// By how much the engine is rated higher than the opponent; 0 if nobody has said so.
    pub advantage: f32,
    /// How long the game may take the engine: its clock at the beginning and 40 increments.
    pub clock: Option<Duration>,
}

/// What is wrong with a file of profiles.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// It cannot be read.
    #[error("profiles: {0}")]
    File(String),
    /// Something in it is not understood.
    #[error("profiles: {file}, line {line}, column {column}: {message}")]
    Text {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// In characters, counted from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
}

/// All profiles of a file, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiles(Vec<Profile>);

/// What follows from all profiles that match a game: a later one overrides an earlier one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedProfiles {
    /// The names of those that match.
    pub names: Vec<String>,
    /// Options and their values, each option once.
    pub settings: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Profile {
    name: String,
    /// Any of these; empty is any at all.
    odds: Vec<OddsCondition>,
    deficit: Option<NumberRange>,
    side: Option<Color>,
    rating: Option<NumberRange>,
    opponent: Option<OpponentKind>,
    advantage: Option<NumberRange>,
    clock: Option<NumberRange>,
    settings: Vec<ProfileSetting>,
}

#[derive(Clone, Debug, PartialEq)]
enum OddsCondition {
    Given,
    Taken,
    Exactly(Signature),
}

/// From a number on, and below another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NumberRange {
    from: f64,
    below: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct ProfileSetting {
    option: &'static str,
    value: String,
    /// Whether the value is a number for White if the engine is White, and its negative if not.
    is_own: bool,
}

impl NumberRange {
    fn holds(self, value: f64) -> bool {
        self.from <= value && value < self.below
    }
}

impl OddsCondition {
    fn holds(&self, signature: Signature) -> bool {
        match self {
            OddsCondition::Given => signature.deficit() > 0,
            OddsCondition::Taken => signature.deficit() < 0,
            OddsCondition::Exactly(exactly) => signature == *exactly,
        }
    }
}

impl Profile {
    fn holds(&self, facts: &OddsFacts) -> bool {
        // What nobody knows fulfils no condition.
        let holds = |span: Option<NumberRange>, value: Option<f64>| {
            span.is_none_or(|span| value.is_some_and(|value| span.holds(value)))
        };
        let signature = facts.signature;
        let odds = self.odds.is_empty()
            || signature
                .is_some_and(|signature| self.odds.iter().any(|odds| odds.holds(signature)));
        odds && holds(self.deficit, signature.map(|s| f64::from(s.deficit())))
            && self.side.is_none_or(|side| side == facts.side)
            && holds(self.rating, facts.rating.map(f64::from))
            && (self.opponent.is_none() || self.opponent == facts.opponent)
            && holds(self.advantage, Some(f64::from(facts.advantage)))
            && holds(self.clock, facts.clock.map(|clock| clock.as_secs_f64()))
    }
}

/// The name of a file with the nearest of Maia's ratings in the place of `{maia}`.
pub fn name_of_maia(name: &str, rating: u32) -> String {
    let rating = rating.clamp(MAIA_RATINGS.start, MAIA_RATINGS.end - 1);
    let hundreds = (rating + 50) / 100 * 100;
    name.replace(MAIA, &hundreds.to_string())
}

impl ProfileSetting {
    /// The value for a game; `None` if it depends on what is not known.
    fn value(&self, facts: &OddsFacts) -> Option<String> {
        if self.is_own && facts.side == Color::Black {
            let value: f64 = self.value.trim().parse().ok()?;
            return Some((-value).to_string());
        }
        if !self.value.contains(MAIA) {
            return Some(self.value.clone());
        }
        Some(name_of_maia(&self.value, facts.rating?))
    }
}

impl Profiles {
    /// Those that a value of the option `Profiles` names; none if it is off.
    ///
    /// # Errors
    /// When the file cannot be read, or something in it is not understood.
    pub fn load(named: &str) -> Result<Profiles, ProfileError> {
        match named.trim() {
            BUILT_IN => Profiles::parse(BUILT_IN_TEXT, "profiles inside the program"),
            "" => Ok(Profiles::default()),
            word if word.eq_ignore_ascii_case(OFF) => Ok(Profiles::default()),
            path => {
                let text = files::read_text(Path::new(path))
                    .map_err(|error| ProfileError::File(format!("{error:#}")))?;
                Profiles::parse(&text, path)
            }
        }
    }

    /// Those of a text; errors call it `file`.
    ///
    /// # Errors
    /// At the first thing that is not understood.
    pub fn parse(text: &str, file: &str) -> Result<Profiles, ProfileError> {
        let at = |(place, message): Wrong| {
            let before = &text[..place.min(text.len())];
            let start_of_line = before.rfind('\n').map_or(0, |newline| newline + 1);
            ProfileError::Text {
                file: file.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before[start_of_line..].chars().count() + 1,
                message,
            }
        };
        let table = DeTable::parse(text).map_err(|error| {
            let place = error.span().map_or(0, |span| span.start);
            at((place, error.message().to_owned()))
        })?;
        read_file(table.get_ref()).map(Profiles).map_err(at)
    }

    /// What follows for a game.
    pub fn resolve(&self, facts: &OddsFacts) -> ResolvedProfiles {
        let mut resolved = ResolvedProfiles::default();
        for profile in self.0.iter().filter(|profile| profile.holds(facts)) {
            resolved.names.push(profile.name.clone());
            for setting in &profile.settings {
                let Some(value) = setting.value(facts) else {
                    continue;
                };
                resolved
                    .settings
                    .retain(|(option, _)| *option != setting.option);
                resolved.settings.push((setting.option, value));
            }
        }
        resolved
    }
}

/// Where something is wrong, in bytes from the beginning, and what.
type Wrong = (usize, String);
type Value<'a> = Spanned<DeValue<'a>>;

fn wrong<T>(place: usize, message: impl Into<String>) -> Result<T, Wrong> {
    Err((place, message.into()))
}

fn read_file(table: &DeTable<'_>) -> Result<Vec<Profile>, Wrong> {
    let mut profiles = Vec::new();
    for (key, value) in table {
        let place = key.span().start;
        let list = match (key.get_ref().as_ref(), value.get_ref()) {
            ("profile", DeValue::Array(list)) => list,
            ("profile", _) => return wrong(place, "written as [[profile]]"),
            (other, _) => {
                return wrong(
                    place,
                    format!("'{other}' is not known here; [[profile]] is"),
                );
            }
        };
        for entry in list {
            let Some(table) = entry.get_ref().as_table() else {
                return wrong(entry.span().start, "a profile is a table: [[profile]]");
            };
            let mut profile = read_profile(table)?;
            if profile.name.is_empty() {
                profile.name = format!("number {}", profiles.len() + 1);
            }
            profiles.push(profile);
        }
    }
    Ok(profiles)
}

fn read_profile(table: &DeTable<'_>) -> Result<Profile, Wrong> {
    let mut profile = Profile::default();
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "name" => profile.name = text(value)?.to_owned(),
            "odds" => profile.odds = odds(value)?,
            "deficit" => profile.deficit = Some(span(value)?),
            "colour" | "color" => profile.side = Some(side(value)?),
            "rating" => profile.rating = Some(span(value)?),
            "opponent" => profile.opponent = Some(opponent(value)?),
            "advantage" => profile.advantage = Some(span(value)?),
            "clock" => profile.clock = Some(span(value)?),
            "set" => profile.settings = settings(value)?,
            other => {
                let known = "name, odds, deficit, colour, rating, opponent, advantage, clock, set";
                let message = format!("'{other}' is not known in a profile; it has {known}");
                return wrong(key.span().start, message);
            }
        }
    }
    Ok(profile)
}

fn text<'a>(value: &'a Value<'_>) -> Result<&'a str, Wrong> {
    match value.get_ref().as_str() {
        Some(text) => Ok(text),
        None => wrong(value.span().start, "a text in quotation marks is expected"),
    }
}

/// One text, or a list of them.
fn odds(value: &Value<'_>) -> Result<Vec<OddsCondition>, Wrong> {
    if let Some(list) = value.get_ref().as_array() {
        let read = list.iter().map(odds).collect::<Result<Vec<_>, _>>()?;
        return Ok(read.concat());
    }
    let text = text(value)?;
    Ok(match text {
        "given" => vec![OddsCondition::Given],
        "taken" => vec![OddsCondition::Taken],
        "none" => vec![OddsCondition::Exactly(Signature::default())],
        "" => {
            return wrong(
                value.span().start,
                "'' is no signature; \"none\" is even material",
            );
        }
        letters => match letters.parse() {
            Ok(signature) => vec![OddsCondition::Exactly(signature)],
            Err(error) => {
                let message = format!("{error}; or given, taken, none");
                return wrong(value.span().start, message);
            }
        },
    })
}

fn side(value: &Value<'_>) -> Result<Color, Wrong> {
    match text(value)? {
        "white" => Ok(Color::White),
        "black" => Ok(Color::Black),
        other => wrong(
            value.span().start,
            format!("'{other}' is neither white nor black"),
        ),
    }
}

fn opponent(value: &Value<'_>) -> Result<OpponentKind, Wrong> {
    let word = text(value)?;
    match OpponentKind::named(word) {
        Some(kind) => Ok(kind),
        None => wrong(
            value.span().start,
            format!("'{word}' is neither human nor computer"),
        ),
    }
}

/// `"1400..2000"`, `"..1400"` or `"2000.."`: the first number belongs to it, the last does not.
fn span(value: &Value<'_>) -> Result<NumberRange, Wrong> {
    let text = text(value)?;
    let number = |text: &str, missing: f64| match text.trim() {
        "" => Some(missing),
        number => number
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite()),
    };
    let span = text.split_once("..").and_then(|(from, below)| {
        let from = number(from, f64::NEG_INFINITY)?;
        let below = number(below, f64::INFINITY)?;
        (from < below).then_some(NumberRange { from, below })
    });
    span.map_or_else(
        || {
            let message =
                format!("'{text}' is no range; those are \"1400..2000\", \"..1400\", \"2000..\"");
            wrong(value.span().start, message)
        },
        Ok,
    )
}

fn settings(value: &Value<'_>) -> Result<Vec<ProfileSetting>, Wrong> {
    let Some(table) = value.get_ref().as_table() else {
        return wrong(
            value.span().start,
            "options are set as in set = { ScLimit = 28 }",
        );
    };
    table
        .iter()
        .map(|(key, value)| setting(key, value))
        .collect()
}

/// An option and its value, checked as if a GUI set it.
fn setting(
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Value<'_>,
) -> Result<ProfileSetting, Wrong> {
    let name = key.get_ref().as_ref();
    let is_own = name.eq_ignore_ascii_case(OWN_DRAW_SCORE);
    let named = if is_own { "DrawScore" } else { name };
    let mut options = Options::default();
    let rows = options.rows();
    let is_named = |known: &str| known.eq_ignore_ascii_case(named);
    let row = rows
        .iter()
        .find(|row| is_named(row.name) || row.aliases.iter().any(|alias| is_named(alias)));
    let Some(row) = row else {
        return wrong(
            key.span().start,
            OptionError::Unknown(name.to_owned()).to_string(),
        );
    };
    if NOT_FOR_PROFILES.contains(&row.name) {
        return wrong(
            key.span().start,
            format!("{} cannot be set by a profile", row.name),
        );
    }
    let place = value.span().start;
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        _ => return wrong(place, "a number, a text, true or false is expected"),
    };
    if let Err(error) = options.set(row.name, &text) {
        return wrong(place, error.to_string());
    }
    if text.contains(MAIA) && row.kind != OptionKind::Text {
        return wrong(
            place,
            format!("{MAIA} has a meaning in names of files only"),
        );
    }
    Ok(ProfileSetting {
        option: row.name,
        value: text,
        is_own,
    })
}
