//! [`Param`]: a weight on a backend.

use crate::{ModelError, Result};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Number, rows and columns of the matrices in a weight; a vector is one matrix of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightShape {
    /// Matrices, slowest.
    pub count: usize,
    /// Rows of each: outputs.
    pub rows: usize,
    /// Columns of each: inputs, fastest.
    pub cols: usize,
}

/// A matrix, a stack of matrices or a vector that lives on a backend; immutable, cheap to clone.
///
/// The CPU keeps a view over the mapped file, a GPU the uploaded data. Only the backend that made it can read it.
#[derive(Clone)]
pub struct Param {
    name: Arc<str>,
    shape: WeightShape,
    bytes: u64,
    data: Arc<dyn Any + Send + Sync>,
}

impl Param {
    /// A parameter over the data of a backend; `name` is the tensor's, for messages.
    pub fn new(name: &str, shape: WeightShape, data: Arc<dyn Any + Send + Sync>) -> Self {
        Self { name: name.into(), shape, bytes: 0, data }
    }

    /// The same with the number of bytes that it is stored in.
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Bytes that it is stored in, all matrices; 0 if unknown.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The tensor's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Matrices, rows and columns.
    pub fn shape(&self) -> WeightShape {
        self.shape
    }

    /// What the backend keeps.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] names the tensor if another backend loaded it.
    pub fn data<T: 'static>(&self) -> Result<&T> {
        self.data.downcast_ref().ok_or_else(|| {
            ModelError::Unsupported(format!("tensor \"{}\" belongs to another backend", self.name))
        })
    }

    /// Refuses a vector of another length; `what` is for the message.
    ///
    /// # Errors
    /// [`ModelError::Shape`].
    pub fn expect_len(&self, len: usize, what: &str) -> Result<()> {
        let WeightShape { count, rows, cols } = self.shape;
        if count == 1 && rows == 1 && cols == len {
            return Ok(());
        }
        Err(ModelError::Shape {
            what: format!("{what} (tensor \"{}\")", self.name),
            expected: format!("[{len}]"),
            found: format!("[{count}, {rows}, {cols}]"),
        })
    }
}

impl fmt::Debug for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WeightShape { count, rows, cols } = self.shape;
        write!(f, "{} [{count}, {rows}, {cols}]", self.name)
    }
}
