//! The value of the option `TimeManager`: the name of a time manager with parameters, `name(key=value,...)`. Names and
//! keys are lc0's. The managers themselves belong to the search.

use std::fmt;

use thiserror::Error;

/// Why a text is not a time manager.
#[derive(Debug, Error, PartialEq)]
pub enum TimeManagerError {
    /// Not of the form `name` or `name(key=value,...)`.
    #[error("'{0}' is not of the form name(key=value,...)")]
    Form(String),
    /// No such manager exists.
    #[error("there is no time manager '{0}' (there are: {names})", names = TimeManagerChoice::NAMES.join(", "))]
    Unknown(String),
    /// The manager has no such parameter.
    #[error("{manager} has no parameter '{key}' (it has: {keys})")]
    Key {
        /// The manager's name.
        manager: &'static str,
        /// The given text.
        key: String,
        /// Its parameters.
        keys: String,
    },
    /// The value of a parameter is not a number in its range.
    #[error("{manager}: {key}: '{value}' is not a number from {min} to {max}")]
    Value {
        /// The manager's name.
        manager: &'static str,
        /// The parameter.
        key: &'static str,
        /// The given text.
        value: String,
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
}

/// Declares time managers with their parameters: key, range and default.
macro_rules! managers {
    ($(
        $(#[doc = $help:literal])+
        $name:ident $text:literal {
            $($(#[doc = $parameter_help:literal])+ $field:ident $key:literal [$min:literal, $max:literal] = $default:literal,)*
        }
    )*) => {
        $(
            $(#[doc = $help])+
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name { $($(#[doc = $parameter_help])+ pub $field: f64,)* }

            impl Default for $name {
                fn default() -> $name {
                    $name { $($field: $default,)* }
                }
            }

            impl $name {
                fn set(&mut self, key: &str, value: &str) -> Result<(), TimeManagerError> {
                    $(if key == $key {
                        let number = value.parse().ok().filter(|v| ($min..=$max).contains(v));
                        self.$field = number.ok_or_else(|| TimeManagerError::Value {
                            manager: $text,
                            key: $key,
                            value: value.to_owned(),
                            min: $min,
                            max: $max,
                        })?;
                        return Ok(());
                    })*
                    Err(TimeManagerError::Key {
                        manager: $text,
                        key: key.to_owned(),
                        keys: [$($key),*].join(", "),
                    })
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    let usual = $name::default();
                    let mut changed = Vec::new();
                    $(if self.$field != usual.$field {
                        changed.push(format!("{}={}", $key, self.$field));
                    })*
                    match changed.is_empty() {
                        true => f.write_str($text),
                        false => write!(f, "{}({})", $text, changed.join(",")),
                    }
                }
            }
        )*

        /// A method that divides the clock among the moves, with its parameters.
        #[derive(Clone, Debug, PartialEq)]
        pub enum TimeManagerChoice { $($(#[doc = $help])+ $name($name),)* }

        impl TimeManagerChoice {
            /// All names.
            pub const NAMES: &'static [&'static str] = &[$($text),*];

            fn named(name: &str) -> Option<TimeManagerChoice> {
                $(if name == $text { return Some(TimeManagerChoice::$name($name::default())); })*
                None
            }

            fn set(&mut self, key: &str, value: &str) -> Result<(), TimeManagerError> {
                match self { $(TimeManagerChoice::$name(parameters) => parameters.set(key, value),)* }
            }
        }

        impl fmt::Display for TimeManagerChoice {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(TimeManagerChoice::$name(parameters) => parameters.fmt(f),)* }
            }
        }
    };
}

managers! {
    /// Equal shares of the remaining time for the expected number of remaining moves.
    Legacy "legacy" {
        /// Factor of the share.
        slowmover "slowmover" [0.0, 100.0] = 1.0,
        /// Number of moves of a typical game.
        midpoint_move "midpoint-move" [1.0, 1000.0] = 51.5,
        /// Steepness of the estimate of the remaining moves around that number.
        steepness "steepness" [1.0, 100.0] = 7.0,
        /// Share of the time saved so far that the next move may use.
        immediate_use "immediate-use" [0.0, 1.0] = 1.0,
        /// Extra time for the first move, as a multiple of its share.
        first_move_bonus "first-move-bonus" [0.0, 100.0] = 1.8,
        /// Extra time for the first move per ply of an opening book before it, up to 12 plies, as a multiple of its
        /// share.
        book_ply_bonus "book-ply-bonus" [0.0, 10.0] = 0.25,
    }
    /// Shares that are expected to make the tree equally large at every move, and a reserve ("piggybank") for moves
    /// whose choice is still open when their share is used up.
    Smooth "smooth" {
        /// Number of moves of a typical game.
        midpoint "midpoint" [1.0, 1000.0] = 45.2,
        /// Steepness of the estimate of the remaining moves around that number.
        steepness "steepness" [1.0, 100.0] = 5.93,
        /// Initial estimate of the share of the tree that the next move reuses.
        init_tree_reuse "init-tree-reuse" [0.0, 0.95] = 0.52,
        /// Maximum estimate of that share.
        max_tree_reuse "max-tree-reuse" [0.0, 0.95] = 0.73,
        /// Half-life of that estimate, in moves.
        tree_reuse_update_rate "tree-reuse-update-rate" [0.01, 1000.0] = 3.39,
        /// Half-life of the estimated search speed, in seconds.
        nps_update_period "nps-update-period" [0.01, 1000.0] = 20.0,
        /// Initial estimate of the share of its time that a move uses; smart pruning saves the rest.
        init_timeuse "init-timeuse" [0.01, 1.0] = 0.7,
        /// Minimum estimate of that share.
        min_timeuse "min-timeuse" [0.01, 1.0] = 0.34,
        /// Half-life of that estimate, in moves.
        timeuse_update_rate "timeuse-update-rate" [0.01, 1000.0] = 5.51,
        /// Maximum share of the clock for one move.
        max_move_budget "max-move-budget" [0.01, 1.0] = 0.42,
        /// Share of the clock that the reserve starts with.
        init_piggybank "init-piggybank" [0.0, 0.9] = 0.09,
        /// Share of a move's time that goes to the reserve.
        per_move_piggybank "per-move-piggybank" [0.0, 0.9] = 0.12,
        /// Share of the reserve that one move may use.
        max_piggybank_use "max-piggybank-use" [0.0, 1.0] = 0.94,
        /// Maximum reserve, in average move times.
        max_piggybank_moves "max-piggybank-moves" [0.0, 1000.0] = 36.5,
        /// Period over which the visit rates of root moves are measured, in milliseconds.
        trend_nps_update_period_ms "trend-nps-update-period-ms" [1.0, 1000000.0] = 3000.0,
        /// Assumed future visit rate of the best move, relative to its present one, when an overtaking move is
        /// predicted.
        bestmove_optimism "bestmove-optimism" [0.0, 100.0] = 0.2,
        /// Assumed future visit rate of the other moves, relative to their present ones.
        overtaker_optimism "overtaker-optimism" [0.0, 100.0] = 4.0,
        /// Time during which the reserve is used unconditionally, in milliseconds.
        force_piggybank_ms "force-piggybank-ms" [0.0, 1000000.0] = 1000.0,
    }
    /// A percentage of the clock that grows with the number of plies, and a share of the increment.
    Simple "simple" {
        /// Percent of the clock.
        base_pct "base-pct" [0.0, 100.0] = 1.4,
        /// Additional percent per ply.
        ply_pct "ply-pct" [0.0, 1.0] = 0.049,
        /// Share of the increment that is used in addition.
        time_factor "time-factor" [0.0, 100.0] = 1.5,
        /// Additional percent of the share for the first move.
        opening_bonus_pct "opening-bonus-pct" [0.0, 1000.0] = 0.0,
    }
    /// A fixed share of the remaining time for every move: a twentieth, as in AlphaZero.
    AlphaZero "alphazero" {
        /// Percent of the clock.
        time_pct "alphazero-time-pct" [0.0, 100.0] = 5.0,
    }
}

impl std::str::FromStr for TimeManagerChoice {
    type Err = TimeManagerError;

    fn from_str(text: &str) -> Result<TimeManagerChoice, TimeManagerError> {
        let form = || TimeManagerError::Form(text.to_owned());
        let (name, parameters) = match text.trim().split_once('(') {
            Some((name, rest)) => (name, rest.strip_suffix(')').ok_or_else(form)?),
            None => (text, ""),
        };
        let name = name.trim();
        let mut manager = TimeManagerChoice::named(name)
            .ok_or_else(|| TimeManagerError::Unknown(name.to_owned()))?;
        for part in parameters.split(',').map(str::trim) {
            if part.is_empty() && parameters.trim().is_empty() {
                break;
            }
            let (key, value) = part.split_once('=').ok_or_else(form)?;
            manager.set(key.trim(), value.trim())?;
        }
        Ok(manager)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<TimeManagerChoice>().unwrap_err().to_string()
    }

    #[test]
    fn names_and_parameters_are_read_and_shown() {
        for name in TimeManagerChoice::NAMES {
            let manager: TimeManagerChoice = name.parse().unwrap();
            assert_eq!(manager.to_string(), *name);
            assert_eq!(format!("{name}()").parse(), Ok(manager));
        }
        let text = "legacy( steepness=3 , first-move-bonus=0)";
        let TimeManagerChoice::Legacy(legacy) = text.parse().unwrap() else {
            panic!("another manager");
        };
        assert_eq!((legacy.steepness, legacy.first_move_bonus), (3.0, 0.0));
        assert_eq!(legacy.book_ply_bonus, 0.25);
        assert_eq!(legacy.to_string(), "legacy(steepness=3,first-move-bonus=0)");
    }

    #[test]
    fn errors_name_what_is_wrong() {
        assert!(
            error("fischer").contains("'fischer' (there are: legacy, smooth, simple, alphazero")
        );
        assert!(error("simple(steepness=3)").contains("simple has no parameter 'steepness'"));
        assert!(error("simple(steepness=3)").contains("base-pct, ply-pct"));
        assert!(error("legacy(steepness=nan)").contains("steepness: 'nan' is not a number from 1"));
        assert!(error("alphazero(alphazero-time-pct=101)").contains("alphazero-time-pct: '101'"));
        for form in [
            "legacy(",
            "legacy(steepness)",
            "legacy(steepness=3,)",
            "legacy(steepness=3) x",
        ] {
            assert!(
                error(form).contains("name(key=value,...)"),
                "{form}: {}",
                error(form)
            );
        }
        assert!(error("").contains("no time manager ''"));
    }
}
