//! The innermost kernel of the wide formats (except IQ4_XS: see `multiply_narrow`): one tile times a few tokens.
//!
//! A lane sums one group of one row, its neighbor the other group of the pair. Sums of a group nearly always fit into
//! 16 bits: then those of 16 rows are packed into one vector, whose dwords have two groups of a row, and one
//! instruction scales and adds them, whereas 32-bit sums take two multiplications and two additions. An overflow is
//! detected (packing saturates), and the tile is multiplied again with 32 bits: integer sums are exact either way.
#![allow(clippy::needless_range_loop, reason = "several arrays are indexed by row vector and token")]

use std::arch::asm;
use std::arch::x86_64::*;

use super::multiply_narrow::{ActivationColumns, spread, vector};
use super::tile_wide::{WideTile, pair, steps};
use crate::activations::Meta;
use crate::blocks::{GroupShape, SUPER};
use crate::isa::avx512;

avx512! {
/// `_mm512_dpbusd_epi32`, in the order of the source: the compiler would compute one sum through all steps, whose
/// weights take all registers, and keep the totals in memory.
#[inline]
fn add_products(sum: __m512i, w: __m512i, x: __m512i) -> __m512i {
    let mut sum = sum;
    // SAFETY: an instruction on registers that the function's features include.
    unsafe {
        asm!(
            "vpdpbusd {}, {}, {}",
            inout(zmm_reg) sum,
            in(zmm_reg) w,
            in(zmm_reg) x,
            options(nomem, nostack, preserves_flags),
        );
    }
    sum
}
}

avx512! {
/// `_mm512_dpwssd_epi32`, as one instruction and in the order of the source.
#[inline]
fn add_scaled(sum: __m512i, pairs: __m512i, scales: __m512i) -> __m512i {
    let mut sum = sum;
    // SAFETY: as above.
    unsafe {
        asm!(
            "vpdpwssd {}, {}, {}",
            inout(zmm_reg) sum,
            in(zmm_reg) pairs,
            in(zmm_reg) scales,
            options(nomem, nostack, preserves_flags),
        );
    }
    sum
}
}

/// Integer sums of 16 rows in order, and of the tokens.
type Sums<const R: usize, const T: usize> = [[__m512i; T]; R];
/// Integer sums of both groups of a pair, in the order of a `Step`.
type PairSums<const R: usize, const T: usize> = [[[__m512i; T]; 2]; R];

avx512! {
/// Adds the products of a tile and `T` tokens to `out`, `[T][16 R]`, in the order that `matmul` defines, for any `R`
/// and `T`.
///
/// # Safety
/// The processor has AVX-512 VNNI; the pointers of `x` are valid, the values in the order of the format; `out` has room for
/// `16 * R * T` floats.
#[inline]
pub(super) unsafe fn multiply<S: GroupShape, const R: usize, const T: usize>(
    w: &WideTile,
    x: &ActivationColumns<T>,
    out: *mut f32,
) {
    // SAFETY: the caller's promises.
    unsafe {
        let mut total = [[_mm512_setzero_si512(); T]; R];
        let mut largest = _mm512_setzero_si512();
        for at in 0..SUPER / 2 / S::GROUP {
            let sums = dot::<S, R, T>(w, x, at);
            for r in 0..R {
                let scale = vector(w.scale[at][r].as_ptr());
                for t in 0..T {
                    let packed = _mm512_packs_epi32(sums[r][0][t], sums[r][1][t]);
                    largest = _mm512_max_epu16(largest, _mm512_abs_epi16(packed));
                    total[r][t] = add_scaled(total[r][t], packed, scale);
                }
            }
        }
        if _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(i16::MAX)) != 0 {
            return exactly::<S, R, T>(w, x, out);
        }
        finish::<S, R, T>(w, x.meta, total, out);
    }
}
}

avx512! {
/// Like `multiply`, with sums of any size: token by token, so that the inner loop of the other form has one user and is
/// inlined into it.
///
/// # Safety
/// As `multiply`.
#[cold]
#[inline(never)]
unsafe fn exactly<S: GroupShape, const R: usize, const T: usize>(
    w: &WideTile,
    x: &ActivationColumns<T>,
    out: *mut f32,
) {
    for t in 0..T {
        let x = ActivationColumns { values: [x.values[t]], meta: [x.meta[t]] };
        // SAFETY: the caller's promises.
        unsafe {
            let total = large_sums::<S, R>(w, &x);
            finish::<S, R, 1>(w, x.meta, total, out.add(t * R * 16));
        }
    }
}
}

avx512! {
/// The scaled integer sums, with 32 bits for each.
///
/// # Safety
/// As `multiply`.
#[inline]
unsafe fn large_sums<S: GroupShape, const R: usize>(w: &WideTile, x: &ActivationColumns<1>) -> Sums<R, 1> {
    let mut total = [[_mm512_setzero_si512()]; R];
    for at in 0..SUPER / 2 / S::GROUP {
        // SAFETY: the caller's promises; there are so many pairs.
        let sums = unsafe { dot::<S, R, 1>(w, x, at) };
        for r in 0..R {
            // SAFETY: 64 bytes.
            let scale = unsafe { vector(w.scale[at][r].as_ptr()) };
            // Each half in its own dword, in the order of the sums.
            let first = _mm512_srai_epi32::<16>(_mm512_unpacklo_epi16(scale, scale));
            let second = _mm512_srai_epi32::<16>(_mm512_unpackhi_epi16(scale, scale));
            let a = _mm512_castsi512_ps(_mm512_mullo_epi32(sums[r][0][0], first));
            let b = _mm512_castsi512_ps(_mm512_mullo_epi32(sums[r][1][0], second));
            let even = _mm512_castps_si512(_mm512_shuffle_ps::<0x88>(a, b));
            let odd = _mm512_castps_si512(_mm512_shuffle_ps::<0xdd>(a, b));
            total[r][0] = _mm512_add_epi32(total[r][0], _mm512_add_epi32(even, odd));
        }
    }
    total
}
}

avx512! {
/// The integer sums of the groups of pair `at`, one per lane.
///
/// # Safety
/// As `multiply`; there is such a pair.
#[inline]
unsafe fn dot<S: GroupShape, const R: usize, const T: usize>(
    w: &WideTile,
    x: &ActivationColumns<T>,
    at: usize,
) -> PairSums<R, T> {
    let mut sums = [[[_mm512_setzero_si512(); T]; 2]; R];
    // SAFETY: the caller's pointers to 256 values, and their sums.
    unsafe {
        for t in 0..T {
            let start = start::<S>(x.meta[t], at);
            for r in 0..R {
                (sums[r][0][t], sums[r][1][t]) = (start, start);
            }
        }
        // One after the other: a mispredicted end of a loop would cost more than a step.
        let first = at * steps::<S>();
        step(w, x, first, &mut sums);
        step(w, x, first + 1, &mut sums);
        step(w, x, first + 2, &mut sums);
        step(w, x, first + 3, &mut sums);
        if S::GROUP == 32 {
            step(w, x, first + 4, &mut sums);
            step(w, x, first + 5, &mut sums);
            step(w, x, first + 6, &mut sums);
            step(w, x, first + 7, &mut sums);
        }
    }
    sums
}
}

avx512! {
/// Adds the products of one step.
///
/// # Safety
/// As `multiply`; there is such a step.
#[inline]
unsafe fn step<const R: usize, const T: usize>(
    w: &WideTile,
    x: &ActivationColumns<T>,
    at: usize,
    sums: &mut PairSums<R, T>,
) {
    let mut values = [_mm512_setzero_si512(); T];
    for t in 0..T {
        // SAFETY: the caller's pointers to 256 values.
        values[t] = unsafe { _mm512_set1_epi64(x.values[t].add(8 * at).cast::<i64>().read_unaligned()) };
    }
    for r in 0..R {
        for half in 0..2 {
            // SAFETY: 64 bytes.
            let q = unsafe { vector(w.q[at][r][half].as_ptr()) };
            for t in 0..T {
                sums[r][half][t] = add_products(sums[r][half][t], q, values[t]);
            }
        }
    }
}
}

avx512! {
/// The initial integer sums of a pair: minus 128 times the sums of x, or zero for formats with minima.
///
/// # Safety
/// A valid pointer; there is such a pair.
#[inline]
unsafe fn start<S: GroupShape>(meta: *const Meta, at: usize) -> __m512i {
    if S::MIN {
        return _mm512_setzero_si512();
    }
    let [first, second] = pair::<S>(at);
    // SAFETY: the caller's pointer: 8 sums of 32, 16 of 16.
    unsafe {
        if S::GROUP == 16 {
            return _mm512_set1_epi64((&raw const (*meta).neg16[first]).cast::<i64>().read_unaligned());
        }
        let (first, second) = (spread(&raw const (*meta).neg32[first]), spread(&raw const (*meta).neg32[second]));
        _mm512_mask_blend_epi32(0xaaaa, first, second)
    }
}
}

avx512! {
/// Adds the converted sums times both factors, minus the minima, to `out`.
///
/// # Safety
/// As `multiply`.
#[inline]
unsafe fn finish<S: GroupShape, const R: usize, const T: usize>(
    w: &WideTile,
    meta: [*const Meta; T],
    total: Sums<R, T>,
    out: *mut f32,
) {
    // SAFETY: the caller's promises.
    unsafe {
        let min = if S::MIN { minima::<S, R, T>(w, meta) } else { total };
        for t in 0..T {
            let dx = _mm512_castsi512_ps(spread(&raw const (*meta[t]).d[0]));
            for r in 0..R {
                let to = out.add((t * R + r) * 16);
                let d = _mm512_mul_ps(_mm512_loadu_ps(w.d[r].as_ptr()), dx);
                let mut y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total[r][t]), d, _mm512_loadu_ps(to));
                if S::MIN {
                    let dmin = _mm512_mul_ps(_mm512_loadu_ps(w.dmin[r].as_ptr()), dx);
                    y = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(min[r][t]), dmin, y);
                }
                _mm512_storeu_ps(to, y);
            }
        }
    }
}
}

avx512! {
/// The integer sums of the minima.
///
/// # Safety
/// As `multiply`.
#[inline]
unsafe fn minima<S: GroupShape, const R: usize, const T: usize>(w: &WideTile, meta: [*const Meta; T]) -> Sums<R, T> {
    let mut sums = [[_mm512_setzero_si512(); T]; R];
    for pair in 0..SUPER / 2 / S::GROUP {
        for t in 0..T {
            // SAFETY: the caller's pointers: four pairs of sums of 32, eight of 16.
            unsafe {
                let x = if S::GROUP == 32 {
                    spread((&raw const (*meta[t]).sum32).cast::<i32>().add(pair))
                } else {
                    spread((&raw const (*meta[t]).sum16).cast::<i32>().add(pair))
                };
                for r in 0..R {
                    sums[r][t] = add_scaled(sums[r][t], vector(w.min[pair][r].as_ptr()), x);
                }
            }
        }
    }
    sums
}
}
