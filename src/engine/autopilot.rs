//! The odds autopilot at work: the layer of the profiles that match the game being played.

use std::time::Duration;

use shakmaty::Position;

use super::{Go, strength};
use crate::{
    chess::{
        History,
        opponent::{self, OpponentKind},
    },
    network::{
        backend::from_lc0,
        opponent::Role,
        source::{built_in, network::file_of},
    },
    odds::{NetworkChoice, OddsFacts, ProfileError, Profiles, ResolvedProfiles, Signature},
    options::{
        Effect, Options, Scope,
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
    /// Whether a search of it was requested.
    is_searched: bool,
    /// What was announced last.
    announced: ResolvedProfiles,
    /// Whether the strength was limited then.
    was_limited: bool,
    /// Whether the game is another one than that of the announcement.
    is_new_game: bool,
}

/// The profiles that the option names.
///
/// # Errors
/// When they cannot be read or are not valid, and when a network that one of them names is missing.
pub fn load_profiles(named: &str) -> Result<Profiles, ProfileError> {
    Profiles::load(named, check_network)
}

/// Checks that a network which an option names is there. Otherwise another one would play the games of a profile.
fn check_network(option: &str, value: &str) -> Result<(), String> {
    let is_network =
        option == "HumanWeights" || Role::ALL.iter().any(|role| role.option() == option);
    if !is_network || value.trim().is_empty() || built_in::is_name(value) {
        return Ok(());
    }
    let file = file_of(value).map_err(|error| format!("{option}: {error}"))?;
    if file.is_file() {
        Ok(())
    } else {
        Err(format!("{option}: there is no file {}", file.display()))
    }
}

impl Autopilot {
    /// Loads the profiles that the option names.
    ///
    /// # Errors
    /// When they cannot be read or are not valid; the previous ones stay.
    pub fn load(&mut self, named: &str) -> Result<(), ProfileError> {
        self.profiles = load_profiles(named)?;
        Ok(())
    }

    /// The next position belongs to another game.
    pub fn new_game(&mut self) {
        (self.game, self.clock, self.is_searched) = (None, None, false);
        self.is_new_game = true;
    }

    /// A position was set, which may belong to another game.
    pub fn see_position(&mut self, game: &History) {
        if !self.game.as_ref().is_some_and(|old| game.continues(old)) {
            (self.clock, self.is_searched) = (None, false);
        }
        self.game = Some(game.clone());
    }

    /// A search of this game was requested: its first clock says how long it may take. The position may be one that was
    /// set before the game was called a new one.
    pub fn see_search(&mut self, go: &Go, game: &History) {
        self.game.get_or_insert_with(|| game.clone());
        self.is_searched = true;
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
            match decision(layers, as_set, name) {
                Some(decision) => unchanged.push(decision),
                // The values were checked when the profiles were read.
                None if layer.set(name, value).is_ok() => set.push(format!("{name} {value}")),
                None => {}
            }
        }
        let unknown = resolved.without_rating.iter();
        unchanged.extend(unknown.map(|name| format!("{name} (no rating known)")));
        if self.game.is_none() || (self.profiles.depends_on_clock() && !self.is_searched) {
            // There is nothing to say before the game has a position, or before its clock is known.
            return (layer, None);
        }
        let is_limited = strength::is_limited(as_set);
        let is_new = !resolved.sets_the_same(&self.announced)
            || ((self.is_new_game || is_limited != self.was_limited) && !resolved.is_empty());
        let text = is_new.then(|| {
            if resolved.names.is_empty() {
                self.no_profile(as_set).to_owned()
            } else {
                announcement(&resolved, &set, &unchanged)
            }
        });
        (self.announced, self.is_new_game) = (resolved, false);
        self.was_limited = is_limited;
        (layer, text)
    }

    /// The message that no profile matches any more.
    fn no_profile(&self, as_set: &Options) -> &'static str {
        let may_match = !as_set.analyse_mode && !self.profiles.is_empty();
        let game = self.game.as_ref().filter(|_| may_match);
        let is_uneven_middlegame = game.is_some_and(|game| {
            let (start, side) = (&game.plies()[0].position, game.position().turn());
            Signature::of(start, side).is_none()
                && Signature::of_board(start.board(), side).deficit() != 0
        });
        if is_uneven_middlegame {
            "profile none: the position is from the middle of a game, so the missing material is no odds; the \
             options are as they were set"
        } else {
            "profile none: the options are as they were set"
        }
    }

    /// No profile applies until the next [`Autopilot::resolve`]. The message about that, if one was announced.
    pub fn lift(&mut self) -> Option<&'static str> {
        let announced = std::mem::take(&mut self.announced);
        (!announced.is_empty())
            .then_some("profile none: an infinite analysis uses the options as they were set")
    }
}

/// Who decides on an option in the place of a profile: who has set it, or another one with the same purpose, or the
/// strength limit, whose levels were measured without profiles.
fn decision(layers: &Layers, as_set: &Options, name: &'static str) -> Option<String> {
    if let Some(source) = layers.setter_of(name) {
        return Some(format!("{name} (set by {source})"));
    }
    if strength::is_limited(as_set) && changes_moves(as_set, name) {
        return Some(format!("{name} (UCI_LimitStrength)"));
    }
    let mut others = SAME_PURPOSE.iter().filter(|(first, _)| *first == name);
    others.find_map(|(_, other)| {
        let source = layers.setter_of(other)?;
        Some(format!("{name} ({other} set by {source})"))
    })
}

/// Whether an option changes what a search with the same number of nodes finds, or which move is played then.
fn changes_moves(options: &Options, name: &str) -> bool {
    options.row(name).is_some_and(|row| {
        matches!(row.scope, Scope::Search | Scope::Network)
            && matches!(row.effect, Effect::Play | Effect::Weights)
    })
}

fn announcement(resolved: &ResolvedProfiles, set: &[String], unchanged: &[String]) -> String {
    let mut text = format!("profile {}:", resolved.names.join(" + "));
    if resolved.is_empty() {
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
