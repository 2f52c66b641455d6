//! [`Error`]: the reason why a component cannot be created or computed.

use std::fmt;

/// The result of functions of plugins.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason of a failure, as a text for the user: what, where, why, and what to do next.
#[derive(Debug)]
pub struct Error {
    /// Absent if the host found and recorded the fault.
    text: Option<String>,
}

impl Error {
    /// An error with this text.
    pub fn new(text: impl fmt::Display) -> Error {
        Error { text: Some(text.to_string()) }
    }

    /// The host has recorded the fault.
    pub(crate) fn noted() -> Error {
        Error { text: None }
    }

    /// The text; `None` if the host recorded the fault itself.
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
