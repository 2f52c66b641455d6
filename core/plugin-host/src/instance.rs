//! [`Instance`]: an instance of a component, with the data that the host keeps for it.

use crate::component::ComponentDescription;
use crate::plugin::CallFailure;
use crate::texts;
use menagerie_model::{Linear, ModelError, Result, SlotId, SlotUse, StateId, StateSpec, Weight};
use menagerie_plugin::abi::Status;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// A linear of an instance, which the plugin names by its number.
pub(crate) struct InstanceLinear {
    pub(crate) linear: Box<dyn Linear>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// A state of an instance.
pub(crate) struct InstanceState {
    pub(crate) id: StateId,
    pub(crate) spec: StateSpec,
}

/// A slot of an instance.
#[derive(Clone, Copy)]
pub(crate) struct InstanceSlot {
    pub(crate) id: SlotId,
    pub(crate) how: SlotUse,
    pub(crate) width: usize,
}

/// The data that `create` gave to an instance, which borrows it for its life.
#[derive(Default)]
pub(crate) struct InstanceParts {
    pub(crate) linears: Vec<InstanceLinear>,
    pub(crate) states: Vec<InstanceState>,
    pub(crate) slots: Vec<InstanceSlot>,
    pub(crate) values: Vec<Vec<f32>>,
    pub(crate) weights: Vec<Weight>,
}

/// An instance of a component of a plugin.
pub(crate) struct Instance {
    pub(crate) described: &'static ComponentDescription,
    pub(crate) kept: InstanceParts,
    handle: *mut c_void,
    poisoned: AtomicBool,
}

// SAFETY: the ABI lets `forward` be called from several threads at once, and `destroy` from any thread once no call is
// under way; everything else in it is the host's own and immutable.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    /// The instance with the handle from `create`.
    pub(crate) fn new(
        described: &'static ComponentDescription,
        handle: *mut c_void,
        kept: InstanceParts,
    ) -> Instance {
        crate::scratch::one_more();
        Instance { described, kept, handle, poisoned: AtomicBool::new(false) }
    }

    /// An error of this component.
    pub(crate) fn error(&self, reason: impl Into<String>) -> ModelError {
        ModelError::Component { component: self.described.name.to_owned(), reason: reason.into() }
    }

    /// Calls a function of the plugin and checks its status; `function` is for errors.
    ///
    /// # Errors
    /// An error of the plugin; a poisoned instance or a quarantined plugin, which are not called.
    pub(crate) fn call(&self, function: &str, run: impl FnOnce(*mut c_void) -> Status) -> Result<()> {
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(self.error(
                "an earlier call of this instance panicked or violated the plugin ABI, so it is not called again; load the model again",
            ));
        }
        self.described.record.check().map_err(|why| self.error(why))?;
        texts::hush();
        match self.described.record.judge(run(self.handle), function) {
            Ok(()) => Ok(()),
            Err(CallFailure::Failed(said)) => Err(self.error(said)),
            Err(CallFailure::Broke(how)) => {
                self.poisoned.store(true, Ordering::Relaxed);
                self.described.record.strike();
                Err(self.error(format!("{how}; this instance is not called again")))
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // An instance that panicked may be in an invalid state, so it is not destroyed.
        if !self.poisoned.load(Ordering::Relaxed) && !self.described.record.is_quarantined() {
            // SAFETY: `create` made the handle and gave it to this instance alone; nobody calls it any more.
            unsafe { (self.described.destroy)(self.handle) };
        }
        crate::scratch::one_less();
    }
}
