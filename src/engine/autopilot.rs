//! The odds autopilot at work: the layer of the profiles that match the game being played.

use std::time::Duration;

use shakmaty::Position;

use super::Go;
use crate::{
    chess::{
        History,
        opponent::{self, OpponentKind},
    },
    network::backend::from_lc0,
    odds::{NetworkChoice, OddsFacts, ProfileError, Profiles, ResolvedProfiles, Signature},
    options::{
        Options,
        layers::{Layer, Layers},
    },
};

/// Number of increments in the assumed length of a game, as on lichess.
const INCREMENTS: u32 = 40;

/// Pairs of options with one purpose, of which the first has priority: a profile that set the first would overrule a
/// user who has set the second.
const SAME_PURPOSE: [(&str, &str); 1] = [("OpponentWeights", "OpponentRating")];

/// Profiles, and what they depend on in the game that is being played.
#[derive(Default)]
pub(super) struct Autopilot {
    profiles: Profiles,
    /// The game as it was last seen.
    game: Option<History>,
    /// How long it may take, once a clock was seen.
    clock: Option<Duration>,
    /// What was announced last.
    announced: ResolvedProfiles,
    /// Whether the game is another one than that of the announcement.
    is_new_game: bool,
}

impl Autopilot {
    /// Loads the profiles that the option names.
    ///
    /// # Errors
    /// When they cannot be read or are not valid; the previous ones stay.
    pub fn load(&mut self, named: &str) -> Result<(), ProfileError> {
        self.profiles = Profiles::load(named)?;
        Ok(())
    }

    /// The next position belongs to another game.
    pub fn new_game(&mut self) {
        (self.game, self.clock) = (None, None);
        self.is_new_game = true;
    }

    /// A position was set, which may belong to another game.
    pub fn see_position(&mut self, game: &History) {
        if !self.game.as_ref().is_some_and(|old| game.continues(old)) {
            self.clock = None;
        }
        self.game = Some(game.clone());
    }

    /// A search of this game was requested: its first clock says how long it may take. The position may be one that was
    /// set before the game was called a new one.
    pub fn see_search(&mut self, go: &Go, game: &History) {
        self.game.get_or_insert_with(|| game.clone());
        if let (Some(left), increment) = go.clock(game.position().turn()) {
            self.clock
                .get_or_insert(left.saturating_add(increment.saturating_mul(INCREMENTS)));
        }
    }

    /// What the profiles that match the game set, and the message about it unless it was sent before. What the user or
    /// the configuration file has set is left out. `as_set` are the options that these two give.
    pub fn resolve(&mut self, layers: &Layers, as_set: &Options) -> (Layer, Option<String>) {
        // A user who wants the replies of people with a rating expects one of them.
        let assumed = Some(as_set.opponent_rating).filter(|&rating| rating > 0);
        let resolved = match &self.game {
            Some(game) if !as_set.analyse_mode => self.profiles.resolve(&OddsFacts {
                signature: Signature::of(&game.plies()[0].position, game.position().turn()),
                side: game.position().turn(),
                rating: opponent::rating(&as_set.opponent).or(assumed),
                opponent: opponent::kind(&as_set.opponent)
                    .or(assumed.and(Some(OpponentKind::Human))),
                advantage: as_set.rating_advantage,
                clock: self.clock,
                network: match layers.setter_of("WeightsFile") {
                    Some(_) => NetworkChoice::Own,
                    None => NetworkChoice::Default,
                },
            }),
            _ => ResolvedProfiles::default(),
        };
        let mut layer = Layer::default();
        let (mut set, mut unchanged) = (Vec::new(), Vec::new());
        for (name, value) in &resolved.settings {
            let (value, _) = from_lc0(name, value);
            match decision(layers, name) {
                Some(decision) => unchanged.push(decision),
                // The values were checked when the profiles were read.
                None if layer.set(name, value).is_ok() => set.push(format!("{name} {value}")),
                None => {}
            }
        }
        if self.game.is_none() {
            // There is nothing to say before the game has a position.
            return (layer, None);
        }
        let is_new = resolved.settings != self.announced.settings
            || (self.is_new_game && !resolved.settings.is_empty());
        let text = is_new.then(|| announcement(&resolved, &set, &unchanged));
        (self.announced, self.is_new_game) = (resolved, false);
        (layer, text)
    }

    /// No profile applies until the next [`Autopilot::resolve`]. The message about that, if one was announced.
    pub fn lift(&mut self) -> Option<&'static str> {
        let announced = std::mem::take(&mut self.announced);
        (!announced.settings.is_empty())
            .then_some("profile none: an infinite analysis uses the options as they were set")
    }
}

/// Who has set an option, or another one with the same purpose, in the place of a profile.
fn decision(layers: &Layers, name: &'static str) -> Option<String> {
    if let Some(source) = layers.setter_of(name) {
        return Some(format!("{name} (set by {source})"));
    }
    let mut others = SAME_PURPOSE.iter().filter(|(first, _)| *first == name);
    others.find_map(|(_, other)| {
        let source = layers.setter_of(other)?;
        Some(format!("{name} ({other} set by {source})"))
    })
}

fn announcement(resolved: &ResolvedProfiles, set: &[String], unchanged: &[String]) -> String {
    if resolved.names.is_empty() {
        return "profile none: the options are as they were set".into();
    }
    let mut text = format!("profile {}:", resolved.names.join(" + "));
    if resolved.settings.is_empty() {
        text += " sets nothing";
    }
    if !set.is_empty() {
        text += &format!(" {}", set.join(", "));
    }
    if !unchanged.is_empty() {
        let separator = if set.is_empty() { "" } else { ";" };
        text += &format!("{separator} unchanged: {}", unchanged.join(", "));
    }
    text
}
