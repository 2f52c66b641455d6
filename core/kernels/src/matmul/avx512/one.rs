//! One row of activations: products straight on the blocks.
//!
//! Two rows of weights are read in turn, half of the task's rows apart: rows that lie next to each other would
//! confuse the hardware's prefetching (measured: half of the memory rate or less). What sixteen rows leave behind is then
//! added up with the rows in the lanes of vectors.

use std::arch::x86_64::*;

use super::one_lanes::Parts;
use crate::activations::{Meta, Order, Quantised};
use crate::blocks::{Format, SUPER};
use crate::isa::{Avx512, Avx512Bytes, avx512, avx512_bytes};
use crate::matmul::prefetch::prefetch_far;
use crate::matmul::types::{Choice, Job, Kernel, Rounded};
use crate::memory::Scratch;

/// The single row of rounded activations: pointers to whole panels of 256, padded with zeros.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// The values in order.
    pub(super) values: *const i8,
    /// The values in the order of the format.
    pub(super) ordered: *const i8,
    /// From one panel of these to the next.
    step: usize,
    /// Scales and sums per panel.
    pub(super) meta: *const Meta,
    /// The number of groups of 32 columns.
    pub(super) groups: usize,
}

impl Row {
    /// The same from panel `panel` on.
    ///
    /// # Safety
    /// There are so many panels.
    #[inline(always)]
    pub(super) unsafe fn panel(&self, panel: usize) -> Row {
        // SAFETY: the promise of the caller; each panel has 256 values, and `step` in the order of the format.
        unsafe {
            Row {
                values: self.values.add(panel * SUPER),
                ordered: self.ordered.wrapping_add(panel * self.step),
                step: self.step,
                meta: self.meta.add(panel),
                groups: self.groups - panel * 8,
            }
        }
    }
}

/// The rows of weights of a job that are in the lanes of vectors together: as many of its first half as of its second.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    /// The first row of each half.
    halves: [usize; 2],
    /// How many rows of each half there are, 0 to 8.
    counts: [usize; 2],
    /// The last row of the job.
    last: usize,
}

impl Lanes {
    /// Those of a job of `rows` rows that begin at row `first` of each half.
    #[inline(always)]
    fn of(rows: usize, first: usize) -> Lanes {
        let far = rows.div_ceil(2);
        Lanes {
            halves: [first, far + first],
            counts: [(far - first).min(8), (rows - far).saturating_sub(first).min(8)],
            last: rows - 1,
        }
    }

    /// The row of lane `i`; where there is none, the last one of the job.
    pub(super) fn row(&self, i: usize) -> usize {
        (self.halves[i / 8] + i % 8).min(self.last)
    }

    /// Stores the results of the lanes for all tokens.
    fn store(&self, job: &mut Job<'_, Rounded>, values: &[f32; 16]) {
        for token in 0..job.tokens.len() {
            for half in 0..2 {
                job.out.store(token, self.halves[half], &values[8 * half..8 * half + self.counts[half]]);
            }
        }
    }
}

/// The two ways through a panel: what the rows leave behind, one after the other, and what is made of it with the rows in
/// the lanes of vectors. So each row's f32 sums have the order that `matmul` defines, and rows are still read as memory
/// likes it.
pub(super) trait OneRow {
    /// The block layout.
    type Blocks: Format;
    /// What sixteen rows leave of a panel.
    type Parts: Parts;
    /// Constants in registers.
    type Constants: Copy;
    /// How it wants the activations besides in order.
    const ORDER: Option<Order>;

    /// The constants.
    ///
    /// # Safety
    /// The processor has AVX-512 VNNI, and for formats that want more what they want.
    unsafe fn constants() -> Self::Constants;

    /// Multiplies the blocks at `blocks` with the panel `x`, as row `lane`.
    ///
    /// # Safety
    /// As `constants`; the blocks of `x.groups` groups, at most 8, are readable.
    unsafe fn panel(
        blocks: *const u8,
        x: &Row,
        constants: &Self::Constants,
        parts: &mut Self::Parts,
        lane: usize,
    );
}

/// The kernel for a format.
pub(super) fn choose<D: OneRow>(_: Avx512) -> Choice<Rounded> {
    // SAFETY: the token is proof of the features; the function is for this format.
    let kernel = unsafe { Kernel::new(D::Blocks::QUANT, one_row::<D>) };
    Choice { kernel: kernel.with_order(D::ORDER), tile: 16 }
}

/// The kernel for a format that wants more features.
pub(super) fn choose_with<D: OneRow>(_: Avx512Bytes) -> Choice<Rounded> {
    // SAFETY: the token is proof of those too; the function is for this format.
    let kernel = unsafe { Kernel::new(D::Blocks::QUANT, one_row_of_bytes::<D>) };
    Choice { kernel: kernel.with_order(D::ORDER), tile: 16 }
}

avx512! {
fn one_row<D: OneRow>(job: &mut Job<'_, Rounded>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { run::<D>(job, scratch) }
}
}

avx512_bytes! {
fn one_row_of_bytes<D: OneRow>(job: &mut Job<'_, Rounded>, scratch: &mut Scratch) {
    // SAFETY: as above.
    unsafe { run::<D>(job, scratch) }
}
}

/// The bytes of parts that wait, twice: most of a first-level cache.
const WAITING: usize = 12 << 10;

/// Sixteen rows by some panels.
struct Batch<P> {
    lanes: Lanes,
    start: usize,
    end: usize,
    /// What the rows leave.
    parts: *mut P,
}

/// The batches of a job in order, `chunk` panels each, which leave their parts in two places by turns.
struct Batches<P> {
    rows: usize,
    panels: usize,
    chunk: usize,
    parts: *mut P,
}

impl<P> Batches<P> {
    /// How many there are of sixteen rows.
    fn pieces(&self) -> usize {
        self.panels.max(1).div_ceil(self.chunk)
    }

    fn count(&self) -> usize {
        self.rows.div_ceil(2).div_ceil(8) * self.pieces()
    }

    /// Batch `n`; absent past the last.
    #[inline(always)]
    fn get(&self, n: usize) -> Option<Batch<P>> {
        if n >= self.count() {
            return None;
        }
        let (first, start) = (n / self.pieces() * 8, n % self.pieces() * self.chunk);
        let end = (start + self.chunk).min(self.panels);
        let parts = self.parts.wrapping_add(n % 2 * self.chunk);
        Some(Batch { lanes: Lanes::of(self.rows, first), start, end, parts })
    }
}

/// Computes a job. What a batch left is added up while the next one is read, a bit after every two rows, so that memory is
/// never idle.
///
/// # Safety
/// The features of the format are there.
#[inline(always)]
unsafe fn run<D: OneRow>(job: &mut Job<'_, Rounded>, scratch: &mut Scratch) {
    let x = row_of(job.x, D::ORDER);
    let (w, panels) = (job.w, x.groups.div_ceil(8));
    let chunk = (WAITING / size_of::<D::Parts>()).clamp(1, panels.max(1));
    let parts = scratch.bytes(2 * chunk * size_of::<D::Parts>()).as_mut_ptr().cast::<D::Parts>();
    // SAFETY: the promise of the caller.
    let (constants, mut sums) = unsafe { (D::constants(), _mm512_setzero_ps()) };
    let batches = Batches { rows: w.rows(), panels, chunk, parts };
    let mut before: Option<Batch<D::Parts>> = None;
    for n in 0..=batches.count() {
        let batch = batches.get(n);
        for i in 0..8 {
            if let Some(batch) = &batch {
                let rows = [i, i + 8].map(|i| w.row(batch.lanes.row(i)).as_ptr());
                // SAFETY: the rows have whole blocks for all columns (`Matrix::new`), `x` as many columns (checked by
                // `matmul`), padded to whole panels; the scratch is aligned and holds two chunks of parts, whose bits are
                // all valid.
                unsafe { leave::<D>(batch, rows, &x, &constants, i) };
            }
            if let Some(Batch { start, end, parts, .. }) = &before {
                let (start, end, parts) = (*start, *end, *parts);
                let count = end - start;
                for n in count * i / 8..count * (i + 1) / 8 {
                    // SAFETY: as above; every lane was written.
                    sums = unsafe { (*parts.add(n)).add(&x.panel(start + n), sums) };
                }
            }
        }
        if let Some(Batch { lanes, .. }) = before.as_ref().filter(|before| before.end == panels) {
            let mut values = [0f32; 16];
            // SAFETY: room for sixteen floats.
            sums = unsafe {
                _mm512_storeu_ps(values.as_mut_ptr(), sums);
                _mm512_setzero_ps()
            };
            lanes.store(job, &values);
        }
        before = batch;
    }
}

/// Multiplies the panels of a batch in two rows, which are the lanes `i` and `i + 8`.
///
/// # Safety
/// As for `OneRow::panel`, for all panels of the batch.
#[inline(always)]
unsafe fn leave<D: OneRow>(
    batch: &Batch<D::Parts>,
    rows: [*const u8; 2],
    x: &Row,
    constants: &D::Constants,
    i: usize,
) {
    let panel_bytes = SUPER / D::Blocks::LEN * D::Blocks::BYTES;
    for panel in batch.start..batch.end {
        // SAFETY: the promise of the caller.
        unsafe {
            let (x, parts) = (x.panel(panel), &mut *batch.parts.add(panel - batch.start));
            for (half, row) in rows.into_iter().enumerate() {
                let blocks = row.add(panel * panel_bytes);
                prefetch_far(blocks, panel_bytes);
                D::panel(blocks, &x, constants, parts, i + 8 * half);
            }
        }
    }
}

fn row_of(x: &Quantised, order: Option<Order>) -> Row {
    Row {
        values: x.all_values().as_ptr(),
        ordered: order.map_or(&[][..], |order| x.arranged(order)).as_ptr(),
        step: order.map_or(0, Order::panel),
        meta: x.all_meta().as_ptr(),
        groups: x.cols() / 32,
    }
}

avx512! {
/// 64 bytes at `p`.
#[inline]
pub(super) unsafe fn load<P>(p: *const P) -> __m512i {
    // SAFETY: the caller promises 64 readable bytes.
    unsafe { _mm512_loadu_si512(p.cast()) }
}
}

avx512! {
/// The f16 at `p`, as float.
///
/// # Safety
/// Two readable bytes.
#[inline]
pub(super) unsafe fn half(p: *const u8) -> f32 {
    // SAFETY: the promise of the caller.
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(unsafe { p.cast::<u16>().read_unaligned() }))))
}
}
