//! [`SpecFolder`]: where spec files are looked for, and how far each place is trusted.

use crate::RegistryError;
use std::path::{Path, PathBuf};

/// Environment variable with further spec folders, separated as in `PATH`.
pub const SPEC_DIR_VARIABLE: &str = "MENAGERIE_SPEC_DIR";

/// Folder of a project, read when it exists in the current folder.
pub const PROJECT_FOLDER: &str = "menagerie.d";

/// Why a folder is read; earlier kinds come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FolderKind {
    /// `--spec-dir`.
    Flag,
    /// [`SPEC_DIR_VARIABLE`].
    Environment,
    /// `menagerie/specs` in the user's XDG data folder.
    Data,
    /// [`PROJECT_FOLDER`]: may only add architectures.
    Project,
}

impl FolderKind {
    /// How listings name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flag => "--spec-dir",
            Self::Environment => SPEC_DIR_VARIABLE,
            Self::Data => "data folder",
            Self::Project => "project folder",
        }
    }
}

/// A folder with spec files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecFolder {
    /// The folder.
    pub path: PathBuf,
    /// Why it is read.
    pub kind: FolderKind,
}

impl SpecFolder {
    /// The folders of this process: `flags`, then the environment variable's, the data folder's, the project's.
    pub fn of_process(flags: &[PathBuf]) -> Vec<Self> {
        let mut folders: Vec<Self> =
            flags.iter().map(|path| Self { path: path.clone(), kind: FolderKind::Flag }).collect();
        if let Some(list) = std::env::var_os(SPEC_DIR_VARIABLE) {
            let paths = std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty());
            folders.extend(paths.map(|path| Self { path, kind: FolderKind::Environment }));
        }
        if let Some(data) = data_folder() {
            folders.push(Self { path: data.join("specs"), kind: FolderKind::Data });
        }
        folders.push(Self { path: PathBuf::from(PROJECT_FOLDER), kind: FolderKind::Project });
        folders
    }

    /// Its spec files, sorted by name; recipes (`*.recipe.toml`) are not specs.
    ///
    /// # Errors
    /// A folder that was asked for by flag or variable and cannot be read; the others may be absent.
    pub fn files(&self) -> Result<Vec<PathBuf>, RegistryError> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.kind >= FolderKind::Data => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(self.error(&error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| self.error(&error))?.path();
            if is_spec(&path) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    fn error(&self, error: &std::io::Error) -> RegistryError {
        RegistryError::Folder {
            path: self.path.clone(),
            reason: format!("{error} (from {})", self.kind.name()),
        }
    }
}

fn is_spec(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".toml") && !name.ends_with(".recipe.toml") && !name.starts_with('.')
}

/// `$XDG_DATA_HOME/menagerie`, or `~/.local/share/menagerie`.
pub fn data_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("menagerie"))
}
