//! Products in f32 with weights converted panel by panel, in plain Rust.

use super::job::{Form, Input, Job};
use super::plan::Choice;
use crate::blocks::{SUPER, dequantise_row};

/// Weight rows that are multiplied together.
const ROWS: usize = 4;
/// Partial sums per product, added up at the end in a fixed order.
const LANES: usize = 16;

/// The kernels of this file.
pub(super) fn choose(one: bool) -> Choice {
    Choice { kernel: if one { one_row } else { many_rows }, form: Form::Float, tile: ROWS }
}

/// Adds the products of two panels to the partial sums.
#[inline(always)]
fn multiply(w: &[f32], x: &[f32], sums: &mut [f32; LANES]) {
    let (w, x) = (w.as_chunks::<LANES>(), x.as_chunks::<LANES>());
    for (w, x) in w.0.iter().zip(x.0) {
        for i in 0..LANES {
            sums[i] += w[i] * x[i];
        }
    }
    for (i, (w, x)) in w.1.iter().zip(x.1).enumerate() {
        sums[i] += w * x;
    }
}

/// The partial sums in pairs, then pairs of pairs.
#[inline(always)]
fn total(mut sums: [f32; LANES]) -> f32 {
    let mut n = LANES / 2;
    while n > 0 {
        for i in 0..n {
            sums[i] += sums[i + n];
        }
        n /= 2;
    }
    sums[0]
}

fn one_row(job: &Job<'_>) {
    let Input::Float(x) = job.x else { return };
    let x = x.row(job.tokens.row(0));
    let panel_bytes = job.w.block().row_bytes(SUPER).unwrap_or(1);
    let mut w = [0f32; SUPER];
    for row in 0..job.w.rows() {
        let mut sums = [0f32; LANES];
        for (x, blocks) in x.chunks(SUPER).zip(job.w.row(row).chunks(panel_bytes)) {
            dequantise_row(job.w.block(), blocks, &mut w[..x.len()]);
            multiply(&w[..x.len()], x, &mut sums);
        }
        for token in 0..job.tokens.len() {
            // SAFETY: the caller of a kernel gives this task these columns.
            unsafe { job.output.store(token, job.first_row + row, &[total(sums)]) };
        }
    }
}

fn many_rows(job: &Job<'_>) {
    let Input::Float(x) = job.x else { return };
    let panel_bytes = job.w.block().row_bytes(SUPER).unwrap_or(1);
    let mut sums = vec![[[0f32; LANES]; ROWS]; job.tokens.len()];
    let mut w = [[0f32; SUPER]; ROWS];
    for first in (0..job.w.rows()).step_by(ROWS) {
        let rows = ROWS.min(job.w.rows() - first);
        sums.fill([[0.0; LANES]; ROWS]);
        for (p, start) in (0..job.w.cols()).step_by(SUPER).enumerate() {
            let len = SUPER.min(job.w.cols() - start);
            for (r, w) in w[..rows].iter_mut().enumerate() {
                let row = job.w.row(first + r);
                let blocks = &row[p * panel_bytes..((p + 1) * panel_bytes).min(row.len())];
                dequantise_row(job.w.block(), blocks, &mut w[..len]);
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let x = &x.row(job.tokens.row(i))[start..start + len];
                for (w, sums) in w[..rows].iter().zip(sums) {
                    multiply(&w[..len], x, sums);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            let values = sums.map(total);
            // SAFETY: the caller of a kernel gives this task these columns.
            unsafe { job.output.store(i, job.first_row + first, &values[..rows]) };
        }
    }
}
