//! [`MergedTensors`]: the tensors of a model with adapters merged, for a file of another format.

use super::Merge;
use menagerie_assembly::{StoredNumbers, TensorEntry, TensorPiece, WeightSource};
use menagerie_model::{ModelError, Weight, WeightShape};
use menagerie_registry::TensorPart;

/// The tensors of a model. Those that adapters change are computed in f32 when they are read.
pub struct MergedTensors<'a> {
    merge: &'a Merge<'a>,
}

impl<'a> MergedTensors<'a> {
    pub(super) fn new(merge: &'a Merge<'a>) -> Self {
        Self { merge }
    }

    fn inner(&self) -> &dyn WeightSource {
        &*self.merge.resolved.tensors
    }
}

impl WeightSource for MergedTensors<'_> {
    fn file(&self) -> String {
        self.inner().file()
    }

    fn entries(&self) -> &[TensorEntry] {
        self.merge.resolved.tensors.entries()
    }

    fn canonical_name(&self, index: usize) -> Option<String> {
        self.inner().canonical_name(index)
    }

    fn find(&self, role: &str, layer: Option<usize>, part: TensorPart) -> Option<usize> {
        self.inner().find(role, layer, part)
    }

    fn name_of(&self, role: &str, layer: Option<usize>, part: TensorPart) -> String {
        self.inner().name_of(role, layer, part)
    }

    fn weight(&self, index: usize) -> Result<Weight, ModelError> {
        let stored = self.inner().weight(index)?;
        if !self.merge.changes(index) {
            return Ok(stored);
        }
        let WeightShape { count, .. } = stored.shape();
        Weight::from_f32(stored.name(), &self.merge.merged(index, 0..count)?, stored.shape())
    }

    fn file_tensors(&self) -> usize {
        self.inner().file_tensors()
    }

    fn pieces(&self, index: usize) -> &[TensorPiece] {
        self.merge.resolved.tensors.pieces(index)
    }

    fn stored_numbers(&self, index: usize) -> Result<Vec<StoredNumbers>, ModelError> {
        self.inner().stored_numbers(index)
    }

    fn converted_bytes(&self) -> u64 {
        self.inner().converted_bytes()
    }

    fn ignore_table(&self) -> &'static str {
        self.merge.resolved.tensors.ignore_table()
    }

    fn ignored(&self, index: usize, layers: usize) -> Option<String> {
        self.inner().ignored(index, layers)
    }
}
