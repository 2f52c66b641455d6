//! [`FolderKind`]: where a spec folder comes from, and so how far it is trusted.

/// Environment variable with further spec folders, separated as in `PATH`.
pub(crate) const SPEC_DIR_VARIABLE: &str = "MENAGERIE_SPEC_DIR";

/// Why a folder is read; what earlier kinds hold comes before what later kinds hold under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FolderKind {
    /// `--spec`: no folder but one file, which may replace a built-in spec.
    File,
    /// `--spec-dir`.
    Flag,
    /// `MENAGERIE_SPEC_DIR`.
    Environment,
    /// No folder: a plugin brings it.
    Plugin,
    /// `menagerie/specs` in the user's XDG data folder.
    Data,
    /// `menagerie.d`: may only add architectures.
    Project,
}

impl FolderKind {
    /// How listings name it.
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
