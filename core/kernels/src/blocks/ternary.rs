//! The ternary formats: values -1, 0, 1 with one scale per 256. Layouts: `block_tq1_0`, `block_tq2_0` in
//! ggml-common.h.

use super::QuantType;
use super::bytes::f16_at;
use super::format::{Factors, Format, GROUPS, Grouped, WideFormat, first, first_mut, scaled};

const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

/// One ternary digit: the byte holds a fraction, `power` moves the digit to the top.
#[inline(always)]
fn digit(byte: u8, power: u8) -> i8 {
    ((u16::from(byte.wrapping_mul(power)) * 3) >> 8) as i8 - 1
}

/// TQ1_0: 48 bytes of five digits, 4 bytes of four digits, d f16.
pub(crate) struct Tq1_0;
impl Format for Tq1_0 {
    type Shape = Grouped<32, false, true>;
    const QUANT: QuantType = QuantType::TQ1_0;
    const LEN: usize = 256;
    const BYTES: usize = 54;
    const OFFSET: i32 = 1;
    const SPAN: i32 = 2;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (b, q) = (first::<54, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(b, scale, min);
        for (n, power) in POWERS.into_iter().enumerate() {
            for i in 0..32 {
                q[n * 32 + i] = digit(b[i], power);
            }
            for i in 0..16 {
                q[160 + n * 16 + i] = digit(b[32 + i], power);
            }
        }
        for (n, power) in POWERS.into_iter().take(4).enumerate() {
            for i in 0..4 {
                q[240 + n * 4 + i] = digit(b[48 + i], power);
            }
        }
    }
}
impl WideFormat for Tq1_0 {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        scale[..8].fill(1);
        Factors { d: f16_at(block, 52), dmin: 0.0 }
    }
}

/// TQ2_0: 64 bytes of two bits, d f16.
pub(crate) struct Tq2_0;
impl Format for Tq2_0 {
    type Shape = Grouped<32, false, true>;
    const QUANT: QuantType = QuantType::TQ2_0;
    const LEN: usize = 256;
    const BYTES: usize = 66;
    const OFFSET: i32 = 1;
    const SPAN: i32 = 3;
    #[inline(always)]
    fn expand(block: &[u8], q: &mut [i8], scale: &mut [f32], min: &mut [f32]) {
        let (b, q) = (first::<66, _>(block), first_mut::<256, _>(q));
        scaled::<Self>(b, scale, min);
        for half in 0..2 {
            for shift in 0..4 {
                for i in 0..32 {
                    q[half * 128 + shift * 32 + i] = (b[half * 32 + i] >> (2 * shift) & 3) as i8 - 1;
                }
            }
        }
    }
}
impl WideFormat for Tq2_0 {
    #[inline(always)]
    fn whole(block: &[u8], scale: &mut [i16; GROUPS], _: &mut [i16; GROUPS]) -> Factors {
        scale[..8].fill(1);
        Factors { d: f16_at(block, 64), dmin: 0.0 }
    }
}
