//! [`DenseLinear`]: a plain matrix product with an optional bias.

use crate::activation::Activated;
use crate::compute::Compute;
use crate::context::TransformContext;
use crate::traits::Linear;
use crate::{ModelError, Result, ops};
use candle_core::Tensor;

pub use crate::weight::Weight;

/// `y = W x + b` over a stored weight.
#[derive(Clone, Debug)]
pub struct DenseLinear {
    weight: Weight,
    bias: Option<Vec<f32>>,
}

impl DenseLinear {
    /// A linear over `weight` `[out, in]` and `bias` `[out]`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for a stack of matrices, or a bias of another length.
    pub fn new(weight: Weight, bias: Option<Vec<f32>>) -> Result<Self> {
        if weight.count() != 1 {
            return Err(ModelError::Shape {
                what: format!("tensor \"{}\"", weight.name()),
                expected: "one matrix".to_owned(),
                found: format!("{} matrices", weight.count()),
            });
        }
        if let Some(bias) = bias.as_ref().filter(|bias| bias.len() != weight.rows()) {
            return Err(ModelError::Shape {
                what: format!("bias of tensor \"{}\"", weight.name()),
                expected: format!("[{}]", weight.rows()),
                found: format!("[{}]", bias.len()),
            });
        }
        Ok(Self { weight, bias })
    }

    /// `[T, in]` to `[T, out]`, without a context.
    ///
    /// # Errors
    /// A shape that does not fit.
    pub fn apply(&self, x: &Activated, compute: &Compute) -> Result<Tensor> {
        let [y] = ops::products([(&self.weight, self.bias.as_deref())], x, compute)?;
        Ok(y)
    }
}

impl Linear for DenseLinear {
    fn in_features(&self) -> usize {
        self.weight.cols()
    }

    fn out_features(&self) -> usize {
        self.weight.rows()
    }

    fn forward(&self, x: &Activated, context: &TransformContext) -> Result<Tensor> {
        self.apply(x, context.compute)
    }

    fn weight(&self) -> Option<&Weight> {
        Some(&self.weight)
    }

    fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }
}
