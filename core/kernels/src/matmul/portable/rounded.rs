//! Products with rounded activations for every quantised format, in plain Rust over `Format`.
#![allow(clippy::needless_range_loop, reason = "several arrays are indexed by group")]

use crate::activations::Meta;
use crate::blocks::{Format, GROUPS, SUPER};
use crate::matmul::types::{Choice, Class, Function, Job, Kernel, Rounded};
use crate::matmul::unpacked::Unpacked;
use crate::memory::Scratch;

/// Weight rows that are unpacked together.
const ROWS: usize = 4;

/// The kernel for a format.
pub(super) fn choose<F: Format>(class: Class) -> Choice<Rounded> {
    let function: Function<Rounded> = match class {
        Class::OneRow => one_row::<F>,
        Class::ManyRows => many_rows::<F>,
    };
    // SAFETY: plain Rust, for this format.
    Choice { kernel: unsafe { Kernel::new(F::QUANT, function) }, tile: ROWS }
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

fn one_row<F: Format>(job: &mut Job<'_, Rounded>, _: &mut Scratch) {
    let x = job.x;
    let token = job.tokens.row(0);
    let mut w = Unpacked::ZERO;
    for row in 0..job.w.rows() {
        let mut sum = 0f32;
        for (p, blocks) in job.w.row(row).chunks(panel_bytes::<F>()).enumerate() {
            w.fill::<F>(blocks);
            sum += dot::<F>(&w, x.values(p, token), x.meta(p, token));
        }
        for i in 0..job.tokens.len() {
            job.out.store(i, row, &[sum]);
        }
    }
}

fn many_rows<F: Format>(job: &mut Job<'_, Rounded>, scratch: &mut Scratch) {
    let x = job.x;
    let sums = scratch.floats(ROWS * job.tokens.len()).as_chunks_mut::<ROWS>().0;
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
            job.out.store(i, first, &sums[..rows]);
        }
    }
}
