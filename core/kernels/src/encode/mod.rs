//! f32 weights to blocks: for every block the scales and whole numbers with the least weighted square error.
//!
//! Sixteen *groups* (runs of 16 or 32 values that share a scale) go through the search at once, one in each lane of a
//! vector ([`panel`]). A group's scale is the best of several candidates, improved by least squares; a super-block then
//! chooses the few bits of its groups' scales together ([`scales`]). Multiplications and additions are rounded one by one,
//! so every instruction set writes the same bytes.

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

/// Values of one task: whole blocks of every type, and small enough that threads end together.
const TASK: usize = 8192;

/// How a type is written.
pub(crate) trait Encode {
    /// The type.
    const BLOCK: BlockType;
    /// Values that one call takes at most: whole blocks, up to sixteen groups.
    const PANEL: usize;

    /// Writes the blocks of `x`, which are whole and at most `PANEL` values, to `out`. `importance` has a weight for each
    /// value. Must be `#[inline(always)]`.
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]);
}

/// The types whose blocks are unusable without importance (ggml's `ggml_quantize_requires_imatrix`).
const UNUSABLE_WITHOUT_IMPORTANCE: &[QuantType] = &[QuantType::IQ2_XXS, QuantType::IQ2_XS, QuantType::IQ1_S];

/// Whether a type is only any good where it is known which columns matter.
pub fn needs_importance(block: BlockType) -> bool {
    matches!(block, BlockType::Quant(quant) if UNUSABLE_WITHOUT_IMPORTANCE.contains(&quant))
}

/// The largest magnitude that a type can hold whatever its neighbors are.
pub fn largest_encodable(block: BlockType) -> f32 {
    match block {
        BlockType::F32 | BlockType::BF16 | BlockType::MXFP4 => f32::MAX,
        BlockType::NVFP4 => 448.0 * 6.0,
        _ => 65504.0,
    }
}

/// Encodes rows of `cols` values, over the threads of `cpu`. Values are finite and at most [`largest_encodable`].
/// `importance` has a weight of at least 0 for each column, for all rows; where all are 0 it is as
/// without, and the values of a block whose weights are all 0 count as without. The bytes depend neither on the number of
/// threads nor on the instruction set.
///
/// # Errors
/// [`KernelError::Shape`]: rows that are no whole blocks, values that
/// are no whole rows, importance or `out` of another length.
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
        dispatch(cpu, Task::<E> { begin, cols, values, importance, out, encoder: PhantomData });
    }))
}

/// Some blocks of one or several rows.
struct Task<'a, E> {
    /// Where the values begin among all.
    begin: usize,
    cols: usize,
    values: &'a [f32],
    importance: Option<&'a [f32]>,
    out: &'a mut [u8],
    encoder: PhantomData<E>,
}

impl<E: Encode> Kernel for Task<'_, E> {
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
            BlockType::Float(FloatType::F32) => go!(floats::F32),
            BlockType::Float(FloatType::F16) => go!(floats::F16),
            BlockType::Float(FloatType::BF16) => go!(floats::BF16),
            BlockType::Quant(QuantType::Q8_0) => go!(floats::Q8_0),
            BlockType::Quant(QuantType::Q4_0) => go!(four_bit::Q4_0),
            BlockType::Quant(QuantType::Q4_1) => go!(four_bit::Q4_1),
            BlockType::Quant(QuantType::Q5_0) => go!(four_bit::Q5_0),
            BlockType::Quant(QuantType::Q5_1) => go!(four_bit::Q5_1),
            BlockType::Quant(QuantType::IQ4_NL) => go!(four_bit::Iq4Nl),
            BlockType::Quant(QuantType::MXFP4) => go!(e2m1::Mxfp4),
            BlockType::Quant(QuantType::NVFP4) => go!(e2m1::Nvfp4),
            BlockType::Quant(QuantType::Q2_K) => go!(k_quants::Q2K),
            BlockType::Quant(QuantType::Q3_K) => go!(k_quants::Q3K),
            BlockType::Quant(QuantType::Q4_K) => go!(k_quants::Q4K),
            BlockType::Quant(QuantType::Q5_K) => go!(k_quants::Q5K),
            BlockType::Quant(QuantType::Q6_K) => go!(k_quants::Q6K),
            BlockType::Quant(QuantType::IQ4_XS) => go!(k_quants::Iq4Xs),
            BlockType::Quant(QuantType::TQ1_0) => go!(ternary::Tq1_0),
            BlockType::Quant(QuantType::TQ2_0) => go!(ternary::Tq2_0),
            BlockType::Quant(QuantType::IQ2_XXS) => go!(code_words::Iq2Xxs),
            BlockType::Quant(QuantType::IQ2_XS) => go!(code_words::Iq2Xs),
            BlockType::Quant(QuantType::IQ2_S) => go!(code_words::Iq2S),
            BlockType::Quant(QuantType::IQ3_XXS) => go!(code_words::Iq3Xxs),
            BlockType::Quant(QuantType::IQ3_S) => go!(code_words::Iq3S),
            BlockType::Quant(QuantType::IQ1_S) => go!(code_words::Iq1S),
            BlockType::Quant(QuantType::IQ1_M) => go!(code_words::Iq1M),
        }
    }};
}
use with_encoder;
