//! [`WeightSource`]: the tensors of a model by role.

use gguf_file::GgmlType;
use menagerie_model::{Compute, ModelError, Weight, WeightGuard};
use menagerie_registry::Part;

/// What the directory says of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorEntry {
    /// Name in the file.
    pub name: String,
    /// Elements per dimension, the contiguous one first (ggml's order).
    pub dims: Vec<u64>,
    /// Name of the element type.
    pub kind: String,
    /// Bytes in the file.
    pub bytes: u64,
    /// The block it belongs to, if it belongs to one.
    pub layer: Option<usize>,
}

impl TensorEntry {
    /// Bytes that the tensor takes of the device's memory once it is taken in; 0 where it is read in place.
    pub fn bytes_taken(&self, compute: &Compute) -> u64 {
        let block = GgmlType::from_name(&self.kind);
        let elements = self.dims.iter().product();
        block.map_or(0, |block| compute.backend.bytes_taken(block, elements, compute.arithmetic))
    }
}

/// The tensors of a model by role, whatever the file format.
pub trait WeightSource {
    /// The file, for messages.
    fn file(&self) -> String;

    /// Every tensor of the file.
    fn entries(&self) -> &[TensorEntry];

    /// Index of a role's tensor in [`WeightSource::entries`]; `layer` is the block, or `None` for the whole model.
    fn find(&self, role: &str, layer: Option<usize>, part: Part) -> Option<usize>;

    /// The name a role's tensor has, or would have.
    fn name_of(&self, role: &str, layer: Option<usize>, part: Part) -> String;

    /// The tensor as matrices `[out, in]` (a stack of them for three dimensions), over the file's bytes.
    ///
    /// # Errors
    /// A type that cannot be computed with, or bytes that cannot be read.
    fn weight(&self, index: usize) -> Result<Weight, ModelError>;

    /// Why a tensor is left out on purpose, if it is; `layers` is the number of blocks that are run.
    fn ignored(&self, index: usize, layers: usize) -> Option<String>;

    /// Says whether the bytes can still be read, for the model to ask after every forward.
    fn guard(&self) -> Option<WeightGuard> {
        None
    }
}
