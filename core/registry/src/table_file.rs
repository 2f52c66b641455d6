//! [`TableFile`]: a file of tables in a spec folder, not yet read by anything.

use crate::folder::FolderKind;
use crate::text_file::read_text;
use std::path::{Path, PathBuf};

/// A file `<spec folder>/tokenizers/*.toml`, or `<spec folder>/models.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// The file.
    pub path: PathBuf,
    /// Why its folder is read.
    pub folder: FolderKind,
    /// Its text, or why it cannot be read.
    pub text: Result<String, String>,
    /// Whether its entries may replace built-in ones.
    pub may_shadow: bool,
}

impl TableFile {
    /// Reads a file of a folder of this kind; what a project folder holds may never replace anything.
    pub(crate) fn read(path: &Path, folder: FolderKind, allow_shadow: bool) -> Self {
        Self {
            path: path.to_owned(),
            folder,
            text: read_text(path).map_err(|none| none.words()),
            may_shadow: allow_shadow && folder != FolderKind::Project,
        }
    }
}
