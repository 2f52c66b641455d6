//! [`CatalogEntry`]: a model of a server with its names.

use super::model_files::{check_inside, files_of, name_of};
use crate::arguments::library::{LibraryArguments, RequestAdapter};
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use crate::listing::recipe_listing::is_form;
use crate::screen::report;
use menagerie::files::path_text;
use menagerie::registry::Environment;
use menagerie_server::LibraryModel;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A model of a server.
#[derive(Clone, Debug)]
pub(super) struct CatalogEntry {
    pub(super) id: String,
    pub(super) aliases: Vec<String>,
    pub(super) model: NameOrPath,
    /// The folder that its files must not leave.
    pub(super) root: Option<PathBuf>,
    /// Names and files of its adapters.
    pub(super) adapters: Vec<(String, PathBuf)>,
}

impl CatalogEntry {
    pub(super) fn new(id: String, model: NameOrPath) -> Self {
        Self { id, aliases: Vec::new(), model, root: None, adapters: Vec::new() }
    }

    /// What the server lists.
    pub(super) fn listed(&self) -> LibraryModel {
        let adapters = self.adapters.iter().map(|(name, _)| name.clone()).collect();
        LibraryModel::new(self.id.clone()).with_aliases(self.aliases.clone()).with_adapters(adapters)
    }

    /// Adds the adapters beside its file or in its folder.
    fn find_adapters(&mut self) -> Result<(), Failure> {
        let model = self.model.path();
        let folder = match model.is_dir() {
            true => model.join("adapters"),
            false => match name_of(model) {
                Some(name) => model.with_file_name(format!("{name}.adapters")),
                None => return Ok(()),
            },
        };
        let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(()) };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = match path.join("adapter_config.json").is_file() {
                true => path.file_name().and_then(|name| name.to_str()).map(str::to_owned),
                false => name_of(&path),
            };
            let Some(name) = name.filter(|name| !name.contains(':')) else { continue };
            if let Some(root) = &self.root {
                check_inside(root, &path)?;
            }
            self.adapters.push((name, path));
        }
        Ok(())
    }
}

/// The models of the command line, `named`, and those that requests can name.
pub(super) fn entries(
    named: &[CatalogEntry],
    arguments: &LibraryArguments,
    (specs, environment): (&SpecArguments, &Environment),
) -> Result<Vec<CatalogEntry>, Failure> {
    let mut all = named.to_vec();
    let real = |entry: &CatalogEntry| entry.model.path().canonicalize().ok();
    let mut add = |entry: CatalogEntry| {
        // A file with two names is one model.
        let path = real(&entry);
        match all.iter_mut().find(|known| path.is_some() && real(known) == path) {
            None => all.push(entry),
            Some(known) if known.id == entry.id || known.aliases.contains(&entry.id) => {}
            Some(known) => known.aliases.push(entry.id),
        }
    };
    if let Some(folder) = &arguments.models_dir {
        in_folder(folder)?.into_iter().for_each(&mut add);
    }
    if arguments.installed {
        // A model that the command line names by the same name.
        let is_named = |entry: &CatalogEntry| named.iter().any(|one| one.model.name() == Some(&entry.id));
        installed(specs, environment)?.into_iter().filter(|entry| !is_named(entry)).for_each(&mut add);
    }
    for entry in &mut all {
        entry.find_adapters()?;
    }
    for adapter in &arguments.adapter {
        place(&mut all, named, adapter)?;
    }
    Ok(all)
}

/// Adds an adapter of the command line to its model.
fn place(all: &mut [CatalogEntry], named: &[CatalogEntry], adapter: &RequestAdapter) -> Result<(), Failure> {
    let RequestAdapter { model, name, path } = adapter;
    let wrong = |reason: String| Failure::Usage(format!("--adapter {name}={}: {reason}", path_text(path)));
    let wanted = match (model, named) {
        (Some(model), _) => model.clone(),
        (None, [only]) => only.id.clone(),
        (None, _) => {
            return Err(wrong("write MODEL:NAME=PATH, because not exactly one model is named".to_owned()));
        }
    };
    let is_it = |entry: &&mut CatalogEntry| entry.id == wanted || entry.aliases.contains(&wanted);
    let Some(entry) = all.iter_mut().find(is_it) else {
        return Err(wrong(format!("there is no model {wanted}")));
    };
    if entry.adapters.iter().any(|(known, _)| known == name) {
        return Err(wrong(format!("the model {wanted} has another adapter of this name")));
    }
    entry.adapters.push((name.clone(), path.clone()));
    Ok(())
}

/// The models in a folder: files and folders directly in it. Links out of it are left out with a note.
fn in_folder(folder: &Path) -> Result<Vec<CatalogEntry>, Failure> {
    let failed = |error: std::io::Error| Failure::about(format!("--models-dir {}", path_text(folder)), error);
    let root = folder.canonicalize().map_err(failed)?;
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&root).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    // Links come last: they are further names of files that are here.
    paths.sort_by_key(|path| (path.is_symlink(), path.clone()));
    let mut found = Vec::new();
    for path in paths {
        let id = match path.join("config.json").is_file() {
            true => path.file_name().and_then(|name| name.to_str()).map(str::to_owned),
            false => name_of(&path),
        };
        let Some(id) = id.filter(|id| !id.starts_with('.')) else { continue };
        match check_inside(&root, &path) {
            Ok(()) => {
                let model = NameOrPath::from(OsString::from(path));
                found.push(CatalogEntry { root: Some(root.clone()), ..CatalogEntry::new(id, model) });
            }
            Err(failure) => report::note(&format!("{}; it is left out", failure.said())),
        }
    }
    Ok(found)
}

/// The models on this machine, and the recipes of spec folders that name their base.
#[cfg(feature = "hub")]
fn installed(specs: &SpecArguments, environment: &Environment) -> Result<Vec<CatalogEntry>, Failure> {
    use crate::arguments::model_names::ModelNames;
    let models = ModelNames::read(specs)?.hub().installed()?;
    let whole = models.into_iter().filter(|model| model.missing.is_empty());
    let mut all: Vec<CatalogEntry> = whole
        .map(|model| CatalogEntry::new(model.name, NameOrPath::from(OsString::from(model.path))))
        .collect();
    all.extend(recipes(specs, environment)?);
    Ok(all)
}

/// The recipes of spec folders; this build has no store of models.
#[cfg(not(feature = "hub"))]
fn installed(specs: &SpecArguments, environment: &Environment) -> Result<Vec<CatalogEntry>, Failure> {
    recipes(specs, environment)
}

fn recipes(specs: &SpecArguments, environment: &Environment) -> Result<Vec<CatalogEntry>, Failure> {
    let environment = specs.environment(environment)?;
    let whole = environment.recipes().iter().filter(|recipe| recipe.recipe().is_ok() && !is_form(recipe));
    Ok(whole
        .map(|recipe| CatalogEntry::new(recipe.id.clone(), NameOrPath::from(recipe.id.as_str())))
        .collect())
}

/// The files of an entry, as far as they are known before it is opened.
pub(super) fn known_files(entry: &CatalogEntry) -> Vec<PathBuf> {
    match entry.model.path().exists() {
        true => files_of(entry.model.path()),
        false => Vec::new(),
    }
}
