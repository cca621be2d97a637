//! The opponent, as described by GUIs.

use super::setup::shorten_to;

/// The kind of opponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpponentKind {
    /// A person.
    Human,
    /// A program.
    Computer,
}

impl OpponentKind {
    /// The words for them, in `UCI_Opponent` and in profiles.
    pub const WORDS: [(&str, OpponentKind); 2] = [
        ("human", OpponentKind::Human),
        ("computer", OpponentKind::Computer),
    ];
}

/// The kind of opponent in the text of `UCI_Opponent` (see [`rating`]); `None` if it is missing.
pub fn kind(text: &str) -> Option<OpponentKind> {
    let given = text.split_whitespace().nth(2)?;
    let mut words = OpponentKind::WORDS.iter();
    words.find_map(|&(word, kind)| (word == given).then_some(kind))
}

/// The rating in the text of `UCI_Opponent`: a title or none, a rating or none, computer or human, and a name. `None`
/// if it is missing.
pub fn rating(text: &str) -> Option<u32> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// What is wrong with the form of the text of `UCI_Opponent` (see [`rating`]), which may also be empty.
pub fn problem(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_missing = words.is_empty() || words == ["<empty>"];
    let has_rating = || words[1] == "none" || rating(text).is_some();
    if is_missing || (words.len() > 3 && has_rating() && kind(text).is_some()) {
        return None;
    }
    let rating = rating(text).map_or("no rating".into(), |rating| format!("the rating {rating}"));
    let kind = match kind(text) {
        None => "no type",
        Some(OpponentKind::Human) => "the type human",
        Some(OpponentKind::Computer) => "the type computer",
    };
    Some(format!(
        "UCI_Opponent '{}' is not of the form 'TITLE RATING TYPE NAME', such as 'none 1500 human Mary' (none for no \
         title or rating; human or computer): {rating} and {kind} were found in it",
        shorten_to(text, 60)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rating_is_the_second_word_and_the_kind_the_third() {
        let (human, computer) = (Some(OpponentKind::Human), Some(OpponentKind::Computer));
        for (text, expected, expected_kind) in [
            ("GM 2800 human Gary Kasparov", Some(2800), human),
            ("none 1500 computer X", Some(1500), computer),
            ("none none computer Shredder 2000", None, computer),
            ("none 1500 someone human", Some(1500), None),
            ("", None, None),
            ("<empty>", None, None),
            ("GM -3 human", None, human),
        ] {
            assert_eq!(rating(text), expected, "{text}");
            assert_eq!(kind(text), expected_kind, "{text}");
        }
    }

    #[test]
    fn another_form_is_named() {
        for right in [
            "",
            "<empty>",
            "GM 2800 human Gary Kasparov",
            "none none computer Shredder 2000",
        ] {
            assert_eq!(problem(right), None, "{right}");
        }
        for (wrong, says) in [
            ("Mary", "no rating and no type were found"),
            (
                "none 1500 human",
                "the rating 1500 and the type human were found",
            ),
            ("1500 human Mary", "no rating and no type were found"),
            (
                "none 1500 person Mary",
                "the rating 1500 and no type were found",
            ),
            (
                "none abc computer X",
                "no rating and the type computer were found",
            ),
        ] {
            let problem = problem(wrong).unwrap();
            assert!(
                problem.contains(says) && problem.contains(wrong),
                "{problem}"
            );
        }
    }
}
