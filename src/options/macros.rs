//! What the rows of the option table become: the macro `options!` and its helpers. A row is, below its help,
//!
//! ```text
//! "Name" also "Other name"  "flag" 'f'  [scope effect, drops What, only uci, recommended, no profile, hidden,
//!                                       suggests "value" "value"]
//!     field: Type [min, max] = default;
//! ```
//!
//! Scope and effect are variants of [`Scope`](super::Scope) and [`Effect`](super::Effect) in lower case; all that
//! follows them is optional. `drops` names what a change [invalidates](super::Invalidates), the other marks are fields
//! of [`OptionRow`](super::OptionRow).

macro_rules! kind {
    (bool) => {
        OptionKind::Check
    };
    (String) => {
        OptionKind::Text
    };
    (TimeManagerChoice) => {
        OptionKind::Text
    };
    (ContemptList) => {
        OptionKind::Text
    };
    (RatioSchedule) => {
        OptionKind::Text
    };
    (f32, $min:literal, $max:literal) => {
        OptionKind::Float {
            min: $min as f64,
            max: $max as f64,
        }
    };
    ($t:ident, $min:literal, $max:literal) => {
        OptionKind::Spin {
            min: $min as i64,
            max: $max as i64,
        }
    };
    ($t:ident) => {
        OptionKind::Combo($t::WORDS)
    };
}

macro_rules! default {
    (String, $default:expr) => {
        $default.to_owned()
    };
    ($t:ident, $default:expr) => {
        $default
    };
}

macro_rules! scope {
    (search) => {
        Scope::Search
    };
    (network) => {
        Scope::Network
    };
    (engine) => {
        Scope::Engine
    };
    (report) => {
        Scope::Report
    };
}

macro_rules! effect {
    (play) => {
        Effect::Play
    };
    (weights) => {
        Effect::Weights
    };
    (tables) => {
        Effect::Tables
    };
    (clock) => {
        Effect::Clock
    };
    (speed) => {
        Effect::Speed
    };
    (output) => {
        Effect::Output
    };
}

macro_rules! invalidates {
    () => {
        Invalidates::Nothing
    };
    (drops $what:ident $($rest:tt)*) => {
        Invalidates::$what
    };
    ($other:tt $($rest:tt)*) => {
        invalidates!($($rest)*)
    };
}

/// Accepts the marks of a row that exist; any other does not compile.
macro_rules! check_marks {
    () => {};
    (, drops $what:ident $($rest:tt)*) => { check_marks!($($rest)*); };
    (, only uci $($rest:tt)*) => { check_marks!($($rest)*); };
    (, recommended $($rest:tt)*) => { check_marks!($($rest)*); };
    (, no profile $($rest:tt)*) => { check_marks!($($rest)*); };
    (, hidden $($rest:tt)*) => { check_marks!($($rest)*); };
    (, suggests $first:literal $second:literal $($rest:tt)*) => { check_marks!($($rest)*); };
}

/// Whether a mark is among those of a row.
macro_rules! is_marked {
    (only_uci:) => { false };
    (no_profile:) => { false };
    (recommended:) => { false };
    (hidden:) => { false };
    (only_uci: only uci $($rest:tt)*) => { true };
    (no_profile: no profile $($rest:tt)*) => { true };
    (recommended: recommended $($rest:tt)*) => { true };
    (hidden: hidden $($rest:tt)*) => { true };
    ($mark:ident: $other:tt $($rest:tt)*) => { is_marked!($mark: $($rest)*) };
}

/// The values that a row suggests.
macro_rules! suggestions {
    () => { &[] };
    (suggests $first:literal $second:literal $($rest:tt)*) => { &[$first, $second] };
    ($other:tt $($rest:tt)*) => { suggestions!($($rest)*) };
}

/// The short form of a flag, if there is one.
macro_rules! short_flag {
    () => {
        None
    };
    ($short:literal) => {
        Some($short)
    };
}

/// The method of [`SearchOptions`] for a row, if its scope is the search.
macro_rules! search_option {
    (search, $field:ident: String, $(#[doc = $help:literal])+) => {
        $(#[doc = $help])+
        #[inline]
        pub fn $field(&self) -> &str {
            &self.0.$field
        }
    };
    (search, $field:ident: ContemptList, $(#[doc = $help:literal])+) => {
        $(#[doc = $help])+
        #[inline]
        pub fn $field(&self) -> &ContemptList {
            &self.0.$field
        }
    };
    (search, $field:ident: RatioSchedule, $(#[doc = $help:literal])+) => {
        $(#[doc = $help])+
        #[inline]
        pub fn $field(&self) -> &RatioSchedule {
            &self.0.$field
        }
    };
    (search, $field:ident: $t:ident, $(#[doc = $help:literal])+) => {
        $(#[doc = $help])+
        #[inline]
        pub fn $field(&self) -> $t {
            self.0.$field
        }
    };
    ($scope:ident, $($row:tt)*) => {};
}

macro_rules! options {
    ($(
        $(#[doc = $help:literal])+
        $name:literal $(also $alias:literal)* $flag:literal $($short:literal)?
            [$scope:ident $effect:ident $($mark:tt)*]
            $field:ident: $t:ident $([$min:literal, $max:literal])? = $default:expr;
    )*) => {
        $(check_marks!($($mark)*);)*

        /// The value of every option.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Options {
            $($(#[doc = $help])+ pub $field: $t,)*
        }

        impl Default for Options {
            fn default() -> Options {
                Options { $($field: default!($t, $default),)* }
            }
        }

        /// What the search of a position reads: the rows of the table whose scope is the search.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct SearchOptions(Options);

        impl SearchOptions {
            $(search_option!($scope, $field: $t, $(#[doc = $help])+);)*
        }

        impl Options {
            /// Sets the option called `name` (in any case) from text.
            ///
            /// # Errors
            /// When there is no such option or the value does not fit; nothing changes then.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
                $(if name.eq_ignore_ascii_case($name) $(|| name.eq_ignore_ascii_case($alias))* {
                    let kind = kind!($t $(, $min, $max)?);
                    self.$field = OptionValue::parse(value, kind).ok_or_else(|| {
                        match <$t as OptionValue>::fault(value) {
                            Some(reason) => OptionError::Malformed { name: $name, reason },
                            None => OptionError::BadValue {
                                name: $name,
                                value: value.to_owned(),
                                expected: expected(kind),
                            },
                        }
                    })?;
                    return Ok(());
                })*
                Err(OptionError::Unknown(name.to_owned()))
            }

            /// The name in the table of the option called `name`, in any case, or by another of its names.
            pub fn name_of(name: &str) -> Option<&'static str> {
                $(if name.eq_ignore_ascii_case($name) $(|| name.eq_ignore_ascii_case($alias))* {
                    return Some($name);
                })*
                None
            }

            /// Takes the value of the option with this name in the table from other options.
            fn copy(&mut self, name: &'static str, from: &Options) {
                $(if name == $name {
                    self.$field = from.$field.clone();
                })*
            }

            /// The names of the options whose values differ from those in `other`.
            pub fn differences(&self, other: &Options) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$field != other.$field {
                    names.push($name);
                })*
                names
            }

            /// What can no longer be used when these options replace `old`.
            pub fn invalidated_since(&self, old: &Options) -> Invalidates {
                let mut worst = Invalidates::Nothing;
                $(if self.$field != old.$field {
                    worst = worst.max(invalidates!($($mark)*));
                })*
                worst
            }

            /// The table, with the values of these options.
            pub fn rows(&self) -> Vec<OptionRow> {
                vec![$(OptionRow {
                    name: $name,
                    aliases: &[$($alias),*],
                    flag: $flag,
                    short_flag: short_flag!($($short)?),
                    negative_flag: concat!("no-", $flag),
                    kind: kind!($t $(, $min, $max)?),
                    value: self.$field.show(),
                    help: concat!($($help),+).trim_ascii(),
                    scope: scope!($scope),
                    effect: effect!($effect),
                    invalidates: invalidates!($($mark)*),
                    is_only_uci: is_marked!(only_uci: $($mark)*),
                    is_recommendable: is_marked!(recommended: $($mark)*),
                    is_for_profiles: !is_marked!(no_profile: $($mark)*),
                    is_hidden: is_marked!(hidden: $($mark)*),
                    suggestions: suggestions!($($mark)*),
                },)*]
            }

            /// The table's row of the option called `name`, in any case, or by another of its names.
            pub fn row(&self, name: &str) -> Option<OptionRow> {
                let name = Options::name_of(name)?;
                self.rows().into_iter().find(|row| row.name == name)
            }
        }
    };
}
