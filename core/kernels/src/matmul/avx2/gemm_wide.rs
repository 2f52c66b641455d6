//! The engine for the wide formats (see `tiles`): 16 weight rows in lanes, four columns per dword, integers until a
//! tile's columns are done.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::bytes::{offset, pairs};
use super::transpose::{store_half, turn, turn_dwords};
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

/// The rows of a tile before they are transposed.
type UnpackedRows = ([Unpacked; LANES], [IntegerScales; LANES]);

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
unsafe fn pack<F: WideFormat>(
    matrix: &Matrix,
    place: TileRegion,
    tile: &mut Avx2WideTile,
    _: usize,
    (w, whole): &mut UnpackedRows,
) {
    let at = place.start / SUPER * F::BYTES;
    for (i, (w, whole)) in w.iter_mut().zip(&mut *whole).enumerate() {
        let block = &matrix.row(place.row + i.min(place.count - 1))[at..at + F::BYTES];
        fill::<F>(w, block);
        *whole = IntegerScales::of::<F>(block);
        (tile.d[i], tile.dmin[i]) = (whole.factors.d, whole.factors.dmin);
    }
    turn(w, offset::<F>(), &mut tile.q);
    // SAFETY: sixteen numbers.
    let load = |from: &[i16; GROUPS]| unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
    let low = _mm256_set1_epi32(0xffff);
    // Two neighboring groups in each dword.
    let each = |pair: usize, half: usize, two: __m256i| {
        if pair < SUPER / F::GROUP / 2 {
            let first = _mm256_or_si256(_mm256_and_si256(two, low), _mm256_slli_epi32::<16>(two));
            let second = _mm256_or_si256(_mm256_srli_epi32::<16>(two), _mm256_andnot_si256(low, two));
            store_half(&mut tile.scale[2 * pair], half, first);
            store_half(&mut tile.scale[2 * pair + 1], half, second);
            if !F::MIN {
                store_half(&mut tile.less[pair], half, two);
            }
        }
    };
    turn_dwords(|i| load(&whole[i].scale), each);
    if F::MIN {
        turn_dwords(|i| load(&whole[i].min), |pair, half, two| store_half(&mut tile.less[pair], half, two));
    }
}
}

// SAFETY: an `Avx2WideTile` and the scratch are numbers, aligned to 64.
unsafe impl<F: WideFormat> TileProduct for Avx2WideTiles<F> {
    type Form = Int8Activations;
    type Tile = Avx2WideTile;
    type Scratch = UnpackedRows;
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER + size_of::<Meta>();

    const PAIRS: bool = true;

    avx2! {
    unsafe fn multiply<const R: usize>(
        tile: &Avx2WideTile,
        x: &Int8Rows,
        tokens: [usize; TOKENS],
        place: TileRegion,
        out: &mut [f32],
    ) {
        add_tokens::<F, TOKENS>(tile, x, tokens, place, out);
    }
    }

    avx2! {
    unsafe fn multiply_pair<const R: usize>(
        tile: &Avx2WideTile,
        x: &Int8Rows,
        tokens: [usize; 2],
        place: TileRegion,
        out: &mut [f32],
    ) {
        add_tokens::<F, 2>(tile, x, tokens, place, out);
    }
    }
}

avx2! {
/// Adds the products of a tile with `T` tokens to `out`, `[T][16]`.
#[inline]
fn add_tokens<F: WideFormat, const T: usize>(
    tile: &Avx2WideTile,
    x: &Int8Rows,
    tokens: [usize; T],
    place: TileRegion,
    out: &mut [f32],
) {
    let panel = place.start / SUPER;
    let values = tokens.map(|t| x.values(panel, t));
    let mut totals = [[_mm256_setzero_si256(); 2]; T];
    for g in 0..8 {
        if F::GROUP == 32 {
            group::<F, 8, T>(tile, g, (g, 0), values, &mut totals);
        } else {
            group::<F, 4, T>(tile, 2 * g, (g, 0), values, &mut totals);
            group::<F, 4, T>(tile, 2 * g + 1, (g, 4), values, &mut totals);
        }
    }
    for ((token, totals), out) in tokens.into_iter().zip(totals).zip(out.as_chunks_mut::<LANES>().0) {
        let less = less::<F>(tile, x.meta(panel, token));
        finish::<F>(tile, x.meta(panel, token).d[0], (totals, less), out);
    }
}
}

avx2! {
/// Adds the products of one group of `4 * STEPS` columns, those from dword `first` of `tile.q[at]` on, times its scales.
#[inline]
fn group<F: WideFormat, const STEPS: usize, const T: usize>(
    tile: &Avx2WideTile,
    group: usize,
    (at, first): (usize, usize),
    x: [&[i8; SUPER]; T],
    totals: &mut [[__m256i; 2]; T],
) {
    // As many pairs of products as surely fit in 16 bits are added there.
    let depth = (32767 / (2 * 127 * F::SPAN)).clamp(1, STEPS as i32) as usize;
    let mut step = 0;
    while step < STEPS {
        let mut halves = [[_mm256_setzero_si256(); 2]; T];
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
