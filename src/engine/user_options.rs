//! What the user has set, by flags and through the GUI, apart from defaults that a GUI sends only because it sends
//! everything.
//!
//! Some GUIs, Cute Chess for one, store all announced options with an engine and send them all at each start. If such
//! defaults counted as the user's, neither the network nor a profile could set any option. Other programs send only
//! what their user has set, also where that is the default. The two differ in the number of options.

use std::collections::BTreeMap;

use crate::options::{
    OptionError, Options,
    layers::{Layer, Layers},
};

/// Who sets an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetBy {
    /// A GUI, which may send all options.
    Gui,
    /// A configuration file that the GUI names.
    File,
}

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
    /// The names, in the table, of the options that the GUI has set, and the names by which it did so: some options are
    /// announced by two.
    sent: BTreeMap<&'static str, String>,
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
            sent: BTreeMap::new(),
        }
    }

    /// Sets an option, and returns a message: about an option of lc0 that Scorn does not have, or about one that was
    /// set by another name before.
    ///
    /// # Errors
    /// When there is no such option, here or in lc0, or the value does not fit; nothing changes then.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<Option<String>, OptionError> {
        let before = self.all.clone();
        let note = self.all.set_as_in_lc0(name, value)?;
        let Some(main) = Options::name_of(name) else {
            return Ok(note);
        };
        let is_changed = |layer: &Layer| layer.differences(&self.announced).contains(main);
        match self.sent.get(main) {
            // A GUI that sends everything sends the announced default by the other name.
            Some(other)
                if !other.eq_ignore_ascii_case(name)
                    && is_changed(&before)
                    && !is_changed(&self.all) =>
            {
                let note = format!("{name} {value}: the value that was set as {other} stays");
                self.all = before;
                Ok(Some(note))
            }
            _ => {
                self.sent.insert(main, name.to_owned());
                Ok(note)
            }
        }
    }

    /// Whether the option called `name` has another value than the announced one.
    pub(super) fn changes(&self, name: &str) -> bool {
        self.all.differences(&self.announced).contains(name)
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
            let as_announced = self.sent.keys().filter(|name| !changed.contains(*name));
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
    use crate::options::layers::OptionSource;

    /// With `--cpuct 2` on the command line and `RootChoice=lcb` in the configuration file.
    fn started() -> (UserOptions, Layers) {
        let mut layers = Layers::default();
        layers.user.set("CPuct", "2").unwrap();
        layers.file.set("RootChoice", "lcb").unwrap();
        (UserOptions::new(&layers), layers)
    }

    /// Sends the announced options as a GUI does that stores them all, with other values for some.
    fn send_all(user: &mut UserOptions, layers: &Layers, others: &[(&str, &str)]) {
        for row in layers.as_set().announced_rows() {
            for name in std::iter::once(&row.name).chain(row.aliases) {
                let other = others.iter().find(|(other, _)| other == name);
                let value = other.map_or(&*row.value, |(_, value)| value);
                user.set(name, value).unwrap();
            }
        }
    }

    #[test]
    fn an_option_with_two_names_may_be_changed_by_either() {
        for (name, main) in [
            ("RamLimitMb", "RamLimitMb"),
            ("Hash", "RamLimitMb"),
            ("MoveOverheadMs", "MoveOverheadMs"),
            ("Move Overhead", "MoveOverheadMs"),
        ] {
            let (mut user, layers) = started();
            for value in ["700", "800"] {
                send_all(&mut user, &layers, &[(name, value)]);
                let set = user.layer().settings();
                assert!(set.contains(&(main, value.to_owned())), "{name}: {set:?}");
            }
            // The user takes it back.
            send_all(&mut user, &layers, &[]);
            assert!(!user.layer().sets(main), "{name}");
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
        assert_eq!(layers.resolve().source_of("RootChoice"), OptionSource::File);
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
        assert!(user.set("CPuct", "x").is_err());
        assert!(user.set("NoSuch", "1").is_err());
        assert!(!user.sends_everything());
        let names: Vec<_> = user.layer().names().collect();
        assert_eq!(names, ["CPuct", "PolicyTemperature", "RootChoice"]);
    }
}
