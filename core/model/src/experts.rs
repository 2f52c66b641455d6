//! [`ExpertLinear`]: a stack of matrices of which every token uses a few.

use crate::backend::{Product, exactly};
use crate::context::TransformContext;
use crate::expert_plan::{ExpertPlan, Packing};
use crate::linear_input::LinearInput;
use crate::param::{Param, WeightShape};
use crate::rows::Rows;
use crate::{ModelError, Result};

/// A stack of matrix products with optional biases; what adapters and quantization wrap.
pub trait ExpertLinear: Send + Sync {
    /// Matrices, rows (outputs) and columns (inputs).
    fn shape(&self) -> WeightShape;

    /// Products of the rows of `x` with the experts that the plan assigns, `[packed rows, out]`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn forward(
        &self,
        x: &LinearInput,
        plan: &ExpertPlan,
        packing: Packing,
        context: &TransformContext,
    ) -> Result<Rows>;

    /// The stored weight, if [`ExpertLinear::forward`] is its product followed by [`ExpertLinear::adapt`]: lets a
    /// caller run several stacks over the same rows at once.
    fn plain(&self) -> Option<Product<'_>>;

    /// The operation after the product of [`ExpertLinear::plain`], packed in the same way: the part that adapters add.
    /// Nothing by default.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn adapt(
        &self,
        product: Rows,
        _x: &LinearInput,
        _packed: (&ExpertPlan, Packing),
        _context: &TransformContext,
    ) -> Result<Rows> {
        Ok(product)
    }
}

/// `y = s_e W_e x + b_e` over a stored stack.
#[derive(Clone, Debug)]
pub struct DenseExperts {
    weight: Param,
    bias: Option<Param>,
    scales: Option<Vec<f32>>,
}

impl DenseExperts {
    /// Experts over `weight` `[E, out, in]` and `bias` `[E, out]`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for a bias of another size.
    pub fn new(weight: Param, bias: Option<Param>) -> Result<Self> {
        let WeightShape { count, rows, .. } = weight.shape();
        if let Some(bias) = &bias {
            bias.expect_len(count * rows, "bias of experts")?;
        }
        Ok(Self { weight, bias, scales: None })
    }

    /// Multiplies the products of each matrix, `[E]` (NVFP4).
    ///
    /// # Errors
    /// [`ModelError::Shape`] for another number of them; [`ModelError::Unsupported`] together with biases.
    pub fn with_scales(mut self, scales: Vec<f32>) -> Result<Self> {
        let count = self.weight.shape().count;
        if scales.len() != count {
            return Err(ModelError::Shape {
                what: format!("scales of tensor \"{}\"", self.weight.name()),
                expected: format!("[{count}]"),
                found: format!("[{}]", scales.len()),
            });
        }
        if self.bias.is_some() {
            let name = self.weight.name();
            return Err(ModelError::Unsupported(format!(
                "tensor \"{name}\": experts with both scales and biases; use a file of another type"
            )));
        }
        self.scales = Some(scales);
        Ok(self)
    }
}

impl ExpertLinear for DenseExperts {
    fn shape(&self) -> WeightShape {
        self.weight.shape()
    }

    fn forward(
        &self,
        x: &LinearInput,
        plan: &ExpertPlan,
        packing: Packing,
        context: &TransformContext,
    ) -> Result<Rows> {
        let product = Product { weight: &self.weight, bias: self.bias.as_ref() };
        let compute = context.compute;
        context.reads_some(product.weight, plan.groups().len(), self.shape().count);
        let made = compute.backend.expert_products(&[product], x, plan, packing, compute.arithmetic)?;
        let [rows] = exactly(made)?;
        let Some(scales) = &self.scales else { return Ok(rows) };
        let groups = plan.groups().iter();
        let factors = groups.flat_map(|(expert, rows)| rows.clone().map(|_| scales[*expert]));
        compute.backend.scale_rows(rows, &factors.collect::<Vec<f32>>())
    }

    fn plain(&self) -> Option<Product<'_>> {
        let product = Product { weight: &self.weight, bias: self.bias.as_ref() };
        self.scales.is_none().then_some(product)
    }
}

/// Several stacks over the same rows: the products of stored weights of equal shape together, others one by one.
///
/// # Errors
/// What a stack returns.
pub(crate) fn experts_many<const N: usize>(
    stacks: [&dyn ExpertLinear; N],
    x: &LinearInput,
    plan: &ExpertPlan,
    packing: Packing,
    context: &TransformContext,
) -> Result<[Rows; N]> {
    let plain: Vec<Product> = stacks.iter().filter_map(|stack| stack.plain()).collect();
    let alike = plain.windows(2).all(|pair| pair[0].weight.shape() == pair[1].weight.shape());
    if plain.len() == N && alike {
        let compute = context.compute;
        for product in &plain {
            context.reads_some(product.weight, plan.groups().len(), product.weight.shape().count);
        }
        let made = compute.backend.expert_products(&plain, x, plan, packing, compute.arithmetic)?;
        let made = stacks.iter().zip(made);
        let adapted = made.map(|(stack, product)| stack.adapt(product, x, (plan, packing), context));
        return exactly(adapted.collect::<Result<Vec<_>>>()?);
    }
    let made = stacks.iter().map(|stack| stack.forward(x, plan, packing, context));
    exactly(made.collect::<Result<Vec<_>>>()?)
}
