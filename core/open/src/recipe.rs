//! [`Ingredients`]: what a recipe, and the recipes that it is based on, add to a model.

mod place;

use crate::error::LoadError;
use crate::locate::Locate;
use crate::mixture_option::MixtureOption;
use crate::options::{AdapterOption, TemplateSource};
use crate::tables::tokenizer_tables;
use menagerie_entries::{nearest, nearest_clause};
use menagerie_registry::{Environment, FolderKind, RecipeEntry};
use menagerie_spec::{AdapterKind, MetadataValue, RECIPE_SUFFIX, Recipe, RecipeBase};
use place::RecipePlace;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a recipe adds to a model, with the recipes that it is based on.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingredients {
    /// Names of the recipes, outermost first.
    pub recipes: Vec<String>,
    /// The file or folder of the base model.
    pub base: PathBuf,
    /// Adapters, those of the innermost recipe first.
    pub adapters: Vec<AdapterOption>,
    /// The mixture that replaces the model's feed-forwards; at most one of the recipes has one.
    pub mixture: Option<MixtureOption>,
    /// Metadata keys that the recipes set; outer recipes have priority.
    pub set: BTreeMap<String, MetadataValue>,
    /// The chat template of the outermost recipe that has one: its name or path, and the folder of the recipe.
    chat_template: Option<(String, PathBuf)>,
}

/// Whether a path names a recipe.
pub fn is_recipe(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(RECIPE_SUFFIX))
}

/// The recipe of a file `NAME.recipe.toml`, or of a name in the environment; `None` if the reference is something else.
/// Files and short names of models have priority over names of recipes.
///
/// # Errors
/// The file cannot be read.
pub fn find_recipe(
    reference: impl AsRef<Path>,
    environment: &Environment,
    locate: Option<&dyn Locate>,
) -> Result<Option<RecipeEntry>, LoadError> {
    let path = reference.as_ref();
    if is_recipe(path) {
        return read(path).map(Some);
    }
    let Some(name) = path.to_str() else { return Ok(None) };
    if name.contains(['/', '\\']) || path.exists() {
        return Ok(None);
    }
    // The names of models are only read for the name of a recipe.
    let is_model = |name: &str| locate.is_some_and(|locate| locate.is_model_name(name));
    Ok(environment.recipe(name).filter(|recipe| !is_model(&recipe.id)).cloned())
}

impl Ingredients {
    /// Collects what a recipe names, and what the recipes name that it is based on.
    pub(crate) fn of_entry(
        entry: &RecipeEntry,
        environment: &Environment,
        locate: &dyn Locate,
    ) -> Result<Self, LoadError> {
        let mut collected = Self {
            recipes: Vec::new(),
            base: PathBuf::new(),
            adapters: Vec::new(),
            mixture: None,
            set: BTreeMap::new(),
            chat_template: None,
        };
        let mut seen = Vec::new();
        let mut next = Some(entry.clone());
        while let Some(entry) = next {
            next = collected.add(&entry, environment, locate, &mut seen)?;
        }
        collected.check(entry)?;
        Ok(collected)
    }

    /// Adds a recipe; returns the recipe that it is based on, if any.
    fn add(
        &mut self,
        entry: &RecipeEntry,
        environment: &Environment,
        locate: &dyn Locate,
        seen: &mut Vec<PathBuf>,
    ) -> Result<Option<RecipeEntry>, LoadError> {
        let recipe = entry.recipe().map_err(|faults| LoadError::Spec(faults.clone()))?;
        let place = RecipePlace::of(entry);
        place.check_seen(seen, &self.recipes)?;
        let base = match &recipe.base {
            RecipeBase::Model(base) => base,
            RecipeBase::Architecture(architecture) => {
                return Err(place.error(form_reason(recipe, architecture)));
            }
        };
        self.recipes.push(recipe.id.clone());
        let mut adapters = Vec::with_capacity(recipe.adapters.len());
        for adapter in &recipe.adapters {
            adapters.push(place.adapter(adapter, locate)?);
        }
        adapters.append(&mut self.adapters);
        self.adapters = adapters;
        if let Some(mixture) = &recipe.mixture {
            if self.mixture.is_some() {
                let reason = format!("{}: a mixture over a mixture; keep one", self.recipes.join(" over "));
                return Err(place.error(reason));
            }
            self.mixture = Some(place.mixture(mixture, locate)?);
        }
        for (key, value) in &recipe.set {
            self.set.entry(key.clone()).or_insert_with(|| value.clone());
        }
        if self.chat_template.is_none() {
            self.chat_template =
                recipe.chat_template.clone().map(|template| (template, place.folder.clone()));
        }
        if let Some(known) = environment.recipe(base).filter(|_| !place.folder.join(base).exists()) {
            return Ok(Some(known.clone()));
        }
        let found = place.find("base", base, locate)?;
        if is_recipe(&found) {
            return Ok(Some(read(&found)?));
        }
        self.base = found;
        Ok(None)
    }

    /// Refuses an X-LoRA beside other adapters: it mixes only the adapters that it was trained with.
    fn check(&self, outermost: &RecipeEntry) -> Result<(), LoadError> {
        let mixes = self.adapters.iter().any(|adapter| adapter.kind == AdapterKind::XLora);
        if mixes && self.adapters.len() > 1 {
            let names = self.recipes.join(" over ");
            let reason = format!("{names}: X-LoRA mixes only the adapters that it was trained with");
            return Err(RecipePlace::of(outermost).error(reason));
        }
        Ok(())
    }

    /// The chat template of the recipes, if one of them has one: a file, or a name of the tables.
    ///
    /// # Errors
    /// The template is neither a file nor a name of the tables.
    pub fn template(&self, environment: &Environment) -> Result<Option<TemplateSource>, LoadError> {
        let Some((name, folder)) = &self.chat_template else { return Ok(None) };
        let path = folder.join(name);
        let recipe = self.recipes.first().cloned().unwrap_or_default();
        let error = |reason: String| LoadError::Recipe { file: recipe.clone(), reason };
        if path.is_file() {
            let source = std::fs::read_to_string(&path);
            let source = source.map_err(|fault| error(format!("{}: {fault}", path.display())))?;
            return Ok(Some(TemplateSource { name: path.display().to_string(), source }));
        }
        let (tables, _) = tokenizer_tables(environment).map_err(|fault| error(fault.to_string()))?;
        if let Some(source) = tables.chat_template(name) {
            return Ok(Some(TemplateSource { name: name.clone(), source: source.to_owned() }));
        }
        let near = nearest_clause(nearest(name, tables.chat_templates()));
        Err(error(format!(
            "chat.template `{name}` is neither a file beside the recipe ({}) nor a template of the tables{near}",
            path.display()
        )))
    }
}

fn read(path: &Path) -> Result<RecipeEntry, LoadError> {
    RecipeEntry::read(path, FolderKind::File).map_err(LoadError::Registry)
}

/// The error for a form: a recipe for any model of an architecture.
fn form_reason(recipe: &Recipe, architecture: &str) -> String {
    let mixes = recipe.adapters.iter().any(|adapter| adapter.kind == AdapterKind::XLora);
    let option = if mixes { "--xlora FOLDER" } else { "--lora PATH" };
    format!(
        "`{}` is not a model: it describes any model of the architecture {architecture} with its adapters; name both: \
         `menagerie run MODEL {option}`, or a recipe of your own with `base` and `from`",
        recipe.id
    )
}
