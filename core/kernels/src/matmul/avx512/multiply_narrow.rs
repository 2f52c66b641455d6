//! The innermost kernel of the narrow formats, and of IQ4_XS, whose values would often exceed the sums of the other
//! wide formats' kernel (`multiply_wide`): one tile times a few tokens.
#![allow(clippy::needless_range_loop, reason = "several arrays are indexed by row vector and token")]

use std::arch::x86_64::*;

use super::tile_narrow::{NarrowTile, VECTORS};
use crate::activations::Meta;
use crate::blocks::GroupShape;
use crate::isa::avx512;

/// Where the rounded activations of `T` tokens lie in one panel.
#[derive(Clone, Copy)]
pub(super) struct ActivationColumns<const T: usize> {
    /// 256 values each.
    pub(super) values: [*const i8; T],
    /// Their scales and sums.
    pub(super) meta: [*const Meta; T],
}

avx512! {
/// Four bytes (or one f32, i32) at `p`, in every lane.
#[inline]
pub(super) unsafe fn spread<P>(p: *const P) -> __m512i {
    // SAFETY: the caller promises four readable bytes.
    _mm512_set1_epi32(unsafe { p.cast::<i32>().read_unaligned() })
}
}

avx512! {
#[inline]
pub(super) unsafe fn vector<P>(p: *const P) -> __m512i {
    // SAFETY: the caller promises 64 readable bytes.
    unsafe { _mm512_loadu_si512(p.cast()) }
}
}

avx512! {
/// Adds `STEPS` dwords of columns, from `step` on, to the dot products of a group of 32.
#[inline]
unsafe fn dot<const R: usize, const T: usize, const STEPS: usize>(
    q: &[[[u8; 64]; VECTORS]; 8],
    step: usize,
    x: [*const i8; T],
    mut sum: [[__m512i; T]; R],
) -> [[__m512i; T]; R] {
    for i in step..step + STEPS {
        let mut w = [_mm512_setzero_si512(); R];
        for (r, w) in w.iter_mut().enumerate() {
            // SAFETY: 64 bytes.
            *w = unsafe { vector(q[i][r].as_ptr()) };
        }
        for t in 0..T {
            // SAFETY: the caller promises 32 values behind each pointer, `i < 8`.
            let x = unsafe { spread(x[t].add(4 * i)) };
            for r in 0..R {
                sum[r][t] = _mm512_dpbusd_epi32(sum[r][t], w[r], x);
            }
        }
    }
    sum
}
}

avx512! {
/// Adds the products of a tile and `T` tokens to `out`, `[T][16 R]`, in the order that `matmul` defines, for any `R`
/// and `T`.
///
/// # Safety
/// The processor has AVX-512 VNNI; the pointers of `x` are valid; `out` has room for `16 * R * T` floats.
#[inline]
pub(super) unsafe fn multiply<S: GroupShape, const R: usize, const T: usize>(
    w: &NarrowTile,
    x: &ActivationColumns<T>,
    groups: usize,
    out: *mut f32,
) {
    const { assert!(!S::WIDE || !S::MIN, "a tile that has no room for whole minima") }
    // For IQ4_XS the bits of integers.
    let mut total = [[_mm512_setzero_ps(); T]; R];
    for g in 0..groups.min(8) {
        // SAFETY: `g < 8`: 32 values and the g-th scale and sums are there.
        unsafe {
            let values = x.values.map(|p| p.add(g * 32));
            if S::GROUP == 32 {
                let start = start::<R, T>(x.meta.map(|m| &raw const (*m).neg32[g]), S::MIN);
                let sum = dot::<R, T, 8>(&w.q[g], 0, values, start);
                scale::<S, R, T>(w, g, sum, x, &mut total);
            } else {
                for half in 0..2 {
                    let group = 2 * g + half;
                    let start = start::<R, T>(x.meta.map(|m| &raw const (*m).neg16[group]), S::MIN);
                    let sum = dot::<R, T, 4>(&w.q[g], half * 4, values, start);
                    scale::<S, R, T>(w, group, sum, x, &mut total);
                }
            }
            if S::MIN {
                for t in 0..T {
                    let s = _mm512_castsi512_ps(spread(&raw const (*x.meta[t]).dsum[g]));
                    for r in 0..R {
                        let min = _mm512_loadu_ps(w.min[g][r].as_ptr());
                        total[r][t] = _mm512_fnmadd_ps(min, s, total[r][t]);
                    }
                }
            }
        }
    }
    for r in 0..R {
        for t in 0..T {
            // SAFETY: the caller promises the room and the pointers.
            unsafe {
                let to = out.add((t * R + r) * 16);
                let old = _mm512_loadu_ps(to);
                let new = if S::WIDE {
                    let dx = _mm512_castsi512_ps(spread(&raw const (*x.meta[t]).d[0]));
                    let d = _mm512_mul_ps(_mm512_loadu_ps(w.d[r].as_ptr()), dx);
                    _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_castps_si512(total[r][t])), d, old)
                } else {
                    _mm512_add_ps(total[r][t], old)
                };
                _mm512_storeu_ps(to, new);
            }
        }
    }
}
}

avx512! {
/// The initial integer sums: minus 128 times the sum of x, or zero for formats with minima.
#[inline]
unsafe fn start<const R: usize, const T: usize>(neg: [*const i32; T], min: bool) -> [[__m512i; T]; R] {
    let mut sum = [[_mm512_setzero_si512(); T]; R];
    if !min {
        for (t, neg) in neg.into_iter().enumerate() {
            // SAFETY: the caller's pointer to an i32.
            let v = unsafe { spread(neg) };
            for sum in &mut sum {
                sum[t] = v;
            }
        }
    }
    sum
}
}

avx512! {
/// Adds a group's integer sums, scaled, to the totals: integers for IQ4_XS, else f32.
#[inline]
unsafe fn scale<S: GroupShape, const R: usize, const T: usize>(
    w: &NarrowTile,
    group: usize,
    sum: [[__m512i; T]; R],
    x: &ActivationColumns<T>,
    total: &mut [[__m512; T]; R],
) {
    for t in 0..T {
        // SAFETY: the caller's pointers; `group` is below 8 or 16 by `S::GROUP`.
        let d = unsafe { _mm512_castsi512_ps(spread(&raw const (*x.meta[t]).d[group * S::GROUP / 32])) };
        for r in 0..R {
            // SAFETY: 64 bytes.
            let s = unsafe { _mm512_loadu_ps(w.scale[group][r].as_ptr()) };
            total[r][t] = if S::WIDE {
                let scaled = _mm512_mullo_epi32(sum[r][t], _mm512_castps_si512(s));
                _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(total[r][t]), scaled))
            } else {
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][t]), _mm512_mul_ps(s, d), total[r][t])
            };
        }
    }
}
}
