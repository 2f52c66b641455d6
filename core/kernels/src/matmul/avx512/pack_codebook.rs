//! Unpacking to wide tiles: the codebook formats.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::codebook::CodebookFormat;
use super::tile_narrow::TileRows;
use super::tile_wide::{PackWide, WideTile, halves_of, steps_of, store_step};
use crate::blocks::SUPER;
use crate::isa::avx512_bytes;
use crate::matmul::unpacked::IntegerScales;

/// Unpacks a codebook format; its function needs the features of `Avx512Bytes`.
pub(super) struct PackCodebook<F>(PhantomData<F>);

impl<F: CodebookFormat> PackWide for PackCodebook<F> {
    type Blocks = F;

    avx512_bytes! {
    unsafe fn pack(rows: &TileRows, tile: &mut WideTile, r: usize) {
        let zero = _mm512_setzero_si512();
        // The tile holds the value plus 128.
        let more = _mm512_set1_epi8((128 - F::TOO_LARGE) as i8);
        let mut v = [[zero; 16]; 4];
        // SAFETY: the caller promises a block in every row.
        unsafe {
            let tables = F::tables();
            for i in 0..16 {
                rows.ask_row(i, F::BYTES);
                let block = rows.row(i);
                let looked = F::values(block, &tables);
                for (v, (q, signs)) in v.iter_mut().zip(looked.values.into_iter().zip(looked.signs)) {
                    v[i] = _mm512_add_epi8(_mm512_mask_sub_epi8(q, signs, zero, q), more);
                }
                let whole = IntegerScales::of::<F>(std::slice::from_raw_parts(block, F::BYTES));
                for (pair, scales) in tile.scale[..SUPER / 2 / F::GROUP].iter_mut().enumerate() {
                    scales[r][i] = halves_of::<F::Shape>(&whole, pair);
                }
                tile.d[r][i] = whole.factors.d;
            }
        }
        if F::GROUP == 16 { sixteens(v, tile, r) } else { groups(v, tile, r) }
    }
    }
}

avx512_bytes! {
/// Stores values whose pairs are groups of 16: the first halves of all 32s are in the first two vectors of a row.
#[inline]
fn sixteens(v: [[__m512i; 16]; 4], tile: &mut WideTile, r: usize) {
    for n in 0..2 {
        let (mut low, mut high) = (v[n], v[n]);
        for (i, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
            // Lane l of 128 bits: the first, then the second dwords of group 2 l, and of group 2 l + 1.
            (*low, *high) = (_mm512_unpacklo_epi32(v[n][i], v[n + 2][i]), _mm512_unpackhi_epi32(v[n][i], v[n + 2][i]));
        }
        for (odd, rows) in [low, high].into_iter().enumerate() {
            for (c, step) in steps_of(rows).into_iter().enumerate() {
                let group = c / 2 * 2 + odd;
                store_step(&mut tile.q[4 * group + 2 * n + c % 2][r], step);
            }
        }
    }
}
}

avx512_bytes! {
/// Stores values whose pairs are groups of 32, one apart.
#[inline]
fn groups(v: [[__m512i; 16]; 4], tile: &mut WideTile, r: usize) {
    let order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    for (n, mut rows) in v.into_iter().enumerate() {
        for row in &mut rows {
            *row = _mm512_permutexvar_epi32(order, *row);
        }
        for (c, step) in steps_of(rows).into_iter().enumerate() {
            store_step(&mut tile.q[c / 2 * 8 + 2 * n + c % 2][r], step);
        }
    }
}
}
