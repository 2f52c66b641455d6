//! The engine for the wide formats (see `tiles`): 16 weight rows in lanes, four columns per dword, integers until a
//! tile's columns are done.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::bytes::{offset, pairs};
use super::transpose::turn;
use super::unpack::fill;
use crate::activations::{Int8Rows, Meta};
use crate::blocks::{GROUPS, Matrix, SUPER, WideFormat};
use crate::isa::{Avx2, avx2};
use crate::matmul::tiles::{self, LANES, TOKENS, TileProduct, TileRegion};
use crate::matmul::types::{Int8Activations, Kernel, KernelChoice, MatmulJob};
use crate::matmul::unpacked::{IntegerScales, Unpacked};
use crate::memory::Scratch;

/// Unpacked weights of 16 rows by 256 columns.
#[repr(C, align(64))]
struct Avx2WideTile {
    /// `[columns / 32][dword][16 rows x 4 columns]`: values plus their offset.
    q: [[[i8; 64]; 8]; 8],
    /// The integer scale of each group, in both halves of a dword.
    scale: [[u32; LANES]; GROUPS],
    /// Of two neighboring groups, in the halves of a dword: the integer minima or, in formats without, the scales.
    less: [[u32; LANES]; GROUPS / 2],
    /// The factors of the scales.
    d: [f32; LANES],
    /// The factors of the minima.
    dmin: [f32; LANES],
}

/// Tiles of a format, 8-bit products.
struct Avx2WideTiles<F: WideFormat>(PhantomData<F>);

/// The kernel for a format.
pub(super) fn choose<F: WideFormat>(_: Avx2) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the features; the function is for this format.
    KernelChoice { kernel: unsafe { Kernel::new(F::QUANT, gemm::<F>) }, tile: LANES }
}

avx2! {
fn gemm<F: WideFormat>(job: &mut MatmulJob<'_, Int8Activations>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Avx2WideTiles<F>, 1>(job, scratch, pack::<F>) }
}
}

/// Two 16-bit numbers in a dword.
#[inline(always)]
fn two(low: i16, high: i16) -> u32 {
    u32::from(low as u16) | u32::from(high as u16) << 16
}

avx2! {
/// Unpacks a place of the weights: see `tiles::Pack`.
///
/// # Safety
/// The place is in the matrix.
unsafe fn pack<F: WideFormat>(matrix: &Matrix, place: TileRegion, tile: &mut Avx2WideTile, _: usize, _: &mut ()) {
    let at = place.start / SUPER * F::BYTES;
    let mut w = [Unpacked::ZERO; LANES];
    for (i, w) in w.iter_mut().enumerate() {
        let block = &matrix.row(place.row + i.min(place.count - 1))[at..at + F::BYTES];
        fill::<F>(w, block);
        let whole = IntegerScales::of::<F>(block);
        for (to, scale) in tile.scale.iter_mut().zip(whole.scale) {
            to[i] = two(scale, scale);
        }
        let less = if F::MIN { whole.min } else { whole.scale };
        for (to, [low, high]) in tile.less.iter_mut().zip(less.as_chunks::<2>().0) {
            to[i] = two(*low, *high);
        }
        (tile.d[i], tile.dmin[i]) = (whole.factors.d, whole.factors.dmin);
    }
    turn(&w, offset::<F>(), &mut tile.q);
}
}

// SAFETY: an `Avx2WideTile` is numbers, aligned to 64; there is no scratch.
unsafe impl<F: WideFormat> TileProduct for Avx2WideTiles<F> {
    type Form = Int8Activations;
    type Tile = Avx2WideTile;
    type Scratch = ();
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER + size_of::<Meta>();

    avx2! {
    unsafe fn multiply<const R: usize>(
        tile: &Avx2WideTile,
        x: &Int8Rows,
        tokens: [usize; TOKENS],
        place: TileRegion,
        out: &mut [f32],
    ) {
        let panel = place.start / SUPER;
        let values = tokens.map(|t| x.values(panel, t));
        let mut totals = [[_mm256_setzero_si256(); 2]; TOKENS];
        for g in 0..8 {
            if F::GROUP == 32 {
                group::<F, 8>(tile, g, (g, 0), values, &mut totals);
            } else {
                group::<F, 4>(tile, 2 * g, (g, 0), values, &mut totals);
                group::<F, 4>(tile, 2 * g + 1, (g, 4), values, &mut totals);
            }
        }
        for ((token, totals), out) in tokens.into_iter().zip(totals).zip(out.as_chunks_mut::<LANES>().0) {
            let less = less::<F>(tile, x.meta(panel, token));
            finish::<F>(tile, x.meta(panel, token).d[0], (totals, less), out);
        }
    }
    }
}

avx2! {
/// Adds the products of one group of `4 * STEPS` columns, those from dword `first` of `tile.q[at]` on, times its scales.
#[inline]
fn group<F: WideFormat, const STEPS: usize>(
    tile: &Avx2WideTile,
    group: usize,
    (at, first): (usize, usize),
    x: [&[i8; SUPER]; TOKENS],
    totals: &mut [[__m256i; 2]; TOKENS],
) {
    // As many pairs of products as surely fit in 16 bits are added there.
    let depth = (32767 / (2 * 127 * F::SPAN)).clamp(1, STEPS as i32) as usize;
    let mut step = 0;
    while step < STEPS {
        let mut halves = [[_mm256_setzero_si256(); 2]; TOKENS];
        for i in first + step..first + STEPS.min(step + depth) {
            // SAFETY: 64 bytes; four values of 256 at `32 at + 4 i`.
            unsafe {
                let from = tile.q[at][i].as_ptr();
                let w = [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())];
                for (x, halves) in x.into_iter().zip(&mut halves) {
                    let x = _mm256_set1_epi32(x.as_ptr().add(32 * at + 4 * i).cast::<i32>().read_unaligned());
                    for (w, half) in w.into_iter().zip(halves) {
                        *half = _mm256_add_epi16(*half, pairs::<F>(w, x));
                    }
                }
            }
        }
        for (half, scale) in tile.scale[group].as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: eight dwords.
            let scale = unsafe { _mm256_loadu_si256(scale.as_ptr().cast()) };
            for (halves, totals) in halves.iter().zip(&mut *totals) {
                totals[half] = _mm256_add_epi32(totals[half], _mm256_madd_epi16(halves[half], scale));
            }
        }
        step += depth;
    }
}
}

avx2! {
/// The integer minima, or scales, times the sums of the activations.
#[inline]
fn less<F: WideFormat>(tile: &Avx2WideTile, meta: &Meta) -> [__m256i; 2] {
    let mut less = [_mm256_setzero_si256(); 2];
    if !F::MIN && offset::<F>() == 0 {
        return less;
    }
    for pair in 0..SUPER / F::GROUP / 2 {
        let sums = if F::GROUP == 32 { &meta.sum32[2 * pair..] } else { &meta.sum16[2 * pair..] };
        let sums = _mm256_set1_epi32(two(sums[0], sums[1]) as i32);
        for (less, two) in less.iter_mut().zip(tile.less[pair].as_chunks::<8>().0) {
            // SAFETY: eight dwords.
            let two = unsafe { _mm256_loadu_si256(two.as_ptr().cast()) };
            *less = _mm256_add_epi32(*less, _mm256_madd_epi16(two, sums));
        }
    }
    less
}
}

avx2! {
/// Adds the integer sums of a token, times both factors, and subtracts the minima: see the order in `matmul`.
#[inline]
fn finish<F: WideFormat>(
    tile: &Avx2WideTile,
    dx: f32,
    (totals, less): ([__m256i; 2], [__m256i; 2]),
    out: &mut [f32; LANES],
) {
    let dx = _mm256_set1_ps(dx);
    let offset = _mm_cvtsi32_si128(i32::from(offset::<F>()).max(1).ilog2() as i32);
    for (half, (total, less)) in totals.into_iter().zip(less).enumerate() {
        // SAFETY: `8 half + 8 <= 16` factors and results.
        unsafe {
            let to = out.as_mut_ptr().add(8 * half);
            let total = if F::MIN { total } else { _mm256_sub_epi32(total, _mm256_sll_epi32(less, offset)) };
            let d = _mm256_mul_ps(_mm256_loadu_ps(tile.d.as_ptr().add(8 * half)), dx);
            let mut sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(total), d, _mm256_loadu_ps(to));
            if F::MIN {
                let dmin = _mm256_mul_ps(_mm256_loadu_ps(tile.dmin.as_ptr().add(8 * half)), dx);
                sum = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(less), dmin, sum);
            }
            _mm256_storeu_ps(to, sum);
        }
    }
}
}
