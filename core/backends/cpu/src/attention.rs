//! Operations over state: attention over cached keys and values, and the short convolution.

use crate::backend::CpuBackend;
use crate::buffers::{HostRows, values};
use crate::matrix;
use crate::names::failed;
use crate::state::CpuStates;
use menagerie_kernels::{self as kernels, AttentionSequence};
use menagerie_model::{
    AttentionBiases, AttentionShape, AttentionStates, ModelError, Param, Rows, SequenceLayout, SequenceRows,
    StateId, StatePool, StateStep,
};

impl CpuBackend {
    /// See [`menagerie_model::Backend::attention`].
    pub(crate) fn attend(
        &self,
        shape: &AttentionShape,
        states: AttentionStates,
        [query, key, value]: [&Rows; 3],
        biases: AttentionBiases,
        step: StateStep,
    ) -> Result<Rows, ModelError> {
        let rows = query.rows();
        query.expect_cols(shape.heads * shape.key_dim, "queries")?;
        key.expect_shape(rows, shape.kv_heads * shape.key_dim, "keys")?;
        value.expect_shape(rows, shape.kv_heads * shape.value_dim, "values")?;
        let StateStep { layout, states: pool } = step;
        store(pool, layout, states.keys, key)?;
        store(pool, layout, states.values, value)?;
        let sequences = stored_sequences(pool, layout, states)?;
        let width = shape.heads * shape.value_dim;
        let mut out = HostRows::unwritten(&self.buffers, rows * width);
        let biases = kernels::AttentionBiases {
            sinks: biases.sinks.map(matrix::values).transpose()?,
            distances: biases.distances.map(matrix::values).transpose()?,
        };
        kernels::attention(&self.cpu, shape, &sequences, values(query)?, biases, out.values_mut())
            .map_err(failed)?;
        Ok(out.into_rows(rows, width))
    }

    /// See [`menagerie_model::Backend::short_conv`].
    pub(crate) fn convolve(
        &self,
        x: &Rows,
        taps: &Param,
        state: StateId,
        step: StateStep,
    ) -> Result<Rows, ModelError> {
        let (width, kernel) = (x.cols(), matrix::values(taps)?);
        let length = kernel.len().checked_div(width).unwrap_or(0);
        taps.expect_len(width * length, "taps of a short convolution")?;
        let mut out = HostRows::unwritten(&self.buffers, x.rows() * width);
        let x_values = values(x)?;
        let StateStep { layout, states: pool } = step;
        let (tables, memory) = pool.parts_mut::<CpuStates>()?;
        for part in layout.sequences() {
            let carried = memory.block_mut(state, tables.block(state, part.sequence)?)?;
            let range = part.rows.start * width..part.rows.end * width;
            let y = &mut out.values_mut()[range.clone()];
            kernels::short_conv(&self.cpu, kernel, length, &x_values[range], carried, y).map_err(failed)?;
        }
        Ok(out.into_rows(x.rows(), width))
    }
}

/// The sequences of a step, with the pages of all their keys and values.
pub(crate) fn stored_sequences<'a>(
    pool: &'a StatePool,
    layout: &SequenceLayout,
    states: AttentionStates,
) -> Result<Vec<AttentionSequence<'a>>, ModelError> {
    let (tables, memory) = pool.parts::<CpuStates>()?;
    let sequence = |part: &SequenceRows| {
        Ok(AttentionSequence {
            first_row: part.rows.start,
            row_count: part.rows.len(),
            first_position: part.first_position,
            keys: memory.rows(states.keys, tables.pages(states.keys, part.sequence)?)?,
            values: memory.rows(states.values, tables.pages(states.values, part.sequence)?)?,
        })
    };
    layout.sequences().iter().map(sequence).collect()
}

/// Writes the step's rows of a per-token state to their pages.
pub(crate) fn store(
    pool: &mut StatePool,
    layout: &SequenceLayout,
    state: StateId,
    rows: &Rows,
) -> Result<(), ModelError> {
    let (width, rows) = (rows.cols(), values(rows)?);
    let (tables, memory) = pool.parts_mut::<CpuStates>()?;
    for part in layout.sequences() {
        let pages = tables.pages(state, part.sequence)?;
        let own = &rows[part.rows.start * width..part.rows.end * width];
        memory.write(state, pages, part.first_position, own)?;
    }
    Ok(())
}
