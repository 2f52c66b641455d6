//! [`RecipeEntry`]: recipes that crates register and that lie in spec folders.

use crate::error::RegistryError;
use crate::folder::SpecFolder;
use crate::folder_kind::FolderKind;
use crate::origin::Origin;
use crate::text_file::{NoText, read_text};
use menagerie_entries::{Entries, Entry};
use menagerie_files::path_text;
use menagerie_spec::{RECIPE_SUFFIX, Recipe, SpecFaults, SpecSource};
use std::path::Path;

/// A built-in recipe, as its crate registers it.
#[derive(Clone, Debug)]
pub struct BuiltInRecipe {
    /// Its name.
    pub name: &'static str,
    /// Its text, TOML.
    pub text: &'static str,
    /// The crate that registers it, for listings.
    pub registered_by: &'static str,
}

impl Entry for BuiltInRecipe {
    const FAMILY: &'static str = "recipe";

    fn name(&self) -> &str {
        self.name
    }

    fn registered_by(&self) -> &str {
        self.registered_by
    }
}

/// One recipe.
#[derive(Clone, Debug)]
pub struct RecipeEntry {
    /// Its name; for a file that cannot be parsed, that of the file.
    pub id: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Recipes of the same name that are not used.
    pub passed_over: Vec<Origin>,
    text: String,
    recipe: Result<Recipe, SpecFaults>,
}

impl RecipeEntry {
    /// The recipe of a file, wherever it lies.
    ///
    /// # Errors
    /// The file cannot be read; its faults are kept for [`Self::recipe`].
    pub fn read(path: impl AsRef<Path>, folder: FolderKind) -> Result<Self, RegistryError> {
        let path = path.as_ref();
        let unreadable =
            |fault: NoText| RegistryError::Recipe { path: path.to_owned(), reason: fault.words() };
        let text = read_text(path).map_err(unreadable)?;
        Ok(Self::new(&path_text(path), text, Origin::File { path: path.to_owned(), folder }))
    }

    fn new(name: &str, text: String, origin: Origin) -> Self {
        let source = SpecSource { name: name.to_owned(), text };
        let recipe = Recipe::parse(&source);
        let id = recipe.as_ref().map_or_else(|_| Recipe::id_of_file(name), |recipe| recipe.id.clone());
        Self { id, origin, passed_over: Vec::new(), text: source.text, recipe }
    }

    /// What it says, or what is wrong with it.
    ///
    /// # Errors
    /// All of its faults.
    pub fn recipe(&self) -> Result<&Recipe, &SpecFaults> {
        self.recipe.as_ref()
    }

    /// Its text, as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What must be said in listings: files of its name that are not used.
    pub fn notes(&self) -> Vec<String> {
        let said = |passed: &Origin| format!("recipe {passed} is not used: {} comes first", self.origin);
        self.passed_over.iter().map(said).collect()
    }
}

/// The registered recipes, by name.
pub(crate) fn built_in(entries: &Entries) -> Vec<RecipeEntry> {
    let mut registered: Vec<&BuiltInRecipe> = entries.all().iter().collect();
    registered.sort_by_key(|recipe| recipe.name);
    let entry = |one: &BuiltInRecipe| {
        let name = format!("{}{RECIPE_SUFFIX}", one.name);
        RecipeEntry::new(&name, one.text.to_owned(), Origin::BuiltIn(one.registered_by))
    };
    registered.into_iter().map(entry).collect()
}

/// Adds the recipes of a folder to those of more important ones; files that cannot be read are told in `notes`.
pub(crate) fn add_folder(
    folder: &SpecFolder,
    entries: &mut Vec<RecipeEntry>,
    notes: &mut Vec<String>,
) -> Result<(), RegistryError> {
    for path in folder.recipe_files()? {
        match RecipeEntry::read(&path, folder.kind) {
            Ok(entry) => match entries.iter_mut().find(|other| other.id == entry.id) {
                Some(other) => other.passed_over.push(entry.origin),
                None => entries.push(entry),
            },
            Err(error) => notes.push(format!("{error}; it is left out")),
        }
    }
    Ok(())
}
