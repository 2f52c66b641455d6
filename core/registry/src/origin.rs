//! [`Origin`]: where a spec or a recipe comes from.

use crate::folder_kind::FolderKind;
use menagerie_files::path_text;
use std::fmt;
use std::path::PathBuf;

/// Where a spec or a recipe comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Registered by this crate.
    BuiltIn(&'static str),
    /// Added by this plugin.
    Plugin(&'static str),
    /// A file in a spec folder.
    File {
        /// The file.
        path: PathBuf,
        /// The kind of its folder.
        folder: FolderKind,
    },
}

impl Origin {
    /// The spec of this origin, as a noun in a sentence.
    pub fn noun(&self) -> String {
        match self {
            Self::BuiltIn(_) => "the built-in one".to_owned(),
            Self::Plugin(_) | Self::File { .. } => self.to_string(),
        }
    }

    /// The origin with details: built-in specs with their crate.
    pub fn detail(&self) -> String {
        match self {
            Self::BuiltIn(by) => format!("built-in ({by})"),
            Self::Plugin(_) | Self::File { .. } => self.to_string(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(_) => f.write_str("built in"),
            Self::Plugin(by) => f.write_str(by),
            Self::File { path, folder } => write!(f, "{} ({})", path_text(path), folder.name()),
        }
    }
}
