//! MXFP4 as gpt-oss is published, repacked into the blocks of a GGUF file.
//!
//! Here a block of 32 is 16 bytes with neighbors in each, and its exponent is in another tensor; there it is the exponent
//! and 16 bytes with values 16 apart in each (`block_mxfp4` of ggml-common.h). The values are the same.

use super::stored::{Stored, shape_of};
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
) -> Result<Stored, String> {
    let (mut shape, scale_shape) = (shape_of(blocks)?, shape_of(scales)?);
    let whole = shape.pop() == Some(VALUES) && shape == scale_shape;
    let bytes = |tensor: &SafetensorsTensor| matches!(tensor.dtype(), Dtype::U8 | Dtype::F8_E8M0);
    let Some(count) = shape.pop().filter(|_| whole && bytes(blocks) && bytes(scales)) else {
        return Err(format!(
            "{} {:?} with {} {:?} are no MXFP4: bytes [.., blocks, {VALUES}] and [.., blocks] are wanted",
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
    Ok(Stored { shape, block: GgmlType::MXFP4, bytes: WeightBytes::Owned(Arc::new(out)) })
}
