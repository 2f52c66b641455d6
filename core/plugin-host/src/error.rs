//! [`PluginError`]: a plugin that is not used, and the reason.

use std::fmt;
use std::path::{Path, PathBuf};

/// A plugin that is not used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginError {
    /// The file, or `ID (linked in)`.
    pub source: PathBuf,
    /// The reason.
    pub fault: PluginFault,
}

impl PluginError {
    /// A fault of a file.
    pub fn new(source: &Path, fault: PluginFault) -> Self {
        Self { source: source.to_owned(), fault }
    }
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin {}: {}", self.source.display(), self.fault)
    }
}

impl std::error::Error for PluginError {}

/// The reason why a plugin is refused. With the faults up to [`PluginFault::Trust`], none of its code has run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginFault {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It is not a library.
    #[error(
        "is {found}, not a shared library; a plugin is a .so, .dylib or .dll file that is built with menagerie-plugin"
    )]
    NotALibrary {
        /// The kind of the file.
        found: String,
    },
    /// It is a damaged library.
    #[error("is damaged or truncated ({0}); build or download it again")]
    Damaged(String),
    /// It is built for another machine.
    #[error("is built for {found}, and this program is {own}; use a build for {own}")]
    OtherMachine {
        /// Its architecture and system.
        found: String,
        /// The architecture and system of this program.
        own: String,
    },
    /// It is a program.
    #[error("is a program, not a shared library; build the crate with crate-type = [\"cdylib\"]")]
    Executable,
    /// It is a library without a manifest.
    #[error("is a shared library, but not a plugin: it has no section {section} with a manifest")]
    NoManifest {
        /// The section.
        section: &'static str,
    },
    /// The manifest is inconsistent or violates the ABI.
    #[error(
        "its manifest cannot be used: {0}; build the plugin with menagerie-plugin's `export!`, or the C header"
    )]
    Manifest(String),
    /// It is built for another major version of the ABI.
    #[error(
        "is built for plugin ABI {found}, and this program has ABI {own}; build it with a menagerie-plugin of that version"
    )]
    Major {
        /// Its version.
        found: String,
        /// The version of this program.
        own: String,
    },
    /// It is built for a newer minor version of the ABI.
    #[error(
        "is built for plugin ABI {found}, which is newer than this program's {own}; update this program, or build the plugin with an older menagerie-plugin"
    )]
    Minor {
        /// Its version.
        found: String,
        /// The version of this program.
        own: String,
    },
    /// It requires capabilities that this host does not have.
    #[error("requires capabilities that this program does not have: {}; update this program", .missing.join(", "))]
    Capabilities {
        /// The capabilities.
        missing: Vec<String>,
    },
    /// It uses instructions that this processor lacks.
    #[error("uses instructions that this processor lacks: {}; use a build without them", .missing.join(", "))]
    CpuFeatures {
        /// The features.
        missing: Vec<String>,
    },
    /// It does not export the function that registers its components.
    #[error(
        "does not export the function {0}, which registers its components; build it with menagerie-plugin's `export!`, or the C header"
    )]
    NoInit(&'static str),
    /// Other users could change the file or its folder.
    #[error("is not trusted: {0}")]
    Trust(String),
    /// The dynamic linker refused it.
    #[error("cannot be opened: {0}")]
    Open(String),
    /// It changed while it was opened.
    #[error(
        "changed while it was opened ({0}); it is not used, but its constructors may have run: find out which program writes there"
    )]
    Swapped(String),
    /// Its init function failed.
    #[error("its init function {0}; the plugin is not used")]
    Init(String),
    /// A component or file that it registers cannot be used.
    #[error("{0}; the plugin is not used")]
    Register(String),
    /// Another plugin has its id.
    #[error("has the id `{id}`, which {first} also has; remove one of them")]
    Twice {
        /// The id.
        id: String,
        /// The plugin that was loaded first.
        first: String,
    },
}
