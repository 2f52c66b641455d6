//! From a spec argument (the id of an architecture, or a file) to the spec.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use menagerie::files::path_text;
use menagerie::open::is_recipe;
use menagerie::registry::{ArchitectureEntry, Environment, FolderKind, Origin, SpecFolder, SpecFolders};
use menagerie::spec::ArchSpec;
use menagerie_entries::{nearest, nearest_clause};
use std::path::Path;
use std::sync::Arc;

/// A spec together with the others that it may extend.
pub(crate) struct SpecSelection {
    /// All architectures, including this spec.
    pub(crate) environment: Environment,
    /// The entry of the spec.
    pub(crate) entry: ArchitectureEntry,
}

impl SpecSelection {
    /// The spec, if it is valid.
    pub(crate) fn spec(&self) -> Result<Arc<ArchSpec>, Failure> {
        Ok(self.entry.spec().clone()?)
    }
}

/// The spec of a file `ID.toml` or of an id; `None` if the argument is another file or an unknown word.
pub(crate) fn find_spec(
    typed: &NameOrPath,
    specs: &SpecArguments,
    installed: &Environment,
) -> Result<Option<SpecSelection>, Failure> {
    if let Some(of_file) = find_spec_file(typed, specs, installed)? {
        return Ok(Some(of_file));
    }
    if id_of(typed).is_none() {
        return Ok(None);
    }
    let environment = specs.environment(installed)?;
    let entry = find_architecture(typed, &environment).cloned();
    Ok(entry.map(|entry| SpecSelection { environment, entry }))
}

/// The spec of a file `ID.toml`; `None` if the argument is something else.
pub(crate) fn find_spec_file(
    typed: &NameOrPath,
    specs: &SpecArguments,
    installed: &Environment,
) -> Result<Option<SpecSelection>, Failure> {
    let path = typed.path();
    let is_spec = path.as_os_str().as_encoded_bytes().ends_with(b".toml") && !is_recipe(path);
    is_spec.then(|| of_file(path, specs, installed)).transpose()
}

/// The architecture that an argument names by its id.
pub(crate) fn find_architecture<'e>(
    typed: &NameOrPath,
    environment: &'e Environment,
) -> Option<&'e ArchitectureEntry> {
    environment.architecture(id_of(typed)?)
}

/// The argument as an id; `None` if it is a path.
fn id_of(typed: &NameOrPath) -> Option<&str> {
    typed.name().filter(|name| !name.contains('/') && !typed.path().exists())
}

/// The spec of an argument that must be the id of an architecture or a file.
pub(crate) fn require_spec(
    typed: &NameOrPath,
    specs: &SpecArguments,
    installed: &Environment,
) -> Result<SpecSelection, Failure> {
    if let Some(meant) = find_spec(typed, specs, installed)? {
        return Ok(meant);
    }
    let name = &typed.to_string();
    if typed.path().exists() {
        let reason = "is not a spec: a spec file is named ID.toml";
        return Err(Failure::about(name, reason).with_help("give the id of an architecture, or a spec file"));
    }
    let environment = specs.environment(installed)?;
    let ids = environment.architectures().iter().map(|entry| entry.id.as_str());
    let near = nearest_clause(nearest(name, ids));
    Err(Failure::Failed(format!("`{name}` is not an architecture or a spec file{near}"))
        .with_help("`menagerie list` shows the architectures; the name of a spec file ends in .toml"))
}

/// The spec of a file, together with the other specs of its folder and those that every command reads.
fn of_file(file: &Path, specs: &SpecArguments, installed: &Environment) -> Result<SpecSelection, Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut folders = vec![
        SpecFolder { path: file.to_owned(), kind: FolderKind::File },
        SpecFolder { path: folder.to_owned(), kind: FolderKind::Flag },
    ];
    folders.extend(specs.folders());
    let folders = SpecFolders::default().with_folders(folders).with_allow_shadow(specs.allow_shadow);
    let environment = installed.with_spec_folders(folders)?;
    let is_it =
        |entry: &&ArchitectureEntry| matches!(&entry.origin, Origin::File { path, .. } if path == file);
    let entry = environment.architectures().iter().find(is_it).cloned();
    let entry = entry.ok_or_else(|| {
        Failure::about(path_text(file), "another spec with the same name has priority (see `menagerie list`)")
    })?;
    Ok(SpecSelection { environment, entry })
}
