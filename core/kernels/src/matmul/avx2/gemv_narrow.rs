//! Products of one row or few: the formats with a scale for each 32 values or fewer.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanel, Avx2GemvFormat, load, load_two};
use super::gemv_lanes::{HalfScales, NarrowPanelSums, Powers, ScaleFormat, SmallFloats, merge};
use crate::blocks::{Format, IQ4_LEVELS, Iq4Nl, MXFP4_LEVELS, Mxfp4, Nvfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use crate::isa::avx2;

/// The blocks of one panel of one row; missing blocks are read from the last one (the activations are zero there).
#[derive(Clone, Copy)]
struct RowBlocks {
    start: *const u8,
    bytes: usize,
    last: usize,
}

impl RowBlocks {
    /// Where block `i` lies.
    ///
    /// # Safety
    /// Blocks 0 to `last` are readable.
    #[inline(always)]
    unsafe fn block<const FULL: bool>(&self, i: usize) -> *const u8 {
        // SAFETY: at most the last block.
        unsafe { self.start.add(if FULL { i } else { i.min(self.last) } * self.bytes) }
    }
}

/// Stores the 16 bits at `at` of the eight blocks as those of row `lane`.
///
/// # Safety
/// Two readable bytes there in every block.
#[inline(always)]
unsafe fn leave_words<const FULL: bool>(panel: RowBlocks, at: usize, to: &mut [[u16; 8]; 8], lane: usize) {
    for (i, to) in to.iter_mut().enumerate() {
        // SAFETY: the promise of the caller.
        to[lane] = unsafe { panel.block::<FULL>(i).add(at).cast::<u16>().read_unaligned() };
    }
}

/// A format of blocks of 32, as the unsigned or signed bytes of two blocks.
trait BlockPairs: Format {
    /// How the scales at the beginning of the blocks are stored.
    type Scale: ScaleFormat;
    /// Where the f16 minimum lies.
    const MINIMUM: Option<usize>;

    /// The values of blocks `2 n` and `2 n + 1`: their first halves, then their second halves.
    ///
    /// # Safety
    /// The processor has AVX2; blocks 0 to `panel.last` of the format are readable.
    unsafe fn two<const FULL: bool>(panel: RowBlocks, n: usize) -> [__m256i; 2];
}

/// Whether the values with their offset and the sums of four products fit in 8 and 16 bits; otherwise they are signed.
const fn fits<P: BlockPairs>() -> bool {
    4 * 127 * P::SPAN <= 32767
}

/// What nibbles mean.
#[derive(Clone, Copy)]
enum Nibble {
    /// Themselves.
    Itself,
    /// Entries of a table, and the offset that is added to them.
    Level(&'static [i8; 16], i8),
    /// The lower bits; the fifth ones are at an offset in the block.
    Fifth(usize),
}

avx2! {
/// Like `BlockPairs::two`, for blocks that end in 16 bytes of nibbles.
///
/// # Safety
/// Blocks 0 to `panel.last` are readable.
#[inline]
unsafe fn nibbles<const FULL: bool>(panel: RowBlocks, n: usize, nibble: Nibble) -> [__m256i; 2] {
    let m4 = _mm256_set1_epi8(15);
    // SAFETY: the promise of the caller; a table has 16 bytes.
    unsafe {
        let (a, b) = (panel.block::<FULL>(2 * n), panel.block::<FULL>(2 * n + 1));
        let v = load_two(a.add(panel.bytes - 16), b.add(panel.bytes - 16));
        let q = [_mm256_and_si256(v, m4), _mm256_and_si256(_mm256_srli_epi16::<4>(v), m4)];
        match nibble {
            Nibble::Itself => q,
            Nibble::Level(levels, plus) => {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(levels.as_ptr().cast()));
                let table = _mm256_add_epi8(table, _mm256_set1_epi8(plus));
                q.map(|q| _mm256_shuffle_epi8(table, q))
            }
            Nibble::Fifth(at) => {
                let bits = |p: *const u8| _mm256_set1_epi32(p.add(at).cast::<i32>().read_unaligned());
                let bits = _mm256_blend_epi32::<0xf0>(bits(a), bits(b));
                let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
                // Every byte gets the byte that holds its bit.
                let ones = 0x0101_0101_0101_0101;
                let add = |q, first: i64| {
                    let which = _mm256_setr_epi64x(first * ones, (first + 1) * ones, first * ones, (first + 1) * ones);
                    let set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, which), own), own);
                    _mm256_or_si256(q, _mm256_and_si256(set, _mm256_set1_epi8(16)))
                };
                [add(q[0], 0), add(q[1], 2)]
            }
        }
    }
}
}

avx2! {
/// The products of two blocks, four parts of each.
#[inline]
fn dot<P: BlockPairs>(q: [__m256i; 2], x: [__m256i; 2]) -> __m256i {
    let ones = _mm256_set1_epi16(1);
    if fits::<P>() {
        let pairs = _mm256_add_epi16(_mm256_maddubs_epi16(q[0], x[0]), _mm256_maddubs_epi16(q[1], x[1]));
        return _mm256_madd_epi16(pairs, ones);
    }
    let signed = |q, x| _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(x, q)), ones);
    _mm256_add_epi32(signed(q[0], x[0]), signed(q[1], x[1]))
}
}

avx2! {
/// Stores the products of one panel.
///
/// # Safety
/// Blocks 0 to `panel.last` of the format are readable, and so are the panels of activations.
#[inline]
unsafe fn leave<P: BlockPairs, const MIN: bool, const FULL: bool, const T: usize>(
    panel: RowBlocks,
    x: &[ActivationPanel; T],
    parts: &mut [NarrowPanelSums<P::Scale, 8, MIN>; T],
    lane: usize,
) {
    // SAFETY: the promise of the caller; eight products; blocks open with two bytes at least.
    unsafe {
        let mut dots = [[_mm256_setzero_si256(); 4]; T];
        for n in 0..4 {
            let q = P::two::<FULL>(panel, n);
            for (x, dots) in x.iter().zip(&mut dots) {
                let from = x.halved.add(128 * (n / 2) + 32 * (n % 2));
                dots[n] = dot::<P>(q, [load(from), load(from.add(64))]);
            }
        }
        for ((x, dots), part) in x.iter().zip(dots).zip(&mut *parts) {
            // Even blocks, then odd ones; then all in order.
            let mut sums = _mm256_permutevar8x32_epi32(merge(dots), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
            if fits::<P>() && P::OFFSET > 0 {
                // From -128 times the sums to -OFFSET times.
                let shift = _mm_cvtsi32_si128(7 - P::OFFSET.ilog2() as i32);
                sums = _mm256_add_epi32(sums, _mm256_sra_epi32(load((*x.meta).neg32.as_ptr()), shift));
            }
            _mm256_storeu_ps(part.products[lane].as_mut_ptr(), _mm256_cvtepi32_ps(sums));
        }
        leave_words::<FULL>(panel, 0, &mut parts[0].scale, lane);
        if let Some(at) = P::MINIMUM {
            leave_words::<FULL>(panel, at, &mut parts[0].min, lane);
        }
    }
}
}

macro_rules! narrow {
    ($($name:ident: $nibble:expr, $minimum:expr, $scale:ident;)*) => {$(
        impl BlockPairs for $name {
            type Scale = $scale;
            const MINIMUM: Option<usize> = $minimum;

            avx2! {
            #[inline]
            unsafe fn two<const FULL: bool>(panel: RowBlocks, n: usize) -> [__m256i; 2] {
                let nibble: Option<Nibble> = $nibble;
                // SAFETY: the promise of the caller.
                unsafe {
                    match nibble {
                        Some(nibble) => nibbles::<FULL>(panel, n, nibble),
                        None => {
                            let (a, b) = (panel.block::<FULL>(2 * n).add(2), panel.block::<FULL>(2 * n + 1).add(2));
                            [load_two(a, b), load_two(a.add(16), b.add(16))]
                        }
                    }
                }
            }
            }
        }

        impl Avx2GemvFormat for $name {
            type Parts = NarrowPanelSums<$scale, 8, { $name::MIN }>;

            avx2! {
            #[inline]
            unsafe fn panel<const T: usize>(
                start: *const u8,
                x: &[ActivationPanel; T],
                parts: &mut [Self::Parts; T],
                lane: usize,
            ) {
                let panel = RowBlocks { start, bytes: Self::BYTES, last: x[0].groups - 1 };
                // SAFETY: the caller promises the blocks of the groups and padded activations.
                unsafe {
                    if x[0].groups == 8 {
                        leave::<$name, { $name::MIN }, true, T>(panel, x, parts, lane);
                    } else {
                        leave::<$name, { $name::MIN }, false, T>(panel, x, parts, lane);
                    }
                }
            }
            }
        }
    )*};
}

narrow! {
    Q4_0: Some(Nibble::Itself), None, HalfScales;
    Q4_1: Some(Nibble::Itself), Some(2), HalfScales;
    Q5_0: Some(Nibble::Fifth(2)), None, HalfScales;
    Q5_1: Some(Nibble::Fifth(4)), Some(2), HalfScales;
    Iq4Nl: Some(Nibble::Level(&IQ4_LEVELS, 0)), None, HalfScales;
    Mxfp4: Some(Nibble::Level(&MXFP4_LEVELS, Mxfp4::OFFSET as i8)), None, Powers;
    Q8_0: None, None, HalfScales;
}

avx2! {
/// The values of a block of NVFP4 plus their offset: groups 0 and 1, then 2 and 3.
///
/// # Safety
/// The block is readable.
#[inline]
unsafe fn four_groups(block: *const u8) -> [__m256i; 2] {
    let m4 = _mm256_set1_epi8(15);
    // SAFETY: the promise of the caller: 36 bytes, of which the last 32 are nibbles; a table of 16.
    let (table, v) = unsafe { (_mm_loadu_si128(MXFP4_LEVELS.as_ptr().cast()), load(block.add(4))) };
    let table = _mm256_add_epi8(_mm256_broadcastsi128_si256(table), _mm256_set1_epi8(Nvfp4::OFFSET as i8));
    let low = _mm256_shuffle_epi8(table, _mm256_and_si256(v, m4));
    let high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(v), m4));
    // A group's eight low nibbles, then its eight high ones: groups 0 and 2, then 1 and 3.
    let (even, odd) = (_mm256_unpacklo_epi64(low, high), _mm256_unpackhi_epi64(low, high));
    [_mm256_permute2x128_si256::<0x20>(even, odd), _mm256_permute2x128_si256::<0x31>(even, odd)]
}
}

impl Avx2GemvFormat for Nvfp4 {
    type Parts = NarrowPanelSums<SmallFloats, 16, false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        start: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let panel = RowBlocks { start, bytes: Self::BYTES, last: x[0].groups.div_ceil(2) - 1 };
        // SAFETY: the caller promises the blocks of the groups and padded activations; sixteen products and scales.
        unsafe {
            for half in 0..2 {
                let [a, b] = [2 * half, 2 * half + 1].map(|i| panel.block::<false>(i));
                let ([q0, q1], [q2, q3]) = (four_groups(a), four_groups(b));
                for (x, part) in x.iter().zip(&mut *parts) {
                    let dot = |n: usize, q: __m256i| {
                        let pairs = _mm256_maddubs_epi16(q, load(x.values.add(128 * half + 32 * n)));
                        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
                    };
                    let sums = merge([dot(0, q0), dot(1, q1), dot(2, q2), dot(3, q3)]);
                    let sums = _mm256_permutevar8x32_epi32(sums, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
                    // From -128 times the sums to -OFFSET times.
                    let less = load((*x.meta).neg16.as_ptr().add(8 * half));
                    let less = _mm256_srai_epi32::<{ 7 - Nvfp4::OFFSET.ilog2() as i32 }>(less);
                    let sums = _mm256_cvtepi32_ps(_mm256_add_epi32(sums, less));
                    _mm256_storeu_ps(part.products[lane].as_mut_ptr().add(8 * half), sums);
                }
                for (i, block) in [a, b].into_iter().enumerate() {
                    for g in 0..4 {
                        parts[0].scale[8 * half + 4 * i + g][lane] = u16::from(*block.add(g));
                    }
                }
            }
        }
    }
    }
}
