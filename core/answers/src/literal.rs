//! [`FixedText`]: fixed text of a format, compared with text that is still arriving.

/// The most bytes of white space at one place; longer runs are never part of a marker.
pub(crate) const MOST_SPACE: usize = 1024;

/// The result of comparing a literal with the beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The text is something else.
    No,
    /// The text ends before that is decided.
    Partial,
    /// The literal is the first bytes of the text, this many.
    Full(usize),
}

/// A part of a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LiteralPart {
    /// Any white space, or none.
    Space,
    /// This text.
    Word(String),
}

/// Fixed text: its white space is any white space, the rest is exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FixedText {
    text: String,
    parts: Vec<LiteralPart>,
}

impl FixedText {
    pub(crate) fn new(text: &str) -> Self {
        let mut parts: Vec<LiteralPart> = Vec::new();
        for character in text.chars() {
            match (parts.last_mut(), character.is_whitespace()) {
                (Some(LiteralPart::Space), true) => {}
                (_, true) => parts.push(LiteralPart::Space),
                (Some(LiteralPart::Word(word)), false) => word.push(character),
                (_, false) => parts.push(LiteralPart::Word(character.to_string())),
            }
        }
        Self { text: text.to_owned(), parts }
    }

    /// The text as written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it has no words.
    pub(crate) fn is_blank(&self) -> bool {
        self.first_word().is_none()
    }

    /// Its first text that is not white space.
    pub(crate) fn first_word(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            LiteralPart::Word(word) => Some(word.as_str()),
            LiteralPart::Space => None,
        })
    }

    /// Compares it with the beginning of a text. White space at the end of the literal is not part of the match.
    pub(crate) fn matches(&self, text: &str) -> Match {
        let mut at = 0;
        let mut end = 0;
        for part in &self.parts {
            let rest = &text[at..];
            match part {
                LiteralPart::Space => {
                    let space = rest.len() - rest.trim_start().len();
                    if space > MOST_SPACE {
                        return Match::No;
                    }
                    at += space;
                }
                LiteralPart::Word(word) if rest.starts_with(word) => {
                    at += word.len();
                    end = at;
                }
                LiteralPart::Word(word) if word.starts_with(rest) => return Match::Partial,
                LiteralPart::Word(_) => return Match::No,
            }
        }
        Match::Full(end)
    }
}

/// The length in bytes of the longest end of `text` that is a proper prefix of `word`.
pub fn overlap(text: &str, word: &str) -> usize {
    let ends = word.char_indices().map(|(index, _)| index).skip(1);
    ends.filter(|&end| text.ends_with(&word[..end])).max().unwrap_or(0)
}

/// The bytes of white space at the end of a text, at most [`MOST_SPACE`] of them.
pub(crate) fn trailing_space(text: &str) -> usize {
    let space = &text[text.trim_end().len()..];
    let cut = space.char_indices().map(|(at, _)| at).find(|at| space.len() - at <= MOST_SPACE);
    cut.map_or(0, |at| space.len() - at)
}

/// The first of several comparisons that is not [`Match::No`].
pub(crate) fn first_match(mut matches: impl Iterator<Item = Match>) -> Match {
    matches.find(|found| *found != Match::No).unwrap_or(Match::No)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_any() {
        let literal = FixedText::new("<call>\n<f=");
        for (text, expected) in [
            ("<call>\n<f=x", Match::Full(10)),
            ("<call><f=", Match::Full(9)),
            ("<call> \n\n <f=", Match::Full(13)),
            ("<call> ", Match::Partial),
            ("<ca", Match::Partial),
            ("", Match::Partial),
            ("<call> {", Match::No),
        ] {
            assert_eq!(literal.matches(text), expected, "{text:?}");
        }
        assert_eq!(FixedText::new("</f>\n").matches("</f>\n\nx"), Match::Full(4));
        let long = format!("<call>{}<f=", " ".repeat(MOST_SPACE + 1));
        assert_eq!(literal.matches(&long), Match::No);
    }

    #[test]
    fn held_white_space_is_limited() {
        assert_eq!(trailing_space("a \n"), 2);
        assert_eq!(trailing_space(&" ".repeat(3 * MOST_SPACE)), MOST_SPACE);
        assert_eq!(trailing_space("a"), 0);
    }
}
