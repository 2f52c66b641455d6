//! [`StageLibrary`]: the adapters and hooks of a stage, by the numbers that frames refer to.

use menagerie_model::{Adapter, HookRecipe, LayerHook, ScalingLayers};
use std::fmt;
use std::ptr::addr_eq;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The adapters and hooks of a stage, by number.
pub trait StageLibrary: Send + Sync {
    /// The adapter of this number and name, fitted to the stage's own sites.
    fn adapter(&self, number: u32, name: &str) -> Option<Arc<Adapter>>;

    /// The layer of an X-LoRA's scalings for each site of the stage; `None` without X-LoRA.
    fn scaling_layers(&self) -> Option<ScalingLayers>;

    /// The hook of this number. With a `recipe`, the hook is in another process, and a copy is made.
    ///
    /// # Errors
    /// A message that says why there is none.
    fn hook(&self, number: u32, recipe: Option<HookRecipe>) -> Result<Arc<dyn LayerHook>, String>;
}

/// Whether the stages share the chain's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageReach {
    /// They are threads of the same process.
    SameProcess,
    /// They are other processes, with their own adapters and copies of hooks.
    OtherProcess,
}

/// The adapters and hooks of a chain with their numbers, for stages in the same process.
#[derive(Debug)]
pub struct SharedLibrary {
    reach: StageReach,
    entries: Mutex<SharedEntries>,
}

#[derive(Default)]
struct SharedEntries {
    adapters: Vec<Arc<Adapter>>,
    scaling_layers: Option<ScalingLayers>,
    /// The caller owns the hooks.
    hooks: Vec<(u32, Weak<dyn LayerHook>)>,
    next_hook: u32,
    /// Numbers of removed hooks that the stages do not know of yet.
    removed: Vec<u32>,
}

impl fmt::Debug for SharedEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} adapters, {} hooks", self.adapters.len(), self.hooks.len())
    }
}

impl SharedLibrary {
    /// An empty library.
    pub fn new(reach: StageReach) -> Self {
        Self { reach, entries: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, SharedEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the stages are.
    pub(crate) fn reach(&self) -> StageReach {
        self.reach
    }

    /// The number of an adapter, assigned on first use.
    pub(crate) fn adapter_number(&self, adapter: &Arc<Adapter>) -> u32 {
        let mut entries = self.entries();
        if let Some(number) = entries.adapters.iter().position(|one| Arc::ptr_eq(one, adapter)) {
            return number as u32;
        }
        entries.adapters.push(Arc::clone(adapter));
        entries.adapters.len() as u32 - 1
    }

    /// Sets the layer of an X-LoRA's scalings for each site.
    pub(crate) fn scale_by(&self, layers: &ScalingLayers) {
        self.entries().scaling_layers = Some(Arc::clone(layers));
    }

    /// The number of a hook, assigned on first use.
    pub(crate) fn hook_number(&self, hook: &Arc<dyn LayerHook>) -> u32 {
        let mut entries = self.entries();
        // The weak reference keeps the address of a removed hook in use, so that no new hook is mistaken for it.
        let known = entries.hooks.iter().find(|(_, known)| addr_eq(known.as_ptr(), Arc::as_ptr(hook)));
        if let Some((number, _)) = known {
            return *number;
        }
        let (living, removed): (Vec<_>, Vec<_>) =
            std::mem::take(&mut entries.hooks).into_iter().partition(|(_, known)| known.strong_count() > 0);
        entries.hooks = living;
        entries.removed.extend(removed.into_iter().map(|(number, _)| number));
        let number = entries.next_hook;
        entries.next_hook += 1;
        entries.hooks.push((number, Arc::downgrade(hook)));
        number
    }

    /// The hooks that were removed since the last call.
    pub(crate) fn removed_hooks(&self) -> Vec<u32> {
        std::mem::take(&mut self.entries().removed)
    }
}

impl StageLibrary for SharedLibrary {
    fn adapter(&self, number: u32, _name: &str) -> Option<Arc<Adapter>> {
        self.entries().adapters.get(number as usize).cloned()
    }

    fn scaling_layers(&self) -> Option<ScalingLayers> {
        self.entries().scaling_layers.clone()
    }

    fn hook(&self, number: u32, _recipe: Option<HookRecipe>) -> Result<Arc<dyn LayerHook>, String> {
        let entries = self.entries();
        let found = entries.hooks.iter().find(|(known, _)| *known == number);
        let hook = found.and_then(|(_, hook)| hook.upgrade());
        hook.ok_or_else(|| format!("hook {number} was removed while a step with it was computed"))
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
    fn hooks_keep_their_numbers_and_removed_ones_are_reported_once() {
        let shared = SharedLibrary::new(StageReach::SameProcess);
        let (first, second) = (hook("first"), hook("second"));
        assert_eq!([&first, &second, &first].map(|hook| shared.hook_number(hook)), [0, 1, 0]);
        assert_eq!(shared.hook(1, None).unwrap().name(), "second");
        drop(second);
        assert!(shared.hook(1, None).is_err() && shared.removed_hooks().is_empty());
        let third = hook("third");
        assert_eq!(shared.hook_number(&third), 2);
        assert_eq!((shared.removed_hooks(), shared.removed_hooks()), (vec![1], vec![]));
        assert_eq!(shared.hook(0, None).unwrap().name(), "first");
    }
}
