//! [`RecipePlace`]: where a recipe is, and what is found beside it.

use crate::error::LoadError;
use crate::locate::Locate;
use crate::mixture_option::{ExpertOption, GateOption, MixtureOption};
use crate::options::AdapterOption;
use menagerie_registry::{Origin, RecipeEntry};
use menagerie_spec::{RECIPE_SUFFIX, RecipeAdapter, RecipeExpert, RecipeMixture};
use std::path::{Path, PathBuf};

/// The most recipes that may be based on each other.
const DEPTH: usize = 8;

/// The place of a recipe; paths in it are relative to its folder.
pub(super) struct RecipePlace {
    name: String,
    file: PathBuf,
    pub(super) folder: PathBuf,
}

impl RecipePlace {
    pub(super) fn of(entry: &RecipeEntry) -> Self {
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

    pub(super) fn error(&self, reason: String) -> LoadError {
        LoadError::Recipe { file: self.name.clone(), reason }
    }

    /// Refuses a recipe that is based on itself, and too many recipes.
    pub(super) fn check_seen(&self, seen: &mut Vec<PathBuf>, above: &[String]) -> Result<(), LoadError> {
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

    pub(super) fn adapter(
        &self,
        adapter: &RecipeAdapter,
        locate: &dyn Locate,
    ) -> Result<AdapterOption, LoadError> {
        let RecipeAdapter { kind, from, weight } = adapter;
        let from = from.as_deref().unwrap_or_default();
        let path = self.find("adapters", from, locate)?;
        Ok(AdapterOption { kind: *kind, path, weight: *weight as f32 })
    }

    pub(super) fn mixture(
        &self,
        mixture: &RecipeMixture,
        locate: &dyn Locate,
    ) -> Result<MixtureOption, LoadError> {
        let RecipeMixture { layers, gate, choose, experts } = mixture;
        let expert = |expert: &RecipeExpert| match expert {
            RecipeExpert::From(from) => self.find("mixture.experts", from, locate).map(ExpertOption::Model),
            RecipeExpert::Adapter { from, modules } => {
                let path = self.find("mixture.experts", from, locate)?;
                Ok(ExpertOption::Adapter { path, modules: modules.clone() })
            }
        };
        Ok(MixtureOption {
            layers: layers.clone(),
            experts: experts.iter().map(expert).collect::<Result<_, _>>()?,
            // The gate does not have to exist yet: `train-gate` writes it.
            gate: GateOption::File(self.folder.join(gate)),
            choose: *choose,
        })
    }

    /// The file beside the recipe, or what `locate` finds.
    pub(super) fn find(&self, key: &str, reference: &str, locate: &dyn Locate) -> Result<PathBuf, LoadError> {
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
        let found = locate.locate(Path::new(reference));
        found.map_err(|reason| self.error(format!("{key} `{reference}`: {reason}")))
    }
}
