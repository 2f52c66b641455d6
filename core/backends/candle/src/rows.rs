//! [`Rows`] over tensors of the backend.

use crate::backend::CandleBackend;
use crate::tensors::{TensorResult, settled};
use candle_core::Tensor;
use menagerie_model::{ModelError, Param, Result, Rows};

impl CandleBackend {
    /// What candle reports.
    pub(crate) fn failed(&self, error: candle_core::Error) -> ModelError {
        ModelError::backend(&self.name, error)
    }

    /// Rows over a tensor `[T, D]`.
    pub(crate) fn rows(&self, made: TensorResult) -> Result<Rows> {
        let tensor = made.and_then(settled).map_err(|error| self.failed(error))?;
        let (rows, cols) = tensor.dims2().map_err(|error| self.failed(error))?;
        Ok(Rows::new(Box::new(Some(tensor)), rows, cols))
    }

    /// Rows without values: no device makes a buffer of no bytes.
    pub(crate) fn empty(rows: usize, cols: usize) -> Rows {
        Rows::new(Box::new(None::<Tensor>), rows, cols)
    }

    /// The tensor `[T, D]` behind rows, `None` if they are empty.
    pub(crate) fn tensor(&self, rows: &Rows) -> Result<Option<Tensor>> {
        let Some(tensor) = rows.data::<Option<Tensor>>()? else { return Ok(None) };
        let seen = tensor.reshape((rows.rows(), rows.cols()));
        seen.map(Some).map_err(|error| self.failed(error))
    }

    /// `op` of the tensor behind `x`, which makes rows of `cols`.
    pub(crate) fn map(
        &self,
        x: &Rows,
        cols: usize,
        op: impl FnOnce(&Tensor) -> TensorResult,
    ) -> Result<Rows> {
        match self.tensor(x)? {
            None => Ok(Self::empty(x.rows(), cols)),
            Some(tensor) => self.rows(op(&tensor)),
        }
    }

    /// `op` of two tensors of one shape.
    pub(crate) fn zip(
        &self,
        x: &Rows,
        y: &Rows,
        op: impl FnOnce(&Tensor, &Tensor) -> TensorResult,
    ) -> Result<Rows> {
        y.expect_shape(x.rows(), x.cols(), "second operand")?;
        match (self.tensor(x)?, self.tensor(y)?) {
            (Some(x), Some(y)) => self.rows(op(&x, &y)),
            _ => Ok(Self::empty(x.rows(), x.cols())),
        }
    }

    /// A vector parameter, `[n]`; `what` is for the message.
    pub(crate) fn vector_of<'a>(&self, param: &'a Param, len: usize, what: &str) -> Result<&'a Tensor> {
        param.expect_len(len, what)?;
        param.data::<Tensor>()
    }
}
