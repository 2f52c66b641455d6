//! [`WeightSource`]: the tensors of a model by role.

use gguf_file::GgmlType;
use menagerie_model::{Backend, Compute, ModelError, Weight};
use menagerie_registry::TensorPart;

/// A tensor in the directory of a file.
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
    /// The memory that the tensor takes on the device, in bytes; 0 if it is read in place.
    pub fn bytes_taken(&self, compute: &Compute) -> u64 {
        let block = GgmlType::from_name(&self.kind);
        let elements = self.dims.iter().product();
        block.map_or(0, |block| compute.backend.bytes_taken(block, elements, compute.arithmetic))
    }
}

/// A tensor of the file, or a part of it, that another entry is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorPiece {
    /// The index of the tensor.
    pub tensor: usize,
    /// The part that is used.
    pub share: TensorShare,
}

/// A part of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorShare {
    /// All of it.
    Whole,
    /// Rows 0, 2, 4, ...
    EvenRows,
    /// Rows 1, 3, 5, ...
    OddRows,
    /// Columns 0, 2, 4, ...
    EvenColumns,
    /// Columns 1, 3, 5, ...
    OddColumns,
    /// The first of two parts into which a layout splits rows.
    OnePart,
    /// The second part.
    OtherPart,
}

impl TensorShare {
    /// Whether the two parts are disjoint.
    pub(crate) fn is_disjoint_from(self, other: Self) -> bool {
        let pair = |a, b| (self == a && other == b) || (self == b && other == a);
        pair(Self::EvenRows, Self::OddRows)
            || pair(Self::EvenColumns, Self::OddColumns)
            || pair(Self::OnePart, Self::OtherPart)
    }
}

/// The numbers of an entry in a tensor of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNumbers {
    /// The index of the tensor.
    pub tensor: usize,
    /// The index in the tensor of each number of the entry; absent = the same order.
    pub numbers: Option<Vec<u32>>,
}

/// The tensors of a model by role, for every file format.
pub trait WeightSource {
    /// The file, for messages.
    fn file(&self) -> String;

    /// Every tensor of the file.
    fn entries(&self) -> &[TensorEntry];

    /// The name of the tensor in a GGUF file, by which quantization chooses its type and finds its importance. `None` for a
    /// piece of another entry.
    fn canonical_name(&self, index: usize) -> Option<String> {
        self.entries().get(index).map(|entry| entry.name.clone())
    }

    /// The index of a role's tensor in [`WeightSource::entries`]; `layer` is the block, or `None` for the whole model.
    fn find(&self, role: &str, layer: Option<usize>, part: TensorPart) -> Option<usize>;

    /// The name that a role's tensor has, or would have.
    fn name_of(&self, role: &str, layer: Option<usize>, part: TensorPart) -> String;

    /// The tensor as matrices `[out, in]` (a stack of them for three dimensions), over the file's bytes.
    ///
    /// # Errors
    /// A type that cannot be computed with, or bytes that cannot be read.
    fn weight(&self, index: usize) -> Result<Weight, ModelError>;

    /// As [`WeightSource::weight`], with the threads of a backend if the tensor has to be converted.
    ///
    /// # Errors
    /// As [`WeightSource::weight`].
    fn weight_on(&self, index: usize, _backend: &dyn Backend) -> Result<Weight, ModelError> {
        self.weight(index)
    }

    /// A matrix without its row scales, and the scales, if the file stores them separately and the matrix is smaller that
    /// way. [`WeightSource::weight`] multiplies them into the matrix.
    ///
    /// # Errors
    /// As [`WeightSource::weight`].
    fn scaled_rows(
        &self,
        _index: usize,
        _backend: &dyn Backend,
    ) -> Option<Result<(Weight, Vec<f32>), ModelError>> {
        None
    }

    /// The number of tensors in the file, which are the first entries; later entries are made of them.
    fn file_tensors(&self) -> usize {
        self.entries().len()
    }

    /// The pieces that an entry is made of; empty for a tensor of the file.
    fn pieces(&self, _index: usize) -> &[TensorPiece] {
        &[]
    }

    /// Where the numbers of an entry are in the file: in one tensor, or in one for each matrix of a stack.
    ///
    /// # Errors
    /// [`ModelError::Weights`]: the numbers are computed, not stored.
    fn stored_numbers(&self, index: usize) -> Result<Vec<StoredNumbers>, ModelError> {
        Ok(vec![StoredNumbers { tensor: index, numbers: None }])
    }

    /// Memory of the entries that are converted when they are loaded, in bytes.
    fn converted_bytes(&self) -> u64 {
        0
    }

    /// The table of a spec that lists ignored tensors of this format.
    fn ignore_table(&self) -> &'static str {
        "[gguf.ignore_tensors]"
    }

    /// The reason for ignoring a tensor, if there is one; `layers` is the number of blocks that are run.
    fn ignored(&self, index: usize, layers: usize) -> Option<String>;
}
