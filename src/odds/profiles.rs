//! Files of profiles: TOML with a list of `[[profile]]`, each with conditions and the options to set.
//! `docs/profiles.md` describes the format, and `profiles.toml` beside this file is the built-in one.

use std::{path::Path, time::Duration};

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
    sparse::features::RATINGS,
};

/// The value of `Profiles` for the built-in file.
pub const BUILT_IN: &str = "<built in>";
/// The value of `Profiles` for no profiles.
pub const OFF: &str = "off";

static BUILT_IN_TEXT: &str = include_str!("profiles.toml");

/// Sets DrawScore from the engine's point of view instead of White's.
const OWN_DRAW_SCORE: &str = "OwnDrawScore";
/// In the name of a network inside the program: stands for the nearest rating that its model of people has.
const RATING: &str = "{rating}";
/// Stands for the nearest rating of a Maia network in a file name.
const MAIA: &str = "{maia}";
/// The lowest and the highest rating of the Maia networks.
const MAIA_RATINGS: [u32; 2] = [1100, 1900];

/// The words of `colour`.
const SIDES: [(&str, Color); 2] = [("white", Color::White), ("black", Color::Black)];
/// The words of `network`.
const NETWORKS: [(&str, NetworkChoice); 2] = [
    ("default", NetworkChoice::Default),
    ("own", NetworkChoice::Own),
];

/// The facts about a game that profiles can depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OddsFacts {
    /// The odds; `None` if the first known position is from the middle of a game.
    pub signature: Option<Signature>,
    /// The engine's side.
    pub side: Color,
    /// The opponent's rating, if it is known.
    pub rating: Option<u32>,
    /// Whether it is a human or a computer, if that is known.
    pub opponent: Option<OpponentKind>,
    /// The engine's rating advantage in Elo; 0 if it is not known.
    pub advantage: f32,
    /// The engine's time for the game: its first clock and 40 increments.
    pub clock: Option<Duration>,
    /// Who has chosen the network.
    pub network: NetworkChoice,
}

/// Who has chosen the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkChoice {
    /// Nobody: it is the default one.
    #[default]
    Default,
    /// The user or the configuration file, by `WeightsFile`.
    Own,
}

/// A file of profiles cannot be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// It cannot be read.
    #[error("profiles: {0}")]
    File(String),
    /// Something in it is not valid.
    #[error("profiles: {file}, line {line}, column {column}: {message}")]
    Text {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
}

/// All profiles of a file, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiles(Vec<Profile>);

/// The result of all profiles that match a game; a later one overrides an earlier one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedProfiles {
    /// The names of the profiles that match.
    pub names: Vec<String>,
    /// The options to set, each once, with their values.
    pub settings: Vec<(&'static str, String)>,
    /// The options that are left alone because their values depend on a rating that is not known.
    pub without_rating: Vec<&'static str>,
}

impl ResolvedProfiles {
    /// Whether no matching profile has anything to set.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.without_rating.is_empty()
    }

    /// Whether others set the same, whatever their names are.
    pub fn sets_the_same(&self, others: &ResolvedProfiles) -> bool {
        self.settings == others.settings && self.without_rating == others.without_rating
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Profile {
    name: String,
    /// One of these must hold; empty allows all.
    odds: Vec<OddsCondition>,
    deficit: Option<NumberRange>,
    side: Option<Color>,
    rating: Option<NumberRange>,
    opponent: Option<OpponentKind>,
    advantage: Option<NumberRange>,
    clock: Option<NumberRange>,
    network: Option<NetworkChoice>,
    settings: Vec<ProfileSetting>,
}

#[derive(Clone, Debug, PartialEq)]
enum OddsCondition {
    Given,
    Taken,
    Exactly(Signature),
}

/// A half-open range.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NumberRange {
    from: f64,
    below: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct ProfileSetting {
    option: &'static str,
    value: String,
    /// Where the value is, in bytes from the beginning of the file.
    place: usize,
    /// Whether the value is from the engine's point of view: it is negated if the engine plays Black.
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
        // An unknown fact fulfils no condition; an unknown advantage is 0.
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
            && self.network.is_none_or(|network| network == facts.network)
    }
}

/// The name of a network with a rating in place of `{rating}` and `{maia}`: the nearest one of the model of people, or
/// of a Maia network, in hundreds.
pub fn name_for_rating(name: &str, rating: u32) -> String {
    let nearest = |ratings: &[u32]| {
        let rating = rating.clamp(ratings[0], ratings[ratings.len() - 1]);
        ((rating + 50) / 100 * 100).to_string()
    };
    name.replace(RATING, &nearest(&RATINGS))
        .replace(MAIA, &nearest(&MAIA_RATINGS))
}

/// The first text in braces that no rating stands for.
fn unknown_placeholder(name: &str) -> Option<&str> {
    let mut rest = name;
    while let Some(start) = rest.find('{') {
        let end = start + rest[start..].find('}')? + 1;
        let found = &rest[start..end];
        if ![RATING, MAIA].contains(&found) {
            return Some(found);
        }
        rest = &rest[end..];
    }
    None
}

/// The place of a rating in a name, if it has one.
fn placeholder(name: &str) -> Option<&'static str> {
    [RATING, MAIA]
        .into_iter()
        .find(|place| name.contains(place))
}

impl ProfileSetting {
    /// The value for a game; `None` if it depends on an unknown fact.
    fn value(&self, facts: &OddsFacts) -> Option<String> {
        if self.is_own && facts.side == Color::Black {
            let value: f64 = self.value.trim().parse().ok()?;
            return Some((-value).to_string());
        }
        match placeholder(&self.value) {
            Some(_) => Some(name_for_rating(&self.value, facts.rating?)),
            None => Some(self.value.clone()),
        }
    }
}

impl Profiles {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The profiles that a value of the option `Profiles` names; none if it is off. `check` says what is wrong with a
    /// value of an option, if something is: it is called for values that are the same in every game.
    ///
    /// # Errors
    /// When the file cannot be read, or something in it is not valid.
    pub fn load(
        named: &str,
        check: impl Fn(&str, &str) -> Result<(), String>,
    ) -> Result<Profiles, ProfileError> {
        match named.trim() {
            BUILT_IN => Profiles::parse(BUILT_IN_TEXT, "built-in profiles"),
            "" => Ok(Profiles::default()),
            word if word.eq_ignore_ascii_case(OFF) => Ok(Profiles::default()),
            path => {
                let text = files::read_text_at_once(Path::new(path))
                    .map_err(|error| ProfileError::File(format!("{error:#}")))?;
                let profiles = Profiles::parse(&text, path)?;
                let settings = profiles.0.iter().flat_map(|profile| &profile.settings);
                for setting in settings.filter(|setting| placeholder(&setting.value).is_none()) {
                    check(setting.option, &setting.value)
                        .map_err(|message| error_at(&text, path, (setting.place, message)))?;
                }
                Ok(profiles)
            }
        }
    }

    /// The profiles in a text; errors call it `file`.
    ///
    /// # Errors
    /// At the first mistake.
    pub fn parse(text: &str, file: &str) -> Result<Profiles, ProfileError> {
        let at = |mistake| error_at(text, file, mistake);
        let table = DeTable::parse(text).map_err(|error| {
            let place = error.span().map_or(0, |span| span.start);
            at((place, error.message().to_owned()))
        })?;
        read_file(table.get_ref()).map(Profiles).map_err(at)
    }

    /// Whether a profile depends on the clock, which is known from the first search on.
    pub fn depends_on_clock(&self) -> bool {
        self.0.iter().any(|profile| profile.clock.is_some())
    }

    /// The options for a game.
    pub fn resolve(&self, facts: &OddsFacts) -> ResolvedProfiles {
        let mut resolved = ResolvedProfiles::default();
        for profile in self.0.iter().filter(|profile| profile.holds(facts)) {
            resolved.names.push(profile.name.clone());
            for setting in &profile.settings {
                let Some(value) = setting.value(facts) else {
                    if !resolved.without_rating.contains(&setting.option) {
                        resolved.without_rating.push(setting.option);
                    }
                    continue;
                };
                resolved
                    .settings
                    .retain(|(option, _)| *option != setting.option);
                resolved.settings.push((setting.option, value));
            }
        }
        let is_set = |option: &&str| resolved.settings.iter().any(|(set, _)| set == option);
        resolved.without_rating.retain(|option| !is_set(option));
        resolved
    }
}

/// The position of a mistake in bytes from the beginning, and a message.
type Mistake = (usize, String);
type SpannedValue<'a> = Spanned<DeValue<'a>>;

/// The error about a mistake in the text of a file.
fn error_at(text: &str, file: &str, (place, message): Mistake) -> ProfileError {
    let before = &text[..place.min(text.len())];
    let start_of_line = before.rfind('\n').map_or(0, |newline| newline + 1);
    ProfileError::Text {
        file: file.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[start_of_line..].chars().count() + 1,
        message,
    }
}

fn mistake<T>(place: usize, message: impl Into<String>) -> Result<T, Mistake> {
    Err((place, message.into()))
}

fn read_file(table: &DeTable<'_>) -> Result<Vec<Profile>, Mistake> {
    let mut profiles = Vec::new();
    for (key, value) in table {
        let place = key.span().start;
        let list = match (key.get_ref().as_ref(), value.get_ref()) {
            ("profile", DeValue::Array(list)) => list,
            ("profile", _) => {
                return mistake(place, "a list of profiles is written as [[profile]]");
            }
            (other, _) => {
                return mistake(
                    place,
                    format!("unknown entry '{other}'; expected [[profile]]"),
                );
            }
        };
        for entry in list {
            let Some(table) = entry.get_ref().as_table() else {
                return mistake(entry.span().start, "a profile is a table: [[profile]]");
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

fn read_profile(table: &DeTable<'_>) -> Result<Profile, Mistake> {
    let mut profile = Profile::default();
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "name" => profile.name = text(value)?.to_owned(),
            "odds" => profile.odds = odds(value)?,
            "deficit" => profile.deficit = Some(span(value)?),
            "colour" | "color" => profile.side = Some(one_of(value, SIDES, "")?),
            "rating" => profile.rating = Some(span(value)?),
            "opponent" => profile.opponent = Some(one_of(value, OpponentKind::WORDS, "")?),
            "advantage" => profile.advantage = Some(span(value)?),
            "clock" => profile.clock = Some(span(value)?),
            "network" => {
                let note = " (WeightsFile was set)";
                profile.network = Some(one_of(value, NETWORKS, note)?);
            }
            "set" => profile.settings = settings(value)?,
            other => {
                let known =
                    "name, odds, deficit, colour, rating, opponent, advantage, clock, network, set";
                let message = format!("unknown key '{other}' in a profile; known are {known}");
                return mistake(key.span().start, message);
            }
        }
    }
    Ok(profile)
}

fn text<'a>(value: &'a SpannedValue<'_>) -> Result<&'a str, Mistake> {
    match value.get_ref().as_str() {
        Some(text) => Ok(text),
        None => mistake(value.span().start, "expected a text in quotation marks"),
    }
}

/// One text, or a list of them.
fn odds(value: &SpannedValue<'_>) -> Result<Vec<OddsCondition>, Mistake> {
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
            return mistake(
                value.span().start,
                "'' is not a material difference; \"none\" is equal material",
            );
        }
        letters => match letters.parse() {
            Ok(signature) => vec![OddsCondition::Exactly(signature)],
            Err(error) => {
                let message = format!("{error}; or one of given, taken, none");
                return mistake(value.span().start, message);
            }
        },
    })
}

/// One of two words, each with its meaning; `note` is added to the message about another word.
fn one_of<T: Copy>(
    value: &SpannedValue<'_>,
    [first, second]: [(&str, T); 2],
    note: &str,
) -> Result<T, Mistake> {
    let (word, place) = (text(value)?, value.span().start);
    let is_named = |(known, _): &(&str, T)| known.eq_ignore_ascii_case(word);
    match [first, second].into_iter().find(is_named) {
        Some((known, meaning)) if known == word => Ok(meaning),
        Some((known, _)) => mistake(place, format!("'{word}' is written in lower case: {known}")),
        None => mistake(
            place,
            format!("'{word}' is neither {} nor {}{note}", first.0, second.0),
        ),
    }
}

/// `"1400..2000"`, `"..1400"` or `"2000.."`: the range includes the first number, but not the last.
fn span(value: &SpannedValue<'_>) -> Result<NumberRange, Mistake> {
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
                format!("'{text}' is not a range such as \"1400..2000\", \"..1400\" or \"2000..\"");
            mistake(value.span().start, message)
        },
        Ok,
    )
}

fn settings(value: &SpannedValue<'_>) -> Result<Vec<ProfileSetting>, Mistake> {
    let Some(table) = value.get_ref().as_table() else {
        return mistake(
            value.span().start,
            "expected a table of options, as in set = { ScLimit = 28 }",
        );
    };
    let mut found: Vec<(usize, ProfileSetting)> = Vec::new();
    for (key, value) in table {
        let (place, new) = (key.span().start, setting(key, value)?);
        // TOML finds equal keys, but not two spellings of one option.
        if let Some((other, _)) = found.iter().find(|(_, old)| old.option == new.option) {
            return mistake(place.max(*other), format!("{} is set twice", new.option));
        }
        found.push((place, new));
    }
    Ok(found.into_iter().map(|(_, setting)| setting).collect())
}

/// An option and its value, checked as when a GUI sets it.
fn setting(
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &SpannedValue<'_>,
) -> Result<ProfileSetting, Mistake> {
    let name = key.get_ref().as_ref();
    let is_own = name.eq_ignore_ascii_case(OWN_DRAW_SCORE);
    let named = if is_own { "DrawScore" } else { name };
    let mut options = Options::default();
    let Some(row) = options.row(named) else {
        return mistake(
            key.span().start,
            OptionError::Unknown(name.to_owned()).to_string(),
        );
    };
    if !row.is_for_profiles {
        return mistake(
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
        _ => return mistake(place, "expected a number, a text, true or false"),
    };
    if let Err(error) = options.set(row.name, &text) {
        return mistake(place, error.to_string());
    }
    if let Some(found) = placeholder(&text)
        && row.kind != OptionKind::Text
    {
        return mistake(place, format!("{found} is valid in names of networks only"));
    }
    if row.kind == OptionKind::Text
        && let Some(found) = unknown_placeholder(&text)
    {
        let message =
            format!("unknown placeholder {found}; {RATING} and {MAIA} are replaced by ratings");
        return mistake(place, message);
    }
    Ok(ProfileSetting {
        option: row.name,
        value: text,
        place,
        is_own,
    })
}
