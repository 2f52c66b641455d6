//! One row of activations for formats with many scales: some rows of weights by some panels fill the lanes of vectors,
//! in which their partial results are added.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanels, GemvFormat, row_of};
use super::gemv_lanes::LaneParts;
use super::tile_narrow::store_floats;
use crate::activations::{Int8Rows, LANES, LaneScales, panels_together};
use crate::blocks::{Format, SUPER};
use crate::isa::avx512;
use crate::matmul::prefetch::prefetch;
use crate::matmul::types::{Int8Activations, MatmulJob};

/// How a job fills the sixteen places of vectors: `panels` panels by `width` rows, alternately from the first and the
/// second half of the job; the rows of a panel are adjacent.
#[derive(Clone, Copy)]
struct Filling {
    /// The rows of the job.
    rows: usize,
    /// The panels of a row that share the lanes.
    panels: usize,
    /// The rows there.
    width: usize,
}

impl Filling {
    fn new(rows: usize, panels: usize) -> Filling {
        let panels = panels_together(panels);
        Filling { rows, panels, width: LANES / panels }
    }

    /// Rows `first` of both halves; if the second half has no such row, the last row of the job.
    #[inline(always)]
    fn pair(self, first: usize) -> [usize; 2] {
        [first, (first + self.rows.div_ceil(2)).min(self.rows - 1)]
    }
}

/// The scales and sums of the panels in the lanes.
#[derive(Clone, Copy)]
pub(super) struct LaneFactors {
    /// Of each of `LaneScales`.
    spreads: [*const u8; LaneScales::COUNT],
    /// The lanes whose panels have group `g` of 32 columns.
    lanes: [__mmask16; 8],
}

impl LaneFactors {
    /// Those of the first panels.
    fn of(x: &Int8Rows) -> LaneFactors {
        LaneFactors { spreads: LaneScales::ALL.map(|spread| x.spread_out(spread).as_ptr()), lanes: [!0; 8] }
    }

    /// Goes on to the next panels.
    #[inline(always)]
    fn next(&mut self) {
        for (at, spread) in self.spreads.iter_mut().zip(LaneScales::ALL) {
            *at = at.wrapping_add(spread.vectors() * LANES * 4);
        }
    }

    /// Records that there are `groups` groups from the first of these panels on.
    fn end(&mut self, groups: usize, filling: Filling) {
        for (g, lanes) in self.lanes.iter_mut().enumerate() {
            *lanes = !(!0u32 << ((groups + 7 - g) / 8 * filling.width)) as __mmask16;
        }
    }

    avx512! {
    /// Vector `i` of the scales and sums that the format reads.
    ///
    /// # Safety
    /// The format reads it (`RowSums::SPREADS`), and there are so many vectors.
    #[inline]
    pub(super) unsafe fn vector(&self, spread: LaneScales, i: usize) -> __m512i {
        // SAFETY: the promise of the caller.
        unsafe { _mm512_loadu_si512(self.spreads[spread as usize].add(64 * i).cast()) }
    }
    }

    /// The lanes whose panels have group `g` of 32 columns.
    #[inline(always)]
    pub(super) fn lanes(&self, g: usize) -> __mmask16 {
        self.lanes[g]
    }
}

/// Computes a job.
///
/// # Safety
/// The features of the format are there.
#[inline(always)]
pub(super) unsafe fn run<D>(job: &mut MatmulJob<'_, Int8Activations>)
where
    D: GemvFormat<Parts: LaneParts>,
{
    let x = row_of(job.x, D::ORDER);
    let panels = x.groups.div_ceil(8);
    let filling = Filling::new(job.w.rows(), panels);
    // SAFETY: the promise of the caller; all bits of the parts are valid.
    let (constants, mut parts) = unsafe { (D::constants(), std::mem::zeroed::<D::Parts>()) };
    let (all, far) = (LaneFactors::of(job.x), filling.rows.div_ceil(2));
    for first in (0..far).step_by(filling.width / 2) {
        let end = (first + filling.width / 2).min(far);
        // SAFETY: the promise of the caller.
        let mut sums = unsafe { _mm512_setzero_ps() };
        let mut factors = all;
        for start in (0..panels).step_by(filling.panels) {
            // SAFETY: there are more panels.
            let (here, x) = (filling.panels.min(panels - start), unsafe { x.panel(start) });
            for pair in first..end {
                let rows = filling
                    .pair(pair)
                    .map(|row| job.w.row(row).as_ptr().wrapping_add(start * panel_bytes::<D>()));
                // SAFETY: the rows have whole blocks for all columns (`Matrix::new`), `x` as many columns (checked by
                // `matmul`), padded to whole panels.
                unsafe {
                    leave::<D>(rows, &x, &constants, (&mut parts, 2 * (pair - first)), (here, filling.width))
                };
            }
            if x.groups < 8 * filling.panels {
                factors.end(x.groups, filling);
            }
            // SAFETY: the promise of the caller; the partial results of the panels.
            sums = unsafe { in_order(parts.add(&factors), here, filling.width, sums) };
            factors.next();
        }
        let mut values = [0f32; LANES];
        // SAFETY: the promise of the caller.
        unsafe { store_floats(&mut values, sums) };
        for (pair, values) in (first..end).zip(values.as_chunks::<2>().0) {
            for (row, value) in filling.pair(pair).iter().zip(values) {
                for token in 0..job.tokens.len() {
                    job.out.store(token, *row, std::slice::from_ref(value));
                }
            }
        }
    }
}

/// The bytes of a panel of a row.
fn panel_bytes<D: GemvFormat>() -> usize {
    SUPER / D::Blocks::LEN * D::Blocks::BYTES
}

/// Multiplies `panels` panels of two rows, which go to places `width` apart from `lane` on.
///
/// # Safety
/// As for `GemvFormat::panel`.
#[inline(always)]
unsafe fn leave<D: GemvFormat>(
    rows: [*const u8; 2],
    x: &ActivationPanels,
    constants: &D::Constants,
    (parts, lane): (&mut D::Parts, usize),
    (panels, width): (usize, usize),
) {
    let bytes = panel_bytes::<D>();
    let whole = panels.min(x.groups / 8);
    // SAFETY: the promise of the caller.
    unsafe {
        for panel in 0..whole {
            let x = x.panel(panel);
            for (half, row) in rows.iter().enumerate() {
                let blocks = row.add(panel * bytes);
                prefetch(blocks, bytes);
                D::panel(blocks, &x, constants, parts, lane + panel * width + half);
            }
        }
        if whole < panels {
            let x = x.panel(whole);
            for (half, row) in rows.iter().enumerate() {
                D::last(row.add(whole * bytes), &x, constants, parts, lane + whole * width + half);
            }
        }
    }
}

avx512! {
/// Adds the sums of `panels` panels, in order, to those of the rows in the first `width` lanes.
#[inline]
fn in_order(totals: __m512, panels: usize, width: usize, sums: __m512) -> __m512 {
    let mut lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let mut sums = sums;
    for _ in 0..panels {
        sums = _mm512_add_ps(sums, _mm512_permutexvar_ps(lane, totals));
        lane = _mm512_add_epi32(lane, _mm512_set1_epi32(width as i32));
    }
    sums
}
}
