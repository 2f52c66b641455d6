//! [`LoadRequest`]: what is loaded, with the values of a recipe.

use crate::opened::OpenedFile;
use crate::options::LoadOptions;
use crate::resolved::ResolvedFile;
use menagerie_model::LinearWrapper;
use menagerie_registry::Environment;
use menagerie_spec::ArchSpec;
use std::path::PathBuf;
use std::sync::Arc;

/// What is loaded: the files of a model, and the options with the values of its recipe.
#[derive(Clone)]
pub(crate) struct LoadRequest {
    pub(crate) path: PathBuf,
    /// Names of the recipes, outermost first.
    pub(crate) recipes: Vec<String>,
    pub(crate) environment: Environment,
    pub(crate) options: LoadOptions,
    pub(crate) progress: Option<LoadProgress>,
    pub(crate) wrapping: Option<LinearWrapping>,
    /// A file that another pipeline has open.
    pub(crate) opened: Option<OpenedFile>,
}

/// Is called with the number of tensors that are quantized, and the number of all.
#[derive(Clone)]
pub(crate) struct LoadProgress(pub(crate) Arc<dyn Fn(usize, usize) + Send + Sync>);

/// Makes the wrapper of a model's linears, for the spec of the model.
type MakeWrapper = dyn Fn(&Arc<ArchSpec>) -> Arc<dyn LinearWrapper> + Send + Sync;

/// What wraps the linears of a model.
#[derive(Clone)]
pub(crate) struct LinearWrapping(pub(crate) Arc<MakeWrapper>);

impl LoadRequest {
    /// The name of the model: that of its recipe, or what the file states.
    pub(crate) fn name(&self, resolved: &ResolvedFile) -> String {
        self.recipes.first().cloned().unwrap_or_else(|| resolved.name())
    }
}
