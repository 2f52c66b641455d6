//! Picking, adding and reading whole rows.

use super::{dims2, tensor, update, values};
use crate::weight::Weight;
use crate::{ModelError, Result};
use candle_core::Tensor;
use menagerie_kernels::dequantise;

/// Rows of `x` `[T, D]` by index, `[rows, D]`; all rows in order cost nothing.
///
/// # Errors
/// An index past T.
pub fn select_rows(x: &Tensor, rows: &[usize]) -> Result<Tensor> {
    let (count, width) = dims2(x, "rows to select from")?;
    if rows.len() == count && rows.iter().enumerate().all(|(index, row)| index == *row) {
        return Ok(x.clone());
    }
    let source = values(x)?;
    let mut out = Vec::with_capacity(rows.len() * width);
    for &row in rows {
        let found = source.get(row * width..(row + 1) * width).ok_or_else(|| ModelError::Shape {
            what: "rows to select from".to_owned(),
            expected: format!("more than {row} rows"),
            found: format!("{count} rows"),
        })?;
        out.extend_from_slice(found);
    }
    tensor(out, rows.len(), width)
}

/// The same values in a tensor of their own.
///
/// # Errors
/// A device without kernels.
pub fn copy(x: &Tensor) -> Result<Tensor> {
    let (rows, width) = dims2(x, "rows to copy")?;
    tensor(values(x)?.to_vec(), rows, width)
}

/// Rows of a stored table by index, dequantised, `[rows, cols]`.
///
/// # Errors
/// [`ModelError::TokenOutOfRange`] for an index past the table.
pub fn gather_weight_rows(table: &Weight, rows: &[u32]) -> Result<Tensor> {
    let width = table.cols();
    let matrix = table.matrix(0)?;
    let mut out = vec![0.0; rows.len() * width];
    for (&row, out) in rows.iter().zip(out.chunks_exact_mut(width.max(1))) {
        if row as usize >= table.rows() {
            return Err(ModelError::TokenOutOfRange { id: row, vocabulary: table.rows() });
        }
        dequantise(table.block(), matrix.row(row as usize), out)?;
    }
    tensor(out, rows.len(), width)
}

/// Adds one row to every row; takes `x` over.
///
/// # Errors
/// A row of another width.
pub fn add_row(x: Tensor, row: &[f32]) -> Result<Tensor> {
    let (_, width) = dims2(&x, "rows to add to")?;
    if row.len() != width {
        return Err(ModelError::Shape {
            what: "row to add".to_owned(),
            expected: format!("[{width}]"),
            found: format!("[{}]", row.len()),
        });
    }
    update(x, |x| {
        x.chunks_exact_mut(width.max(1)).for_each(|x| x.iter_mut().zip(row).for_each(|(x, y)| *x += y));
        Ok(())
    })
}

/// Adds to every row the row of `table` that its position names; takes `x` over.
///
/// # Errors
/// A position past the table.
pub fn add_rows_at(x: Tensor, table: &Weight, positions: &[u32]) -> Result<Tensor> {
    if let Some(far) = positions.iter().find(|position| **position as usize >= table.rows()) {
        return Err(ModelError::Unsupported(format!(
            "position {far} is past the {} learned positions of the model",
            table.rows()
        )));
    }
    let rows = gather_weight_rows(table, positions)?;
    super::update_with(x, &rows, |x, y| {
        x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
        Ok(())
    })
}

/// The rows of several tensors `[T_i, D]` under each other.
///
/// # Errors
/// Unequal widths.
pub fn append_rows(parts: &[Tensor]) -> Result<Tensor> {
    let mut out = Vec::new();
    let mut width = 0;
    for part in parts {
        width = dims2(part, "rows to append")?.1;
        out.extend_from_slice(&values(part)?);
    }
    let rows = out.len().checked_div(width).unwrap_or(0);
    tensor(out, rows, width)
}
