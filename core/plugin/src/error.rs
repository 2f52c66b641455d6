//! [`Error`]: why a component cannot be made or computed.

use std::fmt;

/// What functions of plugins give.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something failed, as the user is told it: what, where, why, what to do next.
#[derive(Debug)]
pub struct Error {
    /// Absent: the host found the fault and has noted it.
    text: Option<String>,
}

impl Error {
    /// An error with this text.
    pub fn new(text: impl fmt::Display) -> Error {
        Error { text: Some(text.to_string()) }
    }

    /// The host has noted the fault.
    pub(crate) fn noted() -> Error {
        Error { text: None }
    }

    /// The text; absent where the host has recorded the fault itself.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.as_deref().unwrap_or("the host has recorded the fault"))
    }
}

impl std::error::Error for Error {}

impl From<String> for Error {
    fn from(text: String) -> Error {
        Error { text: Some(text) }
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Error {
        Error::new(text)
    }
}
