//! [`InMemory`]: tensors that are copied into memory when they are loaded, one by one.

use menagerie_assembly::{ModelTensors, StoredNumbers, TensorEntry, TensorPiece, WeightSource};
use menagerie_model::{Backend, ModelError, Weight};
use menagerie_registry::TensorPart;
use menagerie_spec::RoleSource;
use std::sync::Arc;

/// The tensors of a mapped file. Those that are loaded are copied into memory, and the file is not needed afterwards. A
/// stage in another process uses them with `--no-mmap`.
pub(crate) struct InMemory(pub(crate) Arc<dyn ModelTensors>);

impl WeightSource for InMemory {
    fn file(&self) -> String {
        self.0.file()
    }

    fn entries(&self) -> &[TensorEntry] {
        self.0.entries()
    }

    fn canonical_name(&self, index: usize) -> Option<String> {
        self.0.canonical_name(index)
    }

    fn find(&self, role: &str, layer: Option<usize>, part: TensorPart) -> Option<usize> {
        self.0.find(role, layer, part)
    }

    fn name_of(&self, role: &str, layer: Option<usize>, part: TensorPart) -> String {
        self.0.name_of(role, layer, part)
    }

    fn weight(&self, index: usize) -> Result<Weight, ModelError> {
        self.0.weight(index).map(|weight| weight.in_memory())
    }

    fn weight_on(&self, index: usize, backend: &dyn Backend) -> Result<Weight, ModelError> {
        self.0.weight_on(index, backend).map(|weight| weight.in_memory())
    }

    fn scaled_rows(
        &self,
        index: usize,
        backend: &dyn Backend,
    ) -> Option<Result<(Weight, Vec<f32>), ModelError>> {
        let apart = self.0.scaled_rows(index, backend)?;
        Some(apart.map(|(weight, factors)| (weight.in_memory(), factors)))
    }

    fn file_tensors(&self) -> usize {
        self.0.file_tensors()
    }

    fn pieces(&self, index: usize) -> &[TensorPiece] {
        self.0.pieces(index)
    }

    fn stored_numbers(&self, index: usize) -> Result<Vec<StoredNumbers>, ModelError> {
        self.0.stored_numbers(index)
    }

    fn converted_bytes(&self) -> u64 {
        self.0.converted_bytes()
    }

    fn ignore_table(&self) -> &'static str {
        self.0.ignore_table()
    }

    fn ignored(&self, index: usize, layers: usize) -> Option<String> {
        self.0.ignored(index, layers)
    }
}

impl RoleSource for InMemory {
    fn has(&self, role: &str, layer: Option<usize>) -> bool {
        self.0.has(role, layer)
    }
}
