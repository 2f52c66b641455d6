//! Attention without softmax: keys and values are accumulated in a state of fixed size, which decays (Mamba-2, gated
//! delta nets, lightning attention).
//!
//! Every head owns a state `S` `[key_dim, value_dim]`. Its columns are independent of each other, so a stripe of them
//! stays in the first-level cache while all rows of a block are applied to it. A row's arithmetic is the same however a
//! sequence is split into calls.

mod head;

use crate::cpu::Cpu;
use crate::error::{KernelError, check_len};
use crate::pointwise::check_rows;
use crate::pool::SendPointer;
use crate::simd::dispatch;
use head::HeadScan;
use menagerie_formulas::LinearAttentionShape;

/// Natural logarithms of the factors that the state is multiplied by before a row changes it.
#[derive(Debug, Clone, Copy)]
pub enum LogDecay<'a> {
    /// One per head, the same for all rows: `[heads]`.
    Fixed(&'a [f32]),
    /// One per row and head: `[T, heads]`.
    PerHead(&'a [f32]),
    /// One per row, head and key element: `[T, heads, key_dim]`.
    PerChannel(&'a [f32]),
}

/// The rows of one sequence.
#[derive(Debug, Clone, Copy)]
pub struct LinearAttentionRows<'a> {
    /// `[T, key_heads, key_dim]`.
    pub queries: &'a [f32],
    /// `[T, key_heads, key_dim]`.
    pub keys: &'a [f32],
    /// `[T, heads, value_dim]`.
    pub values: &'a [f32],
    /// What the state decays by.
    pub log_decay: LogDecay<'a>,
    /// `[T, heads]`; absent = 1.
    pub strength: Option<&'a [f32]>,
    /// `[heads]`: multiplied by the row's value and added to its result.
    pub skip: Option<&'a [f32]>,
}

/// For every row in turn: changes the state of each head, `[heads, key_dim, value_dim]`, by the row's key and value, then
/// reads it with the row's query: `out[t, h] = S_h^T q + skip_h v`, `[T, heads, value_dim]`.
///
/// # Errors
/// [`KernelError::Shape`]: lengths that do not fit. [`KernelError::JobPanicked`].
pub fn linear_attention(
    cpu: &Cpu,
    shape: &LinearAttentionShape,
    input: &LinearAttentionRows,
    state: &mut [f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    let rows = check(shape, input, state.len(), out.len())?;
    if rows == 0 {
        return Ok(());
    }
    let size = shape.key_dim * shape.value_dim;
    let (states, out) = (SendPointer(state.as_mut_ptr()), SendPointer(out.as_mut_ptr()));
    cpu.pool().run_with_scratch(shape.heads, &|head, scratch| {
        // SAFETY: `check` has seen room for `heads` states of `size`, and every head is one task.
        let state = unsafe { std::slice::from_raw_parts_mut(states.at(head * size), size) };
        dispatch(cpu, HeadScan { shape, input, head, rows, state, out: &out, scratch });
    })
}

/// Rows of the sequence.
fn check(
    shape: &LinearAttentionShape,
    input: &LinearAttentionRows,
    state: usize,
    out: usize,
) -> Result<usize, KernelError> {
    let LinearAttentionShape { heads, key_heads, key_dim, value_dim, sharing: _, update: _ } = *shape;
    if key_heads == 0 || !heads.is_multiple_of(key_heads) {
        let detail = format!("{key_heads} key heads do not divide {heads} heads");
        return Err(KernelError::shape("linear_attention: heads", detail));
    }
    let wide = heads * value_dim;
    check_rows("linear_attention: values", input.values.len(), wide)?;
    let rows = input.values.len() / wide;
    check_len("linear_attention: out", out, rows * wide)?;
    check_len("linear_attention: queries", input.queries.len(), rows * key_heads * key_dim)?;
    check_len("linear_attention: keys", input.keys.len(), rows * key_heads * key_dim)?;
    check_len("linear_attention: state", state, wide * key_dim)?;
    let (decay, wanted) = match input.log_decay {
        LogDecay::Fixed(decay) => (decay, heads),
        LogDecay::PerHead(decay) => (decay, rows * heads),
        LogDecay::PerChannel(decay) => (decay, rows * heads * key_dim),
    };
    check_len("linear_attention: log_decay", decay.len(), wanted)?;
    if let Some(strength) = input.strength {
        check_len("linear_attention: strength", strength.len(), rows * heads)?;
    }
    if let Some(skip) = input.skip {
        check_len("linear_attention: skip", skip.len(), heads)?;
    }
    Ok(rows)
}
