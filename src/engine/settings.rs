//! The options in force: in a game, what the layers of [`options::layers`](crate::options::layers) and the strength
//! limit give; in an infinite analysis the same without profiles and limit. What the last game searched with for each
//! side, and the last analysis, is remembered, so that the networks of all stay loaded when the user changes between
//! them.

use std::sync::Arc;

use shakmaty::{ByColor, Color, Position as _};

use super::{
    Go,
    autopilot::Autopilot,
    strength,
    user_options::{SetBy, UserOptions},
};
use crate::{
    chess::{History, opponent},
    network::{
        backend::from_lc0,
        source::{built_in::BUILT_IN, recommended::recommended_options},
    },
    options::{
        Invalidates, OptionError, OptionRow, Options,
        layers::{Layer, Layers, OptionSource, Resolved},
    },
};

/// Receives messages for the user.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// What the engine is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// A game with this side. Profiles and the strength limit apply.
    Game(Color),
    /// They do not.
    Analysis,
}

/// The options as they were set, and those in force.
pub struct Settings {
    /// Network and profile are those in force.
    layers: Layers,
    /// Where the user's layer comes from.
    user: UserOptions,
    /// What user and configuration file have set.
    as_set: Options,
    in_force: Resolved,
    /// What those in force are for.
    used_for: Use,
    /// The side that the next search is for.
    side: Color,
    /// What the last game searched with for each side, and the last analysis.
    game: ByColor<Option<Options>>,
    analysis: Option<Options>,
    autopilot: Autopilot,
    /// The network whose recommendations the layers have.
    network: String,
    note: Note,
}

impl Settings {
    /// With what user and configuration file have set. Messages go to `note`.
    pub fn new(layers: Layers, note: Note) -> Settings {
        let as_set = layers.as_set();
        let mut autopilot = Autopilot::default();
        if let Err(error) = autopilot.load(&as_set.profiles) {
            note(&format!("error: {error}"));
        }
        let mut settings = Settings {
            network: String::new(),
            user: UserOptions::new(&layers),
            layers,
            in_force: Resolved::default(),
            used_for: use_of(&as_set, Color::White),
            side: Color::White,
            as_set,
            game: ByColor::default(),
            analysis: None,
            autopilot,
            note,
        };
        settings.note_opponent();
        settings.apply_for_game();
        settings
    }

    /// Says what is wrong with `UCI_Opponent`, if something is.
    fn note_opponent(&self) {
        if let Some(problem) = opponent::problem(&self.as_set.opponent) {
            (self.note)(&problem);
        }
    }

    /// What user and configuration file have set.
    pub fn as_set(&self) -> &Options {
        &self.as_set
    }

    /// The options in force.
    pub fn in_force(&self) -> &Options {
        self.in_force.options()
    }

    /// The options in force, with the source of each.
    pub fn resolved(&self) -> &Resolved {
        &self.in_force
    }

    /// The options in force, for the built-in network in place of that of the options.
    pub(super) fn stand_in_options(&self) -> StandInOptions {
        StandInOptions {
            layers: self.layers.clone(),
            used_for: self.used_for,
        }
    }

    /// Options that may soon be in force again: what they need is worth keeping.
    pub(super) fn soon(&self) -> Vec<&Options> {
        self.game.iter().flatten().chain(&self.analysis).collect()
    }

    /// What the network recommends, and who else decides: to append to a message, empty if nothing is recommended.
    pub(super) fn recommendations(&self) -> String {
        let recommended = self.layers.network.settings();
        let parts: Vec<String> = recommended
            .iter()
            .map(|(name, value)| match self.in_force.source_of(name) {
                OptionSource::Network => format!("{name} {value}"),
                source => {
                    let row = self.in_force().row(name);
                    let other = row.as_ref().map_or("", OptionRow::shown);
                    format!("{name} {value} ({source}: {other})")
                }
            })
            .collect();
        if parts.is_empty() {
            String::new()
        } else {
            format!("; the network recommends {}", parts.join(", "))
        }
    }

    /// Sets an option for the user or the configuration file. The user decides, whichever came first.
    ///
    /// # Errors
    /// When there is no such option or the value does not fit.
    pub fn set(&mut self, name: &str, value: &str, by: SetBy) -> Result<(), OptionError> {
        let (user, layers, before) = (self.user.clone(), self.layers.clone(), self.as_set.clone());
        let (value, note) = from_lc0(name, value);
        let ignored = match by {
            SetBy::Gui => self.user.set(name, value)?,
            SetBy::File => self.layers.file.set_as_in_lc0(name, value)?,
        };
        if let Some(text) = note.or(ignored) {
            (self.note)(&text);
        }
        self.layers.user = self.user.layer();
        self.as_set = self.layers.as_set();
        // A file that is named again may have been edited.
        let is_named = Options::name_of(name) == Some("Profiles");
        if (is_named || self.as_set.profiles != before.profiles)
            && let Err(error) = self.autopilot.load(&self.as_set.profiles)
        {
            (self.user, self.layers, self.as_set) = (user, layers, before);
            (self.note)(&format!("error: {error}"));
            return Ok(());
        }
        if by == SetBy::File {
            self.note_if_overruled(name);
        }
        if self.as_set.opponent != before.opponent {
            self.note_opponent();
        }
        if self.user.sends_everything() && !user.sends_everything() {
            (self.note)(
                "the GUI sends all options: those with the announced defaults count as not set, so that network, \
                 profiles and configuration file may set them",
            );
        }
        self.apply_for_game();
        if self.as_set.invalidated_since(&before) >= Invalidates::OtherNetworks {
            self.forget();
        }
        Ok(())
    }

    /// Says so if the user has set another value than the configuration file for the option called `name`. An announced
    /// default does not count: a GUI that sends all options may be about to.
    fn note_if_overruled(&self, name: &str) {
        let overruled = self.layers.file.differences(&self.as_set);
        let is_overruled = |main: &&str| overruled.contains(main) && self.user.changes(main);
        let main = Options::name_of(name).filter(is_overruled);
        if let Some(row) = main.and_then(|main| self.as_set.row(main)) {
            (self.note)(&format!(
                "{}: the configuration file's value has no effect, because the user has set {}",
                row.name,
                row.shown()
            ));
        }
    }

    /// The next position belongs to another game.
    pub fn new_game(&mut self) {
        self.autopilot.new_game();
        self.apply_for_game();
        self.forget();
    }

    /// Forgets what was searched with: networks of another game, or that were replaced, are not needed again.
    fn forget(&mut self) {
        (self.game, self.analysis) = (ByColor::default(), None);
    }

    /// A position was set: other profiles may match the game.
    pub fn see_position(&mut self, game: &History) {
        self.side = game.position().turn();
        self.autopilot.see_position(game);
        self.apply_for_game();
    }

    /// Brings them into force for a search, which is an infinite analysis if it `is_analysis`.
    pub fn begin(&mut self, go: &Go, game: &History, is_analysis: bool) {
        self.side = game.position().turn();
        self.autopilot.see_search(go, game);
        if is_analysis {
            self.apply_for_analysis();
        } else {
            self.apply_for_game();
        }
        *self.remembered(self.used_for) = Some(self.in_force().clone());
    }

    /// Brings those for this game into force, and says so when a profile changes some.
    fn apply_for_game(&mut self) {
        let (profile, announcement) = self.autopilot.resolve(&self.layers, &self.as_set);
        self.layers.profile = profile;
        self.apply(use_of(&self.as_set, self.side));
        if let Some(text) = announcement {
            (self.note)(&text);
        }
    }

    /// An analysis is no game: neither profile nor strength limit applies.
    fn apply_for_analysis(&mut self) {
        if let Some(text) = self.autopilot.lift() {
            (self.note)(text);
        }
        self.layers.profile = Layer::default();
        self.apply(Use::Analysis);
    }

    /// Brings the layers into force for this use, with what overrides them. What was in force for another use is
    /// remembered if no search has done so: it may have been prepared for one.
    fn apply(&mut self, used_for: Use) {
        // No network recommends another one in its place.
        let weights = overridden(&self.layers, used_for)
            .into_options()
            .weights_file;
        if self.network != weights {
            self.layers.network = recommended_options(&weights);
            self.network = weights;
        }
        let in_force = overridden(&self.layers, used_for);
        let old = std::mem::replace(&mut self.in_force, in_force);
        if self.used_for != used_for {
            self.remembered(self.used_for)
                .get_or_insert(old.into_options());
        }
        self.used_for = used_for;
    }

    fn remembered(&mut self, used_for: Use) -> &mut Option<Options> {
        match used_for {
            Use::Game(side) => self.game.get_mut(side),
            Use::Analysis => &mut self.analysis,
        }
    }
}

/// The layers from which the options of the built-in network follow where it stands in for another one. Resolving them
/// takes longer than a search should wait that does not need them.
pub(super) struct StandInOptions {
    layers: Layers,
    used_for: Use,
}

impl StandInOptions {
    /// The options, with what the built-in network recommends in place of what the other one does. In place of a
    /// network of human moves it plays at its own level.
    pub fn resolve(&self) -> Options {
        let layers = Layers {
            network: recommended_options(BUILT_IN),
            ..self.layers.clone()
        };
        let mut resolved = layers.resolve();
        let without_human = |options: &mut Options| options.human_weights.clear();
        resolved.override_by(OptionSource::Strength, without_human);
        with_overrides(resolved, self.used_for).into_options()
    }
}

/// What the layers bring into force for a use, with what overrides them all.
fn overridden(layers: &Layers, used_for: Use) -> Resolved {
    with_overrides(layers.resolve(), used_for)
}

/// The same, from what the layers give.
fn with_overrides(mut resolved: Resolved, used_for: Use) -> Resolved {
    match used_for {
        Use::Game(_) => resolved.override_by(OptionSource::Strength, strength::limit),
        Use::Analysis => resolved.override_by(OptionSource::Analysis, |options| {
            options.limit_strength = false;
        }),
    }
    if resolved.options().analyse_mode {
        resolved.override_by(OptionSource::Analysis, Options::disable_randomness);
    }
    resolved
}

/// What the engine is used for, with this side to move, unless it searches without limits.
fn use_of(options: &Options, side: Color) -> Use {
    if options.analyse_mode {
        Use::Analysis
    } else {
        Use::Game(side)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn the_built_in_network_stands_in_with_its_own_recommendations() {
        let recommended = Layers {
            network: recommended_options(BUILT_IN),
            ..Layers::default()
        };
        let recommended = recommended.resolve().into_options();
        let default = Options::default();
        // Otherwise this tests nothing.
        assert_ne!(recommended.policy_temperature, default.policy_temperature);
        assert_ne!(recommended.cpuct, default.cpuct);
        let mut settings = Settings::new(Layers::default(), Arc::new(|_: &str| {}));
        for (name, value) in [("WeightsFile", "/no/such.pb.gz"), ("CPuct", "2.5")] {
            settings.set(name, value, SetBy::Gui).unwrap();
        }
        let in_force = settings.in_force();
        assert_eq!(in_force.policy_temperature, default.policy_temperature);
        let stand_in = settings.stand_in_options().resolve();
        assert_eq!(stand_in.policy_temperature, recommended.policy_temperature);
        assert_eq!(stand_in.cpuct, 2.5, "the user decides");
    }

    #[test]
    fn a_configuration_file_named_in_a_session_decides_where_the_user_does_not() {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&notes);
        let note = move |text: &str| noted.lock().push(text.to_owned());
        let mut settings = Settings::new(Layers::default(), Arc::new(note));
        let decided = |settings: &Settings| {
            let source = settings.resolved().source_of("PolicyTemperature");
            (settings.in_force().policy_temperature, source)
        };
        // As Cute Chess does.
        for row in Options::default().announced_rows() {
            settings.set(row.name, &row.value, SetBy::Gui).unwrap();
        }
        assert_eq!(decided(&settings).1, OptionSource::Network);
        settings
            .set("PolicyTemperature", "1.359", SetBy::File)
            .unwrap();
        assert_eq!(decided(&settings), (1.359, OptionSource::File));
        let is_overruled = |note: &String| note.contains("PolicyTemperature: the configuration");
        assert!(!notes.lock().iter().any(is_overruled));
        // Whichever comes first, the user decides.
        for by in [SetBy::Gui, SetBy::File] {
            let value = if by == SetBy::Gui { "2" } else { "1.5" };
            settings.set("PolicyTemperature", value, by).unwrap();
            assert_eq!(decided(&settings), (2.0, OptionSource::User));
        }
        assert!(notes.lock().iter().any(is_overruled));
        // The user takes it back.
        settings
            .set("PolicyTemperature", "1.359", SetBy::Gui)
            .unwrap();
        assert_eq!(decided(&settings), (1.5, OptionSource::File));
    }

    /// Otherwise a file with many options would count as a GUI that sends all of them.
    #[test]
    fn a_configuration_file_is_no_gui_that_sends_everything() {
        let mut settings = Settings::new(Layers::default(), Arc::new(|_: &str| {}));
        for row in Options::default().announced_rows() {
            settings.set(row.name, &row.value, SetBy::File).unwrap();
        }
        assert!(!settings.user.sends_everything());
        let source = settings.resolved().source_of("PolicyTemperature");
        assert_eq!(source, OptionSource::File);
    }

    #[test]
    fn profiles_that_cannot_be_read_leave_those_of_the_configuration_file() {
        let mut settings = Settings::new(Layers::default(), Arc::new(|_: &str| {}));
        settings.set("Profiles", "off", SetBy::File).unwrap();
        settings
            .set("Profiles", "/no/such.toml", SetBy::File)
            .unwrap();
        assert_eq!(settings.as_set().profiles, "off");
        let source = settings.resolved().source_of("Profiles");
        assert_eq!(source, OptionSource::File);
    }

    #[test]
    fn the_built_in_network_stands_in_for_one_of_human_moves_at_its_own_level() {
        for elo in [1200, 1900] {
            let options_of = |human: &str| {
                let mut settings = Settings::new(Layers::default(), Arc::new(|_: &str| {}));
                for (name, value) in [
                    ("UCI_LimitStrength", "true"),
                    ("UCI_Elo", &*elo.to_string()),
                    ("HumanWeights", human),
                ] {
                    settings.set(name, value, SetBy::Gui).unwrap();
                }
                let in_force = settings.in_force().clone();
                (in_force, settings.stand_in_options().resolve())
            };
            let (human, stand_in) = options_of("/no/such.pb.gz");
            assert_eq!((human.node_limit, human.policy_temperature), (1, 1.0));
            let (built_in, _) = options_of("");
            let level = strength::at(elo);
            assert_eq!(built_in.node_limit, level.nodes);
            assert_eq!(built_in.temperature, level.temperature);
            assert_eq!(stand_in, built_in);
        }
    }
}
