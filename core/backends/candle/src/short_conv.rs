//! The short convolution, sequence by sequence.

use crate::backend::CandleBackend;
use crate::states::CandleStates;
use crate::tensors::TensorResult;
use candle_core::Tensor;
use menagerie_model::{ModelError, Param, Result, Rows, StateId, StateStep};

/// `y[t] = sum_j taps[j] * x[t - L + 1 + j]` and the inputs to keep for the next call, for `x` `[T, D]`, `taps`
/// `[L, D]` and the last `L - 1` inputs `carried` `[L - 1, D]`, oldest first (LFM2; Mamba's first step).
fn short_conv(x: &Tensor, taps: &Tensor, carried: &Tensor) -> TensorResult<(Tensor, Tensor)> {
    let (rows, length) = (x.dim(0)?, taps.dim(0)?);
    let inputs = Tensor::cat(&[carried, x], 0)?;
    let mut sum = inputs.narrow(0, 0, rows)?.broadcast_mul(&taps.narrow(0, 0, 1)?)?;
    for tap in 1..length {
        sum = (sum + inputs.narrow(0, tap, rows)?.broadcast_mul(&taps.narrow(0, tap, 1)?)?)?;
    }
    Ok((sum, inputs.narrow(0, rows, length - 1)?))
}

impl CandleBackend {
    /// See [`menagerie_model::Backend::short_conv`].
    pub(crate) fn convolve(&self, x: &Rows, taps: &Param, state: StateId, step: StateStep) -> Result<Rows> {
        let (width, found) = (x.cols(), taps.shape().cols);
        let length = found.checked_div(width).unwrap_or(0);
        let taps = self.vector_of(taps, width * length, "taps of a short convolution")?;
        if length < 2 {
            return Err(ModelError::Shape {
                what: "taps of a short convolution".to_owned(),
                expected: format!("at least two for each of {width} channels"),
                found: format!("[{found}]"),
            });
        }
        let taps = taps.reshape((length, width)).map_err(|error| self.failed(error))?;
        let Some(all) = self.tensor(x)? else { return Ok(Self::empty(x.rows(), width)) };
        let (tables, memory) = step.states.parts_mut::<CandleStates>()?;
        let mut parts = Vec::with_capacity(step.layout.sequences().len());
        for part in step.layout.sequences() {
            let block = tables.block(state, part.sequence)?;
            let (carried, own) = (memory.block(state, block)?, self.rows_of(&all, part)?);
            let made = carried.reshape((length - 1, width)).and_then(|carried| {
                let (out, carried) = short_conv(&own, &taps, &carried)?;
                Ok((out, carried.reshape((1, (length - 1) * width))?))
            });
            let (out, carried) = made.map_err(|error| self.failed(error))?;
            memory.set_block(state, block, &carried)?;
            parts.push(out);
        }
        self.rows(Tensor::cat(&parts, 0))
    }
}
