//! Products of mapped weight blocks with rows of activations: `y[t, r] = sum over k of w[r, k] * x[t, k]`.
//!
//! Every instruction set has kernels for one row of activations and for several. All sum in the order that the guide of
//! this crate defines, so that a row's result depends on that row alone.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod order;
mod plan;
mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod prefetch;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tiles;
mod types;
mod unpacked;

use plan::{MatmulPlan, PlannedProduct};
use types::{Output, TokenSelection};

use crate::activations::Activations;
use crate::blocks::Matrix;
use crate::error::check_len;
use crate::{Cpu, KernelError};
use menagerie_formulas::Arithmetic;

/// The rows of `x` that go to one expert of a mixture.
#[derive(Clone, Copy, Debug)]
pub struct ExpertRows<'a> {
    /// The expert's weights.
    pub matrix: Matrix<'a>,
    /// Which rows of `x`.
    pub rows: &'a [u32],
}

/// A matrix and the single row that it is multiplied with.
#[derive(Clone, Copy, Debug)]
pub struct Gemv<'a> {
    /// The weights.
    pub matrix: Matrix<'a>,
    /// The input; has one row.
    pub x: Activations<'a>,
}

/// One product: `y` is `[x.rows, w.rows]`.
///
/// # Errors
/// [`KernelError::Shape`]: the lengths do not fit. [`KernelError::JobPanicked`].
pub fn matmul(
    cpu: &Cpu,
    arithmetic: Arithmetic,
    w: &Matrix,
    x: &Activations,
    y: &mut [f32],
) -> Result<(), KernelError> {
    matmul_many(cpu, arithmetic, &[*w], x, &mut [y])
}

/// Several matrices times the same input in one parallel region (q, k, v; gate, up): `ys[i]` is
/// `[x.rows, ws[i].rows]`.
///
/// # Errors
/// As [`matmul`]; [`KernelError::Shape`] also: the number of outputs differs from the number of matrices.
pub fn matmul_many(
    cpu: &Cpu,
    arithmetic: Arithmetic,
    ws: &[Matrix],
    x: &Activations,
    ys: &mut [&mut [f32]],
) -> Result<(), KernelError> {
    x.check()?;
    check_len("matmul: outputs", ys.len(), ws.len())?;
    let mut plan = MatmulPlan::new(cpu, arithmetic, x);
    for (&w, y) in ws.iter().zip(ys.iter_mut()) {
        check_len("matmul: weight columns", w.cols(), x.cols)?;
        check_len("matmul: y", y.len(), x.rows.saturating_mul(w.rows()))?;
        let output = Output::new(y, w.rows());
        plan.push(PlannedProduct { w, tokens: TokenSelection::All(x.rows), output })?;
    }
    plan.run()
}

/// Several stacks of experts (gate, up) times their rows of `x` in one parallel region; each expert's weights are read
/// once. `ys[i]` receives the outputs of `stacks[i]`, packed: expert 0's rows in the given order, then expert 1's, and
/// so on. All experts of a stack have the same number of outputs.
///
/// # Errors
/// As [`matmul`]; [`KernelError::Shape`] also: the number of outputs differs from the number of stacks, a row is not in
/// `x`, or experts of a stack differ in size.
pub fn matmul_experts(
    cpu: &Cpu,
    arithmetic: Arithmetic,
    stacks: &[&[ExpertRows]],
    x: &Activations,
    ys: &mut [&mut [f32]],
) -> Result<(), KernelError> {
    x.check()?;
    check_len("matmul_experts: outputs", ys.len(), stacks.len())?;
    let mut plan = MatmulPlan::new(cpu, arithmetic, x);
    for (stack, y) in stacks.iter().zip(ys.iter_mut()) {
        let width = stack.first().map_or(0, |expert| expert.matrix.rows());
        let total: usize = stack.iter().map(|expert| expert.rows.len()).sum();
        check_len("matmul_experts: y", y.len(), total.saturating_mul(width))?;
        let mut rest: &mut [f32] = y;
        for expert in *stack {
            check_expert(expert, x, width)?;
            let (part, after) = rest.split_at_mut(expert.rows.len() * width);
            rest = after;
            let output = Output::new(part, width);
            plan.push(PlannedProduct {
                w: expert.matrix,
                tokens: TokenSelection::Some(expert.rows),
                output,
            })?;
        }
    }
    plan.run()
}

fn check_expert(expert: &ExpertRows, x: &Activations, width: usize) -> Result<(), KernelError> {
    check_len("matmul_experts: weight columns", expert.matrix.cols(), x.cols)?;
    check_len("matmul_experts: weight rows", expert.matrix.rows(), width)?;
    let Some(row) = expert.rows.iter().find(|&&row| row as usize >= x.rows) else { return Ok(()) };
    let detail = format!("row {row} of an input of {} rows", x.rows);
    Err(KernelError::shape("matmul_experts: rows", detail))
}

/// Several matrices, each times a single row of its own, in one parallel region with the kernels for one row: the
/// second product of a mixture's experts while a single token is decoded. Outputs are packed in order.
///
/// # Errors
/// As [`matmul`]; [`KernelError::Shape`] also: an input does not have exactly one row.
pub fn matmul_each(
    cpu: &Cpu,
    arithmetic: Arithmetic,
    products: &[Gemv],
    y: &mut [f32],
) -> Result<(), KernelError> {
    let Some(first) = products.first() else { return check_len("matmul_each: y", y.len(), 0) };
    let total: usize = products.iter().map(|product| product.matrix.rows()).sum();
    check_len("matmul_each: y", y.len(), total)?;
    let mut plan = MatmulPlan::new(cpu, arithmetic, &first.x);
    let mut rest = y;
    for Gemv { matrix, x } in products {
        x.check()?;
        check_len("matmul_each: rows of an input", x.rows, 1)?;
        check_len("matmul_each: weight columns", matrix.cols(), x.cols)?;
        let (part, after) = std::mem::take(&mut rest).split_at_mut(matrix.rows());
        rest = after;
        let output = Output::new(part, matrix.rows());
        plan.push_with(PlannedProduct { w: *matrix, tokens: TokenSelection::All(1), output }, x)?;
    }
    plan.run()
}
