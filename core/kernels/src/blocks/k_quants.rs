//! The K-quants and IQ4_XS: blocks of 256 with scales of few bits. Layouts: `block_q2_K` and so on in
//! ggml-common.h; unpacking as in `dequantize_row_*` of ggml-quants.c.

use super::QuantType;
use super::bytes::{f16_at, u16_at};
use super::format::{Factors, Format, GROUPS, Grouped, WideFormat, first, first_mut, scaled};
use super::four_bit::IQ4_LEVELS;

/// Q2_K: 16 bytes of (scale, minimum) nibbles, 64 bytes of two bits, d f16, dmin f16.
pub(crate) struct Q2K;
impl Format for Q2K {
    type Shape = Grouped<16, true, true>;
    const QUANT: QuantType = QuantType::Q2_K;
    const LEN: usize = 256;
    const BYTES: usize = 84;
    const OFFSET: i32 = 0;
    const SPAN: i32 = 3;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (b, q) = (first::<84, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(b, scale, min);
        for half in 0..2 {
            for shift in 0..4 {
                for i in 0..32 {
                    q[half * 128 + shift * 32 + i] = (b[16 + half * 32 + i] >> (2 * shift) & 3) as i8;
                }
            }
        }
    }
}
impl WideFormat for Q2K {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], min: &mut [i16; GROUPS]) -> Factors {
        let b = first::<84, _>(block);
        for g in 0..16 {
            scale[g] = i16::from(b[g] & 15);
            min[g] = i16::from(b[g] >> 4);
        }
        Factors { d: f16_at(b, 80), dmin: f16_at(b, 82) }
    }
}

/// Q3_K: 32 bytes of high bits, 64 bytes of two bits, 12 bytes of 6-bit scales, d f16.
pub(crate) struct Q3K;
impl Format for Q3K {
    type Shape = Grouped<16, false, true>;
    const QUANT: QuantType = QuantType::Q3_K;
    const LEN: usize = 256;
    const BYTES: usize = 110;
    const OFFSET: i32 = 4;
    const SPAN: i32 = 7;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (b, q) = (first::<110, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(b, scale, min);
        for half in 0..2 {
            for shift in 0..4 {
                for i in 0..32 {
                    let low = b[32 + half * 32 + i] >> (2 * shift) & 3;
                    let high = b[i] >> (half * 4 + shift) & 1;
                    q[half * 128 + shift * 32 + i] = (low | high << 2) as i8 - 4;
                }
            }
        }
    }
}
impl WideFormat for Q3K {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        let b = first::<110, _>(block);
        for (g, scale) in scale.iter_mut().enumerate() {
            let low = b[96 + g % 8] >> (4 * (g / 8)) & 15;
            let high = b[104 + g % 4] >> (2 * (g / 4)) & 3;
            *scale = i16::from(low | high << 4) - 32;
        }
        Factors { d: f16_at(b, 108), dmin: 0.0 }
    }
}

/// The eight 6-bit scales and minima of Q4_K and Q5_K, from 12 bytes (`get_scale_min_k4`).
#[inline(always)]
fn scales_and_minima(s: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scale, mut min) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scale[j] = s[j] & 63;
        min[j] = s[j + 4] & 63;
        scale[j + 4] = s[j + 8] & 15 | s[j] >> 6 << 4;
        min[j + 4] = s[j + 8] >> 4 | s[j + 4] >> 6 << 4;
    }
    (scale, min)
}

/// Reads d, dmin and the 12 scale bytes that open a Q4_K or Q5_K block.
#[inline(always)]
fn open_block(block: &[u8], scale: &mut [i16; GROUPS], min: &mut [i16; GROUPS]) -> Factors {
    let (s, m) = scales_and_minima(first::<12, _>(&block[4..]));
    for g in 0..8 {
        scale[g] = i16::from(s[g]);
        min[g] = i16::from(m[g]);
    }
    Factors { d: f16_at(block, 0), dmin: f16_at(block, 2) }
}

/// Q4_K: d f16, dmin f16, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.
pub(crate) struct Q4K;
impl Format for Q4K {
    type Shape = Grouped<32, true, true>;
    const QUANT: QuantType = QuantType::Q4_K;
    const LEN: usize = 256;
    const BYTES: usize = 144;
    const OFFSET: i32 = 0;
    const SPAN: i32 = 15;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (b, q) = (first::<144, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(b, scale, min);
        for pair in 0..4 {
            for i in 0..32 {
                let v = b[16 + pair * 32 + i];
                q[pair * 64 + i] = (v & 15) as i8;
                q[pair * 64 + 32 + i] = (v >> 4) as i8;
            }
        }
    }
}
impl WideFormat for Q4K {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], min: &mut [i16; GROUPS]) -> Factors {
        open_block(first::<144, _>(block), scale, min)
    }
}

/// Q5_K: as Q4_K with 32 bytes of high bits before the nibbles.
pub(crate) struct Q5K;
impl Format for Q5K {
    type Shape = Grouped<32, true, true>;
    const QUANT: QuantType = QuantType::Q5_K;
    const LEN: usize = 256;
    const BYTES: usize = 176;
    const OFFSET: i32 = 0;
    const SPAN: i32 = 31;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (b, q) = (first::<176, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(b, scale, min);
        for pair in 0..4 {
            for i in 0..32 {
                let (v, high) = (b[48 + pair * 32 + i], b[16 + i]);
                q[pair * 64 + i] = (v & 15 | (high >> (2 * pair) & 1) << 4) as i8;
                q[pair * 64 + 32 + i] = (v >> 4 | (high >> (2 * pair + 1) & 1) << 4) as i8;
            }
        }
    }
}
impl WideFormat for Q5K {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], min: &mut [i16; GROUPS]) -> Factors {
        open_block(first::<176, _>(block), scale, min)
    }
}

/// Q6_K: 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, d f16.
pub(crate) struct Q6K;
impl Format for Q6K {
    type Shape = Grouped<16, false, true>;
    const QUANT: QuantType = QuantType::Q6_K;
    const LEN: usize = 256;
    const BYTES: usize = 210;
    const OFFSET: i32 = 32;
    const SPAN: i32 = 63;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (b, q) = (first::<210, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(b, scale, min);
        for half in 0..2 {
            for i in 0..32 {
                let (a, c, high) = (b[half * 64 + i], b[half * 64 + 32 + i], b[128 + half * 32 + i]);
                let out = half * 128 + i;
                q[out] = (a & 15 | (high & 3) << 4) as i8 - 32;
                q[out + 32] = (c & 15 | (high >> 2 & 3) << 4) as i8 - 32;
                q[out + 64] = (a >> 4 | (high >> 4 & 3) << 4) as i8 - 32;
                q[out + 96] = (c >> 4 | (high >> 6) << 4) as i8 - 32;
            }
        }
    }
}
impl WideFormat for Q6K {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        let b = first::<210, _>(block);
        for (g, scale) in scale.iter_mut().enumerate() {
            *scale = i16::from(b[192 + g] as i8);
        }
        Factors { d: f16_at(b, 208), dmin: 0.0 }
    }
}

/// IQ4_XS: d f16, 2 bytes of high and 4 bytes of low scale bits, 128 bytes of nibbles into `IQ4_LEVELS`.
pub(crate) struct Iq4Xs;
impl Format for Iq4Xs {
    type Shape = Grouped<32, false, true>;
    const QUANT: QuantType = QuantType::IQ4_XS;
    const LEN: usize = 256;
    const BYTES: usize = 136;
    const OFFSET: i32 = 128;
    const SPAN: i32 = 255;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (b, q) = (first::<136, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(b, scale, min);
        for g in 0..8 {
            for i in 0..16 {
                let v = b[8 + g * 16 + i];
                q[g * 32 + i] = IQ4_LEVELS[usize::from(v & 15)];
                q[g * 32 + 16 + i] = IQ4_LEVELS[usize::from(v >> 4)];
            }
        }
    }
}
impl WideFormat for Iq4Xs {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        let b = first::<136, _>(block);
        let high = u16_at(b, 2);
        for (g, scale) in scale.iter_mut().take(8).enumerate() {
            let low = b[4 + g / 2] >> (4 * (g % 2)) & 15;
            let top = (high >> (2 * g) & 3) as u8;
            *scale = i16::from(low | top << 4) - 32;
        }
        Factors { d: f16_at(b, 0), dmin: 0.0 }
    }
}
