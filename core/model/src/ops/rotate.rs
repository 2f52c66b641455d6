//! Rotary positions.

use super::{dims2, update};
use crate::compute::Compute;
use crate::{ModelError, Result};
use candle_core::Tensor;
use menagerie_kernels::{RopePairs, RopeTable, rope_with};
use std::ops::Range;

/// Rotates the heads of rows `[T, heads * head_dim]`; takes `x` over.
///
/// `tables` cover the rows one after the other: sequences of different rope regimes rotate by different tables.
///
/// # Errors
/// [`ModelError::Shape`] if the tables do not cover the rows.
pub fn rotate(
    x: Tensor,
    tables: &[(Range<usize>, RopeTable)],
    pairs: RopePairs,
    head_dim: usize,
    compute: &Compute,
) -> Result<Tensor> {
    let (rows, width) = dims2(&x, "rows to rotate")?;
    let covered = tables.last().map_or(0, |(rows, _)| rows.end);
    if covered != rows {
        return Err(ModelError::Shape {
            what: "rows to rotate".to_owned(),
            expected: format!("{covered} rows, as the step has positions"),
            found: format!("{rows} rows"),
        });
    }
    update(x, |x| {
        for (rows, table) in tables {
            let part = &mut x[rows.start * width..rows.end * width];
            rope_with(&compute.cpu, table, pairs, head_dim, part)?;
        }
        Ok(())
    })
}
