//! Products in f32 with weights converted panel by panel, in plain Rust.

use crate::blocks::{BlockType, SUPER, dequantise_row};
use crate::matmul::types::{Choice, Class, Float, Function, Job, Kernel};
use crate::memory::Scratch;

/// Weight rows that are multiplied together.
const ROWS: usize = 4;
/// Partial sums per product, added up at the end in a fixed order.
const LANES: usize = 16;

/// The kernel for any type.
pub(super) fn choose(block: BlockType, class: Class) -> Choice<Float> {
    let function: Function<Float> = match class {
        Class::OneRow => one_row,
        Class::ManyRows => many_rows,
    };
    // SAFETY: plain Rust; it asks for the type of the weights.
    Choice { kernel: unsafe { Kernel::new(block, function) }, tile: ROWS }
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

fn one_row(job: &mut Job<'_, Float>, _: &mut Scratch) {
    let x = job.x.row(job.tokens.row(0));
    let panel_bytes = job.w.block().row_bytes(SUPER).unwrap_or(1);
    let mut w = [0f32; SUPER];
    for row in 0..job.w.rows() {
        let mut sums = [0f32; LANES];
        for (x, blocks) in x.chunks(SUPER).zip(job.w.row(row).chunks(panel_bytes)) {
            dequantise_row(job.w.block(), blocks, &mut w[..x.len()]);
            multiply(&w[..x.len()], x, &mut sums);
        }
        for token in 0..job.tokens.len() {
            job.out.store(token, row, &[total(sums)]);
        }
    }
}

fn many_rows(job: &mut Job<'_, Float>, scratch: &mut Scratch) {
    let x = job.x;
    let panel_bytes = job.w.block().row_bytes(SUPER).unwrap_or(1);
    let sums = scratch.floats(LANES * ROWS * job.tokens.len()).as_chunks_mut::<LANES>().0;
    let sums = sums.as_chunks_mut::<ROWS>().0;
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
            job.out.store(i, first, &values[..rows]);
        }
    }
}
