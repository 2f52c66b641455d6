//! [`CharClass`]: general categories of Unicode, as the regex engine defines them.

use std::sync::LazyLock;

use fancy_regex::Regex;

/// A set of general categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CharClass {
    /// Control, format, unassigned and private characters.
    Other,
    /// Control, format and private characters: `Other` without unassigned ones.
    Control,
    /// Marks of zero width.
    Mark,
    /// Punctuation.
    Punctuation,
}

impl CharClass {
    /// Whether a character belongs to it.
    pub(crate) fn has(self, character: char) -> bool {
        static OTHER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A\p{C}").ok());
        static CONTROL: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(r"\A[\p{Cc}\p{Cf}\p{Co}]").ok());
        static MARK: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A\p{Mn}").ok());
        static PUNCTUATION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A\p{P}").ok());
        let regex = match self {
            Self::Other | Self::Control if character.is_ascii() => return character.is_ascii_control(),
            Self::Mark if character.is_ascii() => return false,
            Self::Other => &OTHER,
            Self::Control => &CONTROL,
            Self::Mark => &MARK,
            Self::Punctuation => &PUNCTUATION,
        };
        let mut buffer = [0; 4];
        let text: &str = character.encode_utf8(&mut buffer);
        regex.as_ref().is_some_and(|regex| regex.is_match(text).unwrap_or(false))
    }
}
