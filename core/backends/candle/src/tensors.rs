//! Tensors in the layout that operations need.

use candle_core::{Device, Tensor};

/// What candle returns.
pub(crate) type TensorResult<T = Tensor> = candle_core::Result<T>;

/// A tensor in row order that begins at offset 0, as candle's kernels for Metal and its indexed ones need it.
pub(crate) fn settled(tensor: Tensor) -> TensorResult {
    if tensor.is_contiguous() && tensor.layout().start_offset() == 0 {
        return Ok(tensor);
    }
    tensor.force_contiguous()
}

/// Indices on a device, `[n]`.
pub(crate) fn indices(values: &[u32], device: &Device) -> TensorResult {
    Tensor::from_slice(values, values.len(), device)
}

/// A column of factors on a device, `[n, 1]`.
pub(crate) fn column(values: &[f32], device: &Device) -> TensorResult {
    Tensor::from_slice(values, (values.len(), 1), device)
}
