//! MXFP4 as in the published gpt-oss, repacked into the blocks of a GGUF file.
//!
//! In the folder, a block of 32 values is 16 bytes with two neighboring values each, and its exponent is in another
//! tensor. In a GGUF file, it is the exponent and 16 bytes, each with two values that are 16 apart (`block_mxfp4` of
//! ggml-common.h). The values are the same.

use super::loaded_tensor::{LoadedTensor, shape_of};
use gguf_file::{GgmlType, TensorBytes};
use menagerie_loaders::{Dtype, SafetensorsTensor};
use menagerie_model::WeightBytes;
use std::sync::Arc;

/// Bytes of values in a block.
const VALUES: usize = 16;

/// Blocks `[.., blocks, 16]` and exponents `[.., blocks]` as one tensor `[.., 32 * blocks]`.
pub(super) fn repacked(
    (blocks, values): (&SafetensorsTensor, TensorBytes),
    (scales, exponents): (&SafetensorsTensor, TensorBytes),
) -> Result<LoadedTensor, String> {
    let (mut shape, scale_shape) = (shape_of(blocks)?, shape_of(scales)?);
    let whole = shape.pop() == Some(VALUES) && shape == scale_shape;
    let bytes = |tensor: &SafetensorsTensor| matches!(tensor.dtype(), Dtype::U8 | Dtype::F8_E8M0);
    let Some(count) = shape.pop().filter(|_| whole && bytes(blocks) && bytes(scales)) else {
        return Err(format!(
            "expected MXFP4 as bytes [.., blocks, {VALUES}] and [.., blocks], found {} {:?} and {} {:?}",
            blocks.dtype(),
            blocks.shape(),
            scales.dtype(),
            scales.shape()
        ));
    };
    shape.push(count * 2 * VALUES);
    let mut out = Vec::with_capacity(exponents.len() * (VALUES + 1));
    for (block, exponent) in values.chunks_exact(VALUES).zip(exponents.iter()) {
        out.push(*exponent);
        let nibble = |at: usize| block[at / 2] >> (4 * (at % 2)) & 15;
        out.extend((0..VALUES).map(|at| nibble(at) | nibble(at + VALUES) << 4));
    }
    Ok(LoadedTensor { shape, block: GgmlType::MXFP4, bytes: WeightBytes::Owned(Arc::new(out)) })
}
