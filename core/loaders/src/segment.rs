//! A stretch of prompt text with its origin.

/// Text that is to be encoded, and whether it may name special tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The text; any length.
    pub text: String,
    /// Whether special tokens written in the text are meant: true for a template's own text, false for what users,
    /// tools and models wrote.
    pub trusted: bool,
}

impl Segment {
    /// Text whose special tokens are meant.
    pub fn trusted(text: impl Into<String>) -> Self {
        Self { text: text.into(), trusted: true }
    }

    /// Text in which a special token's name is only text.
    pub fn untrusted(text: impl Into<String>) -> Self {
        Self { text: text.into(), trusted: false }
    }
}
