//! What every quantised format has in common: whole numbers of at most eight bits, a scale per 16 or 32 of
//! them and, for some, a minimum. Dequantisation and the integer kernels both start from this one form.

use super::QuantType;

/// Values that the kernels work on at once: the longest block.
pub(crate) const SUPER: usize = 256;
/// The most groups in `SUPER` values.
pub(crate) const GROUPS: usize = SUPER / 16;

/// A quantised block format. A value is `scale * q - min` with the scale and minimum of its group, computed in
/// f32 in this order, which is bit for bit what ggml's `dequantize_row_*` gives.
pub(crate) trait Format {
    /// The block type.
    const QUANT: QuantType;
    /// Values per block.
    const LEN: usize;
    /// Bytes per block.
    const BYTES: usize;
    /// Values that share one scale: 16 or 32.
    const GROUP: usize;
    /// Whether the format has minima. If so `q` is never negative.
    const MIN: bool;
    /// Activations are rounded with one scale per 256 values (llama.cpp's Q8_K) and not per 32 (Q8_0).
    const WIDE: bool;
    /// `q + OFFSET` is never negative; a power of two, or 0 for formats with minima.
    const OFFSET: i32;
    /// The largest `q + OFFSET`.
    const SPAN: i32;

    /// Writes the `LEN` values of one block of `BYTES` bytes and the `LEN / GROUP` scales and minima.
    /// The slices have at least these lengths, or it panics; `min` is left alone by formats without minima.
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]);
}

/// The first `N` of values that are at least so many. Less would leave zeros where values belong, so it panics, which is an
/// error of the whole call.
#[inline(always)]
pub(super) fn first<const N: usize, T>(values: &[T]) -> &[T; N] {
    match values.first_chunk() {
        Some(first) => first,
        None => too_short(values.len(), N),
    }
}

/// As [`first`], to be written.
#[inline(always)]
pub(super) fn first_mut<const N: usize, T>(values: &mut [T]) -> &mut [T; N] {
    let count = values.len();
    match values.first_chunk_mut() {
        Some(first) => first,
        None => too_short(count, N),
    }
}

#[cold]
#[inline(never)]
fn too_short(found: usize, wanted: usize) -> ! {
    panic!("{found} values where a block has {wanted} (a defect: please report it)")
}

/// Refuses to compile a format whose sizes are not those of the table of types: kernels read by `Format::BYTES` what
/// `Matrix` has measured by the table.
pub(crate) const fn check_sizes<F: Format>(quant: QuantType) {
    assert!(F::QUANT.ggml_id() == quant.ggml_id(), "the format of another type");
    assert!(
        F::LEN == quant.block_len() && F::BYTES == quant.block_bytes(),
        "sizes unlike the table of types"
    );
    assert!(
        F::LEN <= SUPER && SUPER.is_multiple_of(F::LEN) && (F::GROUP == 16 || F::GROUP == 32),
        "sizes unlike a panel's"
    );
}

/// Calls `$body` with `$format` naming the `Format` of a `QuantType`.
macro_rules! with_format {
    ($quant:expr, $format:ident => $body:expr) => {{
        macro_rules! go {
            ($quant_name:ident, $name:ident) => {{
                type $format = $crate::blocks::$name;
                const { $crate::blocks::check_sizes::<$format>($crate::blocks::QuantType::$quant_name) }
                $body
            }};
        }
        use $crate::blocks::QuantType as Q;
        match $quant {
            Q::Q4_0 => go!(Q4_0, Q4_0),
            Q::Q4_1 => go!(Q4_1, Q4_1),
            Q::Q5_0 => go!(Q5_0, Q5_0),
            Q::Q5_1 => go!(Q5_1, Q5_1),
            Q::Q8_0 => go!(Q8_0, Q8_0),
            Q::Q2_K => go!(Q2_K, Q2K),
            Q::Q3_K => go!(Q3_K, Q3K),
            Q::Q4_K => go!(Q4_K, Q4K),
            Q::Q5_K => go!(Q5_K, Q5K),
            Q::Q6_K => go!(Q6_K, Q6K),
            Q::IQ2_XXS => go!(IQ2_XXS, Iq2Xxs),
            Q::IQ2_XS => go!(IQ2_XS, Iq2Xs),
            Q::IQ3_XXS => go!(IQ3_XXS, Iq3Xxs),
            Q::IQ1_S => go!(IQ1_S, Iq1S),
            Q::IQ4_NL => go!(IQ4_NL, Iq4Nl),
            Q::IQ3_S => go!(IQ3_S, Iq3S),
            Q::IQ2_S => go!(IQ2_S, Iq2S),
            Q::IQ4_XS => go!(IQ4_XS, Iq4Xs),
            Q::IQ1_M => go!(IQ1_M, Iq1M),
            Q::TQ1_0 => go!(TQ1_0, Tq1_0),
            Q::TQ2_0 => go!(TQ2_0, Tq2_0),
            Q::MXFP4 => go!(MXFP4, Mxfp4),
            Q::NVFP4 => go!(NVFP4, Nvfp4),
        }
    }};
}
pub(crate) use with_format;
