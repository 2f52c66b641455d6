//! [`SpecFolder`]: a folder of spec files, recipes and tables.

use crate::error::RegistryError;
use crate::folder_kind::{FolderKind, SPEC_DIR_VARIABLE};
use crate::table_file::TableFile;
use menagerie_spec::RECIPE_SUFFIX;
use std::path::{Path, PathBuf};

/// Folder of a project, which is read if it exists in the current folder.
pub(crate) const PROJECT_FOLDER: &str = "menagerie.d";

/// Subfolder of a spec folder with tables of vocabularies and chats.
pub(crate) const TABLE_FOLDER: &str = "tokenizers";

/// File of a spec folder with short names of models; not a spec.
pub(crate) const MODELS_FILE: &str = "models.toml";

/// A folder with spec files, or one such file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecFolder {
    /// The folder, or the file.
    pub path: PathBuf,
    /// The kind.
    pub kind: FolderKind,
}

impl SpecFolder {
    /// The folders of this process: `flags`, those of the environment variable, the data folder, the project folder.
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

    /// Whether a flag or the variable names the folder; other folders may be absent.
    pub(crate) fn is_requested(&self) -> bool {
        self.kind < FolderKind::Data
    }

    /// Its spec files, sorted by name; recipes (`*.recipe.toml`) are not specs.
    ///
    /// # Errors
    /// The folder cannot be read, or a requested folder does not exist.
    pub fn files(&self) -> Result<Vec<PathBuf>, RegistryError> {
        if self.kind == FolderKind::File {
            let reason = match std::fs::metadata(&self.path) {
                Ok(found) if found.is_file() && is_spec(&self.path) => return Ok(vec![self.path.clone()]),
                Ok(_) => "not a spec".to_owned(),
                Err(error) => error.to_string(),
            };
            return Err(RegistryError::NotASpec { path: self.path.clone(), reason });
        }
        self.toml_files(&self.path, self.is_requested(), is_spec)
    }

    /// Its recipes (`*.recipe.toml`), sorted by name.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub(crate) fn recipe_files(&self) -> Result<Vec<PathBuf>, RegistryError> {
        if self.kind == FolderKind::File {
            return Ok(Vec::new());
        }
        self.toml_files(&self.path, self.is_requested(), is_recipe)
    }

    /// Its files of tokenizer tables (`tokenizers/*.toml`), sorted by name.
    ///
    /// # Errors
    /// The folder exists and cannot be read.
    pub(crate) fn table_files(&self) -> Result<Vec<PathBuf>, RegistryError> {
        if self.kind == FolderKind::File {
            return Ok(Vec::new());
        }
        self.toml_files(&self.path.join(TABLE_FOLDER), false, is_spec)
    }

    /// Its table of models by short names (`models.toml`), if it has one; the table of a project folder can only add models.
    pub fn models(&self, allow_shadow: bool) -> Option<TableFile> {
        let path = self.path.join(MODELS_FILE);
        let there = self.kind != FolderKind::File && path.symlink_metadata().is_ok();
        there.then(|| TableFile::read(&path, self.kind, allow_shadow))
    }

    fn toml_files(
        &self,
        folder: &Path,
        must_exist: bool,
        is_wanted: fn(&Path) -> bool,
    ) -> Result<Vec<PathBuf>, RegistryError> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(self.error(folder, &error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| self.error(folder, &error))?.path();
            if is_wanted(&path) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    fn error(&self, folder: &Path, error: &std::io::Error) -> RegistryError {
        RegistryError::Folder { path: folder.to_owned(), reason: error.to_string(), from: self.kind.name() }
    }
}

fn is_spec(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".toml") && !name.ends_with(RECIPE_SUFFIX) && !name.starts_with('.') && name != MODELS_FILE
}

fn is_recipe(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(RECIPE_SUFFIX) && !name.starts_with('.')
}

/// `$XDG_DATA_HOME/menagerie`, or `~/.local/share/menagerie`.
pub(crate) fn data_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("menagerie"))
}
