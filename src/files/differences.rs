//! What differs between the settings of two runs, for a message to the user.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The longest value that is shown, in characters.
const LONGEST: usize = 60;

/// The settings that differ, in the order of their names and with both values: `a.options.CPuct was 1.75, is 2`.
pub fn differences(earlier: &Map<String, Value>, now: &Map<String, Value>) -> Vec<String> {
    let mut noted = Vec::new();
    note("", earlier, now, &mut noted);
    noted
}

/// Notes the differences within a group whose name, with a dot, is `group`.
fn note(
    group: &str,
    earlier: &Map<String, Value>,
    now: &Map<String, Value>,
    noted: &mut Vec<String>,
) {
    let keys: BTreeSet<&String> = earlier.keys().chain(now.keys()).collect();
    for key in keys {
        match (set(earlier, key), set(now, key)) {
            (one, other) if one == other => {}
            (Some(Value::Object(one)), Some(Value::Object(other))) => {
                note(&format!("{group}{key}."), one, other, noted);
            }
            (one, other) => {
                noted.push(format!(
                    "{group}{key} was {}, is {}",
                    text(one),
                    text(other)
                ));
            }
        }
    }
}

/// The value of a setting, unless it is null.
fn set<'a>(settings: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    settings.get(key).filter(|value| !value.is_null())
}

fn text(value: Option<&Value>) -> String {
    let whole = match value {
        None => "not set".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    match whole.char_indices().nth(LONGEST) {
        None => whole,
        Some((end, _)) => format!("{}...", &whole[..end]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_values_are_named_in_groups_too() {
        let settings = |value: Value| value.as_object().unwrap().clone();
        let earlier = settings(
            json!({"a": {"CPuct": "1.75", "Seed": 1}, "seed": 3, "old": true, "none": null}),
        );
        let now =
            settings(json!({"a": {"CPuct": "2", "Seed": 1}, "seed": 3, "new": "é".repeat(99)}));
        let long = format!("new was not set, is {}...", "é".repeat(LONGEST));
        let expected = ["a.CPuct was 1.75, is 2", &long, "old was true, is not set"];
        assert_eq!(differences(&earlier, &now), expected);
        assert!(differences(&now, &now).is_empty());
    }
}
