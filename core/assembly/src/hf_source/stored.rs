//! [`Stored`]: a tensor as it is computed with, and stacks of them.

use gguf_file::{GgmlType, TensorBytes};
use menagerie_loaders::SafetensorsTensor;
use menagerie_model::WeightBytes;
use std::sync::Arc;

/// A tensor of blocks, rows after each other.
pub(super) struct Stored {
    /// Dimensions, the contiguous one last.
    pub(super) shape: Vec<usize>,
    pub(super) block: GgmlType,
    pub(super) bytes: WeightBytes,
}

/// A tensor that a weight is made of, or the members of a stack.
pub(super) struct Stacked {
    /// Dimensions, the contiguous one last.
    pub(super) shape: Vec<usize>,
    pub(super) block: GgmlType,
    /// One, or a matrix each.
    pub(super) parts: Vec<WeightBytes>,
}

impl From<Stored> for Stacked {
    fn from(stored: Stored) -> Self {
        let Stored { shape, block, bytes } = stored;
        Self { shape, block, parts: vec![bytes] }
    }
}

impl Stored {
    /// A tensor of the file as it lies there.
    pub(super) fn of(tensor: &SafetensorsTensor, bytes: TensorBytes) -> Result<Self, String> {
        let Some(block) = tensor.dtype().block() else {
            return Err(format!(
                "its type {} cannot be computed with as it is (F32, F16 and BF16 can; 8-bit floats with a tensor of factors \
                 beside them); get the model in BF16 or as GGUF",
                tensor.dtype()
            ));
        };
        Ok(Self { shape: shape_of(tensor)?, block, bytes: WeightBytes::Mapped(bytes) })
    }

    /// Numbers of a config.
    pub(super) fn list(values: &[f32]) -> Self {
        Self::of_values(vec![values.len()], values)
    }

    /// Values made in memory.
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
        bytes.ok_or_else(|| format!("rows of {cols} cut the blocks of {}", self.block))
    }
}

/// Dimensions as they can be addressed.
pub(super) fn shape_of(tensor: &SafetensorsTensor) -> Result<Vec<usize>, String> {
    let dims: Result<Vec<usize>, _> = tensor.shape().iter().map(|dim| usize::try_from(*dim)).collect();
    dims.map_err(|_| format!("shape {:?} is past this machine's address space", tensor.shape()))
}

/// Tensors of one shape and type along a new first dimension; matrices stay where they are.
pub(super) fn stacked(parts: Vec<Stored>) -> Result<Stacked, String> {
    let first = parts.first().ok_or("an empty stack")?;
    let (shape, block) = (first.shape.clone(), first.block);
    let other = parts.iter().enumerate().find(|(_, part)| part.shape != shape || part.block != block);
    if let Some((at, other)) = other {
        return Err(format!(
            "its members differ: 0 is {block} {shape:?} and {at} is {} {:?}; the file is damaged",
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
    Ok(Stacked { shape: whole, block, parts })
}
