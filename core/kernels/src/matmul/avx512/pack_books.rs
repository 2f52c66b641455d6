//! Unpacking to tiles: the code-book formats.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::books::Books;
use super::tile::{Rows, Tile, TileFormat, store, transpose16};
use crate::blocks::GROUPS;
use crate::isa::avx512_bytes;
use crate::matmul::unpacked::Whole;

/// Unpacks a code-book format; its function wants the features of `Avx512Bytes`.
pub(super) struct PackBook<F>(PhantomData<F>);

impl<F: Books> TileFormat for PackBook<F> {
    type Blocks = F;

    avx512_bytes! {
    unsafe fn pack<const R: usize>(rows: &Rows, tile: &mut Tile<R>, r: usize) {
        let zero = _mm512_setzero_si512();
        // What the tile wants is 128 larger than the value.
        let more = _mm512_set1_epi8((128 - F::TOO_LARGE) as i8);
        let mut v = [[zero; 16]; 4];
        // SAFETY: the caller promises a block in every row.
        unsafe {
            let tables = F::tables();
            for i in 0..16 {
                let block = rows.row(i);
                let looked = F::values(block, &tables);
                for (v, (q, signs)) in v.iter_mut().zip(looked.values.into_iter().zip(looked.signs)) {
                    v[i] = _mm512_add_epi8(_mm512_mask_sub_epi8(q, signs, zero, q), more);
                }
                let whole = Whole::of::<F>(std::slice::from_raw_parts(block, F::BYTES));
                for (scales, scale) in tile.scale[..GROUPS].iter_mut().zip(whole.scale) {
                    scales[r][i] = i32::from(scale) as u32;
                }
                tile.d[r][i] = whole.factors.d;
            }
        }
        for (n, v) in v.into_iter().enumerate() {
            for (j, v) in transpose16(v).into_iter().enumerate() {
                store(&mut tile.q[j / 2][2 * n + j % 2][r], v);
            }
        }
    }
    }
}
