//! Dot products of one row: the formats with blocks of 32.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanels, GemvFormat, load};
use super::gemv_lanes::{NarrowFormat, NarrowParts};
use crate::activations::ActivationLayout;
use crate::blocks::{Format, IQ4_LEVELS, Iq4Nl, MXFP4_LEVELS, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use crate::isa::avx512;

/// The blocks of one panel of one row; missing blocks are read from the last one (the activations are zero there).
#[derive(Clone, Copy)]
struct PanelBlocks {
    start: *const u8,
    bytes: usize,
    last: usize,
}

impl PanelBlocks {
    /// The address of block `i` of 0 to 7.
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
trait Nibbles: NarrowFormat {
    /// The values of the nibbles plus 128; `None`: the nibbles themselves.
    const LEVELS: Option<&'static [i8; 16]>;
    /// Where the fifth bits lie.
    const FIFTH: Option<usize>;
    /// Where the f16 minimum lies.
    const MINIMUM: Option<usize>;
}

impl NarrowFormat for Q4_0 {
    const SHIFT: u32 = 4;
}
impl Nibbles for Q4_0 {
    const LEVELS: Option<&'static [i8; 16]> = None;
    const FIFTH: Option<usize> = None;
    const MINIMUM: Option<usize> = None;
}
impl NarrowFormat for Q4_1 {
    const SHIFT: u32 = 0;
}
impl Nibbles for Q4_1 {
    const LEVELS: Option<&'static [i8; 16]> = None;
    const FIFTH: Option<usize> = None;
    const MINIMUM: Option<usize> = Some(2);
}
impl NarrowFormat for Q5_0 {
    const SHIFT: u32 = 3;
}
impl Nibbles for Q5_0 {
    const LEVELS: Option<&'static [i8; 16]> = None;
    const FIFTH: Option<usize> = Some(2);
    const MINIMUM: Option<usize> = None;
}
impl NarrowFormat for Q5_1 {
    const SHIFT: u32 = 0;
}
impl Nibbles for Q5_1 {
    const LEVELS: Option<&'static [i8; 16]> = None;
    const FIFTH: Option<usize> = Some(4);
    const MINIMUM: Option<usize> = Some(2);
}
impl NarrowFormat for Iq4Nl {
    const SHIFT: u32 = 0;
}
impl Nibbles for Iq4Nl {
    const LEVELS: Option<&'static [i8; 16]> = Some(&IQ4_LEVELS);
    const FIFTH: Option<usize> = None;
    const MINIMUM: Option<usize> = None;
}
impl NarrowFormat for Mxfp4 {
    const SHIFT: u32 = 0;

    avx512! {
    /// Halves of powers of two whose exponents are in the lower bytes.
    #[inline]
    unsafe fn scales(words: __m256i) -> __m512 {
        let e = _mm512_and_si512(_mm512_cvtepu16_epi32(words), _mm512_set1_epi32(255));
        let one = _mm512_set1_epi32(1);
        let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, one));
        let subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), e);
        let bits = _mm512_mask_blend_epi32(_mm512_cmple_epi32_mask(e, one), normal, subnormal);
        _mm512_castsi512_ps(bits)
    }
    }
}
impl Nibbles for Mxfp4 {
    const LEVELS: Option<&'static [i8; 16]> = Some(&MXFP4_LEVELS);
    const FIFTH: Option<usize> = None;
    const MINIMUM: Option<usize> = None;
}

avx512! {
/// The words at `at` of the eight blocks.
///
/// # Safety
/// Two readable bytes there in every block.
#[inline]
unsafe fn eight_words<const FULL: bool>(panel: PanelBlocks, at: usize) -> __m128i {
    // SAFETY: the promise of the caller.
    let w = |i: usize| unsafe { panel.block::<FULL>(i).add(at).cast::<i16>().read_unaligned() };
    _mm_setr_epi16(w(0), w(1), w(2), w(3), w(4), w(5), w(6), w(7))
}
}

/// A whole panel of blocks of an even number of bytes, 18 to 24, in three vectors: bytes 0 to 63, 64 to 127, the last 64.
#[derive(Clone, Copy)]
struct PanelBytes([__m512i; 3]);

/// Which words of two neighboring vectors of a `PanelBytes` belong to quarter `i`: `count` words, repeated, from byte
/// `at` of block `4 n + i` on.
const fn quarter_words(bytes: usize, n: usize, at: usize, count: usize) -> [u16; 32] {
    let mut words = [0; 32];
    let mut i = 0;
    while i < 32 {
        let place = bytes * (4 * n + i / 8) + at + i % 8 % count * 2;
        words[i] = match (n, place) {
            (0, _) => place / 2,
            (_, ..128) => (place - 64) / 2,
            _ => 32 + (place + 64 - 8 * bytes) / 2,
        } as u16;
        i += 1;
    }
    words
}

/// Which words of a `PanelBytes` are at byte `at` of the eight blocks, and which of these are in its last vector.
const fn words_of_all(bytes: usize, at: usize) -> ([u16; 32], u32) {
    let (mut words, mut last) = ([0; 32], 0);
    let mut i = 0;
    while i < 8 {
        let place = bytes * i + at;
        if place < 128 {
            words[i] = place as u16 / 2;
        } else {
            words[i] = (place + 64 - 8 * bytes) as u16 / 2;
            last |= 1 << i;
        }
        i += 1;
    }
    (words, last)
}

impl PanelBytes {
    avx512! {
    /// Those of a format.
    ///
    /// # Safety
    /// Eight blocks at `p`.
    #[inline]
    unsafe fn of<N: Nibbles>(p: *const u8) -> PanelBytes {
        // SAFETY: the promise of the caller: at least 144 bytes.
        unsafe { PanelBytes([load(p), load(p.add(64)), load(p.add(8 * N::BYTES - 64))]) }
    }
    }

    avx512! {
    /// The words that `quarter_words` names.
    #[inline]
    fn quarters(self, n: usize, words: &[u16; 32]) -> __m512i {
        // SAFETY: 64 bytes.
        _mm512_permutex2var_epi16(self.0[n], unsafe { load(words.as_ptr()) }, self.0[n + 1])
    }
    }

    avx512! {
    /// The words that `words_of_all` names.
    #[inline]
    fn eight(self, (words, last): &([u16; 32], u32)) -> __m128i {
        // SAFETY: 64 bytes.
        let words = unsafe { load(words.as_ptr()) };
        let v = _mm512_permutex2var_epi16(self.0[0], words, self.0[1]);
        let v = if *last == 0 { v } else { _mm512_mask_permutexvar_epi16(v, *last, words, self.0[2]) };
        _mm512_castsi512_si128(v)
    }
    }
}

/// The contents of a panel's eight blocks.
struct PanelContents {
    /// The nibbles of blocks `4 n` to `4 n + 3`, one to a quarter.
    nibbles: [__m512i; 2],
    /// In every dword the fifth bits of its block.
    fifths: [__m512i; 2],
    /// The scales.
    scales: __m128i,
    /// The minima.
    minima: Option<__m128i>,
}

avx512! {
/// Of a panel of eight blocks of an even number of bytes.
///
/// # Safety
/// Eight blocks at `p`.
#[inline]
unsafe fn find_whole<N: Nibbles>(p: *const u8) -> PanelContents {
    // SAFETY: the promise of the caller.
    let whole = unsafe { PanelBytes::of::<N>(p) };
    let nibbles = const { [quarter_words(N::BYTES, 0, N::BYTES - 16, 8), quarter_words(N::BYTES, 1, N::BYTES - 16, 8)] };
    let fifths = const {
        let at = match N::FIFTH {
            Some(at) => at,
            None => 0,
        };
        [quarter_words(N::BYTES, 0, at, 2), quarter_words(N::BYTES, 1, at, 2)]
    };
    let minima = const {
        match N::MINIMUM {
            Some(at) => Some(words_of_all(N::BYTES, at)),
            None => None,
        }
    };
    PanelContents {
        nibbles: [whole.quarters(0, &nibbles[0]), whole.quarters(1, &nibbles[1])],
        fifths: [whole.quarters(0, &fifths[0]), whole.quarters(1, &fifths[1])],
        scales: whole.eight(&const { words_of_all(N::BYTES, 0) }),
        minima: minima.as_ref().map(|minima| whole.eight(minima)),
    }
}
}

avx512! {
/// Of any panel.
///
/// # Safety
/// Blocks 0 to `panel.last` of the format are readable.
#[inline]
unsafe fn find<N: Nibbles, const FULL: bool>(panel: PanelBlocks) -> PanelContents {
    // SAFETY: the promise of the caller: the last 16 bytes of a block, four bytes inside one.
    unsafe {
        let four = |n: usize| {
            let at = |i: usize| _mm_loadu_si128(panel.block::<FULL>(4 * n + i).add(N::BYTES - 16).cast());
            let v = _mm512_castsi128_si512(at(0));
            let v = _mm512_inserti32x4::<1>(v, at(1));
            let v = _mm512_inserti32x4::<2>(v, at(2));
            _mm512_inserti32x4::<3>(v, at(3))
        };
        let fifths = |n: usize| {
            let Some(at) = N::FIFTH else { return _mm512_setzero_si512() };
            let bits = |i: usize| panel.block::<FULL>(4 * n + i).add(at).cast::<i32>().read_unaligned();
            let block = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
            let bits = _mm_setr_epi32(bits(0), bits(1), bits(2), bits(3));
            _mm512_permutexvar_epi32(block, _mm512_castsi128_si512(bits))
        };
        PanelContents {
            nibbles: [four(0), four(1)],
            fifths: [fifths(0), fifths(1)],
            scales: eight_words::<FULL>(panel, 0),
            minima: N::MINIMUM.map(|at| eight_words::<FULL>(panel, at)),
        }
    }
}
}

avx512! {
/// The values of four blocks as unsigned bytes: their first halves, then their second halves.
#[inline]
fn values<N: Nibbles>(nibbles: __m512i, fifths: __m512i) -> [__m512i; 2] {
    let m4 = _mm512_set1_epi8(15);
    let mut q = [_mm512_and_si512(nibbles, m4), _mm512_and_si512(_mm512_srli_epi16::<4>(nibbles), m4)];
    if let Some(levels) = N::LEVELS {
        // SAFETY: the table has 16 bytes.
        let table = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(levels.as_ptr().cast()) });
        let table = _mm512_xor_si512(table, _mm512_set1_epi8(-128));
        q = q.map(|q| _mm512_shuffle_epi8(table, q));
    }
    if N::FIFTH.is_some() {
        // Every byte gets the byte of its block that holds its bit.
        let bytes = |a: i64| _mm512_broadcast_i32x4(_mm_set_epi64x(a | 0x0101_0101_0101_0101, a));
        let one = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
        let sixteen = _mm512_set1_epi8(16);
        for (q, first) in q.iter_mut().zip([0, 0x0202_0202_0202_0202]) {
            let set = _mm512_test_epi8_mask(_mm512_shuffle_epi8(fifths, bytes(first)), one);
            *q = _mm512_mask_add_epi8(*q, set, *q, sixteen);
        }
    }
    q
}
}

avx512! {
/// Stores the products of one panel of nibbles.
///
/// # Safety
/// Blocks 0 to `panel.last` of the format are readable; all 256 values of `x`.
#[inline]
unsafe fn leave_nibbles<N: Nibbles, const FULL: bool>(
    panel: PanelBlocks,
    x: &ActivationPanels,
    parts: &mut NarrowParts<N>,
    lane: usize,
) {
    // SAFETY: the promise of the caller.
    unsafe {
        let whole = FULL && N::BYTES % 2 == 0;
        let found = if whole { find_whole::<N>(panel.start) } else { find::<N, FULL>(panel) };
        let dot = |n: usize| {
            let [low, high] = values::<N>(found.nibbles[n], found.fifths[n]);
            let dot = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, load(x.ordered.add(128 * n)));
            _mm512_dpbusd_epi32(dot, high, load(x.ordered.add(128 * n + 64)))
        };
        parts.leave(lane, dot(0), dot(1));
        parts.leave_words(lane, found.scales, found.minima);
    }
}
}

macro_rules! nibble_rows {
    ($($name:ident)*) => {$(
        impl GemvFormat for $name {
            type Blocks = $name;
            type Parts = NarrowParts<$name>;
            type Constants = ();
            const ORDER: Option<ActivationLayout> = Some(ActivationLayout::Halved);

            avx512! {
            #[inline]
            unsafe fn constants() {}
            }

            avx512! {
            #[inline]
            unsafe fn panel(start: *const u8, x: &ActivationPanels, _: &(), parts: &mut Self::Parts, lane: usize) {
                let blocks = PanelBlocks { start, bytes: Self::BYTES, last: 7 };
                // SAFETY: the caller promises eight blocks and the panel.
                unsafe { leave_nibbles::<$name, true>(blocks, x, parts, lane) }
            }
            }

            avx512! {
            #[inline(never)]
            unsafe fn last(start: *const u8, x: &ActivationPanels, _: &(), parts: &mut Self::Parts, lane: usize) {
                let blocks = PanelBlocks { start, bytes: Self::BYTES, last: x.groups - 1 };
                // SAFETY: the caller promises the blocks of `x.groups` groups and padded activations.
                unsafe { leave_nibbles::<$name, false>(blocks, x, parts, lane) }
            }
            }
        }
    )*};
}

nibble_rows! { Q4_0 Q4_1 Q5_0 Q5_1 Iq4Nl Mxfp4 }

impl NarrowFormat for Q8_0 {
    const SHIFT: u32 = 0;
}

avx512! {
/// Stores the products of one panel of Q8_0.
///
/// # Safety
/// Blocks 0 to `panel.last` are readable; all 256 values of `x`.
#[inline]
unsafe fn leave_bytes<const FULL: bool>(
    panel: PanelBlocks,
    x: &ActivationPanels,
    parts: &mut NarrowParts<Q8_0>,
    lane: usize,
) {
    let flip = _mm512_set1_epi8(-128);
    // SAFETY: the promise of the caller.
    unsafe {
        parts.leave_words(lane, eight_words::<FULL>(panel, 0), None);
        let two = |n: usize| {
            let at = |i: usize| _mm256_loadu_si256(panel.block::<FULL>(2 * n + i).add(2).cast());
            let w = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(at(0)), at(1));
            _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_xor_si512(w, flip), load(x.values.add(64 * n)))
        };
        // Two blocks of eight parts each, twice: four blocks of four parts.
        let four = |n: usize| {
            let (a, b) = (two(n), two(n + 1));
            _mm512_add_epi32(_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b))
        };
        parts.leave(lane, four(0), four(2));
    }
}
}

impl GemvFormat for Q8_0 {
    type Blocks = Q8_0;
    type Parts = NarrowParts<Q8_0>;
    type Constants = ();
    const ORDER: Option<ActivationLayout> = None;

    avx512! {
    #[inline]
    unsafe fn constants() {}
    }

    avx512! {
    #[inline]
    unsafe fn panel(start: *const u8, x: &ActivationPanels, _: &(), parts: &mut Self::Parts, lane: usize) {
        let blocks = PanelBlocks { start, bytes: Self::BYTES, last: 7 };
        // SAFETY: the caller promises eight blocks and the panel.
        unsafe { leave_bytes::<true>(blocks, x, parts, lane) }
    }
    }

    avx512! {
    #[inline(never)]
    unsafe fn last(start: *const u8, x: &ActivationPanels, _: &(), parts: &mut Self::Parts, lane: usize) {
        let blocks = PanelBlocks { start, bytes: Self::BYTES, last: x.groups - 1 };
        // SAFETY: the caller promises the blocks of `x.groups` groups and padded activations.
        unsafe { leave_bytes::<false>(blocks, x, parts, lane) }
    }
    }
}
