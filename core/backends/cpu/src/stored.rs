//! Attention over keys and values that are stored already; rows split and concatenated by columns.

use crate::attention::stored_sequences;
use crate::backend::CpuBackend;
use crate::buffers::{HostRows, values};
use crate::matrix;
use crate::names::failed;
use crate::state::CpuStates;
use menagerie_kernels::{self as kernels, AttentionBiases};
use menagerie_model::{
    AttentionShape, AttentionStates, ModelError, Param, Rows, SequenceId, StateId, StatePool, StateStep,
};
use std::ops::Range;

/// Query heads that read one stored head together if it serves many: more gain nothing, fewer leave threads without
/// work.
const HEADS_TOGETHER: usize = 4;

impl CpuBackend {
    /// See [`menagerie_model::Backend::stored`].
    pub(crate) fn read_stored(
        &self,
        state: StateId,
        sequence: SequenceId,
        positions: Range<usize>,
        pool: &StatePool,
    ) -> Result<Rows, ModelError> {
        let (tables, memory) = pool.parts::<CpuStates>()?;
        let rows = memory.rows(state, tables.pages(state, sequence)?)?;
        let (count, width) = (positions.len(), rows.heads * rows.head_dim);
        let mut out = HostRows::unwritten(&self.buffers, count * width);
        kernels::load_rows(&rows, positions, out.values_mut()).map_err(failed)?;
        Ok(out.into_rows(count, width))
    }

    /// See [`menagerie_model::Backend::attend_stored`].
    pub(crate) fn attend_to_stored(
        &self,
        attention: &AttentionShape,
        states: AttentionStates,
        query: &Rows,
        sinks: Option<&Param>,
        step: StateStep,
    ) -> Result<Rows, ModelError> {
        let mut shape = *attention;
        query.expect_cols(shape.heads * shape.key_dim, "queries")?;
        let one_head = shape.kv_heads == 1;
        if one_head {
            let together = (1..=HEADS_TOGETHER).rev().find(|count| shape.heads.is_multiple_of(*count));
            shape.kv_heads = shape.heads / together.unwrap_or(1);
        }
        let StateStep { layout, states: pool } = step;
        let sequences = stored_sequences(pool, layout, states)?;
        let (rows, width) = (query.rows(), shape.heads * shape.value_dim);
        let mut out = HostRows::unwritten(&self.buffers, rows * width);
        let sinks = sinks.map(matrix::values).transpose()?;
        let biases = AttentionBiases { sinks, distances: None };
        let attend = if one_head { kernels::attention_to_one_head } else { kernels::attention };
        attend(&self.cpu, &shape, &sequences, values(query)?, biases, out.values_mut()).map_err(failed)?;
        Ok(out.into_rows(rows, width))
    }

    /// See [`menagerie_model::Backend::split`].
    pub(crate) fn cut(&self, x: &Rows, widths: [usize; 2]) -> Result<[Rows; 2], ModelError> {
        let width = widths[0] + widths[1];
        x.expect_cols(width, "rows to cut")?;
        let source = values(x)?;
        let part = |start: usize, own: usize| {
            let mut out = HostRows::unwritten(&self.buffers, x.rows() * own);
            self.for_row_chunks(out.values_mut(), own, |first, chunk| {
                for (row, out) in chunk.chunks_exact_mut(own.max(1)).enumerate() {
                    let at = (first + row) * width + start;
                    out.copy_from_slice(&source[at..at + own]);
                }
            })?;
            Ok(out.into_rows(x.rows(), own))
        };
        Ok([part(0, widths[0])?, part(widths[0], widths[1])?])
    }

    /// See [`menagerie_model::Backend::join`].
    pub(crate) fn put_together(&self, [left, right]: [&Rows; 2]) -> Result<Rows, ModelError> {
        let (rows, own, other) = (left.rows(), left.cols(), right.cols());
        right.expect_shape(rows, other, "rows to join with others")?;
        let (first_values, second_values) = (values(left)?, values(right)?);
        let mut out = HostRows::unwritten(&self.buffers, rows * (own + other));
        self.for_row_chunks(out.values_mut(), own + other, |first, chunk| {
            for (row, out) in chunk.chunks_exact_mut((own + other).max(1)).enumerate() {
                let row = first + row;
                out[..own].copy_from_slice(&first_values[row * own..(row + 1) * own]);
                out[own..].copy_from_slice(&second_values[row * other..(row + 1) * other]);
            }
        })?;
        Ok(out.into_rows(rows, own + other))
    }
}
