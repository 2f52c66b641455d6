//! [`LayerValues`]: what a model's layers give at their checkpoints, kept for comparing.

use menagerie::model::{Checkpoint, LayerHook, ModelError, Shown};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

/// The checkpoints, in the order a layer passes them.
pub(crate) const PLACES: [Checkpoint; 4] = Checkpoint::ALL;

/// Width and values of the rows at a checkpoint.
type Kept = (usize, Vec<f32>);

/// Keeps the rows of every layer and checkpoint while it listens.
#[derive(Default)]
pub(crate) struct LayerValues {
    /// Absent while nobody listens.
    kept: Mutex<Option<BTreeMap<(usize, &'static str), Kept>>>,
}

impl LayerValues {
    /// Begins anew, or stops listening.
    pub(crate) fn listen(&self, listens: bool) {
        if let Ok(mut kept) = self.kept.lock() {
            *kept = listens.then(BTreeMap::new);
        }
    }

    /// What was kept of a layer's checkpoint.
    pub(crate) fn take(&self, layer: usize, place: Checkpoint) -> Option<Kept> {
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

    fn at(&self, checkpoint: Checkpoint, shown: &Shown) -> Result<(), ModelError> {
        let Ok(mut kept) = self.kept.lock() else { return Ok(()) };
        if let Some(kept) = kept.as_mut() {
            let (width, values) = kept.entry((shown.layer, checkpoint.name())).or_default();
            *width = shown.rows.cols();
            values.extend_from_slice(&shown.compute.backend.read(shown.rows)?);
        }
        Ok(())
    }
}
