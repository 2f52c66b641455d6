//! Tiles of 16 rows of unpacked weights, and the use of integer sums: the same for both engines.

use std::arch::aarch64::*;
use std::marker::PhantomData;

use crate::activations::Meta;
use crate::blocks::{Factors, Format, GROUPS, Matrix, SUPER, WideFormat};
use crate::matmul::tiles::{LANES, TOKENS, TileRegion};
use crate::matmul::unpacked::{IntegerScales, Unpacked};

/// The vectors of four rows in a tile.
pub(super) const VECTORS: usize = LANES / 4;

/// Integer sums, `[token][4 rows]`.
pub(super) type Sums = [[int32x4_t; VECTORS]; TOKENS];
/// The products so far, `[token][4 rows]`: integers for wide formats, the bits of f32 for narrow ones.
pub(super) type Totals = [[int32x4_t; VECTORS]; TOKENS];

/// The factors of a panel's groups.
pub(super) struct Scales {
    /// Wide formats: integers. Narrow ones: the bits of f32.
    pub(super) scale: [u32; GROUPS],
    /// As the scales.
    pub(super) min: [u32; GROUPS],
    /// Of wide formats.
    pub(super) factors: Factors,
}

/// A format by the width of its activations' scales.
pub(super) trait NeonFormat {
    /// The block layout.
    type Blocks: Format;

    /// The scales of a panel, of which `w` are the unpacked blocks.
    fn scales(w: &Unpacked, blocks: &[u8]) -> Scales;
}

/// One scale per 32 activations.
pub(super) struct NeonNarrow<F: Format>(PhantomData<F>);
/// One scale per 256.
pub(super) struct NeonWide<F: WideFormat>(PhantomData<F>);

impl<F: Format> NeonFormat for NeonNarrow<F> {
    type Blocks = F;

    #[inline(always)]
    fn scales(w: &Unpacked, _: &[u8]) -> Scales {
        Scales {
            scale: w.scale.map(f32::to_bits),
            min: w.min.map(f32::to_bits),
            factors: Factors { d: 0.0, dmin: 0.0 },
        }
    }
}

impl<F: WideFormat> NeonFormat for NeonWide<F> {
    type Blocks = F;

    #[inline(always)]
    fn scales(_: &Unpacked, blocks: &[u8]) -> Scales {
        let whole = IntegerScales::of::<F>(blocks);
        let wide = |v: i16| i32::from(v) as u32;
        Scales { scale: whole.scale.map(wide), min: whole.min.map(wide), factors: whole.factors }
    }
}

/// Unpacked weights of 16 rows by 256 columns.
#[repr(C, align(64))]
pub(super) struct NeonTile {
    /// The values, in the order of the engine.
    pub(super) q: [[i8; 16]; SUPER],
    /// The scales of each group, as in `Scales`.
    scale: [[u32; LANES]; GROUPS],
    /// The minima of each group.
    min: [[u32; LANES]; GROUPS],
    /// The factors of the scales and of the minima.
    d: [f32; LANES],
    dmin: [f32; LANES],
}

impl NeonTile {
    /// Unpacks the rows of a place, whose scales and minima go into the tile; missing rows repeat the last one.
    #[inline(always)]
    pub(super) fn unpack<S: NeonFormat>(&mut self, matrix: &Matrix, place: TileRegion) -> [Unpacked; LANES] {
        let at = place.start / S::Blocks::LEN * S::Blocks::BYTES;
        let bytes = place.cols / S::Blocks::LEN * S::Blocks::BYTES;
        let mut w = [Unpacked::ZERO; LANES];
        for (i, w) in w.iter_mut().enumerate() {
            let blocks = &matrix.row(place.row + i.min(place.count - 1))[at..at + bytes];
            w.fill::<S::Blocks>(blocks);
            let Scales { scale, min, factors } = S::scales(w, blocks);
            for g in 0..SUPER / S::Blocks::GROUP {
                (self.scale[g][i], self.min[g][i]) = (scale[g], min[g]);
            }
            (self.d[i], self.dmin[i]) = (factors.d, factors.dmin);
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
            for (v, (sum, total)) in sums.iter().zip(totals).enumerate() {
                // SAFETY: `4 v + 4 <= 16` scales and minima.
                let (scale, min) = unsafe { (vld1q_u32(scales.add(4 * v)), vld1q_u32(minima.add(4 * v))) };
                if F::WIDE {
                    *total = vmlaq_s32(*total, *sum, vreinterpretq_s32_u32(scale));
                    continue;
                }
                let scale = vmulq_n_f32(vreinterpretq_f32_u32(scale), meta.d[part]);
                let mut sum = vfmaq_f32(vreinterpretq_f32_s32(*total), vcvtq_f32_s32(*sum), scale);
                if F::MIN {
                    sum = vfmsq_f32(sum, vreinterpretq_f32_u32(min), vdupq_n_f32(meta.dsum[part]));
                }
                *total = vreinterpretq_s32_f32(sum);
            }
        }
    }

    /// Adds the totals of a panel to `out`, `[token][16]`: see the order in `matmul`.
    #[target_feature(enable = "neon")]
    #[inline]
    pub(super) fn add_to<F: Format>(&self, meta: &[&Meta; TOKENS], totals: &Totals, out: &mut [f32]) {
        for ((meta, totals), out) in meta.iter().zip(totals).zip(out.as_chunks_mut::<LANES>().0) {
            for (v, total) in totals.iter().enumerate() {
                // SAFETY: `4 v + 4 <= 16` floats and factors.
                unsafe {
                    let to = out.as_mut_ptr().add(4 * v);
                    let old = vld1q_f32(to);
                    if !F::WIDE {
                        vst1q_f32(to, vaddq_f32(old, vreinterpretq_f32_s32(*total)));
                        continue;
                    }
                    let d = vmulq_n_f32(vld1q_f32(self.d.as_ptr().add(4 * v)), meta.d[0]);
                    let mut sum = vfmaq_f32(old, vcvtq_f32_s32(*total), d);
                    if F::MIN {
                        let dmin = vmulq_n_f32(vld1q_f32(self.dmin.as_ptr().add(4 * v)), meta.d[0]);
                        sum = vfmsq_f32(sum, vcvtq_f32_s32(self.minima::<F>(meta, v)), dmin);
                    }
                    vst1q_f32(to, sum);
                }
            }
        }
    }

    /// The integer minima of four rows times the sums of the activations.
    #[target_feature(enable = "neon")]
    #[inline]
    fn minima<F: Format>(&self, meta: &Meta, v: usize) -> int32x4_t {
        let mut total = vdupq_n_s32(0);
        for g in 0..SUPER / F::GROUP {
            let sum = if F::GROUP == 32 { meta.sum32[g] } else { meta.sum16[g] };
            // SAFETY: `4 v + 4 <= 16` minima.
            let min = unsafe { vld1q_u32(self.min[g].as_ptr().add(4 * v)) };
            total = vmlaq_n_s32(total, vreinterpretq_s32_u32(min), i32::from(sum));
        }
        total
    }
}

/// Adds totals in f32 to `out`, `[token][16]`.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn add_to(out: &mut [f32], totals: &[[float32x4_t; VECTORS]; TOKENS]) {
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
pub(super) fn no_totals() -> [[float32x4_t; VECTORS]; TOKENS] {
    [[vdupq_n_f32(0.0); VECTORS]; TOKENS]
}

/// A 4 x 4 transpose of dwords.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn transpose([a, b, c, d]: [int32x4_t; 4]) -> [int32x4_t; 4] {
    let wide = |v| vreinterpretq_s64_s32(v);
    let (ab, cd) = ([vtrn1q_s32(a, b), vtrn2q_s32(a, b)], [vtrn1q_s32(c, d), vtrn2q_s32(c, d)]);
    let low = |i: usize| vreinterpretq_s32_s64(vtrn1q_s64(wide(ab[i]), wide(cd[i])));
    let high = |i: usize| vreinterpretq_s32_s64(vtrn2q_s64(wide(ab[i]), wide(cd[i])));
    [low(0), low(1), high(0), high(1)]
}
