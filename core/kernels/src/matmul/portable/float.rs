//! Products in f32 with weights converted panel by panel, in plain Rust: see `order`.

use crate::blocks::{BlockType, FloatType, SUPER, dequantize_row};
use crate::matmul::order::{BFloat16Input, F32Input, FloatInput, SUMS, total};
use crate::matmul::types::{BFloat16, Float, Function, Kernel, KernelChoice, MatmulJob, ProductKind};
use crate::memory::Scratch;
use crate::simd::fused;

/// Weight rows that are multiplied together.
const ROWS: usize = 4;

/// The kernel for any type.
pub(super) fn choose(block: BlockType, kind: ProductKind) -> KernelChoice<Float> {
    let function: Function<Float> = match kind {
        ProductKind::Gemv => gemv::<F32Input>,
        ProductKind::FewRows | ProductKind::Gemm => gemm::<F32Input>,
    };
    // SAFETY: plain Rust; it requires the type of the weights.
    KernelChoice { kernel: unsafe { Kernel::new(block, function) }, tile: ROWS }
}

/// The kernel for BF16 weights and activations rounded to bfloat16.
pub(super) fn bfloat16(kind: ProductKind) -> KernelChoice<BFloat16> {
    let function: Function<BFloat16> = match kind {
        ProductKind::Gemv => gemv::<BFloat16Input>,
        ProductKind::FewRows | ProductKind::Gemm => gemm::<BFloat16Input>,
    };
    // SAFETY: plain Rust; it requires the type of the weights.
    KernelChoice { kernel: unsafe { Kernel::new(FloatType::BF16, function) }, tile: ROWS }
}

/// The product of up to a panel of weights and activations.
#[inline(always)]
fn multiply<I: FloatInput>(w: &[f32], x: &[I::Value]) -> f32 {
    let mut sums = [0f32; SUMS];
    let step = SUMS * I::WIDTH;
    let whole = x.len() / step * step;
    for at in (0..whole).step_by(step) {
        let (w, x) = (&w[at..at + step], &x[at..at + step]);
        for k in (0..I::WIDTH).rev() {
            for (j, sum) in sums.iter_mut().enumerate() {
                let at = I::WIDTH * j + k;
                *sum = fused(w[at], I::float(x[at]), *sum);
            }
        }
    }
    let rest = w[whole..].chunks(I::WIDTH).zip(x[whole..].chunks(I::WIDTH));
    for (sum, (w, x)) in sums.iter_mut().zip(rest) {
        for (w, x) in w.iter().zip(x).rev() {
            *sum = fused(*w, I::float(*x), *sum);
        }
    }
    total(sums)
}

/// Adds the products of a converted panel of blocks to a sum.
#[inline(always)]
fn add<I: FloatInput>(sum: f32, w: &[f32], x: &[I::Value]) -> f32 {
    w.chunks(I::PANEL).zip(x.chunks(I::PANEL)).fold(sum, |sum, (w, x)| sum + multiply::<I>(w, x))
}

/// Converts a panel of blocks.
fn convert<I: FloatInput>(block: BlockType, blocks: &[u8], out: &mut [f32]) {
    dequantize_row(block, blocks, out);
    out.iter_mut().for_each(|w| *w = I::weight(*w));
}

fn gemv<I: FloatInput>(job: &mut MatmulJob<'_, I::Form>, _: &mut Scratch) {
    let cols = job.w.cols();
    let x = &I::row(job.x, job.tokens.row(0))[..cols];
    let panel_bytes = job.w.block().row_bytes(SUPER).unwrap_or(1);
    let mut w = [0f32; SUPER];
    for row in 0..job.w.rows() {
        let mut sum = 0f32;
        for (x, blocks) in x.chunks(SUPER).zip(job.w.row(row).chunks(panel_bytes)) {
            convert::<I>(job.w.block(), blocks, &mut w[..x.len()]);
            sum = add::<I>(sum, &w[..x.len()], x);
        }
        for token in 0..job.tokens.len() {
            job.out.store(token, row, &[sum]);
        }
    }
}

fn gemm<I: FloatInput>(job: &mut MatmulJob<'_, I::Form>, scratch: &mut Scratch) {
    let x = job.x;
    let panel_bytes = job.w.block().row_bytes(SUPER).unwrap_or(1);
    let sums = scratch.floats(ROWS * job.tokens.len()).as_chunks_mut::<ROWS>().0;
    let mut w = [[0f32; SUPER]; ROWS];
    for first in (0..job.w.rows()).step_by(ROWS) {
        let rows = ROWS.min(job.w.rows() - first);
        sums.fill([0.0; ROWS]);
        for (p, start) in (0..job.w.cols()).step_by(SUPER).enumerate() {
            let len = SUPER.min(job.w.cols() - start);
            for (r, w) in w[..rows].iter_mut().enumerate() {
                let row = job.w.row(first + r);
                let blocks = &row[p * panel_bytes..((p + 1) * panel_bytes).min(row.len())];
                convert::<I>(job.w.block(), blocks, &mut w[..len]);
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let x = &I::row(x, job.tokens.row(i))[start..start + len];
                for (w, sum) in w[..rows].iter().zip(sums) {
                    *sum = add::<I>(*sum, &w[..len], x);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            job.out.store(i, first, &sums[..rows]);
        }
    }
}
