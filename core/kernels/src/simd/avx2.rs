//! AVX2 with FMA and F16C: a vector is two halves of eight lanes.

use std::arch::x86_64::*;

use super::{Kernel, Simd};
use crate::isa::{Avx2, avx2};

/// Sixteen lanes.
type F = (__m256, __m256);

/// Runs the kernel compiled for this family.
#[inline(always)]
pub(super) fn enter<K: Kernel>(isa: Avx2, kernel: K) -> K::Output {
    // SAFETY: the token is proof of the features.
    unsafe { compiled(isa, kernel) }
}

avx2! {
fn compiled<K: Kernel>(isa: Avx2, kernel: K) -> K::Output {
    kernel.run(isa)
}
}

/// An intrinsic without memory access (or one on memory that the method's contract makes valid).
macro_rules! avx {
    ($value:expr) => {{
        // SAFETY: an `Avx2` is proof of the features; pointers are valid by the contract of the `_ptr` methods.
        unsafe { $value }
    }};
}

/// An intrinsic on both halves. Macros and not closures: a closure is a function without the features.
macro_rules! both {
    ($f:ident, $a:expr, $b:expr) => {
        avx!(($f($a.0, $b.0), $f($a.1, $b.1)))
    };
}

/// The sum of eight lanes: halves, then quarters, then pairs.
#[inline(always)]
fn sum8(a: __m256) -> f32 {
    avx!({
        let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    })
}

/// `a * 2^n` in two steps, so that 2^128 can be reached: times 2, then times 2^(n - 1), in this order so that no
/// intermediate result is subnormal.
#[inline(always)]
fn scale8(a: __m256, n: __m256) -> __m256 {
    avx!({
        let bits = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(126));
        _mm256_mul_ps(_mm256_add_ps(a, a), _mm256_castsi256_ps(_mm256_slli_epi32::<23>(bits)))
    })
}

/// The first eight bytes, widened.
#[inline(always)]
fn widen8(bytes: __m128i) -> __m256 {
    avx!(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)))
}

/// `Simd::transpose_in_quarters` for two quarters.
#[inline(always)]
fn turn_quarters([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
    avx!({
        let low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
        let high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
        let low2 = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
        let high2 = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
        [
            _mm256_castpd_ps(_mm256_unpacklo_pd(low, low2)),
            _mm256_castpd_ps(_mm256_unpackhi_pd(low, low2)),
            _mm256_castpd_ps(_mm256_unpacklo_pd(high, high2)),
            _mm256_castpd_ps(_mm256_unpackhi_pd(high, high2)),
        ]
    })
}

impl Simd for Avx2 {
    const REGISTERS: usize = 8;
    type F = F;

    #[inline(always)]
    fn splat(self, value: f32) -> F {
        avx!({
            let half = _mm256_set1_ps(value);
            (half, half)
        })
    }

    #[inline(always)]
    unsafe fn load_ptr(self, from: *const f32) -> F {
        avx!((_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))))
    }

    #[inline(always)]
    unsafe fn store_ptr(self, to: *mut f32, value: F) {
        avx!({
            _mm256_storeu_ps(to, value.0);
            _mm256_storeu_ps(to.add(8), value.1);
        })
    }

    #[inline(always)]
    unsafe fn load_f16_ptr(self, from: *const u8) -> F {
        avx!((
            _mm256_cvtph_ps(_mm_loadu_si128(from.cast())),
            _mm256_cvtph_ps(_mm_loadu_si128(from.add(16).cast()))
        ))
    }

    #[inline(always)]
    unsafe fn store_f16_ptr(self, to: *mut u8, value: F) {
        avx!({
            _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value.0));
            _mm_storeu_si128(to.add(16).cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value.1));
        })
    }

    #[inline(always)]
    unsafe fn load_i8_ptr(self, from: *const u8) -> F {
        avx!({
            let bytes = _mm_loadu_si128(from.cast());
            let low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
            (low, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes))))
        })
    }

    #[inline(always)]
    unsafe fn store_i8_ptr(self, to: *mut u8, value: F) {
        avx!({
            // The packs work on 128-bit halves: the permutation puts the quarters in order before the last one.
            let words = _mm256_packs_epi32(_mm256_cvtps_epi32(value.0), _mm256_cvtps_epi32(value.1));
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
            let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(to.cast(), bytes);
        })
    }

    #[inline(always)]
    fn add(self, a: F, b: F) -> F {
        both!(_mm256_add_ps, a, b)
    }

    #[inline(always)]
    fn sub(self, a: F, b: F) -> F {
        both!(_mm256_sub_ps, a, b)
    }

    #[inline(always)]
    fn mul(self, a: F, b: F) -> F {
        both!(_mm256_mul_ps, a, b)
    }

    #[inline(always)]
    fn div(self, a: F, b: F) -> F {
        both!(_mm256_div_ps, a, b)
    }

    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        avx!((_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1)))
    }

    #[inline(always)]
    fn fnma(self, a: F, b: F, c: F) -> F {
        avx!((_mm256_fnmadd_ps(a.0, b.0, c.0), _mm256_fnmadd_ps(a.1, b.1, c.1)))
    }

    #[inline(always)]
    fn max(self, a: F, b: F) -> F {
        both!(_mm256_max_ps, a, b)
    }

    #[inline(always)]
    fn min(self, a: F, b: F) -> F {
        both!(_mm256_min_ps, a, b)
    }

    #[inline(always)]
    fn abs(self, a: F) -> F {
        avx!({
            let sign = _mm256_set1_ps(-0.0);
            (_mm256_andnot_ps(sign, a.0), _mm256_andnot_ps(sign, a.1))
        })
    }

    #[inline(always)]
    fn round(self, a: F) -> F {
        avx!((
            _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a.0),
            _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a.1)
        ))
    }

    #[inline(always)]
    fn scale_by_pow2(self, a: F, n: F) -> F {
        (scale8(a.0, n.0), scale8(a.1, n.1))
    }

    #[inline(always)]
    fn select_lt(self, a: F, b: F, x: F, y: F) -> F {
        avx!((
            _mm256_blendv_ps(y.0, x.0, _mm256_cmp_ps::<_CMP_LT_OQ>(a.0, b.0)),
            _mm256_blendv_ps(y.1, x.1, _mm256_cmp_ps::<_CMP_LT_OQ>(a.1, b.1))
        ))
    }

    #[inline(always)]
    fn swap_pairs(self, a: F) -> F {
        avx!((_mm256_permute_ps::<0b10_11_00_01>(a.0), _mm256_permute_ps::<0b10_11_00_01>(a.1)))
    }

    #[inline(always)]
    fn sum(self, a: F) -> f32 {
        sum8(avx!(_mm256_add_ps(a.0, a.1)))
    }

    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        enter(self, kernel)
    }

    #[inline(always)]
    fn widen_f16(self, bits: u16) -> f32 {
        avx!(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))))
    }

    #[inline(always)]
    fn prefetch(self, address: *const u8) {
        avx!(_mm_prefetch::<_MM_HINT_T0>(address.cast()))
    }

    #[inline(always)]
    unsafe fn load_quarter_ptr(self, from: *const f32) -> F {
        avx!({
            let four = _mm_loadu_ps(from);
            let half = _mm256_set_m128(four, four);
            (half, half)
        })
    }

    #[inline(always)]
    unsafe fn load_f16_quarters(self, from: [*const u8; 4]) -> [F; 4] {
        avx!({
            let (a, b) = (_mm_loadu_si128(from[0].cast()), _mm_loadu_si128(from[1].cast()));
            let (c, d) = (_mm_loadu_si128(from[2].cast()), _mm_loadu_si128(from[3].cast()));
            let (e, f) = (_mm_loadu_si128(from[0].add(16).cast()), _mm_loadu_si128(from[1].add(16).cast()));
            let (g, h) = (_mm_loadu_si128(from[2].add(16).cast()), _mm_loadu_si128(from[3].add(16).cast()));
            [
                (_mm256_cvtph_ps(_mm_unpacklo_epi64(a, b)), _mm256_cvtph_ps(_mm_unpacklo_epi64(c, d))),
                (_mm256_cvtph_ps(_mm_unpackhi_epi64(a, b)), _mm256_cvtph_ps(_mm_unpackhi_epi64(c, d))),
                (_mm256_cvtph_ps(_mm_unpacklo_epi64(e, f)), _mm256_cvtph_ps(_mm_unpacklo_epi64(g, h))),
                (_mm256_cvtph_ps(_mm_unpackhi_epi64(e, f)), _mm256_cvtph_ps(_mm_unpackhi_epi64(g, h))),
            ]
        })
    }

    #[inline(always)]
    unsafe fn load_i8_quarters(self, from: [*const u8; 4]) -> [F; 4] {
        avx!({
            let (a, b) = (_mm_loadu_si128(from[0].cast()), _mm_loadu_si128(from[1].cast()));
            let (c, d) = (_mm_loadu_si128(from[2].cast()), _mm_loadu_si128(from[3].cast()));
            let (low, high) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
            let (low2, high2) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
            // Four bytes of each of two rows are adjacent.
            [
                (widen8(low), widen8(low2)),
                (widen8(_mm_unpackhi_epi64(low, low)), widen8(_mm_unpackhi_epi64(low2, low2))),
                (widen8(high), widen8(high2)),
                (widen8(_mm_unpackhi_epi64(high, high)), widen8(_mm_unpackhi_epi64(high2, high2))),
            ]
        })
    }

    #[inline(always)]
    fn spread_f16(self, bits: [u16; 4]) -> F {
        let bits = u64::from(bits[0])
            | u64::from(bits[1]) << 16
            | u64::from(bits[2]) << 32
            | u64::from(bits[3]) << 48;
        avx!({
            let four = _mm_cvtph_ps(_mm_cvtsi64_si128(bits as i64));
            let (low, high) = (_mm_unpacklo_ps(four, four), _mm_unpackhi_ps(four, four));
            let low = _mm256_set_m128(_mm_unpackhi_ps(low, low), _mm_unpacklo_ps(low, low));
            (low, _mm256_set_m128(_mm_unpackhi_ps(high, high), _mm_unpacklo_ps(high, high)))
        })
    }

    #[inline(always)]
    fn transpose_quarters(self, [a, b, c, d]: [F; 4]) -> [F; 4] {
        avx!([
            (_mm256_permute2f128_ps::<0x20>(a.0, b.0), _mm256_permute2f128_ps::<0x20>(c.0, d.0)),
            (_mm256_permute2f128_ps::<0x31>(a.0, b.0), _mm256_permute2f128_ps::<0x31>(c.0, d.0)),
            (_mm256_permute2f128_ps::<0x20>(a.1, b.1), _mm256_permute2f128_ps::<0x20>(c.1, d.1)),
            (_mm256_permute2f128_ps::<0x31>(a.1, b.1), _mm256_permute2f128_ps::<0x31>(c.1, d.1)),
        ])
    }

    #[inline(always)]
    fn transpose_in_quarters(self, [a, b, c, d]: [F; 4]) -> [F; 4] {
        let low = turn_quarters([a.0, b.0, c.0, d.0]);
        let high = turn_quarters([a.1, b.1, c.1, d.1]);
        [(low[0], high[0]), (low[1], high[1]), (low[2], high[2]), (low[3], high[3])]
    }

    #[inline(always)]
    fn largest(self, a: F) -> f32 {
        avx!({
            let eight = _mm256_max_ps(a.0, a.1);
            let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        })
    }
}
