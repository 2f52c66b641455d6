//! [`ModelSource`]: from the path or the name of a model to its files.

use crate::error::LoadError;
use crate::keys::KeyOptions;
use crate::locate::{FilesOnly, Locate};
use crate::options::LoadOptions;
use crate::recipe::{Ingredients, find_recipe};
use menagerie_registry::Environment;
use std::path::{Path, PathBuf};

/// The files of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSource {
    /// The model's file or folder; of a recipe, that of its base.
    pub path: PathBuf,
    /// What a recipe adds to the base; `None` if the model is not a recipe.
    pub ingredients: Option<Ingredients>,
}

impl ModelSource {
    /// Finds the files of a model, or of a recipe and its base. Without `locate` only files and folders are found.
    ///
    /// # Errors
    /// A recipe that cannot be read or has faults, that is based on itself or on too many others, or that names something
    /// that does not exist; the error of `locate`.
    pub fn find(
        reference: impl AsRef<Path>,
        environment: &Environment,
        locate: Option<&dyn Locate>,
    ) -> Result<Self, LoadError> {
        let reference = reference.as_ref();
        if let Some(entry) = find_recipe(reference, environment, locate)? {
            let ingredients = Ingredients::of_entry(&entry, environment, locate.unwrap_or(&FilesOnly))?;
            return Ok(Self { path: ingredients.base.clone(), ingredients: Some(ingredients) });
        }
        // Without `locate` the reference is a path; opening it reports what is wrong with it.
        let found = locate.map_or_else(|| Ok(reference.to_owned()), |locate| locate.locate(reference));
        let model = reference.display().to_string();
        let path = found.map_err(|source| LoadError::Locate { model, source })?;
        Ok(Self { path, ingredients: None })
    }

    /// Options with the values of the recipe where the options have none.
    ///
    /// # Errors
    /// The chat template of the recipe is neither a file nor a name of the tables.
    pub fn options(
        &self,
        options: &LoadOptions,
        environment: &Environment,
    ) -> Result<LoadOptions, LoadError> {
        let mut options = LoadOptions { keys: self.keys(options.keys.clone()), ..options.clone() };
        let Some(ingredients) = &self.ingredients else { return Ok(options) };
        options.composition.adapters.splice(0..0, ingredients.adapters.iter().cloned());
        if options.composition.mixture.is_none() {
            options.composition.mixture.clone_from(&ingredients.mixture);
        }
        if options.chat_template.is_none() {
            options.chat_template = ingredients.template(environment)?;
        }
        Ok(options)
    }

    /// Options of keys with the values of the recipe where the options have none.
    pub fn keys(&self, mut keys: KeyOptions) -> KeyOptions {
        for (key, value) in self.ingredients.iter().flat_map(|ingredients| &ingredients.set) {
            keys.set.entry(key.clone()).or_insert_with(|| value.clone());
        }
        keys
    }

    /// The names of the recipes, outermost first.
    pub(crate) fn recipes(&self) -> Vec<String> {
        self.ingredients.iter().flat_map(|ingredients| ingredients.recipes.iter().cloned()).collect()
    }
}
