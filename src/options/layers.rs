//! Which value of an option is in force, and who decides it. Several sources may set an option; the one later in this
//! order decides:
//!
//! ```text
//! default < network < profile < file < user < override
//! ```
//!
//! The network recommends values in its metadata, a profile sets them for the game, a configuration file for every
//! session, and the user by a flag or through the GUI. An override comes last, because it is computed from what is in
//! force below it: the strength limit, the analysis mode, or what a subcommand cannot do without.
//!
//! A [`Layer`] holds what one source sets. [`Layers`] stacks them, and [`Resolved`] is the result: the options in force
//! with [`Resolved::source_of`] each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{OptionError, Options};

/// Who decides the value of an option, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionSource {
    /// The table of options.
    Default,
    /// The network recommends it.
    Network,
    /// A profile sets it for this game.
    Profile,
    /// The configuration file.
    File,
    /// The user: a flag of the command line, or the GUI.
    User,
    /// The strength limit (`UCI_LimitStrength`).
    Strength,
    /// The analysis mode (`UCI_AnalyseMode`).
    Analysis,
    /// The subcommand.
    Command,
}

impl fmt::Display for OptionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            OptionSource::Default => "default",
            OptionSource::Network => "network",
            OptionSource::Profile => "profile",
            OptionSource::File => "configuration file",
            OptionSource::User => "user",
            OptionSource::Strength => "strength limit",
            OptionSource::Analysis => "analysis mode",
            OptionSource::Command => "command",
        })
    }
}

/// The values that one source sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// Those that are not in `names` have their defaults.
    values: Options,
    names: BTreeSet<&'static str>,
}

impl Layer {
    /// Sets the option called `name` (in any case) from text.
    ///
    /// # Errors
    /// When there is no such option or the value does not fit; nothing changes then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        self.values.set(name, value)?;
        self.names.extend(Options::name_of(name));
        Ok(())
    }

    /// The same, but options and backends of lc0 that Scorn does not have are accepted; the message about them is
    /// returned.
    ///
    /// # Errors
    /// When there is no such option, here or in lc0, or the value does not fit; nothing changes then.
    pub fn set_as_in_lc0(
        &mut self,
        name: &str,
        value: &str,
    ) -> Result<Option<String>, OptionError> {
        let note = self.values.set_as_in_lc0(name, value)?;
        self.names.extend(Options::name_of(name));
        Ok(note)
    }

    /// The names of the options that are set to other values than those in `options`.
    pub fn differences(&self, options: &Options) -> BTreeSet<&'static str> {
        let different = self.values.differences(options).into_iter();
        different.filter(|name| self.sets(name)).collect()
    }

    /// Takes back what was set for the option with this name in the table.
    pub fn unset(&mut self, name: &str) {
        if let Some(name) = self.names.take(name) {
            self.values.copy(name, &Options::default());
        }
    }

    /// Whether the option with this name in the table is set.
    pub fn sets(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The names of the options that are set.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().copied()
    }

    /// The names and values of the options that are set, in the order of the table.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let rows = self.values.rows().into_iter();
        rows.filter(|row| self.sets(row.name))
            .map(|row| (row.name, row.value))
            .collect()
    }
}

/// The layers between the defaults and the overrides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layers {
    /// What the network recommends.
    pub network: Layer,
    /// What the profiles that match the game set.
    pub profile: Layer,
    /// The configuration file.
    pub file: Layer,
    /// Flags of the command line and options set by the GUI.
    pub user: Layer,
}

impl Layers {
    /// The options in force.
    pub fn resolve(&self) -> Resolved {
        let mut resolved = Resolved::default();
        for (source, layer) in [
            (OptionSource::Network, &self.network),
            (OptionSource::Profile, &self.profile),
            (OptionSource::File, &self.file),
            (OptionSource::User, &self.user),
        ] {
            for name in layer.names() {
                resolved.options.copy(name, &layer.values);
                resolved.sources.insert(name, source);
            }
        }
        resolved
    }

    /// The options as user and configuration file have set them, without network and profiles.
    pub fn as_set(&self) -> Options {
        let layers = Layers {
            network: Layer::default(),
            profile: Layer::default(),
            ..self.clone()
        };
        layers.resolve().into_options()
    }

    /// Which of user and configuration file decides the option with this name in the table, if one of them has set it.
    pub fn setter_of(&self, name: &str) -> Option<OptionSource> {
        let layers = [
            (OptionSource::User, &self.user),
            (OptionSource::File, &self.file),
        ];
        let setter = layers.iter().find(|(_, layer)| layer.sets(name));
        setter.map(|(source, _)| *source)
    }
}

/// Options in force, and the source of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    options: Options,
    /// The sources of those that are not the table's defaults.
    sources: BTreeMap<&'static str, OptionSource>,
}

impl Resolved {
    /// The options in force.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The options in force.
    pub fn into_options(self) -> Options {
        self.options
    }

    /// Who decides the value of the option with this name in the table.
    pub fn source_of(&self, name: &str) -> OptionSource {
        self.sources
            .get(name)
            .copied()
            .unwrap_or(OptionSource::Default)
    }

    /// Changes the options in force; `source` decides what differs afterwards.
    pub fn override_by(&mut self, source: OptionSource, change: impl FnOnce(&mut Options)) {
        let before = self.options.clone();
        change(&mut self.options);
        let changed = self.options.differences(&before);
        self.sources
            .extend(changed.into_iter().map(|name| (name, source)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stronger_source_decides() {
        let mut layers = Layers::default();
        let sources = |layers: &Layers| {
            let resolved = layers.resolve();
            (resolved.options().cpuct, resolved.source_of("CPuct"))
        };
        assert_eq!(sources(&layers), (1.745, OptionSource::Default));
        layers.user.set("cpuct", "6").unwrap();
        layers.network.set("CPuct", "3").unwrap();
        layers.network.set("FpuValue", "0.5").unwrap();
        assert_eq!(sources(&layers), (6.0, OptionSource::User));
        layers.user = Layer::default();
        assert_eq!(sources(&layers), (3.0, OptionSource::Network));
        layers.file.set("CPuct", "5").unwrap();
        layers.profile.set("CPuct", "4").unwrap();
        assert_eq!(sources(&layers), (5.0, OptionSource::File));
        assert_eq!(layers.as_set().cpuct, 5.0);
        assert_eq!(layers.setter_of("CPuct"), Some(OptionSource::File));
        layers.file = Layer::default();
        assert_eq!(sources(&layers), (4.0, OptionSource::Profile));
        assert_eq!(layers.as_set().cpuct, 1.745);
        assert_eq!(layers.setter_of("CPuct"), None);
        assert_eq!(layers.resolve().options().fpu_value, 0.5);
        assert_eq!(
            layers.resolve().source_of("FpuValue"),
            OptionSource::Network
        );
    }

    #[test]
    fn a_layer_holds_what_was_set_even_if_it_is_the_default() {
        let mut layers = Layers::default();
        layers.network.set("RootChoice", "lcb").unwrap();
        layers.user.set("RootChoice", "visits").unwrap();
        let resolved = layers.resolve();
        assert_eq!(resolved.source_of("RootChoice"), OptionSource::User);
        assert_eq!(*resolved.options(), Options::default());
        assert!(layers.user.set("CPuct", "x").is_err() && !layers.user.sets("CPuct"));
        assert!(layers.user.set("MaxPrefetch", "3").is_err());
        let note = layers.user.set_as_in_lc0("MaxPrefetch", "3").unwrap();
        assert!(note.is_some_and(|note| note.contains("MaxPrefetch")));
        let settings = [("RootChoice", "visits".to_owned())];
        assert_eq!(layers.user.settings(), settings);
        assert_eq!(layers.setter_of("RootChoice"), Some(OptionSource::User));
        assert!(layers.user.differences(&Options::default()).is_empty());
        layers.user.set("CPuct", "2").unwrap();
        assert!(
            layers
                .user
                .differences(&Options::default())
                .contains("CPuct")
        );
        layers.user.unset("RootChoice");
        layers.user.unset("CPuct");
        assert_eq!(layers.user, Layer::default());
        assert_eq!(
            layers.resolve().source_of("RootChoice"),
            OptionSource::Network
        );
    }

    #[test]
    fn an_override_decides_what_it_changes_and_nothing_else() {
        let mut layers = Layers::default();
        layers.user.set("NodeLimit", "5").unwrap();
        layers.user.set("Temperature", "1").unwrap();
        let mut resolved = layers.resolve();
        resolved.override_by(OptionSource::Strength, |options| {
            options.node_limit = options.node_limit.min(100);
            options.temperature = 0.5;
        });
        assert_eq!(resolved.source_of("NodeLimit"), OptionSource::User);
        assert_eq!(resolved.source_of("Temperature"), OptionSource::Strength);
        let options = resolved.into_options();
        assert_eq!((options.node_limit, options.temperature), (5, 0.5));
    }
}
