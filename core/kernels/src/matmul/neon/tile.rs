//! Tiles of 16 rows of unpacked weights, and what becomes of whole-number sums: the same for both engines.

use std::arch::aarch64::*;

use crate::activations::Meta;
use crate::blocks::{Format, GROUPS, Matrix, SUPER};
use crate::matmul::tiles::{LANES, Place, TOKENS};
use crate::matmul::unpacked::Unpacked;

/// The vectors of four rows in a tile.
pub(super) const VECTORS: usize = LANES / 4;

/// Whole-number sums, `[token][4 rows]`.
pub(super) type Sums = [[int32x4_t; VECTORS]; TOKENS];
/// The products so far, `[token][4 rows]`.
pub(super) type Totals = [[float32x4_t; VECTORS]; TOKENS];

/// Unpacked weights of 16 rows by 256 columns.
#[repr(C, align(64))]
pub(super) struct Tile {
    /// The values, in the engine's order.
    pub(super) q: [[i8; 16]; SUPER],
    /// The scales of each group.
    scale: [[f32; LANES]; GROUPS],
    /// The minima of each group.
    min: [[f32; LANES]; GROUPS],
}

impl Tile {
    /// Unpacks the rows of a place, whose scales and minima are put in the tile; rows that are missing repeat the last.
    #[inline(always)]
    pub(super) fn unpack<F: Format>(&mut self, matrix: &Matrix, place: Place) -> [Unpacked; LANES] {
        let at = place.start / F::LEN * F::BYTES;
        let bytes = place.cols / F::LEN * F::BYTES;
        let mut w = [Unpacked::ZERO; LANES];
        for (i, w) in w.iter_mut().enumerate() {
            w.fill::<F>(&matrix.row(place.row + i.min(place.count - 1))[at..at + bytes]);
            for g in 0..SUPER / F::GROUP {
                self.scale[g][i] = w.scale[g];
                self.min[g][i] = w.min[g];
            }
        }
        w
    }

    /// Adds one group's sums, scaled, to the totals; `group` counts groups of the format, `part` 32s.
    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn finish<F: Format>(
        &self,
        (group, part): (usize, usize),
        meta: &[&Meta; TOKENS],
        sums: &Sums,
        totals: &mut Totals,
    ) {
        let (scales, minima) = (self.scale[group].as_ptr(), self.min[group].as_ptr());
        for ((meta, sums), totals) in meta.iter().zip(sums).zip(totals) {
            let d = meta.d[part];
            let whole = if F::GROUP == 32 { meta.sum32[part] } else { meta.sum16[group] };
            let dsum = d * f32::from(whole);
            for (v, (sum, total)) in sums.iter().zip(totals).enumerate() {
                // SAFETY: `4 v + 4 <= 16` scales and minima.
                unsafe {
                    let scale = vmulq_n_f32(vld1q_f32(scales.add(4 * v)), d);
                    *total = vfmaq_f32(*total, vcvtq_f32_s32(*sum), scale);
                    if F::MIN {
                        *total = vfmsq_f32(*total, vld1q_f32(minima.add(4 * v)), vdupq_n_f32(dsum));
                    }
                }
            }
        }
    }
}

/// Adds the totals to `out`, `[token][16]`.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn add_to(out: &mut [f32], totals: &Totals) {
    for (totals, out) in totals.iter().zip(out.as_chunks_mut::<LANES>().0) {
        for (v, total) in totals.iter().enumerate() {
            // SAFETY: `4 v + 4 <= 16` floats.
            unsafe {
                let to = out.as_mut_ptr().add(4 * v);
                vst1q_f32(to, vaddq_f32(vld1q_f32(to), *total));
            }
        }
    }
}

/// Zeros.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn no_totals() -> Totals {
    [[vdupq_n_f32(0.0); VECTORS]; TOKENS]
}
