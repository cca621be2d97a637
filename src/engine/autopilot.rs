//! The odds autopilot at work: the options that are in force, which are those that were set and, where nothing was set by
//! hand, those that a profile sets for the game.

use std::{collections::BTreeSet, time::Duration};

use shakmaty::Position;

use super::Go;
use crate::{
    chess::{History, opponent},
    odds::{OddsFacts, ProfileError, Profiles, ResolvedProfiles, Signature},
    options::Options,
};

/// Increments that a game is thought to last, as on lichess.
const INCREMENTS: u32 = 40;

/// Plies that may be taken back, or were only expected, in what is still the same game.
const TAKEN_BACK: usize = 2;

/// Options that mean the same as another one, which comes first where both are set: a profile that set the first would
/// overrule what the user has said with the second.
const SAME_MATTER: [(&str, &str); 1] = [("OpponentWeights", "OpponentRating")];

/// Profiles, and what they have to do with the game that is being played.
pub(super) struct Autopilot {
    profiles: Profiles,
    /// The options that were set by hand, by their names in the table.
    by_hand: BTreeSet<&'static str>,
    /// The game as it was last seen.
    game: Option<History>,
    /// How long it may take, once a clock was seen.
    clock: Option<Duration>,
    /// What was announced last.
    announced: ResolvedProfiles,
}

impl Autopilot {
    /// Without profiles; these options were set by hand.
    pub fn new(by_hand: BTreeSet<&'static str>) -> Autopilot {
        Autopilot {
            profiles: Profiles::default(),
            by_hand,
            game: None,
            clock: None,
            announced: ResolvedProfiles::default(),
        }
    }

    /// Takes the profiles that the option names.
    ///
    /// # Errors
    /// When there is something wrong with them; those before stay.
    pub fn load(&mut self, named: &str) -> Result<(), ProfileError> {
        self.profiles = Profiles::load(named)?;
        Ok(())
    }

    /// Remembers that an option was set by hand: no profile sets it any more.
    pub fn set_by_hand(&mut self, option: &'static str) {
        self.by_hand.insert(option);
    }

    /// The options that were set by hand or by the profiles that are in force.
    pub fn settled(&self) -> BTreeSet<&'static str> {
        let by_profile = self.announced.settings.iter().map(|(name, _)| *name);
        self.by_hand.iter().copied().chain(by_profile).collect()
    }

    /// The next position belongs to another game.
    pub fn new_game(&mut self) {
        (self.game, self.clock) = (None, None);
    }

    /// Looks at a position that was set: it may be another game's.
    pub fn see_position(&mut self, game: &History) {
        let goes_on = |before: &History| {
            let both = before.plies().iter().zip(game.plies());
            let common = both.take_while(|(old, new)| old.key == new.key).count();
            common > 0 && common + TAKEN_BACK >= before.len()
        };
        if !self.game.as_ref().is_some_and(goes_on) {
            self.clock = None;
        }
        self.game = Some(game.clone());
    }

    /// Looks at a search that was asked for: the first clock of a game tells how long it may take.
    pub fn see_clock(&mut self, go: &Go, game: &History) {
        if let (Some(left), increment) = go.clock(game.position().turn()) {
            self.clock
                .get_or_insert(left.saturating_add(increment.saturating_mul(INCREMENTS)));
        }
    }

    /// The options for the game, and what is to be said about them if it was not said before.
    pub fn in_force(&mut self, options: &Options) -> (Options, Option<String>) {
        let mut in_force = options.clone();
        let resolved = match &self.game {
            Some(game) if !options.analyse_mode => self.profiles.resolve(&OddsFacts {
                signature: Signature::of(&game.plies()[0].position, game.position().turn()),
                side: game.position().turn(),
                rating: opponent::rating(&options.opponent),
                opponent: opponent::kind(&options.opponent),
                advantage: options.rating_advantage,
                clock: self.clock,
            }),
            _ => ResolvedProfiles::default(),
        };
        let is_by_hand = |option: &str| {
            let mut others = SAME_MATTER.iter().filter(|(first, _)| *first == option);
            self.by_hand.contains(option) || others.any(|(_, other)| self.by_hand.contains(other))
        };
        let (mut set, mut kept) = (Vec::new(), Vec::new());
        for setting in &resolved.settings {
            match !is_by_hand(setting.0) && in_force.set(setting.0, &setting.1).is_ok() {
                true => set.push(format!("{} {}", setting.0, setting.1)),
                false => kept.push(setting.0),
            }
        }
        let is_news = resolved.settings != self.announced.settings;
        let text = is_news.then(|| announcement(&resolved, &set, &kept));
        self.announced = resolved;
        (in_force, text)
    }

    /// No profile counts, until options are put in force again. What is to be said about that, if one was announced.
    pub fn lift(&mut self) -> Option<&'static str> {
        let announced = std::mem::take(&mut self.announced);
        (!announced.settings.is_empty())
            .then_some("profile none: an analysis without end goes by the options as they were set")
    }
}

fn announcement(resolved: &ResolvedProfiles, set: &[String], kept: &[&str]) -> String {
    if resolved.settings.is_empty() {
        return "profile none: the options are as they were set".into();
    }
    let mut text = format!("profile {}:", resolved.names.join(" + "));
    if !set.is_empty() {
        text += &format!(" {}", set.join(", "));
    }
    if !kept.is_empty() {
        let comma = if set.is_empty() { "" } else { ";" };
        text += &format!("{comma} set by hand and left alone: {}", kept.join(", "));
    }
    text
}
