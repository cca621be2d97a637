//! What the user has set, by flags and through the GUI, apart from defaults that a GUI sends only because it sends
//! everything.
//!
//! Some GUIs, Cute Chess for one, store all announced options with an engine and send them all at each start. If such
//! defaults counted as the user's, neither the network nor a profile could set any option. Other programs send only
//! what their user has set, also where that is the default. The two differ in the number of options.

use std::collections::BTreeSet;

use crate::options::{
    OptionError, Options,
    layers::{Layer, Layers},
};

/// What the user has set.
#[derive(Clone)]
pub(super) struct UserOptions {
    /// By flags of the command line.
    flags: Layer,
    /// The values that are announced to the GUI as defaults.
    announced: Options,
    /// How many options are announced.
    announced_count: usize,
    /// By flags and by the GUI.
    all: Layer,
    /// The names, in the table, of the options that the GUI has set.
    sent: BTreeSet<&'static str>,
}

impl UserOptions {
    /// Before the GUI sends an option.
    pub(super) fn new(layers: &Layers) -> UserOptions {
        let announced = layers.as_set();
        UserOptions {
            flags: layers.user.clone(),
            announced_count: announced.announced_rows().count(),
            announced,
            all: layers.user.clone(),
            sent: BTreeSet::new(),
        }
    }

    /// Sets an option for the GUI, and returns the message about one of lc0 that Scorn does not have.
    ///
    /// # Errors
    /// When there is no such option, here or in lc0, or the value does not fit; nothing changes then.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<Option<String>, OptionError> {
        let note = self.all.set_as_in_lc0(name, value)?;
        self.sent.extend(Options::name_of(name));
        Ok(note)
    }

    /// Whether the GUI has sent at least half of the options that are announced to it. It manages some of them itself.
    pub(super) fn sends_everything(&self) -> bool {
        2 * self.sent.len() >= self.announced_count
    }

    /// The user's layer.
    pub(super) fn layer(&self) -> Layer {
        let mut layer = self.all.clone();
        if self.sends_everything() {
            let changed = self.all.differences(&self.announced);
            let as_announced = self.sent.difference(&changed);
            for name in as_announced.filter(|name| !self.flags.sets(name)) {
                layer.unset(name);
            }
        }
        layer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::layers::Source;

    /// With `--cpuct 2` on the command line and `RootChoice=lcb` in the configuration file.
    fn started() -> (UserOptions, Layers) {
        let mut layers = Layers::default();
        layers.user.set("CPuct", "2").unwrap();
        layers.file.set("RootChoice", "lcb").unwrap();
        (UserOptions::new(&layers), layers)
    }

    /// Sends the announced options as a GUI does that stores them all, with other values for some.
    fn send_all(user: &mut UserOptions, layers: &Layers, others: &[(&str, &str)]) {
        for row in layers.as_set().rows().iter().filter(|row| !row.is_hidden) {
            let other = others.iter().find(|(name, _)| *name == row.name);
            user.set(row.name, other.map_or(&row.default, |(_, value)| value))
                .unwrap();
        }
    }

    #[test]
    fn of_a_gui_that_sends_everything_only_other_values_count() {
        let (mut user, layers) = started();
        send_all(&mut user, &layers, &[("FpuValue", "0.5")]);
        assert!(user.sends_everything());
        let kept = [("CPuct", "2".to_owned()), ("FpuValue", "0.5".to_owned())];
        assert_eq!(user.layer().settings(), kept);
        let layers = Layers {
            user: user.layer(),
            ..layers
        };
        assert_eq!(layers.resolve().source_of("RootChoice"), Source::File);
        // The user changes a value and changes it back.
        user.set("CPuct", "3").unwrap();
        user.set("FpuValue", "0.33").unwrap();
        assert_eq!(user.layer().settings(), [("CPuct", "3".to_owned())]);
    }

    #[test]
    fn of_other_programs_every_value_counts() {
        let (mut user, _) = started();
        user.set("PolicyTemperature", "1.359").unwrap();
        user.set("rootchoice", "visits").unwrap();
        assert!(user.set("CPuct", "x").is_err() && user.set("NoSuch", "1").is_err());
        assert!(!user.sends_everything());
        let names: Vec<_> = user.layer().names().collect();
        assert_eq!(names, ["CPuct", "PolicyTemperature", "RootChoice"]);
    }
}
