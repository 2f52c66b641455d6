//! [`copied_hook`]: copies of hooks in the processes of stages.

use super::{Capture, NamedHook, Relay, Steering};
use menagerie_entries::Entries;
use menagerie_model::{Compute, HookRecipe, LayerHook};
use std::sync::Arc;

/// The stage that a copy of a hook is made for.
pub struct HookTarget {
    /// The environment of this process, in which hooks are looked up.
    pub entries: Entries,
    /// Backend and arithmetic of the stage.
    pub compute: Compute,
    /// D: width of the residual stream, in elements.
    pub width: usize,
    /// Layers of the whole model.
    pub layers: usize,
    /// Where recipes come from.
    pub origin: RecipeOrigin,
}

/// Where the process is that recipes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipeOrigin {
    /// On this machine, with the same user: recipes may name folders.
    SameMachine,
    /// Perhaps on another machine: no path of a recipe is used.
    OtherMachine,
}

/// Makes a copy of a hook from the content of its recipe.
type Maker = fn(&[u8], &HookTarget) -> Result<Arc<dyn LayerHook>, String>;

/// The kinds of hooks that can be copied.
const MAKERS: [(&str, Maker); 4] = [
    (Capture::KIND, |content, place| Ok(Arc::new(Capture::copied(content, place.layers, place.origin)?))),
    (Steering::KIND, |content, place| Ok(Arc::new(Steering::copied(content, place)?))),
    (Relay::KIND, |content, _| Ok(Arc::new(Relay::copied(content)?))),
    (NamedHook::KIND, |content, place| NamedHook::copied(content, &place.entries, place.layers, place.width)),
];

/// A copy of a hook of another process, from its recipe.
///
/// # Errors
/// This program cannot copy this kind of hook, or the recipe does not fit the model; as a sentence.
pub fn copied_hook(recipe: &HookRecipe, place: &HookTarget) -> Result<Arc<dyn LayerHook>, String> {
    let HookRecipe { kind, content } = recipe;
    let Some((_, make)) = MAKERS.iter().find(|(known, _)| known == kind) else {
        let known: Vec<&str> = MAKERS.iter().map(|(known, _)| *known).collect();
        return Err(format!(
            "this process does not know hooks of kind `{kind}`; it knows: {}",
            known.join(", ")
        ));
    };
    make(content, place).map_err(|reason| format!("hook `{kind}`: {reason}"))
}
