//! Dot products of one row: NVFP4, whose scales belong to sixteen values.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanels, GemvFormat, RowSums, load};
use super::gemv_batches::{self, LaneFactors};
use super::gemv_lanes::LaneParts;
use super::tile_narrow::{halves, transpose16};
use crate::activations::{ActivationLayout, LaneScales};
use crate::blocks::{Format, MXFP4_LEVELS, Nvfp4};
use crate::isa::avx512;
use crate::matmul::types::{Int8Activations, MatmulJob};

/// The partial results of rows of NVFP4 for panels, one per lane.
#[repr(C, align(64))]
pub(super) struct SixteenParts {
    /// The products of a row's groups: in quarter `l` those of 2 l, 2 l + 1, 8 + 2 l and 9 + 2 l.
    products: [[i32; 16]; 16],
    /// The four scales of each block, places in lanes.
    scales: [[u32; 16]; 4],
}

/// The place of the product of a group.
const fn place(group: usize) -> usize {
    group % 8 / 2 * 4 + group / 8 * 2 + group % 2
}

avx512! {
/// The scale in byte `k` of the sixteen dwords: like `ue4m3_half`, by way of f16, which has three more bits of
/// exponent.
#[inline]
fn scale(dwords: __m512i, k: usize) -> __m512 {
    let byte = _mm512_and_si512(_mm512_srlv_epi32(dwords, _mm512_set1_epi32(8 * k as i32)), _mm512_set1_epi32(127));
    let byte = _mm512_maskz_mov_epi32(_mm512_cmpneq_epi32_mask(byte, _mm512_set1_epi32(127)), byte);
    _mm512_mul_ps(halves(_mm512_slli_epi32::<7>(byte)), _mm512_set1_ps(128.0))
}
}

// SAFETY: numbers, aligned to 64.
unsafe impl LaneParts for SixteenParts {
    avx512! {
    /// The products of the panels' groups, added in order.
    #[inline]
    unsafe fn add(&self, x: &LaneFactors) -> __m512 {
        // SAFETY: sixteen numbers each.
        let products = transpose16(self.products.each_ref().map(|place| unsafe { load(place.as_ptr()) }));
        let mut total = _mm512_setzero_ps();
        for g in 0..16 {
            // SAFETY: sixteen dwords; eight scales and sixteen sums, as `SPREADS` says.
            let (scales, d, less) = unsafe {
                let d = _mm512_castsi512_ps(x.vector(LaneScales::Scales, g / 2));
                (load(self.scales[g / 4].as_ptr()), d, x.vector(LaneScales::Less16, g))
            };
            let scale = _mm512_mul_ps(scale(scales, g % 4), d);
            // The values are 16 too large.
            let product = _mm512_add_epi32(products[place(g)], _mm512_srai_epi32::<3>(less));
            total = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(product), scale, total, x.lanes(g / 2));
        }
        total
    }
    }
}

impl RowSums for SixteenParts {
    const SPREADS: &'static [LaneScales] = &[LaneScales::Scales, LaneScales::Less16];

    #[inline(always)]
    unsafe fn run<D: GemvFormat<Parts = Self>>(job: &mut MatmulJob<'_, Int8Activations>) {
        // SAFETY: the promise of the caller.
        unsafe { gemv_batches::run::<D>(job) }
    }
}

impl GemvFormat for Nvfp4 {
    type Blocks = Nvfp4;
    type Parts = SixteenParts;
    type Constants = __m512i;
    const ORDER: Option<ActivationLayout> = Some(ActivationLayout::Sixteens);

    avx512! {
    /// The levels plus 16.
    #[inline]
    unsafe fn constants() -> __m512i {
        // SAFETY: the table has 16 bytes.
        let levels = unsafe { _mm_loadu_si128(MXFP4_LEVELS.as_ptr().cast()) };
        _mm512_add_epi8(_mm512_broadcast_i32x4(levels), _mm512_set1_epi8(16))
    }
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &ActivationPanels, levels: &__m512i, parts: &mut SixteenParts, lane: usize) {
        // SAFETY: the promise of the caller.
        unsafe { leave(p, 3, x, levels, (parts, lane)) }
    }
    }

    avx512! {
    #[inline(never)]
    unsafe fn last(p: *const u8, x: &ActivationPanels, levels: &__m512i, parts: &mut SixteenParts, lane: usize) {
        // SAFETY: the promise of the caller.
        unsafe { leave(p, x.groups / 2 - 1, x, levels, (parts, lane)) }
    }
    }
}

avx512! {
/// Stores the products of one panel, whose blocks are 0 to `last`.
///
/// # Safety
/// These blocks are readable; all 256 values of `x`.
#[inline]
unsafe fn leave(
    p: *const u8,
    last: usize,
    x: &ActivationPanels,
    levels: &__m512i,
    (parts, lane): (&mut SixteenParts, usize),
) {
    let m4 = _mm512_set1_epi8(15);
    // SAFETY: the caller promises the blocks of `x.groups` groups, two of them each, and padded activations.
    unsafe {
        // Missing blocks are read from the last one; their results are not used.
        let block = |i: usize| p.add(i.min(last) * Nvfp4::BYTES);
        let dot = |half: usize| {
            let at = |i: usize| _mm256_loadu_si256(block(2 * half + i).add(4).cast());
            let v = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(at(0)), at(1));
            let low = _mm512_shuffle_epi8(*levels, _mm512_and_si512(v, m4));
            let high = _mm512_shuffle_epi8(*levels, _mm512_and_si512(_mm512_srli_epi16::<4>(v), m4));
            let x = x.ordered.add(128 * half);
            _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), low, load(x)), high, load(x.add(64)))
        };
        // Two parts of each group, at most 8 * 28 * 127: they fit into 16 bits.
        let products = _mm512_madd_epi16(_mm512_packs_epi32(dot(0), dot(1)), _mm512_set1_epi16(1));
        _mm512_storeu_si512(parts.products[lane].as_mut_ptr().cast(), products);
        for (i, scales) in parts.scales.iter_mut().enumerate() {
            scales[lane] = block(i).cast::<u32>().read_unaligned();
        }
    }
}
}
