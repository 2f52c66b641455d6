//! The engine for 16-bit float weights and activations rounded to bfloat16 (AVX-512 BF16): see `tiles`.
//!
//! F16 weights are rounded to bfloat16 too: an error of 2^-9 at most, a third of what activations of 8 bits cost the
//! quantised types, for twice the speed of f32 arithmetic. `Arithmetic::Exact` takes another kernel.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::tile::transpose16;
use crate::activations::Halves;
use crate::matmul::job::{Input, Job};
use crate::matmul::tiles::{self, Engine, LANES, Place, TOKENS};

/// The columns of a tile: with 48 rows 24 KiB.
const COLS: usize = 256;

/// Pairs of weights, `[pair of columns][row vector][row]`.
type Tile<const R: usize> = [[[u32; LANES]; R]; COLS / 2];

/// Whether this processor multiplies pairs of bfloat16.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512bf16")
}

/// A 16-bit float that weights are stored in.
pub(super) trait Stored {
    /// 32 stored values as bfloat16, rounded to nearest.
    ///
    /// # Safety
    /// The processor has AVX-512 BF16.
    unsafe fn halves(stored: __m512i) -> __m512i;
}

/// Weights in bfloat16.
pub(super) struct Brain;

impl Stored for Brain {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
    unsafe fn halves(stored: __m512i) -> __m512i {
        stored
    }
}

/// Weights in IEEE half precision.
pub(super) struct Ieee;

impl Stored for Ieee {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
    unsafe fn halves(stored: __m512i) -> __m512i {
        let low = _mm512_cvtph_ps(_mm512_castsi512_si256(stored));
        let high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(stored));
        // SAFETY: vectors of the same size in which any bits are valid.
        unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) }
    }
}

/// Tiles of bfloat16 out of weights stored as `W`.
struct Pairs<W>(PhantomData<W>);

/// Many rows of activations; for processors with `available()`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
pub(super) unsafe fn many<W: Stored>(job: &Job<'_>) {
    // SAFETY: the promise of the caller.
    unsafe { tiles::run::<Pairs<W>, 3>(job) }
}

impl<W: Stored> Engine for Pairs<W> {
    const COLS: usize = COLS;
    type Tile<const R: usize> = Tile<R>;
    type Input<'a> = &'a Halves;

    fn input<'a>(job: &Job<'a>) -> Option<&'a Halves> {
        match job.x {
            Input::Halves(x) => Some(x),
            _ => None,
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
    unsafe fn pack<const R: usize>(job: &Job<'_>, place: Place, tile: &mut Tile<R>, r: usize) {
        for k in (0..place.cols).step_by(32) {
            let n = (place.cols - k).min(32);
            let mask = 0xffff_ffffu32 >> (32 - n);
            let mut a = [_mm512_setzero_si512(); 16];
            for (i, a) in a.iter_mut().enumerate() {
                let row = job.w.row(place.row + i.min(place.count - 1)).as_ptr();
                // SAFETY: the mask names `n` values from column `start + k` of the row on, which are there.
                *a = unsafe {
                    W::halves(_mm512_maskz_loadu_epi16(mask, row.cast::<i16>().add(place.start + k)))
                };
            }
            let to = &mut tile[k / 2..k / 2 + n.div_ceil(2)];
            for (pair, to) in transpose16(a).into_iter().zip(to) {
                // SAFETY: 64 writable bytes.
                unsafe { _mm512_storeu_si512(to[r].as_mut_ptr().cast(), pair) };
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
    unsafe fn multiply<const R: usize>(
        tile: &Tile<R>,
        x: &Halves,
        tokens: [usize; TOKENS],
        place: Place,
        out: &mut [f32],
    ) {
        let pairs = place.cols.div_ceil(2);
        let x = tokens.map(|t| &x.row(t)[place.start..place.start + 2 * pairs]);
        let mut sums = [[_mm512_setzero_ps(); TOKENS]; R];
        for (k, w) in tile.iter().enumerate().take(pairs) {
            // SAFETY: 64 bytes each.
            let w: [__m512i; R] =
                std::array::from_fn(|r| unsafe { _mm512_loadu_si512(w[r].as_ptr().cast()) });
            for (t, x) in x.into_iter().enumerate() {
                // SAFETY: `2 k + 2 <= x.len()`.
                let x = _mm512_set1_epi32(unsafe { x.as_ptr().add(2 * k).cast::<i32>().read_unaligned() });
                for r in 0..R {
                    // SAFETY: vectors of the same size in which any bits are valid.
                    let [w, x] = [w[r], x].map(|v| unsafe { std::mem::transmute::<__m512i, __m512bh>(v) });
                    sums[r][t] = _mm512_dpbf16_ps(sums[r][t], w, x);
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (t, sum) in sums.into_iter().enumerate() {
                let to = out[(t * R + r) * LANES..][..LANES].as_mut_ptr();
                // SAFETY: 16 floats.
                unsafe { _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), sum)) };
            }
        }
    }
}
