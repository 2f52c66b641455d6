//! [`Matrix`]: a weight as it lies on the device, its products and its rows.

use crate::tensors::{Made, settled};
use candle_core::quantized::QTensor;
use candle_core::{D, DType, Tensor};
use menagerie_model::Arithmetic;
use std::sync::OnceLock;

/// One matrix `[rows, cols]` on the device.
pub(crate) enum Matrix {
    /// Elements of f32, f16 or bf16.
    Dense(Tensor),
    /// Blocks of a type that candle multiplies with.
    Blocks(QTensor),
}

/// A matrix or a stack of them, and what it was taken in for.
pub(crate) struct Matrices {
    pub(crate) all: Vec<Matrix>,
    pub(crate) arithmetic: Arithmetic,
}

/// Forms of rows that several products share.
#[derive(Default)]
pub(crate) struct Prepared {
    half: OnceLock<ScaledHalf>,
    brain: OnceLock<Tensor>,
}

/// Rows in f16, each divided by its largest magnitude `[T, 1]`: activations of real models leave the range of f16.
#[derive(Clone)]
struct ScaledHalf {
    rows: Tensor,
    scale: Tensor,
}

impl ScaledHalf {
    fn new(x: &Tensor) -> Made<Self> {
        let largest = x.abs()?.max_keepdim(D::Minus1)?;
        // A row of zeros stays one.
        let scale = largest.maximum(f64::from(f32::MIN_POSITIVE))?;
        Ok(Self { rows: x.broadcast_div(&scale)?.to_dtype(DType::F16)?, scale })
    }
}

impl Prepared {
    fn half(&self, x: &Tensor) -> Made<ScaledHalf> {
        if let Some(made) = self.half.get() {
            return Ok(made.clone());
        }
        let made = ScaledHalf::new(x)?;
        Ok(self.half.get_or_init(|| made).clone())
    }

    fn brain(&self, x: &Tensor) -> Made {
        if let Some(made) = self.brain.get() {
            return Ok(made.clone());
        }
        let made = x.to_dtype(DType::BF16)?;
        Ok(self.brain.get_or_init(|| made).clone())
    }
}

impl Matrix {
    /// `x` `[T, cols]` times the transpose, `[T, rows]`; `prepared` belongs to `x`.
    pub(crate) fn product(&self, x: &Tensor, prepared: &Prepared) -> Made {
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
    pub(crate) fn lookup(&self, ids: &Tensor) -> Made {
        match self {
            Self::Blocks(blocks) => blocks.embedding(ids),
            Self::Dense(table) => table.index_select(ids, 0)?.to_dtype(DType::F32),
        }
    }
}

/// Rows `first..first + count` of `x` in a tensor of their own, as products of blocks need it.
pub(crate) fn own_rows(x: &Tensor, first: usize, count: usize) -> Made {
    settled(x.narrow(0, first, count)?)
}
