//! A part of a prompt's text, with its origin.

/// Text to be encoded, and whether special tokens in it are recognized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The text; any length.
    pub text: String,
    /// Whether special tokens in the text are recognized: true for a template's own text, false for text of users,
    /// tools and models.
    pub trusted: bool,
}

impl Segment {
    /// Text in which special tokens are recognized.
    pub fn trusted(text: impl Into<String>) -> Self {
        Self { text: text.into(), trusted: true }
    }

    /// Text in which the name of a special token is plain text.
    pub fn untrusted(text: impl Into<String>) -> Self {
        Self { text: text.into(), trusted: false }
    }
}
