//! [`ModelSource`]: from a model argument to the files of the model, including those of a recipe.

use crate::arguments::model_file::locate;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use menagerie::open::{Ingredients, KeyOptions, LoadOptions, Locate, is_recipe};
use menagerie::registry::{Environment, FolderKind, RecipeEntry};
use std::path::PathBuf;

/// The files of a model.
pub(crate) struct ModelSource {
    /// The model's file or folder.
    pub(crate) path: PathBuf,
    /// The parts that a recipe adds, if the argument names one.
    pub(crate) ingredients: Option<Ingredients>,
}

impl ModelSource {
    /// Locates the files of a model, or of a recipe and its base; downloads those that are not on this machine.
    pub(crate) fn of(
        model: &NameOrPath,
        specs: &SpecArguments,
        installed: &Environment,
    ) -> Result<Self, Failure> {
        let Some(entry) = find_recipe(model, specs, installed)? else {
            return Ok(Self { path: locate(model, specs)?, ingredients: None });
        };
        let ingredients = Ingredients::of_entry(&entry, &specs.environment(installed)?, &Downloader(specs))?;
        Ok(Self { path: ingredients.base.clone(), ingredients: Some(ingredients) })
    }

    /// Options with the values of the recipe where the user gave none.
    pub(crate) fn options(
        &self,
        options: LoadOptions,
        environment: &Environment,
    ) -> Result<LoadOptions, Failure> {
        match &self.ingredients {
            Some(ingredients) => Ok(ingredients.under(&options, environment)?),
            None => Ok(options),
        }
    }

    /// Keys with the values of the recipe where the user gave none.
    pub(crate) fn keys(&self, mut keys: KeyOptions) -> KeyOptions {
        for (key, value) in self.ingredients.iter().flat_map(|ingredients| &ingredients.set) {
            keys.set.entry(key.clone()).or_insert_with(|| value.clone());
        }
        keys
    }
}

/// The recipe of a file `NAME.recipe.toml` or of a name in a spec folder; `None` if the argument is something else. Files
/// and short names of models have priority.
pub(crate) fn find_recipe(
    typed: &NameOrPath,
    specs: &SpecArguments,
    installed: &Environment,
) -> Result<Option<RecipeEntry>, Failure> {
    let path = typed.path();
    if is_recipe(path) {
        return Ok(Some(RecipeEntry::read(path, FolderKind::File)?));
    }
    let Some(name) = typed.name() else { return Ok(None) };
    if name.contains(['/', '\\']) || path.exists() || is_listed(name, specs) {
        return Ok(None);
    }
    Ok(specs.environment(installed)?.recipe(name).cloned())
}

/// Whether a table of models has the short name.
#[cfg(feature = "hub")]
fn is_listed(name: &str, specs: &SpecArguments) -> bool {
    let names = crate::arguments::model_names::ModelNames::read(specs);
    names.is_ok_and(|names| names.hub().reference(name).is_ok())
}

#[cfg(not(feature = "hub"))]
fn is_listed(_name: &str, _specs: &SpecArguments) -> bool {
    false
}

/// Downloads models that are not on this machine.
struct Downloader<'a>(&'a SpecArguments);

impl Locate for Downloader<'_> {
    fn locate(&self, reference: &str) -> Result<PathBuf, String> {
        locate(&NameOrPath::from(reference), self.0).map_err(|failure| match failure {
            Failure::Failed(message) | Failure::Usage(message) => message,
            _ => "interrupted".to_owned(),
        })
    }
}
