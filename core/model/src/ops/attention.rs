//! Attention over cached keys and values.

use super::{rows_of, tensor, values};
use crate::Result;
use crate::context::TransformContext;
use crate::state::StateId;
use candle_core::Tensor;
use menagerie_kernels::{self as kernels, AttentionSequence, AttentionShape};

/// Where keys and values of an attention lie.
#[derive(Clone, Copy, Debug)]
pub struct AttentionStates {
    /// Keys, `[kv_heads, key_dim]` per token.
    pub keys: StateId,
    /// Values, `[kv_heads, value_dim]` per token.
    pub values: StateId,
}

/// Stores the step's keys and values, then attends with its queries `[T, heads * key_dim]` to everything stored;
/// gives `[T, heads * value_dim]`.
///
/// # Errors
/// A state or shape that does not fit.
pub fn attention(
    shape: &AttentionShape,
    states: AttentionStates,
    [query, key, value]: [&Tensor; 3],
    sinks: Option<&[f32]>,
    context: &mut TransformContext,
) -> Result<Tensor> {
    let rows = rows_of(query, shape.heads * shape.key_dim, "queries")?;
    let (key_width, value_width) = (shape.kv_heads * shape.key_dim, shape.kv_heads * shape.value_dim);
    rows_of(key, key_width, "keys")?;
    rows_of(value, value_width, "values")?;
    {
        let (keys, values) = (values(key)?, values(value)?);
        for part in context.layout.sequences() {
            let (rows, at) = (part.rows.clone(), part.first_position);
            let (from, to) = (rows.start, rows.end);
            context.states.write_rows(
                states.keys,
                part.sequence,
                at,
                &keys[from * key_width..to * key_width],
            )?;
            let values = &values[from * value_width..to * value_width];
            context.states.write_rows(states.values, part.sequence, at, values)?;
        }
    }
    let store = &*context.states;
    let sequences = context.layout.sequences().iter().map(|part| {
        Ok(AttentionSequence {
            first_row: part.rows.start,
            row_count: part.rows.len(),
            first_position: part.first_position,
            keys: store.rows(states.keys, part.sequence)?,
            values: store.rows(states.values, part.sequence)?,
        })
    });
    let sequences = sequences.collect::<Result<Vec<_>>>()?;
    let width = shape.heads * shape.value_dim;
    let mut out = vec![0.0; rows * width];
    kernels::attention(&context.compute.cpu, shape, &sequences, &values(query)?, sinks, &mut out)?;
    tensor(out, rows, width)
}
