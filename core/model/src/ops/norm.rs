//! Norms over rows, and over the heads of rows.

use super::{dims2, rows_of, tensor, update, values};
use crate::compute::Compute;
use crate::{ModelError, Result};
use candle_core::Tensor;
use menagerie_kernels::{self as kernels, LayerNorm};

/// `x / sqrt(mean(x^2) + eps) * weight` per row, `[T, D]` to `[T, D]` (Zhang and Sennrich, 2019).
///
/// # Errors
/// A weight that is not `[D]`.
pub fn rms_norm(x: &Tensor, weight: Option<&[f32]>, eps: f32, compute: &Compute) -> Result<Tensor> {
    let (rows, width) = dims2(x, "input of an RMS norm")?;
    let mut out = vec![0.0; rows * width];
    kernels::rms_norm(&compute.cpu, &values(x)?, weight, eps, width, &mut out)?;
    tensor(out, rows, width)
}

/// `(x - mean) / sqrt(variance + eps) * weight + bias` per row, `[T, D]` to `[T, D]` (Ba et al., 2016).
///
/// # Errors
/// A weight or bias that is not `[D]`.
pub fn layer_norm(
    x: &Tensor,
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    eps: f32,
    compute: &Compute,
) -> Result<Tensor> {
    let (rows, width) = dims2(x, "input of a layer norm")?;
    let mut out = vec![0.0; rows * width];
    kernels::layer_norm(&compute.cpu, &LayerNorm { weight, bias, eps }, &values(x)?, width, &mut out)?;
    tensor(out, rows, width)
}

/// A norm over parts of a row: the heads of queries or keys.
#[derive(Clone, Debug)]
pub struct HeadNorm {
    /// Whether the mean is removed as well (layer norm).
    pub centred: bool,
    /// Elements the mean runs over.
    pub width: usize,
    /// `[width]`, or one weight for every element of a row.
    pub weight: Option<Vec<f32>>,
    /// As `weight`.
    pub bias: Option<Vec<f32>>,
    /// Added under the root.
    pub eps: f32,
}

/// Norms every part of `norm.width` elements of every row `[T, columns]`.
///
/// # Errors
/// Weights that are neither `[width]` nor `[columns]`.
pub fn norm_heads(x: &Tensor, norm: &HeadNorm, columns: usize, compute: &Compute) -> Result<Tensor> {
    let rows = rows_of(x, columns, "input of a QK-norm")?;
    for values in [&norm.weight, &norm.bias].into_iter().flatten() {
        if values.is_empty() || (values.len() != norm.width && values.len() != columns) {
            return Err(ModelError::Shape {
                what: "weight of a QK-norm".to_owned(),
                expected: format!("[{}] or [{columns}]", norm.width),
                found: format!("[{}]", values.len()),
            });
        }
    }
    let mut out = vec![0.0; rows * columns];
    let shared = |values: &Option<Vec<f32>>| values.as_ref().is_none_or(|values| values.len() == norm.width);
    let inside = shared(&norm.weight) && shared(&norm.bias);
    let weight = norm.weight.as_deref().filter(|_| inside);
    let bias = norm.bias.as_deref().filter(|_| inside);
    {
        let x = values(x)?;
        if norm.centred {
            let parts = LayerNorm { weight, bias, eps: norm.eps };
            kernels::layer_norm(&compute.cpu, &parts, &x, norm.width, &mut out)?;
        } else {
            kernels::rms_norm(&compute.cpu, &x, weight, norm.eps, norm.width, &mut out)?;
        }
    }
    let out = tensor(out, rows, columns)?;
    if inside { Ok(out) } else { scale_and_shift(out, norm, columns) }
}

/// Weights that differ from head to head: one per element of the row.
fn scale_and_shift(x: Tensor, norm: &HeadNorm, columns: usize) -> Result<Tensor> {
    update(x, |values| {
        for row in values.chunks_exact_mut(columns.max(1)) {
            if let Some(weight) = &norm.weight {
                row.iter_mut().zip(weight.iter().cycle()).for_each(|(x, w)| *x *= w);
            }
            if let Some(bias) = &norm.bias {
                row.iter_mut().zip(bias.iter().cycle()).for_each(|(x, b)| *x += b);
            }
        }
        Ok(())
    })
}
