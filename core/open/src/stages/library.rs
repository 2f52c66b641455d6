//! [`ProcessLibrary`]: adapters and copies of hooks for a stage in another process.

use menagerie_engine::{HookTarget, copied_hook};
use menagerie_model::{Adapter, HookRecipe, LayerHook, ScalingLayers};
use menagerie_stages::StageLibrary;
use std::sync::Arc;

/// The adapters with which the model of a stage was opened, by name, and hooks that are made from their recipes.
pub(crate) struct ProcessLibrary {
    pub(crate) adapters: Vec<Arc<Adapter>>,
    /// By site, the layer of an X-LoRA's weights for it.
    pub(crate) scaling_layers: Option<ScalingLayers>,
    pub(crate) place: HookTarget,
}

impl StageLibrary for ProcessLibrary {
    fn adapter(&self, _number: u32, name: &str) -> Option<Arc<Adapter>> {
        self.adapters.iter().find(|adapter| adapter.name() == name).cloned()
    }

    fn scaling_layers(&self) -> Option<ScalingLayers> {
        self.scaling_layers.clone()
    }

    fn hook(&self, number: u32, recipe: Option<HookRecipe>) -> Result<Arc<dyn LayerHook>, String> {
        let recipe =
            recipe.ok_or_else(|| format!("hook {number} came without what a copy of it is made from"))?;
        copied_hook(&recipe, &self.place)
    }
}
