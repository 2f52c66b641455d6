//! Rounding activations to 8 bits: `q = round(x * 127 / max|x|)`, ties to even, per 32 or per 256 values, as
//! ggml's `quantize_row_q8_0` and `quantize_row_q8_K` do (which differ in the storage and sign of the scale).

use std::sync::OnceLock;

use super::{ActivationLayout, Activations, LaneScales, Rounding};
use crate::blocks::SUPER;
use crate::isa::DetectedIsa;
#[cfg(target_arch = "x86_64")]
use crate::isa::avx2;
use crate::memory::Buffer;
use crate::{Cpu, KernelError};

/// What kernels need of 256 rounded values besides the values.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Meta {
    /// The scale of each 32 values; all equal in the wide form.
    pub(crate) d: [f32; 8],
    /// -128 times the sum of each 32 rounded values.
    pub(crate) neg32: [i32; 8],
    /// The sum of each 32 rounded values times their scale.
    pub(crate) dsum: [f32; 8],
    /// The sum of each 32 rounded values.
    pub(crate) sum32: [i16; 8],
    _pad: [u32; 4],
    /// -128 times the sum of each 16 rounded values.
    pub(crate) neg16: [i32; 16],
    /// The sum of each 16 rounded values.
    pub(crate) sum16: [i16; 16],
}

/// Rows rounded to 8 bits, in panels of 256 columns: `[panel][row][256]`, the last panel padded with zeros.
pub(crate) struct Int8Rows {
    rows: usize,
    cols: usize,
    q: Buffer,
    meta: Buffer,
    /// The values in other orders.
    orders: [OnceLock<Buffer>; ActivationLayout::COUNT],
    /// Scales and sums spread over lanes.
    spreads: [OnceLock<Buffer>; LaneScales::COUNT],
}

/// How many rows one task quantizes.
const ROWS_PER_TASK: usize = 8;
/// How many panels one task reorders.
const PANELS_PER_TASK: usize = 256;

impl Int8Rows {
    /// Rounds all rows; in parallel where there are many.
    pub(super) fn new(cpu: &Cpu, x: &Activations, rounding: Rounding) -> Result<Self, KernelError> {
        let panels = x.cols.div_ceil(SUPER);
        let buffers = cpu.pool().buffers();
        let mut q = buffers.take(panels * x.rows * SUPER);
        let mut meta = buffers.take(panels * x.rows * size_of::<Meta>());
        let out = Int8Output { q: q.bytes_mut().as_mut_ptr(), meta: meta.bytes_mut().as_mut_ptr().cast() };
        let kernel = RowKernel::of(cpu.level());
        let job = |task: usize| {
            let out = &out;
            for row in task * ROWS_PER_TASK..((task + 1) * ROWS_PER_TASK).min(x.rows) {
                let values = x.row(row);
                for (p, values) in values.chunks(SUPER).enumerate() {
                    let at = p * x.rows + row;
                    // SAFETY: `at < panels * rows`, the number of records in both buffers, and every `(p, row)`
                    // is visited once, so the two references are in bounds and exclusive.
                    let (q, meta) = unsafe { (&mut *out.q.add(at * SUPER).cast(), &mut *out.meta.add(at)) };
                    kernel.run(values, rounding, q, meta);
                }
            }
        };
        if x.rows <= ROWS_PER_TASK {
            job(0);
        } else {
            cpu.pool().run(x.rows.div_ceil(ROWS_PER_TASK), &job)?;
        }
        Ok(Int8Rows {
            rows: x.rows,
            cols: x.cols,
            q,
            meta,
            orders: Default::default(),
            spreads: Default::default(),
        })
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of values per row.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// The number of panels of 256 columns.
    pub(crate) fn panels(&self) -> usize {
        self.cols.div_ceil(SUPER)
    }

    /// The rounded values of one row in one panel.
    #[inline(always)]
    pub(crate) fn values(&self, panel: usize, row: usize) -> &[i8; SUPER] {
        let at = (panel * self.rows + row) * SUPER;
        match self.q.signed()[at..].first_chunk() {
            Some(values) => values,
            None => &[0; SUPER],
        }
    }

    /// The scales and sums of one row in one panel.
    #[inline(always)]
    pub(crate) fn meta(&self, panel: usize, row: usize) -> &Meta {
        &self.all_meta()[panel * self.rows + row]
    }

    /// All values, `[panel][row][256]`.
    pub(crate) fn all_values(&self) -> &[i8] {
        self.q.signed()
    }

    /// All scales and sums, `[panel][row]`.
    pub(crate) fn all_meta(&self) -> &[Meta] {
        let bytes = self.meta.bytes();
        // SAFETY: the bytes start on a cache line, as a `Meta` requires, and hold so many of them; `new` wrote every
        // one.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<Meta>()) }
    }

    /// Computes the values in a layout, if they do not exist yet.
    ///
    /// # Errors
    /// [`KernelError::JobPanicked`].
    pub(crate) fn arrange(&self, cpu: &Cpu, order: ActivationLayout) -> Result<(), KernelError> {
        let slot = &self.orders[order as usize];
        // Computed outside the lock, so that no thread waits for the parallel region of another one.
        if slot.get().is_none() {
            let mut to = cpu.pool().buffers().take(self.panels() * self.rows * order.panel());
            let (from, bytes) = (self.q.bytes(), to.bytes_mut());
            if self.rows <= ROWS_PER_TASK {
                order.arrange(from, bytes);
            } else {
                cpu.pool().run_chunks(bytes, PANELS_PER_TASK * order.panel(), &|task, to| {
                    order.arrange(&from[task * PANELS_PER_TASK * SUPER..], to);
                })?;
            }
            slot.get_or_init(|| to);
        }
        Ok(())
    }

    /// The values in a layout, `[panel][row]`; empty before [`Self::arrange`] has computed it.
    pub(crate) fn arranged(&self, order: ActivationLayout) -> &[i8] {
        self.orders[order as usize].get().map_or(&[], |b| b.signed())
    }

    /// Broadcasts scales or sums of a single row to lanes, if that was not done yet.
    pub(crate) fn spread(&self, cpu: &Cpu, spread: LaneScales) {
        assert!(self.rows == 1, "spread for kernels of one row");
        self.spreads[spread as usize].get_or_init(|| {
            let mut to = cpu.pool().buffers().take(spread.len(self.panels()) * 4);
            spread.spread(self.all_meta(), to.bytes_mut());
            to
        });
    }

    /// Scales or sums in the layout of `LaneScales`; empty before [`Self::spread`] has broadcast them.
    pub(crate) fn spread_out(&self, spread: LaneScales) -> &[u8] {
        self.spreads[spread as usize].get().map_or(&[], |b| b.bytes())
    }
}

struct Int8Output {
    q: *mut u8,
    meta: *mut Meta,
}
// SAFETY: the tasks of `Int8Rows::new` write disjoint records behind the pointers.
unsafe impl Sync for Int8Output {}

/// Rounds up to 256 values of a row.
#[derive(Clone, Copy)]
struct RowKernel(unsafe fn(&[f32], Rounding, &mut [i8; SUPER], &mut Meta));

impl RowKernel {
    fn of(level: DetectedIsa) -> RowKernel {
        match level {
            #[cfg(target_arch = "x86_64")]
            DetectedIsa::Avx512(_) => RowKernel(super::avx512::quantize),
            #[cfg(target_arch = "x86_64")]
            DetectedIsa::Avx2(_) => RowKernel(quantize_avx2),
            _ => RowKernel(quantize),
        }
    }

    #[inline]
    fn run(self, values: &[f32], rounding: Rounding, q: &mut [i8; SUPER], meta: &mut Meta) {
        // SAFETY: `of`, the only maker, had the proof of the function's instruction set.
        unsafe { (self.0)(values, rounding, q, meta) }
    }
}

#[cfg(target_arch = "x86_64")]
avx2! {
fn quantize_avx2(values: &[f32], rounding: Rounding, q: &mut [i8; SUPER], meta: &mut Meta) {
    quantize(values, rounding, q, meta);
}
}

/// Rounds up to 256 values; missing values count as zero.
#[inline(always)]
fn quantize(values: &[f32], rounding: Rounding, q: &mut [i8; SUPER], meta: &mut Meta) {
    let mut padded = [0f32; SUPER];
    padded[..values.len().min(SUPER)].copy_from_slice(&values[..values.len().min(SUPER)]);
    let mut largest = [0f32; 8];
    for (largest, group) in largest.iter_mut().zip(padded.as_chunks::<32>().0) {
        *largest = max_abs(group);
    }
    if rounding == Rounding::Q8_K {
        largest = [f32::from_bits(largest.into_iter().fold(0, |m, v| m.max(v.to_bits()))); 8];
    }
    for (g, group) in padded.as_chunks::<32>().0.iter().enumerate() {
        let d = largest[g] / 127.0;
        // A NaN or infinity must not become a plausible number: the scale preserves it. If the inverse would overflow,
        // all values count as zero.
        let inverse = if d >= f32::MIN_POSITIVE { 1.0 / d } else { 0.0 };
        meta.d[g] = d;
        for half in 0..2 {
            let mut sum = 0i32;
            for i in half * 16..half * 16 + 16 {
                // The eight bits of a NaN do not matter, and an infinity times zero gives zeros: the scale is not
                // finite.
                let rounded = round(group[i] * inverse) as i8;
                q[g * 32 + i] = rounded;
                sum += i32::from(rounded);
            }
            meta.neg16[g * 2 + half] = -128 * sum;
            meta.sum16[g * 2 + half] = sum as i16;
        }
        meta.neg32[g] = meta.neg16[g * 2] + meta.neg16[g * 2 + 1];
        meta.sum32[g] = meta.sum16[g * 2] + meta.sum16[g * 2 + 1];
        meta.dsum[g] = d * f32::from(meta.sum32[g]);
    }
}

/// To the nearest integer, ties to even, for |v| < 2^22: the addition leaves no bits for a fraction.
#[inline(always)]
fn round(v: f32) -> i32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23
    ((v + MAGIC).to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32)
}

/// The largest magnitude of 32 values; NaN if one of them is NaN.
#[inline(always)]
fn max_abs(group: &[f32; 32]) -> f32 {
    // Magnitudes as integers have the order of the floats, with NaN above infinity; integer maxima vectorize.
    let bits = group.iter().fold(0u32, |m, v| m.max(v.to_bits() & 0x7fff_ffff));
    f32::from_bits(bits)
}
