//! AVX-512: a vector is one register.

use std::arch::x86_64::*;

use super::{Kernel, LANES, Simd};
use crate::isa::{Avx512, avx512};

type F = __m512;

/// Runs the kernel compiled for this family.
#[inline(always)]
pub(super) fn enter<K: Kernel>(isa: Avx512, kernel: K) -> K::Output {
    // SAFETY: the token is proof of the features.
    unsafe { compiled(isa, kernel) }
}

avx512! {
fn compiled<K: Kernel>(isa: Avx512, kernel: K) -> K::Output {
    kernel.run(isa)
}
}

/// An intrinsic without memory access (or one on memory that the method's contract makes valid).
macro_rules! avx {
    ($value:expr) => {{
        // SAFETY: an `Avx512` is proof of the features; pointers are valid by the contract of the `_ptr` methods.
        unsafe { $value }
    }};
}

/// Sixteen bytes of each of two places.
///
/// # Safety
/// The processor must have AVX2, and the pointers must be valid for reads of sixteen bytes.
#[inline(always)]
unsafe fn two_halves(low: *const u8, high: *const u8) -> __m256i {
    avx!({
        let low = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high.cast()))
    })
}

/// Each of up to sixteen vectors reduced to one lane, in the tree of `sum`; vector `i` to lane `i`.
macro_rules! fold {
    ($rows:expr, $both:ident) => {
        avx!({
            let mut rows = [_mm512_setzero_ps(); LANES];
            rows[..R].copy_from_slice($rows);
            for i in 0..LANES / 2 {
                let (a, b) = (rows[2 * i], rows[2 * i + 1]);
                rows[i] = $both(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
            }
            for i in 0..LANES / 4 {
                let (a, b) = (rows[2 * i], rows[2 * i + 1]);
                rows[i] = $both(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
            }
            for i in 0..LANES / 8 {
                let (a, b) = (_mm512_castps_pd(rows[2 * i]), _mm512_castps_pd(rows[2 * i + 1]));
                let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
                rows[i] = $both(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
            }
            let (a, b) = (rows[0], rows[1]);
            let turned = $both(_mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xdd>(a, b));
            // Lane 4 q + j is that of vector q + 4 j.
            let places = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
            _mm512_permutexvar_ps(places, turned)
        })
    };
}

impl Simd for Avx512 {
    const REGISTERS: usize = 32;
    type F = F;

    #[inline(always)]
    fn splat(self, value: f32) -> F {
        avx!(_mm512_set1_ps(value))
    }

    #[inline(always)]
    unsafe fn load_ptr(self, from: *const f32) -> F {
        avx!(_mm512_loadu_ps(from))
    }

    #[inline(always)]
    unsafe fn store_ptr(self, to: *mut f32, value: F) {
        avx!(_mm512_storeu_ps(to, value))
    }

    #[inline(always)]
    unsafe fn load_f16_ptr(self, from: *const u8) -> F {
        avx!(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast())))
    }

    #[inline(always)]
    unsafe fn store_f16_ptr(self, to: *mut u8, value: F) {
        avx!(_mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value)))
    }

    #[inline(always)]
    unsafe fn load_i8_ptr(self, from: *const u8) -> F {
        avx!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))))
    }

    #[inline(always)]
    unsafe fn store_i8_ptr(self, to: *mut u8, value: F) {
        avx!(_mm_storeu_si128(to.cast(), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(value))))
    }

    #[inline(always)]
    fn add(self, a: F, b: F) -> F {
        avx!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: F, b: F) -> F {
        avx!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: F, b: F) -> F {
        avx!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: F, b: F) -> F {
        avx!(_mm512_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        avx!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn fnma(self, a: F, b: F, c: F) -> F {
        avx!(_mm512_fnmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn max(self, a: F, b: F) -> F {
        avx!(_mm512_max_ps(a, b))
    }

    #[inline(always)]
    fn min(self, a: F, b: F) -> F {
        avx!(_mm512_min_ps(a, b))
    }

    #[inline(always)]
    fn abs(self, a: F) -> F {
        avx!(_mm512_abs_ps(a))
    }

    #[inline(always)]
    fn round(self, a: F) -> F {
        avx!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(a))
    }

    #[inline(always)]
    fn scale_by_pow2(self, a: F, n: F) -> F {
        avx!(_mm512_scalef_ps(a, n))
    }

    #[inline(always)]
    fn select_lt(self, a: F, b: F, x: F, y: F) -> F {
        avx!(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), y, x))
    }

    #[inline(always)]
    fn swap_pairs(self, a: F) -> F {
        avx!(_mm512_permute_ps::<0b10_11_00_01>(a))
    }

    #[inline(always)]
    fn sum(self, a: F) -> f32 {
        // The order of `_mm512_reduce_add_ps` is not guaranteed.
        avx!({
            let eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        })
    }

    #[inline(always)]
    fn sums<const R: usize>(self, rows: &[F; R]) -> F {
        fold!(rows, _mm512_add_ps)
    }

    #[inline(always)]
    fn largests<const R: usize>(self, rows: &[F; R]) -> F {
        fold!(rows, _mm512_max_ps)
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
        avx!(_mm512_broadcast_f32x4(_mm_loadu_ps(from)))
    }

    #[inline(always)]
    unsafe fn load_f16_quarters(self, from: [*const u8; 4]) -> [F; 4] {
        // Halves of rows are combined as they are loaded: one shuffle for each result.
        avx!({
            let (a, b) = (two_halves(from[0], from[2]), two_halves(from[1], from[3]));
            let (c, d) =
                (two_halves(from[0].add(16), from[2].add(16)), two_halves(from[1].add(16), from[3].add(16)));
            [
                _mm512_cvtph_ps(_mm256_unpacklo_epi64(a, b)),
                _mm512_cvtph_ps(_mm256_unpackhi_epi64(a, b)),
                _mm512_cvtph_ps(_mm256_unpacklo_epi64(c, d)),
                _mm512_cvtph_ps(_mm256_unpackhi_epi64(c, d)),
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
            [
                _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_unpacklo_epi64(low, low2))),
                _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_unpackhi_epi64(low, low2))),
                _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_unpacklo_epi64(high, high2))),
                _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_unpackhi_epi64(high, high2))),
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
            let four = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi64_si128(bits as i64)));
            let places = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
            _mm512_permutexvar_ps(places, four)
        })
    }

    #[inline(always)]
    fn transpose_quarters(self, [a, b, c, d]: [F; 4]) -> [F; 4] {
        avx!({
            let (low, high) = (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
            let (low2, high2) = (_mm512_shuffle_f32x4::<0x44>(c, d), _mm512_shuffle_f32x4::<0xee>(c, d));
            [
                _mm512_shuffle_f32x4::<0x88>(low, low2),
                _mm512_shuffle_f32x4::<0xdd>(low, low2),
                _mm512_shuffle_f32x4::<0x88>(high, high2),
                _mm512_shuffle_f32x4::<0xdd>(high, high2),
            ]
        })
    }

    #[inline(always)]
    fn transpose_in_quarters(self, [a, b, c, d]: [F; 4]) -> [F; 4] {
        avx!({
            let low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
            let high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
            let low2 = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
            let high2 = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
            [
                _mm512_castpd_ps(_mm512_unpacklo_pd(low, low2)),
                _mm512_castpd_ps(_mm512_unpackhi_pd(low, low2)),
                _mm512_castpd_ps(_mm512_unpacklo_pd(high, high2)),
                _mm512_castpd_ps(_mm512_unpackhi_pd(high, high2)),
            ]
        })
    }

    #[inline(always)]
    fn largest(self, a: F) -> f32 {
        avx!(_mm512_reduce_max_ps(a))
    }

    #[inline(always)]
    fn transpose(self, rows: &[F; LANES]) -> [F; LANES] {
        let mut pairs = *rows;
        for i in 0..8 {
            pairs[2 * i] = avx!(_mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]));
            pairs[2 * i + 1] = avx!(_mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]));
        }
        // Quarter q of `quads[4 j + c]` is column 4 q + c of the rows 4 j to 4 j + 3.
        let mut quads = pairs;
        for j in 0..4 {
            for c in 0..2 {
                let a = avx!(_mm512_castps_pd(pairs[4 * j + c]));
                let b = avx!(_mm512_castps_pd(pairs[4 * j + c + 2]));
                quads[4 * j + 2 * c] = avx!(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)));
                quads[4 * j + 2 * c + 1] = avx!(_mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
            }
        }
        let mut out = quads;
        for c in 0..4 {
            let (a, b) = (quads[c], quads[c + 4]);
            let (d, e) = (quads[c + 8], quads[c + 12]);
            avx!({
                let (even, odd) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
                let (even2, odd2) = (_mm512_shuffle_f32x4::<0x88>(d, e), _mm512_shuffle_f32x4::<0xdd>(d, e));
                out[c] = _mm512_shuffle_f32x4::<0x88>(even, even2);
                out[c + 8] = _mm512_shuffle_f32x4::<0xdd>(even, even2);
                out[c + 4] = _mm512_shuffle_f32x4::<0x88>(odd, odd2);
                out[c + 12] = _mm512_shuffle_f32x4::<0xdd>(odd, odd2);
            });
        }
        out
    }
}
