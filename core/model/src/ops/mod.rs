//! The single place that computes, with a form per device; today the CPU's, over the kernels.
//!
//! candle is the container: tensors and devices. On the CPU no candle arithmetic, cast or matmul is called: those are
//! scalar there and start thread pools of their own. An operation that takes a [`Tensor`] by value takes it over and
//! changes it in place; it must not be shared (see [`crate::traits::Linear::forward`]).

mod attention;
mod experts;
mod norm;
mod pointwise;
mod product;
mod rotate;
mod router;
mod rows;

pub use attention::{AttentionStates, attention};
pub use experts::{ExpertPlan, ExpertWeights, combine_experts, experts_product};
pub use norm::{HeadNorm, layer_norm, norm_heads, rms_norm};
pub use pointwise::{
    activate, add, clamp, gated, multiply_sigmoid, scale, scale_and_add, scale_rows, softcap,
};
pub use product::{linear_many, products};
pub use rotate::rotate;
pub use router::{GroupSelection, RouterRule, RouterScore, Routing, route};
pub use rows::{add_row, add_rows_at, append_rows, copy, gather_weight_rows, select_rows};

use crate::{ModelError, Result};
use candle_core::{CpuStorage, Device, InplaceOp1, InplaceOp2, Layout, Storage, StorageRef, Tensor};
use std::cell::RefCell;
use std::ops::{Deref, Range};

/// The values of a contiguous f32 tensor, without a copy.
pub struct Values<'a> {
    storage: StorageRef<'a>,
    range: Range<usize>,
}

impl Deref for Values<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(CpuStorage::F32(values)) => values.get(self.range.clone()).unwrap_or(&[]),
            _ => &[],
        }
    }
}

/// Looks at the values of a contiguous f32 tensor on the CPU.
///
/// # Errors
/// [`ModelError::Unsupported`] on another device, for another type, or for strided tensors.
pub fn values(tensor: &Tensor) -> Result<Values<'_>> {
    let (storage, layout) = tensor.storage_and_layout();
    let Some((start, end)) = layout.contiguous_offsets() else {
        return Err(ModelError::Unsupported(format!(
            "rows must be contiguous, found strides {:?} for shape {:?}",
            layout.stride(),
            layout.dims()
        )));
    };
    match &*storage {
        Storage::Cpu(CpuStorage::F32(_)) => {}
        Storage::Cpu(_) => {
            return Err(ModelError::Unsupported(format!(
                "activations must be f32, found {:?}",
                tensor.dtype()
            )));
        }
        _ => return Err(other_device(tensor.device())),
    }
    Ok(Values { storage, range: start..end })
}

/// A tensor `[rows, cols]` over these values, without a copy on the CPU.
///
/// # Errors
/// [`ModelError::Candle`] if there are not `rows * cols` values.
pub fn tensor(values: Vec<f32>, rows: usize, cols: usize) -> Result<Tensor> {
    Ok(Tensor::from_vec(values, (rows, cols), &Device::Cpu)?)
}

/// Rows and columns of a two-dimensional tensor; `what` is for the message.
///
/// # Errors
/// [`ModelError::Shape`].
pub fn dims2(tensor: &Tensor, what: &str) -> Result<(usize, usize)> {
    match *tensor.dims() {
        [rows, cols] => Ok((rows, cols)),
        ref other => Err(ModelError::Shape {
            what: what.to_owned(),
            expected: "[T, D]".to_owned(),
            found: format!("{other:?}"),
        }),
    }
}

/// Rows of a tensor whose columns must be `cols`; `what` is for the message.
///
/// # Errors
/// [`ModelError::Shape`].
pub fn rows_of(tensor: &Tensor, cols: usize, what: &str) -> Result<usize> {
    let (rows, found) = dims2(tensor, what)?;
    if found == cols {
        return Ok(rows);
    }
    Err(ModelError::Shape {
        what: what.to_owned(),
        expected: format!("[T, {cols}]"),
        found: format!("[{rows}, {found}]"),
    })
}

/// Changes a tensor that nobody else holds, in place.
fn update(tensor: Tensor, change: impl Fn(&mut [f32]) -> Result<()>) -> Result<Tensor> {
    let op = Change { change, failed: RefCell::new(None) };
    let outcome = tensor.inplace_op1(&op);
    op.finish(outcome)?;
    Ok(tensor)
}

/// Changes a tensor that nobody else holds, in place, reading `other`; candle refuses two tensors over one storage.
fn update_with(
    tensor: Tensor,
    other: &Tensor,
    change: impl Fn(&mut [f32], &[f32]) -> Result<()>,
) -> Result<Tensor> {
    let op = Change { change, failed: RefCell::new(None) };
    let outcome = tensor.inplace_op2(other, &op);
    op.finish(outcome)?;
    Ok(tensor)
}

/// An in-place operation as candle wants it; keeps the typed error.
struct Change<F> {
    change: F,
    failed: RefCell<Option<ModelError>>,
}

impl<F> Change<F> {
    fn note(&self, outcome: Option<Result<()>>) {
        let outcome = outcome
            .unwrap_or_else(|| Err(ModelError::Unsupported("activations must be contiguous f32".to_owned())));
        *self.failed.borrow_mut() = outcome.err();
    }

    fn finish(self, outcome: candle_core::Result<()>) -> Result<()> {
        match self.failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(outcome?),
        }
    }
}

fn slice_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Option<&'a mut [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => values.get_mut(start..end),
        _ => None,
    }
}

impl<F: Fn(&mut [f32]) -> Result<()>> InplaceOp1 for Change<F> {
    fn name(&self) -> &'static str {
        "an operation of menagerie"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        self.note(slice_mut(storage, layout).map(|values| (self.change)(values)));
        Ok(())
    }
}

impl<F: Fn(&mut [f32], &[f32]) -> Result<()>> InplaceOp2 for Change<F> {
    fn name(&self) -> &'static str {
        "an operation of menagerie"
    }

    fn cpu_fwd(
        &self,
        storage: &mut CpuStorage,
        layout: &Layout,
        other: &CpuStorage,
        other_layout: &Layout,
    ) -> candle_core::Result<()> {
        let other = match (other, other_layout.contiguous_offsets()) {
            (CpuStorage::F32(values), Some((start, end))) => values.get(start..end),
            _ => None,
        };
        let both = slice_mut(storage, layout).zip(other);
        self.note(both.map(|(values, other)| (self.change)(values, other)));
        Ok(())
    }
}

/// The one answer to a device without kernels.
fn other_device(device: &Device) -> ModelError {
    ModelError::Unsupported(format!(
        "computing on {device:?} is not supported by this build; open the model on the CPU"
    ))
}
