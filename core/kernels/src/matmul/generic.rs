//! Products with rounded activations for every quantised format, in plain Rust over `Format`.
#![allow(clippy::needless_range_loop, reason = "several arrays are indexed by group")]

use super::job::{Form, Input, Job, Kernel};
use super::plan::Choice;
use crate::activations::Meta;
use crate::blocks::{BlockType, Format, GROUPS, Q8_0, SUPER, with_format};

/// Weight rows that are unpacked together.
const ROWS: usize = 4;

/// The kernels of this file for one quantised type.
pub(super) fn choose(block: BlockType, one: bool) -> Choice {
    // Float types never come here; the kernel for Q8_0 would read nothing and write nothing.
    let (first, second): (Kernel, Kernel) = with_format!(
        block,
        F => (one_row::<F>, many_rows::<F>),
        float => (one_row::<Q8_0>, many_rows::<Q8_0>)
    );
    Choice { kernel: if one { first } else { second }, form: Form::of(block), tile: ROWS }
}

/// Up to 256 unpacked weights of one row.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Unpacked {
    pub(super) q: [i8; SUPER],
    pub(super) scale: [f32; GROUPS],
    pub(super) min: [f32; GROUPS],
}

impl Unpacked {
    /// Zeros.
    pub(super) const ZERO: Unpacked = Unpacked { q: [0; SUPER], scale: [0.0; GROUPS], min: [0.0; GROUPS] };

    /// Unpacks the blocks of one panel; what is missing of 256 values gets zero scales.
    #[inline(always)]
    pub(super) fn fill<F: Format>(&mut self, blocks: &[u8]) {
        let mut n = 0;
        for block in blocks.chunks_exact(F::BYTES).take(SUPER / F::LEN) {
            let (q, g) = (n * F::LEN, n * F::LEN / F::GROUP);
            F::expand(block, &mut self.q[q..], &mut self.scale[g..], &mut self.min[g..]);
            n += 1;
        }
        let groups = n * F::LEN / F::GROUP;
        self.scale[groups..].fill(0.0);
        self.min[groups..].fill(0.0);
    }
}

/// The product of 256 weights and 256 activations.
#[inline(always)]
fn dot<F: Format>(w: &Unpacked, x: &[i8; SUPER], meta: &Meta) -> f32 {
    let mut sum = [0f32; GROUPS];
    for g in 0..SUPER / F::GROUP {
        let at = g * F::GROUP;
        let mut whole = 0i32;
        for (w, x) in w.q[at..at + F::GROUP].iter().zip(&x[at..at + F::GROUP]) {
            whole = whole.wrapping_add(i32::from(*w) * i32::from(*x));
        }
        let part = at / 32;
        sum[g] = w.scale[g] * whole as f32 * meta.d[part];
        if F::MIN {
            let total = if F::GROUP == 32 { meta.sum32[part] } else { meta.sum16[g] };
            sum[g] -= w.min[g] * f32::from(total) * meta.d[part];
        }
    }
    let mut n = GROUPS / 2;
    while n > 0 {
        for i in 0..n {
            sum[i] += sum[i + n];
        }
        n /= 2;
    }
    sum[0]
}

/// The bytes of a whole panel of 256 columns.
const fn panel_bytes<F: Format>() -> usize {
    SUPER / F::LEN * F::BYTES
}

fn one_row<F: Format>(job: &Job<'_>) {
    let Input::Rounded(x) = job.x else { return };
    let token = job.tokens.row(0);
    let mut w = Unpacked::ZERO;
    for row in 0..job.w.rows() {
        let mut sum = 0f32;
        for (p, blocks) in job.w.row(row).chunks(panel_bytes::<F>()).enumerate() {
            w.fill::<F>(blocks);
            sum += dot::<F>(&w, x.values(p, token), x.meta(p, token));
        }
        for i in 0..job.tokens.len() {
            // SAFETY: the caller of a kernel gives this task these columns.
            unsafe { job.output.store(i, job.first_row + row, &[sum]) };
        }
    }
}

fn many_rows<F: Format>(job: &Job<'_>) {
    let Input::Rounded(x) = job.x else { return };
    let mut sums = vec![[0f32; ROWS]; job.tokens.len()];
    let mut w = [Unpacked::ZERO; ROWS];
    for first in (0..job.w.rows()).step_by(ROWS) {
        let rows = ROWS.min(job.w.rows() - first);
        sums.fill([0.0; ROWS]);
        for p in 0..x.panels() {
            for (r, w) in w[..rows].iter_mut().enumerate() {
                let row = job.w.row(first + r);
                let end = ((p + 1) * panel_bytes::<F>()).min(row.len());
                w.fill::<F>(&row[p * panel_bytes::<F>()..end]);
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let token = job.tokens.row(i);
                let (values, meta) = (x.values(p, token), x.meta(p, token));
                for (w, sum) in w[..rows].iter().zip(sums) {
                    *sum += dot::<F>(w, values, meta);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            // SAFETY: the caller of a kernel gives this task these columns.
            unsafe { job.output.store(i, job.first_row + first, &sums[..rows]) };
        }
    }
}
