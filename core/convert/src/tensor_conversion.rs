//! [`TensorConversion`]: how the numbers of a tensor change between folder and file.

/// The unit that a change counts as a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RowUnit {
    /// A row of a matrix; those of a stack are counted one after the other.
    #[default]
    Row,
    /// A single number.
    Number,
}

/// A change of a tensor.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct TensorConversion {
    pub(crate) unit: RowUnit,
    /// The row of the folder for each row of the file; absent if rows keep their order.
    pub(crate) rows: Option<Vec<usize>>,
    /// The column of the folder for each column of the file.
    pub(crate) columns: Option<Vec<usize>>,
    /// Every matrix of this many rows is transposed, after reordering.
    pub(crate) transposed: Option<usize>,
    /// A number that is added to each value.
    pub(crate) plus: f32,
}

impl TensorConversion {
    /// A change that only selects rows.
    pub(crate) fn rows(rows: Vec<usize>) -> Self {
        Self { rows: Some(rows), ..Self::default() }
    }

    /// Changes a whole tensor, whose rows have `cols` numbers in the folder.
    pub(crate) fn of_all(&self, values: Vec<f32>, cols: usize) -> Vec<f32> {
        let taken = match &self.rows {
            None => values,
            Some(rows) => {
                let row = |from: &usize| values.get(from * cols..(from + 1) * cols).unwrap_or_default();
                rows.iter().flat_map(row).copied().collect()
            }
        };
        self.finish(taken, cols)
    }

    /// The row of the folder for a row of the file.
    pub(crate) fn row(&self, row: usize) -> Option<usize> {
        self.rows.as_ref().map_or(Some(row), |rows| rows.get(row).copied())
    }

    /// Changes selected rows of `cols` numbers. Matrices that are transposed must be complete.
    pub(crate) fn finish(&self, mut values: Vec<f32>, cols: usize) -> Vec<f32> {
        if let Some(columns) = &self.columns {
            let taken = values.chunks_exact(cols.max(1)).flat_map(|row| {
                columns.iter().map(move |column| row.get(*column).copied().unwrap_or_default())
            });
            values = taken.collect();
        }
        if let Some(rows) = self.transposed {
            let matrices = values.chunks_exact((rows * cols).max(1));
            let transposed = matrices.flat_map(|matrix| {
                (0..cols).flat_map(move |col| {
                    (0..rows).map(move |row| matrix.get(row * cols + col).copied().unwrap_or_default())
                })
            });
            values = transposed.collect();
        }
        if self.plus != 0.0 {
            values.iter_mut().for_each(|value| *value += self.plus);
        }
        values
    }
}

/// The rows of heads of `dim` rows. The first `rotated` of them are stored as two halves in the folder, and interleaved in
/// the file.
pub(crate) fn paired(heads: usize, dim: usize, rotated: usize) -> Vec<usize> {
    (0..heads * dim).map(|row| paired_row(row, dim, rotated)).collect()
}

/// The row of the folder for a row of the file, as in [`paired`].
fn paired_row(row: usize, dim: usize, rotated: usize) -> usize {
    let (head, at) = (row / dim * dim, row % dim);
    if at < rotated { head + at % 2 * (rotated / 2) + at / 2 } else { row }
}

/// Heads of `width` rows, which are grouped by key head in the folder, and interleaved over the key heads in the file.
pub(crate) fn dealt(heads: usize, key_heads: usize, width: usize) -> Vec<usize> {
    let each = heads / key_heads.max(1);
    let source = |head: usize| head % key_heads * each + head / key_heads;
    (0..heads).flat_map(|head| (0..width).map(move |at| source(head) * width + at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_order_of_llama_cpps_converter() {
        // `w.reshape(heads, 2, dim / 2).swapaxes(1, 2).reshape(heads * dim)` of 0..12, two heads of six.
        assert_eq!(paired(2, 6, 6), [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]);
        assert_eq!(paired(1, 6, 4), [0, 2, 1, 3, 4, 5]);
        // `w.reshape(2, 3, 2).swapaxes(0, 1)`: two key heads, six heads of two rows.
        assert_eq!(dealt(6, 2, 2), [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
    }

    #[test]
    fn changes_keep_rows_whole() {
        let values = vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let plus = TensorConversion { plus: 1.0, ..TensorConversion::default() };
        assert_eq!(plus.finish(values.clone(), 2), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let columns = TensorConversion { columns: Some(vec![1, 0]), ..TensorConversion::default() };
        assert_eq!(columns.finish(values.clone(), 2), [1.0, 0.0, 3.0, 2.0, 5.0, 4.0]);
        let transposed = TensorConversion { transposed: Some(3), ..TensorConversion::default() };
        assert_eq!(transposed.finish(values.clone(), 2), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
        assert_eq!(TensorConversion::default().finish(values.clone(), 2), values);
        assert_eq!(TensorConversion::rows(vec![2, 0]).row(1), Some(0));
    }
}
