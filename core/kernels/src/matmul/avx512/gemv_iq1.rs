//! Dot products of one row: IQ1_S and IQ1_M, whose codebook has 2,048 entries of eight values of -1, 0 and 1.
//!
//! Vectors have the shape of `gemv_iq2`. The first four values of an entry are looked up in a plane. The second four
//! need less, because the entries are sorted by them: within sixteen neighbors they change at most once, to the next
//! combination.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanels, load};
use super::gemv_codebook::{Blocks, CodebookProducts, both_8, both_16, both_32, bytes_from, odd, twice};
use super::gemv_panels::add_products;
use super::planes::{AlignedTable, Indices, Planes, digit, eights, of_128};
use crate::activations::ActivationLayout;
use crate::blocks::{IQ1_PACKED, Iq1M, Iq1S};
use crate::isa::avx512_bytes;

static BOOK: Planes<2048> = eights(&IQ1_PACKED);
/// The values times eight, plus eight.
const LEVELS: [u8; 4] = [0, 8, 16, 0];
static DIGITS: [AlignedTable<64>; 3] = [digit(LEVELS, 0), digit(LEVELS, 2), digit(LEVELS, 4)];
static SECOND: SecondHalf = SecondHalf::new(&BOOK.0[1].0);

/// The second four values of the entries: which of the 81 combinations the first of each sixteen entries has, and the
/// last of the sixteen before the next combination.
struct SecondHalf {
    first: AlignedTable<128>,
    last: AlignedTable<128>,
    /// The values of each of the 81 combinations.
    values: [AlignedTable<128>; 4],
}

impl SecondHalf {
    const fn new(plane: &[u8; 2048]) -> SecondHalf {
        let mut second = SecondHalf {
            first: AlignedTable([0; 128]),
            last: AlignedTable([15; 128]),
            values: [
                AlignedTable([0; 128]),
                AlignedTable([0; 128]),
                AlignedTable([0; 128]),
                AlignedTable([0; 128]),
            ],
        };
        let (mut which, mut i) = (0, 0);
        while i < 2048 {
            if i > 0 && plane[i] != plane[i - 1] {
                assert!(plane[i] > plane[i - 1], "the entries are sorted");
                which += 1;
                if i % 16 != 0 {
                    assert!(second.last.0[i / 16] == 15, "one change in sixteen");
                    second.last.0[i / 16] = (i % 16 - 1) as u8;
                }
            }
            if i % 16 == 0 {
                second.first.0[i / 16] = which as u8;
            }
            let mut j = 0;
            while j < 4 {
                second.values[j].0[which] = LEVELS[(plane[i] >> (2 * j) & 3) as usize];
                j += 1;
            }
            i += 1;
        }
        second
    }

    avx512_bytes! {
    /// Which of the 81 each entry has: `low` are the lower eight bits of its index, `high` the others.
    #[inline]
    fn look(&self, low: [__m512i; 2], high: [__m512i; 2]) -> [__m512i; 2] {
        // Bits 4 to 7 of the one down, bits 0 to 2 of the other up by four.
        let (down, up) = (_mm512_set1_epi64(0x1020_4080_0000_0000), _mm512_set1_epi64(0x0000_0000_0102_0400));
        let sixteen = [0, 1].map(|i| {
            let a = _mm512_gf2p8affine_epi64_epi8::<0>(low[i], down);
            _mm512_or_si512(a, _mm512_gf2p8affine_epi64_epi8::<0>(high[i], up))
        });
        // SAFETY: tables of 128.
        let (first, last) =
            unsafe { (of_128(self.first.0.as_ptr(), sixteen), of_128(self.last.0.as_ptr(), sixteen)) };
        [0, 1].map(|i| {
            let within = _mm512_and_si512(low[i], _mm512_set1_epi8(15));
            let beyond = _mm512_subs_epu8(within, last[i]);
            _mm512_add_epi8(first[i], _mm512_min_epu8(beyond, _mm512_set1_epi8(1)))
        })
    }
    }
}

/// The indices of a panel of two rows.
struct Iq1Indices {
    /// The lower eight bits.
    low: __m512i,
    /// The other three bits; higher bits do not matter.
    high: __m512i,
}

avx512_bytes! {
/// The four values of two bits of every byte. `digits` are tables of six bits: higher bits do not matter.
#[inline]
fn four_values(plane: __m512i, digits: &[AlignedTable<64>; 3]) -> [__m512i; 4] {
    // SAFETY: tables of 64 bytes.
    let [a, b, c] = digits.each_ref().map(|table| unsafe { load(table.0.as_ptr()) });
    let last = _mm512_srli_epi16::<2>(plane);
    [(plane, a), (plane, b), (plane, c), (last, c)].map(|(v, table)| _mm512_permutexvar_epi8(v, table))
}
}

avx512_bytes! {
/// Passes all values of two panels times eight, plus eight, to `add`: the panel, the half of an entry, and the values.
#[inline]
fn each_value([a, b]: [&Iq1Indices; 2], mut add: impl FnMut(usize, usize, __m512i)) {
    let (low, high) = ([a.low, b.low], [a.high, b.high]);
    let second = SECOND.look(low, high);
    for (j, table) in SECOND.values.iter().enumerate() {
        // SAFETY: tables of 128.
        let values = unsafe { of_128(table.0.as_ptr(), second) };
        for (i, values) in values.into_iter().enumerate() {
            add(i, 4 + j, values);
        }
    }
    for (i, plane) in BOOK.0[0].look(&Indices::new(low, high)).into_iter().enumerate() {
        for (j, values) in four_values(plane, &DIGITS).into_iter().enumerate() {
            add(i, j, values);
        }
    }
}
}

impl CodebookProducts for Iq1S {
    type Blocks = Iq1S;
    const ORDER: ActivationLayout = ActivationLayout::EveryEighth;
    const TIMES: f32 = 0.125;

    avx512_bytes! {
    #[inline]
    unsafe fn products(blocks: &Blocks, x: [&ActivationPanels; 2]) -> [__m512i; 2] {
        // SAFETY: the caller's blocks of 50 bytes: 32 of indices, 8 words of high bits after two; the panels.
        unsafe {
            let words = blocks.map(|rows| _mm512_cvtepu16_epi32(both_16(rows.map(|p| p.add(34)))));
            let entries = [0, 1].map(|i| Iq1Indices {
                low: both_32(blocks[i].map(|p| p.add(2))),
                high: bytes_from(words[i], [0, 3, 6, 9, 32, 35, 38, 41]),
            });
            let mut totals = [[_mm512_setzero_si512(); 4]; 2];
            for i in 0..2 {
                // The excess of the values: eight, plus or minus the shift of an eighth.
                let less = twice((&raw const (*x[i].meta).neg32).cast());
                let (eight, one) = (_mm512_srai_epi32::<4>(less), _mm512_srai_epi32::<7>(less));
                let down = _mm512_test_epi32_mask(words[i], _mm512_set1_epi32(0x8000));
                totals[i][0] = _mm512_mask_add_epi32(_mm512_sub_epi32(eight, one), down, eight, one);
            }
            each_value(entries.each_ref(), |i, j, values| {
                let total = &mut totals[i][j % 4];
                *total = _mm512_dpbusd_epi32(*total, values, twice(x[i].ordered.add(32 * j)));
            });
            [0, 1].map(|i| {
                let [a, b, c, d] = totals[i];
                let total = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
                _mm512_mullo_epi32(total, odd(_mm512_srli_epi32::<11>(words[i]), 14, 1))
            })
        }
    }
    }
}

avx512_bytes! {
/// The scales of sixteens of blocks of IQ1_M, as words.
///
/// # Safety
/// Blocks.
#[inline]
unsafe fn sixteens(rows: [*const u8; 2]) -> __m512i {
    // SAFETY: the promise of the caller: 56 bytes, the last 8 words of four scales of three bits.
    let words = _mm512_cvtepu16_epi64(unsafe { both_8(rows.map(|p| p.add(48))) });
    odd(bytes_from(words, [63, 16, 2, 16, 5, 16, 8, 16]), 0x0e_000e, 0x1_0001)
}
}

impl CodebookProducts for Iq1M {
    type Blocks = Iq1M;
    const ORDER: ActivationLayout = ActivationLayout::EveryEighth;
    const TIMES: f32 = 0.125;

    #[inline(always)]
    unsafe fn factor(p: *const u8) -> u16 {
        // SAFETY: the caller's block; the top nibbles of its last four words are the factor.
        let words = unsafe { p.add(48).cast::<[u16; 4]>().read_unaligned() };
        words[0] >> 12 | words[1] >> 12 << 4 | words[2] >> 12 << 8 | words[3] >> 12 << 12
    }

    avx512_bytes! {
    #[inline]
    unsafe fn products(blocks: &Blocks, x: [&ActivationPanels; 2]) -> [__m512i; 2] {
        // SAFETY: the caller's blocks of 56 bytes: 32 of indices, 16 of high bits; the panels.
        unsafe {
            let entries = blocks.map(|rows| Iq1Indices {
                low: both_32(rows),
                high: bytes_from(
                    _mm512_cvtepu16_epi32(both_16(rows.map(|p| p.add(32)))),
                    [0, 4, 8, 12, 32, 36, 40, 44],
                ),
            });
            // Halves of entries: each fits into 16 bits.
            let (mut words, zero) = ([[_mm512_setzero_si512(); 2]; 2], _mm512_setzero_si512());
            // One more for the shift of an eighth: up by two or not.
            let up = entries.each_ref().map(|entries| {
                let up = _mm512_testn_epi8_mask(entries.high, _mm512_set1_epi8(8));
                _mm512_maskz_mov_epi8(up, _mm512_set1_epi8(2))
            });
            each_value(entries.each_ref(), |i, j, values| {
                let (words, x) = (&mut words[i][j / 4], twice(x[i].ordered.add(32 * j)));
                let products = _mm512_maddubs_epi16(_mm512_add_epi8(values, up[i]), x);
                *words = _mm512_add_epi16(*words, products);
            });
            [0, 1].map(|i| {
                let scales = sixteens(blocks[i]);
                // The values are nine too large.
                let less = _mm512_mullo_epi16(twice((&raw const (*x[i].meta).sum16).cast()), _mm512_set1_epi16(-9));
                let [first, second] = words[i];
                add_products(add_products(add_products(zero, less, scales), first, scales), second, scales)
            })
        }
    }
    }
}
