//! The options that count: those that were set, with what a profile, the network and a limited strength make of them in a
//! game, or as they were set in an analysis without end. What the game goes by is remembered during an analysis and the
//! other way round, so that the networks of both stay loaded.

use std::{collections::BTreeSet, sync::Arc};

use super::{Go, Listener, autopilot::Autopilot, strength};
use crate::{
    chess::History,
    network::load::wishes::Wishes,
    options::{Invalidates, OptionError, Options},
};

/// What the engine is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Profiles and a limited strength count.
    Game,
    /// They do not.
    Analysis,
}

/// The options as they were set, and what counts of them.
pub(super) struct Settings {
    as_set: Options,
    in_force: Options,
    /// What those in force are for.
    used_for: Use,
    /// What a game went by and what an analysis did, once there was one.
    game: Option<Options>,
    analysis: Option<Options>,
    autopilot: Autopilot,
    /// The network that is played with.
    wishes_of: String,
    /// What it asks for.
    wishes: Wishes,
    listener: Arc<dyn Listener>,
}

impl Settings {
    /// These options, of which no profile may set those that were set `by_hand`.
    pub fn new(
        options: Options,
        by_hand: BTreeSet<&'static str>,
        listener: Arc<dyn Listener>,
    ) -> Settings {
        let mut autopilot = Autopilot::new(by_hand);
        if let Err(error) = autopilot.load(&options.profiles) {
            listener.note(&format!("error: {error}"));
        }
        let mut settings = Settings {
            in_force: options.clone(),
            used_for: use_of(&options),
            wishes: Wishes::of(&options.weights_file),
            wishes_of: options.weights_file.clone(),
            as_set: options,
            game: None,
            analysis: None,
            autopilot,
            listener,
        };
        settings.put_in_force();
        settings
    }

    /// The options as they were set.
    pub fn as_set(&self) -> &Options {
        &self.as_set
    }

    /// The options that count now.
    pub fn in_force(&self) -> &Options {
        &self.in_force
    }

    /// Options that may count soon again: what they need is worth keeping.
    pub fn soon(&self) -> Vec<&Options> {
        self.game.iter().chain(&self.analysis).collect()
    }

    /// For people: what the network asks for; empty if nothing.
    pub fn wishes(&self) -> String {
        self.wishes.text()
    }

    /// Sets an option.
    ///
    /// # Errors
    /// When there is no such option or the value does not fit.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let before = self.as_set.clone();
        if let Some(note) = self.as_set.set_as_in_lc0(name, value)? {
            self.listener.note(&note);
        }
        if self.as_set.profiles != before.profiles
            && let Err(error) = self.autopilot.load(&self.as_set.profiles)
        {
            self.as_set = before;
            self.listener.note(&format!("error: {error}"));
            return Ok(());
        }
        if let Some(option) = Options::name_of(name) {
            self.autopilot.set_by_hand(option);
        }
        self.put_in_force();
        if self.as_set.invalidated_since(&before) >= Invalidates::OtherNetworks {
            // Neither would come back to what was taken away.
            (self.game, self.analysis) = (None, None);
        }
        Ok(())
    }

    /// The next position belongs to another game.
    pub fn new_game(&mut self) {
        self.autopilot.new_game();
        self.put_in_force();
        (self.game, self.analysis) = (None, None);
    }

    /// Looks at a position that was set: profiles may ask for something else there.
    pub fn see_position(&mut self, game: &History) {
        self.autopilot.see_position(game);
        self.put_in_force();
    }

    /// Makes them ready for a search, which is an analysis without end if it `is_analysis`.
    pub fn begin(&mut self, go: &Go, game: &History, is_analysis: bool) {
        self.autopilot.see_clock(go, game);
        match is_analysis {
            true => self.put_as_set(),
            false => self.put_in_force(),
        }
        *self.remembered(self.used_for) = Some(self.in_force.clone());
    }

    /// Finds out which options count for this game, and says so when a profile changes some.
    fn put_in_force(&mut self) {
        let (mut options, announcement) = self.autopilot.in_force(&self.as_set);
        // A person may play in the place of the network.
        strength::limit(&mut options);
        self.apply_wishes(&mut options);
        self.replace(options, use_of(&self.as_set));
        if let Some(text) = announcement {
            self.listener.note(&text);
        }
    }

    /// An analysis is no game: neither profile nor strength limit counts.
    fn put_as_set(&mut self) {
        if let Some(text) = self.autopilot.lift() {
            self.listener.note(text);
        }
        let mut options = self.as_set.clone();
        self.apply_wishes(&mut options);
        self.replace(options, Use::Analysis);
    }

    /// What was in force for another use is remembered, if no search has done so: it may have been prepared for one.
    fn replace(&mut self, options: Options, used_for: Use) {
        let old = std::mem::replace(&mut self.in_force, options);
        if self.used_for != used_for {
            self.remembered(self.used_for).get_or_insert(old);
        }
        self.used_for = used_for;
    }

    fn remembered(&mut self, used_for: Use) -> &mut Option<Options> {
        match used_for {
            Use::Game => &mut self.game,
            Use::Analysis => &mut self.analysis,
        }
    }

    /// Sets what the network asks for where neither the user nor a profile has set anything.
    fn apply_wishes(&mut self, options: &mut Options) {
        if self.wishes_of != options.weights_file {
            self.wishes_of.clone_from(&options.weights_file);
            self.wishes = Wishes::of(&self.wishes_of);
        }
        self.wishes.apply(options, &self.autopilot.settled());
    }
}

/// What the engine is used for if nobody searches without end.
fn use_of(options: &Options) -> Use {
    match options.analyse_mode {
        true => Use::Analysis,
        false => Use::Game,
    }
}
