//! One row of activations for codebook formats, which look up two rows of weights at once: a panel of one row is in the
//! lower halves of vectors, the same panel of the other row in the upper halves.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanels, row_of};
use super::gemv_panels::{pairs, store};
use crate::activations::ActivationLayout;
use crate::blocks::{Format, SUPER, WideFormat};
use crate::isa::{Avx512Bytes, avx512_bytes};
use crate::matmul::prefetch::prefetch;
use crate::matmul::types::{Int8Activations, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// The blocks of two panels of two rows: `[panel][row]`.
pub(super) type Blocks = [[*const u8; 2]; 2];

/// The products of a format's blocks, two panels of two rows at once, so that large codebooks are read once for all
/// four. Its functions need the features of `Avx512Bytes`.
pub(super) trait CodebookProducts {
    /// The block layout.
    type Blocks: WideFormat;
    /// The layout of the activations that it reads.
    const ORDER: ActivationLayout;
    /// The multiplier of a block's factor that makes its scales and values integers.
    const TIMES: f32;

    /// The f16 factor of the block at `p`.
    ///
    /// # Safety
    /// A block.
    #[inline(always)]
    unsafe fn factor(p: *const u8) -> u16 {
        // SAFETY: the promise of the caller; most blocks begin with it.
        unsafe { p.cast::<u16>().read_unaligned() }
    }

    /// The integer products of both panels in parts: those of the first row in the lower eight lanes.
    ///
    /// # Safety
    /// The processor has the features of `Avx512Bytes`; four blocks, and two panels of activations.
    unsafe fn products(blocks: &Blocks, x: [&ActivationPanels; 2]) -> [__m512i; 2];
}

/// The kernel for a format.
pub(super) fn choose<D: CodebookProducts>(_: Avx512Bytes) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the features; the function is for this format.
    let kernel = unsafe { Kernel::new(D::Blocks::QUANT, gemv::<D>) };
    KernelChoice { kernel: kernel.with_layout(Some(D::ORDER)), tile: 2 }
}

avx512_bytes! {
fn gemv<D: CodebookProducts>(job: &mut MatmulJob<'_, Int8Activations>, _: &mut Scratch) {
    let x = row_of(job.x, Some(D::ORDER));
    for at in pairs(job.w.rows()) {
        // SAFETY: both rows have whole blocks for all columns (`Matrix::new`), `x` as many columns (checked by `matmul`),
        // padded to whole panels.
        let dots = unsafe { two_rows::<D>(at.map(|row| job.w.row(row).as_ptr()), &x) };
        store(job, at, dots);
    }
}
}

avx512_bytes! {
/// The products of two rows of weights with the activations.
///
/// # Safety
/// Both rows have `x.groups` groups of 32 columns, and so has `x`.
#[inline]
unsafe fn two_rows<D: CodebookProducts>(rows: [*const u8; 2], x: &ActivationPanels) -> [f32; 2] {
    let (panel_bytes, panels) = (SUPER / D::Blocks::LEN * D::Blocks::BYTES, x.groups.div_ceil(8));
    let mut sums = _mm_setzero_ps();
    for start in (0..panels).step_by(2) {
        let both = start + 1 < panels;
        let at = [start, start + usize::from(both)];
        // SAFETY: the promise of the caller; the second panel of the last pair may be the first again, and is not added then.
        unsafe {
            let blocks = at.map(|panel| rows.map(|row| row.add(panel * panel_bytes)));
            for block in blocks.as_flattened() {
                prefetch(*block, panel_bytes);
            }
            let [first, second] = at.map(|panel| x.panel(panel));
            let products = _mm_cvtepi32_ps(sums_of(D::products(&blocks, [&first, &second])));
            let [[a, b], [c, d]] = blocks.map(|rows| rows.map(|block| D::factor(block) as i16));
            let factors = _mm_cvtph_ps(_mm_setr_epi16(a, b, c, d, 0, 0, 0, 0));
            let [dx, dx2] = [(*first.meta).d[0], (*second.meta).d[0]];
            // Powers of two: exact.
            let factors = _mm_mul_ps(factors, _mm_set1_ps(D::TIMES));
            let factors = _mm_mul_ps(factors, _mm_setr_ps(dx, dx, dx2, dx2));
            sums = _mm_fmadd_ps(products, factors, sums);
            if both {
                sums = _mm_fmadd_ps(_mm_movehl_ps(products, products), _mm_movehl_ps(factors, factors), sums);
            }
        }
    }
    let mut dots = [0f32; 4];
    // SAFETY: four floats.
    unsafe { _mm_storeu_ps(dots.as_mut_ptr(), sums) };
    [dots[0], dots[1]]
}
}

avx512_bytes! {
/// The sums of the first panel's rows, then of the second's.
#[inline]
fn sums_of([a, b]: [__m512i; 2]) -> __m128i {
    let sums = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let sums = _mm512_add_epi32(sums, _mm512_shuffle_epi32::<0x4e>(sums));
    let sums = _mm512_add_epi32(sums, _mm512_shuffle_i64x2::<0xb1>(sums, sums));
    _mm_unpacklo_epi32(_mm512_castsi512_si128(sums), _mm512_extracti32x4_epi32::<2>(sums))
}
}

avx512_bytes! {
/// The 32 bytes at `a`, then those at `b`.
///
/// # Safety
/// As many readable bytes.
#[inline]
pub(super) unsafe fn both_32([a, b]: [*const u8; 2]) -> __m512i {
    // SAFETY: the promise of the caller.
    let [a, b] = [a, b].map(|p| unsafe { _mm256_loadu_si256(p.cast()) });
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b)
}
}

avx512_bytes! {
/// The 16 bytes at `a`, then those at `b`.
///
/// # Safety
/// As many readable bytes.
#[inline]
pub(super) unsafe fn both_16([a, b]: [*const u8; 2]) -> __m256i {
    // SAFETY: the promise of the caller.
    let [a, b] = [a, b].map(|p| unsafe { _mm_loadu_si128(p.cast()) });
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b)
}
}

avx512_bytes! {
/// The 8 bytes at `a`, then those at `b`.
///
/// # Safety
/// As many readable bytes.
#[inline]
pub(super) unsafe fn both_8([a, b]: [*const u8; 2]) -> __m128i {
    // SAFETY: the promise of the caller.
    let [a, b] = [a, b].map(|p| unsafe { _mm_loadl_epi64(p.cast()) });
    _mm_unpacklo_epi64(a, b)
}
}

avx512_bytes! {
/// The 32 bytes of activations at `x`, in both halves.
///
/// # Safety
/// As many readable bytes.
#[inline]
pub(super) unsafe fn twice(x: *const i8) -> __m512i {
    // SAFETY: the promise of the caller.
    _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(x.cast()) })
}
}

avx512_bytes! {
/// `v` with the bytes of the mask negated.
#[inline]
pub(super) fn negated(v: __m512i, mask: __mmask64) -> __m512i {
    _mm512_mask_sub_epi8(v, mask, _mm512_setzero_si512(), v)
}
}

avx512_bytes! {
/// Of every quadword the bytes that begin so many bits into it.
#[inline]
pub(super) fn bytes_from(v: __m512i, bits: [u8; 8]) -> __m512i {
    _mm512_multishift_epi64_epi8(_mm512_set1_epi64(i64::from_le_bytes(bits)), v)
}
}

avx512_bytes! {
/// Odd numbers: the bits of the mask, which begin at bit 1, plus one.
#[inline]
pub(super) fn odd(v: __m512i, mask: i32, one: i32) -> __m512i {
    _mm512_or_si512(_mm512_and_si512(v, _mm512_set1_epi32(mask)), _mm512_set1_epi32(one))
}
}
