//! [`ProcessLibrary`]: adapters and copies of hooks of a stage in a process of its own.

use crate::control::Steering;
use crate::hooks::{Capture, NamedHook, Relay};
use menagerie_model::{Adapter, Compute, HookRecipe, LayerHook, ScalingLayers};
use menagerie_registry::Environment;
use menagerie_stages::StageLibrary;
use std::sync::Arc;

/// What copies of hooks are made for.
pub(crate) struct HookPlace {
    /// What the hooks of this process are looked up in.
    pub(crate) environment: Environment,
    /// Where the stage computes.
    pub(crate) compute: Compute,
    /// D: width of the residual stream, in elements.
    pub(crate) width: usize,
    /// Layers of the whole model.
    pub(crate) layers: usize,
}

/// Makes a copy of a hook from what its recipe says.
type Maker = fn(&[u8], &HookPlace) -> Result<Arc<dyn LayerHook>, String>;

/// Kinds of hooks that can be copied.
const MAKERS: [(&str, Maker); 4] = [
    (Capture::KIND, |content, place| Ok(Arc::new(Capture::copied(content, place.layers)?))),
    (Steering::KIND, |content, place| Ok(Arc::new(Steering::copied(content, place)?))),
    (Relay::KIND, |content, _| Ok(Arc::new(Relay::copied(content)?))),
    (NamedHook::KIND, |content, place| {
        NamedHook::copied(content, place.environment.entries(), place.layers, place.width)
    }),
];

/// The adapters that a stage's model was opened with, by name, and hooks made from their recipes.
pub(crate) struct ProcessLibrary {
    pub(crate) adapters: Vec<Arc<Adapter>>,
    /// By site the layer that an X-LoRA's weights have for it.
    pub(crate) scaling_layers: Option<ScalingLayers>,
    pub(crate) place: HookPlace,
}

impl StageLibrary for ProcessLibrary {
    fn adapter(&self, _number: u32, name: &str) -> Option<Arc<Adapter>> {
        self.adapters.iter().find(|adapter| adapter.name() == name).cloned()
    }

    fn scaling_layers(&self) -> Option<ScalingLayers> {
        self.scaling_layers.clone()
    }

    fn hook(&self, number: u32, recipe: Option<HookRecipe>) -> Result<Arc<dyn LayerHook>, String> {
        let HookRecipe { kind, content } =
            recipe.ok_or_else(|| format!("hook {number} came without what a copy of it is made from"))?;
        let Some((_, make)) = MAKERS.iter().find(|(known, _)| *known == kind) else {
            let known: Vec<&str> = MAKERS.iter().map(|(known, _)| *known).collect();
            return Err(format!(
                "hooks of kind `{kind}` are not known in this process; known: {}",
                known.join(", ")
            ));
        };
        make(&content, &self.place).map_err(|reason| format!("hook `{kind}`: {reason}"))
    }
}
