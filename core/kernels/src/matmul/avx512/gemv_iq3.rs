//! Dot products of one row: IQ3_XXS and IQ3_S, whose codebooks have entries of four values.
//!
//! A block has 64 indices. Each byte of the codebooks' two planes has two values of three bits; once extracted, vector
//! `j` of four has the `j`th value of all entries, which is the order of the activations in
//! `ActivationLayout::EveryFourth`.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::gemv::{ActivationPanels, load};
use super::gemv_codebook::{Blocks, CodebookProducts, bytes_from, negated, odd};
use super::planes::{AlignedTable, Indices, Planes, digit, fours};
use crate::activations::ActivationLayout;
use crate::blocks::{IQ3_S_LEVELS, IQ3_S_PACKED, IQ3_XXS_LEVELS, IQ3_XXS_PACKED, Iq3S, Iq3Xxs, WideFormat};
use crate::isa::avx512_bytes;

static XXS: Planes<256> = fours(&IQ3_XXS_PACKED);
static S: Planes<512> = fours(&IQ3_S_PACKED);
static XXS_DIGITS: [AlignedTable<64>; 2] = [digit(IQ3_XXS_LEVELS, 0), digit(IQ3_XXS_LEVELS, 3)];
static S_DIGITS: [AlignedTable<64>; 2] = [digit(IQ3_S_LEVELS, 0), digit(IQ3_S_LEVELS, 3)];

/// A format with a codebook of entries of four. Its functions need the features of `Avx512Bytes`.
pub(super) trait Iq3Codebook: WideFormat {
    /// The values of the two digits of a byte.
    const DIGITS: &'static [AlignedTable<64>; 2];
    /// The multiplier of a block's factor.
    const TIMES: f32;

    /// Looks up both planes at the indices of two blocks.
    ///
    /// # Safety
    /// The features, and blocks.
    unsafe fn look(blocks: &[*const u8; 2]) -> [[__m512i; 2]; 2];

    /// The signs of two entries each, twice.
    ///
    /// # Safety
    /// The features, and a block.
    unsafe fn signs(p: *const u8) -> __m512i;

    /// The scales, each twice.
    ///
    /// # Safety
    /// The features, and a block.
    unsafe fn scales(p: *const u8) -> __m512i;
}

/// The products of a format with a codebook of entries of four.
pub(super) struct Iq3<F>(PhantomData<F>);

impl<F: Iq3Codebook> CodebookProducts for Iq3<F> {
    type Blocks = F;
    const ORDER: ActivationLayout = ActivationLayout::EveryFourth;
    const TIMES: f32 = F::TIMES;

    avx512_bytes! {
    #[inline]
    unsafe fn products(blocks: &Blocks, x: [&ActivationPanels; 2]) -> [__m512i; 2] {
        [0, 1].map(|i| {
            let (rows, x) = (&blocks[i], x[i].ordered);
            // SAFETY: the promise of the caller.
            let [a, b] = unsafe {
                let [low, high] = F::look(rows);
                [0, 1].map(|row| multiply::<F>([low[row], high[row]], rows[row], x))
            };
            _mm512_add_epi32(_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xee>(a, b))
        })
    }
    }
}

avx512_bytes! {
/// The products of one block with the values of the two planes.
///
/// # Safety
/// The block, and the panel of activations.
#[inline]
unsafe fn multiply<F: Iq3Codebook>(planes: [__m512i; 2], p: *const u8, x: *const i8) -> __m512i {
    // SAFETY: the promise of the caller; tables of 64 bytes.
    unsafe {
        let signs = F::signs(p);
        let mut totals = [_mm512_setzero_si512(); 2];
        for j in 0..4 {
            let values = _mm512_permutexvar_epi8(planes[j / 2], load(F::DIGITS[j % 2].0.as_ptr()));
            // Bits 0 to 3 of the first of two entries, bits 4 to 7 of the second.
            let negative = _mm512_test_epi8_mask(signs, _mm512_set1_epi16(0x1001 << j));
            totals[j / 2] = _mm512_dpbusd_epi32(totals[j / 2], values, negated(load(x.add(64 * j)), negative));
        }
        _mm512_mullo_epi32(_mm512_add_epi32(totals[0], totals[1]), F::scales(p))
    }
}
}

avx512_bytes! {
/// The words of signs and scales of a block of IQ3_XXS.
///
/// # Safety
/// The block.
#[inline]
unsafe fn words(p: *const u8) -> __m512i {
    // SAFETY: the promise of the caller: 98 bytes, 64 of indices after two.
    _mm512_cvtepu32_epi64(unsafe { _mm256_loadu_si256(p.add(66).cast()) })
}
}

impl Iq3Codebook for Iq3Xxs {
    const DIGITS: &'static [AlignedTable<64>; 2] = &XXS_DIGITS;
    const TIMES: f32 = 0.25;

    avx512_bytes! {
    #[inline]
    unsafe fn look(blocks: &[*const u8; 2]) -> [[__m512i; 2]; 2] {
        // SAFETY: the caller's blocks.
        let low = blocks.map(|p| unsafe { load(p.add(2)) });
        let x = Indices::of_nine(low, [0; 2]);
        XXS.0.each_ref().map(|plane| plane.look(&x))
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn signs(p: *const u8) -> __m512i {
        // Seven bits each; an eighth bit makes the number of signs even.
        let parity = _mm512_set1_epi64(0x0102_0408_1020_407f);
        // SAFETY: the caller's block.
        let signs = bytes_from(unsafe { words(p) }, [0, 0, 7, 7, 14, 14, 21, 21]);
        _mm512_gf2p8affine_epi64_epi8::<0>(signs, parity)
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn scales(p: *const u8) -> __m512i {
        // SAFETY: the caller's block.
        odd(bytes_from(unsafe { words(p) }, [27, 32, 32, 32, 27, 32, 32, 32]), 0x1e, 1)
    }
    }
}

/// Each number below 32 twice.
const TWICE: AlignedTable<64> = {
    let (mut twice, mut i) = ([0; 64], 0);
    while i < 64 {
        twice[i] = i as u8 / 2;
        i += 1;
    }
    AlignedTable(twice)
};

impl Iq3Codebook for Iq3S {
    const DIGITS: &'static [AlignedTable<64>; 2] = &S_DIGITS;
    const TIMES: f32 = 1.0;

    avx512_bytes! {
    #[inline]
    unsafe fn look(blocks: &[*const u8; 2]) -> [[__m512i; 2]; 2] {
        // SAFETY: the caller's blocks of 110 bytes: 64 of indices, 8 of ninth bits after two.
        let (low, ninth) =
            unsafe { (blocks.map(|p| load(p.add(2))), blocks.map(|p| p.add(66).cast::<u64>().read_unaligned())) };
        let x = Indices::of_nine(low, ninth);
        S.0.each_ref().map(|plane| plane.look(&x))
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn signs(p: *const u8) -> __m512i {
        // SAFETY: as above, then 32 of signs.
        let signs = unsafe { _mm512_castsi256_si512(_mm256_loadu_si256(p.add(74).cast())) };
        // SAFETY: 64 bytes.
        _mm512_permutexvar_epi8(unsafe { load(TWICE.0.as_ptr()) }, signs)
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn scales(p: *const u8) -> __m512i {
        // SAFETY: as above, and four bytes of scales at the end.
        let last = unsafe { p.add(102).cast::<i64>().read_unaligned() };
        let from = _mm512_setr_epi64(31, 35, 39, 43, 47, 51, 55, 59);
        let from = _mm512_or_si512(from, _mm512_slli_epi64::<32>(from));
        odd(_mm512_multishift_epi64_epi8(from, _mm512_set1_epi64(last)), 0x1e, 1)
    }
    }
}
