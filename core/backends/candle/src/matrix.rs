//! [`CandleMatrix`]: a weight on the device, its products and its rows.

use crate::tensors::{TensorResult, settled};
use candle_core::quantized::QTensor;
use candle_core::{D, DType, Tensor};
use menagerie_model::Arithmetic;
use std::sync::OnceLock;

/// One matrix `[rows, cols]` on the device.
pub(crate) enum CandleMatrix {
    /// Elements of f32, f16 or bf16.
    Dense(Tensor),
    /// Blocks of a type that candle multiplies with.
    Blocks(QTensor),
}

/// A matrix or a stack of them, and the arithmetic that it was loaded for.
pub(crate) struct CandleMatrices {
    pub(crate) all: Vec<CandleMatrix>,
    pub(crate) arithmetic: Arithmetic,
}

/// Forms of rows that several products share.
#[derive(Default)]
pub(crate) struct RowForms {
    half: OnceLock<ScaledHalf>,
    brain: OnceLock<Tensor>,
}

/// Rows in f16, each divided by its largest magnitude `[T, 1]`: activations of real models exceed the range of f16.
#[derive(Clone)]
struct ScaledHalf {
    rows: Tensor,
    scale: Tensor,
}

impl ScaledHalf {
    fn new(x: &Tensor) -> TensorResult<Self> {
        let largest = x.abs()?.max_keepdim(D::Minus1)?;
        // A row of zeros stays one.
        let scale = largest.maximum(f64::from(f32::MIN_POSITIVE))?;
        Ok(Self { rows: x.broadcast_div(&scale)?.to_dtype(DType::F16)?, scale })
    }
}

impl RowForms {
    fn half(&self, x: &Tensor) -> TensorResult<ScaledHalf> {
        if let Some(made) = self.half.get() {
            return Ok(made.clone());
        }
        let made = ScaledHalf::new(x)?;
        Ok(self.half.get_or_init(|| made).clone())
    }

    fn brain(&self, x: &Tensor) -> TensorResult {
        if let Some(made) = self.brain.get() {
            return Ok(made.clone());
        }
        let made = x.to_dtype(DType::BF16)?;
        Ok(self.brain.get_or_init(|| made).clone())
    }
}

impl CandleMatrix {
    /// `x` `[T, cols]` times the transpose, `[T, rows]`; `prepared` belongs to `x`.
    pub(crate) fn product(&self, x: &Tensor, prepared: &RowForms) -> TensorResult {
        match self {
            Self::Blocks(blocks) => x.apply_op1_no_bwd(blocks),
            Self::Dense(weight) => match weight.dtype() {
                DType::F16 => {
                    let ScaledHalf { rows, scale } = prepared.half(x)?;
                    rows.matmul(&weight.t()?)?.to_dtype(DType::F32)?.broadcast_mul(&scale)
                }
                DType::BF16 => prepared.brain(x)?.matmul(&weight.t()?)?.to_dtype(DType::F32),
                _ => x.matmul(&weight.t()?),
            },
        }
    }

    /// Rows by index, `[ids.len(), cols]` of f32. The indices must have been checked: GPUs do not.
    pub(crate) fn lookup(&self, ids: &Tensor) -> TensorResult {
        match self {
            Self::Blocks(blocks) => blocks.embedding(ids),
            Self::Dense(table) => table.index_select(ids, 0)?.to_dtype(DType::F32),
        }
    }
}

/// Rows `first..first + count` of `x` in a separate tensor, which products of blocks need.
pub(crate) fn own_rows(x: &Tensor, first: usize, count: usize) -> TensorResult {
    settled(x.narrow(0, first, count)?)
}
