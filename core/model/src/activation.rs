//! [`Activated`]: rows that go into matrix products, with their quantised forms made at most once.

use crate::{Result, ops};
use candle_core::Tensor;
use menagerie_kernels::{ActivationCache, Activations};

/// Rows `[T, in]` of f32, contiguous, and the cache of their quantised forms; shared by q/k/v, gate/up and all experts.
pub struct Activated {
    tensor: Tensor,
    rows: usize,
    cols: usize,
    cache: ActivationCache,
}

impl Activated {
    /// Takes rows `[T, in]`.
    ///
    /// # Errors
    /// A tensor that is not two-dimensional.
    pub fn new(tensor: &Tensor) -> Result<Self> {
        let (rows, cols) = ops::dims2(tensor, "rows of a product")?;
        Ok(Self { tensor: tensor.clone(), rows, cols, cache: ActivationCache::default() })
    }

    /// The rows.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// T.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Runs a kernel over the rows.
    ///
    /// # Errors
    /// What the kernel returns; a device without kernels.
    pub fn with<R>(&self, kernel: impl FnOnce(&Activations) -> Result<R>) -> Result<R> {
        let values = ops::values(&self.tensor)?;
        kernel(&Activations { values: &values, rows: self.rows, cols: self.cols, cache: &self.cache })
    }
}
