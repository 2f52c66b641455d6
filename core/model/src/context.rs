//! [`TransformContext`]: everything a forward needs beyond weights.

use crate::components::RopeTables;
use crate::compute::Compute;
use crate::hook::{Checkpoint, LayerHook};
use crate::layout::SequenceLayout;
use crate::state::StateStore;
use crate::{ModelError, Result};
use candle_core::Tensor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Travels through a forward: layout, token ids, state, hooks, cancellation and per-step tables.
pub struct TransformContext<'a> {
    /// Device, kernels and arithmetic.
    pub compute: &'a Compute,
    /// Which rows belong to which sequence.
    pub layout: &'a SequenceLayout,
    /// Token ids of the rows, `[T]` (some layers of some models want them, in every stage).
    pub tokens: &'a [u32],
    /// The state of the sequences, written and read through state ids.
    pub states: &'a mut StateStore,
    /// Hooks, called in order.
    pub hooks: &'a [Arc<dyn LayerHook>],
    /// Set from outside to end the forward at the next layer.
    pub cancelled: Option<&'a AtomicBool>,
    /// The layer being run, for errors and checkpoints.
    pub layer: usize,
    /// Rope tables of this step, by the id a rope component got at assembly.
    pub rope_tables: RopeTables,
}

impl<'a> TransformContext<'a> {
    /// A context without hooks and cancellation.
    pub fn new(
        compute: &'a Compute,
        layout: &'a SequenceLayout,
        tokens: &'a [u32],
        states: &'a mut StateStore,
    ) -> Self {
        Self {
            compute,
            layout,
            tokens,
            states,
            hooks: &[],
            cancelled: None,
            layer: 0,
            rope_tables: RopeTables::default(),
        }
    }

    /// Whether a hook wants to be called for the current layer.
    pub fn is_watched(&self) -> bool {
        self.hooks.iter().any(|hook| hook.layers().contains(&self.layer))
    }

    /// Shows a value to the hooks of the current layer.
    ///
    /// # Errors
    /// What a hook returns.
    pub fn checkpoint(&self, checkpoint: Checkpoint, value: &Tensor) -> Result<()> {
        for hook in self.hooks.iter().filter(|hook| hook.layers().contains(&self.layer)) {
            hook.at(self.layer, checkpoint, value)?;
        }
        Ok(())
    }

    /// Ends the forward if somebody asked for it.
    ///
    /// # Errors
    /// [`ModelError::Cancelled`].
    pub fn check_cancelled(&self) -> Result<()> {
        match self.cancelled {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(ModelError::Cancelled),
            _ => Ok(()),
        }
    }
}
