//! Plain Rust arrays, compiled for the target's baseline.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::{Kernel, LANES, Simd};
use crate::isa::Portable;

type F = [f32; LANES];

/// Runs the kernel as a function of its own.
#[inline(never)]
pub(super) fn enter<K: Kernel>(isa: Portable, kernel: K) -> K::Output {
    kernel.run(isa)
}

#[inline(always)]
fn map2(a: F, b: F, f: impl Fn(f32, f32) -> f32) -> F {
    let mut out = a;
    for (x, y) in out.iter_mut().zip(b) {
        *x = f(*x, y);
    }
    out
}

/// `a * b + c`, rounded once, whatever the processor has.
///
/// Without the instruction, `mul_add` calls the system's library for every element. The product of two f32 is exact in
/// f64; if the sum is rounded to odd there, the second rounding, to f32, gives the same result as a single one (Boldo
/// and Melquiond 2008).
#[inline(always)]
pub(crate) fn fused(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        return a.mul_add(b, c);
    }
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    // The error of the sum (Knuth's TwoSum); NaN if something is infinite.
    let back = sum - product;
    let lost = (product - (sum - back)) + (c - back);
    let bits = sum.to_bits();
    let inexact = (lost > 0.0) | (lost < 0.0);
    let away = (lost > 0.0) == (sum > 0.0);
    let step = if inexact & (bits & 1 == 0) { if away { 1 } else { u64::MAX } } else { 0 };
    f64::from_bits(bits.wrapping_add(step)) as f32
}

/// On x86-64, whose baseline has no fused multiply-add, every operation is a separate function: kernels spend their time in the
/// emulated fused products anyway, and the sixteen scalars of each inlined operation took a third of the time to compile this
/// crate.
impl Simd for Portable {
    const REGISTERS: usize = 4;
    type F = F;

    #[inline(always)]
    fn splat(self, value: f32) -> F {
        [value; LANES]
    }

    #[inline(always)]
    unsafe fn load_ptr(self, from: *const f32) -> F {
        // SAFETY: valid for sixteen elements by the method's contract.
        unsafe { from.cast::<F>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_ptr(self, to: *mut f32, value: F) {
        // SAFETY: valid for sixteen elements by the method's contract.
        unsafe { to.cast::<F>().write_unaligned(value) }
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    unsafe fn load_f16_ptr(self, from: *const u8) -> F {
        // SAFETY: valid for sixteen elements by the method's contract.
        let bits = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        let mut out = [0.0; LANES];
        bits.map(f16::from_bits).convert_to_f32_slice(&mut out);
        out
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    unsafe fn store_f16_ptr(self, to: *mut u8, value: F) {
        let bits = value.map(|value| f16::from_f32(value).to_bits());
        // SAFETY: valid for sixteen elements by the method's contract.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(bits) }
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    unsafe fn load_i8_ptr(self, from: *const u8) -> F {
        // SAFETY: valid for sixteen elements by the method's contract.
        let bytes = unsafe { from.cast::<[i8; LANES]>().read_unaligned() };
        bytes.map(f32::from)
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    unsafe fn store_i8_ptr(self, to: *mut u8, value: F) {
        let bytes = self.round(value).map(|value| value as i8);
        // SAFETY: valid for sixteen elements by the method's contract.
        unsafe { to.cast::<[i8; LANES]>().write_unaligned(bytes) }
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn add(self, a: F, b: F) -> F {
        map2(a, b, |a, b| a + b)
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn sub(self, a: F, b: F) -> F {
        map2(a, b, |a, b| a - b)
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn mul(self, a: F, b: F) -> F {
        map2(a, b, |a, b| a * b)
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn div(self, a: F, b: F) -> F {
        map2(a, b, |a, b| a / b)
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn fma(self, a: F, b: F, c: F) -> F {
        let mut out = c;
        for i in 0..LANES {
            out[i] = fused(a[i], b[i], c[i]);
        }
        out
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn fnma(self, a: F, b: F, c: F) -> F {
        let mut out = c;
        for i in 0..LANES {
            out[i] = fused(-a[i], b[i], c[i]);
        }
        out
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn max(self, a: F, b: F) -> F {
        map2(a, b, |a, b| if a > b { a } else { b })
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn min(self, a: F, b: F) -> F {
        map2(a, b, |a, b| if a < b { a } else { b })
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn abs(self, a: F) -> F {
        a.map(f32::abs)
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn round(self, a: F) -> F {
        // Adding and subtracting 1.5 * 2^23 rounds to nearest even for magnitudes below 2^22; callers of this function
        // pass no larger values.
        const MAGIC: f32 = 12_582_912.0;
        a.map(|a| (a + MAGIC) - MAGIC)
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn scale_by_pow2(self, a: F, n: F) -> F {
        map2(a, n, |a, n| {
            // NaN becomes 0 here and stays in `a`.
            let bits = ((n as i32 - 1 + 127) << 23) as u32;
            (a + a) * f32::from_bits(bits)
        })
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn select_lt(self, a: F, b: F, x: F, y: F) -> F {
        let mut out = y;
        for i in 0..LANES {
            out[i] = if a[i] < b[i] { x[i] } else { y[i] };
        }
        out
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn swap_pairs(self, a: F) -> F {
        let mut out = a;
        for (pair, from) in out.as_chunks_mut::<2>().0.iter_mut().zip(a.as_chunks::<2>().0) {
            *pair = [from[1], from[0]];
        }
        out
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn sum(self, a: F) -> f32 {
        let mut lanes = a;
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        lanes[0]
    }

    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        enter(self, kernel)
    }

    #[inline(always)]
    fn widen_f16(self, bits: u16) -> f32 {
        f16::from_bits(bits).to_f32()
    }

    #[inline(always)]
    fn prefetch(self, _: *const u8) {}

    #[inline(always)]
    unsafe fn load_quarter_ptr(self, from: *const f32) -> F {
        // SAFETY: valid for four elements by the method's contract.
        let four = unsafe { from.cast::<[f32; 4]>().read_unaligned() };
        std::array::from_fn(|lane| four[lane % 4])
    }

    #[inline(always)]
    unsafe fn load_f16_quarters(self, from: [*const u8; 4]) -> [F; 4] {
        // SAFETY: valid for sixteen f16 each by the method's contract.
        self.transpose_quarters(from.map(|from| unsafe { self.load_f16_ptr(from) }))
    }

    #[inline(always)]
    unsafe fn load_i8_quarters(self, from: [*const u8; 4]) -> [F; 4] {
        // SAFETY: valid for sixteen bytes each by the method's contract.
        self.transpose_quarters(from.map(|from| unsafe { self.load_i8_ptr(from) }))
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn spread_f16(self, bits: [u16; 4]) -> F {
        let four = bits.map(|bits| f16::from_bits(bits).to_f32());
        std::array::from_fn(|lane| four[lane / 4])
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn transpose_quarters(self, rows: [F; 4]) -> [F; 4] {
        std::array::from_fn(|m| std::array::from_fn(|lane| rows[lane / 4][4 * m + lane % 4]))
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn transpose_in_quarters(self, rows: [F; 4]) -> [F; 4] {
        std::array::from_fn(|j| std::array::from_fn(|lane| rows[lane % 4][lane / 4 * 4 + j]))
    }

    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn largest(self, a: F) -> f32 {
        let mut lanes = a;
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] = lanes[i].max(lanes[i + half]);
            }
        }
        lanes[0]
    }
}
