//! [`Linear`]: every matrix product of a model; [`DenseLinear`] is the plain one.

use crate::backend::{Product, exactly};
use crate::context::TransformContext;
use crate::linear_input::{LinearInput, RowOrigins};
use crate::param::{Param, WeightShape};
use crate::rows::Rows;
use crate::terms::{Terms, sums};
use crate::{ModelError, Result};

/// A matrix product with an optional bias; what LoRA, X-LoRA and quantization wrap.
pub trait Linear: Send + Sync {
    /// Columns of the weight.
    fn in_features(&self) -> usize;

    /// Rows of the weight.
    fn out_features(&self) -> usize;

    /// `[T, in]` to `[T, out]`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn forward(&self, x: &LinearInput, context: &TransformContext) -> Result<Rows>;

    /// The sum that [`Linear::forward`] computes for these rows in this step, so that a caller can compute several
    /// linears over the same rows together. `None` (the default): only `forward` computes it.
    fn terms<'a>(&'a self, _rows: RowOrigins, _context: &'a TransformContext) -> Option<Terms<'a>> {
        None
    }
}

/// The factors of products, before the bias.
#[derive(Clone, Debug)]
enum Scale {
    /// All of them.
    All(f32),
    /// One factor for each row, `[out]`.
    Rows(Param),
}

/// `y = s W x + b` over a stored weight.
#[derive(Clone, Debug)]
pub struct DenseLinear {
    weight: Param,
    bias: Option<Param>,
    scale: Option<Scale>,
}

impl DenseLinear {
    /// A linear over `weight` `[out, in]` and `bias` `[out]`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for a stack of matrices, or a bias of another length.
    pub fn new(weight: Param, bias: Option<Param>) -> Result<Self> {
        let WeightShape { count, rows, .. } = weight.shape();
        if count != 1 {
            return Err(ModelError::Shape {
                what: format!("tensor \"{}\"", weight.name()),
                expected: "one matrix".to_owned(),
                found: format!("{count} matrices"),
            });
        }
        if let Some(bias) = &bias {
            bias.expect_len(rows, "bias")?;
        }
        Ok(Self { weight, bias, scale: None })
    }

    /// Multiplies the product, before the bias (BitNet, NVFP4).
    pub fn with_scale(mut self, scale: f32) -> Self {
        self.scale = Some(Scale::All(scale));
        self
    }

    /// Multiplies the product of each row with its own factor `[out]`, before the bias.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if their number differs from the number of rows.
    pub fn with_row_scales(mut self, scales: Param) -> Result<Self> {
        scales.expect_len(self.weight.shape().rows, "scales of rows")?;
        self.scale = Some(Scale::Rows(scales));
        Ok(self)
    }
}

impl Linear for DenseLinear {
    fn in_features(&self) -> usize {
        self.weight.shape().cols
    }

    fn out_features(&self) -> usize {
        self.weight.shape().rows
    }

    fn forward(&self, x: &LinearInput, context: &TransformContext) -> Result<Rows> {
        let compute = context.compute;
        let bias = self.bias.as_ref();
        let within = bias.filter(|_| self.scale.is_none());
        let product = Product { weight: &self.weight, bias: within };
        context.reads(&[product]);
        let [rows] = exactly(compute.backend.products(&[product], x, compute.arithmetic)?)?;
        let rows = match &self.scale {
            None => return Ok(rows),
            Some(Scale::All(scale)) => compute.backend.scale(rows, *scale)?,
            Some(Scale::Rows(scales)) => compute.backend.multiply_vector(rows, scales)?,
        };
        match bias {
            Some(bias) => compute.backend.add_vector(rows, bias),
            None => Ok(rows),
        }
    }

    fn terms<'a>(&'a self, _rows: RowOrigins, _context: &'a TransformContext) -> Option<Terms<'a>> {
        let product = Product { weight: &self.weight, bias: self.bias.as_ref() };
        self.scale.is_none().then(|| Terms::product(product))
    }
}

/// Several linears over the same rows: together if all of them have [`Terms`], otherwise one by one.
///
/// # Errors
/// What a linear returns.
pub(crate) fn linear_many<const N: usize>(
    linears: [&dyn Linear; N],
    x: &LinearInput,
    context: &TransformContext,
) -> Result<[Rows; N]> {
    let terms: Vec<Terms> = linears.iter().filter_map(|linear| linear.terms(x.origins(), context)).collect();
    if terms.len() == N {
        return exactly(sums(&terms, x, context)?);
    }
    exactly(linears.iter().map(|linear| linear.forward(x, context)).collect::<Result<Vec<_>>>()?)
}
