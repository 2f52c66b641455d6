//! The order in which float products are summed, the same on every instruction set and for any number of rows (see "One
//! order of arithmetic" in the crate's documentation): its constants, and the forms of activations.

use super::types::{BFloat16, Float, InputForm};

/// Sums of a panel side by side: sum `j` takes the columns (or the pairs of columns) `8 i + j`, in ascending order.
pub(super) const SUMS: usize = 8;
/// The most columns (or pairs) that each sum of a panel takes.
pub(super) const STEPS: usize = 16;

/// The total of a panel: its sums, added in ascending order.
#[inline(always)]
pub(super) fn total(sums: [f32; SUMS]) -> f32 {
    let [first, rest @ ..] = sums;
    rest.into_iter().fold(first, |total, sum| total + sum)
}

/// The form of activations that is multiplied with float weights.
pub(super) trait FloatInput {
    /// The form.
    type Form: InputForm;
    /// A stored value.
    type Value: Copy + Default + 'static;
    /// Columns per step of a sum: one, or a pair, of which the odd one comes first.
    const WIDTH: usize;
    /// Columns of a panel, at positions that are multiples of it.
    const PANEL: usize = SUMS * STEPS * Self::WIDTH;

    /// One row.
    fn row<'a>(x: <Self::Form as InputForm>::Rows<'a>, row: usize) -> &'a [Self::Value];

    /// A value as a float.
    fn float(value: Self::Value) -> f32;

    /// A weight in the form in which it is multiplied.
    fn weight(value: f32) -> f32;
}

/// Activations as they are.
pub(super) struct F32Input;

impl FloatInput for F32Input {
    type Form = Float;
    type Value = f32;
    const WIDTH: usize = 1;

    #[inline(always)]
    fn row<'a>(x: <Float as InputForm>::Rows<'a>, row: usize) -> &'a [f32] {
        x.row(row)
    }

    #[inline(always)]
    fn float(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn weight(value: f32) -> f32 {
        value
    }
}

/// Activations rounded to bfloat16, weights of bfloat16: as AVX-512 BF16 multiplies them, in pairs.
pub(super) struct BFloat16Input;

/// Weights of bfloat16 below 2^-63 count as zero. With activations of at least 2^-47 (`BFloat16Rows`) every product,
/// and so every sum, is then a multiple of 2^-124: no number is subnormal, which AVX-512 BF16 would treat as zero.
pub(super) const LEAST_WEIGHT: f32 = 1.0 / (1u64 << 63) as f32;

impl FloatInput for BFloat16Input {
    type Form = BFloat16;
    type Value = u16;
    const WIDTH: usize = 2;

    #[inline(always)]
    fn row<'a>(x: <BFloat16 as InputForm>::Rows<'a>, row: usize) -> &'a [u16] {
        x.row(row)
    }

    #[inline(always)]
    fn float(value: u16) -> f32 {
        f32::from_bits(u32::from(value) << 16)
    }

    #[inline(always)]
    fn weight(value: f32) -> f32 {
        if value.abs() < LEAST_WEIGHT { 0.0 } else { value }
    }
}
