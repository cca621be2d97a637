//! The options that an engine announces, and their valid values.

/// An option announced by an engine.
#[derive(Debug, PartialEq)]
pub(super) struct AnnouncedOption {
    /// The name as the engine writes it.
    pub name: String,
    kind: String,
    range: (Option<i64>, Option<i64>),
    vars: Vec<String>,
}

impl AnnouncedOption {
    /// Whether its values are a list.
    pub fn is_list(&self) -> bool {
        self.kind == "combo"
    }

    /// Checks a value for the option.
    ///
    /// # Errors
    /// When it is invalid; the error names the valid values.
    pub fn check(&self, value: Option<&str>) -> Result<(), String> {
        let name = &self.name;
        let Some(value) = value else {
            let is_button = self.kind == "button";
            return is_button
                .then_some(())
                .ok_or_else(|| format!("option {name} needs a value"));
        };
        let is_good = match &*self.kind {
            "check" => value == "true" || value == "false",
            "combo" => self.vars.iter().any(|var| var.eq_ignore_ascii_case(value)),
            "spin" => value.parse().is_ok_and(|number: i64| {
                let (least, most) = self.range;
                least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most)
            }),
            "button" => false,
            _ => true,
        };
        let kind = &self.kind;
        let expected = match kind.as_str() {
            "combo" => format!("one of {}", self.vars.join(", ")),
            "spin" => match self.range {
                (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
                (Some(least), None) => format!("a whole number of at least {least}"),
                (None, Some(most)) => format!("a whole number of at most {most}"),
                (None, None) => "a whole number".to_owned(),
            },
            "check" => "true or false".to_owned(),
            _ => "no value".to_owned(),
        };
        is_good
            .then_some(())
            .ok_or_else(|| format!("option {name} takes {expected}, not '{value}'"))
    }
}

/// An `option name N type T default D min A max B var V var W` line. Names and values may have spaces.
pub(super) fn parse_option(line: &str) -> Option<AnnouncedOption> {
    let rest = line.strip_prefix("option name ")?;
    let (name, rest) = rest.split_once(" type ")?;
    let mut words = rest.split_whitespace().peekable();
    let kind = words.next()?.to_owned();
    let mut option = AnnouncedOption {
        name: name.trim().to_owned(),
        kind,
        range: (None, None),
        vars: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = Vec::new();
        while let Some(next) =
            words.next_if(|next| !["default", "min", "max", "var"].contains(next))
        {
            value.push(next);
        }
        let value = value.join(" ");
        match word {
            "min" => option.range.0 = value.parse().ok(),
            "max" => option.range.1 = value.parse().ok(),
            "var" => option.vars.push(value),
            _ => {}
        }
    }
    Some(option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_against_announced_options() {
        let option = |line: &str| parse_option(&format!("option name {line}")).unwrap();
        let level = option("Skill Level type spin default 20 min 0 max 20");
        assert_eq!(level.name, "Skill Level");
        assert_eq!(level.check(Some("20")), Ok(()));
        let error = level.check(Some("21")).unwrap_err();
        assert!(error.contains("from 0 to 20"), "{error}");
        assert!(level.check(None).is_err() && level.check(Some("x")).is_err());
        // UCI has no fractions; an engine might take such a value for its beginning, or for 0.
        let error = level.check(Some("2.5")).unwrap_err();
        assert!(error.contains("a whole number from 0 to 20"), "{error}");
        let least = option("Contempt type spin default 0 min -5");
        assert!(least.check(Some("-5")).is_ok() && least.check(Some("-6")).is_err());
        let style = option("Style type combo default Very Solid var Very Solid var Risky");
        assert_eq!(style.vars, ["Very Solid", "Risky"]);
        assert!(style.check(Some("risky")).is_ok() && style.check(Some("wild")).is_err());
        let clear = option("Clear Hash type button");
        assert!(clear.check(None).is_ok() && clear.check(Some("1")).is_err());
        let path = option("SyzygyPath type string default <empty>");
        assert!(path.check(Some("/a b")).is_ok());
        assert!(
            option("Ponder type check default false")
                .check(Some("1"))
                .is_err()
        );
        assert_eq!(parse_option("info string x"), None);
    }
}
