//! Dot products of one row: the formats with blocks of 32.

use std::arch::x86_64::*;

use super::one::{Row, RowFormat, load, sum8};
use crate::blocks::{Format, IQ4_LEVELS, Iq4Nl, MXFP4_LEVELS, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use crate::isa::avx512;
use crate::matmul::prefetch::prefetch;

/// The blocks of one panel of one row; those that are not there are read from the last one (the activations are
/// zero there).
#[derive(Clone, Copy)]
struct Panel {
    start: *const u8,
    bytes: usize,
    last: usize,
}

impl Panel {
    /// Where block `i` of 0 to 7 lies.
    ///
    /// # Safety
    /// Blocks 0 to `last` are readable.
    #[inline(always)]
    unsafe fn block<const FULL: bool>(&self, i: usize) -> *const u8 {
        // SAFETY: at most the last block.
        unsafe { self.start.add(if FULL { i } else { i.min(self.last) } * self.bytes) }
    }
}

/// A format with 16 bytes of nibbles at the end of a block of 32.
trait Nibbles: Format {
    /// As unsigned bytes the values are too large by `2^(7 - SHIFT)`.
    const SHIFT: u32;
    /// The nibbles' meaning plus 128; `None`: themselves.
    const LEVELS: Option<&'static [i8; 16]>;
    /// Where the fifth bits lie.
    const FIFTH: Option<usize>;
    /// Where the f16 minimum lies.
    const MINIMUM: Option<usize>;
}

impl Nibbles for Q4_0 {
    const SHIFT: u32 = 4;
    const LEVELS: Option<&'static [i8; 16]> = None;
    const FIFTH: Option<usize> = None;
    const MINIMUM: Option<usize> = None;
}
impl Nibbles for Q4_1 {
    const SHIFT: u32 = 0;
    const LEVELS: Option<&'static [i8; 16]> = None;
    const FIFTH: Option<usize> = None;
    const MINIMUM: Option<usize> = Some(2);
}
impl Nibbles for Q5_0 {
    const SHIFT: u32 = 3;
    const LEVELS: Option<&'static [i8; 16]> = None;
    const FIFTH: Option<usize> = Some(2);
    const MINIMUM: Option<usize> = None;
}
impl Nibbles for Q5_1 {
    const SHIFT: u32 = 0;
    const LEVELS: Option<&'static [i8; 16]> = None;
    const FIFTH: Option<usize> = Some(4);
    const MINIMUM: Option<usize> = Some(2);
}
impl Nibbles for Iq4Nl {
    const SHIFT: u32 = 0;
    const LEVELS: Option<&'static [i8; 16]> = Some(&IQ4_LEVELS);
    const FIFTH: Option<usize> = None;
    const MINIMUM: Option<usize> = None;
}
impl Nibbles for Mxfp4 {
    const SHIFT: u32 = 0;
    const LEVELS: Option<&'static [i8; 16]> = Some(&MXFP4_LEVELS);
    const FIFTH: Option<usize> = None;
    const MINIMUM: Option<usize> = None;
}

avx512! {
/// The f16 at `at` of the eight blocks.
///
/// # Safety
/// Two readable bytes there in every block.
#[inline]
unsafe fn eight_halves<const FULL: bool>(panel: Panel, at: usize) -> __m256 {
    // SAFETY: the promise of the caller.
    let h = |i: usize| unsafe { panel.block::<FULL>(i).add(at).cast::<i16>().read_unaligned() };
    _mm256_cvtph_ps(_mm_setr_epi16(h(0), h(1), h(2), h(3), h(4), h(5), h(6), h(7)))
}
}

avx512! {
/// The scales of the eight blocks: f16, or for MXFP4 halves of powers of two.
///
/// # Safety
/// Blocks 0 to `panel.last` of the format are readable.
#[inline]
unsafe fn eight_scales<N: Nibbles, const FULL: bool>(panel: Panel) -> __m256 {
    if N::BYTES != Mxfp4::BYTES {
        // SAFETY: the promise of the caller.
        return unsafe { eight_halves::<FULL>(panel, 0) };
    }
    // SAFETY: the promise of the caller.
    let e = |i: usize| unsafe { *panel.block::<FULL>(i) as i8 };
    let e = _mm_setr_epi8(e(0), e(1), e(2), e(3), e(4), e(5), e(6), e(7), 0, 0, 0, 0, 0, 0, 0, 0);
    let e = _mm256_cvtepu8_epi32(e);
    let one = _mm256_set1_epi32(1);
    let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, one));
    let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
    _mm256_castsi256_ps(_mm256_mask_blend_epi32(_mm256_cmple_epi32_mask(e, one), normal, subnormal))
}
}

avx512! {
/// The values of blocks `4 n` to `4 n + 3` as unsigned bytes: their first halves, then their second halves.
///
/// # Safety
/// Blocks 0 to `panel.last` of the format are readable.
#[inline]
unsafe fn four_blocks<N: Nibbles, const FULL: bool>(panel: Panel, n: usize) -> [__m512i; 2] {
    let m4 = _mm512_set1_epi8(15);
    let block = |i: usize| {
        // SAFETY: the promise of the caller.
        unsafe { panel.block::<FULL>(4 * n + i) }
    };
    // SAFETY: the last 16 bytes of a block; for the fifth bits four bytes inside one.
    let (v, bits) = unsafe {
        let at = |i: usize| _mm_loadu_si128(block(i).add(N::BYTES - 16).cast());
        let v = _mm512_castsi128_si512(at(0));
        let v = _mm512_inserti32x4::<1>(v, at(1));
        let v = _mm512_inserti32x4::<2>(v, at(2));
        let v = _mm512_inserti32x4::<3>(v, at(3));
        let bits = match N::FIFTH {
            None => _mm_setzero_si128(),
            Some(offset) => {
                let bits = |i: usize| block(i).add(offset).cast::<i32>().read_unaligned();
                _mm_setr_epi32(bits(0), bits(1), bits(2), bits(3))
            }
        };
        (v, bits)
    };
    let mut q = [_mm512_and_si512(v, m4), _mm512_and_si512(_mm512_srli_epi16::<4>(v), m4)];
    if let Some(levels) = N::LEVELS {
        // SAFETY: the table has 16 bytes.
        let table = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(levels.as_ptr().cast()) });
        let table = _mm512_xor_si512(table, _mm512_set1_epi8(-128));
        q = q.map(|q| _mm512_shuffle_epi8(table, q));
    }
    if N::FIFTH.is_some() {
        // Every lane gets the 32 bits of its block, every byte the byte of them that holds its bit.
        let bits = _mm512_permutexvar_epi32(lanes(0), _mm512_castsi128_si512(bits));
        let bytes = |a: i64| _mm512_broadcast_i32x4(_mm_set_epi64x(a | 0x0101_0101_0101_0101, a));
        let one = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
        let sixteen = _mm512_set1_epi8(16);
        for (q, first) in q.iter_mut().zip([0, 0x0202_0202_0202_0202]) {
            let set = _mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, bytes(first)), one);
            *q = _mm512_mask_add_epi8(*q, set, *q, sixteen);
        }
    }
    q
}
}

/// Sums of one row.
#[derive(Clone, Copy)]
struct Sums {
    products: __m512,
    minima: __m256,
}

avx512! {
/// Lane n of 16 takes entry n / 4 of the `part`th four.
#[inline]
fn lanes(part: i32) -> __m512i {
    let lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    _mm512_add_epi32(lane, _mm512_set1_epi32(4 * part))
}
}

avx512! {
/// Adds the products of one panel. `x` is the panel.
///
/// # Safety
/// Blocks 0 to `panel.last` of the format are readable; all 256 values of `x`.
#[inline]
unsafe fn add_nibbles<N: Nibbles, const FULL: bool>(sums: &mut Sums, panel: Panel, x: &Row) {
    // SAFETY: the promise of the caller.
    unsafe {
        let meta = &*x.meta;
        let scale = _mm256_mul_ps(eight_scales::<N, FULL>(panel), _mm256_loadu_ps(meta.d.as_ptr()));
        let scale = _mm512_castps256_ps512(scale);
        let neg = _mm256_loadu_si256(meta.neg32.as_ptr().cast());
        let neg = _mm512_castsi256_si512(_mm256_sra_epi32(neg, _mm_cvtsi32_si128(N::SHIFT as i32)));
        let parts = if FULL || panel.last >= 4 { 2 } else { 1 };
        for n in 0..parts {
            let index = lanes(n as i32);
            let start = if N::MIN {
                _mm512_setzero_si512()
            } else {
                _mm512_maskz_permutexvar_epi32(0x1111, index, neg)
            };
            let [low, high] = four_blocks::<N, FULL>(panel, n);
            let dot = _mm512_dpbusd_epi32(start, low, load(x.halved.add(128 * n)));
            let dot = _mm512_dpbusd_epi32(dot, high, load(x.halved.add(128 * n + 64)));
            let scale = _mm512_permutexvar_ps(index, scale);
            sums.products = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, sums.products);
        }
        if let Some(at) = N::MINIMUM {
            let minima = eight_halves::<FULL>(panel, at);
            sums.minima = _mm256_fmadd_ps(minima, _mm256_loadu_ps(meta.dsum.as_ptr()), sums.minima);
        }
    }
}
}

macro_rules! nibble_dots {
    ($($name:ident)*) => {$(
        impl RowFormat for $name {
            type Blocks = $name;

            avx512! {
            #[inline]
            unsafe fn dots(rows: [*const u8; 2], x: &Row) -> [f32; 2] {
                let mut sums = [Sums { products: _mm512_setzero_ps(), minima: _mm256_setzero_ps() }; 2];
                let full = x.groups / 8;
                for panel in 0..x.groups.div_ceil(8) {
                    // SAFETY: the caller promises `x.groups` blocks in both rows and padded activations.
                    unsafe {
                        let x = x.panel(panel);
                        for (row, sums) in rows.into_iter().zip(&mut sums) {
                            let start = row.add(panel * 8 * Self::BYTES);
                            prefetch(start, 8 * Self::BYTES);
                            let blocks = Panel { start, bytes: Self::BYTES, last: x.groups.min(8) - 1 };
                            if panel < full {
                                add_nibbles::<$name, true>(sums, blocks, &x);
                            } else {
                                add_nibbles::<$name, false>(sums, blocks, &x);
                            }
                        }
                    }
                }
                sums.map(|s| _mm512_reduce_add_ps(s.products) + sum8(s.minima))
            }
            }
        }
    )*};
}

nibble_dots! { Q4_0 Q4_1 Q5_0 Q5_1 Iq4Nl Mxfp4 }

avx512! {
/// Adds the products of one panel of Q8_0.
///
/// # Safety
/// Blocks 0 to `panel.last` are readable; all 256 values of `x`.
#[inline]
unsafe fn add_bytes<const FULL: bool>(sum: &mut __m512, panel: Panel, x: &Row) {
    let flip = _mm512_set1_epi8(-128);
    let lane = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    // SAFETY: the promise of the caller.
    unsafe {
        let d = _mm256_loadu_ps((*x.meta).d.as_ptr());
        let scale = _mm512_castps256_ps512(_mm256_mul_ps(eight_halves::<FULL>(panel, 0), d));
        let parts = if FULL { 4 } else { panel.last / 2 + 1 };
        for n in 0..parts {
            let at = |i: usize| _mm256_loadu_si256(panel.block::<FULL>(2 * n + i).add(2).cast());
            let w = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(at(0)), at(1));
            let start = load(x.neg4.add(64 * n));
            let dot = _mm512_dpbusd_epi32(start, _mm512_xor_si512(w, flip), load(x.values.add(64 * n)));
            let index = _mm512_add_epi32(lane, _mm512_set1_epi32(2 * n as i32));
            let scale = _mm512_permutexvar_ps(index, scale);
            *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, *sum);
        }
    }
}
}

impl RowFormat for Q8_0 {
    type Blocks = Q8_0;

    avx512! {
    #[inline]
    unsafe fn dots(rows: [*const u8; 2], x: &Row) -> [f32; 2] {
        let mut sums = [_mm512_setzero_ps(); 2];
        let full = x.groups / 8;
        for panel in 0..x.groups.div_ceil(8) {
            // SAFETY: the caller promises `x.groups` blocks in both rows and padded activations.
            unsafe {
                let x = x.panel(panel);
                for (row, sum) in rows.into_iter().zip(&mut sums) {
                    let start = row.add(panel * 8 * Self::BYTES);
                            prefetch(start, 8 * Self::BYTES);
                    let blocks = Panel { start, bytes: Self::BYTES, last: x.groups.min(8) - 1 };
                    if panel < full {
                        add_bytes::<true>(sum, blocks, &x);
                    } else {
                        add_bytes::<false>(sum, blocks, &x);
                    }
                }
            }
        }
        sums.map(|s| _mm512_reduce_add_ps(s))
    }
    }
}
