//! [`LinearInput`]: rows that are the input of products, with the forms that a backend prepares of them, each made at
//! most once.

use crate::rows::Rows;
use crate::{ModelError, Result};
use std::any::Any;
use std::sync::OnceLock;

/// Rows `[T, in]` that several products share: q, k and v, gate and up, all experts.
///
/// It knows which row of the step each of its rows came from, so that a wrapper (an adapter set per sequence) can act
/// on rows that were selected (the head's) or packed (experts').
pub struct LinearInput<'a> {
    rows: &'a Rows,
    origin: Option<&'a [u32]>,
    prepared: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// The rows of the step that the rows of a product came from.
#[derive(Clone, Copy, Debug)]
pub struct RowOrigins<'a> {
    rows: usize,
    origin: Option<&'a [u32]>,
}

impl RowOrigins<'_> {
    /// As many rows, in the order of the step.
    pub fn of_step(rows: usize) -> Self {
        Self { rows, origin: None }
    }

    /// Rows of the product.
    pub(crate) fn rows(self) -> usize {
        self.rows
    }

    /// Row of the step that row `index` came from.
    pub(crate) fn origin(self, index: usize) -> usize {
        self.origin.and_then(|origin| origin.get(index)).map_or(index, |row| *row as usize)
    }
}

impl<'a> LinearInput<'a> {
    /// Rows of the step, in its order.
    pub fn new(rows: &'a Rows) -> Self {
        Self { rows, origin: None, prepared: OnceLock::new() }
    }

    /// Rows of which row `i` came from row `origin[i]` of the step.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the number of origins differs from the number of rows.
    pub(crate) fn selected(rows: &'a Rows, origin: &'a [u32]) -> Result<Self> {
        if origin.len() != rows.rows() {
            return Err(ModelError::Shape {
                what: "origins of selected rows".to_owned(),
                expected: format!("one for each of {} rows", rows.rows()),
                found: origin.len().to_string(),
            });
        }
        Ok(Self { rows, origin: Some(origin), prepared: OnceLock::new() })
    }

    /// The rows.
    pub fn rows(&self) -> &'a Rows {
        self.rows
    }

    /// Row of the step that row `index` came from.
    pub fn origin(&self, index: usize) -> usize {
        self.origins().origin(index)
    }

    /// The rows of the step that its rows came from.
    pub fn origins(&self) -> RowOrigins<'a> {
        RowOrigins { rows: self.rows.rows(), origin: self.origin }
    }

    /// The forms that a backend keeps of the rows (quantized, for example), made at the first use.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] if another backend prepared the rows.
    pub fn prepared<T: Default + Send + Sync + 'static>(&self) -> Result<&T> {
        let made = self.prepared.get_or_init(|| Box::new(T::default()));
        made.downcast_ref().ok_or_else(|| {
            ModelError::Unsupported(
                "rows were prepared by another backend than the one that multiplies".to_owned(),
            )
        })
    }
}
