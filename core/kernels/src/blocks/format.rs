//! What every quantized format has in common: integers of at most eight bits, a scale per 16 or 32 of them and, for
//! some, a minimum. Dequantization and the integer kernels both use this form.

use super::QuantType;

/// Values that the kernels process together: the longest block.
pub(crate) const SUPER: usize = 256;
/// The most groups in `SUPER` values.
pub(crate) const GROUPS: usize = SUPER / 16;

/// The properties that the multiplication of unpacked values depends on. Formats of the same shape share the code that
/// multiplies: it is compiled once for each shape, not for each format.
pub(crate) trait GroupShape {
    /// `Format::GROUP`.
    const GROUP: usize;
    /// `Format::MIN`.
    const MIN: bool;
    /// `Format::WIDE`.
    const WIDE: bool;
}

/// Groups of `GROUP` values, with minima or without, of a wide format or a narrow one.
pub(crate) struct Grouped<const GROUP: usize, const MIN: bool, const WIDE: bool>;

impl<const GROUP: usize, const MIN: bool, const WIDE: bool> GroupShape for Grouped<GROUP, MIN, WIDE> {
    const GROUP: usize = GROUP;
    const MIN: bool = MIN;
    const WIDE: bool = WIDE;
}

/// A quantized block format. A value is `scale * q - min` with the scale and minimum of its group, computed in
/// f32 in this order, which is bit for bit what ggml's `dequantize_row_*` gives.
pub(crate) trait Format {
    /// The properties that the multiplication of its unpacked values depends on.
    type Shape: GroupShape;
    /// The block type.
    const QUANT: QuantType;
    /// Values per block.
    const LEN: usize;
    /// Bytes per block.
    const BYTES: usize;
    /// Values that share one scale: 16 or 32.
    const GROUP: usize = <Self::Shape as GroupShape>::GROUP;
    /// Whether the format has minima. If so `q` is never negative.
    const MIN: bool = <Self::Shape as GroupShape>::MIN;
    /// Activations are rounded with one scale per 256 values (llama.cpp's Q8_K) and not per 32 (Q8_0).
    const WIDE: bool = <Self::Shape as GroupShape>::WIDE;
    /// `q + OFFSET` is never negative; a power of two, or 0 for formats with minima.
    const OFFSET: i32;
    /// The largest `q + OFFSET`.
    const SPAN: i32;

    /// Writes the `LEN` values of one block of `BYTES` bytes and the `LEN / GROUP` scales and minima. The slices must
    /// have at least these lengths, otherwise it panics; formats without minima do not write `min`.
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]);
}

/// The factors of the integer scales and minima of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Factors {
    /// Of the scales.
    pub(crate) d: f32,
    /// The factor of the minima; 0 in formats without.
    pub(crate) dmin: f32,
}

/// A format of 256 values whose scales and minima are integers times one factor. With activations of one scale per 256
/// the product of a block is one integer, exact in any order, and that of its minima is another.
pub(crate) trait WideFormat: Format {
    /// Writes the integer scales and minima of a block, at most 127 and 63 in magnitude; returns their factors.
    /// `d * scale` is the scale of `expand` without rounding.
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], min: &mut [i16; GROUPS]) -> Factors;
}

/// The scales and minima of a wide format as `expand` returns them.
#[inline(always)]
pub(super) fn scaled<F: WideFormat>(block: &[u8], scale: &mut [f32], min: &mut [f32]) {
    let (mut scales, mut minima) = ([0; GROUPS], [0; GROUPS]);
    let factors = F::whole(block, &mut scales, &mut minima);
    for (to, whole) in scale[..F::LEN / F::GROUP].iter_mut().zip(scales) {
        *to = factors.d * f32::from(whole);
    }
    if F::MIN {
        for (to, whole) in min[..F::LEN / F::GROUP].iter_mut().zip(minima) {
            *to = factors.dmin * f32::from(whole);
        }
    }
}

/// The first `N` of at least `N` values. Fewer would leave zeros in place of values, so it panics, which is an error of
/// the whole call.
#[inline(always)]
pub(super) fn first<const N: usize, T>(values: &[T]) -> &[T; N] {
    match values.first_chunk() {
        Some(first) => first,
        None => too_short(values.len(), N),
    }
}

/// Like [`first`], mutable.
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

/// Does not compile for a format whose sizes differ from the table of types: kernels read `Format::BYTES` per block,
/// and `Matrix` checks lengths by the table.
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

/// Calls `$wide` with `$w` naming the `WideFormat` of a `QuantType`, or `$narrow` with `$n` naming its `Format` if it
/// is narrow.
macro_rules! with_width {
    ($quant:expr, $w:ident => $wide:expr, $n:ident => $narrow:expr) => {{
        macro_rules! wide {
            ($quant_name:ident, $name:ident) => {{
                type $w = $crate::blocks::$name;
                const { $crate::blocks::check_sizes::<$w>($crate::blocks::QuantType::$quant_name) }
                $wide
            }};
        }
        macro_rules! narrow {
            ($quant_name:ident, $name:ident) => {{
                type $n = $crate::blocks::$name;
                const { $crate::blocks::check_sizes::<$n>($crate::blocks::QuantType::$quant_name) }
                $narrow
            }};
        }
        use $crate::blocks::QuantType as Q;
        match $quant {
            Q::Q4_0 => narrow!(Q4_0, Q4_0),
            Q::Q4_1 => narrow!(Q4_1, Q4_1),
            Q::Q5_0 => narrow!(Q5_0, Q5_0),
            Q::Q5_1 => narrow!(Q5_1, Q5_1),
            Q::Q8_0 => narrow!(Q8_0, Q8_0),
            Q::Q2_K => wide!(Q2_K, Q2K),
            Q::Q3_K => wide!(Q3_K, Q3K),
            Q::Q4_K => wide!(Q4_K, Q4K),
            Q::Q5_K => wide!(Q5_K, Q5K),
            Q::Q6_K => wide!(Q6_K, Q6K),
            Q::IQ2_XXS => wide!(IQ2_XXS, Iq2Xxs),
            Q::IQ2_XS => wide!(IQ2_XS, Iq2Xs),
            Q::IQ3_XXS => wide!(IQ3_XXS, Iq3Xxs),
            Q::IQ1_S => wide!(IQ1_S, Iq1S),
            Q::IQ4_NL => narrow!(IQ4_NL, Iq4Nl),
            Q::IQ3_S => wide!(IQ3_S, Iq3S),
            Q::IQ2_S => wide!(IQ2_S, Iq2S),
            Q::IQ4_XS => wide!(IQ4_XS, Iq4Xs),
            Q::IQ1_M => wide!(IQ1_M, Iq1M),
            Q::TQ1_0 => wide!(TQ1_0, Tq1_0),
            Q::TQ2_0 => wide!(TQ2_0, Tq2_0),
            Q::MXFP4 => narrow!(MXFP4, Mxfp4),
            Q::NVFP4 => narrow!(NVFP4, Nvfp4),
        }
    }};
}
pub(crate) use with_width;

/// Calls `$body` with `$format` naming the `Format` of a `QuantType`.
macro_rules! with_format {
    ($quant:expr, $format:ident => $body:expr) => {
        $crate::blocks::with_width!($quant, $format => $body, $format => $body)
    };
}
pub(crate) use with_format;
