//! [`Ingredients`]: a recipe and what it is made over, down to the files of a model.

use crate::error::LoadError;
use crate::mixture_options::{GivenExpert, GivenGate, GivenMixture};
use crate::options::{AdapterOption, GivenTemplate, LoadOptions};
use crate::tables::tokenizer_tables;
use menagerie_registry::{Environment, FolderKind, Origin, RecipeEntry};
use menagerie_spec::{
    AdapterKind, MetadataValue, RECIPE_SUFFIX, Recipe, RecipeAdapter, RecipeBase, RecipeExpert,
    RecipeMixture, nearest,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Recipes that may stand over each other.
const DEPTH: usize = 8;

/// Finds what a recipe names and what is no file beside it: a model of the hub, say.
pub trait Locate {
    /// The file or folder of a reference.
    ///
    /// # Errors
    /// Why there is none, in words.
    fn locate(&self, reference: &str) -> Result<PathBuf, String>;
}

/// Finds files only.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilesOnly;

impl Locate for FilesOnly {
    fn locate(&self, reference: &str) -> Result<PathBuf, String> {
        let path = PathBuf::from(reference);
        match std::fs::metadata(&path) {
            Ok(_) => Ok(path),
            Err(error) => Err(format!("{error}; only files and folders are looked for here")),
        }
    }
}

/// What a model is put together from: a recipe, those it is made over, and the files they name.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingredients {
    /// Names of the recipes, outermost first.
    pub recipes: Vec<String>,
    /// The model's file or folder.
    pub base: PathBuf,
    /// Adapters, those of the innermost recipe first.
    pub adapters: Vec<AdapterOption>,
    /// What the model's feed-forwards become; one recipe alone may say it.
    pub mixture: Option<GivenMixture>,
    /// Canonical keys set by the recipes; outer ones win.
    pub set: BTreeMap<String, MetadataValue>,
    /// The chat template of the outermost recipe that has one: what it says, and the folder of the recipe.
    chat_template: Option<(String, PathBuf)>,
}

/// Whether a path names a recipe.
pub fn is_recipe(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(RECIPE_SUFFIX))
}

impl Ingredients {
    /// Of the recipe of a file.
    ///
    /// # Errors
    /// A recipe that cannot be read or has faults, one that is made over itself or too deep, what is named and not there.
    pub fn of_file(
        path: impl AsRef<Path>,
        environment: &Environment,
        locate: &dyn Locate,
    ) -> Result<Self, LoadError> {
        let path = path.as_ref();
        Self::of_entry(&read(path)?, environment, locate)
    }

    /// Of a recipe that is known by name, or was read.
    ///
    /// # Errors
    /// As [`Self::of_file`].
    pub fn of_entry(
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

    /// Takes a recipe in; gives the recipe that it is made over, if it is made over one.
    fn add(
        &mut self,
        entry: &RecipeEntry,
        environment: &Environment,
        locate: &dyn Locate,
        seen: &mut Vec<PathBuf>,
    ) -> Result<Option<RecipeEntry>, LoadError> {
        let recipe = entry.recipe().map_err(|faults| LoadError::Spec(faults.clone()))?;
        let place = Place::of(entry);
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

    /// X-LoRA mixes the adapters it was trained with and no others, in a model that is as it was then.
    fn check(&self, outermost: &RecipeEntry) -> Result<(), LoadError> {
        let mixes = self.adapters.iter().any(|adapter| adapter.kind == AdapterKind::XLora);
        if mixes && self.adapters.len() > 1 {
            let names = self.recipes.join(" over ");
            let reason = format!("{names}: X-LoRA mixes the adapters it was trained with, and no others");
            return Err(Place::of(outermost).error(reason));
        }
        Ok(())
    }

    /// `options` with what the recipes say laid under: what the options say themselves wins.
    ///
    /// # Errors
    /// A chat template that is neither a name of the tables nor a file; adapters beside those of an X-LoRA.
    pub fn under(&self, options: &LoadOptions, environment: &Environment) -> Result<LoadOptions, LoadError> {
        let mut options = options.clone();
        for (key, value) in &self.set {
            options.set.entry(key.clone()).or_insert_with(|| value.clone());
        }
        options.adapters.splice(0..0, self.adapters.iter().cloned());
        if options.mixture.is_none() {
            options.mixture.clone_from(&self.mixture);
        }
        options.recipes.splice(0..0, self.recipes.iter().cloned());
        if options.chat_template.is_none() {
            options.chat_template = self.template(environment)?;
        }
        Ok(options)
    }

    /// The chat template of the recipes, if one of them has one.
    ///
    /// # Errors
    /// It is neither a name of the tables nor a file.
    pub fn template(&self, environment: &Environment) -> Result<Option<GivenTemplate>, LoadError> {
        let Some((name, folder)) = &self.chat_template else { return Ok(None) };
        let path = folder.join(name);
        let recipe = self.recipes.first().cloned().unwrap_or_default();
        let error = |reason: String| LoadError::Recipe { file: recipe.clone(), reason };
        if path.is_file() {
            let source = std::fs::read_to_string(&path);
            let source = source.map_err(|fault| error(format!("{}: {fault}", path.display())))?;
            return Ok(Some(GivenTemplate { name: path.display().to_string(), source }));
        }
        let (tables, _) = tokenizer_tables(environment).map_err(|fault| error(fault.to_string()))?;
        if let Some(source) = tables.chat_template(name) {
            return Ok(Some(GivenTemplate { name: name.clone(), source: source.to_owned() }));
        }
        let near = nearest(name, tables.chat_templates());
        let near = near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
        Err(error(format!(
            "chat.template `{name}` is neither a file beside the recipe ({}) nor a template of the tables{near}",
            path.display()
        )))
    }
}

/// The model and the options that are meant: those given, or what a recipe makes of them.
pub(crate) fn applied<'a>(
    path: &'a Path,
    environment: &Environment,
    options: &'a LoadOptions,
) -> Result<(Cow<'a, Path>, Cow<'a, LoadOptions>), LoadError> {
    if !is_recipe(path) {
        return Ok((Cow::Borrowed(path), Cow::Borrowed(options)));
    }
    let ingredients = Ingredients::of_file(path, environment, &FilesOnly)?;
    let options = ingredients.under(options, environment)?;
    Ok((Cow::Owned(ingredients.base), Cow::Owned(options)))
}

fn read(path: &Path) -> Result<RecipeEntry, LoadError> {
    RecipeEntry::read(path, FolderKind::File).map_err(LoadError::Registry)
}

/// Where a recipe lies: what it names is relative to it.
struct Place {
    name: String,
    file: PathBuf,
    folder: PathBuf,
}

impl Place {
    fn of(entry: &RecipeEntry) -> Self {
        match &entry.origin {
            Origin::File { path, .. } => Self {
                name: path.display().to_string(),
                folder: path.parent().unwrap_or(Path::new("")).to_owned(),
                file: path.clone(),
            },
            Origin::BuiltIn(_) | Origin::Plugin(_) => {
                Self { name: entry.id.clone(), file: PathBuf::from(&entry.id), folder: PathBuf::new() }
            }
        }
    }

    fn error(&self, reason: String) -> LoadError {
        LoadError::Recipe { file: self.name.clone(), reason }
    }

    /// Refuses a circle of recipes, and a tower.
    fn check_seen(&self, seen: &mut Vec<PathBuf>, above: &[String]) -> Result<(), LoadError> {
        let same = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        let chain = || above.join(" over ");
        if seen.contains(&same) {
            return Err(self.error(format!("{} over itself: a recipe needs a model at its end", chain())));
        }
        if seen.len() == DEPTH {
            return Err(self.error(format!("{}: more than {DEPTH} recipes over each other", chain())));
        }
        seen.push(same);
        Ok(())
    }

    fn adapter(&self, adapter: &RecipeAdapter, locate: &dyn Locate) -> Result<AdapterOption, LoadError> {
        let RecipeAdapter { kind, from, weight } = adapter;
        let from = from.as_deref().unwrap_or_default();
        let path = self.find("adapters", from, locate)?;
        Ok(AdapterOption { kind: *kind, path, weight: *weight as f32 })
    }

    fn mixture(&self, mixture: &RecipeMixture, locate: &dyn Locate) -> Result<GivenMixture, LoadError> {
        let RecipeMixture { layers, gate, choose, experts } = mixture;
        let expert = |expert: &RecipeExpert| match expert {
            RecipeExpert::From(from) => self.find("mixture.experts", from, locate).map(GivenExpert::Model),
            RecipeExpert::Adapter { from, modules } => {
                let path = self.find("mixture.experts", from, locate)?;
                Ok(GivenExpert::Adapter { path, modules: modules.clone() })
            }
        };
        Ok(GivenMixture {
            layers: layers.clone(),
            experts: experts.iter().map(expert).collect::<Result<_, _>>()?,
            // The gate need not be there yet.
            gate: GivenGate::File(self.folder.join(gate)),
            choose: *choose,
        })
    }

    /// A file beside the recipe, else whatever `locate` finds.
    fn find(&self, key: &str, reference: &str, locate: &dyn Locate) -> Result<PathBuf, LoadError> {
        let beside = self.folder.join(reference);
        if beside.exists() {
            return Ok(beside);
        }
        let like_path = reference.starts_with(['.', '/']) || Path::new(reference).is_absolute();
        let endings = [".gguf", ".safetensors", RECIPE_SUFFIX];
        if like_path || (endings.iter().any(|end| reference.ends_with(end)) && !reference.contains(':')) {
            let reason = format!("{key}: there is no {}; paths are relative to the recipe", beside.display());
            return Err(self.error(reason));
        }
        locate.locate(reference).map_err(|reason| self.error(format!("{key} `{reference}`: {reason}")))
    }
}

/// What a form lacks to be a model.
fn form_reason(recipe: &Recipe, architecture: &str) -> String {
    let mixes = recipe.adapters.iter().any(|adapter| adapter.kind == AdapterKind::XLora);
    let option = if mixes { "--xlora FOLDER" } else { "--lora PATH" };
    format!(
        "`{}` is no model but what any model of the architecture {architecture} becomes with its adapters; name both: \
         `menagerie run MODEL {option}`, or a recipe of your own with `base` and `from`",
        recipe.id
    )
}
