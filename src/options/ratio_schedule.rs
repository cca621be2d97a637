//! The value of the option `HybridRatioSchedule`: how a ratio depends on a node's visits, `visits:ratio ...`.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// Points of a ratio over visits, in the order of the visits; between them it is linear.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RatioSchedule {
    points: Vec<(u32, f32)>,
}

/// A text is not a schedule.
#[derive(Debug, Error, PartialEq)]
#[error("'{0}' is not of the form visits:ratio with growing visits and ratios from 0 to 1")]
pub struct RatioScheduleError(String);

impl RatioSchedule {
    /// Without points.
    pub const EMPTY: RatioSchedule = RatioSchedule { points: Vec::new() };

    /// The ratio at a number of visits; `None` without points.
    pub fn at(&self, visits: u32) -> Option<f32> {
        let after = self.points.partition_point(|(at, _)| *at <= visits);
        let before = after.checked_sub(1).map(|index| self.points[index]);
        match (before, self.points.get(after)) {
            (Some((from, low)), Some((to, high))) => {
                let progress = (visits - from) as f32 / (to - from) as f32;
                Some(low + (high - low) * progress)
            }
            (Some((_, ratio)), None) | (None, Some(&(_, ratio))) => Some(ratio),
            (None, None) => None,
        }
    }
}

impl FromStr for RatioSchedule {
    type Err = RatioScheduleError;

    fn from_str(text: &str) -> Result<RatioSchedule, RatioScheduleError> {
        let mut points: Vec<(u32, f32)> = Vec::new();
        for entry in text.split_whitespace() {
            let point = entry.split_once(':').and_then(|(visits, ratio)| {
                let visits: u32 = visits.parse().ok()?;
                let ratio = ratio
                    .parse()
                    .ok()
                    .filter(|ratio| (0.0..=1.0).contains(ratio))?;
                let is_next = points.last().is_none_or(|(before, _)| visits > *before);
                is_next.then_some((visits, ratio))
            });
            points.push(point.ok_or_else(|| RatioScheduleError(entry.to_owned()))?);
        }
        Ok(RatioSchedule { points })
    }
}

impl fmt::Display for RatioSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (visits, ratio)) in self.points.iter().enumerate() {
            let separator = if index > 0 { " " } else { "" };
            write!(f, "{separator}{visits}:{ratio}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(text: &str) -> RatioSchedule {
        text.parse().unwrap()
    }

    #[test]
    fn the_ratio_is_linear_between_points_and_constant_outside() {
        let ratios = schedule("1000:0.5 8000:0.9 8001:0");
        for (visits, expected) in [
            (0, 0.5),
            (1000, 0.5),
            (4500, 0.7),
            (8000, 0.9),
            (8001, 0.0),
            (u32::MAX, 0.0),
        ] {
            let ratio = ratios.at(visits).unwrap();
            assert!((ratio - expected).abs() < 1e-6, "{visits}: {ratio}");
        }
        assert_eq!(schedule("7:0.25").at(3), Some(0.25));
        assert_eq!(schedule("").at(3), None);
    }

    #[test]
    fn text_goes_there_and_back() {
        for text in ["", "28:1", "1000:0.5 8000:0.9"] {
            assert_eq!(schedule(text).to_string(), text);
        }
        for text in [
            "5", "5:", ":1", "5:1.1", "5:-0.1", "5:nan", "5:1 5:0", "9:1 5:0", "-1:1",
        ] {
            assert!(text.parse::<RatioSchedule>().is_err(), "{text}");
        }
    }
}
