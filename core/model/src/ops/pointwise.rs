//! Element by element: sums, activations, scales.

use super::{dims2, tensor, update, update_with, values};
use crate::Result;
use crate::compute::Compute;
use candle_core::Tensor;
use menagerie_kernels::{self as kernels, Activation};

/// `x + y`; takes `x` over.
///
/// # Errors
/// Unequal shapes; one storage for both.
pub fn add(x: Tensor, y: &Tensor, compute: &Compute) -> Result<Tensor> {
    update_with(x, y, |x, y| Ok(kernels::add(&compute.cpu, x, y)?))
}

/// `scale * x + y`; takes `x` over.
///
/// # Errors
/// Unequal shapes; one storage for both.
pub fn scale_and_add(x: Tensor, factor: f32, y: &Tensor, compute: &Compute) -> Result<Tensor> {
    add(scale(x, factor, compute)?, y, compute)
}

/// `x * factor`; takes `x` over.
///
/// # Errors
/// A device without kernels.
pub fn scale(x: Tensor, factor: f32, compute: &Compute) -> Result<Tensor> {
    if factor == 1.0 {
        return Ok(x);
    }
    update(x, |x| Ok(kernels::scale(&compute.cpu, x, factor)?))
}

/// `min(max(x, -limit), limit)`; takes `x` over.
///
/// # Errors
/// A device without kernels.
pub fn clamp(x: Tensor, limit: f32) -> Result<Tensor> {
    update(x, |x| {
        x.iter_mut().for_each(|x| *x = x.max(-limit).min(limit));
        Ok(())
    })
}

/// The activation of every element; takes `x` over.
///
/// # Errors
/// A device without kernels.
pub fn activate(x: Tensor, activation: Activation, compute: &Compute) -> Result<Tensor> {
    update(x, |x| Ok(kernels::activate(&compute.cpu, activation, x)?))
}

/// `activation(gate) * up`, `[T, F]`.
///
/// # Errors
/// Unequal shapes.
pub fn gated(gate: &Tensor, up: &Tensor, activation: Activation, compute: &Compute) -> Result<Tensor> {
    let (rows, width) = dims2(gate, "gate of a feed-forward")?;
    let mut out = vec![0.0; rows * width];
    kernels::gated(&compute.cpu, activation, &values(gate)?, &values(up)?, &mut out)?;
    tensor(out, rows, width)
}

/// Every row times its own factor; takes `x` over.
///
/// # Errors
/// Not one factor per row.
pub fn scale_rows(x: Tensor, factors: &[f32], compute: &Compute) -> Result<Tensor> {
    let (_, width) = dims2(&x, "rows to scale")?;
    update(x, |x| Ok(kernels::scale_rows(&compute.cpu, x, factors, width)?))
}

/// Every row of `x` `[T, D]` times the sigmoid of the one element of the row of `gate` `[T, 1]`; takes `x` over.
///
/// # Errors
/// Not one gate per row.
pub fn multiply_sigmoid(x: Tensor, gate: &Tensor, compute: &Compute) -> Result<Tensor> {
    let mut factors = values(gate)?.to_vec();
    kernels::sigmoid(&compute.cpu, &mut factors)?;
    scale_rows(x, &factors, compute)
}

/// `cap * tanh(x / cap)`; takes `x` over.
///
/// # Errors
/// A device without kernels.
pub fn softcap(x: Tensor, cap: f32, compute: &Compute) -> Result<Tensor> {
    update(x, |x| Ok(kernels::softcap(&compute.cpu, cap, x)?))
}
