//! f32 weights to blocks: for every block the scales and integers with the least weighted square error.
//!
//! Sixteen *groups* (runs of 16 or 32 values that share a scale) go through the search at once, one in each lane of a
//! vector ([`panel`]). A group's scale is the best of several candidates, improved by least squares; a super-block then
//! chooses the few bits of its groups' scales together ([`scales`]). Multiplications and additions are rounded one by
//! one, so every instruction set writes the same bytes.

#![allow(clippy::needless_range_loop, reason = "loops over the lanes of several arrays read better by index")]

mod code_words;
mod codebook;
mod e2m1;
mod floats;
mod four_bit;
mod grid;
mod k_quants;
mod levels;
mod minimum;
mod one_scale;
mod panel;
mod scales;
mod ternary;

use std::marker::PhantomData;

use crate::KernelError;
use crate::blocks::{BlockType, FloatType, QuantType};
use crate::cpu::Cpu;
use crate::error::check_len;
use crate::simd::{Kernel, Simd, dispatch};

/// Values of one task: whole blocks of every type, and few enough that threads end together.
const TASK: usize = 8192;

/// How a type is written.
pub(crate) trait Encode {
    /// The type.
    const BLOCK: BlockType;
    /// The most values of one call: whole blocks, up to sixteen groups.
    const PANEL: usize;

    /// Writes the blocks of `x`, which is whole blocks of at most `PANEL` values, to `out`. `importance` has a weight
    /// for each value. Must be `#[inline(always)]`.
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]);
}

/// The types whose blocks are unusable without importance (ggml's `ggml_quantize_requires_imatrix`).
const UNUSABLE_WITHOUT_IMPORTANCE: &[QuantType] = &[QuantType::IQ2_XXS, QuantType::IQ2_XS, QuantType::IQ1_S];

/// Whether a type is usable only with importance.
pub fn needs_importance(block: BlockType) -> bool {
    matches!(block, BlockType::Quant(quant) if UNUSABLE_WITHOUT_IMPORTANCE.contains(&quant))
}

/// The largest magnitude that a type can hold whatever the neighboring values are.
pub fn largest_encodable(block: BlockType) -> f32 {
    match block {
        BlockType::F32 | BlockType::BF16 | BlockType::MXFP4 => f32::MAX,
        BlockType::NVFP4 => 448.0 * 6.0,
        _ => 65504.0,
    }
}

/// Encodes rows of `cols` values on the threads of `cpu`. Values must be finite and at most [`largest_encodable`].
/// `importance` has a weight of at least 0 for each column, for all rows. If all weights are 0, or all weights of a
/// block, the values are encoded as without importance. The bytes depend neither on the number of threads nor on the
/// instruction set.
///
/// # Errors
/// [`KernelError::Shape`]: rows are not whole blocks, values are not whole rows, or importance or `out` has another
/// length.
pub fn encode(
    cpu: &Cpu,
    block: BlockType,
    cols: usize,
    values: &[f32],
    importance: Option<&[f32]>,
    out: &mut [u8],
) -> Result<(), KernelError> {
    let row_bytes = block.row_bytes(cols).filter(|_| cols > 0 && values.len().is_multiple_of(cols));
    let Some(row_bytes) = row_bytes else {
        let detail = format!("{} values as rows of {cols} in blocks of {}", values.len(), block.block_len());
        return Err(KernelError::shape("encode: values", detail));
    };
    check_len("encode: out", out.len(), values.len() / cols * row_bytes)?;
    if let Some(importance) = importance {
        check_len("encode: importance", importance.len(), cols)?;
    }
    let importance = importance.filter(|weights| weights.iter().any(|weight| *weight > 0.0));
    let task_bytes = TASK / block.block_len() * block.block_bytes();
    with_encoder!(block, |E| cpu.pool().run_chunks(out, task_bytes, &|task, out| {
        let begin = task * TASK;
        let end = (begin + TASK).min(values.len());
        let values = &values[begin..end];
        dispatch(cpu, EncodeTask::<E> { begin, cols, values, importance, out, encoder: PhantomData });
    }))
}

/// Some blocks of one or several rows.
struct EncodeTask<'a, E> {
    /// Where the values begin among all values.
    begin: usize,
    cols: usize,
    values: &'a [f32],
    importance: Option<&'a [f32]>,
    out: &'a mut [u8],
    encoder: PhantomData<E>,
}

impl<E: Encode> Kernel for EncodeTask<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (mut values, mut out, mut column) = (self.values, self.out, self.begin % self.cols);
        while !values.is_empty() {
            let count = values.len().min(self.cols - column).min(E::PANEL);
            let (x, rest) = values.split_at(count);
            let bytes = count / E::BLOCK.block_len() * E::BLOCK.block_bytes();
            let (blocks, others) = out.split_at_mut(bytes);
            E::encode(s, x, self.importance.map(|all| &all[column..column + count]), blocks);
            (values, out) = (rest, others);
            column = (column + count) % self.cols;
        }
    }
}

/// Calls `$body` with `$encoder` naming the `Encode` of a block type.
macro_rules! with_encoder {
    ($block:expr, |$encoder:ident| $body:expr) => {{
        macro_rules! go {
            ($name:ty) => {{
                type $encoder = $name;
                $body
            }};
        }
        match $block {
            BlockType::Float(FloatType::F32) => go!(floats::F32Encoder),
            BlockType::Float(FloatType::F16) => go!(floats::F16Encoder),
            BlockType::Float(FloatType::BF16) => go!(floats::BF16Encoder),
            BlockType::Quant(QuantType::Q8_0) => go!(floats::Q8_0Encoder),
            BlockType::Quant(QuantType::Q4_0) => go!(four_bit::Q4_0Encoder),
            BlockType::Quant(QuantType::Q4_1) => go!(four_bit::Q4_1Encoder),
            BlockType::Quant(QuantType::Q5_0) => go!(four_bit::Q5_0Encoder),
            BlockType::Quant(QuantType::Q5_1) => go!(four_bit::Q5_1Encoder),
            BlockType::Quant(QuantType::IQ4_NL) => go!(four_bit::Iq4NlEncoder),
            BlockType::Quant(QuantType::MXFP4) => go!(e2m1::Mxfp4Encoder),
            BlockType::Quant(QuantType::NVFP4) => go!(e2m1::Nvfp4Encoder),
            BlockType::Quant(QuantType::Q2_K) => go!(k_quants::Q2KEncoder),
            BlockType::Quant(QuantType::Q3_K) => go!(k_quants::Q3KEncoder),
            BlockType::Quant(QuantType::Q4_K) => go!(k_quants::Q4KEncoder),
            BlockType::Quant(QuantType::Q5_K) => go!(k_quants::Q5KEncoder),
            BlockType::Quant(QuantType::Q6_K) => go!(k_quants::Q6KEncoder),
            BlockType::Quant(QuantType::IQ4_XS) => go!(k_quants::Iq4XsEncoder),
            BlockType::Quant(QuantType::TQ1_0) => go!(ternary::Tq1_0Encoder),
            BlockType::Quant(QuantType::TQ2_0) => go!(ternary::Tq2_0Encoder),
            BlockType::Quant(QuantType::IQ2_XXS) => go!(code_words::Iq2XxsEncoder),
            BlockType::Quant(QuantType::IQ2_XS) => go!(code_words::Iq2XsEncoder),
            BlockType::Quant(QuantType::IQ2_S) => go!(code_words::Iq2SEncoder),
            BlockType::Quant(QuantType::IQ3_XXS) => go!(code_words::Iq3XxsEncoder),
            BlockType::Quant(QuantType::IQ3_S) => go!(code_words::Iq3SEncoder),
            BlockType::Quant(QuantType::IQ1_S) => go!(code_words::Iq1SEncoder),
            BlockType::Quant(QuantType::IQ1_M) => go!(code_words::Iq1MEncoder),
        }
    }};
}
use with_encoder;
