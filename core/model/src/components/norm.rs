//! RMS and layer norm.

use crate::compute::Compute;
use crate::traits::Norm;
use crate::{Result, ops};
use candle_core::Tensor;

/// `x / sqrt(mean(x^2) + eps) * weight` (Zhang and Sennrich, 2019).
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// `[D]`, or none.
    pub weight: Option<Vec<f32>>,
    /// Added under the root.
    pub eps: f32,
}

impl Norm for RmsNorm {
    fn forward(&self, x: &Tensor, compute: &Compute) -> Result<Tensor> {
        ops::rms_norm(x, self.weight.as_deref(), self.eps, compute)
    }
}

/// `(x - mean) / sqrt(variance + eps) * weight + bias` (Ba et al., 2016).
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// `[D]`, or none.
    pub weight: Option<Vec<f32>>,
    /// `[D]`, or none.
    pub bias: Option<Vec<f32>>,
    /// Added under the root.
    pub eps: f32,
}

impl Norm for LayerNorm {
    fn forward(&self, x: &Tensor, compute: &Compute) -> Result<Tensor> {
        ops::layer_norm(x, self.weight.as_deref(), self.bias.as_deref(), self.eps, compute)
    }
}
