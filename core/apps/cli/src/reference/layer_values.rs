//! [`LayerValues`]: a hook that records hidden states at the checkpoints of layers, for comparison.

use menagerie::model::{Checkpoint, HookInput, LayerHook, ModelError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

/// The checkpoints, in the order of computation.
pub(crate) const PLACES: [Checkpoint; 4] = Checkpoint::ALL;

/// Width and values of the rows at a checkpoint.
type Rows = (usize, Vec<f32>);

/// Records the rows of every layer and checkpoint while it is enabled.
#[derive(Default)]
pub(crate) struct LayerValues {
    /// `None` while it is disabled.
    kept: Mutex<Option<BTreeMap<(usize, &'static str), Rows>>>,
}

impl LayerValues {
    /// Clears the record and enables or disables it.
    pub(crate) fn listen(&self, listens: bool) {
        if let Ok(mut kept) = self.kept.lock() {
            *kept = listens.then(BTreeMap::new);
        }
    }

    /// Removes and returns the rows at a layer's checkpoint.
    pub(crate) fn take(&self, layer: usize, place: Checkpoint) -> Option<Rows> {
        self.kept.lock().ok()?.as_mut()?.remove(&(layer, place.name()))
    }
}

impl LayerHook for LayerValues {
    fn name(&self) -> &str {
        "layer values"
    }

    fn layers(&self) -> Range<usize> {
        0..usize::MAX
    }

    fn at(&self, checkpoint: Checkpoint, shown: &HookInput) -> Result<(), ModelError> {
        let Ok(mut kept) = self.kept.lock() else { return Ok(()) };
        if let Some(kept) = kept.as_mut() {
            let (width, values) = kept.entry((shown.layer, checkpoint.name())).or_default();
            *width = shown.rows.cols();
            values.extend_from_slice(&shown.compute.backend.read(shown.rows)?);
        }
        Ok(())
    }
}
