//! [`WeightSource`]: the tensors of a model by role.

use gguf_file::GgmlType;
use menagerie_model::{Backend, Compute, ModelError, Weight};
use menagerie_registry::TensorPart;

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

/// A tensor of the file that another entry is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its index.
    pub tensor: usize,
    /// What of it is taken.
    pub share: Share,
}

/// What of a tensor is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
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
    /// What a layout takes of rows that two roles share.
    OnePart,
    /// The rest of them.
    OtherPart,
}

impl Share {
    /// Whether nothing is in both.
    pub(crate) fn is_apart_from(self, other: Self) -> bool {
        let pair = |a, b| (self == a && other == b) || (self == b && other == a);
        pair(Self::EvenRows, Self::OddRows)
            || pair(Self::EvenColumns, Self::OddColumns)
            || pair(Self::OnePart, Self::OtherPart)
    }
}

/// Which numbers of a tensor of the file are those of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNumbers {
    /// The tensor's index.
    pub tensor: usize,
    /// For each number of the entry, in order, which of the tensor's it is; absent = the same one.
    pub numbers: Option<Vec<u32>>,
}

/// The tensors of a model by role, whatever the file format.
pub trait WeightSource {
    /// The file, for messages.
    fn file(&self) -> String;

    /// Every tensor of the file.
    fn entries(&self) -> &[TensorEntry];

    /// The name that a tensor has in a GGUF file, which types are chosen and importance is looked up by; none for a piece of
    /// another entry.
    fn canonical_name(&self, index: usize) -> Option<String> {
        self.entries().get(index).map(|entry| entry.name.clone())
    }

    /// Index of a role's tensor in [`WeightSource::entries`]; `layer` is the block, or `None` for the whole model.
    fn find(&self, role: &str, layer: Option<usize>, part: TensorPart) -> Option<usize>;

    /// The name a role's tensor has, or would have.
    fn name_of(&self, role: &str, layer: Option<usize>, part: TensorPart) -> String;

    /// The tensor as matrices `[out, in]` (a stack of them for three dimensions), over the file's bytes.
    ///
    /// # Errors
    /// A type that cannot be computed with, or bytes that cannot be read.
    fn weight(&self, index: usize) -> Result<Weight, ModelError>;

    /// The same, made over the threads of a backend where it has to be made.
    ///
    /// # Errors
    /// As [`WeightSource::weight`].
    fn weight_on(&self, index: usize, _backend: &dyn Backend) -> Result<Weight, ModelError> {
        self.weight(index)
    }

    /// A matrix without what multiplies each of its rows, and these numbers, where the file keeps them apart and it is smaller
    /// so; [`WeightSource::weight`] has them multiplied into it.
    ///
    /// # Errors
    /// As [`WeightSource::weight`].
    fn rows_apart(
        &self,
        _index: usize,
        _backend: &dyn Backend,
    ) -> Option<Result<(Weight, Vec<f32>), ModelError>> {
        None
    }

    /// How many of the entries, from the first on, are tensors of the file; those after them are made of these.
    fn stored(&self) -> usize {
        self.entries().len()
    }

    /// The tensors of the file that an entry is made of; of none, where it is a tensor of the file itself.
    fn made_of(&self, _index: usize) -> &[Piece] {
        &[]
    }

    /// Where the numbers of an entry lie in the file: in one tensor, or in one for each matrix of a stack.
    ///
    /// # Errors
    /// [`ModelError::Weights`]: they are not those of the file, but made of them.
    fn lies_at(&self, index: usize) -> Result<Vec<StoredNumbers>, ModelError> {
        Ok(vec![StoredNumbers { tensor: index, numbers: None }])
    }

    /// Bytes of memory of what does not lie in the file as it is computed with.
    fn made_bytes(&self) -> u64 {
        0
    }

    /// The table of a spec that lists tensors of this format that are left out.
    fn ignore_table(&self) -> &'static str {
        "[gguf.ignore_tensors]"
    }

    /// Why a tensor is left out on purpose, if it is; `layers` is the number of blocks that are run.
    fn ignored(&self, index: usize, layers: usize) -> Option<String>;
}
