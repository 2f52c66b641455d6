//! Sixteen f32 lanes on every instruction set: kernels are written once over `Simd` and compiled for each family.
//!
//! A kernel is a value with an `#[inline(always)]` generic `run`. `dispatch` calls it inside a function with the
//! family's `#[target_feature]`, so everything that is inlined into it may use the wide registers.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over registers of constant number read better by index"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod math;
mod portable;
mod product;
#[cfg(test)]
mod tests;

pub(crate) use math::{erfc, exp, ln_1p_of_fraction, tanh};
pub(crate) use portable::fused;
pub(crate) use product::DenseProduct;

use crate::cpu::Cpu;
use crate::isa::DetectedIsa;

/// Lanes of one vector, the same for every family.
pub(crate) const LANES: usize = 16;

/// The operations of kernels, implemented by the proofs of the instruction sets (`isa::level`).
///
/// # Safety of the `_ptr` methods
/// The pointer must be valid for sixteen elements (reads or writes); no alignment is required.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// How many vectors of sixteen the registers hold: kernels choose the sizes of their tiles by it.
    const REGISTERS: usize;
    /// Sixteen f32.
    type F: Copy;

    fn splat(self, value: f32) -> Self::F;
    unsafe fn load_ptr(self, from: *const f32) -> Self::F;
    unsafe fn store_ptr(self, to: *mut f32, value: Self::F);
    /// Sixteen f16 bit patterns, widened.
    unsafe fn load_f16_ptr(self, from: *const u8) -> Self::F;
    /// Rounded to nearest even; numbers that are too large become infinite.
    unsafe fn store_f16_ptr(self, to: *mut u8, value: Self::F);
    /// Sixteen signed bytes, widened.
    unsafe fn load_i8_ptr(self, from: *const u8) -> Self::F;
    /// Rounded to nearest even; the values must be within -127..=127.
    unsafe fn store_i8_ptr(self, to: *mut u8, value: Self::F);

    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a * b`, rounded once.
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The larger one; `b` if either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The smaller one; `b` if either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    fn abs(self, a: Self::F) -> Self::F;
    /// To the nearest integer, halves to even.
    fn round(self, a: Self::F) -> Self::F;
    /// `a * 2^n`, rounded once, for integers `n` in -125..=128 and results that are not subnormal.
    fn scale_by_pow2(self, a: Self::F, n: Self::F) -> Self::F;
    /// `a < b ? x : y`, lane by lane; `y` if one of them is NaN.
    fn select_lt(self, a: Self::F, b: Self::F, x: Self::F, y: Self::F) -> Self::F;
    /// Lanes 2i and 2i + 1 exchanged.
    fn swap_pairs(self, a: Self::F) -> Self::F;
    /// The sum of the lanes, the same bits on every instruction set: each of the first eight lanes plus the one eight after
    /// it, each of the first four of these sums plus the one four after it, then two, then one.
    fn sum(self, a: Self::F) -> f32;
    /// Lane `i` is the `sum` of vector `i`, of at most sixteen; further lanes are undefined.
    #[inline(always)]
    fn sums<const R: usize>(self, rows: &[Self::F; R]) -> Self::F {
        let mut out = [0.0; LANES];
        for i in 0..R {
            out[i] = self.sum(rows[i]);
        }
        self.load(&out)
    }

    /// Runs a kernel as a separate function with this family's features, so that large kernels are not inlined into
    /// one.
    fn call<K: Kernel>(self, kernel: K) -> K::Output;
    /// One f16, widened.
    fn widen_f16(self, bits: u16) -> f32;
    /// Prefetches the cache line at any address.
    fn prefetch(self, address: *const u8);
    /// The largest lane (if no lane is NaN).
    fn largest(self, a: Self::F) -> f32;
    /// Lane `i` is the `largest` of vector `i`, of at most sixteen; further lanes are undefined.
    #[inline(always)]
    fn largests<const R: usize>(self, rows: &[Self::F; R]) -> Self::F {
        let mut out = [0.0; LANES];
        for i in 0..R {
            out[i] = self.largest(rows[i]);
        }
        self.load(&out)
    }

    /// The same four floats in every quarter of a vector.
    ///
    /// # Safety
    /// The pointer must be valid for reads of four elements.
    unsafe fn load_quarter_ptr(self, from: *const f32) -> Self::F;
    /// Vector `m` holds in its quarter `k` the f16 `4 m..4 m + 4` of the sixteen at `from[k]`, widened.
    ///
    /// # Safety
    /// The pointers must be valid for reads of sixteen f16.
    unsafe fn load_f16_quarters(self, from: [*const u8; 4]) -> [Self::F; 4];
    /// The same of signed bytes.
    ///
    /// # Safety
    /// The pointers must be valid for reads of sixteen bytes.
    unsafe fn load_i8_quarters(self, from: [*const u8; 4]) -> [Self::F; 4];
    /// Four f16, widened, each broadcast to all lanes of a quarter.
    fn spread_f16(self, bits: [u16; 4]) -> Self::F;
    /// Quarter `k` of vector `m` becomes quarter `m` of vector `k`.
    fn transpose_quarters(self, rows: [Self::F; 4]) -> [Self::F; 4];
    /// In every quarter, lane `j` of vector `i` becomes lane `i` of vector `j`.
    fn transpose_in_quarters(self, rows: [Self::F; 4]) -> [Self::F; 4];

    /// Lane `j` of vector `i` becomes lane `i` of vector `j`.
    #[inline(always)]
    fn transpose(self, rows: &[Self::F; LANES]) -> [Self::F; LANES] {
        let mut turned = [[rows[0]; 4]; 4];
        for (g, turned) in turned.iter_mut().enumerate() {
            let at = 4 * g;
            *turned = self.transpose_in_quarters([rows[at], rows[at + 1], rows[at + 2], rows[at + 3]]);
        }
        let mut out = *rows;
        for l in 0..4 {
            let columns = self.transpose_quarters([turned[0][l], turned[1][l], turned[2][l], turned[3][l]]);
            for q in 0..4 {
                out[4 * q + l] = columns[q];
            }
        }
        out
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        // SAFETY: the reference is to sixteen elements.
        unsafe { self.load_ptr(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES], value: Self::F) {
        // SAFETY: the reference is to sixteen elements.
        unsafe { self.store_ptr(to.as_mut_ptr(), value) }
    }

    /// The lanes as an array.
    #[inline(always)]
    fn lanes(self, a: Self::F) -> [f32; LANES] {
        let mut out = [0.0; LANES];
        self.store(&mut out, a);
        out
    }
}

/// A computation written once for all families.
pub(crate) trait Kernel {
    type Output;
    /// Must be `#[inline(always)]`, and so must everything that it calls with `s`.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// Runs the kernel with the instruction set of `cpu`.
#[inline]
pub(crate) fn dispatch<K: Kernel>(cpu: &Cpu, kernel: K) -> K::Output {
    dispatch_at(cpu.level(), kernel)
}

/// Runs the kernel with the instruction set of a proof.
#[inline]
pub(crate) fn dispatch_at<K: Kernel>(level: DetectedIsa, kernel: K) -> K::Output {
    match level {
        DetectedIsa::Portable(isa) => portable::enter(isa, kernel),
        #[cfg(target_arch = "x86_64")]
        DetectedIsa::Avx2(isa) => avx2::enter(isa, kernel),
        #[cfg(target_arch = "x86_64")]
        DetectedIsa::Avx512(isa) => avx512::enter(isa, kernel),
        // The compiler may use the baseline's Advanced SIMD for the plain form.
        #[cfg(target_arch = "aarch64")]
        DetectedIsa::Neon(_) => portable::enter(crate::isa::Portable, kernel),
    }
}
