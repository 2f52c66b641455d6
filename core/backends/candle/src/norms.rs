//! Norms over the last dimension.

use crate::tensors::TensorResult;
use candle_core::{D, Tensor};
use candle_nn::ops;

/// `x / sqrt(mean(x^2) + eps) * weight` per row (Zhang and Sennrich, 2019).
pub(crate) fn rms_norm(x: &Tensor, weight: Option<&Tensor>, eps: f32) -> TensorResult {
    match weight {
        Some(weight) => ops::rms_norm(x, weight, eps),
        None => {
            let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
            x.broadcast_div(&mean.affine(1.0, f64::from(eps))?.sqrt()?)
        }
    }
}

/// `(x - mean) / sqrt(variance + eps) * weight + bias` per row (Ba et al., 2016).
///
/// In two passes: candle's fused form computes the variance as `E[x^2] - mean^2`, which loses all digits if the mean is
/// large.
pub(crate) fn layer_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f32,
) -> TensorResult {
    let centered = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    let variance = centered.sqr()?.mean_keepdim(D::Minus1)?;
    let mut normed = centered.broadcast_div(&variance.affine(1.0, f64::from(eps))?.sqrt()?)?;
    if let Some(weight) = weight {
        normed = normed.broadcast_mul(weight)?;
    }
    match bias {
        Some(bias) => normed.broadcast_add(bias),
        None => Ok(normed),
    }
}
