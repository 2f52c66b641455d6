//! Recurrences: attention without softmax and the selective scan, sequence by sequence.

use crate::backend::CpuBackend;
use crate::buffers::{HostRows, values};
use crate::matrix;
use crate::names::failed;
use crate::state::CpuStates;
use menagerie_kernels::{self as kernels, LinearAttentionRows, SelectiveScan};
use menagerie_model::{
    LinearAttentionInputs, LinearAttentionShape, LogDecay, ModelError, Rows, SelectiveScanInputs, StateId,
    StateStep,
};
use std::ops::Range;

impl CpuBackend {
    /// See [`menagerie_model::Backend::linear_attention`].
    pub(crate) fn attend_linearly(
        &self,
        shape: &LinearAttentionShape,
        inputs: &LinearAttentionInputs,
        state: StateId,
        step: StateStep,
    ) -> Result<Rows, ModelError> {
        let LinearAttentionInputs { queries, keys, values: v, log_decay, strength, skip } = *inputs;
        let (rows, width) = (v.rows(), shape.heads * shape.value_dim);
        v.expect_cols(width, "values of a linear attention")?;
        queries.expect_shape(rows, shape.key_heads * shape.key_dim, "queries of a linear attention")?;
        keys.expect_shape(rows, shape.key_heads * shape.key_dim, "keys of a linear attention")?;
        let skip = skip.map(matrix::values).transpose()?;
        let mut out = HostRows::unwritten(&self.buffers, rows * width);
        let StateStep { layout, states: pool } = step;
        let (tables, memory) = pool.parts_mut::<CpuStates>()?;
        for part in layout.sequences() {
            let own = |of: &Rows| part.rows.start * of.cols()..part.rows.end * of.cols();
            let input = LinearAttentionRows {
                queries: &values(queries)?[own(queries)],
                keys: &values(keys)?[own(keys)],
                values: &values(v)?[own(v)],
                log_decay: decay(shape, log_decay, &part.rows)?,
                strength: strength.map(|all| Ok::<_, ModelError>(&values(all)?[own(all)])).transpose()?,
                skip,
            };
            let held = memory.block_mut(state, tables.block(state, part.sequence)?)?;
            let y = &mut out.values_mut()[own(v)];
            kernels::linear_attention(&self.cpu, shape, &input, held, y).map_err(failed)?;
        }
        Ok(out.into_rows(rows, width))
    }

    /// See [`menagerie_model::Backend::selective_scan`].
    pub(crate) fn scan(
        &self,
        inputs: &SelectiveScanInputs,
        state: StateId,
        step: StateStep,
    ) -> Result<Rows, ModelError> {
        let SelectiveScanInputs { x, dt, b, c, a, skip } = *inputs;
        let (rows, width) = (x.rows(), x.cols());
        dt.expect_shape(rows, width, "time steps of a selective scan")?;
        c.expect_shape(rows, b.cols(), "C of a selective scan")?;
        let mut out = HostRows::unwritten(&self.buffers, rows * width);
        let StateStep { layout, states: pool } = step;
        let (tables, memory) = pool.parts_mut::<CpuStates>()?;
        for part in layout.sequences() {
            let own = |of: &Rows| part.rows.start * of.cols()..part.rows.end * of.cols();
            let input = SelectiveScan {
                x: &values(x)?[own(x)],
                dt: &values(dt)?[own(dt)],
                b: &values(b)?[own(b)],
                c: &values(c)?[own(c)],
                a: matrix::values(a)?,
                skip: matrix::values(skip)?,
            };
            let held = memory.block_mut(state, tables.block(state, part.sequence)?)?;
            kernels::selective_scan(&self.cpu, &input, held, &mut out.values_mut()[own(x)])
                .map_err(failed)?;
        }
        Ok(out.into_rows(rows, width))
    }
}

/// The decays of some rows; the width shows whether there is one per head or one per element of a key.
fn decay<'a>(
    shape: &LinearAttentionShape,
    log: LogDecay<'a>,
    rows: &Range<usize>,
) -> Result<kernels::LogDecay<'a>, ModelError> {
    let all = match log {
        LogDecay::Fixed(all) => return matrix::values(all).map(kernels::LogDecay::Fixed),
        LogDecay::Rows(all) => all,
    };
    let own = &values(all)?[rows.start * all.cols()..rows.end * all.cols()];
    if all.cols() == shape.heads {
        return Ok(kernels::LogDecay::PerHead(own));
    }
    all.expect_cols(shape.heads * shape.key_dim, "decays of a linear attention")?;
    Ok(kernels::LogDecay::PerChannel(own))
}
