//! What every quantised format has in common: whole numbers of at most eight bits, a scale per 16 or 32 of
//! them and, for some, a minimum. Dequantisation and the integer kernels both start from this one form.

use super::BlockType;

/// Values that the kernels work on at once: the longest block.
pub(crate) const SUPER: usize = 256;
/// The most groups in `SUPER` values.
pub(crate) const GROUPS: usize = SUPER / 16;

/// A quantised block format. A value is `scale * q - min` with the scale and minimum of its group, computed in
/// f32 in this order, which is bit for bit what ggml's `dequantize_row_*` gives.
pub(crate) trait Format {
    /// The block type.
    const BLOCK: BlockType;
    /// Values per block.
    const LEN: usize;
    /// Bytes per block.
    const BYTES: usize;
    /// Values that share one scale: 16 or 32.
    const GROUP: usize;
    /// Whether the format has minima. If so `q` is never negative.
    const MIN: bool;
    /// Activations are rounded with one scale per 256 values (as llama.cpp's Q8_K) rather than per 32 (Q8_0).
    const WIDE: bool;
    /// `q + OFFSET` is never negative; a power of two, or 0 for formats with minima.
    const OFFSET: i32;
    /// The largest `q + OFFSET`.
    const SPAN: i32;

    /// Writes the `LEN` values of one block of `BYTES` bytes and the `LEN / GROUP` scales and minima.
    /// The slices have at least these lengths; `min` is left alone by formats without minima.
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]);
}

/// Calls `$body` with `$format` naming the `Format` of a quantised `BlockType`; `$float` for F32, F16 and BF16.
macro_rules! with_format {
    ($block:expr, $format:ident => $body:expr, float => $float:expr) => {{
        macro_rules! go {
            ($name:ident) => {{
                type $format = $crate::blocks::$name;
                $body
            }};
        }
        use $crate::blocks::BlockType as B;
        match $block {
            B::F32 | B::F16 | B::BF16 => $float,
            B::Q4_0 => go!(Q4_0),
            B::Q4_1 => go!(Q4_1),
            B::Q5_0 => go!(Q5_0),
            B::Q5_1 => go!(Q5_1),
            B::Q8_0 => go!(Q8_0),
            B::Q2_K => go!(Q2K),
            B::Q3_K => go!(Q3K),
            B::Q4_K => go!(Q4K),
            B::Q5_K => go!(Q5K),
            B::Q6_K => go!(Q6K),
            B::IQ2_XXS => go!(Iq2Xxs),
            B::IQ2_XS => go!(Iq2Xs),
            B::IQ3_XXS => go!(Iq3Xxs),
            B::IQ1_S => go!(Iq1S),
            B::IQ4_NL => go!(Iq4Nl),
            B::IQ3_S => go!(Iq3S),
            B::IQ2_S => go!(Iq2S),
            B::IQ4_XS => go!(Iq4Xs),
            B::IQ1_M => go!(Iq1M),
            B::TQ1_0 => go!(Tq1_0),
            B::TQ2_0 => go!(Tq2_0),
            B::MXFP4 => go!(Mxfp4),
            B::NVFP4 => go!(Nvfp4),
        }
    }};
}
pub(crate) use with_format;
