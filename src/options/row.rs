//! A row of the option table: how an option is called, what it takes and what it changes.

use thiserror::Error;

use super::kinds::{EMPTY, OptionKind};

/// The part of the program that reads an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The search of a position: [`SearchOptions`](super::SearchOptions) has these.
    Search,
    /// The networks: loading them, and the cache and the decorators in front of their backends.
    Network,
    /// The engine and the other programs that start searches: limits, time, tablebases, memory.
    Engine,
    /// The reports of a search.
    Report,
}

/// What an option changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What a search finds and which move is played.
    Play,
    /// The network: what is in the file decides, not its name.
    Weights,
    /// The tablebases: what is in the files decides, not their names.
    Tables,
    /// How long a search with a clock takes.
    Clock,
    /// Speed and memory.
    Speed,
    /// What is printed.
    Output,
}

/// What a changed option invalidates. The next search applies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invalidates {
    /// Nothing: the next search simply uses the new value.
    Nothing,
    /// The search tree.
    Tree,
    /// The networks beside the main one, with their caches, and the tree.
    OtherNetworks,
    /// All networks with their caches, and the tree.
    Network,
}

/// One row of the table, for listings.
#[derive(Clone, Debug)]
pub struct OptionRow {
    /// The UCI name.
    pub name: &'static str,
    /// Other UCI names for the same setting.
    pub aliases: &'static [&'static str],
    /// The command-line flag, without the dashes.
    pub flag: &'static str,
    /// The short form of the flag, as in lc0.
    pub short_flag: Option<char>,
    /// The flag that sets a [`OptionKind::Check`] to false.
    pub negative_flag: &'static str,
    /// Type and range.
    pub kind: OptionKind,
    /// The value in the options that the row was taken from, as text: the default in those of `Options::default()`.
    pub value: String,
    /// A few sentences.
    pub help: &'static str,
    /// Who reads it.
    pub scope: Scope,
    /// What it changes.
    pub effect: Effect,
    /// What a change invalidates.
    pub invalidates: Invalidates,
    /// Whether it has a meaning in UCI sessions only: to all other subcommands it is a mistake.
    pub is_only_uci: bool,
    /// Whether a network may recommend a value for it in its metadata.
    pub is_recommendable: bool,
    /// Whether a profile may set it. No profile sets what profiles depend on, or what applies to a whole session.
    pub is_for_profiles: bool,
    /// Whether it is announced to GUIs with `ShowHidden` only. It can be set in any case.
    pub is_hidden: bool,
    /// The values of a text that GUIs offer for selection; any other can be set, too. Empty for options that are
    /// announced as text. GUIs take a text whose name contains "file" for the name of a file.
    pub suggestions: &'static [&'static str],
}

impl Scope {
    /// As a word, for listings.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Search => "search",
            Scope::Network => "network",
            Scope::Engine => "engine",
            Scope::Report => "report",
        }
    }
}

impl Effect {
    /// As a word, for listings.
    pub fn name(self) -> &'static str {
        match self {
            Effect::Play => "play",
            Effect::Weights => "weights",
            Effect::Tables => "tables",
            Effect::Clock => "clock",
            Effect::Speed => "speed",
            Effect::Output => "output",
        }
    }
}

impl Invalidates {
    /// In words, for listings.
    pub fn name(self) -> &'static str {
        match self {
            Invalidates::Nothing => "nothing",
            Invalidates::Tree => "tree",
            Invalidates::OtherNetworks => "other networks, tree",
            Invalidates::Network => "networks, tree",
        }
    }
}

impl OptionRow {
    /// The lines that announce this option, and its aliases, to a GUI.
    pub fn uci_lines(&self) -> Vec<String> {
        let default = self.shown();
        let rest = match self.kind {
            OptionKind::Check => format!("check default {default}"),
            OptionKind::Spin { min, max } => format!("spin default {default} min {min} max {max}"),
            OptionKind::Combo(words) => {
                format!("combo default {default} var {}", words.join(" var "))
            }
            OptionKind::Text if !self.suggestions.is_empty() => {
                let mut words = self.suggestions.to_vec();
                if !words.contains(&default) {
                    words.push(default);
                }
                format!("combo default {default} var {}", words.join(" var "))
            }
            OptionKind::Float { .. } | OptionKind::Text => format!("string default {default}"),
        };
        std::iter::once(&self.name)
            .chain(self.aliases)
            .map(|name| format!("option name {name} type {rest}"))
            .collect()
    }

    /// The value as UCI writes it: an empty text is `<empty>`.
    pub fn shown(&self) -> &str {
        match &*self.value {
            "" => EMPTY,
            value => value,
        }
    }

    /// The range or the choices, for listings; empty for text.
    pub fn range(&self) -> String {
        match self.kind {
            OptionKind::Check => "true, false".into(),
            OptionKind::Spin { min, max } => format!("{min} to {max}"),
            OptionKind::Float { min, max } => format!("{min} to {max}"),
            OptionKind::Combo(words) => words.join(", "),
            OptionKind::Text => String::new(),
        }
    }
}

/// Why an option was not set. The previous value is kept.
#[derive(Debug, Error, PartialEq)]
pub enum OptionError {
    /// No row has this name.
    #[error("unknown option '{0}'")]
    Unknown(String),
    /// The value is not of the option's type or range.
    #[error("option {name}: '{value}' is not {expected}")]
    BadValue {
        /// The option's UCI name.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would have been accepted.
        expected: String,
    },
    /// A part of a list of settings is not of the form `Option=value`.
    #[error("'{0}' is not of the form Option=value")]
    NoValue(String),
    /// The value has a form of its own, and this is wrong with it.
    #[error("option {name}: {reason}")]
    Malformed {
        /// The option's UCI name.
        name: &'static str,
        /// What is wrong, and where.
        reason: String,
    },
}

impl OptionError {
    /// The message about an option that was set by this name, which stands before that in the table if it is another.
    pub fn with_name_as_sent(&self, sent: &str) -> String {
        let text = self.to_string();
        match self {
            OptionError::BadValue { name, .. } | OptionError::Malformed { name, .. }
                if !name.eq_ignore_ascii_case(sent) =>
            {
                text.replacen(name, &format!("{sent} ({name})"), 1)
            }
            _ => text,
        }
    }
}
