//! Formats of 32 values (NVFP4: 64) with one scale each: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4, NVFP4.
//! Layouts: `block_q4_0` and so on in ggml-common.h.

use super::QuantType;
use super::bytes::{f16_at, u32_at};
use super::format::{Format, Grouped, first, first_mut};

/// The sixteen levels of IQ4_NL and IQ4_XS (`kvalues_iq4nl` in ggml-common.h).
pub(crate) const IQ4_LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Twice the sixteen values of e2m1 (OCP Microscaling Formats 1.0; `kvalues_mxfp4` in ggml-common.h).
pub(crate) const MXFP4_LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Nibbles of 16 bytes to 32 values: low nibbles first, then high ones.
#[inline(always)]
fn nibbles(bytes: &[u8], q: &mut [i8], value: impl Fn(u8) -> i8) {
    let (bytes, q) = (first::<16, _>(bytes), first_mut::<32, _>(q));
    for i in 0..16 {
        q[i] = value(bytes[i] & 15);
        q[i + 16] = value(bytes[i] >> 4);
    }
}

/// Like `nibbles`, with a fifth bit from `high`: bit `i` belongs to value `i`.
#[inline(always)]
fn five_bits(bytes: &[u8], high: u32, q: &mut [i8], offset: i8) {
    let (bytes, q) = (first::<16, _>(bytes), first_mut::<32, _>(q));
    for i in 0..16 {
        let (low, top) = ((high >> i) as u8 & 1, (high >> (i + 16)) as u8 & 1);
        q[i] = (bytes[i] & 15 | low << 4) as i8 - offset;
        q[i + 16] = (bytes[i] >> 4 | top << 4) as i8 - offset;
    }
}

/// Q4_0: d f16, 16 bytes of nibbles; `d * (q - 8)`.
pub(crate) struct Q4_0;
impl Format for Q4_0 {
    type Shape = Grouped<32, false, false>;
    const QUANT: QuantType = QuantType::Q4_0;
    const LEN: usize = 32;
    const BYTES: usize = 18;
    const OFFSET: i32 = 8;
    const SPAN: i32 = 15;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], _: &mut [f32]) {
        scale[0] = f16_at(block, 0);
        nibbles(&block[2..18], q, |v| v as i8 - 8);
    }
}

/// Q4_1: d f16, m f16, 16 bytes of nibbles; `d * q + m`.
pub(crate) struct Q4_1;
impl Format for Q4_1 {
    type Shape = Grouped<32, true, false>;
    const QUANT: QuantType = QuantType::Q4_1;
    const LEN: usize = 32;
    const BYTES: usize = 20;
    const OFFSET: i32 = 0;
    const SPAN: i32 = 15;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        scale[0] = f16_at(block, 0);
        min[0] = -f16_at(block, 2);
        nibbles(&block[4..20], q, |v| v as i8);
    }
}

/// Q5_0: d f16, 32 high bits, 16 bytes of nibbles; `d * (q - 16)`.
pub(crate) struct Q5_0;
impl Format for Q5_0 {
    type Shape = Grouped<32, false, false>;
    const QUANT: QuantType = QuantType::Q5_0;
    const LEN: usize = 32;
    const BYTES: usize = 22;
    const OFFSET: i32 = 16;
    const SPAN: i32 = 31;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], _: &mut [f32]) {
        scale[0] = f16_at(block, 0);
        five_bits(&block[6..22], u32_at(block, 2), q, 16);
    }
}

/// Q5_1: d f16, m f16, 32 high bits, 16 bytes of nibbles; `d * q + m`.
pub(crate) struct Q5_1;
impl Format for Q5_1 {
    type Shape = Grouped<32, true, false>;
    const QUANT: QuantType = QuantType::Q5_1;
    const LEN: usize = 32;
    const BYTES: usize = 24;
    const OFFSET: i32 = 0;
    const SPAN: i32 = 31;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        scale[0] = f16_at(block, 0);
        min[0] = -f16_at(block, 2);
        five_bits(&block[8..24], u32_at(block, 4), q, 0);
    }
}

/// Q8_0: d f16, 32 signed bytes.
pub(crate) struct Q8_0;
impl Format for Q8_0 {
    type Shape = Grouped<32, false, false>;
    const QUANT: QuantType = QuantType::Q8_0;
    const LEN: usize = 32;
    const BYTES: usize = 34;
    const OFFSET: i32 = 128;
    const SPAN: i32 = 255;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], _: &mut [f32]) {
        scale[0] = f16_at(block, 0);
        for (q, &v) in q[..32].iter_mut().zip(&block[2..34]) {
            *q = v as i8;
        }
    }
}

/// IQ4_NL: d f16, 16 bytes of nibbles that index `IQ4_LEVELS`.
pub(crate) struct Iq4Nl;
impl Format for Iq4Nl {
    type Shape = Grouped<32, false, false>;
    const QUANT: QuantType = QuantType::IQ4_NL;
    const LEN: usize = 32;
    const BYTES: usize = 18;
    const OFFSET: i32 = 128;
    const SPAN: i32 = 255;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], _: &mut [f32]) {
        scale[0] = f16_at(block, 0);
        nibbles(&block[2..18], q, |v| IQ4_LEVELS[usize::from(v & 15)]);
    }
}

/// Half of the power of two that an e8m0 byte encodes (`ggml_e8m0_to_fp32_half`).
#[inline(always)]
pub(crate) fn e8m0_half(e: u8) -> f32 {
    let e = u32::from(e);
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (e - 1) << 23 })
}

/// MXFP4: one e8m0 byte, 16 bytes of nibbles that index `MXFP4_LEVELS`.
pub(crate) struct Mxfp4;
impl Format for Mxfp4 {
    type Shape = Grouped<32, false, false>;
    const QUANT: QuantType = QuantType::MXFP4;
    const LEN: usize = 32;
    const BYTES: usize = 17;
    const OFFSET: i32 = 16;
    const SPAN: i32 = 28;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], _: &mut [f32]) {
        scale[0] = e8m0_half(block[0]);
        nibbles(&block[1..17], q, |v| MXFP4_LEVELS[usize::from(v & 15)]);
    }
}

/// Half of an unsigned e4m3 number (bias 7; 0x7f means zero, as in `ggml_ue4m3_to_fp32`).
#[inline(always)]
pub(crate) fn ue4m3_half(v: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(v >> 3 & 15), u32::from(v & 7));
    if v & 0x7f == 0x7f {
        0.0
    } else if exponent == 0 {
        mantissa as f32 * f32::from_bits((127 - 10) << 23)
    } else {
        f32::from_bits((exponent + 127 - 8) << 23 | mantissa << 20)
    }
}

/// NVFP4: four ue4m3 scales, then per 16 values 8 bytes of nibbles that index `MXFP4_LEVELS`.
pub(crate) struct Nvfp4;
impl Format for Nvfp4 {
    type Shape = Grouped<16, false, false>;
    const QUANT: QuantType = QuantType::NVFP4;
    const LEN: usize = 64;
    const BYTES: usize = 36;
    const OFFSET: i32 = 16;
    const SPAN: i32 = 28;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], _: &mut [f32]) {
        let (block, q) = (first::<36, _>(block), first_mut::<64, _>(q));
        for g in 0..4 {
            scale[g] = ue4m3_half(block[g]);
            for i in 0..8 {
                let v = block[4 + g * 8 + i];
                q[g * 16 + i] = MXFP4_LEVELS[usize::from(v & 15)];
                q[g * 16 + 8 + i] = MXFP4_LEVELS[usize::from(v >> 4)];
            }
        }
    }
}
