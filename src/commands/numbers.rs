//! Parsers of numeric arguments with their ranges.

use std::{error::Error, ops::RangeInclusive};

use clap::builder::RangedU64ValueParser;

/// A count of at least one.
pub(super) fn count<N>() -> RangedU64ValueParser<N>
where
    N: TryFrom<u64, Error: Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    RangedU64ValueParser::new().range(1..)
}

/// A fraction, 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    number_from(0.0..=1.0, text)
}

/// A percentage, 0 to 100.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    number_from(0.0..=100.0, text)
}

/// A number in a range.
pub(super) fn number_from(range: RangeInclusive<f64>, text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| range.contains(value));
    value.ok_or_else(|| {
        let (start, end) = (range.start(), range.end());
        format!("'{text}' is not a number from {start} to {end}")
    })
}

/// A number above 0.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    let value = finite(text).filter(|&value| value > 0.0);
    value.ok_or_else(|| format!("'{text}' is not a number above 0"))
}

/// A number of at least 0.
pub(super) fn non_negative(text: &str) -> Result<f64, String> {
    let value = finite(text).filter(|&value| value >= 0.0);
    value.ok_or_else(|| format!("'{text}' is not a number of at least 0"))
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        type Parser = fn(&str) -> Result<f64, String>;
        let table: [(Parser, &str, &str, &str); 4] = [
            (share, "0 0.5 1", "-0.1 1.1 nan inf x", "from 0 to 1"),
            (percent, "0 100", "-1 101 nan", "from 0 to 100"),
            (positive, "1e-3 5", "0 -1 nan inf x", "above 0"),
            (non_negative, "0 5", "-1e-3 nan inf", "of at least 0"),
        ];
        for (parser, good, bad, expected) in table {
            assert!(good.split(' ').all(|text| parser(text).is_ok()), "{good}");
            for text in bad.split(' ') {
                let error = parser(text).unwrap_err();
                assert!(error.contains(expected) && error.contains(text), "{error}");
            }
        }
    }
}
