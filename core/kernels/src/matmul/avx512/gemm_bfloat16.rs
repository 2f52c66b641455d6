//! The engine for 16-bit float weights and activations rounded to bfloat16 (AVX-512 BF16): see `tiles`. BF16 weights
//! are always multiplied in this way, as in llama.cpp; F16 weights, which lose three bits, only if the options
//! of the `Cpu` request it.

use std::arch::x86_64::*;

use super::bfloat16_weights::{BFloat16Weights, F16Weights, StoredHalf, half_pairs};
use super::tile_narrow::transpose16;
use crate::activations::BFloat16Rows;
use crate::blocks::{FloatType, Matrix};
use crate::isa::Avx512BFloat16;
use crate::matmul::order::{BFloat16Input, FloatInput, SUMS};
use crate::matmul::tiles::{self, LANES, Pack, TOKENS, TileProduct, TileRegion};
use crate::matmul::types::{BFloat16, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// The row vectors of a tile.
const VECTORS: usize = 3;
/// The columns of a tile, a panel: with 48 rows 24 KiB.
const COLS: usize = BFloat16Input::PANEL;

/// Pairs of weights, `[pair of columns][row vector][row]`.
type Tile = [[[u32; LANES]; VECTORS]; COLS / 2];

/// The kernel for a type of 16 bits; none for F32.
pub(super) fn choose(_: Avx512BFloat16, float: FloatType) -> Option<KernelChoice<BFloat16>> {
    // SAFETY: the token is proof of the features; the functions are for these types.
    let kernel = unsafe {
        match float {
            FloatType::F32 => return None,
            FloatType::F16 => Kernel::new(float, gemm::<F16Weights>),
            FloatType::BF16 => Kernel::new(float, gemm::<BFloat16Weights>),
        }
    };
    Some(KernelChoice { kernel, tile: VECTORS * LANES })
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
fn gemm<W: StoredHalf>(job: &mut MatmulJob<'_, BFloat16>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { run(job, scratch, pack::<W>) }
}

/// Both types of weights share this function.
///
/// # Safety
/// The processor has what `pack` needs.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
unsafe fn run(job: &mut MatmulJob<'_, BFloat16>, scratch: &mut Scratch, pack: Pack<BFloat16Product>) {
    // SAFETY: the features are this function's own; the promise of the caller.
    unsafe { tiles::run::<BFloat16Product, VECTORS>(job, scratch, pack) }
}

/// Unpacks a place of the weights: see `tiles::Pack`.
///
/// # Safety
/// The place is in the matrix.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
unsafe fn pack<W: StoredHalf>(w: &Matrix, place: TileRegion, tile: &mut Tile, r: usize, _: &mut ()) {
    for k in (0..place.cols).step_by(32) {
        let n = (place.cols - k).min(32);
        let mask = 0xffff_ffffu32 >> (32 - n);
        let mut a = [_mm512_setzero_si512(); 16];
        for (i, a) in a.iter_mut().enumerate() {
            let row = w.row(place.row + i.min(place.count - 1)).as_ptr();
            // SAFETY: the mask names `n` values from column `start + k` of the row on, which are there.
            *a = unsafe { W::halves(_mm512_maskz_loadu_epi16(mask, row.cast::<i16>().add(place.start + k))) };
        }
        let to = &mut tile[k / 2..k / 2 + n.div_ceil(2)];
        for (pair, to) in transpose16(a).into_iter().zip(to) {
            // SAFETY: 64 writable bytes.
            unsafe { _mm512_storeu_si512(to[r].as_mut_ptr().cast(), pair) };
        }
    }
}

/// Multiplies tiles of bfloat16.
struct BFloat16Product;

// SAFETY: whole numbers; the size of a tile is a multiple of a vector's, 64 bytes.
unsafe impl TileProduct for BFloat16Product {
    type Form = BFloat16;
    type Tile = Tile;
    type Scratch = ();
    const COLS: usize = COLS;
    const TOKEN_BYTES: usize = COLS * size_of::<u16>();

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
    unsafe fn multiply<const R: usize>(
        tile: &Tile,
        x: &BFloat16Rows,
        tokens: [usize; TOKENS],
        place: TileRegion,
        out: &mut [f32],
    ) {
        let pairs = place.cols.div_ceil(2);
        let x = tokens.map(|t| &x.row(t)[place.start..place.start + 2 * pairs]);
        let mut totals = one_of_eight::<R>(tile, x, 0);
        for sum in 1..SUMS {
            let more = one_of_eight::<R>(tile, x, sum);
            for (totals, more) in totals.iter_mut().zip(more) {
                for (total, more) in totals.iter_mut().zip(more) {
                    *total = _mm512_add_ps(*total, more);
                }
            }
        }
        for (r, totals) in totals.into_iter().enumerate() {
            for (t, total) in totals.into_iter().enumerate() {
                let to = out[(t * R + r) * LANES..][..LANES].as_mut_ptr();
                // SAFETY: 16 floats.
                unsafe { _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), total)) };
            }
        }
    }
}

/// One of the eight sums of a panel (see `order`): that of the pairs `sum`, `sum + 8` and so on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
fn one_of_eight<const R: usize>(tile: &Tile, x: [&[u16]; TOKENS], sum: usize) -> [[__m512; TOKENS]; R] {
    let pairs = x[0].len() / 2;
    let mut sums = [[_mm512_setzero_ps(); TOKENS]; R];
    let mut k = sum;
    while k < pairs {
        // SAFETY: at most 128 pairs, those of a tile; 64 bytes each.
        let w: [__m512i; R] =
            std::array::from_fn(|r| unsafe { _mm512_loadu_si512(tile.get_unchecked(k)[r].as_ptr().cast()) });
        for (t, x) in x.into_iter().enumerate() {
            // SAFETY: `2 k + 2 <= x.len()`, which all rows have.
            let x = _mm512_set1_epi32(unsafe { x.as_ptr().add(2 * k).cast::<i32>().read_unaligned() });
            for r in 0..R {
                sums[r][t] = _mm512_dpbf16_ps(sums[r][t], half_pairs(w[r]), half_pairs(x));
            }
        }
        k += SUMS;
    }
    sums
}
