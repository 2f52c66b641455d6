//! Dot products of one row: IQ2_XXS, IQ2_XS and IQ2_S, whose codebooks have entries of eight values.
//!
//! A vector of indices has four of each group of 32, first the groups of one row and then those of another. Each byte
//! of the codebooks' two planes has four values of two bits; once extracted, vector `j` of eight has the `j`th value of
//! all 64 entries, which is the order of the activations in `ActivationLayout::EveryEighth`.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::gemv::{ActivationPanels, load};
use super::gemv_codebook::{Blocks, CodebookProducts, both_8, both_32, bytes_from, odd, twice};
use super::gemv_panels::add_products;
use super::planes::{AlignedTable, Indices, Planes, eights};
use crate::activations::ActivationLayout;
use crate::blocks::{
    IQ2_S_PACKED, IQ2_XS_PACKED, IQ2_XXS_PACKED, Iq2S, Iq2Xs, Iq2Xxs, TWO_BIT_LEVELS, WideFormat,
};
use crate::isa::avx512_bytes;

static XXS: Planes<256> = eights(&IQ2_XXS_PACKED);
static XS: Planes<512> = eights(&IQ2_XS_PACKED);
static S: Planes<1024> = eights(&IQ2_S_PACKED);

const LEVELS: [u8; 4] = {
    let [a, b, c, d] = TWO_BIT_LEVELS;
    [a as u8, b as u8, c as u8, d as u8]
};

/// The data of a panel of two rows besides values.
pub(super) struct PanelEntries {
    /// The lower eight bits of the indices.
    low: __m512i,
    /// The other bits; higher bits do not matter.
    high: __m512i,
    /// The signs of each entry.
    signs: __m512i,
    /// The scale of each 32, or as words of each 16.
    scales: __m512i,
}

/// A format with a codebook of entries of eight.
pub(super) trait Iq2Codebook: WideFormat {
    /// Whether scales belong to 16 values.
    const SIXTEENS: bool;

    /// Reads the blocks of two rows.
    ///
    /// # Safety
    /// The features of `Avx512Bytes`, and readable blocks.
    unsafe fn entries(blocks: &[*const u8; 2]) -> PanelEntries;

    /// Looks up both planes.
    ///
    /// # Safety
    /// The features of `Avx512Bytes`.
    unsafe fn look(x: &Indices) -> [[__m512i; 2]; 2];
}

/// The excess of values that are looked up together with their signs.
const MORE: u8 = 64;

/// The values of the two digits in the lower four bits of a number, negative where the bits above say so, plus `MORE`.
static SIGNED: [AlignedTable<64>; 2] = {
    let (mut tables, mut i) = ([AlignedTable([0; 64]), AlignedTable([0; 64])], 0);
    while i < 128 {
        let (digit, n) = (i / 64, i % 64);
        let level = LEVELS[n >> (2 * digit) & 3];
        tables[digit].0[n] = if n >> (4 + digit) & 1 == 0 { MORE + level } else { MORE - level };
        i += 1;
    }
    tables
};

avx512_bytes! {
/// The values of every byte of the two planes with their signs, plus `MORE`: vector `j` has the `j`th.
#[inline]
fn signed_values([low, high]: [__m512i; 2], signs: __m512i) -> [__m512i; 8] {
    // Two digits, and their signs above them; bits 6 and 7 do not matter.
    let both = |digits, signs| _mm512_ternarylogic_epi64::<0xca>(_mm512_set1_epi8(15), digits, signs);
    let pairs = [
        both(low, _mm512_slli_epi16::<4>(signs)),
        both(_mm512_srli_epi16::<4>(low), _mm512_slli_epi16::<2>(signs)),
        both(high, signs),
        both(_mm512_srli_epi16::<4>(high), _mm512_srli_epi16::<2>(signs)),
    ];
    // SAFETY: tables of 64 bytes.
    let [first, second] = SIGNED.each_ref().map(|table| unsafe { load(table.0.as_ptr()) });
    let [[a, b], [c, d], [e, f], [g, h]] =
        pairs.map(|v| [first, second].map(|table| _mm512_permutexvar_epi8(v, table)));
    [a, b, c, d, e, f, g, h]
}
}

avx512_bytes! {
/// The products of one panel with the values of the two planes.
///
/// # Safety
/// The panel of activations.
#[inline]
unsafe fn multiply<F: Iq2Codebook>(planes: [__m512i; 2], entries: &PanelEntries, x: &ActivationPanels) -> __m512i {
    // Several sums: one would be a long chain.
    let mut totals = [_mm512_setzero_si512(); 4];
    // SAFETY: the promise of the caller; as many sums as there are groups.
    unsafe {
        if F::SIXTEENS {
            let sums = twice((&raw const (*x.meta).sum16).cast());
            let more = add_products(totals[0], sums, _mm512_slli_epi16::<{ MORE.ilog2() }>(entries.scales));
            totals[0] = _mm512_sub_epi32(totals[0], more);
        } else {
            totals[0] = _mm512_srai_epi32::<{ 7 - MORE.ilog2() }>(twice((&raw const (*x.meta).neg32).cast()));
        }
        for (j, values) in signed_values(planes, entries.signs).into_iter().enumerate() {
            let (total, x) = (&mut totals[j % 4], twice(x.ordered.add(32 * j)));
            *total = if F::SIXTEENS {
                add_products(*total, _mm512_maddubs_epi16(values, x), entries.scales)
            } else {
                _mm512_dpbusd_epi32(*total, values, x)
            };
        }
    }
    let [a, b, c, d] = totals;
    let total = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
    if F::SIXTEENS { total } else { _mm512_mullo_epi32(total, entries.scales) }
}
}

/// The products of a format with a codebook of entries of eight.
pub(super) struct Iq2<F>(PhantomData<F>);

impl<F: Iq2Codebook> CodebookProducts for Iq2<F> {
    type Blocks = F;
    const ORDER: ActivationLayout = ActivationLayout::EveryEighth;
    const TIMES: f32 = 0.125;

    avx512_bytes! {
    #[inline]
    unsafe fn products(blocks: &Blocks, x: [&ActivationPanels; 2]) -> [__m512i; 2] {
        // SAFETY: the promise of the caller.
        unsafe {
            let entries = blocks.each_ref().map(|rows| F::entries(rows));
            let [first, second] = &entries;
            let [low, high] = F::look(&Indices::new([first.low, second.low], [first.high, second.high]));
            [0, 1].map(|i| multiply::<F>([low[i], high[i]], &entries[i], x[i]))
        }
    }
    }
}

avx512_bytes! {
/// The scales of sixteens in the nibbles of the eight bytes at `p`, as words.
///
/// # Safety
/// Eight readable bytes in both rows.
#[inline]
unsafe fn nibbles(p: [*const u8; 2]) -> __m512i {
    // SAFETY: the promise of the caller.
    let bytes = _mm512_cvtepu8_epi32(unsafe { both_8(p) });
    // Twice the lower, at bit 0, and twice the upper, at bit 16.
    odd(bytes_from(bytes, [63, 8, 3, 8, 31, 40, 35, 40]), 0x1e_001e, 0x1_0001)
}
}

impl Iq2Codebook for Iq2Xxs {
    const SIXTEENS: bool = false;

    avx512_bytes! {
    #[inline]
    unsafe fn entries(blocks: &[*const u8; 2]) -> PanelEntries {
        // SAFETY: the caller's blocks of 66 bytes.
        let [a, b] = blocks.map(|p| unsafe { load(p.add(2)) });
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let words = _mm512_permutex2var_epi32(a, _mm512_or_si512(even, _mm512_set1_epi32(1)), b);
        let low = _mm512_permutex2var_epi32(a, even, b);
        // Seven bits each; an eighth bit makes the number of signs even.
        let parity = _mm512_set1_epi64(0x0102_0408_1020_407f);
        let signs = bytes_from(words, [0, 7, 14, 21, 32, 39, 46, 53]);
        let signs = _mm512_gf2p8affine_epi64_epi8::<0>(signs, parity);
        PanelEntries { low, high: low, signs, scales: odd(_mm512_srli_epi32::<27>(words), 0x1e, 1) }
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn look(x: &Indices) -> [[__m512i; 2]; 2] {
        XXS.0.each_ref().map(|plane| plane.look(x))
    }
    }
}

impl Iq2Codebook for Iq2Xs {
    const SIXTEENS: bool = true;

    avx512_bytes! {
    #[inline]
    unsafe fn entries(blocks: &[*const u8; 2]) -> PanelEntries {
        // SAFETY: the caller's blocks of 74 bytes: 64 of indices and signs, 8 of scales after two.
        let ([a, b], scales) = unsafe { (blocks.map(|p| load(p.add(2))), nibbles(blocks.map(|p| p.add(66)))) };
        let even: [u8; 64] = const { every_other(0) };
        let odd: [u8; 64] = const { every_other(1) };
        // SAFETY: 64 bytes each.
        let (even, odd) = unsafe { (load(even.as_ptr()), load(odd.as_ptr())) };
        let high = _mm512_permutex2var_epi8(a, odd, b);
        // Seven bits above the ninth of the index; an eighth bit makes the number of signs even.
        let parity = _mm512_set1_epi64(0x0204_0810_2040_80fe);
        let signs = _mm512_gf2p8affine_epi64_epi8::<0>(high, parity);
        PanelEntries { low: _mm512_permutex2var_epi8(a, even, b), high, signs, scales }
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn look(x: &Indices) -> [[__m512i; 2]; 2] {
        XS.0.each_ref().map(|plane| plane.look(x))
    }
    }
}

/// The numbers from `first` on, every other one.
const fn every_other(first: u8) -> [u8; 64] {
    let (mut numbers, mut i) = ([0; 64], 0);
    while i < 64 {
        numbers[i] = first + 2 * i as u8;
        i += 1;
    }
    numbers
}

impl Iq2Codebook for Iq2S {
    const SIXTEENS: bool = true;

    avx512_bytes! {
    #[inline]
    unsafe fn entries(blocks: &[*const u8; 2]) -> PanelEntries {
        // SAFETY: the caller's blocks of 82 bytes: 32 of indices, 32 of signs, 8 of high bits, 8 of scales after two.
        unsafe {
            let high = _mm512_cvtepu8_epi32(both_8(blocks.map(|p| p.add(66))));
            PanelEntries {
                low: both_32(blocks.map(|p| p.add(2))),
                high: bytes_from(high, [0, 2, 4, 6, 32, 34, 36, 38]),
                signs: both_32(blocks.map(|p| p.add(34))),
                scales: nibbles(blocks.map(|p| p.add(74))),
            }
        }
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn look(x: &Indices) -> [[__m512i; 2]; 2] {
        S.0.each_ref().map(|plane| plane.look(x))
    }
    }
}
