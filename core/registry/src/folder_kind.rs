//! [`FolderKind`]: who named a spec folder, which determines how far it is trusted.

/// Environment variable with spec folders, separated as in `PATH`.
pub(crate) const SPEC_DIR_VARIABLE: &str = "MENAGERIE_SPEC_DIR";

/// Why a folder is read. Of two files with the same name, the one in the folder of the earlier kind is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FolderKind {
    /// `--spec`: one file, which may replace a built-in spec.
    File,
    /// `--spec-dir`.
    Flag,
    /// `MENAGERIE_SPEC_DIR`.
    Environment,
    /// Not a folder: part of a plugin.
    Plugin,
    /// `menagerie/specs` in the user's XDG data folder.
    Data,
    /// `menagerie.d`: may only add architectures.
    Project,
}

impl FolderKind {
    /// The name in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "--spec",
            Self::Flag => "--spec-dir",
            Self::Environment => SPEC_DIR_VARIABLE,
            Self::Plugin => "plugin",
            Self::Data => "data folder",
            Self::Project => "project folder",
        }
    }
}
