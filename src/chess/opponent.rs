//! Who sits on the other side, as GUIs tell it.

/// The rating in the text of `UCI_Opponent`: a title or none, a rating or none, computer or human, and a name. `None` if the
/// rating is not told.
pub fn rating(text: &str) -> Option<u32> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rating_is_the_second_word() {
        for (text, expected) in [
            ("GM 2800 human Gary Kasparov", Some(2800)),
            ("none 1500 computer X", Some(1500)),
            ("none none computer Shredder 2000", None),
            ("", None),
            ("<empty>", None),
            ("GM -3 human", None),
        ] {
            assert_eq!(rating(text), expected, "{text}");
        }
    }
}
