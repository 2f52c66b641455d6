//! [`StageLibrary`]: where a stage finds what frames name by number: adapters and hooks.

use menagerie_model::{Adapter, HookRecipe, LayerHook, ScalingLayers};
use std::fmt;
use std::ptr::addr_eq;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What a stage has of what frames name by number.
pub trait StageLibrary: Send + Sync {
    /// The adapter that the chain gave this number, fitted to the stage's own sites; `name` is what it is called.
    fn adapter(&self, number: u32, name: &str) -> Option<Arc<Adapter>>;

    /// By site of the stage the layer that an X-LoRA's weights have for it; none without X-LoRA.
    fn scaling_layers(&self) -> Option<ScalingLayers>;

    /// The hook that the chain gave this number; `recipe` is what a copy is made from, where the hook itself is elsewhere.
    ///
    /// # Errors
    /// Why there is none, in words.
    fn hook(&self, number: u32, recipe: Option<HookRecipe>) -> Result<Arc<dyn LayerHook>, String>;
}

/// Whether stages have the chain's adapters and hooks themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageReach {
    /// They are threads of its process.
    SameProcess,
    /// They have their own, or copies.
    Elsewhere,
}

/// What the chain gave numbers, and what stages on threads of its process find by them.
#[derive(Debug)]
pub struct Shared {
    reach: StageReach,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    adapters: Vec<Arc<Adapter>>,
    scaling_layers: Option<ScalingLayers>,
    /// Hooks belong to who added them.
    hooks: Vec<(u32, Weak<dyn LayerHook>)>,
    next_hook: u32,
    /// Numbers of hooks that are no more, until stages are told.
    gone: Vec<u32>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} adapters, {} hooks", self.adapters.len(), self.hooks.len())
    }
}

impl Shared {
    /// Nothing has a number.
    pub fn new(reach: StageReach) -> Self {
        Self { reach, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether stages have what is here themselves.
    pub(crate) fn reach(&self) -> StageReach {
        self.reach
    }

    /// The number of an adapter.
    pub(crate) fn adapter_number(&self, adapter: &Arc<Adapter>) -> u32 {
        let mut kept = self.kept();
        if let Some(number) = kept.adapters.iter().position(|one| Arc::ptr_eq(one, adapter)) {
            return number as u32;
        }
        kept.adapters.push(Arc::clone(adapter));
        kept.adapters.len() as u32 - 1
    }

    /// Which layers an X-LoRA's weights have, of all sites.
    pub(crate) fn scale_by(&self, layers: &ScalingLayers) {
        self.kept().scaling_layers = Some(Arc::clone(layers));
    }

    /// The number of a hook.
    pub(crate) fn hook_number(&self, hook: &Arc<dyn LayerHook>) -> u32 {
        let mut kept = self.kept();
        // A hook that is no more holds its place in memory until it is dropped here: no other is taken for it.
        let known = kept.hooks.iter().find(|(_, known)| addr_eq(known.as_ptr(), Arc::as_ptr(hook)));
        if let Some((number, _)) = known {
            return *number;
        }
        let (living, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut kept.hooks).into_iter().partition(|(_, known)| known.strong_count() > 0);
        kept.hooks = living;
        kept.gone.extend(gone.into_iter().map(|(number, _)| number));
        let number = kept.next_hook;
        kept.next_hook += 1;
        kept.hooks.push((number, Arc::downgrade(hook)));
        number
    }

    /// Hooks that are no more, once.
    pub(crate) fn hooks_gone(&self) -> Vec<u32> {
        std::mem::take(&mut self.kept().gone)
    }
}

impl StageLibrary for Shared {
    fn adapter(&self, number: u32, _name: &str) -> Option<Arc<Adapter>> {
        self.kept().adapters.get(number as usize).cloned()
    }

    fn scaling_layers(&self) -> Option<ScalingLayers> {
        self.kept().scaling_layers.clone()
    }

    fn hook(&self, number: u32, _recipe: Option<HookRecipe>) -> Result<Arc<dyn LayerHook>, String> {
        let kept = self.kept();
        let found = kept.hooks.iter().find(|(known, _)| *known == number);
        let hook = found.and_then(|(_, hook)| hook.upgrade());
        hook.ok_or_else(|| format!("hook {number} was taken away while a step with it was computed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    struct Named(&'static str);

    impl LayerHook for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn layers(&self) -> Range<usize> {
            0..1
        }
    }

    fn hook(name: &'static str) -> Arc<dyn LayerHook> {
        Arc::new(Named(name))
    }

    #[test]
    fn hooks_keep_their_numbers_and_those_that_are_gone_are_told_once() {
        let shared = Shared::new(StageReach::SameProcess);
        let (first, second) = (hook("first"), hook("second"));
        assert_eq!([&first, &second, &first].map(|hook| shared.hook_number(hook)), [0, 1, 0]);
        assert_eq!(shared.hook(1, None).unwrap().name(), "second");
        drop(second);
        assert!(shared.hook(1, None).is_err() && shared.hooks_gone().is_empty());
        let third = hook("third");
        assert_eq!(shared.hook_number(&third), 2);
        assert_eq!((shared.hooks_gone(), shared.hooks_gone()), (vec![1], vec![]));
        assert_eq!(shared.hook(0, None).unwrap().name(), "first");
    }
}
