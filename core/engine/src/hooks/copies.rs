//! [`copied_hook`]: hooks that can be copied to the process of a stage.

use super::{Capture, NamedHook, Relay, Steering};
use menagerie_entries::Entries;
use menagerie_model::{Compute, HookRecipe, LayerHook};
use std::sync::Arc;

/// What copies of hooks are made for.
pub struct HookPlace {
    /// What the hooks of this process are looked up in.
    pub entries: Entries,
    /// Where the stage computes.
    pub compute: Compute,
    /// D: width of the residual stream, in elements.
    pub width: usize,
    /// Layers of the whole model.
    pub layers: usize,
}

/// Makes a copy of a hook from what its recipe says.
type Maker = fn(&[u8], &HookPlace) -> Result<Arc<dyn LayerHook>, String>;

/// Kinds of hooks that can be copied.
const MAKERS: [(&str, Maker); 4] = [
    (Capture::KIND, |content, place| Ok(Arc::new(Capture::copied(content, place.layers)?))),
    (Steering::KIND, |content, place| Ok(Arc::new(Steering::copied(content, place)?))),
    (Relay::KIND, |content, _| Ok(Arc::new(Relay::copied(content)?))),
    (NamedHook::KIND, |content, place| NamedHook::copied(content, &place.entries, place.layers, place.width)),
];

/// A copy of a hook of another process, from its recipe.
///
/// # Errors
/// A kind of hook that this program cannot copy; a recipe that does not fit the model; in words.
pub fn copied_hook(recipe: &HookRecipe, place: &HookPlace) -> Result<Arc<dyn LayerHook>, String> {
    let HookRecipe { kind, content } = recipe;
    let Some((_, make)) = MAKERS.iter().find(|(known, _)| known == kind) else {
        let known: Vec<&str> = MAKERS.iter().map(|(known, _)| *known).collect();
        return Err(format!(
            "hooks of kind `{kind}` are not known in this process; known: {}",
            known.join(", ")
        ));
    };
    make(content, place).map_err(|reason| format!("hook `{kind}`: {reason}"))
}
