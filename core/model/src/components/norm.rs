//! RMS and layer norm.

use crate::Result;
use crate::context::TransformContext;
use crate::param::Param;
use crate::rows::Rows;
use crate::traits::Norm;

/// `x / sqrt(mean(x^2) + eps) * weight` (Zhang and Sennrich, 2019).
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// `[D]`, or none.
    pub weight: Option<Param>,
    /// Added under the root.
    pub eps: f32,
}

impl Norm for RmsNorm {
    fn forward(&self, x: &Rows, context: &TransformContext) -> Result<Rows> {
        context.compute.backend.rms_norm(x, self.weight.as_ref(), self.eps)
    }
}

/// `(x - mean) / sqrt(variance + eps) * weight + bias` (Ba et al., 2016).
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// `[D]`, or none.
    pub weight: Option<Param>,
    /// `[D]`, or none.
    pub bias: Option<Param>,
    /// Added under the root.
    pub eps: f32,
}

impl Norm for LayerNorm {
    fn forward(&self, x: &Rows, context: &TransformContext) -> Result<Rows> {
        context.compute.backend.layer_norm(x, self.weight.as_ref(), self.bias.as_ref(), self.eps)
    }
}
