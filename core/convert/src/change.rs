//! What is done to the numbers of a tensor on its way into a GGUF file.

/// What a change calls a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Unit {
    /// Those of all matrices of a stack, one after the other.
    #[default]
    Row,
    /// Each number.
    Number,
}

/// A change of a tensor.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Change {
    pub(crate) unit: Unit,
    /// For each row the row of the folder that is put there; absent = all of them as they lie.
    pub(crate) rows: Option<Vec<usize>>,
    /// For each column the column of the folder that is put there.
    pub(crate) columns: Option<Vec<usize>>,
    /// Every matrix of this many rows is turned, after its rows were taken.
    pub(crate) turned: Option<usize>,
    /// This is added to each number.
    pub(crate) plus: f32,
}

impl Change {
    /// Takes these rows.
    pub(crate) fn rows(rows: Vec<usize>) -> Self {
        Self { rows: Some(rows), ..Self::default() }
    }

    /// All rows, changed; `cols` numbers in each of the folder's.
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

    /// The row of the folder that is put at a row.
    pub(crate) fn row(&self, row: usize) -> Option<usize> {
        self.rows.as_ref().map_or(Some(row), |rows| rows.get(row).copied())
    }

    /// Changes whole rows of `cols` numbers that were taken already; of turned matrices all rows must be there.
    pub(crate) fn finish(&self, mut values: Vec<f32>, cols: usize) -> Vec<f32> {
        if let Some(columns) = &self.columns {
            let taken = values.chunks_exact(cols.max(1)).flat_map(|row| {
                columns.iter().map(move |column| row.get(*column).copied().unwrap_or_default())
            });
            values = taken.collect();
        }
        if let Some(rows) = self.turned {
            let matrices = values.chunks_exact((rows * cols).max(1));
            let turned = matrices.flat_map(|matrix| {
                (0..cols).flat_map(move |col| {
                    (0..rows).map(move |row| matrix.get(row * cols + col).copied().unwrap_or_default())
                })
            });
            values = turned.collect();
        }
        if self.plus != 0.0 {
            values.iter_mut().for_each(|value| *value += self.plus);
        }
        values
    }
}

/// The rows of heads of `dim`, of which the first `rotated` are halves in the folder and neighbors in the file.
pub(crate) fn paired(heads: usize, dim: usize, rotated: usize) -> Vec<usize> {
    (0..heads * dim).map(|row| paired_row(row, dim, rotated)).collect()
}

/// The row of the folder that is put at a row of the file: of a head of `dim` rows the first `rotated` are halves there and
/// neighbors here.
fn paired_row(row: usize, dim: usize, rotated: usize) -> usize {
    let (head, at) = (row / dim * dim, row % dim);
    if at < rotated { head + at % 2 * (rotated / 2) + at / 2 } else { row }
}

/// Heads of `width` rows that lie key head by key head in the folder and go round over the key heads in the file.
pub(crate) fn dealt(heads: usize, key_heads: usize, width: usize) -> Vec<usize> {
    let each = heads / key_heads.max(1);
    let source = |head: usize| head % key_heads * each + head / key_heads;
    (0..heads).flat_map(|head| (0..width).map(move |at| source(head) * width + at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_where_llama_cpps_converter_puts_them() {
        // `w.reshape(heads, 2, dim / 2).swapaxes(1, 2).reshape(heads * dim)` of 0..12, two heads of six.
        assert_eq!(paired(2, 6, 6), [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]);
        assert_eq!(paired(1, 6, 4), [0, 2, 1, 3, 4, 5]);
        // `w.reshape(2, 3, 2).swapaxes(0, 1)`: two key heads, six heads of two rows.
        assert_eq!(dealt(6, 2, 2), [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
    }

    #[test]
    fn changes_keep_rows_whole() {
        let values = vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let plus = Change { plus: 1.0, ..Change::default() };
        assert_eq!(plus.finish(values.clone(), 2), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let columns = Change { columns: Some(vec![1, 0]), ..Change::default() };
        assert_eq!(columns.finish(values.clone(), 2), [1.0, 0.0, 3.0, 2.0, 5.0, 4.0]);
        let turned = Change { turned: Some(3), ..Change::default() };
        assert_eq!(turned.finish(values.clone(), 2), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
        assert_eq!(Change::default().finish(values.clone(), 2), values);
        assert_eq!(Change::rows(vec![2, 0]).row(1), Some(0));
    }
}
