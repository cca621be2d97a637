//! The types of option values, and how they are read and written.

use super::{
    contempt::ContemptList, ratio_schedule::RatioSchedule, time_manager::TimeManagerChoice,
};

/// How UCI writes an empty text.
pub(super) const EMPTY: &str = "<empty>";

/// A text as UCI writes it, without the word for an empty one.
fn unless_empty(text: &str) -> &str {
    match text {
        EMPTY => "",
        text => text,
    }
}

/// The type of an option's values, with their range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    /// `true` or `false`.
    Check,
    /// An integer.
    Spin {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A decimal number. Announced to GUIs as `type string`, as lc0 does: UCI has no such type.
    Float {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// One of these words.
    Combo(&'static [&'static str]),
    /// Any text.
    Text,
}

/// The accepted values, for an error message.
pub(super) fn expected(kind: OptionKind) -> String {
    match kind {
        OptionKind::Check => "true or false".into(),
        OptionKind::Spin { min, max } => format!("an integer from {min} to {max}"),
        OptionKind::Float { min, max } => format!("a number from {min} to {max}"),
        OptionKind::Combo(words) => format!("one of {}", words.join(", ")),
        OptionKind::Text => "text".into(),
    }
}

/// A type of option values.
pub(super) trait OptionValue: Sized {
    /// The value of a text, if it is valid and in range.
    fn parse(text: &str, kind: OptionKind) -> Option<Self>;
    /// As text, which [`OptionValue::parse`] reads.
    fn show(&self) -> String;
    /// Why a text is not valid, if a range does not say it.
    fn fault(_: &str) -> Option<String> {
        None
    }
}

impl OptionValue for bool {
    fn parse(text: &str, _: OptionKind) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Some(true),
            "false" | "off" | "no" | "0" => Some(false),
            _ => None,
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

macro_rules! integer_setting {
    ($($t:ty),*) => {$(
        impl OptionValue for $t {
            fn parse(text: &str, kind: OptionKind) -> Option<$t> {
                let value: i64 = text.trim().parse().ok()?;
                match kind {
                    OptionKind::Spin { min, max } if !(min..=max).contains(&value) => None,
                    _ => value.try_into().ok(),
                }
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
integer_setting!(i32, u32, u64, usize);

impl OptionValue for f32 {
    fn parse(text: &str, kind: OptionKind) -> Option<f32> {
        let value: f64 = text.trim().parse().ok()?;
        match kind {
            OptionKind::Float { min, max } if !(min..=max).contains(&value) => None,
            _ => Some(value as f32),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl OptionValue for String {
    fn parse(text: &str, _: OptionKind) -> Option<String> {
        Some(unless_empty(text).to_owned())
    }
    fn show(&self) -> String {
        self.clone()
    }
}

macro_rules! parsed_setting {
    ($($t:ty),*) => {$(
        impl OptionValue for $t {
            fn parse(text: &str, _: OptionKind) -> Option<$t> {
                unless_empty(text).parse().ok()
            }
            fn show(&self) -> String {
                self.to_string()
            }
            fn fault(text: &str) -> Option<String> {
                Some(text.parse::<$t>().err()?.to_string())
            }
        }
    )*};
}

parsed_setting!(TimeManagerChoice, ContemptList, RatioSchedule);
