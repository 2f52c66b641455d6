//! [`RecipeEntry`]: a recipe that a crate registers or that is in a spec folder.

use crate::error::RegistryError;
use crate::folder::SpecFolder;
use crate::folder_kind::FolderKind;
use crate::origin::Origin;
use crate::text_file::{TextFileError, read_text};
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
    /// Its name; if the file cannot be parsed, the name of the file.
    pub id: String,
    /// Its origin.
    pub origin: Origin,
    /// Recipes of the same name, which are not used.
    pub ignored: Vec<Origin>,
    text: String,
    recipe: Result<Recipe, SpecFaults>,
}

impl RecipeEntry {
    /// The recipe in a file, in any folder.
    ///
    /// # Errors
    /// The file cannot be read. Faults of its content are returned by [`Self::recipe`].
    pub fn read(path: impl AsRef<Path>, folder: FolderKind) -> Result<Self, RegistryError> {
        let path = path.as_ref();
        let unreadable =
            |fault: TextFileError| RegistryError::Recipe { path: path.to_owned(), reason: fault.reason() };
        let text = read_text(path).map_err(unreadable)?;
        Ok(Self::new(&path_text(path), text, Origin::File { path: path.to_owned(), folder }))
    }

    fn new(name: &str, text: String, origin: Origin) -> Self {
        let source = SpecSource { name: name.to_owned(), text };
        let recipe = Recipe::parse(&source);
        let id = recipe.as_ref().map_or_else(|_| Recipe::id_of_file(name), |recipe| recipe.id.clone());
        Self { id, origin, ignored: Vec::new(), text: source.text, recipe }
    }

    /// The parsed recipe.
    ///
    /// # Errors
    /// All of its faults.
    pub fn recipe(&self) -> Result<&Recipe, &SpecFaults> {
        self.recipe.as_ref()
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Notes for listings: files of the same name that are not used.
    pub fn notes(&self) -> Vec<String> {
        let note = |other: &Origin| format!("recipe {other} is not used: {} comes first", self.origin);
        self.ignored.iter().map(note).collect()
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

/// Adds the recipes of a folder after those of more important folders; adds a note for each file that cannot be read.
pub(crate) fn add_folder(
    folder: &SpecFolder,
    entries: &mut Vec<RecipeEntry>,
    notes: &mut Vec<String>,
) -> Result<(), RegistryError> {
    for path in folder.recipe_files()? {
        match RecipeEntry::read(&path, folder.kind) {
            Ok(entry) => match entries.iter_mut().find(|other| other.id == entry.id) {
                Some(other) => other.ignored.push(entry.origin),
                None => entries.push(entry),
            },
            Err(error) => notes.push(format!("{error}; it is left out")),
        }
    }
    Ok(())
}
