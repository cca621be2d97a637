//! The syntax of the `BackendOptions` option: `key=value,name(key=value,...)`.
//!
//! A part without parentheses is a setting. One with parentheses, with or without a name before them, is a group with
//! settings of its own; the backends that combine others (`multiplexing`, `roundrobin`, `check`) take each group as one
//! child. A group inherits the settings beside it. A key without value means `key=true`.

use thiserror::Error;

/// A key of `BackendOptions`. Backends for which a key means the same take it from one constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key, in lower case.
    pub key: &'static str,
    /// Meaning and values, in Markdown.
    pub meaning: &'static str,
    /// The value if none is given, in Markdown.
    pub default: &'static str,
}

/// Threads of backends that compute on the processor.
pub const THREADS: Setting = Setting {
    key: "threads",
    meaning: "threads inside one evaluation, in addition to the search threads",
    default: "1",
};

/// Maximum number of groups that another one may be inside; the parser calls itself for each.
const MAX_NESTING: usize = 8;

/// Why a text is not in the syntax, or names a setting or value that does not exist.
#[derive(Debug, Error, PartialEq)]
pub enum BackendOptionsError {
    /// Parentheses that do not match, or text between a closing one and the next comma.
    #[error(
        "BackendOptions: '{0}' has unmatched parentheses; expected settings key=value and groups of them in \
         parentheses, with commas between, as in backend=cuda,(gpu=0),(gpu=1)"
    )]
    Parentheses(String),
    /// Groups inside too many others.
    #[error("BackendOptions: a group may be inside at most {MAX_NESTING} others")]
    Nesting,
    /// A setting without name.
    #[error(
        "BackendOptions: '{0}' has a setting without a name; expected key=value, as in threads=2"
    )]
    NoName(String),
    /// A value that is not of the right type.
    #[error("BackendOptions: {key}={value} is not {expected}")]
    BadValue {
        /// The setting.
        key: String,
        /// What was given.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// Groups for a backend that does not combine others.
    #[error(
        "BackendOptions: {backend} takes no groups like {group}; multiplexing, roundrobin and check do"
    )]
    Groups {
        /// The backend.
        backend: String,
        /// The first group.
        group: String,
    },
    /// A setting that the backend does not have.
    #[error("BackendOptions: {backend} has no setting '{key}'; its settings are: {known}")]
    Unknown {
        /// The backend.
        backend: String,
        /// The setting.
        key: String,
        /// Those that it has.
        known: String,
    },
    /// A setting that a member of a combination inherits from it, and that neither has.
    #[error(
        "BackendOptions: neither {combination} nor {backend}, which inherits it, has a setting '{key}'; the settings \
         of {combination} are: {own}; those of {backend}: {known}"
    )]
    Inherited {
        /// The backend that combines others.
        combination: String,
        /// The member.
        backend: String,
        /// The setting.
        key: String,
        /// Those that the combination has.
        own: String,
        /// Those that the member has.
        known: String,
    },
    /// A setting that no backend has.
    #[error("BackendOptions: no backend has a setting '{key}'; the settings are: {known}")]
    UnknownToAll {
        /// The setting.
        key: String,
        /// Those of all backends.
        known: String,
    },
}

impl BackendOptionsError {
    /// The setting whose value is wrong, if that is the error.
    pub fn rejected_setting(&self) -> Option<&str> {
        match self {
            BackendOptionsError::BadValue { key, .. } => Some(key),
            _ => None,
        }
    }
}

/// Settings and groups of settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackendOptions {
    settings: Vec<(String, String)>,
    groups: Vec<(String, BackendOptions)>,
}

impl BackendOptions {
    /// Parses the text.
    ///
    /// # Errors
    /// When parentheses do not match or a setting has no name.
    pub fn parse(text: &str) -> Result<BackendOptions, BackendOptionsError> {
        BackendOptions::parse_within(text, 0)
    }

    /// Parses the text of a group inside this number of others.
    fn parse_within(text: &str, nesting: usize) -> Result<BackendOptions, BackendOptionsError> {
        if nesting > MAX_NESTING {
            return Err(BackendOptionsError::Nesting);
        }
        let mut options = BackendOptions::default();
        for part in split(text)? {
            let part = part.trim();
            match part.split_once('(') {
                Some((name, rest)) if !name.contains('=') => {
                    let inner = rest.strip_suffix(')');
                    let inner =
                        inner.ok_or_else(|| BackendOptionsError::Parentheses(text.to_owned()))?;
                    let group = BackendOptions::parse_within(inner, nesting + 1)?;
                    options.groups.push((name.trim().to_owned(), group));
                }
                _ => {
                    let (key, value) = part.split_once('=').unwrap_or((part, "true"));
                    if key.trim().is_empty() {
                        return Err(BackendOptionsError::NoName(text.to_owned()));
                    }
                    let setting = (key.trim().to_ascii_lowercase(), value.trim().to_owned());
                    options.settings.push(setting);
                }
            }
        }
        Ok(options)
    }

    /// The groups, each with what it inherits from here.
    pub fn groups(&self) -> impl Iterator<Item = (&str, BackendOptions)> {
        self.groups.iter().map(|(name, group)| {
            let mut group = group.clone();
            let inherited = self
                .settings
                .iter()
                .filter(|(key, _)| group.text(key).is_none());
            let inherited: Vec<_> = inherited.cloned().collect();
            group.settings.extend(inherited);
            (name.as_str(), group)
        })
    }

    /// The same without these settings.
    pub fn without(&self, keys: &[&str]) -> BackendOptions {
        let kept = self
            .settings
            .iter()
            .filter(|(key, _)| !keys.contains(&key.as_str()));
        BackendOptions {
            settings: kept.cloned().collect(),
            groups: self.groups.clone(),
        }
    }

    /// A setting as a fraction.
    ///
    /// # Errors
    /// When it is something else.
    pub fn fraction(&self, key: &str) -> Result<Option<f32>, BackendOptionsError> {
        let parsed = self.text(key).map(|value| {
            let number = value
                .parse()
                .ok()
                .filter(|number: &f32| number.is_finite() && *number >= 0.0);
            number.ok_or_else(|| BackendOptionsError::BadValue {
                key: key.to_owned(),
                value: value.to_owned(),
                expected: "a number of at least 0",
            })
        });
        parsed.transpose()
    }

    /// A setting as text (the last one, if it is given more than once).
    pub fn text(&self, key: &str) -> Option<&str> {
        let found = self.settings.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// A setting as a number.
    ///
    /// # Errors
    /// When it is something else.
    pub fn number(&self, key: &str) -> Result<Option<usize>, BackendOptionsError> {
        let parsed = self.text(key).map(|value| {
            value.parse().map_err(|_| BackendOptionsError::BadValue {
                key: key.to_owned(),
                value: value.to_owned(),
                expected: "a whole number",
            })
        });
        parsed.transpose()
    }

    /// The setting `threads`, 1 if it is not there.
    ///
    /// # Errors
    /// When it is no number of threads.
    pub fn threads(&self) -> Result<usize, BackendOptionsError> {
        match self.number("threads")? {
            None => Ok(1),
            Some(threads @ 1..=1024) => Ok(threads),
            Some(threads) => Err(BackendOptionsError::BadValue {
                key: "threads".to_owned(),
                value: threads.to_string(),
                expected: "a number from 1 to 1024",
            }),
        }
    }

    /// A setting as a list of numbers, such as `1/8/64`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<usize>>, BackendOptionsError> {
        let parsed = self.text(key).map(|value| {
            let numbers = value
                .split('/')
                .map(|number| number.trim().parse().ok().filter(|&n| n > 0));
            let numbers: Option<Vec<usize>> = numbers.collect();
            numbers.ok_or_else(|| BackendOptionsError::BadValue {
                key: key.to_owned(),
                value: value.to_owned(),
                expected: "a list of sizes like 1/8/64",
            })
        });
        parsed.transpose()
    }

    /// Refuses settings that are not among `known`, and groups.
    ///
    /// # Errors
    /// Names the first unknown one.
    pub fn only(&self, backend: &str, known: &[&str]) -> Result<(), BackendOptionsError> {
        if let Some((name, _)) = self.groups.first() {
            return Err(BackendOptionsError::Groups {
                backend: backend.to_owned(),
                group: format!("{name}(...)"),
            });
        }
        match self
            .settings
            .iter()
            .find(|(key, _)| !known.contains(&key.as_str()))
        {
            None => Ok(()),
            Some((key, _)) => Err(BackendOptionsError::Unknown {
                backend: backend.to_owned(),
                key: key.clone(),
                known: match known {
                    [] => "none".to_owned(),
                    known => known.join(", "),
                },
            }),
        }
    }
}

/// The parts between commas that are outside of parentheses.
fn split(text: &str) -> Result<Vec<&str>, BackendOptionsError> {
    let unbalanced = || BackendOptionsError::Parentheses(text.to_owned());
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(unbalanced)?,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    match depth {
        0 => Ok(parts),
        _ => Err(unbalanced()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An option's value may come from anywhere, and a stack is finite.
    #[test]
    fn groups_are_within_few_others() {
        let nested = |n: usize| "a(".repeat(n) + "threads=2" + &")".repeat(n);
        assert!(BackendOptions::parse(&nested(MAX_NESTING)).is_ok());
        for n in [MAX_NESTING + 1, 30_000] {
            let error = BackendOptions::parse(&nested(n));
            assert_eq!(error, Err(BackendOptionsError::Nesting));
        }
    }

    #[test]
    fn settings_and_groups_are_read() {
        let options =
            BackendOptions::parse("backend=cuda, fp16,a(gpu=0),(gpu=1,fp16=false)").unwrap();
        assert_eq!(
            (options.text("backend"), options.text("fp16")),
            (Some("cuda"), Some("true"))
        );
        let groups: Vec<_> = options.groups().collect();
        assert_eq!((groups[0].0, groups[0].1.number("gpu")), ("a", Ok(Some(0))));
        assert_eq!((groups[1].0, groups[1].1.text("fp16")), ("", Some("false")));
        assert_eq!(groups[1].1.text("backend"), Some("cuda"));
        let sizes = BackendOptions::parse("batch=1/8/64").unwrap();
        assert_eq!(sizes.numbers("batch"), Ok(Some(vec![1, 8, 64])));
        assert_eq!(
            BackendOptions::parse("").unwrap(),
            BackendOptions::default()
        );
    }

    #[test]
    fn mistakes_are_named() {
        for text in ["a(b=1", "a)b(", "=1", "a(b=1)c"] {
            let error = BackendOptions::parse(text).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        let options = BackendOptions::parse("threads=many,speed=9").unwrap();
        assert!(
            options
                .number("threads")
                .unwrap_err()
                .to_string()
                .contains("threads=many")
        );
        let error = options.only("rten", &["threads"]).unwrap_err().to_string();
        assert!(error.contains("speed") && error.contains("rten"), "{error}");
        let options = BackendOptions::parse("threads=0,a(b=1)").unwrap();
        let error = options.threads().unwrap_err().to_string();
        assert!(
            error.contains("threads=0 is not a number from 1"),
            "{error}"
        );
        let error = options.only("cuda", &["threads"]).unwrap_err().to_string();
        assert!(
            error.contains("cuda takes no groups like a(...)"),
            "{error}"
        );
        assert_eq!(BackendOptions::default().threads(), Ok(1));
    }
}
