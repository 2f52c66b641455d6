//! [`Rows`]: activations of one backend.

use crate::{ModelError, Result};
use std::any::Any;
use std::fmt;
use std::ops::Range;

/// Activations `[T, D]` of f32 in the memory of a [`crate::Backend`].
///
/// A value is unique: operations that change rows consume them, operations that only read borrow them, and a caller
/// that needs a second copy requests it from the backend. Only the backend that made them can read the values.
pub struct Rows {
    data: Box<dyn Any + Send + Sync>,
    rows: usize,
    cols: usize,
}

impl Rows {
    /// Rows over the data of a backend: `rows * cols` elements, row after row.
    pub fn new(data: Box<dyn Any + Send + Sync>, rows: usize, cols: usize) -> Self {
        Self { data, rows, cols }
    }

    /// T.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// D.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The same elements as `[rows, cols]`: heads as rows of their own, and back. Nothing is copied.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the number of elements differs.
    pub fn reshape(self, rows: usize, cols: usize) -> Result<Self> {
        if rows.checked_mul(cols) != self.rows.checked_mul(self.cols) {
            return Err(ModelError::Shape {
                what: "rows to reshape".to_owned(),
                expected: format!("{} elements", self.rows * self.cols),
                found: format!("[{rows}, {cols}]"),
            });
        }
        Ok(Self { data: self.data, rows, cols })
    }

    /// What the backend keeps.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] if another backend made the rows.
    pub fn data<T: 'static>(&self) -> Result<&T> {
        self.data.downcast_ref().ok_or_else(foreign)
    }

    /// The data of the backend, mutable.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] if another backend made the rows.
    pub fn data_mut<T: 'static>(&mut self) -> Result<&mut T> {
        self.data.downcast_mut().ok_or_else(foreign)
    }

    /// Refuses rows of another width; `what` is for the message.
    ///
    /// # Errors
    /// [`ModelError::Shape`].
    pub fn expect_cols(&self, cols: usize, what: &str) -> Result<()> {
        if self.cols == cols {
            return Ok(());
        }
        Err(ModelError::Shape {
            what: what.to_owned(),
            expected: format!("[T, {cols}]"),
            found: format!("[{}, {}]", self.rows, self.cols),
        })
    }

    /// Refuses columns that do not exist.
    ///
    /// # Errors
    /// [`ModelError::Shape`].
    pub fn expect_columns(&self, columns: &Range<usize>) -> Result<()> {
        if columns.start <= columns.end && columns.end <= self.cols {
            return Ok(());
        }
        Err(ModelError::Shape {
            what: "columns to take".to_owned(),
            expected: format!("a range within 0..{}", self.cols),
            found: format!("{}..{}", columns.start, columns.end),
        })
    }

    /// Refuses rows of another shape; `what` is for the message.
    ///
    /// # Errors
    /// [`ModelError::Shape`].
    pub fn expect_shape(&self, rows: usize, cols: usize, what: &str) -> Result<()> {
        if (self.rows, self.cols) == (rows, cols) {
            return Ok(());
        }
        Err(ModelError::Shape {
            what: what.to_owned(),
            expected: format!("[{rows}, {cols}]"),
            found: format!("[{}, {}]", self.rows, self.cols),
        })
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows [{}, {}]", self.rows, self.cols)
    }
}

fn foreign() -> ModelError {
    ModelError::Unsupported(
        "rows belong to another backend: read them and upload them to this one first".to_owned(),
    )
}
