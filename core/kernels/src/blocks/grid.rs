//! The codebook formats IQ1, IQ2 and IQ3. Layouts: `block_iq2_xxs` and so on in ggml-common.h; unpacking as in
//! `dequantize_row_iq*` of ggml-quants.c.

use super::QuantType;
use super::format::{Factors, Format, GROUPS, Grouped, WideFormat, first, first_mut, scaled};
use half::f16;

use super::bytes::{f16_at, u16_at, u32_at};
use super::tables::{EVEN_MASKS, IQ1_TIMES_8, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, SIGN_MASKS};

/// Copies eight positive values to `q`, negated where the byte of `mask` has all bits set.
#[inline(always)]
fn signed(q: &mut [i8], values: u64, mask: u64) {
    let q = first_mut::<8, _>(q);
    // Two's complement byte by byte: as no value is zero, adding one to the complement carries into no other byte.
    let negated = (values ^ mask).wrapping_add(mask & 0x0101_0101_0101_0101);
    *q = negated.to_le_bytes().map(|v| v as i8);
}

/// The value of scale bits in these formats: an odd number.
#[inline(always)]
fn odd(bits: u8) -> i16 {
    1 + 2 * i16::from(bits)
}

/// IQ2_XXS: d f16, per 32 values four book indices and 32 bits of signs (4 x 7) and scale (4).
pub(crate) struct Iq2Xxs;
impl Format for Iq2Xxs {
    type Shape = Grouped<32, false, true>;
    const QUANT: QuantType = QuantType::IQ2_XXS;
    const LEN: usize = 256;
    const BYTES: usize = 66;
    const OFFSET: i32 = 64;
    const SPAN: i32 = 107;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (block, q) = (first::<66, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(block, scale, min);
        for g in 0..8 {
            let bits = u32_at(block, 2 + g * 8 + 4);
            for i in 0..4 {
                let book = IQ2_XXS[usize::from(block[2 + g * 8 + i])];
                let signs = EVEN_MASKS[(bits >> (7 * i) & 127) as usize];
                signed(&mut q[g * 32 + i * 8..], book, signs);
            }
        }
    }
}
impl WideFormat for Iq2Xxs {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        for (g, scale) in scale.iter_mut().take(8).enumerate() {
            *scale = odd((u32_at(block, 2 + g * 8 + 4) >> 28) as u8);
        }
        Factors { d: f16_at(block, 0) * 0.125, dmin: 0.0 }
    }
}

/// IQ2_XS: d f16, 32 words of book index (9) and signs (7), 8 bytes of scale nibbles.
pub(crate) struct Iq2Xs;
impl Format for Iq2Xs {
    type Shape = Grouped<16, false, true>;
    const QUANT: QuantType = QuantType::IQ2_XS;
    const LEN: usize = 256;
    const BYTES: usize = 74;
    const OFFSET: i32 = 64;
    const SPAN: i32 = 107;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (block, q) = (first::<74, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(block, scale, min);
        for g in 0..16 {
            for i in 0..2 {
                let word = u16_at(block, 2 + g * 4 + i * 2);
                let signs = EVEN_MASKS[usize::from(word >> 9)];
                signed(&mut q[g * 16 + i * 8..], IQ2_XS[usize::from(word & 511)], signs);
            }
        }
    }
}
impl WideFormat for Iq2Xs {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        let block = first::<74, _>(block);
        for (g, scale) in scale.iter_mut().enumerate() {
            *scale = odd(block[66 + g / 2] >> (4 * (g % 2)) & 15);
        }
        Factors { d: f16_at(block, 0) * 0.125, dmin: 0.0 }
    }
}

/// IQ2_S: d f16, 32 low index bytes, 32 sign bytes, 8 bytes of high index bits, 8 bytes of scale nibbles.
pub(crate) struct Iq2S;
impl Format for Iq2S {
    type Shape = Grouped<16, false, true>;
    const QUANT: QuantType = QuantType::IQ2_S;
    const LEN: usize = 256;
    const BYTES: usize = 82;
    const OFFSET: i32 = 64;
    const SPAN: i32 = 107;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (block, q) = (first::<82, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(block, scale, min);
        for n in 0..32 {
            let high = block[66 + n / 4] >> (2 * (n % 4)) & 3;
            let index = usize::from(block[2 + n]) | usize::from(high) << 8;
            signed(&mut q[n * 8..], IQ2_S[index], SIGN_MASKS[usize::from(block[34 + n])]);
        }
    }
}
impl WideFormat for Iq2S {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        let block = first::<82, _>(block);
        for (g, scale) in scale.iter_mut().enumerate() {
            *scale = odd(block[74 + g / 2] >> (4 * (g % 2)) & 15);
        }
        Factors { d: f16_at(block, 0) * 0.125, dmin: 0.0 }
    }
}

/// IQ3_XXS: d f16, 64 book indices, per 32 values 32 bits of signs (4 x 7) and scale (4).
pub(crate) struct Iq3Xxs;
impl Format for Iq3Xxs {
    type Shape = Grouped<32, false, true>;
    const QUANT: QuantType = QuantType::IQ3_XXS;
    const LEN: usize = 256;
    const BYTES: usize = 98;
    const OFFSET: i32 = 64;
    const SPAN: i32 = 126;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (block, q) = (first::<98, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(block, scale, min);
        for g in 0..8 {
            let bits = u32_at(block, 66 + g * 4);
            for i in 0..4 {
                let signs = EVEN_MASKS[(bits >> (7 * i) & 127) as usize];
                let index = 2 + g * 8 + i * 2;
                let (a, b) = (IQ3_XXS[usize::from(block[index])], IQ3_XXS[usize::from(block[index + 1])]);
                signed(&mut q[g * 32 + i * 8..], u64::from(a) | u64::from(b) << 32, signs);
            }
        }
    }
}
impl WideFormat for Iq3Xxs {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        for (g, scale) in scale.iter_mut().take(8).enumerate() {
            *scale = odd((u32_at(block, 66 + g * 4) >> 28) as u8);
        }
        Factors { d: f16_at(block, 0) * 0.25, dmin: 0.0 }
    }
}

/// IQ3_S: d f16, 64 low index bytes, 8 bytes of high index bits, 32 sign bytes, 4 bytes of scale nibbles.
pub(crate) struct Iq3S;
impl Format for Iq3S {
    type Shape = Grouped<32, false, true>;
    const QUANT: QuantType = QuantType::IQ3_S;
    const LEN: usize = 256;
    const BYTES: usize = 110;
    const OFFSET: i32 = 16;
    const SPAN: i32 = 31;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (block, q) = (first::<110, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(block, scale, min);
        for g in 0..8 {
            let high = usize::from(block[66 + g]);
            for i in 0..4 {
                let book = |n: usize| {
                    let index = usize::from(block[2 + g * 8 + n]) | (high << (8 - n) & 256);
                    u64::from(IQ3_S[index])
                };
                let mask = SIGN_MASKS[usize::from(block[74 + g * 4 + i])];
                signed(&mut q[g * 32 + i * 8..], book(2 * i) | book(2 * i + 1) << 32, mask);
            }
        }
    }
}
impl WideFormat for Iq3S {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        let block = first::<110, _>(block);
        for (g, scale) in scale.iter_mut().take(8).enumerate() {
            *scale = odd(block[106 + g / 2] >> (4 * (g % 2)) & 15);
        }
        Factors { d: f16_at(block, 0), dmin: 0.0 }
    }
}

/// Eight values of the IQ1 codebook, shifted up or down by an eighth; times eight.
#[inline(always)]
fn shifted(q: &mut [i8], index: usize, down: bool) {
    let q = first_mut::<8, _>(q);
    let values = IQ1_TIMES_8[index & 2047].to_le_bytes();
    let delta = if down { -1 } else { 1 };
    for (q, v) in q.iter_mut().zip(values) {
        *q = v as i8 + delta;
    }
}

/// IQ1_S: d f16, 32 low index bytes, 8 words of high index bits (4 x 3), scale (3) and shift sign.
pub(crate) struct Iq1S;
impl Format for Iq1S {
    type Shape = Grouped<32, false, true>;
    const QUANT: QuantType = QuantType::IQ1_S;
    const LEN: usize = 256;
    const BYTES: usize = 50;
    const OFFSET: i32 = 16;
    const SPAN: i32 = 25;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (block, q) = (first::<50, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(block, scale, min);
        for g in 0..8 {
            let word = u16_at(block, 34 + g * 2);
            for i in 0..4 {
                let high = usize::from(word >> (3 * i) & 7);
                let index = usize::from(block[2 + g * 4 + i]) | high << 8;
                shifted(&mut q[g * 32 + i * 8..], index, word & 0x8000 != 0);
            }
        }
    }
}
impl WideFormat for Iq1S {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        for (g, scale) in scale.iter_mut().take(8).enumerate() {
            *scale = odd((u16_at(block, 34 + g * 2) >> 12 & 7) as u8);
        }
        Factors { d: f16_at(block, 0) * 0.125, dmin: 0.0 }
    }
}

/// IQ1_M: 32 low index bytes, 16 bytes of high index bits and shift signs, 4 words of scales (4 x 3) whose top
/// nibbles together are the f16 factor.
pub(crate) struct Iq1M;
impl Format for Iq1M {
    type Shape = Grouped<16, false, true>;
    const QUANT: QuantType = QuantType::IQ1_M;
    const LEN: usize = 256;
    const BYTES: usize = 56;
    const OFFSET: i32 = 16;
    const SPAN: i32 = 25;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (block, q) = (first::<56, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(block, scale, min);
        for g in 0..16 {
            for i in 0..2 {
                let high = block[32 + g] >> (4 * i);
                let index = usize::from(block[g * 2 + i]) | usize::from(high & 7) << 8;
                shifted(&mut q[g * 16 + i * 8..], index, high & 8 != 0);
            }
        }
    }
}
impl WideFormat for Iq1M {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        let words: [u16; 4] = std::array::from_fn(|i| u16_at(block, 48 + i * 2));
        let factor = words[0] >> 12 | words[1] >> 8 & 0xf0 | words[2] >> 4 & 0xf00 | words[3] & 0xf000;
        for (g, scale) in scale.iter_mut().enumerate() {
            *scale = odd((words[g / 4] >> (3 * (g % 4)) & 7) as u8);
        }
        Factors { d: f16::from_bits(factor).to_f32() * 0.125, dmin: 0.0 }
    }
}
