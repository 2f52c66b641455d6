//! [`LoadedTensor`]: a tensor of a folder in memory, and stacks of them.

use gguf_file::{GgmlType, TensorBytes};
use menagerie_loaders::SafetensorsTensor;
use menagerie_model::WeightBytes;
use std::sync::Arc;

/// A tensor of blocks, row by row.
pub(super) struct LoadedTensor {
    /// Dimensions, the contiguous one last.
    pub(super) shape: Vec<usize>,
    pub(super) block: GgmlType,
    pub(super) bytes: WeightBytes,
}

/// The tensor of a weight, or the members of a stack.
pub(super) struct StackedTensor {
    /// Dimensions, the contiguous one last.
    pub(super) shape: Vec<usize>,
    pub(super) block: GgmlType,
    /// The bytes of all, or of each matrix.
    pub(super) parts: Vec<WeightBytes>,
}

impl From<LoadedTensor> for StackedTensor {
    fn from(stored: LoadedTensor) -> Self {
        let LoadedTensor { shape, block, bytes } = stored;
        Self { shape, block, parts: vec![bytes] }
    }
}

impl LoadedTensor {
    /// A tensor of the file, unchanged.
    pub(super) fn of(tensor: &SafetensorsTensor, bytes: TensorBytes) -> Result<Self, String> {
        let Some(block) = tensor.dtype().block() else {
            return Err(format!(
                "its type {} is not supported (expected F32, F16, BF16, or 8-bit floats with a tensor of scales); get the \
                 model in BF16 or as GGUF",
                tensor.dtype()
            ));
        };
        Ok(Self { shape: shape_of(tensor)?, block, bytes: WeightBytes::Mapped(bytes) })
    }

    /// The numbers of a list in the config.
    pub(super) fn list(values: &[f32]) -> Self {
        Self::of_values(vec![values.len()], values)
    }

    /// A tensor of f32 values.
    pub(super) fn of_values(shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { shape, block: GgmlType::F32, bytes: WeightBytes::Owned(Arc::new(bytes)) }
    }

    /// All bytes.
    pub(super) fn all(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    /// Bytes of a row.
    pub(super) fn row_bytes(&self) -> Result<usize, String> {
        let cols = self.shape.last().copied().unwrap_or(1);
        let bytes = self.block.row_bytes(cols as u64).and_then(|bytes| usize::try_from(bytes).ok());
        bytes.ok_or_else(|| format!("rows of {cols} values are not whole blocks of {}", self.block))
    }
}

/// The dimensions of a tensor.
pub(super) fn shape_of(tensor: &SafetensorsTensor) -> Result<Vec<usize>, String> {
    let dims: Result<Vec<usize>, _> = tensor.shape().iter().map(|dim| usize::try_from(*dim)).collect();
    dims.map_err(|_| format!("shape {:?} is too large for this machine", tensor.shape()))
}

/// Stacks tensors of one shape and type along a new first dimension. Matrices are not copied.
pub(super) fn stacked(parts: Vec<LoadedTensor>) -> Result<StackedTensor, String> {
    let first = parts.first().ok_or("the stack is empty")?;
    let (shape, block) = (first.shape.clone(), first.block);
    let other = parts.iter().enumerate().find(|(_, part)| part.shape != shape || part.block != block);
    if let Some((at, other)) = other {
        return Err(format!(
            "its members differ: expected {block} {shape:?} as in the first one, found {} {:?} in member {at}; the file \
             is damaged",
            other.block, other.shape
        ));
    }
    let whole: Vec<usize> = [&[parts.len()][..], &shape].concat();
    let parts = if shape.len() == 2 {
        parts.into_iter().map(|part| part.bytes).collect()
    } else {
        let all: Vec<u8> = parts.iter().flat_map(|part| part.all().iter().copied()).collect();
        vec![WeightBytes::Owned(Arc::new(all))]
    };
    Ok(StackedTensor { shape: whole, block, parts })
}
