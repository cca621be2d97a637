//! The opponent, as described by GUIs.

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
}
