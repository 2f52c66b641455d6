//! Products of experts: tokens grouped by expert, each expert's weights read once per step.

use super::router::Routing;
use super::{dims2, tensor, values};
use crate::activation::Activated;
use crate::compute::Compute;
use crate::weight::Weight;
use crate::{ModelError, Result};
use candle_core::Tensor;
use menagerie_kernels::{
    ActivationCache, Activations, ExpertRows, KernelError, OneRow, matmul_each, matmul_experts,
};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// A stack of expert matrices `[E, out, in]` and their biases `[E, out]`.
#[derive(Clone, Debug)]
pub struct ExpertWeights {
    /// The matrices.
    pub weight: Weight,
    /// `[E, out]`, or none.
    pub bias: Option<Vec<f32>>,
}

/// The rows of a step packed by expert: expert after expert, tokens in order.
#[derive(Clone, Debug)]
pub struct ExpertPlan {
    /// Experts that got rows, and their packed rows.
    groups: Vec<(usize, Range<usize>)>,
    /// Token of each packed row.
    tokens: Vec<u32>,
    /// Router weight of each packed row.
    weights: Vec<f32>,
    /// `[T, top_k]`: packed row of a token's choice, best first.
    slots: Vec<usize>,
    /// `0..packed rows`.
    identity: Vec<u32>,
    top_k: usize,
}

impl ExpertPlan {
    /// Groups the rows of a routing over `experts` experts.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for an expert past the last one.
    pub fn new(routing: &Routing, experts: usize) -> Result<Self> {
        let mut counts = vec![0usize; experts];
        for &expert in &routing.experts {
            let count = counts.get_mut(expert as usize).ok_or_else(|| ModelError::Shape {
                what: "chosen expert".to_owned(),
                expected: format!("less than {experts}"),
                found: expert.to_string(),
            })?;
            *count += 1;
        }
        let mut groups = Vec::new();
        let mut next = vec![0usize; experts];
        let mut start = 0;
        for (expert, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            groups.push((expert, start..start + count));
            next[expert] = start;
            start += count;
        }
        let packed = routing.experts.len();
        let (mut tokens, mut weights) = (vec![0; packed], vec![0.0; packed]);
        let mut slots = Vec::with_capacity(packed);
        for (choice, &expert) in routing.experts.iter().enumerate() {
            let slot = next[expert as usize];
            next[expert as usize] += 1;
            tokens[slot] = (choice / routing.top_k) as u32;
            weights[slot] = routing.weights[choice];
            slots.push(slot);
        }
        let identity = (0..packed as u32).collect();
        Ok(Self { groups, tokens, weights, slots, identity, top_k: routing.top_k })
    }

    /// Packed rows: T times the experts per token.
    pub fn packed_rows(&self) -> usize {
        self.tokens.len()
    }

    /// The rows of `x` `[T, D]` packed by expert, each times its router weight.
    ///
    /// # Errors
    /// Fewer rows than were routed.
    pub fn weighted_inputs(&self, x: &Tensor) -> Result<Tensor> {
        let (_, width) = dims2(x, "input of experts")?;
        let source = values(x)?;
        let mut out = Vec::with_capacity(self.tokens.len() * width);
        for (&token, &weight) in self.tokens.iter().zip(&self.weights) {
            let row = token as usize * width;
            let row =
                source.get(row..row + width).ok_or_else(|| too_few_rows(source.len() / width.max(1)))?;
            out.extend(row.iter().map(|x| x * weight));
        }
        tensor(out, self.tokens.len(), width)
    }
}

fn too_few_rows(found: usize) -> ModelError {
    ModelError::Shape {
        what: "input of experts".to_owned(),
        expected: "as many rows as were routed".to_owned(),
        found: format!("{found} rows"),
    }
}

/// Products of several stacks with the rows of their experts, packed, `[packed rows, out]` each, in one parallel region.
///
/// `packed` says whether `x` is packed already (rows in plan order) or one row per token. All stacks have equal `out`.
///
/// # Errors
/// A shape that does not fit.
pub fn experts_product<const N: usize>(
    stacks: [&ExpertWeights; N],
    x: &Activated,
    plan: &ExpertPlan,
    packed: bool,
    compute: &Compute,
) -> Result<[Tensor; N]> {
    let out = stacks.first().map_or(0, |stack| stack.weight.rows());
    let rows_of_x = if packed { &plan.identity } else { &plan.tokens };
    let mut parts = Vec::with_capacity(N * plan.groups.len());
    for stack in stacks {
        if stack.weight.rows() != out || stack.weight.cols() != x.cols() {
            return Err(ModelError::Shape {
                what: format!("tensor \"{}\"", stack.weight.name()),
                expected: format!("matrices [{}, {out}]", x.cols()),
                found: format!("[{}, {}]", stack.weight.cols(), stack.weight.rows()),
            });
        }
        for (expert, range) in &plan.groups {
            parts.push(ExpertRows { matrix: stack.weight.matrix(*expert)?, rows: &rows_of_x[range.clone()] });
        }
    }
    let rows = plan.packed_rows();
    let mut y = vec![0.0; N * rows * out];
    x.with(|x| {
        let one_token = packed && rows == plan.top_k;
        let done = if one_token {
            each_row(compute, &parts, x, &mut y)
        } else {
            matmul_experts(&compute.cpu, compute.arithmetic, &parts, x, &mut y)
        };
        Ok(done?)
    })?;
    for (stack, y) in stacks.iter().zip(y.chunks_exact_mut((rows * out).max(1))) {
        add_expert_bias(y, stack, plan, out);
    }
    let whole = tensor(y, N * rows, out)?;
    let views = (0..N).map(|index| Ok(whole.narrow(0, index * rows, rows)?)).collect::<Result<Vec<_>>>()?;
    <[Tensor; N]>::try_from(views).map_err(|_| too_few_rows(0))
}

/// One token: its experts' rows are one each, and the kernels for one row read weights fastest.
fn each_row(
    compute: &Compute,
    parts: &[ExpertRows],
    x: &Activations,
    y: &mut [f32],
) -> std::result::Result<(), KernelError> {
    let caches: Vec<ActivationCache> = (0..x.rows).map(|_| ActivationCache::default()).collect();
    let rows: Vec<&[f32]> = x.values.chunks_exact(x.cols.max(1)).collect();
    let mut products = Vec::with_capacity(parts.len());
    for part in parts {
        for &row in part.rows {
            let row = row as usize;
            let x = Activations { values: rows[row], rows: 1, cols: x.cols, cache: &caches[row] };
            products.push(OneRow { matrix: part.matrix, x });
        }
    }
    matmul_each(&compute.cpu, compute.arithmetic, &products, y)
}

fn add_expert_bias(y: &mut [f32], stack: &ExpertWeights, plan: &ExpertPlan, out: usize) {
    let Some(bias) = &stack.bias else { return };
    for (expert, range) in &plan.groups {
        let bias = &bias[expert * out..(expert + 1) * out];
        for row in y[range.start * out..range.end * out].chunks_exact_mut(out.max(1)) {
            row.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
        }
    }
}

/// Adds the packed outputs `[packed rows, D]` of every token up, best choice first, `[T, D]`; `weighted` says whether
/// the router weight still multiplies them.
///
/// # Errors
/// Not one row per choice.
pub fn combine_experts(
    packed: &Tensor,
    plan: &ExpertPlan,
    weighted: bool,
    compute: &Compute,
) -> Result<Tensor> {
    let (rows, width) = dims2(packed, "outputs of experts")?;
    if rows != plan.packed_rows() {
        return Err(too_few_rows(rows));
    }
    let tokens = plan.slots.len() / plan.top_k.max(1);
    let mut out = vec![0.0; tokens * width];
    let packed = values(packed)?;
    for_row_chunks(compute, &mut out, width, |first, chunk| {
        let slots = plan.slots[first * plan.top_k..].chunks_exact(plan.top_k);
        for (row, slots) in chunk.chunks_exact_mut(width).zip(slots) {
            for &slot in slots {
                let factor = if weighted { plan.weights[slot] } else { 1.0 };
                let source = &packed[slot * width..(slot + 1) * width];
                row.iter_mut().zip(source).for_each(|(y, x)| *y += factor * x);
            }
        }
    })?;
    tensor(out, tokens, width)
}

/// Rows of a task.
const ROWS_PER_TASK: usize = 16;

/// Runs `job(first row, rows)` over chunks of rows, in parallel where there are several.
fn for_row_chunks(
    compute: &Compute,
    out: &mut [f32],
    width: usize,
    job: impl Fn(usize, &mut [f32]) + Sync,
) -> Result<()> {
    if width == 0 || out.len() <= ROWS_PER_TASK * width {
        job(0, out);
        return Ok(());
    }
    // Each lock is taken once, by the task that owns the chunk.
    let chunks: Vec<Mutex<&mut [f32]>> = out.chunks_mut(ROWS_PER_TASK * width).map(Mutex::new).collect();
    compute.cpu.pool().run(chunks.len(), &|index| {
        let mut chunk = chunks[index].lock().unwrap_or_else(PoisonError::into_inner);
        job(index * ROWS_PER_TASK, &mut chunk);
    })?;
    Ok(())
}
