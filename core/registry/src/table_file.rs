//! [`TableFile`]: a file of tables in a spec folder, and [`BuiltInTable`]: one that a crate or a plugin registers.

use crate::folder_kind::FolderKind;
use crate::text_file::read_text;
use menagerie_entries::Entry;
use std::path::{Path, PathBuf};

/// A file `<spec folder>/tokenizers/*.toml`, or `<spec folder>/models.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// The file.
    pub path: PathBuf,
    /// The kind of its folder.
    pub folder: FolderKind,
    /// Its text, or the reason why it cannot be read.
    pub text: Result<String, String>,
    /// Whether its entries may replace built-in ones.
    pub may_shadow: bool,
}

impl TableFile {
    /// Reads a file; a file of a project folder may never replace a built-in entry.
    pub(crate) fn read(path: &Path, folder: FolderKind, allow_shadow: bool) -> Self {
        Self {
            path: path.to_owned(),
            folder,
            text: read_text(path).map_err(|fault| fault.reason()),
            may_shadow: allow_shadow && folder != FolderKind::Project,
        }
    }
}

/// A table of vocabularies or chats that a crate or a plugin registers.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInTable {
    /// The file name that it would have in a spec folder.
    pub file: &'static str,
    /// Its text, TOML.
    pub text: &'static str,
    /// The crate or the plugin, for listings.
    pub registered_by: &'static str,
}

impl Entry for BuiltInTable {
    const FAMILY: &'static str = "table";

    fn name(&self) -> &str {
        self.file
    }

    fn registered_by(&self) -> &str {
        self.registered_by
    }

    /// The rows of a table have names; the file name is only displayed.
    fn scope(&self) -> &str {
        self.registered_by
    }
}

impl BuiltInTable {
    /// The table in the form of tables of spec folders; its rows do not replace others.
    pub(crate) fn as_file(&self) -> TableFile {
        TableFile {
            path: format!("{} of {}", self.file, self.registered_by).into(),
            folder: FolderKind::Plugin,
            text: Ok(self.text.to_owned()),
            may_shadow: false,
        }
    }
}
