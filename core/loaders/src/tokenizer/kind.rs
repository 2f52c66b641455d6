//! The type of a vocabulary entry.

/// The kind of a token, from `tokenizer.ggml.token_type` (llama.h, `llama_token_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Ordinary text.
    Normal,
    /// Replaces text that has no token.
    Unknown,
    /// Controls the model; never made from a user's text.
    Control,
    /// Text that is always one token, whatever surrounds it.
    UserDefined,
    /// An unused id.
    Unused,
    /// One byte, written `<0xNN>`.
    Byte,
}

impl TokenKind {
    /// The kind with this number in a file; 0 (undefined) counts as unused.
    pub fn from_id(id: i64) -> Option<Self> {
        Some(match id {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            0 | 5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }

    /// Its number in files.
    pub fn id(self) -> i32 {
        match self {
            Self::Normal => 1,
            Self::Unknown => 2,
            Self::Control => 3,
            Self::UserDefined => 4,
            Self::Unused => 5,
            Self::Byte => 6,
        }
    }

    /// Its name in listings: `normal`, `control`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Unknown => "unknown",
            Self::Control => "control",
            Self::UserDefined => "user-defined",
            Self::Unused => "unused",
            Self::Byte => "byte",
        }
    }
}
