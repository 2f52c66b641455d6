//! [`Rows`] and [`RowsMut`]: views of rows of f32.

use crate::descriptor::RowArray;
use crate::error::{Error, Result};
use crate::sequences::Sequences;
use crate::split::{Chunks, Tiles};
use std::marker::PhantomData;
use std::ops::Range;
use std::slice;

/// Readable rows of f32: `rows * cols`, `stride` elements from one row to the next.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    pub(crate) data: *const f32,
    rows: usize,
    cols: usize,
    stride: usize,
    borrowed: PhantomData<&'a [f32]>,
}

// SAFETY: a shared borrow of f32.
unsafe impl Send for Rows<'_> {}
// SAFETY: as above.
unsafe impl Sync for Rows<'_> {}

/// Writable rows of f32: `rows * cols`, `stride` elements from one row to the next.
#[derive(Debug)]
pub struct RowsMut<'a> {
    pub(crate) data: *mut f32,
    rows: usize,
    cols: usize,
    stride: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: an exclusive borrow of f32.
unsafe impl Send for RowsMut<'_> {}
// SAFETY: what is shared is only read.
unsafe impl Sync for RowsMut<'_> {}

fn counted(len: usize, cols: usize) -> Result<usize> {
    if cols == 0 || len % cols != 0 {
        return Err(Error::new(format!("{len} elements are not rows of {cols}")));
    }
    Ok(len / cols)
}

impl<'a> Rows<'a> {
    /// Contiguous rows of `cols` elements.
    ///
    /// # Errors
    /// A length that is not a multiple of `cols`.
    pub fn new(data: &'a [f32], cols: usize) -> Result<Rows<'a>> {
        let rows = counted(data.len(), cols)?;
        Ok(Rows { data: data.as_ptr(), rows, cols, stride: cols, borrowed: PhantomData })
    }

    /// # Safety
    /// The matrix lies in memory, and nobody writes it while the view lives.
    pub(crate) unsafe fn of(matrix: RowArray) -> Rows<'a> {
        let RowArray { data, rows, cols } = matrix;
        Rows { data, rows, cols, stride: cols, borrowed: PhantomData }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// A row.
    ///
    /// # Panics
    /// The row does not exist.
    #[inline]
    #[track_caller]
    pub fn row(&self, index: usize) -> &'a [f32] {
        assert!(index < self.rows, "row {index} of {}", self.rows);
        // SAFETY: the row lies in the view, which borrows its rows for 'a.
        unsafe { slice::from_raw_parts(self.data.add(index * self.stride), self.cols) }
    }

    /// The rows, in order.
    pub fn iter(self) -> impl Iterator<Item = &'a [f32]> {
        (0..self.rows).map(move |index| self.row(index))
    }

    /// All elements, if there are no gaps between the rows.
    pub fn as_slice(&self) -> Option<&'a [f32]> {
        let whole = self.stride == self.cols || self.rows <= 1;
        // SAFETY: without gaps the rows are one range of elements.
        whole.then(|| unsafe { slice::from_raw_parts(self.data, self.rows * self.cols) })
    }

    /// Some of the rows.
    ///
    /// # Panics
    /// The rows do not exist.
    #[track_caller]
    pub fn range(self, rows: Range<usize>) -> Rows<'a> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        // The address past the last row is not made: with gaps it may lie outside.
        let data = if rows.is_empty() { self.data } else { self.data.wrapping_add(rows.start * self.stride) };
        Rows { data, rows: rows.len(), ..self }
    }

    /// Some of the elements of every row.
    ///
    /// # Panics
    /// The elements do not exist.
    #[track_caller]
    pub fn columns(self, columns: Range<usize>) -> Rows<'a> {
        assert!(
            columns.start <= columns.end && columns.end <= self.cols,
            "columns {columns:?} of {}",
            self.cols
        );
        Rows { data: self.data.wrapping_add(columns.start), cols: columns.len(), ..self }
    }
}

impl<'a> RowsMut<'a> {
    /// Contiguous rows of `cols` elements.
    ///
    /// # Errors
    /// A length that is not a multiple of `cols`.
    pub fn new(data: &'a mut [f32], cols: usize) -> Result<RowsMut<'a>> {
        let rows = counted(data.len(), cols)?;
        Ok(RowsMut { data: data.as_mut_ptr(), rows, cols, stride: cols, borrowed: PhantomData })
    }

    /// # Safety
    /// The matrix lies in memory, and nobody else reads or writes it while the view lives.
    pub(crate) unsafe fn of(matrix: RowArray) -> RowsMut<'a> {
        let RowArray { data, rows, cols } = matrix;
        RowsMut { data, rows, cols, stride: cols, borrowed: PhantomData }
    }

    /// A part: rows and columns of it.
    ///
    /// # Safety
    /// Both lie in the view; parts that live at once do not overlap.
    pub(crate) unsafe fn part(&self, rows: Range<usize>, columns: Range<usize>) -> RowsMut<'a> {
        let offset = if rows.is_empty() { 0 } else { rows.start * self.stride + columns.start };
        let data = self.data.wrapping_add(offset);
        RowsMut { data, rows: rows.len(), cols: columns.len(), stride: self.stride, borrowed: PhantomData }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// A row.
    ///
    /// # Panics
    /// The row does not exist.
    #[inline]
    #[track_caller]
    pub fn row(&self, index: usize) -> &[f32] {
        self.as_rows().row(index)
    }

    /// A row, for writing.
    ///
    /// # Panics
    /// The row does not exist.
    #[inline]
    #[track_caller]
    pub fn row_mut(&mut self, index: usize) -> &mut [f32] {
        assert!(index < self.rows, "row {index} of {}", self.rows);
        // SAFETY: the row lies in the view, which is borrowed exclusively for as long as the slice lives.
        unsafe { slice::from_raw_parts_mut(self.data.add(index * self.stride), self.cols) }
    }

    /// The rows, for reading.
    pub fn as_rows(&self) -> Rows<'_> {
        let RowsMut { data, rows, cols, stride, .. } = *self;
        Rows { data, rows, cols, stride, borrowed: PhantomData }
    }

    /// All elements, if there are no gaps between the rows.
    pub fn as_mut_slice(&mut self) -> Option<&mut [f32]> {
        let whole = self.stride == self.cols || self.rows <= 1;
        // SAFETY: without gaps the rows are one range of elements, borrowed exclusively.
        whole.then(|| unsafe { slice::from_raw_parts_mut(self.data, self.rows * self.cols) })
    }

    /// The same rows, borrowed for a while.
    pub fn reborrow(&mut self) -> RowsMut<'_> {
        let RowsMut { data, rows, cols, stride, .. } = *self;
        RowsMut { data, rows, cols, stride, borrowed: PhantomData }
    }

    /// Some of the rows, borrowed for a while.
    ///
    /// # Panics
    /// The rows do not exist.
    #[track_caller]
    pub fn range(&mut self, rows: Range<usize>) -> RowsMut<'_> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let cols = self.cols;
        // SAFETY: inside, and the whole is borrowed while the part lives.
        unsafe { self.part(rows, 0..cols) }
    }

    /// Copies rows of the same size.
    ///
    /// # Errors
    /// Rows of another size.
    pub fn copy_from(&mut self, from: Rows) -> Result<()> {
        if (self.rows, self.cols) != (from.rows, from.cols) {
            let sizes = [self.rows, self.cols, from.rows, from.cols];
            let [rows, cols, from_rows, from_cols] = sizes;
            return Err(Error::new(format!(
                "rows [{from_rows}, {from_cols}] do not fit into [{rows}, {cols}]"
            )));
        }
        for index in 0..from.rows {
            self.row_mut(index).copy_from_slice(from.row(index));
        }
        Ok(())
    }

    /// Parts of `rows` rows each (the last may have fewer), for [`Host::parallel_over`](crate::Host::parallel_over).
    ///
    /// # Panics
    /// If `rows` is 0.
    #[track_caller]
    pub fn chunks(self, rows: usize) -> Chunks<'a> {
        Chunks::new(self, rows)
    }

    /// Parts for every sequence and every `width` columns, for [`Host::parallel_over`](crate::Host::parallel_over): part
    /// `sequence * (cols / width) + column / width`. With `width` the elements of a head these are the heads.
    ///
    /// # Errors
    /// A `width` that does not divide the columns, sequences that are not these rows.
    pub fn tiles(self, sequences: &Sequences<'a>, width: usize) -> Result<Tiles<'a>> {
        Tiles::new(self, sequences, width)
    }
}
